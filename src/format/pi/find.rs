//! The locator: one entry at a time, and what the tree makes of them at the end.

use std::collections::HashMap;

use super::entry::{Entry, Message};
use super::notes::has_notice;
use super::relics::{Answers, STORED_ERROR};
use super::sent::{Compaction, Kept, SUPERSEDED, Sent};
use super::tree::{Grown, Parent, Tree};
use super::weigh::Scale;
use crate::format::jsonlines;
use crate::format::kept::{self, Key, key_of, leaves};
use crate::format::parts::{Taker, owned_text};
use crate::format::{Depth, Located, Locator, Note, Part, Record, RelicKind};
use crate::text::json::{Index, Kind, Node};

#[derive(Default)]
pub(super) struct Finder {
    located: Located,
    header: Header,
    tree: Tree,
    /// Beside each response, its entry.
    origins: Vec<Origin>,
    /// Calls: the key of the id, and the assistant's entry.
    calls: Vec<(Key, u64)>,
    compactions: Vec<Compaction>,
    /// `context_edit` entries, ascending: entry, and the key of the target.
    edits: Vec<(u64, Key)>,
    /// The line of the last entry, where it has no parent though it is not the first.
    rootless: Option<u64>,
    notices: (u64, Option<u64>),
    answers: Answers,
    without_content: Option<u64>,
    /// Where the outline is asked for.
    scale: Option<Scale>,
}

/// What the first record was.
#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Header {
    #[default]
    Awaited,
    /// Of this version.
    Is(u64),
    /// None: the first record is an entry.
    Missing,
}

struct Origin {
    entry: u64,
    call: Option<Key>,
    /// The key of the entry whose content this replaces.
    target: Option<Key>,
}

/// What the tree says of a response.
struct Settled {
    /// The response whose id and tool it has: its own, or that of the result it replaces.
    source: usize,
    dead: Option<&'static str>,
    /// The assistant's entry, and whether it is on the way to the leaf.
    message: Option<(u64, bool)>,
}

impl Locator for Finder {
    fn record(&mut self, record: &Record<'_>) {
        let mut index = Index::default();
        let mut weighed = None;
        let entry = match jsonlines::read(record, &mut index) {
            jsonlines::Line::Blank => return,
            jsonlines::Line::Object(root) => {
                weighed = Some(root);
                Entry::of(root)
            }
            jsonlines::Line::Broken(broken) => {
                self.located.broken.push(broken);
                // Null is passed over by 1.6, and 0.73 fails; any other value takes a place in the tree.
                match Node::document(record.bytes) {
                    Ok(value) if value.kind() != Kind::Null => Entry::default(),
                    _ => return,
                }
            }
        };
        if self.header == Header::Awaited {
            if entry.is("session") {
                if let (Some(scale), Some(root)) = (&mut self.scale, weighed) {
                    scale.header(root);
                }
                self.header = Header::Is(entry.version.map_or(1, |v| v.whole_number().unwrap_or(u64::MAX)));
                if !matches!(self.header, Header::Is(1..=3)) {
                    self.note(record.line, "a header of a version other than 1, 2 and 3: read as one of version 3");
                }
                return;
            }
            self.header = Header::Missing;
            self.note(
                record.line,
                "the first record is no session header: pi 1.6 refuses the file, 0.73 overwrites it",
            );
        }
        let message = entry.message.filter(|_| entry.is("message")).map(Message::of);
        if let (Some(scale), Some(root)) = (&mut self.scale, weighed) {
            scale.entry(record, root, message.as_ref(), self.tree.len());
        }
        let mut taker = Taker::new(record);
        self.entry(record, &entry, message.as_ref(), &mut taker);
        self.located.broken.append(&mut taker.broken);
    }

    fn finish(mut self: Box<Self>) -> Located {
        let len = self.tree.len();
        if let Some(line) = self.rootless {
            self.note(line, "the last entry has no parent: pi continues from an empty context");
        }
        let kept = self.compactions.iter().filter_map(|c| if let Kept::Id(id) = c.kept { Some(id) } else { None });
        let asked: Vec<Key> = kept.chain(self.edits.iter().map(|(_, target)| *target)).collect();
        let tree = std::mem::take(&mut self.tree).grow(asked);
        let sent = Sent::of(&tree, len.checked_sub(1), &self.compactions, &self.edits);
        self.calls.sort_unstable();
        self.settle(&tree, &sent);
        self.located.relics = std::mem::take(&mut self.answers).relics(&sent);
        self.notes();
        if let Some(scale) = self.scale.take() {
            let responses = self.origins.iter().map(|origin| origin.entry).zip(&self.located.responses);
            self.located.outline = Some(scale.finish(&tree, &sent, &self.compactions, responses));
        }
        self.located
    }
}

impl Finder {
    pub fn new(depth: Depth) -> Self {
        Finder { scale: Scale::of(depth), ..Finder::default() }
    }

    fn entry(&mut self, record: &Record<'_>, entry: &Entry<'_>, message: Option<&Message<'_>>, taker: &mut Taker<'_>) {
        let list = self.header == Header::Is(1) || (self.header == Header::Missing && entry.id.is_none());
        let parent = match (list, key_of(entry.parent)) {
            (true, _) => Parent::Before,
            (false, Some(id)) => Parent::Id(id),
            (false, None) => Parent::Nothing,
        };
        let number = self.tree.push(key_of(entry.id), parent);
        self.rootless = (parent == Parent::Nothing && number > 0).then_some(record.line);
        if let Some(message) = message {
            if message.role.is_some_and(|r| r.is("assistant")) {
                self.assistant(record, message, number);
            } else if message.role.is_some_and(|r| r.is("toolResult")) {
                self.result(record, message, number, taker);
            }
        } else if entry.is("compaction") {
            let kept = match (key_of(entry.kept_id), entry.kept_index.and_then(|i| i.whole_number())) {
                (Some(id), _) => Kept::Id(id),
                // Number 0 is the header, which is no entry to keep.
                (None, index) => index.and_then(|n| n.checked_sub(1)).map_or(Kept::Nothing, Kept::Entry),
            };
            self.compactions.push(Compaction { entry: number, kept });
        } else if entry.is("context_edit") {
            self.edit(record, entry, number, taker);
        }
    }

    fn assistant(&mut self, record: &Record<'_>, message: &Message<'_>, entry: u64) {
        for block in message.content.into_iter().flat_map(|c| c.items()) {
            if block.get("type").is_some_and(|t| t.is("toolCall"))
                && let Some(id) = key_of(block.get("id"))
            {
                self.calls.push((id, entry));
            }
        }
        self.answers.push(record, entry, message);
    }

    fn result(&mut self, record: &Record<'_>, message: &Message<'_>, entry: u64, taker: &mut Taker<'_>) {
        if message.content.is_none_or(|c| c.kind() == Kind::Null) {
            self.without_content.get_or_insert(record.line);
        }
        let parts = content(message.content, taker);
        if message.content.is_some_and(|c| has_notice(c.raw())) {
            self.notices.0 += 1;
            self.notices.1.get_or_insert(record.line);
        }
        let mut response = kept::response(record, message.call, parts);
        response.tool = message.tool.and_then(owned_text);
        response.is_error = message.is_error.and_then(|e| e.boolean());
        let mut rest = Vec::new();
        for (name, value) in message.details.into_iter().flat_map(|d| d.entries()) {
            if !name.is("truncation") {
                leaves(value, &[], &mut rest);
                continue;
            }
            for (name, value) in value.entries() {
                if name.is("content") && value.kind() == Kind::String {
                    response.copies.extend(kept::copy(record, "details.truncation.content", taker.texts(value)));
                } else {
                    leaves(value, &[], &mut rest);
                }
            }
        }
        let parts = rest.into_iter().flat_map(|leaf| taker.texts(leaf)).collect();
        response.copies.extend(kept::copy(record, "details", parts));
        response.copies.shrink_to_fit();
        self.located.responses.push(response);
        self.origins.push(Origin { entry, call: key_of(message.call), target: None });
    }

    fn edit(&mut self, record: &Record<'_>, entry: &Entry<'_>, number: u64, taker: &mut Taker<'_>) {
        let Some(target) = key_of(entry.target) else { return };
        self.edits.push((number, target));
        if let Some(replacement) = entry.replacement.and_then(|r| r.get("content")) {
            let parts = content(Some(replacement), taker);
            self.located.responses.push(kept::response(record, None, parts));
            self.origins.push(Origin { entry: number, call: None, target: Some(target) });
        }
    }

    /// Gives every response its batch and its liveness, and replacements what they have from their target.
    fn settle(&mut self, tree: &Grown, sent: &Sent) {
        let results = self.origins.iter().enumerate().filter(|(_, o)| o.target.is_none());
        let replaced: HashMap<u64, usize> =
            results.filter(|(_, o)| sent.edited.contains_key(&o.entry)).map(|(index, o)| (o.entry, index)).collect();
        let settle = |(index, origin): (usize, &Origin)| {
            let source = match origin.target {
                None => index,
                // A replacement of something else than a result is no tool's.
                Some(id) => *replaced.get(&tree.entry(id)?)?,
            };
            let of = self.origins.get(source)?;
            let dead = sent.dead(of.entry, origin.entry);
            let assistant = of.call.and_then(|call| tree.nearest(of.entry, &candidates(&self.calls, call)));
            // A result and its replacement are never sent both, nor what stands on different branches.
            let message = assistant.filter(|_| dead != Some(SUPERSEDED)).map(|a| (a, sent.path.holds(of.entry)));
            Some(Settled { source, dead, message })
        };
        let settled: Vec<Option<Settled>> = self.origins.iter().enumerate().map(settle).collect();
        let mut batches: HashMap<(u64, bool), u64> = HashMap::new();
        let mut last = 0;
        let responses = &mut self.located.responses;
        for (index, settled) in settled.iter().enumerate() {
            let Some(settled) = settled else { continue };
            let mut new = || {
                last += 1;
                last
            };
            let batch = match settled.message {
                Some(message) => *batches.entry(message).or_insert_with(new),
                None => new(),
            };
            let source = responses.get(settled.source).filter(|_| settled.source != index);
            let source = source.map(|r| (r.id.clone(), r.tool.clone(), r.is_error));
            let Some(response) = responses.get_mut(index) else { continue };
            if let Some(source) = source {
                (response.id, response.tool, response.is_error) = source;
            }
            (response.batch, response.dead) = (batch, settled.dead);
        }
        let mut one = settled.iter();
        responses.retain(|_| one.next().is_some_and(Option::is_some));
        let mut one = settled.iter();
        self.origins.retain(|_| one.next().is_some_and(Option::is_some));
    }

    fn notes(&mut self) {
        let error = self.located.relics.iter().find(|relic| matches!(relic.kind, RelicKind::Error { .. }));
        if let Some(line) = error.map(|relic| relic.line) {
            self.note(line, STORED_ERROR);
        }
        if let Some(line) = self.without_content {
            self.note(line, "a tool result without content: pi 0.73 cannot build the context");
        }
        match self.notices {
            (1, Some(line)) => self.note(line, "a result that pi itself cut, as its notice says"),
            (n, Some(line)) => {
                let text = format!("{n} results that pi itself cut, as their notices say, this is the first");
                self.located.notes.push(Note { line: Some(line), text });
            }
            (_, None) => {}
        }
    }

    fn note(&mut self, line: u64, text: &str) {
        self.located.notes.push(Note { line: Some(line), text: text.into() });
    }
}

/// The parts of a content. It may be null or missing.
fn content(content: Option<Node<'_>>, taker: &mut Taker<'_>) -> Vec<Part> {
    let mut parts = Vec::with_capacity(1);
    if let Some(content) = content.filter(|c| !taker.content(*c, &mut parts)) {
        taker.broken(content, "the `content` of a tool result is neither a string nor a list of blocks");
    }
    parts
}

/// The assistants that made a call of this id.
fn candidates(calls: &[(Key, u64)], id: Key) -> Vec<u64> {
    let from = calls.partition_point(|(key, _)| *key < id);
    let these = calls.get(from..).unwrap_or_default().iter().take_while(|(key, _)| *key == id);
    these.map(|(_, entry)| *entry).collect()
}
