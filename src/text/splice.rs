//! Replacements of byte ranges: the only way to change a stream.
//!
//! Sorted and disjoint by construction, applied in one forward pass. What lies outside the ranges is copied as bytes.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, reason = "numbers from files and journals"))]

use std::io::{self, Read, Write};
use std::ops::Range;

/// One replacement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Splice {
    /// The stored bytes that go, as offsets in the old document.
    pub range: Range<u64>,
    /// The bytes that come instead.
    pub new: Vec<u8>,
}

impl Splice {
    /// How many bytes go.
    fn gone(&self) -> u64 {
        self.range.end.saturating_sub(self.range.start)
    }

    /// Only what differs: where the new bytes begin or end as the old ones do, these stay and are not replaced. So a text of
    /// which the start is kept is replaced by its marker alone. Returns how many bytes stay at the start and at the end.
    pub fn narrow(&mut self, old: &[u8]) -> (u64, u64) {
        let same = |pairs: &mut dyn Iterator<Item = (&u8, &u8)>| pairs.take_while(|(a, b)| a == b).count();
        let start = same(&mut old.iter().zip(&self.new));
        let most = old.len().min(self.new.len()).saturating_sub(start);
        let end = same(&mut old.iter().rev().zip(self.new.iter().rev()).take(most));
        self.new.truncate(self.new.len().saturating_sub(end));
        self.new.drain(..start);
        self.new.shrink_to_fit();
        let (start, end) = (start as u64, end as u64);
        self.range = self.range.start.saturating_add(start)..self.range.end.saturating_sub(end);
        (start, end)
    }
}

/// Replacements of one document, in order, none touching what another one touches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Splices {
    // Invariant: ranges ascend, are well-formed, and do not overlap. `new` is the only door.
    splices: Vec<Splice>,
}

/// Two replacements claim the same byte, or one ends before it starts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("two replacements claim byte {at}")]
pub struct Overlap {
    /// The first byte in dispute, as an offset in the old document.
    pub at: u64,
}

impl Splices {
    /// Sorts the replacements and refuses any two that overlap.
    pub fn new(mut splices: Vec<Splice>) -> Result<Self, Overlap> {
        splices.sort_by_key(|s| (s.range.start, s.range.end));
        let mut free = 0;
        for s in &splices {
            if s.range.start < free || s.range.end < s.range.start {
                return Err(Overlap { at: s.range.start });
            }
            free = s.range.end;
        }
        Ok(Splices { splices })
    }

    /// Whether there is nothing to replace.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.splices.is_empty()
    }

    /// The replacements, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Splice> {
        self.splices.iter()
    }

    /// The length of the new document, given that of the old one. `None` where a range lies beyond its end.
    #[must_use]
    pub fn new_len(&self, old_len: u64) -> Option<u64> {
        if self.splices.last().is_some_and(|s| s.range.end > old_len) {
            return None;
        }
        self.splices.iter().try_fold(old_len, |len, s| len.checked_sub(s.gone())?.checked_add(s.new.len() as u64))
    }

    /// Where a replacement's new bytes stand in the new document.
    pub fn new_ranges(&self) -> impl Iterator<Item = Range<u64>> {
        let mut shift = 0_i128;
        self.splices.iter().map(move |s| {
            // A range may lie anywhere: an undo takes it from the journal. Whether the document has it is for `new_len` to say.
            let start = i128::from(s.range.start).saturating_add(shift).try_into().unwrap_or(u64::MAX);
            let len = s.new.len() as u64;
            shift = shift.saturating_add_unsigned(len.into()).saturating_sub_unsigned(s.gone().into());
            start..start.saturating_add(len)
        })
    }

    /// Bytes of the new document, given a way to read the old one.
    ///
    /// # Errors
    /// What `read_old` returns.
    pub fn read_new<E>(
        &self,
        wanted: Range<u64>,
        read_old: &mut dyn FnMut(Range<u64>) -> Result<Vec<u8>, E>,
    ) -> Result<Vec<u8>, E> {
        let mut bytes = Vec::new();
        // How far the new document is given: its offset, and the old one's there.
        let (mut new_at, mut old_at) = (0, 0);
        let mut take = |piece: Range<u64>, old: Result<u64, &[u8]>| {
            let (from, to) = (piece.start.max(wanted.start), piece.end.min(wanted.end));
            if from < to {
                let (skip, len) = (from.saturating_sub(piece.start), to.saturating_sub(from));
                match old {
                    Ok(old) => {
                        let from = old.saturating_add(skip);
                        bytes.extend(read_old(from..from.saturating_add(len))?);
                    }
                    Err(new) => bytes.extend(new.iter().skip(index(skip)).take(index(len))),
                }
            }
            Ok(())
        };
        for splice in &self.splices {
            let start = u64::saturating_add(new_at, splice.range.start.saturating_sub(old_at));
            take(new_at..start, Ok(old_at))?;
            new_at = start.saturating_add(splice.new.len() as u64);
            take(start..new_at, Err(&splice.new))?;
            old_at = splice.range.end;
        }
        take(new_at..u64::MAX, Ok(old_at))?;
        Ok(bytes)
    }

    /// Copies the old document to `out` with the replacements made. Returns the bytes written.
    pub fn apply(&self, old: &mut dyn Skip, out: &mut dyn Write) -> io::Result<u64> {
        let mut new = self.reader(old);
        let mut buffer = vec![0; CHUNK];
        let mut written = 0;
        loop {
            let n = match new.read(&mut buffer) {
                Ok(0) => return Ok(written),
                Ok(n) => n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(e),
            };
            out.write_all(buffer.get(..n).unwrap_or_default())?;
            written = u64::saturating_add(written, n as u64);
        }
    }

    /// The new document as a reader over the old one.
    pub fn reader<'a>(&'a self, old: &'a mut dyn Skip) -> Spliced<'a> {
        Spliced { old, at: 0, rest: self.splices.iter(), next: None, started: false, inserted: 0 }
    }
}

const CHUNK: usize = 256 * 1024;

/// An offset into something that is in memory.
fn index(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

/// A reader that can pass over bytes without reading them: what a splice removes may be most of a document.
pub trait Skip: Read {
    /// Passes over so many bytes, or up to the end. Returns how many.
    ///
    /// # Errors
    /// What the reader returns.
    fn skip(&mut self, count: u64) -> io::Result<u64>;
}

impl Skip for &[u8] {
    fn skip(&mut self, count: u64) -> io::Result<u64> {
        let n = usize::try_from(count).unwrap_or(usize::MAX).min(self.len());
        *self = self.get(n..).unwrap_or_default();
        Ok(n as u64)
    }
}

/// See [`Splices::reader`].
pub struct Spliced<'a> {
    old: &'a mut dyn Skip,
    /// Offset in the old document that `old` stands at.
    at: u64,
    rest: std::slice::Iter<'a, Splice>,
    next: Option<&'a Splice>,
    started: bool,
    /// Bytes of `next.new` already given out; only once `at` has reached its range.
    inserted: usize,
}

impl Read for Spliced<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        if !self.started {
            self.started = true;
            self.next = self.rest.next();
        }
        while let Some(splice) = self.next {
            if self.at < splice.range.start {
                let room = index(splice.range.start.saturating_sub(self.at)).min(buffer.len());
                let n = self.old.read(buffer.get_mut(..room).unwrap_or_default())?;
                if n == 0 {
                    return Err(io::Error::new(
                        io::ErrorKind::UnexpectedEof,
                        "the document is shorter than when it was read",
                    ));
                }
                self.at = self.at.saturating_add(n as u64);
                return Ok(n);
            }
            let left = splice.new.get(self.inserted..).unwrap_or_default();
            if !left.is_empty() {
                let n = left.len().min(buffer.len());
                if let (Some(to), Some(from)) = (buffer.get_mut(..n), left.get(..n)) {
                    to.copy_from_slice(from);
                }
                self.inserted = self.inserted.saturating_add(n);
                return Ok(n);
            }
            let gone = splice.range.end.saturating_sub(self.at);
            let skipped = self.old.skip(gone)?;
            if skipped < gone {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "the document is shorter than when it was read",
                ));
            }
            self.at = splice.range.end;
            self.inserted = 0;
            self.next = self.rest.next();
        }
        let n = self.old.read(buffer)?;
        self.at = self.at.saturating_add(n as u64);
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn splice(range: Range<u64>, new: &str) -> Splice {
        Splice { range, new: new.into() }
    }

    #[test]
    fn overlaps_are_refused() {
        assert_eq!(Splices::new(vec![splice(3..5, ""), splice(4..6, "")]), Err(Overlap { at: 4 }));
        #[expect(clippy::reversed_empty_ranges, reason = "that is the case")]
        let backwards = splice(5..3, "");
        assert_eq!(Splices::new(vec![backwards]), Err(Overlap { at: 5 }));
        assert!(Splices::new(vec![splice(4..6, ""), splice(2..4, "")]).is_ok());
    }

    #[test]
    fn a_document_that_shrank_is_an_error() {
        let s = Splices::new(vec![splice(8..9, "x")]).unwrap();
        assert_eq!(s.new_len(8), None);
        assert_eq!(s.apply(&mut &b"12345678"[..], &mut Vec::new()).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        let s = Splices::new(vec![splice(5..7, "x")]).unwrap();
        assert_eq!(s.apply(&mut &b"123456"[..], &mut Vec::new()).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    proptest! {
        /// Everything outside the ranges is identical, and every new text stands where `new_ranges` says.
        #[test]
        fn outside_identical(old in prop::collection::vec(any::<u8>(), 0..200), cuts in prop::collection::vec((0_u64..20, 0_u64..20, prop::collection::vec(any::<u8>(), 0..9)), 0..6)) {
            let mut at = 0;
            let mut splices = Vec::new();
            for (gap, len, new) in cuts {
                let range = at + gap..at + gap + len;
                at = range.end;
                if at > old.len() as u64 { break; }
                splices.push(Splice { range, new });
            }
            let mut expected = Vec::new();
            let mut from = 0;
            for s in &splices {
                expected.extend_from_slice(&old[from..s.range.start as usize]);
                expected.extend_from_slice(&s.new);
                from = s.range.end as usize;
            }
            expected.extend_from_slice(&old[from..]);
            let all = Splices::new(splices).unwrap();
            let mut out = Vec::new();
            let n = all.apply(&mut &old[..], &mut out).unwrap();
            prop_assert_eq!(&out, &expected);
            prop_assert_eq!(Some(n), all.new_len(old.len() as u64));
            let mut part = |r: Range<u64>| Ok::<_, ()>(old[r.start as usize..r.end as usize].to_vec());
            let (from, to) = (n / 3, n - n / 4);
            prop_assert_eq!(all.read_new(from..to, &mut part).unwrap(), &out[from as usize..to as usize]);
            // Narrowed, they come to the same.
            let mut stays = Vec::new();
            let narrow = all.iter().map(|s| {
                let mut narrow = s.clone();
                stays.push(narrow.narrow(&old[s.range.start as usize..s.range.end as usize]));
                narrow
            });
            let narrow = Splices::new(narrow.collect()).unwrap();
            let mut same = Vec::new();
            narrow.apply(&mut &old[..], &mut same).unwrap();
            prop_assert_eq!(&same, &out);
            for ((r, (before, after)), whole) in narrow.new_ranges().zip(stays).zip(all.new_ranges()) {
                prop_assert_eq!(r.start - before..r.end + after, whole);
            }
            for (s, r) in all.iter().zip(all.new_ranges()) {
                prop_assert_eq!(&out[r.start as usize..r.end as usize], &s.new[..]);
            }
        }
    }
}
