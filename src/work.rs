//! One document on its way to the store: opened, read, understood; then changed, proven, committed.
//!
//! Repair and undo differ in what they replace and in what they claim of the result, not in how it is done.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::assess::{Assessment, Reading};
use crate::cap::limits::Limits;
use crate::error::{Error, Result};
use crate::format::{Depth, Framing};
use crate::scan::{Conversation, Document};
use crate::skim;
use crate::store::journal::Cut;
use crate::store::lock::stream_lock;
use crate::store::look::Disk;
use crate::store::{AgentLock, Change, Commit, IntentInfo, Source, Stamp, Store, Times};
use crate::text::records::TooLong;
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

/// How a document is read.
#[derive(Debug, Clone, Copy)]
pub struct How {
    /// Leave dead responses alone.
    pub live_only: bool,
    /// What a record may have, in bytes.
    pub longest: u64,
    /// What is asked of the format.
    pub depth: Depth,
}

impl<'a> Work<'a> {
    /// Opens and reads a document.
    ///
    /// # Errors
    /// [`Error::Refused`] where a record is longer, [`Error::Changed`] where it is gone, [`Error::Broken`] where it cannot be understood, what reading returns.
    pub fn read(conversation: &'a Conversation, document: &'a Document, limits: Limits, how: How) -> Result<Self> {
        let How { live_only, longest, depth } = how;
        // A policy may know the agent's tools.
        let limits = limits.of_agent(conversation.format.about().name);
        let source = open(conversation, document)?;
        let mut asides: Vec<(PathBuf, Vec<u8>)> = Vec::new();
        for path in &document.asides {
            // What is in it may set limits, so it is not the same whether it is not there or cannot be read.
            let bytes = Disk.read(path).map_err(Error::io(path, "read"))?;
            asides.extend(bytes.map(|bytes| (path.clone(), bytes)));
        }
        let beside = asides.iter().map(|(p, b)| (&**p, &**b));
        let mut reading = Reading::within(longest, conversation.format, &document.real, depth, beside);
        let whole = conversation.format.framing() == Framing::Document;
        let too_long = |e| too_long(&document.shown, e, source.stamp().size, whole);
        if whole && source.stamp().size > longest {
            return Err(too_long(TooLong::Limit { line: 1, most: longest }));
        }
        source
            .try_each_chunk(&mut |chunk| reading.push(chunk).map_err(too_long))
            .map_err(|e| e.shown_as(&document.shown))?;
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
        how: How,
        thorough: bool,
    ) -> Result<Self> {
        let format = conversation.format;
        let mut how = how;
        // What is packed cannot be read from its end.
        if !thorough && format.framing() == Framing::Lines && !format.packed(&document.real) {
            let source = open(conversation, document)?;
            let ceiling = limits.ceiling().value.bytes();
            // One that may have ended in an error is read, whatever its size.
            if ends_in_error(&source, format.error_marks())? {
                how.depth = Depth::Outline;
            } else if skim::nothing_over(&source, format.seams(), limits.smallest(), ceiling)? {
                let before = Assessment::skimmed(source.stamp().size, &limits);
                return Ok(Work {
                    conversation,
                    document,
                    source,
                    asides: Vec::new(),
                    limits,
                    live_only: how.live_only,
                    before,
                });
            }
        }
        Self::read(conversation, document, limits, how)
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
    pub fn reopen(conversation: &'a Conversation, document: &'a Document, closed: Closed, how: How) -> Result<Self> {
        let source = open(conversation, document)?;
        if source.stamp() != closed.stamp {
            let depth = if closed.before.located.outline.is_some() { Depth::Outline } else { Depth::Limits };
            return Self::read(conversation, document, closed.limits, How { depth, ..how });
        }
        let live_only = how.live_only;
        let Closed { asides, limits, before, .. } = closed;
        source.assume_len(before.len);
        Ok(Work { conversation, document, source, asides, limits, live_only, before })
    }

    /// Bytes of the document. Of a packed one, ranges that ascend are read in one pass.
    ///
    /// # Errors
    /// What reading returns.
    pub fn span(&self, span: Range<u64>) -> Result<Vec<u8>> {
        self.source.span(span)
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
        let Replacement { splices, whole, goal, times, cuts, left } = change;
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
            whole,
            prove: &|new| {
                let mut old = self.source.contents()?;
                verify::prove(&proof.borrow(), &mut old, new, &mut |span| self.span(span))
            },
            times,
            carry: self.conversation.etiquette.appends,
            min_idle: self.conversation.etiquette.lock.is_none().then_some(min_idle),
            lock,
            entry: IntentInfo {
                format: self.conversation.format.about().name.to_owned(),
                conversation: self.conversation.etiquette.id.clone(),
                packed: self.conversation.format.packed(&self.document.real),
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

/// Whether the last few records hold what this format's stored errors hold.
fn ends_in_error(source: &Source, marks: &[&[u8]]) -> Result<bool> {
    if marks.is_empty() {
        return Ok(false);
    }
    let size = source.stamp().size;
    let mut tail = vec![0; usize::try_from(size.min(TAIL)).unwrap_or_default()];
    source.read_at(size - tail.len() as u64, &mut tail)?;
    Ok(marks.iter().any(|mark| memchr::memmem::find(&tail, mark).is_some()))
}

/// Bytes at the end of a stream that show whether it ended in an error: a few records of the agent's own come after it.
const TAIL: u64 = 8 * 1024;

/// The refusal of a document with a record that is too long.
fn too_long(path: &Path, e: TooLong, size: u64, whole: bool) -> Error {
    let (TooLong::Limit { line, .. } | TooLong::Memory { line, .. }) = e;
    let what = if whole { format!("its {size} bytes are one record,") } else { format!("line {line} is") };
    let why = match e {
        TooLong::Limit { most, .. } => {
            format!(
                "{what} longer than a record may be ({most} bytes); the file was left alone; --max-record raises it"
            )
        }
        TooLong::Memory { len, .. } => {
            format!("{what} too long for the memory: there was none for more than {len} bytes; the file was left alone")
        }
    };
    Error::Refused { path: path.to_owned(), why }
}

fn open(conversation: &Conversation, document: &Document) -> Result<Source> {
    let packed = conversation.format.packed(&document.real);
    Source::open_real(&document.real).map(|source| source.unpacking(packed)).map_err(|e| match e {
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
    /// See [`Change::whole`].
    pub whole: Option<&'a Source>,
    /// What the result must be.
    pub goal: Goal,
    /// What becomes of the modification time.
    pub times: Times,
    /// What the journal keeps of each replaced literal, in the order of the splices.
    pub cuts: Vec<Cut>,
    /// Targets that are left as they are, by response and copy.
    pub left: &'a BTreeSet<(usize, Option<usize>)>,
}
