//! What goes with a cut: it is asked for or not, it is told, it is put back whole and in part.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::sandbox::Sandbox;

const NAME: &str = "sessions/2026-02-02T02-00-00-000Z_01a22eec-0000-7000-8000-00000000c0de.jsonl";
const OVERFLOW: &str = "400 prompt is too long: 213462 tokens > 200000 maximum";
const CLEARED: &str = "cleared by unwedge";

struct Session {
    sandbox: Sandbox,
    path: PathBuf,
    entries: Vec<Value>,
}

/// A result of so many bytes, answered with a count of tokens, then an error, twice.
fn session(size: usize, errors: usize) -> Session {
    let sandbox = Sandbox::new();
    let mut session = Session { path: sandbox.tree().join(NAME), sandbox, entries: Vec::new() };
    session.message(json!({ "role": "user", "content": "go" }));
    session.message(json!({ "role": "assistant", "content": [{ "type": "toolCall", "id": "c", "name": "sh", "arguments": {} }], "stopReason": "toolUse" }));
    session.message(json!({ "role": "toolResult", "toolCallId": "c", "toolName": "sh", "content": [{ "type": "text", "text": "x".repeat(size) }], "isError": false }));
    let usage = json!({ "input": 3, "output": 10, "cacheRead": 9000, "cacheWrite": 0, "totalTokens": 9013 });
    session.message(json!({ "role": "assistant", "content": [{ "type": "text", "text": "hm" }], "usage": usage, "stopReason": "stop" }));
    for _ in 0..errors {
        session.message(json!({ "role": "user", "content": "go on" }));
        session.message(json!({ "role": "assistant", "content": [], "stopReason": "error", "errorMessage": OVERFLOW }));
    }
    session.put();
    session
}

impl Session {
    fn message(&mut self, message: Value) {
        let id = |n: usize| format!("{n:08x}");
        let (n, before) = (self.entries.len(), self.entries.len().checked_sub(1));
        self.entries.push(json!({ "type": "message", "id": id(n), "parentId": before.map(id), "message": message }));
    }

    fn put(&self) {
        let header = json!({ "type": "session", "version": 3, "id": "s", "timestamp": "t", "cwd": "/" });
        let lines = std::iter::once(&header).chain(&self.entries).map(|entry| entry.to_string() + "\n");
        self.sandbox.put(NAME, lines.collect::<String>());
    }

    fn text(&self) -> String {
        fs::read_to_string(&self.path).unwrap()
    }

    fn message_of(&self, entry: usize) -> Value {
        serde_json::from_str::<Value>(self.text().lines().nth(entry + 1).unwrap()).unwrap()["message"].clone()
    }

    #[track_caller]
    fn fix(&self, status: i32, args: &[&str]) -> Value {
        let all = [&["fix", ".", "--min-idle", "0", "--size-threshold", "4000"], args].concat();
        self.sandbox.json(status, &all)
    }

    #[track_caller]
    fn undo(&self, status: i32, what: &str) {
        self.sandbox.expect(status, &["undo", what, "--min-idle", "0"]);
    }
}

fn edits(report: &Value) -> Vec<(&str, u64, Option<u64>, Option<u64>)> {
    let edits = report["files"][0]["edits"].as_array().unwrap().iter();
    let one = |e: &'_ Value| (e["before"].as_u64(), e["after"].as_u64());
    edits.map(|e| (e["kind"].as_str().unwrap(), e["place"]["line"].as_u64().unwrap(), one(e).0, one(e).1)).collect()
}

#[test]
fn a_wedged_session_is_unwedged_with_its_cut() {
    let s = session(20_000, 2);
    let before = s.text();
    let dry = s.fix(1, &["-n"]);
    // 16,000 bytes are 4,000 tokens.
    let all = [("usage", 5, Some(9013), Some(5013)), ("error", 7, None, None), ("error", 9, None, None)];
    assert_eq!(edits(&dry), all);
    assert_eq!(s.text(), before);
    let report = s.fix(0, &[]);
    assert_eq!(edits(&report), all);
    let run = report["run"].as_str().unwrap();
    let ids: Vec<&str> =
        report["files"][0]["edits"].as_array().unwrap().iter().map(|e| e["cut"].as_str().unwrap()).collect();
    assert_eq!(ids, [2, 3, 4].map(|n| format!("{run}-{n}")));
    let notes = report["files"][0]["notes"].to_string();
    assert!(
        notes.contains("is reworded") && notes.contains("from 9013 to 5013") && !notes.contains("ends in"),
        "{notes}"
    );
    let usage = &s.message_of(3)["usage"];
    assert_eq!(usage, &json!({ "input": 3, "output": 10, "cacheRead": 5000, "cacheWrite": 0, "totalTokens": 5013 }));
    assert_eq!([5, 7].map(|n| s.message_of(n)["errorMessage"].clone()), [CLEARED, CLEARED]);
    // `check` has nothing to say of it any more.
    let check = s.sandbox.json(0, &["check", ".", "--size-threshold", "4000"]);
    assert_eq!(check["files"][0]["notes"], json!([]));
    assert_eq!(s.sandbox.expect(0, &["show", ids[1]]).stdout, OVERFLOW);
    assert_eq!(s.sandbox.expect(0, &["show", ids[0]]).stdout, "9000\n9013\n");
    s.undo(0, run);
    assert_eq!(s.text(), before);
}

#[test]
fn only_where_it_is_wanted() {
    // Not asked, and not wedged.
    let s = session(20_000, 0);
    let report = s.fix(0, &[]);
    assert_eq!(edits(&report), []);
    assert_eq!(s.message_of(3)["usage"]["totalTokens"], 9013);
    // Forbidden; the last flag holds.
    let s = session(20_000, 1);
    assert_eq!(edits(&s.fix(0, &["--unwedge", "--no-unwedge"])), []);
    assert_eq!(s.message_of(5)["errorMessage"], OVERFLOW);
    // The journal of such a run is what it always was.
    let runs = fs::read_dir(s.sandbox.path("state").join("unwedge/runs")).unwrap().map(|e| e.unwrap().path());
    assert!(runs.map(|run| fs::read_to_string(run).unwrap()).all(|run| !run.contains("\"edit\"")));
    // Without a cut the error is still true, unless somebody says otherwise.
    let s = session(3000, 1);
    let before = s.text();
    assert_eq!(s.fix(1, &[])["run"], Value::Null);
    assert_eq!(edits(&s.fix(1, &["-n", "--unwedge"])), [("error", 7, None, None)]);
    assert_eq!(s.text(), before);
    // What is not opened for its size when it is walked to is opened when it is named.
    let report = s.sandbox.json(0, &["fix", NAME, "--unwedge", "--min-idle", "0"]);
    assert_eq!((&report["files"][0]["status"], edits(&report).len()), (&json!("repaired"), 1));
    assert_eq!(s.message_of(5)["errorMessage"], CLEARED);
    assert_eq!(s.message_of(3)["usage"]["totalTokens"], 9013, "nothing was cut before it");
    assert_eq!(s.sandbox.json(0, &["fix", NAME, "--unwedge", "--min-idle", "0"])["run"], Value::Null);
    s.undo(0, report["run"].as_str().unwrap());
    assert_eq!(s.text(), before);
}

#[test]
fn undone_one_by_one_and_after_later_turns() {
    let mut s = session(20_000, 2);
    let before = s.text();
    let run = s.fix(0, &[])["run"].as_str().unwrap().to_owned();
    let cut = s.text();
    // The first error alone, then the counts, which stand before it.
    s.undo(0, &format!("{run}-3"));
    assert_eq!([5, 7].map(|n| s.message_of(n)["errorMessage"].clone()), [OVERFLOW, CLEARED]);
    s.undo(0, &format!("{run}-2"));
    assert_eq!(s.message_of(3)["usage"]["cacheRead"], 9000);
    s.undo(0, &format!("{run}-2"));
    // An undo is undone like a repair.
    let runs = s.sandbox.json(0, &["backups", "list"]);
    let latest = runs["runs"].as_array().unwrap().last().unwrap()["run"].as_str().unwrap();
    s.undo(0, latest);
    assert_eq!(s.message_of(3)["usage"]["cacheRead"], 5000);
    // The rest, after another turn.
    s.entries.clear();
    s.message(json!({ "role": "user", "content": "later" }));
    let later = s.entries[0].to_string() + "\n";
    fs::write(&s.path, s.text() + &later).unwrap();
    s.undo(0, &run);
    assert_eq!(s.text(), before.clone() + &later);
    // What was changed since stays, and is said.
    fs::write(&s.path, cut.replacen(CLEARED, "cleared by hand", 1) + &later).unwrap();
    s.undo(1, &run);
    assert_eq!(s.text(), before.replacen(OVERFLOW, "cleared by hand", 1) + &later);
    // A number that only begins alike is another one.
    fs::write(&s.path, cut.replacen("5013}", "50130}", 1) + &later).unwrap();
    s.undo(1, &run);
    assert_eq!(s.text(), before.replacen("9013}", "50130}", 1) + &later);
}

/// A repair that nobody watches changes responses alone.
#[test]
fn hooks_do_not_unwedge() {
    let hooks = include_str!("../../.pre-commit-hooks.yaml");
    let fixes: Vec<&str> = hooks.lines().filter(|line| line.contains("unwedge fix")).collect();
    assert!(fixes.len() == 1 && fixes[0].contains(" --no-unwedge"), "{fixes:?}");
}
