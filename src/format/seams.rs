//! Where batches end in streams of lines: see [`crate::skim`].
//!
//! Each of these is a record that its agent only writes once every result of the assistant message before it is written:
//! the provider refuses a request in which a call is unanswered. Where an agent may write otherwise (Claude Code's sidechains
//! inside a session), the record is no seam, and the stream is read. Copilot has none: its subagents work in the background,
//! and the results of one agent's message may stand on both sides of another's.

use super::Seams;
use crate::text::json::Node;

/// Records of a kind, told by one look at their parsed line.
pub(super) struct Kind {
    needle: &'static [u8],
    /// The key of the assistant message, where the line is one.
    key: fn(Node<'_>) -> Option<u64>,
}

impl Seams for Kind {
    fn needle(&self) -> &[u8] {
        self.needle
    }

    fn seam(&self, record: &[u8]) -> Option<u64> {
        (self.key)(Node::document(record).ok()?)
    }
}

fn key(text: Option<Node<'_>>) -> Option<u64> {
    text.and_then(|t| t.text()).map(|t| super::jsonlines::key(&t))
}

fn is(node: Node<'_>, path: &[&str], text: &str) -> bool {
    node.at(path).is_some_and(|n| n.is(text))
}

/// Claude Code: an assistant line of the main chain, by its message's id.
pub(super) static CLAUDE_CODE: Kind = Kind {
    needle: br#""assistant""#,
    key: |line| {
        let side = line.get("isSidechain").and_then(|n| n.boolean()) == Some(true);
        key(line.at(&["message", "id"])).filter(|_| is(line, &["type"], "assistant") && !side)
    },
};

/// pi: an assistant entry, by its id.
pub(super) static PI: Kind = Kind {
    needle: br#""assistant""#,
    key: |line| key(line.get("id")).filter(|_| is(line, &["message", "role"], "assistant")),
};

/// Codex: a message of the assistant's ends the run of calls before it. Its time tells one from another.
pub(super) static CODEX: Kind = Kind {
    needle: br#""assistant""#,
    key: |line| {
        let message = is(line, &["payload", "type"], "message") && is(line, &["payload", "role"], "assistant");
        key(line.get("timestamp")).filter(|_| is(line, &["type"], "response_item") && message)
    },
};

/// Qwen Code: an assistant line, by its id.
pub(super) static QWEN: Kind =
    Kind { needle: br#""assistant""#, key: |line| key(line.get("uuid")).filter(|_| is(line, &["type"], "assistant")) };

/// Formats that keep a whole batch in one line: every line is a seam.
pub(super) struct EveryLine;

impl Seams for EveryLine {
    fn needle(&self) -> &[u8] {
        b"}"
    }

    fn seam(&self, record: &[u8]) -> Option<u64> {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut hasher = DefaultHasher::new();
        record.hash(&mut hasher);
        Some(hasher.finish())
    }
}
