//! What an undo looks up: where a cut text is now, and what it was.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;

use sha2::{Digest, Sha256};

use crate::error::{Error, Result};
use crate::format::Part;
use crate::store::Source;
use crate::store::journal::{Cut, Intent};
use crate::store::vault::Vault;
use crate::work::Work;

/// The literals of a document that has changed since, by call and content.
pub(super) struct Places {
    by_content: HashMap<(String, [u8; 32]), VecDeque<Range<u64>>>,
}

pub(super) enum Place {
    AsWritten(Range<u64>),
    Original,
    Gone,
}

impl Places {
    pub(super) fn of(work: &Work<'_>) -> Result<Self> {
        let mut by_content: HashMap<_, VecDeque<_>> = HashMap::new();
        let mut texts = Vec::new();
        for response in &work.before.located.responses {
            for part in response.parts.iter().chain(response.copies.iter().flat_map(|c| &c.parts)) {
                let Part::Text { span, .. } = part else { continue };
                texts.push((span, &response.id));
            }
        }
        // In the order they stand in, which is that of the cuts.
        texts.sort_by_key(|(span, _)| span.start);
        for (span, id) in texts {
            let hash: [u8; 32] = Sha256::digest(work.span(span.clone())?).into();
            by_content.entry((id.clone().unwrap_or_default(), hash)).or_default().push_back(span.clone());
        }
        Ok(Places { by_content })
    }

    /// Where a cut literal is. Ids repeat, so equal texts under one id are taken in the order they stand in.
    pub(super) fn take(&mut self, cut: &Cut, original: &[u8]) -> Place {
        let mut pop =
            |hash: [u8; 32]| self.by_content.get_mut(&(cut.call_id.clone(), hash)).and_then(VecDeque::pop_front);
        if let Some(range) = pop(cut.new_sha256) {
            return Place::AsWritten(range);
        }
        match pop(Sha256::digest(original).into()) {
            Some(_) => Place::Original,
            None => Place::Gone,
        }
    }
}

/// Where values beside responses are in a document that has changed since, by their place in the backup. Lines do not
/// move, and up to its values an edited line is as it was.
pub(super) fn edits(work: &Work<'_>, backup: &Backup, cuts: &[Cut]) -> Result<HashMap<u64, Place>> {
    let mut cuts: Vec<&Cut> = cuts.iter().filter(|cut| cut.edit.is_some()).collect();
    cuts.sort_by_key(|cut| cut.old.start);
    let lines: Vec<u64> = cuts.chunk_by(|a, b| a.line == b.line).filter_map(|c| c.first()).map(|c| c.line).collect();
    if lines.is_empty() {
        return Ok(HashMap::new());
    }
    let (old, now) = (backup.object.lines(&lines)?, work.source.lines(&lines)?);
    let mut places = HashMap::new();
    for (cuts, (old, now)) in cuts.chunk_by(|a, b| a.line == b.line).zip(old.into_iter().zip(now)) {
        let (Some(old), Some(now)) = (old, now) else { continue };
        let mut line = Line { old: backup.span(old.clone())?, now: work.span(now.clone())?, at: (0, 0), same: true };
        places.extend(cuts.iter().map(|cut| (cut.old.start, line.take(cut, old.start, now.start))));
    }
    Ok(places)
}

/// A line of the backup beside that of the document.
struct Line {
    old: Vec<u8>,
    now: Vec<u8>,
    /// How far both were compared.
    at: (usize, usize),
    same: bool,
}

impl Line {
    /// Where the next value is.
    fn take(&mut self, cut: &Cut, old_start: u64, now_start: u64) -> Place {
        self.place(cut, old_start, now_start).unwrap_or_else(|| {
            self.same = false;
            Place::Gone
        })
    }

    fn place(&mut self, cut: &Cut, old_start: u64, now_start: u64) -> Option<Place> {
        let offset = |at: u64| usize::try_from(at.checked_sub(old_start)?).ok();
        let (from, to) = (offset(cut.old.start)?, offset(cut.old.end)?);
        let before = self.old.get(self.at.0..from).filter(|_| self.same)?;
        let rest = self.now.get(self.at.1..)?.strip_prefix(before)?;
        let start = self.at.1.saturating_add(before.len());
        let (original, behind) = (self.old.get(from..to)?, self.old.get(to));
        // A number must end where it ended, or it is another one.
        let ends = |len: usize| rest.get(len) == behind;
        let new_len = usize::try_from(cut.new.end.checked_sub(cut.new.start)?).ok()?;
        let new = rest.get(..new_len).filter(|_| ends(new_len));
        let (len, place) = if new.is_some_and(|new| <[u8; 32]>::from(Sha256::digest(new)) == cut.new_sha256) {
            let start = now_start.saturating_add(start as u64);
            (new_len, Place::AsWritten(start..start.saturating_add(new_len as u64)))
        } else if rest.starts_with(original) && ends(original.len()) {
            (original.len(), Place::Original)
        } else {
            return None;
        };
        self.at = (to, start.saturating_add(len));
        Some(place)
    }
}

/// A backup whose bytes are those it is named by.
pub(super) struct Backup {
    pub(super) object: Source,
}

impl Backup {
    pub(super) fn open(vault: &Vault, intent: &Intent) -> Result<Self> {
        if !intent.backup {
            let why = "the run was made with --no-backup: there is nothing to put back".into();
            return Err(Error::Refused { path: intent.path.clone(), why });
        }
        let path = vault.path_of(&intent.old.sha256);
        let object = Source::open(&path).map(|source| source.unpacking(intent.packed)).map_err(|e| match e {
            Error::Io { path, source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
                Error::Backup { path, what: "the backup is missing".into() }
            }
            other => other,
        })?;
        if object.sha256()? != intent.old.sha256 {
            return Err(Error::Backup {
                path,
                what: "the backup is damaged: its bytes are not those it is named by".into(),
            });
        }
        Ok(Backup { object })
    }

    pub(super) fn span(&self, span: Range<u64>) -> Result<Vec<u8>> {
        let short = || Error::Backup {
            path: self.object.path().to_owned(),
            what: "it is shorter than the journal says".into(),
        };
        if span.start > span.end || span.end > self.object.contents_len()? {
            return Err(short());
        }
        self.object.span(span)
    }
}
