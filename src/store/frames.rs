//! Zstandard frames as readers: unpacking, packing, and reading back what was packed.

use std::io::{self, BufReader, Read, Write};

use sha2::{Digest, Sha256};
use zstd::stream::read::{Decoder, Encoder};

use super::Change;
use super::file::{Source, SourceReader};
use crate::error::{Error, Result};
use crate::text::splice::Skip;
use crate::verify::Written;

/// The most bytes that a document may unpack to. A few bytes can stand for terabytes.
pub(super) const MOST: u64 = 4 << 30;
/// The largest window, as a power of two: what every decoder takes that was not told otherwise. It is held in memory.
const WINDOW: u32 = 27;
/// What Codex compresses with.
const LEVEL: i32 = 3;
const CHUNK: usize = 256 * 1024;

/// See [`Source::contents`].
pub enum Contents<'a> {
    /// The stored bytes are the contents.
    Plain(SourceReader<'a>),
    /// They are packed.
    Packed(Box<Unpacked<SourceReader<'a>>>),
}

impl Contents<'_> {
    /// How many stored bytes were read.
    pub(super) fn stored(&self) -> u64 {
        match self {
            Contents::Plain(reader) => reader.at(),
            Contents::Packed(reader) => reader.decoder.get_ref().get_ref().at(),
        }
    }
}

impl Read for Contents<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Contents::Plain(reader) => reader.read(buffer),
            Contents::Packed(reader) => reader.read(buffer),
        }
    }
}

impl Skip for Contents<'_> {
    fn skip(&mut self, count: u64) -> io::Result<u64> {
        match self {
            Contents::Plain(reader) => reader.skip(count),
            Contents::Packed(reader) => reader.skip(count),
        }
    }
}

/// Unpacks what it reads, up to [`MOST`] bytes.
pub struct Unpacked<R: Read> {
    decoder: Decoder<'static, BufReader<R>>,
    at: u64,
}

/// The bound was reached.
#[derive(Debug, thiserror::Error)]
#[error("it unpacks to more than {MOST} bytes")]
pub(super) struct TooLarge;

impl<R: Read> Unpacked<R> {
    pub(super) fn new(stored: R) -> io::Result<Self> {
        let mut decoder = Decoder::new(stored)?;
        decoder.window_log_max(WINDOW)?;
        Ok(Unpacked { decoder, at: 0 })
    }

    /// How many bytes it has given out.
    pub(super) fn at(&self) -> u64 {
        self.at
    }
}

impl<R: Read> Read for Unpacked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.decoder.read(buffer)?;
        self.at += n as u64;
        if self.at > MOST { Err(io::Error::other(TooLarge)) } else { Ok(n) }
    }
}

impl<R: Read> Skip for Unpacked<R> {
    fn skip(&mut self, count: u64) -> io::Result<u64> {
        let from = self.at;
        let mut buffer = vec![0; usize::try_from(count).unwrap_or(CHUNK).min(CHUNK)];
        while self.at - from < count {
            let room = usize::try_from(count - (self.at - from)).unwrap_or(CHUNK).min(CHUNK);
            match self.read(buffer.get_mut(..room).unwrap_or_default()) {
                Ok(0) => break,
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(self.at - from)
    }
}

/// The stored bytes that a change comes to. `old` is the document's contents.
pub(super) fn stored<'r>(change: &'r Change<'_>, old: &'r mut dyn Skip) -> Result<Box<dyn Read + 'r>> {
    let source = change.source;
    if let Some(whole) = change.whole {
        return Ok(Box::new(whole.reader()));
    }
    let new = change.splices.reader(old);
    if source.packed().is_none() {
        return Ok(Box::new(new));
    }
    let frame = source.frame()?;
    let len = change.splices.new_len(source.contents_len()?).ok_or_else(|| source.changed("changed"))?;
    let pack = || -> io::Result<_> {
        let mut encoder = Encoder::with_buffer(BufReader::with_capacity(CHUNK, new), LEVEL)?;
        encoder.include_checksum(frame.checksum)?;
        encoder.include_contentsize(frame.size.is_some())?;
        encoder.set_pledged_src_size(frame.size.map(|_| len))?;
        Ok(encoder)
    };
    Ok(Box::new(pack().map_err(Error::io(source.path(), "compress"))?))
}

/// Copies all of it. Every piece is as large as those that are hashed beforehand.
pub(super) fn copy(from: &mut dyn Read, to: &mut dyn Write) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(n) => to.write_all(buffer.get(..n).unwrap_or_default())?,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}

/// Reads a new document for its proof: what its stored bytes unpack to, and their hash as they go by.
pub(super) enum ReadBack<R: Read> {
    Plain(R),
    Packed(Box<Unpacked<Hashed<R>>>),
}

impl<R: Read> ReadBack<R> {
    /// The stored bytes of a new document in the place of `source`.
    pub(super) fn of(source: &Source, stored: R) -> Result<Self> {
        match source.packed() {
            None => Ok(ReadBack::Plain(stored)),
            Some(_) => Ok(ReadBack::Packed(Box::new(source.unpack(Hashed { stored, hash: Sha256::new(), len: 0 })?))),
        }
    }
}

impl<R: Read> Read for ReadBack<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            ReadBack::Plain(reader) => reader.read(buffer),
            ReadBack::Packed(reader) => reader.read(buffer),
        }
    }
}

impl<R: Read> Written for ReadBack<R> {
    fn stored(&self) -> Option<([u8; 32], u64)> {
        match self {
            ReadBack::Plain(_) => None,
            ReadBack::Packed(reader) => {
                let read = reader.decoder.get_ref().get_ref();
                Some((read.hash.clone().finalize().into(), read.len))
            }
        }
    }
}

/// Hashes what it reads.
pub(super) struct Hashed<R> {
    stored: R,
    hash: Sha256,
    len: u64,
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.stored.read(buffer)?;
        self.hash.update(buffer.get(..n).unwrap_or_default());
        self.len += n as u64;
        Ok(n)
    }
}

/// What the header of a frame says (RFC 8878, 3.1.1.1).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Frame {
    checksum: bool,
    /// The number of bytes it unpacks to, where it says so.
    pub(super) size: Option<u64>,
}

impl Frame {
    pub(super) fn of(head: &[u8]) -> Self {
        let (Some(b"\x28\xb5\x2f\xfd"), Some(flags)) = (head.get(..4), head.get(4)) else { return Frame::default() };
        let single = flags & 0x20 != 0;
        let window = usize::from(!single);
        let dictionary = [0, 1, 2, 4].get(usize::from(flags & 3)).copied().unwrap_or(0);
        let width = match flags >> 6 {
            0 if single => 1,
            0 => 0,
            n => 1 << n,
        };
        let field = head.get(5 + window + dictionary..).and_then(|rest| rest.get(..width)).filter(|f| !f.is_empty());
        let size = field.map(|field| {
            let value = field.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
            // Two bytes count from 256.
            if width == 2 { value + 256 } else { value }
        });
        Frame { checksum: flags & 4 != 0, size }
    }
}

/// The length of a skippable frame, its header included.
pub(super) fn skippable(head: &[u8]) -> Option<u64> {
    let (magic, size) = (head.get(..4)?, head.get(4..8)?);
    let (low, rest) = magic.split_first()?;
    let size = size.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    (low & 0xf0 == 0x50 && rest == b"\x2a\x4d\x18").then_some(8 + size)
}
