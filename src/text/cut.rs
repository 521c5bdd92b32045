//! The cutter: the parts of one response in, new literals out.
//!
//! It says what the new literals are, byte for byte, and changes nothing. How much is kept is for `layout` to find; which
//! allowance a response has is for [`crate::cap`] to say.

use std::ops::Range;

use super::base64;
use super::layout::{Layouter, Shape};
use super::literal::{Encoding, LiteralError, Text};
use super::stored::Place;
use super::unit::{Composition, Gathered, Local, Part as NewPart};
use crate::cap::limits::{Keep, OPAQUE_CHARGE, Unit};
use crate::cap::marker;

pub use super::second::{Counted, is_nameable};

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
    /// The second line, where this part has it.
    pub second: Option<String>,
    /// What the text is made of now, in order.
    pub pieces: Vec<Piece>,
}

/// A piece of a text that was cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// A run of the old text, in decoded bytes.
    Run(Range<u64>),
    /// New text: a marker, a second line, a note.
    New(String),
}

/// Says where a whole text is or will be kept, in a path that [`is_nameable`].
pub type FullText<'a> = &'a dyn Fn(&[u8]) -> Option<String>;

/// How a response is cut.
#[derive(Clone, Copy)]
pub struct Manner<'a> {
    /// Which end stays.
    pub keep: Keep,
    /// In what unit.
    pub unit: Unit,
    /// Asked with the whole text, unless an earlier cut already says where that is.
    pub full_text: Option<FullText<'a>>,
}

/// A response, cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// In the order of the parts; `None` for one that stays.
    pub parts: Vec<Option<Cut>>,
    /// What it was cut in.
    pub counted: Counted,
    /// Where its whole text is: as it was asked for, or as an earlier cut says.
    pub full_text: Option<String>,
}

/// Holds a response to its allowance in decoded bytes, as far as that goes. `None` for a part that stays as it is.
///
/// Uncuttable parts are charged first. Holds the new literals and little else in memory, however long the old ones are.
pub fn cut(parts: &[Part<'_>], allowance: u64, keep: Keep) -> Result<Vec<Option<Cut>>, LiteralError> {
    let (texts, room) = open(parts, allowance)?;
    plain(parts, &texts, room, keep)
}

/// Holds a response to its allowance, in the unit that is asked for or, where that does not fit, in a plainer one. In bytes and
/// without a place for the whole text it is [`cut`]. Otherwise it holds the texts in memory.
pub fn cut_by(parts: &[Part<'_>], allowance: u64, manner: &Manner<'_>) -> Result<Response, LiteralError> {
    let (texts, room) = open(parts, allowance)?;
    let mut full_text = None;
    let fits = texts
        .iter()
        .try_fold(0_u64, |sum, text| sum.checked_add(text.measure.size))
        .is_some_and(|sum| Some(sum) <= room);
    let earlier = texts.iter().any(|text| {
        [Keep::Head, manner.keep].iter().any(|keep| text.second(*keep).is_some_and(|second| second.path.is_some()))
    });
    if !fits && (manner.unit != Unit::Bytes || manner.full_text.is_some() || earlier) {
        let gathered = Gathered::of(&texts, manner.keep)?;
        let carried = gathered.carried().map(str::to_owned);
        let asked =
            || manner.full_text.and_then(|full_text| full_text(gathered.whole())).filter(|path| is_nameable(path));
        full_text = carried.or_else(asked);
        let found = room.filter(|_| manner.unit != Unit::Bytes || full_text.is_some());
        if let Some(found) = found.and_then(|room| gathered.fit(room, manner.unit, full_text.as_deref())) {
            let counted = found.counted;
            if let Some(parts) = build(parts, &texts, found)? {
                return Ok(Response { parts, counted, full_text });
            }
        }
    }
    Ok(Response { parts: plain(parts, &texts, room, manner.keep)?, counted: Counted::Bytes, full_text })
}

/// The texts, and what is left for them.
fn open<'a>(parts: &[Part<'a>], allowance: u64) -> Result<(Vec<Text<'a>>, Option<u64>), LiteralError> {
    let mut room = Some(allowance);
    let mut texts = Vec::new();
    for part in parts {
        match part {
            Part::Text { literal, encoding } => texts.push(Text::open(literal, *encoding)?),
            Part::Opaque => room = room.and_then(|room| room.checked_sub(OPAQUE_CHARGE)),
        }
    }
    Ok((texts, room))
}

fn plain(
    parts: &[Part<'_>],
    texts: &[Text<'_>],
    room: Option<u64>,
    keep: Keep,
) -> Result<Vec<Option<Cut>>, LiteralError> {
    let shapes = Layouter::new(texts, keep).fit(room)?;
    let cuts = texts.iter().zip(shapes).map(|(text, shape)| shape.map(|shape| splice(text, shape, keep)).transpose());
    spread(parts, &mut cuts.collect::<Result<Vec<_>, _>>()?.into_iter())
}

/// The cuts of the texts, among the parts that are none.
fn spread(parts: &[Part<'_>], cuts: &mut dyn Iterator<Item = Option<Cut>>) -> Result<Vec<Option<Cut>>, LiteralError> {
    let of = |part: &Part<'_>| match part {
        Part::Text { .. } => cuts.next().flatten(),
        Part::Opaque => None,
    };
    Ok(parts.iter().map(of).collect())
}

/// The literals of a composition. `None` where one would be stored longer than it was.
fn build(parts: &[Part<'_>], texts: &[Text<'_>], found: Composition) -> Result<Option<Vec<Option<Cut>>>, LiteralError> {
    let mut cuts = Vec::with_capacity(texts.len());
    for (text, part) in texts.iter().zip(found.parts) {
        let Some(part) = part else {
            cuts.push(None);
            continue;
        };
        let literal = if text.measure.base64 { encoded(text, &part)? } else { joined(text, &part)? };
        if literal.len() > text.stored() + 2 {
            return Ok(None);
        }
        let NewPart { pieces, before, after, marker, second } = part;
        let pieces: Vec<Piece> = pieces.into_iter().map(Piece::from).collect();
        let head = match pieces.first() {
            Some(Piece::Run(run)) if run.start == 0 => run.end,
            _ => 0,
        };
        let tail = match pieces.last() {
            Some(Piece::Run(run)) if run.end == before => before - run.start,
            _ => 0,
        };
        cuts.push(Some(Cut { literal, before, after, head, tail, marker, second, pieces }));
    }
    spread(parts, &mut cuts.into_iter()).map(Some)
}

/// Stored runs, and new text between them.
fn joined(text: &Text<'_>, part: &NewPart) -> Result<Vec<u8>, LiteralError> {
    let mut literal = vec![b'"'];
    let mut at = Place::default();
    for piece in &part.pieces {
        match piece {
            Local::Run(run) => {
                let from = text.place_from(at, run.start)?;
                at = text.place_from(from, run.end)?;
                literal.extend_from_slice(text.stored_between(from, at));
            }
            Local::New(new) => escape(new, &mut literal),
        }
    }
    literal.push(b'"');
    Ok(literal)
}

/// The canonical encoding of the runs and the new text together.
fn encoded(text: &Text<'_>, part: &NewPart) -> Result<Vec<u8>, LiteralError> {
    let all = text.bytes(0, text.measure.size)?;
    let index = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    let piece = |piece: &Local| match piece {
        Local::Run(run) => all.get(index(run.start)..index(run.end)).unwrap_or_default().to_vec(),
        Local::New(new) => new.clone().into_bytes(),
    };
    let bytes: Vec<u8> = part.pieces.iter().flat_map(piece).collect();
    Ok([b"\"", base64::encode(&bytes).as_bytes(), b"\""].concat())
}

/// Text as a JSON string stores it.
fn escape(text: &str, out: &mut Vec<u8>) {
    for byte in text.bytes() {
        match byte {
            b'\n' => out.extend_from_slice(b"\\n"),
            b'"' | b'\\' => out.extend([b'\\', byte]),
            0..0x20 => out.extend(format!("\\u{byte:04x}").bytes()),
            _ => out.push(byte),
        }
    }
}

impl From<Local> for Piece {
    fn from(local: Local) -> Self {
        match local {
            Local::Run(run) => Piece::Run(run),
            Local::New(text) => Piece::New(text),
        }
    }
}

/// The literal of one part in its new shape.
fn splice(text: &Text<'_>, shape: Shape, keep: Keep) -> Result<Cut, LiteralError> {
    let before = text.measure.size;
    let marker = marker::render(text.measure.original(keep), shape.b);
    let literal = if text.measure.base64 { reencode(text, shape, &marker)? } else { rejoin(text, shape, &marker)? };
    let (newline_before, newline_after) = shape.newline;
    let after = shape.head + u64::from(newline_before) + marker.len() as u64 + u64::from(newline_after) + shape.tail;
    let newline = |there: bool| if there { "\n" } else { "" };
    let new = format!("{}{marker}{}", newline(newline_before), newline(newline_after));
    let body = text.body(keep);
    let runs = [body.start..body.start + shape.head, body.end - shape.tail..body.end].map(Piece::Run);
    let [head, tail] = runs;
    let pieces = [head, Piece::New(new), tail];
    let pieces = pieces.into_iter().filter(|piece| !matches!(piece, Piece::Run(run) if run.is_empty())).collect();
    Ok(Cut { literal, before, after, head: shape.head, tail: shape.tail, marker, second: None, pieces })
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
