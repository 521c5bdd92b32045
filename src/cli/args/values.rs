//! Values on the command line: the words there are, and how the others are read.

use std::time::Duration;

use clap::ValueEnum;
use clap::builder::PossibleValuesParser;
use unwedge::cap::limits::{Keep, Limit, Unit};
use unwedge::cap::policy::POLICIES;
use unwedge::cap::size::ByteSize;
use unwedge::format::FORMATS;

/// When to do what depends on where the output goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum When {
    /// On a terminal
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// The formats of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// For people, one line a finding
    Text,
    /// One JSON document
    Json,
    /// JSON, one event a line, as it comes
    Jsonl,
    /// SARIF 2.1.0
    Sarif,
    /// Annotations of GitHub Actions
    Github,
}

/// The formats of a small report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Plain {
    /// For people
    Text,
    /// One JSON document
    Json,
}

/// How much of a cut is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Diff {
    /// A few lines around each cut
    Auto,
    /// Every removed line
    Full,
    /// Nothing
    None,
}

/// Which end a cut keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum End {
    /// The head
    Head,
    /// The tail
    Tail,
    /// Two thirds head, one third tail
    Both,
}

impl From<End> for Keep {
    fn from(end: End) -> Keep {
        match end {
            End::Head => Keep::Head,
            End::Tail => Keep::Tail,
            End::Both => Keep::Both,
        }
    }
}

/// In what a response is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CutUnit {
    /// What suits the text: JSON, a diff, a base64 blob, lines, else bytes
    Auto,
    /// Characters
    Bytes,
    /// Whole lines
    Lines,
    /// JSON that stays JSON: the largest strings and arrays become shorter
    Json,
    /// Whole file sections of a diff
    Diff,
}

impl From<CutUnit> for Unit {
    fn from(unit: CutUnit) -> Unit {
        match unit {
            CutUnit::Auto => Unit::Auto,
            CutUnit::Bytes => Unit::Bytes,
            CutUnit::Lines => Unit::Lines,
            CutUnit::Json => Unit::Json,
            CutUnit::Diff => Unit::Diff,
        }
    }
}

/// The window that is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// That of the model that the stream names.
    Auto,
    /// In tokens.
    Tokens(u64),
}

/// A window: tokens, or `auto`.
pub fn window(text: &str) -> Result<Ask, String> {
    if text.trim().eq_ignore_ascii_case("auto") { Ok(Ask::Auto) } else { tokens(text).map(Ask::Tokens) }
}

/// A number of tokens: digits, with `k` for thousands or `M` for millions.
pub fn tokens(text: &str) -> Result<u64, String> {
    let trimmed = text.trim();
    let (digits, factor) = match trimmed.as_bytes().last() {
        Some(b'k' | b'K') => (trimmed.get(..trimmed.len() - 1), 1000),
        Some(b'm' | b'M') => (trimmed.get(..trimmed.len() - 1), 1_000_000),
        _ => (Some(trimmed), 1),
    };
    let number =
        digits.filter(|d| !d.is_empty() && d.bytes().all(|b| b.is_ascii_digit())).and_then(|d| d.parse::<u64>().ok());
    number
        .and_then(|n| n.checked_mul(factor))
        .ok_or_else(|| format!("not a number of tokens: {text:?}; write 200000, 200k or 1M"))
}

/// The names of policies.
pub fn policies() -> PossibleValuesParser {
    PossibleValuesParser::new(
        POLICIES.iter().map(|policy| clap::builder::PossibleValue::new(policy.name).help(policy.about)),
    )
}

/// The names of formats.
pub fn formats() -> PossibleValuesParser {
    PossibleValuesParser::new(FORMATS.iter().map(|f| f.about().name))
}

/// A limit.
pub fn limit(text: &str) -> Result<Limit, String> {
    text.parse().map_err(|e: unwedge::cap::limits::LimitError| e.to_string())
}

/// A size.
pub fn size(text: &str) -> Result<ByteSize, String> {
    text.parse().map_err(|e: unwedge::cap::size::SizeError| e.to_string())
}

/// `NAME=SIZE`. A name may hold `=`, a size does not: the last one parts them.
pub fn tool(text: &str) -> Result<(String, Limit), String> {
    match text.rsplit_once('=') {
        Some(("", _)) | None => {
            Err(format!("not a tool's limit: {text:?}; write NAME=SIZE, as in shell=1MB or '*'=256KB"))
        }
        Some((name, size)) => Ok((name.to_owned(), limit(size)?)),
    }
}

/// How long a stream must have been idle: a bare `0` needs no unit.
pub fn idle(text: &str) -> Result<Duration, String> {
    if text.trim() == "0" { Ok(Duration::ZERO) } else { age(text) }
}

/// A duration.
pub fn age(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text.trim())
        .map_err(|e| format!("not a duration: {text:?} ({e}); write 500ms, 2s, 1m, 12h or 30d"))
}
