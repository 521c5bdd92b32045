//! The one atomic replace.
//!
//! At any moment the document's path stands for the old file or the new one, whole. On Linux no line of a writer is lost, not
//! even of one that opens the file just then:
//!
//! 1. A read lease on the old file says that nobody has it open for writing, and holds up whoever wants to.
//! 2. The file is still the one that was read.
//! 3. The names are exchanged. The old file now has the draft's name, and can be put back.
//! 4. If what came out is not what was read, or somebody waits, the exchange is undone.
//! 5. The directory is synced. Whoever had looked up the old file before the exchange and was slow shows by now: what he
//!    appends is carried over, or the exchange is undone after all.
//! 6. The old file's name goes. It stays open, and is looked at once more at the end of the run ([`super::late`]).
//!
//! Where there are no leases, the same steps are taken without; where there is no exchange, a plain rename has to do, and what
//! comes late is carried over or kept aside.

use std::io;

use super::file::{Source, Stamp};
use super::holders::writers;
use super::journal::Content;
use super::late::{PATIENCE, Replaced, Rescue, Sweep, quiet};
use super::lease::Lease;
use super::lock::{AgentLock, in_use, leased};
use super::replace::Sealed;
use super::sys::Dir;
use crate::error::{Error, Result};
use crate::verify::Verified;

/// What a swap needs to know.
pub(super) struct Order<'a> {
    /// The bytes that were read.
    pub(super) old: Content,
    /// Whether lines that come late may be carried over.
    pub(super) carry: bool,
    pub(super) break_hardlinks: bool,
    pub(super) lock: Option<&'a AgentLock>,
    pub(super) rescue: Rescue<'a>,
    pub(super) ways: Ways<'a>,
}

/// What the system is asked for. Tests take some of it away, and act between two steps.
#[derive(Clone, Copy)]
pub(super) struct Ways<'a> {
    pub(super) lease: bool,
    pub(super) exchange: bool,
    pub(super) at: &'a dyn Fn(Step),
}

impl Default for Ways<'_> {
    fn default() -> Self {
        Ways { lease: true, exchange: true, at: &|_| {} }
    }
}

/// A moment in a swap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// The lease was asked for.
    Leased,
    /// All checks were made; the names are exchanged next.
    Checked,
    /// The new file has the path.
    Exchanged,
    /// The directory was synced.
    Synced,
    /// The exchange was undone.
    Undone,
}

/// What came of an exchange.
#[derive(Debug)]
#[must_use]
pub(super) struct Swapped {
    /// The file that has no name any more: the old one, or, where the exchange was undone, the new one.
    pub(super) held: Replaced,
    /// Whether the path stands for the new file.
    pub(super) replaced: bool,
    /// Bytes of late lines that were carried over.
    pub(super) carried: u64,
    /// Why it was undone, or what is wrong although it was not.
    pub(super) result: Result<()>,
}

/// Everything between the first check and the end. What may fail for want of something is done before the exchange.
struct Swap<'a> {
    sealed: Sealed<'a>,
    order: &'a Order<'a>,
    /// For when the new file has the path.
    old: Replaced,
    /// For when the old file has it again.
    new: Replaced,
}

impl<'a> Sealed<'a> {
    /// Puts the new file in the old one's place. An error means that nothing was exchanged.
    pub(super) fn swap(self, verified: &Verified, order: &'a Order<'a>) -> Result<Swapped> {
        let source = self.source;
        if (verified.sha256(), verified.size()) != (self.content().sha256, self.content().len) {
            let what = "the bytes that were proven are not those that were written".into();
            return Err(Error::Unproven { path: source.path().to_owned(), what });
        }
        one_name(source, order.break_hardlinks)?;
        let old = self.held(source.file(), order.old, source.stamp(), self.stamp, order.carry)?;
        let new = self.held(&self.file, self.content(), self.stamp, source.stamp(), order.carry)?;
        Swap { sealed: self, order, old, new }.go()
    }

    /// The file that has the draft's name stays, as it may hold what is nowhere else.
    fn stuck(&self, e: &Error) -> Error {
        let why = format!(
            "what other processes wrote to it while it was being replaced may be only in {}, which was left beside it as \
             it could not be looked at or kept elsewhere ({e})",
            self.temp.name.display()
        );
        Error::Refused { path: self.source.path().to_owned(), why }
    }

    fn held(&self, file: &std::fs::File, known: Content, seen: Stamp, heir: Stamp, carry: bool) -> Result<Replaced> {
        let path = self.source.path();
        let old = file.try_clone().map_err(Error::io(path, "keep open"))?;
        let dir = self.source.dir().try_clone().map_err(Error::io(path, "keep open the directory of"))?;
        Ok(Replaced { path: path.to_owned(), dir, name: self.source.name().to_owned(), old, known, seen, heir, carry })
    }
}

impl Swap<'_> {
    fn go(self) -> Result<Swapped> {
        let (source, ways) = (self.sealed.source, self.order.ways);
        let lease = leased(source, ways.lease)?;
        (ways.at)(Step::Leased);
        if let Some(lock) = self.order.lock {
            lock.intact()?;
        }
        source.unchanged()?;
        if waited_for(lease.as_ref()) {
            drop(lease);
            return Err(named(source, waiting(source)));
        }
        (ways.at)(Step::Checked);
        let (dir, draft, name) = (source.dir(), &self.sealed.temp.name, source.name());
        let exchanged = if ways.exchange { dir.exchange(draft, name) } else { Err(io::ErrorKind::Unsupported.into()) };
        match exchanged {
            Ok(()) => self.exchanged(lease),
            Err(e) if e.kind() == io::ErrorKind::Unsupported => self.rename(lease),
            // A file system may fail and have done it all the same.
            Err(_) if names(dir, name, &self.sealed.stamp) => self.exchanged(lease),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Err(source.changed("vanished")),
            Err(e) => Err(Error::io(source.path(), "put the new file in the place of")(e)),
        }
    }

    fn exchanged(self, lease: Option<Lease<'_>>) -> Result<Swapped> {
        let source = self.sealed.source;
        (self.order.ways.at)(Step::Exchanged);
        let wrong = match source.dir().stat(&self.sealed.temp.name) {
            Ok(out) if !out.same_file(&source.stamp()) => Some(source.changed("was replaced")),
            Ok(out) if !out.same_bytes(&source.stamp()) => Some(source.changed("changed")),
            Ok(_) => waited_for(lease.as_ref()).then(|| waiting(source)),
            Err(e) => Some(Error::io(source.path(), "look at")(e)),
        };
        match wrong {
            Some(why) => Ok(self.undo(lease, why)),
            None => Ok(self.settle(lease)),
        }
    }

    /// The plain way: the old file has no name from here on.
    fn rename(self, lease: Option<Lease<'_>>) -> Result<Swapped> {
        let source = self.sealed.source;
        source.unchanged()?;
        let renamed = source.dir().rename(&self.sealed.temp.name, source.dir(), source.name());
        if let Err(e) = renamed
            && !names(source.dir(), source.name(), &self.sealed.stamp)
        {
            return Err(Error::io(source.path(), "put the new file in the place of")(e));
        }
        (self.order.ways.at)(Step::Exchanged);
        Ok(self.settle(lease))
    }

    /// Makes the exchange durable, looks after late writers, and lets the old file's name go.
    fn settle(mut self, lease: Option<Lease<'_>>) -> Swapped {
        let source = self.sealed.source;
        let dir = source.dir();
        let mut synced = dir.sync();
        (self.order.ways.at)(Step::Synced);
        let leased = lease.is_some();
        // Who waits writes as soon as the lease is gone. He counts as a writer while he waits, so there is no gap.
        drop(lease);
        let busy = if leased { !quiet(&self.old.old, PATIENCE) } else { writers(source).is_some() };
        let has_name = names(dir, &self.sealed.temp.name, &source.stamp());
        if busy && has_name && self.old.heir_untouched() {
            return self.undo(None, in_use(source, "it opened the file for writing just then"));
        }
        let late = match self.old.carry_over(!busy) {
            Ok(Ok(carried)) => Sweep::Clean(carried),
            Ok(Err(_)) if has_name && self.old.heir_untouched() => return self.undo(None, source.changed("changed")),
            Ok(Err(why)) => self.old.keep_aside(why, self.order.rescue),
            Err(e) => Sweep::Stuck(e),
        };
        if has_name && !matches!(late, Sweep::Stuck(_)) {
            synced = synced.and(dir.unlink(&self.sealed.temp.name)).and(dir.sync());
        }
        let (carried, result) = match (late, synced) {
            (Sweep::Clean(carried), Ok(())) => (carried, Ok(())),
            (Sweep::Clean(carried), Err(e)) => {
                (carried, Err(Error::NotDurable { path: source.path().to_owned(), source: e }))
            }
            (Sweep::Kept(e), _) => (0, Err(e)),
            (Sweep::Stuck(e), _) => (0, Err(self.sealed.stuck(&e))),
        };
        Swapped { held: self.old, replaced: true, carried, result }
    }

    /// Puts the old file back, or whatever had come in its place.
    fn undo(mut self, lease: Option<Lease<'_>>, why: Error) -> Swapped {
        let source = self.sealed.source;
        let (dir, draft, name) = (source.dir(), &self.sealed.temp.name, source.name());
        let others = match dir.stat(name) {
            Ok(now) if now.same_file(&self.sealed.stamp) => None,
            Ok(_) => Some(source.changed("was replaced")),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Some(source.changed("vanished")),
            Err(e) => {
                let result = Err(self.sealed.stuck(&Error::io(source.path(), "look at")(e)));
                return Swapped { held: self.old, replaced: true, carried: 0, result };
            }
        };
        if let Some(why) = others {
            // Somebody has replaced or removed the new file, as he would have the old one. So it stays.
            if dir.stat(draft).is_ok_and(|now| now.same_bytes(&source.stamp())) {
                let _ = dir.unlink(draft);
            }
            return Swapped { held: self.old, replaced: false, carried: 0, result: Err(why) };
        }
        if let Err(e) = dir.exchange(draft, name) {
            let result = Err(Error::io(source.path(), "put back the old file, which is beside it, in the place of")(e));
            return Swapped { held: self.old, replaced: true, carried: 0, result };
        }
        if !names(dir, draft, &self.sealed.stamp) {
            // It happened between the look and the exchange. His file goes back on top.
            let _ = dir.exchange(draft, name);
        }
        let _ = dir.sync();
        (self.order.ways.at)(Step::Undone);
        drop(lease);
        let why = named(source, why);
        // Whoever opened the new file in that moment may have written to it.
        let busy = !quiet(&self.new.old, PATIENCE);
        let (carried, why) = match self.new.sweep(self.order.rescue) {
            Sweep::Clean(carried) if busy => {
                (carried, in_use(source, "it writes to a file that was taken back; restart it"))
            }
            Sweep::Clean(carried) => (carried, why),
            Sweep::Kept(e) => (0, e),
            Sweep::Stuck(e) => {
                self.sealed.temp.keep();
                (0, self.sealed.stuck(&e))
            }
        };
        Swapped { held: self.new, replaced: false, carried, result: Err(why) }
    }
}

fn waited_for(lease: Option<&Lease<'_>>) -> bool {
    lease.is_some_and(|lease| !lease.intact())
}

/// Who waits has nothing open yet, so it cannot be named under the lease.
fn waiting(source: &Source) -> Error {
    let why = "another process opens it for writing just now".into();
    Error::InUse { path: source.path().to_owned(), holder: None, why }
}

/// Names who waited, if he still has the file open now that he was let in.
fn named(source: &Source, why: Error) -> Error {
    match why {
        Error::InUse { path, holder: None, why } => Error::InUse { path, holder: writers(source), why },
        other => other,
    }
}

/// Whether a name stands for a file.
fn names(dir: &Dir, name: &std::ffi::OsStr, stamp: &Stamp) -> bool {
    dir.stat(name).is_ok_and(|now| now.same_file(stamp))
}

/// Refuses a file that has several names, unless that is wanted.
pub(super) fn one_name(source: &Source, break_hardlinks: bool) -> Result<()> {
    let names = source.stamp().nlink;
    if names <= 1 || break_hardlinks {
        return Ok(());
    }
    let why = format!(
        "it has {names} names (hard links), and only this one would get the new bytes; \
         --break-hardlinks replaces it all the same"
    );
    Err(Error::Refused { path: source.path().to_owned(), why })
}
