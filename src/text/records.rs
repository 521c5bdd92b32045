//! A document as records: pushed in as it is read, handed out whole.
//!
//! Memory is bounded by the largest record: a line that lies within one pushed chunk is not even copied. A record may be at
//! most as long as whoever reads allows, so that no file can ask for all the memory there is.

/// How a document is divided into records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// The whole document is one record.
    Document,
    /// Each line is one. A last line without a newline is one too.
    Lines,
}

/// One record of a stream, while it is in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// Offset of its first byte in the document.
    pub offset: u64,
    /// Its physical line, from 1.
    pub line: u64,
    /// Its number, from 0.
    pub index: u64,
    /// Its bytes, without the newline that ends a line.
    pub bytes: &'a [u8],
    /// Whether a newline ended it: a last line without one may be torn.
    pub ended: bool,
}

/// A record that cannot be held in memory whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TooLong {
    /// It is longer than was allowed.
    #[error("longer than {most} bytes")]
    Limit {
        /// The physical line it starts at.
        line: u64,
        /// What was allowed.
        most: u64,
    },
    /// The system has no memory for it.
    #[error("no memory for more than {len} bytes of it")]
    Memory {
        /// The physical line it starts at.
        line: u64,
        /// What had been read of it.
        len: u64,
    },
}

/// Divides a document.
#[derive(Debug)]
pub struct Splitter {
    framing: Framing,
    /// The longest record.
    most: u64,
    /// What has come of a record that is not whole yet.
    open: Vec<u8>,
    offset: u64,
    index: u64,
}

impl Splitter {
    /// For a document of this framing, with records of at most so many bytes.
    #[must_use]
    pub fn new(framing: Framing, most: u64) -> Self {
        Splitter { framing, most, open: Vec::new(), offset: 0, index: 0 }
    }

    /// Takes the next bytes of the document, and hands out the records that end in them.
    ///
    /// # Errors
    /// A record that is too long. Nothing more can be pushed then.
    pub fn push(&mut self, mut bytes: &[u8], record: &mut dyn FnMut(&Record<'_>)) -> Result<(), TooLong> {
        if self.framing == Framing::Lines {
            while let Some(n) = memchr::memchr(b'\n', bytes) {
                let (line, rest) = bytes.split_at(n);
                if self.open.is_empty() {
                    self.hand(line, true, record);
                } else {
                    self.extend(line)?;
                    let whole = std::mem::take(&mut self.open);
                    self.hand(&whole, true, record);
                }
                bytes = rest.get(1..).unwrap_or_default();
            }
        }
        self.extend(bytes)
    }

    fn extend(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        let (line, len) = (self.index + 1, self.open.len() as u64);
        if len + bytes.len() as u64 > self.most {
            return Err(TooLong::Limit { line, most: self.most });
        }
        // Memory that cannot be had is an error, not the end of the process.
        self.open.try_reserve(bytes.len()).map_err(|_| TooLong::Memory { line, len })?;
        self.open.extend_from_slice(bytes);
        Ok(())
    }

    /// The document has ended. A document that is one record is that even where it is empty.
    pub fn finish(mut self, record: &mut dyn FnMut(&Record<'_>)) {
        if self.framing == Framing::Document || !self.open.is_empty() {
            let last = std::mem::take(&mut self.open);
            self.hand(&last, false, record);
        }
    }

    fn hand(&mut self, bytes: &[u8], ended: bool, record: &mut dyn FnMut(&Record<'_>)) {
        // A record a line, so its number gives its line.
        record(&Record { offset: self.offset, line: self.index + 1, index: self.index, bytes, ended });
        self.offset += bytes.len() as u64 + 1;
        self.index += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn split(framing: Framing, chunks: &[&[u8]]) -> Vec<(u64, u64, Vec<u8>, bool)> {
        let mut out = Vec::new();
        let mut splitter = Splitter::new(framing, u64::MAX);
        let mut take = |r: &Record<'_>| out.push((r.offset, r.line, r.bytes.to_vec(), r.ended));
        for chunk in chunks {
            splitter.push(chunk, &mut take).unwrap();
        }
        splitter.finish(&mut take);
        out
    }

    #[test]
    fn lines() {
        assert_eq!(
            split(Framing::Lines, &[b"a\n\nb", b"c"]),
            [(0, 1, b"a".to_vec(), true), (2, 2, vec![], true), (3, 3, b"bc".to_vec(), false)]
        );
        assert_eq!(split(Framing::Lines, &[b"a\n"]), [(0, 1, b"a".to_vec(), true)]);
        assert_eq!(split(Framing::Lines, &[]), []);
        assert_eq!(split(Framing::Document, &[b"a\n", b"b"]), [(0, 1, b"a\nb".to_vec(), false)]);
        assert_eq!(split(Framing::Document, &[]), [(0, 1, vec![], false)]);
    }

    #[test]
    fn a_record_may_be_as_long_as_is_allowed() {
        for (doc, fits) in [("abc\nabc", true), ("abc\nabcd\n", false), ("abcd", false)] {
            let mut splitter = Splitter::new(Framing::Lines, 3);
            let pushed = doc.bytes().try_for_each(|b| splitter.push(&[b], &mut |_| {}));
            let line = if doc.starts_with("abc\n") { 2 } else { 1 };
            assert_eq!(pushed, if fits { Ok(()) } else { Err(TooLong::Limit { line, most: 3 }) }, "{doc:?}");
        }
        assert!(Splitter::new(Framing::Document, 3).push(b"a\nbc", &mut |_| {}).is_err());
    }

    proptest! {
        /// However the document is chunked, the records are its lines.
        #[test]
        fn chunks_do_not_matter(doc in "[ab\n]{0,40}", cuts in prop::collection::vec(0_usize..40, 0..5)) {
            let mut at: Vec<usize> = cuts.into_iter().filter(|c| *c <= doc.len()).collect();
            at.extend([0, doc.len()]);
            at.sort_unstable();
            let chunks: Vec<&[u8]> = at.windows(2).map(|w| &doc.as_bytes()[w[0]..w[1]]).collect();
            let got = split(Framing::Lines, &chunks);
            prop_assert_eq!(&got, &split(Framing::Lines, &[doc.as_bytes()]));
            for (offset, _, bytes, ended) in got {
                let end = offset as usize + bytes.len();
                prop_assert_eq!(&doc.as_bytes()[offset as usize..end], &bytes[..]);
                prop_assert_eq!(doc.as_bytes().get(end) == Some(&b'\n'), ended);
            }
        }
    }
}
