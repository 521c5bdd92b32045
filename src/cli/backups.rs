//! `unwedge backups`.

use anyhow::Result;
use serde::Serialize;
use unwedge::cap::size::ByteSize;
use unwedge::store::vault::{Prune, Pruned, RunState, RunSummary, Vault, Verification};

use super::args::{Backups, BackupsCommand, Plain, PruneFlags};
use super::audit::vault;
use super::escape::Shown;
use super::exit::Exit;
use super::out::{Console, Styles, styled};
use super::render::shape::{PathJson, text};
use super::render::size::{count, human};
use super::render::{Volume, json};

/// Lists, verifies or removes backups.
pub fn backups(args: &Backups, volume: Volume, console: &mut Console) -> Result<Exit> {
    let after = match &args.command {
        Some(BackupsCommand::List(flags) | BackupsCommand::Verify(flags)) => Some(flags),
        Some(BackupsCommand::Prune(prune)) => Some(&prune.vault),
        None => None,
    };
    let backup_dir = after.and_then(|flags| flags.backup_dir.as_deref()).or(args.vault.backup_dir.as_deref());
    let format = after.and_then(|flags| flags.output_format).or(args.vault.output_format).unwrap_or(Plain::Text);
    let vault = Vault::new(vault(backup_dir)?);
    match &args.command {
        None | Some(BackupsCommand::List(_)) => list(&vault, format, volume, console),
        Some(BackupsCommand::Verify(_)) => verify(&vault, format, volume, console),
        Some(BackupsCommand::Prune(flags)) => prune(&vault, flags, format, volume, console),
    }
}

fn list(vault: &Vault, format: Plain, volume: Volume, console: &mut Console) -> Result<Exit> {
    let runs = vault.list()?;
    if format == Plain::Json {
        let runs = runs.iter().map(RunJson::of).collect();
        json::pretty(&ListJson { schema_version: 1, vault: text(vault.root()), runs }, console);
        return Ok(Exit::Clean);
    }
    for run in &runs {
        console.line(line(run, console.styles));
        for document in &run.documents {
            let undone = if document.done { "" } else { ", not carried out" };
            let cuts = count(document.cuts, "cut");
            console.line(format!("    {}: {cuts}{undone}", Shown::path(&document.path)));
            match &document.backup {
                Some(backup) => console.line(format!("        {}, {}", Shown::path(backup), human(document.bytes))),
                None => console.line("        no backup"),
            }
        }
    }
    if !volume.quiet {
        let runs = if runs.is_empty() { "no runs".to_owned() } else { count(runs.len() as u64, "run") };
        console.line(format!("{runs} in {}", Shown::path(vault.root())));
    }
    Ok(Exit::Clean)
}

/// One run on one line.
pub fn line(run: &RunSummary, styles: Styles) -> String {
    let kind = match &run.undoes {
        Some(undoes) => format!("{} of {}", Shown::line(&run.kind), Shown::line(undoes)),
        None => Shown::line(&run.kind).to_string(),
    };
    let cuts = count(run.documents.iter().map(|d| d.cuts).sum(), "cut");
    let documents = count(run.documents.len() as u64, "document");
    let state = match run.state {
        RunState::Done => "",
        other => &format!(", {}", state(other)),
    };
    format!(
        "{}  {}  {kind}, {cuts} in {documents}{state}",
        styled(styles.path, Shown::line(&run.run)),
        Shown::line(&run.time)
    )
}

fn state(state: RunState) -> &'static str {
    match state {
        RunState::Done => "done",
        RunState::Running => "running",
        RunState::Interrupted => "interrupted",
    }
}

fn verify(vault: &Vault, format: Plain, volume: Volume, console: &mut Console) -> Result<Exit> {
    let found = vault.verify()?;
    match format {
        Plain::Json => json::pretty(&VerificationJson::of(vault, &found), console),
        Plain::Text => say_verified(vault, &found, volume, console),
    }
    Ok(if found.damaged.is_empty() { Exit::Clean } else { Exit::Trouble })
}

fn say_verified(vault: &Vault, found: &Verification, volume: Volume, console: &mut Console) {
    for sentence in found.recovered.iter().filter(|_| !volume.quiet) {
        console.note(Shown::line(sentence));
    }
    for (path, what, runs) in &found.damaged {
        let lost = if runs.is_empty() {
            "no run needs it".to_owned()
        } else {
            format!("it takes with it the undoing of {}", Shown::line(&runs.join(", ")))
        };
        console.error(format!("{}: {}; {lost}", Shown::path(path), Shown::line(what)));
    }
    if !volume.quiet {
        let damaged =
            if found.damaged.is_empty() { String::new() } else { format!(", {} damaged", found.damaged.len()) };
        let sound = count(found.sound, "backup");
        console.line(format!("{sound} sound ({}){damaged} in {}", human(found.bytes), Shown::path(vault.root())));
    }
}

fn prune(vault: &Vault, flags: &PruneFlags, format: Plain, volume: Volume, console: &mut Console) -> Result<Exit> {
    let dry = flags.dry_run;
    let max_size = flags.max_size.map(|ByteSize(n)| n);
    let pruned = vault.prune(&Prune { keep: flags.keep, older_than: flags.older_than, max_size }, dry)?;
    if format == Plain::Json {
        json::pretty(&PrunedJson::of(&pruned, dry), console);
        return Ok(Exit::Clean);
    }
    for run in &pruned.runs {
        console.line(format!("run {}", Shown::line(run)));
    }
    if !volume.quiet {
        let (runs, backups) = (count(pruned.runs.len() as u64, "run"), count(pruned.objects, "backup"));
        console.line(format!("removed: {runs}, {backups}, {}", human(pruned.bytes)));
    }
    if dry && !volume.quiet {
        console.remark("dry run: nothing was removed");
    }
    Ok(Exit::Clean)
}

#[derive(Serialize)]
struct ListJson {
    schema_version: u32,
    vault: String,
    runs: Vec<RunJson>,
}

#[derive(Serialize)]
struct RunJson {
    run: String,
    time: String,
    kind: String,
    undoes: Option<String>,
    state: &'static str,
    documents: Vec<DocumentJson>,
}

#[derive(Serialize)]
struct DocumentJson {
    #[serde(flatten)]
    path: PathJson,
    backup: Option<String>,
    bytes: u64,
    cuts: u64,
    done: bool,
}

impl RunJson {
    fn of(run: &RunSummary) -> Self {
        let documents = run.documents.iter().map(|d| DocumentJson {
            path: PathJson::of(&d.path),
            backup: d.backup.as_deref().map(text),
            bytes: d.bytes,
            cuts: d.cuts,
            done: d.done,
        });
        RunJson {
            run: run.run.clone(),
            time: run.time.clone(),
            kind: run.kind.clone(),
            undoes: run.undoes.clone(),
            state: state(run.state),
            documents: documents.collect(),
        }
    }
}

#[derive(Serialize)]
struct VerificationJson {
    schema_version: u32,
    vault: String,
    sound: u64,
    bytes: u64,
    damaged: Vec<DamagedJson>,
    recovered: Vec<String>,
}

#[derive(Serialize)]
struct DamagedJson {
    #[serde(flatten)]
    path: PathJson,
    what: String,
    runs: Vec<String>,
}

impl VerificationJson {
    fn of(vault: &Vault, found: &Verification) -> Self {
        let damaged = found.damaged.iter().map(|(path, what, runs)| DamagedJson {
            path: PathJson::of(path),
            what: what.clone(),
            runs: runs.clone(),
        });
        VerificationJson {
            schema_version: 1,
            vault: text(vault.root()),
            sound: found.sound,
            bytes: found.bytes,
            damaged: damaged.collect(),
            recovered: found.recovered.clone(),
        }
    }
}

#[derive(Serialize)]
struct PrunedJson<'a> {
    schema_version: u32,
    dry_run: bool,
    runs: &'a [String],
    objects: u64,
    bytes: u64,
}

impl<'a> PrunedJson<'a> {
    fn of(pruned: &'a Pruned, dry_run: bool) -> Self {
        PrunedJson { schema_version: 1, dry_run, runs: &pruned.runs, objects: pruned.objects, bytes: pruned.bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::out::tests::console;

    #[test]
    fn a_run_on_a_line() {
        let run = RunSummary {
            run: "RUN".into(),
            time: "2026-03-03T03:00:00Z".into(),
            kind: "undo".into(),
            undoes: Some("OLD".into()),
            state: RunState::Interrupted,
            documents: vec![],
        };
        assert_eq!(
            line(&run, Styles::default()),
            "RUN  2026-03-03T03:00:00Z  undo of OLD, 0 cuts in 0 documents, interrupted"
        );
    }

    #[test]
    fn a_verification() {
        let (mut console, out, err) = console(false);
        let found = Verification {
            sound: 2,
            bytes: 2048,
            damaged: vec![("/v/x".into(), "the backup is missing".into(), vec!["A".into(), "B".into()])],
            recovered: vec!["run C was killed".into()],
        };
        say_verified(&Vault::new("/v"), &found, Volume::default(), &mut console);
        console.finish();
        assert_eq!(out.text(), "2 backups sound (2 KB), 1 damaged in /v\n");
        assert_eq!(
            err.text(),
            "note: run C was killed\nerror: /v/x: the backup is missing; it takes with it the undoing of A, B\n"
        );
    }
}
