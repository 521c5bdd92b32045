#!/usr/bin/env python3
"""Makes the first inputs of every target from the cases in testdata/: fuzz/seeds.py DIRECTORY

A case's long strings are made short: what a fuzzer changes must be a few kilobytes. Inputs that no case gives are in
fuzz/seeds/<target>/ and are copied."""

import collections
import hashlib
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent
MOST = 12 * 1024  # bytes of a document
STRING = re.compile(rb'"(?:[^"\\\x00-\x1f]|\\.)*"')
# What the text side reads: markers, second lines, numbers at their ends.
WORDS = [
    "... [truncated, ".encode(),
    " → ".encode(),
    "... [truncated, 623 B → 100 B]".encode(),
    "... [truncated, 18446744073709551615 B → 0 B]".encode(),
    "[18446744073709551615 bytes kept]".encode(),
    "[18446744073709551614 of 18446744073709551615 lines kept; omitted 3-end; full text: /a]".encode(),
    "[1 of 9 files kept; omitted 2: x]".encode(),
    "[3 of 9 JSON bytes kept]".encode(),
    "[0 of 999 base64 bytes kept]".encode(),
    "18446744073709551615".encode(),
    "\\ud83d".encode(),
    "\\ud800\\udc00".encode(),
    "\\udbff\\udfff".encode(),
    "\\uD83D\\uDfFf".encode(),
    "\\u07ff\\u0800\\u007F\\u0080\\uffff".encode(),
    "\\u00e9".encode(),
    "diff --git a/x b/x\\n".encode(),
    "--- a\\n+++ b\\n".encode(),
]


def shortened(document):
    """The same document with no string longer than 120 bytes; an escape may be torn, which is a case of its own."""
    short = lambda m: m[0] if len(m[0]) <= 120 else m[0][:90] + m[0][-30:]
    return STRING.sub(short, document)


def main(out):
    shutil.rmtree(out, ignore_errors=True)
    streams = re.findall(r'^    \("([a-z-]+)", "(.*)"\),$', (HERE / "src/locate.rs").read_text(), re.MULTILINE)
    made, documents = {}, []

    def put(target, data):
        folder = out / target
        folder.mkdir(parents=True, exist_ok=True)
        (folder / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)
        made[target] = made.get(target, 0) + 1

    for path in sorted((ROOT / "testdata").glob("*/*/before/**/*")):
        if not path.is_file():
            continue
        document = path.read_bytes()
        if path.suffix == ".zst":
            unpacked = subprocess.run(["zstd", "-dc", path], capture_output=True) if shutil.which("zstd") else None
            if unpacked is None or unpacked.returncode != 0:
                continue
            document = unpacked.stdout
        document = shortened(document)[:MOST]
        documents.append(document)
        name = path.relative_to(ROOT / "testdata").parts[0]
        for number, (known, _) in enumerate(streams):
            if known == name:
                # Format, how, chunk, threshold, ceiling where there is one, which end, unit, window.
                put("locate", bytes([number, 0, 64, 0, 0, 0, 0, 4, 0]) + document)
                put("locate", bytes([number, 0, 64, 0, 0, 1, 0, 4, 0]) + document)
                put("locate", bytes([number, 0b11001, 16, 0, 200, 1, 0, 2, 1, 2, 0]) + document)
        put("skim", bytes([len(made) % 256, 1, 0, 4, 0, 1]) + document)
        lines = document.split(b"\n")
        for line in lines[:3] + lines[-2:]:
            put("json", line[:2000])
        for literal in STRING.findall(document)[::7]:
            put("literal", literal[1:-1][:400])
    words = collections.Counter(word for document in documents for word in set(STRING.findall(document)) if 3 < len(word) < 30)
    words = [word for word, count in words.most_common(1200) if count > 1] + WORDS
    escaped = lambda word: "".join("\\x%02x" % byte for byte in word)
    (out / "dictionary").write_text("".join('"%s"\n' % escaped(word) for word in words))
    texts = [line for line in (ROOT / "testdata/vectors/cut.jsonl").read_bytes().split(b"\n") if len(line) < 3000]
    for number, line in enumerate(texts[:300]):
        for literal in STRING.findall(line)[:6]:
            put("cut", bytes([number % 3, number % 5, number % 32, 0, 60 + number % 100, 0, 70]) + literal[1:-1])
    for name in ("sizes", "human", "marker"):
        for line in (ROOT / f"testdata/vectors/{name}.jsonl").read_bytes().split(b"\n")[:400]:
            for literal in STRING.findall(line):
                put("sizes", literal[1:-1])
    # Escapes at the ends of their ranges, at every place of a block.
    for word in [word for word in WORDS if word.startswith(b"\\u")]:
        for before in range(0, 70, 3):
            put("literal", b"x" * before + word + b"y" * 70)
    put("splices", bytes(range(60)) * 2)
    for path in (HERE / "seeds").glob("*/*"):
        put(path.parent.name, path.read_bytes())
    print(", ".join(f"{target} {n}" for target, n in sorted(made.items())))


main(pathlib.Path(sys.argv[1]))
