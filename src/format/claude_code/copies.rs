//! Where Claude Code keeps a result's text once more: `toolUseResult` beside it, and progress records.
//!
//! Only text that a tool returned is taken. What repeats the call's arguments (`prompt`, `oldString`, `newString`, the
//! content of a Write), paths and patches stay: resuming reads some of them (a missing path crashed 2.1.101).

use crate::format::kept::{self, leaves};
use crate::format::parts::Taker;
use crate::format::{Copy, Part, Record};
use crate::text::json::{Kind, Node};

/// Keys whose values are never taken for a tool's text.
const EXCEPT: [&str; 12] = [
    "structuredPatch",
    "oldString",
    "newString",
    "old_string",
    "new_string",
    "prompt",
    "plan",
    "questions",
    "signature",
    "thinking",
    "filePath",
    "filenames",
];

/// The copies in a `toolUseResult`. Everything whose key says nothing is one copy together: it is held to the limit as a
/// whole, however many strings it is spread over.
pub(super) fn of_result(record: &Record<'_>, value: Node<'_>, taker: &mut Taker<'_>) -> Vec<Copy> {
    let (mut found, mut rest) = (Vec::new(), Vec::new());
    let mut add = |place, parts: Vec<Part>| found.extend(kept::copy(record, place, parts));
    if matches!(value.kind(), Kind::String | Kind::Array) {
        add("toolUseResult", texts(value, &mut rest, taker));
    }
    // An image that a command printed stands in `stdout`. A patch tells that `content` is what the assistant wrote.
    let (mut image, mut written) = (false, false);
    for (name, value) in value.entries() {
        image |= name.is("isImage") && value.boolean() == Some(true);
        written |= name.is("structuredPatch");
    }
    for (name, value) in value.entries() {
        let text = value.kind() == Kind::String;
        match name.text().as_deref() {
            Some("stdout") if image => {}
            Some("stdout") if text => add("toolUseResult.stdout", taker.texts(value)),
            Some("stderr") if text => add("toolUseResult.stderr", taker.texts(value)),
            Some("originalFile") if text => add("toolUseResult.originalFile", taker.texts(value)),
            Some("content") if written => {}
            Some("content") if text || value.kind() == Kind::Array => {
                add("toolUseResult.content", texts(value, &mut rest, taker));
            }
            Some("file") if value.kind() == Kind::Object => {
                // Its other form holds an image, in `base64`.
                if let Some(content) = value.get("content").filter(|c| c.kind() == Kind::String) {
                    add("toolUseResult.file.content", taker.texts(content));
                }
            }
            Some(name) if EXCEPT.contains(&name) => {}
            _ => leaves(value, &EXCEPT, &mut rest),
        }
    }
    add("toolUseResult", rest.into_iter().flat_map(|leaf| taker.texts(leaf)).collect());
    found.shrink_to_fit();
    found
}

/// The texts of a string or of blocks. What is no block that is known may hold text deeper down.
fn texts<'a>(value: Node<'a>, rest: &mut Vec<Node<'a>>, taker: &mut Taker<'_>) -> Vec<Part> {
    if value.kind() == Kind::String {
        return taker.texts(value);
    }
    let mut parts = Vec::new();
    for block in value.items() {
        let before = parts.len();
        taker.block(block, true, &mut parts);
        if parts.len() == before {
            leaves(block, &EXCEPT, rest);
        }
    }
    parts
}

/// What a progress record tells.
#[derive(Default)]
pub(super) struct Progress<'a> {
    /// Copies, each with the id of the call whose result it repeats.
    pub copies: Vec<(Option<Node<'a>>, Copy)>,
    /// Calls of a subagent, by id, with the tool's name.
    pub calls: Vec<(Node<'a>, Node<'a>)>,
}

/// What is in the `data` of a progress record. `parent`: the call that it is the progress of.
pub(super) fn of_progress<'a>(
    record: &Record<'_>,
    data: Node<'a>,
    parent: Option<Node<'a>>,
    taker: &mut Taker<'_>,
) -> Progress<'a> {
    let mut progress = Progress::default();
    let mut rest = Vec::new();
    for (name, value) in data.entries() {
        if name.is("message") && value.kind() == Kind::Object {
            message(record, value, "data.message", &mut progress, taker);
        } else if name.is("normalizedMessages") {
            for value in value.items() {
                message(record, value, "data.normalizedMessages", &mut progress, taker);
            }
        } else if (name.is("output") || name.is("fullOutput")) && value.kind() == Kind::String {
            let place = if name.is("output") { "data.output" } else { "data.fullOutput" };
            let copy = kept::copy(record, place, taker.texts(value));
            progress.copies.extend(copy.map(|copy| (parent, copy)));
        } else if !EXCEPT.iter().any(|e| name.is(e)) {
            leaves(value, &EXCEPT, &mut rest);
        }
    }
    let parts = rest.into_iter().flat_map(|leaf| taker.texts(leaf)).collect();
    progress.copies.extend(kept::copy(record, "data", parts).map(|copy| (parent, copy)));
    progress
}

/// A subagent's message, as its progress shows it. What the assistant said in it stays as it is.
fn message<'a>(
    record: &Record<'_>,
    value: Node<'a>,
    place: &'static str,
    progress: &mut Progress<'a>,
    taker: &mut Taker<'_>,
) {
    let (mut content, mut result, mut answers) = (None, None, true);
    for (name, value) in value.entries() {
        if name.is("type") {
            answers = value.is("user");
        } else if name.is("message") {
            content = value.get("content");
        } else if name.is("toolUseResult") {
            result = Some(value);
        }
    }
    let mut answered = None;
    for block in content.into_iter().flat_map(|c| c.items()) {
        let block = super::line::Fields::of(block);
        match (block.kind, block.id, block.name) {
            (Some(kind), Some(id), Some(name)) if kind.is("tool_use") => progress.calls.push((id, name)),
            (Some(kind), ..) if kind.is("tool_result") && answers => {
                answered = answered.or(block.call);
                let mut parts = Vec::new();
                // Anything else than text and blocks is nothing that could be too long.
                block.content.into_iter().for_each(|content| _ = taker.content(content, &mut parts));
                progress.copies.extend(kept::copy(record, place, parts).map(|copy| (block.call, copy)));
            }
            _ => {}
        }
    }
    if let Some(result) = result.filter(|_| answered.is_some()) {
        let copies = of_result(record, result, taker);
        progress.copies.extend(copies.into_iter().map(|copy| (answered, Copy { place, ..copy })));
    }
}
