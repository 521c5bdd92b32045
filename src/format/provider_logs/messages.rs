//! The messages of one request, in whatever interface's shape: told by the message, not by the file.

use std::collections::HashMap;

use crate::format::parts::{Taker, owned};
use crate::format::{Located, Part, Response};
use crate::text::json::{Kind, Node};

/// Goes through the messages of one request, and pairs its responses with its calls.
pub(super) struct Walk<'r> {
    pub taker: Taker<'r>,
    /// The record number of what is found; `None`: that of the element.
    line: Option<u64>,
    /// The number of the element.
    pub index: u64,
    /// Batches so far.
    pub batches: u64,
    responses: Vec<Response>,
    calls: HashMap<String, Call>,
    /// The calls of the latest assistant message that no response was found for yet, oldest first.
    open: Vec<Open>,
    /// The batch of the element, or run of elements, whose responses answer no known call.
    own: Option<u64>,
    /// Whether the element before was a call of the Responses interface: a run of them is one batch.
    pub in_run: bool,
    started: bool,
}

/// A call, and the batch of the assistant message that made it.
struct Call {
    tool: Option<String>,
    batch: u64,
}

struct Open {
    id: Option<String>,
    tool: Option<String>,
    batch: u64,
}

/// What a response says of itself.
#[derive(Default)]
pub(super) struct Said {
    pub id: Option<String>,
    pub tool: Option<String>,
    pub is_error: Option<bool>,
    pub parts: Vec<Part>,
}

impl<'r> Walk<'r> {
    pub fn new(taker: Taker<'r>, line: Option<u64>, batches: u64) -> Self {
        Walk {
            taker,
            line,
            index: 0,
            batches,
            responses: Vec::new(),
            calls: HashMap::new(),
            open: Vec::new(),
            own: None,
            in_run: false,
            started: false,
        }
    }

    /// Hands over what was found, and gives the number of batches so far.
    pub fn finish(mut self, located: &mut Located) -> u64 {
        located.responses.append(&mut self.responses);
        located.broken.append(&mut self.taker.broken);
        self.batches
    }

    /// Takes the next message or item.
    pub fn element(&mut self, element: Node<'_>) {
        self.index += u64::from(std::mem::replace(&mut self.started, true));
        let mut seen = Message::default();
        for (key, value) in element.entries() {
            match key.text().as_deref() {
                Some("type") => seen.kind = Some(value),
                Some("role") => seen.role = Some(value),
                Some("content") => seen.content = Some(value),
                Some("parts") => seen.parts = Some(value),
                Some("tool_calls") => seen.tool_calls = Some(value),
                Some("function_call") => seen.function_call = Some(value),
                _ => {}
            }
        }
        let kind = seen.kind.and_then(|k| k.text());
        if let Some(kind) = kind.filter(|_| seen.role.is_none()) {
            return self.item(element, &kind);
        }
        self.in_run = false;
        let role = seen.role.and_then(|r| r.text());
        let chat_result = seen.parts.is_none() && matches!(role.as_deref(), Some("tool" | "function"));
        if chat_result {
            return self.chat_result(element, seen.content);
        }
        self.own = None;
        match role.as_deref() {
            Some("assistant" | "model") => self.assistant(&seen),
            _ => self.user(&seen),
        }
    }

    /// Begins the batch of an assistant message.
    pub fn begin(&mut self) {
        self.batches += 1;
        self.open.clear();
        self.own = None;
    }

    pub fn call(&mut self, id: Option<String>, tool: Option<String>) {
        if let Some(id) = &id {
            self.calls.insert(id.clone(), Call { tool: tool.clone(), batch: self.batches });
        }
        self.open.push(Open { id, tool, batch: self.batches });
    }

    fn assistant(&mut self, message: &Message<'_>) {
        let mut begun = false;
        let mut call = |walk: &mut Self, id, tool| {
            if !std::mem::replace(&mut begun, true) {
                walk.begin();
            }
            walk.call(id, tool);
        };
        for block in message.content.into_iter().flat_map(|c| c.items()) {
            if block.get("type").is_some_and(|t| t.is("tool_use")) {
                call(self, owned(block, "id"), owned(block, "name"));
            } else if let Some(tool_use) = block.get("toolUse") {
                call(self, owned(tool_use, "toolUseId"), owned(tool_use, "name"));
            }
        }
        for part in message.parts.into_iter().flat_map(|p| p.items()) {
            if let Some(function) = part.get("functionCall") {
                call(self, owned(function, "id"), owned(function, "name"));
            }
        }
        for tool_call in message.tool_calls.into_iter().flat_map(|c| c.items()) {
            // A function's or, of the newer kind, a custom tool's.
            let named = tool_call.get("function").or_else(|| tool_call.get("custom"));
            call(self, owned(tool_call, "id"), named.and_then(|n| owned(n, "name")));
        }
        if let Some(function) = message.function_call.filter(|f| f.kind() == Kind::Object) {
            call(self, None, owned(function, "name"));
        }
    }

    /// A Chat Completions message that is a response.
    fn chat_result(&mut self, message: Node<'_>, content: Option<Node<'_>>) {
        let mut said = Said { id: owned(message, "tool_call_id"), tool: owned(message, "name"), ..Said::default() };
        if let Some(content) = content
            && !self.taker.content(content, &mut said.parts)
        {
            self.taker.broken(content, "the `content` of a tool message is neither text nor an array");
        }
        self.response(said);
    }

    fn user(&mut self, message: &Message<'_>) {
        for block in message.content.into_iter().flat_map(|c| c.items()) {
            if block.get("type").is_some_and(|t| t.is("tool_result")) {
                self.anthropic_result(block);
            } else if let Some(result) = block.get("toolResult") {
                self.bedrock_result(result);
            }
        }
        for part in message.parts.into_iter().flat_map(|p| p.items()) {
            if let Some(response) = part.get("functionResponse") {
                self.gemini_response(response);
            }
        }
    }

    fn anthropic_result(&mut self, block: Node<'_>) {
        let is_error = block.get("is_error").and_then(|e| e.boolean());
        let mut said = Said { id: owned(block, "tool_use_id"), is_error, ..Said::default() };
        // Without the id it is another agent's block of the same name.
        if said.id.is_none() {
            return;
        }
        if let Some(content) = block.get("content")
            && !self.taker.content(content, &mut said.parts)
        {
            self.taker.broken(content, "the `content` of a tool_result is neither text nor an array");
        }
        self.response(said);
    }

    fn bedrock_result(&mut self, result: Node<'_>) {
        let status = result.get("status");
        let is_error = status.and_then(|s| s.text()).map(|s| s == "error");
        let mut said = Said { id: owned(result, "toolUseId"), is_error, ..Said::default() };
        if said.id.is_none() {
            return;
        }
        for block in result.get("content").into_iter().flat_map(|c| c.items()) {
            for (key, value) in block.entries() {
                match key.text().as_deref() {
                    Some("text") if value.kind() == Kind::String => self.taker.text(value, &mut said.parts),
                    Some("json") => self.taker.leaves(value, &[], &mut said.parts),
                    Some("image" | "document" | "video") => self.taker.opaque(value, &mut said.parts),
                    Some("searchResult") => {
                        let texts = value.get("content").into_iter().flat_map(|c| c.items());
                        texts.for_each(|block| self.taker.block(block, false, &mut said.parts));
                    }
                    _ => {}
                }
            }
        }
        self.response(said);
    }

    fn gemini_response(&mut self, response: Node<'_>) {
        let mut said = Said { id: owned(response, "id"), tool: owned(response, "name"), ..Said::default() };
        if let Some(result) = response.get("response") {
            said.is_error = result.get("error").map(|_| true).or(result.get("output").map(|_| false));
            self.taker.leaves(result, &[], &mut said.parts);
        }
        // A newer response carries its pictures itself.
        for part in response.get("parts").into_iter().flat_map(|p| p.items()) {
            if let Some(data) = part.get("inlineData").or_else(|| part.get("fileData")) {
                self.taker.opaque(data, &mut said.parts);
            }
        }
        self.response(said);
    }

    /// Pairs a response with its call: by its id, else by the name and order of the calls that wait for one.
    pub fn response(&mut self, said: Said) {
        let Said { id, tool, is_error, parts } = said;
        let waiting = |open: &Open| match (&id, &tool) {
            (Some(id), _) => open.id.as_ref() == Some(id),
            (None, Some(tool)) => open.tool.as_ref() == Some(tool),
            (None, None) => true,
        };
        let paired = self.open.iter().position(waiting).map(|at| self.open.remove(at));
        let known = match &id {
            Some(id) => self.calls.get(id).map(|c| (c.tool.clone(), c.batch)),
            None => paired.map(|c| (c.tool, c.batch)),
        };
        let (called, batch) = known.unwrap_or_else(|| {
            let batch = self.own.unwrap_or(self.batches + 1);
            self.batches = self.batches.max(batch);
            self.own = Some(batch);
            (None, batch)
        });
        self.responses.push(Response {
            id,
            tool: called.or(tool),
            batch,
            is_error,
            dead: None,
            record: self.line.unwrap_or(self.index),
            parts,
            copies: Vec::new(),
            only_copies: false,
        });
    }

    /// A response has come that is none of a run of responses to unknown calls.
    pub fn ends_own(&mut self) {
        self.own = None;
    }
}

/// The fields of one message that matter here.
#[derive(Default)]
struct Message<'a> {
    kind: Option<Node<'a>>,
    role: Option<Node<'a>>,
    content: Option<Node<'a>>,
    parts: Option<Node<'a>>,
    tool_calls: Option<Node<'a>>,
    function_call: Option<Node<'a>>,
}
