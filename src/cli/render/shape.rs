//! The objects of the JSON report: their keys, and nothing of where they go.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;
use unwedge::cap::limits::{Limit, Resolved};
use unwedge::error::Error;
use unwedge::event::{Edit, EditKind, FileReport, Finding};
use unwedge::repair::Task;

use super::End;
use super::health::HealthJson;
use super::tally::Tally;
use crate::cli::config::InForce;
use crate::cli::escape::{self, Shown};

/// The version of the report's shape. It changes where a key is removed or comes to mean something else.
const SCHEMA_VERSION: u32 = 1;

/// What stands at the top of a report, or in its last event.
#[derive(Serialize)]
pub struct HeadJson {
    schema_version: u32,
    tool: ToolJson,
    command: &'static str,
    run: Option<String>,
    limits: LimitsJson,
    summary: SummaryJson,
}

#[derive(Serialize)]
struct ToolJson {
    name: &'static str,
    version: &'static str,
}

impl HeadJson {
    /// At the end of a run.
    pub fn of(end: &End<'_>, tally: &Tally) -> Self {
        HeadJson {
            schema_version: SCHEMA_VERSION,
            tool: ToolJson { name: env!("CARGO_PKG_NAME"), version: env!("CARGO_PKG_VERSION") },
            command: match end.task {
                Task::Check => "check",
                Task::DryRun => "fix --dry-run",
                Task::Fix => "fix",
            },
            run: end.run.map(str::to_owned),
            limits: LimitsJson::of(end.limits),
            summary: SummaryJson::of(end, tally),
        }
    }
}

/// The limits, as they hold where no conversation says otherwise.
#[derive(Serialize)]
struct LimitsJson {
    size_threshold: LimitJson,
    batch_ceiling: LimitJson,
    tools: BTreeMap<String, LimitJson>,
    /// The `unwedge.toml`s that were used.
    files: Vec<String>,
}

#[derive(Serialize)]
struct LimitJson {
    value: ValueJson,
    source: String,
}

/// Bytes, or `"unlimited"`.
#[derive(Serialize)]
#[serde(untagged)]
enum ValueJson {
    Bytes(u64),
    Word(&'static str),
}

impl LimitsJson {
    fn of(limits: &InForce) -> Self {
        let limit = |resolved: &Resolved<Limit>| LimitJson {
            value: match resolved.value {
                Limit::Bytes(n) => ValueJson::Bytes(n),
                Limit::Unlimited => ValueJson::Word("unlimited"),
            },
            source: resolved.source.to_string(),
        };
        LimitsJson {
            size_threshold: limit(&limits.threshold),
            batch_ceiling: limit(&limits.ceiling),
            tools: limits.tools.iter().map(|(tool, resolved)| (tool.clone(), limit(resolved))).collect(),
            files: limits.files.iter().map(|path| text(path)).collect(),
        }
    }
}

/// The sums over all files.
#[derive(Serialize)]
struct SummaryJson {
    documents: u64,
    skimmed: u64,
    responses: u64,
    batches: u64,
    live: u64,
    dead: u64,
    copies: u64,
    opaque_stored: u64,
    findings: u64,
    cut: u64,
    edits: u64,
    still_over: u64,
    tools_cut: Vec<ToolCutsJson>,
    passed_over: u64,
    too_small: u64,
    errors: u64,
    notes: u64,
    interrupted: bool,
}

#[derive(Serialize)]
struct ToolCutsJson {
    tool: Option<String>,
    cuts: u64,
}

impl SummaryJson {
    fn of(end: &End<'_>, tally: &Tally) -> Self {
        SummaryJson {
            documents: tally.documents,
            skimmed: tally.skimmed,
            responses: tally.responses,
            batches: tally.batches,
            live: tally.live,
            dead: tally.dead,
            copies: tally.copies,
            opaque_stored: tally.opaque_stored,
            findings: tally.findings,
            cut: tally.cut,
            edits: tally.edits,
            still_over: tally.still_over,
            tools_cut: tally
                .tools
                .iter()
                .map(|(tool, cuts)| ToolCutsJson { tool: tool.clone(), cuts: *cuts })
                .collect(),
            passed_over: tally.passed_over,
            too_small: tally.too_small,
            errors: tally.errors,
            notes: tally.notes,
            interrupted: end.interrupted,
        }
    }
}

/// A path. It is lossless where it is Unicode; else it is escaped, and its bytes are given too.
#[derive(Serialize)]
pub struct PathJson {
    path: String,
    /// In hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    path_bytes: Option<String>,
}

impl PathJson {
    /// Of this path.
    pub fn of(path: &Path) -> Self {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let path_bytes = path.to_str().is_none().then(|| hex(path.as_os_str().as_encoded_bytes()));
        PathJson { path: text(path), path_bytes }
    }
}

/// A path as text: itself where it is Unicode, else escaped.
pub fn text(path: &Path) -> String {
    path.to_str().map_or_else(|| Shown::path(path).to_string(), str::to_owned)
}

/// A document.
#[derive(Serialize)]
pub struct FileJson {
    #[serde(flatten)]
    path: PathJson,
    format: &'static str,
    conversation: Option<String>,
    status: &'static str,
    /// Stored bytes.
    bytes: u64,
    bytes_after: Option<u64>,
    skimmed: bool,
    backup: Option<String>,
    findings: Vec<FindingJson>,
    edits: Vec<EditJson>,
    notes: Vec<FileNoteJson>,
    sums: SumsJson,
    diagnosis: Option<HealthJson>,
}

#[derive(Serialize)]
struct FileNoteJson {
    line: Option<u64>,
    text: String,
}

#[derive(Serialize)]
struct SumsJson {
    responses: u64,
    batches: u64,
    live: u64,
    dead: u64,
    copies: u64,
    opaque_stored: u64,
}

impl FileJson {
    /// Of this report.
    pub fn of(file: &FileReport) -> Self {
        FileJson {
            path: PathJson::of(&file.path),
            format: file.format,
            conversation: file.conversation.clone(),
            status: file.status.name(),
            bytes: file.bytes,
            bytes_after: file.bytes_after,
            skimmed: file.skimmed,
            backup: file.backup.as_deref().map(text),
            findings: file.findings.iter().map(FindingJson::of).collect(),
            edits: file.edits.iter().map(EditJson::of).collect(),
            notes: file.notes.iter().map(|note| FileNoteJson { line: note.line, text: note.text.clone() }).collect(),
            sums: SumsJson {
                responses: file.sums.responses,
                batches: file.sums.batches,
                live: file.sums.live,
                dead: file.sums.dead,
                copies: file.sums.copies,
                opaque_stored: file.sums.opaque_stored,
            },
            diagnosis: file.diagnosis.as_ref().map(HealthJson::of),
        }
    }
}

/// A response or copy over a limit.
#[derive(Serialize)]
struct FindingJson {
    rule: &'static str,
    place: PlaceJson,
    call_id: Option<String>,
    tool: Option<String>,
    batch: Option<BatchJson>,
    live: bool,
    dead: Option<&'static str>,
    kind: &'static str,
    size: u64,
    limit: u64,
    limit_source: &'static str,
    delivered: Option<u64>,
    still_over: bool,
    cut: Option<String>,
    /// Where a cut was made or planned.
    #[serde(skip_serializing_if = "Option::is_none")]
    unit: Option<&'static str>,
    /// Where the whole text is.
    #[serde(skip_serializing_if = "Option::is_none")]
    full_text: Option<String>,
}

#[derive(Serialize)]
struct PlaceJson {
    line: u64,
    record: u64,
}

#[derive(Serialize)]
struct BatchJson {
    number: u64,
    responses: u64,
    size: u64,
    still_over: bool,
}

impl FindingJson {
    fn of(finding: &Finding) -> Self {
        FindingJson {
            rule: finding.rule.name(),
            place: PlaceJson { line: finding.place.line, record: finding.place.record },
            call_id: finding.call_id.clone(),
            tool: finding.tool.clone(),
            batch: finding.batch.map(|batch| BatchJson {
                number: batch.number,
                responses: batch.responses,
                size: batch.size,
                still_over: batch.still_over,
            }),
            live: finding.dead.is_none(),
            dead: finding.dead,
            kind: finding.kind.name(),
            size: finding.size,
            limit: finding.limit,
            limit_source: finding.limit_source,
            delivered: finding.delivered,
            still_over: finding.still_over,
            cut: finding.cut.clone(),
            unit: finding.unit,
            full_text: finding.full_text.as_deref().map(text),
        }
    }
}

/// A value beside responses that was edited, or in a dry run would be.
#[derive(Serialize)]
struct EditJson {
    kind: &'static str,
    place: PlaceJson,
    /// Tokens, where they are counted.
    before: Option<u64>,
    after: Option<u64>,
    cut: Option<String>,
}

impl EditJson {
    fn of(edit: &Edit) -> Self {
        EditJson {
            kind: match edit.kind {
                EditKind::Error => "error",
                EditKind::Usage => "usage",
            },
            place: PlaceJson { line: edit.place.line, record: edit.place.record },
            before: edit.tokens.map(|(before, _)| before),
            after: edit.tokens.map(|(_, after)| after),
            cut: edit.cut.clone(),
        }
    }
}

/// An error.
#[derive(Serialize)]
pub struct ErrorJson {
    /// `null` where it is about no file.
    path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_bytes: Option<String>,
    code: &'static str,
    line: Option<u64>,
    column: Option<u64>,
    message: String,
}

impl ErrorJson {
    /// Of this error.
    pub fn of(error: &Error) -> Self {
        let (path, path_bytes) = error.path().map(PathJson::of).map_or((None, None), |p| (Some(p.path), p.path_bytes));
        ErrorJson {
            path,
            path_bytes,
            code: error.code(),
            line: error.line(),
            column: match error {
                Error::Broken { column, .. } => Some(*column),
                _ => None,
            },
            message: escape::error(error),
        }
    }
}

/// A note that belongs to no document.
#[derive(Serialize)]
pub struct NoteJson {
    #[serde(flatten)]
    path: PathJson,
    line: Option<u64>,
    text: String,
}

impl NoteJson {
    /// On this file.
    pub fn of(path: &Path, text: &str) -> Self {
        NoteJson { path: PathJson::of(path), line: None, text: text.to_owned() }
    }
}
