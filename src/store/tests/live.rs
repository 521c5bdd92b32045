//! Writers that do not stop while a document is repaired over and over. No line may be lost.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::super::journal::Content;
use super::super::late::Sweep;
use super::super::replace::Draft;
use super::super::swap::Order;
use super::*;

const LINES: u32 = 3000;

/// How a writer goes about it.
#[derive(Clone, Copy)]
enum Style {
    /// Opens the file for every line.
    Opens,
    /// Opens it for twenty lines at a time.
    Holds,
}

fn write(doc: &Path, style: Style, done: &AtomicBool) {
    let open = || std::fs::File::options().append(true).open(doc).unwrap();
    let mut n = 0;
    while n < LINES {
        let mut held = matches!(style, Style::Holds).then(open);
        for _ in 0..20 {
            n += 1;
            let line = format!("line {n}\n");
            match &mut held {
                Some(file) => file.write_all(line.as_bytes()).unwrap(),
                None => open().write_all(line.as_bytes()).unwrap(),
            }
            std::thread::sleep(Duration::from_micros(40));
        }
        drop(held);
        // Long enough for a whole repair, sometimes.
        std::thread::sleep(Duration::from_millis(u64::from(n / 20 % 8)));
    }
    done.store(true, Ordering::SeqCst);
}

/// Repairs as long as the writer goes on, and then looks for its lines.
fn nothing_is_lost(style: Style, repairer: impl FnOnce(&Path, &Path, &dyn Fn() -> bool)) {
    let lost = lost(style, repairer);
    assert!(lost.is_empty(), "lost or doubled: {lost:?}");
}

/// The lines that are not there, or there twice.
fn lost(style: Style, repairer: impl FnOnce(&Path, &Path, &dyn Fn() -> bool)) -> Vec<u32> {
    // In memory where that can be had: the faster the repairs, the more of them meet the writer.
    let root = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let doc = root.path().join("doc.jsonl");
    std::fs::write(&doc, "repair none\n").unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| write(&doc, style, &done));
        repairer(&doc, &root.path().join("state"), &|| !done.load(Ordering::SeqCst));
    });
    let text = std::fs::read_to_string(&doc).unwrap();
    let mut seen = BTreeMap::new();
    for line in text.lines().skip(1) {
        *seen.entry(line.to_owned()).or_insert(0) += 1;
    }
    assert!(names(root.path()).iter().all(|n| n == "doc.jsonl" || n == "state"), "{:?}", names(root.path()));
    (1..=LINES).filter(|n| seen.get(&format!("line {n}")) != Some(&1)).collect()
}

/// Where the first line ends, which says how often the document was repaired.
fn first_line(text: &[u8]) -> u64 {
    text.iter().position(|&b| b == b'\n').unwrap() as u64
}

fn read(source: &Source) -> Option<Vec<u8>> {
    match source.read_all() {
        Ok(text) => Some(text),
        Err(Error::Changed { .. }) => None,
        Err(e) => panic!("{e}"),
    }
}

/// Whole commits, journal and all.
fn commits(doc: &Path, state: &Path, goes_on: &dyn Fn() -> bool) {
    let options = Options { no_backup: true, ..Options::default() };
    let store = FileStore::new(Vault::new(state), Journal::start(state, Kind::Fix, None), options);
    let (mut made, mut refused) = (0, 0);
    while goes_on() {
        let source = Source::open(doc).unwrap();
        let Some(text) = read(&source) else { continue };
        let range = 0..first_line(&text);
        let splices = Splices::new(vec![Splice { range, new: format!("repair {made}").into() }]).unwrap();
        let entry = IntentInfo::default();
        match store.commit(Change { sha256: Some(sha(&text)), entry, ..change(&source, &splices) }) {
            Ok(_) => made += 1,
            Err(Error::Changed { .. } | Error::InUse { .. }) => refused += 1,
            Err(e) => panic!("{e}"),
        }
    }
    let found = store.finish();
    assert!(found.errors.is_empty(), "{:?}", found.errors);
    assert!(made > 0, "{refused} refused");
}

/// Only drafts and swaps, as fast as they go.
fn swaps(doc: &Path, _state: &Path, goes_on: &dyn Fn() -> bool) {
    let rescue = |_: &std::fs::File| -> Result<PathBuf> { panic!("nothing to rescue") };
    let mut held = Vec::new();
    let (mut made, mut undone, mut refused) = (0, 0, 0);
    while goes_on() {
        let source = Source::open(doc).unwrap();
        let Some(text) = read(&source) else { continue };
        let rest = &text[first_line(&text) as usize..];
        let new = [format!("repair {made}").as_bytes(), rest].concat();
        let mut draft = Draft::create(&source, ".unwedge-draft".as_ref()).unwrap();
        draft.write_all(&new).unwrap();
        let sealed = draft.finish(Times::Keep).unwrap();
        let old = Content { sha256: sha(&text), len: text.len() as u64 };
        let order =
            Order { old, carry: true, break_hardlinks: false, lock: None, rescue: &rescue, ways: Ways::default() };
        match sealed.swap(&Verified::unproven(&new), &order) {
            Ok(swapped) => {
                if swapped.replaced {
                    made += 1
                } else {
                    undone += 1
                }
                match swapped.result {
                    Ok(()) | Err(Error::Changed { .. } | Error::InUse { .. }) => {}
                    Err(e) => panic!("{e}"),
                }
                held.push(swapped.held);
                if held.len() > 100
                    && let Sweep::Kept(e) | Sweep::Stuck(e) = held.remove(0).sweep(&rescue)
                {
                    panic!("{e}");
                }
            }
            Err(Error::Changed { .. } | Error::InUse { .. }) => refused += 1,
            Err(e) => panic!("{e}"),
        }
    }
    for mut held in held {
        if let Sweep::Kept(e) | Sweep::Stuck(e) = held.sweep(&rescue) {
            panic!("{e}");
        }
    }
    assert!(made > 0, "{undone} undone, {refused} refused");
}

#[test]
#[cfg(target_os = "linux")]
fn one_that_opens_the_file_for_every_line() {
    nothing_is_lost(Style::Opens, commits);
    nothing_is_lost(Style::Opens, swaps);
}

#[test]
#[cfg(target_os = "linux")]
fn one_that_keeps_the_file_open_for_a_while() {
    nothing_is_lost(Style::Holds, commits);
    nothing_is_lost(Style::Holds, swaps);
}

/// The way that does not do.
fn plain_renames(doc: &Path, _state: &Path, goes_on: &dyn Fn() -> bool) {
    let tmp = doc.with_extension("tmp");
    while goes_on() {
        std::fs::write(&tmp, std::fs::read(doc).unwrap()).unwrap();
        std::fs::rename(&tmp, doc).unwrap();
    }
}

#[test]
fn these_tests_would_notice() {
    assert!(!lost(Style::Opens, plain_renames).is_empty());
    assert!(!lost(Style::Holds, plain_renames).is_empty());
}
