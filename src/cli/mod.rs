//! The command line: arguments in, a report and an exit status out. What is done is the library's.
//!
//! Nothing else prints, and only [`env`] reads the environment.

use std::ffi::OsString;
use std::process::ExitCode;

use args::{Cli, Command, Talk, When};
use clap::error::ErrorKind;
use escape::Shown;
use exit::Exit;
use out::Console;
use render::Volume;

mod args;
mod audit;
mod backups;
mod config;
mod config_file;
mod env;
mod escape;
mod exit;
mod help;
mod out;
mod pages;
mod progress;
mod render;
mod restore;
mod signals;

/// The program.
pub fn main() -> ExitCode {
    run(env::args()).into()
}

fn run(args: impl Iterator<Item = OsString>) -> Exit {
    let wishes = env::Wishes::read();
    let cli = match Cli::read(args) {
        Ok(cli) => cli,
        Err(e) => return usage(&e, &mut Console::new(When::Auto, wishes)),
    };
    let mut console = Console::new(cli.talk.color, wishes);
    let exit = match dispatch(&cli, &mut console) {
        Ok(exit) => exit,
        Err(e) => {
            console.error(Shown::line(&format!("{e:#}")));
            Exit::Trouble
        }
    };
    exit.and(finish(&mut console))
}

/// Ends the printing, and says where it failed.
fn finish(console: &mut Console) -> Exit {
    match console.finish().map(ToString::to_string) {
        None => Exit::Clean,
        Some(e) => {
            console.error(format!("cannot write the report: {e}"));
            Exit::Trouble
        }
    }
}

fn dispatch(cli: &Cli, console: &mut Console) -> anyhow::Result<Exit> {
    let Talk { quiet, verbose, .. } = cli.talk;
    let volume = Volume { quiet, verbose, whole_lines: false };
    match &cli.command {
        None => audit::check(&cli.check, volume, console),
        Some(Command::Check(check)) => audit::check(check, volume, console),
        Some(Command::Fix(fix)) => audit::fix(fix, volume, console),
        Some(Command::Undo(undo)) => restore::undo(undo, volume, console),
        Some(Command::Show(show)) => restore::show(show, console),
        Some(Command::Backups(backups)) => backups::backups(backups, volume, console),
        Some(Command::Formats(formats)) => Ok(pages::formats(formats, console)),
        Some(Command::Completions(completions)) => Ok(pages::completions(completions, console)),
        Some(Command::Man(man)) => pages::man(man, console),
    }
}

/// What clap has to say. Help and version are what was asked for; the rest is trouble, and quotes what was typed, which may
/// be a file name from anywhere.
fn usage(error: &clap::Error, console: &mut Console) -> Exit {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            let text = error.render();
            console.write(if console.styles.on { text.ansi().to_string() } else { text.to_string() }.as_bytes());
            finish(console)
        }
        _ => {
            let text = error.render().to_string();
            console.remark(Shown::lines(text.trim_end().as_bytes()));
            Exit::Trouble
        }
    }
}
