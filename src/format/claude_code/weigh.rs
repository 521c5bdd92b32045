//! What Claude Code sends beside results.
//!
//! Of an assistant line its text, its thinking and its calls; of a user line its text and images; attachments, which become
//! reminders. Lines that the client wrote for a failed request are not sent, `system`, `progress` and all other kinds
//! neither. A queued command is the user's, but begins no turn: the assistant was at work.

use std::ops::Range;

use super::line::Line;
use crate::format::blocks::{self, answers, size, starts};
use crate::format::kept::{Key, key_of};
use crate::format::weigher::{Class, Sent, Weigher};
use crate::format::{Depth, Outline, Record, Response};
use crate::text::json::{Kind, Node};

/// What the client puts into a user's message.
const REMINDERS: [&str; 2] = ["<system-reminder>", "<local-command-caveat>"];
/// What it writes as the user, though nobody asks anything.
const NO_TURNS: [&str; 5] = [
    "[Request interrupted by user",
    "<local-command-stdout>",
    "<local-command-stderr>",
    "<bash-stdout>",
    "<bash-stderr>",
];

pub(super) struct Scale {
    weigher: Weigher,
    /// The lines that hold something, with what tells live from dead.
    lines: Vec<(u64, Option<Key>, Option<Key>)>,
    /// The model of a subagent's lines.
    side_model: Weigher,
}

impl Scale {
    pub fn of(depth: Depth) -> Option<Self> {
        Some(Scale { weigher: Weigher::of(depth)?, lines: Vec::new(), side_model: Weigher::default() })
    }

    pub fn line(&mut self, record: &Record<'_>, line: &Line<'_>) {
        if line.speaks("assistant") {
            self.assistant(record, line);
        } else if line.speaks("user") {
            self.user(record, line);
        } else if let Some(attachment) = line.attachment.filter(|_| line.is("attachment")) {
            self.attachment(record, attachment);
        } else {
            return;
        }
        self.lines.push((record.index, key_of(line.uuid), line.thread()));
    }

    fn assistant(&mut self, record: &Record<'_>, line: &Line<'_>) {
        let (mut id, mut content, mut usage, mut model) = (None, None, None, None);
        for (name, value) in line.message.into_iter().flat_map(|m| m.entries()) {
            match name.text().as_deref() {
                Some("id") => id = Some(value),
                Some("content") => content = Some(value),
                Some("usage") => usage = Some(value),
                Some("model") => model = Some(value),
                _ => {}
            }
        }
        let unit = record.index;
        let synthetic = model.is_some_and(|m| m.is("<synthetic>"));
        if line.failed || synthetic {
            let first = content.into_iter().flat_map(|c| c.items()).find_map(|block| block.get("text"));
            let text = first.or(content).and_then(|t| t.text()).unwrap_or_default();
            self.weigher.failed(unit, record.index, record.line, &text);
        } else {
            self.weigher.answered(unit);
            if line.sidechain { &mut self.side_model } else { &mut self.weigher }.named(model);
            let tokens = |name| usage.and_then(|u| u.get(name)).and_then(|n| n.whole_number()).unwrap_or(0);
            let tokens = ["input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"].map(tokens);
            self.weigher.request(key_of(id), unit, record.index, tokens.into_iter().fold(0, u64::saturating_add));
        }
        if let Some(content) = content.filter(|_| !line.failed) {
            self.weigher.add_blocks(unit, Class::Assistant, blocks::content(content));
        }
    }

    fn user(&mut self, record: &Record<'_>, line: &Line<'_>) {
        let Some(content) = line.message.and_then(|m| m.get("content")) else { return };
        let (mut asks, mut answered) = (false, false);
        let alone = (content.kind() == Kind::String).then_some(content);
        for block in content.items().chain(alone) {
            if answers(block) {
                answered = true;
                continue;
            }
            let text = if block.kind() == Kind::String { Some(block) } else { block.get("text") };
            let class = match text {
                _ if line.summary => Class::Other,
                _ if line.meta => Class::Attachment,
                Some(text) if starts(text, &REMINDERS) => Class::Attachment,
                text => {
                    asks |= !text.is_some_and(|text| size(text) == 0 || starts(text, &NO_TURNS));
                    Class::User
                }
            };
            self.weigher.add_blocks(record.index, class, blocks::block(block));
        }
        if asks && !answered {
            self.weigher.turn(record.index, record.index);
        }
    }

    /// What is attached: the text the client makes of it is near to what it keeps of it.
    fn attachment(&mut self, record: &Record<'_>, attachment: Node<'_>) {
        let queued =
            attachment.get("prompt").filter(|_| attachment.get("type").is_some_and(|t| t.is("queued_command")));
        if let Some(prompt) = queued {
            return self.weigher.add_blocks(record.index, Class::User, blocks::content(prompt));
        }
        // Other fields of an attachment that has a content say it again, for the screen.
        let held = blocks::loose(attachment.get("content").unwrap_or(attachment));
        self.weigher.add_blocks(record.index, Class::Attachment, held);
    }

    /// `requests`: the lines of answers whose requests carried what is live now.
    pub fn finish(
        mut self,
        main: bool,
        requests: Range<u64>,
        dead: &dyn Fn(u64, Option<Key>, Option<Key>) -> bool,
        responses: &[Response],
    ) -> Outline {
        if self.weigher.model.is_none() || !main {
            self.weigher.model = self.side_model.model.or(self.weigher.model);
        }
        let lines = self.lines;
        let place = |unit: u64| {
            let at = lines.binary_search_by_key(&unit, |(record, ..)| *record).ok()?;
            let (record, uuid, thread) = *lines.get(at)?;
            (!dead(record, uuid, thread)).then_some(record)
        };
        let sent = Sent { place: &place, errors: requests.start, requests, whole: u64::MAX };
        self.weigher.finish(&sent, responses.iter().map(|r| (r.record, r)))
    }
}
