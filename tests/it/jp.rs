//! JP's own rules: two roots, times, locks, ids.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use base64::Engine;
use serde_json::{Value, json};

use crate::sandbox::{Sandbox, ran};

const DS: &str = "17712345000";
const ID: &str = "jp-c17712345000";

/// An `events.json` with one response of this text, and turns after it.
pub fn stream(text: &str, turns: usize) -> Vec<u8> {
    let stored = base64::engine::general_purpose::STANDARD.encode(text);
    let mut events = vec![
        json!({ "timestamp": "2026-03-03 03:00:01.5", "type": "turn_start" }),
        json!({ "timestamp": "2026-03-03 03:00:02.5", "type": "chat_request", "content": "Run it" }),
        json!({ "timestamp": "2026-03-03 03:00:03.5", "type": "tool_call_request", "id": "c0", "name": "shell", "arguments": {} }),
        json!({ "timestamp": "2026-03-03 03:00:04.5", "type": "tool_call_response", "id": "c0", "content": stored, "is_error": false }),
    ];
    for n in 0..turns {
        events.push(json!({ "timestamp": "2026-03-03 04:00:00.0", "type": "turn_start" }));
        events.push(
            json!({ "timestamp": "2026-03-03 04:00:01.0", "type": "chat_request", "content": format!("turn {n}") }),
        );
    }
    (serde_json::to_string_pretty(&events).unwrap() + "\n").into_bytes()
}

pub fn config() -> Vec<u8> {
    serde_json::to_vec(&json!({ "assistant": { "model": "test" } })).unwrap()
}

/// Puts a conversation below a storage root.
fn conversation(root: &Path, folder: &str, events: &[u8]) -> PathBuf {
    let dir = root.join("conversations").join(folder);
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("base_config.json"), config()).unwrap();
    fs::write(dir.join("metadata.json"), b"{}\n").unwrap();
    fs::write(dir.join("events.json"), events).unwrap();
    dir.join("events.json")
}

/// A workspace and its silo, both roots linked as JP links them.
struct Projected {
    sandbox: Sandbox,
    workspace: PathBuf,
    silo: PathBuf,
}

fn projected(id: &str) -> Projected {
    let sandbox = Sandbox::new();
    let workspace = sandbox.tree().join(".jp");
    let silo = sandbox.path("home").join(format!(".local/share/jp/workspace/tree-{id}"));
    fs::create_dir_all(&workspace).unwrap();
    fs::create_dir_all(&silo).unwrap();
    fs::write(workspace.join(".id"), format!("This file is JP's.\n{id}\n")).unwrap();
    std::os::unix::fs::symlink(&workspace, silo.join("storage")).unwrap();
    Projected { sandbox, workspace, silo }
}

fn age(path: &Path, ago: u64) {
    let time = SystemTime::now() - Duration::from_secs(ago);
    fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

fn modified(path: &Path) -> SystemTime {
    fs::metadata(path).unwrap().modified().unwrap()
}

/// Makes everything of a conversation this old, so that only what is touched is new.
fn age_all(stream: &Path, ago: u64) {
    age(stream, ago);
    age(&stream.with_file_name("base_config.json"), ago);
}

#[test]
fn both_copies_are_repaired_and_get_new_times() {
    let p = projected("ab12z");
    let old = stream(&"x".repeat(300_000), 0);
    let w = conversation(&p.workspace, &format!("{DS}-a-talk"), &old);
    let u = conversation(&p.silo, DS, &old);
    age_all(&w, 1000);
    age_all(&u, 900);
    let (was_w, was_u) = (modified(&w), modified(&u));
    // Naming one is enough, by path, by folder and by id.
    let report = p.sandbox.json(1, &["check", ".jp/conversations/17712345000-a-talk/events.json"]);
    assert_eq!(report["files"].as_array().unwrap().len(), 2);
    p.sandbox.expect(0, &["fix", ID]);
    assert_eq!(fs::read(&w).unwrap(), fs::read(&u).unwrap());
    assert!(fs::read(&w).unwrap().len() < old.len());
    assert!(modified(&w) > was_w && modified(&u) > was_u);
    // The copy that JP loaded is the one it loads.
    assert!(modified(&u) > modified(&w));
    // Nothing of ours lies beside it.
    for dir in [w.parent().unwrap(), u.parent().unwrap()] {
        let mut names: Vec<_> =
            fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        assert_eq!(names, ["base_config.json", "events.json", "metadata.json"]);
    }
    assert!(!p.silo.join("locks").exists(), "the lock and its folder are gone");
    // One object serves both: the same content is kept once. And undo gives both back, as new as they must be.
    assert_eq!(p.sandbox.backups().len(), 1);
    let repaired = modified(&u);
    p.sandbox.expect(0, &["undo", w.to_str().unwrap()]);
    assert_eq!(fs::read(&w).unwrap(), old);
    assert_eq!(fs::read(&u).unwrap(), old);
    assert!(modified(&u) > repaired && modified(&u) > modified(&w));
}

#[test]
fn a_twin_that_needs_no_cut_is_not_touched_and_stays_the_loaded_one() {
    let p = projected("ab12z");
    let w = conversation(&p.workspace, DS, &stream(&"x".repeat(300_000), 0));
    let u = conversation(&p.silo, DS, &stream("short", 3));
    age_all(&w, 1000);
    age_all(&u, 10);
    let (bytes, time) = (fs::read(&u).unwrap(), modified(&u));
    p.sandbox.expect(0, &["fix", "."]);
    assert_eq!((fs::read(&u).unwrap(), modified(&u)), (bytes, time));
    assert!(fs::metadata(&w).unwrap().len() < 400_000);
    assert!(modified(&w) < time, "the stale copy must not become the one that JP loads");
}

#[test]
fn an_equally_new_pair_stays_the_users() {
    let p = projected("ab12z");
    let w = conversation(&p.workspace, DS, &stream(&"x".repeat(300_000), 0));
    let u = conversation(&p.silo, DS, &stream(&"y".repeat(300_000), 1));
    let time = SystemTime::now() - Duration::from_secs(500);
    for path in [&w, &u, &w.with_file_name("base_config.json"), &u.with_file_name("base_config.json")] {
        fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
    }
    p.sandbox.expect(0, &["fix", "."]);
    assert!(modified(&u) > modified(&w) && modified(&w) > time);
}

#[test]
fn a_copy_that_cannot_be_read_leaves_its_twin_alone() {
    let p = projected("ab12z");
    let old = stream(&"x".repeat(300_000), 0);
    let w = conversation(&p.workspace, DS, &old);
    let u = conversation(&p.silo, DS, &old[..old.len() / 2]);
    let ran = p.sandbox.expect(2, &["fix", "."]);
    assert!(ran.stderr.contains(u.to_str().unwrap()) && ran.stderr.contains("other copy"), "{}", ran.stderr);
    assert_eq!(fs::read(&w).unwrap(), old);
}

#[test]
fn a_held_lock_is_refused_by_name() {
    let p = projected("ab12z");
    let old = stream(&"x".repeat(300_000), 0);
    let w = conversation(&p.workspace, DS, &old);
    let other = conversation(&p.workspace, "17712345999", &old);
    let locks = p.silo.join("locks");
    fs::create_dir(&locks).unwrap();
    let lock = locks.join(format!("{ID}.lock"));
    let mut holder = std::process::Command::new("flock")
        .args(["--exclusive", "--no-fork"])
        .arg(&lock)
        .args(["sleep", "60"])
        .spawn()
        .unwrap();
    while fs::metadata(&lock).is_err() || rustix_try(&lock) {
        std::thread::sleep(Duration::from_millis(10));
    }
    fs::write(&lock, format!(r#"{{"pid":{},"session":"s","acquired_at":"2026-03-03T03:00:00Z"}}"#, holder.id()))
        .unwrap();
    // The dry run says what the real one would.
    for args in [&["fix", "-n", "."][..], &["fix", "."]] {
        let ran = p.sandbox.expect(2, args);
        assert!(
            ran.stderr.contains(&format!("pid {}", holder.id())) && ran.stderr.contains("in use"),
            "{}",
            ran.stderr
        );
        assert_eq!(fs::read(&w).unwrap(), old);
    }
    // The other conversation was repaired all the same.
    assert!(fs::metadata(&other).unwrap().len() < old.len() as u64);
    holder.kill().unwrap();
    holder.wait().unwrap();
    // A lock file that nobody holds is stale.
    p.sandbox.expect(0, &["fix", "."]);
    assert!(fs::metadata(&w).unwrap().len() < old.len() as u64);
    assert!(!lock.exists());
}

/// Whether nobody holds the lock.
fn rustix_try(lock: &Path) -> bool {
    let file = fs::File::open(lock).unwrap();
    file.try_lock().is_ok()
}

#[test]
fn targets() {
    let p = projected("ab12z");
    let old = stream(&"x".repeat(300_000), 0);
    conversation(&p.workspace, &format!("{DS}-a-talk"), &old);
    conversation(&p.silo, DS, &old);
    conversation(&p.silo, "17712346000", &old);
    let count = |args: &[&str]| {
        let report = p.sandbox.json(1, args);
        report["files"].as_array().unwrap().len()
    };
    assert_eq!(count(&["check", "."]), 2, "a workspace, and its conversation's twin");
    assert_eq!(count(&["check", p.silo.to_str().unwrap()]), 3, "a silo, its link to the workspace not followed");
    assert_eq!(count(&["check", ".jp/conversations/17712345000-a-talk"]), 2);
    assert_eq!(count(&["check", "jp-c17712345000"]), 2);
    assert_eq!(count(&["check", "jp-c17712345000-ab12z"]), 2);
    assert_eq!(count(&["check", "jp-c17712346000"]), 1);
    assert_eq!(count(&["check"]), 3, "without a path: the workspace of the current directory, and the user's");
    let ran = p.sandbox.expect(2, &["check", "jp-c17000000000"]);
    assert!(ran.stderr.contains("jp-c17000000000"), "{}", ran.stderr);
    p.sandbox.expect(2, &["check", "jp-c17712345000-zzzzz"]);
}

#[test]
fn the_trash_is_not_scanned_and_the_archive_is() {
    let p = projected("ab12z");
    let old = stream(&"x".repeat(300_000), 0);
    for folder in [".archive/17712345000-a", ".trash/17712345001-b", ".old-17712345002", ".staging-1", "17712345003"] {
        conversation(&p.workspace, folder, &old);
    }
    let report = p.sandbox.json(1, &["check", "."]);
    let dead: Vec<(&str, &Value)> = report["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|f| (f["path"].as_str().unwrap(), &f["findings"][0]["live"]))
        .collect();
    assert_eq!(dead.len(), 2, "{dead:?}");
    assert!(dead[0].0.contains(".archive") && dead[0].1 == &json!(false));
    assert!(dead[1].0.contains("17712345003") && dead[1].1 == &json!(true));
    let live = p.sandbox.json(1, &["check", "--live-only", "."]);
    assert_eq!(live["files"].as_array().unwrap().iter().filter(|f| f["status"] == "over").count(), 1);
}

#[test]
fn undo_keeps_later_turns() {
    let sandbox = Sandbox::new();
    let text = "the line that says why\n".repeat(20_000);
    let path = sandbox.put("conversations/17712345000/events.json", stream(&text, 0));
    sandbox.put("conversations/17712345000/base_config.json", config());
    sandbox.expect(0, &["fix", "."]);
    // Two more turns, written as JP writes them: the whole array anew.
    let mut events: Vec<Value> = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let more: Vec<Value> = serde_json::from_slice(&stream(&text, 2)).unwrap();
    events.extend(more.into_iter().skip(4));
    fs::write(&path, serde_json::to_string_pretty(&events).unwrap() + "\n").unwrap();
    sandbox.expect(0, &["undo", path.to_str().unwrap()]);
    assert_eq!(fs::read(&path).unwrap(), stream(&text, 2), "the response is back and the turns are there");
    // Undo backed up what it replaced, so it can be undone.
    let runs = fs::read_dir(sandbox.path("state").join("unwedge/runs")).unwrap();
    let mut runs: Vec<_> = runs.map(|e| e.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    runs.sort();
    let undo = runs.iter().find(|run| {
        fs::read_to_string(sandbox.path("state").join(format!("unwedge/runs/{run}.jsonl")))
            .unwrap()
            .contains("\"undo\"")
    });
    sandbox.expect(0, &["undo", undo.unwrap()]);
    assert_eq!(fs::read(&path).unwrap(), (serde_json::to_string_pretty(&events).unwrap() + "\n").into_bytes());
}

#[test]
fn a_cut_that_was_changed_since_is_left_and_reported() {
    let sandbox = Sandbox::new();
    let path = sandbox.put("conversations/17712345000/events.json", stream(&"x".repeat(300_000), 0));
    sandbox.expect(0, &["fix", "."]);
    let mut events: Vec<Value> = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    events[3]["content"] = json!("c2hvcnQ=");
    let edited = serde_json::to_string_pretty(&events).unwrap();
    fs::write(&path, &edited).unwrap();
    let ran = sandbox.expect(1, &["undo", "."]);
    assert!(ran.stdout.contains("-1") || ran.stderr.contains("-1"), "names the cut: {}{}", ran.stdout, ran.stderr);
    assert_eq!(fs::read(&path).unwrap(), edited.as_bytes());
}

#[test]
fn two_runs_at_once_cut_once() {
    let sandbox = Sandbox::new();
    let old = stream(&"x".repeat(5_000_000), 0);
    let path = sandbox.put(".jp/conversations/17712345000/events.json", &old);
    sandbox.put(".jp/.id", "ab12z\n");
    let children: Vec<_> = (0..4)
        .map(|_| {
            sandbox
                .command(&["fix", "."])
                .stdout(std::process::Stdio::piped())
                .stderr(std::process::Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    let ended: Vec<_> = children.into_iter().map(|c| ran(c.wait_with_output().unwrap())).collect();
    // Whoever did not come first was refused, or found nothing to do.
    assert!(ended.iter().any(|r| r.status == 0));
    for r in &ended {
        assert!(
            r.status == 0
                || (r.status == 2
                    && (r.stderr.contains("in use") || r.stderr.contains("changed") || r.stderr.contains("replaced"))),
            "{}: {}{}",
            r.status,
            r.stdout,
            r.stderr
        );
    }
    assert!(fs::metadata(&path).unwrap().size() < 400_000);
    sandbox.expect(0, &["fix", "."]);
    assert_eq!(sandbox.backups().len(), 1);
    sandbox.expect(0, &["undo", "."]);
    assert_eq!(fs::read(&path).unwrap(), old);
}
