//! What makes pi compact although the responses were cut.
//!
//! At every prompt pi looks at the last assistant: one that failed with an error of too much context makes it compact, one
//! that did not fail makes it compact where `usage` says more tokens than there is room for. Behind errors it takes the last
//! assistant that neither failed nor was aborted, as 0.73 and 1.6 both do (`_checkCompaction`, `estimateContextTokens`). What
//! is older than the latest compaction it passes over.

use std::ops::Range;

use super::sent::Sent;
use crate::format::weigher::overflows;
use crate::format::{Record, Relic, RelicKind};
use crate::text::json::Node;

/// The note on a session that ends in one.
pub(super) const STORED_ERROR: &str = "the session ends in a stored error of too much context: as long as its text says so, pi may compact everything away at the next prompt, however small a cut has made it";
/// What stands instead of an error's text: the first that is not longer.
const CLEARED: [&str; 3] = ["\"cleared by unwedge\"", "\"unwedged\"", "\"-\""];
/// The fields of `usage`, in the order in which what was cut is taken from them: most of a prompt is read from the cache.
const USAGE: [(&str, RelicKind); 4] = [
    ("cacheRead", RelicKind::Prompt),
    ("cacheWrite", RelicKind::Prompt),
    ("input", RelicKind::Prompt),
    ("totalTokens", RelicKind::Total),
];

/// Assistants, as they come.
#[derive(Default)]
pub(super) struct Answers(Vec<Answer>);

struct Answer {
    entry: u64,
    record: u64,
    line: u64,
    /// Where the record starts.
    at: u64,
    how: How,
}

enum How {
    /// It failed with an error of too much context: where in the record its text is.
    Overflowed(Place),
    Aborted(Counts),
    Answered(Counts),
}

/// A value in its record. Sessions are long, so this is small.
type Place = (u32, u32);
/// Where the numbers of [`USAGE`] are; a length of 0 is none.
type Counts = [(u32, u8); USAGE.len()];

impl Answers {
    pub fn push(&mut self, record: &Record<'_>, entry: u64, message: &super::entry::Message<'_>) {
        let is = |reason| message.stop.is_some_and(|s| s.is(reason));
        let counts = || message.usage.map(counts).unwrap_or_default();
        let how = if is("error") {
            // Another failure says nothing of the context, and pi looks past it.
            match message.error.filter(|e| e.text().is_some_and(|text| overflows(&text))).and_then(place) {
                Some(place) => How::Overflowed(place),
                None => return,
            }
        } else if is("aborted") {
            How::Aborted(counts())
        } else {
            How::Answered(counts())
        };
        self.0.push(Answer { entry, record: record.index, line: record.line, at: record.offset, how });
    }

    /// What of it pi would act on at the next prompt.
    pub fn relics(self, sent: &Sent) -> Vec<Relic> {
        let (mut relics, mut answered, mut counted) = (Vec::new(), false, false);
        let acts = |a: &&Answer| sent.path.holds(a.entry) && sent.latest.is_none_or(|compaction| a.entry > compaction);
        for answer in self.0.iter().rev().filter(acts) {
            match &answer.how {
                // 1.6 no longer looks at an error that a `context_edit` takes away.
                How::Overflowed((at, len)) if !answered && !sent.is_edited(answer.entry) => {
                    let fits = |new: &&&str| new.len() <= *len as usize;
                    let kind = CLEARED.iter().find(fits).map(|new| RelicKind::Error { new, note: STORED_ERROR });
                    relics.extend(kind.map(|kind| answer.relic(*at, u64::from(*len), kind)));
                }
                How::Overflowed(_) => {}
                How::Aborted(counts) | How::Answered(counts) => {
                    if !counted {
                        let numbers = counts.iter().zip(USAGE).filter(|((_, len), _)| *len > 0);
                        let before = relics.len();
                        relics.extend(numbers.map(|((at, len), (_, kind))| answer.relic(*at, u64::from(*len), kind)));
                        // 0.73 looks at the last one whatever it says, 1.6 at the last one that says something.
                        counted = matches!(answer.how, How::Answered(_)) && relics.len() > before;
                    }
                    answered |= matches!(answer.how, How::Answered(_));
                }
            }
            if answered && counted {
                break;
            }
        }
        // Of one record they stay in the order of `USAGE`.
        relics.sort_by_key(|relic| relic.record);
        relics
    }
}

impl Answer {
    fn relic(&self, at: u32, len: u64, kind: RelicKind) -> Relic {
        let start = self.at + u64::from(at);
        Relic { record: self.record, line: self.line, span: start..start + len, kind }
    }
}

fn place(node: Node<'_>) -> Option<Place> {
    let Range { start, end } = node.range();
    Some((start.try_into().ok()?, (end - start).try_into().ok()?))
}

/// Numbers that are not counts, and zeros, are left out: there is nothing to lower.
fn counts(usage: Node<'_>) -> Counts {
    USAGE.map(|(name, _)| {
        let number = usage.get(name).filter(|n| n.whole_number().is_some_and(|n| n > 0));
        let place = number.and_then(place).and_then(|(at, len)| Some((at, len.try_into().ok()?)));
        place.unwrap_or_default()
    })
}
