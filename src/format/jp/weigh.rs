//! What JP sends beside responses: requests and answers of the chat, its reasoning, calls, and the system prompt of the
//! configuration; inquiries are answered apart. A compaction hides turns, or the reasoning or the calls in them, and may put
//! a summary there (`stream/projection.rs`). JP keeps no error, no tokens and no window.

use std::time::SystemTime;

use crate::format::blocks::{self, size, structured};
use crate::format::weigher::{Class, Sent, Weigher};
use crate::format::{Depth, Outline, Response};
use crate::text::json::{Kind, Node};
use crate::text::literal::Encoding;

/// The parts of a configuration that are the system prompt.
const PROMPTS: [&str; 3] = ["system_prompt", "instructions", "system_prompt_sections"];
/// What is sent with every request has this unit. All other units are twice the number of an event, and one more for the
/// arguments of a call.
const ALWAYS: u64 = u64::MAX;

/// What a compaction may hide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hideable {
    Said,
    Reasoning,
    Call,
    Arguments,
}

/// A compaction.
struct Compaction {
    turns: (u64, u64),
    time: Option<SystemTime>,
    summary: Option<u64>,
    reasoning: Option<bool>,
    /// Whether calls are left out, and whether their arguments are.
    calls: Option<(bool, bool)>,
}

pub(super) struct Scale {
    weigher: Weigher,
    /// For each unit its turn and what it is, ascending.
    units: Vec<(u64, u64, Hideable)>,
    compactions: Vec<Compaction>,
    /// What each part of the system prompt weighs, as the last configuration has it.
    prompts: [u64; 3],
    turns_marked: bool,
}

impl Scale {
    pub fn of(depth: Depth) -> Option<Self> {
        let (units, compactions) = (Vec::new(), Vec::new());
        Some(Scale { weigher: Weigher::of(depth)?, units, compactions, prompts: [0; 3], turns_marked: false })
    }

    /// Takes a configuration, or a change to one: what is there replaces.
    pub fn configure(&mut self, config: Node<'_>) {
        let Some(assistant) = config.get("assistant") else { return };
        for (prompt, name) in self.prompts.iter_mut().zip(PROMPTS) {
            if let Some(value) = assistant.get(name) {
                *prompt = blocks::loose(value).bytes;
            }
        }
        let id = assistant.at(&["model", "id"]);
        self.weigher.named(id.and_then(|id| if id.kind() == Kind::Object { id.get("name") } else { Some(id) }));
    }

    pub fn event(&mut self, event: Node<'_>, kind: &str, index: u64, turn: u64) {
        let text = |key: &str| event.get(key).map_or(0, size);
        match kind {
            "turn_start" => {
                self.turns_marked = true;
                self.begins(index, turn);
            }
            "chat_request" => {
                // Streams of before turns were marked, and their first turn.
                if !self.turns_marked {
                    self.begins(index, turn);
                }
                self.add(index, turn, Hideable::Said, Class::User, text("content"));
            }
            "chat_response" => {
                let data = event.get("data").map_or(0, |data| structured(data, Encoding::Plain));
                self.add(index, turn, Hideable::Said, Class::Assistant, text("message").saturating_add(data));
                self.add(index, turn, Hideable::Reasoning, Class::Assistant, text("reasoning"));
            }
            "tool_call_request" => {
                self.add(index, turn, Hideable::Call, Class::Assistant, text("name"));
                let arguments = event.get("arguments").map_or(0, |a| structured(a, Encoding::Base64));
                self.add(index, turn, Hideable::Arguments, Class::Assistant, arguments);
            }
            "compaction" => self.compaction(event),
            _ => {}
        }
    }

    fn begins(&mut self, index: u64, turn: u64) {
        self.mark(index * 2, turn, Hideable::Said);
        self.weigher.turn(index * 2, index);
    }

    fn add(&mut self, index: u64, turn: u64, what: Hideable, class: Class, amount: u64) {
        if amount > 0 {
            let unit = index * 2 + u64::from(what == Hideable::Arguments);
            self.mark(unit, turn, what);
            self.weigher.add(unit, class, amount);
        }
    }

    fn mark(&mut self, unit: u64, turn: u64, what: Hideable) {
        if self.units.last().is_none_or(|(last, ..)| *last < unit) {
            self.units.push((unit, turn, what));
        }
    }

    fn compaction(&mut self, event: Node<'_>) {
        let there = |name: &str| event.get(name).filter(|value| value.kind() != Kind::Null);
        let number = |name: &str| event.get(name).and_then(|n| n.whole_number());
        let omits = |policy: Node<'_>| policy.get("policy").is_some_and(|p| p.is("omit")) || policy.is("omit");
        self.compactions.push(Compaction {
            turns: (number("from_turn").unwrap_or(u64::MAX), number("to_turn").unwrap_or(0)),
            time: event
                .get("timestamp")
                .and_then(|t| t.text())
                .and_then(|time| humantime::parse_rfc3339_weak(&time).ok()),
            summary: there("summary").map(|summary| summary.get("summary").map_or_else(|| size(summary), size)),
            reasoning: there("reasoning").map(|_| true),
            calls: there("tool_calls").map(|policy| {
                let omits = omits(policy);
                (omits, omits || policy.get("request").and_then(|r| r.boolean()) == Some(true))
            }),
        });
    }

    /// The newest word of the compactions on a turn. Of equally new ones the later counts, as for responses.
    fn word<T>(&self, turn: u64, of: impl Fn(&Compaction) -> Option<T>) -> Option<T> {
        let on = self.compactions.iter().filter(|c| c.turns.0 <= turn && turn <= c.turns.1);
        on.filter_map(|c| Some((c.time, of(c)?))).max_by_key(|(time, _)| *time).map(|(_, word)| word)
    }

    fn hides(&self, turn: u64, what: Hideable) -> bool {
        let calls = || self.word(turn, |c| c.calls).unwrap_or_default();
        self.word(turn, |c| c.summary).is_some()
            || match what {
                Hideable::Said => false,
                Hideable::Reasoning => self.word(turn, |c| c.reasoning).unwrap_or_default(),
                Hideable::Call => calls().0,
                Hideable::Arguments => calls().1,
            }
    }

    /// `shelved`: nothing of it is sent. `last`: the number of the last turn.
    pub fn finish(mut self, shelved: bool, last: u64, responses: &[Response]) -> Outline {
        self.weigher.add(ALWAYS, Class::Other, self.prompts.iter().sum());
        // A summary stands at the first turn of its range, where it is the newest word on that.
        let mut firsts: Vec<u64> = self.compactions.iter().map(|c| c.turns.0).filter(|turn| *turn <= last).collect();
        firsts.sort_unstable();
        firsts.dedup();
        for turn in firsts {
            let summary = self.word(turn, |c| c.summary.map(|size| (c.turns.0, size)));
            if let Some((_, size)) = summary.filter(|(first, _)| *first == turn) {
                self.weigher.add(ALWAYS, Class::Other, size);
            }
        }
        let weigher = std::mem::take(&mut self.weigher);
        let place = |unit: u64| match unit {
            _ if shelved => None,
            ALWAYS => Some(0),
            unit => {
                let at = self.units.binary_search_by_key(&unit, |(unit, ..)| *unit).ok()?;
                let (_, turn, what) = *self.units.get(at)?;
                (!self.hides(turn, what)).then_some(unit + 1)
            }
        };
        let sent = Sent { place: &place, requests: 0..u64::MAX, errors: 0, whole: u64::MAX };
        weigher.finish(&sent, responses.iter().map(|r| (r.record * 2 + 1, r)))
    }
}
