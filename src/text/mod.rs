//! How to edit bytes: knows JSON and base64, knows no agent.

mod base64;
mod blocks;
pub mod cut;
pub mod json;
mod layout;
pub mod literal;
pub mod records;
pub mod second;
pub mod splice;
mod stored;
mod unit;
