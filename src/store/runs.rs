//! Reads the journal back.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, reason = "numbers from files and journals"))]

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::file::SourceReader;
use super::journal::{Outcome, RUNS, Record, Run};
use super::sys::{self, Dir, Flock};
use super::vault::RunState;
use crate::error::{Error, Result};

/// Reads one run.
pub fn read(root: &Path, run: &str) -> Result<Run> {
    let unknown = || Error::Unknown(format!("no run {run:?} in {}", root.display()));
    if run.is_empty() || !run.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
        return Err(unknown());
    }
    let Some(dir) = runs_dir(root)? else { return Err(unknown()) };
    load(&dir, root, OsStr::new(&format!("{run}.jsonl")))?.ok_or_else(unknown)
}

/// All runs, oldest first.
pub fn runs(root: &Path) -> Result<Vec<Run>> {
    let Some(dir) = runs_dir(root)? else { return Ok(Vec::new()) };
    let mut runs = Vec::new();
    for name in run_names(&dir, root)? {
        runs.extend(load(&dir, root, &name)?);
    }
    runs.sort_by(|a, b| (&a.time, &a.run).cmp(&(&b.time, &b.run)));
    Ok(runs)
}

/// `None` where there is no vault yet.
pub(super) fn runs_dir(root: &Path) -> Result<Option<Dir>> {
    let path = root.join(RUNS);
    match Dir::open(&path) {
        Ok(dir) => Ok(Some(dir)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Error::io(path, "open")(e)),
    }
}

pub(super) fn run_names(dir: &Dir, root: &Path) -> Result<Vec<OsString>> {
    let names = dir.names().map_err(Error::io(root.join(RUNS), "list"))?;
    Ok(names.into_iter().filter(|n| Path::new(n).extension().is_some_and(|e| e == "jsonl")).collect())
}

pub(super) fn run_path(root: &Path, name: &OsStr) -> PathBuf {
    root.join(RUNS).join(name)
}

/// `None` where the file is gone or was never begun.
fn load(dir: &Dir, root: &Path, name: &OsStr) -> Result<Option<Run>> {
    let path = run_path(root, name);
    let file = match dir.open_file(name) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(Error::io(path, "open the journal")(e)),
    };
    // Asked before it is read: what ends in between has its end in it. Where nothing can be locked, nothing counts as dead.
    let dead = matches!(sys::flock(&file, Flock::TryShared), Ok(true));
    let Some(mut run) = parse(&path, &file)? else { return Ok(None) };
    if run.state == RunState::Interrupted && !dead {
        run.state = RunState::Running;
    }
    Ok(Some(run))
}

/// A run without an end counts as interrupted here. Lines that cannot be read are passed over: a kill tears the last one, and
/// what it was to announce was not begun.
pub(super) fn parse(path: &Path, file: &File) -> Result<Option<Run>> {
    let size = sys::stamp(file).map_err(Error::io(path, "look at"))?.size;
    let mut bytes = Vec::new();
    SourceReader::of(file, 0..size).read_to_end(&mut bytes).map_err(Error::io(path, "read the journal"))?;
    let mut run = None;
    let mut documents = BTreeMap::new();
    for record in bytes.split(|&b| b == b'\n').filter_map(|line| serde_json::from_slice(line).ok()) {
        match (record, &mut run) {
            (Record::Run { run: id, time, kind, undoes, version }, None) => {
                let (state, documents) = (RunState::Interrupted, Vec::new());
                run = Some(Run { run: id, time, kind, undoes, version, state, documents });
            }
            (Record::Intent(intent), Some(_)) => {
                documents.entry(intent.document).or_insert((intent, Outcome::Pending));
            }
            (Record::Done { document }, Some(_)) => {
                documents.entry(document).and_modify(|(_, outcome)| *outcome = Outcome::Done);
            }
            (Record::Dropped { document, why }, Some(_)) => {
                documents.entry(document).and_modify(|(_, outcome)| *outcome = Outcome::Dropped(why));
            }
            (Record::End {}, Some(run)) => run.state = RunState::Done,
            (_, _) => {}
        }
    }
    Ok(run.map(|run| Run { documents: documents.into_values().collect(), ..run }))
}
