"""The runs that are disturbed: repairs and undos of small conversations, of testdata where it has them."""
import json
import os
import shutil
from pathlib import Path

from harness import FORKING, ROOT, Fault, Prepared, copy_tree, empty

DATA = ROOT / "testdata"
CONTROL = Path(__file__).resolve().parent / "controls.py"
PROJECT = "tree/.claude/projects/-home-ada-demo"
LIMITS = ["--size-threshold", "1KB", "--batch-ceiling", "2KB"]
FIX = ["fix", "--min-idle", "0", "-j", "1", *LIMITS, "tree"]
USER = "user.unwedge_test"


def claude(place, *cases):
    """Conversations of JSON lines, in one project, with a file of somebody else's beside them."""
    folder = place.box / PROJECT
    folder.mkdir(parents=True)
    streams = []
    for case in cases:
        for file in sorted((DATA / "claude-code" / case / "before" / PROJECT[5:]).glob("*.jsonl")):
            shutil.copyfile(file, folder / f"{case}-{file.name[-8:]}")
            streams.append(f"{PROJECT}/{case}-{file.name[-8:]}")
    (folder / "notes.txt").write_text("somebody else's\n")
    return streams


def lines(place):
    streams = claude(place, "golden")
    marked(place.box / streams[0])
    return streams


def marked(path):
    """Gives a file what a repair must keep: a mode, another owner, an attribute."""
    os.chmod(path, 0o640)
    if os.geteuid() == 0:
        os.chown(path, 1000, 1000)
    try:
        os.setxattr(path, USER, b"kept")
    except OSError:
        pass                                                     # not on every file system, and on them nobody can lose it


def several(place):
    return claude(place, "golden", "plain", "batch")


def parts(place):
    """One response of so many small parts that the journal is far longer than the conversation."""
    folder = place.box / PROJECT
    folder.mkdir(parents=True)
    source = next((DATA / "claude-code/plain/before" / PROJECT[5:]).glob("*.jsonl"))
    records = [json.loads(line) for line in source.read_text().splitlines()]
    records[2]["message"]["content"][0]["content"] = [{"type": "text", "text": f"part {n:03} " + "x" * 110} for n in range(30)]
    records[2].pop("toolUseResult", None)
    stream = f"{PROJECT}/parts.jsonl"
    (place.box / stream).write_text("".join(json.dumps(r, separators=(",", ":")) + "\n" for r in records))
    return [stream]


def jp(place):
    """A conversation of JP's that is stored twice: in its workspace and with its user."""
    source = DATA / "jp/golden/before/.jp/conversations"
    name = next(source.iterdir()).name
    workspace, silo = place.box / "tree/.jp", place.box / "home/.local/share/jp/workspace/tree-ab12z"
    silo.mkdir(parents=True)
    workspace.mkdir(parents=True)
    (workspace / ".id").write_text("This file is JP's.\nab12z\n")
    os.symlink(workspace, silo / "storage")
    streams = []
    for root, folder, age in ((workspace, name, 1000), (silo, name.split("-")[0], 900)):
        there = root / "conversations" / folder
        shutil.copytree(source / name, there)
        for file in there.iterdir():
            when = file.stat().st_mtime - age
            os.utime(file, (when, when))
        streams.append(os.path.relpath(there / "events.json", place.box))
    # Both are one user's: of two users' copies neither is repaired.
    for stream in streams:
        marked(place.box / stream)
    return streams


def later_turns(path):
    """Somebody goes on with the conversation."""
    last = json.loads(path.read_text().splitlines()[-1])
    tail = b""
    for n in range(2):
        last["parentUuid"], last["uuid"] = last["uuid"], f"0000010{n}-0000-4000-8000-000000000001"
        tail += json.dumps(last).encode() + b"\n"
    with open(path, "ab") as file:
        file.write(tail)
    return tail


BUILD = {"lines": lines, "jp": jp, "several": several, "parts": parts}


def read(place, streams):
    return {path: (place.box / path).read_bytes() for path in streams}


def prepare(place, name, args=None, program=None):
    """A case by its name: a repair (`lines`), its undo (`undo-lines`), or its undo after later turns (`grown-lines`)."""
    if name in place.cache:
        return place.cache[name]
    what, _, base = name.rpartition("-")
    template = place.root / f"template-{name}"
    with FORKING:
        empty(place.box)
        for directory in ("home", "state", "tree"):
            (place.box / directory).mkdir(parents=True)
        streams = BUILD[base](place)
        first = read(place, streams)
        if not what:
            copy_tree(place.box, template)
    place.expect(FIX)
    fixed = read(place, streams)
    assert all(fixed[path] != first[path] for path in streams), f"{name}: nothing was cut"
    if base == "lines":
        want = next((DATA / "claude-code/golden/after" / PROJECT[5:]).glob("*.jsonl")).read_bytes()
        assert fixed[streams[0]] == want, f"{name}: the repair is not that of testdata"
    args = args or FIX
    before, after = first, fixed
    if what:
        with FORKING:
            tails = {path: later_turns(place.box / path) if what == "grown" else b"" for path in streams}
        before, after = read(place, streams), {path: first[path] + tails[path] for path in streams}
        copy_tree(place.box, template)
        run = next(os.scandir(place.box / "state/unwedge/runs")).name[:-6]
        args = ["undo", run, "--min-idle", "0"]
    place.cache[name] = Prepared(name, place, template, args, streams, before, after, program)
    return place.cache[name]


def killed(place, name, at):
    """A case as a run left it that was killed at a call."""
    key = f"{name} after a kill at {at.name} {at.nth}"
    if key not in place.cache:
        fresh = prepare(place, name)
        fresh.start()
        ran = fresh.go(Fault(key, [f"{at.name}:signal=KILL:when={at.nth}"], None))
        assert ran.injected, f"{key}: it was not killed"
        template = place.root / f"template-{len(place.cache)}"
        copy_tree(place.box, template)
        left = Prepared(key, place, template, fresh.args, fresh.streams, fresh.before, fresh.after)
        left.things, left.known = fresh.things, fresh.known
        place.cache[key] = left
    return place.cache[key]
