//! The cutter: the parts of one response in, new literals out.
//!
//! It says what the new literals are, byte for byte, and changes nothing. How much is kept is for `layout` to find; which
//! allowance a response has is for [`crate::cap`] to say.

use super::base64;
use super::layout::{Layouter, Shape};
use super::literal::{Encoding, LiteralError, Text};
use crate::cap::limits::{Keep, OPAQUE_CHARGE};
use crate::cap::marker;

/// A part of a response, in order.
#[derive(Debug, Clone, Copy)]
pub enum Part<'a> {
    /// A stored JSON string literal, quotes included.
    Text {
        /// Its bytes.
        literal: &'a [u8],
        /// How it is stored.
        encoding: Encoding,
    },
    /// An image or other part that is charged and never cut.
    Opaque,
}

/// One part as it was cut. Sizes are decoded bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// The new literal, quotes included. Its kept bytes are the old one's own.
    pub literal: Vec<u8>,
    /// The size of the part's text before.
    pub before: u64,
    /// The size of the part's text after.
    pub after: u64,
    /// Bytes kept at the start of the text.
    pub head: u64,
    /// Bytes kept at the end of the text. What lies between is gone.
    pub tail: u64,
    /// The marker, without the newlines around it.
    pub marker: String,
}

/// Holds a response to its allowance in decoded bytes, as far as that goes. `None` for a part that stays as it is.
///
/// Uncuttable parts are charged first. Holds the new literals and little else in memory, however long the old ones are.
pub fn cut(parts: &[Part<'_>], allowance: u64, keep: Keep) -> Result<Vec<Option<Cut>>, LiteralError> {
    let mut room = Some(allowance);
    let mut texts = Vec::new();
    for part in parts {
        match part {
            Part::Text { literal, encoding } => texts.push(Text::open(literal, *encoding)?),
            Part::Opaque => room = room.and_then(|room| room.checked_sub(OPAQUE_CHARGE)),
        }
    }
    let shapes = Layouter::new(&texts, keep).fit(room)?;
    let mut cuts =
        texts.iter().zip(shapes).map(|(text, shape)| shape.map(|shape| splice(text, shape, keep)).transpose());
    parts
        .iter()
        .map(|part| match part {
            Part::Text { .. } => cuts.next().unwrap_or(Ok(None)),
            Part::Opaque => Ok(None),
        })
        .collect()
}

/// The literal of one part in its new shape.
fn splice(text: &Text<'_>, shape: Shape, keep: Keep) -> Result<Cut, LiteralError> {
    let before = text.measure.size;
    let marker = marker::render(text.measure.original(keep), shape.b);
    let literal = if text.measure.base64 { reencode(text, shape, &marker)? } else { rejoin(text, shape, &marker)? };
    let (newline_before, newline_after) = shape.newline;
    let after = shape.head + u64::from(newline_before) + marker.len() as u64 + u64::from(newline_after) + shape.tail;
    Ok(Cut { literal, before, after, head: shape.head, tail: shape.tail, marker })
}

/// Stored head, marker, stored tail.
fn rejoin(text: &Text<'_>, shape: Shape, marker: &str) -> Result<Vec<u8>, LiteralError> {
    let newline = |there: bool| if there { &b"\\n"[..] } else { b"" };
    let head = text.stored_before(text.place(shape.head)?);
    let tail = text.stored_after(text.place(text.measure.size - shape.tail)?);
    let (before, after) = shape.newline;
    Ok([b"\"", head, newline(before), marker.as_bytes(), newline(after), tail, b"\""].concat())
}

/// The canonical encoding of the cut text. The full groups of a kept head stay as they are stored; what follows no longer
/// stands on the same groups and is encoded anew.
fn reencode(text: &Text<'_>, shape: Shape, marker: &str) -> Result<Vec<u8>, LiteralError> {
    let newline = |there: bool| if there { &b"\n"[..] } else { b"" };
    let size = text.measure.size;
    let groups = shape.head / 3;
    let kept = text.stored_before(text.place(groups * 4)?);
    let head = text.bytes(groups * 3, shape.head)?;
    let tail = text.bytes(size - shape.tail, size)?;
    let (before, after) = shape.newline;
    let rest = [&head, newline(before), marker.as_bytes(), newline(after), &tail].concat();
    Ok([b"\"", kept, base64::encode(&rest).as_bytes(), b"\""].concat())
}
