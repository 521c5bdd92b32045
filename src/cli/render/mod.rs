//! From events to what is printed: one module a format, and a tally that all of them share.

use std::path::Path;

use unwedge::error::Error;
use unwedge::event::{Event, FileReport, Observer};
use unwedge::repair::Task;

use super::args::{ReportFormat, When};
use super::config::InForce;
use super::escape::{self, Shown};
use super::out::Console;
use super::progress::Progress;
use tally::Tally;

mod diff;
mod github;
mod health;
pub mod json;
mod sarif;
pub mod shape;
pub mod size;
pub mod tally;
mod text;

pub use text::undo_command;

/// One format of the report.
pub trait Render {
    /// A document is finished.
    fn file(&mut self, file: &FileReport, console: &mut Console);
    /// Something could not be handled.
    fn error(&mut self, error: &Error, console: &mut Console);
    /// A note that belongs to no document.
    fn note(&mut self, path: &Path, text: &str, console: &mut Console);
    /// That was all.
    fn end(&mut self, end: &End<'_>, tally: &Tally, console: &mut Console);
}

/// What is known at the end.
pub struct End<'a> {
    /// What was done.
    pub task: Task,
    /// The run's id, where something was written.
    pub run: Option<&'a str>,
    /// Whether a signal ended it early.
    pub interrupted: bool,
    /// The limits.
    pub limits: &'a InForce,
    /// Where backups and journal are, and how the user named that place, if he did.
    pub vault: &'a Path,
    /// `--backup-dir`, as it was given.
    pub backup_dir: Option<&'a Path>,
    /// Nothing was backed up.
    pub no_backup: bool,
}

/// How much is said.
#[derive(Debug, Clone, Copy, Default)]
pub struct Volume {
    /// Findings and errors only.
    pub quiet: bool,
    /// Also what was passed over, and the limits.
    pub verbose: bool,
    /// Lines of a diff are not shortened.
    pub whole_lines: bool,
}

/// The renderer of a format.
pub fn renderer(format: ReportFormat, volume: Volume) -> Box<dyn Render> {
    match format {
        ReportFormat::Text => Box::new(text::Text::new(volume)),
        ReportFormat::Json => Box::new(json::Json::document(volume)),
        ReportFormat::Jsonl => Box::new(json::Json::lines(volume)),
        ReportFormat::Sarif => Box::new(sarif::Sarif::new(volume)),
        ReportFormat::Github => Box::new(github::Github::new(volume)),
    }
}

/// Hears what happens, counts it, has it printed.
pub struct Report<'a> {
    console: &'a mut Console,
    render: Box<dyn Render>,
    progress: When,
    tally: Tally,
}

impl<'a> Report<'a> {
    /// On this console, in this format.
    pub fn new(console: &'a mut Console, render: Box<dyn Render>, progress: When) -> Self {
        Report { console, render, progress, tally: Tally::default() }
    }

    /// That was all.
    pub fn end(mut self, end: &End<'_>) -> Tally {
        self.console.progress.finish();
        self.render.end(end, &self.tally, self.console);
        self.tally
    }
}

impl Observer for Report<'_> {
    fn event(&mut self, event: Event) {
        self.tally.count(&event);
        match event {
            Event::Found { documents, .. } => {
                self.console.progress = Progress::new(self.progress, self.console.err_is_terminal, documents);
            }
            Event::File(file) => {
                self.render.file(&file, self.console);
                // Somebody is watching.
                if self.console.out_is_terminal {
                    self.console.flush();
                }
            }
            Event::Note { path, text } => self.render.note(&path, &text, self.console),
            Event::Trouble(error) => self.render.error(&error, self.console),
            Event::Progress => self.console.progress.step(),
        }
    }
}

/// Notes of a document, for people, on the standard error.
fn say_notes(file: &FileReport, volume: Volume, console: &mut Console) {
    for note in file.notes.iter().filter(|_| !volume.quiet) {
        let line = note.line.map(|n| format!(":{n}")).unwrap_or_default();
        console.note(format!("{}{line}: {}", Shown::path(&file.path), Shown::line(&note.text)));
    }
}

/// A note that belongs to no document, for people, on the standard error.
fn say_note(path: &Path, text: &str, volume: Volume, console: &mut Console) {
    if !volume.quiet {
        console.note(format!("{}: {}", Shown::path(path), Shown::line(text)));
    }
}

/// An error, for people, on the standard error.
fn say_error(error: &Error, console: &mut Console) {
    console.error(escape::error(error));
}

/// Hand-made events for the tests of the renderers.
#[cfg(test)]
pub mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::cli::out::tests::console;
    use unwedge::cap::limits::{Limit, Resolved, Source};
    use unwedge::event::{BatchInfo, Finding, Hunk, Kind, Note, Place, Rule, Status, Sums};

    /// A response over its threshold.
    pub fn finding() -> Finding {
        Finding {
            rule: Rule::Threshold,
            kind: Kind::Response,
            place: Place { line: 22, record: 3 },
            call_id: Some("c0".into()),
            tool: Some("shell".into()),
            batch: Some(BatchInfo { number: 1, responses: 2, size: 5_000_000, still_over: false }),
            dead: None,
            size: 4_900_000,
            limit: 262_144,
            limit_source: "default",
            delivered: None,
            still_over: false,
            cut: None,
            unit: None,
            full_text: None,
            hunks: Vec::new(),
        }
    }

    /// What was cut off after two lines.
    pub fn hunk() -> Hunk {
        Hunk {
            before: "two\nthree\nfo".into(),
            marker: "... [truncated, 4.7 MB → 256 KB]".into(),
            removed: "ur\nfive\nsix\n".into(),
            removed_end: Some("y\nz\n".into()),
            after: String::new(),
            removed_bytes: 4_637_856,
            removed_lines: 100_005,
            first_line: 2,
        }
    }

    /// A document with these findings.
    pub fn file(findings: Vec<Finding>) -> FileReport {
        FileReport {
            path: "a/events.json".into(),
            format: "jp",
            conversation: Some("jp-c1".into()),
            status: if findings.is_empty() { Status::Clean } else { Status::Over },
            bytes: 7_000_000,
            bytes_after: None,
            backup: None,
            findings,
            edits: Vec::new(),
            notes: vec![Note { line: Some(5), text: "an unpaired\nsurrogate".into() }],
            sums: Sums { responses: 4, batches: 2, live: 5_000_000, dead: 0, copies: 0, opaque_stored: 0 },
            diagnosis: None,
            skimmed: false,
        }
    }

    /// The document after a real run, and after a dry one.
    pub fn repaired(writes: bool) -> FileReport {
        let mut finding = finding();
        finding.delivered = Some(262_143);
        finding.cut = writes.then(|| "RUN-1".into());
        finding.hunks = vec![hunk()];
        FileReport {
            status: if writes { Status::Repaired } else { Status::Over },
            bytes_after: Some(2_000_000),
            backup: writes.then(|| "/vault/objects/ab/abcd".into()),
            ..file(vec![finding])
        }
    }

    /// An error.
    pub fn trouble() -> Error {
        Error::BrokenRecord { path: "b/events.json".into(), line: 7, what: "not\nJSON".into() }
    }

    /// The default limits.
    pub fn limits() -> InForce {
        let default = |n| Resolved { value: Limit::Bytes(n), source: Source::Default, key: "*".into() };
        let shell = Resolved { value: Limit::Unlimited, source: Source::ToolFlag, key: "shell".into() };
        InForce {
            threshold: default(262_144),
            ceiling: default(2_097_152),
            tools: [("shell".to_owned(), shell)].into(),
            files: Vec::new(),
        }
    }

    /// What a renderer prints of these events, on the two streams.
    pub fn print(
        format: ReportFormat,
        volume: Volume,
        task: Task,
        terminal: bool,
        events: Vec<Event>,
    ) -> (String, String) {
        let (mut console, out, err) = console(terminal);
        let mut report = Report::new(&mut console, renderer(format, volume), When::Never);
        let found = Event::Found { documents: 2, passed_over: 3, too_small: 1 };
        for event in std::iter::once(found).chain(events) {
            report.event(event);
        }
        let limits = limits();
        let run = (task == Task::Fix).then_some("RUN");
        report.end(&End {
            task,
            run,
            interrupted: false,
            limits: &limits,
            vault: Path::new("/vault"),
            backup_dir: None,
            no_backup: false,
        });
        assert!(console.finish().is_none());
        (out.text(), err.text())
    }

    /// A file, an error and a note.
    pub fn some(file: FileReport) -> Vec<Event> {
        vec![
            Event::File(Box::new(file)),
            Event::Trouble(trouble()),
            Event::Note { path: PathBuf::from("x\u{1b}[31m"), text: "no format claims this file".into() },
            Event::Progress,
        ]
    }
}
