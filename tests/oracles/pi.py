#!/usr/bin/env python3
"""pi's own programs judge sessions that unwedge repaired: they load, with the same messages in the same order, only the cut text shorter.

    tests/oracles/pi.py [--unwedge PATH] [--shared DIR] [--cache DIR] [--only NAME]
    tests/oracles/pi.py --self-test        # breaks repairs on purpose; every one of them must be noticed
    tests/oracles/pi.py --turn         # real turns against a stand-in provider: refused or compacted before, sent whole after a repair
    tests/oracles/pi.py --turns            # the same for every session of the corpus, as a table; asserts nothing

Needs Python 3.9, npm with access to its registry (the first time), Node 20 and 600 MB of disk. DIR of --shared ($UNWEDGE_SHARED,
../shared) holds oracles/pi and corpus/pi; two releases of pi are installed into DIR of --cache (target/oracles/pi), once.

Sessions are those of corpus/pi and those of testdata/pi/*/before. A copy of each is repaired by the real program, in a home of its
own: with the default limits or those of the case, and with limits so low that nearly every result is cut. Each release is asked
before and after. Of what it says, all of `ALIKE` must be as before (a session it refuses is refused alike); sizes must be those of
unwedge's report, to the byte. Beyond what the oracle tells, every record and every message is compared whole, and every byte.

Exit status: 0 all as before, 1 something does not hold, 2 usage, 3 the oracle cannot be run here.
"""
import argparse
import concurrent.futures
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import pi_turn

ROOT = Path(__file__).resolve().parent.parent.parent
HERE = Path(__file__).resolve().parent
RELEASES = {"old": "0.73.1", "new": "1.6.0"}
ALIKE = ["loaded", "version", "sessionId", "leaf", "roots", "entries", "contextMessages", "roles", "skippedLines", "orphanResults", "unansweredCalls"]
LOW = ["--size-threshold", "512", "--batch-ceiling", "1024"]
IMAGE = 4800                                                     # what unwedge charges for an image
MARKER = re.compile(r"\.\.\. \[truncated, [^\]\n]{3,22} → [^\]\n]{3,22}\]")
RAW_MARKER = re.compile(rb"\.\.\. \[truncated, [^\]\n]{3,22} (?:\xe2\x86\x92|\\u2192) [^\]\n]{3,22}\]")
LITERAL = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)


class Unavailable(Exception):
    """The oracle cannot be run here, and why."""


class Oracle:
    """Two releases of pi in a folder, and a scratch home to run them in."""

    def __init__(self, shared, cache, scratch):
        self.source, self.cache, self.scratch = shared / "oracles" / "pi", cache, scratch
        for needed in (self.source / "setup.sh", shared / "corpus" / "pi"):
            if not needed.exists():
                raise Unavailable(f"there is no {needed}")
        node = shutil.which("node")
        stamp, want = cache / "installed", hashlib.sha256((self.source / "setup.sh").read_bytes()).hexdigest()
        if not (stamp.is_file() and stamp.read_text() == want):
            self.install(node)
            stamp.write_text(want)
        self.node = {release: os.environ.get("PI_NODE") or (str(cache / release / "node") if (cache / release / "node").exists() else node) for release in RELEASES}
        for release, path in self.node.items():
            if not path or subprocess.run([path, "--version"], capture_output=True).returncode:
                raise Unavailable(f"there is no Node for pi {RELEASES[release]}")

    def install(self, node):
        if not node or not shutil.which("npm"):
            raise Unavailable("there is no node, or no npm, on the PATH")
        print(f"installing two releases of pi into {self.cache}", flush=True)
        self.cache.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(self.cache / "agent", ignore_errors=True)
        done = subprocess.run([str(self.source / "setup.sh"), str(self.cache)], env=npm_environment(self.cache, self.scratch), capture_output=True, text=True)
        if done.returncode:
            raise Unavailable("npm could not install pi: " + " | ".join((done.stderr or done.stdout).strip().splitlines()[-3:]))

    def run(self, release, script, *args):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("PI_", "NODE_"))}
        env.update(HOME=str(self.scratch), TMPDIR=str(self.scratch), PI_CODING_AGENT_DIR=str(self.scratch / "agent"), PI_OFFLINE="1")
        done = subprocess.run([self.node[release], str(script), str(self.cache), *map(str, args)], env=env, capture_output=True, text=True, timeout=300)
        if done.stderr.strip() and not done.stdout.strip():
            sys.exit(f"{script}: {done.stderr.strip()}")
        return done.stdout

    def ask(self, release, path):
        """What the oracle says of a session."""
        return json.loads(self.run(release, self.source / "oracle.mjs", release, path, "--json"))

    def read(self, release, paths):
        """Every record and every message of each session, as pi reads them."""
        with tempfile.NamedTemporaryFile(dir=self.scratch) as out:
            self.run(release, HERE / "pi_context.mjs", release, out.name, *paths)
            return [json.loads(line) for line in Path(out.name).read_text(encoding="utf-8").split("\n")[:-1]]


def npm_environment(cache, home):
    """npm with the user's settings, but a home and a cache of its own: nothing is written elsewhere."""
    settings = os.environ.get("npm_config_userconfig", os.path.expanduser("~/.npmrc"))
    return {**os.environ, "HOME": str(home), "npm_config_userconfig": settings, "npm_config_cache": str(cache / "npm-cache")}


# ---- sessions and their repair --------------------------------------------------------------------

class Session:
    def __init__(self, name, tree, file, variants):
        self.name, self.tree, self.file, self.variants = name, tree, file, variants

    def copy(self, to):
        """A copy of the tree (or the file alone), writable; returns the session in it."""
        if self.tree is None:
            to.mkdir(parents=True)
            path = to / self.file.name
            shutil.copyfile(self.file, path)
        else:
            shutil.copytree(self.tree, to, copy_function=shutil.copyfile)
            path = to / self.file.relative_to(self.tree)
        for file in (p for p in to.rglob("*") if p.is_file()):
            os.utime(file, ns=(1_700_000_000_123_456_789, 1_700_000_000_123_456_789))
        return path


def of_the_corpus(shared):
    corpus = shared / "corpus" / "pi"
    return [Session("corpus/" + str(p.relative_to(corpus))[:-6], None, p, {"default": [], "low": LOW}) for p in sorted(corpus.rglob("*.jsonl"))]


def of_our_own():
    for case in sorted((ROOT / "testdata" / "pi").iterdir()):
        told = json.loads((case / "case.json").read_text(encoding="utf-8"))
        args = told["args"] + told.get("fix", [])
        for path in sorted((case / "before").rglob("*.jsonl")):
            yield Session(f"testdata/{case.name}", case / "before", path, {"its own": args, "low": LOW})


def fix(unwedge, scratch, tree, args):
    """Runs the real program on a tree; returns its exit status and its report."""
    home = scratch / "home"
    home.mkdir(exist_ok=True)
    env = {k: v for k, v in os.environ.items() if not k.startswith(("XDG_", "JP_"))}
    env.update(HOME=str(home), XDG_STATE_HOME=str(scratch / "state"))
    done = subprocess.run([str(unwedge), "fix", "--min-idle", "0", *args, "--output-format", "json", "."], cwd=tree, env=env, capture_output=True, text=True)
    try:
        return done.returncode, json.loads(done.stdout)
    except ValueError:
        sys.exit(f"unwedge fix {' '.join(args)}: exit {done.returncode}, and no report: {done.stderr.strip()}")


# ---- what must hold -------------------------------------------------------------------------------

def size(text):
    return len(text.encode("utf-8", "surrogatepass"))


def shortened(old, new):
    """Whether `new` is the start, the end or both of `old` about a marker, and nothing else."""
    if old == new:
        return True
    marker, feed = (MARKER, ["\n", ""]) if isinstance(new, str) else (RAW_MARKER, [rb"\n", b""])
    for found in marker.finditer(new):
        head, tail = new[:found.start()], new[found.end():]
        for before in feed:
            for after in feed:
                if head.endswith(before) and tail.startswith(after):
                    a, b = head[:len(head) - len(before)], tail[len(after):]
                    if old.startswith(a) and old.endswith(b) and len(a) + len(b) < len(old):
                        return True
    return False


def differences(old, new, may_shorten, where=""):
    """Where two values differ in more than text that was shortened, or edited as the report says; `may_shorten(path)` says which text may be."""
    if isinstance(old, dict) and isinstance(new, dict):
        if list(old) != list(new):
            return [f"{where}: keys {list(old)} → {list(new)}"]
        return [d for key in old for d in differences(old[key], new[key], may_shorten, f"{where}.{key}")]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [d for k in range(len(old)) for d in differences(old[k], new[k], may_shorten, f"{where}[{k}]")]
    if edited(old, new, where):
        return []
    if type(old) is type(new) and (old == new or (isinstance(old, str) and may_shorten(where) and shortened(old, new))):
        return []
    return [f"{where}: {brief(old)} → {brief(new)}"]


EDITED = re.compile(r"\.(usage\.(cacheRead|cacheWrite|input|totalTokens)|errorMessage)$")
CLEARED = {"cleared by unwedge", "unwedged", "-"}


def edited(old, new, where):
    """Whether a value is one that goes with a cut. Which of them may, the report says, and `judge_bytes` sees to it."""
    if not EDITED.search(where):
        return False
    return new in CLEARED if isinstance(old, str) else isinstance(old, int) and isinstance(new, int) and 0 <= new <= old


def judge_edit(kind, old, new):
    """Whether a line differs in nothing but one reworded error, or in counts that were lowered."""
    x, y = json.loads(old), json.loads(new)
    if kind == "error":
        was, text = (json.dumps(r["message"]["errorMessage"], ensure_ascii=False).encode() for r in (x, y))
        return len(text) <= len(was) and y["message"]["errorMessage"] in CLEARED and old.replace(b'"errorMessage":' + was, b'"errorMessage":' + text) == new
    count = re.compile(rb'"(cacheRead|cacheWrite|input|totalTokens)":\d+')
    differ = differences(x, y, lambda where: False)
    return not differ and count.sub(b"", old) == count.sub(b"", new) and x["message"]["usage"]["cost"] == y["message"]["usage"]["cost"]


def brief(value):
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 60 else f"{text[:40]}… ({len(text)} characters)"


RESULT = re.compile(r"^(\.message|\.replacement)?(\.content(\[\d+\]\.text)?|\.details(\.|\[).*)$")


def may_shorten_in(record):
    role = record.get("role") or record.get("message", {}).get("role") or ("toolResult" if record.get("type") == "context_edit" else None)
    return (lambda where: bool(RESULT.match(where))) if role == "toolResult" else (lambda where: False)


def without_made_up_ids(entries):
    """Entries of a version 1 session: pi makes up their ids at every opening, so they are named by their place."""
    place = {e.get("id"): k for k, e in enumerate(entries)}
    return [{k: place.get(v, v) if k in ("id", "parentId", "firstKeptEntryId", "targetId", "fromId") else v for k, v in e.items()} for e in entries]


def results(messages):
    """Call id and size of every tool result among messages, as unwedge counts."""
    for m in messages:
        if m.get("role") == "toolResult":
            content = m.get("content") or []
            parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
            texts = [p["text"] for p in parts if p["type"] == "text"]
            yield m["toolCallId"], sum(map(size, texts)) + IMAGE * (len(parts) - len(texts)), len(parts) > len(texts)


def stored_version(path):
    with open(path, "rb") as f:
        return json.loads(f.readline()).get("version", 1)


def judge_answer(release, before, after, told_before, told_after, findings, version, whole, limit):
    """One release's word on one repair, against its word on the session as it was. Yields (what, why)."""
    if not before["loaded"]:
        if after["loaded"] or after["error"] != before["error"]:
            yield "loaded", f"was refused ({before['error']}), now {after.get('error', 'loaded')}"
        return
    if not after["loaded"]:
        yield "loaded", after["error"]
        return
    for field in ALIKE:
        if field == "leaf" and version == 1:                    # made up anew at every opening
            continue
        if before[field] != after[field]:
            yield field, f"{before[field]} → {after[field]}"
    if after["fileChangedByOpen"] != before["fileChangedByOpen"] or (whole and after["fileChangedByOpen"] != (version < 3)):
        yield "fileChangedByOpen", f"{before['fileChangedByOpen']} → {after['fileChangedByOpen']}, of a session of version {version}"
    if after["toolResultBytes"] > before["toolResultBytes"]:
        yield "toolResultBytes", f"{before['toolResultBytes']} → {after['toolResultBytes']}"

    # What the model is sent: whole messages, one by one.
    old, new = told_before["messages"], told_after["messages"]
    if len(old) != len(new):
        yield "messages", f"{len(old)} → {len(new)}"
        return
    for k, (a, b) in enumerate(zip(old, new)):
        for d in differences(a, b, may_shorten_in(a)):
            yield "messages", f"message {k + 1}{d}"
    a, b = told_before["entries"], told_after["entries"]
    if version == 1:
        a, b = without_made_up_ids(a), without_made_up_ids(b)
    if len(a) != len(b):
        yield "records", f"{len(a)} → {len(b)}"
    for k, (x, y) in enumerate(zip(a, b)):
        for d in differences(x, y, may_shorten_in(x)):
            yield "records", f"entry {k + 1}{d}"

    # The sizes of the cut ones are those of the report. Which ones are sent, the newer release decides; the older knows no context_edit.
    cut = [f for f in findings if f["kind"] == "response" and f["delivered"] < f["size"]]
    sent = Counter()
    for (call, was, _), (_, now, _) in zip(results(old), results(new)):
        if now != was:
            sent[call, was, now] += 1
    for call, now, image in results([e["message"] for e in b if e["type"] == "message"]):
        if now > limit and not image:
            yield "sizes", f"{call}: {now} bytes are more than {limit}"
    edits = any(x.get("type") == "context_edit" for x in a)
    reported = Counter((f["call_id"], f["size"], f["delivered"]) for f in cut)
    live = Counter((f["call_id"], f["size"], f["delivered"]) for f in cut if f["live"])
    if sent - reported or (sent != live and (release == "new" or not edits)):
        yield "sizes", f"pi sends {sorted(sent.elements(), key=str)}, the report says {sorted(live.elements(), key=str)}"
    gone = sum((was - now) * n for (_, was, now), n in sent.items())
    if before["toolResultBytes"] - after["toolResultBytes"] != gone:
        yield "sizes", f"toolResultBytes {before['toolResultBytes']} → {after['toolResultBytes']}, but the report says {gone} fewer"


def judge_bytes(old, new, findings, edits):
    """Every byte outside of the cut literals is as it was, and what is left of those is their own."""
    a, b = old.split(b"\n"), new.split(b"\n")
    if len(a) != len(b):
        yield "bytes", f"{len(a)} → {len(b)} lines"
        return
    named = {f["place"]["line"] for f in findings if f["cut"]}
    edits = {e["place"]["line"]: e["kind"] for e in edits if e["cut"]}
    for line in edits:
        if a[line - 1] == b[line - 1]:
            yield "bytes", f"line {line} is as it was, and the report says that it was edited"
    for k, (x, y) in enumerate(zip(a, b), 1):
        if x == y:
            continue
        if k in edits:
            if not (readable(y) and judge_edit(edits[k], x, y)):
                yield "bytes", f"line {k} differs in more than its {edits[k]}"
            continue
        if k not in named:
            yield "bytes", f"line {k} changed, and the report does not name it"
            continue
        if readable(x):
            gaps, cut = (LITERAL.split(x), LITERAL.split(y)), (LITERAL.findall(x), LITERAL.findall(y))
            if gaps[0] != gaps[1] or not all(p == q or shortened(p[1:-1], q[1:-1]) for p, q in zip(*cut)):
                yield "bytes", f"line {k} differs in more than shortened text"
        else:                                                   # a record glued to a torn one: one cut, so one difference
            head = len(os.path.commonprefix([x, y]))
            tail = len(os.path.commonprefix([x[head:][::-1], y[head:][::-1]]))
            if not shortened(x[head - min(head, 40):], y[head - min(head, 40):]) or len(y) - head - tail > 60:
                yield "bytes", f"line {k} differs in more than one shortened text"
    for line in named:
        if a[line - 1] == b[line - 1]:
            yield "bytes", f"line {line} is as it was, and the report says that it was cut"


def readable(line):
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


# ---- one session ----------------------------------------------------------------------------------

def judge(oracle, unwedge, session, scratch, pool, plant=None):
    """Repairs a session in every variant and asks every release. Returns problems, and the text that tells of it."""
    base = session.copy(scratch / "before")
    original, version = base.read_bytes(), stored_version(base)
    whole = original.endswith(b"\n")
    broken = any(line.strip() and not readable(line) for line in original.split(b"\n"))
    problems, said, after = [], [], {}
    for label, args in session.variants.items():
        tree = scratch / label.replace(" ", "-")
        path = session.copy(tree)
        listing, stat = sorted(tree.rglob("*")), path.stat()
        status, report = fix(unwedge, scratch, tree, args)
        if plant:
            plant(path, original)
        findings = [f for file in report["files"] for f in file["findings"]]
        edits = [e for file in report["files"] for e in file["edits"]]
        note = [(label, "report", f"exit {status}, {report['errors']}")] if status not in ((2,) if broken else (0, 1)) else []
        note += [(label, "folder", "other files lie there now")] if sorted(tree.rglob("*")) != listing else []
        note += [(label, "times", "mode or modification time is another")] if (path.stat().st_mtime_ns, path.stat().st_mode) != (stat.st_mtime_ns, stat.st_mode) else []
        note += [(label, *p) for p in judge_bytes(original, path.read_bytes(), findings, edits)]
        problems += note
        after[label] = (path, findings)
        cuts = sum(f["cut"] is not None for f in findings)
        said.append(f"{label} {cuts} cut, {len(edits)} edited, {len(original):,} → {path.stat().st_size:,} B")
    paths = [base] + [path for path, _ in after.values()]
    asked = {(release, path): pool.submit(oracle.ask, release, path) for release in RELEASES for path in paths}
    told = {release: pool.submit(oracle.read, release, paths) for release in RELEASES}
    outcomes = {}
    for release in RELEASES:
        before, tells = asked[release, base].result(), told[release].result()
        for k, (label, (path, findings)) in enumerate(after.items(), 1):
            limit = {"low": 512, "default": 262_144}.get(label, float("inf"))
            answer = asked[release, path].result()
            found = judge_answer(release, before, answer, tells[0], tells[k], findings, version, whole, limit)
            problems += [(f"{label}, {RELEASES[release]}", *p) for p in found]
        if not before["loaded"]:
            outcome = f"refused before and after ({before['error']})"
        else:
            sizes = [asked[release, path].result().get("toolResultBytes", -1) for path in paths]
            outcome = f"{before['contextMessages']} messages, results {' → '.join(f'{n:,}' for n in sizes)} B"
        outcomes.setdefault(outcome, []).append(RELEASES[release])
    said += [f"{' and '.join(releases)}: {outcome}" for outcome, releases in outcomes.items()]
    return problems, "; ".join(said)


def run(oracle, unwedge, found):
    bad = 0
    with concurrent.futures.ThreadPoolExecutor(max_workers=min(4, os.cpu_count() or 1)) as pool:
        for session in found:
            with tempfile.TemporaryDirectory(dir=oracle.scratch) as scratch:
                problems, said = judge(oracle, unwedge, session, Path(scratch), pool)
            print(("FAILED " if problems else "ok ") + f"{session.name}: {said}", flush=True)
            for label, what, why in problems:
                print(f"    [{label}] {what}: {why}", flush=True)
            bad += bool(problems)
    ending = f"{bad} NOT as before" if bad else "all as before" if found else "nothing was judged"
    print(f"{len(found)} sessions, {len(RELEASES)} releases: {ending}")
    return 1 if bad or not found else 0


# ---- does it bite? --------------------------------------------------------------------------------

def lines_of(path):
    return path.read_bytes().split(b"\n")


def put(path, data):
    stat = path.stat()
    path.write_bytes(data if isinstance(data, bytes) else b"\n".join(data))
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def on_line(kind, edit):
    """A plant that changes the first line that holds `kind`."""
    def plant(path, _):
        lines = lines_of(path)
        at = next(k for k, line in enumerate(lines) if kind in line)
        lines[at:at + 1] = edit(lines[at])
        put(path, lines)
    return plant


def on_record(kind, edit):
    """The same, through JSON: compact, as pi writes it."""
    def change(line):
        record = json.loads(line)
        edit(record)
        return [json.dumps(record, separators=(",", ":"), ensure_ascii=False).encode()]
    return on_line(kind, change)


def swap(path, _):
    lines = lines_of(path)
    first, second = [k for k, line in enumerate(lines) if b'"role":"toolResult"' in line][:2]
    lines[first], lines[second] = lines[second], lines[first]
    put(path, lines)


def one_less(path, _):
    data = path.read_bytes()
    marker = next(RAW_MARKER.finditer(data))
    at = marker.start() - 3 if data[marker.end():marker.end() + 1] == b'"' else marker.end() + 2
    put(path, data[:at] + data[at + 1:])


def last_lines(count):
    def plant(path, _):
        lines = lines_of(path)
        put(path, lines[:count] + [b""])
    return plant


def printed_again(path, _):
    put(path, [json.dumps(json.loads(line)).encode() if line.strip() else line for line in lines_of(path)])


def backup_beside(path, original):
    path.with_name("2027-" + path.name[5:]).write_bytes(original)


RESULT_LINE, USER_LINE = b'"role":"toolResult"', b'"role":"user"'
PLANTS = [                                                      # what is broken, how, and what must notice it at least
    ("a result's line is dropped", on_line(RESULT_LINE, lambda line: []), {"entries", "contextMessages", "bytes"}),
    ("the last record is dropped", last_lines(-2), {"entries", "leaf", "bytes"}),
    ("two results change places", swap, {"records", "bytes"}),
    ("the last record is torn", lambda path, _: put(path, path.read_bytes()[:-9] + b"\n"), {"skippedLines", "entries", "bytes"}),
    ("every line is parsed and printed again", printed_again, {"bytes"}),
    ("the final newline is gone", lambda path, _: put(path, path.read_bytes()[:-1]), {"fileChangedByOpen", "bytes"}),
    ("a line is added", lambda path, _: put(path, path.read_bytes() + path.read_bytes().split(b"\n")[-2].replace(b'"id":"', b'"id":"f', 1) + b"\n"), {"entries", "leaf", "bytes"}),
    ("a result's content becomes null", on_record(RESULT_LINE, lambda r: r["message"].update(content=None)), {"loaded", "messages", "records", "bytes"}),
    ("a result's parts are taken out", on_record(RESULT_LINE, lambda r: r["message"].update(content=[])), {"messages", "records", "sizes", "bytes"}),
    ("a result gets another call id", on_record(RESULT_LINE, lambda r: r["message"].update(toolCallId="toolu_other")), {"orphanResults", "messages", "records", "bytes"}),
    ("a result becomes an error", on_record(RESULT_LINE, lambda r: r["message"].update(isError=True)), {"messages", "records", "bytes"}),
    ("a record loses its parent", on_record(RESULT_LINE, lambda r: r.update(parentId=None)), {"roots", "contextMessages", "bytes"}),
    ("a user's text is cut", on_record(USER_LINE, lambda r: r["message"].update(content=[{"type": "text", "text": "... [truncated, 9 KB → 34 B]"}])), {"messages", "records", "bytes"}),
    ("the session gets another id", on_record(b'"type":"session"', lambda r: r.update(id="01a22eec-0000-7000-8000-0000000000ff")), {"sessionId", "bytes"}),
    ("the header's version is lowered", on_record(b'"type":"session"', lambda r: r.update(version=2)), {"fileChangedByOpen", "bytes"}),
    ("nothing is cut", lambda path, original: put(path, original), {"sizes", "bytes"}),
    ("one byte less is kept than reported", one_less, {"sizes"}),
    ("the modification time is new", lambda path, _: os.utime(path), {"times"}),
    ("a backup lies beside the session", backup_beside, {"folder"}),
    ("an error is reworded to more", on_record(b'"stopReason":"error"', lambda r: r["message"].update(errorMessage="cleared by unwedge, and more")), {"records", "bytes"}),
    ("a count that no edit names is lowered", on_record(b'"stopReason":"toolUse"', lambda r: r["message"]["usage"].update(totalTokens=0)), {"bytes"}),
]


def self_test(oracle, unwedge):
    session = next(s for s in of_our_own() if s.name == "testdata/batch")
    missed = 0
    with concurrent.futures.ThreadPoolExecutor(max_workers=min(4, os.cpu_count() or 1)) as pool:
        for what, plant, expected in [("nothing is broken", None, set()), *PLANTS]:
            with tempfile.TemporaryDirectory(dir=oracle.scratch) as scratch:
                problems, _ = judge(oracle, unwedge, session, Path(scratch), pool, plant)
            caught = {kind for _, kind, _ in problems}
            good = expected <= caught and bool(caught) == bool(plant)
            missed += not good
            by = ", ".join(sorted(caught)) or "nobody"
            print(("ok " if good else "MISSED ") + f"{what}: noticed by {by}" + ("" if good else f"; expected {sorted(expected)}"), flush=True)
            if not plant and problems:
                print(*problems, sep="\n")
    print(f"{len(PLANTS)} broken repairs: " + (f"{missed} MISSED" if missed else "all noticed"))
    return 1 if missed else 0


# ---- turns, for reading ---------------------------------------------------------------------------

def turns(oracle, unwedge, found):
    print("session | pi | own compaction | repaired | requests (kind, status, bytes of each tool message) | appended")
    for session in found:
        with tempfile.TemporaryDirectory(dir=oracle.scratch) as scratch:
            scratch = Path(scratch)
            before, after = session.copy(scratch / "before"), session.copy(scratch / "after")
            fix(unwedge, scratch, after.parent, [])
            if before.read_bytes() == after.read_bytes():
                continue
            for release in RELEASES:
                for off in ([], ["--no-compaction"]):
                    for path in (before, after):
                        flags = off + (["--old"] if release == "old" else [])
                        told = json.loads(oracle.run("new", oracle.source / "turn-oracle.mjs", path, *flags))
                        requests = "; ".join(f"{r['kind']} {r['status']} {r['toolMsgBytes']}" for r in told["requests"]) or "none"
                        print(" | ".join([session.name, RELEASES[release], "off" if off else "on", "yes" if path == after else "no", requests, f"exit {told['rc']}, " + "; ".join(told["appended"])]), flush=True)
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--unwedge", type=Path, default=ROOT / "target" / "release" / "unwedge")
    parser.add_argument("--shared", type=Path, default=Path(os.environ.get("UNWEDGE_SHARED", ROOT.parent / "shared")))
    parser.add_argument("--cache", type=Path, default=ROOT / "target" / "oracles" / "pi")
    parser.add_argument("--only", help="only sessions whose name holds this")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--judge", action="store_true", help="every session (the default)")
    mode.add_argument("--self-test", action="store_true", help="does it notice repairs that are broken on purpose?")
    mode.add_argument("--turn", action="store_true", help="what must go with a cut: real turns, before and after")
    mode.add_argument("--turns", action="store_true", help="real turns before and after, as a table")
    args = parser.parse_args()
    if not args.unwedge.is_file():
        parser.error(f"there is no {args.unwedge}: build it, or name another with --unwedge")
    with tempfile.TemporaryDirectory(prefix="unwedge-pi-") as scratch:
        try:
            oracle = Oracle(args.shared.resolve(), args.cache.resolve(), Path(scratch))
        except Unavailable as why:
            print(f"\n!!!! CANNOT ASK pi ITSELF: {why} !!!!\n", file=sys.stderr)
            return 3
        unwedge = args.unwedge.resolve()
        if args.self_test:
            return self_test(oracle, unwedge)
        if args.turn:
            return 0 if pi_turn.prove(oracle, unwedge, fix, RELEASES) else 1
        corpus = of_the_corpus(args.shared.resolve())
        found = [s for s in (corpus if args.turns else [*corpus, *of_our_own()]) if args.only is None or args.only in s.name]
        return turns(oracle, unwedge, found) if args.turns else run(oracle, unwedge, found)


if __name__ == "__main__":
    sys.exit(main())
