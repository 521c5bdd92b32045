#!/usr/bin/env bash
# Builds unwedge, then checks, repairs and undoes a copy of the wedged conversation that ships in testdata.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --release --quiet
unwedge=$PWD/target/release/unwedge

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp -R testdata/jp/wedged/before "$copy/tree"
cd "$copy/tree"
run() { printf '\n$ unwedge %s\n' "$*"; XDG_STATE_HOME="$copy/state" "$unwedge" "$@"; }

run check . || true
run fix .
run check .
run undo .
cmp .jp/conversations/17636257999/events.json "$OLDPWD/testdata/jp/wedged/before/.jp/conversations/17636257999/events.json"
printf '\nThe file is what it was, byte for byte.\n'
