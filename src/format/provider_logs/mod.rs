//! Provider request logs: what an agent or a proxy wrote down of its requests to a model. Two formats, one locator: a JSON
//! document (the request, or its bare array of messages), and JSON lines of requests.
//!
//! ```json
//! {"model":"…","messages":[{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"bash","arguments":"{}"}}]},
//!   {"role":"tool","tool_call_id":"c1","content":"text"}]}
//! {"model":"…","input":[{"type":"function_call","call_id":"c1","name":"bash","arguments":"{}"},
//!   {"type":"function_call_output","call_id":"c1","output":"text"}]}
//! {"model":"…","max_tokens":1,"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"bash","input":{}}]},
//!   {"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"text"}]}]}]}
//! {"contents":[{"role":"model","parts":[{"functionCall":{"name":"bash","args":{}}}]},
//!   {"role":"user","parts":[{"functionResponse":{"name":"bash","response":{"output":"text"}}}]}],"generationConfig":{}}
//! {"messages":[{"role":"assistant","content":[{"toolUse":{"toolUseId":"t1","name":"bash","input":{}}}]},
//!   {"role":"user","content":[{"toolResult":{"toolUseId":"t1","content":[{"text":"text"}],"status":"success"}}]}],"inferenceConfig":{}}
//! ```
//!
//! Learnt from the public documentation of the interfaces: OpenAI Chat Completions and Responses, Anthropic Messages, Gemini
//! `generateContent`, Bedrock Converse; and google-gemini/gemini-cli `core/logger.ts` for its checkpoints, `{history}` or bare.
//! Left alone: what a server's own tools returned in the assistant's content, thinking, signatures, arguments, binaries.

mod claim;
mod items;
mod messages;
mod weigh;

use std::path::{Path, PathBuf};

use memchr::memmem;

use super::jsonlines::without_mark;
use super::parts::{self, Taker};
use super::{
    About, Broken, Depth, Etiquette, FORMATS, Format, Framing, Located, Locator, Look, Note, Places, Probe, Record,
    Stream, Times,
};
use crate::text::json::{Index, Kind, Node};

/// A request, or its messages, as one JSON document.
pub struct Document;

/// Requests as JSON lines.
pub struct Lines;

/// What the names of both formats begin with.
const NAME: &str = "provider-log";

impl Format for Document {
    fn about(&self) -> About {
        About {
            name: "provider-log",
            agent: "Provider request",
            places: "any `.json` file that is one; must be named",
            reads: "Chat Completions, Responses, Anthropic Messages, Gemini contents, Bedrock Converse",
            writes: "the texts of tool results",
        }
    }

    fn endings(&self) -> &'static [&'static str] {
        &[".json"]
    }

    fn candidate(&self, path: &Path) -> bool {
        has_extension(path, &["json"])
    }

    fn claims(&self, probe: &Probe<'_>) -> bool {
        self.candidate(probe.path) && claim::document(probe) && !an_agents(probe)
    }

    fn framing(&self) -> Framing {
        Framing::Document
    }

    fn known_places(&self, _look: &dyn Look, _places: &Places) -> Vec<PathBuf> {
        Vec::new()
    }

    fn conversation(&self, path: &Path, _look: &dyn Look, _places: &Places) -> Etiquette {
        etiquette(path, false)
    }

    fn locator(&self, _path: &Path, depth: Depth) -> Box<dyn Locator> {
        Box::new(Finder::new(Framing::Document, depth))
    }
}

impl Format for Lines {
    fn about(&self) -> About {
        About {
            name: "provider-log-lines",
            agent: "Provider requests, one a line",
            places: "any `.jsonl` or `.ndjson` file of them; must be named",
            ..Document.about()
        }
    }

    fn endings(&self) -> &'static [&'static str] {
        &[".jsonl", ".ndjson", ".json"]
    }

    fn candidate(&self, path: &Path) -> bool {
        // `.json` too: there are logs that were named so.
        has_extension(path, &["jsonl", "ndjson", "json"])
    }

    fn claims(&self, probe: &Probe<'_>) -> bool {
        self.candidate(probe.path)
            && claim::lines(probe.head, has_extension(probe.path, &["json"]))
            && !an_agents(probe)
    }

    fn framing(&self) -> Framing {
        Framing::Lines
    }

    fn seams(&self) -> Option<&dyn super::Seams> {
        Some(&super::seams::EveryLine)
    }

    fn matters(&self, record: &[u8]) -> bool {
        // Every spelling of a call or response has one of these, unless an escape hides a letter of it.
        ["tool", "function", "_call", "\\u"].iter().any(|what| memmem::find(record, what.as_bytes()).is_some())
    }

    fn known_places(&self, _look: &dyn Look, _places: &Places) -> Vec<PathBuf> {
        Vec::new()
    }

    fn conversation(&self, path: &Path, _look: &dyn Look, _places: &Places) -> Etiquette {
        // A proxy that is still running appends.
        etiquette(path, true)
    }

    fn locator(&self, _path: &Path, depth: Depth) -> Box<dyn Locator> {
        Box::new(Finder::new(Framing::Lines, depth))
    }
}

fn has_extension(path: &Path, extensions: &[&str]) -> bool {
    path.extension().and_then(|e| e.to_str()).is_some_and(|e| extensions.contains(&e))
}

fn etiquette(path: &Path, appends: bool) -> Etiquette {
    let own = Stream { path: path.to_owned(), asides: Vec::new() };
    Etiquette { id: None, streams: vec![own], lock: None, times: Times::Keep, appends, pads: false }
}

/// Whether the file is an agent's own: agents keep messages of the same shapes, and know more about them than this.
fn an_agents(probe: &Probe<'_>) -> bool {
    let agents = FORMATS.iter().filter(|f| !f.about().name.starts_with(NAME));
    agents.into_iter().any(|f| f.candidate(probe.path) && f.claims(probe))
}

/// The keys under which a request has its messages.
const ARRAYS: [&str; 5] = ["messages", "input", "output", "contents", "history"];

struct Finder {
    framing: Framing,
    located: Located,
    batches: u64,
    /// Where the outline is asked for.
    scale: Option<weigh::Scale>,
}

impl Locator for Finder {
    fn record(&mut self, record: &Record<'_>) {
        let record = without_mark(record);
        let mut index = Index::default();
        let root = match self.framing {
            Framing::Document => parts::document(&record, &mut index, "").map(Some),
            Framing::Lines => parts::line(&record, &mut index),
        };
        match root {
            Ok(Some(root)) => self.request(&record, root),
            Ok(None) => {}
            Err(mut broken) => {
                if broken.whole && broken.what.ends_with(parts::AFTER) {
                    broken.what.push_str("; if these are JSON lines, use --format provider-log-lines");
                }
                self.located.broken.push(broken);
            }
        }
    }

    fn finish(mut self: Box<Self>) -> Located {
        if let Some(scale) = self.scale.take() {
            self.located.outline = Some(scale.finish(&self.located.responses));
        }
        self.located
    }
}

impl Finder {
    fn new(framing: Framing, depth: Depth) -> Self {
        Finder { framing, located: Located::default(), batches: 0, scale: weigh::Scale::of(depth, framing) }
    }

    fn request(&mut self, record: &Record<'_>, root: Node<'_>) {
        let line = (self.framing == Framing::Lines).then_some(record.index);
        let mut walk = messages::Walk::new(Taker::new(record), line, self.batches);
        let mut arrays = 0;
        match root.kind() {
            Kind::Array => {
                arrays += 1;
                root.items().for_each(|element| walk.element(element));
            }
            _ => {
                for (key, value) in root.entries() {
                    if value.kind() == Kind::Array && ARRAYS.iter().any(|name| key.is(name)) {
                        arrays += 1;
                        value.items().for_each(|element| walk.element(element));
                    }
                }
            }
        }
        if arrays == 0 && self.framing == Framing::Document {
            if root.kind() == Kind::Object {
                let text = format!("no messages: none of {} is an array", ARRAYS.join(", "));
                self.located.notes.push(Note { line: None, text });
            } else {
                let what = "expected a request (an object) or an array of messages".to_owned();
                self.located.broken.push(Broken { at: record.offset, what, whole: true });
            }
        }
        let first = self.located.responses.len();
        self.batches = walk.finish(&mut self.located);
        if let Some(scale) = &mut self.scale {
            scale.request(record, root, first);
        }
    }
}
