//! A document from its first byte to its last.

use std::io::{self, Read};

use sha2::{Digest, Sha256};

use super::Source;
use crate::error::{Error, Result};

const CHUNK: usize = 256 * 1024;

impl Source {
    /// Gives the whole document to `take`, in pieces.
    ///
    /// # Errors
    /// What reading returns, a document that became shorter among it.
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
        let mut reader = self.reader();
        let mut buffer = vec![0; CHUNK];
        loop {
            match reader.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(n) => take(buffer.get(..n).unwrap_or_default())?,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(Error::io(self.path(), "read it")(e)),
            }
        }
    }

    /// The hash of the whole document.
    ///
    /// # Errors
    /// What reading returns.
    pub fn sha256(&self) -> Result<[u8; 32]> {
        let mut hasher = Sha256::new();
        self.each_chunk(&mut |chunk| hasher.update(chunk))?;
        Ok(hasher.finalize().into())
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
