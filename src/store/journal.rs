//! Runs and cuts, append-only: one file a run, one record a line, each on the disk before what it announces is done.
//!
//! A running process holds a lock on its file, so that what runs can be told from what was killed.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, reason = "numbers from files and journals"))]

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::IntentInfo;
use super::object::{private_dir, private_root, random};
use super::sys::{self, Flock};
use super::vault::RunState;
use super::wire;
use crate::error::{Error, Result};
use crate::text::literal::Encoding;

pub use super::runs::{read, runs};

/// What a draft's name starts with; the run and the document's number follow.
pub(super) const DRAFT: &str = ".unwedge-";
/// Under the vault's root.
pub(super) const RUNS: &str = "runs";

/// What a run does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// It cuts.
    Fix,
    /// It puts back.
    Undo,
}

/// One cut, as the journal keeps it. Offsets and lengths are stored bytes, sizes decoded bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cut {
    /// Its number in the run, from 1; printed `RUN-N`.
    pub id: u64,
    /// The call it answers; of an edit, none.
    pub call_id: String,
    /// The tool, where it is known.
    pub tool: Option<String>,
    /// Which part of the response, from 0.
    pub part: u64,
    /// Which record of the document, from 0.
    pub record: u64,
    /// The physical line the literal starts at, from 1.
    pub line: u64,
    /// The literal in the old document, quotes included.
    pub old: Range<u64>,
    /// The literal in the new document, quotes included.
    pub new: Range<u64>,
    /// The hash of the new literal.
    #[serde(with = "wire::digest")]
    pub new_sha256: [u8; 32],
    /// How the text is stored.
    #[serde(with = "wire::encoding")]
    pub encoding: Encoding,
    /// The size before. Of an edit, the length of the stored value.
    pub size: u64,
    /// The size after.
    pub delivered: u64,
    /// No literal, but the blanks that make a record as long as it was.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub padding: bool,
    /// No literal of a response, but another value that had to go with a cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edit: Option<EditKind>,
}

/// What a replaced value was that is no response's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EditKind {
    /// The text of an error of too much context.
    Error,
    /// A number of tokens.
    Usage,
}

/// One state of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    /// Its hash.
    #[serde(with = "wire::digest")]
    pub sha256: [u8; 32],
    /// Its length.
    pub len: u64,
}

/// A change that is about to be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intent {
    /// Its number in the run, from 1.
    pub document: u64,
    /// The document, absolute.
    #[serde(with = "wire::path")]
    pub path: PathBuf,
    /// The format's name.
    pub format: String,
    /// The conversation's id.
    pub conversation: Option<String>,
    /// What is replaced.
    pub old: Content,
    /// What replaces it.
    pub new: Content,
    /// The draft's file name, beside the document.
    #[serde(with = "wire::path")]
    pub draft: PathBuf,
    /// Whether the vault has the old bytes.
    pub backup: bool,
    /// Whether the document is stored as a Zstandard stream. What its cuts say is of what it unpacks to; `old` and `new` are of
    /// the stored bytes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub packed: bool,
    /// The cuts.
    pub cuts: Vec<Cut>,
}

/// What became of an intent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Not known: the run goes on, or was killed.
    Pending,
    /// The document was replaced.
    Done,
    /// It was not, and why.
    Dropped(String),
}

/// A run as it stands in its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Its id.
    pub run: String,
    /// RFC 3339, UTC.
    pub time: String,
    /// What it did.
    pub kind: Kind,
    /// The run it undid.
    pub undoes: Option<String>,
    /// The version of unwedge.
    pub version: String,
    /// How far it came.
    pub state: RunState,
    /// Its documents and what became of them.
    pub documents: Vec<(Intent, Outcome)>,
}

impl Run {
    /// A cut by its number, with the document it was made in.
    #[must_use]
    pub fn cut(&self, id: u64) -> Option<(&Intent, &Outcome, &Cut)> {
        self.documents.iter().find_map(|(intent, outcome)| {
            let cut = intent.cuts.iter().find(|cut| cut.id == id)?;
            Some((intent, outcome, cut))
        })
    }
}

/// Takes a cut's printed id (`RUN-N`) apart.
#[must_use]
pub fn split_cut_id(id: &str) -> Option<(&str, u64)> {
    let (run, number) = id.rsplit_once('-')?;
    // A run's own name ends in a dash and four digits, which alone would look like one.
    if run.matches('-').count() != 2 {
        return None;
    }
    Some((run, number.parse().ok()?))
}

/// A line of a run's file.
#[derive(Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub(super) enum Record {
    Run { run: String, time: String, kind: Kind, undoes: Option<String>, version: String },
    Intent(Intent),
    Done { document: u64 },
    Dropped { document: u64, why: String },
    End {},
}

/// The journal of one run. The file comes into being with the first intent.
#[derive(Debug)]
pub struct Journal {
    root: PathBuf,
    kind: Kind,
    undoes: Option<String>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The run's id and its file, locked.
    open: Option<(String, RunFile)>,
    documents: u64,
    /// Documents of which it is not noted what became of them.
    pending: BTreeSet<u64>,
    ended: bool,
}

impl Journal {
    /// Of a run that starts now, in the vault at `root`. Touches nothing.
    #[must_use]
    pub fn start(root: &Path, kind: Kind, undoes: Option<String>) -> Self {
        Journal { root: root.to_owned(), kind, undoes, state: Mutex::default() }
    }

    /// The run's id, once it has one: with its first intent.
    #[must_use]
    pub fn run(&self) -> Option<String> {
        self.state().open.as_ref().map(|(run, _)| run.clone())
    }

    /// Announces a change: numbers it and names its draft. It is on the disk when this returns.
    pub fn intent(&self, path: &Path, info: IntentInfo, old: Content, new: Content, backup: bool) -> Result<Intent> {
        let mut state = self.state();
        if state.open.is_none() && !state.ended {
            state.open = Some(self.create()?);
        }
        let document = state.documents.saturating_add(1);
        let State { open: Some((run, file)), .. } = &mut *state else {
            return Err(Error::Unknown("the run has ended".into()));
        };
        let intent = Intent {
            document,
            path: path.to_owned(),
            format: info.format,
            conversation: info.conversation,
            old,
            new,
            draft: format!("{DRAFT}{run}-{document}").into(),
            backup,
            packed: info.packed,
            cuts: info.cuts,
        };
        file.append(&Record::Intent(intent.clone()))?;
        state.documents = document;
        state.pending.insert(document);
        Ok(intent)
    }

    /// Notes that a document was replaced.
    pub fn done(&self, document: u64) -> Result<()> {
        self.settle(document, &Record::Done { document })
    }

    /// Notes that a document was left as it was, and why.
    pub fn dropped(&self, document: u64, why: &str) -> Result<()> {
        self.settle(document, &Record::Dropped { document, why: why.into() })
    }

    /// Ends the run and lets go of its file. Where it is not known what became of a document, no end is noted: to whoever comes
    /// next the run is one that was killed, and is looked into.
    pub fn end(&self) -> Result<()> {
        let mut state = self.state();
        let finished = !std::mem::replace(&mut state.ended, true) && state.pending.is_empty();
        match state.open.as_mut() {
            Some((_, file)) => {
                let result = if finished { file.append(&Record::End {}) } else { Ok(()) };
                file.file = None;
                result
            }
            None => Ok(()),
        }
    }

    fn settle(&self, document: u64, record: &Record) -> Result<()> {
        let mut state = self.state();
        match state.open.as_mut() {
            Some((_, file)) => file.append(record)?,
            None => return Err(Error::Unknown("nothing was announced in this run".into())),
        }
        state.pending.remove(&document);
        Ok(())
    }

    fn create(&self) -> Result<(String, RunFile)> {
        let runs_path = self.root.join(RUNS);
        let root = private_root(&self.root)?;
        let dir = private_dir(&root, &self.root, OsStr::new(RUNS))?;
        for _ in 0..100 {
            let now = SystemTime::now();
            let run = run_id(now);
            let name = OsString::from(format!("{run}.jsonl"));
            let path = runs_path.join(&name);
            let file = match dir.create_new(&name) {
                Ok(file) => file,
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(e) => return Err(Error::io(path, "make the journal")(e)),
            };
            // Whoever clears up after killed runs may have come before the lock: then the name is gone.
            let _ = sys::flock(&file, Flock::Exclusive);
            let ours = sys::stamp(&file).map_err(Error::io(&path, "look at"))?;
            if !dir.stat(&name).is_ok_and(|now| now.same_file(&ours)) {
                continue;
            }
            let mut file = RunFile { path, file: Some(file) };
            let time = humantime::format_rfc3339_micros(now).to_string();
            let version = env!("CARGO_PKG_VERSION").to_owned();
            let (kind, undoes) = (self.kind, self.undoes.clone());
            let first = Record::Run { run: run.clone(), time, kind, undoes, version };
            let started = file.append(&first).and_then(|()| {
                dir.sync().map_err(Error::io(&runs_path, "sync"))?;
                Ok((run, file))
            });
            if started.is_err() {
                // There is nothing in it.
                let _ = dir.unlink(&name);
            }
            return started;
        }
        Err(Error::Backup { path: runs_path, what: "no free name for a new run".into() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // What a thread that panicked has left is still what is in the file.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A run's file, open for appending and locked.
#[derive(Debug)]
pub(super) struct RunFile {
    pub(super) path: PathBuf,
    /// Gone after a write that failed, and at the end. Whether the disk has the last line is not known then, and a second
    /// fsync would not tell.
    pub(super) file: Option<File>,
}

impl RunFile {
    /// Appends a line and brings it to the disk.
    pub(super) fn append(&mut self, record: &Record) -> Result<()> {
        let writing = || Error::io(&self.path, "write the journal");
        let Some(mut file) = self.file.take() else {
            return Err(writing()(io::Error::other("an earlier write to it has failed, or the run has ended")));
        };
        let mut line = serde_json::to_vec(record).map_err(|e| writing()(e.into()))?;
        line.push(b'\n');
        file.write_all(&line).and_then(|()| file.sync_all()).map_err(writing())?;
        self.file = Some(file);
        Ok(())
    }
}

/// `YYYYMMDD-HHMMSS-xxxx`, UTC.
fn run_id(now: SystemTime) -> String {
    let time: String = humantime::format_rfc3339_seconds(now)
        .to_string()
        .chars()
        .filter_map(|c| match c {
            'T' => Some('-'),
            c => c.is_ascii_digit().then_some(c),
        })
        .collect();
    format!("{time}-{:04x}", random() & 0xffff)
}
