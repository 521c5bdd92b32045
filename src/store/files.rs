//! The store of files: checks, backs up, announces, writes, has it proven, swaps, notes. And its dry twin.

use std::collections::{BTreeSet, VecDeque};
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use super::file::Source;
use super::frames::{self, Contents, ReadBack};
use super::holders::writers;
use super::journal::{Content, Intent, Journal};
use super::late::{Replaced, Sweep};
use super::lock::{idle, leased};
use super::object::{Hold, hash};
use super::replace::Draft;
use super::swap::{Order, Swapped, Ways, one_name};
use super::vault::{Object, Vault};
use super::{Change, Commit, Store};
use crate::error::{Error, Result};
use crate::text::splice::Skip;

/// Replaced files that are kept open for a last look. The oldest get theirs earlier.
const KEPT_OPEN: usize = 64;

/// How files are replaced.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// Replace without a backup.
    pub no_backup: bool,
    /// Replace a file that has several names; the others keep the old bytes.
    pub break_hardlinks: bool,
}

/// The store of files, for one run.
#[derive(Debug)]
pub struct FileStore {
    vault: Vault,
    journal: Journal,
    options: Options,
    /// Documents beside which a killed run left something that could not be settled.
    unsettled: BTreeSet<PathBuf>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Keeps the backups of this run from being pruned before its journal names them.
    hold: Option<Hold>,
    replaced: VecDeque<Replaced>,
    found: Finish,
}

/// What the end of a run found.
#[derive(Debug, Default)]
pub struct Finish {
    /// Documents whose old file got lines after it was replaced, and the bytes that were carried over.
    pub carried: Vec<(PathBuf, u64)>,
    /// What could not be done.
    pub errors: Vec<Error>,
}

impl FileStore {
    /// With this vault and journal.
    #[must_use]
    pub fn new(vault: Vault, journal: Journal, options: Options) -> Self {
        FileStore { vault, journal, options, unsettled: BTreeSet::new(), state: Mutex::default() }
    }

    /// And refuses these documents.
    #[must_use]
    pub fn but(self, unsettled: BTreeSet<PathBuf>) -> Self {
        FileStore { unsettled, ..self }
    }

    /// The run's journal.
    #[must_use]
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Ends the run: looks once more at the replaced files for lines that came late, and closes the journal.
    pub fn finish(&self) -> Finish {
        let mut state = self.state();
        while let Some(replaced) = state.replaced.pop_front() {
            self.sweep(replaced, &mut state.found);
        }
        let mut found = std::mem::take(&mut state.found);
        found.errors.extend(self.journal.end().err());
        state.hold = None;
        found
    }

    pub(super) fn commit_by(&self, change: &Change<'_>, ways: Ways<'_>) -> Result<Commit> {
        let source = change.source;
        if change.splices.is_empty() {
            return Ok(Commit::default());
        }
        allowed(change, self.options.break_hardlinks, ways.lease)?;
        if self.unsettled.contains(source.full_path()) {
            let why = "what a killed run left of it could not be settled (see the note); run again".into();
            return Err(Error::Refused { path: source.path().to_owned(), why });
        }
        let new = foresee(change)?;
        if let Some(measured) = change.sha256 {
            let old = content(source)?;
            if old.sha256 != measured {
                return Err(source.changed("changed"));
            }
            if old == new {
                return Ok(Commit::default());
            }
        }
        let backup = if self.options.no_backup { None } else { Some(self.back_up(change)?) };
        let old = match &backup {
            // The hash of the copy, which was compared with the bytes it was made of, is that of the document.
            Some(object) => Content { sha256: object.sha256, len: object.len },
            None => content(source)?,
        };
        let backup = backup.map(|object| object.path);
        let info = change.entry.clone();
        let intent = self.journal.intent(source.full_path(), info, old, new, backup.is_some())?;
        let swapped = match self.write(change, &intent, ways) {
            Ok(swapped) => swapped,
            Err(e) => return Err(self.drop_intent(source, &intent, e)),
        };
        let Swapped { held, replaced, carried, result } = swapped;
        self.keep_open(held);
        if !replaced {
            let why = result.err().unwrap_or_else(|| source.changed("changed"));
            return Err(self.drop_intent(source, &intent, why));
        }
        if Self::is_left(source, &intent) {
            // The next run looks at what is left, and settles it.
            result?;
        } else {
            let noted = self.journal.done(intent.document);
            result.and(noted)?;
        }
        let run = self.journal.run();
        let cut_ids = intent.cuts.iter().map(|c| format!("{}-{}", run.as_deref().unwrap_or_default(), c.id)).collect();
        Ok(Commit { run, backup, cut_ids, carried })
    }

    fn back_up(&self, change: &Change<'_>) -> Result<Object> {
        let mut state = self.state();
        if state.hold.is_none() {
            state.hold = Some(self.vault.hold()?);
        }
        drop(state);
        self.vault.put(change.source, change.sha256)
    }

    fn write(&self, change: &Change<'_>, intent: &Intent, ways: Ways<'_>) -> Result<Swapped> {
        let source = change.source;
        let draft_path = source.path().with_file_name(&intent.draft);
        let mut draft = Draft::create(source, intent.draft.as_os_str())?;
        let mut old = Tee::new(source)?;
        let written = frames::copy(&mut *frames::stored(change, &mut old)?, &mut draft);
        old.settle(source, &draft_path, "write", written)?;
        let sealed = draft.finish(change.times)?;
        let verified = (change.prove)(&mut ReadBack::of(source, sealed.reader())?)?;
        if sealed.content() != intent.new {
            return Err(source.changed("changed"));
        }
        let rescue = |file: &std::fs::File| self.vault.rescue(file);
        let order = Order {
            old: intent.old,
            carry: change.carry,
            break_hardlinks: self.options.break_hardlinks,
            lock: change.lock,
            rescue: &rescue,
            ways,
        };
        sealed.swap(&verified, &order)
    }

    /// The draft is gone by now. That must be so on the disk before the journal forgets about it.
    fn drop_intent(&self, source: &Source, intent: &Intent, why: Error) -> Error {
        if source.dir().sync().is_ok() && !Self::is_left(source, intent) {
            // If this fails, the next run finds the document as it was, and says so.
            let _ = self.journal.dropped(intent.document, &why.to_string());
        }
        why
    }

    /// Whether something stands under the draft's name.
    fn is_left(source: &Source, intent: &Intent) -> bool {
        !matches!(source.dir().stat(intent.draft.as_os_str()), Err(e) if e.kind() == io::ErrorKind::NotFound)
    }

    fn keep_open(&self, replaced: Replaced) {
        let mut state = self.state();
        state.replaced.push_back(replaced);
        if state.replaced.len() > KEPT_OPEN
            && let Some(oldest) = state.replaced.pop_front()
        {
            self.sweep(oldest, &mut state.found);
        }
    }

    fn sweep(&self, mut replaced: Replaced, found: &mut Finish) {
        match replaced.sweep(&|file| self.vault.rescue(file)) {
            Sweep::Clean(0) => {}
            Sweep::Clean(bytes) => found.carried.push((replaced.path().to_owned(), bytes)),
            Sweep::Kept(e) | Sweep::Stuck(e) => found.errors.push(e),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // What a thread that panicked has left is still true.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for FileStore {
    fn commit(&self, change: Change<'_>) -> Result<Commit> {
        self.commit_by(&change, Ways::default())
    }
}

/// Goes the same way and refuses to write: no inode, time or directory listing changes anywhere.
#[derive(Debug, Clone, Copy, Default)]
pub struct Dry {
    /// As in [`Options`].
    pub break_hardlinks: bool,
}

impl Store for Dry {
    fn commit(&self, change: Change<'_>) -> Result<Commit> {
        let source = change.source;
        if change.splices.is_empty() {
            return Ok(Commit::default());
        }
        allowed(&change, self.break_hardlinks, true)?;
        let new = foresee(&change)?;
        if let Some(measured) = change.sha256
            && content(source)?.sha256 != measured
        {
            return Err(source.changed("changed"));
        }
        let mut old = source.contents()?;
        let verified = (change.prove)(&mut ReadBack::of(source, frames::stored(&change, &mut old)?)?)?;
        if (verified.sha256(), verified.size()) != (new.sha256, new.len) {
            let what = "the bytes that were proven are not those that would be written".into();
            return Err(Error::Unproven { path: source.path().to_owned(), what });
        }
        if let Some(lock) = change.lock {
            lock.intact()?;
        }
        source.unchanged()?;
        Ok(Commit::default())
    }
}

/// The refusals that need nothing written.
fn allowed(change: &Change<'_>, break_hardlinks: bool, lease: bool) -> Result<()> {
    let source = change.source;
    one_name(source, break_hardlinks)?;
    if let Some(min_idle) = change.min_idle
        && !idle(&source.stamp(), min_idle, SystemTime::now())
    {
        return Err(just_changed(source, min_idle));
    }
    leased(source, lease).map(drop)
}

fn just_changed(source: &Source, min_idle: Duration) -> Error {
    let why = format!("it was changed in the last {} (--min-idle)", humantime::format_duration(min_idle));
    Error::InUse { path: source.path().to_owned(), holder: writers(source), why }
}

/// The new bytes as they will be.
fn foresee(change: &Change<'_>) -> Result<Content> {
    let source = change.source;
    let mut old = Tee::new(source)?;
    let hashed = hash(frames::stored(change, &mut old)?);
    let (sha256, len) = old.settle(source, source.path(), "read", hashed)?;
    if change.whole.is_none() && old.len != source.contents_len()? {
        return Err(source.changed("changed"));
    }
    Ok(Content { sha256, len })
}

/// A document's bytes as they are.
fn content(source: &Source) -> Result<Content> {
    let (sha256, len) = hash(source.reader()).map_err(Error::io(source.path(), "read"))?;
    if len == source.stamp().size { Ok(Content { sha256, len }) } else { Err(source.changed("changed")) }
}

/// The source's contents, counted as they go by.
struct Tee<'a> {
    reader: Contents<'a>,
    len: u64,
    /// Whether it was here that an error came up.
    failed: bool,
}

impl<'a> Tee<'a> {
    fn new(source: &'a Source) -> Result<Self> {
        Ok(Tee { reader: source.contents()?, len: 0, failed: false })
    }

    /// Says what an error was about: the source's own reading, its end come too early, or else `path`.
    fn settle<T>(
        &self,
        source: &Source,
        path: &std::path::Path,
        doing: &'static str,
        result: io::Result<T>,
    ) -> Result<T> {
        result.map_err(|e| match e.kind() {
            _ if self.failed => Error::io(source.path(), "read")(e),
            io::ErrorKind::UnexpectedEof => source.changed("changed"),
            _ => Error::io(path, doing)(e),
        })
    }
}

impl Read for Tee<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buffer);
        self.failed = read.is_err();
        let n = read?;
        self.len += n as u64;
        Ok(n)
    }
}

impl Skip for Tee<'_> {
    fn skip(&mut self, count: u64) -> io::Result<u64> {
        let n = self.reader.skip(count)?;
        self.len += n;
        Ok(n)
    }
}
