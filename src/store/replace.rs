//! The new file beside the old one, until it is proven.
//!
//! A [`Draft`] is written, a [`Sealed`] one has the old file's rights and is on the disk; `store::swap` puts it in place.
//! Either removes its file when it is dropped before that.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::SystemTime;

use sha2::{Digest, Sha256};

use super::file::{Source, SourceReader, Stamp};
use super::journal::Content;
use super::sys::{self, Dir, Flock};
use crate::error::{Error, Result};

/// What becomes of the modification time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Times {
    /// The original's is kept.
    Keep,
    /// The new file gets this one.
    At(SystemTime),
}

/// A name of ours in somebody's directory, removed on drop. After an exchange the name stands for the old file, which this
/// leaves alone.
#[derive(Debug)]
pub(super) struct Temp<'a> {
    dir: &'a Dir,
    pub(super) name: OsString,
    path: PathBuf,
    stamp: Stamp,
    keep: bool,
}

impl Temp<'_> {
    /// Leaves the name where it is: what it stands for is nowhere else.
    pub(super) fn keep(&mut self) {
        self.keep = true;
    }
}

impl Drop for Temp<'_> {
    fn drop(&mut self) {
        if self.keep {
            return;
        }
        if self.dir.stat(&self.name).is_ok_and(|now| now.same_file(&self.stamp)) {
            let _ = self.dir.unlink(&self.name);
        }
    }
}

/// A new file that is being written.
#[derive(Debug)]
pub struct Draft<'a> {
    source: &'a Source,
    temp: Temp<'a>,
    file: File,
    hash: Sha256,
    len: u64,
}

impl<'a> Draft<'a> {
    /// Makes an empty file beside the source, which only its owner may read. The name must be free.
    pub fn create(source: &'a Source, name: &OsStr) -> Result<Self> {
        let path = source.path().with_file_name(name);
        let dir = source.dir();
        let file = dir.create_new(name).map_err(Error::io(&path, "make the new file"))?;
        let stamp = match sys::stamp(&file) {
            Ok(stamp) => stamp,
            Err(e) => {
                let _ = dir.unlink(name);
                return Err(Error::io(path, "look at")(e));
            }
        };
        let temp = Temp { dir, name: name.to_owned(), path, stamp, keep: false };
        Ok(Draft { source, temp, file, hash: Sha256::new(), len: 0 })
    }

    /// Gives it the source's owner, group, rights and extended attributes, sets its time, and brings it to the disk.
    pub fn finish(self, times: Times) -> Result<Sealed<'a>> {
        let Draft { source, temp, file, hash, len } = self;
        let path = &temp.path;
        let (old, new) = (source.stamp(), temp.stamp);
        if (old.uid, old.gid) != (new.uid, new.gid) {
            sys::chown(&file, old.uid, old.gid).map_err(|e| Error::Refused {
                path: source.path().to_owned(),
                why: format!("its owner and group ({}:{}) cannot be kept: {e}; run as its owner", old.uid, old.gid),
            })?;
        }
        // A change of owner takes set-user-id bits away, so the mode comes after it.
        sys::chmod(&file, old.mode).map_err(Error::io(path, "set the mode of"))?;
        sys::copy_attributes(source.file(), &file).map_err(Error::io(path, "copy the extended attributes to"))?;
        let mtime = match times {
            Times::Keep => old.mtime,
            Times::At(at) => at,
        };
        sys::set_mtime(&file, mtime).map_err(Error::io(path, "set the time of"))?;
        // Once and never again: after a failed fsync the pages count as clean though they never reached the disk.
        file.sync_all().map_err(Error::io(path, "sync"))?;
        // From here on it is only read. A descriptor that can write would look like a writer to a lease.
        let reading = source.dir().open_file(&temp.name).map_err(Error::io(path, "open"))?;
        let stamp = sys::stamp(&reading).map_err(Error::io(path, "look at"))?;
        if !stamp.same_file(&new) || stamp.size != len {
            return Err(Error::Changed { path: path.clone(), what: "was replaced" });
        }
        drop(file);
        // Another unwedge that finds the new file in place waits until we are done with the old one. It is a courtesy: not
        // every file system knows such locks.
        let _ = sys::flock(&reading, Flock::TryExclusive);
        let content = Content { sha256: hash.finalize().into(), len };
        Ok(Sealed { source, temp, file: reading, stamp, content })
    }
}

impl Write for Draft<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.file.write(bytes)?;
        self.hash.update(bytes.get(..n).unwrap_or_default());
        self.len += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// A new file that is complete and on the disk, under its own name.
#[derive(Debug)]
pub struct Sealed<'a> {
    pub(super) source: &'a Source,
    pub(super) temp: Temp<'a>,
    pub(super) file: File,
    pub(super) stamp: Stamp,
    content: Content,
}

impl Sealed<'_> {
    /// The bytes that were written.
    #[must_use]
    pub fn content(&self) -> Content {
        self.content
    }

    /// Reads them back.
    #[must_use]
    pub fn reader(&self) -> SourceReader<'_> {
        SourceReader::of(&self.file, 0..self.content.len)
    }
}
