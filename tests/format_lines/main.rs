//! What the formats of JSON lines find: Codex, Gemini CLI and Qwen Code.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and reads its own variable"
)]

mod claims;
mod codex;
mod corpus;
mod gemini;
mod laws;
mod qwen;
mod support;
