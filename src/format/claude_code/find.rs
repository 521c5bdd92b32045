//! The locator: one line at a time, and what they mean together at the end.

use std::collections::{HashMap, HashSet, VecDeque};
use std::num::NonZeroU32;

use super::copies;
use super::line::{Fields, Line};
use super::notes::Noticed;
use super::weigh::Scale;
use crate::format::jsonlines;
use crate::format::kept::{self, Key, Names, key, key_of};
use crate::format::parts::{Taker, owned_text};
use crate::format::{Broken, Copy, Depth, Located, Locator, Record, Response};
use crate::text::json::Index;

/// How many of the last messages are remembered by id, for a compaction that preserves some: it preserves the latest.
const RECENT: usize = 1 << 16;

#[derive(Default)]
pub(super) struct Finder {
    located: Located,
    /// Beside each response, what it is paired by.
    pairings: Vec<Pairing>,
    /// Calls by the key of their id. Of equal ids the one before a result counts.
    calls: HashMap<Key, Call>,
    /// The messages of assistant lines that hold a call, by the line's uuid.
    sources: HashMap<Key, Key>,
    tools: Names,
    /// Copies of texts that other lines send, by the key of the call's id.
    strays: Vec<(Key, Copy)>,
    /// Those calls' ids, for where the text that is sent is not in this stream.
    stray_ids: HashMap<Key, Option<String>>,
    /// The last compaction of each thread.
    compactions: HashMap<Option<Key>, Compaction>,
    recent: VecDeque<(Key, u64)>,
    /// Whether there is a line that is not a subagent's.
    main: bool,
    noticed: Noticed,
    /// Where the outline is asked for.
    scale: Option<Scale>,
}

/// What a result is paired by. There is one for each result, so it is small.
struct Pairing {
    call: Option<Call>,
    id: Option<Key>,
    /// The uuid of the assistant line, as the client noted it.
    source: Option<Key>,
    uuid: Option<Key>,
    /// `None`: the session itself.
    thread: Option<Key>,
}

#[derive(Clone, Copy)]
struct Call {
    message: Key,
    tool: Option<NonZeroU32>,
}

/// A compaction and what it preserves of the lines before it.
struct Compaction {
    record: u64,
    uuids: HashSet<Key>,
    /// The records from the preserved head to the preserved tail.
    range: Option<(u64, u64)>,
}

impl Locator for Finder {
    fn record(&mut self, record: &Record<'_>) {
        if record.bytes.starts_with(b"\xef\xbb\xbf") {
            let what = "a byte order mark, which makes the record unreadable for Claude Code".into();
            return self.located.broken.push(Broken { at: record.offset, what, whole: false });
        }
        let mut index = Index::default();
        let root = match jsonlines::read(record, &mut index) {
            jsonlines::Line::Blank => return,
            jsonlines::Line::Broken(broken) => return self.located.broken.push(broken),
            jsonlines::Line::Object(root) => root,
        };
        self.noticed.line(record);
        let line = Line::of(root);
        if let Some(scale) = &mut self.scale {
            scale.line(record, &line);
        }
        let mut taker = Taker::new(record);
        if line.speaks("assistant") {
            self.assistant(record, &line);
        } else if line.speaks("user") {
            self.user(record, &line, &mut taker);
        } else if line.is("progress") {
            self.progress(record, &line, &mut taker);
        } else if line.is("system") {
            self.system(record, &line);
        }
        self.located.broken.append(&mut taker.broken);
    }

    fn finish(mut self: Box<Self>) -> Located {
        self.pair();
        self.weigh();
        self.place_strays();
        self.noticed.tell(&mut self.located);
        // What is only copies was put behind the rest.
        self.located.responses.sort_by_key(|r| r.record);
        self.located
    }
}

impl Finder {
    /// `pairs`: whether a result without a call is worth a note in this stream.
    pub fn new(pairs: bool, depth: Depth) -> Self {
        Finder { noticed: Noticed::new(pairs), scale: Scale::of(depth), ..Finder::default() }
    }

    fn assistant(&mut self, record: &Record<'_>, line: &Line<'_>) {
        self.message(record, line);
        let (mut id, mut content, mut synthetic) = (None, None, false);
        for (name, value) in line.message.into_iter().flat_map(|m| m.entries()) {
            if name.is("model") {
                synthetic = value.is("<synthetic>");
            } else if name.is("id") {
                id = key_of(Some(value));
            } else if name.is("content") {
                content = Some(value);
            }
        }
        let uuid = key_of(line.uuid);
        let number = record.index.to_le_bytes();
        let message = id.or_else(|| key_of(line.request)).or(uuid).unwrap_or_else(|| key(&[b"record", &number]));
        let message = key(&[&bytes(line.thread()), &bytes(Some(message))]);
        for block in content.into_iter().flat_map(|c| c.items()) {
            let block = Fields::of(block);
            self.noticed.block(record, &block);
            if let Some(id) = key_of(block.id).filter(|_| block.is("tool_use")) {
                let tool = block.name.and_then(|n| n.text()).and_then(|name| self.tools.number(&name));
                self.calls.insert(id, Call { message, tool });
                self.sources.extend(uuid.map(|uuid| (uuid, message)));
            }
            self.noticed.said(record, &block, line.failed, synthetic);
        }
    }

    fn user(&mut self, record: &Record<'_>, line: &Line<'_>, taker: &mut Taker<'_>) {
        self.message(record, line);
        let first = self.located.responses.len();
        let content = line.message.and_then(|m| m.get("content"));
        for block in content.into_iter().flat_map(|c| c.items()) {
            let fields = Fields::of(block);
            self.noticed.block(record, &fields);
            if !fields.is("tool_result") {
                continue;
            }
            let id = key_of(fields.call);
            if id.is_none() {
                taker.broken(block, "a tool_result without a `tool_use_id`");
            }
            self.noticed.result(record, fields.content);
            let mut parts = Vec::with_capacity(1);
            if let Some(content) = fields.content.filter(|c| !taker.content(*c, &mut parts)) {
                taker.broken(content, "the `content` of a tool_result is neither a string nor a list of blocks");
            }
            let mut response = kept::response(record, fields.call, parts);
            response.is_error = fields.is_error.and_then(|e| e.boolean());
            self.located.responses.push(response);
            self.pairings.push(Pairing {
                call: id.and_then(|id| self.calls.get(&id)).copied(),
                id,
                source: key_of(line.source),
                uuid: key_of(line.uuid),
                thread: line.thread(),
            });
        }
        let Some(result) = line.result else { return };
        let copies = copies::of_result(record, result, taker);
        // Where a line holds several results the field can only be one's: the first's.
        if let Some(response) = self.located.responses.get_mut(first) {
            response.copies = copies;
        } else if !copies.is_empty() {
            let nobody = key(&[b"record", &record.index.to_le_bytes()]);
            self.stray_ids.insert(nobody, None);
            self.strays.extend(copies.into_iter().map(|copy| (nobody, copy)));
        }
    }

    fn progress(&mut self, record: &Record<'_>, line: &Line<'_>, taker: &mut Taker<'_>) {
        let Some(data) = line.data else { return };
        let progress = copies::of_progress(record, data, line.parent, taker);
        for (id, name) in progress.calls {
            if let (Some(id), Some(name)) = (key_of(Some(id)), name.text()) {
                let tool = self.tools.number(&name);
                // A call that this stream itself holds is known better.
                self.calls.entry(id).or_insert(Call { message: key(&[b"of a subagent", &bytes(Some(id))]), tool });
            }
        }
        for (owner, copy) in progress.copies {
            let number = key(&[b"record", &copy.record.to_le_bytes()]);
            let owner_key = key_of(owner).unwrap_or(number);
            self.stray_ids.entry(owner_key).or_insert_with(|| owner.and_then(owned_text));
            self.strays.push((owner_key, copy));
        }
    }

    fn system(&mut self, record: &Record<'_>, line: &Line<'_>) {
        if line.subtype.is_some_and(|s| s.is("microcompact_boundary")) {
            let ids = line.micro.and_then(|m| m.get("compactedToolIds"));
            self.noticed.cleared(record, ids.into_iter().flat_map(|ids| ids.items()).filter_map(|id| key_of(Some(id))));
        }
        if !line.subtype.is_some_and(|s| s.is("compact_boundary")) {
            return;
        }
        let kept = line.compact.and_then(|c| c.get("preservedMessages"));
        let uuids = ["uuids", "allUuids"].into_iter().filter_map(|name| kept?.get(name)).flat_map(|list| list.items());
        let segment = line.compact.and_then(|c| c.get("preservedSegment"));
        let place = |name| {
            let uuid = key_of(segment?.get(name))?;
            self.recent.iter().rev().find(|(key, _)| *key == uuid).map(|(_, record)| *record)
        };
        self.compactions.insert(
            line.thread(),
            Compaction {
                record: record.index,
                uuids: uuids.filter_map(|uuid| key_of(Some(uuid))).collect(),
                range: place("headUuid").zip(place("tailUuid")),
            },
        );
    }

    /// What every line of a message tells.
    fn message(&mut self, record: &Record<'_>, line: &Line<'_>) {
        self.main |= !line.sidechain;
        if let Some(uuid) = key_of(line.uuid) {
            if self.recent.len() == RECENT {
                self.recent.pop_front();
            }
            self.recent.push_back((uuid, record.index));
        }
    }

    /// Gives every response its tool, its batch and its liveness.
    fn pair(&mut self) {
        let mut batches: HashMap<Key, u64> = HashMap::new();
        let mut next = 0_u64;
        for (response, pairing) in self.located.responses.iter_mut().zip(&self.pairings) {
            // A call that stands behind its result: lines of older sessions do.
            let call = pairing.call.or_else(|| self.calls.get(&pairing.id?).copied());
            let message = call.map(|c| c.message).or_else(|| self.sources.get(&pairing.source?).copied());
            response.tool = call.and_then(|c| self.tools.get(c.tool?)).map(str::to_owned);
            // Without a call a result is a batch of its own.
            let own = key(&[b"record", &response.record.to_le_bytes(), &next.to_le_bytes()]);
            response.batch = *batches.entry(message.unwrap_or(own)).or_insert_with(|| {
                next += 1;
                next
            });
            response.dead = dead(&self.compactions, self.main, response.record, pairing.uuid, pairing.thread);
            self.noticed.response(response, pairing.id, call.is_some());
        }
    }

    fn weigh(&mut self) {
        let Some(scale) = self.scale.take() else { return };
        let dead = |record, uuid, thread| dead(&self.compactions, self.main, record, uuid, thread).is_some();
        // Of a subagent's own file the thread is not known by name: the last compaction is that of any.
        let compactions = self.compactions.iter().filter(|(thread, _)| !self.main || thread.is_none());
        let since = compactions.map(|(_, compaction)| compaction.record).max();
        let requests = since.unwrap_or(0)..self.noticed.cleared_since().unwrap_or(u64::MAX);
        self.located.outline = Some(scale.finish(self.main, requests, &dead, &self.located.responses));
    }

    /// Gives copies on lines of their own to the responses they repeat.
    fn place_strays(&mut self) {
        let mut places: HashMap<Key, usize> = HashMap::new();
        for (index, pairing) in self.pairings.iter().enumerate() {
            if let Some(id) = pairing.id.filter(|id| self.stray_ids.contains_key(id)) {
                places.insert(id, index);
            }
        }
        let mut next = self.located.responses.iter().map(|r| r.batch).max().unwrap_or(0);
        for (owner, copy) in std::mem::take(&mut self.strays) {
            let index = *places.entry(owner).or_insert_with(|| {
                next += 1;
                let tool = self.calls.get(&owner).and_then(|c| self.tools.get(c.tool?)).map(str::to_owned);
                self.located.responses.push(Response {
                    id: self.stray_ids.remove(&owner).flatten(),
                    tool,
                    batch: next,
                    is_error: None,
                    dead: None,
                    record: copy.record,
                    parts: Vec::new(),
                    copies: Vec::new(),
                    only_copies: true,
                });
                self.located.responses.len() - 1
            });
            if let Some(response) = self.located.responses.get_mut(index) {
                response.copies.push(copy);
            }
        }
    }
}

/// Why a resumed conversation would not send what is in a line.
fn dead(
    compactions: &HashMap<Option<Key>, Compaction>,
    main: bool,
    record: u64,
    uuid: Option<Key>,
    thread: Option<Key>,
) -> Option<&'static str> {
    if main && thread.is_some() {
        return Some("a subagent's");
    }
    let compaction = compactions.get(&thread)?;
    let preserved = uuid.is_some_and(|uuid| compaction.uuids.contains(&uuid))
        || compaction.range.is_some_and(|(head, tail)| head <= record && record <= tail);
    (record < compaction.record && !preserved).then_some("before a compaction")
}

fn bytes(key: Option<Key>) -> [u8; 8] {
    key.map_or(0, Key::get).to_le_bytes()
}
