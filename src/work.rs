//! One document on its way to the store: opened, read, understood; then changed, proven, committed.
//!
//! Repair and undo differ in what they replace and in what they claim of the result, not in how it is done.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use crate::assess::{Assessment, Reading};
use crate::cap::limits::Limits;
use crate::error::{Error, Result};
use crate::format::Framing;
use crate::scan::{Conversation, Document};
use crate::skim;
use crate::store::journal::Cut;
use crate::store::lock::stream_lock;
use crate::store::look::Disk;
use crate::store::{AgentLock, Change, Commit, IntentInfo, Source, Stamp, Store, Times};
use crate::text::splice::Splices;
use crate::verify::{self, Claim, Goal};

/// A document that is open and understood.
pub struct Work<'a> {
    /// Its conversation.
    pub conversation: &'a Conversation,
    /// Which document of it.
    pub document: &'a Document,
    /// The open document.
    pub source: Source,
    /// What lies beside it and is only read.
    pub asides: Vec<(PathBuf, Vec<u8>)>,
    /// Its limits without those of the conversation.
    pub limits: Limits,
    /// Whether dead responses are left alone.
    pub live_only: bool,
    /// What is in it.
    pub before: Assessment,
}

impl<'a> Work<'a> {
    /// Opens and reads a document.
    ///
    /// # Errors
    /// [`Error::Changed`] where it is gone, [`Error::Broken`] where it cannot be understood, what reading returns.
    pub fn read(
        conversation: &'a Conversation,
        document: &'a Document,
        limits: Limits,
        live_only: bool,
    ) -> Result<Self> {
        let source = open(document)?;
        let asides: Vec<(PathBuf, Vec<u8>)> =
            document.asides.iter().filter_map(|path| Some((path.clone(), Disk.read(path)?))).collect();
        let mut reading = Reading::new(conversation.format, &document.real, asides.iter().map(|(p, b)| (&**p, &**b)));
        source.each_chunk(&mut |chunk| reading.push(chunk))?;
        let before = reading.finish(&limits, live_only);
        if let Some(broken) = before.broken().find(|b| b.whole) {
            let (line, column) = source.position(broken.at)?;
            return Err(Error::Broken { path: document.shown.clone(), line, column, what: broken.what.clone() });
        }
        Ok(Work { conversation, document, source, asides, limits, live_only, before })
    }

    /// Opens a document, and reads it unless little of it shows that nothing is over a limit.
    ///
    /// # Errors
    /// See [`Work::read`].
    pub fn read_or_skim(
        conversation: &'a Conversation,
        document: &'a Document,
        limits: Limits,
        live_only: bool,
        thorough: bool,
    ) -> Result<Self> {
        let format = conversation.format;
        if !thorough && format.framing() == Framing::Lines {
            let source = open(document)?;
            let ceiling = limits.ceiling().value.bytes();
            if skim::nothing_over(&source, format.seams(), limits.smallest(), ceiling)? {
                let before = Assessment::skimmed(source.stamp().size, &limits);
                return Ok(Work { conversation, document, source, asides: Vec::new(), limits, live_only, before });
            }
        }
        Self::read(conversation, document, limits, live_only)
    }

    /// What is kept of a document that is closed again.
    #[must_use]
    pub fn close(self) -> Closed {
        Closed { stamp: self.source.stamp(), asides: self.asides, limits: self.limits, before: self.before }
    }

    /// Opens a document again. Where it is still the one that was read, it need not be read twice.
    ///
    /// # Errors
    /// See [`Work::read`].
    pub fn reopen(
        conversation: &'a Conversation,
        document: &'a Document,
        closed: Closed,
        live_only: bool,
    ) -> Result<Self> {
        let source = open(document)?;
        if source.stamp() != closed.stamp {
            return Self::read(conversation, document, closed.limits, live_only);
        }
        let Closed { asides, limits, before, .. } = closed;
        Ok(Work { conversation, document, source, asides, limits, live_only, before })
    }

    /// Stored bytes of the document.
    ///
    /// # Errors
    /// What reading returns.
    pub fn span(&self, span: Range<u64>) -> Result<Vec<u8>> {
        let len = usize::try_from(span.end.saturating_sub(span.start)).unwrap_or(usize::MAX);
        let mut bytes = vec![0; len];
        self.source.read_at(span.start, &mut bytes)?;
        Ok(bytes)
    }

    /// The error for a result that cannot be right.
    #[must_use]
    pub fn unproven(&self, what: String) -> Error {
        Error::Unproven { path: self.document.shown.clone(), what }
    }

    /// Makes the replacements, through every step that keeps the original safe.
    ///
    /// # Errors
    /// What stands in the way. Then the document is as it was.
    pub fn commit(
        &self,
        store: &dyn Store,
        change: Replacement<'_>,
        lock: Option<&AgentLock>,
        min_idle: Duration,
    ) -> Result<Commit> {
        // Two runs on one stream exclude each other. That nothing came before this one has the lock, the store sees: the
        // document must still be the one that was opened.
        let _alone = stream_lock(&self.source)?;
        let Replacement { splices, goal, times, cuts, left } = change;
        let claim = Claim {
            format: self.conversation.format,
            path: &self.document.real,
            asides: &self.asides,
            limits: &self.limits,
            live_only: self.live_only,
            before: &self.before,
            splices,
            goal,
            left,
        };
        let proof = RefCell::new(claim);
        store.commit(Change {
            source: &self.source,
            sha256: None,
            splices,
            prove: &|new| verify::prove(&proof.borrow(), &mut self.source.reader(), new, &mut |span| self.span(span)),
            times,
            carry: self.conversation.format.framing() == Framing::Lines,
            min_idle: self.conversation.etiquette.lock.is_none().then_some(min_idle),
            lock,
            entry: IntentInfo {
                format: self.conversation.format.about().name.to_owned(),
                conversation: self.conversation.etiquette.id.clone(),
                cuts,
            },
        })
    }
}

impl skim::Bytes for Source {
    fn size(&self) -> u64 {
        self.stamp().size
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        Source::read_at(self, offset, buffer)
    }
}

fn open(document: &Document) -> Result<Source> {
    Source::open(&document.real).map_err(|e| match e {
        Error::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
            Error::Changed { path: document.shown.clone(), what: "vanished" }
        }
        other => other,
    })
}

/// A document that was read and planned.
pub struct Closed {
    /// As it was when it was read.
    pub stamp: Stamp,
    asides: Vec<(PathBuf, Vec<u8>)>,
    /// Its limits without those of the conversation.
    pub limits: Limits,
    /// What is in it.
    pub before: Assessment,
}

/// What is to be replaced.
pub struct Replacement<'a> {
    /// The bytes.
    pub splices: &'a Splices,
    /// What the result must be.
    pub goal: Goal,
    /// What becomes of the modification time.
    pub times: Times,
    /// What the journal keeps of each replaced literal, in the order of the splices.
    pub cuts: Vec<Cut>,
    /// Targets that are left as they are, by response and copy.
    pub left: &'a BTreeSet<(usize, Option<usize>)>,
}
