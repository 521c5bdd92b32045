//! `unwedge check` and `unwedge fix`.

use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use unwedge::edits::Unwedge;
use unwedge::event::{Event, Observer};
use unwedge::repair::{self, Hunks, Options, Task};
use unwedge::scan::Request;

use super::args::{Ask, Check, Diff, Fix, ReportFormat, Run};
use super::config::Config;
use super::exit::Exit;
use super::out::Console;
use super::render::{End, Report, Volume, renderer};
use super::{env, signals};

/// What `check` and `fix` come to.
struct Job<'a> {
    task: Task,
    request: Request,
    run: &'a Run,
    min_idle: Duration,
    vault: PathBuf,
    backup_dir: Option<&'a Path>,
    no_backup: bool,
    break_hardlinks: bool,
    fail_on_fix: bool,
    unwedge: Unwedge,
}

/// Reports what is over a limit.
pub fn check(check: &Check, volume: Volume, console: &mut Console) -> Result<Exit> {
    let nothing_named = check.paths.is_empty() && check.run.selection.files_from.is_none();
    if check.run.output.diff == Diff::Full && !volume.quiet {
        console.note("check cuts nothing, so there is nothing to show; fix -n does");
    }
    let job = Job {
        task: Task::Check,
        request: request(&check.paths, nothing_named, &check.run)?,
        run: &check.run,
        min_idle: Duration::ZERO,
        // Only not to be walked into.
        vault: env::state_dir().unwrap_or_default(),
        backup_dir: None,
        no_backup: false,
        break_hardlinks: false,
        fail_on_fix: false,
        unwedge: Unwedge::Never,
    };
    job.run(volume, console)
}

/// Cuts what is over a limit.
pub fn fix(fix: &Fix, volume: Volume, console: &mut Console) -> Result<Exit> {
    if fix.paths.is_empty() && fix.run.selection.files_from.is_none() && !fix.all {
        bail!(
            "name files, directories or conversation ids to repair, or pass --all for everything the known agents keep"
        );
    }
    let job = Job {
        task: if fix.dry_run { Task::DryRun } else { Task::Fix },
        request: request(&fix.paths, fix.all, &fix.run)?,
        run: &fix.run,
        min_idle: fix.min_idle,
        vault: vault(fix.backup_dir.as_deref())?,
        backup_dir: fix.backup_dir.as_deref(),
        no_backup: fix.no_backup,
        break_hardlinks: fix.break_hardlinks,
        fail_on_fix: fix.exit_non_zero_on_fix,
        unwedge: match (fix.unwedge, fix.no_unwedge) {
            (true, _) => Unwedge::Always,
            (false, true) => Unwedge::Never,
            (false, false) => Unwedge::Auto,
        },
    };
    job.run(volume, console)
}

/// Where backups and journal are.
///
/// # Errors
/// There is no place for them.
pub fn vault(backup_dir: Option<&Path>) -> Result<PathBuf> {
    match backup_dir {
        Some(dir) if dir.as_os_str().is_empty() => bail!("--backup-dir is empty"),
        Some(dir) => Ok(dir.to_owned()),
        None => {
            env::state_dir().context("no home directory is known, so backups have no place; name one with --backup-dir")
        }
    }
}

impl Job<'_> {
    fn run(&self, volume: Volume, console: &mut Console) -> Result<Exit> {
        let flags = &self.run.limits;
        if let Some(Ask::Tokens(tokens)) = flags.window
            && tokens <= flags.reserve
        {
            let reserve = flags.reserve;
            bail!("--window {tokens} leaves nothing: {reserve} tokens of it are kept free; lower that with --reserve");
        }
        let config = Config::new(flags, env::config_file().as_deref())?;
        let stop = signals::stop_flag();
        let options = Options {
            limits: &|file| config.limits(file),
            places: env::places()?,
            jobs: self.run.selection.jobs.unwrap_or(0),
            live_only: self.run.selection.live_only,
            unwedge: self.unwedge,
            thorough: self.run.selection.thorough,
            max_record: self.run.selection.max_record.0,
            min_idle: self.min_idle,
            vault: self.vault.clone(),
            vault_named: self.backup_dir.is_some(),
            no_backup: self.no_backup,
            break_hardlinks: self.break_hardlinks,
            spill: self.run.spill.clone(),
            hunks: self.hunks(),
            stop: &stop,
        };
        let output = &self.run.output;
        let volume = Volume { whole_lines: output.diff == Diff::Full, ..volume };
        // A progress bar would be noise for whoever asked for quiet.
        let progress = if volume.quiet { super::args::When::Never } else { output.progress };
        let mut report = Report::new(console, renderer(output.output_format, volume), progress);
        let outcome = repair::run(self.task, &self.request, &options, &mut report).unwrap_or_else(|error| {
            report.event(Event::Trouble(error));
            repair::Outcome::default()
        });
        let limits = config.in_force();
        let tally = report.end(&End {
            task: self.task,
            run: outcome.run.as_deref(),
            interrupted: outcome.interrupted,
            limits: &limits,
            vault: &self.vault,
            backup_dir: self.backup_dir,
            no_backup: self.no_backup,
        });
        if outcome.interrupted {
            console.error("interrupted: what had not begun was left alone");
        }
        let changed = if self.fail_on_fix && tally.written { Exit::Findings } else { Exit::Clean };
        let interrupted = if outcome.interrupted { Exit::Interrupted } else { Exit::Clean };
        Ok(tally.exit(self.task).and(changed).and(interrupted).forgiving(output.exit_zero))
    }

    fn hunks(&self) -> Hunks {
        match (self.task, self.run.output.output_format, self.run.output.diff) {
            (Task::Check, _, _) | (_, _, Diff::None) => Hunks::None,
            (_, ReportFormat::Text, Diff::Auto) => Hunks::Short,
            (_, ReportFormat::Text, Diff::Full) => Hunks::Full,
            // The other formats have no text of a stream in them.
            _ => Hunks::None,
        }
    }
}

fn request(paths: &[PathBuf], known_places: bool, run: &Run) -> Result<Request> {
    let selection = &run.selection;
    let mut named = paths.to_vec();
    if let Some(list) = &selection.files_from {
        named.extend(listed(list, selection.null)?);
    }
    Ok(Request {
        named,
        known_places,
        exclude: selection.exclude.clone(),
        format: selection.format.clone(),
        every: run.selection.thorough || run.limits.window.is_some(),
        ..Request::default()
    })
}

/// Paths from a list.
fn listed(list: &Path, null: bool) -> Result<Vec<PathBuf>> {
    let mut bytes = Vec::new();
    let read = if list.as_os_str() == "-" {
        std::io::stdin().lock().read_to_end(&mut bytes)
    } else {
        std::fs::File::open(list).and_then(|mut file| file.read_to_end(&mut bytes))
    };
    read.with_context(|| format!("cannot read the list of paths {}", list.display()))?;
    split(&bytes, null).map(|path| os_string(path).map(PathBuf::from)).collect()
}

fn split(bytes: &[u8], null: bool) -> impl Iterator<Item = &[u8]> {
    let end = if null { b'\0' } else { b'\n' };
    bytes.split(move |byte| *byte == end).filter(|path| !path.is_empty())
}

#[cfg(unix)]
fn os_string(bytes: &[u8]) -> Result<OsString> {
    use std::os::unix::ffi::OsStringExt;
    Ok(OsString::from_vec(bytes.to_vec()))
}

#[cfg(not(unix))]
fn os_string(bytes: &[u8]) -> Result<OsString> {
    let line = bytes.strip_suffix(b"\r").unwrap_or(bytes);
    Ok(std::str::from_utf8(line).context("a path in the list is not UTF-8")?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists() {
        let of = |text: &'static [u8], null| split(text, null).collect::<Vec<_>>();
        assert_eq!(of(b"a\n\nb c\n", false), [&b"a"[..], b"b c"]);
        assert_eq!(of(b"a\nb\0c", true), [&b"a\nb"[..], b"c"]);
        assert!(of(b"", false).is_empty());
    }
}
