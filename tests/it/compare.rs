//! What differs between a document before and after a repair, found without the program's own code: only literals may, and
//! each must be a true cut of the old one.

use memchr::{memchr_iter, memchr2, memmem};

/// A literal that differs, quotes included.
#[derive(Debug, Clone, Copy)]
pub struct Cut<'a> {
    /// Its line, from 1.
    pub line: u64,
    pub old: &'a [u8],
    pub new: &'a [u8],
}

/// The literals in which two documents differ; in all else they are the same. `pads`: blanks at the end of a changed line
/// give it its length back.
#[track_caller]
pub fn cuts<'a>(old: &'a [u8], new: &'a [u8], pads: bool) -> Vec<Cut<'a>> {
    assert_eq!(memchr_iter(b'\n', old).count(), memchr_iter(b'\n', new).count(), "lines");
    let lines = old.split(|b| *b == b'\n').zip(new.split(|b| *b == b'\n'));
    let mut found = Vec::new();
    for ((old, new), line) in lines.zip(1..) {
        if old == new {
            continue;
        }
        if pads {
            assert_eq!(old.len(), new.len(), "line {line} has not its length");
        }
        let (mut i, mut j) = (0, 0);
        while let (Some(a), Some(b)) = (old.get(i), new.get(j)) {
            if *a == b'"' && *b == b'"' {
                let (x, y) = (&old[i..literal_end(old, i)], &new[j..literal_end(new, j)]);
                if x != y {
                    found.push(Cut { line, old: x, new: y });
                }
                (i, j) = (i + x.len(), j + y.len());
            } else if a == b {
                (i, j) = (i + 1, j + 1);
            } else {
                break;
            }
        }
        let (rest, new_rest) = (&old[i..], &new[j..]);
        let unpadded = if pads { new_rest.trim_ascii_start() } else { new_rest };
        assert!(
            rest == new_rest || rest.trim_ascii_start() == unpadded && pads,
            "line {line} differs outside of its literals: {:?} became {:?}",
            String::from_utf8_lossy(&rest[..rest.len().min(80)]),
            String::from_utf8_lossy(&new_rest[..new_rest.len().min(80)])
        );
        if pads {
            assert_eq!(old.ends_with(b"\r"), new.ends_with(b"\r"), "line {line}: its CRLF is no longer one");
        }
    }
    found
}

/// The offset behind the literal whose quote stands here.
fn literal_end(bytes: &[u8], open: usize) -> usize {
    let mut at = open + 1;
    while let Some(n) = memchr2(b'"', b'\\', &bytes[at..]) {
        at += n;
        if bytes[at] == b'"' {
            return at + 1;
        }
        at += 2;
    }
    panic!("a literal without an end: {:?}", String::from_utf8_lossy(&bytes[open..bytes.len().min(open + 80)]));
}

/// A literal's text. An unpaired surrogate is three bytes, as WTF-8 has it.
pub fn decode(literal: &[u8]) -> Vec<u8> {
    let inner = &literal[1..literal.len() - 1];
    let mut out = Vec::with_capacity(inner.len());
    let mut at = 0;
    while let Some(n) = memchr::memchr(b'\\', &inner[at..]) {
        out.extend_from_slice(&inner[at..at + n]);
        at += n;
        let simple = match inner[at + 1] {
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            b'b' => 8,
            b'f' => 12,
            b'u' => {
                let (code, length) = escape(&inner[at..]);
                wtf8(code, &mut out);
                at += length;
                continue;
            }
            other => other,
        };
        out.push(simple);
        at += 2;
    }
    out.extend_from_slice(&inner[at..]);
    out
}

/// The code point of the escape that stands here, and the escape's length.
fn escape(bytes: &[u8]) -> (u32, usize) {
    let unit = |at: usize| {
        let digits = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
        u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    let first = unit(0).expect("four digits");
    match unit(6) {
        Some(low @ 0xdc00..=0xdfff) if (0xd800..0xdc00).contains(&first) => {
            (0x10000 + ((first - 0xd800) << 10) + (low - 0xdc00), 12)
        }
        _ => (first, 6),
    }
}

fn wtf8(code: u32, out: &mut Vec<u8>) {
    match char::from_u32(code) {
        Some(c) => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        None => out.extend([0xe0 | (code >> 12) as u8, 0x80 | (code >> 6 & 0x3f) as u8, 0x80 | (code & 0x3f) as u8]),
    }
}

/// A size as markers print it.
pub fn human(n: u64) -> String {
    let tenths = |unit: u64| (n * 10 + unit / 2) / unit;
    let kb = (n + 512) >> 10;
    if n < 1024 {
        format!("{n} B")
    } else if kb < 1024 {
        format!("{kb} KB")
    } else if tenths(1 << 20) < 10240 {
        format!("{}.{} MB", tenths(1 << 20) / 10, tenths(1 << 20) % 10)
    } else {
        format!("{}.{} GB", tenths(1 << 30) / 10, tenths(1 << 30) % 10)
    }
}

/// The marker of a text of `a` bytes of which `b` are delivered.
pub fn marker(a: u64, b: u64) -> String {
    let (mut x, mut y) = (human(a), human(b));
    if x == y {
        (x, y) = (format!("{a} B"), format!("{b} B"));
    }
    format!("{OPEN}{x} → {y}]")
}

const OPEN: &str = "... [truncated, ";

impl Cut<'_> {
    /// The decoded size before and after.
    pub fn sizes(&self) -> (u64, u64) {
        (decode(self.old).len() as u64, decode(self.new).len() as u64)
    }

    /// A head of the old text, up to a boundary between characters and stored as it was, and a marker that tells the truth.
    /// `limit`: what the text was held to, where it is a response's only one; then the head is the longest that fits.
    #[track_caller]
    pub fn is_true(&self, limit: Option<u64>) {
        let (was, now) = (decode(self.old), decode(self.new));
        let at = memmem::rfind(&now, OPEN.as_bytes()).expect("a marker");
        let (kept, marker_is) = now.split_at(at);
        assert!(kept.is_empty() || kept.ends_with(b"\n"), "the marker stands on a line of its own");
        let whole = was.starts_with(kept);
        let kept = if whole { kept } else { &kept[..kept.len() - 1] };
        assert!(was.starts_with(kept), "what is kept is the head");
        assert_ne!(was[kept.len()] & 0xc0, 0x80, "the cut falls into a character");
        let delivered = if kept.is_empty() { 0 } else { now.len() as u64 };
        assert_eq!(String::from_utf8_lossy(marker_is), marker(was.len() as u64, delivered));
        let raw = &self.new[1..memmem::rfind(self.new, OPEN.as_bytes()).expect("a marker")];
        let raw_was = &self.old[1..];
        let as_stored =
            raw_was.starts_with(raw) || raw.strip_suffix(b"\\n").is_some_and(|raw| raw_was.starts_with(raw));
        assert!(as_stored, "what is kept is stored as it was");
        if let Some(limit) = limit {
            let left = limit.checked_sub(now.len() as u64).expect("more than the limit is delivered");
            assert!(left < 16, "{left} bytes are left unused");
        }
    }
}

#[test]
fn it_sees_what_it_must() {
    let old = br#"{"a": "xxxxxxxx", "b": 1E5, "c": "x"}"#;
    let new = br#"{"a": "x", "b": 1E5, "c": "x"}"#;
    let [cut] = cuts(old, new, false)[..] else { panic!() };
    assert_eq!((cut.line, cut.new), (1, &b"\"x\""[..]));
    let padded = [&new[..], b"       "].concat();
    assert_eq!(cuts(old, &padded, true).len(), 1);
    let other =
        |new: &'static str, pads| std::panic::catch_unwind(move || cuts(old, new.as_bytes(), pads).len()).is_err();
    assert!(other(r#"{"a": "x", "b": 100000.0, "c": "x"}"#, false));
    assert!(other(r#"{"a":"x", "b": 1E5, "c": "x"}"#, false));
    assert!(other(r#"{"a": "x", "b": 1E5, "c": "x"}       "#, false));
    assert!(other("{\"a\": \"x\", \"b\": 1E5,\n \"c\": \"x\"}", false));
    assert!(other(r#"{"a": "x", "b": 1E5, "c": "x"} "#, true));
    assert_eq!(
        decode(br#""a\n\/\u00e9\ud83d\ude00\ud83d\u0041""#),
        "a\n/é😀\u{fffd}A"
            .replace('\u{fffd}', "\u{1}")
            .into_bytes()
            .iter()
            .flat_map(|b| if *b == 1 { vec![0xed, 0xa0, 0xbd] } else { vec![*b] })
            .collect::<Vec<u8>>()
    );
    assert_eq!(
        [1023, 1024, 1_048_063, 1_048_064, 300_000].map(human),
        ["1023 B", "1 KB", "1023 KB", "1.0 MB", "293 KB"]
    );
    assert_eq!(marker(262_145, 262_144), "... [truncated, 262145 B → 262144 B]");
}
