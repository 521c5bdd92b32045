use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Command;
use std::time::Duration;

use super::super::journal::Outcome;
use super::super::vault::RunState;
use super::super::{AgentLock, Dry};
use super::*;

#[test]
fn a_change_is_backed_up_announced_made_and_noted() {
    // Whatever the umask.
    let umask = rustix::process::umask(rustix::fs::Mode::empty());
    let bench = Bench::new();
    let store = bench.store(Options::default());
    let done = commit(&store, &bench.doc).unwrap();
    bench.is(NEW);
    let backup = done.backup.unwrap();
    assert_eq!(std::fs::read_to_string(&backup).unwrap(), OLD);
    assert_eq!(backup, bench.vault().path_of(&sha(OLD)));
    let run = done.run.unwrap();
    assert_eq!(done.cut_ids, [format!("{run}-1")]);
    let journal = bench.state().join("runs").join(format!("{run}.jsonl"));
    for path in [&backup, &journal] {
        assert_eq!(mode(path), 0o600, "{}", path.display());
    }
    for dir in [&bench.state(), &bench.state().join("objects"), &bench.state().join("runs"), backup.parent().unwrap()] {
        assert_eq!(mode(dir), 0o700, "{}", dir.display());
    }
    rustix::process::umask(umask);

    assert_eq!(bench.run().state, RunState::Running);
    assert!(store.finish().errors.is_empty());
    let run = bench.run();
    assert_eq!(run.state, RunState::Done);
    let (intent, outcome) = &run.documents[0];
    assert_eq!((outcome, intent.document, intent.backup), (&Outcome::Done, 1, true));
    assert_eq!((intent.old.sha256, intent.new.sha256), (sha(OLD), sha(NEW)));
    assert_eq!((intent.old.len, intent.new.len), (OLD.len() as u64, NEW.len() as u64));
    assert_eq!((intent.format.as_str(), intent.conversation.as_deref()), ("test", Some("c1")));
    assert_eq!(intent.cuts, [cut()]);
    assert_eq!(intent.path, bench.doc.canonicalize().unwrap());
    assert_eq!(intent.draft, PathBuf::from(format!(".unwedge-{}-1", run.run)));
}

#[test]
fn ids_go_through_the_run() {
    let bench = Bench::new();
    let other = bench.doc.with_file_name("other.jsonl");
    std::fs::write(&other, OLD).unwrap();
    let store = bench.store(Options::default());
    commit(&store, &bench.doc).unwrap();
    let source = Source::open(&other).unwrap();
    let splices = splices();
    let mut second = change(&source, &splices);
    second.entry.cuts[0].id = 2;
    let done = store.commit(second).unwrap();
    let run = done.run.unwrap();
    assert_eq!(done.cut_ids, [format!("{run}-2")], "as the caller numbers them");
    // The same bytes are kept once.
    assert_eq!(names(done.backup.as_ref().unwrap().parent().unwrap()).len(), 1);
    store.finish();
    let run = bench.run();
    assert_eq!(run.documents.iter().map(|(i, _)| i.document).collect::<Vec<_>>(), [1, 2]);
    let (intent, outcome, cut) = run.cut(2).unwrap();
    assert_eq!((intent.path.file_name(), outcome, cut.id), (other.file_name(), &Outcome::Done, 2));
    assert!(run.cut(3).is_none());
}

#[test]
fn threads_share_a_run() {
    let bench = Bench::new();
    let docs: Vec<_> = (0..8).map(|n| bench.doc.with_file_name(format!("{n}.jsonl"))).collect();
    let alone = alone();
    docs.iter().for_each(|doc| std::fs::write(doc, OLD).unwrap());
    drop(alone);
    let store = bench.store(Options::default());
    let ids: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = docs.iter().map(|doc| scope.spawn(|| commit(&store, doc).unwrap().cut_ids)).collect();
        threads.into_iter().flat_map(|t| t.join().unwrap()).collect()
    });
    assert_eq!(ids.len(), 8);
    store.finish();
    assert!(bench.run().documents.iter().all(|(_, outcome)| *outcome == Outcome::Done));
    assert!(docs.iter().all(|doc| std::fs::read_to_string(doc).unwrap() == NEW));
    assert_eq!(bench.beside().len(), 9);
}

#[test]
fn no_change_leaves_no_trace() {
    let bench = Bench::new();
    let store = bench.store(Options::default());
    let source = Source::open(&bench.doc).unwrap();
    let none = Splices::default();
    let same = Splices::new(vec![Splice { range: 0..5, new: OLD.as_bytes()[..5].to_vec() }]).unwrap();
    for splices in [&none, &same] {
        assert_eq!(store.commit(change(&source, splices)).unwrap(), Commit::default());
        assert_eq!(Dry::default().commit(change(&source, splices)).unwrap(), Commit::default());
    }
    assert_eq!(store.journal().run(), None);
    assert!(store.finish().errors.is_empty());
    assert!(!bench.state().exists());
    bench.is(OLD);
}

#[test]
fn a_failed_proof_throws_the_new_bytes_away() {
    let bench = Bench::new();
    let store = bench.store(Options::default());
    let source = Source::open(&bench.doc).unwrap();
    let splices = splices();
    let disprove = |_: &mut dyn Written| -> Result<Verified> {
        Err(Error::Unproven { path: bench.doc.clone(), what: "a record is missing".into() })
    };
    let change = Change { prove: &disprove, ..change(&source, &splices) };
    assert!(matches!(store.commit(change), Err(Error::Unproven { .. })));
    bench.is(OLD);
    store.finish();
    let Outcome::Dropped(why) = &bench.run().documents[0].1 else { panic!() };
    assert!(why.contains("a record is missing"));
    // The proof of other bytes is no proof.
    let other = |_: &mut dyn Written| Ok(Verified::unproven(b"other"));
    let store = bench.store(Options::default());
    let change = Change { prove: &other, ..super::change(&source, &splices) };
    assert!(matches!(store.commit(change), Err(Error::Unproven { .. })));
    let change = Change { prove: &other, ..super::change(&source, &splices) };
    assert!(matches!(Dry::default().commit(change), Err(Error::Unproven { .. })));
    bench.is(OLD);
}

#[test]
fn other_bytes_than_were_measured_are_refused() {
    let bench = Bench::new();
    for options in [Options::default(), Options { no_backup: true, ..Options::default() }] {
        let source = Source::open(&bench.doc).unwrap();
        let splices = splices();
        let change = || Change { sha256: Some(sha("something else")), ..change(&source, &splices) };
        assert_changed(bench.store(options).commit(change()), "changed");
        assert_changed(Dry::default().commit(change()), "changed");
        assert!(!bench.state().exists());
        // A replacement beyond the end was planned on a longer document.
        let beyond = Splices::new(vec![Splice { range: 1000..1001, new: Vec::new() }]).unwrap();
        assert_changed(bench.store(options).commit(super::change(&source, &beyond)), "changed");
        assert!(!bench.state().exists());
    }
    bench.is(OLD);
}

#[test]
fn one_that_was_changed_just_now_is_in_use() {
    let bench = Bench::new();
    let source = Source::open(&bench.doc).unwrap();
    let splices = splices();
    let change = |min_idle| Change { min_idle, ..change(&source, &splices) };
    let hour = Some(Duration::from_secs(3600));
    assert_in_use(bench.store(Options::default()).commit(change(hour)), "changed in the last 1h (--min-idle)");
    assert_in_use(Dry::default().commit(change(hour)), "--min-idle");
    bench.store(Options::default()).commit(change(Some(Duration::ZERO))).unwrap();
    bench.is(NEW);
}

#[test]
fn without_a_backup_only_the_journal_is_kept() {
    let bench = Bench::new();
    let store = bench.store(Options { no_backup: true, ..Options::default() });
    assert_eq!(commit(&store, &bench.doc).unwrap().backup, None);
    store.finish();
    assert_eq!(names(&bench.state()), ["runs"]);
    assert!(!bench.run().documents[0].0.backup);
    assert!(bench.vault().verify().unwrap().damaged.is_empty());
}

#[test]
fn a_name_that_is_no_text_survives() {
    let bench = Bench::named(std::ffi::OsStr::from_bytes(b"caf\xe9.jsonl"));
    let store = bench.store(Options::default());
    commit(&store, &bench.doc).unwrap();
    store.finish();
    bench.is(NEW);
    assert_eq!(bench.run().documents[0].0.path, bench.doc.canonicalize().unwrap());
    assert_eq!(bench.vault().list().unwrap()[0].documents[0].path, bench.doc.canonicalize().unwrap());
}

/// What a dry run may not change: names, inodes, times, bytes.
fn snapshot(root: &Path) -> Vec<String> {
    let mut all = Vec::new();
    for name in names(root) {
        let path = root.join(name);
        let m = std::fs::symlink_metadata(&path).unwrap();
        let times = (m.mtime(), m.mtime_nsec(), m.ctime(), m.ctime_nsec());
        all.push(format!("{} {} {} {times:?} {:o}", path.display(), m.ino(), m.size(), m.mode()));
        if m.is_dir() {
            all.extend(snapshot(&path));
        }
    }
    let m = std::fs::metadata(root).unwrap();
    all.push(format!("{} {} {}", m.ino(), m.mtime(), m.mtime_nsec()));
    all
}

#[test]
fn a_dry_run_touches_nothing_and_refuses_the_same() {
    let bench = Bench::new();
    let lock_path = bench.doc.with_file_name("doc.lock");
    std::fs::write(&lock_path, "").unwrap();
    std::thread::sleep(Duration::from_millis(10));
    let before = snapshot(bench.root.path());
    AgentLock::probe(std::slice::from_ref(&lock_path)).unwrap();
    assert_eq!(commit(&Dry::default(), &bench.doc).unwrap(), Commit::default());
    assert_eq!(snapshot(bench.root.path()), before);
    // Refusals.
    let source = Source::open(&bench.doc).unwrap();
    let splices = splices();
    let alone = alone();
    let writer = std::fs::OpenOptions::new().append(true).open(&bench.doc).unwrap();
    if cfg!(target_os = "linux") {
        assert_in_use(commit(&Dry::default(), &bench.doc), "open for writing");
    }
    drop(writer);
    drop(alone);
    let disprove = |_: &mut dyn Written| -> Result<Verified> {
        Err(Error::Unproven { path: bench.doc.clone(), what: "no".into() })
    };
    let unproven = Dry::default().commit(Change { prove: &disprove, ..change(&source, &splices) });
    assert!(matches!(unproven, Err(Error::Unproven { .. })));
    std::fs::hard_link(&bench.doc, bench.root.path().join("other")).unwrap();
    assert_refused(commit(&Dry::default(), &bench.doc), "hard links");
    commit(&Dry { break_hardlinks: true }, &bench.doc).unwrap();
    // It was opened before it got its second name.
    assert_changed(Dry::default().commit(change(&source, &splices)), "changed");
    assert!(!bench.state().exists());
}

#[test]
fn a_vault_that_cannot_be_written_is_named_and_nothing_is_done() {
    let bench = Bench::new();
    std::fs::write(bench.state(), "a file, no directory").unwrap();
    let error = commit(&bench.store(Options::default()), &bench.doc).unwrap_err();
    assert!(matches!(&error, Error::Io { path, .. } if path.starts_with(bench.state())), "{error:?}");
    bench.is(OLD);
    std::fs::remove_file(bench.state()).unwrap();
    // A link in place of the objects is not followed.
    std::fs::create_dir(bench.state()).unwrap();
    std::os::unix::fs::symlink(bench.root.path(), bench.state().join("objects")).unwrap();
    let error = commit(&bench.store(Options::default()), &bench.doc).unwrap_err();
    assert!(matches!(&error, Error::Io { path, .. } if path.ends_with("objects")), "{error:?}");
    std::fs::remove_file(bench.state().join("objects")).unwrap();
    std::fs::write(bench.state().join("runs"), "no directory").unwrap();
    let error = commit(&bench.store(Options::default()), &bench.doc).unwrap_err();
    assert!(matches!(&error, Error::Io { path, .. } if path.ends_with("runs")), "{error:?}");
    bench.is(OLD);
}

/// A small file system of its own, until it is dropped.
struct Small(PathBuf);

impl Small {
    fn mount(at: &Path) -> Option<Self> {
        let _alone = alone();
        std::fs::create_dir_all(at).unwrap();
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=64k", "tmpfs"]).arg(at).output();
        mounted.is_ok_and(|m| m.status.success()).then(|| Small(at.to_owned()))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _alone = alone();
        let _ = Command::new("umount").arg(&self.0).output();
    }
}

#[test]
fn a_full_disk_loses_nothing() {
    let big = format!("{OLD}{}\n", "x".repeat(40_000));
    // The vault's disk.
    let bench = Bench::new();
    let Some(small) = Small::mount(&bench.state()) else {
        return skip("cannot mount a small file system (not root?)");
    };
    std::fs::write(bench.state().join("filler"), "x".repeat(30_000)).unwrap();
    write(&bench.doc, &big);
    let error = commit(&bench.store(Options::default()), &bench.doc).unwrap_err();
    let full = |e: &Error| matches!(e, Error::Io { source, .. } if source.kind() == std::io::ErrorKind::StorageFull);
    assert!(full(&error) && error.path().unwrap().starts_with(bench.state()), "{error:?}");
    bench.is(&big);
    assert!(names(&bench.state().join("objects")).is_empty());
    drop(small);
    // The document's disk.
    let bench = Bench::new();
    let Some(_small) = Small::mount(&bench.doc.with_file_name("small")) else { return };
    let doc = bench.doc.with_file_name("small").join("doc.jsonl");
    write(&doc, &big);
    let store = bench.store(Options::default());
    let error = commit(&store, &doc).unwrap_err();
    assert!(full(&error) && error.path().unwrap().starts_with(doc.parent().unwrap()), "{error:?}");
    assert_eq!(std::fs::read_to_string(&doc).unwrap(), big);
    assert_eq!(names(doc.parent().unwrap()), ["doc.jsonl"]);
    store.finish();
    assert!(matches!(bench.run().documents[0].1, Outcome::Dropped(_)));
    assert_eq!(std::fs::read_to_string(bench.vault().path_of(&sha(&big))).unwrap(), big);
}

#[test]
fn a_directory_that_cannot_be_written_is_named() {
    if is_root() {
        return skip("root may write everywhere");
    }
    let bench = Bench::new();
    let dir = bench.doc.parent().unwrap();
    std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o500)).unwrap();
    let error = commit(&bench.store(Options::default()), &bench.doc).unwrap_err();
    assert!(error.path().unwrap().starts_with(dir), "{error:?}");
    std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o700)).unwrap();
    bench.is(OLD);
}

#[test]
fn a_journal_that_fails_once_is_not_written_again() {
    let bench = Bench::new();
    let store = bench.store(Options::default());
    commit(&store, &bench.doc).unwrap();
    // Nothing can be appended to a sealed disk; here the run has ended, which is the same to the journal.
    store.journal().end().unwrap();
    write(&bench.doc, OLD);
    let error = commit(&store, &bench.doc).unwrap_err();
    assert!(error.path().is_some_and(|p| p.starts_with(bench.state())), "{error:?}");
    bench.is(OLD);
}

#[test]
fn a_document_that_a_killed_run_left_unsettled_is_not_replaced() {
    let bench = Bench::new();
    let unsettled = [bench.doc.canonicalize().unwrap()].into();
    let store = bench.store(Options::default()).but(unsettled);
    let Err(Error::Refused { why, .. }) = commit(&store, &bench.doc) else { panic!("it was replaced") };
    assert!(why.contains("killed run"), "{why}");
    bench.is(OLD);
    assert!(store.journal().run().is_none(), "nothing was begun");
}
