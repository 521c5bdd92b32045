//! Undo is as safe as fix: whole or in part, after later turns, after a second fix, after the file was moved or rewritten.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::jp;
use crate::sandbox::{Ran, Sandbox};

const NAME: &str = "0f0f0f0f-0000-4000-8000-000000000001.jsonl";
const FOLDER: &str = ".claude/projects/p";

fn user(text: &str) -> String {
    line(&json!({ "sessionId": "s", "type": "user", "message": { "role": "user", "content": text }, "uuid": "u" }))
}

fn turn(id: &str, text: &str) -> String {
    let call = json!([{ "type": "tool_use", "id": id, "name": "Bash", "input": {} }]);
    let call = json!({ "sessionId": "s", "type": "assistant", "message": { "id": format!("m{id}"), "role": "assistant", "content": call }, "uuid": "a" });
    let result = json!([{ "tool_use_id": id, "type": "tool_result", "content": text }]);
    let result =
        json!({ "sessionId": "s", "type": "user", "message": { "role": "user", "content": result }, "uuid": "r" });
    line(&call) + &line(&result)
}

fn line(value: &Value) -> String {
    value.to_string() + "\n"
}

/// Two responses, of 9,000 and 5,000 bytes.
fn session() -> String {
    user("start") + &turn("t1", &"first\n".repeat(1500)) + &turn("t2", &"other\n".repeat(833)) + &user("the end of it")
}

struct Case {
    sandbox: Sandbox,
    doc: PathBuf,
}

impl Case {
    fn new() -> Self {
        let sandbox = Sandbox::new();
        let doc = sandbox.put(&format!("{FOLDER}/{NAME}"), session());
        Case { sandbox, doc }
    }

    /// Holds everything to a limit, and gives the run.
    #[track_caller]
    fn fix(&self, limit: &str) -> String {
        let report = self.sandbox.json(0, &["fix", ".", "--min-idle", "0", "--size-threshold", limit]);
        report["run"].as_str().expect("something was cut").to_owned()
    }

    #[track_caller]
    fn undo(&self, status: i32, what: &str) -> Ran {
        self.sandbox.expect(status, &["undo", what, "--min-idle", "0"])
    }

    fn text(&self) -> String {
        fs::read_to_string(&self.doc).unwrap()
    }

    fn path(&self) -> &str {
        self.doc.to_str().unwrap()
    }

    /// The run of the latest undo.
    fn latest(&self) -> String {
        let listed = self.sandbox.json(0, &["backups", "list"]);
        listed["runs"].as_array().unwrap().last().unwrap()["run"].as_str().unwrap().to_owned()
    }
}

#[test]
fn one_cut_of_several() {
    let case = Case::new();
    let run = case.fix("1000");
    let cut = case.text();
    // The largest comes first, so the other response is the second cut.
    case.undo(0, &format!("{run}-2"));
    let now = case.text();
    assert!(now.contains(&"other\\n".repeat(833)) && now.contains("[truncated, 9 KB"), "only the one is back");
    case.undo(0, &case.latest());
    assert_eq!(case.text(), cut, "the undo of a part is undone");
    case.undo(0, &format!("{run}-1"));
    case.undo(0, &format!("{run}-2"));
    assert_eq!(case.text(), session(), "one by one comes to the whole");
    assert!(case.undo(2, &format!("{run}-3")).stderr.contains("no run"));
}

#[test]
fn after_later_turns() {
    let case = Case::new();
    let run = case.fix("1000");
    let later = turn("t3", "short") + &user("and so on");
    fs::write(&case.doc, case.text() + &later).unwrap();
    let grown = case.text();
    case.undo(0, &run);
    assert_eq!(case.text(), session() + &later);
    let undo = case.latest();
    case.undo(0, &undo);
    assert_eq!(case.text(), grown, "as it was before the undo");
    case.undo(0, &case.latest());
    assert_eq!(case.text(), session() + &later, "and before the undo of the undo");
    // A second undo of the same run changes nothing.
    assert!(case.undo(0, &run).stdout.contains("already"));
    assert_eq!(case.text(), session() + &later);
}

#[test]
fn after_a_second_fix_with_other_limits() {
    let case = Case::new();
    let first = case.fix("4000");
    let once = case.text();
    let second = case.fix("1000");
    assert_ne!(case.text(), once);
    // The earlier run's texts are no longer as it wrote them: they are left, and named.
    let ran = case.undo(1, &first);
    assert!(ran.stdout.contains(&format!("{first}-1")), "{}", ran.stdout);
    // By path, the latest comes first, and then the one before it.
    case.undo(0, case.path());
    assert_eq!(case.text(), once);
    case.undo(0, case.path());
    assert_eq!(case.text(), session());
    let ran = case.undo(0, case.path());
    assert!(ran.stdout.contains("already"), "{}", ran.stdout);
    assert_eq!(case.text(), session());
    assert_ne!(first, second);
    // And a third fix can be undone like the first.
    case.fix("1000");
    case.undo(0, case.path());
    assert_eq!(case.text(), session());
}

#[test]
fn after_a_second_fix_that_cut_something_else() {
    let case = Case::new();
    let first = case.fix("8000");
    let second = case.fix("4500");
    assert_ne!(first, second);
    let later = turn("t3", &"third\n".repeat(1000));
    fs::write(&case.doc, case.text() + &later).unwrap();
    case.fix("4500");
    // What the middle run cut is put back, and what the others did stays. The first text was cut twice.
    let ran = case.undo(0, &second);
    assert!(ran.stdout.contains("2 texts"), "{}", ran.stdout);
    let now = case.text();
    assert!(
        now.contains(&"other\\n".repeat(833)) && now.contains("[truncated, 6 KB") && now.contains("[truncated, 9 KB")
    );
    case.undo(0, &first);
    assert!(case.text().starts_with(session().trim_end()));
}

#[test]
fn after_the_agent_rewrote_part_of_it() {
    let case = Case::new();
    let run = case.fix("1000");
    let lines: Vec<String> = case.text().lines().map(|l| format!("{l}\n")).collect();
    // The first result is edited, the first message is gone, and something is new.
    let edited = lines[2].replace("first", "FIRST");
    let rewritten = lines[1].clone() + &edited + &lines[3] + &user("new") + &lines[4] + &lines[5];
    fs::write(&case.doc, &rewritten).unwrap();
    let ran = case.undo(1, &run);
    assert!(ran.stdout.contains(&format!("{run}-1")) && !ran.stdout.contains(&format!("{run}-2")), "{}", ran.stdout);
    let original = session();
    let original: Vec<&str> = original.lines().collect();
    assert_eq!(
        case.text(),
        lines[1].clone() + &edited + &lines[3] + &user("new") + original[4] + "\n" + &lines[5],
        "what is as it was written is back, all else stays"
    );
    case.undo(0, &case.latest());
    assert_eq!(case.text(), rewritten);
}

/// Moves a conversation, and gives its new path.
fn moved(case: &Case, to: &str) -> PathBuf {
    let to = case.sandbox.tree().join(to);
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    fs::rename(&case.doc, &to).unwrap();
    to
}

#[test]
fn after_it_was_moved() {
    for (grows, name) in
        [(false, "else/where.jsonl"), (true, "else/where.jsonl"), (true, "b/.claude/projects/q/x.jsonl")]
    {
        let case = Case::new();
        let run = case.fix("1000");
        let to = moved(&case, name);
        let later = if grows { user("later") } else { String::new() };
        fs::write(&to, fs::read_to_string(&to).unwrap() + &later).unwrap();
        // Where it was, it is not; and it is said how to go on.
        let ran = case.undo(2, &run);
        assert!(ran.stderr.contains("no longer there") && ran.stderr.contains("unwedge undo PATH"), "{}", ran.stderr);
        let backup = case.sandbox.path("state").join(&case.sandbox.backups()[0]);
        assert!(ran.stderr.contains(backup.to_str().unwrap()), "{}", ran.stderr);
        assert_eq!(fs::read_to_string(backup).unwrap(), session());
        assert!(!case.doc.exists());
        // Its new place is known by what is in it.
        let was = fs::read_to_string(&to).unwrap();
        case.undo(0, to.to_str().unwrap());
        assert_eq!(fs::read_to_string(&to).unwrap(), session() + &later);
        case.undo(0, &case.latest());
        assert_eq!(fs::read_to_string(&to).unwrap(), was);
    }
}

#[test]
fn after_its_directory_was_moved() {
    let case = Case::new();
    case.fix("1000");
    let tree = case.sandbox.tree();
    fs::create_dir(tree.join("new")).unwrap();
    fs::rename(tree.join(".claude/projects"), tree.join("new/projects")).unwrap();
    case.undo(0, "new");
    assert_eq!(fs::read_to_string(tree.join("new/projects/p").join(NAME)).unwrap(), session());
}

#[test]
fn a_copy_and_a_stranger_are_not_taken_for_it() {
    let case = Case::new();
    case.fix("1000");
    let copy = case.sandbox.put("copy.jsonl", case.text());
    let stranger = case.sandbox.put("other/0f0f0f0f-0000-4000-8000-00000000000f.jsonl", user("else") + &session());
    for path in [&copy, &stranger] {
        let was = fs::read(path).unwrap();
        let ran = case.undo(2, path.to_str().unwrap());
        assert!(ran.stderr.contains("no run changed it"), "{}", ran.stderr);
        assert_eq!(fs::read(path).unwrap(), was);
    }
    // The copy is all there is, once the document itself is gone.
    fs::remove_file(&case.doc).unwrap();
    case.undo(0, copy.to_str().unwrap());
    assert_eq!(fs::read_to_string(&copy).unwrap(), session());
}

/// JP writes the whole file anew, so that only its id tells what was moved and went on.
#[test]
fn a_jp_conversation_that_was_moved_and_went_on() {
    let sandbox = Sandbox::new();
    let text = "the line that says why\n".repeat(20_000);
    let path = sandbox.put("conversations/17712345000/events.json", jp::stream(&text, 0));
    sandbox.put("conversations/17712345000/base_config.json", jp::config());
    sandbox.expect(0, &["fix", "."]);
    let mut events: Vec<Value> = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let more: Vec<Value> = serde_json::from_slice(&jp::stream(&text, 1)).unwrap();
    events.extend(more.into_iter().skip(4));
    fs::write(&path, serde_json::to_string_pretty(&events).unwrap() + "\n").unwrap();
    let tree = sandbox.tree();
    fs::create_dir(tree.join("elsewhere")).unwrap();
    fs::rename(tree.join("conversations"), tree.join("elsewhere/conversations")).unwrap();
    sandbox.expect(0, &["undo", "elsewhere"]);
    assert_eq!(fs::read(tree.join("elsewhere/conversations/17712345000/events.json")).unwrap(), jp::stream(&text, 1));
}

#[test]
fn a_damaged_backup_is_found_and_the_runs_it_takes_with_it_are_named() {
    let case = Case::new();
    let first = case.fix("4000");
    let second = case.fix("1000");
    let objects = case.sandbox.backups();
    let of = |bytes: &str| -> PathBuf {
        let path = objects.iter().map(|p| case.sandbox.path("state").join(p));
        path.into_iter().find(|p| fs::read_to_string(p).unwrap() == bytes).unwrap()
    };
    let object = of(&session());
    let damage = |path: &Path, bytes: Option<&[u8]>| match bytes {
        Some(bytes) => fs::write(path, bytes).unwrap(),
        None => fs::remove_file(path).unwrap(),
    };
    let now = case.text();
    let flipped = session().replacen("start", "Start", 1);
    for (bytes, what) in [(Some(flipped.as_bytes()), "damaged"), (Some(&b""[..]), "damaged"), (None, "missing")] {
        damage(&object, bytes);
        let ran = case.sandbox.expect(2, &["backups", "verify"]);
        assert!(
            ran.stderr.contains(what) && ran.stderr.contains(&first) && !ran.stderr.contains(&second),
            "{}",
            ran.stderr
        );
        let report: Value =
            serde_json::from_str(&case.sandbox.run(&["backups", "verify", "--output-format", "json"]).stdout).unwrap();
        assert_eq!(report["damaged"][0]["runs"], json!([first]), "{report}");
        // That run cannot be undone, and nothing is changed; the other one can.
        let ran = case.undo(2, &first);
        assert!(ran.stderr.contains(what), "{}", ran.stderr);
        assert_eq!(case.text(), now);
    }
    case.undo(0, &second);
    assert_ne!(case.text(), now);
    fs::write(&object, session()).unwrap();
    case.sandbox.expect(0, &["backups", "verify"]);
    case.undo(0, &first);
    assert_eq!(case.text(), session());
}

#[test]
fn who_uses_it_is_named() {
    let case = Case::new();
    let run = case.fix("1000");
    let now = case.text();
    // `cat` writes to it for as long as it gets no input.
    let open = fs::File::options().append(true).open(&case.doc).unwrap();
    let mut held = std::process::Command::new("cat").stdin(std::process::Stdio::piped()).stdout(open).spawn().unwrap();
    for args in [&["undo", &run, "--min-idle", "0"][..], &["undo", &run, "--min-idle", "1h"]] {
        let ran = case.sandbox.expect(2, args);
        assert!(ran.stderr.contains(&format!("cat (pid {})", held.id())), "{}", ran.stderr);
    }
    assert_eq!(case.text(), now);
    drop(held.stdin.take());
    held.wait().unwrap();
    case.undo(0, &run);
    assert_eq!(case.text(), session());
}

#[test]
fn configuration_that_never_ends() {
    let case = Case::new();
    let config = case.sandbox.tree().join("unwedge.toml");
    let fifo = || rustix::fs::mknodat(rustix::fs::CWD, &config, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let endless = || std::os::unix::fs::symlink("/dev/zero", &config).unwrap();
    for make in [&fifo as &dyn Fn(), &endless] {
        make();
        let ran = case.sandbox.expect(2, &["check", "."]);
        assert!(ran.stderr.contains("unwedge.toml") && ran.stderr.contains("regular file"), "{}", ran.stderr);
        fs::remove_file(&config).unwrap();
    }
}
