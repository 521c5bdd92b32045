//! Bad input and bad luck: one clear error that names file and place, the other files done, nothing lost, nothing left.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::jp::{config, stream};
use crate::sandbox::{Ran, Sandbox, ran, snapshot};

fn wedged() -> Vec<u8> {
    stream(&"x".repeat(300_000), 0)
}

/// A sandbox with a wedged conversation that must be repaired whatever else is wrong, and another one with these bytes.
fn beside(bytes: &[u8]) -> (Sandbox, PathBuf, PathBuf) {
    let sandbox = Sandbox::new();
    let bad = sandbox.put("conversations/17712345001-bad/events.json", bytes);
    sandbox.put("conversations/17712345001-bad/base_config.json", config());
    let good = sandbox.put("conversations/17712345002-good/events.json", wedged());
    sandbox.put("conversations/17712345002-good/base_config.json", config());
    (sandbox, bad, good)
}

/// The bad file makes the run 2, is named with its place, and stays as it is; the good one is repaired.
#[track_caller]
fn reported(bytes: &[u8], place: &str, what: &str) {
    let (sandbox, bad, good) = beside(bytes);
    let check = sandbox.expect(2, &["check", "."]);
    let fix = sandbox.expect(2, &["fix", "."]);
    for ran in [&check, &fix] {
        let line = ran
            .stderr
            .lines()
            .find(|l| l.contains("17712345001-bad/events.json"))
            .unwrap_or_else(|| panic!("not named: {}", ran.stderr));
        assert!(line.contains(place) && line.contains(what), "{line}");
    }
    assert_eq!(fs::read(&bad).unwrap(), bytes);
    assert!(fs::metadata(&good).unwrap().len() < 400_000);
    let report: Value = sandbox.json(2, &["check", "."]);
    let error = &report["errors"][0];
    assert!(
        error["path"].as_str().unwrap().contains("17712345001-bad") && !error["message"].as_str().unwrap().is_empty(),
        "{error}"
    );
}

#[test]
fn broken_documents() {
    let whole = wedged();
    reported(&whole[..1000], ":19:", "ends inside a string");
    reported(b"", ":1:1", "ends before");
    reported(b"{\"a\": 1}\n", ":1:1", "expected an array of events");
    reported(b"[\n  {\"timestamp\": \"x\", \"type\": \"turn_start\"},\n]\n", ":3:1", "expected a JSON value");
    reported(&[&b"\xef\xbb\xbf"[..], &whole].concat(), ":1:1", "byte order mark");
    reported(&[&whole[..whole.len() - 3], b"\xff\n]\n"].concat(), "", "not UTF-8");
    reported(&[&whole[..], b"xx"].concat(), "", "after the end");
    reported(b"[\n  5,\n  {\"timestamp\": \"x\", \"type\": \"turn_start\"}\n]\n", ":2", "element 0 is not an event");
    reported(
        b"[\n  {\"timestamp\": \"x\", \"type\": \"tool_call_response\", \"content\": \"\", \"is_error\": false}\n]\n",
        ":2",
        "without an `id`",
    );
    reported(b"[\n  {\"timestamp\": \"x\", \"type\": \"tool_call_response\", \"id\": \"c\",\n \"content\": null, \"is_error\": false}\n]\n", ":3", "is not a string");
    reported(
        b"[\n  {\"timestamp\": \"x\", \"type\": \"tool_call_response\", \"id\": \"c\", \"is_error\": false}\n]\n",
        ":2",
        "is missing",
    );
}

#[test]
fn a_hundred_thousand_levels() {
    let deep = [vec![b'['; 100_000], vec![b']'; 100_000]].concat();
    reported(&deep, ":1", "element 0 is not an event");
    // Inside an event it is nobody's business.
    let text = String::from_utf8(wedged()).unwrap();
    let deep =
        text.replace("\"arguments\": {}", &format!("\"arguments\": {{\"a\": {}}}", String::from_utf8(deep).unwrap()));
    let sandbox = Sandbox::new();
    let path = sandbox.put("conversations/17712345001/events.json", &deep);
    sandbox.put("conversations/17712345001/base_config.json", config());
    sandbox.expect(0, &["fix", "."]);
    assert!(fs::metadata(&path).unwrap().len() < deep.len() as u64);
}

#[test]
fn ordinary_but_odd_is_no_trouble() {
    let text = String::from_utf8(wedged()).unwrap();
    let odd = text
        .replace("\"Run it\"", "\"Run \\ud83d it\"")
        .replace("\"is_error\": false", "\"is_error\": true, \"is_error\": false")
        .replace('\n', "\r\n");
    let sandbox = Sandbox::new();
    let path = sandbox.put("conversations/17712345001/events.json", odd.trim_end());
    sandbox.put("conversations/17712345001/base_config.json", config());
    let ran = sandbox.expect(0, &["fix", "."]);
    assert!(
        format!("{}{}", ran.stdout, ran.stderr).contains("unpaired surrogate"),
        "what stands in JP's way is noted: {}{}",
        ran.stdout,
        ran.stderr
    );
    let now = fs::read_to_string(&path).unwrap();
    assert!(
        now.contains("\\ud83d it")
            && now.contains("true, \"is_error\": false")
            && now.contains("\r\n")
            && !now.ends_with('\n')
    );
}

#[test]
fn a_document_of_two_hundred_megabytes() {
    let sandbox = Sandbox::new();
    let big = stream(&"0123456789abcde\n".repeat(150_000_000 / 16), 1);
    assert!(big.len() >= 200_000_000);
    let path = sandbox.put("conversations/17712345001/events.json", &big);
    sandbox.put("conversations/17712345001/base_config.json", config());
    let report = sandbox.json(0, &["fix", "."]);
    assert_eq!(report["files"][0]["findings"][0]["size"], 150_000_000);
    assert!(fs::metadata(&path).unwrap().len() < 400_000);
    sandbox.expect(0, &["undo", "."]);
    assert!(fs::read(&path).unwrap() == big);
}

#[test]
fn a_named_file_that_is_missing() {
    let (sandbox, _, good) = beside(&stream("short", 0));
    let ran = sandbox.expect(2, &["fix", "no/such/events.json", "conversations"]);
    assert!(ran.stderr.contains("no/such/events.json") && ran.stderr.contains("No such file"), "{}", ran.stderr);
    assert!(fs::metadata(good).unwrap().len() < 400_000, "the others are done");
}

#[test]
fn a_named_file_that_is_no_file() {
    let (sandbox, _, good) = beside(&stream("short", 0));
    rustix::fs::mknodat(
        rustix::fs::CWD,
        sandbox.tree().join("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    // Also where one stands in the place of a stream: walking passes it over without a wait.
    let dir = sandbox.tree().join("conversations/17712345003");
    fs::create_dir(&dir).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        dir.join("events.json"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    let ran = sandbox.expect(2, &["fix", "pipe", "."]);
    assert!(ran.stderr.contains("pipe") && ran.stderr.contains("not a regular file"), "{}", ran.stderr);
    assert!(fs::metadata(good).unwrap().len() < 400_000);
}

#[test]
fn a_named_file_that_no_format_claims_is_a_note() {
    let sandbox = Sandbox::new();
    sandbox.put("package.json", b"{\"name\": \"x\"}");
    sandbox.put("events.json", b"[{\"a\": 1}]");
    let ran = sandbox.expect(0, &["fix", "package.json", "events.json"]);
    assert!(ran.stderr.contains("package.json") && ran.stderr.contains("no format"), "{}", ran.stderr);
    let ran = sandbox.expect(0, &["fix", "."]);
    assert!(!format!("{}{}", ran.stdout, ran.stderr).contains("package.json"));
}

/// Runs the program as nobody, in a sandbox that is nobody's. `None`, loudly, where this process may not.
fn as_nobody(sandbox: &Sandbox, args: &[&str]) -> Option<Ran> {
    const NOBODY: u32 = 65534;
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: needs root, to become nobody: unwedge {}", args.join(" "));
        return None;
    }
    let program = sandbox.path("unwedge");
    if !program.exists() {
        fs::copy(env!("CARGO_BIN_EXE_unwedge"), &program).unwrap();
    }
    for entry in walkdir::WalkDir::new(sandbox.path("")).into_iter().map(Result::unwrap) {
        chown(entry.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let given = sandbox.command(args);
    let mut command = std::process::Command::new(program);
    command.args(args).current_dir(sandbox.tree()).stdin(std::process::Stdio::null());
    for (name, value) in given.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.uid(NOBODY).gid(NOBODY);
    loop {
        match command.output() {
            // Another test's child may still hold the copy open for writing, between its fork and its exec.
            Err(e) if e.kind() == std::io::ErrorKind::ExecutableFileBusy => std::thread::yield_now(),
            output => return Some(ran(output.unwrap())),
        }
    }
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_file_that_may_not_be_read() {
    let (sandbox, bad, good) = beside(&wedged());
    mode(&bad, 0);
    let Some(ran) = as_nobody(&sandbox, &["fix", "."]) else { return };
    assert_eq!(ran.status, 2, "{}{}", ran.stdout, ran.stderr);
    assert!(
        ran.stderr.contains("17712345001-bad/events.json") && ran.stderr.contains("Permission denied"),
        "{}",
        ran.stderr
    );
    assert_eq!(fs::read(bad).unwrap(), wedged());
    assert!(fs::metadata(good).unwrap().len() < 400_000);
}

#[test]
fn a_directory_that_may_not_be_read() {
    let (sandbox, bad, good) = beside(&wedged());
    mode(bad.parent().unwrap(), 0);
    let Some(ran) = as_nobody(&sandbox, &["check", "."]) else { return };
    assert_eq!(ran.status, 2, "{}{}", ran.stdout, ran.stderr);
    assert!(ran.stderr.contains("17712345001-bad") && ran.stderr.contains("Permission denied"), "{}", ran.stderr);
    assert!(ran.stdout.contains(good.parent().unwrap().file_name().unwrap().to_str().unwrap()), "{}", ran.stdout);
    mode(bad.parent().unwrap(), 0o700);
}

#[test]
fn a_directory_that_may_not_be_written() {
    let (sandbox, bad, good) = beside(&wedged());
    mode(bad.parent().unwrap(), 0o555);
    let Some(ran) = as_nobody(&sandbox, &["fix", "."]) else { return };
    assert_eq!(ran.status, 2, "{}{}", ran.stdout, ran.stderr);
    assert!(ran.stderr.contains("17712345001-bad") && ran.stderr.contains("Permission denied"), "{}", ran.stderr);
    assert_eq!(fs::read(&bad).unwrap(), wedged());
    assert!(fs::metadata(good).unwrap().len() < 400_000);
    mode(bad.parent().unwrap(), 0o755);
    assert_eq!(snapshot(bad.parent().unwrap()).len(), 2, "nothing left beside it");
}

#[test]
fn a_backup_directory_that_cannot_be_made() {
    let (sandbox, bad, good) = beside(&wedged());
    fs::write(sandbox.path("file"), b"").unwrap();
    let dir = sandbox.path("file/backups");
    let ran = sandbox.expect(2, &["fix", ".", "--backup-dir", dir.to_str().unwrap()]);
    assert!(ran.stderr.contains(dir.to_str().unwrap()), "{}", ran.stderr);
    assert_eq!(fs::read(bad).unwrap(), wedged(), "no backup, no repair");
    assert_eq!(fs::read(good).unwrap(), wedged());
}

#[test]
fn a_backup_directory_inside_the_tree() {
    let (sandbox, bad, _) = beside(&wedged());
    for args in [["fix", ".", "--backup-dir", "backups"], ["fix", ".", "--backup-dir", "./conversations/../b"]] {
        let ran = sandbox.expect(2, &args);
        assert!(ran.stderr.contains("inside the scanned tree"), "{}", ran.stderr);
    }
    assert_eq!(fs::read(bad).unwrap(), wedged());
    assert!(!sandbox.tree().join("backups").exists());
}

#[test]
fn a_full_disk() {
    let (sandbox, _, _) = beside(&stream("short", 0));
    let disk = sandbox.tree().join("disk");
    fs::create_dir(&disk).unwrap();
    let mounted =
        std::process::Command::new("mount").args(["-t", "tmpfs", "-o", "size=600k", "tmpfs"]).arg(&disk).status();
    if !mounted.is_ok_and(|s| s.success()) {
        eprintln!("SKIPPED: needs root, to mount a small file system");
        return;
    }
    // Room for the original, and not for what the repair writes beside it: 180 KB are left of 600.
    let path = sandbox.put("disk/conversations/17712345004/events.json", wedged());
    let result = std::panic::catch_unwind(|| {
        let before = snapshot(&disk);
        let ran = sandbox.expect(2, &["fix", "."]);
        assert!(ran.stderr.contains("17712345004") && ran.stderr.contains("No space left"), "{}", ran.stderr);
        assert_eq!(snapshot(&disk), before, "nothing changed, nothing left");
        // The same where the backups' disk is full.
        fs::remove_file(&path).unwrap();
        let other = sandbox.put("conversations/17712345005/events.json", wedged());
        fs::write(disk.join("filler"), vec![0; 500_000]).unwrap();
        let ran = sandbox.expect(2, &["fix", "conversations", "--backup-dir", disk.join("backups").to_str().unwrap()]);
        assert!(ran.stderr.contains("No space left"), "{}", ran.stderr);
        assert_eq!(fs::read(other).unwrap(), wedged());
        assert!(!snapshot(&disk).keys().any(|p| p.to_str().unwrap().contains("part")), "no half backup is left");
    });
    std::process::Command::new("umount").arg(&disk).status().unwrap();
    result.unwrap();
}

#[test]
fn a_symlink_is_followed_where_it_is_named_and_not_where_it_is_walked() {
    let sandbox = Sandbox::new();
    let real = sandbox.put("real/conversations/17712345001/events.json", wedged());
    let tree = sandbox.tree().join("links/conversations/17712345002");
    fs::create_dir_all(&tree).unwrap();
    let link = tree.join("events.json");
    std::os::unix::fs::symlink(&real, &link).unwrap();
    std::os::unix::fs::symlink(sandbox.tree().join("real"), sandbox.tree().join("links/dir")).unwrap();
    let report = sandbox.json(0, &["check", "links"]);
    assert_eq!(report["files"], json!([]));
    sandbox.expect(0, &["fix", link.to_str().unwrap()]);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink(), "the link stays one");
    assert!(fs::metadata(&real).unwrap().len() < 400_000);
}

#[test]
fn hard_links_are_refused_unless_broken() {
    let sandbox = Sandbox::new();
    let path = sandbox.put("conversations/17712345001/events.json", wedged());
    let twin = sandbox.tree().join("twin");
    fs::hard_link(&path, &twin).unwrap();
    for args in [&["fix", "-n", "."][..], &["fix", "."]] {
        let ran = sandbox.expect(2, args);
        assert!(ran.stderr.contains("--break-hardlinks"), "{}", ran.stderr);
    }
    assert_eq!(fs::read(&path).unwrap(), wedged());
    sandbox.expect(0, &["fix", ".", "--break-hardlinks"]);
    assert!(fs::metadata(&path).unwrap().len() < 400_000);
    assert_eq!(fs::read(&twin).unwrap(), wedged(), "the other name keeps the old content");
}
