//! unwedge repairs coding-agent conversations that a huge tool response has wedged.

pub mod cap;
pub mod text;
