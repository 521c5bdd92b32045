#!/usr/bin/env python3
"""Trees made to mislead: links, pipes and devices, files and directories swapped for links at every moment, odd names, huge,
sparse, deep and tiny records, and as root over somebody else's tree. Every run ends in time, in bounded memory, with a clear
error, and touches nothing outside.

    tests/faults/hostile.py [--unwedge PROGRAM] [--every N] [--case NAME] [--big]

Exit status: 0 all held, 1 something did not; what a machine cannot do (no root, no strace) is skipped loudly.
"""

import socket
import sys

from place import *

ATTACKER = 12345
MB = 1 << 20
# What a run may take over and above what a case says, in bytes. A debug build maps its program, which is large.
FRAME = 160 * MB
CASES = {}


def case(f):
    CASES[f.__name__] = f
    return f


def state(path):
    """All that could change of a file, and what is below a directory."""
    found = {}
    for p in [path, *sorted(path.rglob("*"))]:
        s = os.lstat(p)
        data = p.read_bytes() if stat.S_ISREG(s.st_mode) else os.readlink(p) if stat.S_ISLNK(s.st_mode) else None
        found[str(p)] = (s.st_mode, s.st_uid, s.st_gid, s.st_ino, s.st_nlink, s.st_mtime_ns, s.st_ctime_ns, data)
    return found


def outside(place):
    """A session like the one inside, which is nobody's business."""
    there = place.dir / "outside"
    there.mkdir()
    (there / f"{SESSION}.jsonl").write_bytes(session())
    (there / "events.json").write_bytes(b"[]")
    return there


def repaired(path):
    return b"[truncated, " in path.read_bytes()


def no_escapes(ran):
    for out in (ran.out, ran.err):
        bad = [b for b in out if b < 0x20 and b != 0x0A or b == 0x7F]
        need(not bad and b"\xc2\x9b" not in out, "control characters came through:", out)
        # No name makes a line of its own.
        need(b"\nforged" not in out, "a forged line:", out)


@case
def links_pipes_and_devices(place):
    place.put(place.doc, session())
    there, dir = outside(place), place.doc.parent
    names = (f"0f0f0f0f-0000-4000-8000-0000000001{n:02}.jsonl" for n in range(100))
    to = lambda: dir / next(names)
    os.symlink(there / f"{SESSION}.jsonl", to())
    os.symlink("/dev/zero", to())
    loop = to()
    os.symlink(loop.name, loop)
    os.symlink(to(), to())
    os.symlink(there, place.tree / "dir")
    os.symlink(place.tree, place.tree / "around")
    os.symlink("/", place.tree / "root")
    os.mkfifo(to())
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(str(place.tree / "s.jsonl"))
    for made, number in ((to(), (1, 5)), (to(), (1, 8))):
        if os.getuid() == 0:
            os.mknod(made, stat.S_IFCHR | 0o666, os.makedev(*number))
    hard = to()
    os.link(there / f"{SESSION}.jsonl", hard)
    before = state(there)
    for ran in (place.check(timeout=10), place.fix(timeout=10)):
        need(ran.status == (1 if ran.argv[1] == "check" else 2) and ran.peak < FRAME, ran, ran.peak)
    need("hard links" in ran.text() and hard.name in ran.text(), "the hard link is not told of:", ran)
    need(repaired(place.doc), "the honest file was not repaired")
    need(state(there) == before, "something outside was touched")
    # The same by name: links are followed where they are named, but only to a file.
    for path in [*dir.iterdir(), place.tree / "s.jsonl"]:
        kind = os.lstat(path).st_mode
        if path in (place.doc, hard) or stat.S_ISLNK(kind) and path.exists() and path.resolve().is_file():
            continue
        ran = place.fix(path, timeout=10)
        need(ran.status in (0, 2) and ran.peak < FRAME, path, ran)
        need(path.name in ran.err.decode(), "it is not named:", path, ran)
    need(state(there) == before, "something outside was touched")
    place.sound()


def swapped(place, swap, check):
    """Swaps something at each moment of a repair."""
    if not can_trace():
        skip("swaps at every moment: strace is missing, or may not trace")
        return 0
    with Place(ARGS.unwedge) as first:
        first.put(first.doc, session())
        ran, calls = trace(first, first.argv("fix", ".", "--size-threshold", str(LIMIT)))
        moments = points(calls, lambda text: "/tree" in text)
        exchange = next(n for n, (_, _, text) in enumerate(moments) if "RENAME_EXCHANGE" in text)
        moments = [m for n, m in enumerate(moments) if n % ARGS.every == 0 or abs(n - exchange) < 12]
    reached = 0
    for name, number, where in moments:
        with Place(ARGS.unwedge) as place:
            place.put(place.doc, session())
            there = outside(place)
            if os.getuid() == 0:
                give(place.tree, ATTACKER)
                os.chmod(place.dir, 0o711)
            before = state(there)
            stop = Stop(place, place.argv("fix", ".", "--size-threshold", str(LIMIT)), name, number)
            reached += stop.pid is not None
            as_attacker(lambda: swap(place, there))
            stop.go_on()
            ran = stop.end()
            need(ran.status in (0, 2), ran)
            try:
                need(state(there) == before, "something outside was touched")
                check(place, there, ran)
            except Failed as e:
                raise Failed(f"after {name} {number}: {where}\n  {e}\n{ran}") from None
    return reached


def give(tree, uid):
    for path in [tree, *tree.rglob("*")]:
        os.chown(path, uid, uid, follow_symlinks=False)


def as_attacker(act):
    """In another process, and as another user where that can be."""
    pid = os.fork()
    if pid == 0:
        try:
            if os.getuid() == 0:
                os.setgroups([])
                os.setgid(ATTACKER)
                os.setuid(ATTACKER)
            act()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    need(os.waitpid(pid, 0)[1] == 0, "the attacker failed")


@case
def a_file_swapped_for_a_link(place):
    def swap(place, there):
        # Kept under another name, so that its bytes can be looked at.
        os.rename(place.doc, place.doc.with_name("kept"))
        os.symlink(there / f"{SESSION}.jsonl", place.doc)

    def check(place, there, ran):
        need(place.doc.is_symlink(), "the link is gone")
        kept = place.doc.with_name("kept").read_bytes()
        need(kept == session() or b"[truncated, " in kept, "neither the old nor the new document")
        place.sound()

    return swapped(place, swap, check)


@case
def a_directory_swapped_for_a_link(place):
    def swap(place, there):
        dir = place.doc.parent
        os.rename(dir, dir.with_name("moved"))
        os.symlink(there, dir)

    def check(place, there, ran):
        moved = place.doc.parent.with_name("moved")
        data = (moved / place.doc.name).read_bytes()
        need(data == session() or b"[truncated, " in data, "neither the old nor the new document")
        need([p.name for p in moved.iterdir()] == [place.doc.name], "left behind:", list(moved.iterdir()))
        owner = os.lstat(moved / place.doc.name).st_uid
        need(owner == os.lstat(moved).st_uid, "it changed hands:", owner)

    return swapped(place, swap, check)


@case
def a_directory_above_swapped_for_a_link(place):
    def swap(place, there):
        above = place.tree / ".claude"
        os.rename(above, place.tree / "moved")
        (place.tree / "evil/projects").mkdir(parents=True)
        os.symlink(there, place.tree / "evil/projects/p")
        os.symlink(place.tree / "evil", above)

    def check(place, there, ran):
        moved = place.tree / "moved/projects/p" / place.doc.name
        need(moved.read_bytes() == session() or repaired(moved), "neither the old nor the new document")
        need([p.name for p in moved.parent.iterdir()] == [moved.name], "left behind")

    return swapped(place, swap, check)


@case
def as_root_over_anothers_tree(place):
    if os.getuid() != 0:
        skip("as root over another user's tree: not root")
        return None
    place.put(place.doc, session())
    there = outside(place)
    os.symlink(there, place.doc.parent / "away")
    os.symlink(there / f"{SESSION}.jsonl", place.doc.with_name("0f0f0f0f-0000-4000-8000-000000000002.jsonl"))
    give(place.tree, ATTACKER)
    os.chown(place.doc, ATTACKER, ATTACKER + 1)
    os.chmod(place.doc, 0o640)
    before, was = state(there), os.lstat(place.doc)
    key = lambda s: (s.st_uid, s.st_gid, s.st_mode)
    need(place.fix(umask=0o077).status == 0 and repaired(place.doc), "not repaired")
    need(key(os.lstat(place.doc)) == key(was), "owner or mode changed")
    need(state(there) == before, "something outside was touched")
    need(place.run("undo", place.doc).status == 0 and place.doc.read_bytes() == session(), "not undone")
    need(key(os.lstat(place.doc)) == key(was), "owner or mode changed by undo")
    for path in [place.vault, *place.vault.rglob("*")]:
        need(os.lstat(path).st_uid == 0 and not mode(path) & 0o077, "others may read", path)
    place.sound()


@case
def a_copy_that_is_anothers(place):
    """JP keeps two copies of a conversation, one of them found by a link. Whoever sets the link chooses the other."""
    if os.getuid() != 0:
        skip("a copy that is another user's: not root")
        return None
    events = ROOT / "testdata/jp/wedged/before"
    source = next(p for p in events.rglob("events.json"))
    victim = place.dir / "victim/.jp"
    theirs = place.home / ".local/share/jp/workspace/x-ab12z"
    for root in (victim, theirs):
        shutil.copytree(source.parent, root / "conversations/17712345000")
    (victim / ".id").write_text("ab12z\n")
    os.symlink(victim, theirs / "storage")
    give(theirs, ATTACKER)
    before = state(victim)
    ran = place.run("fix", theirs)
    need(ran.status == 2 and "another user" in ran.err.decode(), "it was followed:", ran)
    need(state(victim) == before, "the victim's copy was touched")
    # Where both are one user's, both are repaired.
    give(victim, ATTACKER)
    ran = place.run("fix", theirs)
    need(ran.status in (0, 1), ran)
    need(state(victim) != before, "the copy was not repaired")


@case
def a_link_for_the_directory_of_locks(place):
    source = next(p for p in (ROOT / "testdata/jp/wedged/before").rglob("events.json"))
    root = place.tree / ".jp"
    shutil.copytree(source.parent, root / "conversations/17712345000")
    there = outside(place)
    os.symlink(there, root / "locks")
    before = state(there)
    ran = place.run("fix", root)
    need(ran.status == 2 and "locks" in ran.err.decode(), "not refused:", ran)
    need(state(there) == before, "a lock was made elsewhere")


@case
def names_that_are_no_text(place):
    names = [b"\xff\xfe", b"a\nforged: line", b"\x1b[2J\x1b]0;x\x07", "\u202egnp.\u2066".encode(), b"-rf", b" ", b"\x9b31m"]
    docs = []
    for name in names:
        path = os.fsencode(place.tree) + b"/" + name + b"/.claude/projects/p/" + f"{SESSION}.jsonl".encode()
        os.makedirs(os.path.dirname(path))
        with open(path, "wb") as f:
            f.write(session())
        docs.append(path)
    for format in ("text", "json", "jsonl", "sarif", "github"):
        no_escapes(place.check(".", "--output-format", format))
    ran = place.fix()
    no_escapes(ran)
    need(ran.status == 0, ran)
    need(all(b"[truncated, " in Path(os.fsdecode(d)).read_bytes() for d in docs), "not all repaired")
    no_escapes(place.run("backups", "list"))
    _, listed = place.json("backups", "list")
    need(len(listed["runs"][0]["documents"]) == len(docs), listed)
    ran = place.run("undo", listed["runs"][0]["run"])
    no_escapes(ran)
    need(ran.status == 0 and all(Path(os.fsdecode(d)).read_bytes() == session() for d in docs), ran)
    place.sound()


@case
def a_text_made_for_terminals(place):
    evil = "\x1b]0;title\x07\x1b[2J\x9b31m\r\nforged: line\x00\u202e\u2066"
    more = {"toolUseResult": {"stdout": evil * 200}}
    place.put(place.doc, user("start") + call(evil, evil) + result(evil, evil * 200, **more))
    place.put(place.doc.with_name("0f0f0f0f-0000-4000-8000-000000000003.jsonl"), b"{broken " + evil.encode() + b"\n" + session())
    for args in (["check", "."], ["fix", "-n", ".", "--diff", "full"], ["fix", ".", "--diff", "full"]):
        argv = place.argv(*args, "--size-threshold", str(LIMIT), "--color", "always")
        out = terminal(place, argv)
        plain = re.sub(rb"\x1b\[[0-9;]*m", b"", out).replace(b"\r\n", b"\n").replace(b"\t", b" ")
        # The program's own colours and the progress line it clears are all that may be left.
        plain = re.sub(rb"\r\x1b\[2?K|\x1b\[\d*[AB]|\x1b\[\?25[lh]", b"", plain).replace(b"\r", b"")
        need(not [b for b in plain if b < 0x20 and b != 0x0A or b == 0x7F], "control characters:", plain)
        for bad in ("\x9b", "\u202e", "\u2066"):
            need(bad.encode() not in plain, "a control character came through:", ascii(bad), plain)
        need(b"\nforged" not in plain, "a forged line")
    run = place.run_ids()[-1]
    out = terminal(place, place.argv("show", f"{run}-1"))
    need(b"\x1b" not in out and b"\\x1b" in out, "show:", out[:200])


def terminal(place, argv):
    """What a run writes to a terminal."""
    main, side = os.openpty()
    child = subprocess.Popen(argv, cwd=place.tree, env=place.env() | {"TERM": "xterm"}, stdin=side, stdout=side, stderr=side)
    os.close(side)
    out = b""
    while True:
        try:
            more = os.read(main, 65536)
        except OSError:
            break
        if not more:
            break
        out += more
    os.close(main)
    need(child.wait(30) in (0, 1, 2), "status", child.returncode)
    return out


def sparse(path, head, size):
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as f:
        f.write(head)
        f.truncate(size)


@case
def sparse_files(place):
    good = place.put(".claude/projects/q/0f0f0f0f-0000-4000-8000-000000000009.jsonl", session())
    sparse(place.doc, session(), 8 << 30)
    sparse(place.tree / "events.json", b"", 8 << 30)
    jp = place.tree / "conversations/17712345000/events.json"
    sparse(jp, b'[\n  {"timestamp": "2026-03-03 03:00:01.5", "type": "turn_start"},\n', 8 << 30)
    ran = place.fix(".", timeout=60, memory=6 << 30)
    need(ran.status == 2, ran)
    for path, what in ((place.doc.name, "line 5"), ("17712345000", "one record")):
        told = [t for t in ran.err.decode().splitlines() if path in t]
        need(len(told) == 1 and what in told[0] and "--max-record" in told[0], "not told of:", path, ran)
    need(repaired(good), "the other file was not repaired")
    peak = ran.peak
    # Whoever has less allows less.
    ran = place.fix(".", "--max-record", "16MB", timeout=30)
    need(ran.status == 2 and ran.peak < FRAME + 64 * MB, ran.peak // MB, ran)
    return f"8 GB: {peak // MB} MB of memory; with --max-record 16MB: {ran.peak // MB} MB, {ran.seconds:.1f} s"


@case
def no_memory_for_a_line(place):
    """Where the system has no memory, that is an error like any other."""
    sparse(place.doc, session(), 4 << 30)
    good = place.put(".claude/projects/q/0f0f0f0f-0000-4000-8000-000000000009.jsonl", session())
    ran = place.fix(".", memory=500 * MB, timeout=30)
    need(ran.status == 2 and "memory" in ran.err.decode() and place.doc.name in ran.err.decode(), ran)
    need(repaired(good), "the other file was not repaired")


@case
def deep_json(place):
    for depth in (100_000, 1_000_000):
        deep = "[" * depth + "]" * depth
        more = user("start") + call("t1").replace(b'"command":""', f'"command":{deep}'.encode())
        lines = more + result("t1", "x" * 5000).replace(b'"uuid":', f'"deep":{deep},"uuid":'.encode()) + deep.encode() + b"\n"
        place.put(place.doc, lines)
        ran = place.fix(".", timeout=30)
        need(ran.status in (0, 2) and ran.peak < FRAME + 100 * MB, ran.status, ran.peak, ran.text()[-500:])
        need(repaired(place.doc) and deep.encode() in place.doc.read_bytes(), "not repaired at depth", depth)
    # And where the whole line is nothing else, or never ends.
    for bad in (b"[" * 5_000_000, b'{"a":' * 2_000_000, b'{"a":[' * 1_000_000 + b"\n"):
        place.put(place.doc, session() + bad)
        ran = place.fix(".", timeout=30)
        need(ran.status == 2 and repaired(place.doc) and place.doc.read_bytes().endswith(bad), ran.status, ran.text()[-500:])


@case
def a_million_tiny_records(place):
    tiny = user("x") * 1000
    place.doc.parent.mkdir(parents=True)
    with open(place.doc, "wb") as f:
        f.write(user("start") + call("t1") + result("t1", "x" * 5000))
        for _ in range(1000):
            f.write(tiny)
    check = place.check(place.doc, timeout=120)
    ran = place.fix(place.doc, timeout=120)
    need((check.status, ran.status) == (1, 0) and repaired(place.doc), check, ran)
    need(max(check.peak, ran.peak) < FRAME + 64 * MB, check.peak // MB, ran.peak // MB)
    # Each with a result of its own, and its call.
    with open(place.doc, "wb") as f:
        for n in range(200_000):
            f.write(call(f"t{n}") + result(f"t{n}", "x"))
    results = place.check(place.doc, timeout=120)
    need(results.status == 0, results)
    size = place.doc.stat().st_size
    need(results.peak < FRAME + 3 * size, results.peak // MB)
    return (
        f"1,000,000 records: check {check.seconds:.1f} s and {check.peak // MB} MB, fix {ran.seconds:.1f} s and "
        f"{ran.peak // MB} MB; 200,000 results in {size // MB} MB: {results.seconds:.1f} s and {results.peak // MB} MB"
    )


@case
def a_document_of_two_formats(place):
    """What one agent wrote and another could have: claimed by one, or refused with both named, and never by guess."""
    codex = line({"timestamp": "2026-12-01T00:00:00.000Z", "type": "session_meta", "payload": {"id": "01a2b3c4-0000-4000-8000-000000000003", "cwd": "/w"}})
    pi = line({"type": "session", "version": 3, "id": "01a2", "timestamp": "2026-12-01T00:06:21.260Z", "cwd": "/w"})
    both = line({
        "type": "session", "version": 3, "id": "01a2", "timestamp": "2026-12-01T00:06:21.260Z", "cwd": "/w",
        "sessionId": SESSION, "parentUuid": None, "uuid": "u", "message": {"role": "user", "content": "x"},
        "payload": {"id": "01a2b3c4-0000-4000-8000-000000000003", "cwd": "/w"}, "projectHash": "00ff",
        "startTime": "2026-12-01", "lastUpdated": "2026-12-01", "kind": "main",
    })
    told = []
    for name, head in (("codex+claude", codex + session()), ("pi+claude", pi + session()), ("claude+pi", session() + pi), ("all", both + session())):
        doc = place.put(f"{name}/session.jsonl", head)
        old = doc.read_bytes()
        ran, report = place.json("fix", doc, "--size-threshold", str(LIMIT))
        need(ran.status in (0, 1, 2), ran)
        if ran.status == 2 and any(e["code"] == "ambiguous" for e in report["errors"]):
            need(doc.read_bytes() == old and "--format" in ran.text() and " and by " in ran.text(), ran)
            told.append(f"{name}: refused")
        else:
            need(doc.read_bytes() == old or repaired(doc), "neither the old nor the new document")
            told.append(f"{name}: {report['files'][0]['format'] if report['files'] else 'nobody'}'s")
    return ", ".join(told)


def a_line_of_four_gigabytes(place):
    place.doc.parent.mkdir(parents=True)
    size = 4_400_000_000
    head, tail = result("t1", "@").split(b"@")
    chunk = b"0123456789abcde " * 65536
    with open(place.doc, "wb") as f:
        f.write(user("start") + call("t1") + head)
        for _ in range(size // len(chunk) + 1):
            f.write(chunk)
        f.write(tail + user("the end"))
    told = []
    for ran in (place.check(".", timeout=60), place.fix(".", timeout=60), place.fix(".", "--max-record", "64MB", timeout=60)):
        need(ran.status == 2 and "line 3" in ran.err.decode() and "--max-record" in ran.err.decode(), ran)
        told.append(f"{ran.seconds:.1f} s and {ran.peak // MB} MB")
    return f"{place.doc.stat().st_size} bytes: check {told[0]}, fix {told[1]}, fix with --max-record 64MB {told[2]}"


def one(name):
    start = time.monotonic()
    # On the disk: huge files are sparse, but memory is not where they belong.
    with Place(ARGS.unwedge, None) as place:
        note = CASES[name](place)
    return name, note, time.monotonic() - start


def main():
    if ARGS.big:
        CASES["a_line_of_four_gigabytes"] = a_line_of_four_gigabytes
    names = [n for n in CASES if not ARGS.case or n == ARGS.case]
    need(names, f"no such case; there are {', '.join(CASES)}")

    results, failed = several(one, names)
    swaps = 0
    for name, note, seconds in filter(None, results):
        if isinstance(note, int):
            swaps += note
            note = f"{note} moments"
        print(f"  {name}: {seconds:.0f} s" + (f" ({note})" if note else ""))
    print(f"hostile: {len(names)} cases, {swaps} swaps at a moment of a repair, {len(failed)} failures", flush=True)
    return report(failed)


if __name__ == "__main__":
    ARGS = arguments(
        __doc__,
        every={"type": int, "default": 2, "help": "swap only at every N-th moment, and at all around the exchange"},
        case={"help": "only this case"},
        big={"action": "store_true", "help": "also a line of 4.4 GB, which takes as much disk for a moment"},
    )
    try:
        sys.exit(main())
    except Failed as e:
        sys.exit(f"hostile: {e}")
