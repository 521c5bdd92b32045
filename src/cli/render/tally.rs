//! The sums over everything a run reports, and the exit status that follows from them.

use std::collections::BTreeMap;

use unwedge::diagnosis::Verdict;
use unwedge::error::Error;
use unwedge::event::{EditKind, Event, FileReport, Finding, Status};
use unwedge::repair::Task;

use crate::cli::exit::Exit;

/// What all documents come to. Sizes in decoded bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Documents that could be read, the skimmed ones among them.
    pub documents: u64,
    /// Documents of which little was read, because that showed that nothing is over a limit. The sums are without them.
    pub skimmed: u64,
    /// Responses.
    pub responses: u64,
    /// Batches.
    pub batches: u64,
    /// Bytes the assistant receives.
    pub live: u64,
    /// Bytes of dead responses.
    pub dead: u64,
    /// Bytes of copies.
    pub copies: u64,
    /// Stored bytes of images and other uncuttable parts.
    pub opaque_stored: u64,
    /// Responses and copies over a limit.
    pub findings: u64,
    /// Documents that have any.
    pub over_documents: u64,
    /// Findings that were cut, or in a dry run would be.
    pub cut: u64,
    /// Documents they are in.
    pub cut_documents: u64,
    /// Findings that are over their limit, or in a batch over its ceiling, even after the cut.
    pub still_over: u64,
    /// What was edited beside responses, or in a dry run would be.
    pub edits: u64,
    /// Cuts by tool. The tool that is not known has no name.
    pub tools: BTreeMap<Option<String>, u64>,
    /// Conversations that ended in an error of too much context and stay so, or cannot be made to fit.
    pub wedged: u64,
    /// Whether something was written.
    pub written: bool,
    /// Files seen by walking that no format claims.
    pub passed_over: u64,
    /// Documents too small to hold anything over a limit.
    pub too_small: u64,
    /// Errors.
    pub errors: u64,
    /// Notes.
    pub notes: u64,
    /// A signal ended the run, and an error said so.
    interrupted: bool,
}

/// Whether a cut of this finding was made, or would be: for `fix` and `fix -n` alike.
pub fn is_cut(file: &FileReport, finding: &Finding) -> bool {
    file.status != Status::Failed && finding.delivered.is_some_and(|delivered| delivered != finding.size)
}

/// Whether a finding stays one after the cut.
pub fn stays(finding: &Finding) -> bool {
    finding.still_over || finding.batch.is_some_and(|batch| batch.still_over)
}

impl Tally {
    /// Counts one event.
    pub fn count(&mut self, event: &Event) {
        match event {
            Event::Found { passed_over, too_small, .. } => {
                self.passed_over += passed_over;
                self.too_small += too_small;
            }
            Event::File(file) => self.file(file),
            Event::Note { .. } => self.notes += 1,
            Event::Trouble(error) => {
                self.errors += 1;
                self.interrupted |= matches!(error, Error::Interrupted { .. });
            }
            Event::Progress => {}
        }
    }

    fn file(&mut self, file: &FileReport) {
        // A document that could not be read has nothing in it to count, and is not among those that were looked at.
        if file.status != Status::Failed || !file.findings.is_empty() {
            self.documents += 1;
        }
        self.skimmed += u64::from(file.skimmed);
        let sums = &file.sums;
        self.notes += file.notes.len() as u64;
        for (sum, n) in [
            (&mut self.responses, sums.responses),
            (&mut self.batches, sums.batches),
            (&mut self.live, sums.live),
            (&mut self.dead, sums.dead),
            (&mut self.copies, sums.copies),
            (&mut self.opaque_stored, sums.opaque_stored),
        ] {
            *sum = sum.saturating_add(n);
        }
        self.findings += file.findings.len() as u64;
        self.over_documents += u64::from(!file.findings.is_empty());
        let cut = file.findings.iter().filter(|finding| is_cut(file, finding));
        let before = self.cut;
        for finding in cut {
            self.cut += 1;
            *self.tools.entry(finding.tool.clone()).or_default() += 1;
        }
        self.cut_documents += u64::from(self.cut != before);
        self.still_over += file.findings.iter().filter(|f| f.delivered.is_some() && stays(f)).count() as u64;
        // An error that goes without a cut was said to be true no longer.
        let ended = self.cut == before && file.edits.iter().all(|edit| edit.kind != EditKind::Error);
        let stuck = |verdict: Verdict| verdict == Verdict::CannotFit || (verdict.wedged() && ended);
        let stuck = file.diagnosis.as_ref().is_some_and(|said| stuck(said.verdict));
        self.wedged += u64::from(stuck);
        self.edits += file.edits.len() as u64;
        let cuts = file.findings.iter().map(|f| &f.cut).chain(file.edits.iter().map(|e| &e.cut));
        self.written |= cuts.flatten().next().is_some();
    }

    /// The status these sums come to.
    pub fn exit(&self, task: Task) -> Exit {
        let remain = match task {
            Task::Check | Task::DryRun => self.findings > 0 || self.edits > 0 || self.wedged > 0,
            Task::Fix => self.still_over > 0 || self.wedged > 0,
        };
        [(remain, Exit::Findings), (self.errors > 0, Exit::Trouble), (self.interrupted, Exit::Interrupted)]
            .into_iter()
            .filter(|(is, _)| *is)
            .fold(Exit::Clean, |worst, (_, exit)| worst.and(exit))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{file, finding, repaired, trouble};
    use super::*;

    fn tally(events: Vec<Event>) -> Tally {
        let mut tally = Tally::default();
        events.iter().for_each(|event| tally.count(event));
        tally
    }

    fn of(file: FileReport) -> Event {
        Event::File(Box::new(file))
    }

    #[test]
    fn statuses() {
        assert_eq!(tally(vec![of(file(vec![]))]).exit(Task::Fix), Exit::Clean);
        assert_eq!(tally(vec![of(file(vec![finding()]))]).exit(Task::Check), Exit::Findings);
        assert_eq!(tally(vec![of(repaired(false))]).exit(Task::DryRun), Exit::Findings);
        let done = tally(vec![of(repaired(true))]);
        assert_eq!(done.exit(Task::Fix), Exit::Clean);
        assert!(done.written && !tally(vec![of(repaired(false))]).written);
        assert_eq!(tally(vec![of(repaired(true)), Event::Trouble(trouble())]).exit(Task::Fix), Exit::Trouble);
        let stop = Event::Trouble(Error::Interrupted { path: "x".into() });
        assert_eq!(tally(vec![stop, Event::Trouble(trouble())]).exit(Task::Check), Exit::Interrupted);
    }

    #[test]
    fn what_cannot_be_held_to_its_limit_remains() {
        let mut over = repaired(true);
        over.findings[0].still_over = true;
        assert_eq!(tally(vec![of(over)]).exit(Task::Fix), Exit::Findings);
        let mut over = repaired(true);
        over.findings[0].batch.as_mut().unwrap().still_over = true;
        let tally = tally(vec![of(over)]);
        assert_eq!((tally.exit(Task::Fix), tally.cut, tally.still_over), (Exit::Findings, 1, 1));
    }

    #[test]
    fn a_failed_repair_cut_nothing() {
        let failed = FileReport { status: Status::Failed, ..repaired(false) };
        let tally = tally(vec![of(failed), of(FileReport { status: Status::Failed, ..file(vec![]) })]);
        assert_eq!((tally.cut, tally.findings, tally.documents), (0, 1, 1));
        assert!(tally.tools.is_empty());
    }
}
