#!/usr/bin/env python3
"""Codex, Gemini CLI and Qwen Code resume sessions that unwedge repaired, and show what the model would then be sent.

    tests/oracles/agents.py [--unwedge PATH] [--shared DIR] [--cache DIR] [codex|gemini|qwen]...
    tests/oracles/agents.py --self-test    # repairs that are wrong on purpose; every one of them must be noticed

For people, not for continuous integration: needs Python 3.9, zstd, Node 20, npm with access to its registry (the first time), 600 MB of disk
and two minutes. DIR of --shared ($UNWEDGE_SHARED, ../shared) holds oracles/agents, whose parts are used: the agents' own released programs,
installed into DIR of --cache (target/oracles/agents), and a stand-in provider on a loopback port.

Turn one makes the agent call two tools in one batch; then one result is made as big as an agent without a limit would have stored it.
From there the session is resumed twice, each time in the same home with the same files: as it is, and after `unwedge fix`. Turn two
must succeed both times, and its requests must be the same to the letter but for the text of the results that were cut: the same
results in the same order, each as long as unwedge's report says, ending in the marker. Of Codex, whose index of a thread holds
byte offsets, every row must also point at the record that it names after turn two.

Exit status: 0 all of it holds, 1 something does not, 2 usage, 3 the agents cannot be run here.
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
from pi import MARKER, ROOT, Unavailable, brief, differences, fix, npm_environment, shortened, size  # noqa: E402

GROWN, LOW = 637_951, ["--size-threshold", "4KB"]
OWN_CUT = re.compile(r"…\d+ (?:tokens|chars) truncated…")        # Codex cuts plain outputs again when it loads them
MASKED = "<tool_output_masked>"                                 # Gemini CLI hides old outputs when it builds a request


def texts(output):
    """The text parts of a stored or sent output."""
    return [output] if isinstance(output, str) else [p["text"] for p in output if p.get("type") in ("input_text", "text")]


class Codex:
    """What to read out of Codex's requests and rollouts."""

    @staticmethod
    def outputs(items):
        return [(x["call_id"], texts(x["output"])) for x in items if x.get("type", "").endswith("_output")]

    @classmethod
    def sent(cls, body):
        return cls.outputs(body["input"])

    @classmethod
    def stored(cls, path):
        items = []
        for record in records(path):
            if record["type"] == "compacted":
                items = list(record["payload"]["replacement_history"])
            elif record["type"] == "response_item":
                items.append(record["payload"])
        return cls.outputs(items)

    @staticmethod
    def frame(body):
        """A request without the text of its results and what differs from one turn to the next."""
        items = []
        for item in body["input"]:
            item = dict(item)
            if item.get("type", "").endswith("_output"):
                item["output"] = "" if isinstance(item["output"], str) else [{**p, "text": ""} if "text" in p else p for p in item["output"]]
            elif item.get("type") == "message":
                item.pop("id", None)
            items.append(item)
        return {**body, "input": items, "client_metadata": None}

    @staticmethod
    def rows(agent):
        c = agent.database()
        turns = c.execute("select rollout_ordinal, rollout_byte_offset, rollout_end_ordinal, rollout_end_byte_offset from thread_turns where thread_id=? order by 1", (agent.thread,)).fetchall()
        following = c.execute("select next_rollout_byte_offset, next_rollout_ordinal from thread_history_projection_state where thread_id=?", (agent.thread,)).fetchall()
        c.close()
        return turns, following

    @classmethod
    def after(cls, agent, before, extended):
        """The projection has a row more, every row points at the record that it names, and it continues where the file ends."""
        turns, following = cls.rows(agent)
        if not extended:                                        # a thread without ordinals is not indexed any further
            return [] if (turns, following) == before else [f"projection: {before} → {turns, following}"]
        problems = [] if len(turns) == len(before[0]) + 1 else [f"projection: {len(before[0])} → {len(turns)} turns"]
        if not Path(agent.session).exists():
            return ["projection: the rollout was not unpacked"]
        data = Path(agent.session).read_bytes()
        for start, at, end, to in turns:
            first, last = data[at:].split(b"\n", 1)[0], data[:to].rstrip(b"\n").rsplit(b"\n", 1)[-1]
            for name, line, ordinal, edge in [("starts", first, start, at), ("ends", last, end, to)]:
                if data[edge - 1:edge] != b"\n" or ordinal_of(line) != ordinal:
                    problems.append(f"projection: the turn {name} at byte {edge} with record {ordinal}, but there lies {ordinal_of(line)}")
        last = ordinal_of(data.rstrip(b"\n").rsplit(b"\n", 1)[-1])
        if following != [(len(data), last + 1)]:
            problems.append(f"projection: continues at {following}, the file ends at {(len(data), last + 1)}")
        return problems


class Gemini:
    """What to read out of Gemini CLI's requests and sessions. Both copies of each result are sent."""

    @staticmethod
    def outputs(parts):
        found = [p["functionResponse"] for p in parts if isinstance(p, dict) and "functionResponse" in p]
        return [(r["name"], texts(r["response"]["output"])) for r in found]

    @classmethod
    def sent(cls, body):
        return cls.outputs([p for c in body.get("contents", []) for p in c["parts"]])

    @classmethod
    def stored(cls, path):
        found = []
        for record in records(path):
            for call in record.get("toolCalls") or []:
                found += cls.outputs(call["result"])
            if record.get("type") == "user" and isinstance(record["content"], list):
                found += cls.outputs(record["content"])
        return found

    @staticmethod
    def frame(body):
        body = json.loads(json.dumps(body))
        for content in body.get("contents", []):
            for part in content["parts"]:
                if "functionResponse" in part:
                    part["functionResponse"]["response"]["output"] = ""
        return body

    @staticmethod
    def rows(agent):
        return None

    @staticmethod
    def after(agent, before, extended):
        return []


class Qwen:
    """What to read out of Qwen Code's requests and sessions."""

    @staticmethod
    def sent(body):
        return [(m["tool_call_id"], texts(m["content"])) for m in body["messages"] if m["role"] == "tool"]

    @staticmethod
    def stored(path):
        parts = [p["functionResponse"] for r in records(path) if r["type"] == "tool_result" for p in r["message"]["parts"] if "functionResponse" in p]
        return [(r["id"], texts(r["response"]["output"])) for r in parts]

    @staticmethod
    def frame(body):
        blank = lambda content: "" if isinstance(content, str) else [{**p, "text": ""} if "text" in p else p for p in content]  # noqa: E731
        return {**body, "messages": [{**m, "content": blank(m["content"])} if m["role"] == "tool" else m for m in body["messages"]]}

    @staticmethod
    def rows(agent):
        return None

    @staticmethod
    def after(agent, before, extended):
        return []


def records(path):
    """Of a session; where it is compressed, what `zstd` unpacks it to."""
    cold = Path(f"{path}.zst")
    data = subprocess.run(["zstd", "-dc", str(cold)], check=True, capture_output=True).stdout if cold.exists() else Path(path).read_bytes()
    return [json.loads(line) for line in data.decode().split("\n") if line.strip()]


def ordinal_of(line):
    try:
        return json.loads(line).get("ordinal", -1)
    except ValueError:
        return -1


def unmask(agent):
    """Keeps Gemini CLI from hiding old outputs, by its flags for experiments, so that a request shows what is stored."""
    path = Path(agent.home) / "flags.json"
    path.write_text(json.dumps({"flags": [{"flagId": flag, "intValue": "1000000000"} for flag in (45758817, 45758818)]}), encoding="utf-8")
    os.environ["GEMINI_EXP"] = str(path)


def grow(agent):
    agent.grow(GROWN)


def scenario(name):
    return lambda agent: type(agent).scenarios[name](agent)


def indexed(edit):
    """Makes Codex index its thread anew after an edit that moved records: without its rows a thread is read from its start."""
    def settle(agent):
        edit(agent)
        c = agent.database()
        for table in ("thread_turns", "thread_items", "thread_history_projection_state"):
            c.execute(f"delete from {table} where thread_id=?", (agent.thread,))
        c.commit()
        c.close()
        agent.turn(False)
    return settle


def cold(edit):
    """Compresses the rollout as Codex does with one that is not in use: level 3, streamed, the plain file gone."""
    def settle(agent):
        edit(agent)
        plain = Path(agent.session)
        Path(f"{plain}.zst").write_bytes(subprocess.run(["zstd", "-q", "-3", "--no-check"], input=plain.read_bytes(), check=True, capture_output=True).stdout)
        plain.unlink()
    return settle


class Case:
    """How a session comes about, and how it is repaired: by unwedge with these arguments, or by `wrong`."""

    def __init__(self, agent, name, edit, args=(), prepare=None, compare=True, extended=True, wrong=None, expected=None):
        self.agent, self.name, self.edit, self.args, self.prepare = agent, name, edit, list(args), prepare
        self.compare, self.extended, self.wrong, self.expected = compare, extended, wrong, expected


CASES = [
    Case("codex", "grown", indexed(grow)),
    Case("codex", "grown, 4 KB", indexed(grow), LOW),
    Case("codex", "compacted", indexed(scenario("compacted"))),
    Case("codex", "compacted, 4 KB", indexed(scenario("compacted")), LOW),
    Case("codex", "array with an image", indexed(scenario("big-array"))),
    Case("codex", "array with an image, 8 KB", indexed(scenario("big-array")), ["--size-threshold", "8KB"]),
    Case("codex", "legacy", scenario("legacy"), extended=False),
    Case("codex", "compressed", cold(indexed(grow))),
    Case("codex", "compressed, compacted, 4 KB", cold(indexed(scenario("compacted"))), LOW),
    Case("gemini", "grown", grow, prepare=unmask),
    Case("gemini", "grown, 4 KB", grow, LOW),
    Case("gemini", "grown, masked", grow),
    Case("gemini", "2 MB", scenario("big"), prepare=unmask, compare=False),
    Case("qwen", "grown", grow),
    Case("qwen", "grown, 4 KB", grow, LOW),
    Case("qwen", "2 MB", scenario("big")),
]


def swap_outputs(agent):
    """Two results change places."""
    lines = Path(agent.session).read_bytes().split(b"\n")
    a, b = [k for k, line in enumerate(lines) if b'"tool_result"' in line][:2]
    lines[a], lines[b] = lines[b], lines[a]
    Path(agent.session).write_bytes(b"\n".join(lines))


def one_copy(agent):
    """One of the two copies that are sent is cut, the other is not."""
    agent.set("x" * 63 + "\n... [truncated, 623 KB → 100 B]", only="toolCalls")


def without_marker(agent):
    agent.set("x" * 63)


def cold_shrink(agent):
    """What a repair without padding would do: unpack, shorten, compress again."""
    plain = Path(agent.session)
    plain.write_bytes(subprocess.run(["zstd", "-dc", f"{plain}.zst"], check=True, capture_output=True).stdout)
    cold(scenario("shrink"))(agent)


PLANTS = [
    Case("codex", "a repair that moves later records", indexed(grow), wrong=scenario("shrink"), expected="projection"),
    Case("codex", "a compressed rollout whose later records move", cold(indexed(grow)), wrong=cold_shrink, expected="projection"),
    Case("codex", "text without a marker", indexed(grow), wrong=without_marker, expected="text"),
    Case("gemini", "one of two copies", grow, prepare=unmask, wrong=one_copy, expected="copies"),
    Case("qwen", "results in another order", grow, wrong=swap_outputs, expected="order"),
    Case("qwen", "text without a marker", grow, wrong=without_marker, expected="text"),
]


def turn(agent):
    """Runs turn two; returns its exit status and the requests it made that hold results."""
    start, requests = len(agent.server.requests), []
    done = agent.turn(False)
    for path, raw in agent.server.requests[start:]:
        body = json.loads(raw)
        if "input" in body or "contents" in body or "messages" in body:
            requests.append((path, body))
    return done, requests


def judge(run, folder, unwedge, case):
    """Runs one case. Returns problems, and what was seen."""
    eye = {"codex": Codex, "gemini": Gemini, "qwen": Qwen}[case.agent]
    agent = getattr(run, case.agent.capitalize())(str(folder), "proof")
    try:
        if case.prepare:
            case.prepare(agent)
        first = agent.turn(True)
        if first.returncode:
            return [f"turn one: exit {first.returncode}: {brief((first.stderr or first.stdout).strip())}"], ""
        case.edit(agent)
        original = eye.stored(agent.session)
        before, aside = eye.rows(agent), agent.home + ".aside"
        shutil.rmtree(aside, ignore_errors=True)
        shutil.copytree(agent.home, aside, symlinks=True)
        done, control = turn(agent)
        as_it_was = f"exit {done.returncode}"
        shutil.rmtree(agent.home)
        os.rename(aside, agent.home)

        findings = []
        if case.wrong:
            case.wrong(agent)
        else:
            with tempfile.TemporaryDirectory(prefix="unwedge-agents-") as scratch:
                status, report = fix(unwedge, Path(scratch), Path(agent.session).parent, case.args)
            findings = [f for file in report["files"] for f in file["findings"] if f["cut"]]
            if status:
                return [f"unwedge: exit {status}, {report['errors']}"], ""
        stored = eye.stored(agent.session)
        done, requests = turn(agent)
        problems = [] if done.returncode == 0 else [f"turn two: exit {done.returncode}: {brief((done.stderr or done.stdout).strip())}"]
        problems += judge_stored(original, stored, findings, case)
        problems += judge_sent(eye, original, stored, control, requests, case)
        problems += eye.after(agent, before, case.extended)
        show = lambda found: "; ".join("+".join(f"{sum(map(size, t)):,}" for _, t in eye.sent(body)) for _, body in found)  # noqa: E731
        return problems, f"{as_it_was}, {show(control)} B sent; repaired exit {done.returncode}, {show(requests)} B sent"
    finally:
        os.environ.pop("GEMINI_EXP", None)
        agent.server.shutdown()


def judge_stored(original, stored, findings, case):
    """The same results in the same order, each as it was or shortened to what the report says."""
    if [call for call, _ in original] != [call for call, _ in stored]:
        return [f"order: {[call for call, _ in original]} → {[call for call, _ in stored]}"]
    problems, cut = [], []
    for (call, old), (_, new) in zip(original, stored):
        if len(old) != len(new) or not all(shortened(a, b) for a, b in zip(old, new)):
            problems.append(f"text: {call}: {brief(str(old))} → {brief(str(new))} is no cut")
        elif old != new:
            cut.append((sum(map(size, old)), sum(map(size, new))))
    image = 4800 if "image" in case.name else 0                 # unwedge counts it, a text has none
    reported = sorted((f["size"] - image, f["delivered"] - image) for f in findings if f["live"] and f["kind"] == "response")
    if not case.wrong and (not cut or sorted(set(cut)) != sorted(set(reported))):
        problems.append(f"sizes: {cut} in the session, {reported} in the report")
    sizes = {}
    for (call, _), (_, new) in zip(original, stored):
        sizes.setdefault(call, set()).add(tuple(new))
    if case.agent == "gemini" and any(len(copies) > 1 for copies in sizes.values()):
        problems.append("copies: the copies of one result are not alike")
    return problems


def judge_sent(eye, original, stored, control, requests, case):
    """What the provider got is what is stored, and the rest of it what it would have got without the repair."""
    problems = []
    if not requests:
        return ["requests: none"]
    if case.compare:
        if [path for path, _ in control] != [path for path, _ in requests]:
            return [f"requests: {[path for path, _ in control]} → {[path for path, _ in requests]}"]
        for (_, a), (_, b) in zip(control, requests):
            problems += [f"request{d}" for d in differences(eye.frame(a), eye.frame(b), lambda where: False)]
    for k, (_, body) in enumerate(requests):
        sent = eye.sent(body)
        if [call for call, _ in sent] != [call for call, _ in stored]:
            problems.append(f"order: sent {[call for call, _ in sent]}, stored {[call for call, _ in stored]}")
            continue
        for n, ((call, was), (_, kept), (_, got)) in enumerate(zip(original, stored, sent)):
            hidden = case.compare and MASKED in "".join(got) and MASKED in "".join(eye.sent(control[k][1])[n][1])
            if hidden and "masked" in case.name:
                continue
            for old, mine, theirs in zip(was, kept, got):
                if not is_of(theirs, mine):
                    problems.append(f"text: {call}: sent {brief(theirs)}, stored {brief(mine)}")
                elif old != mine and not re.search(MARKER.pattern + "$", theirs):
                    problems.append(f"text: {call}: what was cut does not end in the marker: {theirs[-60:]!r}")
    return problems


def is_of(sent, stored):
    """Whether what is sent is what is stored, whole or cut once more in its middle by the agent."""
    if sent == stored:
        return True
    own = OWN_CUT.search(sent)
    return bool(own) and stored.startswith(sent[:own.start()]) and stored.endswith(sent[own.end():])


def install(source, cache, scratch, agents):
    if not (source / "run.py").is_file():
        raise Unavailable(f"there is no {source}")
    if "codex" in agents and not shutil.which("zstd"):
        raise Unavailable("there is no zstd on the PATH")
    if not shutil.which("node"):
        raise Unavailable("there is no node on the PATH")
    missing = [a for a in agents if not (cache / "npm" / a / "node_modules").is_dir()]
    if missing:
        if not shutil.which("npm"):
            raise Unavailable("there is no npm on the PATH")
        print(f"installing {', '.join(missing)} into {cache}", flush=True)
        cache.mkdir(parents=True, exist_ok=True)
        done = subprocess.run([str(source / "setup.sh"), str(cache), *missing], env=npm_environment(cache, scratch), capture_output=True, text=True)
        if done.returncode:
            raise Unavailable("npm could not install them: " + " | ".join((done.stderr or done.stdout).strip().splitlines()[-3:]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("agents", nargs="*", metavar="codex|gemini|qwen")
    parser.add_argument("--unwedge", type=Path, default=ROOT / "target" / "release" / "unwedge")
    parser.add_argument("--shared", type=Path, default=Path(os.environ.get("UNWEDGE_SHARED", ROOT.parent / "shared")))
    parser.add_argument("--cache", type=Path, default=ROOT / "target" / "oracles" / "agents")
    parser.add_argument("--self-test", action="store_true")
    args = parser.parse_args()
    agents = args.agents or ["codex", "gemini", "qwen"]
    if unknown := set(agents) - {"codex", "gemini", "qwen"}:
        parser.error(f"no agent of these: {', '.join(unknown)}")
    if not args.unwedge.is_file():
        parser.error(f"there is no {args.unwedge}: build it, or name another with --unwedge")
    source, cache = args.shared.resolve() / "oracles" / "agents", args.cache.resolve()
    with tempfile.TemporaryDirectory(prefix="unwedge-agents-") as scratch:
        try:
            install(source, cache, Path(scratch), agents)
        except Unavailable as why:
            print(f"\n!!!! CANNOT ASK THE AGENTS THEMSELVES: {why} !!!!\n", file=sys.stderr)
            return 3
        sys.path.insert(0, str(source))
        import run
        bad, cases = 0, [c for c in (PLANTS if args.self_test else CASES) if c.agent in agents]
        for case in cases:
            problems, seen = judge(run, cache, args.unwedge.resolve(), case)
            good = any(p.startswith(case.expected) for p in problems) if args.self_test else not problems
            bad += not good
            print(("ok " if good else "MISSED " if args.self_test else "FAILED ") + f"{case.agent}, {case.name}: {seen}", flush=True)
            for problem in problems:
                print(f"    {problem}", flush=True)
    if args.self_test:
        print(f"{len(cases)} wrong repairs: " + (f"{bad} MISSED" if bad else "all noticed"))
    else:
        print(f"{len(cases)} cases, {len(agents)} agents: " + (f"{bad} do NOT hold" if bad else "all resumed as before, only the cut text shorter"))
    return 1 if bad or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
