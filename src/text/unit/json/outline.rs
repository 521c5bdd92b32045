//! What in a JSON text could become shorter, found in one pass without recursion.

use crate::text::json::{Node, blanks, scalar_end, skip_string};
use crate::text::second::{Counted, Second};

/// Shorter strings and arrays are not listed, in stored bytes.
const LEAST: usize = 96;

/// The strings and arrays of a text, in the order of their starts.
pub(super) struct Outline {
    pub items: Vec<Item>,
    /// Bytes of the text.
    pub len: usize,
    /// The longest string, in stored bytes, and the most elements of an array.
    pub longest: u64,
    pub most: u64,
    /// How many steps it took.
    #[cfg(test)]
    pub steps: u64,
}

pub(super) enum Item {
    /// Its bytes, quotes included.
    String {
        start: usize,
        end: usize,
    },
    Array(Array),
    /// An array that turned out to be small.
    Small,
}

pub(super) struct Array {
    pub start: usize,
    pub end: usize,
    /// Where each element starts and ends. A note of an earlier cut is the last of them.
    starts: Vec<u32>,
    ends: Vec<u32>,
    /// How many there were before an earlier cut.
    noted: Option<u64>,
}

impl Item {
    pub fn start(&self) -> Option<usize> {
        match self {
            Item::String { start, .. } => Some(*start),
            Item::Array(array) => Some(array.start),
            Item::Small => None,
        }
    }
}

impl Array {
    /// Its elements, without the note of an earlier cut.
    pub fn count(&self) -> usize {
        self.ends.len() - usize::from(self.noted.is_some())
    }

    /// How many elements there were before any cut.
    pub fn total(&self) -> u64 {
        self.noted.unwrap_or(self.ends.len() as u64)
    }

    pub fn element_start(&self, at: usize) -> usize {
        self.starts.get(at).map_or(self.end, |at| *at as usize)
    }

    pub fn element_end(&self, at: usize) -> usize {
        self.ends.get(at).map_or(self.end, |at| *at as usize)
    }

    /// Where the last element ends, an earlier note's end included.
    pub fn last_end(&self) -> usize {
        self.ends.last().map_or(self.end, |at| *at as usize)
    }
}

/// The note that a shortened string, or what stands for the elements of an array, ends in.
pub(super) fn noted(inner: &[u8]) -> Option<Second> {
    let note = inner.get(memchr::memrchr(b'[', inner)?..)?;
    Second::parse(note).filter(|note| matches!(note.counted, Counted::Bytes | Counted::Elements))
}

/// A container that is open.
struct Open {
    /// The number of its item, for an array.
    array: Option<usize>,
    start: usize,
    /// How many elements were pending when it began.
    pending: usize,
    /// Whether a key comes next, in an object.
    key: bool,
}

impl Outline {
    /// Of a checked text. `None` where it is too long for what is kept of an element.
    pub fn of(root: Node<'_>) -> Option<Self> {
        let doc = root.document_bytes();
        u32::try_from(doc.len()).ok()?;
        let mut found = Outline {
            items: Vec::new(),
            len: doc.len(),
            longest: 0,
            most: 0,
            #[cfg(test)]
            steps: 0,
        };
        let mut open: Vec<Open> = Vec::new();
        let (mut starts, mut ends) = (Vec::<u32>::new(), Vec::<u32>::new());
        let mut at = root.range().start;
        while let Some(byte) = doc.get(at) {
            #[cfg(test)]
            {
                found.steps += 1;
            }
            let start = at;
            match byte {
                b' ' | b'\t' | b'\r' | b'\n' | b',' | b':' => {
                    at = blanks(doc, at + 1);
                    continue;
                }
                b'{' | b'[' => {
                    let array = (*byte == b'[').then_some(found.items.len());
                    if array.is_some() {
                        found.items.push(Item::Small);
                    }
                    open.push(Open { array, start, pending: ends.len(), key: array.is_none() });
                    at += 1;
                    continue;
                }
                b'}' | b']' => {
                    at += 1;
                    let closed = open.pop()?;
                    if let Some(number) = closed.array {
                        found.close(
                            doc,
                            number,
                            closed.start,
                            at,
                            (starts.get(closed.pending..)?, ends.get(closed.pending..)?),
                        );
                        starts.truncate(closed.pending);
                        ends.truncate(closed.pending);
                    }
                    found.value(&mut open, (&mut starts, &mut ends), closed.start, at);
                }
                b'"' => {
                    at = skip_string(doc, at);
                    match open.last_mut() {
                        Some(top) if top.key => top.key = false,
                        _ => {
                            if at - start > LEAST {
                                found.longest = found.longest.max((at - start - 2) as u64);
                                found.items.push(Item::String { start, end: at });
                            }
                            found.value(&mut open, (&mut starts, &mut ends), start, at);
                        }
                    }
                }
                _ => {
                    at = scalar_end(doc, at);
                    found.value(&mut open, (&mut starts, &mut ends), start, at);
                }
            }
            if open.is_empty() {
                break;
            }
        }
        Some(found)
    }

    /// A value has ended.
    fn value(&self, open: &mut [Open], elements: (&mut Vec<u32>, &mut Vec<u32>), start: usize, end: usize) {
        match open.last_mut() {
            Some(top) if top.array.is_some() => {
                // They fit: the text's length does.
                elements.0.push(u32::try_from(start).unwrap_or(u32::MAX));
                elements.1.push(u32::try_from(end).unwrap_or(u32::MAX));
            }
            Some(top) => top.key = true,
            None => {}
        }
    }

    fn close(&mut self, doc: &[u8], number: usize, start: usize, end: usize, (starts, ends): (&[u32], &[u32])) {
        if end - start <= LEAST || ends.len() < 2 {
            if number + 1 == self.items.len() {
                self.items.pop();
            }
            return;
        }
        let last = starts.last().zip(ends.last()).and_then(|(start, end)| doc.get(*start as usize..*end as usize));
        let note = last.and_then(|last| noted(last.strip_prefix(b"\"")?.strip_suffix(b"\"")?));
        let noted = note.filter(|note| note.counted == Counted::Elements).and_then(|note| note.total);
        let array = Array { start, end, starts: starts.to_vec(), ends: ends.to_vec(), noted };
        self.most = self.most.max(array.count() as u64);
        if let Some(item) = self.items.get_mut(number) {
            *item = Item::Array(array);
        }
    }
}
