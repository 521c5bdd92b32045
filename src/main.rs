//! The `unwedge` command.
//!
//! Everything it does is in [`cli`]; what it does things to is in the library.

// As in the library.
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

mod cli;

fn main() -> std::process::ExitCode {
    cli::main()
}
