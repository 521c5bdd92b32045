//! What a format may know of the directories around a file, read from the file system.

use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The most that is read of a file that is only looked at: configuration, ids.
const MOST: u64 = 64 << 20;

/// The file system as it is. Nothing is remembered, so nothing is stale.
#[derive(Debug, Clone, Copy, Default)]
pub struct Disk;

impl Disk {
    /// A file's whole content, where it is a regular file of moderate size.
    #[must_use]
    pub fn read(&self, path: &Path) -> Option<Vec<u8>> {
        let mut options = std::fs::File::options();
        // What is a file now may be a FIFO in a moment, whose other end nobody wants to wait for.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK);
        let file = options.read(true).open(path).ok()?;
        let meta = file.metadata().ok()?;
        if !meta.is_file() || meta.len() > MOST {
            return None;
        }
        let mut bytes = Vec::new();
        file.take(MOST).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }

    /// The names in a directory, sorted; empty where there is none.
    #[must_use]
    pub fn list(&self, dir: &Path) -> Vec<OsString> {
        let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
        let mut names: Vec<OsString> = entries.filter_map(|e| Some(e.ok()?.file_name())).collect();
        names.sort();
        names
    }

    /// Whether a directory stands here; links are not followed.
    #[must_use]
    pub fn is_dir(&self, path: &Path) -> bool {
        std::fs::symlink_metadata(path).is_ok_and(|m| m.is_dir())
    }

    /// Whether a regular file stands here; links are not followed.
    #[must_use]
    pub fn is_file(&self, path: &Path) -> bool {
        std::fs::symlink_metadata(path).is_ok_and(|m| m.is_file())
    }

    /// Where a symbolic link leads, made absolute and free of further links.
    #[must_use]
    pub fn link(&self, path: &Path) -> Option<PathBuf> {
        std::fs::symlink_metadata(path).ok()?.is_symlink().then_some(())?;
        std::fs::canonicalize(path).ok()
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
    #[must_use]
    pub fn modified(&self, path: &Path) -> Option<SystemTime> {
        std::fs::metadata(path).ok()?.modified().ok()
    }
}
