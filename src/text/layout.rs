//! How much of each text part is kept: the longest that fits.
//!
//! Works on offsets of decoded text and looks at no more than a few hundred bytes around a cut. It makes no literal: that is
//! [`super::cut`].

use super::literal::{LiteralError, Text};
use super::stored::is_continuation;
use crate::cap::limits::Keep;
use crate::cap::marker;

/// What is left of a part that is cut, in decoded bytes. What lies between head and tail is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Shape {
    /// Kept at its start.
    pub head: u64,
    /// Kept at its end.
    pub tail: u64,
    /// Whether a newline goes before the marker, and after it.
    pub newline: (bool, bool),
    /// The size that the marker gives as B.
    pub b: u64,
}

/// The text parts of a response, in order.
pub(super) struct Layouter<'a> {
    texts: &'a [Text<'a>],
    keep: Keep,
    /// The sizes of the first so many parts together, and the least that can be made of them.
    sizes: Vec<u64>,
    floors: Vec<u64>,
    head: Peephole,
    tail: Peephole,
    /// See [`SLACK`].
    slack: u64,
}

/// The parts with a certain room of text kept. From `first` to `last` they become their shapes, or markers alone in between,
/// as far as that makes them smaller; before and after they stay.
struct Layout {
    first: (usize, Shape),
    last: (usize, Shape),
    /// What all of it takes.
    total: u64,
}

/// By how much what is delivered may shrink beyond the room; see [`Layouter::search`]. A second line that goes comes on top.
const SLACK: u64 = 2 * (68 + 44);

impl<'a> Layouter<'a> {
    pub fn new(texts: &'a [Text<'a>], keep: Keep) -> Self {
        let (mut sizes, mut floors) = (vec![0], vec![0]);
        let (mut size, mut floor) = (0_u64, 0_u64);
        let mut lines = 0;
        for text in texts {
            lines = lines.max(text.second(keep).map_or(0, |second| second.to_string().len() as u64 + 1));
            size = size.saturating_add(text.measure.size);
            floor = floor.saturating_add(text.measure.floor(keep));
            sizes.push(size);
            floors.push(floor);
        }
        let slack = SLACK + 2 * lines;
        Layouter { texts, keep, sizes, floors, head: Peephole::default(), tail: Peephole::default(), slack }
    }

    /// The shapes that hold the parts to `room` bytes, as far as that goes; `None` for a part that stays. A room of `None` is
    /// less than none.
    pub fn fit(&mut self, room: Option<u64>) -> Result<Vec<Option<Shape>>, LiteralError> {
        if room.is_some_and(|room| sum(&self.sizes, self.texts.len()) <= room) {
            return Ok(vec![None; self.texts.len()]);
        }
        let layout = self.search(room.unwrap_or(0))?;
        let shapes = self.texts.iter().enumerate().map(|(part, text)| {
            let shape = layout.shape(part)?;
            (self.delivered(text, shape) < text.measure.size).then_some(shape)
        });
        Ok(shapes.collect())
    }

    /// The layout that keeps most within the room, or the least one.
    ///
    /// The room for kept text is tried downwards from all of it, in strides where nothing between can fit. A part's share
    /// is the bytes of kept room that fall to it: all of its size before the cut, none behind it. Shares add up to the kept
    /// room and none grows when that shrinks, so the sum of max(floor, share) over the parts shrinks no faster than the
    /// kept room. Parts that stay and parts that become bare markers take exactly that much. The one or two parts in which
    /// head and tail end may take more, by two newlines and the longest marker (68 bytes), or less, by what is lost at two
    /// character boundaries and with an earlier marker, less the new one (3 + 3 + 66 − 28 = 44 bytes). So with a kept room
    /// smaller by n, what is delivered is smaller by at most n + [`SLACK`].
    fn search(&mut self, room: u64) -> Result<Layout, LiteralError> {
        let least = self.least();
        // No marker is shorter than the bare one of its part, so no layout takes less.
        if least.total >= room {
            return Ok(least);
        }
        let mut kept = room;
        while kept > 0 {
            let stride = match self.layout(kept)? {
                Some(layout) if layout.total <= room => return Ok(layout),
                Some(layout) => (layout.total - room).saturating_sub(self.slack).max(1),
                // No B is true of this length.
                None => 1,
            };
            kept = kept.saturating_sub(stride);
        }
        Ok(least)
    }

    /// The layout that keeps nothing.
    fn least(&self) -> Layout {
        let parts = self.texts.len();
        let bare = Shape::default();
        Layout { first: (0, bare), last: (parts.saturating_sub(1), bare), total: sum(&self.floors, parts) }
    }

    /// The layout with so much kept room, which is less than what all parts take. `None` where a marker has no true B.
    fn layout(&mut self, kept: u64) -> Result<Option<Layout>, LiteralError> {
        let (head_room, tail_room) = match self.keep {
            Keep::Head => (kept, 0),
            Keep::Tail => (0, kept),
            Keep::Both => {
                // Two thirds, without a product that could overflow.
                let head = kept / 3 * 2 + kept % 3 * 2 / 3;
                (head, kept - head)
            }
        };
        let all = sum(&self.sizes, self.texts.len());
        // The parts that stay at the start are as many as fit; so are those at the end. At least one is left between.
        let first = self.sizes.partition_point(|before| *before <= head_room).saturating_sub(1);
        let last = self.sizes.partition_point(|before| all - before > tail_room).saturating_sub(1).max(first);
        let (before, after) = (sum(&self.sizes, first), all - sum(&self.sizes, last + 1));
        let (head_room, tail_room) = (head_room.saturating_sub(before), tail_room.saturating_sub(after));

        let (at_first, at_last) = if first == last {
            let both = self.shape(first, head_room, tail_room)?;
            (both, both)
        } else {
            (self.shape(first, head_room, 0)?, self.shape(last, 0, tail_room)?)
        };
        let (Some(at_first), Some(at_last)) = (at_first, at_last) else { return Ok(None) };
        let takes = |part: usize, shape: Shape| {
            self.texts.get(part).map_or(0, |text| self.delivered(text, shape).min(text.measure.size))
        };
        let mut total = before + takes(first, at_first) + after;
        if first < last {
            total += sum(&self.floors, last) - sum(&self.floors, first + 1) + takes(last, at_last);
        }
        Ok(Some(Layout { first: (first, at_first), last: (last, at_last), total }))
    }

    /// The shape of one part with so much room at its start and at its end.
    fn shape(&mut self, part: usize, head_room: u64, tail_room: u64) -> Result<Option<Shape>, LiteralError> {
        let Some(text) = self.texts.get(part) else { return Ok(Some(Shape::default())) };
        let body = text.body(self.keep);
        let mut end = body.start + head_room.min(body.end - body.start);
        let mut start = body.end - tail_room.min(body.end - body.start);
        let mut newline = (false, false);
        // Both ends move inwards to a character boundary, the outer ends being ones.
        if end > body.start {
            let mut look = |at| self.head.byte(text, part, at, PEEPHOLE - 8);
            while end < body.end && end > body.start && is_continuation(look(end)?) {
                end -= 1;
            }
            newline.0 = end > body.start && look(end - 1)? != b'\n';
        }
        if start < body.end {
            let mut look = |at| self.tail.byte(text, part, at, 8);
            while start < body.end && start > body.start && is_continuation(look(start)?) {
                start += 1;
            }
            newline.1 = start < body.end && look(start)? != b'\n';
        }
        let (head, tail) = (end - body.start, body.end - start);
        if head == 0 && tail == 0 {
            return Ok(Some(Shape::default()));
        }
        let rest = head + tail + u64::from(newline.0) + u64::from(newline.1);
        let a = text.measure.original(self.keep);
        Ok(settle(a, rest).map(|b| Shape { head, tail, newline, b }))
    }

    /// The size of a part in this shape.
    fn delivered(&self, text: &Text<'_>, shape: Shape) -> u64 {
        if shape.b > 0 { shape.b } else { marker::length(text.measure.original(self.keep), 0) }
    }
}

impl Layout {
    /// The shape of a part; `None` where it stays.
    fn shape(&self, part: usize) -> Option<Shape> {
        let ((first, at_first), (last, at_last)) = (self.first, self.last);
        match part {
            _ if part == first => Some(at_first),
            _ if part == last => Some(at_last),
            _ => (first..last).contains(&part).then(Shape::default),
        }
    }
}

/// The smallest B that is true where the rest of the part takes so many bytes.
pub(super) fn settle(a: u64, rest: u64) -> Option<u64> {
    (marker::SHORTEST..=marker::LONGEST).find_map(|length| {
        let b = rest.checked_add(length)?;
        (marker::length(a, b) == length).then_some(b)
    })
}

/// An entry of sums over the first so many parts.
fn sum(sums: &[u64], parts: usize) -> u64 {
    sums.get(parts).copied().unwrap_or_default()
}

/// Bytes of decoded text that are held around a place where a cut may fall.
const PEEPHOLE: u64 = 512;

/// A few decoded bytes of one part.
#[derive(Debug, Default)]
struct Peephole {
    part: usize,
    start: u64,
    bytes: Vec<u8>,
}

impl Peephole {
    /// A byte of a part's text. Where it is not at hand, the peephole moves there, with `behind` bytes before it.
    fn byte(&mut self, text: &Text<'_>, part: usize, at: u64, behind: u64) -> Result<u8, LiteralError> {
        if let Some(byte) = self.at_hand(part, at) {
            return Ok(byte);
        }
        let start = at.saturating_sub(behind);
        *self = Peephole { part, start, bytes: text.bytes(start, start + PEEPHOLE)? };
        Ok(self.at_hand(part, at).unwrap_or_default())
    }

    fn at_hand(&self, part: usize, at: u64) -> Option<u8> {
        let offset = usize::try_from(at.checked_sub(self.start)?).ok()?;
        if part == self.part { self.bytes.get(offset).copied() } else { None }
    }
}
