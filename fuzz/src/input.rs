//! An input read from its front: a few bytes that say how, then what.

use unwedge::cap::limits::{Keep, Unit};

pub struct Input<'a>(pub &'a [u8]);

impl Input<'_> {
    /// The next byte; zero where there is none.
    pub fn byte(&mut self) -> u8 {
        match self.0 {
            [first, rest @ ..] => {
                self.0 = rest;
                *first
            }
            [] => 0,
        }
    }

    pub fn small(&mut self) -> u64 {
        u64::from(self.byte()) << 8 | u64::from(self.byte())
    }

    /// Mostly small, now and then near one end of all numbers or the other.
    pub fn number(&mut self) -> u64 {
        match self.byte() {
            0..200 => self.small() % 512,
            200..230 => self.small(),
            230..250 => u64::MAX - self.small(),
            _ => (0..8).fold(0, |n, _| n << 8 | u64::from(self.byte())),
        }
    }

    pub fn keep(&mut self) -> Keep {
        [Keep::Head, Keep::Tail, Keep::Both][usize::from(self.byte() % 3)]
    }

    pub fn unit(&mut self) -> Unit {
        [Unit::Bytes, Unit::Auto, Unit::Lines, Unit::Json, Unit::Diff][usize::from(self.byte() % 5)]
    }
}
