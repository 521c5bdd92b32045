//! GitHub Copilot (CLI, app, SDK): `~/.copilot/session-state/<uuid>/events.jsonl`.
//!
//! JSON lines, a log of events that is replayed from its start:
//!
//! ```json
//! {"type":"session.start","data":{"sessionId":"be25…","version":1},"id":"e0","timestamp":"…","parentId":null}
//! {"type":"assistant.message","data":{"messageId":"x1","content":"","toolRequests":[{"toolCallId":"call_0","name":"bash","arguments":{}}]},"id":"e3",…}
//! {"type":"tool.execution_start","data":{"toolCallId":"call_0","toolName":"bash","arguments":{}},"id":"e4",…}
//! {"type":"tool.execution_complete","data":{"toolCallId":"call_0","success":true,"result":{"content":"sent","detailedContent":"shown",
//!   "contents":[{"type":"text","text":"shown"}],"structuredContent":{"rows":["shown"]}}},"id":"e5",…}
//! {"type":"tool.execution_complete","data":{"toolCallId":"call_1","success":false,"error":{"message":"sent"}},"id":"e6",…}
//! {"type":"session.compaction_start","data":{},"id":"e7",…}
//! {"type":"session.compaction_complete","data":{"success":true,"summaryContent":"…"},"id":"e8",…}
//! ```
//!
//! Learnt from the published schema of `@github/copilot-sdk` 1.0.14 (`dist/generated/session-events.d.ts`); the program was not
//! run. That a compaction ends what is sent is inferred from it. Left alone: `session.binary_asset` (content-addressed),
//! `citableSources`, `uiResource`, and a hook's `input`, of which Copilot itself drops the repeated text.

mod weigh;

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use memchr::memmem;

use super::parts::{self, Taker, owned};
use super::peek::Peek;
use super::{
    About, Broken, Copy, Depth, Etiquette, Format, Framing, Located, Locator, Look, Note, Part, Places, Probe, Record,
    Response, Stream, Times,
};
use crate::text::json::{Index, Kind, Node};

/// GitHub Copilot's sessions.
pub struct Copilot;

const STREAM: &str = "events.jsonl";
const SESSIONS: &str = "session-state";

impl Format for Copilot {
    fn about(&self) -> About {
        About {
            name: "copilot",
            agent: "GitHub Copilot CLI",
            places: "`~/.copilot/session-state/*/events.jsonl`",
            reads: "`events.jsonl`",
            writes: "`events.jsonl`: `result.content` or `error.message`, and the screen's copies beside it",
        }
    }

    fn endings(&self) -> &'static [&'static str] {
        &[".jsonl"]
    }

    fn candidate(&self, path: &Path) -> bool {
        path.file_name() == Some(OsStr::new(STREAM)) || is_old_stream(path)
    }

    fn claims(&self, probe: &Probe<'_>) -> bool {
        // `session-state/<id>/events.jsonl` says enough, so that a broken one is found. What lies elsewhere must look like one.
        let dir = probe.path.parent();
        let ours = probe.path.file_name() == Some(OsStr::new(STREAM))
            && dir.and_then(Path::parent).and_then(Path::file_name) == Some(OsStr::new(SESSIONS));
        self.candidate(probe.path) && (ours || looks_like_events(probe.head))
    }

    fn framing(&self) -> Framing {
        Framing::Lines
    }

    fn matters(&self, record: &[u8]) -> bool {
        // An escape may hide a letter of an event's type; no other event has anything to do with tools.
        let seen = |what: &[u8]| memmem::find(record, what).is_some();
        seen(b"tool.execution_")
            || seen(b"toolRequests")
            || seen(b"session.compaction_")
            || seen(b"session.context_cleared")
            || seen(b"session.error")
            || seen(b"\\u")
    }

    fn prunes(&self, dir: &Path) -> bool {
        // `checkpoints/`, `files/`, `rewind-snapshots/` of a session hold what others need whole.
        dir.parent().and_then(Path::parent).and_then(Path::file_name) == Some(OsStr::new(SESSIONS))
    }

    fn error_marks(&self) -> &'static [&'static [u8]] {
        &[b"\"session.error\""]
    }

    fn known_places(&self, look: &dyn Look, places: &Places) -> Vec<PathBuf> {
        // A moved `$COPILOT_HOME` must be named.
        let dir = places.home.as_ref().map(|home| home.join(".copilot").join(SESSIONS));
        dir.into_iter().filter(|dir| look.is_dir(dir)).collect()
    }

    fn resolve(&self, id: &str, look: &dyn Look, places: &Places) -> Option<Vec<PathBuf>> {
        // The id is a UUID, as other agents' are: only one that is here is ours.
        if id.len() != 36 || !id.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-') {
            return None;
        }
        let dir = places.home.as_ref()?.join(".copilot").join(SESSIONS);
        let streams = [dir.join(id).join(STREAM), dir.join(format!("{id}.jsonl"))];
        let found: Vec<PathBuf> = streams.into_iter().filter(|path| look.is_file(path)).collect();
        (!found.is_empty()).then_some(found)
    }

    fn conversation(&self, path: &Path, _look: &dyn Look, _places: &Places) -> Etiquette {
        let name = if is_old_stream(path) { path.file_stem() } else { path.parent().and_then(Path::file_name) };
        Etiquette {
            id: name.and_then(OsStr::to_str).map(str::to_owned),
            streams: vec![Stream { path: path.to_owned(), asides: Vec::new() }],
            lock: None,
            times: Times::Keep,
            appends: true,
            pads: false,
        }
    }

    fn locator(&self, _path: &Path, depth: Depth) -> Box<dyn Locator> {
        Box::new(Finder { scale: weigh::Scale::of(depth), ..Finder::default() })
    }
}

/// `session-state/<id>.jsonl`, as versions before the folders kept it.
fn is_old_stream(path: &Path) -> bool {
    path.extension() == Some(OsStr::new("jsonl"))
        && path.parent().and_then(Path::file_name) == Some(OsStr::new(SESSIONS))
}

fn looks_like_events(head: &[u8]) -> bool {
    let Some((first, _)) = Peek::of(head) else { return false };
    let Some(kind) = first.get("type").and_then(Peek::text) else { return false };
    let data = first.get("data");
    let started = kind == "session.start" && data.is_some_and(|d| d.has_text("sessionId"));
    let event = kind.contains('.')
        && matches!(data, Some(Peek::Object(_)))
        && ["id", "timestamp"].iter().all(|key| first.has_text(key))
        && first.get("parentId").is_some();
    started || event
}

/// A call, and the batch of the assistant message that made it.
struct Call {
    tool: Option<String>,
    batch: u64,
}

/// Up to where an agent's responses are not sent any more.
struct Boundary {
    record: u64,
    why: &'static str,
}

#[derive(Default)]
struct Finder {
    located: Located,
    calls: HashMap<String, Call>,
    batches: u64,
    /// The subagent of each response, by number; `None` is the main agent.
    owners: Vec<Option<usize>>,
    agents: Vec<String>,
    /// Where a compaction that has not ended yet began, and the last boundary, by agent.
    compacting: HashMap<Option<usize>, u64>,
    boundaries: HashMap<Option<usize>, Boundary>,
    refused: Option<Note>,
    /// Where the outline is asked for.
    scale: Option<weigh::Scale>,
}

impl Locator for Finder {
    fn record(&mut self, record: &Record<'_>) {
        let mut index = Index::default();
        let event = match parts::line(record, &mut index) {
            Ok(Some(event)) => event,
            Ok(None) => return,
            Err(broken) => return self.located.broken.push(broken),
        };
        let Some(kind) = event.get("type").and_then(|t| t.text()) else {
            let what = "not an event (an object with a `type`)".to_owned();
            return self.located.broken.push(Broken { at: record.offset, what, whole: false });
        };
        let data = event.get("data").filter(|d| d.kind() == Kind::Object);
        let Some(data) = data else {
            if &*kind == "tool.execution_complete" {
                let what = "a tool.execution_complete without `data`".to_owned();
                self.located.broken.push(Broken { at: record.offset, what, whole: false });
            }
            return;
        };
        if let Some(scale) = self.scale.as_mut().filter(|_| event.get("agentId").is_none_or(|a| a.text().is_none())) {
            scale.event(record, &kind, data);
        }
        match &*kind {
            "assistant.message" => self.requests(data),
            "tool.execution_start" => self.start(data),
            "tool.execution_complete" => self.complete(record, event, data),
            "session.compaction_start" => {
                let agent = self.agent(event);
                self.compacting.insert(agent, record.index);
            }
            "session.compaction_complete" => {
                // What came in while the summary was being made may not be in it: dead is what was there when it began.
                let agent = self.agent(event);
                let since = self.compacting.remove(&agent).unwrap_or(record.index);
                if data.get("success").is_none_or(|s| s.boolean() != Some(false)) {
                    self.boundaries.insert(agent, Boundary { record: since, why: "before a compaction" });
                }
            }
            "session.context_cleared" => {
                let agent = self.agent(event);
                self.boundaries.insert(agent, Boundary { record: record.index, why: "before the context was cleared" });
            }
            "session.error" => self.error(record, data),
            _ => {}
        }
    }

    fn finish(mut self: Box<Self>) -> Located {
        for (response, owner) in self.located.responses.iter_mut().zip(&self.owners) {
            response.dead = self.boundaries.get(owner).filter(|b| response.record < b.record).map(|b| b.why);
        }
        if let Some(scale) = self.scale.take() {
            let since = self.boundaries.get(&None).map_or(0, |boundary| boundary.record);
            let main = self.located.responses.iter().zip(&self.owners).filter(|(_, owner)| owner.is_none());
            self.located.outline = Some(scale.finish(since, main.map(|(response, _)| response)));
        }
        self.located.notes.extend(self.refused);
        self.located
    }
}

impl Finder {
    fn agent(&mut self, event: Node<'_>) -> Option<usize> {
        let agent = owned(event, "agentId")?;
        Some(self.agents.iter().position(|a| *a == agent).unwrap_or_else(|| {
            self.agents.push(agent);
            self.agents.len() - 1
        }))
    }

    fn requests(&mut self, data: Node<'_>) {
        let Some(requests) = data.get("toolRequests") else { return };
        self.batches += 1;
        for request in requests.items() {
            if let Some(id) = owned(request, "toolCallId") {
                self.calls.insert(id, Call { tool: owned(request, "name"), batch: self.batches });
            }
        }
    }

    /// Usually says what the request said. A tool that the user started has only this.
    fn start(&mut self, data: Node<'_>) {
        let Some(id) = owned(data, "toolCallId") else { return };
        if let Some(call) = self.calls.get_mut(&id) {
            if call.tool.is_none() {
                call.tool = owned(data, "toolName");
            }
            return;
        }
        self.batches += 1;
        self.calls.insert(id, Call { tool: owned(data, "toolName"), batch: self.batches });
    }

    fn complete(&mut self, record: &Record<'_>, event: Node<'_>, data: Node<'_>) {
        let mut taker = Taker::new(record);
        let id = owned(data, "toolCallId");
        if id.is_none() {
            taker.broken(event, "a tool.execution_complete without a `toolCallId`");
        }
        let success = data.get("success").and_then(|s| s.boolean());
        let result = data.get("result");
        let content = string(&mut taker, result.and_then(|r| r.get("content")), "result.content");
        let message = string(&mut taker, data.at(&["error", "message"]), "error.message");
        // Of a failure the assistant gets the message.
        let (sent, other) = match (success, content, message) {
            (Some(false), content, Some(message)) => (Some(message), content.map(|c| ("result.content", c))),
            (_, Some(content), message) => (Some(content), message.map(|m| ("error.message", m))),
            (_, None, message) => (message, None),
        };
        let mut parts = Vec::new();
        if let Some(sent) = sent {
            taker.text(sent, &mut parts);
        }
        if let Some(binaries) = result.and_then(|r| r.get("binaryResultsForLlm")) {
            // One that was left out for its size has neither bytes nor the name of an asset: nothing is sent.
            let sent = binaries.items().filter(|b| b.get("data").is_some() || b.get("assetId").is_some());
            sent.for_each(|binary| taker.opaque(binary, &mut parts));
        }
        let mut copies = Vec::new();
        let mut copy = |place: &'static str, parts: Vec<Part>| {
            if !parts.is_empty() {
                copies.push(Copy { place, sent: false, record: record.index, parts });
            }
        };
        if let Some((place, node)) = other {
            copy(place, taker.texts(node));
        }
        if let Some(result) = result {
            if let Some(detailed) = result.get("detailedContent").filter(|d| d.kind() == Kind::String) {
                copy("result.detailedContent", taker.texts(detailed));
            }
            if let Some(contents) = result.get("contents") {
                let texts = contents.items().filter_map(shown_text);
                copy("result.contents", texts.flat_map(|text| taker.texts(text)).collect());
            }
            if let Some(structured) = result.get("structuredContent") {
                let mut parts = Vec::new();
                taker.leaves(structured, &[], &mut parts);
                copy("result.structuredContent", parts);
            }
        }
        let call = id.as_ref().and_then(|id| self.calls.get(id));
        let (tool, batch) = match call {
            Some(call) => (call.tool.clone(), call.batch),
            None => {
                self.batches += 1;
                (None, self.batches)
            }
        };
        let owner = self.agent(event);
        self.owners.push(owner);
        self.located.broken.append(&mut taker.broken);
        self.located.responses.push(Response {
            id,
            tool,
            batch,
            is_error: success.map(|s| !s),
            dead: None,
            record: record.index,
            only_copies: parts.is_empty() && !copies.is_empty(),
            parts,
            copies,
        });
    }

    /// The interface takes 5 MB a request; beyond that it answers 413, on every turn.
    fn error(&mut self, record: &Record<'_>, data: Node<'_>) {
        let message = data.get("message").and_then(|m| m.text()).unwrap_or_default();
        let refused = data.get("statusCode").and_then(|s| s.whole_number()) == Some(413)
            || ["failed to parse request", "too large"].iter().any(|what| message.contains(what));
        if refused {
            let text = "the interface refused a request as too large (413): it takes 5 MB".to_owned();
            self.refused = Some(Note { line: Some(record.line), text });
        }
    }
}

/// A value that must be a string where it is there.
fn string<'a>(taker: &mut Taker<'_>, node: Option<Node<'a>>, name: &str) -> Option<Node<'a>> {
    let node = node.filter(|n| n.kind() != Kind::Null)?;
    if node.kind() != Kind::String {
        taker.broken(node, format!("the `{name}` of a tool.execution_complete is not a string"));
        return None;
    }
    Some(node)
}

/// The text of one of the blocks that are kept for a screen.
fn shown_text(block: Node<'_>) -> Option<Node<'_>> {
    let text = match block.get("type")?.text()?.as_ref() {
        "text" | "terminal" => block.get("text"),
        "shell_exit" => block.get("outputPreview"),
        "resource" => block.at(&["resource", "text"]),
        _ => None,
    };
    text.filter(|t| t.kind() == Kind::String)
}
