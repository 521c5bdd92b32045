//! The proof on the new bytes.
//!
//! It does not trust what wrote them. The old and the new document are read side by side: outside the replacements every
//! byte must be the same, inside them the new literal must stand. The new document is then located like any other stream:
//! same responses, same ids, same order, same kinds. For a repair, planning again must yield nothing more.

use std::collections::BTreeSet;
use std::io::{self, Read};
use std::ops::Range;
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::assess::{self, Assessment, Earlier, Reading, Target};
use crate::cap::limits::Limits;
use crate::cap::plan::Rule;
use crate::error::{Error, Result};
use crate::format::{Depth, Format, RelicKind};
use crate::text::splice::{Skip, Splices};

/// A new document to be proven: its contents, read once from the first byte to the last.
pub trait Written: Read {
    /// Where the contents are stored in another form: the hash and the number of the stored bytes they came from, once all of
    /// them were read.
    fn stored(&self) -> Option<([u8; 32], u64)>;
}

/// Says that a new document was proven. Only this module can make one, and only with one can a document be replaced.
#[derive(Debug)]
pub struct Verified {
    sha256: [u8; 32],
    len: u64,
    contents: [u8; 32],
}

impl Verified {
    /// The hash of the stored bytes that were proven. Where they are packed: of those that were unpacked for the proof, in the
    /// same pass.
    #[must_use]
    pub fn sha256(&self) -> [u8; 32] {
        self.sha256
    }

    /// Their number.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.len
    }

    /// The hash of the contents that were proven: the same one, unless they are packed.
    #[must_use]
    pub fn contents_sha256(&self) -> [u8; 32] {
        self.contents
    }

    /// For tests of the store alone.
    #[cfg(test)]
    pub(crate) fn unproven_packed(sha256: [u8; 32], len: u64, contents: &[u8]) -> Self {
        Verified { sha256, len, contents: Sha256::digest(contents).into() }
    }

    /// For tests of the store alone.
    #[cfg(test)]
    pub(crate) fn unproven(bytes: &[u8]) -> Self {
        let sha256 = Sha256::digest(bytes).into();
        Verified { sha256, len: bytes.len() as u64, contents: sha256 }
    }
}

/// What is to be proven of a new document.
pub struct Claim<'a> {
    /// The stream's format.
    pub format: &'static dyn Format,
    /// Its path, for errors and for the format.
    pub path: &'a Path,
    /// What lies beside it and is only read.
    pub asides: &'a [(std::path::PathBuf, Vec<u8>)],
    /// The limits without those of the conversation.
    pub limits: &'a Limits,
    /// Whether dead responses were left alone.
    pub live_only: bool,
    /// What the old document was found to hold.
    pub before: &'a Assessment,
    /// The replacements.
    pub splices: &'a Splices,
    /// What the new document must be besides.
    pub goal: Goal,
    /// Targets that were not cut, by response and copy: what is over a limit because of them is so by intention.
    pub left: &'a BTreeSet<(usize, Option<usize>)>,
}

/// What a new document must be, besides being the old one outside of the replacements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goal {
    /// Within every limit, as far as the cutter goes.
    WithinLimits,
    /// The same, and without a stored error that would wedge the conversation again.
    Unwedged,
    /// These very bytes, as they are stored.
    Exactly([u8; 32]),
    /// Nothing more.
    SameShape,
}

/// Proves a claim. `read_old` gives stored bytes of the old document.
///
/// # Errors
/// [`Error::Unproven`] with the first thing that does not hold; what reading returns.
pub fn prove(
    claim: &Claim<'_>,
    old: &mut dyn Skip,
    new: &mut dyn Written,
    read_old: &mut dyn FnMut(Range<u64>) -> Result<Vec<u8>>,
) -> Result<Verified> {
    let unproven = |what: String| Error::Unproven { path: claim.path.to_owned(), what };
    // The window, where there is one, is planned again too.
    let outlined = claim.before.located.outline.is_some();
    let depth = if outlined { Depth::Outline } else { Depth::Limits };
    let mut reading = Reading::new(claim.format, claim.path, depth, claim.asides.iter().map(|(p, b)| (&**p, &**b)));
    let mut hasher = Sha256::new();
    let mut pushed = Ok(());
    let len = compare(old, new, claim.splices, &mut |bytes| {
        hasher.update(bytes);
        if pushed.is_ok() {
            pushed = reading.push(bytes);
        }
    })
    .map_err(|e| match e {
        Differs::At(at) => unproven(format!("the new file is not the old one outside of the cuts, at byte {at}")),
        Differs::Io(e) => Error::io(claim.path, "read it back")(e),
    })?;
    pushed.map_err(|e| unproven(e.to_string()))?;
    let contents: [u8; 32] = hasher.finalize().into();
    let (sha256, len) = new.stored().unwrap_or((contents, len));
    let after = reading.finish_by(Earlier::of(claim.before), claim.limits, claim.live_only);
    if let Some(what) = assess::difference(&claim.before.located, &after.located) {
        return Err(unproven(what));
    }
    match claim.goal {
        Goal::SameShape => {}
        Goal::Exactly(wanted) if wanted == sha256 => {}
        Goal::Exactly(_) => return Err(unproven("the result is not the original".into())),
        Goal::WithinLimits => settled(claim, &after, read_old)?,
        Goal::Unwedged => {
            if after.located.relics.iter().any(|relic| matches!(relic.kind, RelicKind::Error { .. })) {
                return Err(unproven("a stored error of too much context is still there".into()));
            }
            settled(claim, &after, read_old)?;
        }
    }
    Ok(Verified { sha256, len, contents })
}

/// Planning again must yield nothing: what is still over a limit is so because the cutter cannot make it smaller.
fn settled(
    claim: &Claim<'_>,
    after: &Assessment,
    read_old: &mut dyn FnMut(Range<u64>) -> Result<Vec<u8>>,
) -> Result<()> {
    let unproven = |what: String| Error::Unproven { path: claim.path.to_owned(), what };
    // The siblings of a response that was left whole would have to make up for it.
    let batch = |response: usize| after.located.responses.get(response).map(|r| r.batch);
    let left: BTreeSet<Option<u64>> = claim.left.iter().map(|(response, _)| batch(*response)).collect();
    let makes_up = |target: &Target| match target.held.rule {
        Rule::Threshold => false,
        Rule::Batch => left.contains(&batch(target.response)),
        Rule::Window => !left.is_empty(),
    };
    // In the order they stand in: of a packed document they are read in one pass.
    let mut targets: Vec<_> = after.targets.iter().collect();
    targets.sort_by_key(|target| after.start(target));
    for target in targets {
        if claim.left.contains(&(target.response, target.copy)) || makes_up(target) {
            continue;
        }
        // A text that still is a target was one before. Its bytes are those of the old document with the replacements made:
        // that these were written has been seen.
        let mut read = |span: Range<u64>| claim.splices.read_new(span, read_old);
        let again = after.cut(target, &mut read, &unproven)?;
        if !again.parts.is_empty() {
            return Err(unproven(format!(
                "response {} could be cut further: {} bytes, held to {}",
                target.response, target.size, target.held.limit
            )));
        }
    }
    Ok(())
}

enum Differs {
    At(u64),
    Io(io::Error),
}

/// Reads both documents side by side and gives every byte of the new one to `take`. Returns the new document's length.
fn compare(
    old: &mut dyn Skip,
    new: &mut dyn Read,
    splices: &Splices,
    take: &mut dyn FnMut(&[u8]),
) -> Result<u64, Differs> {
    let mut sides = Sides { old, new, a: vec![0; CHUNK], b: vec![0; CHUNK], old_at: 0, new_at: 0, take };
    for splice in splices.iter() {
        sides.same(Some(splice.range.start - sides.old_at))?;
        sides.skip_old(splice.range.end - splice.range.start)?;
        sides.expect(&splice.new)?;
    }
    sides.same(None)?;
    Ok(sides.new_at)
}

const CHUNK: usize = 256 * 1024;

struct Sides<'a> {
    old: &'a mut dyn Skip,
    new: &'a mut dyn Read,
    a: Vec<u8>,
    b: Vec<u8>,
    old_at: u64,
    new_at: u64,
    take: &'a mut dyn FnMut(&[u8]),
}

impl Sides<'_> {
    /// The next bytes of both are the same: so many, or all that come.
    fn same(&mut self, count: Option<u64>) -> Result<(), Differs> {
        let mut left = count;
        loop {
            let room = left.map_or(CHUNK, |n| usize::try_from(n).unwrap_or(CHUNK).min(CHUNK));
            let (a, b) = (self.a.get_mut(..room).unwrap_or_default(), self.b.get_mut(..room).unwrap_or_default());
            let n = fill(self.old, a).map_err(Differs::Io)?;
            let m = fill(self.new, b).map_err(Differs::Io)?;
            let (a, b) = (self.a.get(..n).unwrap_or_default(), self.b.get(..m).unwrap_or_default());
            if a != b || (left.is_some() && n < room) {
                let at = a.iter().zip(b).position(|(x, y)| x != y).unwrap_or(n.min(m));
                return Err(Differs::At(self.new_at + at as u64));
            }
            (self.take)(b);
            self.old_at += n as u64;
            self.new_at += n as u64;
            left = left.map(|l| l - n as u64);
            if n == 0 || left == Some(0) {
                return Ok(());
            }
        }
    }

    fn skip_old(&mut self, count: u64) -> Result<(), Differs> {
        let skipped = self.old.skip(count).map_err(Differs::Io)?;
        self.old_at += skipped;
        if skipped == count { Ok(()) } else { Err(Differs::At(self.new_at)) }
    }

    /// The next bytes of the new document are these.
    fn expect(&mut self, bytes: &[u8]) -> Result<(), Differs> {
        for chunk in bytes.chunks(CHUNK) {
            let b = self.b.get_mut(..chunk.len()).unwrap_or_default();
            let n = fill(self.new, b).map_err(Differs::Io)?;
            let b = self.b.get(..n).unwrap_or_default();
            if b != chunk {
                return Err(Differs::At(self.new_at));
            }
            (self.take)(b);
            self.new_at += n as u64;
        }
        Ok(())
    }
}

/// Fills the buffer as far as the reader goes.
fn fill<R: Read + ?Sized>(reader: &mut R, buffer: &mut [u8]) -> io::Result<usize> {
    let mut n = 0;
    while let Some(rest) = buffer.get_mut(n..).filter(|rest| !rest.is_empty()) {
        match reader.read(rest) {
            Ok(0) => break,
            Ok(m) => n += m,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(n)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::splice::Splice;

    fn check(old: &[u8], new: &[u8], splices: Vec<Splice>) -> Result<u64, u64> {
        let mut seen = Vec::new();
        let result =
            compare(&mut &*old, &mut &*new, &Splices::new(splices).unwrap(), &mut |b| seen.extend_from_slice(b));
        match result {
            Ok(n) => {
                assert_eq!(seen, new);
                Ok(n)
            }
            Err(Differs::At(at)) => Err(at),
            Err(Differs::Io(e)) => panic!("{e}"),
        }
    }

    #[test]
    fn only_the_replacements_may_differ() {
        let one = || vec![Splice { range: 2..5, new: b"XY".to_vec() }];
        assert_eq!(check(b"abcdefg", b"abXYfg", one()), Ok(6));
        assert_eq!(check(b"abcdefg", b"abcdefg", vec![]), Ok(7));
        // A byte before, inside, after; one missing, one more.
        assert_eq!(check(b"abcdefg", b"aBXYfg", one()), Err(1));
        assert_eq!(check(b"abcdefg", b"abXZfg", one()), Err(2));
        assert_eq!(check(b"abcdefg", b"abXYfG", one()), Err(5));
        assert_eq!(check(b"abcdefg", b"abXYf", one()), Err(5));
        assert_eq!(check(b"abcdefg", b"abXYfgh", one()), Err(6));
        assert_eq!(check(b"abcd", b"abXY", one()), Err(2));
        assert_eq!(check(b"", b"", vec![]), Ok(0));
    }
}
