//! What the laws are tried on: texts, literals and allowances.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use unwedge::cap::limits::Keep;
use unwedge::text::literal::Encoding;

use crate::slow::{self, Part, Text, codes, size, total, utf8};

/// Alphabets of every width, with newlines, unpaired halves of pairs, and what JSON must escape.
const ALPHABETS: [&[u32]; 10] = [
    &[0x78],
    &[0x61, 0x62, 0x0a],
    &[0x0a],
    &[0x0d, 0x0a],
    &[0x61, 0xe9],
    &[0x754c],
    &[0x1f600],
    &[0x61, 0xe9, 0x754c, 0x1f600, 0x0a, 0x301, 0x22, 0x5c, 0x2f, 0x00],
    &[0x61, 0xd83d],
    &[0xde00, 0xd83d, 0x78, 0x0a],
];

pub fn characters(most: usize) -> impl Strategy<Value = Text> {
    (0..ALPHABETS.len(), prop::collection::vec(any::<prop::sample::Index>(), 0..most)).prop_map(|(alphabet, picks)| {
        let alphabet = ALPHABETS[alphabet];
        paired(picks.iter().map(|pick| *pick.get(alphabet)))
    })
}

/// A high half before a low one is one character, as it is in JSON.
fn paired(codes: impl Iterator<Item = u32>) -> Text {
    let mut text = Text::new();
    for code in codes {
        match text.last() {
            Some(high @ 0xd800..0xdc00) if (0xdc00..0xe000).contains(&code) => {
                let pair = 0x1_0000 + ((high - 0xd800) << 10) + (code - 0xdc00);
                text.pop();
                text.push(pair);
            }
            _ => text.push(code),
        }
    }
    text
}

/// A text that ends or starts with a marker line, or is one; mostly a true one.
fn marked() -> impl Strategy<Value = Text> {
    let a = prop_oneof![0_u64..300, 0_u64..5000, any::<u64>()];
    (characters(150), a, 0_u64..8, 0_u64..20, any::<bool>()).prop_map(|(body, a, place, lie, exact)| {
        let line = |b: u64| {
            let b = if exact { format!("{b} B") } else { slow::human(b) };
            codes(&format!("... [truncated, {} → {b}]", if exact { format!("{a} B") } else { slow::human(a) }))
        };
        let join = |line: Text| match place {
            0 => line,
            1..4 => [line, codes("\n"), body.clone()].concat(),
            _ => [body.clone(), codes("\n"), line].concat(),
        };
        let about = size(&join(line(100)));
        let b = (about - 10..about + 10).find(|b| size(&join(line(*b))) == *b).unwrap_or(about);
        match lie {
            0 => join(line(b + 1)),
            1..4 => join(line(0)),
            _ => join(line(b)),
        }
    })
}

fn text() -> impl Strategy<Value = Text> {
    prop_oneof![
        4 => characters(60),
        6 => characters(400),
        1 => (1000_usize..1100).prop_map(|n| codes(&"x".repeat(n))),
        1 => (340_usize..360).prop_map(|n| codes(&"界".repeat(n))),
        3 => marked(),
    ]
}

pub fn keep() -> impl Strategy<Value = Keep> {
    prop_oneof![Just(Keep::Head), Just(Keep::Tail), Just(Keep::Both)]
}

pub fn parts() -> impl Strategy<Value = Vec<Part>> {
    prop::collection::vec(prop_oneof![6 => text().prop_map(Some), 1 => Just(None)], 1..7)
}

/// An allowance that bites: between nothing and all of it, often near what cannot be undercut and near all of it.
pub fn allowance(parts: &[Part], keep: Keep, pick: u64, near: u64) -> u64 {
    let (least, all) = (total(&slow::cut(parts, 0, keep)), total(parts));
    match pick % 4 {
        0 => least.saturating_sub(3) + near % 80,
        1 => all.saturating_sub(near % 80),
        _ => least + near % (all - least + 2),
    }
}

/// One way among many to store a text as a JSON string: raw where that is allowed, short escapes, `\u` in either case.
pub fn stored(text: &[u32], mut seed: u64) -> Vec<u8> {
    let mut out = b"\"".to_vec();
    for code in text {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let letter = [0x22, 0x5c, 0x2f, 0x08, 0x0c, 0x0a, 0x0d, 0x09].iter().position(|short| short == code);
        let raw = char::from_u32(*code).filter(|c| !matches!(c, '"' | '\\' | '\0'..' '));
        match (seed >> 60, raw, letter) {
            (0..10, Some(c), _) => out.extend(c.to_string().bytes()),
            (0..13, _, Some(at)) => out.extend([b'\\', b"\"\\/bfnrt"[at]]),
            (way, ..) => {
                let units = if *code < 0x1_0000 {
                    vec![*code]
                } else {
                    let above = code - 0x1_0000;
                    vec![0xd800 + (above >> 10), 0xdc00 + (above & 0x3ff)]
                };
                for unit in units {
                    let escape = if way % 2 == 0 { format!("\\u{unit:04x}") } else { format!("\\u{unit:04X}") };
                    out.extend(escape.bytes());
                }
            }
        }
    }
    out.push(b'"');
    out
}

/// What a literal may hold and what it may not.
pub const PIECES: [&[u8]; 24] = [
    b"plain",
    b"abcd",
    b"YQ==",
    b"=",
    b"\"",
    b"\\",
    b"\\\"",
    b"\\/",
    b"\\n",
    b"\\x",
    b"\\u0041",
    b"\\ud83d",
    b"\\uDE00",
    b"\\u12",
    b"\\u+123",
    b"u",
    b"\n",
    b"\x00",
    b"\x7f",
    b"\xc3\xa9",
    b"\xc3",
    b"\xed\xa0\xbd",
    b"\xf0\x9f\x98\x80",
    b"\xff",
];

pub fn base64ed(text: &[u32]) -> Vec<u8> {
    format!("\"{}\"", STANDARD.encode(utf8(text))).into_bytes()
}

pub fn is_unicode(parts: &[Part]) -> bool {
    parts.iter().flatten().flatten().all(|code| char::from_u32(*code).is_some())
}

pub fn store(parts: &[Part], encoding: Encoding, seed: u64) -> Vec<Option<Vec<u8>>> {
    let one = |text: &Text| match encoding {
        Encoding::Plain => stored(text, seed),
        Encoding::Base64 => base64ed(text),
    };
    parts.iter().map(|part| part.as_ref().map(one)).collect()
}
