//! What formats tell of the next request: its weight, its turns, the error that ended the conversation, tokens.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and reads its own variable, and a skipped check is said aloud"
)]

mod claude_code;
mod counted;
mod documents;
mod laws;
mod lines;
mod pi;
mod support;
