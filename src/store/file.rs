//! One file as it was opened: never reopened by its path, and told apart from whatever may stand there later.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use super::packed::Packed;
use super::sys::{self, Dir};
use crate::error::{Error, Result};
use crate::text::splice::Skip;

/// What tells one state of a file from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Device.
    pub dev: u64,
    /// Inode.
    pub ino: u64,
    /// Bytes.
    pub size: u64,
    /// Modification time.
    pub mtime: SystemTime,
    /// Change time.
    pub ctime: SystemTime,
    /// Permission bits and file type, as the system gives them.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Names.
    pub nlink: u64,
}

impl Stamp {
    /// Whether both are of one file, whatever its state.
    #[must_use]
    pub fn same_file(&self, other: &Stamp) -> bool {
        (self.dev, self.ino) == (other.dev, other.ino)
    }

    /// Whether both are of one file with the same bytes. The change time may differ: a rename moves it.
    pub(super) fn same_bytes(&self, other: &Stamp) -> bool {
        self.same_file(other) && (self.size, self.mtime) == (other.size, other.mtime)
    }
}

/// A document open for reading.
#[derive(Debug)]
pub struct Source {
    path: PathBuf,
    /// Resolved when it is asked for: an audit does not.
    full: OnceLock<PathBuf>,
    dir: Dir,
    name: OsString,
    file: Arc<File>,
    stamp: Stamp,
    packed: Option<Packed>,
}

impl Source {
    /// Opens a regular file that is stored as a Zstandard stream. What is said of [`Source::open`] holds.
    ///
    /// # Errors
    /// See there.
    pub fn open_packed(path: impl AsRef<Path>) -> Result<Self> {
        Ok(Self::open(path)?.unpacking(true))
    }

    /// The same of one that was opened already, where it is packed.
    #[must_use]
    pub fn unpacking(self, packed: bool) -> Self {
        Source { packed: packed.then(Packed::default), ..self }
    }

    /// Opens a regular file. The last component may not be a symbolic link: resolve it first where one is allowed.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        Self::open_in(path, OnceLock::new(), |parent| {
            Dir::open(parent).map_err(Error::io(parent, "open the directory"))
        })
    }

    /// The same, of a path that had no links in it when it was found: one that it has now was put there to lead elsewhere, and
    /// is refused. Elsewhere than on Linux only the last component is looked at.
    pub fn open_real(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let open = |parent: &Path| match Dir::open_real(parent) {
            Err(e) if sys::is_link_error(&e) || e.kind() == io::ErrorKind::NotADirectory => {
                let why =
                    "a directory that leads to it has become a link, which is not followed; name the file it leads to";
                Err(Error::Refused { path: path.to_owned(), why: why.into() })
            }
            opened => opened.map_err(Error::io(parent, "open the directory")),
        };
        Self::open_in(path, OnceLock::from(path.to_owned()), open)
    }

    fn open_in(path: &Path, full: OnceLock<PathBuf>, open: impl FnOnce(&Path) -> Result<Dir>) -> Result<Self> {
        let refused = |why: String| Error::Refused { path: path.to_owned(), why };
        let (parent, name) = split(path).ok_or_else(|| refused("not the name of a file".into()))?;
        let dir = open(parent)?;
        let file = match dir.open_file(name) {
            Ok(file) => file,
            Err(e) if sys::is_link_error(&e) => {
                return Err(refused("a symbolic link, and not followed here; name the file it leads to".into()));
            }
            Err(e) => {
                // A socket cannot be opened at all, and what the system says of it helps nobody.
                return match dir.stat(name) {
                    Ok(there) if !sys::is_regular(there.mode) => {
                        Err(refused(format!("{}, not a regular file", sys::kind(there.mode))))
                    }
                    _ => Err(Error::io(path, "open")(e)),
                };
            }
        };
        let stamp = sys::stamp(&file).map_err(Error::io(path, "look at"))?;
        if !sys::is_regular(stamp.mode) {
            return Err(refused(format!("{}, not a regular file", sys::kind(stamp.mode))));
        }
        let (name, file) = (name.to_owned(), Arc::new(file));
        Ok(Source { path: path.to_owned(), full, dir, name, file, stamp, packed: None })
    }

    /// The path as it was given.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The absolute path, its directory's links resolved; what the journal keeps.
    #[must_use]
    pub fn full_path(&self) -> &Path {
        self.full.get_or_init(|| full_path(&self.path))
    }

    /// The name in its directory.
    #[must_use]
    pub fn name(&self) -> &OsStr {
        &self.name
    }

    /// The file as it was when it was opened.
    #[must_use]
    pub fn stamp(&self) -> Stamp {
        self.stamp
    }

    /// All stored bytes: exactly as many as the stamp says.
    pub fn read_all(&self) -> Result<Vec<u8>> {
        let len = usize::try_from(self.stamp.size)
            .map_err(|_| Error::Refused { path: self.path.clone(), why: "larger than the memory".into() })?;
        let mut bytes = Vec::new();
        // A file may claim any size; memory that cannot be had is an error, not the end of the process.
        bytes.try_reserve_exact(len).map_err(|e| Error::io(&self.path, "read")(io::Error::other(e)))?;
        self.reader().read_to_end(&mut bytes).map_err(Error::io(&self.path, "read"))?;
        let now = sys::stamp(&self.file).map_err(Error::io(&self.path, "look at"))?;
        if bytes.len() != len || now.size != self.stamp.size {
            return Err(self.changed("changed"));
        }
        Ok(bytes)
    }

    /// Fills the buffer with stored bytes from an offset.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let mut filled = 0;
        while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match sys::read_at(&self.file, rest, offset.saturating_add(filled as u64)) {
                Ok(0) => return Err(self.changed("changed")),
                Ok(n) => filled += n,
                Err(e) => return Err(Error::io(&self.path, "read")(e)),
            }
        }
        Ok(())
    }

    /// Reads stored bytes from the start, at its own offset, no further than the stamp's size.
    #[must_use]
    pub fn reader(&self) -> SourceReader<'_> {
        SourceReader { file: &self.file, at: 0, end: self.stamp.size }
    }

    /// Whether the path still names the same file in the same state.
    pub fn unchanged(&self) -> Result<()> {
        match self.dir.stat(&self.name) {
            Ok(now) if !now.same_file(&self.stamp) => Err(self.changed("was replaced")),
            Ok(now) if !now.same_bytes(&self.stamp) || now.ctime != self.stamp.ctime => Err(self.changed("changed")),
            Ok(_) => Ok(()),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Err(self.changed("vanished")),
            Err(e) => Err(Error::io(&self.path, "look at")(e)),
        }
    }

    pub(super) fn changed(&self, what: &'static str) -> Error {
        Error::Changed { path: self.path.clone(), what }
    }

    pub(super) fn dir(&self) -> &Dir {
        &self.dir
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    pub(super) fn shared_file(&self) -> Arc<File> {
        Arc::clone(&self.file)
    }

    pub(super) fn packed(&self) -> Option<&Packed> {
        self.packed.as_ref()
    }
}

/// Reads a file at an offset of its own, up to an end. See [`Source::reader`].
#[derive(Debug)]
pub struct SourceReader<'a> {
    file: &'a File,
    at: u64,
    end: u64,
}

impl<'a> SourceReader<'a> {
    pub(super) fn of(file: &'a File, range: std::ops::Range<u64>) -> Self {
        SourceReader { file, at: range.start, end: range.end }
    }

    pub(super) fn at(&self) -> u64 {
        self.at
    }
}

impl Read for SourceReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end.saturating_sub(self.at)).unwrap_or(usize::MAX);
        let room = left.min(buffer.len());
        let n = sys::read_at(self.file, buffer.get_mut(..room).unwrap_or_default(), self.at)?;
        self.at += n as u64;
        Ok(n)
    }
}

impl Skip for SourceReader<'_> {
    fn skip(&mut self, count: u64) -> io::Result<u64> {
        let n = count.min(self.end.saturating_sub(self.at));
        self.at += n;
        Ok(n)
    }
}

/// The absolute path of a file that may not exist, the links of its directory resolved: comparable with [`Source::full_path`].
#[must_use]
pub fn full_path(path: &Path) -> PathBuf {
    let resolved = split(path).and_then(|(parent, name)| Some(std::fs::canonicalize(parent).ok()?.join(name)));
    resolved.or_else(|| std::path::absolute(path).ok()).unwrap_or_else(|| path.to_owned())
}

/// The directory and the name in it.
pub(super) fn split(path: &Path) -> Option<(&Path, &OsStr)> {
    let name = path.file_name()?;
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Some((parent, name))
}
