//! The second bracketed line: in what unit a text was cut, how much of it is here, what is missing and where all of it is.
//!
//! `[1200 of 8000 lines kept; omitted 1201-8000; full text: /path]`, its parts as far as they are known. The notes that stand
//! inside shortened JSON have the same shape. Written and read here and nowhere else. Ranges are 1-based and inclusive.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, reason = "numbers from files and journals"))]

use std::fmt;

use super::stored::is_continuation;

/// The longest line that is taken for one, in bytes: a path of 4096, a list of what is missing, the numbers.
pub(super) const LONGEST: u64 = 8192;
/// The longest path that is named, in bytes.
const LONGEST_PATH: usize = 4096;
const OMITTED: &str = "; omitted ";
const FULL_TEXT: &str = "; full text: ";
const KEPT: &str = " kept";

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Counted {
    /// Bytes of the text.
    Bytes,
    /// Its lines.
    Lines,
    /// Bytes of JSON that stays JSON.
    Json,
    /// File sections of a diff.
    Files,
    /// Bytes of a base64 blob, which goes whole.
    Base64,
    /// Elements of an array, within JSON.
    Elements,
}

impl Counted {
    const ALL: [Counted; 6] =
        [Counted::Bytes, Counted::Lines, Counted::Json, Counted::Files, Counted::Base64, Counted::Elements];

    fn word(self) -> &'static str {
        match self {
            Counted::Bytes => "bytes",
            Counted::Lines => "lines",
            Counted::Json => "JSON bytes",
            Counted::Files => "files",
            Counted::Base64 => "base64 bytes",
            Counted::Elements => "elements",
        }
    }

    /// The unit's name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Counted::Bytes => "bytes",
            Counted::Lines => "lines",
            Counted::Json | Counted::Elements => "json",
            Counted::Files => "diff",
            Counted::Base64 => "base64",
        }
    }
}

/// The line, or what was read of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Second {
    pub kept: u64,
    /// Of how many, where that is known.
    pub total: Option<u64>,
    pub counted: Counted,
    /// What is missing.
    pub omitted: Option<String>,
    /// Where the whole text is.
    pub path: Option<String>,
}

impl Second {
    /// Of so many kept at the start and at the end, what lies between being gone.
    pub fn of(counted: Counted, head: u64, tail: u64, total: Option<u64>) -> Self {
        let omitted = match total {
            Some(total) => Some(range(head.saturating_add(1), total.saturating_sub(tail))),
            None if tail == 0 => Some(format!("{}-end", head.saturating_add(1))),
            None => None,
        };
        Second { kept: head.saturating_add(tail), total, counted, omitted, path: None }
    }

    /// Reads a line without its newline.
    pub fn parse(line: &[u8]) -> Option<Self> {
        let line = std::str::from_utf8(line).ok()?;
        let inner = line.strip_prefix('[')?.strip_suffix(']')?;
        let (numbers, rest) = inner.split_once(KEPT)?;
        let (kept, numbers) = number(numbers)?;
        let (total, word) = match numbers.strip_prefix("of ") {
            None => (None, numbers),
            Some(numbers) => number(numbers).map(|(total, word)| (Some(total), word))?,
        };
        let counted = Counted::ALL.into_iter().find(|counted| counted.word() == word)?;
        let (omitted, path) = match rest.split_once(FULL_TEXT) {
            None => (rest, None),
            Some((omitted, path)) => (omitted, Some(path.to_owned())),
        };
        let omitted = match omitted {
            "" => None,
            omitted => Some(omitted.strip_prefix(OMITTED)?.to_owned()),
        };
        (path.as_ref().is_none_or(|path| is_nameable(path)) && total.is_none_or(|total| kept <= total))
            .then_some(Second { kept, total, counted, omitted, path })
    }
}

impl fmt::Display for Second {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}", self.kept)?;
        if let Some(total) = self.total {
            write!(f, " of {total}")?;
        }
        write!(f, " {}{KEPT}", self.counted.word())?;
        for (label, text) in [(OMITTED, &self.omitted), (FULL_TEXT, &self.path)] {
            if let Some(text) = text {
                write!(f, "{label}{text}")?;
            }
        }
        f.write_str("]")
    }
}

/// Whether a path can stand in the line and be read back from it.
#[must_use]
pub fn is_nameable(path: &str) -> bool {
    !path.is_empty() && path.len() <= LONGEST_PATH && !path.chars().any(char::is_control)
}

/// A range, or its one member.
pub(super) fn range(from: u64, to: u64) -> String {
    if from == to { from.to_string() } else { format!("{from}-{to}") }
}

/// A name as it may stand in the line: short, on one line, without what parts the line's own parts.
pub(super) fn name(bytes: &[u8]) -> String {
    const MOST: usize = 120;
    let end = (0..=bytes.len().min(MOST)).rev().find(|at| !bytes.get(*at).is_some_and(|b| is_continuation(*b)));
    let shown = String::from_utf8_lossy(bytes.get(..end.unwrap_or(0)).unwrap_or_default());
    let mut name: String =
        shown.chars().map(|c| if c.is_control() || matches!(c, ';' | ',') { '?' } else { c }).collect();
    if end.is_some_and(|end| end < bytes.len()) {
        name.push('…');
    }
    name
}

/// A number as this module writes them, and what follows the blank behind it.
fn number(text: &str) -> Option<(u64, &str)> {
    let (digits, rest) = text.split_once(' ')?;
    let plain = digits.bytes().all(|b| b.is_ascii_digit()) && (digits == "0" || !digits.starts_with('0'));
    Some((digits.parse().ok().filter(|_| plain)?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn as_it_reads() {
        let line = Second { path: Some("/s/ab.txt".into()), ..Second::of(Counted::Lines, 1200, 0, Some(8000)) };
        assert_eq!(line.to_string(), "[1200 of 8000 lines kept; omitted 1201-8000; full text: /s/ab.txt]");
        assert_eq!(Second::of(Counted::Bytes, 2, 1, Some(4)).to_string(), "[3 of 4 bytes kept; omitted 3]");
        assert_eq!(Second::of(Counted::Bytes, 2, 0, None).to_string(), "[2 bytes kept; omitted 3-end]");
        assert_eq!(Second::of(Counted::Bytes, 0, 2, None).to_string(), "[2 bytes kept]");
    }

    #[test]
    fn near_misses_are_text() {
        for line in [
            "",
            "[]",
            "[1 of 2 lines kept",
            "[1 of 2 lines kept] ",
            "[01 of 2 lines kept]",
            "[+1 of 2 lines kept]",
            "[3 of 2 lines kept]",
            "[1 of 2 words kept]",
            "[1 of lines kept]",
            "[1 of 2 lines kept; ommitted 1]",
            "[1 of 2 lines kept; full text: ]",
            "[1 of 2 lines kept; full text: a\u{7}b]",
            "[1,000 of 2,000 lines kept]",
        ] {
            assert_eq!(Second::parse(line.as_bytes()), None, "{line}");
        }
    }

    #[test]
    fn a_name_stays_one() {
        assert_eq!(name("a; full text: b\n,é".as_bytes()), "a? full text: b??é");
        assert_eq!(name("é".repeat(100).as_bytes()), "é".repeat(60) + "…");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            kept in 0_u64..10_000, more in prop::option::of(0_u64..10_000), which in 0_usize..6,
            omitted in prop::option::of("[0-9a-z :.,-]{1,20}"), path in prop::option::of("[^\\p{Cc}]{1,30}"),
        ) {
            let line = Second { kept, total: more.map(|more| kept + more), counted: Counted::ALL[which], omitted, path };
            let shown = line.to_string();
            prop_assert!(shown.len() as u64 <= LONGEST);
            prop_assert_eq!(Second::parse(shown.as_bytes()), Some(line));
        }
    }
}
