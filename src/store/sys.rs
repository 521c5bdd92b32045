//! The system calls the store is made of, relative to an open directory and never through a link.
//!
//! Every call that a signal may cut short is made again. Nothing here decides anything.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;
use std::path::{Component, Path};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, Timespec, Timestamps};
use rustix::io::retry_on_intr;

use super::file::Stamp;

/// An open directory.
#[derive(Debug)]
pub(super) struct Dir {
    fd: OwnedFd,
}

const PRIVATE_FILE: Mode = Mode::from_raw_mode(0o600);
const PRIVATE_DIR: Mode = Mode::from_raw_mode(0o700);

impl Dir {
    /// Opens a directory by its path; its links are followed.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Dir { fd: retry_on_intr(|| rustix::fs::open(path, flags, Mode::empty()))? })
    }

    /// Opens a directory by its absolute path, none of whose components may be a link.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(super) fn open_real(path: &Path) -> io::Result<Self> {
        // Who may pass through a directory need not be allowed to read it.
        let passing = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut at = Dir { fd: retry_on_intr(|| rustix::fs::open("/", passing, Mode::empty()))? };
        for component in path.components() {
            match component {
                Component::RootDir => {}
                Component::Normal(name) => at = Dir { fd: at.openat(name, passing, Mode::empty())? },
                _ => return Err(io::ErrorKind::InvalidInput.into()),
            }
        }
        at.open_dir(OsStr::new("."))
    }

    /// Opens a directory by its path; its links are followed.
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    pub(super) fn open_real(path: &Path) -> io::Result<Self> {
        Self::open(path)
    }

    /// Another descriptor of it.
    pub(super) fn try_clone(&self) -> io::Result<Self> {
        Ok(Dir { fd: self.fd.try_clone()? })
    }

    /// Opens a directory in this one; not through a link.
    pub(super) fn open_dir(&self, name: &OsStr) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Dir { fd: self.openat(name, flags, Mode::empty())? })
    }

    /// Makes a directory that only its owner may enter. `false` where one is there already.
    pub(super) fn make_dir(&self, name: &OsStr) -> io::Result<bool> {
        match retry_on_intr(|| rustix::fs::mkdirat(&self.fd, name, PRIVATE_DIR)) {
            Ok(()) => Ok(true),
            Err(rustix::io::Errno::EXIST) => Ok(false),
            Err(e) => Err(e.into()),
        }
    }

    /// Takes group's and others' rights from the directory, and gives its owner all.
    pub(super) fn make_private(&self) -> io::Result<()> {
        Ok(rustix::fs::fchmod(&self.fd, PRIVATE_DIR)?)
    }

    /// Whether only its owner may enter, and he may.
    pub(super) fn is_private(&self) -> io::Result<bool> {
        Ok(stamp(&self.fd)?.mode & 0o777 == 0o700)
    }

    /// Opens a file for reading. Does not wait for a FIFO's other end.
    pub(super) fn open_file(&self, name: &OsStr) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(self.openat(name, flags, Mode::empty())?.into())
    }

    /// Opens a file for reading and appending.
    pub(super) fn open_append(&self, name: &OsStr) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::APPEND | OFlags::NOCTTY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(self.openat(name, flags, Mode::empty())?.into())
    }

    /// Opens a file for reading and writing, and makes it (0666 less the umask) where there is none.
    pub(super) fn open_or_create(&self, name: &OsStr, create: bool) -> io::Result<File> {
        let mut flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        flags.set(OFlags::CREATE, create);
        Ok(self.openat(name, flags, Mode::from_raw_mode(0o666))?.into())
    }

    /// Makes a file that only its owner may read, whatever the umask. It must not exist.
    pub(super) fn create_new(&self, name: &OsStr) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = File::from(self.openat(name, flags, PRIVATE_FILE)?);
        if let Err(e) = rustix::fs::fchmod(&file, PRIVATE_FILE) {
            let _ = self.unlink(name);
            return Err(e.into());
        }
        Ok(file)
    }

    fn openat(&self, name: &OsStr, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
        Ok(retry_on_intr(|| rustix::fs::openat(&self.fd, name, flags, mode))?)
    }

    /// What stands under a name, a link itself included.
    pub(super) fn stat(&self, name: &OsStr) -> io::Result<Stamp> {
        let stat = retry_on_intr(|| rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW))?;
        Ok(stamp_of(&stat))
    }

    /// Exchanges what two names stand for, at once.
    #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
    pub(super) fn exchange(&self, a: &OsStr, b: &OsStr) -> io::Result<()> {
        self.rename_with(a, b, rustix::fs::RenameFlags::EXCHANGE)
    }

    /// Renames, unless the new name is taken.
    #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
    pub(super) fn rename_new(&self, from: &OsStr, to: &Self, name: &OsStr) -> io::Result<()> {
        let flags = rustix::fs::RenameFlags::NOREPLACE;
        match retry_on_intr(|| rustix::fs::renameat_with(&self.fd, from, &to.fd, name, flags)) {
            Err(e) if lacks(e) => self.link_new(from, to, name),
            other => Ok(other?),
        }
    }

    #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
    fn rename_with(&self, a: &OsStr, b: &OsStr, flags: rustix::fs::RenameFlags) -> io::Result<()> {
        match retry_on_intr(|| rustix::fs::renameat_with(&self.fd, a, &self.fd, b, flags)) {
            Err(e) if lacks(e) => Err(io::ErrorKind::Unsupported.into()),
            other => Ok(other?),
        }
    }

    /// Exchanges what two names stand for, at once.
    #[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
    pub(super) fn exchange(&self, _a: &OsStr, _b: &OsStr) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Renames, unless the new name is taken.
    #[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
    pub(super) fn rename_new(&self, from: &OsStr, to: &Self, name: &OsStr) -> io::Result<()> {
        self.link_new(from, to, name)
    }

    /// A second name fails where the name is taken, which a plain rename does not.
    fn link_new(&self, from: &OsStr, to: &Self, name: &OsStr) -> io::Result<()> {
        retry_on_intr(|| rustix::fs::linkat(&self.fd, from, &to.fd, name, AtFlags::empty()))?;
        self.unlink(from)
    }

    /// Renames over whatever has the name.
    pub(super) fn rename(&self, from: &OsStr, to: &Self, name: &OsStr) -> io::Result<()> {
        Ok(retry_on_intr(|| rustix::fs::renameat(&self.fd, from, &to.fd, name))?)
    }

    /// Removes a name.
    pub(super) fn unlink(&self, name: &OsStr) -> io::Result<()> {
        Ok(retry_on_intr(|| rustix::fs::unlinkat(&self.fd, name, AtFlags::empty()))?)
    }

    /// Makes its names durable. A file system that cannot be asked for that is not a failure.
    pub(super) fn sync(&self) -> io::Result<()> {
        match retry_on_intr(|| rustix::fs::fsync(&self.fd)) {
            Err(rustix::io::Errno::INVAL) => Ok(()),
            other => Ok(other?),
        }
    }

    /// The names in it, sorted.
    pub(super) fn names(&self) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.fd)? {
            let name = entry?.file_name().to_bytes().to_vec();
            if name != b"." && name != b".." {
                names.push(OsString::from_vec(name));
            }
        }
        names.sort();
        Ok(names)
    }
}

impl AsFd for Dir {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// What a file system or kernel answers that knows no flags for a rename.
#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
fn lacks(e: rustix::io::Errno) -> bool {
    use rustix::io::Errno;
    [Errno::INVAL, Errno::NOSYS, Errno::NOTSUP, Errno::OPNOTSUPP].contains(&e)
}

/// Whether this process may make files in a directory, as far as the system says so beforehand.
pub(super) fn may_write(dir: &Path) -> io::Result<()> {
    use rustix::fs::Access;
    Ok(retry_on_intr(|| rustix::fs::access(dir, Access::WRITE_OK | Access::EXEC_OK))?)
}

/// The state of an open file.
pub(super) fn stamp(file: impl AsFd) -> io::Result<Stamp> {
    Ok(stamp_of(&rustix::fs::fstat(file)?))
}

#[allow(
    clippy::unnecessary_cast,
    clippy::cast_lossless,
    clippy::cast_possible_truncation,
    reason = "the widths of the fields differ between systems; nanoseconds fit"
)]
fn stamp_of(stat: &rustix::fs::Stat) -> Stamp {
    Stamp {
        dev: stat.st_dev as u64,
        ino: stat.st_ino as u64,
        size: u64::try_from(stat.st_size).unwrap_or(0),
        mtime: time(stat.st_mtime as i64, stat.st_mtime_nsec as u32),
        ctime: time(stat.st_ctime as i64, stat.st_ctime_nsec as u32),
        mode: stat.st_mode as u32,
        uid: stat.st_uid,
        gid: stat.st_gid,
        nlink: stat.st_nlink as u64,
    }
}

fn time(seconds: i64, nanos: u32) -> SystemTime {
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let at = if seconds < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
    at.and_then(|at| at.checked_add(Duration::from_nanos(u64::from(nanos)))).unwrap_or(UNIX_EPOCH)
}

fn timespec(at: SystemTime) -> Timespec {
    match at.duration_since(UNIX_EPOCH) {
        Ok(since) => {
            Timespec { tv_sec: since.as_secs().try_into().unwrap_or(i64::MAX), tv_nsec: since.subsec_nanos().into() }
        }
        Err(before) => {
            // Nanoseconds count forward even before 1970.
            let before = before.duration();
            let seconds = i64::try_from(before.as_secs()).unwrap_or(i64::MAX);
            match before.subsec_nanos() {
                0 => Timespec { tv_sec: -seconds, tv_nsec: 0 },
                nanos => Timespec { tv_sec: -seconds - 1, tv_nsec: (1_000_000_000 - nanos).into() },
            }
        }
    }
}

/// Whether a mode is that of a regular file.
pub(super) fn is_regular(mode: u32) -> bool {
    rustix::fs::FileType::from_raw_mode(mode as _) == rustix::fs::FileType::RegularFile
}

/// What kind of thing a mode is that of, for a sentence.
pub(super) fn kind(mode: u32) -> &'static str {
    use rustix::fs::FileType;
    match FileType::from_raw_mode(mode as _) {
        FileType::RegularFile => "a regular file",
        FileType::Directory => "a directory",
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        _ => "a device",
    }
}

/// Whether an open failed because the last component is a link.
pub(super) fn is_link_error(e: &io::Error) -> bool {
    e.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error())
        || e.raw_os_error() == Some(rustix::io::Errno::MLINK.raw_os_error())
}

/// Reads at an offset.
pub(super) fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    loop {
        match file.read_at(buffer, offset) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// How to lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flock {
    /// Alone, or not at all.
    TryExclusive,
    /// Beside other sharers, or not at all.
    TryShared,
    /// Alone, waiting.
    Exclusive,
    /// Beside other sharers, waiting.
    Shared,
    /// Not any more.
    Unlock,
}

/// Locks an open file or directory until its last descriptor is closed. `false` where another holds it.
pub(super) fn flock(file: impl AsFd, how: Flock) -> io::Result<bool> {
    let operation = match how {
        Flock::TryExclusive => FlockOperation::NonBlockingLockExclusive,
        Flock::TryShared => FlockOperation::NonBlockingLockShared,
        Flock::Exclusive => FlockOperation::LockExclusive,
        Flock::Shared => FlockOperation::LockShared,
        Flock::Unlock => FlockOperation::Unlock,
    };
    match retry_on_intr(|| rustix::fs::flock(&file, operation)) {
        Ok(()) => Ok(true),
        Err(e) if e == rustix::io::Errno::WOULDBLOCK || e == rustix::io::Errno::AGAIN => Ok(false),
        Err(e) => Err(e.into()),
    }
}

/// Gives a file an owner and a group.
pub(super) fn chown(file: &File, uid: u32, gid: u32) -> io::Result<()> {
    use rustix::fs::{Gid, Uid};
    Ok(rustix::fs::fchown(file, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?)
}

/// Gives a file the permission bits of a mode.
pub(super) fn chmod(file: &File, mode: u32) -> io::Result<()> {
    Ok(rustix::fs::fchmod(file, Mode::from_raw_mode((mode & 0o7777) as _))?)
}

/// Sets the modification time and leaves the access time.
pub(super) fn set_mtime(file: &File, at: SystemTime) -> io::Result<()> {
    let last_access = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT };
    Ok(rustix::fs::futimens(file, &Timestamps { last_access, last_modification: timespec(at) })?)
}

/// Shares the source's blocks where the file system can.
#[cfg(target_os = "linux")]
pub(super) fn clone(to: &File, from: &File) -> io::Result<()> {
    Ok(rustix::fs::ioctl_ficlone(to, from)?)
}

/// Shares the source's blocks where the file system can.
#[cfg(not(target_os = "linux"))]
pub(super) fn clone(_to: &File, _from: &File) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Lets go of the file's cached pages, so that what is read next comes from the disk. Only asks.
#[cfg(target_os = "linux")]
pub(super) fn forget(file: &File) {
    let _ = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed);
}

/// Lets go of the file's cached pages. Only asks.
#[cfg(not(target_os = "linux"))]
pub(super) fn forget(_file: &File) {}

/// Copies the extended attributes, access lists among them, and removes an access list that the new file inherited and the old
/// one has not. Labels that only the system may set are left where it refuses them.
#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
pub(super) fn copy_attributes(from: &File, to: &File) -> io::Result<()> {
    use rustix::fs::{XattrFlags, fremovexattr, fsetxattr};
    use rustix::io::Errno;
    const ACCESS: &[u8] = b"system.posix_acl_access";
    let names = attribute_names(from)?;
    for name in &names {
        let value = attribute(from, name)?;
        match fsetxattr(to, name.as_slice(), &value, XattrFlags::empty()) {
            Ok(()) => {}
            Err(Errno::PERM | Errno::ACCESS | Errno::NOTSUP | Errno::INVAL)
                if name.starts_with(b"security.") || name.starts_with(b"trusted.") => {}
            Err(e) => return Err(e.into()),
        }
    }
    if !names.iter().any(|n| n == ACCESS) && attribute_names(to)?.iter().any(|n| n == ACCESS) {
        fremovexattr(to, ACCESS)?;
    }
    Ok(())
}

/// No extended attributes are known here.
#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
pub(super) fn copy_attributes(_from: &File, _to: &File) -> io::Result<()> {
    Ok(())
}

#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
fn attribute_names(file: &File) -> io::Result<Vec<Vec<u8>>> {
    use rustix::io::Errno;
    let list = grow(|buffer| rustix::fs::flistxattr(file, buffer));
    match list {
        Ok(list) => Ok(list.split(|&b| b == 0).filter(|n| !n.is_empty()).map(<[u8]>::to_vec).collect()),
        Err(Errno::NOTSUP | Errno::NOSYS) => Ok(Vec::new()),
        Err(e) => Err(e.into()),
    }
}

#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
fn attribute(file: &File, name: &[u8]) -> io::Result<Vec<u8>> {
    Ok(grow(|buffer| rustix::fs::fgetxattr(file, name, buffer))?)
}

/// Attributes are at most 64 KiB, and so is their list.
#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
fn grow(read: impl FnOnce(&mut [u8]) -> rustix::io::Result<usize>) -> rustix::io::Result<Vec<u8>> {
    let mut buffer = vec![0; 64 * 1024];
    let n = read(&mut buffer)?;
    buffer.truncate(n);
    Ok(buffer)
}
