//! The locator of Codex's rollouts.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::super::jsonlines::{self, Line, Texts, opaque};
use super::super::{Broken, Copy, Depth, Located, Locator, Note, Part, Record, Response};
use super::events;
use super::weigh::Scale;
use crate::text::json::{Index, Kind, Node};

/// What Zstandard files begin with.
const ZSTD: &[u8] = b"\x28\xb5\x2f\xfd";

/// Items that call a tool. Those of one answer of the assistant's stand together, before what they return.
pub(super) const CALLS: [&str; 6] = [
    "function_call",
    "custom_tool_call",
    "local_shell_call",
    "tool_search_call",
    "web_search_call",
    "image_generation_call",
];

/// What the agent itself puts into the history as the user: such a message begins no turn.
const NOT_THE_USER: [&str; 9] = [
    "# AGENTS.md instructions",
    "<user_instructions>",
    "<environment_context>",
    "<skill>",
    "<user_shell_command>",
    "<turn_aborted>",
    "<subagent_notification>",
    "<subagents>",
    "<hook_prompt",
];

#[derive(Default)]
pub(super) struct Finder {
    located: Located,
    compressed: bool,
    thread: Items,
    batches: u64,
    /// Tool names, each once.
    tools: HashSet<Arc<str>>,
    /// Copies whose response may still come.
    copies: Vec<Waiting>,
    /// The first response of the history as it stands: all before are compacted away.
    live: usize,
    /// The first response of each of the user's turns in it.
    turns: Vec<usize>,
    /// Where the outline is asked for.
    scale: Option<Scale>,
}

/// A history of items: the thread's own, or one that replaced it.
#[derive(Default)]
struct Items {
    calls: Vec<Call>,
    /// The newest call of an id: ids may come again.
    newest: HashMap<u64, usize>,
    in_run: bool,
}

struct Call {
    batch: u64,
    tool: Option<Arc<str>>,
    response: Option<usize>,
}

struct Waiting {
    call: usize,
    /// The call's id, where no response was known yet.
    id: Option<Box<str>>,
    copy: Copy,
}

impl Locator for Finder {
    fn record(&mut self, record: &Record<'_>) {
        if record.index == 0 && record.bytes.starts_with(ZSTD) {
            self.compressed = true;
            self.broken(
                record.offset,
                "a compressed rollout, though its name does not end in `.zst`: Codex cannot read it so; rename it",
                true,
            );
        }
        if self.compressed {
            return;
        }
        let mut index = Index::default();
        let line = match jsonlines::read(record, &mut index) {
            Line::Blank => return,
            Line::Broken(broken) => return self.located.broken.push(broken),
            Line::Object(line) => line,
        };
        let before = (self.located.responses.len(), self.copies.len());
        let mut texts = Texts::new(record);
        self.line(record, line, &mut texts);
        self.located.broken.append(&mut texts.broken);
        if before != (self.located.responses.len(), self.copies.len()) {
            // Blanks go before the whole newline, so that CRLF stays one.
            let line = record.bytes.strip_suffix(b"\r").unwrap_or(record.bytes);
            self.located.record_ends.insert(record.index, record.offset + line.len() as u64);
        }
    }

    fn finish(mut self: Box<Self>) -> Located {
        if let Some(scale) = self.scale.take() {
            self.located.outline = Some(scale.finish(&self.located.responses));
        }
        let mut alone: HashMap<usize, usize> = HashMap::new();
        for waiting in std::mem::take(&mut self.copies) {
            let Some(call) = self.thread.calls.get(waiting.call) else { continue };
            let response = call.response.or_else(|| alone.get(&waiting.call).copied());
            let response = response.unwrap_or_else(|| {
                alone.insert(waiting.call, self.located.responses.len());
                self.located.responses.push(Response {
                    id: waiting.id.map(String::from),
                    tool: call.tool.as_deref().map(str::to_owned),
                    batch: call.batch,
                    is_error: None,
                    dead: None,
                    record: waiting.copy.record,
                    parts: Vec::new(),
                    copies: Vec::new(),
                    only_copies: true,
                });
                self.located.responses.len() - 1
            });
            if let Some(response) = self.located.responses.get_mut(response) {
                response.copies.reserve_exact(1);
                response.copies.push(waiting.copy);
            }
        }
        jsonlines::arrange(&mut self.located.responses);
        self.located
    }
}

impl Finder {
    pub fn new(depth: Depth) -> Self {
        Finder { scale: Scale::of(depth), ..Finder::default() }
    }

    fn line(&mut self, record: &Record<'_>, line: Node<'_>, texts: &mut Texts<'_, '_>) {
        let (mut kind, mut payload, mut state) = (None, None, false);
        for (key, value) in line.entries() {
            match key.text().as_deref() {
                Some("type") => kind = value.text(),
                Some("payload") => payload = Some(value),
                Some("record_type") => state = true,
                _ => {}
            }
        }
        if record.index == 0 && kind.as_deref() != Some("session_meta") {
            self.note(record.line, "the first line is no `session_meta`: Codex cannot load the conversation");
        }
        let Some(kind) = kind else {
            // The oldest rollouts have such lines: a header without a type, and the agent's state.
            if record.index > 0 && !state {
                self.broken(record.offset, "a line without a `type`", false);
            }
            return;
        };
        // In the oldest rollouts an item stands in the line itself.
        let payload = payload.unwrap_or(line);
        if let Some(scale) = &mut self.scale {
            scale.line(record, &kind, payload);
        }
        match &*kind {
            "compacted" => self.compacted(payload, texts),
            "event_msg" => self.event(payload, texts),
            "response_item" => self.outer(payload, texts),
            other if CALLS.contains(&other) || answers(other) || other == "message" => self.outer(payload, texts),
            _ => {}
        }
    }

    /// An item of the thread.
    fn outer(&mut self, item: Node<'_>, texts: &mut Texts<'_, '_>) {
        let mut thread = std::mem::take(&mut self.thread);
        self.item(&mut thread, item, texts);
        self.thread = thread;
    }

    fn item(&mut self, items: &mut Items, item: Node<'_>, texts: &mut Texts<'_, '_>) {
        let mut seen = Item::default();
        for (key, value) in item.entries() {
            match key.text().as_deref() {
                Some("type") => seen.kind = Some(value),
                Some("call_id") => seen.call_id = Some(value),
                Some("name") => seen.name = Some(value),
                Some("namespace") => seen.namespace = Some(value),
                Some("output") => seen.output = Some(value),
                Some("role") => seen.role = Some(value),
                Some("content") => seen.content = Some(value),
                _ => {}
            }
        }
        let Some(kind) = seen.kind.and_then(|k| k.text()) else { return };
        let call = CALLS.contains(&&*kind);
        let turn = seen.role.is_some_and(|r| r.is("user")) && seen.content.is_some_and(begins_a_turn);
        if let Some(scale) = self.scale.as_mut().filter(|_| !answers(&kind)) {
            scale.item(texts.number, item, &kind, turn);
        }
        if call && !items.in_run {
            self.batches += 1;
        }
        items.in_run = call;
        if call {
            if let Some(id) = seen.call_id.and_then(|id| id.text()) {
                let tool = seen.tool(&kind).map(|name| self.tool(name));
                items.newest.insert(jsonlines::key(&id), items.calls.len());
                items.calls.push(Call { batch: self.batches, tool, response: None });
            }
        } else if answers(&kind) {
            self.response(items, item, &seen, texts);
        } else if turn {
            self.turns.push(self.located.responses.len());
        }
    }

    fn response(&mut self, items: &mut Items, item: Node<'_>, seen: &Item<'_>, texts: &mut Texts<'_, '_>) {
        let id = seen.call_id.and_then(|id| id.text()).map(std::borrow::Cow::into_owned);
        let known = id.as_ref().and_then(|id| items.newest.get(&jsonlines::key(id)));
        let index = known.copied().unwrap_or(items.calls.len());
        if known.is_none() {
            self.batches += 1;
            items.calls.push(Call { batch: self.batches, tool: None, response: None });
            if let Some(id) = &id {
                items.newest.insert(jsonlines::key(id), index);
            }
        }
        let mut parts = Vec::new();
        match seen.output.map(|o| (o, o.kind())) {
            Some((output, Kind::String)) => parts.extend(texts.part(output)),
            Some((output, Kind::Array)) => self.blocks(output, texts, &mut parts, true),
            Some((output, _)) => {
                let at = texts.offset(output);
                self.broken(at, "an `output` that is neither a string nor an array", false);
            }
            None => {
                let at = texts.offset(item);
                self.broken(at, "a response without an `output`", false);
            }
        }
        parts.shrink_to_fit();
        let Some(call) = items.calls.get_mut(index) else { return };
        if let Some(scale) = &mut self.scale {
            scale.response();
        }
        call.response = Some(self.located.responses.len());
        self.located.responses.push(Response {
            id,
            tool: call.tool.as_deref().map(str::to_owned),
            batch: call.batch,
            is_error: None,
            dead: None,
            record: texts.number,
            parts,
            copies: Vec::new(),
            only_copies: false,
        });
    }

    /// The blocks of an output, or of a copy in the shape that MCP gives them.
    fn blocks(&mut self, blocks: Node<'_>, texts: &mut Texts<'_, '_>, parts: &mut Vec<Part>, sent: bool) {
        for block in blocks.items() {
            // An embedded resource holds its text one level down.
            let inner = block.get("resource").unwrap_or(block);
            let field =
                |keys: &[&str]| keys.iter().filter_map(|key| inner.get(key)).find(|value| value.kind() == Kind::String);
            if let Some(text) = field(&["text"]) {
                parts.extend(texts.part(text));
            } else if let Some(media) = field(&["image_url", "audio_url", "encrypted_content", "data", "blob"]) {
                parts.push(opaque(media));
            } else if sent {
                let line = texts.line(block.range().start);
                self.note(line, "an output with a part of unknown type, which is left as it is");
            }
        }
    }

    /// A new history takes the place of all items so far. Without one the agent rebuilds it from what the user said.
    fn compacted(&mut self, payload: Node<'_>, texts: &mut Texts<'_, '_>) {
        self.bury(self.live, "compacted");
        self.live = self.located.responses.len();
        self.turns.clear();
        self.thread.in_run = false;
        if let Some(scale) = &mut self.scale {
            scale.compacted(payload);
        }
        let mut items = Items::default();
        for item in payload.get("replacement_history").into_iter().flat_map(|h| h.items()) {
            self.item(&mut items, item, texts);
        }
        if let Some(scale) = &mut self.scale {
            scale.replaced();
        }
    }

    fn event(&mut self, event: Node<'_>, texts: &mut Texts<'_, '_>) {
        let Some(kind) = event.get("type").and_then(|t| t.text()) else { return };
        if kind == "thread_rolled_back" {
            let turns = event.get("num_turns").and_then(|n| n.whole_number()).unwrap_or(0);
            return self.rolled_back(usize::try_from(turns).unwrap_or(usize::MAX));
        }
        let id = events::call_id(event);
        for (place, value) in events::kept(&kind, event) {
            let copy = if value.kind() == Kind::Array {
                let mut parts = Vec::new();
                self.blocks(value, texts, &mut parts, false);
                let copy = Copy { place, sent: false, record: texts.number, parts };
                Some(copy).filter(|copy| !copy.parts.is_empty())
            } else {
                texts.copy(place, Some(value))
            };
            if let Some(copy) = copy {
                self.keep(id.as_deref(), copy);
            }
        }
    }

    /// A copy of the text of the newest call of this id.
    fn keep(&mut self, id: Option<&str>, copy: Copy) {
        let key = id.map(jsonlines::key);
        let known = key.and_then(|key| self.thread.newest.get(&key)).copied();
        let call = known.unwrap_or_else(|| {
            self.batches += 1;
            self.thread.calls.push(Call { batch: self.batches, tool: None, response: None });
            let call = self.thread.calls.len() - 1;
            if let Some(key) = key {
                self.thread.newest.insert(key, call);
            }
            call
        });
        let answered = self.thread.calls.get(call).is_some_and(|call| call.response.is_some());
        self.copies.push(Waiting { call, id: id.filter(|_| !answered).map(Box::from), copy });
    }

    /// The newest turns are taken back. Where fewer turns are known than that, all are.
    fn rolled_back(&mut self, turns: usize) {
        if let Some(scale) = &mut self.scale {
            scale.rolled_back(turns);
        }
        let index = self.turns.len().saturating_sub(turns);
        if let Some(first) = self.turns.get(index).copied() {
            self.bury(first, "rolled back");
            self.turns.truncate(index);
        }
    }

    fn bury(&mut self, first: usize, why: &'static str) {
        for response in self.located.responses.iter_mut().skip(first) {
            response.dead.get_or_insert(why);
        }
    }

    fn tool(&mut self, name: String) -> Arc<str> {
        if let Some(known) = self.tools.get(&*name) {
            return Arc::clone(known);
        }
        let name: Arc<str> = name.into();
        self.tools.insert(Arc::clone(&name));
        name
    }

    fn note(&mut self, line: u64, text: &str) {
        self.located.notes.push(Note { line: Some(line), text: text.to_owned() });
    }

    fn broken(&mut self, at: u64, what: &str, whole: bool) {
        self.located.broken.push(Broken { at, what: what.to_owned(), whole });
    }
}

/// The fields of one item that matter here.
#[derive(Default)]
struct Item<'a> {
    kind: Option<Node<'a>>,
    call_id: Option<Node<'a>>,
    name: Option<Node<'a>>,
    namespace: Option<Node<'a>>,
    output: Option<Node<'a>>,
    role: Option<Node<'a>>,
    content: Option<Node<'a>>,
}

impl Item<'_> {
    /// The name of a call's tool. One of an MCP server is named with its server, as older versions did in `name` alone.
    fn tool(&self, kind: &str) -> Option<String> {
        let name = self.name.and_then(|n| n.text());
        let name = name.or_else(|| (kind == "local_shell_call").then_some("local_shell".into()))?;
        let namespace = self.namespace.and_then(|n| n.text()).filter(|n| !n.is_empty());
        Some(match namespace {
            Some(namespace) => format!("{}__{name}", namespace.trim_end_matches("__")),
            None => name.into_owned(),
        })
    }
}

/// `tool_search_output` holds descriptions of tools, and no text.
fn answers(kind: &str) -> bool {
    kind == "function_call_output" || kind == "custom_tool_call_output"
}

/// Whether a message of the user's is the user's own.
fn begins_a_turn(content: Node<'_>) -> bool {
    !content.items().filter_map(|item| item.get("text")).filter_map(|text| text.text()).any(|text| {
        let text = text.trim_start();
        NOT_THE_USER.iter().any(|start| text.get(..start.len()).is_some_and(|t| t.eq_ignore_ascii_case(start)))
    })
}
