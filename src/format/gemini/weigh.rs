//! What Gemini CLI sends beside responses, as a resumed session does (`utils/sessionUtils.ts`): messages of the user's, but
//! for those that begin with `/` or `?`; texts and calls of the model, without its thoughts; nothing else.

use std::collections::{HashMap, HashSet};

use super::super::blocks::{self, answers, starts};
use super::super::jsonlines::Texts;
use super::super::weigher::{Class, Sent, Weigher};
use super::super::{Depth, Outline, Response};
use super::found::Message;
use crate::text::json::{Kind, Node};

/// What the agent puts before the user's first message.
const CONTEXT: [&str; 1] = ["<session_context>"];
/// Commands, which are not sent.
const COMMANDS: [&str; 2] = ["/", "?"];

/// Its units are the numbers of messages as they come, of an id that comes again too.
#[derive(Default)]
pub(super) struct Scale {
    weigher: Weigher,
    /// The message that stands for each id, and the one that was the first of it: there it stands in what is sent.
    live: HashMap<u64, u64>,
    first: HashMap<u64, u64>,
    /// Where it is not its own place.
    places: HashMap<u64, u64>,
    /// Messages without an id that another one could take the place of.
    fixed: bool,
    /// The last message of the last checkpoint.
    since: u64,
    last: u64,
}

impl Scale {
    pub fn of(depth: Depth) -> Option<Self> {
        Some(Scale { weigher: Weigher::of(depth)?, ..Scale::default() })
    }

    pub fn message(&mut self, key: Option<u64>, message: &Message<'_>, texts: &mut Texts<'_, '_>, unit: u64) {
        self.last = unit;
        match key {
            Some(key) => {
                let first = *self.first.entry(key).or_insert(unit);
                self.live.insert(key, unit);
                if first != unit {
                    self.places.insert(unit, first);
                }
            }
            None => self.fixed = true,
        }
        let Some(node) = message.node else { return };
        match node.get("type").and_then(|t| t.text()).as_deref() {
            Some("user") => self.user(message.content, texts, unit),
            Some("gemini") => self.model(node, message, texts, unit),
            Some("error") => {
                let text = message.content.and_then(text_of).unwrap_or_default();
                let line = texts.line(node.range().start);
                self.weigher.failed(unit, texts.number, line, &text);
            }
            _ => {}
        }
    }

    fn user(&mut self, content: Option<Node<'_>>, texts: &mut Texts<'_, '_>, unit: u64) {
        let Some(content) = content else { return };
        let parts = || content.items().chain((content.kind() != Kind::Array).then_some(content));
        let text = |part: Node<'_>, with: &[&str]| {
            let text = if part.kind() == Kind::String { Some(part) } else { part.get("text") };
            text.is_some_and(|text| starts(text, with))
        };
        let first = parts().next();
        if first.is_none_or(|first| text(first, &COMMANDS)) {
            return;
        }
        let context = first.is_some_and(|first| text(first, &CONTEXT));
        let class = if context { Class::Attachment } else { Class::User };
        parts().for_each(|part| self.weigher.add_blocks(unit, class, blocks::block(part)));
        if !context && !parts().any(answers) {
            self.weigher.turn(unit, texts.number);
        }
    }

    fn model(&mut self, node: Node<'_>, message: &Message<'_>, texts: &mut Texts<'_, '_>, unit: u64) {
        self.weigher.answered(unit);
        self.weigher.named(node.get("model"));
        let tokens = node.at(&["tokens", "input"]).and_then(|n| n.whole_number()).unwrap_or(0);
        self.weigher.request(None, unit, texts.number, tokens);
        let held = message.content.map(blocks::content).unwrap_or_default();
        self.weigher.add_blocks(unit, Class::Assistant, held);
        for call in message.calls.into_iter().flat_map(|calls| calls.items()) {
            self.weigher.add_blocks(unit, Class::Assistant, blocks::call(call));
        }
    }

    /// A message is not sent any more. `again`: another one of its id takes its place.
    pub fn bury(&mut self, key: u64, again: bool) {
        self.live.remove(&key);
        if !again {
            self.first.remove(&key);
        }
    }

    /// No message so far is.
    pub fn bury_all(&mut self) {
        self.live.clear();
        self.first.clear();
    }

    /// The messages so far were a checkpoint, which may hold less than what was sent before it.
    pub fn checkpoint(&mut self) {
        self.since = self.last;
    }

    /// `responses`: each with the number of its message.
    pub fn finish<'a>(self, responses: impl Iterator<Item = (u64, &'a Response)> + Clone) -> Outline {
        let live: HashSet<u64> = self.live.into_values().collect();
        let at = |unit: u64| self.places.get(&unit).copied().unwrap_or(unit);
        let place = |unit: u64| (self.fixed || live.contains(&unit)).then(|| at(unit));
        let requests = self.since + 1..u64::MAX;
        let sent = Sent { place: &place, requests, errors: 0, whole: u64::MAX };
        self.weigher.finish(&sent, responses.map(|(unit, response)| (at(unit), response)))
    }
}

fn text_of(content: Node<'_>) -> Option<String> {
    let first = content.items().next().and_then(|part| part.get("text"));
    first.or(content.get("text")).unwrap_or(content).text().map(std::borrow::Cow::into_owned)
}
