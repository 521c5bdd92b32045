//! What Codex sends beside outputs.
//!
//! Every item of the history is sent again, encrypted reasoning too, of which only a readable summary has bytes here. The
//! base instructions are sent with each request. A history that replaces another begins anew; without one the agent keeps
//! what the user said, up to a limit of its own, and all of it counts here.
//!
//! What the provider counted stands in `token_count`, behind the answer: it is that of the last run of items the assistant
//! made. A request that was too large leaves no error (`Error` is not persisted, `rollout/src/policy.rs`), but the agent
//! then sets the tokens used to the whole window, and to nothing else (`TokenUsageInfo::fill_to_context_window`).

use super::locate::CALLS;
use crate::format::blocks::{self, size, structured};
use crate::format::weigher::{self, Class, Weigher};
use crate::format::{Depth, Outline, Record, Response};
use crate::text::json::{Kind, Node};
use crate::text::literal::Encoding;

/// Above this an output may be cut again when it is sent: the least of the agent's budgets for one, in bytes.
const WHOLE: u64 = 10_000;
/// The unit of the base instructions, before all others.
const BASE: u64 = 0;

pub(super) struct Scale {
    weigher: Weigher,
    /// What the base instructions weigh: no history takes their place.
    base: u64,
    /// A unit for each item.
    unit: u64,
    /// The units of the responses, in the order they are found in.
    responses: Vec<u64>,
    /// The first of the last run of items that the assistant made, and whether it goes on.
    run: Option<(u64, u64)>,
    in_run: bool,
    /// The units of the user's turns.
    turns: Vec<u64>,
    /// From where on answers count: those before were to another history.
    since: u64,
}

impl Scale {
    pub fn of(depth: Depth) -> Option<Self> {
        let weigher = Weigher::of(depth)?;
        let (responses, turns) = (Vec::new(), Vec::new());
        Some(Scale { weigher, base: 0, unit: BASE, responses, run: None, in_run: false, turns, since: 0 })
    }

    /// Takes a line, before its items.
    pub fn line(&mut self, record: &Record<'_>, kind: &str, payload: Node<'_>) {
        match kind {
            "session_meta" => {
                let base = payload.at(&["base_instructions", "text"]).or_else(|| payload.get("instructions"));
                self.base = base.map_or(self.base, size);
            }
            "turn_context" => self.weigher.named(payload.get("model")),
            "event_msg" => self.event(record, payload),
            _ => {}
        }
    }

    fn event(&mut self, record: &Record<'_>, event: Node<'_>) {
        let window = |of: Node<'_>| of.get("model_context_window").and_then(|n| n.whole_number());
        match event.get("type").and_then(|t| t.text()).as_deref() {
            Some("task_started" | "turn_started") => self.weigher.window = window(event).or(self.weigher.window),
            Some("error" | "stream_error") => {
                let info = event.get("codex_error_info").and_then(|i| i.text()).unwrap_or_default();
                let text = event.get("message").and_then(|m| m.text()).unwrap_or_default();
                let text = if weigher::overflows(&text) { text } else { format!("{text} {info}").into() };
                self.failed(record, text.trim());
            }
            Some("token_count") => {
                let Some(info) = event.get("info") else { return };
                self.weigher.window = window(info).or(self.weigher.window);
                let count = |path: &[&str]| info.at(path).and_then(|n| n.whole_number()).unwrap_or(0);
                let input = count(&["last_token_usage", "input_tokens"]);
                let used = count(&["total_token_usage", "total_tokens"]);
                if let Some((unit, record)) = self.run {
                    self.weigher.request(None, unit, record, input);
                }
                let none = input == 0 && count(&["total_token_usage", "input_tokens"]) == 0;
                if used > 0 && Some(used) == window(info) && none {
                    let text = format!("context_window_exceeded: all {used} tokens of the window are used");
                    self.failed(record, &text);
                }
            }
            _ => {}
        }
    }

    fn failed(&mut self, record: &Record<'_>, text: &str) {
        self.unit += 1;
        self.weigher.failed(self.unit, record.index, record.line, text);
    }

    /// Takes an item of the history that is no response. `turn`: a turn of the user's begins with it.
    pub fn item(&mut self, record: u64, item: Node<'_>, kind: &str, turn: bool) {
        self.unit += 1;
        let unit = self.unit;
        let role = item.get("role").and_then(|r| r.text());
        let class = match (kind, role.as_deref()) {
            (kind, _) if CALLS.contains(&kind) => Class::Assistant,
            ("reasoning", _) | ("message", Some("assistant")) => Class::Assistant,
            ("message", Some("user")) if turn => Class::User,
            ("message", Some("user")) => Class::Attachment,
            _ => Class::Other,
        };
        let made = class == Class::Assistant;
        if made && !self.in_run {
            self.run = Some((unit, record));
        }
        self.in_run = made;
        if made {
            self.weigher.answered(unit);
        }
        if turn {
            self.turns.push(unit);
            self.weigher.turn(unit, record);
        }
        for (key, value) in item.entries() {
            match key.text().as_deref() {
                Some("content" | "summary") => self.weigher.add_blocks(unit, class, blocks::content(value)),
                Some("name" | "input") => self.weigher.add(unit, class, size(value)),
                Some("arguments") if value.kind() == Kind::String => self.weigher.add(unit, class, size(value)),
                Some("arguments" | "action" | "tools") => {
                    self.weigher.add(unit, class, structured(value, Encoding::Plain));
                }
                Some("result") if kind == "image_generation_call" => self.weigher.add(unit, Class::Image, 1),
                _ => {}
            }
        }
    }

    /// Takes a response that was just found.
    pub fn response(&mut self) {
        self.unit += 1;
        self.in_run = false;
        self.responses.push(self.unit);
    }

    /// Another history takes the place of all so far, or, where none is there, what the user said and a summary.
    pub fn compacted(&mut self, payload: Node<'_>) {
        let history = payload.get("replacement_history").is_some_and(|h| h.kind() == Kind::Array);
        self.weigher.restart(|piece| !history && piece.class == Class::User);
        self.unit += 1;
        if !history {
            self.weigher.add(self.unit, Class::Other, payload.get("message").map_or(0, size));
        }
        (self.since, self.run, self.in_run) = (self.unit + 1, None, false);
        self.turns.clear();
    }

    /// The newest turns are taken back.
    pub fn rolled_back(&mut self, turns: usize) {
        let index = self.turns.len().saturating_sub(turns);
        if let Some(first) = self.turns.get(index).copied() {
            self.weigher.take_back(first);
            self.turns.truncate(index);
            self.run = self.run.filter(|(unit, _)| *unit < first);
        }
    }

    /// A replaced history's answers are none of this one's requests.
    pub fn replaced(&mut self) {
        (self.since, self.run, self.in_run) = (self.unit + 1, None, false);
    }

    pub fn finish(mut self, responses: &[Response]) -> Outline {
        self.weigher.add(BASE, Class::Other, self.base);
        let requests = self.since..u64::MAX;
        let sent = weigher::Sent { place: &Some, errors: 0, requests, whole: WHOLE };
        let units = self.responses;
        self.weigher.finish(&sent, units.iter().copied().zip(responses))
    }
}
