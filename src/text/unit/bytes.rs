//! Characters: what the plain cut keeps, with a second line.

use super::compose::Composition;
use super::{Counted, Second, Try, ends, index, two_ends};
use crate::text::stored::is_continuation;

/// By how much what is delivered may shrink beyond the room; see `Layouter::search`.
pub(super) const SLACK: u64 = 512;

/// How many parts that are too small for the second line are tried before a cut goes without it.
pub(super) const MISSES: u32 = 256;

/// The most that fits. Nothing but the brackets where they name the whole text.
pub(super) fn fit(cut: &Try<'_>) -> Option<Composition> {
    let (text, keep) = (cut.text, cut.text.keep);
    let body = &*text.body;
    let all = body.len() as u64;
    let total = cut.total(Counted::Bytes, |text| text.len() as u64);
    let mut room = cut.room.min(all.saturating_sub(1));
    let mut misses = 0;
    loop {
        if room == 0 && cut.path.is_none() {
            return None;
        }
        let (head_room, tail_room) = ends(keep, room);
        let mut head = index(head_room);
        while body.get(head).is_some_and(|b| is_continuation(*b)) {
            head -= 1;
        }
        let mut tail = index(all - tail_room);
        while body.get(tail).is_some_and(|b| is_continuation(*b)) {
            tail += 1;
        }
        let line = cut.named(Second::of(Counted::Bytes, head as u64, all - tail as u64, total));
        let found = text.compose(&two_ends(keep, head, tail, body.len(), line));
        let over = match found {
            Ok(found) if found.total <= cut.room => return Some(found),
            Ok(found) => (found.total - cut.room).saturating_sub(SLACK).max(1),
            Err(over) => {
                misses += 1;
                over
            }
        };
        if misses > MISSES {
            return None;
        }
        room = room.checked_sub(over.min(room.max(1)))?;
    }
}
