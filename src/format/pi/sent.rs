//! Which entries pi would send.

use std::collections::HashMap;

use super::tree::{Grown, Path};
use crate::format::kept::Key;

/// Why what a `context_edit` replaces is not sent.
pub(super) const SUPERSEDED: &str = "superseded";

/// A compaction entry.
pub(super) struct Compaction {
    pub entry: u64,
    pub kept: Kept,
}

/// The first entry that a compaction keeps.
pub(super) enum Kept {
    Id(Key),
    Entry(u64),
    Nothing,
}

/// What pi would send.
pub(super) struct Sent {
    pub path: Path,
    /// The first entry that the latest compaction on the path keeps.
    pub kept: u64,
    /// That compaction.
    pub latest: Option<u64>,
    /// The entry that replaces an entry, as far as it is on the path.
    pub edited: HashMap<u64, Option<u64>>,
}

impl Sent {
    pub fn of(tree: &Grown, leaf: Option<u64>, compactions: &[Compaction], edits: &[(u64, Key)]) -> Self {
        let path = tree.path(leaf);
        let latest = compactions.iter().rev().find(|c| path.holds(c.entry));
        let kept = latest.map_or(0, |compaction| {
            let first = match compaction.kept {
                Kept::Id(id) => tree.entry(id),
                Kept::Entry(entry) => Some(entry),
                Kept::Nothing => None,
            };
            // What it keeps must be on the way to it, or it keeps nothing.
            first.filter(|first| *first < compaction.entry && path.holds(*first)).unwrap_or(compaction.entry)
        });
        let mut edited = HashMap::new();
        for (entry, target) in edits {
            let Some(target) = tree.entry(*target) else { continue };
            let latest = edited.entry(target).or_insert(None);
            if path.holds(*entry) {
                *latest = Some(*entry);
            }
        }
        Sent { path, kept, latest: latest.map(|c| c.entry), edited }
    }

    /// Whether something takes the place of an entry, or takes it out of the context.
    pub fn is_edited(&self, entry: u64) -> bool {
        self.edited.get(&entry).is_some_and(Option::is_some)
    }

    /// Why a result is not sent: the result itself, or (another entry) what replaces it.
    pub fn dead(&self, result: u64, entry: u64) -> Option<&'static str> {
        let by = self.edited.get(&result).copied().flatten();
        let in_force = if entry == result { by.is_none() } else { by == Some(entry) };
        if !self.path.holds(result) || !self.path.holds(entry) {
            Some("on another branch")
        } else if result < self.kept {
            Some("compacted")
        } else {
            (!in_force).then_some(SUPERSEDED)
        }
    }
}
