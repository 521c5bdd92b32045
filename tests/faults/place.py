"""What the scripts beside this one share: a place to run the program in, sessions, and runs that can be stopped midway.

Python's standard library only. The program is the real binary; nothing here knows its source.
"""

import argparse
import hashlib
import json
import multiprocessing
import os
import re
import resource
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SESSION = "0f0f0f0f-0000-4000-8000-000000000001"
# The limit of these runs: sessions can be small, and runs fast.
LIMIT = 1000
SKIPPED = 3


class Failed(AssertionError):
    """What does not hold."""


def need(holds, *what):
    if not holds:
        raise Failed(" ".join(str(w) for w in what))


def arguments(doc, **more):
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--unwedge", default=os.environ.get("UNWEDGE", str(ROOT / "target/debug/unwedge")))
    for name, given in more.items():
        parser.add_argument(f"--{name}", **given)
    args = parser.parse_args()
    args.unwedge = str(Path(args.unwedge).resolve())
    if not os.access(args.unwedge, os.X_OK):
        sys.exit(f"no program at {args.unwedge}: build it, or name it with --unwedge")
    return args


def skip(why):
    print(f"!!!! SKIPPED: {why} !!!!", file=sys.stderr, flush=True)


def can_trace():
    if not shutil.which("strace"):
        return False
    ran = subprocess.run(["strace", "-qq", "-o", os.devnull, "true"], capture_output=True)
    return ran.returncode == 0


# Sessions: Claude Code's, as it has the plainest lines.


def line(value):
    return (json.dumps(value, separators=(",", ":"), ensure_ascii=False) + "\n").encode("utf-8", "surrogatepass")


def user(text, uuid="u"):
    message = {"role": "user", "content": text}
    return line({"parentUuid": None, "sessionId": SESSION, "type": "user", "message": message, "uuid": uuid})


def call(id, tool="Bash", text="", uuid="a"):
    content = [{"type": "tool_use", "id": id, "name": tool, "input": {"command": text}}]
    message = {"id": f"msg_{id}", "role": "assistant", "content": content}
    return line({"parentUuid": "u", "sessionId": SESSION, "type": "assistant", "message": message, "uuid": uuid})


def result(id, text, uuid="r", **more):
    content = [{"tool_use_id": id, "type": "tool_result", "content": text}]
    record = {"parentUuid": "a", "sessionId": SESSION, "type": "user", "message": {"role": "user", "content": content}}
    return line({**record, **more, "uuid": uuid})


def session(text="x" * 5000):
    """A session with one response over the limit and something after it."""
    return user("start") + call("t1") + result("t1", text) + user("the end of it", "z")


MARKER = re.compile(r"\.\.\. \[truncated, [^\]]* → [^\]]*\]")


# Every run syncs some twenty times, and here that proves nothing: in memory it is free.
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


class Place:
    """A home, a state directory and a work tree that are thrown away."""

    def __init__(self, unwedge, where=MEMORY):
        self.unwedge = unwedge
        self.dir = Path(tempfile.mkdtemp(prefix="unwedge-faults-", dir=where))
        self.home, self.state, self.tree = self.dir / "home", self.dir / "state", self.dir / "tree"
        for path in (self.home, self.state, self.tree):
            path.mkdir()
        self.vault = self.state / "unwedge"
        self.doc = self.tree / ".claude/projects/p" / f"{SESSION}.jsonl"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.dir, ignore_errors=True)

    def put(self, path, data):
        path = self.tree / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path

    def env(self):
        keep = {k: v for k, v in os.environ.items() if k in ("PATH", "LANG", "LD_LIBRARY_PATH")}
        return {**keep, "HOME": str(self.home), "XDG_STATE_HOME": str(self.state), "RUST_BACKTRACE": "0"}

    def argv(self, *args):
        words = [self.unwedge, *[os.fsencode(a) if isinstance(a, (Path, bytes)) else a for a in args]]
        if args and args[0] in ("fix", "undo"):
            words += ["--min-idle", "0"]
        if args and args[0] in ("fix", "check"):
            words += ["--isolated", "-j", "1"]
        return words

    def run(self, *args, **more):
        return Ran(self.argv(*args), cwd=self.tree, env=self.env(), **more)

    def fix(self, path=".", *args, **more):
        return self.run("fix", path, "--size-threshold", str(LIMIT), *args, **more)

    def check(self, path=".", *args, **more):
        return self.run("check", path, "--size-threshold", str(LIMIT), *args, **more)

    def json(self, *args, **more):
        ran = self.run(*args, "--output-format", "json", **more)
        return ran, json.loads(ran.out)

    def run_ids(self):
        _, listed = self.json("backups", "list")
        return [run["run"] for run in listed["runs"]]

    def leftovers(self):
        """Whatever of ours lies in the work tree."""
        return [str(p) for p in self.tree.rglob("*unwedge*")]

    def sound(self):
        """Nothing of ours is left beside the document, and the backups are what they are named by."""
        need(not self.leftovers(), "left behind:", self.leftovers())
        ran = self.run("backups", "verify")
        need(ran.status == 0, "backups verify:", ran)
        for path in self.vault.glob("objects/*/*"):
            need(hashlib.sha256(path.read_bytes()).hexdigest() == path.name, "a damaged object", path)


class Ran:
    """A run that ended: how, with what output, and how much memory it took at most."""

    def __init__(self, argv, timeout=60, memory=None, umask=None, uid=None, stdin=subprocess.DEVNULL, **more):
        def before():
            if memory:
                resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
            if umask is not None:
                os.umask(umask)
            if uid is not None:
                os.setgroups([])
                os.setgid(uid)
                os.setuid(uid)

        start = time.monotonic()
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            child = subprocess.Popen(argv, stdin=stdin, stdout=out, stderr=err, preexec_fn=before, **more)
            killer = None
            try:
                killer = threading.Timer(timeout, child.kill)
                killer.start()
                _, status, used = os.wait4(child.pid, 0)
            finally:
                if killer:
                    killer.cancel()
            child.returncode = os.waitstatus_to_exitcode(status)
            out.seek(0)
            err.seek(0)
            self.out, self.err = out.read(), err.read()
        self.status = child.returncode
        self.seconds = time.monotonic() - start
        self.peak = used.ru_maxrss * 1024
        self.argv = argv

    def __str__(self):
        words = " ".join(os.fsdecode(a) for a in self.argv)
        return f"{words}\n  status {self.status}\n{self.text()}"

    def text(self):
        return f"{self.out.decode(errors='replace')}{self.err.decode(errors='replace')}"


# A run that is stopped at one of its system calls.

# All that look at a file system or change it, locks and leases among them.
CALLS = (
    "openat open creat read pread64 write pwrite64 close fsync fdatasync rename renameat renameat2 unlink unlinkat mkdir "
    "mkdirat rmdir chmod fchmod fchmodat chown fchown fchownat fsetxattr flistxattr fgetxattr ftruncate stat fstat lstat "
    "statx newfstatat flock fcntl copy_file_range ioctl utimensat getdents64 readlink readlinkat fadvise64 lseek"
).split()


def trace(place, argv):
    """The system calls of a run that look at a file system, in order: their names and the lines of the trace."""
    log = place.dir / "trace"
    command = ["strace", "-f", "-y", "-s", "300", "-qq", "-o", str(log), "-e", f"trace={','.join(CALLS)}", *argv]
    ran = Ran(command, cwd=place.tree, env=place.env())
    calls = []
    for text in log.read_text(errors="replace").splitlines():
        found = re.match(r"\d+ +(\w+)\(", text)
        if found:
            calls.append((found.group(1), text))
    return ran, calls


class Stop:
    """A run that stands still after its N-th call of one name."""

    def __init__(self, place, argv, name, number):
        self.out, self.err = tempfile.TemporaryFile(), tempfile.TemporaryFile()
        self.log = place.dir / "stop"
        self.log.write_bytes(b"")
        inject = f"inject={name}:signal=STOP:when={number}"
        command = ["strace", "-f", "-o", str(self.log), "-e", f"trace={name}", "-e", inject, *argv]
        self.argv = argv
        self.tracer = subprocess.Popen(
            command, cwd=place.tree, env=place.env(), stdin=subprocess.DEVNULL, stdout=self.out, stderr=self.err
        )
        self.pid = self._wait_for_stop()

    def _wait_for_stop(self):
        """The process once it stands still; `None` where it ended before that call."""
        until = time.monotonic() + 30
        while time.monotonic() < until:
            ended = self.tracer.poll() is not None
            # Its state alone would not do: under a tracer a process stands still for a moment at each call.
            found = re.search(rb"^(\d+) +--- stopped by SIGSTOP ---", self.log.read_bytes(), re.M)
            if found:
                return int(found.group(1))
            if ended:
                return None
            time.sleep(0.002)
        self.tracer.kill()
        raise Failed("neither stopped nor ended:", self.argv)

    def go_on(self):
        if self.pid:
            os.kill(self.pid, signal.SIGCONT)

    def end(self, timeout=60):
        """Lets it end, and gives its output as [`Ran`] has it."""
        try:
            self.tracer.wait(timeout)
        except subprocess.TimeoutExpired:
            if self.pid:
                os.kill(self.pid, signal.SIGKILL)
            self.tracer.kill()
            raise Failed("it hangs:", self.argv) from None
        ran = Ran.__new__(Ran)
        self.out.seek(0)
        self.err.seek(0)
        ran.out, ran.err, ran.status, ran.argv = self.out.read(), self.err.read(), self.tracer.returncode, self.argv
        self.out.close()
        self.err.close()
        return ran


def points(calls, since):
    """The stop points of a trace: name, number and text of each call, from the first one that `since` is true of."""
    counts, found, begun = {}, [], False
    for name, text in calls:
        counts[name] = counts.get(name, 0) + 1
        begun = begun or since(text)
        # What only asks about a descriptor, or about a component of a path, parts no two moments.
        idle = "F_GETFD" in text or (name == "readlink" and "EINVAL" in text)
        if begun and not idle:
            found.append((name, counts[name], text))
    return found


def several(work, items, jobs=None):
    """Does the work for each item in several processes, as threads that fork would hand descriptors to each other's children.

    Gives the results, and the failures as item and text.
    """
    items = list(items)
    results, failed = [], []
    with ProcessPoolExecutor(jobs or os.cpu_count() or 2, multiprocessing.get_context("fork")) as pool:
        for item, (value, error) in zip(items, pool.map(Caught(work), items, chunksize=4)):
            results.append(value)
            if error:
                failed.append((item, error))
    return results, failed


class Caught:
    def __init__(self, work):
        self.work = work

    def __call__(self, item):
        try:
            return self.work(item), None
        except Failed as e:
            return None, str(e)
        except Exception:  # Whatever it is, it is a failure of this item.
            return None, traceback.format_exc()


def report(failed):
    for item, error in failed[:20]:
        print(f"FAILED {item}\n  {error}", file=sys.stderr)
    if len(failed) > 20:
        print(f"... and {len(failed) - 20} more", file=sys.stderr)
    return 1 if failed else 0


def mode(path):
    return stat.S_IMODE(os.lstat(path).st_mode)
