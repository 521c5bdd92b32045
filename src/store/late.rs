//! A file that lost its name to another: whoever had opened it, or was about to, may still write to it.
//!
//! Nothing tells when the last of them is done, so the file is kept open to the end of the run and looked at again.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

use super::file::{SourceReader, Stamp};
use super::journal::Content;
use super::lease::{Lease, Taken};
use super::sys::{self, Dir};
use crate::error::{Error, Result};

/// How long a writer that slipped in may take to finish.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

/// Keeps the whole of a file's bytes, and says where.
pub(super) type Rescue<'a> = &'a dyn Fn(&File) -> Result<PathBuf>;

/// What a look at a file that lost its name came to.
#[derive(Debug)]
pub(super) enum Sweep {
    /// All that was written to it is in the heir. This many bytes of it were carried over now.
    Clean(u64),
    /// What could not be carried is kept elsewhere, and the error says where.
    Kept(Error),
    /// What was written to it may be nowhere else.
    Stuck(Error),
}

/// A file that lost its name, and the one that has it now.
#[derive(Debug)]
pub struct Replaced {
    pub(super) path: PathBuf,
    pub(super) dir: Dir,
    pub(super) name: OsString,
    /// The file that lost the name, open for reading.
    pub(super) old: File,
    /// Its bytes as far as they are known to be in the heir, in one form or the other.
    pub(super) known: Content,
    /// Its state when it had those bytes.
    pub(super) seen: Stamp,
    /// The file that has the name, as it was when it got it.
    pub(super) heir: Stamp,
    /// Whether what was appended to the one may be appended to the other.
    pub(super) carry: bool,
}

impl Replaced {
    /// The document's path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the file that lost the name was written to since it was looked at last.
    pub fn touched(&self) -> Result<bool> {
        Ok(!self.now()?.same_bytes(&self.seen))
    }

    /// Whether the file that has the name now is as it was when it got it.
    pub(super) fn heir_untouched(&self) -> bool {
        self.dir.stat(&self.name).is_ok_and(|now| now.same_bytes(&self.heir))
    }

    /// Carries what was appended over to the heir. What cannot be carried is handed to `rescue`, together with all the rest.
    pub(super) fn sweep(&mut self, rescue: Rescue<'_>) -> Sweep {
        // A writer that is still at it gets the time to finish its line.
        let carried = self.touched().and_then(|touched| {
            let quiet = !touched || quiet(&self.old, PATIENCE);
            self.carry_over(quiet)
        });
        match carried {
            Ok(Ok(bytes)) => Sweep::Clean(bytes),
            Ok(Err(why)) => self.keep_aside(why, rescue),
            Err(e) => Sweep::Stuck(e),
        }
    }

    /// The inner error says why something is left in the file that could not be carried.
    pub(super) fn carry_over(&mut self, quiet: bool) -> Result<Result<u64, &'static str>> {
        let now = self.now()?;
        if now.same_bytes(&self.seen) {
            return Ok(Ok(0));
        }
        if now.size < self.known.len {
            return Ok(Err("it made the file shorter"));
        }
        let mut hash = Sha256::new();
        io::copy(&mut SourceReader::of(&self.old, 0..self.known.len), &mut Hashing(&mut hash))
            .map_err(Error::io(&self.path, "read"))?;
        if <[u8; 32]>::from(hash.clone().finalize()) != self.known.sha256 {
            return Ok(Err("it changed what was there before"));
        }
        if now.size > self.known.len && !self.carry {
            return Ok(Err("this format has no lines that could be carried over"));
        }
        let mut tail = Vec::new();
        SourceReader::of(&self.old, self.known.len..now.size)
            .read_to_end(&mut tail)
            .map_err(Error::io(&self.path, "read"))?;
        if !(quiet && self.heir_untouched()) {
            // Half a line would run into what others have appended to the heir meanwhile.
            tail.truncate(memchr::memrchr(b'\n', &tail).map_or(0, |at| at + 1));
        }
        let heir = match self.append(&tail)? {
            Ok(heir) => heir,
            Err(why) => return Ok(Err(why)),
        };
        // It is there now, whatever comes: it must not be carried twice.
        hash.update(&tail);
        self.known = Content { sha256: hash.finalize().into(), len: self.known.len + tail.len() as u64 };
        let whole = self.known.len == now.size;
        if whole {
            self.seen = now;
        }
        if let Some(heir) = heir {
            heir.sync_all().map_err(Error::io(&self.path, "sync"))?;
        }
        Ok(if whole { Ok(tail.len() as u64) } else { Err("its last line is not whole") })
    }

    /// Keeps all bytes of the file elsewhere.
    pub(super) fn keep_aside(&mut self, why: &str, rescue: Rescue<'_>) -> Sweep {
        let kept = match rescue(&self.old) {
            Ok(kept) => kept,
            Err(e) => return Sweep::Stuck(e),
        };
        if let Ok(now) = self.now() {
            self.seen = now;
        }
        let why = format!(
            "another process wrote to it while it was being replaced, and {why}; all of what it wrote to is kept in {}",
            kept.display()
        );
        Sweep::Kept(Error::Refused { path: self.path.clone(), why })
    }

    fn append(&mut self, tail: &[u8]) -> Result<Result<Option<File>, &'static str>> {
        if tail.is_empty() {
            return Ok(Ok(None));
        }
        let mut heir = match self.dir.open_append(&self.name) {
            Ok(heir) => heir,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Err("the file is gone now")),
            Err(e) => return Err(Error::io(&self.path, "append late lines to")(e)),
        };
        let there = sys::stamp(&heir).map_err(Error::io(&self.path, "look at"))?;
        if !there.same_file(&self.heir) {
            return Ok(Err("a third file has its place now"));
        }
        heir.write_all(tail).map_err(Error::io(&self.path, "append late lines to"))?;
        if let Ok(now) = sys::stamp(&heir)
            && there.same_bytes(&self.heir)
        {
            self.heir = now;
        }
        Ok(Ok(Some(heir)))
    }

    fn now(&self) -> Result<Stamp> {
        sys::stamp(&self.old).map_err(Error::io(&self.path, "look at"))
    }
}

/// Waits until nobody has the file open for writing. `false` if that takes longer than the limit.
pub(super) fn quiet(file: &File, limit: Duration) -> bool {
    let start = Instant::now();
    loop {
        match Lease::take(file) {
            // Without a lease nothing is known, and waiting would not help.
            Taken::Held(_) | Taken::Unsupported => return true,
            Taken::Busy if start.elapsed() >= limit => return false,
            Taken::Busy => sleep(Duration::from_millis(1)),
        }
    }
}

/// A writer into a hash.
pub(super) struct Hashing<'a>(pub(super) &'a mut Sha256);

impl Write for Hashing<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
