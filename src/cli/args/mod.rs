//! What can be said on the command line, and nothing of what it does.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgAction, Args, CommandFactory, FromArgMatches, Parser, Subcommand};

use unwedge::cap::limits::Limit;
use unwedge::cap::size::ByteSize;

use super::help;
use values::{age, formats, idle, limit, policies, size, tokens, tool, window};

pub use values::{Ask, CutUnit, Diff, End, Plain, ReportFormat, When};

mod values;

/// Finds, cuts, backs up and proves: repairs coding agents' conversations that a huge tool response has wedged
#[derive(Debug, Parser)]
#[command(name = "unwedge", version, long_about = help::ABOUT, after_long_help = help::AFTER, max_term_width = 100)]
#[command(override_usage = "unwedge [OPTIONS] [PATH]...\n       unwedge <COMMAND> [OPTIONS] ...")]
pub struct Cli {
    /// What to do; `check` where nothing is said.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// The arguments of `check`.
    #[command(flatten)]
    pub check: Check,
    /// How much is said.
    #[command(flatten)]
    pub talk: Talk,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Report what is over a limit; reads only (the default)
    #[command(after_long_help = help::CHECK)]
    Check(Box<Check>),
    /// Cut what is over a limit, in place, with a backup and a proof
    #[command(long_about = help::FIX_ABOUT, after_long_help = help::FIX)]
    Fix(Box<Fix>),
    /// Put back what a run cut
    #[command(long_about = help::UNDO_ABOUT, after_long_help = help::UNDO)]
    Undo(Undo),
    /// Print the original text of one cut response
    #[command(after_long_help = help::SHOW)]
    Show(Show),
    /// List, verify or remove backups
    #[command(after_long_help = help::BACKUPS)]
    Backups(Backups),
    /// List the formats: where each agent keeps its streams, what is read, what is written
    Formats(Formats),
    /// Print a completion script
    Completions(Completions),
    /// Print the manual page, or write all of them to a directory
    Man(Man),
}

/// How much is said, and in which colour. Holds for every command.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Output")]
pub struct Talk {
    /// Print findings and errors only
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Print also what was passed over and the limits in force
    #[arg(short, long, global = true)]
    pub verbose: bool,
    /// When to use colour
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t = When::Auto)]
    pub color: When,
}

/// `unwedge check`
#[derive(Debug, Args)]
pub struct Check {
    /// Files, directories to walk, or conversation ids [default: where the known agents keep their streams]
    #[arg(value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// What `check` and `fix` share.
    #[command(flatten)]
    pub run: Run,
}

/// `unwedge fix`
#[derive(Debug, Args)]
pub struct Fix {
    /// Files, directories to walk, or conversation ids
    #[arg(value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// Report and show exactly what would be done, and write nothing
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// Repair everything where the known agents keep their streams
    #[arg(long, conflicts_with_all = ["paths", "files_from"])]
    pub all: bool,
    /// Edit also what else keeps a conversation wedged: stored errors of too much context, and counts of what is cut
    #[arg(long, overrides_with = "no_unwedge", help_heading = "Unwedging", long_help = help::UNWEDGE)]
    pub unwedge: bool,
    /// Cut responses, and edit nothing else
    #[arg(long, overrides_with = "unwedge", help_heading = "Unwedging")]
    pub no_unwedge: bool,
    /// Refuse a stream changed less than this ago, where its agent has no lock: 0, 500ms, 2s, 1m
    #[arg(long, value_name = "AGE", value_parser = idle, default_value = "2s", help_heading = "Safety")]
    pub min_idle: Duration,
    /// Keep backups and the journal here
    #[arg(long, value_name = "DIR", help_heading = "Safety")]
    pub backup_dir: Option<PathBuf>,
    /// Make no backup: what is cut is gone for good
    #[arg(long, help_heading = "Safety")]
    pub no_backup: bool,
    /// Repair files that have other hard links, which keep the old content
    #[arg(long, help_heading = "Safety")]
    pub break_hardlinks: bool,
    /// Exit with 1 when something was changed
    #[arg(long, conflicts_with = "exit_zero", help_heading = "Output")]
    pub exit_non_zero_on_fix: bool,
    /// What `check` and `fix` share.
    #[command(flatten)]
    pub run: Run,
}

/// What `check` and `fix` share.
#[derive(Debug, Clone, Args)]
pub struct Run {
    /// Which files.
    #[command(flatten)]
    pub selection: Selection,
    /// Held to what.
    #[command(flatten)]
    pub limits: LimitFlags,
    /// Keep the whole text of each cut response here too, and name that file in the response
    #[arg(long, value_name = "DIR", help_heading = "Limits")]
    pub spill: Option<PathBuf>,
    /// Reported how.
    #[command(flatten)]
    pub output: Output,
}

/// Which files.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Selection")]
pub struct Selection {
    /// Read paths from this file too, one a line; - is the standard input
    #[arg(long, value_name = "FILE")]
    pub files_from: Option<PathBuf>,
    /// The paths in --files-from end with NUL
    #[arg(short = '0', long = "null", requires = "files_from")]
    pub null: bool,
    /// Leave out what matches, by path or file name (repeatable)
    #[arg(long, value_name = "GLOB")]
    pub exclude: Vec<String>,
    /// Take files as this format only
    #[arg(long, value_name = "NAME", value_parser = formats())]
    pub format: Option<String>,
    /// Leave dead responses alone: compacted, superseded, on another branch, archived
    #[arg(long)]
    pub live_only: bool,
    /// Read every stream whole, also where little of it shows that nothing is over a limit; named files always are
    #[arg(long)]
    pub thorough: bool,
    /// Refuse a file with a longer record: a line, or a document that is one
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "1GB")]
    pub max_record: ByteSize,
    /// Threads [default: as many as there are processors]
    #[arg(short, long, value_name = "N")]
    pub jobs: Option<usize>,
}

/// Limits, and where else they may come from.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Limits")]
pub struct LimitFlags {
    /// The most a response may have, for every tool that has no limit of its own [default: 256KB]
    #[arg(long, value_name = "SIZE", value_parser = limit)]
    pub size_threshold: Option<Limit>,
    /// The most a response of this tool may have; '*' is every tool (repeatable)
    #[arg(long = "tool", value_name = "NAME=SIZE", value_parser = tool)]
    pub tools: Vec<(String, Limit)>,
    /// The most the responses to one assistant message may have together [default: 2MB]
    #[arg(long, value_name = "SIZE", value_parser = limit)]
    pub batch_ceiling: Option<Limit>,
    /// Which end of a response a cut keeps [default: head]
    #[arg(long, value_name = "END", value_enum)]
    pub keep: Option<End>,
    /// In what unit a cut is made; other than bytes, a second line says what is kept [default: bytes]
    #[arg(long, value_name = "UNIT", value_enum)]
    pub unit: Option<CutUnit>,
    /// What the live conversation must fit into, in tokens: 200k, 1M, or auto for that of the model the stream names
    #[arg(long, value_name = "TOKENS", value_parser = window)]
    pub window: Option<Ask>,
    /// Tokens of the window that are kept free
    #[arg(long, value_name = "TOKENS", value_parser = tokens, requires = "window", default_value = "16384")]
    pub reserve: u64,
    /// How many turns at the end are cut last for the window
    #[arg(long, value_name = "N", requires = "window", default_value = "2")]
    pub keep_last: u64,
    /// Which end is kept where nothing else says so, and how much of a window one response may have [default: d24]
    #[arg(long, value_name = "NAME", value_parser = policies())]
    pub policy: Option<String>,
    /// Use this file instead of the nearest unwedge.toml
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Ignore unwedge.toml and the user's configuration
    #[arg(long, conflicts_with = "config")]
    pub isolated: bool,
}

/// How the report looks.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Output")]
pub struct Output {
    /// The report's format
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = ReportFormat::Text)]
    pub output_format: ReportFormat,
    /// How much of what is cut `fix` shows, in the text report: auto is a few lines around each cut
    #[arg(long, value_name = "HOW", value_enum, default_value_t = Diff::Auto)]
    pub diff: Diff,
    /// When to show progress, on the standard error
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = When::Auto)]
    pub progress: When,
    /// Exit with 0 where findings remain; trouble is still 2
    #[arg(long)]
    pub exit_zero: bool,
}

/// `unwedge undo`
#[derive(Debug, Args)]
pub struct Undo {
    /// A run, one cut of it (RUN-N), or a file or directory that a run changed
    #[arg(value_name = "RUN|PATH")]
    pub which: Option<OsString>,
    /// Report what would be put back, and write nothing
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// Refuse a stream changed less than this ago, where its agent has no lock: 0, 500ms, 2s, 1m
    #[arg(long, value_name = "AGE", value_parser = idle, default_value = "2s")]
    pub min_idle: Duration,
    /// Refuse a file with a longer record: a line, or a document that is one
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "1GB")]
    pub max_record: ByteSize,
    /// Where the backups and the journal are
    #[arg(long, value_name = "DIR")]
    pub backup_dir: Option<PathBuf>,
    /// Put back files that have other hard links, which keep the cut content
    #[arg(long)]
    pub break_hardlinks: bool,
    /// The report's format
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = Plain::Text)]
    pub output_format: Plain,
}

/// `unwedge show`
#[derive(Debug, Args)]
pub struct Show {
    /// The cut's id, RUN-N, as `fix` reports it
    #[arg(value_name = "CUT")]
    pub cut: String,
    /// Where the backups and the journal are
    #[arg(long, value_name = "DIR")]
    pub backup_dir: Option<PathBuf>,
}

/// `unwedge backups`
#[derive(Debug, Args)]
pub struct Backups {
    /// What to do; `list` where nothing is said.
    #[command(subcommand)]
    pub command: Option<BackupsCommand>,
    /// What all of them take.
    #[command(flatten)]
    pub vault: VaultFlags,
}

/// What every command of `unwedge backups` takes, before or after its name.
#[derive(Debug, Clone, Args)]
pub struct VaultFlags {
    /// Where the backups and the journal are
    #[arg(long, value_name = "DIR")]
    pub backup_dir: Option<PathBuf>,
    /// The report's format [default: text]
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub output_format: Option<Plain>,
}

/// The commands of `unwedge backups`.
#[derive(Debug, Clone, Subcommand)]
pub enum BackupsCommand {
    /// Show the runs and what each changed (the default)
    List(VaultFlags),
    /// Check every backup against its name, and settle what a crashed run left
    Verify(VaultFlags),
    /// Remove runs, and backups that no remaining run needs
    Prune(PruneFlags),
}

/// `unwedge backups prune`
#[derive(Debug, Clone, Args)]
#[command(group = clap::ArgGroup::new("what").multiple(true).required(true))]
pub struct PruneFlags {
    /// Keep at most this many runs, the newest
    #[arg(long, value_name = "N", group = "what")]
    pub keep: Option<usize>,
    /// Remove runs older than this: 12h, 30d, 6months
    #[arg(long, value_name = "AGE", group = "what", value_parser = age)]
    pub older_than: Option<Duration>,
    /// Remove the oldest runs until the backups hold at most this much
    #[arg(long, value_name = "SIZE", group = "what", value_parser = size)]
    pub max_size: Option<ByteSize>,
    /// Report what would be removed, and remove nothing
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// What all of them take.
    #[command(flatten)]
    pub vault: VaultFlags,
}

/// `unwedge formats`
#[derive(Debug, Args)]
pub struct Formats {
    /// The report's format
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = Plain::Text)]
    pub output_format: Plain,
}

/// `unwedge completions`
#[derive(Debug, Args)]
pub struct Completions {
    /// The shell
    #[arg(value_name = "SHELL", value_enum)]
    pub shell: clap_complete::Shell,
}

/// `unwedge man`
#[derive(Debug, Args)]
pub struct Man {
    /// Write the page of every command into this directory
    #[arg(value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

impl Cli {
    /// Reads a command line, the program's name first.
    ///
    /// # Errors
    /// What clap has to say: a usage error, or the help that was asked for.
    pub fn read(args: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let mut command = Cli::command();
        let matches = command.try_get_matches_from_mut(args)?;
        // clap would take flags of `check` before another command and forget them.
        if let Some(name) = matches.subcommand_name() {
            let ours = command.get_arguments().filter(|arg| !arg.is_global_set());
            let given = ours.filter(|arg| !matches!(arg.get_action(), ArgAction::Help | ArgAction::Version));
            let stray = given.map(|arg| arg.get_id().as_str()).find(|id| {
                matches.try_contains_id(id).is_ok() && matches.value_source(id) == Some(ValueSource::CommandLine)
            });
            if let Some(id) = stray {
                let shown = command.get_arguments().find(|arg| arg.get_id() == id).map(ToString::to_string);
                let shown = shown.unwrap_or_else(|| id.to_owned());
                let said = format!("{shown} must come after the command: unwedge {name} {shown}");
                return Err(command.error(ErrorKind::ArgumentConflict, said));
            }
        }
        Cli::from_arg_matches(&matches).map_err(|e| e.format(&mut command))
    }
}

#[cfg(test)]
mod tests;
