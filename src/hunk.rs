//! The text around a cut, for people.
//!
//! A cut is known, so no difference has to be searched for: what was kept and what went are given as lengths.

use std::ops::Range;

use crate::event::Hunk;
use crate::text::cut::{Cut, Piece};

/// Kept lines shown on either side of the hole.
const CONTEXT: usize = 3;
/// Removed lines shown at either end of the hole, where not all are.
const SHOWN: usize = 3;
/// The most bytes of one shown end, whatever its lines: a diff stays short where a line is five megabytes long.
const MOST: usize = 600;
/// The most holes that are shown, where not all are: the first ones, and the last.
const HOLES: usize = 4;

/// What a cut took from a decoded text, hole by hole. `full`: all of it, else its ends.
#[must_use]
pub fn hunks(text: &[u8], cut: &Cut, full: bool) -> Vec<Hunk> {
    let mut gaps = gaps(text.len(), &cut.pieces);
    if !full && gaps.len() > HOLES {
        gaps.drain(HOLES - 1..gaps.len() - 1);
    }
    let mut counted = (0, 1);
    gaps.into_iter().map(|gap| hunk(text, gap, full, &mut counted)).collect()
}

/// A hole, with the kept text before and after it and the new text in its place.
struct Gap {
    before: Range<usize>,
    hole: Range<usize>,
    after: Range<usize>,
    new: String,
}

fn gaps(len: usize, pieces: &[Piece]) -> Vec<Gap> {
    let index = |n: u64| usize::try_from(n).unwrap_or(usize::MAX).min(len);
    let mut gaps: Vec<Gap> = Vec::new();
    let (mut before, mut new) = (0..0, String::new());
    for piece in pieces {
        match piece {
            Piece::New(text) => new.push_str(text),
            Piece::Run(run) => {
                let run = index(run.start)..index(run.end);
                if run.start > before.end || !new.is_empty() {
                    let hole = before.end..run.start.max(before.end);
                    gaps.push(Gap { before, hole, after: run.clone(), new: std::mem::take(&mut new) });
                }
                before = run;
            }
        }
    }
    if before.end < len || !new.is_empty() {
        gaps.push(Gap { hole: before.end..len, before, after: len..len, new });
    }
    gaps
}

/// `counted`: an offset, and the line it is in.
fn hunk(text: &[u8], gap: Gap, full: bool, counted: &mut (usize, u64)) -> Hunk {
    let part = |range: Range<usize>| text.get(range).unwrap_or_default();
    let (head, hole, tail) = (part(gap.before.clone()), part(gap.hole.clone()), part(gap.after));
    let before = last_lines(head, CONTEXT, if full { usize::MAX } else { MOST });
    let from = gap.before.end - before.len();
    let newlines = memchr::memchr_iter(b'\n', part(counted.0..from.max(counted.0))).count() as u64;
    *counted = (from.max(counted.0), counted.1 + newlines);
    let start = first_lines(hole, SHOWN, MOST);
    let end = last_lines(hole, SHOWN, MOST);
    let whole = full || start.len() + end.len() >= hole.len();
    Hunk {
        before: lossy(before),
        marker: gap.new.trim_matches('\n').to_owned(),
        removed: lossy(if whole { hole } else { start }),
        removed_end: (!whole).then(|| lossy(end)),
        after: lossy(first_lines(tail, CONTEXT, if full { usize::MAX } else { MOST })),
        removed_bytes: hole.len() as u64,
        removed_lines: lines(hole),
        first_line: counted.1,
    }
}

/// Lines, a torn last one counted.
fn lines(text: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', text).count() as u64 + u64::from(text.last().is_some_and(|b| *b != b'\n'))
}

fn first_lines(text: &[u8], count: usize, most: usize) -> &[u8] {
    let end = memchr::memchr_iter(b'\n', text).nth(count.saturating_sub(1)).map_or(text.len(), |n| n + 1);
    let end = (0..=end.min(most)).rev().find(|at| boundary(text, *at)).unwrap_or(0);
    text.get(..end).unwrap_or_default()
}

fn last_lines(text: &[u8], count: usize, most: usize) -> &[u8] {
    let body = text.strip_suffix(b"\n").unwrap_or(text);
    let start = memchr::memrchr_iter(b'\n', body).nth(count.saturating_sub(1)).map_or(0, |n| n + 1);
    let start = start.max(text.len().saturating_sub(most));
    let start = (start..=text.len()).find(|at| boundary(text, *at)).unwrap_or(text.len());
    text.get(start..).unwrap_or_default()
}

fn boundary(text: &[u8], at: usize) -> bool {
    text.get(at).is_none_or(|b| b & 0xc0 != 0x80)
}

fn lossy(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hunk(text: &[u8], (head, tail): (u64, u64), full: bool) -> Hunk {
        let size = text.len() as u64;
        let pieces = vec![Piece::Run(0..head), Piece::New("\n…".into()), Piece::Run(size - tail..size)];
        let cut =
            Cut { literal: Vec::new(), before: 0, after: 0, head, tail, marker: "…".into(), second: None, pieces };
        let hunks = hunks(text, &cut, full);
        assert_eq!(hunks.len(), 1);
        hunks.into_iter().next().unwrap()
    }

    #[test]
    fn the_whole_hole_where_it_is_small() {
        let h = hunk(b"a\nb\nc\nd\ne\nfgh\n", (9, 0), false);
        assert_eq!(
            (h.before.as_str(), h.removed.as_str(), h.removed_end, h.after.as_str()),
            ("c\nd\ne", "\nfgh\n", None, "")
        );
        assert_eq!((h.first_line, h.removed_bytes, h.removed_lines), (3, 5, 2));
    }

    #[test]
    fn only_its_ends_where_it_is_large() {
        let text: String = (0..1000).map(|i| format!("line {i}\n")).collect();
        let h = hunk(text.as_bytes(), (14, 14), false);
        assert_eq!((h.before.as_str(), h.removed.as_str()), ("line 0\nline 1\n", "line 2\nline 3\nline 4\n"));
        assert_eq!(h.removed_end.as_deref(), Some("line 996\nline 997\nline"));
        assert_eq!((h.after.as_str(), h.removed_lines), (" 998\nline 999\n", 997));
    }

    #[test]
    fn one_giant_line_stays_short() {
        let h = hunk("é".repeat(1_000_000).as_bytes(), (1002, 0), false);
        assert!(h.before.len() <= MOST && h.removed.len() <= MOST + 3 && h.removed_end.unwrap().len() <= MOST);
        let all = hunk("é".repeat(1000).as_bytes(), (1000, 0), true);
        assert_eq!(all.removed.len(), 1000);
    }

    #[test]
    fn several_holes() {
        let text: String = (0..40).map(|i| format!("line {i}\n")).collect();
        let at = |line: u64| if line <= 10 { line * 7 } else { 70 + (line - 10) * 8 };
        let mut pieces: Vec<Piece> = (0..8).map(|i| Piece::Run(at(5 * i)..at(5 * i + 4))).collect();
        pieces.insert(1, Piece::New(", \"note\"".into()));
        pieces.push(Piece::New("[second]\n…".into()));
        let cut = Cut {
            literal: Vec::new(),
            before: 0,
            after: 0,
            head: 0,
            tail: 0,
            marker: "…".into(),
            second: None,
            pieces,
        };
        let all = hunks(text.as_bytes(), &cut, true);
        assert_eq!(all.iter().map(|h| h.removed.as_str()).collect::<Vec<_>>()[..2], ["line 4\n", "line 9\n"]);
        assert_eq!((all.len(), all[0].marker.as_str(), all[1].marker.as_str()), (8, ", \"note\"", ""));
        assert_eq!(all.iter().map(|h| h.first_line).collect::<Vec<_>>(), [2, 7, 12, 17, 22, 27, 32, 37]);
        assert_eq!((all[7].marker.as_str(), all[7].removed.as_str()), ("[second]\n…", "line 39\n"));
        let short = hunks(text.as_bytes(), &cut, false);
        assert_eq!(short.iter().map(|h| h.first_line).collect::<Vec<_>>(), [2, 7, 12, 37]);
    }
}
