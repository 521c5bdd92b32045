//! Exit statuses, their meanings in one place.

use std::process::ExitCode;

/// How a run ended. The worse of two outranks the other, in the order they stand in here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Exit {
    /// 0: nothing over a limit, or all of it repaired and verified.
    #[default]
    Clean,
    /// 1: findings remain, or something was changed and `--exit-non-zero-on-fix` was given.
    Findings,
    /// 2: usage, unreadable or broken input, a stream in use, a failed backup or verification.
    Trouble,
    /// 130: a signal ended it early.
    Interrupted,
}

impl Exit {
    /// The number the caller sees.
    pub fn code(self) -> u8 {
        match self {
            Exit::Clean => 0,
            Exit::Findings => 1,
            Exit::Trouble => 2,
            Exit::Interrupted => 130,
        }
    }

    /// This one, or `other` where that is worse.
    pub fn and(self, other: Exit) -> Exit {
        self.max(other)
    }

    /// `--exit-zero`: findings are no reason to fail. Trouble still is.
    pub fn forgiving(self, forgiving: bool) -> Exit {
        if forgiving && self == Exit::Findings { Exit::Clean } else { self }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_wins() {
        assert_eq!(Exit::Clean.and(Exit::Findings), Exit::Findings);
        assert_eq!(Exit::Trouble.and(Exit::Findings), Exit::Trouble);
        assert_eq!(Exit::Trouble.and(Exit::Interrupted), Exit::Interrupted);
        assert_eq!(Exit::Findings.forgiving(true), Exit::Clean);
        assert_eq!(Exit::Findings.forgiving(false), Exit::Findings);
        assert_eq!(Exit::Trouble.forgiving(true), Exit::Trouble);
        assert_eq!(Exit::Interrupted.forgiving(true), Exit::Interrupted);
    }
}
