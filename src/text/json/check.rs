//! The strict check of a document, which notes on its way where long values end.

use super::{Index, JsonError, LONG, Long, blanks, byte};
use crate::text::blocks::{self, Fault};

/// How many levels of containers are noted: those that a reader goes down, however deep the rest is.
const OUTER: usize = 16;

/// Checks one value without recursion: the only thing kept for a level is whether it is an object or an array.
pub(super) struct Checker<'a> {
    pub doc: &'a [u8],
    pub at: usize,
    pub index: &'a mut Index,
}

impl Checker<'_> {
    /// The end of the value that starts here.
    pub fn value(mut self) -> Result<usize, JsonError> {
        let mut open = Bits::default();
        // The places in the index of the containers that are open, the outermost of them.
        let mut outer = [0; OUTER];
        loop {
            // Here a value must start.
            let start = self.at;
            match byte(self.doc, self.at) {
                b'"' => self.string()?,
                b'{' => {
                    self.at = blanks(self.doc, self.at + 1);
                    if byte(self.doc, self.at) == b'}' {
                        self.at += 1;
                    } else {
                        self.opened(&mut outer, &open, start);
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
                        self.opened(&mut outer, &open, start);
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
                        self.closed(&outer, &open);
                    }
                    (_, true) => return Err(self.error("expected `,` or `}`")),
                    (_, false) => return Err(self.error("expected `,` or `]`")),
                }
            }
        }
    }

    /// Notes where a container begins.
    fn opened(&mut self, outer: &mut [usize; OUTER], open: &Bits, start: usize) {
        if let Some(place) = outer.get_mut(open.len) {
            *place = self.index.long.len();
            self.index.long.push(Long { start, end: start, size: 0 });
        }
    }

    /// Notes where it ends, or forgets it: what a short one holds is short, so it stands last.
    fn closed(&mut self, outer: &[usize; OUTER], open: &Bits) {
        let Some(place) = outer.get(open.len).copied() else { return };
        let Some(long) = self.index.long.get_mut(place) else { return };
        if self.at - long.start < LONG {
            self.index.long.truncate(place);
        } else {
            long.end = self.at;
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
        let start = self.at;
        let checked = blocks::check(self.doc, start + 1).map_err(|fault| match fault {
            Fault::Control(at) => JsonError { at, what: "a raw control character inside a string" },
            Fault::Escape(at) => JsonError { at, what: "an escape that JSON does not have" },
            Fault::Unended => JsonError { at: self.doc.len(), what: "the text ends inside a string" },
        })?;
        self.at = checked.close + 1;
        if self.at - start >= LONG {
            self.index.long.push(Long { start, end: self.at, size: checked.size });
        }
        Ok(())
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
