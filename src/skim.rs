//! Whether a stream of lines can hold anything over a limit, told without reading most of it.
//!
//! Decoded text is never longer than its stored line, so a line no longer than every threshold holds nothing over one.
//! That no line is longer is shown without looking at each byte: from the start of a line, look at the next T bytes from
//! their end backwards. The last newline there is one that every line starting before it ends at or before; go on behind
//! it. Where there is none, the line is longer than T. This holds for any bytes.
//!
//! For batches, a *seam* is a record that ends the batches before it: in an agent's well-formed stream the results of one
//! assistant message all stand before the next message's. Where two seams of different messages are never further apart
//! than half the ceiling, the results of any one message lie between its neighbours' seams, and so within the ceiling.
//!
//! The answer is either "nothing is over a limit" or "read it": never a finding.

use crate::error::Result;

/// How a format shows its seams.
pub trait Seams {
    /// Bytes that every seam holds.
    fn needle(&self) -> &[u8];
    /// The key of the assistant message, where the record is a seam. Different messages have different keys.
    fn seam(&self, record: &[u8]) -> Option<u64>;
}

/// Where stored bytes come from.
pub trait Bytes {
    /// The length of the document.
    fn size(&self) -> u64;
    /// Fills the buffer from this offset.
    ///
    /// # Errors
    /// What reading returns, an end before the buffer is full among it.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()>;
}

/// Whether nothing in a stream of lines can be over a threshold of `smallest` or a batch over `ceiling` (`None`: no limit).
///
/// # Errors
/// What reading returns.
pub fn nothing_over(
    bytes: &dyn Bytes,
    seams: Option<&dyn Seams>,
    smallest: Option<u64>,
    ceiling: Option<u64>,
) -> Result<bool> {
    let len = bytes.size();
    let mut seen = Seen::new(bytes);
    let ceiling = ceiling.filter(|c| *c < len);
    // Seams that come into sight while lines are looked at: most are then known without reading more.
    let mut known = Known { seams: seams.filter(|_| ceiling.is_some()), found: Vec::new() };
    if let Some(threshold) = smallest.filter(|t| *t < len)
        && !lines_within(&mut seen, threshold, &mut known)?
    {
        return Ok(false);
    }
    match (ceiling, seams) {
        (None, _) => Ok(true),
        (Some(_), None) => Ok(false),
        (Some(ceiling), Some(seams)) => seams_within(&mut seen, seams, ceiling / 2, &known.found),
    }
}

/// Seams by offset, as they were come upon.
struct Known<'a> {
    seams: Option<&'a dyn Seams>,
    found: Vec<(u64, u64)>,
}

impl Known<'_> {
    /// Looks for the last seam among the whole lines of a stretch that begins at `start`, which may be inside of a line.
    fn look(&mut self, start: u64, stretch: &[u8]) {
        let Some(seams) = self.seams else { return };
        let hit = memchr::memmem::find_iter(stretch, seams.needle()).last();
        let before = hit.and_then(|hit| memchr::memrchr(b'\n', stretch.get(..hit)?));
        let Some(line) = before.and_then(|newline| stretch.get(newline + 1..)) else { return };
        let at = start + (stretch.len() - line.len()) as u64;
        let whole = memchr::memchr(b'\n', line).and_then(|end| line.get(..end));
        self.found.extend(whole.and_then(|line| Some((at, seams.seam(line)?))));
    }
}

/// The blocks that are read backwards, in bytes: small at first, for the end of a line is near where lines are short.
const BLOCK: u64 = 8 * 1024;
/// The largest block.
const LARGEST: u64 = 64 * 1024;

/// Whether no line is longer than `most`.
fn lines_within(seen: &mut Seen<'_>, most: u64, known: &mut Known<'_>) -> Result<bool> {
    let len = seen.bytes.size();
    let mut start = 0;
    // What is left once the rest is no longer than a line may be needs no look.
    while len - start > most {
        let end = (start + most + 1).min(len);
        seen.before(end);
        match seen.rfind(start, end, 1, &mut |block| memchr::memrchr(b'\n', block))? {
            Some(newline) => start = newline + 1,
            None => return Ok(false),
        }
        known.look(seen.start, seen.from(seen.start));
    }
    Ok(true)
}

/// Whether seams of different messages stand no further apart than `most`.
fn seams_within(seen: &mut Seen<'_>, seams: &dyn Seams, most: u64, known: &[(u64, u64)]) -> Result<bool> {
    let len = seen.bytes.size();
    let (mut at, mut key) = (0, None);
    while len - at > most {
        let near = known.get(..known.partition_point(|(seam, _)| *seam <= at + most)).unwrap_or_default();
        let next = near.iter().rfind(|(_, its)| Some(*its) != key).copied().filter(|(seam, _)| *seam > at);
        let next = match next {
            Some(next) => Some(next),
            None => last_seam(seen, seams, at, at + most, key)?,
        };
        match next {
            Some((next, its)) => (at, key) = (next, Some(its)),
            None => return Ok(false),
        }
    }
    Ok(true)
}

/// The last seam of another message than `not` whose line starts behind `start` and ends before `end`.
fn last_seam(
    seen: &mut Seen<'_>,
    seams: &dyn Seams,
    start: u64,
    end: u64,
    not: Option<u64>,
) -> Result<Option<(u64, u64)>> {
    let needle = seams.needle();
    // Forwards, of which there is a fast way.
    let finder = memchr::memmem::Finder::new(needle);
    seen.before(end);
    let mut upper = end;
    loop {
        let Some(hit) = seen.rfind(start, upper, needle.len(), &mut |block| finder.find_iter(block).last())? else {
            return Ok(None);
        };
        // A line that began at or before `start` is the seam we come from, or not whole.
        let newline = seen.rfind(start, hit, 1, &mut |block| memchr::memrchr(b'\n', block))?;
        let Some(line_start) = newline.map(|n| n + 1) else { return Ok(None) };
        let line = seen.from(line_start);
        if let Some(line_end) = memchr::memchr(b'\n', line)
            && let Some(key) = seams.seam(line.get(..line_end).unwrap_or_default())
            && Some(key) != not
        {
            return Ok(Some((line_start, key)));
        }
        upper = line_start;
    }
}

/// The end of a stretch of the document, as far back as it was read. Nothing is read twice.
struct Seen<'a> {
    bytes: &'a dyn Bytes,
    /// The offset of the first byte that was read.
    start: u64,
    /// Filled from its end backwards, and used again for the next stretch.
    buffer: Vec<u8>,
    /// Where in the buffer that byte is.
    first: usize,
    block: u64,
}

impl<'a> Seen<'a> {
    fn new(bytes: &'a dyn Bytes) -> Self {
        Seen { bytes, start: 0, buffer: Vec::new(), first: 0, block: BLOCK }
    }

    /// Nothing yet of what lies before this offset.
    fn before(&mut self, end: u64) {
        self.start = end;
        self.first = self.buffer.len();
        self.block = BLOCK;
    }

    /// What was read from this offset on.
    fn from(&self, offset: u64) -> &[u8] {
        let data = self.buffer.get(self.first..).unwrap_or_default();
        usize::try_from(offset.saturating_sub(self.start)).ok().and_then(|n| data.get(n..)).unwrap_or_default()
    }

    /// The last place in `floor..limit` where `find` sees something of `width` bytes.
    fn rfind(
        &mut self,
        floor: u64,
        limit: u64,
        width: usize,
        find: &mut dyn FnMut(&[u8]) -> Option<usize>,
    ) -> Result<Option<u64>> {
        let mut upper = limit;
        loop {
            let from = self.start.max(floor);
            let known = self.from(from);
            let stretch = usize::try_from(upper.saturating_sub(from)).unwrap_or(0).min(known.len());
            if let Some(at) = find(known.get(..stretch).unwrap_or_default()) {
                return Ok(Some(from + at as u64));
            }
            if self.start <= floor {
                return Ok(None);
            }
            // What straddles the edge of what was read is seen with the next block.
            upper = limit.min(from + width as u64 - 1);
            self.extend(floor)?;
        }
    }

    fn extend(&mut self, floor: u64) -> Result<()> {
        let lower = self.start.saturating_sub(self.block).max(floor);
        let count = usize::try_from(self.start - lower).unwrap_or(0);
        if count > self.first {
            let data = self.buffer.split_off(self.first);
            let room = (data.len() + count).next_power_of_two();
            self.buffer = vec![0; room];
            self.buffer.extend_from_slice(&data);
            self.first = room;
        }
        let first = self.first - count;
        self.bytes.read_at(lower, self.buffer.get_mut(first..self.first).unwrap_or_default())?;
        (self.first, self.start) = (first, lower);
        // Slowly: what is read too far is read for nothing.
        self.block = (self.block + self.block / 2).min(LARGEST);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    struct Slice<'a>(&'a [u8]);

    impl Bytes for Slice<'_> {
        fn size(&self) -> u64 {
            self.0.len() as u64
        }
        fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
            let offset = offset as usize;
            buffer.copy_from_slice(&self.0[offset..offset + buffer.len()]);
            Ok(())
        }
    }

    /// Lines `A<key>` are seams, lines of anything else count for the key before them.
    struct Letters;

    impl Seams for Letters {
        fn needle(&self) -> &[u8] {
            b"A"
        }
        fn seam(&self, record: &[u8]) -> Option<u64> {
            record.strip_prefix(b"A").and_then(|rest| rest.first()).map(|b| u64::from(*b))
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        /// Exactly the lines that are too long are seen, in any bytes.
        #[test]
        fn lines_are_exact(doc in prop::collection::vec(prop_oneof![8 => Just(b'x'), 1 => Just(b'\n'), 1 => any::<u8>()], 0..3000), most in 1_u64..300) {
            let longest = doc.split(|b| *b == b'\n').map(<[u8]>::len).max().unwrap_or(0) as u64;
            let mut none = Known { seams: None, found: Vec::new() };
            let slice = Slice(&doc);
            prop_assert_eq!(lines_within(&mut Seen::new(&slice), most, &mut none).unwrap(), longest <= most);
        }

        /// Where it says that nothing is over, no message's lines together are over the ceiling.
        #[test]
        fn seams_never_miss(messages in prop::collection::vec((0_usize..3, prop::collection::vec(0_usize..120, 0..6)), 0..60), ceiling in 64_u64..2000, smallest in prop::option::of(130_u64..400)) {
            let mut doc = Vec::new();
            let mut sums: Vec<u64> = Vec::new();
            for (number, (repeats, results)) in messages.iter().enumerate() {
                // One message may take several lines, its results among them.
                let mut sum = 0;
                for _ in 0..=*repeats {
                    doc.extend_from_slice(&[b'A', b'a' + (number % 25) as u8, b'\n']);
                    for size in results {
                        doc.extend(std::iter::repeat_n(b'r', *size));
                        doc.push(b'\n');
                        sum += *size as u64;
                    }
                }
                sums.push(sum);
            }
            let said = nothing_over(&Slice(&doc), Some(&Letters), smallest, Some(ceiling)).unwrap();
            prop_assert!(!said || sums.iter().all(|s| *s <= ceiling), "{:?} over {}", sums, ceiling);
            // It is of use: where messages are small against the ceiling, it says so.
            let largest = messages.iter().map(|(n, r)| (n + 1) * (3 + r.iter().map(|s| s + 1).sum::<usize>())).max().unwrap_or(0) as u64;
            prop_assert!(said || largest * 4 > ceiling, "largest {} ceiling {}", largest, ceiling);
        }
    }

    #[test]
    fn most_is_not_read() {
        struct Counting<'a>(Slice<'a>, std::cell::Cell<u64>);
        impl Bytes for Counting<'_> {
            fn size(&self) -> u64 {
                self.0.size()
            }
            fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
                self.1.set(self.1.get() + buffer.len() as u64);
                self.0.read_at(offset, buffer)
            }
        }
        let line = [b"r".repeat(2999), b"\n".to_vec()].concat();
        let doc: Vec<u8> = (0..4000_u32)
            .flat_map(|i| if i % 2 == 0 { [&b"A"[..], &[b'a' + (i % 25) as u8], b"\n"].concat() } else { line.clone() })
            .collect();
        let bytes = Counting(Slice(&doc), std::cell::Cell::new(0));
        assert!(nothing_over(&bytes, Some(&Letters), Some(256 << 10), Some(2 << 20)).unwrap());
        assert!(bytes.1.get() * 100 < bytes.size() * 8, "{} of {}", bytes.1.get(), bytes.size());
    }
}
