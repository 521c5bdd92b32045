//! `unwedge undo` and `unwedge show`.

use std::ffi::OsStr;
use std::path::PathBuf;

use anyhow::Result;
use serde::Serialize;
use unwedge::cap::limits::Limits;
use unwedge::error::Error;
use unwedge::event::{Event, Observer};
use unwedge::format::{FORMATS, Places};
use unwedge::repair::{Hunks, Options};
use unwedge::store::look::Disk;
use unwedge::store::vault::{RunSummary, Vault};
use unwedge::undo::{self, UndoState, Undone, UndoneDocument, Which};

use super::args::{Plain, Show, Undo};
use super::audit::vault;
use super::escape::{self, Shown};
use super::exit::Exit;
use super::out::{Console, styled};
use super::render::shape::{ErrorJson, NoteJson, PathJson, text};
use super::render::size::count;
use super::render::{Volume, json, undo_command};
use super::{backups, env, signals};

/// How many runs are shown to somebody who named none.
const LATEST: usize = 10;

/// Puts back what a run cut.
pub fn undo(undo: &Undo, volume: Volume, console: &mut Console) -> Result<Exit> {
    let root = vault(undo.backup_dir.as_deref())?;
    let vault = Vault::new(&root);
    let Some(which) = &undo.which else {
        return ask(&vault, console);
    };
    let places = env::places()?;
    let which = self::which(which, &vault, &places);
    let stop = signals::stop_flag();
    let options = Options {
        // What is put back is over limits by intention.
        limits: &|_| Ok(Limits::default()),
        places,
        jobs: 0,
        live_only: false,
        unwedge: unwedge::edits::Unwedge::Never,
        thorough: false,
        max_record: undo.max_record.0,
        min_idle: undo.min_idle,
        vault: root.clone(),
        vault_named: undo.backup_dir.is_some(),
        no_backup: false,
        break_hardlinks: undo.break_hardlinks,
        spill: None,
        hunks: Hunks::None,
        stop: &stop,
    };
    let mut heard = Heard { console, volume, errors: Vec::new(), notes: Vec::new() };
    let undone = undo::undo(&which, undo.dry_run, &options, &mut heard).unwrap_or_else(|error| {
        heard.event(Event::Trouble(error));
        Undone::default()
    });
    let Heard { errors, notes, .. } = heard;
    match undo.output_format {
        Plain::Text => say(&undone, undo, volume, console),
        Plain::Json => json::pretty(&UndoneJson::of(&undone, &errors, &notes), console),
    }
    if undone.interrupted {
        console.error("interrupted: what had not begun was left alone");
    }
    Ok(exit(&undone, !errors.is_empty()))
}

fn exit(undone: &Undone, errors: bool) -> Exit {
    let of = |document: &UndoneDocument| match &document.state {
        UndoState::Cuts { left, .. } if !left.is_empty() => Exit::Findings,
        UndoState::Whole | UndoState::Cuts { .. } | UndoState::Already => Exit::Clean,
        UndoState::Failed => Exit::Trouble,
    };
    let whole = [(errors, Exit::Trouble), (undone.interrupted, Exit::Interrupted)];
    let whole = whole.into_iter().filter_map(|(is, exit)| is.then_some(exit));
    undone.documents.iter().map(of).chain(whole).fold(Exit::Clean, Exit::and)
}

/// A run where one has that name; else a path, or the conversation of an id. What is none of these is a run that is not there.
fn which(word: &OsStr, vault: &Vault, places: &Places) -> Which {
    let path = PathBuf::from(word);
    let Some(name) = word.to_str() else { return Which::Path(path) };
    let runs = vault.list().unwrap_or_default();
    let is_run = |run: &RunSummary| {
        let number = name.strip_prefix(&*run.run).and_then(|rest| rest.strip_prefix('-'));
        run.run == name || number.is_some_and(|n| n.parse::<u64>().is_ok())
    };
    if runs.iter().any(is_run) {
        return Which::Run(name.to_owned());
    }
    if path.components().count() > 1 || path.is_absolute() || std::fs::symlink_metadata(&path).is_ok() {
        return Which::Path(path);
    }
    let stream = FORMATS.iter().find_map(|format| format.resolve(name, &Disk, places)?.into_iter().next());
    stream.map_or_else(|| Which::Run(name.to_owned()), Which::Path)
}

/// Nothing was named: what there is, and a question.
fn ask(vault: &Vault, console: &mut Console) -> Result<Exit> {
    let runs = vault.list()?;
    for run in runs.iter().rev().take(LATEST) {
        console.line(backups::line(run, console.styles));
    }
    console.error(if runs.is_empty() {
        format!("there is no run to undo in {}", Shown::path(vault.root()))
    } else {
        "name a run to undo, or a file or directory that one changed".to_owned()
    });
    Ok(Exit::Trouble)
}

fn say(undone: &Undone, undo: &Undo, volume: Volume, console: &mut Console) {
    for document in &undone.documents {
        let path = styled(console.styles.path, Shown::path(&document.path));
        let what = match &document.state {
            UndoState::Whole => "the original, byte for byte".to_owned(),
            UndoState::Already => "is the original already".to_owned(),
            UndoState::Failed => "left as it is".to_owned(),
            UndoState::Cuts { restored, left } => {
                let mut what = format!("{} put back, everything else stays", count(*restored, "text"));
                if !left.is_empty() {
                    let left: Vec<String> = left.iter().map(|cut| Shown::line(cut).to_string()).collect();
                    what.push_str(&styled(
                        console.styles.over,
                        format!("; changed since and left: {}", left.join(", ")),
                    ));
                }
                what
            }
        };
        console.line(format!("{path}: {what}"));
    }
    if volume.quiet {
        return;
    }
    match &undone.run {
        Some(run) => {
            console.line(format!("to undo this: {}", undo_command(Shown::line(run), undo.backup_dir.as_deref())));
        }
        None if undo.dry_run => console.remark("dry run: nothing was written"),
        None if undone.undid.is_empty() => {}
        None => console.remark(format!("nothing of run {} was written back", Shown::line(&undone.undid))),
    }
}

/// Errors and notes, printed as they come and kept for the report.
struct Heard<'a> {
    console: &'a mut Console,
    volume: Volume,
    errors: Vec<ErrorJson>,
    notes: Vec<NoteJson>,
}

impl Observer for Heard<'_> {
    fn event(&mut self, event: Event) {
        match event {
            Event::Trouble(error) => {
                self.errors.push(ErrorJson::of(&error));
                self.console.error(escape::error(&error));
            }
            Event::Note { path, text } => {
                self.notes.push(NoteJson::of(&path, &text));
                if !self.volume.quiet {
                    self.console.note(format!("{}: {}", Shown::path(&path), Shown::line(&text)));
                }
            }
            Event::Found { .. } | Event::File(_) | Event::Progress => {}
        }
    }
}

#[derive(Serialize)]
struct UndoneJson<'a> {
    schema_version: u32,
    run: Option<&'a str>,
    undid: &'a str,
    interrupted: bool,
    documents: Vec<UndoneDocumentJson<'a>>,
    errors: &'a [ErrorJson],
    notes: &'a [NoteJson],
}

#[derive(Serialize)]
struct UndoneDocumentJson<'a> {
    #[serde(flatten)]
    path: PathJson,
    status: &'static str,
    restored: Option<u64>,
    left: &'a [String],
    backup: Option<String>,
}

impl<'a> UndoneJson<'a> {
    fn of(undone: &'a Undone, errors: &'a [ErrorJson], notes: &'a [NoteJson]) -> Self {
        let document = |document: &'a UndoneDocument| {
            let (status, restored, left): (_, _, &[String]) = match &document.state {
                UndoState::Whole => ("whole", None, &[]),
                UndoState::Cuts { restored, left } => ("cuts", Some(*restored), left),
                UndoState::Already => ("already", None, &[]),
                UndoState::Failed => ("failed", None, &[]),
            };
            let backup = document.backup.as_deref().map(text);
            UndoneDocumentJson { path: PathJson::of(&document.path), status, restored, left, backup }
        };
        UndoneJson {
            schema_version: 1,
            run: undone.run.as_deref(),
            undid: &undone.undid,
            interrupted: undone.interrupted,
            documents: undone.documents.iter().map(document).collect(),
            errors,
            notes,
        }
    }
}

/// Prints the original of one cut: the text itself, or what is safe to show of it on a terminal.
pub fn show(show: &Show, console: &mut Console) -> Result<Exit> {
    let root = vault(show.backup_dir.as_deref())?;
    let original = match undo::original(&Vault::new(root), &show.cut) {
        Ok(original) => original,
        Err(error) => return Ok(trouble(&error, console)),
    };
    print_original(&original, console);
    Ok(Exit::Clean)
}

/// An error that ends a command.
pub fn trouble(error: &Error, console: &mut Console) -> Exit {
    console.error(escape::error(error));
    Exit::Trouble
}

fn print_original(original: &[u8], console: &mut Console) {
    if console.out_is_terminal {
        let shown = Shown::lines(original).to_string();
        console.write(shown.as_bytes());
        if !shown.ends_with('\n') {
            console.line("");
        }
    } else {
        console.write(original);
    }
}

#[cfg(test)]
mod tests {
    use unwedge::cap::size::ByteSize;

    use super::*;
    use crate::cli::out::tests::console;

    fn document(state: UndoState) -> UndoneDocument {
        UndoneDocument { path: "a/events.json".into(), state, backup: None }
    }

    fn undone(states: Vec<UndoState>) -> Undone {
        Undone {
            run: Some("RUN2".into()),
            undid: "RUN".into(),
            documents: states.into_iter().map(document).collect(),
            interrupted: false,
        }
    }

    #[test]
    fn statuses() {
        let left = UndoState::Cuts { restored: 1, left: vec!["RUN-2".into()] };
        let of = |states| exit(&undone(states), false);
        assert_eq!(of(vec![UndoState::Whole, UndoState::Already]), Exit::Clean);
        assert_eq!(of(vec![UndoState::Cuts { restored: 1, left: vec![] }]), Exit::Clean);
        assert_eq!(of(vec![left.clone(), UndoState::Whole]), Exit::Findings);
        assert_eq!(of(vec![UndoState::Failed, left]), Exit::Trouble);
        assert_eq!(exit(&undone(vec![]), true), Exit::Trouble);
        assert_eq!(exit(&Undone { interrupted: true, ..undone(vec![]) }, true), Exit::Interrupted);
    }

    #[test]
    fn what_is_said() {
        let (mut console, out, _) = console(false);
        let undo = Undo {
            which: None,
            dry_run: false,
            max_record: ByteSize(1 << 30),
            min_idle: std::time::Duration::ZERO,
            backup_dir: Some("my dir".into()),
            break_hardlinks: false,
            output_format: Plain::Text,
        };
        let left = UndoState::Cuts { restored: 1, left: vec!["RUN-2".into(), "RUN-3".into()] };
        say(&undone(vec![UndoState::Whole, left, UndoState::Already]), &undo, Volume::default(), &mut console);
        console.finish();
        assert_eq!(
            out.text(),
            "a/events.json: the original, byte for byte\n\
             a/events.json: 1 text put back, everything else stays; changed since and left: RUN-2, RUN-3\n\
             a/events.json: is the original already\n\
             to undo this: unwedge undo RUN2 --backup-dir 'my dir'\n"
        );
    }

    #[test]
    fn an_original() {
        let text = b"a\x1b[2J\tb\n\xff";
        for (terminal, shown) in [(false, None), (true, Some("a\\x1b[2J\tb\n\\xff\n"))] {
            let (mut console, out, _) = console(terminal);
            print_original(text, &mut console);
            console.finish();
            match shown {
                Some(shown) => assert_eq!(out.text(), shown),
                None => assert_eq!(out.bytes(), text),
            }
        }
    }
}
