//! A document's contents: from the first byte to the last, or some of them.

use std::io::{self, Read};
use std::ops::Range;

use super::Source;
use super::object::hash;
use crate::error::{Error, Result};

const CHUNK: usize = 256 * 1024;

impl Source {
    /// Gives the whole document to `take`, in pieces, unpacked where it is packed.
    ///
    /// # Errors
    /// What reading returns, a document that became shorter among it. [`Error::Broken`] for one that cannot be unpacked,
    /// [`Error::Refused`] for one that unpacks to too much; some of either was given out by then.
    pub fn each_chunk(&self, take: &mut dyn FnMut(&[u8])) -> Result<()> {
        self.try_each_chunk(&mut |chunk| {
            take(chunk);
            Ok(())
        })
    }

    /// The same, until `take` has had enough.
    ///
    /// # Errors
    /// What reading returns, and what `take` returns.
    pub fn try_each_chunk(&self, take: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let mut reader = self.contents()?;
        let mut guard = self.guard()?;
        let mut buffer = vec![0; CHUNK];
        loop {
            match reader.read(&mut buffer) {
                Ok(0) => {
                    guard.end();
                    return Ok(());
                }
                Ok(n) => {
                    let chunk = buffer.get(..n).unwrap_or_default();
                    guard.pass(&reader, chunk)?;
                    take(chunk)?;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(self.not_read(e)),
            }
        }
    }

    /// The hash of the whole document as it is stored.
    ///
    /// # Errors
    /// What reading returns.
    pub fn sha256(&self) -> Result<[u8; 32]> {
        hash(self.reader()).map(|(sha256, _)| sha256).map_err(Error::io(self.path(), "read it"))
    }

    /// The bytes of a range. Of a packed document, ranges that ascend are read in one pass.
    ///
    /// # Errors
    /// What reading returns, an end before that of the range among it.
    pub fn span(&self, span: Range<u64>) -> Result<Vec<u8>> {
        if let Some(packed) = self.packed() {
            return self.unpacked_span(packed, span);
        }
        let len = usize::try_from(span.end.saturating_sub(span.start)).unwrap_or(usize::MAX);
        let mut bytes = vec![0; len];
        self.read_at(span.start, &mut bytes)?;
        Ok(bytes)
    }

    /// The first bytes, at most so many: as far as they can be read.
    ///
    /// # Errors
    /// What reading returns.
    pub fn head(&self, most: usize) -> Result<Vec<u8>> {
        let mut head = Vec::new();
        match self.contents()?.take(most as u64).read_to_end(&mut head) {
            // What is broken is told by whoever reads all of it.
            Err(e) if self.packed().is_none() => Err(Error::io(self.path(), "read")(e)),
            _ => Ok(head),
        }
    }

    /// Where physical lines are, of numbers from 1 that ascend, without their newlines; those that are not there have none.
    ///
    /// # Errors
    /// What reading returns.
    pub fn lines(&self, wanted: &[u64]) -> Result<Vec<Option<Range<u64>>>> {
        let mut found = Vec::with_capacity(wanted.len());
        let (mut line, mut start, mut at) = (1, 0, 0_u64);
        let mut ends = |line, span: Range<u64>| {
            if wanted.get(found.len()) == Some(&line) {
                found.push(Some(span));
            }
        };
        self.each_chunk(&mut |chunk| {
            for n in memchr::memchr_iter(b'\n', chunk) {
                let newline = at + n as u64;
                ends(line, start..newline);
                (line, start) = (line + 1, newline + 1);
            }
            at += chunk.len() as u64;
        })?;
        ends(line, start..at);
        found.resize(wanted.len(), None);
        Ok(found)
    }

    /// The physical line and the byte column of an offset, both from 1.
    ///
    /// # Errors
    /// What reading returns.
    pub fn position(&self, offset: u64) -> Result<(u64, u64)> {
        let (mut line, mut start, mut at) = (1, 0, 0_u64);
        self.each_chunk(&mut |chunk| {
            for n in memchr::memchr_iter(b'\n', chunk) {
                let newline = at + n as u64;
                if newline < offset {
                    line += 1;
                    start = newline + 1;
                }
            }
            at += chunk.len() as u64;
        })?;
        Ok((line, offset - start + 1))
    }
}
