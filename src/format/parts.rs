//! What several formats share: a response's parts out of a record, and the words for a line that is none.

use memchr::{memchr, memchr2, memmem};

use super::{Broken, Part, Record};
use crate::text::json::{Index, JsonError, Kind, Node};
use crate::text::literal::{self, Encoding, LiteralError, Measure};

/// Turns values of one record into parts, and notes what cannot be one.
pub(super) struct Taker<'r> {
    record: Record<'r>,
    /// A place in the record and the physical line it is on: lines are counted from there.
    counted: (usize, u64),
    /// What was no text.
    pub broken: Vec<Broken>,
}

/// Blocks that hold no text of their own: pictures, sound, files.
pub(super) const BINARIES: [&str; 11] = [
    "audio",
    "computer_screenshot",
    "file",
    "image",
    "image_url",
    "input_audio",
    "input_file",
    "input_image",
    "media",
    "resource_link",
    "video",
];

impl<'r> Taker<'r> {
    pub fn new(record: &Record<'r>) -> Self {
        Taker { record: *record, counted: (0, record.line), broken: Vec::new() }
    }

    /// The physical line of a place in the record.
    pub fn line(&mut self, at: usize) -> u64 {
        let (mut from, mut line) = self.counted;
        if at < from {
            (from, line) = (0, self.record.line);
        }
        line += memchr::memchr_iter(b'\n', self.record.bytes.get(from..at).unwrap_or_default()).count() as u64;
        self.counted = (at, line);
        line
    }

    /// Notes that something of a value is not as it must be.
    pub fn broken(&mut self, node: Node<'_>, what: impl Into<String>) {
        self.broken_at(node.range().start, what.into());
    }

    fn broken_at(&mut self, at: usize, what: String) {
        self.broken.push(Broken { at: self.record.offset + at as u64, what, whole: false });
    }

    /// Takes a string.
    pub fn text(&mut self, node: Node<'_>, out: &mut Vec<Part>) {
        self.measured(node.range().start, node.raw(), node.measure(Encoding::Plain), out);
    }

    /// The part of one string.
    pub fn texts(&mut self, node: Node<'_>) -> Vec<Part> {
        let mut parts = Vec::new();
        self.text(node, &mut parts);
        parts
    }

    fn literal(&mut self, at: usize, literal: &[u8], out: &mut Vec<Part>) {
        self.measured(at, literal, literal::measure(literal, Encoding::Plain), out);
    }

    fn measured(&mut self, at: usize, literal: &[u8], measure: Result<Measure, LiteralError>, out: &mut Vec<Part>) {
        match measure {
            Ok(measure) => {
                let start = self.record.offset + at as u64;
                let line = self.line(at);
                let span = start..start + literal.len() as u64;
                out.push(Part::Text { span, line, encoding: Encoding::Plain, measure, opening: 0 });
            }
            Err(e) => self.broken_at(at, e.to_string()),
        }
    }

    /// Takes an image or another binary part.
    pub fn opaque(&mut self, node: Node<'_>, out: &mut Vec<Part>) {
        out.push(Part::Opaque { stored: node.raw().len() as u64 });
    }

    /// Takes a string, or the texts and images of an array of blocks. `false`: it is neither, nor null.
    pub fn content(&mut self, content: Node<'_>, out: &mut Vec<Part>) -> bool {
        match content.kind() {
            Kind::String => self.text(content, out),
            Kind::Null => {}
            Kind::Array => content.items().for_each(|block| self.block(block, true, out)),
            _ => return false,
        }
        true
    }

    /// Takes one block. A document or search result may hold blocks again, once.
    pub fn block(&mut self, block: Node<'_>, nested: bool, out: &mut Vec<Part>) {
        if block.kind() == Kind::String {
            return self.text(block, out);
        }
        let kind = block.get("type").and_then(|t| t.text());
        let inner = match kind.as_deref() {
            Some(kind) if BINARIES.contains(&kind) => return self.opaque(block, out),
            Some("search_result") => block.get("content"),
            // A document in plain text, or in blocks. All others are base64 or elsewhere.
            Some("document") => match block.get("source") {
                Some(source) if source.get("type").is_some_and(|t| t.is("text")) => source.get("data"),
                Some(source) if source.get("type").is_some_and(|t| t.is("content")) => source.get("content"),
                _ => return self.opaque(block, out),
            },
            Some("resource") => match block.get("resource") {
                Some(resource) if resource.get("blob").is_some() => return self.opaque(block, out),
                Some(resource) => resource.get("text"),
                None => None,
            },
            _ => block.get("text").filter(|t| t.kind() == Kind::String),
        };
        match inner {
            Some(text) if text.kind() == Kind::String => self.text(text, out),
            Some(blocks) if nested => blocks.items().for_each(|block| self.block(block, false, out)),
            _ => {}
        }
    }

    /// Takes every string that is a value, at whatever depth; not keys, and not the values of the keys to be skipped.
    /// One pass over the bytes: a value a hundred thousand levels deep costs no stack.
    pub fn leaves(&mut self, node: Node<'_>, skip: &[&str], out: &mut Vec<Part>) {
        let (raw, base) = (node.raw(), node.range().start);
        let mut at = 0;
        // The key that stands just before, as long as nothing but its colon does.
        let mut key: Option<&[u8]> = None;
        while let Some(n) = memchr(b'"', raw.get(at..).unwrap_or_default()) {
            let open = at + n;
            let between = raw.get(at..open).unwrap_or_default();
            let end = string_end(raw, open);
            let literal = raw.get(open..end).unwrap_or_default();
            let after = raw.get(end..).unwrap_or_default();
            if after.iter().find(|b| !b.is_ascii_whitespace()) == Some(&b':') {
                key = Some(literal);
            } else {
                let own = key.take().filter(|_| !between.iter().any(|b| matches!(b, b'{' | b'[' | b',')));
                let named =
                    |s: &str| own.and_then(|k| k.strip_prefix(b"\"")?.strip_suffix(b"\"")) == Some(s.as_bytes());
                if !skip.iter().any(|s| named(s)) {
                    self.literal(base + open, literal, out);
                }
            }
            at = end;
        }
    }
}

/// The end of the string whose opening quote stands here, in checked JSON.
pub(super) fn string_end(raw: &[u8], open: usize) -> usize {
    let mut at = open + 1;
    while let Some(n) = memchr2(b'"', b'\\', raw.get(at..).unwrap_or_default()) {
        at += n;
        if raw.get(at) == Some(&b'"') {
            return at + 1;
        }
        at += 2;
    }
    raw.len()
}

/// The string under a key, owned.
pub(super) fn owned(node: Node<'_>, key: &str) -> Option<String> {
    owned_text(node.get(key)?)
}

/// A string, owned.
pub(super) fn owned_text(node: Node<'_>) -> Option<String> {
    node.text().map(std::borrow::Cow::into_owned)
}

/// A line of a log as JSON. `Ok(None)`: it is blank. An error is said so that a person knows what happened to the line.
pub(super) fn line<'a>(record: &Record<'a>, index: &'a mut Index) -> Result<Option<Node<'a>>, Broken> {
    if record.bytes.iter().all(|b| matches!(b, b' ' | b'\t' | b'\r')) {
        return Ok(None);
    }
    Node::indexed(record.bytes, index).map(Some).map_err(|e| {
        let (at, what) = line_trouble(record, e);
        Broken { at: record.offset + at as u64, what, whole: false }
    })
}

fn line_trouble(record: &Record<'_>, e: JsonError) -> (usize, String) {
    let bytes = record.bytes;
    if let Some(at) = memchr(0, bytes) {
        let run = bytes.get(at..).unwrap_or_default().iter().take_while(|b| **b == 0).count();
        return (at, format!("not JSON: {run} NUL bytes, as a crash or a full disk leaves them"));
    }
    if bytes.starts_with(b"\xef\xbb\xbf") {
        return (0, "not JSON: a byte order mark at the start of the line".into());
    }
    let here = bytes.get(e.at..).unwrap_or_default();
    if e.what == AFTER && here.starts_with(b"{") {
        return (e.at, format!("two records on one line: the second begins at byte {} of it", e.at));
    }
    if let Some(at) = second_record(bytes) {
        return (at, format!("a torn record, and another one behind it on the same line, from byte {at} of it"));
    }
    if here.is_empty() {
        let which = if record.ended { "a line that is torn" } else { "the last line is torn" };
        return (e.at, format!("{which}: {}", e.what));
    }
    (e.at, format!("not JSON: {e} of the line"))
}

/// Where a whole object ends a line that begins with a torn one: where `{"` stands that no JSON has there.
fn second_record(bytes: &[u8]) -> Option<usize> {
    let inside = |before: &[u8]| matches!(before.trim_ascii_end().last(), None | Some(b':' | b',' | b'['));
    let starts = memmem::find_iter(bytes, b"{\"").filter(|at| !bytes.get(..*at).is_some_and(inside));
    // A few are tried: a torn text of code may have many.
    starts.take(8).find(|at| bytes.get(*at..).is_some_and(|rest| Node::document(rest).is_ok()))
}

/// What [`Node::document`] says of a second value.
pub(super) const AFTER: &str = "more after the end of the JSON value";

/// A document as JSON. Of one that is none the whole stream cannot be understood, and its reader, where there is one, says so.
pub(super) fn document<'a>(record: &Record<'a>, index: &'a mut Index, reader: &str) -> Result<Node<'a>, Broken> {
    Node::indexed(record.bytes, index).map_err(|e| {
        let (at, what) = if record.bytes.starts_with(b"\xef\xbb\xbf") {
            (0, "a byte order mark, which JSON does not have; remove the first three bytes".to_owned())
        } else if record.bytes.trim_ascii().is_empty() {
            (0, "the file is empty".to_owned())
        } else if let Some(at) = memchr(0, record.bytes) {
            (at, "not JSON: NUL bytes, as a crash or a full disk leaves them".to_owned())
        } else {
            (e.at, format!("not JSON: {}", e.what))
        };
        let what = if reader.is_empty() { what } else { format!("{what}: {reader} takes the file for empty") };
        Broken { at: record.offset + at as u64, what, whole: true }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(bytes: &[u8], ended: bool) -> Record<'_> {
        Record { offset: 10, line: 3, index: 2, bytes, ended }
    }

    #[test]
    fn leaves_are_values() {
        let doc = br#"{"query": "no", "a": ["one", {"b\"": "two", "n": 1, "query": ["three"]}], "t": "four" , "query" : "no"}"#;
        let mut taker = Taker::new(&record(doc, true));
        let mut out = Vec::new();
        taker.leaves(Node::document(doc).unwrap(), &["query"], &mut out);
        let texts: Vec<&[u8]> = out
            .iter()
            .map(|p| match p {
                Part::Text { span, .. } => &doc[span.start as usize - 10..span.end as usize - 10],
                Part::Opaque { .. } => b"?",
            })
            .collect();
        assert_eq!(texts, [&b"\"one\""[..], b"\"two\"", b"\"three\"", b"\"four\""]);
        let deep = [b"[".repeat(100_000), b"\"x\"".to_vec(), b"]".repeat(100_000)].concat();
        let mut out = Vec::new();
        Taker::new(&record(&deep, true)).leaves(Node::document(&deep).unwrap(), &[], &mut out);
        assert_eq!(out.len(), 1);
    }

    #[test]
    fn lines_are_counted_wherever_one_looks() {
        let bytes = b"a\nb\nc\n";
        let mut taker = Taker::new(&record(bytes, true));
        assert_eq!([4, 0, 2, 3, 6].map(|at| taker.line(at)), [5, 3, 4, 4, 6]);
    }

    #[test]
    fn a_broken_line_says_what_it_is() {
        let what = |bytes: &[u8], ended| line(&record(bytes, ended), &mut Index::default()).unwrap_err().what;
        assert!(line(&record(b" \r", true), &mut Index::default()).unwrap().is_none());
        assert!(line(&record(b"{}\r", true), &mut Index::default()).unwrap().is_some());
        assert_eq!(what(b"\0\0\0{}", true), "not JSON: 3 NUL bytes, as a crash or a full disk leaves them");
        assert_eq!(what(b"{\"a\":1}{\"b\":2}", true), "two records on one line: the second begins at byte 7 of it");
        assert_eq!(
            what(b"{\"a\":\"x{\"b\":2}", true),
            "a torn record, and another one behind it on the same line, from byte 7 of it"
        );
        assert_eq!(what(b"{\"a\":\"x", false), "the last line is torn: the text ends inside a string");
        assert_eq!(what(b"{\"a\":", true), "a line that is torn: the text ends before the JSON value does");
        assert_eq!(what(b"{\"a\":x}", true), "not JSON: expected a JSON value at byte 5 of the line");
        assert_eq!(what(b"\xef\xbb\xbf{}", true), "not JSON: a byte order mark at the start of the line");
        assert_eq!(line(&record(b"{\"a\":x}", true), &mut Index::default()).unwrap_err().at, 15);
    }
}
