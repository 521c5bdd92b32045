//! Whole lines.

use memchr::memrchr;

use super::bytes::{MISSES, SLACK};
use super::compose::Composition;
use super::{Counted, Second, Try, count_lines, ends, index, two_ends};

/// The most whole lines that fit; `None` where not one does.
///
/// Two lines at least go, so that the brackets leave the text with no more lines than it had.
pub(super) fn fit(cut: &Try<'_>) -> Option<Composition> {
    let (text, keep) = (cut.text, cut.text.keep);
    let body = &*text.body;
    let all = body.len() as u64;
    let here = count_lines(body);
    let total = cut.total(Counted::Lines, count_lines);
    let mut room = cut.room.min(all);
    let mut misses = 0;
    while room > 0 {
        let (head_room, tail_room) = ends(keep, room);
        // The end of the last line that fits, and the start of the first one.
        let head = memrchr(b'\n', body.get(..index(head_room)).unwrap_or(body)).map_or(0, |at| at + 1);
        let from = index(all - tail_room).max(head);
        let tail = match from.checked_sub(1).and_then(|at| body.get(at)) {
            Some(b'\n') | None => from,
            Some(_) => {
                memchr::memchr(b'\n', body.get(from..).unwrap_or_default()).map_or(body.len(), |at| from + at + 1)
            }
        };
        let tail = if tail_room == 0 { body.len() } else { tail };
        let (first, last) =
            (count_lines(body.get(..head).unwrap_or_default()), count_lines(body.get(tail..).unwrap_or_default()));
        if head == 0 && tail == body.len() {
            return None;
        }
        // What must go for this to become another choice.
        let next = (head_room.saturating_sub(head as u64)).min(if tail_room == 0 {
            u64::MAX
        } else {
            tail as u64 - (all - tail_room)
        });
        let line = cut.named(Second::of(Counted::Lines, first, last, total));
        let stride = match text.compose(&two_ends(keep, head, tail, body.len(), line)) {
            Ok(found)
                if found.total <= cut.room
                    && first + last + 2 <= here.max(total.unwrap_or(0))
                    && text.adds_no_lines(&found) =>
            {
                return Some(found);
            }
            Ok(found) => found.total.saturating_sub(cut.room).saturating_sub(SLACK),
            Err(over) => {
                misses += 1;
                over
            }
        };
        if misses > MISSES {
            return None;
        }
        // For one end, the next shorter choice is one byte before the end of the line that was the last.
        let least = if matches!(keep, crate::cap::limits::Keep::Both) { 1 } else { next + 1 };
        room = room.saturating_sub(stride.max(least));
    }
    None
}
