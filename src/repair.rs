//! One conversation: locate, plan, cut, verify, commit. And many of them, in parallel, reported in order.
//!
//! Everything is planned before anything is written. A conversation whose agent or whose disk objects is left as it was
//! and reported; the others go on.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::cap::limits::Limits;
use crate::conversation::{Draft, Repair, read_document};
use crate::edits::Unwedge;
use crate::error::{Error, Result};
use crate::event::{Event, Observer};
use crate::format::Places;
use crate::pool;
use crate::scan::{self, Request};
use crate::store::journal::{Journal, Kind};
use crate::store::recover::recover;
use crate::store::spill::Spill;
use crate::store::vault::Vault;
use crate::store::{self, Dry, FileStore, Store};

/// What to do with what is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// Report.
    Check,
    /// Plan, cut and prove, but write nothing.
    DryRun,
    /// Repair.
    Fix,
}

/// How much of the removed text events carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hunks {
    /// None.
    None,
    /// A few lines around the hole.
    Short,
    /// All of it.
    Full,
}

/// How to do it.
pub struct Options<'a> {
    /// The limits that hold for a file, without those of its conversation.
    pub limits: &'a (dyn Fn(&Path) -> Result<Limits> + Sync),
    /// Where to look.
    pub places: Places,
    /// Threads; 0 is as many as there are processors.
    pub jobs: usize,
    /// Leave dead responses alone.
    pub live_only: bool,
    /// What else goes.
    pub unwedge: Unwedge,
    /// Read every stream from its first byte to its last, also where little of it shows that nothing is over a limit.
    pub thorough: bool,
    /// The longest record (a line, or a document that is one), in bytes; a file with a longer one is refused.
    pub max_record: u64,
    /// Without an agent's lock: refuse a stream changed less than this ago.
    pub min_idle: Duration,
    /// Where backups and journal live.
    pub vault: PathBuf,
    /// Whether that place was asked for: then it is an error where it lies inside the scanned tree, else it is left out.
    pub vault_named: bool,
    /// Make no backup: the cut text is gone for good.
    pub no_backup: bool,
    /// Repair a file that has other hard links; they keep the old content.
    pub break_hardlinks: bool,
    /// Keep the whole text of each cut response here, and name it in the response.
    pub spill: Option<PathBuf>,
    /// Text of the cuts in events.
    pub hunks: Hunks,
    /// Set by a signal handler: finish the document at hand, begin no other.
    pub stop: &'a AtomicBool,
}

/// What a run came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The run's id, where something was written.
    pub run: Option<String>,
    /// Documents read.
    pub documents: u64,
    /// Whether a signal ended it early.
    pub interrupted: bool,
}

/// Does a task on everything a request names.
///
/// # Errors
/// Only what makes the whole run impossible (a backup directory inside the scanned tree); trouble with one file is an event.
pub fn run(task: Task, request: &Request, options: &Options<'_>, observer: &mut dyn Observer) -> Result<Outcome> {
    let request = Request { skip: Some(options.vault.clone()), ..request.clone() };
    let found = scan::scan(&request, &options.places, options.limits)?;
    if task != Task::Check && options.vault_named {
        refuse_inside(&options.vault, &found.walked, "backup directory", "--backup-dir")?;
    }
    if let Some(dir) = &options.spill {
        refuse_inside(dir, &found.walked, "spill directory", "--spill")?;
        Spill::new(dir).check()?;
    }
    let documents = found.conversations.iter().map(|c| c.documents.len() as u64).sum();
    observer.event(Event::Found { documents, passed_over: found.passed_over, too_small: found.too_small });
    for trouble in found.troubles {
        observer.event(Event::Trouble(trouble));
    }
    for path in found.unclaimed {
        observer.event(Event::Note { path, text: "no format claims this file; it was left alone".into() });
    }
    let stopped = || options.stop.load(Ordering::Relaxed);
    let mut outcome = Outcome { documents, ..Outcome::default() };

    // Plan everything first.
    let mut read: Vec<Option<Vec<Result<Draft>>>> = Vec::with_capacity(found.conversations.len());
    let assess_one = |index: usize| {
        let conversation = found.conversations.get(index)?;
        (!stopped())
            .then(|| conversation.documents.iter().map(|d| read_document(conversation, d, options)).collect::<Vec<_>>())
    };
    pool::in_order(options.jobs, found.conversations.len(), assess_one, |_, drafts| {
        observer.event(Event::Progress);
        read.push(drafts);
    });

    // A cut's number does not depend on which thread comes first.
    let mut numbers = Vec::with_capacity(read.len());
    let mut next = 1;
    for drafts in &read {
        numbers.push(next);
        next += drafts.iter().flatten().flatten().map(|d| d.changes()).sum::<u64>();
    }

    let dry = Dry { break_hardlinks: options.break_hardlinks };
    let files = match task {
        Task::Fix => Some(open_store(options, Kind::Fix, None, clean_up(options, observer)?)),
        Task::Check | Task::DryRun => None,
    };
    let store: Option<&dyn Store> = match (task, &files) {
        (Task::Check, _) => None,
        (_, Some(files)) => Some(files),
        (_, None) => Some(&dry),
    };
    let read: Vec<Mutex<Option<Vec<Result<Draft>>>>> = read.into_iter().map(Mutex::new).collect();
    let work = |index: usize| {
        let conversation = found.conversations.get(index)?;
        let drafts = read.get(index)?.lock().ok()?.take()?;
        let number = numbers.get(index).copied().unwrap_or(next);
        if stopped() {
            return None;
        }
        Some(Repair { conversation, options, store, writes: task == Task::Fix, number }.run(drafts))
    };
    pool::in_order(options.jobs, found.conversations.len(), work, |_, events| match events {
        Some(events) => events.into_iter().for_each(|e| observer.event(e)),
        None => outcome.interrupted = true,
    });
    if let Some(files) = &files {
        outcome.run = close_store(files, observer);
    }
    Ok(outcome)
}

/// Cleans up what killed runs left. Returns the documents of which that could not be done.
pub(crate) fn clean_up(options: &Options<'_>, observer: &mut dyn Observer) -> Result<BTreeSet<PathBuf>> {
    let found = recover(&options.vault)?;
    for text in found.said {
        observer.event(Event::Note { path: options.vault.clone(), text });
    }
    Ok(found.unsettled)
}

/// The store that writes, but for these documents.
pub(crate) fn open_store(
    options: &Options<'_>,
    kind: Kind,
    undoes: Option<String>,
    unsettled: BTreeSet<PathBuf>,
) -> FileStore {
    let journal = Journal::start(&options.vault, kind, undoes);
    let how = store::Options { no_backup: options.no_backup, break_hardlinks: options.break_hardlinks };
    FileStore::new(Vault::new(&options.vault), journal, how).but(unsettled)
}

/// Ends a run. Returns its id, where something was written.
pub(crate) fn close_store(files: &FileStore, observer: &mut dyn Observer) -> Option<String> {
    let finish = files.finish();
    for (path, bytes) in finish.carried {
        observer.event(Event::Note {
            path,
            text: format!("{bytes} bytes came while the file was replaced; they were carried over"),
        });
    }
    for error in finish.errors {
        observer.event(Event::Trouble(error));
    }
    files.journal().run()
}

/// What is kept inside the tree would be scanned, committed and copied with it.
fn refuse_inside(dir: &Path, walked: &[PathBuf], what: &str, flag: &str) -> Result<()> {
    let absolute = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
    // The directory need not be there yet: what is there of it decides where it will lie.
    let real = absolute.ancestors().find_map(|there| {
        let real = std::fs::canonicalize(there).ok()?;
        Some(real.join(absolute.strip_prefix(there).ok()?))
    });
    let real = real.unwrap_or(absolute);
    match walked.iter().find(|root| real.starts_with(root)) {
        None => Ok(()),
        Some(root) => {
            let why =
                format!("the {what} lies inside the scanned tree {}; name another one with {flag}", root.display());
            Err(Error::Refused { path: dir.to_owned(), why })
        }
    }
}
