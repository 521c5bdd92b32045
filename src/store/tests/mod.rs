//! Tests of the store, on real files. What needs root or a kernel's favour says so when it is passed over.

#![expect(clippy::disallowed_methods, reason = "the tests make and break files behind the store's back")]

mod commit;
mod crash;
mod file;
mod journal;
mod live;
mod lock;
mod packed;
mod race;
mod recover;
mod swap;
mod vault;

use std::ffi::OsString;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use tempfile::TempDir;

use super::journal::{Cut, Journal, Kind, Run};
use super::swap::{Step, Ways};
use super::vault::Vault;
use super::{Change, Commit, FileStore, IntentInfo, Options, Source, Store, Times};
use crate::error::{Error, Result};
use crate::text::literal::Encoding;
use crate::text::splice::{Splice, Splices};
use crate::verify::{Verified, Written};

const OLD: &str = "{\"n\":1,\"text\":\"a long long text\"}\n{\"n\":2}\n";
const NEW: &str = "{\"n\":1,\"text\":\"short\"}\n{\"n\":2}\n";
const LATE: &str = "{\"n\":3}\n";

/// Keeps other tests from starting a child. A child has every descriptor of this process until it runs its own program, so one
/// that is started while a test has its document open for writing, or something locked, would look like another writer or
/// holder.
struct Alone(Option<std::sync::MutexGuard<'static, ()>>);

thread_local! {
    static ALONE: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

fn alone() -> Alone {
    static SPAWN: std::sync::Mutex<()> = std::sync::Mutex::new(());
    if ALONE.replace(true) {
        return Alone(None);
    }
    Alone(Some(SPAWN.lock().unwrap_or_else(std::sync::PoisonError::into_inner)))
}

impl Drop for Alone {
    fn drop(&mut self) {
        if self.0.is_some() {
            ALONE.set(false);
        }
    }
}

/// A document in a directory of its own, and a vault beside that directory.
struct Bench {
    root: TempDir,
    doc: PathBuf,
}

impl Bench {
    fn new() -> Self {
        Self::named("doc.jsonl")
    }

    fn named(name: impl AsRef<Path>) -> Self {
        let root = tempfile::tempdir().unwrap();
        let doc = root.path().join("tree").join(name);
        std::fs::create_dir(doc.parent().unwrap()).unwrap();
        let _alone = alone();
        std::fs::write(&doc, OLD).unwrap();
        Bench { root, doc }
    }

    fn state(&self) -> PathBuf {
        self.root.path().join("state")
    }

    fn vault(&self) -> Vault {
        Vault::new(self.state())
    }

    fn store(&self, options: Options) -> FileStore {
        FileStore::new(self.vault(), Journal::start(&self.state(), Kind::Fix, None), options)
    }

    fn text(&self) -> String {
        std::fs::read_to_string(&self.doc).unwrap()
    }

    /// The names beside the document.
    fn beside(&self) -> Vec<OsString> {
        names(self.doc.parent().unwrap())
    }

    /// The only run.
    fn run(&self) -> Run {
        let mut runs = super::journal::runs(&self.state()).unwrap();
        assert_eq!(runs.len(), 1);
        runs.remove(0)
    }

    /// Nothing but the document, with these bytes.
    fn is(&self, text: &str) {
        assert_eq!(self.text(), text);
        assert_eq!(self.beside(), [self.doc.file_name().unwrap()]);
    }
}

fn names(dir: &Path) -> Vec<OsString> {
    let mut names: Vec<_> = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    names
}

fn mode(path: &Path) -> u32 {
    std::fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

fn sha(bytes: impl AsRef<[u8]>) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

fn prove(reader: &mut dyn Written) -> Result<Verified> {
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes).unwrap();
    Ok(Verified::unproven(&bytes))
}

fn cut() -> Cut {
    Cut {
        padding: false,
        edit: None,
        id: 1,
        call_id: "call_1".into(),
        tool: Some("fs_read_file".into()),
        part: 0,
        record: 0,
        line: 1,
        old: 14..32,
        new: 14..21,
        new_sha256: sha("\"short\""),
        encoding: Encoding::Plain,
        size: 16,
        delivered: 5,
    }
}

fn splices() -> Splices {
    Splices::new(vec![Splice { range: 14..32, new: b"\"short\"".to_vec() }]).unwrap()
}

/// The change from `OLD` to `NEW`.
fn change<'a>(source: &'a Source, splices: &'a Splices) -> Change<'a> {
    Change {
        source,
        sha256: Some(sha(source.read_all().unwrap_or_default())),
        splices,
        whole: None,
        prove: &prove,
        times: Times::Keep,
        carry: true,
        min_idle: None,
        lock: None,
        entry: IntentInfo { format: "test".into(), conversation: Some("c1".into()), packed: false, cuts: vec![cut()] },
    }
}

/// Makes the change, by a store.
fn commit(store: &dyn Store, doc: &Path) -> Result<Commit> {
    let source = Source::open(doc).unwrap();
    store.commit(change(&source, &splices()))
}

/// Makes the change with something happening in between.
fn commit_with(
    store: &FileStore,
    doc: &Path,
    lease: bool,
    exchange: bool,
    carry: bool,
    at: &dyn Fn(Step),
) -> Result<Commit> {
    let source = Source::open(doc).unwrap();
    let splices = splices();
    let change = Change { carry, ..change(&source, &splices) };
    store.commit_by(&change, Ways { lease, exchange, at })
}

fn write(path: &Path, text: &str) {
    let _alone = alone();
    std::fs::write(path, text).unwrap();
}

fn append(path: &Path, text: &str) {
    let _alone = alone();
    append_now(path, text);
}

fn append_now(path: &Path, text: &str) {
    use std::io::Write;
    let mut file = std::fs::OpenOptions::new().append(true).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[expect(clippy::print_stderr, reason = "a test that does nothing must not look like one that passed")]
fn skip(why: &str) {
    eprintln!("SKIPPED: {why}");
}

#[track_caller]
fn assert_changed<T: std::fmt::Debug>(result: Result<T>, expected: &str) {
    match result {
        Err(Error::Changed { what, .. }) => assert_eq!(what, expected),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn assert_in_use<T: std::fmt::Debug>(result: Result<T>, expected: &str) {
    match result {
        Err(Error::InUse { why, .. }) => assert!(why.contains(expected), "{why}"),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn assert_refused<T: std::fmt::Debug>(result: Result<T>, expected: &str) -> String {
    match result {
        Err(Error::Refused { why, .. }) => {
            assert!(why.contains(expected), "{why}");
            why
        }
        other => panic!("{other:?}"),
    }
}
