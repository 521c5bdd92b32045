//! What pi sends beside results.
//!
//! Messages and `custom_message` on the way to the leaf, from what the latest compaction keeps; its summary, and those of
//! branches; of a message that a `context_edit` replaces, the replacement. An assistant that failed or was aborted is not
//! sent, and of a `!!command` neither text nor output.

use std::collections::HashMap;

use super::entry::Message;
use super::sent::{Compaction, Sent};
use super::tree::Grown;
use crate::format::blocks::{self, Held, size};
use crate::format::kept::{Key, key_of};
use crate::format::weigher::{self, Class, Weigher};
use crate::format::{Depth, Outline, Record, Response};
use crate::text::json::Node;

pub(super) struct Scale {
    weigher: Weigher,
    /// What `context_edit` entries put in the place of others: entry, key of the target, what is there.
    edits: Vec<(u64, Key, Held)>,
}

impl Scale {
    pub fn of(depth: Depth) -> Option<Self> {
        Some(Scale { weigher: Weigher::of(depth)?, edits: Vec::new() })
    }

    /// Of version 1: later ones have an entry for the model.
    pub fn header(&mut self, root: Node<'_>) {
        self.weigher.named(root.get("modelId"));
    }

    /// Takes the entry that will have this number.
    pub fn entry(&mut self, record: &Record<'_>, root: Node<'_>, message: Option<&Message<'_>>, entry: u64) {
        let kind = root.get("type").and_then(|t| t.text());
        let summary = || root.get("summary").map_or(0, size);
        match kind.as_deref() {
            Some("message") => {
                if let Some(message) = message {
                    self.message(record, message, entry);
                }
            }
            Some("custom_message") => {
                let held = root.get("content").map(blocks::content).unwrap_or_default();
                self.weigher.add_blocks(entry, Class::Attachment, held);
            }
            Some("compaction" | "branch_summary") => self.weigher.add(entry, Class::Other, summary()),
            Some("model_change") => self.weigher.named(root.get("modelId")),
            Some("context_edit") => {
                if let Some(target) = key_of(root.get("targetId")) {
                    let replacement = root.at(&["replacement", "content"]);
                    self.edits.push((entry, target, replacement.map(blocks::content).unwrap_or_default()));
                }
            }
            _ => {}
        }
    }

    fn message(&mut self, record: &Record<'_>, message: &Message<'_>, entry: u64) {
        let held = || message.content.map(blocks::content).unwrap_or_default();
        match message.role.and_then(|r| r.text()).as_deref() {
            Some("user") => {
                self.weigher.turn(entry, record.index);
                self.weigher.add_blocks(entry, Class::User, held());
            }
            Some("assistant") => self.assistant(record, message, entry, held()),
            Some("toolResult") => {}
            Some("bashExecution") if message.excluded => {}
            // What the user ran is sent as the user's text.
            Some("bashExecution") => {
                let texts = [message.command, message.output].into_iter().flatten();
                texts.for_each(|text| self.weigher.add(entry, Class::User, size(text)));
            }
            _ => self.weigher.add_blocks(entry, Class::Attachment, held()),
        }
    }

    fn assistant(&mut self, record: &Record<'_>, message: &Message<'_>, entry: u64, held: Held) {
        self.weigher.named(message.model);
        if message.stop.is_some_and(|s| s.is("error") || s.is("aborted")) {
            let text = message.error.and_then(|e| e.text()).unwrap_or_default();
            return self.weigher.failed(entry, record.index, record.line, &text);
        }
        self.weigher.answered(entry);
        let tokens = |name| message.usage.and_then(|u| u.get(name)).and_then(|n| n.whole_number()).unwrap_or(0);
        let tokens = ["input", "cacheRead", "cacheWrite"].map(tokens).into_iter().fold(0, u64::saturating_add);
        self.weigher.request(None, entry, record.index, tokens);
        self.weigher.add_blocks(entry, Class::Assistant, held);
    }

    /// `responses`: each with its entry.
    pub fn finish<'a>(
        mut self,
        tree: &Grown,
        sent: &Sent,
        compactions: &[Compaction],
        responses: impl Iterator<Item = (u64, &'a Response)> + Clone,
    ) -> Outline {
        // The edits in force, with the place they take.
        let mut places: HashMap<u64, u64> = HashMap::new();
        let edits = std::mem::take(&mut self.edits);
        let last_edit = edits.iter().rev().map(|(entry, ..)| *entry).find(|entry| sent.path.holds(*entry));
        let in_force = edits.into_iter().filter_map(|(entry, target, held)| {
            let target = tree.entry(target)?;
            // What replaces a result is a response of its own: the result has no class here.
            let class = self.weigher.class(target).filter(|_| sent.edited.get(&target) == Some(&Some(entry)))?;
            Some((entry, target, class, held))
        });
        for (entry, target, class, held) in in_force.collect::<Vec<_>>() {
            places.insert(entry, target);
            self.weigher.add_blocks(entry, class, held);
        }
        let place = |unit: u64| {
            let edit = places.get(&unit).copied();
            let at = edit.unwrap_or(unit);
            let replaced = edit.is_none() && sent.edited.get(&unit).is_some_and(Option::is_some);
            let summary = compactions.binary_search_by_key(&unit, |c| c.entry).is_ok();
            let superseded = summary && sent.latest != Some(unit);
            (sent.path.holds(unit) && at >= sent.kept && !replaced && !superseded).then_some(at)
        };
        // What a request before an edit carried is not what is live now.
        let after = |entry: Option<u64>| entry.map_or(0, |entry| entry + 1);
        let requests = after(sent.latest.max(last_edit))..u64::MAX;
        let sent = weigher::Sent { place: &place, requests, errors: after(sent.latest), whole: u64::MAX };
        self.weigher.finish(&sent, responses)
    }
}
