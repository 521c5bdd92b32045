"""What crash.py and power.py share: boxes with a conversation in them, and the real program in them under strace."""
import concurrent.futures
import os
import queue
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from collections import Counter, namedtuple
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PASSED, FAILED, SKIPPED = 0, 1, 3
SECONDS = 10                                                     # a run that takes longer hangs
# Every call that touches the file system, and close, with which some file systems tell of a write that failed.
CALLS = """open openat creat read pread64 readv preadv write pwrite64 writev pwritev close fsync fdatasync sync_file_range rename
renameat renameat2 link linkat unlink unlinkat mkdir mkdirat rmdir symlink symlinkat chmod fchmod fchmodat chown fchown fchownat
getxattr fgetxattr listxattr flistxattr setxattr fsetxattr removexattr fremovexattr truncate ftruncate fallocate stat fstat lstat
newfstatat statx statfs fstatfs access faccessat faccessat2 readlink readlinkat getdents64 getcwd flock fcntl ioctl
copy_file_range sendfile utimensat fadvise64 lseek""".split()
# The calls after which something else is on the disk, or would be after a sync.
CHANGING = """write pwrite64 writev pwritev fsync fdatasync rename renameat renameat2 link linkat unlink unlinkat mkdir mkdirat
rmdir symlink symlinkat chmod fchmod fchmodat chown fchown fchownat setxattr fsetxattr removexattr fremovexattr truncate
ftruncate fallocate copy_file_range sendfile utimensat fadvise64""".split()
LINE = re.compile(r"^(?:\d+ +)?(\w+)\((.*)$")

Call = namedtuple("Call", "name nth text")                       # the nth of its name in the process
Ran = namedtuple("Ran", "status stdout stderr injected")
Fault = namedtuple("Fault", "what inject limit")                 # its name; strace's injections; the most bytes of a file


def loud(text):
    print(f"\n!!!! {text} !!!!\n", flush=True)

# What one thread has open for writing is, for a moment, open in a process that another thread forks, and would be seen as a
# writer. So nobody writes to a box while somebody forks.
FORKING = threading.RLock()


class Place:
    """A directory for one worker: the box that runs see, always at one path, as the journal keeps absolute ones."""

    def __init__(self, root, program):
        self.root, self.program = Path(root), program
        self.box = self.root / "box"
        self.cache = {}

    def run(self, args, fault=None, program=None, trace=None, log=None):
        command = [str(self.program)] if program is None else program
        command = command + args
        if fault and fault.inject or trace:
            log = log or self.root / "strace.log"
            names = trace or sorted({one.split(":")[0] for one in fault.inject})
            strace = ["strace", "-f", "-qq", "-y", "-s", "24", "-o", str(log), "-e", "trace=" + ",".join("?" + n for n in names)]
            for one in fault.inject if fault else ():
                strace += ["-e", "inject=" + one]
            command = strace + command
        else:
            log = None
        env = {"PATH": os.environ["PATH"], "HOME": str(self.box / "home"), "XDG_STATE_HOME": str(self.box / "state"), "RUST_BACKTRACE": "0"}
        limit = (lambda: limited(*fault.limit)) if fault and fault.limit else None
        with FORKING:
            process = subprocess.Popen(command, cwd=self.box, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, preexec_fn=limit)
        try:
            out, err = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            return Ran("hangs", out.decode("utf-8", "replace"), err.decode("utf-8", "replace"), 1)
        injected = 0
        if log and fault:
            text = log.read_text(errors="replace")
            injected = text.count("(INJECTED)") + text.count("+++ killed by SIGKILL +++")
        return Ran(process.returncode, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"), injected)

    def expect(self, args, status=0):
        ran = self.run(args)
        if ran.status != status:
            raise AssertionError(f"unwedge {' '.join(args)} ended with {ran.status}, not {status}:\n{ran.stdout}{ran.stderr}")
        return ran

    def fill(self, template):
        """Makes the box what a template is."""
        with FORKING:
            empty(self.box)
            copy_tree(template, self.box)


def limited(size, ignore):
    import resource
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN if ignore else signal.SIG_DFL)


def empty(directory):
    for name in os.listdir(directory) if os.path.isdir(directory) else ():
        path = os.path.join(directory, name)
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)


def copy_tree(source, target):
    """With owners, modes, times and extended attributes."""
    os.makedirs(target, exist_ok=True)
    for entry in list(os.scandir(source)):
        there = os.path.join(target, entry.name)
        if entry.is_symlink():
            os.symlink(os.readlink(entry.path), there)
            continue
        if entry.is_dir():
            copy_tree(entry.path, there)
        else:
            shutil.copyfile(entry.path, there)
        status = entry.stat()
        if os.geteuid() == 0:
            os.chown(there, status.st_uid, status.st_gid)
        shutil.copystat(entry.path, there)


Thing = namedtuple("Thing", "kind mode owner attributes time content")


def snapshot(root):
    """Everything below a directory, by its path. The time is a file's own: entries come and go in a directory."""
    things = {}
    stack = [root]
    while stack:
        for entry in os.scandir(stack.pop()):
            status = entry.stat(follow_symlinks=False)
            path = os.path.relpath(entry.path, root)
            kind, content, when, attributes = stat.S_IFMT(status.st_mode), None, None, ()
            if entry.is_symlink():
                content = os.readlink(entry.path)
            elif entry.is_dir():
                stack.append(entry.path)
            else:
                when = status.st_mtime_ns
                with open(entry.path, "rb") as file:
                    content = file.read()
                try:
                    attributes = tuple((n, os.getxattr(entry.path, n)) for n in sorted(os.listxattr(entry.path)) if n.startswith("user."))
                except OSError:
                    attributes = ()
            things[path] = Thing(kind, stat.S_IMODE(status.st_mode), (status.st_uid, status.st_gid), attributes, when, content)
    return things


class Prepared:
    """A case in one place: the box before the run, and the bytes before and after."""

    def __init__(self, case, place, template, args, streams, before, after, program=None):
        self.case, self.place, self.template, self.args, self.streams = case, place, template, args, streams
        self.before, self.after = before, after
        self.program = program                                   # another one than unwedge
        self.things = snapshot(template)
        runs = template / "state/unwedge/runs"
        self.known = {name[:-6] for name in os.listdir(runs)} if runs.is_dir() else set()

    def start(self):
        self.place.fill(self.template)

    def go(self, fault=None):
        return self.place.run(self.args, fault, self.program)

    def calls(self):
        """The calls of a run that nothing disturbs, from where the program itself begins, and the log."""
        self.start()
        log = self.place.root / "baseline.log"
        names = [*CALLS, "rt_sigaction", "execve"]
        ran = self.place.run(self.args, None, self.program, trace=names, log=log)
        assert ran.status == 0, f"{self.case}: the undisturbed run ended with {ran.status}:\n{ran.stdout}{ran.stderr}"
        return parse(log.read_text(errors="replace"))


def parse(log):
    """strace's log as calls, without what the loader and the runtime do before `main`."""
    counts, calls, started = Counter(), [], False
    for line in log.splitlines():
        found = LINE.match(line)
        if not found:
            continue
        name, text = found.groups()
        counts[name] += 1
        started = started or "SIGPIPE" in text                    # the first thing that either runtime does
        own = "/maps>" in text or "/proc/self/maps" in text
        # A debug build's standard library looks at each descriptor that it closes. It touches no file.
        if started and not own and name in CALLS and "F_GETFD" not in text:
            calls.append(Call(name, counts[name], text))
    return calls


def in_parallel(places, jobs, work):
    """Does jobs, as many at a time as there are places. Returns what `work(place, job)` returned, in no order."""
    free = queue.SimpleQueue()
    for place in places:
        free.put(place)

    def one(job):
        place = free.get()
        try:
            return work(place, job)
        finally:
            free.put(place)

    with concurrent.futures.ThreadPoolExecutor(len(places)) as pool:
        return list(pool.map(one, jobs))


def can_trace():
    try:
        return subprocess.run(["strace", "-f", "-qq", "-y", "-o", "/dev/null", "-e", "inject=getpid:error=EIO", "true"], stderr=subprocess.DEVNULL).returncode == 0
    except FileNotFoundError:
        return False


def scratch(parent):
    """A directory of this run's own, in memory where there is a place for that."""
    if parent is None:
        parent = "/dev/shm" if os.access("/dev/shm", os.W_OK | os.X_OK) else None
    return tempfile.TemporaryDirectory(prefix="unwedge-faults-", dir=parent)


def arguments(parser):
    parser.add_argument("--unwedge", type=Path, default=ROOT / "target/debug/unwedge", help="the program")
    parser.add_argument("--dir", help="where the conversations lie that are repaired (default: /dev/shm)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2, help="runs at a time")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only every Nth point")
    parser.add_argument("--only", metavar="WORD", help="only cases with this in their name")
    parser.add_argument("-v", "--verbose", action="store_true")
    options = parser.parse_args()
    options.unwedge = options.unwedge.resolve()
    if not os.access(options.unwedge, os.X_OK):
        sys.exit(f"there is no {options.unwedge}; run `cargo build`, or name the program with --unwedge")
    return options


def own_mounts():
    """Starts this program again where what it mounts is seen by nobody else and goes with it, if that is allowed."""
    if os.geteuid() != 0 or os.environ.get("UNWEDGE_FAULTS") == "own mounts" or not shutil.which("unshare"):
        return
    if subprocess.run(["unshare", "-m", "true"], stderr=subprocess.DEVNULL).returncode == 0:
        os.environ["UNWEDGE_FAULTS"] = "own mounts"
        os.execvp("unshare", ["unshare", "-m", sys.executable, *sys.argv])
