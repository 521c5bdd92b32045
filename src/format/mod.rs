//! Where in one agent's bytes the tool responses are.
//!
//! A format knows the shape of one agent's streams: it claims files, pairs calls with responses, forms batches, tells live
//! from dead and finds every copy of a text. It does no I/O of its own (what it must know of a directory it asks through
//! [`Look`]), and it never sees a limit. Records go in, spans and sizes come out.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

pub use self::outline::{Depth, Load, Outline, StoredError, Usage, Weight};
pub use crate::skim::Seams;
use crate::text::literal::{Encoding, Measure};
pub use crate::text::records::{Framing, Record};

pub mod claude_code;
pub mod cline;
pub mod codex;
pub mod copilot;
pub mod gemini;
pub mod jp;
pub mod pi;
pub mod provider_logs;
pub mod qwen;

mod blocks;
mod genai;
mod jsonlines;
mod kept;
mod outline;
mod parts;
mod peek;
mod seams;
#[cfg(test)]
mod testing;
mod weigher;

/// Every format there is. A test fails where one of them has no case in `testdata/`.
pub static FORMATS: &[&dyn Format] = &[
    &jp::Jp,
    &claude_code::ClaudeCode,
    &pi::Pi,
    &codex::Codex,
    &gemini::Gemini,
    &gemini::GeminiJson,
    &qwen::Qwen,
    &copilot::Copilot,
    &cline::Cline,
    &provider_logs::Document,
    &provider_logs::Lines,
];

/// The format of this name.
#[must_use]
pub fn named(name: &str) -> Option<&'static dyn Format> {
    FORMATS.iter().copied().find(|f| f.about().name == name)
}

/// A format as `unwedge formats` and the README show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct About {
    /// The format's name, as `--format` takes it.
    pub name: &'static str,
    /// The agent's name for people.
    pub agent: &'static str,
    /// Where it keeps its streams.
    pub places: &'static str,
    /// What is read.
    pub reads: &'static str,
    /// What is written.
    pub writes: &'static str,
}

/// What a file shows before it is read.
#[derive(Debug, Clone, Copy)]
pub struct Probe<'a> {
    /// Its path, absolute.
    pub path: &'a Path,
    /// Its first bytes, at most [`HEAD`].
    pub head: &'a [u8],
}

/// How many first bytes a [`Probe`] holds.
pub const HEAD: usize = 4096;

/// The places a run may look at, as the caller found them in its environment. The library reads no environment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Places {
    /// The current directory.
    pub cwd: PathBuf,
    /// The home directory.
    pub home: Option<PathBuf>,
    /// `$XDG_DATA_HOME` where it is absolute.
    pub xdg_data_home: Option<PathBuf>,
    /// The platform's data directory (`~/.local/share`, `~/Library/Application Support`, `%LOCALAPPDATA%`).
    pub data: Option<PathBuf>,
    /// `$JP_USER_DATA_DIR`.
    pub jp_user_data_dir: Option<PathBuf>,
}

/// What a format must know of the directories around a file.
pub trait Look {
    /// A file's whole content, where it is a regular file of moderate size.
    fn read(&self, path: &Path) -> Option<Vec<u8>>;
    /// The names in a directory, sorted; empty where there is none.
    fn list(&self, dir: &Path) -> Vec<OsString>;
    /// Whether a directory stands here; links are not followed.
    fn is_dir(&self, path: &Path) -> bool;
    /// Whether a regular file stands here; links are not followed.
    fn is_file(&self, path: &Path) -> bool;
    /// Where a symbolic link leads, made absolute.
    fn link(&self, path: &Path) -> Option<PathBuf>;
    /// A file's modification time.
    fn modified(&self, path: &Path) -> Option<SystemTime>;
}

/// One agent's way of keeping conversations.
pub trait Format: Sync {
    /// Name and places.
    fn about(&self) -> About;
    /// How the names of its streams end. Asked of every file on the way, before anything else.
    fn endings(&self) -> &'static [&'static str];
    /// Whether a file of this path can be one of the agent's streams. Asked before a file is opened.
    fn candidate(&self, path: &Path) -> bool;
    /// Whether it is one. Strict: a file of another's is never claimed, a broken one of the agent's own is.
    fn claims(&self, probe: &Probe<'_>) -> bool;
    /// How its documents are divided.
    fn framing(&self) -> Framing;
    /// Whether the document of this path is stored as a Zstandard stream: then its records are in what that unpacks to.
    fn packed(&self, _path: &Path) -> bool {
        false
    }
    /// The other name that the agent may have given a stream since: it packs or unpacks what it keeps.
    fn renamed(&self, _path: &Path) -> Option<PathBuf> {
        None
    }
    /// Whether a record can be a call, a response, a copy of one, or something that tells live from dead. A quick look at
    /// the bytes: `false` only where that is certain, so that the record need not be parsed. Says nothing for
    /// [`Depth::Outline`].
    fn matters(&self, _record: &[u8]) -> bool {
        true
    }
    /// Whether a stream whose stored size is within every limit in force needs no look: a conversation that carries limits
    /// of its own does.
    fn small_is_clean(&self) -> bool {
        true
    }
    /// Whether its streams store what wedges a conversation again although its responses were cut: [`Located::relics`].
    /// pi alone does. Codex's index of offsets stays right where lines keep their length, and Claude Code keeps nothing of the kind.
    fn keeps_relics(&self) -> bool {
        false
    }
    /// Where batches end, for [`crate::skim`]. `None`: a stream larger than the ceiling is read.
    fn seams(&self) -> Option<&dyn Seams> {
        None
    }
    /// Bytes that a record holds in which the agent stores that a request failed. None: it stores no such thing, or only where
    /// it is read whole anyway.
    fn error_marks(&self) -> &'static [&'static [u8]] {
        &[]
    }
    /// Whether walking leaves this directory out.
    fn prunes(&self, _dir: &Path) -> bool {
        false
    }
    /// Where the agent keeps its streams on this machine, for a run that names nothing.
    fn known_places(&self, look: &dyn Look, places: &Places) -> Vec<PathBuf>;
    /// The streams of a conversation id. `None`: not an id of this agent's.
    fn resolve(&self, _id: &str, _look: &dyn Look, _places: &Places) -> Option<Vec<PathBuf>> {
        None
    }
    /// The conversation that a stream belongs to.
    fn conversation(&self, path: &Path, look: &dyn Look, places: &Places) -> Etiquette;
    /// Files of the agent's own that may hold the whole text of a call's result, whether they are there or not. They are
    /// never edited; a report names one that equals what was cut.
    fn sidecars(&self, _path: &Path, _call: &str) -> Vec<PathBuf> {
        Vec::new()
    }
    /// A fresh locator for one stream of this path, that does no more than it is asked for.
    fn locator(&self, path: &Path, depth: Depth) -> Box<dyn Locator>;
}

/// What a repair must respect beyond the bytes of the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Etiquette {
    /// The conversation's id as the agent prints it.
    pub id: Option<String>,
    /// Every stream of the conversation, the given one among them. Of equally new ones the agent loads the first.
    pub streams: Vec<Stream>,
    /// The agent's own lock.
    pub lock: Option<Lock>,
    /// What becomes of the modification time.
    pub times: Times,
    /// Whether lines that reach the old file during the swap can be appended to the new one.
    pub appends: bool,
    /// Whether every record keeps its stored length: blanks before its newline make up for what a cut took.
    pub pads: bool,
}

/// One stream of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stream {
    /// The document that is read and repaired.
    pub path: PathBuf,
    /// Documents that are only read, before it. One that is missing is left out.
    pub asides: Vec<PathBuf>,
}

/// A lock file of the agent's, held by `flock`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lock {
    /// Where it may stand already; the first that exists counts.
    pub existing: Vec<PathBuf>,
    /// Where it is made otherwise; `None`: no agent can be running there.
    pub create: Option<PathBuf>,
}

/// What becomes of a repaired stream's modification time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Times {
    /// It must be new, or the agent does not load the repaired stream.
    New,
    /// It is kept, or the agent continues another conversation than it would have.
    Keep,
}

/// Finds the tool responses of one stream.
pub trait Locator {
    /// Takes a document that is only read. Comes before the first record.
    fn aside(&mut self, _path: &Path, _bytes: &[u8]) {}
    /// Takes the next record. It cannot fail on a strange one: it notes it.
    fn record(&mut self, record: &Record<'_>);
    /// Everything that was found.
    fn finish(self: Box<Self>) -> Located;
}

/// What a locator found in a stream.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Located {
    /// The responses, in the order of the stream.
    pub responses: Vec<Response>,
    /// `size_threshold` by tool (or `*`) as the conversation's own configuration gives them.
    pub settings: Vec<(String, Setting)>,
    /// What a person should know.
    pub notes: Vec<Note>,
    /// What is broken.
    pub broken: Vec<Broken>,
    /// Where the records end that hold a response or a copy, by their number: the offset of the newline (LF or CRLF), or
    /// of the document's end. Only where the format pads.
    pub record_ends: BTreeMap<u64, u64>,
    /// What would wedge the conversation again although its responses were cut, in the order of the stream. Whether any of
    /// it is to go is not the format's to say.
    pub relics: Vec<Relic>,
    /// What the next request would carry beside responses. `None`: it was not asked for, or the stream is not what is sent.
    pub outline: Option<Outline>,
}

/// A value of a conversation's configuration, not yet understood.
#[derive(Debug, Clone, PartialEq)]
pub enum Setting {
    /// A string.
    Text(String),
    /// A non-negative whole number.
    Number(u64),
    /// Anything else, as it stands.
    Other(String),
}

/// A note on a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Physical line, from 1.
    pub line: Option<u64>,
    /// The note.
    pub text: String,
}

/// Something that is not what the format says it must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// Offset in the document.
    pub at: u64,
    /// What is wrong.
    pub what: String,
    /// Whether the whole stream cannot be understood because of it. Otherwise only this record stays as it is.
    pub whole: bool,
}

/// A stored value by which the agent would take the conversation for too large although it no longer is. Responses are
/// none of it, and never a text that is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relic {
    /// The number of its record, from 0.
    pub record: u64,
    /// The physical line it starts at, from 1.
    pub line: u64,
    /// The value's bytes in the document, quotes included.
    pub span: Range<u64>,
    /// What it is.
    pub kind: RelicKind,
}

/// What a [`Relic`] is, and what has to stand there instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RelicKind {
    /// The text of an error of too much context: the latest there is, nothing successful came after it.
    Error {
        /// A literal that the agent takes for no such error, not longer than what stands there.
        new: &'static str,
        /// Which of [`Located::notes`] is no longer true then.
        note: &'static str,
    },
    /// Tokens of the prompt as the provider counted them for the last request that was answered; where there are several
    /// such numbers, they add up. What was cut before it is no longer among them.
    Prompt,
    /// Tokens of that request and its answer together.
    Total,
}

/// What a tool returned to the assistant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The call's id.
    pub id: Option<String>,
    /// The tool's name, where the call is known.
    pub tool: Option<String>,
    /// Its batch: responses to the calls of one assistant message share the number.
    pub batch: u64,
    /// Whether the tool said it failed, where the format has that.
    pub is_error: Option<bool>,
    /// `None`: live. Else why a resumed conversation would not send it.
    pub dead: Option<&'static str>,
    /// The number of its record or array element, from 0.
    pub record: u64,
    /// What the assistant receives, in order.
    pub parts: Vec<Part>,
    /// The same text where it is kept again: each held to the same limit.
    pub copies: Vec<Copy>,
    /// Only copies are here, and the text that is sent is elsewhere or was never stored: no response is counted.
    pub only_copies: bool,
}

/// A text that is kept once more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copy {
    /// Where: the field's name as the agent spells it, `toolUseResult.stdout`.
    pub place: &'static str,
    /// Whether this one is sent to the assistant too, in another shape of the same message.
    pub sent: bool,
    /// The number of its record, from 0.
    pub record: u64,
    /// The text, in order.
    pub parts: Vec<Part>,
}

/// One part of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Text, in a stored JSON string literal.
    Text {
        /// The literal's bytes in the document, quotes included.
        span: Range<u64>,
        /// The physical line the literal starts at, from 1.
        line: u64,
        /// How it is stored.
        encoding: Encoding,
        /// Its decoded size, and the markers it already carries.
        measure: Measure,
        /// Decoded bytes at its start by which it is known for a response: they always stay, whatever a cut keeps.
        opening: u64,
    },
    /// An image or other binary part: charged, never cut.
    Opaque {
        /// Its stored bytes.
        stored: u64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where a name does not end as a format says, the scan does not even ask whether it is a candidate.
    #[test]
    fn every_candidate_ends_as_its_format_says() {
        let stems =
            ["events", "ui_messages", "api_conversation_history", "session-1", "1_1.messages", "rollout-x", "a", ""];
        let kinds = ["json", "jsonl", "ndjson", "jsonl.zst", "messages.json", "zst", "txt", "JSON", ""];
        let dirs =
            ["", "/h/.jp/conversations/17636257123/", "/h/.copilot/session-state/", "/h/.cline/data/sessions/x/"];
        let mut candidates = 0;
        let names = stems.iter().flat_map(|stem| kinds.iter().map(move |kind| format!("{stem}.{kind}")));
        for path in names.flat_map(|name| dirs.map(|dir| PathBuf::from(format!("{dir}{name}")))) {
            for format in FORMATS.iter().filter(|f| f.candidate(&path)) {
                candidates += 1;
                let ends = format.endings().iter().any(|e| path.to_string_lossy().ends_with(e));
                assert!(ends, "{}: {}", format.about().name, path.display());
            }
        }
        assert!(candidates > 100);
    }
}
