//! What Cline and its kin send beside results: text, thinking and calls of the assistant's messages, text and images of the
//! user's, and what the extension adds to those. Messages that a summary or a truncation stands for are not sent.

use std::collections::HashSet;

use crate::format::blocks::{self, size, starts};
use crate::format::weigher::{Class, Sent, Weigher};
use crate::format::{Depth, Outline, Response};
use crate::text::json::{Kind, Node};

/// What the extension puts into a user's message.
const ADDED: [&str; 4] = ["<environment_details>", "[ERROR]", "[TASK RESUMPTION]", "# task_progress"];
/// Above this a result of Cline's own store may be cut when it is sent: 8,000 characters.
const WHOLE: u64 = 8_000;

pub(super) struct Scale {
    weigher: Weigher,
    /// The message that is being read.
    index: u64,
    class: Class,
    asks: bool,
    own_store: bool,
}

impl Scale {
    pub fn of(depth: Depth) -> Option<Self> {
        let weigher = Weigher::of(depth)?;
        Some(Scale { weigher, index: 0, class: Class::Other, asks: false, own_store: false })
    }

    /// Takes the document.
    pub fn session(&mut self, root: Node<'_>) {
        self.own_store = root.get("messages").is_some();
        // It stands before the messages, and is sent whatever becomes of those.
        self.weigher.add(u64::MAX, Class::Other, root.get("system_prompt").map_or(0, size));
    }

    /// A message begins.
    pub fn message(&mut self, message: Node<'_>, stands_for_others: bool, index: u64) {
        (self.index, self.asks) = (index, false);
        let assistant = message.get("role").is_some_and(|r| r.is("assistant"));
        self.class = match assistant {
            _ if stands_for_others => Class::Other,
            true => Class::Assistant,
            false => Class::User,
        };
        if !assistant {
            return;
        }
        self.weigher.answered(index);
        let info = message.get("modelInfo");
        self.weigher.named(info.and_then(|i| i.get("id").or_else(|| i.get("modelId"))));
        // Whether `inputTokens` hold those from a cache differs by provider: only where there are none it is certain.
        let metrics = message.get("metrics");
        let tokens = |name| metrics.and_then(|m| m.get(name)).and_then(|n| n.whole_number()).unwrap_or(0);
        if tokens("cacheReadTokens") == 0 && tokens("cacheWriteTokens") == 0 {
            self.weigher.request(None, index, index, tokens("inputTokens"));
        }
    }

    /// Takes what is no result of the message's content: all of it, or a block.
    pub fn holds(&mut self, content: Node<'_>) {
        let text = if content.kind() == Kind::String { Some(content) } else { content.get("text") };
        let added = self.class == Class::User && text.is_some_and(|text| starts(text, &ADDED));
        self.asks |= self.class == Class::User && !added;
        let class = if added { Class::Attachment } else { self.class };
        self.weigher.add_blocks(self.index, class, blocks::content(content));
    }

    /// The message has ended. `user`: it is the user's, without any result.
    pub fn ends(&mut self, user: bool) {
        if user && self.asks {
            self.weigher.turn(self.index, self.index);
        }
    }

    /// `gone`: the messages that are not sent.
    pub fn finish(self, gone: &HashSet<u64>, responses: &[Response]) -> Outline {
        let place = |unit: u64| match unit {
            u64::MAX => Some(0),
            unit => (!gone.contains(&unit)).then_some(unit + 1),
        };
        // Requests before the last summary or truncation carried what that stands for.
        let since = gone.iter().max().map_or(0, |last| last + 2);
        let whole = if self.own_store { WHOLE } else { u64::MAX };
        let sent = Sent { place: &place, requests: since..u64::MAX, errors: 0, whole };
        self.weigher.finish(&sent, responses.iter().map(|r| (r.record + 1, r)))
    }
}
