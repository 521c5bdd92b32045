//! Rollouts that Codex has compressed: what is special about them beyond the cases in `testdata/codex/zst-*`.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::sandbox::{Ran, Sandbox, ran};

const NAME: &str = ".codex/archived_sessions/rollout-2026-12-01T00-05-15-01a2b3c4-0000-4000-8000-000000000003.jsonl";

fn packed_name() -> String {
    format!("{NAME}.zst")
}

fn line(ordinal: usize, kind: &str, payload: serde_json::Value) -> String {
    json!({"timestamp": "2026-12-01T00:05:15.000Z", "ordinal": ordinal, "type": kind, "payload": payload}).to_string()
        + "\n"
}

/// A rollout whose tool printed these texts.
fn rollout(outputs: &[&str]) -> String {
    let id = "01a2b3c4-0000-4000-8000-000000000003";
    let mut text = line(0, "session_meta", json!({"id": id, "history_mode": "paginated"}));
    for (n, output) in outputs.iter().enumerate() {
        let (call, at) = (format!("call_{n}"), 2 * n + 1);
        let payload = json!({"type": "function_call", "name": "exec_command", "arguments": "{}", "call_id": call});
        text += &line(at, "response_item", payload);
        let payload = json!({"type": "function_call_output", "call_id": call, "output": output});
        text += &line(at + 1, "response_item", payload);
    }
    text
}

/// Texts that differ, and do not compress away.
fn printed(seed: u64, bytes: usize) -> String {
    let mut state = seed | 1;
    let mut text = String::new();
    while text.len() < bytes {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text += &format!("{:08x} \u{e9} \"{}\"\n", state >> 32, state % 1000);
    }
    text
}

/// As Codex does it: level 3, and nothing in the header.
fn pack(text: impl AsRef<[u8]>) -> Vec<u8> {
    zstd::stream::encode_all(text.as_ref(), 3).unwrap()
}

fn unpack(path: &Path) -> String {
    String::from_utf8(zstd::stream::decode_all(&*fs::read(path).unwrap()).unwrap()).unwrap()
}

/// The id of the run that a `fix` printed.
fn run_of(fix: &Ran) -> String {
    let at = fix.stdout.find("undo 20").unwrap_or_else(|| panic!("no run in {}", fix.stdout));
    fix.stdout[at + 5..].split_whitespace().next().unwrap().to_owned()
}

/// A rollout of several megabytes, repaired.
fn repaired() -> (Sandbox, PathBuf, String, Vec<u8>, String) {
    let sandbox = Sandbox::new();
    let outputs: Vec<String> =
        (0..12).map(|n| printed(n, if n % 3 == 0 { 700_000 - 9_000 * n as usize } else { 20_000 })).collect();
    let text = rollout(&outputs.iter().map(String::as_str).collect::<Vec<_>>());
    let stored = pack(&text);
    let path = sandbox.put(&packed_name(), &stored);
    let fix = sandbox.expect(0, &["fix", "--min-idle", "0", "."]);
    (sandbox, path, text, stored, run_of(&fix))
}

#[test]
fn each_line_keeps_its_place_in_what_it_unpacks_to() {
    let (sandbox, path, text, stored, run) = repaired();
    let now = unpack(&path);
    assert_eq!(now.len(), text.len());
    let (old, new): (Vec<&str>, Vec<&str>) = (text.lines().collect(), now.lines().collect());
    assert_eq!(old.len(), new.len());
    let mut cut = 0;
    for (old, new) in old.iter().zip(&new) {
        assert_eq!(old.len(), new.len());
        cut += usize::from(old != new);
    }
    assert_eq!(cut, 4);
    sandbox.expect(0, &["check", "."]);
    // A cut's original, whichever is asked for.
    for cut in ["1", "4", "2"] {
        let shown = sandbox.expect(0, &["show", &format!("{run}-{cut}")]).stdout;
        assert!(text.contains(json!(shown).to_string().as_str()) && shown.len() > 600_000);
    }
    sandbox.expect(0, &["undo", &run, "--min-idle", "0"]);
    assert_eq!(fs::read(&path).unwrap(), stored);
}

#[test]
fn one_cut_is_put_back() {
    let (sandbox, path, text, _, run) = repaired();
    sandbox.expect(0, &["undo", &format!("{run}-2"), "--min-idle", "0"]);
    let now = unpack(&path);
    let differ = text.lines().zip(now.lines()).filter(|(old, new)| old != new).count();
    assert_eq!((text.lines().count(), differ), (now.lines().count(), 3));
}

#[test]
fn what_came_after_the_repair_stays() {
    let (sandbox, path, text, _, run) = repaired();
    let later = line(99, "event_msg", json!({"type": "token_count"}));
    fs::write(&path, pack(unpack(&path) + &later)).unwrap();
    let undo = sandbox.expect(0, &["undo", &run, "--min-idle", "0"]);
    assert!(undo.stdout.contains('4'), "{}", undo.stdout);
    assert_eq!(unpack(&path), text.clone() + &later);
}

#[test]
fn an_undo_finds_what_codex_has_unpacked_or_packed_since() {
    let (sandbox, path, text, _, run) = repaired();
    let plain = sandbox.tree().join(NAME);
    fs::write(&plain, unpack(&path)).unwrap();
    fs::remove_file(&path).unwrap();
    sandbox.expect(0, &["undo", &run, "--min-idle", "0"]);
    assert_eq!(fs::read_to_string(&plain).unwrap(), text);
    assert!(!path.exists());

    // The other way round, by the path it has now.
    let sandbox = Sandbox::new();
    let plain = sandbox.put(NAME, &text);
    sandbox.expect(0, &["fix", "--min-idle", "0", "."]);
    fs::write(sandbox.tree().join(packed_name()), pack(fs::read(&plain).unwrap())).unwrap();
    fs::remove_file(&plain).unwrap();
    sandbox.expect(0, &["undo", &packed_name(), "--min-idle", "0"]);
    assert_eq!(unpack(&sandbox.tree().join(packed_name())), text);
}

#[test]
fn an_undo_is_undone() {
    let (_, _, text, stored, _) = repaired();
    // The plain one too: in either, blanks come and go with the texts.
    for (name, original) in [(packed_name(), stored), (NAME.to_owned(), text.into_bytes())] {
        let sandbox = Sandbox::new();
        let path = sandbox.put(&name, &original);
        let run = run_of(&sandbox.expect(0, &["fix", "--min-idle", "0", "."]));
        let cut = fs::read(&path).unwrap();
        let undo = sandbox.expect(0, &["undo", &run, "--min-idle", "0"]);
        assert_eq!(fs::read(&path).unwrap(), original);
        sandbox.expect(0, &["undo", &run_of(&undo), "--min-idle", "0"]);
        assert_eq!(fs::read(&path).unwrap(), cut);
        sandbox.expect(0, &["backups", "verify"]);
    }
}

/// Runs it with so much address space and no more.
fn within(sandbox: &Sandbox, mebibytes: u64, args: &[&str]) -> (Ran, Duration) {
    let mut limited = Command::new("sh");
    limited.arg("-c").arg(format!("ulimit -v {} && exec \"$0\" \"$@\"", mebibytes << 10));
    limited.arg(env!("CARGO_BIN_EXE_unwedge")).args(args);
    limited.current_dir(sandbox.tree()).stdin(Stdio::null()).env("HOME", sandbox.path("home"));
    limited.env("XDG_STATE_HOME", sandbox.path("state")).process_group(0);
    let start = Instant::now();
    (ran(limited.output().unwrap()), start.elapsed())
}

/// What is refused, for a check and for a repair: soon, in little memory, and with nothing written anywhere. The rollout
/// beside it is repaired.
#[track_caller]
fn refused(stored: &[u8], mebibytes: u64, why: &str) {
    let sandbox = Sandbox::new();
    let bomb = sandbox.put(&packed_name(), stored);
    let good = sandbox.put(&NAME.replace("000003", "000004"), rollout(&[&printed(1, 300_000)]));
    let before = fs::read(&good).unwrap();
    for args in [&["check", "."][..], &["fix", "-n", "--min-idle", "0", "."], &["fix", "--min-idle", "0", "."]] {
        let (ran, took) = within(&sandbox, mebibytes, args);
        assert_eq!(ran.status, 2, "{}{}", ran.stdout, ran.stderr);
        let line = ran.stderr.lines().find(|l| l.contains(".jsonl.zst")).unwrap_or_else(|| panic!("{}", ran.stderr));
        assert!(line.contains(why), "{line}");
        assert!(took < Duration::from_secs(60), "{took:?}");
        assert_eq!(fs::read(&bomb).unwrap(), stored);
        assert_eq!(sandbox.snapshot().len(), 2, "something was left beside them");
    }
    assert_ne!(fs::read(&good).unwrap(), before);
    assert_eq!(sandbox.backups().len(), 1);
}

/// A frame of so many blocks of 128 KiB, all of one byte.
fn zeros(blocks: usize) -> Vec<u8> {
    [&b"\x28\xb5\x2f\xfd\x00\x38"[..], &[0x02, 0, 0x10, 0].repeat(blocks)].concat()
}

#[test]
fn a_bomb_of_zeros() {
    let bomb = zeros(2_000_000);
    assert!(bomb.len() < 9 << 20, "8 MB that unpack to 262 GB");
    refused(&bomb, 400, "unpacks to more than 4294967296 bytes");
}

#[test]
fn a_bomb_that_says_what_it_is() {
    // Terabytes by its own header.
    let says = [&b"\x28\xb5\x2f\xfd\xc0\x38"[..], &(9_u64 << 40).to_le_bytes(), &[0x02, 0, 0x10, 0]].concat();
    refused(&says, 400, "unpacks to more than 4294967296 bytes");
}

#[test]
fn a_bomb_of_responses() {
    let item = json!({"type": "function_call_output", "call_id": "c", "output": "x"});
    let lines = line(1, "response_item", item).repeat(500_000);
    let frame = pack(&lines);
    let frames = (6 << 30) / lines.len();
    let bomb = frame.repeat(frames);
    assert!(bomb.len() < 2 << 20, "{} bytes", bomb.len());
    refused(&[pack(rollout(&["x"])), bomb].concat(), 1500, "unpacks to more than 4294967296 bytes");
}

#[test]
fn a_small_bomb_of_one_line() {
    // Less than all that may be unpacked, and more than one line may be.
    refused(&[zeros(8000), vec![0x03, 0, 0x10, 0]].concat(), 3000, "a line of more than 536870912 bytes");
}

#[test]
fn many_cuts_are_one_pass() {
    let sandbox = Sandbox::new();
    let outputs: Vec<String> = (0..4000).map(|n| printed(n, 9_000 + (n as usize * 7919) % 5000)).collect();
    let text = rollout(&outputs.iter().map(String::as_str).collect::<Vec<_>>());
    let path = sandbox.put(&packed_name(), pack(&text));
    let timed = |status, args: &[&str]| {
        let start = Instant::now();
        (sandbox.expect(status, args), start.elapsed())
    };
    let low = ["--size-threshold", "4KB", "."];
    let (_, check) = timed(1, &[&["check"][..], &low].concat());
    let (fix, took) = timed(0, &[&["fix", "--min-idle", "0", "--diff", "none"][..], &low].concat());
    // Were each text looked for from the start, it would take some two thousand passes.
    assert!(took < 100 * check, "{took:?}, a check {check:?}");
    assert_eq!(unpack(&path).len(), text.len());
    fs::write(&path, pack(unpack(&path) + &line(9999, "event_msg", json!({"type": "token_count"})))).unwrap();
    let (_, took) = timed(0, &["undo", &run_of(&fix), "--min-idle", "0"]);
    assert!(took < 100 * check, "{took:?}, a check {check:?}");
    assert!(unpack(&path).starts_with(&text));
}

#[test]
fn zstandard_under_a_plain_name_is_told() {
    let sandbox = Sandbox::new();
    let stored = pack(rollout(&[&printed(1, 300_000)]));
    let path = sandbox.put(&NAME.replace("archived_sessions", "sessions/2026/12/01"), &stored);
    let check = sandbox.expect(2, &["check", path.to_str().unwrap()]);
    assert!(check.stderr.contains("does not end in `.zst`"), "{}", check.stderr);
    assert_eq!(fs::read(path).unwrap(), stored);
}
