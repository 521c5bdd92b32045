//! What Copilot sends beside responses.
//!
//! Messages of the user's as they were transformed, of the assistant without its reasoning (sealed to a session, and dropped
//! on resume, as the schema says), system messages, skills, the summary of the last compaction. What subagents say is not the
//! main agent's. The tokens of a request are in events that are never written (`ephemeral`); the window is in those of a
//! compaction.

use crate::format::blocks::{self, size};
use crate::format::weigher::{Class, Sent, Weigher};
use crate::format::{Depth, Outline, Record, Response};
use crate::text::json::Node;

pub(super) struct Scale {
    weigher: Weigher,
    /// The last successful compaction, and what its summary weighs.
    summary: (u64, u64),
    /// What the last system message weighs: each takes the place of the one before.
    system: u64,
}

impl Scale {
    pub fn of(depth: Depth) -> Option<Self> {
        Some(Scale { weigher: Weigher::of(depth)?, summary: (0, 0), system: 0 })
    }

    /// Takes an event of the main agent.
    pub fn event(&mut self, record: &Record<'_>, kind: &str, data: Node<'_>) {
        let unit = record.index;
        let content = |key: &str| data.get(key).map_or(0, size);
        match kind {
            "session.start" | "session.resume" => self.weigher.named(data.get("selectedModel")),
            "session.model_change" => self.weigher.named(data.get("newModel")),
            "assistant.turn_start" => self.weigher.named(data.get("model")),
            "system.message" => self.system = content("content"),
            "skill.invoked" => self.weigher.add(unit, Class::Attachment, content("content")),
            "user.message" => self.user(unit, data),
            "assistant.message" => {
                self.weigher.answered(unit);
                self.weigher.named(data.get("model"));
                self.weigher.add(unit, Class::Assistant, content("content"));
                for request in data.get("toolRequests").into_iter().flat_map(|r| r.items()) {
                    self.weigher.add_blocks(unit, Class::Assistant, blocks::call(request));
                }
            }
            "session.compaction_complete" if data.get("success").is_none_or(|s| s.boolean() != Some(false)) => {
                self.summary = (unit, content("summaryContent"));
                self.window(data);
            }
            "session.compaction_complete" | "session.truncation" | "session.usage_info" => self.window(data),
            "session.context_cleared" => self.summary = (unit, 0),
            "session.error" => {
                let text = data.get("message").and_then(|m| m.text()).unwrap_or_default();
                let refused = data.get("statusCode").and_then(|s| s.whole_number()) == Some(413);
                let text = if refused { format!("413: {text}").into() } else { text };
                self.weigher.failed(unit, record.index, record.line, &text);
            }
            _ => {}
        }
    }

    fn user(&mut self, unit: u64, data: Node<'_>) {
        // A message whose source is another one than the user was put in by the agent.
        let own = data.get("source").and_then(|s| s.text()).is_none_or(|source| source == "user");
        let class = if own { Class::User } else { Class::Attachment };
        let text = data.get("transformedContent").filter(|t| size(*t) > 0).or_else(|| data.get("content"));
        self.weigher.add(unit, class, text.map_or(0, size));
        for attachment in data.get("attachments").into_iter().flat_map(|a| a.items()) {
            if attachment.get("type").is_some_and(|t| t.is("blob")) {
                self.weigher.add(unit, Class::Image, 1);
            }
            // Of a file only the path is here; of a selection the text.
            self.weigher.add(unit, Class::Attachment, attachment.get("text").map_or(0, size));
        }
        if own {
            self.weigher.turn(unit, unit);
        }
    }

    fn window(&mut self, data: Node<'_>) {
        let limit = data.get("tokenLimit").and_then(|n| n.whole_number()).filter(|limit| *limit > 0);
        self.weigher.window = limit.or(self.weigher.window);
    }

    /// `since`: the record before which nothing else is sent any more.
    pub fn finish<'a>(mut self, since: u64, responses: impl Iterator<Item = &'a Response> + Clone) -> Outline {
        let (summary, weight) = self.summary;
        self.weigher.add(summary, Class::Other, weight.saturating_add(self.system));
        let place = |unit: u64| (unit >= since || unit == summary).then_some(unit);
        let sent = Sent { place: &place, requests: since..u64::MAX, errors: since.max(summary), whole: u64::MAX };
        self.weigher.finish(&sent, responses.map(|r| (r.record, r)))
    }
}
