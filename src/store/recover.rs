//! What a killed run left: says which document is old and which is new, and clears away what is ours.
//!
//! Only drafts that the run's journal names are touched, and of them only those whose bytes are certainly elsewhere.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, reason = "numbers from files and journals"))]

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::file::{Source, SourceReader};
use super::journal::{Content, DRAFT, Intent, Outcome, Record, RunFile};
use super::object::sweep_parts;
use super::runs::{parse, run_names, run_path, runs_dir};
use super::sys::{self, Dir, Flock};
use super::vault::{RunState, Vault};
use crate::error::{Error, Result};

/// A tail longer than this is not looked for in the document; the leftover stays then.
const LONGEST_TAIL: u64 = 16 * 1024 * 1024;

/// What became of killed runs.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// One sentence for each document and each leftover.
    pub said: Vec<String>,
    /// Documents that could not be looked at, or whose leftover could not be removed. What is beside them was not told from
    /// them, so they must not be replaced: a later look could tell it still less.
    pub unsettled: BTreeSet<PathBuf>,
}

/// Settles every run that was killed. Creates nothing.
pub fn recover(root: &Path) -> Result<Recovered> {
    let mut found = Recovered { said: sweep_parts(root)?, ..Recovered::default() };
    let Some(runs) = runs_dir(root)? else { return Ok(found) };
    for name in run_names(&runs, root)? {
        recover_run(root, &runs, &name, &mut found)?;
    }
    Ok(found)
}

fn recover_run(root: &Path, runs: &Dir, name: &OsStr, found: &mut Recovered) -> Result<()> {
    let path = run_path(root, name);
    let reading = match runs.open_file(name) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(Error::io(path, "open the journal")(e)),
    };
    if parse(&path, &reading)?.is_some_and(|run| run.state == RunState::Done) {
        return Ok(());
    }
    drop(reading);
    let file = runs.open_append(name).map_err(Error::io(&path, "open the journal"))?;
    if !matches!(sys::flock(&file, Flock::TryExclusive), Ok(true)) {
        // It lives, or nobody can know.
        return Ok(());
    }
    // Read again: it may have gone on until just now.
    let Some(run) = parse(&path, &file)? else {
        // Not even its first line is whole, so nothing had been announced.
        return runs.unlink(name).map_err(Error::io(path, "remove the empty journal"));
    };
    if run.state == RunState::Done {
        return Ok(());
    }
    end_line(&file).map_err(Error::io(&path, "write the journal"))?;
    let mut journal = RunFile { path, file: Some(file) };
    let vault = Vault::new(root);
    let mut settled = true;
    for (intent, _) in run.documents.iter().filter(|(_, outcome)| *outcome == Outcome::Pending) {
        match settle(&vault, intent) {
            Ok((outcome, sentence)) => {
                let document = intent.document;
                journal.append(&match outcome {
                    Outcome::Dropped(why) => Record::Dropped { document, why },
                    Outcome::Done | Outcome::Pending => Record::Done { document },
                })?;
                found.said.push(sentence);
            }
            Err(e) => {
                // The run stays open, and the next recovery tries again.
                settled = false;
                found.unsettled.insert(intent.path.clone());
                found.said.push(format!("run {} was killed, and this document cannot be settled: {e}", run.run));
            }
        }
    }
    if settled {
        journal.append(&Record::End {})?;
    }
    Ok(())
}

/// A kill may have torn the last line; what follows must not be glued to it.
fn end_line(mut file: &File) -> io::Result<()> {
    use std::io::Write;
    let size = sys::stamp(file)?.size;
    let mut last = [b'\n'];
    if let Some(at) = size.checked_sub(1) {
        sys::read_at(file, &mut last, at)?;
    }
    if last == [b'\n'] { Ok(()) } else { file.write_all(b"\n") }
}

/// What a file is, seen from an intent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    Old,
    New,
    /// The old bytes and more.
    OldGrown,
    /// The new bytes and more.
    NewGrown,
    Other,
    Gone,
}

impl Seen {
    fn sentence(self) -> &'static str {
        match self {
            Seen::Old => "the old one, whole",
            Seen::New => "the new one, whole",
            Seen::OldGrown => "the old one, grown since",
            Seen::NewGrown => "the new one, grown since",
            Seen::Other => "neither the old one nor the new one: its agent went on with it",
            Seen::Gone => "gone",
        }
    }
}

fn settle(vault: &Vault, intent: &Intent) -> Result<(Outcome, String)> {
    let target = match Source::open(&intent.path) {
        Ok(source) => Some(source),
        Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => None,
        // Something else stands there now; whatever it is, it is not one of ours.
        Err(Error::Refused { .. }) => None,
        Err(e) => return Err(e),
    };
    let seen = match &target {
        Some(target) => look(target, intent)?,
        None => Seen::Gone,
    };
    let leftover = leftover(vault, intent, target.as_ref(), seen)?;
    let outcome = match (seen, &leftover) {
        (Seen::Old | Seen::OldGrown, _) => Outcome::Dropped("not carried out: unwedge was killed".into()),
        // The new bytes were still waiting beside it.
        (Seen::Other | Seen::Gone, Some((Seen::New, _))) => {
            Outcome::Dropped("not carried out: unwedge was killed, and the document changed since".into())
        }
        // Where it cannot be known, the backup must stay, and undo must be able to look.
        _ => Outcome::Done,
    };
    let mut sentence = format!("{}: {}", intent.path.display(), seen.sentence());
    if let Some((_, what)) = leftover {
        sentence.push_str("; ");
        sentence.push_str(&what);
    }
    Ok((outcome, sentence))
}

/// What stands under the draft's name, and what was done about it.
fn leftover(vault: &Vault, intent: &Intent, target: Option<&Source>, seen: Seen) -> Result<Option<(Seen, String)>> {
    let path = intent.path.with_file_name(&intent.draft);
    let name = intent.draft.as_os_str();
    let ours = name.as_encoded_bytes().starts_with(DRAFT.as_bytes()) && path.file_name() == Some(name);
    if !ours {
        return Ok(None);
    }
    let left = |why: &str| format!("leftover {} was left: {why}", path.display());
    let draft = match Source::open(&path) {
        Ok(draft) => draft,
        Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(Error::Refused { why, .. }) => return Ok(Some((Seen::Other, left(&format!("it is {why}"))))),
        Err(e) => return Err(e),
    };
    let what = look(&draft, intent)?;
    let safe = match (what, seen) {
        // The old bytes are in the document, in one form or the other, or in the vault.
        (Seen::Old | Seen::New, Seen::Other | Seen::Gone) => {
            let backed = intent.backup && vault.open(&intent.old.sha256).is_ok();
            if backed || (what, seen) == (Seen::New, Seen::Other) {
                Ok(())
            } else {
                Err("there is no other copy of it")
            }
        }
        (Seen::Old | Seen::New, _) => Ok(()),
        (Seen::OldGrown, _) => tail_is_in(&draft, intent.old.len, target),
        (Seen::NewGrown, _) => tail_is_in(&draft, intent.new.len, target),
        // Half written: the exchange comes after the whole of it.
        (_, Seen::Old | Seen::OldGrown) => Ok(()),
        (_, _) => Err("it is neither the old document nor the new one; look at it, and remove it by hand"),
    };
    match safe {
        Ok(()) => {
            draft.unchanged()?;
            draft
                .dir()
                .unlink(name)
                .and_then(|()| draft.dir().sync())
                .map_err(Error::io(&path, "remove the leftover"))?;
            Ok(Some((what, format!("leftover {} removed", name.display()))))
        }
        Err(why) => Ok(Some((what, left(why)))),
    }
}

/// Whether what was appended to a leftover is in the document too.
fn tail_is_in(draft: &Source, known: u64, target: Option<&Source>) -> Result<(), &'static str> {
    const WHY: &str = "it has lines that are not in the document; add them by hand";
    let end = draft.stamp().size;
    let Some(target) = target.filter(|_| end.checked_sub(known).is_some_and(|len| len <= LONGEST_TAIL)) else {
        return Err(WHY);
    };
    let mut tail = Vec::new();
    SourceReader::of(draft.file(), known..end).read_to_end(&mut tail).map_err(|_| WHY)?;
    // A carried tail stands at the end, where others may have appended since.
    let size = target.stamp().size;
    let from = size.saturating_sub(LONGEST_TAIL.saturating_mul(2));
    let mut document = Vec::new();
    SourceReader::of(target.file(), from..size).read_to_end(&mut document).map_err(|_| WHY)?;
    memchr::memmem::find(&document, &tail).map(|_| ()).ok_or(WHY)
}

/// Tells a file from its bytes, in one pass.
fn look(file: &Source, intent: &Intent) -> Result<Seen> {
    let reading = || Error::io(file.path(), "read");
    let size = file.stamp().size;
    let mut hash = Sha256::new();
    let mut at = 0;
    let mut is = |content: &Content| -> Result<bool> {
        if size < content.len {
            return Ok(false);
        }
        let part = SourceReader::of(file.file(), at..content.len);
        io::copy(&mut { part }, &mut super::late::Hashing(&mut hash)).map_err(reading())?;
        at = content.len;
        Ok(<[u8; 32]>::from(hash.clone().finalize()) == content.sha256)
    };
    // The hash goes forward only, so the shorter one is asked about first.
    let (old, new) = if intent.old.len <= intent.new.len {
        let old = is(&intent.old)?;
        (old, is(&intent.new)?)
    } else {
        let new = is(&intent.new)?;
        (is(&intent.old)?, new)
    };
    Ok(match (old, new) {
        (true, _) if size == intent.old.len => Seen::Old,
        (_, true) if size == intent.new.len => Seen::New,
        (_, true) => Seen::NewGrown,
        (true, false) => Seen::OldGrown,
        (false, false) => Seen::Other,
    })
}
