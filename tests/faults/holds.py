"""What must hold after a fault: at once, and after the next run."""
import hashlib
import json
import os
import re
import stat

from harness import snapshot

OBJECT = re.compile(r"^objects/([0-9a-f]{2})/(\1[0-9a-f]{62})$")
DRAFT, PART = ".unwedge-", ".part-"
CHANCE = re.compile(rb"\d{8}-\d{6}-[0-9a-f]{4}|(?<=\.part-)[0-9a-f]{16}|\d{4}-\d\d-\d\dT[\d:.]+(?:Z|\+00:00)|(?<=\"pid\":)\d+")
# The standard library panics where a directory that was only read cannot be closed, which Linux never says.
CLOSEDIR = "unexpected error during closedir"


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def check(prepared, ran, killed):
    """What must hold, whatever went wrong. Returns what does not, and which streams are new."""
    place, wrong = prepared.place, []
    now = snapshot(place.box)
    new = set()
    for path in prepared.streams:
        there, was = now.get(path), prepared.things[path]
        if there is None:
            wrong.append(f"{path} is gone")
            continue
        if there.content == prepared.after[path]:
            new.add(path)
        elif there.content != prepared.before[path]:
            wrong.append(f"{path} is neither the old nor the new one, but {len(there.content)} bytes")
        if (there.mode, there.owner, there.attributes) != (was.mode, was.owner, was.attributes):
            wrong.append(f"{path}: mode, owner or attributes are {there[1:4]}, not {was[1:4]}")
    wrong += strangers(prepared, now, allowed=True)
    wrong += vault(prepared, now, new)
    # What was said. A line of the report is a promise.
    for line in ran.stdout.splitlines():
        said = re.match(r"cut [\w-]+: (.*?):\d+ ", line) or re.match(r"(.*): (?:the original, byte for byte|\d+ cuts? put back)", line)
        if said:
            path = os.path.relpath(os.path.join(place.box, said.group(1)), place.box)
            if path not in new:
                wrong.append(f"{path} is not the new one, and the run had said: {line}")
    if not killed:
        if ran.status not in (0, 2) and not (ran.status == 101 and CLOSEDIR in ran.stderr):
            wrong.append(f"exit status {ran.status}: {ran.stderr[-400:]}")
        elif ran.status == 0 and len(new) < len(prepared.streams):
            wrong.append("exit status 0, and not all is done")
    return wrong, new


def strangers(prepared, now, allowed):
    """Files that are not where they were, and files of ours that are where they were not. Not those of the vault."""
    wrong = []
    outside = lambda path: not path.startswith("state/unwedge")
    for path, was in prepared.things.items():
        if outside(path) and path not in prepared.streams and now.get(path) != was:
            wrong.append(f"{path} was {'removed' if path not in now else 'changed'}")
    for path in now:
        if not outside(path) or path in prepared.things or path == "state":
            continue
        ours = os.path.basename(path).startswith(DRAFT) or path.endswith(".lock") or os.path.basename(path) == "locks"
        # An empty folder for locks may stay: a kill between making it and the lock leaves no trace of who made it.
        if not (allowed and ours) and not (os.path.basename(path) == "locks" and not any(p.startswith(path + "/") for p in now)):
            wrong.append(f"{path} was left behind")
    return wrong


def vault(prepared, now, new):
    """Every backup is what its name says, and every stream that is new has one."""
    wrong, objects = [], set()
    prefix = "state/unwedge/"
    for path, thing in now.items():
        if not path.startswith(prefix):
            continue
        found = OBJECT.match(path[len(prefix):])
        directory = stat.S_ISDIR(thing.kind)
        if found and sha256(thing.content) != found.group(2):
            wrong.append(f"{path} is not what its name says: {len(thing.content)} bytes")
        elif found:
            objects.add(found.group(2))
        if thing.mode & 0o077:
            wrong.append(f"{path} has the mode {thing.mode:o}")
        if not found and not directory and os.path.basename(path)[:6] != PART and not path.startswith(prefix + "runs/"):
            wrong.append(f"{path} is nothing of ours")
    for path in sorted(new):
        if sha256(prepared.before[path]) not in objects:
            wrong.append(f"{path} is the new one, and there is no backup of the old one")
    return wrong


def state(prepared):
    """The box as the next run finds it, but for what differs by chance: ids, times, the place. Runs are the same where it is."""
    text = lambda data: CHANCE.sub(b"*", data.replace(os.fsencode(prepared.place.root), b"@"))
    things = snapshot(prepared.place.box).items()
    seen = [(text(os.fsencode(path)), *t[:4], text(os.fsencode(t.content)) if t.content is not None else None) for path, t in things]
    return sha256(repr((prepared.case, sorted(seen, key=repr))).encode())


class Settled:
    """What the next runs came to. Each kind is tried once on every state that faults leave; with `always`, one every time."""

    def __init__(self, always=False):
        self.always, self.done, self.count = always, {}, 0

    def next_run(self, prepared, new):
        key = state(prepared)
        done = self.done.setdefault(key, [])
        ways = ["verify", "run", "undo"] if prepared.args[0] == "fix" else ["verify", "run"]
        if len(done) < len(ways) or self.always:
            found = []
            done.append(found)
            self.count += 1
            found += settle(prepared, new, ways[(len(done) - 1) % len(ways)])
            return found
        return [text for found in done for text in found]


def settle(prepared, new, first):
    """The next run: it cleans up, says the truth about what was done, does the rest, and can be undone."""
    place, wrong = prepared.place, []
    if first == "verify":
        verified = place.run(["backups", "verify", "--output-format", "json"])
        if verified.status != 0:
            return [f"backups verify ended with {verified.status}: {verified.stdout}{verified.stderr}"]
        left = [p for p in snapshot(place.box) if os.path.basename(p).startswith((DRAFT, PART))]
        if left:
            wrong.append(f"backups verify left {left}: {json.loads(verified.stdout)['recovered']}")
        wrong += listed(prepared, new)
    if first == "undo":
        for run in reversed([run for run in runs(place) if run["run"] not in prepared.known]):
            undone = place.run(["undo", run["run"], "--min-idle", "0"])
            if undone.status != 0:
                wrong.append(f"undo {run['run']} ended with {undone.status}: {undone.stdout}{undone.stderr}")
        now = snapshot(place.box)
        wrong += [f"{path} does not come back byte for byte" for path in prepared.streams if now[path].content != prepared.before[path]]
        new = set()
    again = place.run(prepared.args)
    if again.status != 0:
        return wrong + [f"the next run ended with {again.status}: {again.stdout}{again.stderr}"]
    now = snapshot(place.box)
    for path in prepared.streams:
        if now[path].content != prepared.after[path]:
            wrong.append(f"{path} is not the new one after the next run")
    wrong += strangers(prepared, now, allowed=False)
    wrong += vault(prepared, now, set(prepared.streams))
    wrong += [f"{path} was left behind" for path in now if os.path.basename(path).startswith(PART)]
    if first == "undo":
        return wrong                                             # the journal now tells a longer story
    wrong += listed(prepared, set(prepared.streams))
    # Back again, run by run.
    for run in reversed(runs(place)):
        if run["run"] not in prepared.known and any(d["done"] for d in run["documents"]):
            undone = place.run(["undo", run["run"], "--min-idle", "0"])
            if undone.status != 0:
                wrong.append(f"undo {run['run']} ended with {undone.status}: {undone.stdout}{undone.stderr}")
    now = snapshot(place.box)
    for path in prepared.streams:
        if now[path].content != prepared.before[path]:
            wrong.append(f"{path} does not come back byte for byte")
    wrong += strangers(prepared, now, allowed=False)
    return wrong


def runs(place):
    return json.loads(place.expect(["backups", "list", "--output-format", "json"]).stdout)["runs"]


def listed(prepared, new):
    """The journal has an end for every run, and lists exactly the streams that are new."""
    wrong, done = [], []
    for run in runs(prepared.place):
        if run["state"] != "done":
            wrong.append(f"run {run['run']} is {run['state']}")
        if run["run"] not in prepared.known:
            done += [os.path.relpath(d["path"], prepared.place.box) for d in run["documents"] if d["done"]]
    if sorted(done) != sorted(new):
        wrong.append(f"the journal says that {sorted(done)} are done, and {sorted(new)} are")
    return wrong
