//! The locators of Gemini CLI's sessions: of the log, and of the older document.

use std::collections::HashSet;

use super::super::jsonlines::{self, Line, Texts};
use super::super::{Broken, Depth, Located, Locator, Note, Record};
use super::found::{Found, Message, SUPERSEDED};
use crate::text::json::{Index, Kind, Node};

/// The locator of a log.
#[derive(Default)]
pub(super) struct Finder {
    found: Found,
    log: Log,
    /// Whether a line gave the ids without which the agent does not read the file as a log.
    headed: bool,
    lines: u64,
}

impl Locator for Finder {
    fn record(&mut self, record: &Record<'_>) {
        let mut index = Index::default();
        let line = match jsonlines::read(record, &mut index) {
            Line::Blank => return,
            Line::Broken(broken) => return self.found.located.broken.push(broken),
            Line::Object(line) => line,
        };
        self.lines += 1;
        let mut texts = Texts::new(record);
        self.line(line, &mut texts);
        self.found.located.broken.append(&mut texts.broken);
    }

    fn finish(mut self: Box<Self>) -> Located {
        if self.lines > 0 && !self.headed {
            let text = "no line has `sessionId` and `projectHash`: Gemini CLI cannot load the session".to_owned();
            self.found.located.notes.push(Note { line: None, text });
        }
        self.found.finish()
    }
}

impl Finder {
    pub(super) fn new(depth: Depth) -> Self {
        Finder { found: Found::new(depth), ..Finder::default() }
    }

    /// In the order in which the agent asks what a line is.
    fn line(&mut self, line: Node<'_>, texts: &mut Texts<'_, '_>) {
        let seen = Message::of(line);
        let ids = |node: Node<'_>| {
            ["sessionId", "projectHash"].iter().all(|key| node.get(key).is_some_and(|id| id.kind() == Kind::String))
        };
        if let Some(id) = seen.rewind.and_then(|id| id.text()) {
            for dropped in self.log.rewind(jsonlines::key(&id)) {
                self.found.bury(dropped, "rewound");
            }
        } else if seen.id.is_some_and(|id| id.kind() == Kind::String) {
            self.message(&seen, texts);
        } else if let Some(set) = seen.set.filter(|set| set.kind() == Kind::Object) {
            self.headed |= ids(set);
            if let Some(messages) = set.get("messages").filter(|m| m.kind() == Kind::Array) {
                self.log.keys.clear();
                self.found.bury_all("before the last checkpoint");
                messages.items().for_each(|message| self.message(&Message::of(message), texts));
                if let Some(scale) = &mut self.found.scale {
                    scale.checkpoint();
                }
            }
        } else if ids(line) {
            self.headed = true;
            let messages = line.get("messages").into_iter().flat_map(|m| m.items());
            messages.for_each(|message| self.message(&Message::of(message), texts));
        }
    }

    fn message(&mut self, message: &Message<'_>, texts: &mut Texts<'_, '_>) {
        let Some(id) = message.id.and_then(|id| id.text()) else { return };
        let key = jsonlines::key(&id);
        self.found.bury(key, SUPERSEDED);
        self.log.push(key);
        self.found.message(Some(key), message, texts);
    }
}

/// The locator of a document.
pub(super) struct Document {
    found: Found,
}

impl Document {
    pub(super) fn new(depth: Depth) -> Self {
        Document { found: Found::new(depth) }
    }
}

impl Locator for Document {
    fn record(&mut self, record: &Record<'_>) {
        let broken = &mut self.found.located.broken;
        let mut whole = |at: usize, what: &str| {
            broken.push(Broken { at: record.offset + at as u64, what: what.to_owned(), whole: true });
        };
        let mut index = Index::default();
        let root = match Node::indexed(record.bytes, &mut index) {
            Ok(root) => root,
            Err(_) if record.bytes.starts_with(b"\xef\xbb\xbf") => {
                return whole(0, "a byte order mark, which the agent refuses; remove the first three bytes");
            }
            Err(e) => return whole(e.at, e.what),
        };
        let Some(messages) = root.get("messages").filter(|m| m.kind() == Kind::Array) else {
            return whole(0, "expected an object with an array of `messages`");
        };
        let mut texts = Texts::new(record);
        for (number, message) in (0..).zip(messages.items()) {
            texts.number = number;
            if message.kind() == Kind::Object {
                self.found.message(None, &Message::of(message), &mut texts);
            } else {
                let what = format!("message {number} is not an object");
                texts.broken.push(Broken { at: texts.offset(message), what, whole: false });
            }
        }
        self.found.located.broken.append(&mut texts.broken);
    }

    fn finish(self: Box<Self>) -> Located {
        self.found.finish()
    }
}

/// The ids of the messages as the agent keeps them: in the order in which each first came, whatever came again.
#[derive(Default)]
struct Log {
    /// A key for each line of a message. Keys that come again are kept too: millions of lines cost eight bytes each.
    keys: Vec<u64>,
}

impl Log {
    fn push(&mut self, key: u64) {
        if self.keys.last() != Some(&key) {
            self.keys.push(key);
        }
    }

    /// Drops a message and all that first came after it, and gives their keys. Of an unknown one all are dropped.
    fn rewind(&mut self, to: u64) -> HashSet<u64> {
        let from = self.keys.iter().position(|key| *key == to).unwrap_or(0);
        let (earlier, later) = self.keys.split_at(from);
        let mut dropped: HashSet<u64> = later.iter().copied().collect();
        for key in earlier {
            dropped.remove(key);
        }
        self.keys.truncate(from);
        dropped
    }
}
