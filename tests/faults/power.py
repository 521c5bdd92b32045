#!/usr/bin/env python3
"""Cuts the power in the middle of real repairs and undos, on real file systems.

    tests/faults/power.py [--unwedge PATH] [--dir DIR] [--every N] [--all] [--only WORD] [--jobs N] [-v]

For each point a run works on a file system in an image on a loop device, streams and backups both, mounted so that nothing is
written out but what is synced. It is killed; the image is copied as it is then; the copy is mounted, as after a power cut, and
checked: every stream is the old one or the new one, whole; a new one has its backup; what was printed, or an exit status of 0, is
true. Then the run is repeated there, and undone. File systems: ext4, ext4 without its repair of delayed allocation
(noauto_da_alloc), xfs, btrfs. Points: after every call that changes something, and after the end.

The harness is proved by planted bugs: no sync of the new file, no sync of the backup, no sync after the exchange, no backup, and
the bytes rewritten in place. Each must be noticed on at least one file system.

First, and also where nothing can be mounted, the order of calls is read from traces (order.py), and each sync is left out in turn:
that must be noticed, unless the next sync of the same file makes good for it before anything relies on it.

Exit status: 0 all of it holds, 1 something does not, 3 all of that holds which can be done here, and something was skipped.
"""
import argparse
import os
import shutil
import subprocess
import sys
import time
from collections import Counter

from cases import CONTROL, FIX, prepare
from harness import CHANGING, FAILED, PASSED, SKIPPED, Fault, Place, Prepared, arguments, can_trace, in_parallel, loud, own_mounts, scratch
from holds import check, settle
import order

# Name: how it is made, its size, how it is mounted.
KINDS = {
    "ext4": (["mkfs.ext4", "-q", "-F"], "24M", "commit=600"),
    "ext4 noauto_da_alloc": (["mkfs.ext4", "-q", "-F"], "24M", "commit=600,noauto_da_alloc"),
    "xfs": (["mkfs.xfs", "-q", "-f"], "320M", "nouuid"),
    "btrfs": (["mkfs.btrfs", "-q", "-f"], "128M", "commit=600"),
}
PACKAGES = {"mkfs.xfs": "xfsprogs", "mkfs.btrfs": "btrfs-progs"}


class Disk:
    """A kind of file system for one place: images, and the one mount point that a place has."""

    def __init__(self, kind, place):
        self.kind, self.place = kind, place
        self.make, self.size, self.options = KINDS[kind]

    def mount(self, image):
        subprocess.run(["mount", "-o", f"loop,{self.options}", image, self.place.box], check=True, stderr=subprocess.PIPE)

    def unmount(self):
        # A process that another thread has just forked holds what this one had open, until it is another program.
        for wait in (0, 0.01, 0.05, 0.2, 1):
            time.sleep(wait)
            done = subprocess.run(["umount", self.place.box], stderr=subprocess.PIPE)
            if done.returncode == 0:
                return
        raise RuntimeError(done.stderr.decode("utf-8", "replace"))

    def image(self, name):
        return str(self.place.root / name)

    def base(self, prepared):
        """An image that holds a case as it is before the run."""
        image = self.image(f"base {self.kind} {prepared.case}")
        if not os.path.exists(image):
            subprocess.run(["truncate", "-s", self.size, image], check=True)
            subprocess.run([*self.make, image], check=True, stdout=subprocess.DEVNULL)
            self.mount(image)
            prepared.start()
            self.unmount()
        return image

    def cut(self, prepared, fault):
        """One run, and a power cut at its end or where it is killed; leaves mounted what is left."""
        live, left = self.image("live"), self.image("left")
        copy(self.base(prepared), live)
        self.mount(live)
        try:
            ran = prepared.go(fault)
            copy(live, left)
        finally:
            self.unmount()
        self.mount(left)
        return ran


def copy(source, target):
    if os.path.exists(target):
        os.unlink(target)
    subprocess.run(["cp", "--sparse=always", source, target], check=True)


def available(kind, place):
    """Why a kind of file system cannot be had, if it cannot."""
    disk = Disk(kind, place)
    if not shutil.which(disk.make[0]):
        package = PACKAGES.get(disk.make[0])
        if package and os.geteuid() == 0 and shutil.which("apt-get"):
            subprocess.run(f"{{ apt-get update && apt-get install --yes {package}; }} >/dev/null 2>&1", shell=True)
    if not shutil.which(disk.make[0]):
        return f"there is no {disk.make[0]}"
    image = disk.image("try")
    try:
        subprocess.run(["truncate", "-s", disk.size, image], check=True)
        subprocess.run([*disk.make, image], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        disk.mount(image)
        disk.unmount()
    except subprocess.CalledProcessError as e:
        return (e.stderr or b"it failed").decode("utf-8", "replace").strip().splitlines()[-1]
    finally:
        os.unlink(image)
    return None


def points(calls):
    """Where the power is cut: before each call that follows one which changes something. `None`: after the end."""
    after = [call for before, call in zip(calls, calls[1:]) if before.name in CHANGING or "O_CREAT" in before.text]
    return [*after, None]


def fault(call, planted=()):
    kill = [f"{call.name}:signal=KILL:when={call.nth}"] if call else []
    return Fault(f"cut at {call.name} {call.nth} ({call.text[:70]})" if call else "cut after the end", [*planted, *kill], None)


def one(disk, prepared, what, number, whole=True):
    """One power cut. Returns what does not hold."""
    ran = disk.cut(prepared, what)
    try:
        wrong, new = check(prepared, ran, killed=ran.status == -9)
        if whole and not wrong:
            wrong = settle(prepared, new, "verify" if number % 2 else "run")
        return [f"{disk.kind}: {prepared.case}: {what.what}: {text}" for text in wrong], ran
    finally:
        disk.unmount()


def bugs(place):
    """The planted bugs: a name, a case, the calls that are left out though they seem to be made, and where to cut."""
    fresh = prepare(place, "lines")
    calls = fresh.calls()
    swap = next(i for i, call in enumerate(calls) if "RENAME_EXCHANGE" in call.text)
    late = [c for c in calls[swap:] if c.name in ("newfstatat", "unlinkat", "write", "close")][::3] + [None]
    skipped = lambda names, mark: [f"{c.name}:retval=0:when={c.nth}" for c in calls if c.name in names and mark in c.text]
    first = next(c for c in calls[swap:] if c.name == "fsync")
    wanted = place.root / "wanted"
    wanted.write_bytes(fresh.after[fresh.streams[0]])
    control = [str(place.box / fresh.streams[0]), str(wanted), str(place.box / "state/unwedge")]
    in_place = Prepared("lines", place, fresh.template, control, fresh.streams, fresh.before, fresh.after, [sys.executable, "-I", "-S", str(CONTROL), "in-place"])
    target = "/" + fresh.streams[0] + ">"
    writes = [call for before, call in zip(in_place.calls(), in_place.calls()[1:]) if target in before.text and before.name in CHANGING]
    bare = Prepared("lines", place, fresh.template, ["fix", "--no-backup", *FIX[1:]], fresh.streams, fresh.before, fresh.after)
    return [
        ("no sync of the new file", fresh, skipped(["fsync"], "/.unwedge-"), late),
        # The hint that the pages are not needed starts to write them out, so that must go too.
        ("no sync of the backup", fresh, skipped(["fsync", "fadvise64"], "/.part-"), late),
        ("no sync after the exchange", fresh, [f"fsync:retval=0:when={first.nth}+"], [None]),
        ("no backup", bare, [], [None]),
        ("rewriting in place", in_place, [], writes),
    ]


def planted(places, kinds):
    """Returns the bugs that nobody noticed."""
    found = {}

    def work(place, kind):
        for bug, prepared, injected, cuts in bugs(place):
            for cut in cuts:
                wrong, _ = one(Disk(kind, place), prepared, fault(cut, injected), 0, whole=False)
                if wrong:
                    found.setdefault(bug, {})[kind] = wrong[0].split(": ", 3)[3]
                    break
        return [bug for bug, *_ in bugs(place)]

    names = in_parallel(places, kinds, work)[0]
    for bug in names:
        for kind, text in found.get(bug, {}).items():
            print(f"planted bug: {bug}: noticed on {kind}: {text[:150]}")
    return [f"planted bug: {bug}: noticed on none of {', '.join(kinds)}" for bug in names if bug not in found]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--all", action="store_true", help="more cases: JP's, and undos after later turns")
    options = arguments(parser)
    own_mounts()
    if not can_trace():
        loud("SKIPPED: power cuts: there is no strace here that can inject faults")
        return SKIPPED
    began, tally, skipped = time.monotonic(), Counter(), False
    with scratch(options.dir) as root:
        places = []
        for number in range(options.jobs):
            places.append(Place(f"{root}/{number}", options.unwedge))
            places[-1].box.mkdir(parents=True)
        wrong, sums = [], [0, 0, 0]
        for case in ("lines", "jp", "several", "undo-lines", "undo-jp", "grown-lines"):
            found, *counts = order.judge(prepare(places[0], case))
            wrong += found
            sums = [a + b for a, b in zip(sums, counts)]
        print("order of calls: {} promises in 6 runs, {} failures; {} syncs, of which {} were noticed as missing when left out alone".format(sums[0], len(wrong), *sums[1:]))
        kinds = []
        for kind in KINDS:
            why = available(kind, places[0])
            if why:
                skipped = True
                loud(f"SKIPPED: power cuts on {kind}: {why}")
            elif not options.only or options.only in kind:
                kinds.append(kind)
        if kinds:
            wrong += planted(places, kinds)
        cases = ["lines", "undo-lines"] + (["jp", "several", "undo-jp", "grown-lines"] if options.all else [])
        jobs = []
        for case in cases:
            calls = prepare(places[0], case).calls()
            jobs += [(kind, case, point) for kind in kinds for point in points(calls)[::options.every]]

        def work(place, numbered):
            number, (kind, case, point) = numbered
            found, ran = one(Disk(kind, place), prepare(place, case), fault(point), number)
            tally[kind] += 1
            if point and not ran.injected:
                tally["missed"] += 1
            if options.verbose or found:
                print(f"{kind} {case} {fault(point).what}: {found or 'holds'}", flush=True)
            return found

        # A place makes each of its images once, so neighbours go together.
        wrong += [text for found in in_parallel(places, list(enumerate(jobs)), work) for text in found]
    for text in wrong[:60]:
        print(f"FAILED {text}", file=sys.stderr)
    if tally["missed"]:
        print(f"{tally['missed']} cuts did not come to be: the run made fewer calls than before")
    per_kind = ", ".join(f"{tally[kind]} on {kind}" for kind in kinds) or "none"
    print(f"{sum(tally[kind] for kind in kinds)} power cuts ({per_kind}), {len(wrong)} failures ({time.monotonic() - began:.0f} s)")
    return FAILED if wrong else SKIPPED if skipped else PASSED


if __name__ == "__main__":
    sys.exit(main())
