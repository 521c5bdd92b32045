//! Backups: content-addressed plain copies, 0600 in 0700 directories.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::SystemTime;

use super::holders::lock_holder;
use super::journal::{self, Kind, Outcome, Run};
use super::object::{OBJECTS, hex, sweep_parts, unhex};
use super::recover::recover;
use super::runs::{run_path, runs_dir};
use super::sys::{self, Dir, Flock};
use crate::error::{Error, Result};

/// The directory that holds backups and journal.
#[derive(Debug, Clone)]
pub struct Vault {
    root: PathBuf,
}

impl Vault {
    /// Of this directory, which need not exist yet.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Vault { root: root.into() }
    }
    /// The directory.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }
    /// Every run in the vault, oldest first, and the objects with their state.
    pub fn list(&self) -> Result<Vec<RunSummary>> {
        Ok(journal::runs(&self.root)?.into_iter().map(|run| self.summary(run)).collect())
    }

    fn summary(&self, run: Run) -> RunSummary {
        let documents = run.documents.into_iter().map(|(intent, outcome)| {
            let backup = Some(self.path_of(&intent.old.sha256)).filter(|path| intent.backup && path.is_file());
            DocumentSummary {
                bytes: if backup.is_some() { intent.old.len } else { 0 },
                path: intent.path,
                backup,
                cuts: intent.cuts.len() as u64,
                done: outcome == Outcome::Done,
            }
        });
        RunSummary {
            documents: documents.collect(),
            run: run.run,
            time: run.time,
            kind: match run.kind {
                Kind::Fix => "fix".into(),
                Kind::Undo => "undo".into(),
            },
            undoes: run.undoes,
            state: run.state,
        }
    }

    /// Checks every object against its name, and every run against its objects. Cleans up after crashed runs and says what it did.
    pub fn verify(&self) -> Result<Verification> {
        let mut found = Verification { recovered: recover(&self.root)?.said, ..Verification::default() };
        let needed = needed(&journal::runs(&self.root)?);
        let mut seen = BTreeSet::new();
        for Kept { sha256, .. } in self.all_objects()? {
            let runs = || needed.get(&sha256).map(|n| n.runs.clone()).unwrap_or_default();
            match self.open(&sha256).and_then(|f| sys::stamp(&f).map_err(Error::io(self.path_of(&sha256), "look at"))) {
                Ok(stamp) => {
                    found.sound += 1;
                    found.bytes = found.bytes.saturating_add(stamp.size);
                }
                // Pruned just now, and if a run needs it, it is told below.
                Err(Error::Backup { .. }) if !self.path_of(&sha256).exists() => continue,
                Err(e) => found.damaged.push((self.path_of(&sha256), what_is_wrong(&e), runs())),
            }
            seen.insert(sha256);
        }
        for (sha256, need) in needed.into_iter().filter(|(sha256, _)| !seen.contains(sha256)) {
            found.damaged.push((self.path_of(&sha256), "the backup is missing".into(), need.runs));
        }
        Ok(found)
    }

    /// Removes runs, and objects no remaining run needs. Runs that have not ended stay, with their objects: one that was killed
    /// until [`recover`] has settled it.
    pub fn prune(&self, what: &Prune, dry: bool) -> Result<Pruned> {
        let objects = self.root.join(OBJECTS);
        let lock = match Dir::open(&objects) {
            Ok(dir) => Some(dir),
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) => return Err(Error::io(objects, "open")(e)),
        };
        if let Some(lock) = lock.as_ref().filter(|_| !dry)
            && !sys::flock(lock, Flock::TryExclusive).map_err(Error::io(&objects, "lock"))?
        {
            let why = "a repair relies on the backups just now".into();
            return Err(Error::InUse { path: self.root.clone(), holder: lock_holder(lock), why });
        }
        if !dry {
            sweep_parts(&self.root)?;
        }
        let (go, stay) = choose(journal::runs(&self.root)?, what, SystemTime::now());
        let mut pruned = Pruned { runs: go.iter().map(|run| run.run.clone()).collect(), ..Pruned::default() };
        // First the runs: an object without a run is waste, a run without its object is a broken promise.
        if !dry {
            self.remove_runs(&pruned.runs)?;
        }
        let needed = needed(&stay);
        for Kept { dir, name, sha256, size } in self.all_objects()? {
            if needed.contains_key(&sha256) {
                continue;
            }
            if !dry {
                dir.unlink(&name).map_err(Error::io(self.path_of(&sha256), "remove the backup"))?;
            }
            pruned.objects += 1;
            pruned.bytes = pruned.bytes.saturating_add(size);
        }
        Ok(pruned)
    }

    fn remove_runs(&self, runs: &[String]) -> Result<()> {
        let Some(dir) = runs_dir(&self.root)?.filter(|_| !runs.is_empty()) else { return Ok(()) };
        for run in runs {
            let name = OsString::from(format!("{run}.jsonl"));
            dir.unlink(&name).map_err(Error::io(run_path(&self.root, &name), "remove the journal"))?;
        }
        dir.sync().map_err(Error::io(self.root.join(journal::RUNS), "sync"))
    }

    /// Every file in the vault that has an object's name.
    fn all_objects(&self) -> Result<Vec<Kept>> {
        let path = self.root.join(OBJECTS);
        let objects = match Dir::open(&path) {
            Ok(dir) => dir,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(Error::io(path, "open")(e)),
        };
        let mut all = Vec::new();
        for shard in objects.names().map_err(Error::io(&path, "list"))? {
            if shard.len() != 2 || !objects.stat(&shard).is_ok_and(|s| sys::kind(s.mode) == "a directory") {
                continue;
            }
            let shard_path = path.join(&shard);
            let dir = Rc::new(objects.open_dir(&shard).map_err(Error::io(&shard_path, "open"))?);
            for name in dir.names().map_err(Error::io(&shard_path, "list"))? {
                let sha256 = name.to_str().and_then(unhex);
                if let Some(sha256) = sha256.filter(|s| hex(s).as_bytes().get(..2) == Some(shard.as_encoded_bytes()))
                    && let Ok(stamp) = dir.stat(&name)
                {
                    all.push(Kept { dir: Rc::clone(&dir), name, sha256, size: stamp.size });
                }
            }
        }
        Ok(all)
    }
}

/// A file in the vault that has an object's name.
struct Kept {
    dir: Rc<Dir>,
    name: OsString,
    sha256: [u8; 32],
    size: u64,
}

/// The runs that need an object, and its length.
struct Need {
    runs: Vec<String>,
    len: u64,
}

/// The objects that runs need. What was not carried out needs none; what is not settled yet may.
fn needed(runs: &[Run]) -> BTreeMap<[u8; 32], Need> {
    let mut needed = BTreeMap::new();
    for run in runs {
        for (intent, outcome) in &run.documents {
            if !intent.backup || matches!(outcome, Outcome::Dropped(_)) {
                continue;
            }
            let need = needed.entry(intent.old.sha256).or_insert(Need { runs: Vec::new(), len: intent.old.len });
            if need.runs.last() != Some(&run.run) {
                need.runs.push(run.run.clone());
            }
        }
    }
    needed
}

/// Which runs go and which stay, both oldest first.
fn choose(runs: Vec<Run>, what: &Prune, now: SystemTime) -> (Vec<Run>, Vec<Run>) {
    let count = runs.len();
    let (mut go, mut stay): (Vec<Run>, Vec<Run>) = (Vec::new(), Vec::new());
    for (at, run) in runs.into_iter().enumerate() {
        let surplus = what.keep.is_some_and(|keep| count - at > keep);
        // A time that cannot be read is not old.
        let age = humantime::parse_rfc3339(&run.time).ok().and_then(|time| now.duration_since(time).ok());
        let old = what.older_than.is_some_and(|limit| age.is_some_and(|age| age > limit));
        let to = if run.state == RunState::Done && (surplus || old) { &mut go } else { &mut stay };
        to.push(run);
    }
    if let Some(limit) = what.max_size {
        while needed(&stay).values().map(|need| need.len).sum::<u64>() > limit {
            let Some(at) = stay.iter().position(|run| run.state == RunState::Done) else { break };
            go.push(stay.remove(at));
        }
    }
    go.sort_by(|a, b| (&a.time, &a.run).cmp(&(&b.time, &b.run)));
    (go, stay)
}

/// An error without the path, which stands beside it.
fn what_is_wrong(e: &Error) -> String {
    match e {
        Error::Backup { what, .. } => what.clone(),
        Error::Io { doing, source, .. } => format!("cannot {doing}: {source}"),
        other => other.to_string(),
    }
}

/// A plain copy in the vault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// Where it is.
    pub path: PathBuf,
    /// Its hash, and its name.
    pub sha256: [u8; 32],
    /// Its length.
    pub len: u64,
}

/// A run as `backups list` shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunSummary {
    /// Its id.
    pub run: String,
    /// RFC 3339, UTC.
    pub time: String,
    /// `fix` or `undo`.
    pub kind: String,
    /// The run that it undid, for an undo.
    pub undoes: Option<String>,
    /// Whether it ended, was interrupted, or runs now.
    pub state: RunState,
    /// Its documents.
    pub documents: Vec<DocumentSummary>,
}

/// How far a run came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunState {
    /// It ended.
    Done,
    /// It is running in another process.
    Running,
    /// It was killed.
    Interrupted,
}

/// One document of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentSummary {
    /// The document.
    pub path: PathBuf,
    /// The backup: a plain copy of the whole document.
    pub backup: Option<PathBuf>,
    /// Stored bytes of the backup.
    pub bytes: u64,
    /// Cuts.
    pub cuts: u64,
    /// Whether it was replaced (`done`), or the intent was not carried out.
    pub done: bool,
}

/// What `backups verify` found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verification {
    /// Objects whose bytes match their name.
    pub sound: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Damaged or missing objects: path, what is wrong, and the runs that can no longer be undone because of it.
    pub damaged: Vec<(PathBuf, String, Vec<String>)>,
    /// What a crashed run left, and what was done about it, in sentences.
    pub recovered: Vec<String>,
}

/// What to remove. Every condition that is given must allow a run to stay; the newest are kept first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prune {
    /// Keep at most this many runs.
    pub keep: Option<usize>,
    /// Remove runs older than this.
    pub older_than: Option<std::time::Duration>,
    /// Remove the oldest runs until the objects hold at most this many bytes.
    pub max_size: Option<u64>,
}

/// What was removed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Runs.
    pub runs: Vec<String>,
    /// Objects.
    pub objects: u64,
    /// Bytes of those objects.
    pub bytes: u64,
}
