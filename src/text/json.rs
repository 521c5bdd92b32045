//! A borrowed view over raw JSON that yields byte spans.
//!
//! A document is checked once, strictly and without recursion, and then navigated by looking at its bytes again: no tree
//! is built, nothing is copied, numbers keep their spelling, and a document a hundred thousand levels deep costs a bit
//! a level. Where long values end is noted in an [`Index`], so that they are not walked over twice. Unpaired surrogate
//! escapes and duplicate keys are JSON; of equal keys the last one wins.

use std::borrow::Cow;
use std::ops::Range;

use memchr::{memchr, memchr2};

use super::literal::{self, Encoding, LiteralError, Measure};

mod check;

use check::Checker;

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
    long: &'a [Long],
    start: usize,
    end: usize,
}

/// Where the long values of a document end, its strings and outer containers.
#[derive(Debug, Default)]
pub struct Index {
    /// In the order of their starts.
    long: Vec<Long>,
}

/// One of them.
#[derive(Debug, Clone, Copy)]
struct Long {
    start: usize,
    end: usize,
    /// A string's decoded bytes.
    size: usize,
}

/// From how many bytes a value is long. A shorter one is soon walked over again.
const LONG: usize = 128;

fn find(long: &[Long], start: usize) -> Option<&Long> {
    let first = long.partition_point(|l| l.start < start);
    long.get(first).filter(|l| l.start == start)
}

impl<'a> Node<'a> {
    /// Checks a whole document, blanks around it allowed, and gives its value.
    ///
    /// # Errors
    /// The first byte that is not UTF-8 or not JSON.
    pub fn document(doc: &'a [u8]) -> Result<Self, JsonError> {
        let Range { start, end } = check(doc, &mut Index::default())?;
        Ok(Node { doc, long: &[], start, end })
    }

    /// The same for a document that is read through: long values are found in the index, which is made anew.
    ///
    /// # Errors
    /// The first byte that is not UTF-8 or not JSON.
    pub fn indexed(doc: &'a [u8], index: &'a mut Index) -> Result<Self, JsonError> {
        index.long.clear();
        let Range { start, end } = check(doc, index)?;
        Ok(Node { doc, long: &index.long, start, end })
    }

    /// Measures a string as a literal.
    ///
    /// # Errors
    /// It is no string.
    pub fn measure(&self, encoding: Encoding) -> Result<Measure, LiteralError> {
        match find(self.long, self.start).filter(|_| self.kind() == Kind::String) {
            Some(long) => literal::measure_checked(self.raw(), encoding, long.size),
            None => literal::measure(self.raw(), encoding),
        }
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
        // No escape is shorter than what it stands for.
        if inner.len() < text.len() {
            return false;
        }
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

/// Checks a whole document and gives the place of its value.
fn check(doc: &[u8], index: &mut Index) -> Result<Range<usize>, JsonError> {
    if let Err(e) = std::str::from_utf8(doc) {
        return Err(JsonError { at: e.valid_up_to(), what: "bytes that are not UTF-8" });
    }
    let start = blanks(doc, 0);
    let end = Checker { doc, at: start, index }.value()?;
    let rest = blanks(doc, end);
    if rest < doc.len() {
        return Err(JsonError { at: rest, what: "more after the end of the JSON value" });
    }
    Ok(start..end)
}

/// Goes through the inside of a container of a checked document.
struct Walk<'a> {
    doc: &'a [u8],
    long: &'a [Long],
    at: usize,
    end: usize,
}

impl<'a> Walk<'a> {
    fn inside(node: Node<'a>, kind: Kind) -> Self {
        if node.kind() == kind {
            Walk { doc: node.doc, long: node.long, at: node.start + 1, end: node.end.saturating_sub(1) }
        } else {
            Walk { doc: node.doc, long: node.long, at: 0, end: 0 }
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
        self.at = skip(self.doc, self.long, start);
        Some(Node { doc: self.doc, long: self.long, start, end: self.at })
    }
}

/// The end of the value that starts here, in a checked document.
fn skip(doc: &[u8], long: &[Long], start: usize) -> usize {
    let mut at = start;
    let mut depth = 0_usize;
    // Looked up once: the walk goes through them in order.
    let mut ahead = long.get(long.partition_point(|l| l.start < start)..).unwrap_or_default().iter();
    let mut next = ahead.next();
    loop {
        match byte(doc, at) {
            b'"' | b'{' | b'[' if next.is_some_and(|l| l.start == at) => {
                at = next.map_or(at, |l| l.end);
                // What lies inside of it is passed over.
                next = ahead.find(|l| l.start >= at);
            }
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

#[cfg(test)]
mod tests;
