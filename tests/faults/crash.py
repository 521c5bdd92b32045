#!/usr/bin/env python3
"""Kills real repairs and undos at every system call that touches the file system, and makes every such call fail once.

    tests/faults/crash.py [--unwedge PATH] [--dir DIR] [--every N] [--all] [--only WORD] [--jobs N] [-v]

After each fault every stream is the old one or the new one, whole; if it is the new one, its backup is the old one byte for byte;
nothing else has changed; what was printed is true. The next run cleans up what was left, does the rest, leaves nothing beside the
streams, and all of it can be undone. Cases: a stream of JSON lines, a conversation of JP's stored twice, three streams in one run;
their undo, whole and after later turns; and the run that cleans up after a kill, killed itself.

Errors are ENOSPC, EIO, EACCES, EDQUOT and EINTR, each call failing once; a disk that is full from some call on; real short writes,
by a limit on the size of files (with and without the signal) and by a file system with only so many pages or inodes left (as root).
The next run (the same again, `backups verify` first, undo first) is tried once on every state that a fault leaves, not once for each
fault, as it does the same on the same state.
By default each call gets all five errors in the first case, and every other call one of them in turn in the rest; with --all, all five
everywhere, and the next run after each.

The harness is proved by two planted bugs, a repair without a backup and one in place: each must be noticed.

Exit status: 0 all of it holds, 1 something does not, 3 there is no strace here that can do this.
"""
import argparse
import os
import subprocess
import sys
import time
from collections import Counter

from cases import CONTROL, FIX, killed, prepare
from harness import FAILED, PASSED, SKIPPED, Fault, Place, Prepared, arguments, can_trace, in_parallel, loud, own_mounts, scratch
from holds import CLOSEDIR, Settled, check

# What a run says that could not write, and what it was writing.
SHORT = {"write the backup": "the backup", "write the journal": "the journal", "cannot write:": "the new file"}
ERRORS = ["ENOSPC", "EIO", "EACCES", "EDQUOT", "EINTR"]
FULL = ["ENOSPC", "EDQUOT", "EIO"]
REPAIRS, UNDOS = ["lines", "jp", "several"], ["undo-lines", "undo-jp", "grown-lines"]


def kill(call):
    return Fault(f"killed at {call.name} {call.nth} ({call.text[:70]})", [f"{call.name}:signal=KILL:when={call.nth}"], None)


def error(call, errno, on=""):
    return Fault(f"{errno} from {call.name} {call.nth}{on} ({call.text[:70]})", [f"{call.name}:error={errno}:when={call.nth}{on}"], None)


def one(prepared, fault, settled, tally):
    """One run with one fault. Returns what does not hold."""
    prepared.start()
    ran = prepared.go(fault)
    if fault.inject and not ran.injected:
        tally["missed"] += 1
    wrong, new = check(prepared, ran, killed=ran.status in (-9, -25))
    if not wrong:
        wrong = settled.next_run(prepared, new)
    tally["closedir"] += CLOSEDIR in ran.stderr
    note_short(ran, fault.limit, tally)
    return [f"{prepared.case}: {fault.what}: {text}" for text in wrong]


def note_short(ran, short, tally):
    for said, what in SHORT.items():
        tally[f"short in {what}"] += bool(short) and said in ran.stderr


def leftovers(calls):
    """The moments that leave most behind, each as the call a run is killed at."""
    names = [call.name for call in calls]
    draft = [i for i, call in enumerate(calls) if "/.unwedge-" in call.text and "(deleted)" not in call.text]
    swap = next(i for i, call in enumerate(calls) if "RENAME_EXCHANGE" in call.text)
    part = next(i for i, call in enumerate(calls) if call.name == "write" and "/.part-" in call.text)
    begun = next(i for i in draft if calls[i].name == "write")
    gone = next(i for i in range(swap, len(calls)) if names[i] == "unlinkat")
    return {"half a backup": calls[part + 1], "half a draft": calls[begun + 1], "after the exchange": calls[swap + 1], "without its end": calls[gone + 1]}


def jobs(place, options):
    """Every fault, as (case, fault)."""
    found = []
    for case in REPAIRS + UNDOS:
        prepared = prepare(place, case)
        calls = prepared.calls()
        if [c[:2] for c in calls] != [c[:2] for c in prepared.calls()]:
            raise AssertionError(f"{case}: two runs make different calls")
        found += [("kill", (case,), kill(call)) for call in calls]
        for number, call in enumerate(calls):
            errors = ERRORS if options.all or case == "lines" else [ERRORS[number // 2 % len(ERRORS)]][number % 2:]
            found += [("error", (case,), error(call, errno)) for errno in errors]
        if options.all or case in ("lines", "undo-lines"):
            found += [("error", (case,), error(call, errno, "+")) for call in calls if call.name in ("write", "fsync") for errno in FULL]
        if case in ("lines", "jp"):
            for left, at in leftovers(calls).items():
                after = killed(place, case, at)
                again = after.calls()
                few = again if options.all or (case, left) == ("lines", "after the exchange") else again[number % 5::5]
                found += [("kill", (case, at), kill(call)) for call in few]
                found += [("error", (case, at), error(call, ERRORS[n // 8 % 5])) for n, call in enumerate(again) if options.all or n % 8 == 0]
        found += [("short", (case,), f) for f in limits(prepared, options)]
    prepared = prepare(place, "parts")
    found += [("short", ("parts",), f) for f in limits(prepared, options)]
    return found


def limits(prepared, options):
    """Limits on the size of files at which some write of a run is cut short."""
    top = max(len(data) for data in [*prepared.before.values(), *prepared.after.values()]) * 5 // 2
    step = max(1, top // (60 if options.all else 12))
    return [Fault(f"files of at most {size} bytes{', EFBIG' if ignore else ''}", [], (size, ignore)) for size in range(0, top, step) for ignore in (False, True)]


def at(place, where):
    return prepare(place, where[0]) if len(where) == 1 else killed(place, *where)


def full(place, options, settled, tally):
    """A file system in memory with so many pages left, or so many inodes."""
    wrong = []
    place.box.mkdir(exist_ok=True)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m,nr_inodes=4000", "unwedge-faults", place.box], stderr=subprocess.DEVNULL).returncode:
        loud("SKIPPED: small full file systems: only root may mount one")
        return wrong
    remount = lambda what: subprocess.run(["mount", "-o", f"remount,{what}", place.box], check=True)
    try:
        for case in ("lines", "jp", "several", "undo-lines", "grown-lines", "parts"):
            prepared = prepare(place, case)
            prepared.start()
            used = os.statvfs(place.box)
            pages, inodes = used.f_blocks - used.f_bfree, used.f_files - used.f_ffree
            sizes = [(f"size={(pages + k) * used.f_frsize}", f"{k} pages") for k in range(28 if case == "several" else 14)]
            sizes += [(f"nr_inodes={inodes + k}", f"{k} inodes") for k in range(9)]
            for what, said in sizes[::options.every]:
                prepared.start()
                remount(what)
                ran = prepared.go()
                remount("size=16m,nr_inodes=4000")
                note_short(ran, what.startswith("size"), tally)
                found, new = check(prepared, ran, killed=False)
                if not found:
                    found = settled.next_run(prepared, new)
                wrong += [f"{case}: a file system with {said} left: {text}" for text in found]
                tally["full"] += 1
                tally["full and refused"] += ran.status == 2
    finally:
        subprocess.run(["umount", place.box], check=True)
    return wrong


def planted(places):
    """Two bugs that must be noticed: no backup, and the bytes rewritten in place."""
    missed = []
    for bug, args, program in (
        ("no backup", ["fix", "--no-backup", *FIX[1:]], None),
        ("rewriting in place", [], [sys.executable, "-I", "-S", str(CONTROL), "in-place"]),
    ):
        place = places[0]
        fresh = prepare(place, "lines")
        if program:
            wanted = place.root / "wanted"
            wanted.write_bytes(fresh.after[fresh.streams[0]])
            args = [str(place.box / fresh.streams[0]), str(wanted), str(place.box / "state/unwedge")]
        prepared = Prepared(f"planted: {bug}", place, fresh.template, args, fresh.streams, fresh.before, fresh.after, program)
        noticed = 0
        calls = prepared.calls()
        for call in [c for c in calls if "/box/" in c.text][::1 if program else 5]:
            prepared.start()
            ran = prepared.go(kill(call))
            noticed += bool(check(prepared, ran, killed=True)[0])
        if not noticed:
            missed.append(f"planted bug: {bug}: it was not noticed")
        print(f"planted bug: {bug}: noticed at {noticed} kill points")
    return missed


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--all", action="store_true", help="every error at every call of every case")
    options = arguments(parser)
    own_mounts()
    if not can_trace():
        loud("SKIPPED: kills and failing calls at every step: there is no strace here that can inject them")
        return SKIPPED
    began, tally = time.monotonic(), Counter()
    with scratch(options.dir) as root:
        places = []
        for number in range(options.jobs):
            place = Place(f"{root}/{number}", options.unwedge)
            place.box.mkdir(parents=True)
            places.append(place)
        wrong = planted(places)
        todo = jobs(places[0], options)
        todo = [job for job in todo if not options.only or options.only in job[1][0]][::options.every]
        settled = Settled(options.all)

        def work(place, job):
            kind, where, fault = job
            found = one(at(place, where), fault, settled, tally)
            tally[kind] += 1
            if options.verbose or found:
                print(f"{kind} {where[0]} {fault.what}: {found or 'holds'}", flush=True)
            return found

        wrong += [text for found in in_parallel(places, todo, work) for text in found]
        if not options.only:
            small = Place(f"{root}/full", options.unwedge)
            small.box.mkdir(parents=True)
            wrong += full(small, options, settled, tally)
    short = {what: tally[f"short in {what}"] for what in SHORT.values()}
    if not options.only and options.every == 1:
        wrong += [f"no write of {what} was cut short" for what, count in short.items() if not count]
    for text in wrong[:40]:
        print(f"FAILED {text}", file=sys.stderr)
    if tally["missed"]:
        print(f"{tally['missed']} faults did not come to be: the run made fewer calls than before")
    if tally["closedir"]:
        print(f"{tally['closedir']} runs ended with the standard library's panic at a directory that could not be closed; all else held for them")
    print("writes without room: " + ", ".join(f"{count} of {what}" for what, count in short.items()))
    print(f"the next run was tried on {len(settled.done)} different states, {settled.count} times")
    print(f"{tally['kill']} kill points, {tally['error']} injected errors, {tally['short']} limits on the size of files, {tally['full']} full file systems, {len(wrong)} failures ({time.monotonic() - began:.0f} s)")
    return FAILED if wrong else PASSED


if __name__ == "__main__":
    sys.exit(main())
