//! The report for programs: one JSON document, or the same objects one a line as they come.
//!
//! Keys are only ever added. Sizes are integers in bytes, decoded except where a name says otherwise. Text of a stream is
//! never in it; ids and names of tools are. Characters that a terminal would obey are written as `\u` escapes, which is the
//! same JSON, so the report can be looked at.

use std::fmt::Write;
use std::path::Path;

use serde::Serialize;
use unwedge::error::Error;
use unwedge::event::FileReport;

use super::shape::{ErrorJson, FileJson, HeadJson, NoteJson};
use super::tally::Tally;
use super::{End, Render, Volume, say_error, say_note, say_notes};
use crate::cli::escape::is_unsafe;
use crate::cli::out::Console;

/// See the module.
pub struct Json {
    volume: Volume,
    /// One object a line, as it comes.
    lines: bool,
    files: Vec<FileJson>,
    errors: Vec<ErrorJson>,
    notes: Vec<NoteJson>,
}

impl Json {
    /// One document.
    pub fn document(volume: Volume) -> Self {
        Json { volume, lines: false, files: Vec::new(), errors: Vec::new(), notes: Vec::new() }
    }

    /// One event a line.
    pub fn lines(volume: Volume) -> Self {
        Json { lines: true, ..Json::document(volume) }
    }

    fn event(event: &EventJson<'_>, console: &mut Console) {
        match serde_json::to_string(event) {
            Ok(text) => console.line(visible(&text)),
            Err(e) => console.error(format!("cannot write the report: {e}")),
        }
    }
}

impl Render for Json {
    fn file(&mut self, file: &FileReport, console: &mut Console) {
        let json = FileJson::of(file);
        if self.lines {
            Json::event(&EventJson::File(&json), console);
        } else {
            self.files.push(json);
        }
        say_notes(file, self.volume, console);
    }

    fn error(&mut self, error: &Error, console: &mut Console) {
        let json = ErrorJson::of(error);
        if self.lines {
            Json::event(&EventJson::Error(&json), console);
        } else {
            self.errors.push(json);
        }
        say_error(error, console);
    }

    fn note(&mut self, path: &Path, text: &str, console: &mut Console) {
        let json = NoteJson::of(path, text);
        if self.lines {
            Json::event(&EventJson::Note(&json), console);
        } else {
            self.notes.push(json);
        }
        say_note(path, text, self.volume, console);
    }

    fn end(&mut self, end: &End<'_>, tally: &Tally, console: &mut Console) {
        let head = HeadJson::of(end, tally);
        if self.lines {
            Json::event(&EventJson::Summary(&head), console);
        } else {
            let document = DocumentJson { head, files: &self.files, errors: &self.errors, notes: &self.notes };
            pretty(&document, console);
        }
    }
}

/// Prints a document.
pub fn pretty(document: &impl Serialize, console: &mut Console) {
    match serde_json::to_string_pretty(document) {
        Ok(text) => console.line(visible(&text)),
        Err(e) => console.error(format!("cannot write the report: {e}")),
    }
}

/// The same JSON, with what a terminal would obey as escapes. Such characters stand only inside of strings.
fn visible(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if is_unsafe(c) && c != '\n' {
            for unit in c.encode_utf16(&mut [0; 2]) {
                // Writing to a string does not fail.
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(c);
        }
    }
    out
}

/// One line of the report as events.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
enum EventJson<'a> {
    File(&'a FileJson),
    Error(&'a ErrorJson),
    Note(&'a NoteJson),
    Summary(&'a HeadJson),
}

/// The report as one document.
#[derive(Serialize)]
struct DocumentJson<'a> {
    #[serde(flatten)]
    head: HeadJson,
    files: &'a [FileJson],
    errors: &'a [ErrorJson],
    notes: &'a [NoteJson],
}

#[cfg(test)]
mod tests {
    use super::super::tests::{file, finding, print, repaired, some};
    use super::*;
    use crate::cli::args::ReportFormat;
    use serde_json::{Value, json};
    use unwedge::event::{Event, Finding, Hunk};
    use unwedge::repair::Task;

    fn report(task: Task, events: Vec<Event>) -> Value {
        let (out, _) = print(ReportFormat::Json, Volume::default(), task, false, events);
        serde_json::from_str(&out).unwrap()
    }

    #[test]
    fn a_document() {
        let (out, err) = print(ReportFormat::Json, Volume::default(), Task::Check, false, some(file(vec![finding()])));
        assert!(err.contains("error: b/events.json:7"), "people see errors in any format: {err}");
        let keys: Vec<&str> = ["schema_version", "tool", "run", "limits", "summary", "files", "errors"].into();
        let mut at = 0;
        for key in keys {
            at = at + out[at..].find(&format!("\n  \"{key}\":")).unwrap_or_else(|| panic!("{key} in its place: {out}"));
        }
        let report: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(
            report["files"],
            json!([{
                "path": "a/events.json",
                "format": "jp",
                "conversation": "jp-c1",
                "status": "over",
                "bytes": 7_000_000,
                "bytes_after": null,
                "skimmed": false,
                "backup": null,
                "findings": [{
                    "rule": "threshold",
                    "place": { "line": 22, "record": 3 },
                    "call_id": "c0",
                    "tool": "shell",
                    "batch": { "number": 1, "responses": 2, "size": 5_000_000, "still_over": false },
                    "live": true,
                    "dead": null,
                    "kind": "response",
                    "size": 4_900_000,
                    "limit": 262_144,
                    "limit_source": "default",
                    "delivered": null,
                    "still_over": false,
                    "cut": null,
                }],
                "edits": [],
                "notes": [{ "line": 5, "text": "an unpaired\nsurrogate" }],
                "sums": { "responses": 4, "batches": 2, "live": 5_000_000, "dead": 0, "copies": 0, "opaque_stored": 0 },
                "diagnosis": null,
            }])
        );
        assert_eq!(
            report["errors"],
            json!([{ "path": "b/events.json", "code": "broken-record", "line": 7, "column": null,
                "message": "b/events.json:7: not\\nJSON; the record stays as it is" }])
        );
        assert_eq!(
            report["notes"],
            json!([{ "path": "x\u{1b}[31m", "line": null, "text": "no format claims this file" }])
        );
        assert_eq!(
            report["limits"],
            json!({
                "size_threshold": { "value": 262_144, "source": "default" },
                "batch_ceiling": { "value": 2_097_152, "source": "default" },
                "tools": { "shell": { "value": "unlimited", "source": "--tool" } },
                "files": [],
            })
        );
        assert_eq!(report["summary"]["findings"], 1);
        assert_eq!(report["schema_version"], 1);
        assert_eq!(report["run"], Value::Null);
    }

    #[test]
    fn a_repair() {
        let report = report(Task::Fix, some(repaired(true)));
        assert_eq!(report["run"], "RUN");
        let file = &report["files"][0];
        assert_eq!((&file["status"], &file["bytes_after"]), (&json!("repaired"), &json!(2_000_000)));
        assert_eq!(file["backup"], "/vault/objects/ab/abcd");
        assert_eq!(
            (&file["findings"][0]["delivered"], &file["findings"][0]["cut"]),
            (&json!(262_143), &json!("RUN-1"))
        );
        assert_eq!(report["summary"]["tools_cut"], json!([{ "tool": "shell", "cuts": 1 }]));
    }

    #[test]
    fn no_text_of_the_stream() {
        let mut file = repaired(true);
        file.findings[0].hunks =
            vec![Hunk { before: "SECRET".into(), removed: "SECRET".into(), ..super::super::tests::hunk() }];
        for format in [ReportFormat::Json, ReportFormat::Jsonl] {
            let (out, _) = print(
                format,
                Volume::default(),
                Task::Fix,
                false,
                vec![Event::File(Box::new(FileReport { findings: file.findings.clone(), ..repaired(true) }))],
            );
            assert!(!out.contains("SECRET"));
        }
    }

    #[test]
    fn events() {
        let (out, _) = print(ReportFormat::Jsonl, Volume::default(), Task::Check, false, some(file(vec![])));
        let events: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let kinds: Vec<&str> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["file", "error", "note", "summary"]);
        assert_eq!(events[0]["path"], "a/events.json");
        assert_eq!(events[3]["schema_version"], 1);
    }

    #[test]
    fn it_can_be_looked_at() {
        let odd = Finding { tool: Some("\u{1b}\u{9b}\u{202e}\u{e0041}é\u{7f}".into()), ..finding() };
        let (out, _) = print(ReportFormat::Json, Volume::default(), Task::Check, true, some(file(vec![odd])));
        assert!(!out.chars().any(|c| is_unsafe(c) && c != '\n'));
        let report: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(report["files"][0]["findings"][0]["tool"], "\u{1b}\u{9b}\u{202e}\u{e0041}é\u{7f}");
    }

    #[cfg(unix)]
    #[test]
    fn a_path_that_is_no_unicode() {
        use std::os::unix::ffi::OsStrExt;
        let path = Path::new(std::ffi::OsStr::from_bytes(b"a\xff\n")).to_owned();
        let report = report(Task::Check, some(FileReport { path, ..file(vec![]) }));
        assert_eq!(
            (&report["files"][0]["path"], &report["files"][0]["path_bytes"]),
            (&json!("a\\xff\\n"), &json!("61ff0a"))
        );
    }
}
