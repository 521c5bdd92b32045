//! Agents' own lock files, and who else uses a stream.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::file::{Source, Stamp, split};
use super::holders::{lock_holder, process, writers};
use super::lease::{Lease, Taken};
use super::sys::{self, Dir, Flock};
use crate::error::{Error, Result};

/// How often a lock file may be taken away from under us before we give up.
const TRIES: usize = 5;

/// An agent's lock file, locked the way the agent locks it. Released, and the file removed, on drop.
///
/// The protocol is JP's (`jp_storage/src/lock.rs` at `4c1c39f1`): an exclusive `flock` on the file, which holds a line about
/// its holder. JP removes the file *after* it has unlocked it, so a file that was locked may be gone from its path a moment
/// later: [`AgentLock::intact`] tells.
#[derive(Debug)]
pub struct AgentLock {
    held: Option<Held>,
    others: Vec<PathBuf>,
}

#[derive(Debug)]
struct Held {
    path: PathBuf,
    dir: Dir,
    name: OsString,
    file: File,
    stamp: Stamp,
    /// Directories that were made for the file, outermost first.
    made: Vec<PathBuf>,
}

impl AgentLock {
    /// Takes the first of `existing` that exists, else creates `create`; `None` takes no lock where none exists.
    /// Any other of `existing` that somebody holds is a refusal too.
    pub fn acquire(existing: &[PathBuf], create: Option<&Path>) -> Result<Self> {
        for _ in 0..TRIES {
            let Some((path, file, made)) = open_first(existing, create)? else {
                return Ok(AgentLock { held: None, others: existing.to_vec() });
            };
            let held = Held::lock(path, file, made)?;
            if let Some(mut held) = held {
                let others: Vec<_> = existing.iter().filter(|p| **p != held.path).cloned().collect();
                Self::probe(&others)?;
                held.introduce();
                return Ok(AgentLock { held: Some(held), others });
            }
        }
        let path = existing.first().map(PathBuf::as_path).or(create).unwrap_or(Path::new("")).to_owned();
        Err(Error::InUse { path, holder: None, why: "its lock file comes and goes".into() })
    }

    /// Whether the lock could be taken now. Creates and writes nothing.
    pub fn probe(existing: &[PathBuf]) -> Result<()> {
        for path in existing {
            let Some((dir, name)) = open_parent(path)? else { continue };
            let file = match dir.open_file(&name) {
                Ok(file) => file,
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                Err(e) => return Err(refuse_link(path, e)),
            };
            must_be_regular(path, &file)?;
            // Given back when the file is closed, at the end of this turn.
            if !try_lock(path, &file)? {
                return Err(busy(path, &file));
            }
        }
        Ok(())
    }

    /// Removes lock files of ours that a killed run left. What cannot be removed stays: it locks nothing.
    pub fn clean_up(existing: &[PathBuf]) {
        for path in existing {
            let Ok(Some((dir, name))) = open_parent(path) else { continue };
            // Dropping the lock removes the file, if nobody holds it now and it is still the one that was looked at.
            let _ = dir
                .open_or_create(&name, false)
                .map(|file| if is_ours(&file) { Held::lock(path.clone(), file, Vec::new()).map(drop) } else { Ok(()) });
        }
    }

    /// Whether the lock file is still the one that was locked; where none was taken, whether nobody has one now.
    pub fn intact(&self) -> Result<()> {
        if let Some(held) = &self.held
            && !held.is_at_path()
        {
            let why = "its lock file was removed or replaced".into();
            return Err(Error::InUse { path: held.path.clone(), holder: None, why });
        }
        Self::probe(&self.others)
    }
}

impl Held {
    /// `None` where the file is no longer at its path once it is locked.
    fn lock(path: PathBuf, file: File, made: Vec<PathBuf>) -> Result<Option<Self>> {
        must_be_regular(&path, &file)?;
        let Some((dir, name)) = open_parent(&path)? else { return Ok(None) };
        if !try_lock(&path, &file)? {
            return Err(busy(&path, &file));
        }
        let stamp = sys::stamp(&file).map_err(Error::io(&path, "look at"))?;
        let held = Held { path, dir, name, file, stamp, made };
        Ok(held.is_at_path().then_some(held))
    }

    fn is_at_path(&self) -> bool {
        self.dir.stat(&self.name).is_ok_and(|now| now.same_file(&self.stamp))
    }

    /// Writes who holds it. For people only, as it is for JP: a failure is no reason not to go on.
    fn introduce(&mut self) {
        let at = humantime::format_rfc3339_nanos(SystemTime::now()).to_string().replace('Z', "+00:00");
        let line = format!(r#"{{"pid":{},"acquired_at":"{at}"}}"#, std::process::id());
        let _ =
            self.file.set_len(0).and_then(|()| self.file.rewind()).and_then(|()| self.file.write_all(line.as_bytes()));
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // While it is still locked, so that nobody else can have taken it, and only if it is still ours.
        if self.is_at_path() {
            let _ = self.dir.unlink(&self.name);
        }
        for dir in self.made.iter().rev() {
            let _ = std::fs::remove_dir(dir);
        }
    }
}

type Opened = (PathBuf, File, Vec<PathBuf>);

fn open_first(existing: &[PathBuf], create: Option<&Path>) -> Result<Option<Opened>> {
    for path in existing {
        let Some((dir, name)) = open_parent(path)? else { continue };
        match dir.open_or_create(&name, false) {
            Ok(file) => return Ok(Some((path.clone(), file, Vec::new()))),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(refuse_link(path, e)),
        }
    }
    let Some(path) = create else { return Ok(None) };
    let made = make_parents(path)?;
    let file = open_parent(path)?
        .ok_or_else(|| io::ErrorKind::NotFound.into())
        .and_then(|(dir, name)| dir.open_or_create(&name, true));
    match file {
        Ok(file) => Ok(Some((path.to_owned(), file, made))),
        Err(e) => {
            for dir in made.iter().rev() {
                let _ = std::fs::remove_dir(dir);
            }
            Err(refuse_link(path, e))
        }
    }
}

/// The directories that had to be made for a file, outermost first.
fn make_parents(path: &Path) -> Result<Vec<PathBuf>> {
    let missing: Vec<_> = path
        .ancestors()
        .skip(1)
        .take_while(|dir| !dir.as_os_str().is_empty() && matches!(dir.try_exists(), Ok(false)))
        .collect();
    let mut made = Vec::new();
    for dir in missing.into_iter().rev() {
        match std::fs::create_dir(dir) {
            Ok(()) => made.push(dir.to_owned()),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => {
                for dir in made.iter().rev() {
                    let _ = std::fs::remove_dir(dir);
                }
                return Err(Error::io(dir, "make the directory")(e));
            }
        }
    }
    Ok(made)
}

/// `None` where the directory does not exist.
fn open_parent(path: &Path) -> Result<Option<(Dir, OsString)>> {
    let Some((parent, name)) = split(path) else {
        return Err(Error::Refused { path: path.to_owned(), why: "not the name of a lock file".into() });
    };
    // The directory of the locks is the agent's own; a link in its place was put there to have a file made elsewhere.
    let opened = match split(parent) {
        Some((above, dir)) => Dir::open(above).and_then(|above| above.open_dir(dir)),
        None => Dir::open(parent),
    };
    match opened {
        Ok(dir) => Ok(Some((dir, name.to_owned()))),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Error::io(parent, "open the directory")(e)),
    }
}

fn must_be_regular(path: &Path, file: &File) -> Result<()> {
    let stamp = sys::stamp(file).map_err(Error::io(path, "look at"))?;
    if sys::is_regular(stamp.mode) {
        return Ok(());
    }
    Err(Error::Refused { path: path.to_owned(), why: format!("{}, not a lock file", sys::kind(stamp.mode)) })
}

fn try_lock(path: &Path, file: &File) -> Result<bool> {
    sys::flock(file, Flock::TryExclusive).map_err(Error::io(path, "lock"))
}

fn refuse_link(path: &Path, e: io::Error) -> Error {
    if sys::is_link_error(&e) {
        return Error::Refused { path: path.to_owned(), why: "a symbolic link, not a lock file".into() };
    }
    Error::io(path, "open the lock file")(e)
}

fn busy(path: &Path, file: &File) -> Error {
    let holder = holder(file).or_else(|| lock_holder(file));
    Error::InUse { path: path.to_owned(), holder, why: "it holds the lock".into() }
}

/// Whether a lock file says what [`Held::introduce`] writes: JP names its session too. One that is empty may be anybody's; a run
/// that was killed before it wrote this has changed nothing, so that the next one takes the lock again.
fn is_ours(file: &File) -> bool {
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only that these are all of it matters")]
    struct Ours {
        pid: u32,
        acquired_at: String,
    }
    let mut text = Vec::new();
    let read = super::file::SourceReader::of(file, 0..4096).read_to_end(&mut text);
    read.is_ok() && serde_json::from_slice::<Ours>(&text).is_ok()
}

/// Who the lock file says holds it, if that process lives.
fn holder(file: &File) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Info {
        pid: u32,
    }
    let mut text = String::new();
    super::file::SourceReader::of(file, 0..4096).read_to_string(&mut text).ok()?;
    let info: Info = serde_json::from_str(&text).ok()?;
    process(info.pid)
}

/// Keeps a second unwedge off a stream. Released on drop.
#[derive(Debug)]
pub struct StreamLock<'a> {
    source: &'a Source,
}

/// Locks the stream itself against a second unwedge. Where the file system knows no such lock, there is none.
pub fn stream_lock(source: &Source) -> Result<StreamLock<'_>> {
    match sys::flock(source.file(), Flock::TryExclusive) {
        Ok(false) => {
            let why = "another unwedge is repairing it".into();
            Err(Error::InUse { path: source.path().to_owned(), holder: lock_holder(source.file()), why })
        }
        Ok(true) | Err(_) => Ok(StreamLock { source }),
    }
}

impl Drop for StreamLock<'_> {
    fn drop(&mut self) {
        let _ = sys::flock(self.source.file(), Flock::Unlock);
    }
}

/// Refuses a stream that another process holds open for writing.
pub fn unused(source: &Source) -> Result<()> {
    leased(source, true).map(drop)
}

/// A lease on the stream, or the refusal. `None` where there are no leases, or none are wanted, and no writer can be seen.
pub(super) fn leased(source: &Source, wanted: bool) -> Result<Option<Lease<'_>>> {
    match if wanted { Lease::take(source.file()) } else { Taken::Unsupported } {
        Taken::Held(lease) => Ok(Some(lease)),
        Taken::Unsupported if writers(source).is_none() => Ok(None),
        Taken::Busy | Taken::Unsupported => Err(in_use(source, "it has the file open for writing")),
    }
}

pub(super) fn in_use(source: &Source, why: &str) -> Error {
    Error::InUse { path: source.path().to_owned(), holder: writers(source), why: why.into() }
}

/// Whether a file was left alone for this long. A time in the future by more than that is a wrong clock, not a writer.
#[must_use]
pub fn idle(stamp: &Stamp, min_idle: Duration, now: SystemTime) -> bool {
    let apart = now.duration_since(stamp.mtime).unwrap_or_else(|ahead| ahead.duration());
    apart >= min_idle
}
