#!/usr/bin/env python3
"""What must not get out: nobody else can read a backup, a journal or a temporary at any moment, whatever the umask; no report
for programs carries a word of the conversation; `prune` removes what it says and nothing else; `--no-backup` says what it means.

    tests/faults/private.py [--unwedge PROGRAM] [--every N]

Exit status: 0 all held, 1 something did not; without strace the moments are skipped loudly.
"""

import sys

from place import *

WORD = "s3cret"


def closed(place, when, midway=False):
    """Everything of ours is its owner's alone. Midway a umask may have taken more from it than must go."""
    ours = [p for p in [place.vault, *place.vault.rglob("*")] if p.exists()] + [Path(p) for p in place.leftovers()]
    for path in ours:
        s = os.lstat(path)
        if midway and not s.st_mode & 0o777:
            continue
        if stat.S_ISDIR(s.st_mode):
            need(stat.S_IMODE(s.st_mode) == 0o700, f"{oct(s.st_mode)} {path} {when}")
        elif path.name.startswith(".unwedge-"):
            # What takes the document's place must be as readable as the document is, and never more.
            need(stat.S_IMODE(s.st_mode) in (0o600, mode(place.doc)), f"{oct(s.st_mode)} {path} {when}")
        else:
            need(stat.S_IMODE(s.st_mode) == 0o600, f"{oct(s.st_mode)} {path} {when}")
    return len(ours)


def moment(item):
    umask, command, (name, number, where) = item
    with Place(ARGS.unwedge) as place:
        start(place, command)
        old = os.umask(umask)
        try:
            stop = Stop(place, argv(place, command), name, number)
        finally:
            os.umask(old)
        when = f"after {name} {number} of {command}, umask {umask:03o}: {where}"
        seen = closed(place, when, True) if stop.pid else 0
        stop.go_on()
        ran = stop.end()
        need(ran.status == 0, ran)
        closed(place, f"after {command}, umask {umask:03o}")
        need(mode(place.doc) == 0o640, "the document's mode", oct(mode(place.doc)))
        return seen


def start(place, command):
    place.put(place.doc, session())
    os.chmod(place.doc, 0o640)
    if command == "undo":
        need(place.fix().status == 0, "fix")


def argv(place, command):
    return place.argv("undo", place.doc) if command == "undo" else place.argv("fix", ".", "--size-threshold", str(LIMIT))


def whatever_the_umask():
    if not can_trace():
        skip("every moment of a repair: strace is missing, or may not trace")
        return 0, []
    items = []
    for command in ("fix", "undo"):
        with Place(ARGS.unwedge) as place:
            start(place, command)
            _, calls = trace(place, argv(place, command))
            moments = points(calls, lambda text: "/state/" in text)
        making = [m for m in moments if m[0] in ("openat", "mkdirat", "fchmod", "renameat2", "write")]
        items += [(umask, command, m) for umask in (0o000, 0o077, 0o777) for m in making[:: ARGS.every]]
    seen, failed = several(moment, items, 2 * (os.cpu_count() or 2))
    if not failed and not any(seen):
        failed.append(("umask", "nothing of ours was ever seen"))
    return len(items), failed


def made_open_by_others():
    """A vault that others could read, a lax umask's or an older tool's, is closed as far as it is ours."""
    with Place(ARGS.unwedge) as place:
        for dir in ("", "objects", "runs"):
            (place.vault / dir).mkdir(exist_ok=True)
            os.chmod(place.vault / dir, 0o777)
        start(place, "fix")
        need(place.fix(umask=0).status == 0, "fix")
        closed(place, "in a vault that was open")


def no_report_carries_content():
    """Each text of a session has a word of its own, and none of them is in a report for programs."""
    with Place(ARGS.unwedge) as place:
        words = [f"{WORD}{n}" for n in range(9)]
        more = {"toolUseResult": {"stdout": f"{words[4]}\n" * 400, "stderr": words[5]}, "cwd": words[6]}
        lines = user(f"please {words[0]}") + call("t1", "Bash", words[1])
        lines += result("t1", f"{words[2]} line\n" * 400 + words[3], **more)
        lines += b'{"broken ' + words[7].encode() + b"\n" + user(words[8], "z")
        place.put(place.doc, lines)
        reports = []
        for format in ("json", "jsonl", "sarif", "github"):
            for args in (["check", "."], ["check", ".", "--thorough", "-v"], ["fix", "-n", ".", "--diff", "full"]):
                ran = place.run(*args, "--size-threshold", str(LIMIT), "--output-format", format)
                need(ran.status in (1, 2) and b"Bash" in ran.out, "an empty report:", ran)
                reports.append(ran)
        fixed, report = place.json("fix", ".", "--size-threshold", str(LIMIT), "--diff", "full")
        need(any(f["cut"] for f in report["files"][0]["findings"]), "nothing was cut:", report)
        undone, _ = place.json("undo", report["run"])
        reports += [fixed, undone, place.json("backups", "list")[0], place.json("backups", "verify")[0]]
        for ran in reports:
            for word in words:
                need(word.encode() not in ran.out + ran.err, "a report carries", word, ran)
        # Nor does the journal. It would be seen: the backup has all of them.
        for path in place.vault.glob("runs/*"):
            need(WORD.encode() not in path.read_bytes(), "the journal carries text")
        backup = b"".join(p.read_bytes() for p in place.vault.glob("objects/*/*"))
        need(all(w.encode() in backup for w in words), "the test has lost its words")
        return len(reports)


def prune_removes_what_it_says():
    count = 0
    for flags, ages, go in (
        (["--keep", "2"], [0] * 5, [0, 1, 2]),
        (["--keep", "0"], [0] * 3, [0, 1, 2]),
        (["--keep", "9"], [0] * 3, []),
        (["--older-than", "12h"], [48, 24, 13, 11, 0], [0, 1, 2]),
        (["--older-than", "30d"], [48, 24], []),
        # Each backup is some 5,700 bytes.
        (["--max-size", "12000"], [0] * 5, [0, 1, 2]),
        (["--max-size", "0"], [0] * 3, [0, 1, 2]),
        (["--max-size", "1GB"], [0] * 3, []),
        (["--keep", "4", "--older-than", "20h"], [48, 24, 13, 1, 0], [0, 1]),
        (["--keep", "4", "--max-size", "6000"], [0] * 5, [0, 1, 2, 3]),
    ):
        with Place(ARGS.unwedge) as place:
            objects = []
            for n in range(len(ages)):
                place.put(place.doc, session(f"{n} " * 2500))
                need(place.fix().status == 0, "fix")
                objects.append(hashlib.sha256(session(f"{n} " * 2500)).hexdigest())
            runs = place.run_ids()
            for run, hours in zip(runs, ages):
                path = place.vault / f"runs/{run}.jsonl"
                was = path.read_text()
                then = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() - hours * 3600))
                path.write_text(re.sub(r'"time":"[^"]*"', f'"time":"{then}.{runs.index(run):06}Z"', was, count=1))
            # What is not ours, or is nobody's to remove, stays.
            strange = {place.vault / n: n.encode() for n in ("note", "objects/note", "runs/note.txt", "rescued/x")}
            for path, data in strange.items():
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(data)
            left = lambda: {p for p in place.vault.rglob("*") if p.is_file()}
            before = left()
            dry, said = place.json("backups", "prune", "-n", *flags)
            need(dry.status == 0 and left() == before, "the dry run removed something", dry)
            ran, did = place.json("backups", "prune", *flags)
            need({**said, "dry_run": False} == did, "the dry run said other than was done:", said, did)
            gone = before - left()
            wanted = {place.vault / f"runs/{runs[n]}.jsonl" for n in go}
            wanted |= {place.vault / f"objects/{objects[n][:2]}/{objects[n]}" for n in go}
            need(gone == wanted, flags, "removed", gone - wanted, "and left", wanted - gone)
            need(did["runs"] == [runs[n] for n in go] and did["objects"] == len(go), did)
            need(did["bytes"] == sum(len(session(f"{n} " * 2500)) for n in go), did)
            need(all(p.read_bytes() == d for p, d in strange.items()), "something that is not ours changed")
            # What stays can be undone, what went says so.
            for n, run in enumerate(runs):
                ran = place.run("undo", "-n", run)
                need((ran.status == 2) == (n in go), "undo of", n, ran)
            count += 1
    # One content of two runs stays as long as one of them does.
    with Place(ARGS.unwedge) as place:
        for _ in range(2):
            place.put(place.doc, session())
            need(place.fix().status == 0, "fix")
        _, did = place.json("backups", "prune", "--keep", "1")
        need(len(did["runs"]) == 1 and did["objects"] == 0, "a shared backup went:", did)
        need(place.run("undo", place.doc).status == 0 and place.doc.read_bytes() == session(), "undo")
    return count + 1


def no_backup_says_what_it_means():
    with Place(ARGS.unwedge) as place:
        need("gone for good" in place.run("fix", "--help").text(), "the help")
        place.put(place.doc, session())
        ran = place.fix(".", "--no-backup")
        need(ran.status == 0 and "no backup was made" in ran.text() and "gone for good" in ran.text(), ran)
        need(not list(place.vault.glob("objects/*/*")), "there is a backup")
        _, listed = place.json("backups", "list")
        need(listed["runs"][0]["documents"][0]["backup"] is None, listed)
        now = place.doc.read_bytes()
        for args in (["undo", place.doc], ["undo", listed["runs"][0]["run"]], ["show", listed["runs"][0]["run"] + "-1"]):
            ran = place.run(*args)
            need(ran.status == 2 and "--no-backup" in ran.err.decode() and place.doc.read_bytes() == now, ran)
        need(place.run("backups", "verify").status == 0, "verify")


def main():
    moments, failed = whatever_the_umask()
    counts = {}
    for part in (made_open_by_others, no_report_carries_content, prune_removes_what_it_says, no_backup_says_what_it_means):
        try:
            counts[part.__name__] = part()
        except Failed as e:
            failed.append((part.__name__, e))
    print(
        f"private: {moments} moments of a repair or an undo at three umasks, {counts.get('no_report_carries_content')} reports "
        f"without content, {counts.get('prune_removes_what_it_says')} prunes, {len(failed)} failures",
        flush=True,
    )
    return report(failed)


if __name__ == "__main__":
    ARGS = arguments(__doc__, every={"type": int, "default": 1, "help": "only every N-th moment"})
    sys.exit(main())
