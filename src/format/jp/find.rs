//! The events of one JP stream: calls and responses, turns, compactions, thresholds.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::Path;
use std::time::SystemTime;

use memchr::memmem;

use super::weigh::Scale;
use crate::format::{Broken, Depth, Located, Locator, Note, Part, Record, Response, Setting};
use crate::text::json::{Index, Kind, Node};
use crate::text::literal::Encoding;

/// The events that make a turn; all others are overlays or unknown, and transparent.
pub(super) const TYPES: [&str; 7] = [
    "turn_start",
    "chat_request",
    "chat_response",
    "tool_call_request",
    "tool_call_response",
    "inquiry_request",
    "inquiry_response",
];

/// A compaction: which turns it hides from the assistant, and since when.
struct Compaction {
    turns: (u64, u64),
    time: Option<SystemTime>,
    /// A summary stands for everything in the range.
    summary: bool,
    /// What it says of tool calls, if anything: whether responses are hidden.
    tool_calls: Option<bool>,
}

/// Finds the responses of one stream.
#[derive(Default)]
pub(super) struct Finder {
    /// Why everything in it is dead, if it is.
    shelved: Option<&'static str>,
    configured: bool,
    settings: BTreeMap<String, Setting>,
    located: Located,
    /// The turn of each response.
    turns: Vec<u64>,
    compactions: Vec<Compaction>,
    /// Unanswered requests of the turn: tool names by call id, oldest first.
    waiting: HashMap<String, VecDeque<Option<String>>>,
    turn: u64,
    turn_begun: bool,
    batches: u64,
    in_batch: bool,
    /// Where the outline is asked for.
    scale: Option<Scale>,
}

impl Locator for Finder {
    fn aside(&mut self, path: &Path, bytes: &[u8]) {
        match Node::document(bytes) {
            Ok(config) => {
                self.configured |= config.entries().next().is_some();
                self.configure(config);
            }
            Err(e) => self.note(None, format!("{}: {e}: JP moves the conversation to its trash", path.display())),
        }
    }

    fn record(&mut self, record: &Record<'_>) {
        let mut index = Index::default();
        let root = match Node::indexed(record.bytes, &mut index) {
            Ok(root) if root.kind() == Kind::Array => root,
            Ok(_) => return self.broken(record.offset, "expected an array of events".into(), true),
            Err(_) if record.bytes.starts_with(b"\xef\xbb\xbf") => {
                return self.broken(
                    record.offset,
                    "a byte order mark, which JP refuses; remove the first three bytes".into(),
                    true,
                );
            }
            Err(e) => return self.broken(record.offset + e.at as u64, e.what.into(), true),
        };
        let mut lines = Lines { bytes: record.bytes, at: 0, line: record.line };
        for (index, event) in (0..).zip(root.items()) {
            let line = lines.of(event.range().start);
            self.event(record, event, index, line, &mut lines);
        }
        self.unpaired_surrogate(record, &mut Lines { bytes: record.bytes, at: 0, line: record.line });
        if !self.configured {
            self.note(None, "no base configuration (neither base_config.json nor a leading config_delta): JP cannot load the conversation".into());
        }
    }

    fn finish(mut self: Box<Self>) -> Located {
        for (response, turn) in self.located.responses.iter_mut().zip(&self.turns) {
            if response.dead.is_none() && hidden(&self.compactions, *turn) {
                response.dead = Some("hidden by compaction");
            }
        }
        if let Some(scale) = self.scale.take() {
            self.located.outline = Some(scale.finish(self.shelved.is_some(), self.turn, &self.located.responses));
        }
        self.located.settings = self.settings.into_iter().collect();
        self.located
    }
}

impl Finder {
    /// Of a stream that is live, or why it is not.
    pub(super) fn new(shelved: Option<&'static str>, depth: Depth) -> Self {
        Finder { shelved, scale: Scale::of(depth), ..Finder::default() }
    }

    fn event(&mut self, record: &Record<'_>, event: Node<'_>, index: u64, line: u64, lines: &mut Lines<'_>) {
        if event.kind() != Kind::Object {
            return self.broken(
                record.offset + event.range().start as u64,
                format!("element {index} is not an event (an object)"),
                false,
            );
        }
        let mut seen = Event::default();
        for (key, value) in event.entries() {
            match key.text().as_deref() {
                Some("type") => seen.kind = Some(value),
                Some("timestamp") => seen.timestamp = Some(value),
                Some("id") => seen.id = Some(value),
                Some("name") => seen.name = Some(value),
                Some("content") => seen.content = Some(value),
                Some("is_error") => seen.is_error = Some(value),
                _ => {}
            }
        }
        let Some(kind) = seen.kind.and_then(|k| k.text()) else {
            return self.broken(
                record.offset + event.range().start as u64,
                format!("element {index} has no `type`"),
                false,
            );
        };
        if seen.timestamp.is_none() {
            self.note(
                Some(line),
                format!("element {index} has no `timestamp`: JP moves the conversation to its trash"),
            );
        }
        if TYPES.contains(&&*kind) {
            if kind == "turn_start" {
                self.waiting.clear();
                self.turn += u64::from(self.turn_begun);
            }
            self.turn_begun = true;
            self.in_batch &= kind == "tool_call_response";
        }
        if let Some(scale) = &mut self.scale {
            scale.event(event, &kind, index, self.turn);
        }
        match &*kind {
            "tool_call_request" => {
                if let Some(id) = seen.id.and_then(|n| n.text()) {
                    let name = seen.name.and_then(|n| n.text()).map(std::borrow::Cow::into_owned);
                    self.waiting.entry(id.into_owned()).or_default().push_back(name);
                }
            }
            "tool_call_response" => self.response(record, event, &seen, index, lines),
            "config_delta" => {
                // The oldest shape has its fields where later ones have `delta`.
                self.configured |= index == 0;
                self.configure(event.get("delta").unwrap_or(event));
            }
            "compaction" => self.compactions.push(Compaction {
                turns: (
                    event.get("from_turn").and_then(|n| n.whole_number()).unwrap_or(u64::MAX),
                    event.get("to_turn").and_then(|n| n.whole_number()).unwrap_or(0),
                ),
                time: seen.timestamp.and_then(|t| t.text()).and_then(|t| humantime::parse_rfc3339_weak(&t).ok()),
                summary: event.get("summary").is_some_and(|s| s.kind() != Kind::Null),
                tool_calls: event.get("tool_calls").filter(|t| t.kind() != Kind::Null).map(|policy| {
                    policy.get("policy").is_some_and(|p| p.is("omit"))
                        || policy.get("response").and_then(|r| r.boolean()) == Some(true)
                }),
            }),
            _ => {}
        }
    }

    fn response(&mut self, record: &Record<'_>, event: Node<'_>, seen: &Event<'_>, index: u64, lines: &mut Lines<'_>) {
        self.batches += u64::from(!self.in_batch);
        self.in_batch = true;
        let at = record.offset + event.range().start as u64;
        let id = seen.id.and_then(|n| n.text()).map(std::borrow::Cow::into_owned);
        if id.is_none() {
            self.broken(at, format!("element {index}: a tool_call_response without an `id`"), false);
        }
        if seen.is_error.is_none_or(|n| n.boolean().is_none()) {
            self.note(
                Some(lines.of(event.range().start)),
                format!("element {index} has no `is_error`: JP cannot load the conversation"),
            );
        }
        let tool = id.as_ref().and_then(|id| self.waiting.get_mut(id)).and_then(VecDeque::pop_front).flatten();
        let content = seen.content.filter(|c| c.kind() == Kind::String);
        let mut parts = Vec::new();
        match content.map(|c| (c, c.measure(Encoding::Base64))) {
            Some((content, Ok(measure))) => {
                let range = content.range();
                parts.push(Part::Text {
                    span: record.offset + range.start as u64..record.offset + range.end as u64,
                    line: lines.of(range.start),
                    encoding: Encoding::Base64,
                    measure,
                    opening: 0,
                });
            }
            Some((content, Err(e))) => self.broken(record.offset + content.range().start as u64, e.to_string(), false),
            None => {
                let what = match seen.content {
                    Some(_) => "is not a string",
                    None => "is missing",
                };
                let at = seen.content.map_or(at, |c| record.offset + c.range().start as u64);
                self.broken(at, format!("element {index}: the `content` of a tool_call_response {what}"), false);
            }
        }
        self.turns.push(self.turn);
        self.located.responses.push(Response {
            id,
            tool,
            batch: self.batches,
            is_error: seen.is_error.and_then(|n| n.boolean()),
            dead: self.shelved,
            record: index,
            parts,
            copies: Vec::new(),
            only_copies: false,
        });
    }

    /// Takes `conversation.tools.*.size_threshold` of a configuration or of a change to one: what is there replaces.
    fn configure(&mut self, config: Node<'_>) {
        if let Some(scale) = &mut self.scale {
            scale.configure(config);
        }
        let Some(tools) = config.at(&["conversation", "tools"]) else { return };
        for (name, tool) in tools.entries() {
            let (Some(name), Some(value)) = (name.text(), tool.get("size_threshold")) else { continue };
            let setting = match (value.text(), value.whole_number()) {
                (Some(text), _) => Setting::Text(text.into_owned()),
                (_, Some(n)) => Setting::Number(n),
                _ => Setting::Other(String::from_utf8_lossy(value.raw()).chars().take(40).collect()),
            };
            self.settings.insert(name.into_owned(), setting);
        }
    }

    /// JP decodes the whole stream to Unicode text and fails where an escape is half a pair. The stream is repaired all the
    /// same, but its owner should know why JP still does not load it.
    fn unpaired_surrogate(&mut self, record: &Record<'_>, lines: &mut Lines<'_>) {
        let mut paired = None;
        for at in memmem::find_iter(record.bytes, b"\\u") {
            let before = record.bytes.get(..at).unwrap_or_default();
            let escaped = before.iter().rev().take_while(|b| **b == b'\\').count() % 2 == 1;
            let unit = |at: usize| {
                record
                    .bytes
                    .get(at..at + 6)
                    .filter(|e| e.starts_with(b"\\u"))
                    .and_then(|e| u16::from_str_radix(std::str::from_utf8(e.get(2..)?).ok()?, 16).ok())
            };
            let half = match unit(at) {
                Some(0xd800..=0xdbff) if matches!(unit(at + 6), Some(0xdc00..=0xdfff)) => {
                    paired = Some(at + 6);
                    false
                }
                Some(0xdc00..=0xdfff) => paired != Some(at),
                Some(0xd800..=0xdbff) => true,
                _ => false,
            };
            if half && !escaped {
                let line = lines.of(at);
                return self.note(Some(line), "an unpaired surrogate escape: JP cannot load the conversation".into());
            }
        }
    }

    fn note(&mut self, line: Option<u64>, text: String) {
        self.located.notes.push(Note { line, text });
    }

    fn broken(&mut self, at: u64, what: String, whole: bool) {
        self.located.broken.push(Broken { at, what, whole });
    }
}

/// The fields of one event that matter here.
#[derive(Default)]
struct Event<'a> {
    kind: Option<Node<'a>>,
    timestamp: Option<Node<'a>>,
    id: Option<Node<'a>>,
    name: Option<Node<'a>>,
    content: Option<Node<'a>>,
    is_error: Option<Node<'a>>,
}

/// Whether the newest word on a turn hides its tool responses. Of equally new compactions the later one counts, as in JP.
fn hidden(compactions: &[Compaction], turn: u64) -> bool {
    let on = |c: &&Compaction| c.turns.0 <= turn && turn <= c.turns.1;
    let tools =
        compactions.iter().filter(on).filter_map(|c| Some((c.time, c.tool_calls?))).max_by_key(|(time, _)| *time);
    compactions.iter().filter(on).any(|c| c.summary) || tools.is_some_and(|(_, hides)| hides)
}

/// Physical lines of ascending offsets, counted once.
struct Lines<'a> {
    bytes: &'a [u8],
    at: usize,
    line: u64,
}

impl Lines<'_> {
    fn of(&mut self, at: usize) -> u64 {
        if at > self.at {
            self.line += memchr::memchr_iter(b'\n', self.bytes.get(self.at..at).unwrap_or_default()).count() as u64;
            self.at = at;
        }
        self.line
    }
}
