//! The journal of a run, read from any bytes: what it says is believed no further than the backups and the document bear it out.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tempfile::TempDir;
use unwedge::cap::limits::Limits;
use unwedge::edits::Unwedge;
use unwedge::event::Event;
use unwedge::format::Places;
use unwedge::repair::{Hunks, Options};
use unwedge::store::journal;
use unwedge::store::vault::Vault;
use unwedge::undo::{Which, original, undo};

const RUN: &str = "20260105-100000-c0de";
/// A session, and the same one with its result cut; `fuzz/seeds.py` writes a journal that says so.
const OLD: &[u8] = include_bytes!("journal/old.jsonl");
const NEW: &[u8] = include_bytes!("journal/new.jsonl");
/// The hash of the old one.
const OLD_SHA256: &str = include_str!("journal/old.sha256");
/// In a journal's paths, where the fuzzer keeps its files.
const HERE: &[u8] = b"/HERE/";

struct Folder {
    dir: TempDir,
}

impl Folder {
    fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let root = dir.path().join("vault");
        let objects = root.join("objects").join(&OLD_SHA256[..2]);
        for folder in [&root, &root.join("runs"), &root.join("objects"), &objects] {
            fs::create_dir(folder).unwrap();
        }
        let folder = Folder { dir };
        let path = Vault::new(&folder.vault()).path_of(&hash(OLD_SHA256));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, OLD).unwrap();
        folder
    }
    fn vault(&self) -> PathBuf {
        self.dir.path().join("vault")
    }
}

fn hash(hex: &str) -> [u8; 32] {
    let bytes = hex.trim().as_bytes().chunks(2).map(|d| u8::from_str_radix(std::str::from_utf8(d).unwrap(), 16).unwrap());
    bytes.collect::<Vec<_>>().try_into().unwrap()
}

thread_local! {
    static FOLDER: RefCell<Folder> = RefCell::new(Folder::new());
}

pub fn run(data: &[u8]) {
    FOLDER.with_borrow(|folder| check(folder, data));
}

fn check(folder: &Folder, data: &[u8]) {
    let here = format!("{}/", folder.dir.path().display());
    let mut journal = Vec::new();
    let mut rest = data;
    while let Some(at) = memchr::memmem::find(rest, HERE) {
        journal.extend_from_slice(&rest[..at]);
        journal.extend_from_slice(here.as_bytes());
        rest = &rest[at + HERE.len()..];
    }
    journal.extend_from_slice(rest);
    let vault = folder.vault();
    fs::write(vault.join("runs").join(format!("{RUN}.jsonl")), journal).unwrap();
    let document = folder.dir.path().join("log.jsonl");
    fs::write(&document, NEW).unwrap();

    let Ok(read) = journal::read(&vault, RUN) else { return };
    assert!(journal::runs(&vault).unwrap().contains(&read));
    let store = Vault::new(&vault);
    let numbers = read.documents.iter().flat_map(|(intent, _)| &intent.cuts).map(|cut| cut.id).take(4);
    for number in numbers.chain([0, 1]) {
        let _ = read.cut(number);
        let _ = original(&store, &format!("{RUN}-{number}"));
    }
    let limits = |_: &Path| Ok(Limits::default());
    let options = Options {
        limits: &limits,
        places: Places { cwd: folder.dir.path().into(), ..Places::default() },
        jobs: 1,
        live_only: false,
        unwedge: Unwedge::Auto,
        spill: None,
        thorough: false,
        max_record: 1 << 20,
        min_idle: Duration::ZERO,
        vault,
        vault_named: false,
        no_backup: false,
        break_hardlinks: false,
        hunks: Hunks::None,
        stop: &AtomicBool::new(false),
    };
    // Nothing is written: what it would come to is proven all the same.
    for which in [Which::Run(RUN.into()), Which::Run(format!("{RUN}-1")), Which::Path(document.clone())] {
        let _ = undo(&which, true, &options, &mut |_: Event| {});
    }
    assert_eq!(fs::read(&document).unwrap(), NEW);
}
