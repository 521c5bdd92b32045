"""The order of a run's calls, read from one trace: what must be on the disk before the next step relies on it.

Holds where nothing can be mounted, and for every file system: what a call did is taken to be lost by a power cut until its file,
or for names its directory, was synced. The reading is proved by leaving out syncs: that must be noticed.
"""
import re
from collections import namedtuple

Step = namedtuple("Step", "name paths text")                     # a call that was made and did not fail

FD = re.compile(r"(\d+|AT_FDCWD)<([^>]*)>")
NAMED = re.compile(r'(?:\d+|AT_FDCWD)<([^>]*)>, "((?:[^"\\]|\\.)*)"')


def steps(calls):
    """What changes files, with the absolute paths it speaks of."""
    found = []
    for call in calls:
        if "(INJECTED)" in call.text or " = -1 " in call.text:
            continue
        name, text = call.name, call.text
        if name in ("renameat2", "renameat", "unlinkat", "mkdirat") or name == "openat" and "O_CREAT" in text:
            paths = [n if n.startswith("/") else f"{d}/{n}" for d, n in NAMED.findall(text)]
        elif name in ("write", "pwrite64", "ftruncate", "fchmod", "fchown", "fsetxattr", "utimensat", "fsync", "fdatasync", "copy_file_range"):
            paths = [FD.match(text).group(2)] if FD.match(text) else []
        else:
            continue
        found.append(Step(name, paths, text))
    return found


def parent(path):
    return path.rpartition("/")[0]


def unmet(taken, vault):
    """Which promises the calls do not keep, and how many there were to keep."""
    data, names, wrong, promises = set(), set(), [], 0            # what a power cut would lose: bytes, and names that came or went

    def promise(what, lost):
        nonlocal promises
        promises += 1
        wrong.extend(f"{what}, and {path} is not on the disk" for path in sorted(lost))

    def kept(paths):
        # An agent's lock, and half a backup, need not outlive anything.
        return {path for path in paths if not path.endswith((".lock", "/locks")) and "/.part-" not in path}

    for step in taken:
        paths = [path.replace("(deleted)", "") for path in step.paths]
        if not paths:
            continue
        first = paths[0]
        lost = kept(data | names)
        vaults = {path for path in lost if path.startswith(vault)}
        if step.name in ("fsync", "fdatasync"):
            data.discard(first)
            names = {path for path in names if parent(path) != first}
        elif step.name in ("mkdirat", "openat"):
            names.add(first)
        elif step.name == "unlinkat":
            if "/.unwedge-" in first:
                promise("the old file's name goes", {path for path in lost if parent(path) == parent(first)})
                names.add(first)
            else:
                names.discard(first)
        elif step.name.startswith("rename"):
            second = paths[1]
            if "/.unwedge-" in first:
                promise("the new file gets the name", (data & {first}) | vaults)
            else:
                promise("the backup gets its name", data & {first})
            moved = {first: second, second: first if "EXCHANGE" in step.text else second}
            data = {moved.get(path, path) for path in data}
            names |= {first, second}
        elif step.text.startswith("1<"):
            promise("the report is printed", lost)
        elif not step.text.startswith("2<"):
            if '\\"intent\\"' in step.text:
                promise("the intent is written", vaults - {first})
            if '\\"done\\"' in step.text:
                promise("the document is noted as done", lost - {first})
            data.add(first)
    return wrong, promises


def synced(taken):
    """What is synced, and the places in the run at which it is."""
    at = {}
    for place, step in enumerate(taken):
        if step.name in ("fsync", "fdatasync") and step.paths:
            at.setdefault(step.paths[0], []).append(place)
    return at


def without(taken, places):
    return [step for place, step in enumerate(taken) if place not in places]


def judge(prepared):
    """Reads the order of one run. Returns what is wrong, and how many promises, syncs, and syncs that cannot be left out there were."""
    taken = steps(prepared.calls())
    vault = str(prepared.place.box / "state/unwedge")
    wrong, promises = unmet(taken, vault)
    wrong = [f"{prepared.case}: order of calls: {text}" for text in wrong]
    syncs = needed = 0
    named = {step.paths[0] for step in taken if step.name.startswith("rename")}
    for path, places in synced(taken).items():
        if "/.part-" in path and path not in named:
            continue                                              # a copy that turned out to be there already
        syncs += len(places)
        needed += sum(bool(unmet(without(taken, [place]), vault)[0]) for place in places)
        # One that can be left out is made good by the next of the same file. All of them cannot be left out.
        if not unmet(without(taken, places), vault)[0]:
            wrong.append(f"{prepared.case}: order of calls: nobody would notice that {path} is never synced")
    if promises < 6 or needed < 6:
        wrong.append(f"{prepared.case}: order of calls: only {promises} promises and {needed} syncs were seen")
    return wrong, promises, syncs, needed
