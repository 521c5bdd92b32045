//! Qwen Code: `~/.qwen/projects/<folder>/chats/<session id>.jsonl`.
//!
//! A tree of records; the chain that ends in the last one is the conversation:
//!
//! ```json
//! {"uuid":"a1","parentUuid":null,"sessionId":"ee81…","timestamp":"…","type":"user","cwd":"/home/demo","version":"0.15.10","message":{"role":"user","parts":[{"text":"hello"}]}}
//! {"uuid":"a2","parentUuid":"a1","sessionId":"ee81…","type":"assistant","message":{"role":"model","parts":[{"functionCall":{"id":"call_0","name":"read_file","args":{}}}]}}
//! {"uuid":"a3","parentUuid":"a2","sessionId":"ee81…","type":"system","subtype":"ui_telemetry","systemPayload":{}}
//! {"uuid":"a4","parentUuid":"a3","sessionId":"ee81…","type":"tool_result",
//!   "message":{"role":"user","parts":[{"functionResponse":{"id":"call_0","name":"read_file","response":{"output":"…"}}}]},
//!   "toolCallResult":{"callId":"call_0","status":"success","resultDisplay":"…"}}
//! {"uuid":"a5","parentUuid":"a4","sessionId":"ee81…","type":"system","subtype":"chat_compression","systemPayload":{"compressedHistory":[]}}
//! ```
//!
//! Learnt from running qwen-code 0.15.10 offline with edited sessions, and from QwenLM/qwen-code: `services/
//! chatRecordingService.ts` (`015346f1`) for the records, `services/session-api-history.ts` (`03291a25`) and `utils/
//! transcript-records.ts` (`03291a25`) for the chain and for what a compression replaces.

mod weigh;

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use memchr::memmem;

use super::genai::{self, Answer, Kept};
use super::jsonlines::{self, Head, Line, Texts, files_below, is_uuid, looks_whole};
use super::{
    About, Broken, Copy, Depth, Etiquette, Format, Framing, Located, Locator, Look, Note, Part, Places, Probe, Record,
    Response, Stream, Times, codex, gemini,
};
use crate::text::json::{Index, Node};

/// Qwen Code's sessions.
pub struct Qwen;

const TYPES: [&str; 4] = ["user", "assistant", "tool_result", "system"];
/// Where a response is kept for the screen.
const DISPLAYS: [&str; 2] = ["toolCallResult.resultDisplay", "toolCallResult.resultDisplay.fileDiff"];

impl Format for Qwen {
    fn about(&self) -> About {
        About {
            name: "qwen",
            agent: "Qwen Code",
            places: "`~/.qwen/projects/*/chats/*.jsonl`",
            reads: "sessions",
            writes: "the session",
        }
    }

    fn endings(&self) -> &'static [&'static str] {
        &[".jsonl"]
    }

    fn candidate(&self, path: &Path) -> bool {
        path.extension().is_some_and(|e| e == "jsonl")
    }

    fn claims(&self, probe: &Probe<'_>) -> bool {
        if !self.candidate(probe.path) {
            return false;
        }
        // What lies in Qwen Code's own folder is its own even where it is broken, but not where it begins as another's does.
        let head = Head::of(probe.head.strip_prefix(jsonlines::MARK).unwrap_or(probe.head));
        begins(&head) || (in_chats(probe.path) && !codex::begins(&head) && !gemini::begins(&head))
    }

    fn framing(&self) -> Framing {
        Framing::Lines
    }

    fn seams(&self) -> Option<&dyn super::Seams> {
        Some(&super::seams::QWEN)
    }

    fn matters(&self, record: &[u8]) -> bool {
        !looks_whole(record) || memmem::find(record, b"\"uuid\"").is_some()
    }

    fn error_marks(&self) -> &'static [&'static [u8]] {
        &[b"qwen-code.api_error"]
    }

    fn known_places(&self, look: &dyn Look, places: &Places) -> Vec<PathBuf> {
        places.home.iter().map(|home| home.join(".qwen").join("projects")).filter(|dir| look.is_dir(dir)).collect()
    }

    fn resolve(&self, id: &str, look: &dyn Look, places: &Places) -> Option<Vec<PathBuf>> {
        let projects = places.home.as_ref().filter(|_| is_uuid(id))?.join(".qwen").join("projects");
        let name = format!("{id}.jsonl");
        let folders = look.list(&projects).into_iter().map(|folder| projects.join(folder).join("chats"));
        let found: Vec<PathBuf> = folders.flat_map(|chats| files_below(look, &chats, 0, &|n| n == name)).collect();
        (!found.is_empty()).then_some(found)
    }

    fn conversation(&self, path: &Path, _look: &dyn Look, _places: &Places) -> Etiquette {
        Etiquette {
            id: path.file_stem().and_then(|stem| stem.to_str()).map(str::to_owned),
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

/// Whether a file begins as a session does, wherever it stands. Claude Code's records have the same ids, but `content` in a
/// message, and a `userType`.
pub(super) fn begins(head: &Head<'_>) -> bool {
    let message = head.get("message").map(Head::of);
    head.has(&["uuid", "parentUuid", "sessionId"])
        && head.is("type", &TYPES)
        && head.get("userType").is_none()
        && message.map_or_else(|| head.has(&["systemPayload"]), |m| m.has(&["parts"]))
}

/// Whether a file stands in `.qwen/projects/<folder>/chats/`.
fn in_chats(path: &Path) -> bool {
    let mut dirs = path.ancestors().skip(1).map(Path::file_name);
    let mut is = |name: &str| dirs.next().flatten().is_some_and(|n| n == name);
    let chats = is("chats");
    is("");
    chats && is("projects") && is(".qwen")
}

/// Takes what stands beside a response: what of it is the tool's.
type Beside = fn(&mut Texts<'_, '_>, Node<'_>, &mut Vec<Part>);

/// The calls that wait for a response: batch and tool, by a key of the id.
#[derive(Default)]
struct Calls(HashMap<u64, (u64, Option<String>)>);

#[derive(Default)]
struct Finder {
    located: Located,
    kept: Kept,
    tree: Tree,
    calls: Calls,
    batches: u64,
    /// The number in the tree of each response's record.
    nodes: Vec<usize>,
    /// The compressions, by their number in the tree.
    compressions: Vec<usize>,
    /// Where the outline is asked for.
    scale: Option<weigh::Scale>,
}

impl Locator for Finder {
    fn record(&mut self, record: &Record<'_>) {
        // The agent trims each line, and to JavaScript a byte order mark is a blank.
        let record = &jsonlines::without_mark(record);
        let mut index = Index::default();
        let line = match jsonlines::read(record, &mut index) {
            Line::Blank => return,
            Line::Broken(broken) => return self.located.broken.push(broken),
            Line::Object(line) => line,
        };
        let mut texts = Texts::new(record);
        self.line(line, &mut texts);
        self.located.broken.append(&mut texts.broken);
        self.nodes.resize(self.located.responses.len(), self.tree.len().saturating_sub(1));
    }

    fn finish(mut self: Box<Self>) -> Located {
        let (chain, gap) = self.tree.chain();
        let on_chain = |node: usize| {
            // The stretches come from the end of the stream to its start.
            let at = chain.partition_point(|stretch| *stretch.start() > node);
            chain.get(at).is_some_and(|stretch| stretch.contains(&node))
        };
        let base = self.compressions.iter().copied().rev().find(|node| on_chain(*node));
        for (response, node) in self.located.responses.iter_mut().zip(self.nodes.iter().copied()) {
            response.dead = match base {
                _ if !on_chain(node) => Some("on another branch"),
                Some(base) if node < base => Some("compressed"),
                _ => None,
            };
        }
        if let Some(scale) = self.scale.take() {
            let on_chain = |node: u64| usize::try_from(node).is_ok_and(on_chain);
            let responses = self.nodes.iter().map(|node| *node as u64).zip(&self.located.responses);
            self.located.outline = Some(scale.finish(&on_chain, base.map(|node| node as u64), responses));
        }
        jsonlines::arrange(&mut self.located.responses);
        if gap {
            let text = "a record's parent is missing: the conversation begins behind it".to_owned();
            self.located.notes.push(Note { line: None, text });
        }
        self.located.notes.extend(self.kept.notes());
        self.located
    }
}

impl Finder {
    fn line(&mut self, line: Node<'_>, texts: &mut Texts<'_, '_>) {
        let mut seen = Seen::default();
        for (key, value) in line.entries() {
            match key.text().as_deref() {
                Some("uuid") => seen.uuid = Some(value),
                Some("parentUuid") => seen.parent = Some(value),
                Some("type") => seen.kind = Some(value),
                Some("subtype") => seen.subtype = Some(value),
                Some("message") => seen.message = Some(value),
                Some("toolCallResult") => seen.result = Some(value),
                Some("systemPayload") => seen.payload = Some(value),
                _ => {}
            }
        }
        let (Some(uuid), Some(kind)) = (seen.uuid.and_then(|u| u.text()), seen.kind.and_then(|k| k.text())) else {
            let what = "a record without a `uuid` and a `type`".to_owned();
            return self.located.broken.push(Broken { at: texts.offset(line), what, whole: false });
        };
        let parent = seen.parent.and_then(|p| p.text()).map(|p| jsonlines::key(&p));
        self.tree.add(jsonlines::key(&uuid), parent, !seen.subtype.is_some_and(beside_the_chain));
        let parts = seen.message.and_then(|m| m.get("parts"));
        if let Some(scale) = &mut self.scale {
            scale.line(texts, line, &kind, self.tree.len().saturating_sub(1) as u64);
        }
        match &*kind {
            "assistant" => {
                let mut calls = std::mem::take(&mut self.calls);
                self.assistant(&mut calls, parts);
                self.calls = calls;
            }
            "tool_result" => {
                let mut calls = std::mem::take(&mut self.calls);
                let first = self.located.responses.len();
                self.responses(&mut calls, parts, genai::beside, texts);
                self.calls = calls;
                self.result(first, seen.result, texts);
            }
            "system" if seen.subtype.is_some_and(|s| s.is("chat_compression")) => {
                self.compressions.push(self.tree.len().saturating_sub(1));
                // It is a history of its own, whose calls and responses answer each other.
                let mut calls = Calls::default();
                let history = seen.payload.and_then(|p| p.get("compressedHistory"));
                for content in history.into_iter().flat_map(|h| h.items()) {
                    let parts = content.get("parts");
                    if content.get("role").is_some_and(|role| role.is("model")) {
                        self.assistant(&mut calls, parts);
                    } else {
                        // Text beside a response may be the user's here.
                        self.responses(&mut calls, parts, genai::media_beside, texts);
                    }
                }
            }
            _ => {}
        }
    }

    fn assistant(&mut self, calls: &mut Calls, parts: Option<Node<'_>>) {
        self.batches += 1;
        for call in parts.into_iter().flat_map(|p| p.items()).filter_map(|part| part.get("functionCall")) {
            if let Some(id) = call.get("id").and_then(|id| id.text()) {
                let name = call.get("name").and_then(|name| name.text()).map(std::borrow::Cow::into_owned);
                calls.0.insert(jsonlines::key(&id), (self.batches, name));
            }
        }
    }

    /// The responses in one record, and what stands beside each.
    fn responses(&mut self, calls: &mut Calls, parts: Option<Node<'_>>, beside: Beside, texts: &mut Texts<'_, '_>) {
        let mut open: Option<Response> = None;
        for part in parts.into_iter().flat_map(|p| p.items()) {
            if let Some(answer) = Answer::of(part) {
                self.located.responses.extend(open.take());
                let id = answer.id().map(std::borrow::Cow::into_owned);
                let call = id.as_deref().and_then(|id| calls.0.remove(&jsonlines::key(id)));
                let mut parts = Vec::new();
                answer.parts(texts, &mut parts);
                parts.shrink_to_fit();
                open = Some(Response {
                    id,
                    batch: call.as_ref().map_or(self.batches, |c| c.0),
                    tool: answer.name().map(std::borrow::Cow::into_owned).or_else(|| call.and_then(|c| c.1)),
                    is_error: Some(answer.failed()),
                    dead: None,
                    record: texts.number,
                    parts,
                    copies: Vec::new(),
                    only_copies: false,
                });
            } else if let Some(response) = &mut open {
                beside(texts, part, &mut response.parts);
            }
        }
        self.located.responses.extend(open);
    }

    /// What is kept for the screen, of one response of the record.
    fn result(&mut self, first: usize, result: Option<Node<'_>>, texts: &mut Texts<'_, '_>) {
        let Some(result) = result else { return };
        let mut copies = Vec::new();
        self.kept.display(texts, result.get("resultDisplay"), DISPLAYS, &mut copies);
        let error = result.get("error");
        copies.extend(texts.copy("toolCallResult.error", error));
        copies.extend(texts.copy("toolCallResult.error.message", error.and_then(|e| e.get("message"))));
        let mut parts = Vec::new();
        for part in result.get("responseParts").into_iter().flat_map(|p| p.items()) {
            if let Some(answer) = Answer::of(part) {
                answer.parts(texts, &mut parts);
            }
        }
        if !parts.is_empty() {
            copies.push(Copy { place: "toolCallResult.responseParts", sent: false, record: texts.number, parts });
        }
        let id = result.get("callId").and_then(|id| id.text());
        let failed = result.get("status").and_then(|s| match &*s.text()? {
            "error" => Some(true),
            "success" => Some(false),
            _ => None,
        });
        let responses = self.located.responses.get_mut(first..).unwrap_or_default();
        let at = responses.iter().position(|r| r.id.as_deref() == id.as_deref()).unwrap_or(0);
        if let Some(response) = responses.get_mut(at) {
            copies.shrink_to_fit();
            response.copies = copies;
            response.is_error = failed.or(response.is_error);
        } else if !copies.is_empty() {
            self.located.responses.push(Response {
                tool: id.as_deref().and_then(|id| self.calls.0.get(&jsonlines::key(id))).and_then(|c| c.1.clone()),
                id: id.map(std::borrow::Cow::into_owned),
                batch: self.batches,
                is_error: failed,
                dead: None,
                record: texts.number,
                parts: Vec::<Part>::new(),
                copies,
                only_copies: true,
            });
        }
    }
}

/// Records that hang on a chain and never lead on: the last of the others is the end of the conversation.
fn beside_the_chain(subtype: Node<'_>) -> bool {
    let text = subtype.text().unwrap_or_default();
    text.starts_with("session_artifact_") || text.starts_with("managed_session_") || text == "session_sources_snapshot"
}

/// The fields of one record that matter here.
#[derive(Default)]
struct Seen<'a> {
    uuid: Option<Node<'a>>,
    parent: Option<Node<'a>>,
    kind: Option<Node<'a>>,
    subtype: Option<Node<'a>>,
    message: Option<Node<'a>>,
    result: Option<Node<'a>>,
    payload: Option<Node<'a>>,
}

/// Which record follows which. A record that follows the one on the line before costs eight bytes.
#[derive(Default)]
struct Tree {
    /// A key for each record.
    keys: Vec<u64>,
    /// The records that follow another one than that on the line before, with the key of their parent.
    breaks: Vec<(usize, Option<u64>)>,
    /// The last record that can be the end of the conversation.
    leaf: Option<usize>,
}

impl Tree {
    fn len(&self) -> usize {
        self.keys.len()
    }

    fn add(&mut self, key: u64, parent: Option<u64>, leads_on: bool) {
        // Of a record in several fragments each has the same id and parent.
        let last = self.keys.last().copied();
        if last.is_none() || (last != parent && last != Some(key)) {
            self.breaks.push((self.keys.len(), parent));
        }
        if leads_on {
            self.leaf = Some(self.keys.len());
        }
        self.keys.push(key);
    }

    /// The conversation, as stretches of records from its end to its start, and whether a parent was not found.
    fn chain(&self) -> (Vec<RangeInclusive<usize>>, bool) {
        let mut chain = Vec::new();
        let mut end = self.leaf;
        while let Some(last) = end {
            let at = self.breaks.partition_point(|(record, _)| *record <= last).saturating_sub(1);
            let Some((first, parent)) = self.breaks.get(at).copied() else { break };
            chain.push(first..=last);
            let earlier = self.keys.get(..first).unwrap_or_default();
            end = parent.and_then(|parent| earlier.iter().rposition(|key| *key == parent));
            if parent.is_some() && end.is_none() {
                return (chain, true);
            }
        }
        (chain, false)
    }
}
