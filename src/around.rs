//! What lies around a stream: its conversation's copies, its lock, what is only read.
//!
//! Formats ask about directories through [`Look`] and take what cannot be seen for not there. Whoever acts on the answer must
//! know the difference: a copy that was overlooked is left wedged, and a lock that was overlooked is not taken.

use std::cell::RefCell;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::error::{Error, Result};
use crate::format::{Etiquette, Format, Look, Places};
use crate::store::look::Disk;

/// The conversation that a stream belongs to.
///
/// # Errors
/// [`Error::Io`] where something that matters for the answer could not be looked at.
pub fn conversation(format: &dyn Format, path: &Path, places: &Places) -> Result<Etiquette> {
    let watched = Watched::default();
    let etiquette = format.conversation(path, &watched, places);
    watched.failed.into_inner().map_or(Ok(etiquette), Err)
}

impl Look for Disk {
    fn read(&self, path: &Path) -> Option<Vec<u8>> {
        Disk::read(self, path).unwrap_or_default()
    }
    fn list(&self, dir: &Path) -> Vec<OsString> {
        Disk::list(self, dir).unwrap_or_default()
    }
    fn is_dir(&self, path: &Path) -> bool {
        Disk::is_dir(self, path).unwrap_or_default()
    }
    fn is_file(&self, path: &Path) -> bool {
        Disk::is_file(self, path).unwrap_or_default()
    }
    fn link(&self, path: &Path) -> Option<PathBuf> {
        Disk::link(self, path).unwrap_or_default()
    }
    fn modified(&self, path: &Path) -> Option<SystemTime> {
        Disk::modified(self, path).unwrap_or_default()
    }
}

/// The disk, and the first thing on it that could not be looked at.
#[derive(Default)]
struct Watched {
    failed: RefCell<Option<Error>>,
}

impl Watched {
    fn note<T: Default>(&self, path: &Path, found: io::Result<T>) -> T {
        found.unwrap_or_else(|e| {
            self.failed.borrow_mut().get_or_insert_with(|| Error::io(path, "look for copies and locks at")(e));
            T::default()
        })
    }
}

impl Look for Watched {
    fn read(&self, path: &Path) -> Option<Vec<u8>> {
        self.note(path, Disk.read(path))
    }
    fn list(&self, dir: &Path) -> Vec<OsString> {
        self.note(dir, Disk.list(dir))
    }
    fn is_dir(&self, path: &Path) -> bool {
        self.note(path, Disk.is_dir(path))
    }
    fn is_file(&self, path: &Path) -> bool {
        self.note(path, Disk.is_file(path))
    }
    fn link(&self, path: &Path) -> Option<PathBuf> {
        self.note(path, Disk.link(path))
    }
    fn modified(&self, path: &Path) -> Option<SystemTime> {
        self.note(path, Disk.modified(path))
    }
}

#[cfg(all(test, unix))]
#[expect(clippy::disallowed_methods, reason = "a test makes its own files")]
mod tests {
    use super::*;
    use crate::format::named;

    #[test]
    fn what_cannot_be_looked_at_is_an_error_and_what_is_not_there_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join(".jp");
        let stream = root.join("conversations/17712345000/events.json");
        std::fs::create_dir_all(stream.parent().unwrap()).unwrap();
        std::fs::write(&stream, b"[]").unwrap();
        std::fs::write(root.join(".id"), "ab12z\n").unwrap();
        let places = Places { jp_user_data_dir: Some(dir.path().join("data")), ..Places::default() };
        let jp = named("jp").unwrap();
        assert_eq!(conversation(jp, &stream, &places).unwrap().streams.len(), 1);
        // A link in a circle stands for any failure, also for root.
        std::os::unix::fs::symlink("workspace", dir.path().join("data")).unwrap();
        std::os::unix::fs::symlink("data", dir.path().join("workspace")).unwrap();
        let error = conversation(jp, &stream, &places).unwrap_err();
        assert!(error.path().unwrap().ends_with("data/workspace"), "{error}");
    }
}
