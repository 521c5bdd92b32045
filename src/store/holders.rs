//! Which processes have a file open for writing, or locked: the names that a refusal gives.

#[cfg(target_os = "linux")]
use std::path::Path;

use super::file::Source;
#[cfg(target_os = "linux")]
use super::file::Stamp;
#[cfg(target_os = "linux")]
use super::sys;

/// The other processes that hold the file open for writing: `claude (pid 4711)`, several joined by commas. Sees those it
/// has the rights to see.
#[cfg(target_os = "linux")]
#[must_use]
pub fn writers(source: &Source) -> Option<String> {
    let mut found = Vec::new();
    for process in std::fs::read_dir("/proc").ok()?.flatten() {
        let Some(pid) = process.file_name().to_str().and_then(|n| n.parse::<u32>().ok()) else { continue };
        if pid == std::process::id() {
            continue;
        }
        let Ok(descriptors) = std::fs::read_dir(process.path().join("fd")) else { continue };
        if descriptors.flatten().any(|fd| writes(&process.path(), &fd.path(), &source.stamp())) {
            found.extend(self::process(pid));
        }
    }
    (!found.is_empty()).then(|| found.join(", "))
}

/// Whether a descriptor is of the file and can write.
#[cfg(target_os = "linux")]
fn writes(process: &Path, fd: &Path, stamp: &Stamp) -> bool {
    use std::os::unix::fs::MetadataExt;
    // A pipe or a socket is no file; only a path is worth following.
    if !std::fs::read_link(fd).is_ok_and(|to| to.is_absolute()) {
        return false;
    }
    if !std::fs::metadata(fd).is_ok_and(|m| (m.dev(), m.ino()) == (stamp.dev, stamp.ino)) {
        return false;
    }
    let info = fd.file_name().and_then(|n| std::fs::read_to_string(process.join("fdinfo").join(n)).ok());
    let flags = info.as_deref().and_then(|i| i.lines().find_map(|l| l.strip_prefix("flags:")));
    // The last octal digit but for its top bit is the mode: 0 reads, 1 writes, 2 does both.
    flags.and_then(|f| u32::from_str_radix(f.trim(), 8).ok()).is_some_and(|f| f & 0o3 != 0)
}

/// The other processes that hold the file open for writing cannot be known here.
#[cfg(not(target_os = "linux"))]
#[must_use]
pub fn writers(_source: &Source) -> Option<String> {
    None
}

/// Who has a file locked, as the system has it: `unwedge (pid 4711)`. Not known for a process of another name space, nor on
/// file systems whose device has two numbers.
#[cfg(target_os = "linux")]
pub(super) fn lock_holder(file: impl std::os::fd::AsFd) -> Option<String> {
    let stamp = sys::stamp(file).ok()?;
    let place = format!("{:02x}:{:02x}:{}", rustix::fs::major(stamp.dev), rustix::fs::minor(stamp.dev), stamp.ino);
    // The system gives the list in pieces, and leaves out one now and then where others come and go in between.
    (0..5).find_map(|_| {
        let locks = std::fs::read_to_string("/proc/locks").ok()?;
        // `1: FLOCK  ADVISORY  WRITE 4711 fd:00:12345 0 EOF`; who waits for it has `->` before the kind.
        let pids = locks.lines().filter_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            match fields.as_slice() {
                [_, "FLOCK", _, _, pid, at, ..] if *at == place => pid.parse::<u32>().ok(),
                _ => None,
            }
        });
        let mut found: Vec<String> = pids.filter(|pid| *pid != std::process::id()).filter_map(process).collect();
        found.dedup();
        (!found.is_empty()).then(|| found.join(", "))
    })
}

#[cfg(not(target_os = "linux"))]
pub(super) fn lock_holder<T>(_file: T) -> Option<String> {
    None
}

#[cfg(target_os = "linux")]
pub(super) fn process(pid: u32) -> Option<String> {
    let name = std::fs::read(format!("/proc/{pid}/comm")).ok()?;
    Some(format!("{} (pid {pid})", String::from_utf8_lossy(&name).trim_end()))
}

#[cfg(not(target_os = "linux"))]
pub(super) fn process(pid: u32) -> Option<String> {
    Some(format!("pid {pid}"))
}
