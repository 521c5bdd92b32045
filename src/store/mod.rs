//! Where bytes live; the only code that writes.
//!
//! A [`Change`] is handed to a [`Store`], which backs up, journals, writes, has the new bytes proven and swaps them in
//! ([`FileStore`]), or goes through the same checks and the same proof and writes nothing ([`Dry`]). The store never
//! sees a limit or an agent's shape.

use std::path::PathBuf;
use std::time::Duration;

#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::text::splice::Splices;
use crate::verify::{Verified, Written};

pub mod file;
mod files;
mod frames;
mod holders;
pub mod journal;
mod late;
pub mod lease;
pub mod lock;
pub mod look;
mod object;
mod packed;
pub mod reading;
pub mod recover;
pub mod replace;
mod runs;
pub mod spill;
mod swap;
#[cfg(unix)]
mod sys;
#[cfg(not(unix))]
#[path = "sys_other.rs"]
mod sys;
pub mod vault;
mod wire;

pub use file::{Source, Stamp};
pub use files::{Dry, FileStore, Finish, Options};
pub use frames::{Contents, Unpacked};
pub use late::Replaced;
pub use lock::AgentLock;
pub use object::Hold;
pub use replace::Times;

use journal::Cut;

/// What takes changes of documents.
pub trait Store: Sync {
    /// Makes the change, or refuses it. After an error the document is as it was, with three exceptions, in which it is the new
    /// one, whole: [`Error::NotDurable`]; an [`Error::Io`] about the journal's own file; an [`Error::Refused`] that says where
    /// the bytes are that another process wrote to the old file in the last moment.
    ///
    /// Whoever calls holds [`lock::stream_lock`] until this returns, so that two runs do not work on one document at once.
    fn commit(&self, change: Change<'_>) -> Result<Commit>;
}

/// One document's change.
pub struct Change<'a> {
    /// The document as it was opened and measured.
    pub source: &'a Source,
    /// The hash of the bytes that were measured, where it is known. That the document is still the one that was opened is
    /// seen from its times in any case.
    pub sha256: Option<[u8; 32]>,
    /// The replacements, of the document's contents.
    pub splices: &'a Splices,
    /// Of a packed document: one whose stored bytes become the new document's. Without it, what the replacements come to is
    /// packed anew, and what was once packed otherwise would not come back byte for byte.
    pub whole: Option<&'a Source>,
    /// The proof, over the new contents as they were written (dry: as they would be).
    pub prove: &'a dyn Fn(&mut dyn Written) -> Result<Verified>,
    /// What becomes of the modification time.
    pub times: Times,
    /// Whether lines that a late writer appended to the old file may be carried over to the new one: for JSON lines.
    pub carry: bool,
    /// Refuse a document that changed this recently. `None` where the agent's own lock is held.
    pub min_idle: Option<Duration>,
    /// The agent's lock where it has one: it must still be ours right before the swap.
    pub lock: Option<&'a AgentLock>,
    /// What the journal keeps.
    pub entry: IntentInfo,
}

/// What the journal keeps of a change, beside paths and hashes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IntentInfo {
    /// The format's name.
    pub format: String,
    /// The conversation's id.
    pub conversation: Option<String>,
    /// Whether the document is stored as a Zstandard stream.
    pub packed: bool,
    /// The cuts, numbered by the caller: a cut of several parts has one number.
    pub cuts: Vec<Cut>,
}

/// What a commit did. All empty for a dry run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Commit {
    /// The run's id.
    pub run: Option<String>,
    /// The backup: a plain copy of the old document.
    pub backup: Option<PathBuf>,
    /// Printed ids (`RUN-N`) of the cuts, in the order they were given.
    pub cut_ids: Vec<String>,
    /// Bytes of late lines that were carried over to the new file.
    pub carried: u64,
}

#[cfg(test)]
#[cfg(unix)]
mod tests;
