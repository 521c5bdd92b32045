//! A borrowed view over raw JSON that yields byte spans.
//!
//! A document is checked once, strictly and without recursion, and then navigated by looking at its bytes again: no tree
//! is built, nothing is copied, numbers keep their spelling, and a document a hundred thousand levels deep costs a bit
//! a level. Unpaired surrogate escapes and duplicate keys are JSON; of equal keys the last one wins.

use std::borrow::Cow;
use std::ops::Range;

use memchr::{memchr, memchr2};

/// Bytes that are no JSON document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{what} at byte {at}")]
pub struct JsonError {
    /// Offset of the first byte that does not fit.
    pub at: usize,
    /// What was expected or found there.
    pub what: &'static str,
}

/// What a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `{…}`
    Object,
    /// `[…]`
    Array,
    /// `"…"`
    String,
    /// A number, in whatever spelling.
    Number,
    /// `true` or `false`
    Bool,
    /// `null`
    Null,
}

/// One value of a checked document.
#[derive(Debug, Clone, Copy)]
pub struct Node<'a> {
    // Invariant: `doc[start..end]` is exactly one valid JSON value without blanks around it.
    doc: &'a [u8],
    start: usize,
    end: usize,
}

impl<'a> Node<'a> {
    /// Checks a whole document, blanks around it allowed, and gives its value.
    ///
    /// # Errors
    /// The first byte that is not UTF-8 or not JSON.
    pub fn document(doc: &'a [u8]) -> Result<Self, JsonError> {
        if let Err(e) = std::str::from_utf8(doc) {
            return Err(JsonError { at: e.valid_up_to(), what: "bytes that are not UTF-8" });
        }
        let start = blanks(doc, 0);
        let end = Checker { doc, at: start }.value()?;
        let rest = blanks(doc, end);
        if rest < doc.len() {
            return Err(JsonError { at: rest, what: "more after the end of the JSON value" });
        }
        Ok(Node { doc, start, end })
    }

    /// What the value is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match byte(self.doc, self.start) {
            b'{' => Kind::Object,
            b'[' => Kind::Array,
            b'"' => Kind::String,
            b't' | b'f' => Kind::Bool,
            b'n' => Kind::Null,
            _ => Kind::Number,
        }
    }

    /// The value's bytes as they stand, quotes and brackets included.
    #[must_use]
    pub fn raw(&self) -> &'a [u8] {
        self.doc.get(self.start..self.end).unwrap_or_default()
    }

    /// The document that the value is in.
    #[must_use]
    pub(super) fn document_bytes(&self) -> &'a [u8] {
        self.doc
    }

    /// Where they stand in the document.
    #[must_use]
    pub fn range(&self) -> Range<usize> {
        self.start..self.end
    }

    /// The elements of an array; of anything else, none.
    pub fn items(&self) -> impl Iterator<Item = Node<'a>> + use<'a> {
        let mut walk = Walk::inside(*self, Kind::Array);
        std::iter::from_fn(move || walk.next_value())
    }

    /// The keys and values of an object, equal keys as often as they stand; of anything else, none.
    pub fn entries(&self) -> impl Iterator<Item = (Node<'a>, Node<'a>)> + use<'a> {
        let mut walk = Walk::inside(*self, Kind::Object);
        std::iter::from_fn(move || Some((walk.next_value()?, walk.next_value()?)))
    }

    /// The value under a key; of equal keys the last one's.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<Node<'a>> {
        self.entries().filter(|(k, _)| k.is(key)).map(|(_, v)| v).last()
    }

    /// The value at the end of a path of keys.
    #[must_use]
    pub fn at(&self, path: &[&str]) -> Option<Node<'a>> {
        path.iter().try_fold(*self, |node, key| node.get(key))
    }

    /// Whether this is a string with this text.
    #[must_use]
    pub fn is(&self, text: &str) -> bool {
        let inner = match self.raw() {
            [b'"', inner @ .., b'"'] => inner,
            _ => return false,
        };
        if memchr(b'\\', inner).is_none() { inner == text.as_bytes() } else { self.text().is_some_and(|t| t == text) }
    }

    /// The text of a string; an unpaired surrogate escape reads U+FFFD. `None` for anything else.
    #[must_use]
    pub fn text(&self) -> Option<Cow<'a, str>> {
        let [b'"', inner @ .., b'"'] = self.raw() else { return None };
        if memchr(b'\\', inner).is_none() {
            return Some(String::from_utf8_lossy(inner));
        }
        super::literal::decode(self.raw(), super::literal::Encoding::Plain)
            .ok()
            .map(|bytes| Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// A non-negative whole number that is spelled as one and fits.
    #[must_use]
    pub fn whole_number(&self) -> Option<u64> {
        if self.kind() != Kind::Number {
            return None;
        }
        std::str::from_utf8(self.raw()).ok()?.parse().ok()
    }

    /// A boolean.
    #[must_use]
    pub fn boolean(&self) -> Option<bool> {
        match self.raw() {
            b"true" => Some(true),
            b"false" => Some(false),
            _ => None,
        }
    }
}

/// Goes through the inside of a container of a checked document.
struct Walk<'a> {
    doc: &'a [u8],
    at: usize,
    end: usize,
}

impl<'a> Walk<'a> {
    fn inside(node: Node<'a>, kind: Kind) -> Self {
        if node.kind() == kind {
            Walk { doc: node.doc, at: node.start + 1, end: node.end.saturating_sub(1) }
        } else {
            Walk { doc: node.doc, at: 0, end: 0 }
        }
    }

    fn next_value(&mut self) -> Option<Node<'a>> {
        while self.at < self.end && matches!(byte(self.doc, self.at), b' ' | b'\t' | b'\r' | b'\n' | b',' | b':') {
            self.at += 1;
        }
        if self.at >= self.end {
            return None;
        }
        let start = self.at;
        self.at = skip(self.doc, start);
        Some(Node { doc: self.doc, start, end: self.at })
    }
}

/// The end of the value that starts here, in a checked document.
fn skip(doc: &[u8], start: usize) -> usize {
    let mut at = start;
    let mut depth = 0_usize;
    loop {
        match byte(doc, at) {
            b'"' => at = skip_string(doc, at),
            b'{' | b'[' => {
                depth += 1;
                at += 1;
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                at += 1;
            }
            // A blank, comma or colon of the container we are in, or a scalar.
            b' ' | b'\t' | b'\r' | b'\n' | b',' | b':' if depth > 0 => at += 1,
            _ => at = scalar_end(doc, at),
        }
        if depth == 0 || at >= doc.len() {
            return at.min(doc.len());
        }
    }
}

pub(super) fn scalar_end(doc: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < doc.len() && !matches!(byte(doc, at), b' ' | b'\t' | b'\r' | b'\n' | b',' | b':' | b'}' | b']') {
        at += 1;
    }
    at
}

/// The end of the string whose opening quote stands here. Quotes behind a backslash do not end it.
pub(super) fn skip_string(doc: &[u8], open: usize) -> usize {
    let mut at = open + 1;
    while let Some(n) = memchr2(b'"', b'\\', doc.get(at..).unwrap_or_default()) {
        at += n;
        if byte(doc, at) == b'"' {
            return at + 1;
        }
        at += 2;
    }
    doc.len()
}

fn byte(doc: &[u8], at: usize) -> u8 {
    doc.get(at).copied().unwrap_or(0)
}

pub(super) fn blanks(doc: &[u8], mut at: usize) -> usize {
    while matches!(byte(doc, at), b' ' | b'\t' | b'\r' | b'\n') {
        at += 1;
    }
    at
}

/// Checks one value without recursion: the only thing kept for a level is whether it is an object or an array.
struct Checker<'a> {
    doc: &'a [u8],
    at: usize,
}

impl Checker<'_> {
    fn value(mut self) -> Result<usize, JsonError> {
        let mut open = Bits::default();
        loop {
            // Here a value must start.
            match byte(self.doc, self.at) {
                b'"' => self.string()?,
                b'{' => {
                    self.at = blanks(self.doc, self.at + 1);
                    if byte(self.doc, self.at) == b'}' {
                        self.at += 1;
                    } else {
                        open.push(true);
                        self.key()?;
                        continue;
                    }
                }
                b'[' => {
                    self.at = blanks(self.doc, self.at + 1);
                    if byte(self.doc, self.at) == b']' {
                        self.at += 1;
                    } else {
                        open.push(false);
                        continue;
                    }
                }
                b't' => self.word(b"true")?,
                b'f' => self.word(b"false")?,
                b'n' => self.word(b"null")?,
                b'-' | b'0'..=b'9' => self.number()?,
                _ => return Err(self.error("expected a JSON value")),
            }
            // Here a value has ended.
            loop {
                let Some(object) = open.last() else { return Ok(self.at) };
                self.at = blanks(self.doc, self.at);
                match (byte(self.doc, self.at), object) {
                    (b',', object) => {
                        self.at = blanks(self.doc, self.at + 1);
                        if object {
                            self.key()?;
                        }
                        break;
                    }
                    (b'}', true) | (b']', false) => {
                        self.at += 1;
                        open.pop();
                    }
                    (_, true) => return Err(self.error("expected `,` or `}`")),
                    (_, false) => return Err(self.error("expected `,` or `]`")),
                }
            }
        }
    }

    /// A key and its colon, up to the value.
    fn key(&mut self) -> Result<(), JsonError> {
        if byte(self.doc, self.at) != b'"' {
            return Err(self.error("expected a key in quotes"));
        }
        self.string()?;
        self.at = blanks(self.doc, self.at);
        if byte(self.doc, self.at) != b':' {
            return Err(self.error("expected `:`"));
        }
        self.at = blanks(self.doc, self.at + 1);
        Ok(())
    }

    fn string(&mut self) -> Result<(), JsonError> {
        let mut from = self.at + 1;
        loop {
            let rest = self.doc.get(from..).unwrap_or_default();
            let Some(n) = memchr2(b'"', b'\\', rest) else {
                return Err(JsonError { at: self.doc.len(), what: "the text ends inside a string" });
            };
            let plain = rest.get(..n).unwrap_or_default();
            // Without an early end this is done many bytes at a time; where the first one stands is asked only if there is one.
            if plain.iter().fold(false, |any, b| any | (*b < 0x20)) {
                let control = plain.iter().position(|b| *b < 0x20).unwrap_or(0);
                return Err(JsonError { at: from + control, what: "a raw control character inside a string" });
            }
            let at = from + n;
            if byte(self.doc, at) == b'"' {
                self.at = at + 1;
                return Ok(());
            }
            let length = match byte(self.doc, at + 1) {
                b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => 2,
                b'u' if self.doc.get(at + 2..at + 6).is_some_and(|h| h.iter().all(u8::is_ascii_hexdigit)) => 6,
                _ => return Err(JsonError { at, what: "an escape that JSON does not have" }),
            };
            from = at + length;
        }
    }

    fn word(&mut self, word: &[u8]) -> Result<(), JsonError> {
        if !self.doc.get(self.at..).unwrap_or_default().starts_with(word) {
            return Err(self.error("expected a JSON value"));
        }
        self.at += word.len();
        Ok(())
    }

    fn number(&mut self) -> Result<(), JsonError> {
        if byte(self.doc, self.at) == b'-' {
            self.at += 1;
        }
        match byte(self.doc, self.at) {
            b'0' => self.at += 1,
            b'1'..=b'9' => self.digits()?,
            _ => return Err(self.error("expected a digit")),
        }
        if byte(self.doc, self.at) == b'.' {
            self.at += 1;
            self.digits()?;
        }
        if matches!(byte(self.doc, self.at), b'e' | b'E') {
            self.at += 1;
            if matches!(byte(self.doc, self.at), b'+' | b'-') {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), JsonError> {
        let from = self.at;
        while byte(self.doc, self.at).is_ascii_digit() {
            self.at += 1;
        }
        if from == self.at { Err(self.error("expected a digit")) } else { Ok(()) }
    }

    fn error(&self, what: &'static str) -> JsonError {
        if self.at >= self.doc.len() {
            return JsonError { at: self.doc.len(), what: "the text ends before the JSON value does" };
        }
        JsonError { at: self.at, what }
    }
}

/// A stack of bits.
#[derive(Default)]
struct Bits {
    words: Vec<u64>,
    len: usize,
}

impl Bits {
    fn push(&mut self, bit: bool) {
        if self.len.is_multiple_of(64) {
            self.words.push(0);
        }
        if let Some(word) = self.words.last_mut() {
            let mask = 1 << (self.len % 64);
            *word = if bit { *word | mask } else { *word & !mask };
        }
        self.len += 1;
    }

    fn last(&self) -> Option<bool> {
        let top = self.len.checked_sub(1)?;
        self.words.last().map(|word| word >> (top % 64) & 1 == 1)
    }

    fn pop(&mut self) {
        self.len = self.len.saturating_sub(1);
        if self.len.is_multiple_of(64) {
            self.words.pop();
        }
    }
}

#[cfg(test)]
mod tests;
