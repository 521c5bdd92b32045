//! One conversation: its lock, its copies in the right order, and what became of each.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};

use crate::assess::{Assessment, CutPart, CutTarget, Target};
use crate::cap::limits::Unit;
use crate::edits::{self, Unwedge};
use crate::error::{Error, Result};
use crate::event::{Event, FileReport, Finding, Hunk, Kind, Note, Status, Sums};
use crate::format::{self, Depth};
use crate::hunk::hunks;
use crate::repair::{Hunks, Options};
use crate::scan::{Conversation, Document};
use crate::store::journal::Cut;
use crate::store::look::Disk;
use crate::store::spill::Spill;
use crate::store::{AgentLock, Store, Times};
use crate::tell;
use crate::text::cut::FullText;
use crate::text::literal;
use crate::text::splice::{Splice, Splices};
use crate::verify::Goal;
use crate::whole::WholeText;
use crate::work::{Closed, How, Replacement, Work};

/// A document, read and planned, and closed again.
pub struct Draft {
    /// What was found in it.
    pub closed: Closed,
    /// How many edits may go with the cuts.
    edits: u64,
    /// Physical lines and what is wrong there.
    broken: Vec<(u64, String)>,
}

impl Draft {
    /// How many texts are over a limit, and how many edits may be made beside: each gets a number.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.closed.before.targets.len() as u64 + self.edits
    }
}

/// Reads and plans one document.
///
/// # Errors
/// See [`Work::read`].
pub fn read_document(conversation: &Conversation, document: &Document, options: &Options<'_>) -> Result<Draft> {
    let limits = (options.limits)(&document.real)?;
    let relics = options.unwedge == Unwedge::Always && conversation.format.keeps_relics();
    let thorough = options.thorough || document.named || relics;
    // What is read whole anyway is weighed as well.
    let whole = thorough || limits.window().is_some() || conversation.format.framing() == format::Framing::Document;
    let depth = if whole { Depth::Outline } else { Depth::Limits };
    let how = How { live_only: options.live_only, longest: options.max_record, depth };
    let work = Work::read_or_skim(conversation, document, limits, how, whole)?;
    let mut broken = Vec::new();
    for b in work.before.broken() {
        broken.push((work.source.position(b.at)?.0, b.what.clone()));
    }
    let edits = edits::count(&work.before, options.unwedge);
    Ok(Draft { closed: work.close(), edits, broken })
}

/// The new modification times of a conversation's copies: `Keep`, or times that leave the copy the agent loads the one it
/// loads. `copies`: each copy's own time, that of the copy and what lies beside it together, and whether it will change.
/// Of equally new copies the agent loads the first. Returns the times, and the order to write in: after a crash between
/// two copies the one that was loaded still is.
pub fn times(rule: format::Times, copies: &[(SystemTime, SystemTime, bool)]) -> (Vec<Times>, Vec<usize>) {
    let mut order: Vec<usize> = (0..copies.len()).collect();
    order.sort_by_key(|i| std::cmp::Reverse(copies.get(*i).map(|c| c.1)));
    let mut times = vec![Times::Keep; copies.len()];
    let loaded = order.first().and_then(|i| copies.get(*i)).copied();
    if let (format::Times::New, Some((_, newest, loaded_changes))) = (rule, loaded) {
        // A file may have any time, the last that there is among them.
        let after = newest.checked_add(2 * TICK).unwrap_or(newest);
        let before = |time: SystemTime| time.checked_sub(TICK).unwrap_or(time);
        let now = SystemTime::now().max(after);
        for (rank, index) in order.iter().enumerate() {
            let (Some(slot), Some((own, _, _))) = (times.get_mut(*index), copies.get(*index)) else { continue };
            *slot = match rank {
                0 => Times::At(now),
                _ if loaded_changes => Times::At(before(now)),
                // The copy that is loaded stays as it is: a repaired other one must not become the newer of the two.
                // A repaired one then has a time before it.
                _ if before(newest) > *own => Times::At(before(newest)),
                _ => Times::Keep,
            };
        }
    }
    (times, order)
}

/// Two times that no file system takes for one.
const TICK: Duration = Duration::from_millis(1);

/// The time by which an agent compares copies: that of the stream or of what lies beside it, whichever is newer.
#[must_use]
pub fn compared_time(document: &Document, own: SystemTime) -> SystemTime {
    document.asides.iter().filter_map(|path| Disk.modified(path).unwrap_or_default()).chain([own]).max().unwrap_or(own)
}

/// Takes a conversation's lock, or (dry) sees whether it could be taken.
///
/// # Errors
/// [`Error::InUse`] where it is held.
pub fn lock(conversation: &Conversation, writes: bool) -> Result<Option<AgentLock>> {
    match &conversation.etiquette.lock {
        Some(lock) if writes => AgentLock::acquire(&lock.existing, lock.create.as_deref()).map(Some),
        Some(lock) => AgentLock::probe(&lock.existing).map(|()| None),
        None => Ok(None),
    }
}

/// A conversation to be reported, and repaired where there is a store.
pub struct Repair<'a> {
    /// The conversation.
    pub conversation: &'a Conversation,
    /// How.
    pub options: &'a Options<'a>,
    /// What takes the changes; `None`: only report.
    pub store: Option<&'a dyn Store>,
    /// Whether that store writes.
    pub writes: bool,
    /// The number of the conversation's first cut.
    pub number: u64,
}

/// One document's part in a repair.
struct Turn {
    draft: Draft,
    time: Times,
    number: u64,
}

impl Repair<'_> {
    /// Does it, and gives the events in the order of the documents' paths.
    #[must_use]
    pub fn run(&self, drafts: Vec<Result<Draft>>) -> Vec<Event> {
        let documents = &self.conversation.documents;
        let needed = self.store.is_some() && drafts.iter().flatten().any(|d| d.changes() > 0);
        let broken = documents.iter().zip(&drafts).find(|(_, draft)| draft.is_err()).map(|(d, _)| d.shown.clone());
        let mut lock = None;
        // What keeps the rest of the conversation from being repaired.
        // Where the agent loads the newer of two copies, repairing one alone would choose for it.
        let copies = documents.len() > 1 && self.conversation.etiquette.times == format::Times::New;
        let mut barred = broken.filter(|_| needed && copies).map(|other| {
            format!(
                "left alone, because the conversation's other copy {} cannot be read, and which of the two is loaded is \
                 its agent's to choose",
                other.display()
            )
        });
        let mut refused = None;
        if needed && barred.is_none() {
            match self::lock(self.conversation, self.writes) {
                Ok(held) => lock = held,
                Err(e) => refused = Some(e),
            }
        } else if self.writes
            && let Some(lock) = &self.conversation.etiquette.lock
        {
            AgentLock::clean_up(&lock.existing);
        }
        let copies: Vec<_> = documents
            .iter()
            .zip(&drafts)
            .map(|(document, draft)| match draft {
                Ok(d) => (d.closed.stamp.mtime, compared_time(document, d.closed.stamp.mtime), d.changes() > 0),
                Err(_) => (SystemTime::UNIX_EPOCH, SystemTime::UNIX_EPOCH, false),
            })
            .collect();
        let (times, order) = self::times(self.conversation.etiquette.times, &copies);
        let mut number = self.number;
        let mut turns: Vec<Option<Result<Turn>>> = drafts
            .into_iter()
            .zip(times)
            .map(|(draft, time)| {
                Some(draft.map(|draft| {
                    let first = number;
                    number += draft.changes();
                    Turn { draft, time, number: first }
                }))
            })
            .collect();
        let mut done: Vec<(&PathBuf, Vec<Event>)> = Vec::new();
        for index in order {
            let (Some(document), Some(turn)) = (documents.get(index), turns.get_mut(index).and_then(Option::take))
            else {
                continue;
            };
            let events = match turn {
                Err(e) => vec![Event::File(Box::new(self.failed(document))), Event::Trouble(e)],
                Ok(turn) => self.document(document, turn, lock.as_ref(), &mut refused, &mut barred),
            };
            done.push((&document.shown, events));
        }
        drop(lock);
        done.sort_by_key(|(path, _)| *path);
        done.into_iter().flat_map(|(_, events)| events).collect()
    }

    fn document(
        &self,
        document: &Document,
        turn: Turn,
        lock: Option<&AgentLock>,
        refused: &mut Option<Error>,
        barred: &mut Option<String>,
    ) -> Vec<Event> {
        let mut report = self.report(document, &turn.draft);
        let broken = turn.draft.broken.clone();
        let (mut error, mut unkept) = (None, Vec::new());
        if turn.draft.changes() > 0
            && let Some(store) = self.store
        {
            let result = match (refused.take(), barred.as_ref()) {
                (Some(e), _) => Err(e),
                (None, Some(why)) => Err(Error::Refused { path: document.shown.clone(), why: why.clone() }),
                (None, None) => self.repair(store, document, turn, lock, &mut report, &mut unkept),
            };
            if let Err(e) = result {
                // Replaced, though perhaps not for good: everything else left the original alone.
                if !matches!(e, Error::NotDurable { .. }) {
                    report.status = Status::Failed;
                }
                if self.conversation.etiquette.times == format::Times::New {
                    let other = document.shown.display();
                    let why =
                        format!("left alone, because the conversation's other copy {other} could not be repaired");
                    barred.get_or_insert(why);
                }
                error = Some(e);
            }
        }
        let broken =
            broken.into_iter().map(|(line, what)| Error::BrokenRecord { path: document.shown.clone(), line, what });
        let troubles: Vec<Event> = broken.chain(unkept).chain(error).map(Event::Trouble).collect();
        std::iter::once(Event::File(Box::new(report))).chain(troubles).collect()
    }

    fn repair(
        &self,
        store: &dyn Store,
        document: &Document,
        turn: Turn,
        lock: Option<&AgentLock>,
        report: &mut FileReport,
        unkept: &mut Vec<Error>,
    ) -> Result<()> {
        let Turn { draft, time, number } = turn;
        let planned = (draft.closed.before.targets.len(), draft.edits);
        let Options { live_only, max_record: longest, unwedge, .. } = *self.options;
        let how = How { live_only, longest, depth: Depth::Limits };
        let work = Work::reopen(self.conversation, document, draft.closed, how)?;
        // What came in between may have changed the plan. Cuts are numbered by now, so that one is for the next run.
        if (work.before.targets.len(), edits::count(&work.before, unwedge)) != planned {
            return Err(Error::Changed { path: document.shown.clone(), what: "changed" });
        }
        report.findings = tell::findings(&work.before);
        report.bytes = work.before.len;
        let mut pairs: Vec<(Splice, Cut, (u64, u64))> = Vec::new();
        let (mut left, mut notes) = (BTreeSet::new(), Vec::new());
        let mut gone = Vec::new();
        // Read in the order they stand in: of a packed document that is one pass.
        let mut turns: Vec<_> = (number..).zip(&work.before.targets).zip(&mut report.findings).collect();
        turns.sort_by_key(|((_, target), _)| work.before.start(target));
        for ((id, target), finding) in turns {
            let whole = self.whole(document, &work.before, target, finding);
            let place = |text: &[u8]| whole.as_ref().and_then(|whole| whole.place(text));
            let full_text: Option<FullText<'_>> = if whole.is_some() { Some(&place) } else { None };
            let (mut read, bad) = (|span| work.span(span), |what| work.unproven(what));
            let done = work.before.cut_naming(target, &mut read, &bad, full_text)?;
            // First the whole text is safe, then the response is cut.
            let kept = whole.as_ref().filter(|_| self.writes && !done.parts.is_empty()).map_or(Ok(()), WholeText::keep);
            if let Err(e) = kept {
                unkept.push(e);
                left.insert((target.response, target.copy));
                (finding.delivered, finding.still_over) = (Some(finding.size), true);
                continue;
            }
            if !done.parts.is_empty() {
                finding.unit = Some(done.counted.name());
                finding.full_text = done.full_text.as_ref().map(PathBuf::from);
            }
            finding.delivered = Some(done.delivered);
            let batch_over = finding.kind == Kind::Response && finding.batch.is_some_and(|b| b.still_over);
            finding.still_over = done.delivered > target.held.limit || batch_over;
            finding.hunks = self.hunks(&done);
            gone.extend(edits::gone(&work.before, target, &done));
            notes.extend(self.sidecar(document, finding, target, &done).map(|note| (id, note)));
            pairs.extend(done.parts.into_iter().map(|part| {
                let cut = journal_cut(id, &work.before, target, &part);
                let mut splice = Splice { range: part.span, new: part.cut.literal };
                let stays = splice.narrow(&part.old);
                (splice, cut, stays)
            }));
        }
        notes.sort_by_key(|(id, _)| *id);
        report.notes.extend(notes.into_iter().map(|(_, note)| note));
        let next = number + planned.0 as u64;
        let edits = edits::plan(&work.before, unwedge, &gone, &mut |span| work.span(span))?;
        let goal = if edits::unwedges(&edits) { Goal::Unwedged } else { Goal::WithinLimits };
        for (id, planned) in (next..).zip(&edits) {
            let values = planned.values.iter().map(|value| (value.splice(), planned.journal(id, value), (0, 0)));
            pairs.extend(values);
        }
        if self.conversation.etiquette.pads {
            pad(&work.before, &mut pairs);
        }
        pairs.sort_by_key(|(splice, ..)| splice.range.start);
        let (mut splices, mut cuts) = (Vec::with_capacity(pairs.len()), Vec::with_capacity(pairs.len()));
        for (splice, cut, stays) in pairs {
            splices.push(splice);
            cuts.push((cut, stays));
        }
        let splices = Splices::new(splices).map_err(|e| work.unproven(e.to_string()))?;
        let whole = |((cut, (before, after)), range): ((Cut, (u64, u64)), Range<u64>)| Cut {
            // Of the whole literal, of which the splice is a part.
            new: range.start - before..range.end + after,
            ..cut
        };
        let cuts = cuts.into_iter().zip(splices.new_ranges()).map(whole).collect();
        let over = report.findings.iter().any(|f| f.still_over);
        if splices.is_empty() {
            // Nothing can be gained: no change, no backup, and still a finding.
            if !report.findings.is_empty() {
                report.status = Status::StillOver;
            }
            return Ok(());
        }
        report.bytes_after = splices.new_len(work.before.len);
        let change = Replacement { splices: &splices, whole: None, goal, times: time, cuts, left: &left };
        let commit = work.commit(store, change, lock, self.options.min_idle)?;
        edits::tell(edits, &work.before, report);
        if self.writes {
            report.backup = commit.backup;
            report.status = if over { Status::StillOver } else { Status::Repaired };
            for (id, finding) in (number..).zip(&mut report.findings) {
                let changed = finding.delivered != Some(finding.size);
                finding.cut = commit.run.as_ref().filter(|_| changed).map(|run| format!("{run}-{id}"));
            }
            for (id, edit) in (next..).zip(&mut report.edits) {
                edit.cut = commit.run.as_ref().map(|run| format!("{run}-{id}"));
            }
        }
        Ok(())
    }

    /// Where the whole text of a response is looked for and kept; nowhere where nobody asked for more than the plain cut.
    fn whole(&self, document: &Document, before: &Assessment, target: &Target, finding: &Finding) -> Option<WholeText> {
        let tool = before.located.responses.get(target.response).and_then(|r| r.tool.as_deref());
        let spill = self.options.spill.as_deref().map(Spill::new);
        let asked = spill.is_some() || before.limits.unit(tool).value != Unit::Bytes;
        let own = |id: &String| self.conversation.format.sidecars(&document.real, id);
        asked.then(|| WholeText::new(finding.call_id.as_ref().map(own).unwrap_or_default(), spill))
    }

    /// Where the agent itself keeps the whole text of a cut, that is worth knowing.
    fn sidecar(&self, document: &Document, finding: &Finding, target: &Target, done: &CutTarget) -> Option<Note> {
        let (None, Some(id), [part]) = (target.copy, &finding.call_id, done.parts.as_slice()) else { return None };
        let text = literal::decode(&part.old, part.encoding).ok()?;
        let sidecars = self.conversation.format.sidecars(&document.real, id);
        let whole = sidecars
            .into_iter()
            .find(|path| Disk.read(path).is_ok_and(|bytes| bytes.is_some_and(|bytes| bytes == text)))?;
        Some(Note { line: Some(part.line), text: format!("the whole text of {id} is also in {}", whole.display()) })
    }

    fn hunks(&self, done: &CutTarget) -> Vec<Hunk> {
        if self.options.hunks == Hunks::None {
            return Vec::new();
        }
        let texts = done.parts.iter().filter_map(|part| Some((part, literal::decode(&part.old, part.encoding).ok()?)));
        texts.flat_map(|(part, text)| hunks(&text, &part.cut, self.options.hunks == Hunks::Full)).collect()
    }

    fn report(&self, document: &Document, draft: &Draft) -> FileReport {
        let before = &draft.closed.before;
        FileReport {
            status: if before.targets.is_empty() { Status::Clean } else { Status::Over },
            bytes: before.len,
            findings: tell::findings(before),
            notes: before.notes.clone(),
            sums: tell::sums(before),
            skimmed: before.skimmed,
            diagnosis: before.diagnosis.clone(),
            ..self.failed(document)
        }
    }

    /// The report of a document that could not even be read.
    fn failed(&self, document: &Document) -> FileReport {
        FileReport {
            path: document.shown.clone(),
            format: self.conversation.format.about().name,
            conversation: self.conversation.etiquette.id.clone(),
            status: Status::Failed,
            bytes: 0,
            bytes_after: None,
            backup: None,
            findings: Vec::new(),
            edits: Vec::new(),
            notes: Vec::new(),
            sums: Sums::default(),
            skimmed: false,
            diagnosis: None,
        }
    }
}

/// Makes every record as long as it was, where its agent keeps offsets: blanks before its newline, which JSON allows. They
/// are a replacement of nothing by blanks, so that undo takes them out again.
fn pad(before: &Assessment, pairs: &mut Vec<(Splice, Cut, (u64, u64))>) {
    let ends: Vec<u64> = before.located.record_ends.values().copied().collect();
    let mut shrunk: BTreeMap<u64, (u64, Cut)> = BTreeMap::new();
    for (splice, cut, _) in pairs.iter() {
        // A record holds the literals between the end of the one before it and its own.
        let Some(end) = ends.get(ends.partition_point(|end| *end < splice.range.end)).copied() else { continue };
        let gone = (splice.range.end - splice.range.start).saturating_sub(splice.new.len() as u64);
        shrunk.entry(end).or_insert_with(|| (0, cut.clone())).0 += gone;
    }
    for (end, (gone, cut)) in shrunk {
        let new = vec![b' '; usize::try_from(gone).unwrap_or(0)];
        let new_sha256 = Sha256::digest(&new).into();
        let cut = Cut { padding: true, old: end..end, new_sha256, size: 0, delivered: 0, ..cut };
        pairs.push((Splice { range: end..end, new }, cut, (0, 0)));
    }
}

fn journal_cut(id: u64, before: &Assessment, target: &Target, part: &CutPart) -> Cut {
    let response = before.located.responses.get(target.response);
    Cut {
        id,
        call_id: response.and_then(|r| r.id.clone()).unwrap_or_default(),
        tool: response.and_then(|r| r.tool.clone()),
        part: part.index,
        record: response.map_or(0, |r| r.record),
        line: part.line,
        old: part.span.clone(),
        new: 0..0,
        new_sha256: Sha256::digest(&part.cut.literal).into(),
        encoding: part.encoding,
        size: part.cut.before,
        delivered: part.cut.after,
        padding: false,
        edit: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_may_have_any_time() {
        let seconds = Duration::from_secs(i64::MAX.unsigned_abs());
        let last = SystemTime::UNIX_EPOCH.checked_add(seconds).unwrap();
        let first = SystemTime::UNIX_EPOCH.checked_sub(seconds).unwrap();
        for (newest, other) in [(last, first), (last, last), (first, first)] {
            for changes in [true, false] {
                let (times, order) = times(format::Times::New, &[(newest, newest, changes), (other, other, true)]);
                assert_eq!((times.len(), order), (2, vec![0, 1]));
                let Times::At(loaded) = times[0] else { panic!("the loaded copy has a new time") };
                assert!(loaded >= newest);
            }
        }
    }
}
