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
