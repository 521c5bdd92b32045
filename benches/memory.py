#!/usr/bin/env python3
"""Shows the memory that an audit and a repair of one large session take: at most 64 MiB and its largest record.

    benches/memory.py [--size 5GB] [--dir DIR]

Needs Python 3.9, cargo, and about three times the size on the disk (the session, its backup, the new file). Generates a Claude
Code session of results from 20 KB to 8 MB, audits it whole, repairs it, audits it again, and prints the peak resident memory of
each. Exits 1 where one takes more than the bound, or where the repair is not what it must be.
"""
import argparse
import json
import multiprocessing
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
UNWEDGE = ROOT / "target" / "release" / "unwedge"
KB, MB, GB = 1 << 10, 1 << 20, 1 << 30


def generate(path, size):
    """Writes the session. Returns its number of results and its largest line."""
    rng = random.Random(5)
    text = "".join(p.read_text() for p in sorted((ROOT / "src").rglob("*.rs"))) * 16
    lines = [json.dumps(line + "\n", ensure_ascii=False)[1:-1] for line in text.splitlines()]
    each = sum(map(len, lines)) // len(lines)
    written = results = largest = 0
    with open(path, "wb") as f:
        while written < size:
            results += 1
            length = int(20 * KB * (400 ** rng.random()))
            count = max(1, length // each)
            at = rng.randrange(len(lines) - count)
            body = "".join(lines[at:at + count])
            base = f'"isSidechain":false,"sessionId":"s","version":"2.1.40","timestamp":"2026-02-02T02:00:00.000Z"'
            call = f'{{"parentUuid":"u{results - 1}",{base},"type":"assistant","uuid":"a{results}","message":{{"id":"msg_{results}","role":"assistant","content":[{{"type":"tool_use","id":"toolu_{results}","name":"Bash","input":{{}}}}]}}}}\n'
            result = f'{{"parentUuid":"a{results}",{base},"type":"user","uuid":"u{results}","message":{{"role":"user","content":[{{"tool_use_id":"toolu_{results}","type":"tool_result","content":"{body}"}}]}}}}\n'
            stored = (call + result).encode()
            f.write(stored)
            written += len(stored)
            largest = max(largest, len(stored))
    return results, largest


def run(args, home):
    """One run. Returns its exit status, its peak resident memory in bytes, its seconds and its output."""
    env = {**os.environ, "HOME": str(home), "XDG_STATE_HOME": str(home / "state")}
    before = time.perf_counter()
    child = subprocess.Popen([UNWEDGE, *args], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=home)
    # The report is short; what is asked of the system is the peak of this very child.
    out = child.stdout.read()
    err = child.stderr.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    return child.returncode, usage.ru_maxrss * KB, time.perf_counter() - before, out + err


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--size", default="5GB", help="of the session: a number with MB or GB")
    parser.add_argument("--dir", help="where to work; a temporary directory otherwise")
    args = parser.parse_args()
    size = int(float(args.size[:-2]) * {"MB": MB, "GB": GB}[args.size[-2:].upper()])
    subprocess.run(["cargo", "build", "--release", "--quiet"], cwd=ROOT, check=True)
    home = Path(tempfile.mkdtemp(prefix="unwedge-memory-", dir=args.dir))
    failed = False
    try:
        session = home / "00000000-0000-4000-8000-000000000005.jsonl"
        # In a process of its own: what a child is said to have used at most begins with what its parent has.
        with multiprocessing.Pool(1) as pool:
            results, largest = pool.apply(generate, (session, size))
        bound = 64 * MB + largest
        print(f"{session.stat().st_size / GB:.2f} GB, {results} results, largest record {largest / MB:.1f} MB, bound {bound / MB:.0f} MB", flush=True)
        steps = [
            ("audit", ["check", "--quiet", str(session)], 1),
            ("repair", ["fix", "--quiet", "--diff", "none", "--min-idle", "0", str(session)], 0),
            ("audit of the repaired session", ["check", "--quiet", str(session)], 0),
        ]
        for name, command, wanted in steps:
            status, peak, seconds, said = run(command, home)
            good = status == wanted and peak <= bound
            failed |= not good
            print(f"{name:32} peak {peak / MB:7.1f} MB  {seconds:6.1f} s  exit {status}  {'ok' if good else 'NO'}", flush=True)
            if status != wanted:
                print(said.decode(errors="replace")[-2000:])
    finally:
        shutil.rmtree(home, ignore_errors=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
