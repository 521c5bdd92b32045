//! What happened, as one enum, and who hears of it.
//!
//! The library says it, the binary prints it. Events of files come in a fixed order whatever the number of threads;
//! only [`Event::Progress`] comes as it happens. No event but a [`Hunk`] holds text of a stream.

use std::path::PathBuf;

pub use crate::cap::plan::Rule;
use crate::diagnosis::Diagnosis;
use crate::error::Error;
pub use crate::store::journal::EditKind;

/// Something a run has to tell.
#[derive(Debug)]
pub enum Event {
    /// The walk is done: this many documents will be read.
    Found {
        /// Documents that a format claims.
        documents: u64,
        /// Files seen by walking that no format claims.
        passed_over: u64,
        /// Documents not opened because their size alone shows that they hold nothing over a limit.
        too_small: u64,
    },
    /// One document is finished.
    File(Box<FileReport>),
    /// A note that belongs to no document: a named file that no format claims.
    Note {
        /// The file.
        path: PathBuf,
        /// The note.
        text: String,
    },
    /// One file or place could not be handled. The others go on.
    Trouble(Error),
    /// A document was finished by some thread: for the progress bar.
    Progress,
}

/// Hears events.
pub trait Observer {
    /// Takes one event.
    fn event(&mut self, event: Event);
}

impl<F: FnMut(Event)> Observer for F {
    fn event(&mut self, event: Event) {
        self(event);
    }
}

/// What was found in one document, and what became of it.
#[derive(Debug)]
pub struct FileReport {
    /// The document.
    pub path: PathBuf,
    /// The format's name.
    pub format: &'static str,
    /// The conversation's id as its agent writes it (`jp-c17636257123`).
    pub conversation: Option<String>,
    /// What became of it.
    pub status: Status,
    /// Stored bytes before.
    pub bytes: u64,
    /// Stored bytes after, where it changed or would change.
    pub bytes_after: Option<u64>,
    /// The backup, where one was made.
    pub backup: Option<PathBuf>,
    /// Findings, largest first.
    pub findings: Vec<Finding>,
    /// What was, or would be, edited beside responses, in the order of the stream.
    pub edits: Vec<Edit>,
    /// Notes: what was not understood, what stands in the agent's way, where else the text lies.
    pub notes: Vec<Note>,
    /// Sums over all responses of the document; all zero where it was skimmed.
    pub sums: Sums,
    /// Whether it was not read through, because little of it showed that nothing is over a limit.
    pub skimmed: bool,
    /// Whether the conversation will run again, where that was looked at.
    pub diagnosis: Option<Diagnosis>,
}

/// What became of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Status {
    /// Nothing over a limit.
    Clean,
    /// Something over a limit, or to be edited; nothing was to be written (`check`, or a dry run).
    Over,
    /// Repaired and verified; everything within its limits.
    Repaired,
    /// Repaired and verified as far as it goes; something is still over its limit.
    StillOver,
    /// Not repaired; an error says why.
    Failed,
}

impl Status {
    /// The name in JSON reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Status::Clean => "clean",
            Status::Over => "over",
            Status::Repaired => "repaired",
            Status::StillOver => "still-over",
            Status::Failed => "failed",
        }
    }
}

/// A note on a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Physical line, from 1, where the note is about one.
    pub line: Option<u64>,
    /// The note.
    pub text: String,
}

/// Sums over the responses of a document, in decoded bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sums {
    /// Responses.
    pub responses: u64,
    /// Batches.
    pub batches: u64,
    /// Bytes the assistant receives from live responses.
    pub live: u64,
    /// Bytes of dead responses.
    pub dead: u64,
    /// Bytes of copies kept for a screen, a log or an index.
    pub copies: u64,
    /// Stored bytes of images and other uncuttable parts.
    pub opaque_stored: u64,
}

/// What kind of text a finding is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The text the assistant receives.
    Response,
    /// The same text kept for a screen, a log or an index.
    Copy,
}

impl Kind {
    /// The name in JSON reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::Response => "response",
            Kind::Copy => "copy",
        }
    }
}

/// Where in a document something stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Physical line, from 1, where the first literal starts.
    pub line: u64,
    /// The element of the document's array or the record of the stream, from 0.
    pub record: u64,
}

/// The batch a response belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchInfo {
    /// Its number in the document, from 1.
    pub number: u64,
    /// Its responses.
    pub responses: u64,
    /// Their size together, in decoded bytes, before.
    pub size: u64,
    /// Whether it exceeds the ceiling even after the cut.
    pub still_over: bool,
}

/// One response (or copy) over a limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Why.
    pub rule: Rule,
    /// Of what.
    pub kind: Kind,
    /// Where.
    pub place: Place,
    /// The call's id.
    pub call_id: Option<String>,
    /// The tool's name, where the call is known.
    pub tool: Option<String>,
    /// Its batch, where it is one of several.
    pub batch: Option<BatchInfo>,
    /// `None` for a live response, else why it is dead: "hidden by compaction", "archived".
    pub dead: Option<&'static str>,
    /// Decoded bytes before.
    pub size: u64,
    /// What it is held to, in decoded bytes.
    pub limit: u64,
    /// Where the limit comes from.
    pub limit_source: &'static str,
    /// Decoded bytes after, where a cut was made or planned in full (`fix`, `fix -n`).
    pub delivered: Option<u64>,
    /// Whether it is over its limit even so.
    pub still_over: bool,
    /// The cut's id, `RUN-N`, where one was written.
    pub cut: Option<String>,
    /// What the cut was made in, where one was made or planned: `bytes`, `lines`, `json`, `diff`, `base64`.
    pub unit: Option<&'static str>,
    /// Where the whole text is, where a file of it was asked for or an earlier cut names one.
    pub full_text: Option<PathBuf>,
    /// What the cut took away, by part, where text was asked for.
    pub hunks: Vec<Hunk>,
}

/// A stored value that goes with a cut, or by which the conversation would be wedged without one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    /// What it is.
    pub kind: EditKind,
    /// Where.
    pub place: Place,
    /// Of a count of tokens: what it was and what it becomes.
    pub tokens: Option<(u64, u64)>,
    /// Its id, `RUN-N`, where it was written.
    pub cut: Option<String>,
}

/// One part of a cut, for people: the decoded text around it. Lossy where the text is no valid Unicode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hunk {
    /// The whole lines before the hole that are shown for context, and the last kept line.
    pub before: String,
    /// The marker.
    pub marker: String,
    /// What was removed: all of it, or only its start where `removed_end` is given.
    pub removed: String,
    /// The end of what was removed, where the middle is not shown.
    pub removed_end: Option<String>,
    /// Kept text after the hole, for context.
    pub after: String,
    /// Removed bytes, decoded.
    pub removed_bytes: u64,
    /// Removed lines; a line cut in two counts.
    pub removed_lines: u64,
    /// The line of the text, from 1, that `before` starts at.
    pub first_line: u64,
}
