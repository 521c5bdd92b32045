use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};

use super::super::holders::writers;
use super::super::lease::{Lease, Taken};
use super::super::lock::{AgentLock, idle, stream_lock, unused};
use super::super::sys::{self, Flock};
use super::*;

struct Locks {
    root: TempDir,
    /// The user's, and the workspace's.
    paths: Vec<PathBuf>,
}

impl Locks {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let paths = ["u", "w"].map(|d| root.path().join(d).join("locks/jp-c1.lock")).to_vec();
        std::fs::create_dir(root.path().join("u")).unwrap();
        std::fs::create_dir(root.path().join("w")).unwrap();
        Locks { root, paths }
    }

    fn acquire(&self) -> Result<AgentLock> {
        AgentLock::acquire(&self.paths, Some(&self.paths[0]))
    }

    fn make(&self, which: usize, text: &str) -> File {
        std::fs::create_dir_all(self.paths[which].parent().unwrap()).unwrap();
        std::fs::write(&self.paths[which], text).unwrap();
        File::open(&self.paths[which]).unwrap()
    }
}

#[test]
fn made_where_there_is_none_and_removed_again() {
    let _alone = alone();
    let locks = Locks::new();
    let lock = locks.acquire().unwrap();
    let text = std::fs::read_to_string(&locks.paths[0]).unwrap();
    let info: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(info["pid"], std::process::id());
    let at = info["acquired_at"].as_str().unwrap();
    assert!(at.ends_with("+00:00") && humantime::parse_rfc3339(&at.replace("+00:00", "Z")).is_ok(), "{at}");
    assert!(!text.ends_with('\n'));
    lock.intact().unwrap();
    assert_in_use(locks.acquire(), "holds the lock");
    assert_in_use(AgentLock::probe(&locks.paths), "holds the lock");
    drop(lock);
    // The directory was made for it, and goes with it.
    assert!(!locks.root.path().join("u/locks").exists());
    assert!(locks.root.path().join("u").exists());
}

#[test]
fn no_lock_where_none_may_be_made() {
    let _alone = alone();
    let locks = Locks::new();
    let lock = AgentLock::acquire(&locks.paths, None).unwrap();
    assert!(!locks.root.path().join("u/locks").exists());
    lock.intact().unwrap();
    // Its agent starts.
    let held = locks.make(1, "");
    assert!(sys::flock(&held, Flock::TryExclusive).unwrap());
    assert_in_use(lock.intact(), "holds the lock");
}

#[test]
fn the_first_that_exists_wins_and_a_stale_one_is_taken() {
    let _alone = alone();
    let locks = Locks::new();
    locks.make(1, r#"{"pid":1,"acquired_at":"x"}"#);
    let lock = locks.acquire().unwrap();
    assert!(!locks.paths[0].exists());
    assert!(std::fs::read_to_string(&locks.paths[1]).unwrap().contains(&std::process::id().to_string()));
    drop(lock);
    assert!(!locks.paths[1].exists());
    assert!(locks.paths[1].parent().unwrap().exists());
}

#[test]
fn a_holder_is_named() {
    let _alone = alone();
    let locks = Locks::new();
    let held = locks.make(0, &format!(r#"{{"pid":{},"session":"s","acquired_at":"x"}}"#, std::process::id()));
    assert!(sys::flock(&held, Flock::TryExclusive).unwrap());
    let before = std::fs::metadata(&locks.paths[0]).unwrap();
    for result in [locks.acquire().map(drop), AgentLock::probe(&locks.paths)] {
        let Err(Error::InUse { holder: Some(holder), path, .. }) = result else { panic!("{result:?}") };
        assert!(holder.ends_with(&format!(" (pid {})", std::process::id())), "{holder}");
        assert_eq!(path, locks.paths[0]);
    }
    let after = std::fs::metadata(&locks.paths[0]).unwrap();
    assert_eq!((before.ino(), before.mtime_nsec(), before.size()), (after.ino(), after.mtime_nsec(), after.size()));
    // A line that says nothing, or a process that is gone, is no name.
    for text in ["", "{", r#"{"pid":4294967295}"#] {
        std::fs::write(&locks.paths[0], text).unwrap();
        assert!(matches!(locks.acquire(), Err(Error::InUse { holder: None, .. })));
    }
}

#[test]
fn a_second_lock_that_is_held_counts_too() {
    let _alone = alone();
    let locks = Locks::new();
    locks.make(0, "");
    let held = locks.make(1, "");
    assert!(sys::flock(&held, Flock::TryExclusive).unwrap());
    assert_in_use(locks.acquire(), "holds the lock");
}

#[test]
fn a_lock_file_that_goes_is_noticed_and_anothers_is_left() {
    let locks = Locks::new();
    let lock = locks.acquire().unwrap();
    std::fs::remove_file(&locks.paths[0]).unwrap();
    assert_in_use(lock.intact(), "removed or replaced");
    std::fs::write(&locks.paths[0], "another's").unwrap();
    assert_in_use(lock.intact(), "removed or replaced");
    drop(lock);
    assert_eq!(std::fs::read_to_string(&locks.paths[0]).unwrap(), "another's");
}

#[test]
fn probing_creates_nothing() {
    let _alone = alone();
    let locks = Locks::new();
    AgentLock::probe(&locks.paths).unwrap();
    assert!(names(&locks.root.path().join("u")).is_empty());
    let file = locks.make(0, "stale");
    AgentLock::probe(&locks.paths).unwrap();
    assert_eq!(std::fs::read_to_string(&locks.paths[0]).unwrap(), "stale");
    assert!(sys::flock(&file, Flock::TryExclusive).unwrap());
}

#[test]
fn only_a_file_is_a_lock() {
    let locks = Locks::new();
    locks.make(1, "");
    std::fs::create_dir(locks.root.path().join("u/locks")).unwrap();
    std::os::unix::fs::symlink(&locks.paths[1], &locks.paths[0]).unwrap();
    assert_refused(locks.acquire(), "a symbolic link");
    assert_refused(AgentLock::probe(&locks.paths), "a symbolic link");
    std::fs::remove_file(&locks.paths[0]).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, &locks.paths[0], rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    assert_refused(locks.acquire(), "a FIFO");
    assert_refused(AgentLock::probe(&locks.paths), "a FIFO");
    let error = AgentLock::acquire(&[], Some(&locks.paths[1].join("below/a/file"))).unwrap_err();
    assert!(matches!(error, Error::Io { .. }), "{error:?}");
}

#[test]
fn two_runs_exclude_each_other_on_a_stream() {
    let _alone = alone();
    let bench = Bench::new();
    let (a, b) = (Source::open(&bench.doc).unwrap(), Source::open(&bench.doc).unwrap());
    let lock = stream_lock(&a).unwrap();
    assert_in_use(stream_lock(&b).map(drop), "another unwedge");
    drop(lock);
    stream_lock(&b).map(drop).unwrap();
}

#[test]
fn idle_goes_by_the_modification_time() {
    let bench = Bench::new();
    let stamp = Source::open(&bench.doc).unwrap().stamp();
    let two = Duration::from_secs(2);
    assert!(!idle(&stamp, two, stamp.mtime));
    assert!(!idle(&stamp, two, stamp.mtime + Duration::from_millis(1999)));
    assert!(idle(&stamp, two, stamp.mtime + two));
    assert!(idle(&stamp, Duration::ZERO, SystemTime::now()));
    // A clock that is a little ahead does not make a busy file look idle; one that is far ahead does not lock it for ever.
    assert!(!idle(&stamp, two, stamp.mtime - Duration::from_secs(1)));
    assert!(idle(&stamp, two, stamp.mtime - Duration::from_secs(3600)));
}

/// A process that has a file open, until it is dropped.
struct Holder(Child);

impl Holder {
    fn new(path: &Path, how: &str) -> Self {
        let script = format!("exec 3{how} \"$1\"; echo; read x");
        let alone = alone();
        let mut child = Command::new("sh")
            .args(["-c", &script, "sh"])
            .arg(path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        drop(alone);
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Holder(child)
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

#[test]
#[cfg(target_os = "linux")]
fn writers_are_named_and_readers_are_not() {
    let bench = Bench::new();
    let source = Source::open(&bench.doc).unwrap();
    let reader = Holder::new(&bench.doc, "<");
    assert_eq!(writers(&source), None);
    unused(&source).unwrap();
    drop(reader);
    for how in [">>", "<>"] {
        let writer = Holder::new(&bench.doc, how);
        let expected = format!("sh (pid {})", writer.0.id());
        assert_eq!(writers(&source).as_deref(), Some(expected.as_str()));
        let Err(Error::InUse { holder, .. }) = unused(&source) else { panic!() };
        assert_eq!(holder, Some(expected.clone()));
        let bench_store = bench.store(Options::default());
        let error = commit(&bench_store, &bench.doc).unwrap_err().to_string();
        assert!(error.contains(&expected), "{error}");
        // Without leases the same is seen.
        let error = commit_with(&bench_store, &bench.doc, false, true, true, &|_| {}).unwrap_err().to_string();
        assert!(error.contains(&expected), "{error}");
        bench.is(OLD);
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_lease_tells_of_writers_and_holds_them_up() {
    let bench = Bench::new();
    let source = Source::open(&bench.doc).unwrap();
    let _alone = alone();
    let writer = std::fs::OpenOptions::new().append(true).open(&bench.doc).unwrap();
    assert!(matches!(Lease::take(source.file()), Taken::Busy));
    drop(writer);
    let Taken::Held(lease) = Lease::take(source.file()) else {
        return skip("no leases on this file system");
    };
    assert!(lease.intact());
    let doc = bench.doc.clone();
    let waiting = std::thread::spawn(move || append_now(&doc, LATE));
    // The signal that comes with it would have ended the process.
    while lease.intact() {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(bench.text(), OLD);
    drop(lease);
    waiting.join().unwrap();
    assert_eq!(bench.text(), format!("{OLD}{LATE}"));
    assert!(matches!(Lease::take(source.file()), Taken::Held(_)));
    // One that can write is not given one.
    let writable = std::fs::OpenOptions::new().read(true).write(true).open(&bench.doc).unwrap();
    assert!(!matches!(Lease::take(&writable), Taken::Held(_)));
}

/// A lock that says nothing of its holder is asked of the system.
#[test]
#[cfg(target_os = "linux")]
fn who_has_a_lock_is_named() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("doc");
    std::fs::write(&path, b"x").unwrap();
    let source = Source::open(&path).unwrap();
    let mut holder = Command::new("flock")
        .arg(&path)
        .args(["sh", "-c", "echo held; read x"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(holder.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "held\n");
    let refused = stream_lock(&source).err().map(|e| e.to_string()).unwrap_or_default();
    assert!(refused.contains(&format!("(pid {})", holder.id())), "{refused}");
    drop(holder.stdin.take());
    holder.wait().unwrap();
    assert!(stream_lock(&source).is_ok());
}

#[test]
fn what_a_killed_run_left_is_removed_and_nobody_elses() {
    let _alone = alone();
    let locks = Locks::new();
    drop(locks.make(0, r#"{"pid":1,"acquired_at":"x"}"#));
    AgentLock::clean_up(&locks.paths);
    assert!(!locks.paths[0].exists());
    for text in ["", "{", r#"{"pid":1,"session":"s","acquired_at":"x"}"#] {
        drop(locks.make(0, text));
        AgentLock::clean_up(&locks.paths);
        assert_eq!(std::fs::read_to_string(&locks.paths[0]).unwrap(), text);
    }
    let held = locks.make(0, r#"{"pid":1,"acquired_at":"x"}"#);
    assert!(sys::flock(&held, Flock::TryExclusive).unwrap());
    AgentLock::clean_up(&locks.paths);
    assert!(locks.paths[0].exists());
}
