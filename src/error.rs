//! The one error type. Every variant names a path, and says what to do where something can be done.

use std::io;
use std::path::{Path, PathBuf};

/// What went wrong with one file or one place. Nothing was lost when one of these is returned.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system refused an operation.
    #[error("{path}: cannot {doing}: {source}", path = .path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What was attempted, as a verb phrase: "open", "write the backup".
        doing: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The bytes are not what the format says they must be.
    #[error("{path}:{line}:{column}: {what}; the file was left alone", path = .path.display())]
    Broken {
        /// The file.
        path: PathBuf,
        /// Physical line, from 1.
        line: u64,
        /// Byte column in that line, from 1.
        column: u64,
        /// What was found or expected.
        what: String,
    },
    /// A record that cannot be read and stays as it is, while the rest of the stream is handled.
    #[error("{path}:{line}: {what}; the record stays as it is", path = .path.display())]
    BrokenRecord {
        /// The file.
        path: PathBuf,
        /// Physical line, from 1.
        line: u64,
        /// What was found.
        what: String,
    },
    /// Another process uses the stream.
    #[error("{path}: in use{by}: {why}; close it and run again", path = .path.display(), by = .holder.as_ref().map(|h| format!(" by {h}")).unwrap_or_default())]
    InUse {
        /// The stream, or its lock file.
        path: PathBuf,
        /// The process, where it can be known: `name (pid 4711)`.
        holder: Option<String>,
        /// How it was seen.
        why: String,
    },
    /// The stream changed or vanished while it was being worked on.
    #[error("{path}: {what} while unwedge was reading it; nothing was written, run again", path = .path.display())]
    Changed {
        /// The stream.
        path: PathBuf,
        /// What happened to it: "changed", "vanished", "was replaced".
        what: &'static str,
    },
    /// The repair is refused by a rule of safety.
    #[error("{path}: {why}", path = .path.display())]
    Refused {
        /// The stream.
        path: PathBuf,
        /// The rule, and how to lift it where that is possible.
        why: String,
    },
    /// The proof failed: the new bytes were thrown away.
    #[error("{path}: verification failed: {what}; the original was left alone; please report this", path = .path.display())]
    Unproven {
        /// The stream.
        path: PathBuf,
        /// What did not hold.
        what: String,
    },
    /// More than one format claims a file.
    #[error("{path}: claimed by {formats}; name one with --format", path = .path.display(), formats = .formats.join(" and by "))]
    Ambiguous {
        /// The file.
        path: PathBuf,
        /// The formats' names.
        formats: Vec<&'static str>,
    },
    /// A backup is missing or not the bytes it is named by.
    #[error("{path}: {what}", path = .path.display())]
    Backup {
        /// The backup object or directory.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// A run, cut or conversation that nothing matches.
    #[error("{0}")]
    Unknown(String),
    /// Replaced, but the directory could not be synced: after a power cut the old bytes may be back.
    #[error("{path}: replaced, but the directory could not be synced ({source}): after a power cut the old bytes may be back", path = .path.display())]
    NotDurable {
        /// The stream.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The run was interrupted by a signal.
    #[error("interrupted; {path} and what comes after it were left alone", path = .path.display())]
    Interrupted {
        /// The first stream that was not handled.
        path: PathBuf,
    },
}

/// The result of anything that can go wrong with a file.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An [`Error::Io`] maker for `map_err`.
    pub fn io(path: impl Into<PathBuf>, doing: &'static str) -> impl FnOnce(io::Error) -> Error {
        let path = path.into();
        move |source| Error::Io { path, doing, source }
    }

    /// The file or directory the error is about, if it is about one.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            Error::Io { path, .. }
            | Error::Broken { path, .. }
            | Error::BrokenRecord { path, .. }
            | Error::InUse { path, .. }
            | Error::Changed { path, .. }
            | Error::Refused { path, .. }
            | Error::Unproven { path, .. }
            | Error::Ambiguous { path, .. }
            | Error::Backup { path, .. }
            | Error::NotDurable { path, .. }
            | Error::Interrupted { path } => Some(path),
            Error::Unknown(_) => None,
        }
    }

    /// The same of a file that is shown under another path.
    #[must_use]
    pub(crate) fn shown_as(mut self, shown: &Path) -> Self {
        if let Error::Broken { path, .. } | Error::Refused { path, .. } = &mut self {
            shown.clone_into(path);
        }
        self
    }

    /// A stable name for the JSON report.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Error::Io { .. } => "io",
            Error::Broken { .. } => "broken",
            Error::BrokenRecord { .. } => "broken-record",
            Error::InUse { .. } => "in-use",
            Error::Changed { .. } => "changed",
            Error::Refused { .. } => "refused",
            Error::Unproven { .. } => "unproven",
            Error::Ambiguous { .. } => "ambiguous",
            Error::Backup { .. } => "backup",
            Error::Unknown(_) => "unknown",
            Error::NotDurable { .. } => "not-durable",
            Error::Interrupted { .. } => "interrupted",
        }
    }

    /// The physical line the error is at, from 1.
    #[must_use]
    pub fn line(&self) -> Option<u64> {
        match self {
            Error::Broken { line, .. } | Error::BrokenRecord { line, .. } => Some(*line),
            _ => None,
        }
    }
}
