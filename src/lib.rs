//! unwedge repairs coding-agent conversations that a huge tool response has wedged.

// No input may end the process: what could is an error. Tests may.
#![cfg_attr(
    not(test),
    deny(
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss,
        clippy::get_unwrap,
        clippy::indexing_slicing,
        clippy::panic_in_result_fn,
        clippy::string_slice,
        clippy::unreachable
    )
)]

pub mod around;
pub mod assess;
pub mod cap;
pub mod conversation;
pub mod diagnosis;
pub mod edits;
pub mod error;
pub mod event;
pub mod format;
pub mod hunk;
pub mod pool;
pub mod repair;
pub mod scan;
pub mod skim;
pub mod store;
pub mod tell;
pub mod text;
pub mod undo;
pub mod verify;
pub mod whole;
pub mod work;
