//! Everything that is tested from the outside, as one program.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that fails says so by panicking")]
#![allow(clippy::print_stderr, reason = "a test that is skipped says so")]
#![allow(clippy::disallowed_methods, reason = "tests set up and change files")]

mod agents;
mod between;
mod cases;
mod compare;
mod docs;
mod fast;
mod hook;
mod jp;
mod lines;
mod packed;
mod relics;
mod round;
mod sandbox;
mod spelling;
mod trouble;
mod undo;
mod units;
mod window;
