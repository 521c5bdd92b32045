//! The store's system calls where there is no Unix: by path, with what the standard library has.
//!
//! Weaker than on Unix: no exchange, no lease, no lock, no owner; a file is told from another by size and times alone.

#![expect(clippy::disallowed_methods, reason = "these are the store's own calls")]

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::file::Stamp;

/// A directory, by its path.
#[derive(Debug)]
pub(super) struct Dir {
    path: PathBuf,
}

const REGULAR: u32 = 0o100_000;
const DIRECTORY: u32 = 0o040_000;
const LINK: u32 = 0o120_000;

impl Dir {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        if !std::fs::metadata(path)?.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Ok(Dir { path: path.to_owned() })
    }
    pub(super) fn open_real(path: &Path) -> io::Result<Self> {
        Self::open(path)
    }
    pub(super) fn try_clone(&self) -> io::Result<Self> {
        Ok(Dir { path: self.path.clone() })
    }
    pub(super) fn open_dir(&self, name: &OsStr) -> io::Result<Self> {
        Self::open(&self.path.join(name))
    }
    pub(super) fn make_dir(&self, name: &OsStr) -> io::Result<bool> {
        match std::fs::create_dir(self.path.join(name)) {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(e) => Err(e),
        }
    }
    pub(super) fn make_private(&self) -> io::Result<()> {
        Ok(())
    }
    pub(super) fn is_private(&self) -> io::Result<bool> {
        Ok(true)
    }
    pub(super) fn open_file(&self, name: &OsStr) -> io::Result<File> {
        self.refuse_link(name)?;
        File::open(self.path.join(name))
    }
    pub(super) fn open_append(&self, name: &OsStr) -> io::Result<File> {
        self.refuse_link(name)?;
        OpenOptions::new().read(true).append(true).open(self.path.join(name))
    }
    pub(super) fn open_or_create(&self, name: &OsStr, create: bool) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).create(create).truncate(false).open(self.path.join(name))
    }
    pub(super) fn create_new(&self, name: &OsStr) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).create_new(true).open(self.path.join(name))
    }
    fn refuse_link(&self, name: &OsStr) -> io::Result<()> {
        if std::fs::symlink_metadata(self.path.join(name))?.is_symlink() {
            return Err(io::Error::other("a symbolic link"));
        }
        Ok(())
    }
    pub(super) fn stat(&self, name: &OsStr) -> io::Result<Stamp> {
        stamp_of(&std::fs::symlink_metadata(self.path.join(name))?)
    }
    pub(super) fn exchange(&self, _a: &OsStr, _b: &OsStr) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    pub(super) fn rename_new(&self, from: &OsStr, to: &Self, name: &OsStr) -> io::Result<()> {
        if to.path.join(name).try_exists()? {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.rename(from, to, name)
    }
    pub(super) fn rename(&self, from: &OsStr, to: &Self, name: &OsStr) -> io::Result<()> {
        std::fs::rename(self.path.join(from), to.path.join(name))
    }
    pub(super) fn unlink(&self, name: &OsStr) -> io::Result<()> {
        std::fs::remove_file(self.path.join(name))
    }
    pub(super) fn sync(&self) -> io::Result<()> {
        Ok(())
    }
    pub(super) fn names(&self) -> io::Result<Vec<OsString>> {
        let mut names = std::fs::read_dir(&self.path)?.map(|e| Ok(e?.file_name())).collect::<io::Result<Vec<_>>>()?;
        names.sort();
        Ok(names)
    }
}

/// Not known beforehand; writing will tell.
pub(super) fn may_write(_dir: &Path) -> io::Result<()> {
    Ok(())
}

pub(super) fn stamp(file: &File) -> io::Result<Stamp> {
    stamp_of(&file.metadata()?)
}

/// The time it was made stands in for the inode.
fn stamp_of(meta: &std::fs::Metadata) -> io::Result<Stamp> {
    let made = meta.created().ok().and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok());
    let mtime = meta.modified()?;
    let kind = match meta.file_type() {
        t if t.is_symlink() => LINK,
        t if t.is_dir() => DIRECTORY,
        _ => REGULAR,
    };
    Ok(Stamp {
        dev: 0,
        ino: made.map_or(0, |d| u64::try_from(d.as_nanos()).unwrap_or(0)),
        size: meta.len(),
        mtime,
        ctime: mtime,
        mode: kind,
        uid: 0,
        gid: 0,
        nlink: 1,
    })
}

pub(super) fn is_regular(mode: u32) -> bool {
    mode == REGULAR
}

pub(super) fn kind(mode: u32) -> &'static str {
    match mode {
        REGULAR => "a regular file",
        DIRECTORY => "a directory",
        _ => "a symbolic link",
    }
}

pub(super) fn is_link_error(_e: &io::Error) -> bool {
    false
}

/// Moves the file's own offset, which nothing else here relies on.
pub(super) fn read_at(mut file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    file.seek(SeekFrom::Start(offset))?;
    loop {
        match file.read(buffer) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flock {
    TryExclusive,
    TryShared,
    Exclusive,
    Shared,
    Unlock,
}

/// A file is locked by the standard library; a directory is not.
pub(super) trait Lockable {
    fn file(&self) -> Option<&File>;
}
impl Lockable for &File {
    fn file(&self) -> Option<&File> {
        Some(self)
    }
}
impl Lockable for &Dir {
    fn file(&self) -> Option<&File> {
        None
    }
}

pub(super) fn flock(file: impl Lockable, how: Flock) -> io::Result<bool> {
    let Some(file) = file.file() else { return Ok(true) };
    let tried = match how {
        Flock::TryExclusive => file.try_lock(),
        Flock::TryShared => file.try_lock_shared(),
        Flock::Exclusive => return file.lock().map(|()| true),
        Flock::Shared => return file.lock_shared().map(|()| true),
        Flock::Unlock => return file.unlock().map(|()| true),
    };
    match tried {
        Ok(()) => Ok(true),
        Err(std::fs::TryLockError::WouldBlock) => Ok(false),
        Err(std::fs::TryLockError::Error(e)) => Err(e),
    }
}

pub(super) fn chown(_file: &File, _uid: u32, _gid: u32) -> io::Result<()> {
    Ok(())
}

pub(super) fn chmod(_file: &File, _mode: u32) -> io::Result<()> {
    Ok(())
}

pub(super) fn set_mtime(file: &File, at: SystemTime) -> io::Result<()> {
    file.set_modified(at)
}

pub(super) fn clone(_to: &File, _from: &File) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(super) fn forget(_file: &File) {}

pub(super) fn copy_attributes(_from: &File, _to: &File) -> io::Result<()> {
    Ok(())
}
