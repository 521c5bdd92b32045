//! A read lease on a file: tells whether anyone has it open for writing, and holds up whoever wants to.
//!
//! The only unsafe code of the package is here, in one call. Elsewhere than on Linux no lease can be had.

use std::fs::File;

/// What came of asking for a lease.
#[derive(Debug)]
pub enum Taken<'a> {
    /// Nobody has the file open for writing, and who opens it now waits until the lease is given back.
    Held(Lease<'a>),
    /// Somebody has it open for writing.
    Busy,
    /// The system or the file system gives none, or not to us.
    Unsupported,
}

/// A read lease. Given back on drop.
#[derive(Debug)]
pub struct Lease<'a> {
    // Open for reading only: a descriptor of our own that can write would count as a writer.
    file: &'a File,
}

#[cfg(target_os = "linux")]
impl<'a> Lease<'a> {
    /// Asks for one on a file that is open for reading only.
    #[must_use]
    pub fn take(file: &'a File) -> Taken<'a> {
        if !sys::signal_is_harmless() {
            return Taken::Unsupported;
        }
        match sys::control(file, libc::F_SETLEASE, libc::F_RDLCK) {
            Ok(_) => Taken::Held(Lease { file }),
            Err(e) if e.raw_os_error() == Some(libc::EAGAIN) => Taken::Busy,
            Err(_) => Taken::Unsupported,
        }
    }

    /// Whether nobody waits to open the file for writing.
    #[must_use]
    pub fn intact(&self) -> bool {
        sys::control(self.file, libc::F_GETLEASE, 0).is_ok_and(|kind| kind == libc::F_RDLCK)
    }
}

#[cfg(target_os = "linux")]
impl Drop for Lease<'_> {
    fn drop(&mut self) {
        let _ = sys::control(self.file, libc::F_SETLEASE, libc::F_UNLCK);
    }
}

#[cfg(not(target_os = "linux"))]
impl<'a> Lease<'a> {
    /// There is none here.
    #[must_use]
    pub fn take(_file: &'a File) -> Taken<'a> {
        Taken::Unsupported
    }

    /// Never asked, as there is none.
    #[must_use]
    pub fn intact(&self) -> bool {
        let _ = self.file;
        false
    }
}

#[cfg(target_os = "linux")]
mod sys {
    use std::fs::File;
    use std::io;
    use std::os::fd::AsRawFd;
    use std::sync::atomic::AtomicBool;
    use std::sync::{Arc, OnceLock};

    /// A lease that is broken sends SIGIO, which ends a process that does not handle it.
    pub(super) fn signal_is_harmless() -> bool {
        static HANDLED: OnceLock<bool> = OnceLock::new();
        *HANDLED.get_or_init(|| signal_hook::flag::register(libc::SIGIO, Arc::new(AtomicBool::new(false))).is_ok())
    }

    /// `fcntl` with a command that takes and gives a plain number.
    #[allow(unsafe_code, reason = "rustix has no call for leases")]
    pub(super) fn control(file: &File, command: libc::c_int, argument: libc::c_int) -> io::Result<libc::c_int> {
        // SAFETY: the descriptor is open, as `file` is borrowed for the whole call. The commands this module gives,
        // F_SETLEASE and F_GETLEASE, take an int or nothing, read and write no memory of ours, and keep no pointer.
        let answer = unsafe { libc::fcntl(file.as_raw_fd(), command, argument) };
        if answer == -1 { Err(io::Error::last_os_error()) } else { Ok(answer) }
    }
}
