//! One backup: a plain copy of a whole document, named by its hash, read back before it counts.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::file::{Source, SourceReader};
use super::journal::{Content, RUNS};
use super::sys::{self, Dir, Flock};
use super::vault::{Object, Vault};
use crate::error::{Error, Result};

/// Under the vault's root.
pub(super) const OBJECTS: &str = "objects";
/// Beside them: what other processes wrote where it could not be carried over. No run needs it, and `prune` never removes it.
pub(super) const RESCUED: &str = "rescued";
/// A copy that is being made. Its maker holds a lock on it.
const PART: &str = ".part-";
const CHUNK: usize = 256 * 1024;

/// Says that a run may rely on objects: none is pruned while one of these lives.
#[derive(Debug)]
pub struct Hold {
    // The lock is on the open directory and ends with it.
    _objects: Dir,
}

impl Vault {
    /// Keeps `prune` from removing objects. Waits while it is at it.
    pub fn hold(&self) -> Result<Hold> {
        let objects = self.objects()?;
        // Where directories cannot be locked, prune cannot lock it either, and refuses.
        let _ = sys::flock(&objects, Flock::Shared);
        Ok(Hold { _objects: objects })
    }

    /// Keeps a plain copy of a document, once. `expected` is the hash of the bytes that were measured; other bytes are
    /// [`Error::Changed`].
    pub fn put(&self, source: &Source, expected: Option<[u8; 32]>) -> Result<Object> {
        let len = source.stamp().size;
        if let Some(sha256) = expected
            && self.check(&sha256).is_ok()
        {
            let (now, read) = hash(source.reader()).map_err(Error::io(source.path(), "read"))?;
            if (now, read) != (sha256, len) {
                return Err(source.changed("changed"));
            }
            return Ok(Object { path: self.path_of(&sha256), sha256, len });
        }
        let part = Part::create(self.objects()?, &self.root().join(OBJECTS))?;
        let copied = part.copy(source.file(), len, source.path())?;
        if copied.len != len || expected.is_some_and(|e| e != copied.sha256) {
            return Err(source.changed("changed"));
        }
        self.adopt(part, copied)
    }

    /// Keeps a plain copy of an open file as it is now, for good, and returns where.
    pub(super) fn rescue(&self, file: &File) -> Result<PathBuf> {
        let part = Part::create(self.objects()?, &self.root().join(OBJECTS))?;
        let len = sys::stamp(file).map_err(Error::io(&part.path, "look at the source of"))?.size;
        let copied = part.copy(file, len, &part.path)?;
        let path = self.root().join(RESCUED).join(hex(&copied.sha256));
        let dir = private_dir(&private_root(self.root())?, self.root(), OsStr::new(RESCUED))?;
        part.name(&dir, &path, || true)?;
        Ok(path)
    }

    /// Opens the object of this hash for reading, once its bytes are found to be what its name says.
    pub fn open(&self, sha256: &[u8; 32]) -> Result<File> {
        self.check(sha256)
    }

    /// Where the object of this hash is, or would be.
    #[must_use]
    pub fn path_of(&self, sha256: &[u8; 32]) -> PathBuf {
        let name = hex(sha256);
        let shard = name.get(..2).unwrap_or_default().to_owned();
        self.root().join(OBJECTS).join(shard).join(name)
    }

    fn check(&self, sha256: &[u8; 32]) -> Result<File> {
        let path = self.path_of(sha256);
        let missing = || Error::Backup { path: path.clone(), what: "the backup is missing".into() };
        let found = open_shard(self.root(), sha256).and_then(|(dir, name)| dir.open_file(&name));
        let file = match found {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Err(missing()),
            Err(e) => return Err(Error::io(path, "open the backup")(e)),
        };
        let size = sys::stamp(&file).map_err(Error::io(&path, "look at"))?.size;
        let (found, _) = hash(SourceReader::of(&file, 0..size)).map_err(Error::io(&path, "read the backup"))?;
        if found == *sha256 {
            return Ok(file);
        }
        let what = format!("the backup is damaged: its bytes have the hash {}", hex(&found));
        Err(Error::Backup { path, what })
    }

    fn objects(&self) -> Result<Dir> {
        let root = private_root(self.root())?;
        private_dir(&root, self.root(), OsStr::new(OBJECTS))
    }

    /// Makes a copy an object.
    fn adopt(&self, part: Part, copied: Content) -> Result<Object> {
        let path = self.path_of(&copied.sha256);
        let name = hex(&copied.sha256);
        let shard = name.get(..2).unwrap_or_default();
        let dir = private_dir(&part.dir, &self.root().join(OBJECTS), OsStr::new(shard))?;
        // One with the right bytes may stay. One without is nobody's backup, and now there is a sound one.
        part.name(&dir, &path, || self.check(&copied.sha256).is_err())?;
        Ok(Object { path, sha256: copied.sha256, len: copied.len })
    }
}

/// A copy without its name yet. Removed on drop.
struct Part {
    dir: Dir,
    name: OsString,
    path: PathBuf,
    file: File,
    gone: bool,
}

impl Part {
    fn create(dir: Dir, objects: &Path) -> Result<Self> {
        for _ in 0..100 {
            let name = OsString::from(format!("{PART}{:016x}", random()));
            let path = objects.join(&name);
            let file = match dir.create_new(&name) {
                Ok(file) => file,
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(e) => return Err(Error::io(path, "make the backup")(e)),
            };
            // Someone who clears up may have come before the lock: then the name is gone.
            let _ = sys::flock(&file, Flock::Exclusive);
            let ours = sys::stamp(&file).map_err(Error::io(&path, "look at"))?;
            if dir.stat(&name).is_ok_and(|now| now.same_file(&ours)) {
                return Ok(Part { dir, name, path, file, gone: false });
            }
        }
        Err(Error::Backup { path: objects.to_owned(), what: "no free name for a new backup".into() })
    }

    /// Copies the first `len` bytes, brings them to the disk and reads them back.
    fn copy(&self, from: &File, len: u64, from_path: &Path) -> Result<Content> {
        let writing = || Error::io(&self.path, "write the backup");
        let source = || SourceReader::of(from, 0..len);
        let cloned = sys::clone(&self.file, from).is_ok() && sys::stamp(&self.file).is_ok_and(|s| s.size == len);
        let (sha256, copied) = if cloned {
            hash(source()).map_err(Error::io(from_path, "read"))?
        } else {
            self.file.set_len(0).map_err(writing())?;
            let mut reader = source();
            let mut hasher = Sha256::new();
            let mut buffer = vec![0; CHUNK];
            let mut copied = 0;
            loop {
                let n = reader.read(&mut buffer).map_err(Error::io(from_path, "read"))?;
                let bytes = buffer.get(..n).unwrap_or_default();
                if bytes.is_empty() {
                    break;
                }
                (&self.file).write_all(bytes).map_err(writing())?;
                hasher.update(bytes);
                copied += n as u64;
            }
            (hasher.finalize().into(), copied)
        };
        self.file.sync_all().map_err(Error::io(&self.path, "sync the backup"))?;
        sys::forget(&self.file);
        let size = sys::stamp(&self.file).map_err(Error::io(&self.path, "look at"))?.size;
        let back =
            hash(SourceReader::of(&self.file, 0..size)).map_err(Error::io(&self.path, "read back the backup"))?;
        if back != (sha256, copied) {
            let what = "the backup reads back other than it was written; is the disk sound?".into();
            return Err(Error::Backup { path: self.path.clone(), what });
        }
        Ok(Content { sha256, len: copied })
    }
}

impl Part {
    /// Gives it its name, for good. Where the name is taken, it goes over what is there if it `may`.
    fn name(mut self, dir: &Dir, path: &Path, may: impl FnOnce() -> bool) -> Result<()> {
        let name = path.file_name().unwrap_or_default();
        let naming = || Error::io(path, "name the backup");
        match self.dir.rename_new(&self.name, dir, name) {
            Ok(()) => self.gone = true,
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                if may() {
                    self.dir.rename(&self.name, dir, name).map_err(naming())?;
                    self.gone = true;
                }
            }
            Err(e) => return Err(naming()(e)),
        }
        dir.sync().map_err(Error::io(path, "sync the directory of"))
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if !self.gone {
            let _ = self.dir.unlink(&self.name);
        }
    }
}

/// Removes the copies that killed runs left half made, and names them.
pub(super) fn sweep_parts(root: &Path) -> Result<Vec<String>> {
    let path = root.join(OBJECTS);
    let objects = match Dir::open(&path) {
        Ok(objects) => objects,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(Error::io(path, "open")(e)),
    };
    let mut swept = Vec::new();
    for name in objects.names().map_err(Error::io(&path, "list"))? {
        if !name.as_encoded_bytes().starts_with(PART.as_bytes()) {
            continue;
        }
        // Its maker has it locked as long as he lives.
        let dead = objects.open_file(&name).is_ok_and(|file| {
            matches!(sys::flock(&file, Flock::TryExclusive), Ok(true)) && objects.unlink(&name).is_ok()
        });
        if dead {
            swept.push(format!("{}: half a backup that a killed run left, removed", path.join(&name).display()));
        }
    }
    Ok(swept)
}

/// The vault's own directory, made if it is missing, with what leads there.
pub(super) fn private_root(root: &Path) -> Result<Dir> {
    let dir = open_or_make(root)?;
    let private = dir.is_private().map_err(Error::io(root, "look at"))?;
    // A directory with other things in it is not ours to close; what is in it of ours is closed by itself.
    if !private
        && dir.names().map_err(Error::io(root, "list"))?.iter().all(|n| [OBJECTS, RESCUED, RUNS].iter().any(|o| n == o))
    {
        let _ = dir.make_private();
    }
    Ok(dir)
}

/// A directory, made if it is missing, with what leads there: what is made, only its owner may enter.
pub(super) fn open_or_make(root: &Path) -> Result<Dir> {
    let missing: Vec<_> =
        root.ancestors().take_while(|p| !p.as_os_str().is_empty() && matches!(p.try_exists(), Ok(false))).collect();
    for path in missing.iter().rev() {
        let making = || Error::io(*path, "make the directory");
        let Some((parent, name)) = super::file::split(path) else { continue };
        let parent = Dir::open(parent).map_err(making())?;
        if parent.make_dir(name).map_err(making())? {
            let made = parent.open_dir(name).map_err(making())?;
            made.make_private().map_err(making())?;
            parent.sync().map_err(Error::io(*path, "sync the directory above"))?;
        }
    }
    Dir::open(root).map_err(Error::io(root, "open the directory"))
}

/// A directory of the vault, made if it is missing; nobody but its owner may enter.
pub(super) fn private_dir(parent: &Dir, parent_path: &Path, name: &OsStr) -> Result<Dir> {
    let path = parent_path.join(name);
    let made = parent.make_dir(name).map_err(Error::io(&path, "make the directory"))?;
    let dir = parent.open_dir(name).map_err(Error::io(&path, "open the directory"))?;
    if !dir.is_private().map_err(Error::io(&path, "look at"))? {
        dir.make_private().map_err(Error::io(&path, "close to others the directory"))?;
    }
    if made {
        parent.sync().map_err(Error::io(&path, "sync the directory above"))?;
    }
    Ok(dir)
}

/// The directory an object is in, and its name. Makes nothing.
fn open_shard(root: &Path, sha256: &[u8; 32]) -> io::Result<(Dir, OsString)> {
    let name = hex(sha256);
    let shard = name.get(..2).unwrap_or_default();
    let dir = Dir::open(root)?.open_dir(OsStr::new(OBJECTS))?.open_dir(OsStr::new(shard))?;
    Ok((dir, name.into()))
}

/// The hash of all that a reader gives, and its length.
pub(super) fn hash(mut reader: impl Read) -> io::Result<([u8; 32], u64)> {
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; CHUNK];
    let mut len = 0;
    loop {
        let n = match reader.read(&mut buffer) {
            Ok(0) => return Ok((hasher.finalize().into(), len)),
            Ok(n) => n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(e),
        };
        hasher.update(buffer.get(..n).unwrap_or_default());
        len += n as u64;
    }
}

/// Sixty-four lower-case digits.
pub(super) fn hex(sha256: &[u8; 32]) -> String {
    use std::fmt::Write;
    sha256.iter().fold(String::with_capacity(64), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The reverse of [`hex`].
pub(super) fn unhex(text: &str) -> Option<[u8; 32]> {
    let mut sha256 = [0; 32];
    if text.len() != 64 || !text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)) {
        return None;
    }
    for (at, byte) in sha256.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(sha256)
}

/// Enough chance for a name.
pub(super) fn random() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}
