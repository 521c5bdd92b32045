//! The report for people: one line a finding, then the sums.
//!
//! What `fix -n` prints on the standard output is what `fix` prints, without the last block: run, backups, undo. So nothing
//! here says "would be" or "was".

use std::fmt::Write;
use std::path::{Path, PathBuf};

use unwedge::cap::limits::{Limit, Resolved};
use unwedge::error::Error;
use unwedge::event::{EditKind, FileReport, Finding, Kind, Rule, Status};
use unwedge::repair::Task;

use super::size::{compared, count, human};
use super::tally::{Tally, is_cut};
use super::{End, Render, Volume, diff, health, say_error, say_note, say_notes};
use crate::cli::escape::Shown;
use crate::cli::out::{Console, Styles, styled};

/// See the module.
pub struct Text {
    volume: Volume,
    /// Documents and their backups.
    backups: Vec<(PathBuf, PathBuf)>,
    /// The cuts of the run, a line each.
    cuts: Vec<String>,
}

impl Text {
    /// As loud as this.
    pub fn new(volume: Volume) -> Self {
        Text { volume, backups: Vec::new(), cuts: Vec::new() }
    }
}

impl Render for Text {
    fn file(&mut self, file: &FileReport, console: &mut Console) {
        for finding in &file.findings {
            let line = line(file, finding, console.styles);
            console.line(line);
            if !finding.hunks.is_empty() && file.status != Status::Failed {
                // To a pipe or a file goes the text itself.
                let diff =
                    diff::render(&file.path, finding, console.styles, console.out_is_terminal, self.volume.whole_lines);
                console.write(diff.as_bytes());
            }
        }
        for line in health::lines(file, console.styles, self.volume.verbose) {
            console.line(line);
        }
        for (finding, cut) in file.findings.iter().filter_map(|finding| Some((finding, finding.cut.as_ref()?))) {
            let (cut, path) = (Shown::line(cut), Shown::path(&file.path));
            self.cuts.push(format!("cut {cut}: {path}:{} {}", finding.place.line, whose(finding)));
        }
        for (edit, cut) in file.edits.iter().filter_map(|edit| Some((edit, edit.cut.as_ref()?))) {
            let what = match edit.kind {
                EditKind::Error => "stored error",
                EditKind::Usage => "stored count of tokens",
            };
            let (cut, path) = (Shown::line(cut), Shown::path(&file.path));
            self.cuts.push(format!("edit {cut}: {path}:{} {what}", edit.place.line));
        }
        self.backups.extend(file.backup.iter().map(|backup| (file.path.clone(), backup.clone())));
        say_notes(file, self.volume, console);
    }

    fn error(&mut self, error: &Error, console: &mut Console) {
        say_error(error, console);
    }

    fn note(&mut self, path: &Path, text: &str, console: &mut Console) {
        say_note(path, text, self.volume, console);
    }

    fn end(&mut self, end: &End<'_>, tally: &Tally, console: &mut Console) {
        if self.volume.quiet {
            return;
        }
        sums(tally, self.volume, console);
        if self.volume.verbose {
            verbose(end, tally, console);
        }
        if tally.cut > 0 {
            console.warning(format!("tools whose responses are cut: {}", tools(tally)));
        }
        match (end.task, end.run) {
            (Task::Fix, Some(run)) => self.run(end, run, console),
            (Task::DryRun, _) => console.remark("dry run: nothing was written"),
            (Task::Check | Task::Fix, _) => {}
        }
    }
}

impl Text {
    /// What a run leaves behind, and how to take it back.
    fn run(&self, end: &End<'_>, run: &str, console: &mut Console) {
        let (run, vault) = (Shown::line(run), Shown::path(end.vault));
        if end.no_backup {
            console.line(format!("run {run}: no backup was made, what was cut is gone for good"));
            return;
        }
        // The ids that `show` and `undo` take.
        self.cuts.iter().for_each(|cut| console.line(cut));
        for (path, backup) in self.backups.iter().filter(|_| self.volume.verbose) {
            console.line(format!("backup of {}: {}", Shown::path(path), Shown::path(backup)));
        }
        console.line(format!("backups are in {vault}"));
        console.line(format!("to undo: {}", undo_command(run, end.backup_dir)));
    }
}

/// The command that undoes a run.
pub fn undo_command(run: Shown<'_>, backup_dir: Option<&Path>) -> String {
    let dir = backup_dir.map(|dir| format!(" --backup-dir {}", quoted(&Shown::path(dir).to_string())));
    format!("unwedge undo {run}{}", dir.unwrap_or_default())
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"/._-+=:,@%".contains(&b);
    if !word.is_empty() && word.bytes().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// `path:line: tool id: size > limit (why) → delivered`
fn line(file: &FileReport, finding: &Finding, styles: Styles) -> String {
    let place = format!("{}:{}", Shown::path(&file.path), finding.place.line);
    let mut line = format!("{}: {}", styled(styles.path, place), whose(finding));
    let delivered = finding.delivered.filter(|_| file.status != Status::Failed);
    let (size, [limit, after]) = compared(finding.size, [finding.limit, delivered.unwrap_or(0)]);
    let source = Shown::line(finding.limit_source);
    let why = match (finding.rule, finding.batch) {
        (Rule::Threshold, _) => format!("threshold, {source}"),
        (Rule::Window, _) => format!("window, {source}"),
        (Rule::Batch, None) => format!("batch, {source}"),
        (Rule::Batch, Some(batch)) => {
            let size = human(batch.size);
            format!("batch {} of {} with {size}, {source}", batch.number, count(batch.responses, "response"))
        }
    };
    // Writing to a string does not fail.
    let _ = write!(line, ": {} > {limit} ({why})", styled(styles.over, size));
    if is_cut(file, finding) {
        let _ = write!(line, " → {after}");
    }
    if let Some(path) = finding.full_text.as_ref().filter(|_| delivered.is_some()) {
        let _ = write!(line, "; full text: {}", Shown::path(path));
    }
    if delivered.is_some() && finding.still_over {
        line.push_str(", still over");
    } else if delivered.is_some() && finding.batch.is_some_and(|batch| batch.still_over) {
        line.push_str(", batch still over");
    }
    line
}

/// The tool and the call, and what is special about the text.
fn whose(finding: &Finding) -> String {
    let tool = finding.tool.as_deref().map_or_else(|| "unknown tool".to_owned(), |tool| Shown::line(tool).to_string());
    let id = finding.call_id.iter().map(|id| format!(" {}", Shown::line(id)));
    let copy = (finding.kind == Kind::Copy).then_some("copy");
    let special: Vec<String> = copy.into_iter().chain(finding.dead).map(|word| Shown::line(word).to_string()).collect();
    let special = if special.is_empty() { String::new() } else { format!(" ({})", special.join(", ")) };
    format!("{tool}{}{special}", id.collect::<String>())
}

fn sums(tally: &Tally, volume: Volume, console: &mut Console) {
    let documents = count(tally.documents.saturating_sub(tally.skimmed), "document");
    if tally.documents == 0 && tally.errors > 0 {
        return console.line(format!("nothing could be checked; {}", count(tally.errors, "error")));
    }
    let mut line = format!("checked {} in {documents}", count(tally.responses, "response"));
    if tally.skimmed > 0 {
        // They are clean, and not in the sums.
        let _ = write!(line, " and skimmed {}", tally.skimmed);
    }
    line.push_str(": ");
    let over = match tally.findings {
        0 => styled(console.styles.good, "nothing"),
        n => styled(console.styles.over, n),
    };
    let _ = write!(line, "{over} over a limit");
    if tally.over_documents > 1 {
        let _ = write!(line, " in {} documents", tally.over_documents);
    }
    if tally.still_over > 0 {
        let _ = write!(line, ", {} even after the cut", tally.still_over);
    }
    if tally.wedged > 0 {
        let _ = write!(line, "; {} wedged", tally.wedged);
    }
    for (n, what) in [(tally.errors, "error"), (tally.notes, "note")] {
        if n > 0 {
            let _ = write!(line, "; {}", count(n, what));
        }
    }
    console.line(line);
    // Of what was only skimmed there is no total to tell.
    if tally.findings > 0 || volume.verbose || tally.live > 0 {
        let mut line = format!("{} to the assistant", human(tally.live));
        for (n, what) in [
            (tally.dead, "dead"),
            (tally.copies, "in copies"),
            (tally.opaque_stored, "of images and the like as stored"),
        ] {
            if n > 0 {
                let _ = write!(line, ", {} {what}", human(n));
            }
        }
        console.line(line);
    }
}

fn verbose(end: &End<'_>, tally: &Tally, console: &mut Console) {
    console.line(format!(
        "passed over: {} that no format claims, {} too small to hold anything over a limit",
        count(tally.passed_over, "file"),
        count(tally.too_small, "file")
    ));
    let value = |limit: &Resolved<Limit>| format!("{} ({})", limit.value.canonical(), limit.source);
    let limits = end.limits;
    let mut line =
        format!("limits: size_threshold {}, batch_ceiling {}", value(&limits.threshold), value(&limits.ceiling));
    for (tool, limit) in &limits.tools {
        let _ = write!(line, ", {} {}", Shown::line(tool), value(limit));
    }
    console.line(line);
    for file in &limits.files {
        console.line(format!("limits from {}", Shown::path(file)));
    }
}

/// Every tool whose responses were cut, and how many of them.
fn tools(tally: &Tally) -> String {
    let name = |tool: &Option<String>| match tool {
        Some(tool) => Shown::line(tool).to_string(),
        None => "unknown tool".to_owned(),
    };
    let tools: Vec<String> = tally.tools.iter().map(|(tool, n)| format!("{} ({n})", name(tool))).collect();
    tools.join(", ")
}

#[cfg(test)]
mod tests {
    use super::super::tests::{file, finding, print, repaired, some};
    use super::*;
    use crate::cli::args::ReportFormat;
    use unwedge::event::{BatchInfo, Event};

    fn text(volume: Volume, task: Task, events: Vec<Event>) -> (String, String) {
        print(ReportFormat::Text, volume, task, false, events)
    }

    fn check(events: Vec<Event>) -> String {
        text(Volume::default(), Task::Check, events).0
    }

    fn only(finding: Finding) -> String {
        let out = check(vec![Event::File(Box::new(file(vec![finding])))]);
        out.lines().next().unwrap().to_owned()
    }

    #[test]
    fn a_check() {
        let (out, err) = text(Volume::default(), Task::Check, some(file(vec![finding()])));
        assert_eq!(
            out,
            "a/events.json:22: shell c0: 4.7 MB > 256 KB (threshold, default)\n\
             checked 4 responses in 1 document: 1 over a limit; 1 error; 2 notes\n\
             4.8 MB to the assistant\n"
        );
        assert_eq!(
            err,
            "note: a/events.json:5: an unpaired\\nsurrogate\n\
             error: b/events.json:7: not\\nJSON; the record stays as it is\n\
             note: x\\x1b[31m: no format claims this file\n"
        );
    }

    #[test]
    fn nothing_to_say() {
        let clean = FileReport { notes: Vec::new(), ..file(vec![]) };
        let (out, err) = text(Volume::default(), Task::Check, vec![Event::File(Box::new(clean))]);
        assert_eq!(
            (&*out, &*err),
            ("checked 4 responses in 1 document: nothing over a limit\n4.8 MB to the assistant\n", "")
        );
    }

    #[test]
    fn a_dry_run_prints_what_the_real_one_does() {
        let (dry, dry_err) = text(Volume::default(), Task::DryRun, some(repaired(false)));
        let (real, real_err) = text(Volume::default(), Task::Fix, some(repaired(true)));
        assert!(
            dry.starts_with("a/events.json:22: shell c0: 4.7 MB > 256 KB (threshold, default) → 256 KB\n--- a/"),
            "{dry}"
        );
        assert_eq!(
            real.strip_prefix(&dry),
            Some("cut RUN-1: a/events.json:22 shell c0\nbackups are in /vault\nto undo: unwedge undo RUN\n")
        );
        assert_eq!(dry_err.strip_prefix(&real_err), Some("dry run: nothing was written\n"));
        assert!(real_err.contains("warning: tools whose responses are cut: shell (1)\n"), "{real_err}");
    }

    #[test]
    fn what_was_skimmed_is_told_apart() {
        let skimmed = FileReport { skimmed: true, sums: Default::default(), notes: Vec::new(), ..file(vec![]) };
        let out = check(vec![Event::File(Box::new(skimmed)), Event::File(Box::new(file(vec![finding()])))]);
        assert!(out.contains("checked 4 responses in 1 document and skimmed 1: 1 over a limit"), "{out}");
    }

    #[test]
    fn quiet_and_verbose() {
        let quiet = Volume { quiet: true, ..Volume::default() };
        let (out, err) = text(quiet, Task::Fix, some(repaired(true)));
        assert!(!out.contains("checked") && !out.contains("undo") && out.contains("→"), "{out}");
        assert_eq!(err, "error: b/events.json:7: not\\nJSON; the record stays as it is\n");
        let verbose = Volume { verbose: true, ..Volume::default() };
        let (out, _) = text(verbose, Task::Fix, some(repaired(true)));
        for line in [
            "passed over: 3 files that no format claims, 1 file too small to hold anything over a limit\n",
            "limits: size_threshold 256KB (default), batch_ceiling 2MB (default), shell unlimited (--tool)\n",
            "backup of a/events.json: /vault/objects/ab/abcd\n",
        ] {
            assert!(out.contains(line), "{out}");
        }
    }

    #[test]
    fn why() {
        let batch = Some(BatchInfo { number: 3, responses: 5, size: 2_500_000, still_over: false });
        let line = only(Finding { rule: Rule::Batch, batch, limit_source: "--batch-ceiling", ..finding() });
        assert_eq!(
            line,
            "a/events.json:22: shell c0: 4.7 MB > 256 KB (batch 3 of 5 responses with 2.4 MB, --batch-ceiling)"
        );
        let odd = Finding { tool: None, call_id: None, kind: Kind::Copy, dead: Some("archived"), ..finding() };
        assert_eq!(only(odd), "a/events.json:22: unknown tool (copy, archived): 4.7 MB > 256 KB (threshold, default)");
        let near = only(Finding { size: 262_145, ..finding() });
        assert!(near.contains(": 262145 B > 262144 B ("), "{near}");
        let hostile =
            only(Finding { tool: Some("sh\nell\u{1b}".into()), call_id: Some("\u{202e}".into()), ..finding() });
        assert!(hostile.contains(": sh\\nell\\x1b \\u{202e}: "), "{hostile}");
    }

    #[test]
    fn what_stays_over_and_what_failed() {
        let mut over = repaired(true);
        over.findings[0].still_over = true;
        let out = check(vec![Event::File(Box::new(over))]);
        assert!(
            out.contains("→ 256 KB, still over\n") && out.contains(": 1 over a limit, 1 even after the cut"),
            "{out}"
        );
        let failed = FileReport { status: Status::Failed, ..repaired(false) };
        let out = check(vec![Event::File(Box::new(failed))]);
        assert!(!out.contains('→') && !out.contains("---"), "{out}");
    }

    #[test]
    fn the_command_that_undoes() {
        assert_eq!(undo_command(Shown::line("R"), Some(Path::new("/b"))), "unwedge undo R --backup-dir /b");
        assert_eq!(undo_command(Shown::line("R"), Some(Path::new("it's"))), r"unwedge undo R --backup-dir 'it'\''s'");
    }
}
