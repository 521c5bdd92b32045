//! Whole texts of cut responses, kept where the agent can read on: `DIR/<sha256>.txt`.
//!
//! Written, brought to the disk and read back before the response is cut. The same text is kept once. A file that stands under
//! the name and holds something else is nobody's to replace.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use sha2::{Digest, Sha256};

use super::file::SourceReader;
use super::object::{hash, hex, open_or_make, random};
use super::sys::{self, Dir, Flock};
use crate::error::{Error, Result};

/// A text that is being written. Its writer holds a lock on it.
const PART: &str = ".unwedge-part-";

static PUTS: Mutex<()> = Mutex::new(());

/// A directory of whole texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spill {
    dir: PathBuf,
}

impl Spill {
    /// In this directory, which need not exist yet. The path is made absolute.
    #[must_use]
    pub fn new(dir: &Path) -> Self {
        Spill { dir: std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned()) }
    }

    /// Where a text is, or would be: nothing but its hash decides.
    #[must_use]
    pub fn path_of(&self, text: &[u8]) -> PathBuf {
        self.dir.join(name_of(&Sha256::digest(text).into()))
    }

    /// Whether texts could be kept here, as far as that shows without writing.
    ///
    /// # Errors
    /// [`Error::Refused`] with the reason.
    pub fn check(&self) -> Result<()> {
        let refused = |why: String| Error::Refused { path: self.dir.clone(), why };
        if !self.dir.to_str().is_some_and(|dir| crate::text::second::is_nameable(&format!("{dir}/{:064}.txt", 0))) {
            let why =
                "the spill directory cannot be named in a response: its path is too long, or holds what is no text";
            return Err(refused(why.into()));
        }
        // What is there of it decides; the rest will be made.
        let Some(there) = self.dir.ancestors().find(|dir| std::fs::symlink_metadata(dir).is_ok()) else {
            return Ok(());
        };
        let writable = sys::may_write(there);
        let why = match std::fs::metadata(there) {
            Ok(meta) if !meta.is_dir() => format!("{} is no directory", there.display()),
            Ok(_) if writable.is_ok() => return Ok(()),
            Ok(_) => format!("nothing can be written in {}", there.display()),
            Err(e) => format!("{}: {e}", there.display()),
        };
        Err(refused(format!("texts cannot be kept there ({why}); name another directory with --spill")))
    }

    /// Keeps a text, for good, and returns where.
    ///
    /// # Errors
    /// What stands in the way. Then nothing was kept.
    pub fn put(&self, text: &[u8]) -> Result<PathBuf> {
        let sha256: [u8; 32] = Sha256::digest(text).into();
        let (name, path) = (OsString::from(name_of(&sha256)), self.path_of(text));
        let dir = open_or_make(&self.dir)?;
        if Self::holds(&dir, &name, &path, &sha256)? {
            return Ok(path);
        }
        // One at a time within this process: a sweep must not take what another thread has only just made.
        let _alone = PUTS.lock().unwrap_or_else(PoisonError::into_inner);
        Self::sweep(&dir);
        let (part, file) = Self::part(&dir, &path)?;
        let written =
            Self::write(&file, text, &path, &sha256).and_then(|()| match dir.rename_new(&part, &dir, &name) {
                Ok(()) => Ok(true),
                // Another run was faster.
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                    Self::holds(&dir, &name, &path, &sha256).map(|_| false)
                }
                Err(e) => Err(Error::io(&path, "name the spill file")(e)),
            });
        if !matches!(written, Ok(true)) {
            let _ = dir.unlink(&part);
        }
        written?;
        dir.sync().map_err(Error::io(&path, "sync the directory of"))?;
        Ok(path)
    }

    /// A file without its name yet, locked.
    fn part(dir: &Dir, path: &Path) -> Result<(OsString, File)> {
        for _ in 0..100 {
            let name = OsString::from(format!("{PART}{:016x}", random()));
            let file = match dir.create_new(&name) {
                Ok(file) => file,
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(e) => return Err(Error::io(path, "make the spill file")(e)),
            };
            // Another process that clears up may have come before the lock: then the name is gone.
            let _ = sys::flock(&file, Flock::Exclusive);
            let ours = sys::stamp(&file).map_err(Error::io(path, "look at"))?;
            if dir.stat(&name).is_ok_and(|now| now.same_file(&ours)) {
                return Ok((name, file));
            }
        }
        Err(Error::Refused { path: path.to_owned(), why: "no free name for a new spill file".into() })
    }

    fn write(mut file: &File, text: &[u8], path: &Path, sha256: &[u8; 32]) -> Result<()> {
        file.write_all(text).map_err(Error::io(path, "write the spill file"))?;
        file.sync_all().map_err(Error::io(path, "sync the spill file"))?;
        sys::forget(file);
        let back = hash(SourceReader::of(file, 0..text.len() as u64));
        if back.map_err(Error::io(path, "read back the spill file"))?.0 == *sha256 {
            return Ok(());
        }
        let why = "the spill file reads back other than it was written; is the disk sound?".into();
        Err(Error::Refused { path: path.to_owned(), why })
    }

    /// Whether the text is there already.
    fn holds(dir: &Dir, name: &OsStr, path: &Path, sha256: &[u8; 32]) -> Result<bool> {
        let file = match dir.open_file(name) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(e) => return Err(Error::io(path, "open the spill file")(e)),
        };
        let size = sys::stamp(&file).map_err(Error::io(path, "look at"))?.size;
        let found = hash(SourceReader::of(&file, 0..size)).map_err(Error::io(path, "read the spill file"))?;
        if found.0 == *sha256 {
            return Ok(true);
        }
        let why =
            "it holds other bytes than its name says; the response that belongs there was not cut, move the file away";
        Err(Error::Refused { path: path.to_owned(), why: why.into() })
    }

    /// Removes what killed runs left half written.
    fn sweep(dir: &Dir) {
        for name in dir.names().unwrap_or_default() {
            if name.as_encoded_bytes().starts_with(PART.as_bytes())
                && dir.open_file(&name).is_ok_and(|file| matches!(sys::flock(&file, Flock::TryExclusive), Ok(true)))
            {
                let _ = dir.unlink(&name);
            }
        }
    }
}

fn name_of(sha256: &[u8; 32]) -> String {
    format!("{}.txt", hex(sha256))
}

#[cfg(test)]
#[cfg(unix)]
#[allow(clippy::disallowed_methods, reason = "tests set up files")]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn the_same_text_once_and_private() {
        let temp = tempfile::tempdir().unwrap();
        let spill = Spill::new(&temp.path().join("a/b"));
        spill.check().unwrap();
        let path = spill.put(b"text").unwrap();
        assert_eq!(path, spill.path_of(b"text"));
        assert_eq!((fs::read(&path).unwrap(), mode(&path)), (b"text".to_vec(), 0o600));
        assert_eq!([mode(&temp.path().join("a")), mode(&temp.path().join("a/b"))], [0o700; 2]);
        let was = fs::metadata(&path).unwrap().modified().unwrap();
        assert_eq!(spill.put(b"text").unwrap(), path);
        assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), was);
        spill.put(b"other").unwrap();
        assert_eq!(fs::read_dir(temp.path().join("a/b")).unwrap().count(), 2, "nothing but the texts is left");
    }

    #[test]
    fn what_is_there_is_nobodys_to_replace() {
        let temp = tempfile::tempdir().unwrap();
        fs::set_permissions(temp.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let spill = Spill::new(temp.path());
        fs::write(spill.path_of(b"text"), "another's").unwrap();
        assert!(spill.put(b"text").unwrap_err().to_string().contains("move the file away"));
        assert_eq!(fs::read(spill.path_of(b"text")).unwrap(), b"another's");
        fs::create_dir(spill.path_of(b"more")).unwrap();
        assert!(spill.put(b"more").is_err());
        // What a killed run left goes, and a directory that was there keeps its mode.
        fs::write(temp.path().join(format!("{PART}1")), "half").unwrap();
        spill.put(b"third").unwrap();
        assert!(!temp.path().join(format!("{PART}1")).exists());
        assert_eq!(mode(temp.path()), 0o755);
    }

    #[test]
    fn a_place_that_will_not_do() {
        let temp = tempfile::tempdir().unwrap();
        fs::write(temp.path().join("file"), "").unwrap();
        for dir in ["file", "file/below"] {
            let said = Spill::new(&temp.path().join(dir)).check().unwrap_err().to_string();
            assert!(said.contains("is no directory"), "{said}");
        }
        let said = Spill::new(&temp.path().join("a\nb")).check().unwrap_err().to_string();
        assert!(said.contains("cannot be named"), "{said}");
    }
}
