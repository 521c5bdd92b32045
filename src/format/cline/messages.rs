//! What is sent: Anthropic messages, with results as blocks or, in older tasks, as text.

use std::collections::{HashMap, HashSet};

use memchr::memmem;

use super::weigh::Scale;
use crate::format::parts::{self, Taker, owned, owned_text};
use crate::format::{Broken, Depth, Located, Locator, Note, Part, Record, Response};
use crate::text::json::{Index, Kind, Node};
use crate::text::literal::{self, Encoding};

/// Above this a result of Cline's own store is certainly cut again when it is sent (8,000 characters, 50,000 of a file).
const CUT_WHEN_SENT: u64 = 50_000 * 4;

#[derive(Default)]
pub(super) struct Finder {
    located: Located,
    batches: u64,
    calls: HashMap<String, Call>,
    latest: Latest,
    /// Summaries and truncation marks that are there, by id.
    replaced: HashSet<(Why, String)>,
    /// Responses, from the first on, whose message says that it was replaced.
    hidden: Vec<(std::ops::Range<usize>, Why, String)>,
    /// Where the outline is asked for.
    scale: Option<Scale>,
    /// Messages that say they were replaced, where it is.
    gone: Vec<(u64, Why, String)>,
}

/// A call, and the batch of the assistant message that made it.
struct Call {
    tool: String,
    batch: u64,
}

/// The latest assistant message.
#[derive(Default)]
struct Latest {
    batch: u64,
    tools: Vec<String>,
    /// The start of each tag in its text: older calls are written as XML, `<read_file>…`.
    tags: HashSet<String>,
}

/// Why Roo leaves a message out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Why {
    Condensed,
    Truncated,
}

impl Locator for Finder {
    fn record(&mut self, record: &Record<'_>) {
        let mut index = Index::default();
        let root = match parts::document(record, &mut index, "the agent") {
            Ok(root) => root,
            Err(broken) => return self.located.broken.push(broken),
        };
        let session = root.get("messages");
        let messages = session.unwrap_or(root);
        if messages.kind() != Kind::Array {
            let at = record.offset + messages.range().start as u64;
            return self.located.broken.push(Broken { at, what: "expected an array of messages".into(), whole: true });
        }
        let mut taker = Taker::new(record);
        if let Some(scale) = &mut self.scale {
            scale.session(root);
        }
        for (index, message) in (0..).zip(messages.items()) {
            self.message(&mut taker, message, index);
        }
        self.located.broken.append(&mut taker.broken);
        if session.is_some() {
            self.cut_when_sent();
        }
    }

    fn finish(mut self: Box<Self>) -> Located {
        for (responses, why, parent) in std::mem::take(&mut self.hidden) {
            // An orphan whose summary is gone is sent again.
            if !self.replaced.contains(&(why, parent)) {
                continue;
            }
            for response in self.located.responses.get_mut(responses).into_iter().flatten() {
                response.dead = Some(match why {
                    Why::Condensed => "replaced by a summary",
                    Why::Truncated => "hidden by truncation",
                });
            }
        }
        if let Some(scale) = self.scale.take() {
            let gone = self.gone.iter().filter(|(_, why, parent)| self.replaced.contains(&(*why, parent.clone())));
            let gone = gone.map(|(index, ..)| *index).collect();
            self.located.outline = Some(scale.finish(&gone, &self.located.responses));
        }
        self.located
    }
}

impl Finder {
    pub fn new(depth: Depth) -> Self {
        Finder { scale: Scale::of(depth), ..Finder::default() }
    }

    fn message(&mut self, taker: &mut Taker<'_>, message: Node<'_>, index: u64) {
        if message.kind() != Kind::Object {
            return taker.broken(message, format!("element {index} is not a message (an object)"));
        }
        let mut seen = Message::default();
        for (key, value) in message.entries() {
            match key.text().as_deref() {
                Some("role") => seen.role = Some(value),
                Some("content") => seen.content = Some(value),
                Some("isSummary") => seen.summary = value.boolean() == Some(true),
                Some("isTruncationMarker") => seen.truncation = value.boolean() == Some(true),
                Some("condenseId") => seen.condense_id = owned_text(value),
                Some("truncationId") => seen.truncation_id = owned_text(value),
                Some("condenseParent") => seen.condense_parent = owned_text(value),
                Some("truncationParent") => seen.truncation_parent = owned_text(value),
                _ => {}
            }
        }
        let (Some(role), Some(content)) = (seen.role, seen.content) else {
            return taker.broken(message, format!("element {index} has no `role` or no `content`"));
        };
        let first = self.located.responses.len();
        if let Some(scale) = &mut self.scale {
            scale.message(message, seen.summary || seen.truncation, index);
        }
        if role.is("assistant") {
            self.assistant(content);
            self.weigh(content);
        } else if role.is("user") {
            self.user(taker, content, index);
        }
        if let Some(scale) = &mut self.scale {
            scale.ends(role.is("user") && self.located.responses.len() == first);
        }
        let condensed = seen.condense_id.filter(|_| seen.summary).map(|id| (Why::Condensed, id));
        let truncated = seen.truncation_id.filter(|_| seen.truncation).map(|id| (Why::Truncated, id));
        self.replaced.extend(condensed.into_iter().chain(truncated));
        if self.scale.is_some() {
            let parents = [(Why::Truncated, &seen.truncation_parent), (Why::Condensed, &seen.condense_parent)];
            let parents = parents.into_iter().filter_map(|(why, parent)| Some((index, why, parent.clone()?)));
            self.gone.extend(parents);
        }
        let responses = first..self.located.responses.len();
        let parents = [(Why::Truncated, seen.truncation_parent), (Why::Condensed, seen.condense_parent)];
        for (why, parent) in parents.into_iter().filter(|_| !responses.is_empty()) {
            self.hidden.extend(parent.map(|parent| (responses.clone(), why, parent)));
        }
    }

    fn assistant(&mut self, content: Node<'_>) {
        self.batches += 1;
        self.latest = Latest { batch: self.batches, ..Latest::default() };
        if content.kind() == Kind::String {
            tags(content, &mut self.latest.tags);
        }
        for block in content.items() {
            match block.get("type").and_then(|t| t.text()).as_deref() {
                Some("tool_use") => {
                    let tool = owned(block, "name").unwrap_or_default();
                    self.latest.tools.push(tool.clone());
                    if let Some(id) = owned(block, "id") {
                        self.calls.insert(id, Call { tool, batch: self.batches });
                    }
                }
                Some("text") => block.get("text").into_iter().for_each(|text| tags(text, &mut self.latest.tags)),
                _ => {}
            }
        }
    }

    fn user(&mut self, taker: &mut Taker<'_>, content: Node<'_>, index: u64) {
        if content.kind() == Kind::String {
            if let Some(header) = self.header(content).filter(|header| !header.alone) {
                let mut parts = taker.texts(content);
                header.stays(&mut parts);
                self.push(index, header.tool, parts);
            } else {
                self.weigh(content);
            }
            return;
        }
        // Results whose calls are not known are a batch of their own.
        let mut own = None;
        let blocks: Vec<Node<'_>> = content.items().collect();
        let mut at = 0;
        while let Some(block) = blocks.get(at) {
            at += 1;
            if block.get("type").is_some_and(|t| t.is("tool_result")) {
                let response = self.result(taker, *block, index, &mut own);
                self.located.responses.push(response);
                continue;
            }
            let header = text_of(*block).and_then(|text| Some((text, self.header(text)?)));
            let Some((text, header)) = header else {
                self.weigh(*block);
                continue;
            };
            let mut parts = Vec::new();
            let result = if header.alone {
                self.weigh(*block);
                // The last text may be what Cline adds behind the results; nothing was returned then.
                let next = blocks.get(at).and_then(|b| text_of(*b)).filter(|next| self.header(*next).is_none());
                let next = next.filter(|next| at + 1 < blocks.len() || !is_environment(*next));
                at += usize::from(next.is_some());
                next
            } else {
                Some(text)
            };
            if let Some(result) = result {
                taker.text(result, &mut parts);
            }
            if !header.alone {
                header.stays(&mut parts);
            }
            // The images of a result stand behind its text.
            while let Some(image) = blocks.get(at).filter(|b| b.get("type").is_some_and(|t| t.is("image"))) {
                taker.opaque(*image, &mut parts);
                at += 1;
            }
            self.push(index, header.tool, parts);
        }
    }

    /// Weighs a content or a block that is no result.
    fn weigh(&mut self, content: Node<'_>) {
        if let Some(scale) = &mut self.scale {
            scale.holds(content);
        }
    }

    /// A native result.
    fn result(&mut self, taker: &mut Taker<'_>, block: Node<'_>, index: u64, own: &mut Option<u64>) -> Response {
        let id = owned(block, "tool_use_id");
        if id.is_none() {
            taker.broken(block, format!("element {index}: a tool_result without a `tool_use_id`"));
        }
        let mut parts = Vec::new();
        if let Some(content) = block.get("content") {
            sent(taker, content, &mut parts);
        }
        let call = id.as_ref().and_then(|id| self.calls.get(id));
        let batch = call.map(|c| c.batch).or(*own).unwrap_or_else(|| {
            self.batches += 1;
            self.batches
        });
        if call.is_none() {
            *own = Some(batch);
        }
        let call = id.as_ref().and_then(|id| self.calls.get(id));
        Response {
            tool: call.map(|c| c.tool.clone()).filter(|t| !t.is_empty()).or_else(|| owned(block, "name")),
            id,
            batch,
            is_error: block.get("is_error").and_then(|e| e.boolean()),
            dead: None,
            record: index,
            parts,
            copies: Vec::new(),
            only_copies: false,
        }
    }

    /// A result as text: no call id, and the batch of the assistant message before it.
    fn push(&mut self, index: u64, tool: String, parts: Vec<Part>) {
        self.located.responses.push(Response {
            id: None,
            tool: Some(tool),
            batch: self.latest.batch,
            is_error: None,
            dead: None,
            record: index,
            parts,
            copies: Vec::new(),
            only_copies: false,
        });
    }

    /// Whether a text is `[<tool> for '<argument>'] Result:`, alone or with the result behind it. A person may paste such a
    /// text: it is one only where the latest assistant message called that tool.
    fn header(&self, text: Node<'_>) -> Option<Header> {
        let raw = text.raw().strip_prefix(b"\"[")?;
        let name = raw.split(|b| !(b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'))).next()?;
        let rest = raw.get(name.len()..)?;
        let end = match rest.first()? {
            b']' => 0,
            b' ' => memmem::find(rest, RESULT)?,
            _ => return None,
        };
        let result = rest.get(end..)?.strip_prefix(RESULT)?.strip_suffix(b"\"")?;
        let header = raw.get(..name.len().checked_add(end)?.checked_add(RESULT.len())?)?;
        let size = literal::measure(&[b"\"[", header, b"\""].concat(), Encoding::Plain).ok()?.size;
        let tool = std::str::from_utf8(name).ok().filter(|n| !n.is_empty())?.to_owned();
        let called = self.latest.tags.contains(&tool) || self.latest.tools.contains(&tool);
        let alone = only_blanks(result) || result == b" (see image below)";
        called.then_some(Header { tool, alone, size })
    }

    /// Cline's own store keeps what it does not send.
    fn cut_when_sent(&mut self) {
        let size = |part: &Part| if let Part::Text { measure, .. } = part { measure.size } else { 0 };
        let large = |r: &Response| r.parts.iter().map(size).sum::<u64>() > CUT_WHEN_SENT;
        if self.located.responses.iter().any(large) {
            let text = "Cline sends at most 8,000 characters of a result (50,000 of a file): what is larger weighs on loading and the screen only";
            self.located.notes.push(Note { line: None, text: text.into() });
        }
    }
}

/// What ends a header, as it is stored.
const RESULT: &[u8] = b"] Result:";

struct Header {
    tool: String,
    /// Its decoded bytes.
    size: u64,
    /// Whether the result is the next block.
    alone: bool,
}

impl Header {
    /// Without it a text is no result, so no cut may take it.
    fn stays(&self, parts: &mut [Part]) {
        if let Some(Part::Text { opening, .. }) = parts.first_mut() {
            *opening = self.size;
        }
    }
}

/// The fields of one message that matter here.
#[derive(Default)]
struct Message<'a> {
    role: Option<Node<'a>>,
    content: Option<Node<'a>>,
    summary: bool,
    truncation: bool,
    condense_id: Option<String>,
    truncation_id: Option<String>,
    condense_parent: Option<String>,
    truncation_parent: Option<String>,
}

/// The text of a text block.
fn text_of(block: Node<'_>) -> Option<Node<'_>> {
    block.get("type").filter(|t| t.is("text"))?;
    block.get("text").filter(|t| t.kind() == Kind::String)
}

/// Whether a stored string is nothing but blanks and newlines.
fn only_blanks(mut raw: &[u8]) -> bool {
    while let Some(rest) = [&b" "[..], b"\\n", b"\\r"].iter().find_map(|blank| raw.strip_prefix(*blank)) {
        raw = rest;
    }
    raw.is_empty()
}

/// What Cline adds behind the results of a message.
fn is_environment(text: Node<'_>) -> bool {
    [&b"\"<environment_details>"[..], b"\"\\u003cenvironment_details"].iter().any(|tag| text.raw().starts_with(tag))
}

/// The names of the tags in a text: an XML call is one.
fn tags(text: Node<'_>, out: &mut HashSet<String>) {
    let Some(text) = text.text() else { return };
    for at in memchr::memchr_iter(b'<', text.as_bytes()) {
        let rest = text.get(at + 1..).unwrap_or_default();
        let name: String =
            rest.chars().take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')).collect();
        if !name.is_empty() && rest.get(name.len()..).is_some_and(|r| r.starts_with('>')) {
            out.insert(name);
        }
    }
}

/// The texts of a result: a string, blocks, or objects of a tool's own making, as Cline CLI's `{query, result, success}`.
fn sent(taker: &mut Taker<'_>, content: Node<'_>, out: &mut Vec<Part>) {
    match content.kind() {
        Kind::Array => {}
        Kind::Object => return taker.leaves(content, &NO_TEXTS, out),
        _ if taker.content(content, out) => return,
        _ => return taker.broken(content, "the `content` of a tool_result is neither text nor an array"),
    }
    for item in content.items() {
        if item.kind() != Kind::Object || is_block(item) {
            taker.block(item, true, out);
            continue;
        }
        for (key, value) in item.entries() {
            match value.kind() {
                _ if NO_TEXTS.iter().any(|name| key.is(name)) => {}
                Kind::Array if value.items().all(is_block) => {
                    value.items().for_each(|block| taker.block(block, true, out));
                }
                _ => taker.leaves(value, &NO_TEXTS, out),
            }
        }
    }
}

/// Of an object of a tool's own making: the assistant's own words, and what kind of object it is.
const NO_TEXTS: [&str; 2] = ["query", "type"];

/// Whether this is a block as the interface has them.
fn is_block(item: Node<'_>) -> bool {
    let kind = item.get("type");
    kind.is_some_and(|t| ["text", "image", "document", "search_result"].iter().any(|name| t.is(name)))
}
