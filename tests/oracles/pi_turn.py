"""Real turns of pi, before and after a repair: what must go with a cut. Part of pi.py, which explains itself.

A wedged session: pi's next turn fails, or pi compacts and what a cut kept is never sent. After `unwedge fix`: one request,
accepted, with the repaired text in it and nothing compacted. A repair that only cuts is not enough, and must be seen to fail.
"""
import json
import subprocess
import tempfile
from pathlib import Path


def stale(corpus):
    """The wedged session, but that its huge result was answered: the count of tokens is one of the uncut text."""
    head = (corpus / "02-wedged-single-v3.jsonl").read_bytes().split(b"\n")[:6]
    answer = (corpus / "repaired" / "02-e-stale-usage-still-compacts.jsonl").read_bytes().split(b"\n")[6]
    return b"\n".join([*head, answer, b""])


def sent_size(path):
    """The bytes of the repaired result as the stand-in counts them."""
    records = [json.loads(line) for line in path.read_bytes().split(b"\n") if line]
    texts = ["".join(p["text"] for p in r["message"]["content"]) for r in records if r.get("message", {}).get("role") == "toolResult"]
    return [len(json.dumps(text, ensure_ascii=False).encode()) for text in texts]


def faults(told, sizes):
    """Why a turn is not the one that a repaired session must have."""
    requests = told["requests"]
    if told["rc"] != 0:
        yield f"exit {told['rc']}: {told['stderr'][:120]}"
    if any(a.startswith("compaction") for a in told["appended"]) or any(r["kind"] == "compaction" for r in requests):
        yield "pi compacts"
    if len(requests) != 1:
        yield f"{len(requests)} requests"
    for r in requests:
        if r["kind"] == "turn" and (r["status"] != 200 or r["toolMsgBytes"] != sizes):
            yield f"status {r['status']}, results of {r['toolMsgBytes']} bytes, not {sizes}"


def turn(oracle, release, path):
    flags = ["--old"] if release == "old" else []
    return json.loads(oracle.run("new", oracle.source / "turn-oracle.mjs", path, *flags))


def prove(oracle, unwedge, fix, releases):
    """Runs everything; returns whether all of it holds."""
    corpus = oracle.source.parent.parent / "corpus" / "pi"
    wedged = (corpus / "02-wedged-single-v3.jsonl").read_bytes()
    cut_before = (corpus / "repaired" / "02-a-inplace-only.jsonl").read_bytes()
    # What it is, its bytes, and how it is repaired; then how not.
    cases = [
        ("wedged by its text", wedged, [], ["--no-unwedge"]),
        ("answered, then counted with the uncut text", stale(corpus), ["--unwedge"], []),
        ("cut before, its errors kept", cut_before, ["--unwedge"], []),
    ]
    good = True
    for name, data, how, how_not in cases:
        with tempfile.TemporaryDirectory(dir=oracle.scratch) as scratch:
            scratch, paths = Path(scratch), {}
            for label, args in [("before", None), ("repaired", how), ("only cut", how_not)]:
                path = scratch / label.replace(" ", "-") / "2026-12-01T00-06-21-518Z_01a22eec-824e-749c-bf31-05788292ffdb.jsonl"
                path.parent.mkdir()
                path.write_bytes(data)
                if args is not None:
                    fix(unwedge, scratch, path.parent, args)
                paths[label] = path
            sizes = sent_size(paths["repaired"])
            for release, version in releases.items():
                for label, path in paths.items():
                    told = turn(oracle, release, path)
                    why = list(faults(told, sizes))
                    # A turn that only a repair makes good must be bad without one, or it proves nothing.
                    holds = not why if label == "repaired" else bool(why) and (label == "before" or "pi compacts" in why)
                    good &= holds
                    sent = "; ".join(f"{r['kind']} {r['status']} with {r['toolMsgBytes']}" for r in told["requests"]) or "no request"
                    print(("ok " if holds else "FAILED ") + f"{name}, {label}, {version}: {sent}" + (f" ({', '.join(why)})" if why else ""), flush=True)
    return good & words(oracle, unwedge, fix, releases)


def words(oracle, unwedge, fix, releases):
    """No release takes a reworded error for one of too much context; unwedge takes for one whatever a release does."""
    def ask(release, texts):
        done = subprocess.run([oracle.node[release], str(Path(__file__).with_name("pi_overflow.mjs")), str(oracle.cache), release], input=json.dumps(texts), capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"pi_overflow.mjs: {done.stderr.strip()}")
        return json.loads(done.stdout)

    good = True
    examples = {text for release in releases for text, yes in ask(release, [])["examples"] if yes}
    examples |= {"413", "413 413", "400 (no body)", "the request has too many tokens"}
    with tempfile.TemporaryDirectory(dir=oracle.scratch) as scratch:
        scratch = Path(scratch)
        tree, names = scratch / "tree", {}
        tree.mkdir()
        for k, text in enumerate(sorted(examples)):
            header = {"type": "session", "version": 3, "id": str(k), "timestamp": "2026-12-01T00:06:21.518Z", "cwd": "/x"}
            error = {"type": "message", "id": "0000000a", "parentId": None, "message": {"role": "assistant", "content": [], "stopReason": "error", "errorMessage": text}}
            path = tree / f"2026-12-01T00-06-21-518Z_{k}.jsonl"
            path.write_text("".join(json.dumps(r, separators=(",", ":")) + "\n" for r in (header, error)), encoding="utf-8")
            names[path] = text
        # Such small sessions are not looked at unless they are named.
        subprocess.run([str(unwedge), "fix", "--min-idle", "0", "--unwedge", "--no-backup", *map(str, names)], cwd=scratch, env={"HOME": str(scratch), "PATH": "/usr/bin:/bin"}, capture_output=True)
        reworded = {path: json.loads(path.read_text(encoding="utf-8").split("\n")[1])["message"]["errorMessage"] for path in names}
    for path, text in names.items():
        if reworded[path] == text:
            good = False
            print(f"FAILED pi takes {text!r} for an error of too much context, unwedge does not", flush=True)
    for release, version in releases.items():
        left = sorted(set(reworded.values()))
        for text, yes in zip(left, ask(release, left)["asked"]):
            if yes:
                good = False
                print(f"FAILED {version} takes {text!r} for an error of too much context", flush=True)
    enough = len(examples) > 20
    print(("ok " if good and enough else "FAILED ") + f"{len(examples)} errors that pi takes for too much context become {left}, which it does not", flush=True)
    return good and enough
