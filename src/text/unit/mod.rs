//! Cuts in a text's natural units: whole lines, JSON that stays JSON, a diff's file sections, a base64 blob as one.
//!
//! A unit says which runs of the text stay; `compose` says what that makes of each part, the two bracketed lines included,
//! and how much it takes. What does not fit in one unit is tried in the next plainer one. Pure, and it may hold the texts of
//! the one response at hand in memory. Literals are for [`super::cut`].

use std::borrow::Cow;
use std::ops::Range;

use super::literal::{LiteralError, Text};
use super::second::{Counted, Second};
use crate::cap::limits::{Keep, Unit};
use crate::text::json::Node;

mod blob;
mod bytes;
mod compose;
mod diff;
mod json;
mod lines;

pub(super) use compose::{Composition, Local, Part};

/// The texts of one response, in order, taken as one text.
pub(super) struct Gathered {
    /// Where each part's text stands in `body`.
    parts: Vec<Span>,
    /// The texts without the brackets of an earlier cut.
    body: Vec<u8>,
    /// The texts as they are, where that is more.
    whole: Option<Vec<u8>>,
    /// What an earlier cut says of them.
    prior: Option<Second>,
    keep: Keep,
}

/// One part of the text.
struct Span {
    range: Range<usize>,
    /// Where that starts in the part.
    offset: u64,
    /// The whole part's size.
    size: u64,
    /// The size that a marker gives as A.
    a: u64,
    /// It is nothing but brackets with a second line, which will no longer be true.
    stale: bool,
}

/// What stays of a text.
struct Kept {
    /// In order.
    pieces: Vec<Piece>,
    side: Side,
    line: Second,
}

enum Piece {
    /// A run of the text.
    Run(Range<usize>),
    /// New text that stands for what was at a place of it.
    Note(usize, String),
}

/// Where the brackets of a part stand.
#[derive(Clone, Copy)]
enum Side {
    After,
    Before,
    /// At this place of the text.
    At(usize),
}

impl Gathered {
    pub fn of(texts: &[Text<'_>], keep: Keep) -> Result<Self, LiteralError> {
        let mut found = Gathered { parts: Vec::new(), body: Vec::new(), whole: None, prior: None, keep };
        let mut whole = Vec::new();
        for text in texts {
            let size = text.measure.size;
            let end = Self::end(text, keep);
            let bytes = text.bytes(0, size)?;
            let mut body = to_range(text.body(end));
            if let Some(second) = text.second(end) {
                // A newline that only joined the kept text to its brackets is none of it.
                if end == Keep::Tail && bytes.get(body.start) == Some(&b'\n') {
                    body.start += 1;
                }
                let first = found.prior.is_none();
                if first && second.counted == Counted::Bytes && end == Keep::Head {
                    let before = found.body.len() as u64;
                    let own = usize::try_from(second.kept.saturating_sub(before)).unwrap_or(usize::MAX);
                    if own.checked_add(1) == Some(body.len()) && bytes.get(own) == Some(&b'\n') {
                        body.end = own;
                    }
                }
                if first || end == Keep::Tail {
                    found.prior = Some(second.clone());
                }
            }
            let start = found.body.len();
            found.body.extend_from_slice(bytes.get(body.clone()).unwrap_or_default());
            let range = start..found.body.len();
            let stale = range.is_empty() && text.second(end).is_some();
            found.parts.push(Span { range, offset: body.start as u64, size, a: text.measure.original(end), stale });
            whole.extend(bytes);
        }
        found.whole = (whole.len() > found.body.len()).then_some(whole);
        Ok(found)
    }

    /// The end that is kept. JSON and blobs have their brackets behind them, whatever is kept elsewhere.
    fn end(text: &Text<'_>, keep: Keep) -> Keep {
        match text.second(Keep::Head).map(|second| second.counted) {
            Some(Counted::Json | Counted::Base64) => Keep::Head,
            _ => keep,
        }
    }

    /// The whole text, as it is.
    pub fn whole(&self) -> &[u8] {
        self.whole.as_deref().unwrap_or(&self.body)
    }

    /// Where the whole text was kept when it was cut before.
    pub fn carried(&self) -> Option<&str> {
        self.prior.as_ref().and_then(|prior| prior.path.as_deref())
    }

    /// The most that can be kept in this unit, or in one that is plainer, within so many bytes. `None`: no second line fits.
    pub fn fit(&self, room: u64, unit: Unit, path: Option<&str>) -> Option<Composition> {
        let paths = [path, None].into_iter().take(if path.is_some() && unit != Unit::Bytes { 2 } else { 1 });
        for path in paths {
            let try_ = Try { text: self, room, path };
            let found = self.ladder(unit).iter().find_map(|rung| match rung {
                Rung::Json => json::fit(&try_),
                Rung::Diff => diff::fit(&try_),
                Rung::Blob => blob::fit(&try_),
                Rung::Lines => lines::fit(&try_),
                Rung::ShortLines => lines::fit(&try_).filter(|found| found.total + room / 8 >= room),
                Rung::Bytes => bytes::fit(&try_),
            });
            if found.is_some() {
                return found;
            }
        }
        None
    }

    fn ladder(&self, unit: Unit) -> &'static [Rung] {
        match unit {
            Unit::Bytes => &[Rung::Bytes],
            Unit::Lines => &[Rung::Lines, Rung::Bytes],
            Unit::Json => &[Rung::Json, Rung::Lines, Rung::Bytes],
            Unit::Diff => &[Rung::Diff, Rung::Lines, Rung::Bytes],
            Unit::Auto if self.document().is_some() => &[Rung::Json, Rung::ShortLines, Rung::Bytes],
            Unit::Auto if diff::begins(&self.body) => &[Rung::Diff, Rung::ShortLines, Rung::Bytes],
            Unit::Auto => &[Rung::Blob, Rung::ShortLines, Rung::Bytes],
        }
    }

    /// The one part that has text, where there is just one.
    fn alone(&self) -> bool {
        self.parts.iter().filter(|part| part.size > 0).count() == 1
    }

    /// The text as a JSON object or array.
    fn document(&self) -> Option<Node<'_>> {
        let first = self.body.iter().find(|b| !b.is_ascii_whitespace())?;
        let found = || Node::document(&self.body).ok();
        if matches!(first, b'{' | b'[') && self.alone() { found() } else { None }
    }
}

#[derive(Clone, Copy)]
enum Rung {
    Json,
    Diff,
    Blob,
    Lines,
    /// Lines, where whole ones lose little.
    ShortLines,
    Bytes,
}

/// One text, to be cut to so many bytes, its whole text being found here.
struct Try<'t> {
    text: &'t Gathered,
    room: u64,
    path: Option<&'t str>,
}

impl Try<'_> {
    /// How many of a unit there were in all: in what the path holds, or else before the first cut.
    fn total(&self, counted: Counted, count: impl Fn(&[u8]) -> u64) -> Option<u64> {
        let text = self.text;
        if self.path.is_some() && self.path != text.carried() {
            return Some(count(text.whole()));
        }
        let cut_before = text.parts.iter().any(|part| part.size != part.a);
        match &text.prior {
            Some(prior) if prior.counted == counted => prior.total,
            None if !cut_before => Some(count(&text.body)),
            _ => None,
        }
    }

    /// The line with its path.
    fn named(&self, line: Second) -> Second {
        Second { path: self.path.map(str::to_owned), ..line }
    }
}

/// How many of so many bytes are for the head, and how many for the tail.
fn ends(keep: Keep, room: u64) -> (u64, u64) {
    match keep {
        Keep::Head => (room, 0),
        Keep::Tail => (0, room),
        Keep::Both => {
            let head = room / 3 * 2 + room % 3 * 2 / 3;
            (head, room - head)
        }
    }
}

/// What stays where all between two ends goes.
fn two_ends(keep: Keep, head: usize, tail_start: usize, len: usize, line: Second) -> Kept {
    let runs = [0..head, tail_start..len].into_iter().filter(|run| !run.is_empty());
    let side = match keep {
        Keep::Head => Side::After,
        Keep::Tail => Side::Before,
        Keep::Both => Side::At(head),
    };
    Kept { pieces: runs.map(Piece::Run).collect(), side, line }
}

/// Lines, a torn last one counted.
pub(super) fn count_lines(text: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', text).count() as u64 + u64::from(text.last().is_some_and(|b| *b != b'\n'))
}

fn to_range(range: Range<u64>) -> Range<usize> {
    let index = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    index(range.start)..index(range.end)
}

/// An offset or a length that is in memory.
fn index(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

fn shown(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

#[cfg(test)]
mod tests;
