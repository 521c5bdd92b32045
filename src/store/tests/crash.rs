//! One repair, killed at every system call, and with every system call failing once.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use super::super::recover::recover;
use super::super::vault::RunState;
use super::*;

/// The repair itself, in a process of its own.
#[test]
#[ignore = "run by the tests of this module, under strace"]
#[expect(clippy::disallowed_methods, reason = "the outer test says where")]
#[expect(clippy::print_stdout, reason = "the outer test reads it")]
fn repairs() {
    let root = PathBuf::from(std::env::var_os("UNWEDGE_TEST_ROOT").unwrap());
    let state = root.join("state");
    let doc = root.join("tree/doc.jsonl");
    let said = recover(&state);
    let store = FileStore::new(Vault::new(&state), Journal::start(&state, Kind::Fix, None), Options::default());
    let done = Source::open(&doc).and_then(|source| {
        let text = source.read_all()?;
        let splices = splices();
        store.commit(Change { sha256: Some(sha(text)), ..change(&source, &splices) })
    });
    let found = store.finish();
    println!("\nRESULT {done:?} {said:?} {found:?}");
}

/// What a run does: a system call and how it ends.
fn run(bench: &Bench, inject: Option<&str>) -> String {
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "20"]);
    if let Some(inject) = inject {
        command.args(["strace", "-f", "-qq", "-o", "/dev/null", "-e", inject]);
    }
    command
        .arg(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "store::tests::crash::repairs", "--nocapture", "--test-threads", "1"])
        .env("UNWEDGE_TEST_ROOT", bench.root.path())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null());
    let alone = alone();
    let child = command.spawn().unwrap();
    drop(alone);
    String::from_utf8_lossy(&child.wait_with_output().unwrap().stdout).into_owned()
}

fn can_trace() -> bool {
    let _alone = alone();
    Command::new("strace").args(["-qq", "-o", "/dev/null", "true"]).status().is_ok_and(|s| s.success())
}

/// What must hold whatever happened.
fn check(bench: &Bench, case: &str, output: &str) {
    let text = bench.text();
    assert!(text == OLD || text == NEW, "{case}: {text}");
    assert_eq!(mode(&bench.doc), 0o640, "{case}");
    let backup = bench.vault().path_of(&sha(OLD));
    if text == NEW || backup.exists() {
        assert_eq!(std::fs::read_to_string(&backup).unwrap(), OLD, "{case}");
        assert_eq!(mode(&backup), 0o600, "{case}");
    }
    if output.contains("RESULT Ok") {
        assert_eq!(text, NEW, "{case}");
    }
    if output.contains("RESULT Err") && text == NEW {
        // The only errors after which the new bytes stand.
        let told = ["NotDurable", "doing: \"write the journal\"", "beside it as"].iter().any(|t| output.contains(t));
        assert!(told, "{case}: {output}");
    }
    // The next run says what happened, and leaves nothing of the first.
    let said = recover(&bench.state()).unwrap_or_else(|e| panic!("{case}: {e}")).said;
    assert!(!said.iter().any(|s| s.contains("was left")), "{case}: {said:?}");
    bench.is(&text);
    for run in super::super::journal::runs(&bench.state()).unwrap() {
        assert_eq!(run.state, RunState::Done, "{case}");
    }
    let found = bench.vault().verify().unwrap();
    assert!(found.damaged.is_empty() && found.recovered.is_empty(), "{case}: {found:?}");
    // And the repair can be made, or is found to have been made.
    if text == OLD {
        let done = commit(&bench.store(Options::default()), &bench.doc);
        assert!(done.is_ok(), "{case}: {done:?}");
    }
    bench.is(NEW);
    assert_eq!(std::fs::read_to_string(&backup).unwrap(), OLD, "{case}");
    let objects: BTreeSet<_> = names(&bench.state().join("objects")).into_iter().collect();
    assert_eq!(objects.len(), 1, "{case}: {objects:?}");
}

/// Injects at the first, second, ... call of a name, until there are no more of them.
fn at_every(call: &str, what: &str, most: usize) -> usize {
    for n in 1..=most {
        let bench = Bench::new();
        std::fs::set_permissions(&bench.doc, std::fs::Permissions::from_mode(0o640)).unwrap();
        let inject = format!("inject={call}:{what}:when={n}");
        let output = run(&bench, Some(&inject));
        let case = format!("{inject}: {output}");
        check(&bench, &case, &output);
        // Past the last of them nothing goes wrong any more.
        if output.contains("RESULT Ok") && what.contains("KILL") {
            return n - 1;
        }
    }
    most
}

/// Goes through the cases, two at a time.
fn all(cases: Vec<(&str, String, usize)>) -> usize {
    let next = std::sync::Mutex::new(cases.into_iter());
    std::thread::scope(|scope| {
        let work = || {
            let mut points = 0;
            while let Some((call, what, most)) = { next.lock().unwrap().next() } {
                points += at_every(call, &what, most);
            }
            points
        };
        let threads = [scope.spawn(work), scope.spawn(work)];
        threads.into_iter().map(|t| t.join().unwrap()).sum()
    })
}

#[test]
fn killed_at_every_step() {
    if !can_trace() {
        return skip("no strace here");
    }
    let calls = "openat open mkdirat fchmod fchown write pread64 fsync flock fcntl ioctl fadvise64 fsetxattr flistxattr \
                 utimensat renameat2 renameat unlinkat fstat newfstatat statx ftruncate close";
    let points = all(calls.split_whitespace().map(|call| (call, "signal=KILL".to_owned(), 200)).collect());
    assert!(points > 150, "only {points} points");
}

#[test]
fn failing_at_every_step() {
    if !can_trace() {
        return skip("no strace here");
    }
    // Past the last call of a name nothing fails; the numbers leave room.
    let calls = [
        ("write", "ENOSPC EIO EINTR", 12),
        ("openat", "EACCES EMFILE", 24),
        ("open", "EMFILE", 10),
        ("fsync", "EIO", 16),
        ("renameat2", "EIO EXDEV EINVAL", 3),
        ("unlinkat", "EIO", 2),
        ("mkdirat", "ENOSPC", 6),
        ("fchmod", "EPERM", 6),
        ("flistxattr", "EIO ENOTSUP", 3),
        ("utimensat", "EIO", 2),
        ("flock", "EINTR ENOLCK", 5),
        ("fcntl", "EINVAL", 36),
        ("pread64", "EIO EINTR", 20),
        ("newfstatat", "EIO", 20),
        ("fstat", "EIO", 20),
        ("ioctl", "EIO", 1),
    ];
    let mut cases = Vec::new();
    for (call, errors, most) in calls {
        cases.extend(errors.split_whitespace().map(|error| (call, format!("error={error}"), most)));
    }
    all(cases);
}
