//! JSON that stays JSON: the largest strings and the longest arrays become shorter, every key stays.
//!
//! The text is gone through once. What could become shorter is listed, and a level is sought for all of it: so many bytes a
//! string, so many elements an array. That takes as many looks at the list as a number has bits, so the whole is linear.

use super::compose::Composition;
use super::{Counted, Kept, Piece, Second, Side, Try, blob, ends, index};
use crate::cap::limits::Keep;
use crate::text::stored::{self, Place};
use holes::Hole;
use outline::{Item, Outline};

mod holes;
mod outline;
mod places;

/// The least a string is shortened to, in stored bytes: room for some of it and for the note.
const LEAST_STRING: u64 = 160;
/// How many of the holes are named in the second line.
const NAMED: usize = 6;
/// How often the room for the brackets is guessed anew.
const GUESSES: u32 = 12;

/// The text with its largest strings and arrays shortened as far as it must be. `None`: it is no object or array, or its keys,
/// numbers and small strings are too much by themselves.
pub(super) fn fit(cut: &Try<'_>) -> Option<Composition> {
    let text = cut.text;
    let outline = Outline::of(text.document()?)?;
    let total = cut.total(Counted::Json, |text| text.len() as u64);
    // Places are those of this text, so they are not named where it is not the one that the path holds.
    let named = total == Some(text.body.len() as u64);
    let mut target = cut.room.checked_sub(128 + cut.path.map_or(0, str::len) as u64)?;
    for _ in 0..GUESSES {
        let levels = holes::levels(&outline, target, text.keep)?;
        let holes = holes::holes(&outline, levels, text.keep);
        let mut pieces = Vec::with_capacity(2 * holes.len() + 1);
        let mut missing = Vec::new();
        let (mut at, mut kept) = (0, 0);
        for hole in &holes {
            let Some((range, note, what)) = opened(&text.body, &outline, hole, text.keep) else { continue };
            kept += (range.start - at) as u64;
            pieces.extend([Piece::Run(at..range.start), Piece::Note(range.start, note)]);
            missing.push((range.len(), hole.item, what));
            at = range.end;
        }
        kept += (text.body.len() - at) as u64;
        pieces.push(Piece::Run(at..text.body.len()));
        if missing.is_empty() {
            return None;
        }
        let omitted = named.then(|| omitted(&text.body, &outline, missing));
        let line = cut.named(Second { kept, total, counted: Counted::Json, omitted, path: None });
        let found = text.compose(&Kept { pieces, side: Side::After, line });
        let over = match found {
            Ok(found) if found.total <= cut.room => return Some(found),
            Ok(found) => found.total - cut.room,
            Err(over) => over,
        };
        target = target.checked_sub(over)?;
    }
    None
}

/// A hole as it stands in the text: what goes, the note in its place, and how the second line tells of it.
fn opened(body: &[u8], outline: &Outline, hole: &Hole, keep: Keep) -> Option<(std::ops::Range<usize>, String, String)> {
    match outline.items.get(hole.item)? {
        Item::Array(array) => {
            let second = Second::of(Counted::Elements, hole.head as u64, hole.tail as u64, Some(array.total()));
            let (before, after) = hole.commas;
            let note = format!("{}\"{second}\"{}", if before { ", " } else { "" }, if after { ", " } else { "" });
            let what = format!("elements {}", second.omitted.unwrap_or_default());
            Some((hole.range.clone(), note, what))
        }
        Item::String { start, end } => {
            let inner = body.get(*start + 1..end - 1)?;
            if let Some(note) = blob::note(inner) {
                return Some((start + 1..end - 1, note, "the blob".to_owned()));
            }
            let walk =
                |stored: usize| stored::advance(inner, Place::default(), Place { stored, decoded: usize::MAX }).ok();
            let all = walk(inner.len())?;
            let room = hole.room.checked_sub(note_room(inner.len()))?;
            let (head_room, tail_room) = ends(keep, room);
            let head = if head_room == 0 { Place::default() } else { walk(index(head_room))? };
            // A tail begins behind the place, which may lie an escape before what was asked for.
            let tail = match tail_room.checked_sub(12).filter(|room| *room > 0) {
                Some(room) => walk(inner.len() - index(room))?,
                None => all,
            };
            // A text that was shortened before says how much it was.
            let before = Some(inner).filter(|_| keep == Keep::Head).and_then(outline::noted);
            let total = before.map_or(all.decoded as u64, |note| note.total.unwrap_or(note.kept));
            let counts = (head.decoded as u64, (all.decoded - tail.decoded) as u64);
            let second = Second::of(Counted::Bytes, counts.0, counts.1, Some(total));
            let what = format!("bytes {}", second.omitted.clone().unwrap_or_default());
            Some((start + 1 + head.stored..start + 1 + tail.stored, second.to_string(), what))
        }
        Item::Small => None,
    }
}

/// What a note within a string of so many stored bytes takes at most.
fn note_room(stored: usize) -> u64 {
    let digits = stored.checked_ilog10().map_or(1, |log| u64::from(log) + 1);
    4 * digits + 32
}

/// The largest holes, in the order of the text: `elements 201-5000 of .items, bytes 1001-9000 of .log and 3 more`.
fn omitted(body: &[u8], outline: &Outline, mut missing: Vec<(usize, usize, String)>) -> String {
    let all = missing.len();
    missing.sort_by_key(|(len, item, _)| (std::cmp::Reverse(*len), *item));
    missing.truncate(NAMED);
    missing.sort_by_key(|(_, item, _)| *item);
    let starts: Vec<usize> = missing.iter().filter_map(|(_, item, _)| outline.items.get(*item)?.start()).collect();
    let places = places::places(body, &starts);
    let named = missing.iter().zip(places).filter_map(|((_, _, what), place)| Some(format!("{what} of {}", place?)));
    let named: Vec<String> = named.collect();
    match (named.len(), all - named.len()) {
        (0, more) => format!("{more} parts"),
        (_, 0) => named.join(", "),
        (_, more) => format!("{} and {more} more", named.join(", ")),
    }
}

#[cfg(test)]
mod tests;
