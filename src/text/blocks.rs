//! The inside of JSON strings, sixty-four bytes at a time.
//!
//! Tool output in JSON is dense with escapes: a search for the next one returns every two dozen bytes. Here every byte of a
//! block is compared at once, and which backslashes begin an escape follows from their bits.

use wide::u8x16;

/// Bytes of a block.
pub(super) const BLOCK: usize = 64;
/// The longest escape: a surrogate pair.
pub(super) const LONGEST_ESCAPE: usize = 12;

/// What a JSON string may not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// A raw control character at this offset.
    Control(usize),
    /// No escape of JSON's at this offset.
    Escape(usize),
    /// The text ends inside the string.
    Unended,
}

/// A string, checked but for its UTF-8.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Checked {
    /// The offset of its closing quote.
    pub close: usize,
    /// Its decoded size, an unpaired surrogate being three bytes.
    pub size: usize,
}

/// Checks the string whose first byte behind the opening quote is at `from`.
pub(super) fn check(doc: &[u8], from: usize) -> Result<Checked, Fault> {
    let mut at = from;
    // Most strings end soon and have no escapes.
    while let Some(lane) = doc.get(at..).and_then(<[u8]>::first_chunk::<16>).filter(|_| at < from + 32) {
        let lane = u8x16::new(*lane);
        let stops = bits(equal(lane, b'"') | equal(lane, b'\\') | control(lane));
        if stops == 0 {
            at += 16;
            continue;
        }
        at += stops.trailing_zeros() as usize;
        match doc.get(at) {
            Some(b'"') => return Ok(Checked { close: at, size: at - from }),
            Some(b'\\') => break,
            _ => return Err(Fault::Control(at)),
        }
    }
    let mut escapes = Escapes::default();
    loop {
        let rest = doc.get(at..).unwrap_or_default();
        let close = match rest.first_chunk::<BLOCK>() {
            Some(block) => escapes.take(doc, at, block)?,
            None => {
                // A blank is neither a quote nor what an escape may have.
                let mut block = [b' '; BLOCK];
                block.iter_mut().zip(rest).for_each(|(to, byte)| *to = *byte);
                Some(escapes.take(doc, at, &block)?.ok_or(Fault::Unended)?)
            }
        };
        match close {
            Some(close) => return Ok(Checked { close, size: close - from - escapes.saved }),
            None => at += BLOCK,
        }
    }
}

/// What is known of the escapes up to a place.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Escapes {
    /// By how many bytes the escapes are longer than what they stand for. One whose end is not reached counts whole.
    pub saved: usize,
    /// The offset behind the last `\u` escape.
    pub behind: usize,
    /// Whether the last byte is a backslash that begins an escape: not counted yet.
    pub open: bool,
}

impl Escapes {
    /// Takes the next block of `doc`, which stands at `at`, and gives the offset of the closing quote, where one is in it.
    #[inline]
    pub fn take(&mut self, doc: &[u8], at: usize, block: &[u8; BLOCK]) -> Result<Option<usize>, Fault> {
        let (lanes, _) = block.as_chunks::<16>();
        let [a, b, c, d] = lanes else { return Err(Fault::Unended) };
        let lanes = [*a, *b, *c, *d].map(u8x16::new);
        let quotes = all(lanes, |lane| equal(lane, b'"'));
        let controls = all(lanes, control);
        let backslashes = all(lanes, |lane| equal(lane, b'\\'));
        let (escaped, open) = escaped(backslashes, self.open);
        let closing = quotes & !escaped;
        let inside = if closing == 0 { u64::MAX } else { (closing & closing.wrapping_neg()) - 1 };
        let controls = controls & inside;
        let mut fault = (controls != 0).then(|| at + controls.trailing_zeros() as usize);
        let escaped = escaped & inside;
        if escaped != 0 {
            self.saved += escaped.count_ones() as usize;
            let mut others = escaped & !(quotes | backslashes | all(lanes, |lane| equal(lane, b'n')));
            while others != 0 {
                let bit = others.trailing_zeros() as usize;
                others &= others - 1;
                // A block's first byte may be escaped by the last of the block before.
                let backslash = (at + bit).saturating_sub(1);
                let known = match block.get(bit) {
                    Some(b'/' | b'b' | b'f' | b'r' | b't') => true,
                    Some(b'u') => self.unicode(doc, backslash),
                    _ => false,
                };
                if !known {
                    if fault.is_none_or(|control| backslash < control) {
                        return Err(Fault::Escape(backslash));
                    }
                    break;
                }
            }
        }
        if let Some(control) = fault.take() {
            return Err(Fault::Control(control));
        }
        self.open = open;
        Ok((closing != 0).then(|| at + closing.trailing_zeros() as usize))
    }

    /// Counts the `\u` escape whose backslash is at `at`; its second byte has been counted already.
    fn unicode(&mut self, doc: &[u8], at: usize) -> bool {
        if at < self.behind {
            // The second half of a pair.
            self.saved -= 1;
            return true;
        }
        let Some(unit) = unit(doc, at) else { return false };
        let (stored, decoded) = match unit {
            0xd800..0xdc00 if unit_in(doc, at + 6, 0xdc00..0xe000) => (LONGEST_ESCAPE, 4),
            0..0x80 => (6, 1),
            0x80..0x800 => (6, 2),
            _ => (6, 3),
        };
        self.behind = at + stored;
        self.saved += stored - decoded - 1;
        true
    }
}

/// The code unit of the `\uXXXX` at `at`, if that is what stands there.
pub(super) fn unit(doc: &[u8], at: usize) -> Option<u32> {
    let digits = doc.get(at..)?.first_chunk::<6>()?.strip_prefix(b"\\u")?;
    digits.iter().try_fold(0, |unit, digit| Some(unit << 4 | char::from(*digit).to_digit(16)?))
}

fn unit_in(doc: &[u8], at: usize, range: std::ops::Range<u32>) -> bool {
    unit(doc, at).is_some_and(|unit| range.contains(&unit))
}

/// The bytes that are escaped, and whether the first of the next block is. In a run of backslashes every second one is
/// escaped by the one before it: adding a run's first bit to it carries to behind its end, on the side that its length's
/// parity decides.
fn escaped(backslashes: u64, first: bool) -> (u64, bool) {
    const EVEN: u64 = u64::MAX / 3;
    let first = u64::from(first);
    if backslashes == 0 {
        return (first, false);
    }
    let beginning = backslashes & !first;
    let behind = beginning << 1 | first;
    let odd = beginning & !EVEN & !behind;
    let (sum, over) = odd.overflowing_add(beginning);
    ((EVEN ^ sum << 1) & behind, over)
}

fn all(lanes: [u8x16; 4], what: impl Fn(u8x16) -> u8x16) -> u64 {
    let [a, b, c, d] = lanes.map(|lane| u64::from(bits(what(lane))));
    a | b << 16 | c << 32 | d << 48
}

fn equal(lane: u8x16, byte: u8) -> u8x16 {
    lane.simd_eq(u8x16::splat(byte))
}

fn control(lane: u8x16) -> u8x16 {
    let last = u8x16::splat(0x1f);
    lane.max(last).simd_eq(last)
}

fn bits(lane: u8x16) -> u16 {
    let [low, high, ..] = lane.to_bitmask().to_le_bytes();
    u16::from_le_bytes([low, high])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The same, a byte at a time.
    fn slowly(doc: &[u8], from: usize) -> Result<Checked, Fault> {
        let (mut at, mut size) = (from, 0);
        loop {
            match doc.get(at).ok_or(Fault::Unended)? {
                b'"' => return Ok(Checked { close: at, size }),
                ..0x20 => return Err(Fault::Control(at)),
                b'\\' => match doc.get(at + 1) {
                    Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => (at, size) = (at + 2, size + 1),
                    Some(b'u') => {
                        let first = unit(doc, at).ok_or(Fault::Escape(at))?;
                        let pair = (0xd800..0xdc00).contains(&first) && unit_in(doc, at + 6, 0xdc00..0xe000);
                        let utf8 = char::from_u32(first).map_or(3, char::len_utf8);
                        (at, size) = if pair { (at + 12, size + 4) } else { (at + 6, size + utf8) };
                    }
                    _ => return Err(Fault::Escape(at)),
                },
                _ => (at, size) = (at + 1, size + 1),
            }
        }
    }

    fn pieces() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            6 => Just(&b"plain text and more of it, forty bytes it is."[..]),
            6 => Just(&b"x"[..]),
            3 => Just(&br"\n"[..]),
            3 => Just(&br"\\"[..]),
            3 => Just(&br#"\""#[..]),
            3 => Just(&br"\u00e9"[..]),
            2 => Just(&br"\ud83d\ude00"[..]),
            2 => Just(&br"\ud83d"[..]),
            2 => Just(&br"\/\b\f\r\t"[..]),
            1 => Just("界".as_bytes()),
        ];
        let odd = prop_oneof![
            12 => Just(&b""[..]),
            1 => Just(&br"\"[..]),
            1 => Just(&br"\u12"[..]),
            1 => Just(&br"\x"[..]),
            1 => Just(&b"\x01"[..]),
            1 => Just(&b"\""[..]),
        ];
        (prop::collection::vec((piece, odd), 0..40), any::<bool>()).prop_map(|(pieces, ends)| {
            let mut doc: Vec<u8> = pieces.into_iter().flat_map(|(p, odd)| [p, odd].concat()).collect();
            doc.extend(ends.then_some(b'"'));
            doc
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn blocks_see_what_bytes_show(doc in pieces(), before in 0_usize..70) {
            let doc = [b" ".repeat(before), doc].concat();
            prop_assert_eq!(check(&doc, before), slowly(&doc, before));
        }

        #[test]
        fn any_bytes(doc in prop::collection::vec(prop_oneof![3 => Just(b'\\'), 1 => Just(b'"'), 1 => Just(b'u'), 1 => Just(b'0'), 1 => any::<u8>()], 0..300)) {
            prop_assert_eq!(check(&doc, 0), slowly(&doc, 0));
        }
    }
}
