#!/usr/bin/env python3
"""Somebody writes to a conversation at every moment of its repair.

A real `unwedge fix`, and a real `undo`, is stopped after each of its system calls that look at the file system (`strace`
sends it SIGSTOP), a writer of each style acts there, and the run goes on. Afterwards every line the writer wrote is in the
file exactly once, what was there before is whole, cut or not, a refusal says why and names the process where it can be
known, nothing of ours is left, and the next run repairs. Prints how many moments it tried.

    tests/faults/live.py [--unwedge PROGRAM] [--every N] [--style NAME]

Exit status: 0 all held, 1 something did not, 3 skipped.
"""

import collections
import sys
import threading

from place import *

WRITER = "a line of the writer's, number "


class Writer:
    """An agent. What it does before the run, at the stop, and after the run."""

    # Whether what it does comes from its own memory, which is of before the repair.
    from_memory = False

    def __init__(self, place):
        self.place, self.doc, self.lines = place, place.doc, 0

    def line(self):
        self.lines += 1
        return user(f"{WRITER}{self.lines}.", f"w{self.lines}")

    def before(self):
        pass

    def act(self):
        pass

    def after(self):
        pass


class Appends(Writer):
    """Opens the file, appends a line, closes it."""

    def act(self):
        fd = os.open(self.doc, os.O_WRONLY | os.O_APPEND)
        os.write(fd, self.line())
        os.close(fd)


class Holds(Writer):
    """Has had the file open since before the run."""

    def before(self):
        self.fd = os.open(self.doc, os.O_WRONLY | os.O_APPEND)

    def act(self):
        os.write(self.fd, self.line())

    def after(self):
        os.write(self.fd, self.line())
        os.close(self.fd)


class Stays(Holds):
    """Opens the file midway, and keeps it open until after the run."""

    def before(self):
        pass

    def act(self):
        self.fd = os.open(self.doc, os.O_WRONLY | os.O_APPEND)
        os.write(self.fd, self.line())


class Rewrites(Writer):
    """Writes the whole file anew in place, from its memory."""

    from_memory = True

    def before(self):
        self.memory = self.doc.read_bytes()

    def act(self):
        fd = os.open(self.doc, os.O_WRONLY | os.O_TRUNC)
        os.write(fd, self.memory + self.line())
        os.close(fd)


class Replaces(Rewrites):
    """Writes the whole file anew beside it, and renames that over it."""

    def act(self):
        new = self.doc.with_name("agent.tmp")
        new.write_bytes(self.memory + self.line())
        os.rename(new, self.doc)


class Removes(Writer):
    """Removes the file."""

    def act(self):
        os.unlink(self.doc)


class Repairs(Writer):
    """Another unwedge."""

    def act(self):
        self.ran = self.place.fix(timeout=30)


STYLES = {c.__name__.lower(): c for c in (Appends, Holds, Stays, Rewrites, Replaces, Removes, Repairs)}
# What the program may say, and what it comes to.
REASONS = (
    "opens it for writing just now",
    "opened it for writing just then",
    "has the file open for writing",
    "another unwedge is repairing it",
    "was replaced while",
    "changed while",
    "vanished while",
    "it is no longer there",
    "cannot open",
)
TEXT = "".join(f"{n} bottles\n" for n in range(600))


def start(place, command):
    """A session before the run, and the arguments of the run."""
    place.put(place.doc, session(TEXT))
    if command == "undo":
        ran = place.fix()
        need(ran.status == 0, ran)
        return place.argv("undo", place.doc)
    return place.argv("fix", ".", "--size-threshold", str(LIMIT))


def whole(data, lines):
    """Checks the file, and says whether the text in it is cut."""
    parts = data.splitlines(keepends=True)
    theirs = [p for p in parts if WRITER.encode() in p]
    wanted = [user(f"{WRITER}{n}.", f"w{n}") for n in range(1, lines + 1)]
    need(sorted(theirs) == sorted(wanted), f"the writer wrote {lines} lines, and in the file are: {theirs}")
    ours = [p for p in parts if p not in theirs]
    old = session(TEXT).splitlines(keepends=True)
    need(len(ours) == len(old), "lines came or went:", len(ours), "for", len(old))
    need(ours[:2] == old[:2] and ours[3:] == old[3:], "a line that is no response changed")
    if ours[2] == old[2]:
        return False
    text = json.loads(ours[2])["message"]["content"][0]["content"]
    kept, marker = text.rsplit("\n", 1)
    need(MARKER.fullmatch(marker) and TEXT.startswith(kept), "neither the old text nor a cut of it")
    need(ours[2] == result("t1", text), "more of the line changed than the text")
    return True


def one(item):
    command, style, (name, number, where) = item
    with Place(ARGS.unwedge) as place:
        argv = start(place, command)
        writer = STYLES[style](place)
        writer.before()
        stop = Stop(place, argv, name, number)
        trouble = []

        def act():
            try:
                writer.act()
            except BaseException as e:
                trouble.append(e)

        # Who opens the file under our lease stands still until the run goes on.
        acting = threading.Thread(target=act)
        acting.start()
        acting.join(0.1 if style != "repairs" else 30)
        waited = acting.is_alive()
        stop.go_on()
        ran = stop.end()
        acting.join(30)
        need(not acting.is_alive(), "the writer was never let in")
        need(not trouble, "the writer failed:", trouble)
        writer.after()

        said = next((r for r in REASONS if r in ran.err.decode()), None)
        need(ran.status in (0, 2), "status:", ran)
        if ran.status == 2:
            need(said and SESSION in ran.err.decode(), "it does not say why:", ran)
            if "has the file open" in said or "just then" in said:
                need(f"(pid {os.getpid()})" in ran.err.decode(), "the writer is not named:", ran)
            if "another unwedge" in said:
                need(re.search(r"by \S+ \(pid \d+\)", ran.err.decode()), "the other unwedge is not named:", ran)
        if style == "holds":
            need(ran.status == 2, "it repaired what is open elsewhere", ran)
        if style == "repairs":
            need(writer.ran.status in (0, 2), writer.ran)
            said = said or (f"the other: {next((r for r in REASONS if r in writer.ran.err.decode()), 'done')}")
            if "another unwedge" in writer.ran.err.decode():
                need(f"(pid {stop.pid})" in writer.ran.err.decode(), "the first unwedge is not named:", writer.ran)
        if style == "removes":
            need(not place.doc.exists(), "it came back")
            place.sound()
            return style, command, ran.status, said or "done", stop.pid is not None, waited
        cut = whole(place.doc.read_bytes(), writer.lines)
        if ran.status == 0 and not (writer.from_memory and command == "fix"):
            need(cut == (command == "fix") or style == "repairs" or writer.from_memory, "it says done, and is not:", ran)
        if ran.status == 2 and style in ("appends", "stays", "holds"):
            need(cut == (command == "undo"), "it refused, and changed it all the same:", ran)
        place.sound()
        again = place.fix()
        need(again.status == 0, "the next run:", again)
        need(whole(place.doc.read_bytes(), writer.lines), "the next run did not repair")
        place.sound()
        return style, command, ran.status, said or "done", stop.pid is not None, waited


def main():
    if not can_trace():
        skip("strace is missing, or may not trace")
        return SKIPPED
    items = []
    for command, styles in (("fix", list(STYLES)), ("undo", ["appends", "stays", "replaces"])):
        with Place(ARGS.unwedge) as place:
            argv = start(place, command)
            ran, calls = trace(place, argv)
            need(ran.status == 0, ran)
            # The way to a directory is a moment for who swaps directories, not for who writes.
            moments = [m for m in points(calls, lambda text: SESSION in text) if "O_PATH" not in m[2]]
            # The harness would be blind if it did not see the steps that matter.
            for must in ("RENAME_EXCHANGE", "F_SETLEASE", "F_UNLCK", "fsync", "unlinkat"):
                need(any(must in text for _, _, text in moments), f"no {must} in the trace of {command}")
        chosen = [s for s in styles if not ARGS.style or s == ARGS.style]
        swap = next(n for n, (_, _, text) in enumerate(moments) if "RENAME_EXCHANGE" in text)
        # Around the swap every moment is its own case.
        few = [m for n, m in enumerate(moments) if n % ARGS.every == 0 or abs(n - swap) < 12]
        items += [(command, style, moment) for style in chosen for moment in few]
    results, failed = several(one, items, 2 * (os.cpu_count() or 2))
    reached = [r for r in results if r and r[4]]
    told = collections.Counter((r[1], r[0], r[3], r[2]) for r in reached)
    for (command, style, said, status), count in sorted(told.items()):
        print(f"  {command:4} {style:9} {count:4} × status {status}: {said}")
    waited = sum(1 for r in reached if r[5])
    print(
        f"live: {len(reached)} interleavings of {len({(r[0], r[1]) for r in reached})} kinds "
        f"({len(items) - len(reached)} moments were not reached, in {waited} the writer was held up), {len(failed)} failures"
    )
    sys.stdout.flush()
    if not failed and not ARGS.style:
        need(waited > 0, "no writer ever met the lease: the test does not reach the swap")
        need(len({r[0] for r in reached}) == len(STYLES), "a style was never tried")
    return report(failed)


if __name__ == "__main__":
    ARGS = arguments(
        __doc__,
        every={"type": int, "default": 1, "help": "only every N-th moment"},
        style={"choices": list(STYLES), "help": "only this style of writer"},
    )
    try:
        sys.exit(main())
    except Failed as e:
        sys.exit(f"live: {e}")
