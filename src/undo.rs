//! Putting back what a run cut.
//!
//! Where a document is as the run left it, the original comes back byte for byte. Where it has grown since, each cut text
//! that still is as it was written is put back in its place and later turns stay. An undo is a run like any other: it
//! backs up what it replaces, and can be undone.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, reason = "numbers from files and journals"))]

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use sha2::{Digest, Sha256};

use crate::around;
use crate::cap::limits::Limits;
use crate::conversation::{self, compared_time, times};
use crate::error::{Error, Result};
use crate::event::{Event, Observer};
use crate::format::{self, Depth};
use crate::repair::{Options, clean_up, close_store, open_store};
use crate::scan::{Conversation, Document};
use crate::store::file::full_path;
use crate::store::journal::{self, Cut, EditKind, Intent, Kind, Outcome, Run, split_cut_id};
use crate::store::look::Disk;
use crate::store::vault::Vault;
use crate::store::{AgentLock, Dry, FileStore, Store, Times};
use crate::text::literal;
use crate::text::splice::{Splice, Splices};
use crate::verify::Goal;
use crate::work::{How, Replacement, Work};

use parts::{Backup, Place, Places, edits};
use which::{find, real, standing};

mod parts;
mod which;

/// What to undo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    /// A run (`RUN`), or one cut of it (`RUN-N`).
    Run(String),
    /// What the latest run that changed this file, or files below this directory, did to them: the latest of which anything
    /// is left to undo. Where no run changed it: what a run did to files that were moved here since.
    Path(PathBuf),
}

/// What an undo came to.
#[derive(Debug, Default)]
pub struct Undone {
    /// The undo's own run id, where something was written.
    pub run: Option<String>,
    /// The run that was undone.
    pub undid: String,
    /// Each document, and what became of it.
    pub documents: Vec<UndoneDocument>,
    /// Whether a signal ended it early.
    pub interrupted: bool,
}

/// One document of an undo.
#[derive(Debug)]
pub struct UndoneDocument {
    /// The document.
    pub path: PathBuf,
    /// What became of it.
    pub state: UndoState,
    /// The backup of what was replaced.
    pub backup: Option<PathBuf>,
}

/// What became of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UndoState {
    /// It was as the run left it: the original is back, byte for byte.
    Whole,
    /// It had changed since: this many cuts were put back, everything else stays.
    Cuts {
        /// Put back.
        restored: u64,
        /// Ids of the cuts whose records were changed since: left as they are.
        left: Vec<String>,
    },
    /// It holds the original already.
    Already,
    /// An error was reported as an event.
    Failed,
}

/// Undoes a run. Errors of single documents are events.
///
/// # Errors
/// [`Error::Unknown`] where nothing matches; what makes the whole undo impossible.
pub fn undo(which: &Which, dry: bool, options: &Options<'_>, observer: &mut dyn Observer) -> Result<Undone> {
    // What a killed run did is known only when that is settled.
    let unsettled = if dry { None } else { Some(clean_up(options, observer)?) };
    let (mut runs, only) = find(which, &options.vault, &options.places)?;
    runs.reverse();
    while let Some(run) = runs.pop() {
        let earlier = runs.iter().flat_map(|run| &run.documents).map(|(intent, _)| intent.old.sha256).collect();
        let undone = one(&run, only, earlier, which, unsettled.clone(), options, observer)?;
        // What was undone before is not meant again while an earlier run still has something cut here.
        let already = undone.documents.iter().all(|document| document.state == UndoState::Already);
        if !already || undone.documents.is_empty() || undone.interrupted || runs.is_empty() {
            return Ok(undone);
        }
    }
    Ok(Undone::default())
}

fn one(
    run: &Run,
    only: Option<u64>,
    earlier: HashSet<[u8; 32]>,
    which: &Which,
    unsettled: Option<BTreeSet<PathBuf>>,
    options: &Options<'_>,
    observer: &mut dyn Observer,
) -> Result<Undone> {
    let mut undone = Undone { undid: run.run.clone(), ..Undone::default() };
    let dry = unsettled.is_none();
    let files = unsettled.map(|unsettled| open_store(options, Kind::Undo, Some(run.run.clone()), unsettled));
    let refuses = Dry { break_hardlinks: options.break_hardlinks };
    let store: &dyn Store = files.as_ref().map_or(&refuses as &dyn Store, |files: &FileStore| files);
    let mut undo =
        Undo { run: &run.run, only, earlier, options, store, writes: !dry, next: 1, vault: Vault::new(&options.vault) };
    for (conversation, intents) in conversations(run, which, options, observer) {
        if options.stop.load(Ordering::Relaxed) {
            undone.interrupted = true;
            break;
        }
        undone.documents.extend(undo.conversation(&conversation, &intents, observer));
    }
    if let Some(files) = &files {
        undone.run = close_store(files, observer);
    }
    Ok(undone)
}

/// The original text of one cut (`RUN-N`), decoded, as the assistant received it.
///
/// # Errors
/// [`Error::Unknown`] where nothing matches, [`Error::Backup`] where the backup is missing or damaged.
pub fn original(vault: &Vault, cut: &str) -> Result<Vec<u8>> {
    let nothing =
        || Error::Unknown(format!("no cut {cut:?}; `unwedge backups list` shows the runs, and a cut is RUN-N"));
    let (run, number) = split_cut_id(cut).ok_or_else(nothing)?;
    let run = journal::read(vault.root(), run).map_err(|_| nothing())?;
    let mut text = None;
    for (intent, _) in &run.documents {
        for part in intent.cuts.iter().filter(|c| c.id == number && !c.padding) {
            let backup = Backup::open(vault, intent)?;
            let literal = backup.span(part.old.clone())?;
            if part.edit == Some(EditKind::Usage) {
                let text = text.get_or_insert_with(Vec::new);
                text.extend(literal);
                text.push(b'\n');
                continue;
            }
            let decoded = literal::decode(&literal, part.encoding)
                .map_err(|e| Error::Backup { path: backup.object.path().to_owned(), what: e.to_string() })?;
            text.get_or_insert_with(Vec::new).extend(decoded);
        }
    }
    text.ok_or_else(nothing)
}

/// The run's documents that are to be undone, by conversation. Copies of one conversation are undone together.
fn conversations<'r>(
    run: &'r Run,
    which: &Which,
    options: &Options<'_>,
    observer: &mut dyn Observer,
) -> Vec<(Conversation, HashMap<PathBuf, &'r Intent>)> {
    let mut groups: BTreeMap<PathBuf, (Conversation, HashMap<PathBuf, &Intent>)> = BTreeMap::new();
    // Where it is not known whether a document was replaced, its bytes tell.
    for (intent, _) in run.documents.iter().filter(|(_, outcome)| !matches!(outcome, Outcome::Dropped(_))) {
        let Some(format) = format::named(&intent.format) else {
            observer.event(Event::Trouble(Error::Refused {
                path: intent.path.clone(),
                why: format!("its format {:?} is not known to this version", intent.format),
            }));
            continue;
        };
        // A directory on the way may be a link by now, of its owner's own making.
        let path = full_path(&standing(intent));
        let etiquette = match around::conversation(format, &path, &options.places) {
            Ok(etiquette) => etiquette,
            Err(e) => {
                observer.event(Event::Trouble(e));
                continue;
            }
        };
        let key = etiquette.streams.first().map_or_else(|| path.clone(), |s| s.path.clone());
        let (_, intents) = groups.entry(key).or_insert_with(|| {
            let documents = etiquette.streams.iter().map(|s| Document {
                shown: s.path.clone(),
                real: full_path(&s.path),
                asides: s.asides.clone(),
                named: true,
            });
            (Conversation { format, documents: documents.collect(), etiquette: etiquette.clone() }, HashMap::new())
        });
        intents.insert(path, intent);
    }
    let wanted = |intents: &HashMap<PathBuf, &Intent>| match which {
        Which::Run(_) => true,
        Which::Path(path) => intents.keys().any(|p| p.starts_with(real(path))),
    };
    groups.into_values().filter(|(_, intents)| wanted(intents)).collect()
}

struct Undo<'a> {
    run: &'a str,
    /// Only the cut of this number.
    only: Option<u64>,
    /// What earlier runs found: a document that is that has nothing of this run in it.
    earlier: HashSet<[u8; 32]>,
    options: &'a Options<'a>,
    store: &'a dyn Store,
    writes: bool,
    /// The number of the next replacement.
    next: u64,
    vault: Vault,
}

impl Undo<'_> {
    fn conversation(
        &mut self,
        conversation: &Conversation,
        intents: &HashMap<PathBuf, &Intent>,
        observer: &mut dyn Observer,
    ) -> Vec<UndoneDocument> {
        let state = |path: &Path, state| UndoneDocument { path: path.to_owned(), state, backup: None };
        let lock = match conversation::lock(conversation, self.writes) {
            Ok(lock) => lock,
            Err(e) => {
                observer.event(Event::Trouble(e));
                return intents.keys().map(|path| state(path, UndoState::Failed)).collect();
            }
        };
        let copies: Vec<_> = conversation
            .documents
            .iter()
            .map(|document| {
                let own =
                    Disk.modified(&document.real).unwrap_or_default().unwrap_or(std::time::SystemTime::UNIX_EPOCH);
                (own, compared_time(document, own), intents.contains_key(&document.real))
            })
            .collect();
        let (times, order) = times(conversation.etiquette.times, &copies);
        let mut done = Vec::new();
        for index in order {
            let (Some(document), Some(time)) = (conversation.documents.get(index), times.get(index)) else { continue };
            let Some(intent) = intents.get(&document.real) else { continue };
            done.push(match self.document(conversation, document, intent, *time, lock.as_ref()) {
                Ok(document) => document,
                Err(e) => {
                    observer.event(Event::Trouble(e));
                    state(&document.real, UndoState::Failed)
                }
            });
        }
        done.sort_by(|a, b| a.path.cmp(&b.path));
        done
    }

    fn document(
        &mut self,
        conversation: &Conversation,
        document: &Document,
        intent: &Intent,
        time: Times,
        lock: Option<&AgentLock>,
    ) -> Result<UndoneDocument> {
        let backup = Backup::open(&self.vault, intent)?;
        if !Disk.is_file(&document.real).map_err(Error::io(&document.real, "look at"))? {
            let original = backup.object.path().display();
            let why = format!(
                "it is no longer there; where it was moved, name the new place (`unwedge undo PATH`); its original is \
                 {original}, a plain copy"
            );
            return Err(Error::Refused { path: document.real.clone(), why });
        }
        // What is put back is over limits by intention, so none are in force.
        let how = How { live_only: false, longest: self.options.max_record, depth: Depth::Limits };
        let work = Work::read(conversation, document, Limits::default(), how)?;
        let now = work.source.sha256()?;
        let undone = |state, backup| Ok(UndoneDocument { path: document.real.clone(), state, backup });
        let wanted: Vec<&Cut> = intent.cuts.iter().filter(|c| self.only.is_none_or(|n| n == c.id)).collect();
        if now == intent.old.sha256 || self.earlier.contains(&now) || wanted.is_empty() {
            return undone(UndoState::Already, None);
        }
        let as_left = now == intent.new.sha256 && self.only.is_none();
        let mut splices = Vec::new();
        let mut left = Vec::new();
        let mut places = if as_left { None } else { Some((Places::of(&work)?, edits(&work, &backup, &intent.cuts)?)) };
        let mut gone = HashSet::new();
        // Blanks come last: they go only where the record they fill is whole again.
        let (padding, texts): (Vec<&Cut>, Vec<&Cut>) = wanted.iter().partition(|c| c.padding);
        for cut in texts {
            let original = backup.span(cut.old.clone())?;
            let place = match &mut places {
                None => Place::AsWritten(cut.new.clone()),
                Some((_, edits)) if cut.edit.is_some() => edits.remove(&cut.old.start).unwrap_or(Place::Gone),
                Some((texts, _)) => texts.take(cut, &original),
            };
            match place {
                Place::AsWritten(range) => splices.push((Splice { range, new: original }, cut)),
                Place::Original => {}
                Place::Gone => {
                    gone.insert(cut.record);
                    let id = format!("{}-{}", self.run, cut.id);
                    if !left.contains(&id) {
                        left.push(id);
                    }
                }
            }
        }
        for cut in padding {
            let there = cut.new.end <= work.before.len
                && <[u8; 32]>::from(Sha256::digest(work.span(cut.new.clone())?)) == cut.new_sha256;
            if as_left || (there && !gone.contains(&cut.record)) {
                // Nothing was there before a repair, and blanks before an undo.
                splices.push((Splice { range: cut.new.clone(), new: backup.span(cut.old.clone())? }, cut));
            }
        }
        if splices.is_empty() {
            let state = if left.is_empty() { UndoState::Already } else { UndoState::Cuts { restored: 0, left } };
            return undone(state, None);
        }
        splices.sort_by_key(|(splice, _)| splice.range.start);
        let mut cuts: Vec<Cut> = splices.iter().map(|(splice, cut)| self.entry(splice, cut)).collect();
        // The numbers of one record are one edit.
        let counts = |cut: &Cut| !cut.padding && (cut.edit.is_none() || cut.part == 0);
        let restored = splices.iter().filter(|(_, cut)| counts(cut)).count() as u64;
        let splices = Splices::new(splices.into_iter().map(|(splice, _)| splice).collect())
            .map_err(|e| work.unproven(e.to_string()))?;
        for (cut, range) in cuts.iter_mut().zip(splices.new_ranges()) {
            cut.new = range;
        }
        let whole = Some(&backup.object).filter(|_| as_left && intent.packed);
        let goal = if as_left { Goal::Exactly(intent.old.sha256) } else { Goal::SameShape };
        let commit = work.commit(
            self.store,
            Replacement { splices: &splices, whole, goal, times: time, cuts, left: &BTreeSet::new() },
            lock,
            self.options.min_idle,
        )?;
        undone(if as_left { UndoState::Whole } else { UndoState::Cuts { restored, left } }, commit.backup)
    }

    /// What the journal keeps of a replacement: that of the cut, the other way round.
    fn entry(&mut self, splice: &Splice, cut: &Cut) -> Cut {
        let id = self.next;
        self.next = self.next.saturating_add(1);
        Cut {
            id,
            old: splice.range.clone(),
            new: 0..0,
            new_sha256: Sha256::digest(&splice.new).into(),
            size: cut.delivered,
            delivered: cut.size,
            ..cut.clone()
        }
    }
}
