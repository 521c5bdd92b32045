//! What a format may know of the directories around a file, read from the file system.

use std::ffi::OsString;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The most that is read of a file that is only looked at: configuration, ids.
const MOST: u64 = 64 << 20;

/// The file system as it is. Nothing is remembered, so nothing is stale. What is not there is no error.
#[derive(Debug, Clone, Copy, Default)]
pub struct Disk;

impl Disk {
    /// A file's whole content, where it is a regular file of moderate size.
    ///
    /// # Errors
    /// What the system says of a file that is there.
    pub fn read(&self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        there(|| {
            let mut options = std::fs::File::options();
            // What is a file now may be a FIFO in a moment, whose other end nobody wants to wait for.
            #[cfg(unix)]
            std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK);
            let file = options.read(true).open(path)?;
            let meta = file.metadata()?;
            if !meta.is_file() || meta.len() > MOST {
                return Ok(None);
            }
            let mut bytes = Vec::new();
            file.take(MOST).read_to_end(&mut bytes)?;
            Ok(Some(bytes))
        })
    }

    /// The names in a directory, sorted; empty where there is none.
    ///
    /// # Errors
    /// What the system says of a directory that is there.
    pub fn list(&self, dir: &Path) -> io::Result<Vec<OsString>> {
        there(|| {
            let mut names = std::fs::read_dir(dir)?.map(|e| Ok(e?.file_name())).collect::<io::Result<Vec<_>>>()?;
            names.sort();
            Ok(names)
        })
    }

    /// Whether a directory stands here; links are not followed.
    ///
    /// # Errors
    /// What the system says, where that cannot be known.
    pub fn is_dir(&self, path: &Path) -> io::Result<bool> {
        there(|| Ok(std::fs::symlink_metadata(path)?.is_dir()))
    }

    /// Whether a regular file stands here; links are not followed.
    ///
    /// # Errors
    /// What the system says, where that cannot be known.
    pub fn is_file(&self, path: &Path) -> io::Result<bool> {
        there(|| Ok(std::fs::symlink_metadata(path)?.is_file()))
    }

    /// Where a symbolic link leads, made absolute and free of further links.
    ///
    /// # Errors
    /// What the system says of a link that leads somewhere.
    pub fn link(&self, path: &Path) -> io::Result<Option<PathBuf>> {
        there(|| match std::fs::symlink_metadata(path)?.is_symlink() {
            true => std::fs::canonicalize(path).map(Some),
            false => Ok(None),
        })
    }

    /// Whose file it is, where files are somebody's.
    #[must_use]
    pub fn owner(&self, path: &Path) -> Option<u32> {
        #[cfg(unix)]
        return std::fs::symlink_metadata(path).ok().map(|m| std::os::unix::fs::MetadataExt::uid(&m));
        #[cfg(not(unix))]
        return std::fs::symlink_metadata(path).ok().map(|_| 0);
    }

    /// A file's modification time.
    ///
    /// # Errors
    /// What the system says of a file that is there.
    pub fn modified(&self, path: &Path) -> io::Result<Option<SystemTime>> {
        there(|| std::fs::metadata(path)?.modified().map(Some))
    }
}

/// Nothing, where what is asked about is not there.
fn there<T: Default>(ask: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    ask().or_else(|e| match e.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Ok(T::default()),
        _ => Err(e),
    })
}
