//! Levels, and the holes they make.

use std::ops::Range;

use super::outline::{Array, Item, Outline};
use super::{LEAST_STRING, ends, index};
use crate::cap::limits::Keep;

/// What a note in an array takes at most: quotes, comma, four numbers.
const NOTE: usize = 2 + 2 + 32 + 4 * 10;

/// How long a string may be, in stored bytes, and how many elements an array may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Levels {
    pub string: u64,
    pub array: u64,
}

/// What goes of one item.
#[derive(Debug)]
pub(super) struct Hole {
    /// Its number in the outline.
    pub item: usize,
    /// Bytes of the text: for a string the whole inside, of which `room` may stay.
    pub range: Range<usize>,
    pub room: u64,
    /// Elements that stay before and after it.
    pub head: usize,
    pub tail: usize,
    /// Whether a comma goes before the note, and after it.
    pub commas: (bool, bool),
}

/// The highest levels at which the text takes no more than the target. Strings come first, down to a share of the room; then
/// arrays; then what is left goes to the strings again.
pub(super) fn levels(outline: &Outline, target: u64, keep: Keep) -> Option<Levels> {
    levels_by(outline, target, |levels| takes(outline, levels, keep))
}

/// The same, with the looks it takes at items.
#[cfg(test)]
pub(super) fn levels_counted(
    outline: &Outline,
    target: u64,
    keep: Keep,
    looks: &std::cell::Cell<u64>,
) -> Option<Levels> {
    levels_by(outline, target, |levels| {
        looks.set(looks.get() + outline.items.len() as u64);
        takes(outline, levels, keep)
    })
}

fn levels_by(outline: &Outline, target: u64, takes: impl Fn(Levels) -> u64) -> Option<Levels> {
    let fits = |string, array| takes(Levels { string, array }) <= target;
    let share = (target / 64).max(LEAST_STRING);
    let array = if fits(share, outline.most) {
        outline.most
    } else {
        greatest(1, outline.most, |array| fits(share, array)).unwrap_or(1)
    };
    let string = greatest(LEAST_STRING, outline.longest, |string| fits(string, array))?;
    Some(Levels { string, array })
}

/// The greatest number in the range that holds, found by halving.
fn greatest(least: u64, most: u64, holds: impl Fn(u64) -> bool) -> Option<u64> {
    if !holds(least) {
        return None;
    }
    let (mut low, mut high) = (least, most.max(least));
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if holds(middle) { low = middle } else { high = middle - 1 }
    }
    Some(low)
}

/// What the text takes at most with these levels.
fn takes(outline: &Outline, levels: Levels, keep: Keep) -> u64 {
    let mut left = outline.len as u64;
    each(outline, levels, keep, |hole| {
        let stays = if hole.room > 0 { hole.room } else { NOTE as u64 };
        left -= hole.range.len() as u64 - stays;
    });
    left
}

/// The holes, in order and apart.
pub(super) fn holes(outline: &Outline, levels: Levels, keep: Keep) -> Vec<Hole> {
    let mut found = Vec::new();
    each(outline, levels, keep, |hole| found.push(hole));
    found.sort_by_key(|hole| hole.range.start);
    found
}

fn each(outline: &Outline, levels: Levels, keep: Keep, mut take: impl FnMut(Hole)) {
    // Holes of arrays that are not over yet, the outer ones first.
    let mut open: Vec<Range<usize>> = Vec::new();
    for (number, item) in outline.items.iter().enumerate() {
        let Some(start) = item.start() else { continue };
        while open.last().is_some_and(|hole| hole.end <= start) {
            open.pop();
        }
        if open.last().is_some_and(|hole| hole.start <= start) {
            continue;
        }
        match item {
            Item::String { start, end } => {
                let range = start + 1..end - 1;
                if range.len() as u64 > levels.string {
                    take(Hole { item: number, range, room: levels.string, head: 0, tail: 0, commas: (false, false) });
                }
            }
            Item::Array(array) => {
                if let Some(hole) = gap(array, number, levels.array, keep) {
                    open.push(hole.range.clone());
                    take(hole);
                }
            }
            Item::Small => {}
        }
    }
}

/// The elements of an array that go, where that gains anything.
fn gap(array: &Array, item: usize, level: u64, keep: Keep) -> Option<Hole> {
    let count = array.count();
    let stay = index(level).max(1);
    if stay >= count {
        return None;
    }
    let (head, tail) = match keep {
        Keep::Both if stay == 1 => (1, 0),
        keep => {
            let (head, tail) = ends(keep, stay as u64);
            (index(head), index(tail))
        }
    };
    // At the end it reaches over the note of an earlier cut.
    let to = if tail == 0 { array.last_end() } else { array.element_start(count - tail) };
    let from = head.checked_sub(1).map_or_else(|| array.element_start(0), |last| array.element_end(last));
    let range = from..to;
    (range.len() > NOTE).then_some(Hole { item, range, room: 0, head, tail, commas: (head > 0, tail > 0) })
}
