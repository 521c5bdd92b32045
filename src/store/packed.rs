//! Documents that are stored as a Zstandard stream, read and written as what they unpack to.
//!
//! Nothing is unpacked onto the disk, and nothing is kept of what went by: whoever reads gets a decoder of his own, and texts
//! that are asked for in the order they stand in come from one pass. A stream may have several frames and skippable ones; what
//! is written has one frame, with a checksum and a size in its header where the first frame of the old one has them.

use std::io::{self, Read};
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::file::{Source, SourceReader};
use super::frames::{Contents, Frame, MOST, TooLarge, Unpacked, skippable};
use super::sys;
use crate::error::{Error, Result};
use crate::text::splice::Skip;

/// The longest line of what it unpacks to, for a line is held in memory.
pub(super) const LONGEST: u64 = 512 << 20;
/// From here on, what unpacks to [`RATIO`] times the stored bytes it came from is unpacked to the end before more is made of it.
const SUSPICIOUS: u64 = 64 << 20;
const RATIO: u64 = 32;
const CHUNK: usize = 256 * 1024;

/// What an open document keeps if it is stored as a Zstandard stream.
#[derive(Default)]
pub(super) struct Packed {
    /// How many bytes it unpacks to, once that is known.
    len: OnceLock<u64>,
    /// Where the last text was read, for the next one.
    cursor: Mutex<Option<Unpacked<Stored>>>,
}

impl std::fmt::Debug for Packed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Packed").field("len", &self.len).finish_non_exhaustive()
    }
}

impl Source {
    /// Its bytes as they are to be understood: unpacked where they are stored as a Zstandard stream.
    ///
    /// # Errors
    /// No memory for a decoder.
    pub fn contents(&self) -> Result<Contents<'_>> {
        match self.packed() {
            None => Ok(Contents::Plain(self.reader())),
            Some(_) => Ok(Contents::Packed(Box::new(self.unpack(self.reader())?))),
        }
    }

    /// The number of those bytes.
    ///
    /// # Errors
    /// What reading returns, where that has not been read yet.
    pub fn contents_len(&self) -> Result<u64> {
        match self.packed() {
            None => Ok(self.stamp().size),
            Some(packed) => match packed.len.get() {
                Some(len) => Ok(*len),
                None => self.measure(),
            },
        }
    }

    /// Says how many bytes it unpacks to: where it was read before, and is the same.
    pub fn assume_len(&self, len: u64) {
        if let Some(packed) = self.packed() {
            let _ = packed.len.set(len);
        }
    }

    /// Unpacks all of it and keeps nothing.
    fn measure(&self) -> Result<u64> {
        let mut reader = self.contents()?;
        let all = reader.skip(u64::MAX).map_err(|e| self.not_read(e))?;
        self.assume_len(all);
        Ok(all)
    }

    /// Watches over what a packed document unpacks to, while it is given out in pieces.
    pub(super) fn guard(&self) -> Result<Guard<'_>> {
        if self.packed().is_some() && self.frame()?.size.is_some_and(|size| size > MOST) {
            return Err(self.too_large());
        }
        Ok(Guard { source: self, at: 0, line: 0, sound: self.packed().is_none() })
    }

    /// Unpacked bytes of a range. Ranges that ascend are read in one pass.
    pub(super) fn unpacked_span(&self, packed: &Packed, span: Range<u64>) -> Result<Vec<u8>> {
        let mut slot = packed.cursor.lock().unwrap_or_else(PoisonError::into_inner);
        let mut cursor = match slot.take().filter(|cursor| cursor.at() <= span.start) {
            Some(cursor) => cursor,
            None => self.unpack(Stored { file: self.shared_file(), at: 0, end: self.stamp().size })?,
        };
        let len = span.end.saturating_sub(span.start);
        let mut bytes = Vec::new();
        let mut read = || {
            cursor.skip(span.start - cursor.at())?;
            cursor.by_ref().take(len).read_to_end(&mut bytes)
        };
        read().map_err(|e| self.not_read(e))?;
        if bytes.len() as u64 != len {
            return Err(self.changed("changed"));
        }
        *slot = Some(cursor);
        Ok(bytes)
    }

    pub(super) fn unpack<R: Read>(&self, stored: R) -> Result<Unpacked<R>> {
        Unpacked::new(stored).map_err(Error::io(self.path(), "unpack"))
    }

    /// What a failure to read means.
    pub(super) fn not_read(&self, e: io::Error) -> Error {
        if self.packed().is_none() || e.raw_os_error().is_some() {
            return Error::io(self.path(), "read it")(e);
        }
        if e.get_ref().is_some_and(|inner| inner.is::<TooLarge>()) {
            return self.too_large();
        }
        // A file that is being written looks torn.
        if sys::stamp(self.file()).is_ok_and(|now| now.size != self.stamp().size) {
            return self.changed("changed");
        }
        let what = if e.kind() == io::ErrorKind::UnexpectedEof {
            "the compressed data is torn: the file ends inside of a frame".into()
        } else {
            format!("the compressed data is damaged ({e})")
        };
        let (line, column) = self.sound_up_to();
        let what = format!("{what}; what comes before this place can be unpacked");
        Error::Broken { path: self.path().to_owned(), line, column, what }
    }

    /// The line and column behind the last byte that can be unpacked.
    fn sound_up_to(&self) -> (u64, u64) {
        let (mut line, mut column) = (1, 1);
        let Ok(mut reader) = self.contents() else { return (line, column) };
        let mut buffer = vec![0; CHUNK];
        while let Ok(n @ 1..) = reader.read(&mut buffer) {
            let bytes = buffer.get(..n).unwrap_or_default();
            line += memchr::memchr_iter(b'\n', bytes).count() as u64;
            column = match memchr::memrchr(b'\n', bytes) {
                Some(at) => (n - at) as u64,
                None => column + n as u64,
            };
        }
        (line, column)
    }

    fn too_large(&self) -> Error {
        let why = format!(
            "it unpacks to more than {} bytes, and may have been made to fill a memory or a disk; it was left alone. If it is \
             sound, unpack it by hand and name the result",
            MOST
        );
        Error::Refused { path: self.path().to_owned(), why }
    }

    /// The header of the first frame that is not to be skipped; nothing of it where there is none.
    pub(super) fn frame(&self) -> Result<Frame> {
        let mut at = 0;
        loop {
            let mut head = Vec::new();
            let end = self.stamp().size;
            let mut reader = SourceReader::of(self.file(), at..end).take(18);
            reader.read_to_end(&mut head).map_err(Error::io(self.path(), "read"))?;
            match skippable(&head) {
                Some(len) if at + len < end => at += len,
                _ => return Ok(Frame::of(&head)),
            }
        }
    }
}

/// See [`Source::guard`].
pub(super) struct Guard<'a> {
    source: &'a Source,
    at: u64,
    line: u64,
    /// Whether nothing more has to be known.
    sound: bool,
}

impl Guard<'_> {
    /// Comes before a piece is given out.
    pub(super) fn pass(&mut self, reader: &Contents<'_>, bytes: &[u8]) -> Result<()> {
        let Some(packed) = self.source.packed() else { return Ok(()) };
        self.at += bytes.len() as u64;
        if !self.sound && self.at > SUSPICIOUS && self.at / RATIO > reader.stored() {
            if packed.len.get().is_none() {
                self.source.measure()?;
            }
            self.sound = true;
        }
        self.line = match memchr::memrchr(b'\n', bytes) {
            Some(at) => (bytes.len() - at) as u64,
            None => self.line + bytes.len() as u64,
        };
        if self.line > LONGEST {
            let why = format!("it unpacks to a line of more than {LONGEST} bytes; it was left alone");
            return Err(Error::Refused { path: self.source.path().to_owned(), why });
        }
        Ok(())
    }

    /// All was given out.
    pub(super) fn end(self) {
        self.source.assume_len(self.at);
    }
}

/// The stored bytes, for a reader that lives as long as it likes.
struct Stored {
    file: Arc<std::fs::File>,
    at: u64,
    end: u64,
}

impl Read for Stored {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = SourceReader::of(&self.file, self.at..self.end).read(buffer)?;
        self.at += n as u64;
        Ok(n)
    }
}
