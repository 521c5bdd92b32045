//! The text around a cut, for people.
//!
//! A cut is known, so no difference has to be searched for: what was kept and what went are given as lengths.

use crate::event::Hunk;
use crate::text::cut::Cut;

/// Kept lines shown on either side of the hole.
const CONTEXT: usize = 3;
/// Removed lines shown at either end of the hole, where not all are.
const SHOWN: usize = 3;
/// The most bytes of one shown end, whatever its lines: a diff stays short where a line is five megabytes long.
const MOST: usize = 600;

/// What a cut took from a decoded text. `full`: all of it, else its ends.
#[must_use]
pub fn hunk(text: &[u8], cut: &Cut, full: bool) -> Hunk {
    let head_end = usize::try_from(cut.head).unwrap_or(usize::MAX).min(text.len());
    let tail_start = text.len().saturating_sub(usize::try_from(cut.tail).unwrap_or(usize::MAX)).max(head_end);
    let (head, rest) = text.split_at(head_end);
    let (hole, tail) = rest.split_at(tail_start - head_end);
    let before = last_lines(head, CONTEXT, if full { usize::MAX } else { MOST });
    let first_line =
        1 + memchr::memchr_iter(b'\n', head.get(..head.len() - before.len()).unwrap_or_default()).count() as u64;
    let start = first_lines(hole, SHOWN, MOST);
    let end = last_lines(hole, SHOWN, MOST);
    let whole = full || start.len() + end.len() >= hole.len();
    Hunk {
        before: lossy(before),
        marker: cut.marker.clone(),
        removed: lossy(if whole { hole } else { start }),
        removed_end: (!whole).then(|| lossy(end)),
        after: lossy(first_lines(tail, CONTEXT, if full { usize::MAX } else { MOST })),
        removed_bytes: hole.len() as u64,
        removed_lines: lines(hole),
        first_line,
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

    fn cut(head: u64, tail: u64) -> Cut {
        Cut { literal: Vec::new(), before: 0, after: 0, head, tail, marker: "…".into() }
    }

    #[test]
    fn the_whole_hole_where_it_is_small() {
        let h = hunk(b"a\nb\nc\nd\ne\nfgh\n", &cut(9, 0), false);
        assert_eq!(
            (h.before.as_str(), h.removed.as_str(), h.removed_end, h.after.as_str()),
            ("c\nd\ne", "\nfgh\n", None, "")
        );
        assert_eq!((h.first_line, h.removed_bytes, h.removed_lines), (3, 5, 2));
    }

    #[test]
    fn only_its_ends_where_it_is_large() {
        let text: String = (0..1000).map(|i| format!("line {i}\n")).collect();
        let h = hunk(text.as_bytes(), &cut(14, 14), false);
        assert_eq!((h.before.as_str(), h.removed.as_str()), ("line 0\nline 1\n", "line 2\nline 3\nline 4\n"));
        assert_eq!(h.removed_end.as_deref(), Some("line 996\nline 997\nline"));
        assert_eq!((h.after.as_str(), h.removed_lines), (" 998\nline 999\n", 997));
    }

    #[test]
    fn one_giant_line_stays_short() {
        let h = hunk("é".repeat(1_000_000).as_bytes(), &cut(1002, 0), false);
        assert!(h.before.len() <= MOST && h.removed.len() <= MOST + 3 && h.removed_end.unwrap().len() <= MOST);
        let all = hunk("é".repeat(1000).as_bytes(), &cut(1000, 0), true);
        assert_eq!(all.removed.len(), 1000);
    }
}
