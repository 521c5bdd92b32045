//! Which runs are meant, and which of their documents: named by id, by path, or by the path a document was moved to.

use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::Which;
use crate::error::{Error, Result};
use crate::format::{self, Places};
use crate::store::Source;
use crate::store::journal::{self, Intent, Kind, Outcome, Run, split_cut_id};
use crate::store::look::Disk;

/// What could be meant: runs, the first choice first, and of a run only the cut of this number. Never empty.
pub(super) fn find(which: &Which, vault: &Path, at: &Places) -> Result<(Vec<Run>, Option<u64>)> {
    match which {
        Which::Run(id) => {
            if let Ok(run) = journal::read(vault, id) {
                return Ok((vec![run], None));
            }
            let cut = split_cut_id(id).and_then(|(run, number)| Some((journal::read(vault, run).ok()?, number)));
            let known =
                |(run, number): &(Run, u64)| run.documents.iter().any(|(i, _)| i.cuts.iter().any(|c| c.id == *number));
            cut.filter(known)
                .map(|(run, number)| (vec![run], Some(number)))
                .ok_or_else(|| Error::Unknown(format!("no run {id:?}; `unwedge backups list` shows the runs")))
        }
        Which::Path(path) => {
            let real = real(path);
            let fixes: Vec<Run> = journal::runs(vault)?.into_iter().filter(|run| run.kind == Kind::Fix).rev().collect();
            let changed = |run: &&Run| documents(run).any(|intent| standing(intent).starts_with(&real));
            let mut runs: Vec<Run> = fixes.iter().filter(changed).cloned().collect();
            if runs.is_empty() {
                runs = fixes.iter().filter_map(|run| moved(run, &real, at)).collect();
            }
            if runs.is_empty() {
                let shown = path.display();
                let why = format!(
                    "{shown}: no run changed it, nor what was moved here; `unwedge backups list` shows the runs"
                );
                return Err(Error::Unknown(why));
            }
            Ok((runs, None))
        }
    }
}

/// Where a document is now: under the name that the run knew, or the other one that its agent may have given it since.
pub(super) fn standing(intent: &Intent) -> PathBuf {
    let renamed = || format::named(&intent.format)?.renamed(&intent.path).filter(|path| is_file(path));
    // What cannot be looked at is there: whoever opens it says why.
    if Disk.is_file(&intent.path).unwrap_or(true) { None } else { renamed() }.unwrap_or_else(|| intent.path.clone())
}

/// The path as the journal has paths.
pub(super) fn real(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).or_else(|_| std::path::absolute(path)).unwrap_or_else(|_| path.to_owned())
}

fn is_file(path: &Path) -> bool {
    Disk.is_file(path).unwrap_or_default()
}

fn documents(run: &Run) -> impl Iterator<Item = &Intent> {
    run.documents.iter().filter(|(_, outcome)| *outcome == Outcome::Done).map(|(intent, _)| intent)
}

/// The run with those of its documents that now are here, under the paths they have here. A document was moved where its own
/// path is gone and what is here is the same conversation, or begins with the bytes that the run left, or found, in it.
fn moved(run: &Run, here: &Path, at: &Places) -> Option<Run> {
    let now = |intent: &Intent| {
        let path = places(&intent.path, here).into_iter().find(|place| is_it(place, intent, at))?;
        Some((Intent { path, ..intent.clone() }, Outcome::Done))
    };
    let documents: Vec<_> =
        documents(run).filter(|intent| !Disk.is_file(&standing(intent)).unwrap_or(true)).filter_map(now).collect();
    (!documents.is_empty()).then(|| Run { documents, ..run.clone() })
}

/// Where a document could be: the file that is named, or, below a directory, what ends as its old path does, the longest first.
fn places(old: &Path, here: &Path) -> Vec<PathBuf> {
    if is_file(here) {
        return vec![here.to_owned()];
    }
    let names: Vec<_> = old.components().skip(1).collect();
    let below = |from: usize| here.join(names.iter().skip(from).collect::<PathBuf>());
    (0..names.len()).map(below).filter(|path| is_file(path)).collect()
}

fn is_it(path: &Path, intent: &Intent, at: &Places) -> bool {
    let id = format::named(&intent.format).and_then(|format| format.conversation(path, &Disk, at).id);
    if id.is_some() && id == intent.conversation {
        return true;
    }
    let Ok(source) = Source::open(path) else { return false };
    [intent.new, intent.old].iter().any(|content| {
        let (mut hash, mut left) = (Sha256::new(), content.len);
        // No longer than a whole read, and usually a short one.
        let read = source.stamp().size >= content.len
            && source
                .each_chunk(&mut |chunk| {
                    let take = usize::try_from(left).unwrap_or(usize::MAX).min(chunk.len());
                    hash.update(chunk.get(..take).unwrap_or_default());
                    left = left.saturating_sub(take as u64);
                })
                .is_ok();
        read && <[u8; 32]>::from(hash.finalize()) == content.sha256
    })
}
