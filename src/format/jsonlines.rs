//! What formats of JSON lines share: reading a line, saying how one is broken, and what a file's head shows.
//!
//! It knows no agent. How lines break was seen in real sessions: a crash of the machine leaves NUL bytes, a killed writer a
//! torn line, and the next writer glues its first record to that.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};

use memchr::{memchr, memchr2, memmem};

use super::{Broken, Copy, Look, Part, Record, Response};
use crate::text::json::{Index, Kind, Node};
use crate::text::literal::Encoding;

/// A byte order mark.
pub(super) const MARK: &[u8] = b"\xef\xbb\xbf";

/// A record without the mark that some writers put before the first: JSON has none, some readers pass over it.
pub(super) fn without_mark<'a>(record: &Record<'a>) -> Record<'a> {
    match record.bytes.strip_prefix(MARK) {
        Some(bytes) if record.offset == 0 => Record { offset: MARK.len() as u64, bytes, ..*record },
        _ => *record,
    }
}

/// One line, understood as far as JSON goes.
pub(super) enum Line<'a> {
    /// Nothing but blanks: every reader passes over it.
    Blank,
    /// An object.
    Object(Node<'a>),
    /// Anything else.
    Broken(Broken),
}

/// Reads one line.
pub(super) fn read<'a>(record: &Record<'a>, index: &'a mut Index) -> Line<'a> {
    let bytes = record.bytes;
    if bytes.trim_ascii().is_empty() {
        return Line::Blank;
    }
    let (at, what, whole) = match Node::indexed(bytes, index) {
        Ok(node) if node.kind() == Kind::Object => return Line::Object(node),
        Ok(_) => (0, "not a record (an object)".to_owned(), false),
        Err(_) if record.offset == 0 && bytes.starts_with(MARK) => {
            let what = "a byte order mark, which the agent refuses; remove the first three bytes";
            (0, what.to_owned(), true)
        }
        Err(e) => {
            let (at, what) = unreadable(record, e.at, e.what);
            (at, what, false)
        }
    };
    Line::Broken(Broken { at: record.offset + at as u64, what, whole })
}

/// Why a line is no JSON, in words for people, and where.
fn unreadable(record: &Record<'_>, at: usize, what: &str) -> (usize, String) {
    let bytes = record.bytes;
    if let Some(nul) = memchr(0, bytes) {
        let run = bytes.get(nul..).unwrap_or_default().iter().take_while(|b| **b == 0).count();
        let plural = if run == 1 { "byte" } else { "bytes" };
        return (nul, format!("{run} NUL {plural}, as a crash leaves them, in place of a record or a part of one"));
    }
    if let Some(second) = glued(bytes) {
        let first = bytes.get(..second).unwrap_or_default();
        let torn = if Node::document(first).is_ok() { "two records on one line" } else { "a torn record" };
        return (second, format!("{torn}: another record begins at byte {second} of the line"));
    }
    if !record.ended {
        return (at, format!("the last line is torn: {what}"));
    }
    (at, format!("not a record: {what}"))
}

/// Where a whole record begins that stands behind something else. In JSON an object follows `:`, `,` or `[`, and inside of
/// a string its first quote would be escaped; so `{"` after any other byte is the start of another record.
fn glued(bytes: &[u8]) -> Option<usize> {
    let starts = memmem::find_iter(bytes, b"{\"").filter(|at| {
        let before = bytes.get(..*at).unwrap_or_default().trim_ascii_end();
        !matches!(before.last(), None | Some(b':' | b',' | b'['))
    });
    // A quote that closes a string behind a brace looks the same, so each start is tried, though not without end.
    starts.take(4).find(|at| Node::document(bytes.get(*at..).unwrap_or_default()).is_ok())
}

/// Whether a line has the outline of one record, so that a look for words tells what is in it. A broken line has not always.
pub(super) fn looks_whole(line: &[u8]) -> bool {
    let line = line.trim_ascii();
    line.is_empty()
        || (line.starts_with(b"{")
            && line.ends_with(b"}")
            && memchr(0, line).is_none()
            && memmem::find(line, b"}{").is_none()
            // A word spelled with escapes would not be found.
            && memmem::find(line, b"\\u").is_none())
}

/// A compact key for an id. Equal in every run, so that two readings of one stream agree.
pub(super) fn key(id: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    hasher.finish()
}

/// Puts responses into the order of the stream, and numbers their batches in it from 1.
pub(super) fn arrange(responses: &mut [Response]) {
    responses.sort_by_key(|response| response.record);
    let mut numbers = HashMap::new();
    for response in responses {
        let next = numbers.len() as u64 + 1;
        response.batch = *numbers.entry(response.batch).or_insert(next);
    }
}

/// The files at this depth below a directory whose names fit.
pub(super) fn files_below(look: &dyn Look, dir: &Path, depth: usize, fits: &dyn Fn(&str) -> bool) -> Vec<PathBuf> {
    let names = look.list(dir).into_iter();
    if depth > 0 {
        return names.flat_map(|name| files_below(look, &dir.join(name), depth - 1, fits)).collect();
    }
    let named = names.filter(|name| name.to_str().is_some_and(fits));
    named.map(|name| dir.join(name)).filter(|path| look.is_file(path)).collect()
}

/// Whether this is spelled as the agents spell the ids of their conversations.
pub(super) fn is_uuid(id: &str) -> bool {
    id.len() == 36 && id.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-')
}

/// Makes parts of the strings of one record.
pub(super) struct Texts<'r, 'a> {
    record: &'r Record<'a>,
    /// The number that copies give as their record's: the element's where a record is a whole document.
    pub number: u64,
    /// The place up to which newlines are counted, and its physical line.
    counted: (usize, u64),
    /// Strings that could not be measured.
    pub broken: Vec<Broken>,
}

impl<'r, 'a> Texts<'r, 'a> {
    pub(super) fn new(record: &'r Record<'a>) -> Self {
        Texts { record, number: record.index, counted: (0, record.line), broken: Vec::new() }
    }

    /// Where a value stands in the document.
    pub(super) fn offset(&self, node: Node<'_>) -> u64 {
        self.record.offset + node.range().start as u64
    }

    /// A string as a part.
    pub(super) fn part(&mut self, text: Node<'_>) -> Option<Part> {
        let range = text.range();
        let span = self.record.offset + range.start as u64..self.record.offset + range.end as u64;
        match text.measure(Encoding::Plain) {
            Ok(measure) => {
                let line = self.line(range.start);
                Some(Part::Text { span, line, encoding: Encoding::Plain, measure, opening: 0 })
            }
            Err(e) => {
                self.broken.push(Broken { at: span.start, what: e.to_string(), whole: false });
                None
            }
        }
    }

    /// A copy of one string, where there is any text in it.
    pub(super) fn copy(&mut self, place: &'static str, text: Option<Node<'_>>) -> Option<Copy> {
        let text = text.filter(|t| t.kind() == Kind::String && t.raw() != b"\"\"")?;
        let part = self.part(text)?;
        Some(Copy { place, sent: false, record: self.number, parts: vec![part] })
    }

    /// The physical line of an offset in the record.
    pub(super) fn line(&mut self, at: usize) -> u64 {
        if at < self.counted.0 {
            self.counted = (0, self.record.line);
        }
        let between = self.record.bytes.get(self.counted.0..at).unwrap_or_default();
        self.counted = (at, self.counted.1 + memchr::memchr_iter(b'\n', between).count() as u64);
        self.counted.1
    }
}

/// A binary part of this many stored bytes.
pub(super) fn opaque(node: Node<'_>) -> Part {
    Part::Opaque { stored: node.raw().len() as u64 }
}

/// The keys of the object that a head begins with, and their values: the last value may be cut off where the head ends.
#[derive(Debug, Default)]
pub(super) struct Head<'a> {
    entries: Vec<(&'a [u8], &'a [u8])>,
}

impl<'a> Head<'a> {
    pub(super) fn of(head: &'a [u8]) -> Self {
        let mut entries = Vec::new();
        let mut at = blanks(head, 0);
        if head.get(at) == Some(&b'{') {
            at += 1;
            while let Some((key, value, next)) = entry(head, at) {
                entries.push((key, value));
                at = next;
            }
        }
        Head { entries }
    }

    /// The value under a key, as far as the head shows it.
    pub(super) fn get(&self, key: &str) -> Option<&'a [u8]> {
        self.entries.iter().rev().find(|(k, _)| *k == key.as_bytes()).map(|(_, v)| *v)
    }

    /// Whether there are all of these keys.
    pub(super) fn has(&self, keys: &[&str]) -> bool {
        keys.iter().all(|key| self.get(key).is_some())
    }

    /// Whether a key's value is one of these strings.
    pub(super) fn is(&self, key: &str, words: &[&str]) -> bool {
        let inner = self.get(key).and_then(|v| v.strip_prefix(b"\"")).and_then(|v| v.strip_suffix(b"\""));
        inner.is_some_and(|inner| words.iter().any(|word| word.as_bytes() == inner))
    }
}

/// The next entry of an object: its key, its value as far as it goes, and the offset behind it.
fn entry(head: &[u8], at: usize) -> Option<(&[u8], &[u8], usize)> {
    let open = blanks(head, at);
    let open = if head.get(open) == Some(&b',') { blanks(head, open + 1) } else { open };
    if head.get(open) != Some(&b'"') {
        return None;
    }
    let close = string_end(head, open)?;
    let colon = blanks(head, close);
    if head.get(colon) != Some(&b':') {
        return None;
    }
    let start = blanks(head, colon + 1);
    let end = value_end(head, start).unwrap_or(head.len());
    Some((head.get(open + 1..close - 1)?, head.get(start..end)?, end))
}

/// The end of the value that starts here; `None` where the head ends before.
fn value_end(head: &[u8], start: usize) -> Option<usize> {
    let mut depth = 0_usize;
    let mut at = start;
    loop {
        match *head.get(at)? {
            b'"' => at = string_end(head, at)?,
            b'{' | b'[' => {
                depth += 1;
                at += 1;
            }
            b'}' | b']' => {
                depth = depth.checked_sub(1)?;
                at += 1;
            }
            _ if depth > 0 => at += 1,
            _ => at += head.get(at..)?.iter().position(|b| matches!(b, b',' | b'}' | b']' | b' ' | b'\n'))?,
        }
        if depth == 0 {
            return Some(at);
        }
    }
}

/// The offset behind the string whose opening quote stands here.
fn string_end(head: &[u8], open: usize) -> Option<usize> {
    let mut at = open + 1;
    loop {
        at += memchr2(b'"', b'\\', head.get(at..)?)?;
        if head.get(at) == Some(&b'"') {
            return Some(at + 1);
        }
        at += 2;
    }
}

fn blanks(head: &[u8], at: usize) -> usize {
    let rest = head.get(at..).unwrap_or_default();
    at + rest.iter().take_while(|b| b.is_ascii_whitespace()).count()
}
