//! The entries of a session as a tree, in eight bytes an entry.
//!
//! Nearly every entry is the child of the one before it. So only the ids are kept, and the few *jumps*: entries whose parent
//! is another one, or none. Between jumps entries are a *run*, and an ancestor is found run by run.

use std::collections::HashMap;

use crate::format::kept::Key;

/// Ids are kept in blocks, so that growing never copies them all.
const BLOCK: usize = 1 << 16;

/// A tree that grows. Entries are numbered from 0 in the order of the file.
#[derive(Default)]
pub(super) struct Tree {
    blocks: Vec<Vec<Option<Key>>>,
    len: u64,
    jumps: Vec<(u64, Option<Key>)>,
    last: Option<Key>,
}

/// The parent an entry names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Parent {
    /// The entry before, whatever its id: a plain list.
    Before,
    /// The entry of this id, as a key.
    Id(Key),
    /// None.
    Nothing,
}

/// A tree that is whole.
pub(super) struct Grown {
    /// First entry and parent of each run, ascending.
    runs: Vec<(u64, Option<u64>)>,
    places: HashMap<Key, u64>,
}

/// The way from the root to an entry, as ascending stretches of entries, ends included.
pub(super) struct Path(Vec<(u64, u64)>);

impl Tree {
    /// Takes the next entry and gives its number.
    pub fn push(&mut self, id: Option<Key>, parent: Parent) -> u64 {
        let number = self.len;
        let follows = match parent {
            Parent::Before => number > 0,
            Parent::Id(parent) => self.last == Some(parent),
            Parent::Nothing => false,
        };
        if !follows {
            self.jumps.push((number, if let Parent::Id(id) = parent { Some(id) } else { None }));
        }
        match self.blocks.last_mut().filter(|block| block.len() < BLOCK) {
            Some(block) => block.push(id),
            None => self.blocks.push(vec![id]),
        }
        self.last = id;
        self.len += 1;
        number
    }

    pub fn len(&self) -> u64 {
        self.len
    }

    /// Finds the parents, and the entries of the ids asked for. Of equal ids the nearest before its child is the parent (an
    /// entry is written after its parent), and the last is the entry.
    pub fn grow(self, asked: impl IntoIterator<Item = Key>) -> Grown {
        let parents = self.jumps.iter().filter_map(|(_, parent)| *parent);
        let mut places: HashMap<Key, Option<u64>> = parents.chain(asked).map(|id| (id, None)).collect();
        let mut runs = Vec::with_capacity(self.jumps.len());
        let mut jumps = self.jumps.into_iter().peekable();
        for (number, id) in (0..).zip(self.blocks.iter().flatten()) {
            if let Some((_, parent)) = jumps.next_if(|(at, _)| *at == number) {
                runs.push((number, parent.and_then(|id| places.get(&id).copied().flatten())));
            }
            if let Some(place) = id.and_then(|id| places.get_mut(&id)) {
                *place = Some(number);
            }
        }
        Grown { runs, places: places.into_iter().filter_map(|(id, place)| Some((id, place?))).collect() }
    }
}

impl Grown {
    /// The entry of an id that was asked for.
    pub fn entry(&self, id: Key) -> Option<u64> {
        self.places.get(&id).copied()
    }

    /// The run an entry is in.
    fn run(&self, entry: u64) -> Option<(u64, Option<u64>)> {
        let after = self.runs.partition_point(|(first, _)| *first <= entry);
        self.runs.get(after.checked_sub(1)?).copied()
    }

    /// The way from the root to an entry. Every parent stands before its child, so this ends.
    pub fn path(&self, leaf: Option<u64>) -> Path {
        let mut stretches = Vec::new();
        let mut at = leaf;
        while let Some((last, (first, parent))) = at.and_then(|last| Some((last, self.run(last)?))) {
            stretches.push((first, last));
            at = parent;
        }
        stretches.reverse();
        Path(stretches)
    }

    /// The nearest ancestor of an entry, itself left out, among some entries that ascend.
    pub fn nearest(&self, entry: u64, among: &[u64]) -> Option<u64> {
        let first_of_all = among.first()?;
        let mut at = entry;
        let mut own = true;
        loop {
            let (first, parent) = self.run(at)?;
            let upto = among.partition_point(|n| if own { *n < at } else { *n <= at });
            if let Some(found) = upto.checked_sub(1).and_then(|i| among.get(i)).filter(|n| **n >= first) {
                return Some(*found);
            }
            at = parent.filter(|parent| parent >= first_of_all)?;
            own = false;
        }
    }
}

impl Path {
    pub fn holds(&self, entry: u64) -> bool {
        let before = self.0.partition_point(|(first, _)| *first <= entry);
        before.checked_sub(1).and_then(|i| self.0.get(i)).is_some_and(|(_, last)| entry <= *last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn id(n: u64) -> Key {
        Key::new(n).unwrap()
    }

    fn tree(parents: &[Option<u64>]) -> Tree {
        let mut tree = Tree::default();
        for (n, parent) in (0..).zip(parents) {
            // Keys are numbers from 1.
            assert_eq!(tree.push(Key::new(n + 1), parent.map_or(Parent::Nothing, |p| Parent::Id(id(p + 1)))), n);
        }
        tree
    }

    #[test]
    fn a_plain_list() {
        let mut tree = Tree::default();
        for n in 0..5 {
            assert_eq!(tree.push(None, Parent::Before), n);
        }
        let grown = tree.grow([]);
        assert_eq!(grown.nearest(4, &[0, 2]), Some(2));
        assert!((0..5).all(|n| grown.path(Some(4)).holds(n)) && !grown.path(Some(2)).holds(3));
        assert!(!Tree::default().grow([id(7)]).path(None).holds(0));
    }

    #[test]
    fn equal_ids_and_parents_that_are_not_there() {
        let mut tree = Tree::default();
        for (n, parent) in [
            (1, Parent::Nothing),
            (1, Parent::Nothing),
            (2, Parent::Id(id(1))),
            (3, Parent::Id(id(9))),
            (9, Parent::Nothing),
        ] {
            tree.push(Key::new(n), parent);
        }
        let grown = tree.grow([1, 9, 8].map(id));
        assert_eq!((grown.entry(id(1)), grown.entry(id(9)), grown.entry(id(8))), (Some(1), Some(4), None));
        assert_eq!(grown.nearest(2, &[0, 1]), Some(1));
        // Its parent comes later: it is a root.
        assert_eq!(grown.nearest(3, &[0, 1, 2]), None);
    }

    proptest! {
        /// The same as walking from child to parent.
        #[test]
        fn is_a_tree(choices in prop::collection::vec((0_u8..10, any::<u64>()), 1..60), picked in prop::collection::vec(any::<u64>(), 0..6)) {
            let parents: Vec<Option<u64>> = (0..).zip(&choices).map(|(n, (kind, pick))| match kind {
                0 => None,
                1 | 2 if n > 0 => Some(pick % n),
                _ => n.checked_sub(1),
            }).collect();
            let len = parents.len() as u64;
            let mut among: Vec<u64> = picked.iter().map(|p| p % len).collect();
            among.sort_unstable();
            let grown = tree(&parents).grow((1..=len).map(id));
            let ancestors = |n: u64| std::iter::successors(Some(n), |n| parents[*n as usize]).collect::<Vec<_>>();
            for n in 0..len {
                prop_assert_eq!(grown.entry(id(n + 1)), Some(n));
                let path = grown.path(Some(n));
                for m in 0..len {
                    prop_assert_eq!(path.holds(m), ancestors(n).contains(&m));
                }
                prop_assert_eq!(grown.nearest(n, &among), ancestors(n)[1..].iter().copied().find(|a| among.contains(a)));
            }
        }
    }
}
