#!/usr/bin/env python3
"""Writers at full speed beside a loop of repairs: no line may be lost, none may come twice.

A process appends 30,000 lines to a session, now and then one that is over the limit, in bursts with pauses of any length
between them, while the real `unwedge fix` runs over it again and again, and takes some of its repairs back. One writer opens
the file for every line; one keeps it open for a burst; both at once with their own files. As a control, the same writers run
beside a loop that repairs by writing a new file and renaming it over the old one, which must lose lines: else the test would
not notice.

    tests/faults/stress.py [--unwedge PROGRAM] [--lines N] [--seconds N]

Exit status: 0 none lost, 1 lines were lost, came twice, or the control lost none.
"""

import collections
import random
import sys

from place import *

OVER = "y" * (LIMIT + 500)
BURST = 60


def text(n):
    return result(f"t{n}", OVER, f"w{n}") if n % 40 == 0 else user(f"line {n}", f"w{n}")


def write(doc, lines, style, seconds, repaired):
    """The writer: a process of its own. Now and then it waits for a repair, so that a busy machine has as many."""
    rng = random.Random(style)
    pause = seconds / (lines / BURST)
    for first in range(1, lines + 1, BURST):
        burst = range(first, min(first + BURST, lines + 1))
        if style == "opens":
            for n in burst:
                fd = os.open(doc, os.O_WRONLY | os.O_APPEND)
                os.write(fd, text(n))
                os.close(fd)
        else:
            fd = os.open(doc, os.O_WRONLY | os.O_APPEND)
            for n in burst:
                os.write(fd, text(n))
                # Something to be caught in the middle of.
                if n % 20 == 0:
                    time.sleep(0.001)
            os.close(fd)
        before, until = repaired.value, time.monotonic() + 1.5
        while first // BURST % 3 == 0 and repaired.value == before and time.monotonic() < until:
            time.sleep(0.005)
        time.sleep(rng.uniform(0, 2 * pause))


def repairs(place, child, seen, repaired):
    """Repairs until the writer has ended, and takes every fourth repair back."""
    while child.is_alive():
        ran = place.fix(place.doc, "-q", "--diff", "none")
        if ran.status == 0:
            # Asked to be quiet, it prints what it found and nothing else.
            seen["repairs" if ran.out.strip() else "nothing to do"] += 1
            repaired.value = seen["repairs"]
        else:
            refused(ran, child, seen)
        if seen["repairs"] % 4 == 3:
            undone = place.run("undo", place.doc, "-q")
            if undone.status == 2:
                refused(undone, child, seen)
            else:
                # A text that was cut again since is left: 1.
                need(undone.status in (0, 1), undone)
                seen["undone"] += 1
        if seen["repairs"] % 16 == 0:
            need(place.run("backups", "prune", "--keep", "4").status == 0, "prune")


def refused(ran, child, seen):
    why = re.search(r": (in use|changed while|was replaced while)(?: by [^:]*\(pid (\d+)\))?", ran.err.decode())
    need(ran.status == 2 and why, "neither done nor a refusal that says why:", ran)
    seen["refused"] += 1
    if why.group(2):
        need(int(why.group(2)) == child.pid, "another process is named:", ran)
        seen["refused with the process named"] += 1


def renames(place, child, seen, repaired):
    """The control: what a plain atomic replace does."""
    while child.is_alive():
        old = place.doc.read_bytes()
        new = place.doc.with_name("new")
        new.write_bytes(old.replace(OVER.encode(), b"cut"))
        # A real repair proves and syncs in this time.
        time.sleep(0.002)
        os.rename(new, place.doc)
        seen["repairs"] += 1
        repaired.value += 1
        time.sleep(0.02)


def one(item):
    style, loop = item
    with Place(ARGS.unwedge) as place:
        place.put(place.doc, user("start"))
        seconds = ARGS.seconds if loop == "unwedge" else ARGS.seconds / 4
        lines = ARGS.lines if loop == "unwedge" else ARGS.lines // 4
        start, seen = time.monotonic(), collections.Counter()
        fork = multiprocessing.get_context("fork")
        repaired = fork.Value("i", 0)
        child = fork.Process(target=write, args=(place.doc, lines, style, seconds, repaired))
        child.start()
        try:
            (repairs if loop == "unwedge" else renames)(place, child, seen, repaired)
        finally:
            child.join(60)
        need(child.exitcode == 0, "the writer failed")
        if loop == "unwedge":
            need(place.fix(place.doc, "-q").status == 0, "the last repair")
            place.sound()
        numbers, torn = collections.Counter(), 0
        for record in place.doc.read_bytes().splitlines():
            found = re.search(rb'"uuid":"w(\d+)"\}$', record)
            try:
                json.loads(record)
            except ValueError:
                found = None
            if found:
                numbers[int(found.group(1))] += 1
            elif record != user("start").rstrip(b"\n"):
                torn += 1
        lost = sum(1 for n in range(1, lines + 1) if n not in numbers)
        twice = sum(1 for count in numbers.values() if count > 1)
        seconds = time.monotonic() - start
        return style, loop, lines, lost, twice, torn, seconds, seen


def main():
    items = [(style, loop) for loop in ("unwedge", "plain rename") for style in ("opens", "keeps")]
    results, failed = several(one, items, 2)
    for got in filter(None, results):
        style, loop, lines, lost, twice, torn, seconds, seen = got
        what = ", ".join(f"{count} {name}" for name, count in sorted(seen.items()))
        print(
            f"stress: a writer that {style} the file, beside {loop}: {lost} of {lines} lines lost, {twice} twice, "
            f"{torn} torn, in {seconds:.0f} s ({what})",
            flush=True,
        )
        if loop == "unwedge":
            if lost or twice or torn:
                failed.append((style, "lines were lost, came twice, or are torn"))
            if seen["repairs"] < 60 or seen["refused"] < 10:
                failed.append((style, "too few repairs met the writer: the test proves nothing"))
            if style == "keeps" and not seen["refused with the process named"]:
                failed.append((style, "the process was never named"))
        elif lost == 0:
            failed.append((style, "the plain rename lost nothing: the test would not notice"))
    return report(failed)


if __name__ == "__main__":
    ARGS = arguments(
        __doc__,
        lines={"type": int, "default": 30_000},
        seconds={"type": float, "default": 15.0, "help": "how long a writer pauses altogether, beside waiting for repairs"},
    )
    sys.exit(main())
