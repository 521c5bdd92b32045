//! Stored JSON string literals: measured and decoded without a copy of what is not needed.
//!
//! What the assistant receives is what counts: escapes decoded, and base64 where the format stores it and the string is that
//! by the strict rule. How a literal is cut is for [`super::cut`].

use std::ops::Range;

use super::base64;
use super::second::{self, Second};
use super::stored::{self, Place};
use crate::cap::limits::Keep;
use crate::cap::marker;

/// How a format stores text inside a JSON string.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// As it is.
    Plain,
    /// As base64 where it decodes by the agent's strict rule, else as it is.
    Base64,
}

/// Bytes that are no JSON string literal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a JSON string: {what} at byte {at} of the literal")]
pub struct LiteralError {
    /// Offset from the opening quote, in bytes.
    pub at: usize,
    /// What is wrong.
    pub what: &'static str,
}

/// The original sizes (A) that markers already in a text stand for, by the end they would be recognised at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Prior {
    /// The text ends in a marker line.
    pub head: Option<u64>,
    /// The text starts with one.
    pub tail: Option<u64>,
    /// The text is nothing but one.
    pub both: Option<u64>,
}

/// A measured literal. Sizes are decoded bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Measure {
    /// The size of the text the assistant receives.
    pub size: u64,
    /// Whether it counts as base64.
    pub base64: bool,
    /// Markers it already carries.
    pub prior: Prior,
    /// The original size that the first marker line anywhere in a plain text speaks of, if that is more than the text has. It
    /// may be a text about markers: for estimates, never for a cut.
    pub speaks_of: Option<u64>,
}

impl Measure {
    /// The least the cutter can make of this text: the shorter of itself and a bare marker.
    #[must_use]
    pub fn floor(&self, keep: Keep) -> u64 {
        marker::length(self.original(keep), 0).min(self.size)
    }
    /// The size that a new marker gives as A: the first original's, where the text was cut before.
    pub(super) fn original(&self, keep: Keep) -> u64 {
        let prior = match keep {
            Keep::Head => self.prior.head,
            Keep::Tail => self.prior.tail,
            Keep::Both => self.prior.both,
        };
        prior.unwrap_or(self.size)
    }
}

/// Measures a literal, quotes included.
pub fn measure(literal: &[u8], encoding: Encoding) -> Result<Measure, LiteralError> {
    Text::open(literal, encoding).map(|text| text.measure)
}

/// Measures a literal, quotes included, that was checked and whose escapes are known to decode to so many bytes.
pub(super) fn measure_checked(literal: &[u8], encoding: Encoding, decoded: usize) -> Result<Measure, LiteralError> {
    let raw = literal.get(1..literal.len().saturating_sub(1)).unwrap_or_default();
    let end = Place { stored: raw.len(), decoded };
    Text::checked(raw, encoding, end, Vec::new()).map(|text| text.measure)
}

/// The text of a literal, quotes included, as the assistant receives it. An unpaired surrogate becomes its three bytes.
pub fn decode(literal: &[u8], encoding: Encoding) -> Result<Vec<u8>, LiteralError> {
    let text = Text::open(literal, encoding)?;
    text.bytes(0, text.measure.size)
}

/// A measured literal that can be looked into.
#[derive(Debug, Clone)]
pub(super) struct Text<'a> {
    /// What stands between the quotes.
    raw: &'a [u8],
    pub measure: Measure,
    /// Where the raw string ends.
    end: Place,
    /// Places on the way there, in order, the last of them shortly before the end: no walk need start over.
    marks: Vec<Place>,
    /// How many bytes the marker line at the end of the text takes, where there is one that counts, with the second line.
    last_line: u64,
    /// The same at its start.
    first_line: u64,
    /// The second line before the marker at the end of the text.
    last_second: Option<Second>,
    /// The second line behind the marker at its start.
    first_second: Option<Second>,
}

/// Decoded bytes at either end that show the longest marker line and the newline next to it.
const EDGE: u64 = marker::LONGEST + 1;
/// Stored bytes that hold as many decoded ones at least, as base64 with every character escaped (`\u0041`).
const EDGE_STORED: usize = 1024;
/// Stored bytes from one mark to the next.
const STRIDE: usize = 64 * 1024;

impl<'a> Text<'a> {
    /// Checks the literal from end to end.
    pub fn open(literal: &'a [u8], encoding: Encoding) -> Result<Self, LiteralError> {
        let raw = stored::between_quotes(literal)?;
        let mut at = Place::default();
        let mut marks = Vec::new();
        let near_end = raw.len().saturating_sub(EDGE_STORED);
        for stop in (STRIDE..near_end).step_by(STRIDE).chain((near_end > 0).then_some(near_end)) {
            at = stored::advance(raw, at, Place { stored: stop, decoded: usize::MAX })?;
            marks.push(at);
        }
        let end = stored::advance(raw, at, Place { stored: raw.len(), decoded: usize::MAX })?;
        Self::checked(raw, encoding, end, marks)
    }

    fn checked(raw: &'a [u8], encoding: Encoding, end: Place, marks: Vec<Place>) -> Result<Self, LiteralError> {
        let decoded = match encoding {
            Encoding::Plain => None,
            Encoding::Base64 => base64::text_size(raw, end.decoded),
        };
        let size = decoded.unwrap_or(end.decoded) as u64;
        let speaks_of = if decoded.is_some() { None } else { spoken_of(raw).filter(|a| *a > size) };
        let measure = Measure { size, base64: decoded.is_some(), prior: Prior::default(), speaks_of };
        let mut text =
            Text { raw, measure, end, marks, last_line: 0, first_line: 0, last_second: None, first_second: None };
        text.look_for_markers()?;
        Ok(text)
    }

    /// The decoded bytes of the text without the marker that a cut would replace.
    pub fn body(&self, keep: Keep) -> Range<u64> {
        let size = self.measure.size;
        match keep {
            Keep::Head => 0..size - self.last_line,
            Keep::Tail => self.first_line..size,
            Keep::Both if self.measure.prior.both.is_some() => 0..0,
            Keep::Both => 0..size,
        }
    }

    /// The decoded bytes from one offset to another.
    pub fn bytes(&self, from: u64, to: u64) -> Result<Vec<u8>, LiteralError> {
        let (from, to) = (index(from), index(to.min(self.measure.size)));
        if !self.measure.base64 {
            return self.chars(from, to);
        }
        let group = from / 3;
        let chars = self.chars(group * 4, to.div_ceil(3) * 4)?;
        // It decoded when it was opened.
        let bytes = base64::decode(&chars).ok_or(LiteralError { at: 1, what: "base64 that changed" })?;
        Ok(part(bytes, from - group * 3, to - group * 3))
    }

    /// The place of a character boundary of the raw string, given as its decoded bytes, base64 left as it is.
    pub fn place(&self, decoded: u64) -> Result<Place, LiteralError> {
        self.at_most(index(decoded))
    }

    /// The stored bytes from the start up to a place.
    pub fn stored_before(&self, place: Place) -> &'a [u8] {
        self.raw.get(..place.stored).unwrap_or_default()
    }

    /// The stored bytes from a place to the end.
    pub fn stored_after(&self, place: Place) -> &'a [u8] {
        self.raw.get(place.stored..).unwrap_or_default()
    }

    fn at_most(&self, decoded: usize) -> Result<Place, LiteralError> {
        if self.end.stored == self.end.decoded {
            // Without escapes there is nothing to walk over.
            let mut at = decoded.min(self.raw.len());
            while self.raw.get(at).is_some_and(|byte| stored::is_continuation(*byte)) {
                at -= 1;
            }
            return Ok(Place { stored: at, decoded: at });
        }
        let before = self.marks.partition_point(|mark| mark.decoded <= decoded);
        let from = self.marks.get(..before).and_then(<[Place]>::last).copied().unwrap_or_default();
        stored::advance(self.raw, from, Place { stored: self.raw.len(), decoded })
    }

    /// Bytes of the raw string with its escapes decoded, and nothing else.
    fn chars(&self, from: usize, to: usize) -> Result<Vec<u8>, LiteralError> {
        let to = to.min(self.end.decoded);
        let start = self.at_most(from)?;
        let mut bytes = Vec::with_capacity(to.saturating_sub(start.decoded) + 4);
        stored::decode(self.raw, start, &mut bytes, to.saturating_sub(start.decoded))?;
        Ok(part(bytes, from - start.decoded, to.saturating_sub(start.decoded)))
    }

    fn look_for_markers(&mut self) -> Result<(), LiteralError> {
        let size = self.measure.size;
        // Most texts carry none, and show it in their last and first stored byte, be that escaped or not.
        let base64 = self.measure.base64;
        if base64 || matches!(self.raw.last(), Some(b']' | b'd' | b'D')) {
            let last = self.bytes(size.saturating_sub(EDGE), size)?;
            let line = last.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
            if let Some((a, b)) = marker_of(line) {
                let before = size - line.len() as u64;
                let above = self.bytes(before.saturating_sub(second::LONGEST + 2), before)?;
                let above = above.strip_suffix(b"\n").unwrap_or_default();
                let second = above.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
                let found = Second::parse(second);
                let lines = line.len() as u64 + found.as_ref().map_or(0, |_| second.len() as u64 + 1);
                if counts(&b, size, lines) {
                    self.measure.prior.head = Some(a);
                    self.measure.prior.both = (lines == size).then_some(a);
                    (self.last_line, self.last_second) = (lines, found);
                }
            }
        }
        if base64 || matches!(self.raw.first(), Some(b'.' | b'\\')) {
            let first = self.bytes(0, EDGE)?;
            let line = first.split(|byte| *byte == b'\n').next().unwrap_or_default();
            if let Some((a, b)) = marker_of(line) {
                let after = line.len() as u64;
                let below = self.bytes(after, after + second::LONGEST + 2)?;
                let below = below.strip_prefix(b"\n").unwrap_or_default();
                let second = below.split(|byte| *byte == b'\n').next().unwrap_or_default();
                let found = Second::parse(second);
                let lines = after + found.as_ref().map_or(0, |_| second.len() as u64 + 1);
                if counts(&b, size, lines) {
                    self.measure.prior.tail = Some(a);
                    (self.first_line, self.first_second) = (lines, found);
                }
            }
        }
        Ok(())
    }

    /// The second line that goes with the marker a cut would replace.
    pub fn second(&self, keep: Keep) -> Option<&Second> {
        match keep {
            Keep::Head => self.last_second.as_ref(),
            Keep::Tail => self.first_second.as_ref(),
            Keep::Both => self.last_second.as_ref().filter(|_| self.measure.prior.both.is_some()),
        }
    }

    /// The same place as [`Text::place`], walked to from one that lies before it.
    pub fn place_from(&self, from: Place, decoded: u64) -> Result<Place, LiteralError> {
        let near = self.marks.partition_point(|mark| mark.decoded <= index(decoded));
        let mark = self.marks.get(..near).and_then(<[Place]>::last).copied().unwrap_or_default();
        let from = if mark.decoded > from.decoded { mark } else { from };
        stored::advance(self.raw, from, Place { stored: self.raw.len(), decoded: index(decoded) })
    }

    /// How many bytes stand between the quotes.
    pub fn stored(&self) -> usize {
        self.raw.len()
    }

    /// The stored bytes between two places.
    pub fn stored_between(&self, from: Place, to: Place) -> &'a [u8] {
        self.raw.get(from.stored..to.stored).unwrap_or_default()
    }
}

/// The A and the B of a line that looks like a marker. A line as long as the edge is longer than any marker.
fn marker_of(line: &[u8]) -> Option<(u64, String)> {
    let (a, b) = marker::parse_line(std::str::from_utf8(line).ok()?)?;
    Some((a, b.to_owned()))
}

/// Whether this B can be that of a text of this size, so many bytes of which are the marker and the line with it.
fn counts(b: &str, size: u64, lines: u64) -> bool {
    marker::reads(b, size) || (lines == size && b == "0 B")
}

/// The bytes from one offset to another, moved to the front.
fn part(mut bytes: Vec<u8>, from: usize, to: usize) -> Vec<u8> {
    bytes.truncate(to);
    bytes.drain(..from.min(bytes.len()));
    bytes
}

/// The original size in the first marker line of a stored string.
fn spoken_of(raw: &[u8]) -> Option<u64> {
    let at = memchr::memmem::find(raw, marker::OPEN.as_bytes())?;
    let rest = raw.get(at..)?;
    let end = memchr::memchr(b']', rest.get(..EDGE_STORED.min(rest.len()))?)?;
    let mut line = Vec::new();
    stored::decode(rest.get(..=end)?, Place::default(), &mut line, usize::MAX).ok()?;
    marker::parse_line(std::str::from_utf8(&line).ok()?).map(|(a, _)| a)
}

/// An offset into something that is in memory.
fn index(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}
