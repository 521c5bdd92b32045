//! A JSON value of which only the first bytes may be there: what a claim can be decided from.
//!
//! [`super::Probe`] holds some thousand bytes, so a value usually ends in the middle. It is read as far as it goes; what was
//! cut off is [`Peek::Cut`], which is nothing in particular. Bytes that cannot be the start of JSON are no value at all.

use memchr::memchr2;

/// A value, or as much of it as is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Peek<'a> {
    /// Keys (as stored, without quotes) and values, in order.
    Object(Vec<(&'a [u8], Peek<'a>)>),
    Array(Vec<Peek<'a>>),
    /// What stands between the quotes of a whole string, escapes as stored.
    Text(&'a [u8]),
    /// A number, `true`, `false` or `null`.
    Word,
    /// The bytes end before it does.
    Cut,
}

/// Deeper than anything a claim asks for.
const DEEP: usize = 48;

impl<'a> Peek<'a> {
    /// The value that the bytes start with, and what follows it: `None` where the value is cut off. This is no JSON: `None`.
    pub fn of(head: &'a [u8]) -> Option<(Self, Option<&'a [u8]>)> {
        let mut reader = Reader { bytes: head, at: 0, cut: false };
        let value = reader.value(0)?;
        Some((value, head.get(reader.at..).filter(|_| !reader.cut)))
    }

    /// The value under a key.
    pub fn get(&self, key: &str) -> Option<&Peek<'a>> {
        self.entries().iter().find(|(k, _)| *k == key.as_bytes()).map(|(_, v)| v)
    }

    /// The entries of an object; of anything else, none.
    pub fn entries(&self) -> &[(&'a [u8], Peek<'a>)] {
        if let Peek::Object(entries) = self { entries } else { &[] }
    }

    /// The elements of an array; of anything else, none.
    pub fn items(&self) -> &[Peek<'a>] {
        if let Peek::Array(items) = self { items } else { &[] }
    }

    /// A string without escapes.
    pub fn text(&self) -> Option<&'a str> {
        if let Peek::Text(text) = self { std::str::from_utf8(text).ok() } else { None }
    }

    /// Whether there is a whole string under a key.
    pub fn has_text(&self, key: &str) -> bool {
        matches!(self.get(key), Some(Peek::Text(_)))
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    cut: bool,
}

impl<'a> Reader<'a> {
    fn value(&mut self, depth: usize) -> Option<Peek<'a>> {
        if depth > DEEP {
            self.cut = true;
        }
        let Some(first) = self.next() else { return Some(Peek::Cut) };
        match first {
            b'{' => {
                self.at += 1;
                self.object(depth)
            }
            b'[' => {
                self.at += 1;
                self.array(depth)
            }
            b'"' => Some(self.string()?.map_or(Peek::Cut, Peek::Text)),
            b'-' | b'0'..=b'9' | b't' | b'f' | b'n' => Some(self.word()),
            _ => None,
        }
    }

    fn object(&mut self, depth: usize) -> Option<Peek<'a>> {
        let mut entries = Vec::new();
        loop {
            match self.next() {
                None => break,
                Some(b'}') if entries.is_empty() => {
                    self.at += 1;
                    break;
                }
                Some(b'"') => {}
                Some(_) => return None,
            }
            let Some(key) = self.string()? else { break };
            match self.next() {
                None => break,
                Some(b':') => self.at += 1,
                Some(_) => return None,
            }
            entries.push((key, self.value(depth + 1)?));
            match self.next() {
                None => break,
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    break;
                }
                Some(_) => return None,
            }
        }
        Some(Peek::Object(entries))
    }

    fn array(&mut self, depth: usize) -> Option<Peek<'a>> {
        let mut items = Vec::new();
        loop {
            match self.next() {
                None => break,
                Some(b']') if items.is_empty() => {
                    self.at += 1;
                    break;
                }
                Some(_) => items.push(self.value(depth + 1)?),
            }
            match self.next() {
                None => break,
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    break;
                }
                Some(_) => return None,
            }
        }
        Some(Peek::Array(items))
    }

    /// The next byte that is no blank; `None` where the bytes have ended, which they then have for good.
    fn next(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.bytes.get(self.at) {
            self.at += 1;
        }
        let next = self.bytes.get(self.at).copied().filter(|_| !self.cut);
        self.cut |= next.is_none();
        next
    }

    /// A string, from its quote: `None` inside where it is cut off, `None` outside where it is no JSON string.
    fn string(&mut self) -> Option<Option<&'a [u8]>> {
        let from = self.at + 1;
        let mut at = from;
        loop {
            let rest = self.bytes.get(at..).unwrap_or_default();
            let Some(n) = memchr2(b'"', b'\\', rest) else {
                self.cut = true;
                let raw = self.bytes.get(from..).unwrap_or_default();
                return raw.iter().all(|b| *b >= 0x20).then_some(None);
            };
            at += n;
            if self.bytes.get(at) == Some(&b'"') {
                self.at = at + 1;
                let raw = self.bytes.get(from..at).unwrap_or_default();
                return raw.iter().all(|b| *b >= 0x20).then_some(Some(raw));
            }
            at += 2;
        }
    }

    fn word(&mut self) -> Peek<'a> {
        while let Some(b'-' | b'+' | b'.' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z') = self.bytes.get(self.at) {
            self.at += 1;
        }
        Peek::Word
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_as_far_as_it_goes() {
        let whole = br#"{"a": [1, {"b": "x"}], "c": null} tail"#;
        let (value, rest) = Peek::of(whole).unwrap();
        assert_eq!(rest, Some(&b" tail"[..]));
        assert_eq!(value.get("a").unwrap().items()[1].get("b").unwrap().text(), Some("x"));
        assert_eq!(value.get("c"), Some(&Peek::Word));
        let (value, rest) = Peek::of(&whole[..18]).unwrap();
        assert!(rest.is_none());
        assert_eq!(value.get("a").unwrap().items(), [Peek::Word, Peek::Object(vec![(b"b", Peek::Cut)])]);
        assert_eq!(Peek::of(b""), Some((Peek::Cut, None)));
        for bad in [&b"x"[..], b"{1", b"{\"a\" 1", b"[1 2", b"[\"a\nb\"]", b"{\"a\":1}]"] {
            let read = Peek::of(bad);
            assert!(
                read.is_none_or(|(_, rest)| rest.is_some_and(|r| !r.is_empty())),
                "{}",
                String::from_utf8_lossy(bad)
            );
        }
        // Depth is no danger.
        assert!(Peek::of(&[b'['; 4096]).is_some());
    }

    proptest! {
        #[test]
        fn any_bytes(head in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = Peek::of(&head);
        }

        /// A prefix of JSON is never refused.
        #[test]
        fn any_prefix(cut in 0_usize..80) {
            let doc = br#" {"a": [1.5e3, true, {"b\"": "x\\", "c": []}, {}], "d": "\u00e9", "e": null, "f": -1} "#;
            prop_assert!(Peek::of(&doc[..cut.min(doc.len())]).is_some());
        }
    }
}
