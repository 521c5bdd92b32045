//! SARIF 2.1.0, for tools that collect findings.

use std::fmt::Write;
use std::path::Path;

use serde_json::{Value, json};
use unwedge::error::Error;
use unwedge::event::{FileReport, Finding, Kind, Rule};

use super::size::compared;
use super::tally::Tally;
use super::{End, Render, Volume, json as report, say_error, say_note, say_notes};
use crate::cli::escape::{self, Shown};
use crate::cli::out::Console;

const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";

/// See the module.
pub struct Sarif {
    volume: Volume,
    results: Vec<Value>,
    notifications: Vec<Value>,
}

impl Sarif {
    /// As loud as this, on the standard error.
    pub fn new(volume: Volume) -> Self {
        Sarif { volume, results: Vec::new(), notifications: Vec::new() }
    }
}

impl Render for Sarif {
    fn file(&mut self, file: &FileReport, console: &mut Console) {
        self.results.extend(file.findings.iter().map(|finding| result(file, finding)));
        say_notes(file, self.volume, console);
    }

    fn error(&mut self, error: &Error, console: &mut Console) {
        let mut notification = json!({
            "level": "error",
            "message": { "text": escape::error(error) },
            "descriptor": { "id": error.code() },
        });
        if let (Some(path), Some(object)) = (error.path(), notification.as_object_mut()) {
            object.insert("locations".into(), json!([location(path, error.line())]));
        }
        self.notifications.push(notification);
        say_error(error, console);
    }

    fn note(&mut self, path: &Path, text: &str, console: &mut Console) {
        say_note(path, text, self.volume, console);
    }

    fn end(&mut self, _end: &End<'_>, _tally: &Tally, console: &mut Console) {
        let rule = |rule: Rule, short: &str, full: &str| {
            json!({
                "id": rule.name(),
                "shortDescription": { "text": short },
                "fullDescription": { "text": full },
                "defaultConfiguration": { "level": "warning" },
            })
        };
        report::pretty(
            &json!({
                "$schema": SCHEMA,
                "version": "2.1.0",
                "runs": [{
                    "tool": { "driver": {
                        "name": env!("CARGO_PKG_NAME"),
                        "version": env!("CARGO_PKG_VERSION"),
                        "rules": [
                            rule(Rule::Threshold, "Tool response over its size threshold",
                                "One tool response is larger than the size_threshold of its tool."),
                            rule(Rule::Batch, "Tool response in a batch over the ceiling",
                                "The responses to one assistant message are together larger than batch_ceiling."),
                            rule(Rule::Window, "Tool response in a conversation over the context window",
                                "The live conversation does not fit the model's context window."),
                        ],
                    } },
                    "columnKind": "utf16CodeUnits",
                    "invocations": [{
                        "executionSuccessful": self.notifications.is_empty(),
                        "toolExecutionNotifications": self.notifications,
                    }],
                    "results": self.results,
                }],
            }),
            console,
        );
    }
}

fn result(file: &FileReport, finding: &Finding) -> Value {
    json!({
        "ruleId": finding.rule.name(),
        "ruleIndex": match finding.rule {
            Rule::Threshold => 0,
            Rule::Batch => 1,
            Rule::Window => 2,
        },
        "level": "warning",
        "message": { "text": message(finding) },
        "locations": [location(&file.path, Some(finding.place.line))],
        "properties": {
            "tool": finding.tool,
            "call_id": finding.call_id,
            "kind": finding.kind.name(),
            "live": finding.dead.is_none(),
            "size": finding.size,
            "limit": finding.limit,
            "limit_source": finding.limit_source,
            "delivered": finding.delivered,
            "cut": finding.cut,
        },
    })
}

/// A finding as a sentence.
pub fn message(finding: &Finding) -> String {
    let (size, [limit]) = compared(finding.size, [finding.limit]);
    let tool = finding.tool.as_deref().map_or_else(|| "an unknown tool".into(), |tool| Shown::line(tool).to_string());
    let id = finding.call_id.iter().map(|id| format!(" to call {}", Shown::line(id))).collect::<String>();
    let what = match finding.kind {
        Kind::Response => "response",
        Kind::Copy => "copy of the response",
    };
    format!(
        "{what} of {tool}{id} has {size}, over {limit} ({}, {})",
        finding.rule.name(),
        Shown::line(finding.limit_source)
    )
}

fn location(path: &Path, line: Option<u64>) -> Value {
    let mut physical = json!({ "artifactLocation": { "uri": uri(path) } });
    if let (Some(line), Some(object)) = (line, physical.as_object_mut()) {
        object.insert("region".into(), json!({ "startLine": line }));
    }
    json!({ "physicalLocation": physical })
}

/// A path as a URI, or a reference relative to the current directory.
fn uri(path: &Path) -> String {
    let mut out = String::new();
    let path = path.strip_prefix(".").unwrap_or(path);
    if path.is_absolute() {
        out.push_str(if cfg!(windows) { "file:///" } else { "file://" });
    }
    for &byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => out.push(char::from(byte)),
            b'\\' if cfg!(windows) => out.push('/'),
            // Writing to a string does not fail.
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::tests::{file, finding, print, some};
    use super::*;
    use crate::cli::args::ReportFormat;
    use unwedge::repair::Task;

    #[test]
    fn a_document() {
        let (out, err) = print(ReportFormat::Sarif, Volume::default(), Task::Check, false, some(file(vec![finding()])));
        assert!(err.contains("error: b/events.json:7"), "{err}");
        let sarif: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(sarif["version"], "2.1.0");
        let run = &sarif["runs"][0];
        let result = &run["results"][0];
        let rule = &run["tool"]["driver"]["rules"][result["ruleIndex"].as_u64().unwrap() as usize];
        assert_eq!((&result["ruleId"], &result["level"]), (&rule["id"], &json!("warning")));
        assert_eq!(
            result["message"]["text"],
            "response of shell to call c0 has 4.7 MB, over 256 KB (threshold, default)"
        );
        let place = json!({ "physicalLocation": { "artifactLocation": { "uri": "a/events.json" }, "region": { "startLine": 22 } } });
        assert_eq!(result["locations"], json!([place]));
        assert_eq!(run["invocations"][0]["executionSuccessful"], false);
        assert_eq!(run["invocations"][0]["toolExecutionNotifications"][0]["descriptor"]["id"], "broken-record");
    }

    #[test]
    fn uris() {
        assert_eq!(uri(Path::new("./a b/ü%.json")), "a%20b/%C3%BC%25.json");
        assert_eq!(uri(Path::new("a:b")), "a%3Ab");
        #[cfg(unix)]
        assert_eq!(uri(Path::new("/x/y")), "file:///x/y");
    }
}
