//! The batch budget: largest first, by one level.
//!
//! It says what each response is held to. Whether the cutter then leaves some of that unused is not its concern: nothing is
//! handed round.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, reason = "numbers from files and journals"))]

use super::limits::LEAST;

/// One response of a batch, in decoded bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// Its size.
    pub size: u64,
    /// Its threshold; `None` is unlimited.
    pub threshold: Option<u64>,
    /// The least the cutter can make of it.
    pub floor: u64,
}

/// What a batch comes down to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budget {
    /// The level L; `None` where the ceiling needs none.
    pub level: Option<u64>,
    /// What each response is held to; `None` where it is over nothing.
    pub allowances: Vec<Option<u64>>,
    /// The most each can have afterwards.
    pub planned: Vec<u64>,
    /// Whether the batch exceeds the ceiling even so.
    pub still_over: bool,
}

/// Holds a batch to its thresholds and to the ceiling (`None`: unlimited).
#[must_use]
pub fn budget(members: &[Member], ceiling: Option<u64>) -> Budget {
    let fits = |level| ceiling.is_none_or(|ceiling| total(members, level) <= u128::from(ceiling));
    let level = if fits(None) { None } else { Some(greatest(LEAST, |level| fits(Some(level)))) };
    Budget {
        level,
        allowances: members.iter().map(|m| m.held(level).filter(|held| m.size > *held)).collect(),
        planned: members.iter().map(|m| m.planned(level)).collect(),
        still_over: !fits(level),
    }
}

impl Member {
    /// The lower of its threshold and the level.
    fn held(&self, level: Option<u64>) -> Option<u64> {
        [self.threshold, level].into_iter().flatten().min()
    }
    fn planned(&self, level: Option<u64>) -> u64 {
        self.floor.max(self.held(level).map_or(self.size, |held| held.min(self.size)))
    }
}

/// In `u128`: sizes come from files, and no number of them may overflow the sum.
fn total(members: &[Member], level: Option<u64>) -> u128 {
    members.iter().map(|m| u128::from(m.planned(level))).sum()
}

/// The greatest level that fits, which is never below `least`, whether that fits or not. The sum grows with the level, so
/// halving finds it.
pub(super) fn greatest(least: u64, fits: impl Fn(u64) -> bool) -> u64 {
    let (mut level, mut top) = (least, u64::MAX);
    while level < top {
        let middle = level.saturating_add(top.saturating_sub(level).div_ceil(2));
        if fits(middle) {
            level = middle;
        } else {
            top = middle.saturating_sub(1);
        }
    }
    level
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_beyond_u64_do_not_overflow() {
        let members = [Member { size: u64::MAX, threshold: None, floor: 31 }; 3];
        let got = budget(&members, Some(u64::MAX));
        assert_eq!(got.level, Some(u64::MAX / 3));
        assert!(!got.still_over);
        let stuck = [Member { size: u64::MAX, threshold: None, floor: u64::MAX }; 3];
        assert!(budget(&stuck, Some(u64::MAX)).still_over);
        assert_eq!(budget(&stuck, None).allowances, [None; 3]);
    }
}
