//! What Qwen Code sends beside responses.
//!
//! The parts of the records on the chain, thoughts among them: versions differ in whether they send those again. From the
//! last compression on, its history stands for all before it. Failed requests are kept as telemetry (`telemetry/loggers.ts`:
//! `qwen-code.api_error`), under the chain like any other record.

use crate::format::blocks::{self, answers};
use crate::format::jsonlines::Texts;
use crate::format::kept::key_of;
use crate::format::weigher::{Class, Sent, Weigher};
use crate::format::{Depth, Outline, Response};
use crate::text::json::Node;

pub(super) struct Scale {
    weigher: Weigher,
}

impl Scale {
    pub fn of(depth: Depth) -> Option<Self> {
        Some(Scale { weigher: Weigher::of(depth)? })
    }

    /// Takes a record, and its number in the tree.
    pub fn line(&mut self, texts: &mut Texts<'_, '_>, line: Node<'_>, kind: &str, node: u64) {
        let parts = line.at(&["message", "parts"]);
        match kind {
            "user" => {
                // Of a record of a kind of its own the agent is the author, though it speaks as the user.
                let own = line.get("subtype").is_none();
                let class = if own { Class::User } else { Class::Attachment };
                let mut asks = own;
                for part in parts.into_iter().flat_map(|p| p.items()) {
                    asks &= !answers(part);
                    self.weigher.add_blocks(node, class, blocks::block(part));
                }
                if asks {
                    self.weigher.turn(node, texts.number);
                }
            }
            "assistant" => {
                self.weigher.answered(node);
                self.weigher.named(line.get("model"));
                let tokens = line.at(&["usageMetadata", "promptTokenCount"]).and_then(|n| n.whole_number());
                self.weigher.request(key_of(line.get("uuid")), node, texts.number, tokens.unwrap_or(0));
                self.weigher.add_blocks(node, Class::Assistant, parts.map(blocks::content).unwrap_or_default());
            }
            "system" => self.system(texts, line, node),
            _ => {}
        }
    }

    fn system(&mut self, texts: &mut Texts<'_, '_>, line: Node<'_>, node: u64) {
        let subtype = line.get("subtype").and_then(|s| s.text()).unwrap_or_default();
        if subtype == "chat_compression" {
            let history = line.at(&["systemPayload", "compressedHistory"]);
            for content in history.into_iter().flat_map(|h| h.items()) {
                let model = content.get("role").is_some_and(|role| role.is("model"));
                // What speaks as the user here is the summary.
                let class = if model { Class::Assistant } else { Class::Other };
                let held = content.get("parts").map(blocks::content).unwrap_or_default();
                self.weigher.add_blocks(node, class, held);
            }
        } else if subtype == "ui_telemetry"
            && let Some(event) = line.at(&["systemPayload", "uiEvent"])
            && event.get("event.name").is_some_and(|name| name.is("qwen-code.api_error"))
        {
            let text = ["error_message", "error"].iter().find_map(|key| event.get(key)?.text());
            let at = texts.line(line.range().start);
            self.weigher.failed(node, texts.number, at, &text.unwrap_or_default());
        }
    }

    /// `base`: the last compression. `responses`: each with its record's number in the tree.
    pub fn finish<'a>(
        self,
        on_chain: &dyn Fn(u64) -> bool,
        base: Option<u64>,
        responses: impl Iterator<Item = (u64, &'a Response)> + Clone,
    ) -> Outline {
        let base = base.unwrap_or(0);
        let place = |node: u64| (node >= base && on_chain(node)).then_some(node);
        let sent = Sent { place: &place, requests: base..u64::MAX, errors: base, whole: u64::MAX };
        self.weigher.finish(&sent, responses)
    }
}
