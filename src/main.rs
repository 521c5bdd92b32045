//! The `unwedge` command.
//!
//! Everything it does is in [`cli`]; what it does things to is in the library.

mod cli;

fn main() -> std::process::ExitCode {
    cli::main()
}
