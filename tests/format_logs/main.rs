//! What the formats of Copilot, of Cline and its kin and of provider request logs claim and find.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and reads its own variable"
)]

mod claims;
mod cline;
mod copilot;
mod corpus;
mod laws;
mod provider_logs;
mod support;
