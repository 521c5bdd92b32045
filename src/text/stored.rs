//! The characters of a stored JSON string, walked over without decoding more than is asked for.
//!
//! It knows escapes, and that text between them is stored as it is. It knows neither base64 nor markers. Its functions take
//! what stands between the quotes of a literal ("raw").

use memchr::memchr2;

use super::blocks::{self, BLOCK, Escapes, LONGEST_ESCAPE};
use super::literal::LiteralError;

/// A place between two characters, as bytes before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Place {
    /// Stored bytes, not counting the opening quote.
    pub stored: usize,
    /// Decoded bytes. Never more than stored ones: each escape is longer than what it stands for.
    pub decoded: usize,
}

/// One escape, or two that make a surrogate pair.
struct Escape {
    /// What it stands for, in UTF-8; an unpaired surrogate as the three bytes it would have.
    utf8: [u8; 4],
    decoded: usize,
    stored: usize,
}

/// What stands between the quotes, as far as that can be checked without looking at escapes: [`advance`] does the rest.
pub(super) fn between_quotes(literal: &[u8]) -> Result<&[u8], LiteralError> {
    let Some(opened) = literal.strip_prefix(b"\"") else {
        return Err(LiteralError { at: 0, what: "no opening quote" });
    };
    let Some(raw) = opened.strip_suffix(b"\"") else {
        return Err(LiteralError { at: literal.len(), what: "no closing quote" });
    };
    if has_control(raw) {
        let at = raw.iter().position(|byte| *byte < 0x20).unwrap_or_default();
        return Err(error(at, "a raw control character"));
    }
    match std::str::from_utf8(raw) {
        Ok(_) => Ok(raw),
        Err(e) => Err(error(e.valid_up_to(), "bytes that are not UTF-8")),
    }
}

/// In blocks without an early exit, which compilers turn into wide comparisons.
fn has_control(raw: &[u8]) -> bool {
    raw.chunks(4096).any(|block| block.iter().fold(u8::MAX, |least, byte| least.min(*byte)) < 0x20)
}

/// The last place, at or after `from`, before which no more bytes stand than `until` allows, stored and decoded alike.
pub(super) fn advance(raw: &[u8], from: Place, until: Place) -> Result<Place, LiteralError> {
    let until = Place { stored: until.stored.min(raw.len()), ..until };
    let mut at = over_blocks(raw, from, until);
    loop {
        let rest = raw.get(at.stored..).unwrap_or_default();
        // Unescaped, as many stored bytes as decoded ones.
        let most = until.stored.saturating_sub(at.stored).min(until.decoded.saturating_sub(at.decoded));
        let Some(plain) = special(rest.get(..most).unwrap_or(rest)) else {
            let plain = boundary(rest, most);
            return Ok(Place { stored: at.stored + plain, decoded: at.decoded + plain });
        };
        at = Place { stored: at.stored + plain, decoded: at.decoded + plain };
        let escape = escape(raw, at.stored)?;
        let next = Place { stored: at.stored + escape.stored, decoded: at.decoded + escape.decoded };
        if next.stored > until.stored || next.decoded > until.decoded {
            return Ok(at);
        }
        at = next;
    }
}

/// Walks on over whole blocks, up to a place from which the rest must be looked at a character at a time: shortly before
/// the limit, or before something that cannot be.
fn over_blocks(raw: &[u8], from: Place, until: Place) -> Place {
    let mut escapes = Escapes::default();
    let mut at = from.stored;
    let decoded = |at: usize, saved: usize| from.decoded + (at - from.stored) - saved;
    // An escape that begins in a block may reach beyond it.
    const ROOM: usize = BLOCK + LONGEST_ESCAPE;
    while at + ROOM <= until.stored && decoded(at, escapes.saved) + ROOM <= until.decoded {
        let Some(block) = raw.get(at..).and_then(<[u8]>::first_chunk::<BLOCK>) else { break };
        let mut next = escapes;
        if next.take(raw, at, block) != Ok(None) {
            break;
        }
        escapes = next;
        at += BLOCK;
    }
    // Back to the start of an escape or character, or on to the end of an escape that was counted whole.
    if escapes.open {
        at -= 1;
    }
    at = at.max(escapes.behind);
    while at > from.stored && raw.get(at).is_some_and(|byte| is_continuation(*byte)) {
        at -= 1;
    }
    Place { stored: at, decoded: decoded(at, escapes.saved) }
}

/// Appends decoded characters until `out` holds at least `want` bytes or the string ends, and says where that was.
pub(super) fn decode(raw: &[u8], from: Place, out: &mut Vec<u8>, want: usize) -> Result<Place, LiteralError> {
    let mut at = from;
    loop {
        let rest = raw.get(at.stored..).unwrap_or_default();
        let look = rest.get(..want.saturating_sub(out.len())).unwrap_or(rest);
        let plain = special(look).unwrap_or(look.len());
        out.extend_from_slice(rest.get(..plain).unwrap_or_default());
        at = Place { stored: at.stored + plain, decoded: at.decoded + plain };
        if plain == look.len() {
            // The last character may reach beyond what was asked for.
            let more = rest.iter().skip(plain).take_while(|byte| is_continuation(**byte)).count();
            out.extend(rest.iter().skip(plain).take(more));
            return Ok(Place { stored: at.stored + more, decoded: at.decoded + more });
        }
        let escape = escape(raw, at.stored)?;
        out.extend(escape.utf8.iter().take(escape.decoded));
        at = Place { stored: at.stored + escape.stored, decoded: at.decoded + escape.decoded };
    }
}

/// The first backslash or quote.
fn special(text: &[u8]) -> Option<usize> {
    memchr2(b'\\', b'"', text)
}

/// Whether the byte is a second or later one of its character. Holds for the three bytes of a surrogate too.
pub(super) fn is_continuation(byte: u8) -> bool {
    byte & 0xc0 == 0x80
}

/// The last character boundary at or before `most`.
fn boundary(text: &[u8], most: usize) -> usize {
    let mut end = most;
    while text.get(end).is_some_and(|byte| is_continuation(*byte)) {
        end -= 1;
    }
    end
}

/// The escape whose backslash is at `at`. Two halves of a surrogate pair are one.
#[inline]
fn escape(raw: &[u8], at: usize) -> Result<Escape, LiteralError> {
    match raw.get(at..at + 2) {
        Some([b'\\', letter]) => match SHORT.get(usize::from(*letter)).copied().unwrap_or(0) {
            0 if *letter == b'u' => unicode(raw, at),
            0 => Err(error(at, "an unknown escape")),
            short => Ok(Escape { utf8: [short, 0, 0, 0], decoded: 1, stored: 2 }),
        },
        _ if raw.get(at) == Some(&b'"') => Err(error(at, "a bare quote")),
        _ => Err(error(at, "an unfinished escape")),
    }
}

/// What the short escapes stand for, by their letter; zero for a letter that makes none.
#[allow(clippy::indexing_slicing, reason = "evaluated when it is compiled")]
const SHORT: [u8; 256] = {
    let mut table = [0; 256];
    table[b'"' as usize] = b'"';
    table[b'\\' as usize] = b'\\';
    table[b'/' as usize] = b'/';
    table[b'b' as usize] = 0x08;
    table[b'f' as usize] = 0x0c;
    table[b'n' as usize] = b'\n';
    table[b'r' as usize] = b'\r';
    table[b't' as usize] = b'\t';
    table
};

fn unicode(raw: &[u8], at: usize) -> Result<Escape, LiteralError> {
    let Some(unit) = blocks::unit(raw, at) else {
        return Err(error(at, "a \\u without four hexadecimal digits"));
    };
    let low = if (0xd800..0xdc00).contains(&unit) { blocks::unit(raw, at + 6) } else { None };
    let (code, stored) = match low {
        Some(low @ 0xdc00..0xe000) => (0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00), LONGEST_ESCAPE),
        _ => (unit, 6),
    };
    let mut utf8 = [0; 4];
    let decoded = match char::from_u32(code) {
        Some(character) => character.encode_utf8(&mut utf8).len(),
        None => {
            utf8 = [0xe0 | low_byte(code >> 12), 0x80 | low_byte(code >> 6 & 0x3f), 0x80 | low_byte(code & 0x3f), 0];
            3
        }
    };
    Ok(Escape { utf8, decoded, stored })
}

fn low_byte(n: u32) -> u8 {
    let [low, ..] = n.to_le_bytes();
    low
}

/// An error at an offset of the raw string: offsets of errors count the opening quote.
fn error(at: usize, what: &'static str) -> LiteralError {
    LiteralError { at: at + 1, what }
}
