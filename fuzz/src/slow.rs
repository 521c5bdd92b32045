//! JSON strings again, a byte at a time. Shares no code with the library.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The text of a literal, quotes included: UTF-8, and three bytes for an unpaired surrogate. `None` for what is no literal.
pub fn decode(literal: &[u8]) -> Option<Vec<u8>> {
    walk(literal, |_, _| {})
}

/// The same, and `step` is told where each character starts: in the text, and in the literal. The end is one too.
pub fn walk(literal: &[u8], mut step: impl FnMut(u64, usize)) -> Option<Vec<u8>> {
    std::str::from_utf8(literal).ok()?;
    let inner = literal.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    let mut out = Vec::new();
    let mut at = 0;
    while let Some(byte) = inner.get(at) {
        if byte & 0xc0 != 0x80 {
            step(out.len() as u64, at + 1);
        }
        match byte {
            b'"' | 0..0x20 => return None,
            b'\\' => {
                let letter = *inner.get(at + 1)?;
                at += 2;
                let short = b"\"\\/bfnrt".iter().position(|known| *known == letter);
                match short {
                    Some(n) => out.push(b"\"\\/\x08\x0c\n\r\t"[n]),
                    None if letter == b'u' => {
                        let first = unit(inner, at)?;
                        at += 4;
                        let second = if inner.get(at..at + 2) == Some(b"\\u") { unit(inner, at + 2) } else { None };
                        let code = match (first, second) {
                            (0xd800..0xdc00, Some(low @ 0xdc00..0xe000)) => {
                                at += 6;
                                0x1_0000 + ((first - 0xd800) << 10) + (low - 0xdc00)
                            }
                            _ => first,
                        };
                        match char::from_u32(code) {
                            Some(c) => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
                            None => out.extend([0xed, (0x80 | (code >> 6 & 0x3f)) as u8, (0x80 | (code & 0x3f)) as u8]),
                        }
                    }
                    None => return None,
                }
            }
            _ => {
                out.push(*byte);
                at += 1;
            }
        }
    }
    step(out.len() as u64, at + 1);
    Some(out)
}

fn unit(inner: &[u8], at: usize) -> Option<u32> {
    let digits = inner.get(at..at + 4)?;
    digits.iter().all(u8::is_ascii_hexdigit).then_some(())?;
    u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// What a text that is base64 of text stands for.
pub fn base64(text: &[u8]) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok().filter(|bytes| std::str::from_utf8(bytes).is_ok())
}

pub fn encode(text: &[u8]) -> Vec<u8> {
    [b"\"", STANDARD.encode(text).as_bytes(), b"\""].concat()
}
