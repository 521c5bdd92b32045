#!/usr/bin/env python3
"""Measures unwedge against cat, cp, find, jq and its peers, as ratios within one run.

    benches/bench.py [--scale 1.0] [--only NAME] [--keep]

Needs Python 3.9, cargo, jq and strace (jq and strace are left out loudly where they are missing). Peers are installed from PyPI
into benches/corpus/peers, and run with a home of their own. The corpus is generated in benches/corpus with a fixed seed: about
1 GB of Claude Code sessions with oversized results, the same without, one 200 MB session of a thousand 100 KB results, 100,000
small files, and JP conversations. Every figure is the best of several runs with a warm cache; only ratios mean anything.
"""
import argparse
import base64
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CORPUS = ROOT / "benches" / "corpus"
UNWEDGE = ROOT / "target" / "release" / "unwedge"
HOME = CORPUS / "home"
KB, MB = 1 << 10, 1 << 20
ENV = {**os.environ, "HOME": str(HOME), "XDG_STATE_HOME": str(CORPUS / "state"), "COZEMPIC_NO_GLOBAL_INIT": "1"}


# ---- the corpus -----------------------------------------------------------------------------------

def source_text():
    """Code-like text: quotes, backslashes and newlines as dense as in real output."""
    text = "".join(p.read_text() for p in sorted((ROOT / "src").rglob("*.rs")))
    return (text + "\x1b[31mFAILED\x1b[0m \u754c \U0001F600 naïve\r\n" * 50) * 8


def session(rng, text, total, oversized=0):
    """Lines of a Claude Code session of about `total` bytes: calls and results, half of the results stored twice."""
    def line(kind, uuid, parent, message, **more):
        return json.dumps({"parentUuid": parent, "isSidechain": False, "userType": "external", "cwd": "/home/demo/p", "sessionId": "s", "version": "2.1.40",
                           "gitBranch": "main", "type": kind, "message": message, "uuid": uuid, "timestamp": "2026-02-02T02:00:00.000Z", **more}, ensure_ascii=False, separators=(",", ":"))

    size, n, parent = 0, 0, None
    big = sorted(rng.randrange(total) for _ in range(oversized))
    while size < total or big:
        n += 1
        call, message = f"toolu_{n:08}", f"msg_{n:08}"
        use = line("assistant", f"a{n:08}", parent, {"id": message, "type": "message", "role": "assistant", "model": "m", "usage": {"input_tokens": 3},
                   "content": [{"type": "tool_use", "id": call, "name": rng.choice(["Bash", "Read", "Grep"]), "input": {"command": "run it"}}]})
        length = int(60 * (500 ** rng.random()))
        if big and size >= big[0]:
            big.pop(0)
            length = int(300 * KB * (16 ** rng.random()))
        at = rng.randrange(len(text) - length)
        out = text[at:at + length]
        more = {"toolUseResult": {"stdout": out, "stderr": "", "interrupted": False}} if n % 2 and length < 256 * KB else {}
        result = line("user", f"u{n:08}", f"a{n:08}", {"role": "user", "content": [{"tool_use_id": call, "type": "tool_result", "content": out, "is_error": False}]}, **more)
        parent = f"u{n:08}"
        size += len(use.encode()) + len(result.encode()) + 2
        yield use
        yield result


def write(path, lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", encoding="utf-8", newline="") as f:
        for line in lines:
            f.write(line)
            f.write("\n")


def tree(dest, scale, hits):
    rng, text = random.Random(24), source_text()
    total, n = int(1000 * MB * scale), 0
    while total > 0:
        size = min(int(200 * KB * (100 ** rng.random())), total + 200 * KB)
        n += 1
        over = rng.choice([1, 1, 2, 3]) if hits and rng.random() < 0.12 else 0
        write(dest / ".claude" / "projects" / f"-p{n % 40}" / f"{n:08}-0000-4000-8000-000000000000.jsonl", session(rng, text, size, over))
        total -= size


def wedged(dest):
    rng, text = random.Random(25), source_text()

    def lines():
        for n in range(1000):
            at = rng.randrange(len(text) - 100 * KB)
            out = text[at:at + 90 * KB]
            head = {"isSidechain": False, "sessionId": "s", "version": "2.1.40", "timestamp": "2026-02-02T02:00:00.000Z"}
            yield json.dumps({**head, "type": "assistant", "uuid": f"a{n}", "parentUuid": f"u{n-1}" if n else None, "message": {"id": f"msg_{n}", "role": "assistant", "content": [{"type": "tool_use", "id": f"toolu_{n}", "name": "Bash", "input": {}}]}}, ensure_ascii=False)
            yield json.dumps({**head, "type": "user", "uuid": f"u{n}", "parentUuid": f"a{n}", "message": {"role": "user", "content": [{"tool_use_id": f"toolu_{n}", "type": "tool_result", "content": out}]}, "toolUseResult": {"stdout": out}}, ensure_ascii=False)
    write(dest / ".claude" / "projects" / "-p" / "00000000-0000-4000-8000-000000000001.jsonl", lines())


def small(dest, count):
    for n in range(count):
        path = dest / ".claude" / "projects" / f"-p{n // 50:05}" / f"{n:08}-0000-4000-8000-000000000000.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('{"type":"user","message":{"role":"user","content":"hello"},"uuid":"u"}\n' * (1 + n % 30))


def jp(dest, conversations, responses, length):
    text = source_text().encode()
    for c in range(conversations):
        at = c * 1000
        events = [{"timestamp": "2026-03-03 03:00:01.5", "type": "turn_start"}, {"timestamp": "2026-03-03 03:00:02.5", "type": "chat_request", "content": "x"}]
        for r in range(responses):
            body = (text[at + r:] * (length // len(text) + 2))[:length].decode("utf-8", "ignore").encode()
            events.append({"timestamp": "2026-03-03 03:00:03.5", "type": "tool_call_request", "id": f"c{r}", "name": "shell", "arguments": {}})
            events.append({"timestamp": "2026-03-03 03:00:04.5", "type": "tool_call_response", "id": f"c{r}", "content": base64.b64encode(body).decode(), "is_error": False})
        folder = dest / ".jp" / "conversations" / f"{17712345000 + c}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "events.json").write_text(json.dumps(events, indent=2) + "\n")
        (folder / "base_config.json").write_text('{"assistant":{"model":"m"}}\n')


def corpus(name, make):
    """A folder of the corpus, made once."""
    done = CORPUS / f"{name}.done"
    if not done.exists():
        print(f"generating {name} …", file=sys.stderr)
        shutil.rmtree(CORPUS / name, ignore_errors=True)
        make(CORPUS / name)
        done.touch()
    return CORPUS / name


# ---- measuring ------------------------------------------------------------------------------------

def once(command, cwd, ok=(0, 1), shell=False, env=ENV):
    start = time.perf_counter()
    run = subprocess.run(command, cwd=cwd, shell=shell, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    took = time.perf_counter() - start
    if run.returncode not in ok:
        sys.exit(f"{command}: exit {run.returncode}\n{run.stderr.decode(errors='replace')[-2000:]}")
    return took


def best(command, cwd, runs=5, before=None, **how):
    times = []
    for _ in range(runs):
        if before:
            before()
        times.append(once(command, cwd, **how))
    return min(times)


ROWS = []


def row(what, ours, theirs, target=None, unit="time"):
    ratio = ours / theirs if theirs else float("inf")
    met = "" if target is None else "yes" if ratio <= target else "NO"
    ROWS.append((what, f"{ratio:.3f}", "" if target is None else f"≤ {target:.2f}", met))
    print(f"{what:70} {ratio:8.3f}  {'' if target is None else f'target ≤ {target:.2f}':16} {met}", flush=True)


CAT = "find . -type f -print0 | xargs -0 cat > /dev/null"


def tree_bytes(path):
    return sum(p.stat().st_size for p in path.rglob("*") if p.is_file())


def bytes_read(args, cwd):
    """What is read of the streams themselves, by counting the reads."""
    log = CORPUS / "strace.log"
    subprocess.run(["strace", "-f", "-y", "-qq", "-e", "trace=read,pread64,openat", "-o", str(log), str(UNWEDGE), *args], cwd=cwd, env=ENV, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    total, opened = 0, 0
    for line in open(log, errors="replace"):
        if ".jsonl>" in line or "events.json>" in line:
            if m := re.search(r"\b(?:read|pread64)\(.* = (\d+)$", line.rstrip()):
                total += int(m[1])
        if "openat" in line and '.jsonl"' in line:
            opened += 1
    return total, opened


def audit(scale):
    clean, hits = corpus("clean", lambda d: tree(d, scale, False)), corpus("hits", lambda d: tree(d, scale, True))
    row("audit of the clean tree / cat", best([UNWEDGE, "check", "-j1", "."], clean), best(CAT, clean, shell=True), 0.10)
    if shutil.which("strace"):
        row("bytes read of the clean tree / its bytes", bytes_read(["check", "-j1", "."], clean)[0], tree_bytes(clean), 0.08)
    else:
        print("!!!! SKIPPED: bytes read: strace is missing !!!!")
    one, two, cat = best([UNWEDGE, "check", "-j1", "."], hits), best([UNWEDGE, "check", "-j2", "."], hits), best(CAT, hits, shell=True)
    row("audit of the tree with oversized lines, two threads / cat", two, cat, 0.70)
    row("the same, one thread / cat", one, cat)
    row("two threads / one thread", two, one, 1 / 1.7)
    if shutil.which("jq"):
        biggest = max(hits.rglob("*.jsonl"), key=lambda p: p.stat().st_size)
        walk = best(["jq", "-c", "[.. | strings | utf8bytelength] | max", biggest], hits, runs=1)
        row("audit of the largest session, read whole / jq", best([UNWEDGE, "check", biggest], hits), walk)


def many():
    d = corpus("small", lambda d: small(d, 100_000))
    row("audit of 100,000 small files / find -size", best([UNWEDGE, "check", "-j1", "."], d), best("find . -size +256k", d, shell=True), 1.5)
    if shutil.which("strace"):
        opened = bytes_read(["check", "-j1", "."], d)[1]
        print(f"small files opened: {opened}")


def repair():
    origin = corpus("wedged", wedged)
    session = next(origin.rglob("*.jsonl"))
    work = CORPUS / "work"

    def fresh():
        shutil.rmtree(work, ignore_errors=True)
        shutil.rmtree(CORPUS / "state", ignore_errors=True)
        target = work / ".claude" / "projects" / "-p" / session.name
        target.parent.mkdir(parents=True)
        shutil.copyfile(session, target)
        os.sync()
        return target

    target = fresh()
    fix = best([UNWEDGE, "fix", "--min-idle", "0", "--size-threshold", "50KB", "--diff", "none", "."], work, runs=3, before=fresh)
    row(f"repair of a {session.stat().st_size // 10**6} MB session / cp && sync", fix, best(f"cp {session} copy && sync copy", CORPUS, runs=3, shell=True), 4.0)
    (CORPUS / "copy").unlink(missing_ok=True)
    if shutil.which("jq"):
        walk = best(f"jq -c 'walk(if type == \"string\" and utf8bytelength > 51200 then .[:51200] else . end)' {session} > copy", CORPUS, runs=1, shell=True)
        row("repair / a jq walk", fix, walk, 0.2)
    peers = CORPUS / "peers"
    if not (peers / "bin" / "cozempic").exists():
        subprocess.run([sys.executable, "-m", "venv", peers], check=False)
        subprocess.run([peers / "bin" / "pip", "install", "--quiet", "cozempic", "claude-code-tools"], check=False)
    if (peers / "bin" / "cozempic").exists():
        fresh()
        row("repair / cozempic strategy mega-block-trim", fix, once([peers / "bin" / "cozempic", "strategy", "mega-block-trim", target, "--execute"], work), 0.2)
    else:
        print("!!!! SKIPPED: cozempic does not install !!!!")
    if (peers / "bin" / "aichat").exists():
        fresh()
        took = once([peers / "bin" / "aichat", "trim-in-place", target, "--len", "51200"], work, ok=range(256))
        if target.stat().st_size < session.stat().st_size:
            row("repair / claude-code-tools trim-in-place", fix, took, 0.2)
        else:
            print("!!!! SKIPPED: claude-code-tools left the session as it was !!!!")
    else:
        print("!!!! SKIPPED: claude-code-tools does not install !!!!")


def diff():
    d = corpus("five", lambda d: jp(d, 1, 1, 5 * 10**6))
    out = subprocess.run([UNWEDGE, "fix", "-n", "--min-idle", "0", "."], cwd=d, env=ENV, stdout=subprocess.PIPE).stdout
    row("the report with the diff of a 5 MB cut, bytes / 2 KB", len(out), 2048, 1.0)


def jps():
    clean, big = corpus("jp-clean", lambda d: jp(d, 200, 60, 16_000)), corpus("jp-big", lambda d: jp(d, 1, 1, 150 * 10**6))
    row("JP: audit of clean conversations / cat", best([UNWEDGE, "check", "-j1", "."], clean), best(CAT, clean, shell=True))
    row("JP: the same, two threads / cat", best([UNWEDGE, "check", "-j2", "."], clean), best(CAT, clean, shell=True))
    work = CORPUS / "work"

    def fresh():
        shutil.rmtree(work, ignore_errors=True)
        shutil.rmtree(CORPUS / "state", ignore_errors=True)
        shutil.copytree(big, work)
        os.sync()

    stream = next(big.rglob("events.json"))
    fix = best([UNWEDGE, "fix", "--diff", "none", "."], work if work.exists() else CORPUS, runs=3, before=fresh) if fresh() is None else 0
    row(f"JP: repair of a {stream.stat().st_size // 10**6} MB conversation / cp && sync", fix, best(f"cp {stream} copy && sync copy", CORPUS, runs=3, shell=True))
    (CORPUS / "copy").unlink(missing_ok=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--scale", type=float, default=1.0, help="of the two trees of 1 GB")
    parser.add_argument("--only", choices=["audit", "many", "repair", "diff", "jp"])
    parser.add_argument("--keep", action="store_true", help="keep the corpus")
    args = parser.parse_args()
    subprocess.run(["cargo", "build", "--release", "--quiet"], cwd=ROOT, check=True)
    HOME.mkdir(parents=True, exist_ok=True)
    parts = {"jp": jps, "diff": diff, "audit": lambda: audit(args.scale), "many": many, "repair": repair}
    for name, part in parts.items():
        if args.only in (None, name):
            part()
    print("\n| what | ratio | target | met |\n|---|---|---|---|")
    for r in ROWS:
        print("| " + " | ".join(r) + " |")
    shutil.rmtree(CORPUS / "work", ignore_errors=True)
    if not args.keep:
        shutil.rmtree(CORPUS, ignore_errors=True)


if __name__ == "__main__":
    main()
