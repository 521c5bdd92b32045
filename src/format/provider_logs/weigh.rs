//! What a logged request carries beside results. Each line of a log is a request of its own: the last one counts, and of the
//! responses only its own. Of an agent's log that is what the next request would carry, but for the answer to it.

use super::ARRAYS;
use crate::format::blocks::{self, structured};
use crate::format::weigher::{Class, Sent, Weigher};
use crate::format::{Depth, Framing, Outline, Record, Response};
use crate::text::json::{Kind, Node};
use crate::text::literal::Encoding;

/// Where interfaces have the system prompt beside the messages.
const PROMPTS: [&str; 4] = ["system", "instructions", "systemInstruction", "system_instruction"];
/// Where they have the descriptions of tools.
const TOOLS: [&str; 3] = ["tools", "functions", "toolConfig"];
/// Where they count the tokens of the prompt: under `usage` or what Gemini calls it. Those of a cache are apart with some.
const USAGES: [&str; 2] = ["usage", "usageMetadata"];
const TOKENS: [&str; 8] = [
    "prompt_tokens",
    "promptTokenCount",
    "input_tokens",
    "inputTokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
    "cacheReadInputTokens",
    "cacheWriteInputTokens",
];

/// Where a response of the interface has what the model answered.
const OUTPUT: &str = "output";
/// The unit of what the model answered, behind the request.
const ANSWER: u64 = u64::MAX - 1;

pub(super) struct Scale {
    weigher: Weigher,
    /// The first response of the last request.
    first: usize,
    /// Whether a record is a line, and not an element of the messages.
    lines: bool,
}

impl Scale {
    pub fn of(depth: Depth, framing: Framing) -> Option<Self> {
        Some(Scale { weigher: Weigher::of(depth)?, first: 0, lines: framing == Framing::Lines })
    }

    /// Takes a request, of whose responses this was the first.
    pub fn request(&mut self, record: &Record<'_>, root: Node<'_>, first: usize) {
        let alone = (root.kind() == Kind::Array).then_some(("messages", root));
        let arrays = root.entries().filter_map(|(key, value)| {
            let name = ARRAYS.iter().find(|name| key.is(name))?;
            (value.kind() == Kind::Array).then_some((*name, value))
        });
        let arrays: Vec<(&str, Node<'_>)> = alone.into_iter().chain(arrays).collect();
        // A line that holds an answer alone goes with the request before it.
        if arrays.iter().any(|(name, _)| *name != OUTPUT) {
            self.weigher.restart(|_| false);
            self.first = first;
        }
        if let Some(error) = root.get("error").filter(|e| e.kind() != Kind::Null) {
            let text = error.get("message").unwrap_or(error).text().unwrap_or_default();
            self.weigher.failed(ANSWER, record.index, record.line, &text);
        }
        self.weigher.named(root.get("model").or_else(|| root.get("modelId")));
        for (key, value) in root.entries() {
            if PROMPTS.iter().any(|name| key.is(name)) {
                let parts = value.get("parts").unwrap_or(value);
                self.weigher.add_blocks(0, Class::Other, blocks::content(parts));
            } else if TOOLS.iter().any(|name| key.is(name)) {
                self.weigher.add(0, Class::Other, structured(value, Encoding::Plain));
            }
        }
        let mut unit = 0;
        for (name, array) in arrays {
            for element in array.items() {
                unit += 1;
                self.element(record, element, if name == OUTPUT { ANSWER } else { unit }, unit - 1);
            }
        }
        let usage = USAGES.iter().find_map(|name| root.get(name));
        let tokens = |name: &str| usage.and_then(|u| u.get(name)).and_then(|n| n.whole_number()).unwrap_or(0);
        let sum = TOKENS.iter().map(|name| tokens(name)).fold(0, u64::saturating_add);
        self.weigher.request(None, ANSWER, record.index, sum);
    }

    fn element(&mut self, record: &Record<'_>, element: Node<'_>, unit: u64, index: u64) {
        let role = element.get("role").and_then(|r| r.text());
        let kind = element.get("type").and_then(|t| t.text()).unwrap_or_default();
        let parts = || element.get("content").or_else(|| element.get("parts"));
        let class = match role.as_deref() {
            Some("assistant" | "model") => Class::Assistant,
            Some("system" | "developer") => Class::Other,
            Some("tool" | "function") if element.get("parts").is_none() => return,
            Some(_) => Class::User,
            None if kind.ends_with("_call_output") => return,
            None => Class::Assistant,
        };
        let held = parts().map(blocks::content).unwrap_or_default();
        self.weigher.add_blocks(unit, class, held);
        if class == Class::User && !parts().is_some_and(|p| p.items().any(blocks::answers)) {
            self.weigher.turn(unit, if self.lines { record.index } else { index });
        }
        if class == Class::Assistant {
            self.calls(unit, element, role.is_none());
        }
    }

    /// The calls beside an assistant's content; `item`: the element may be one itself.
    fn calls(&mut self, unit: u64, element: Node<'_>, item: bool) {
        for call in element.get("tool_calls").into_iter().flat_map(|c| c.items()) {
            let named = call.get("function").or_else(|| call.get("custom"));
            self.weigher.add_blocks(unit, Class::Assistant, named.map(blocks::call).unwrap_or_default());
        }
        let function = element.get("function_call").filter(|f| f.kind() == Kind::Object);
        self.weigher.add_blocks(unit, Class::Assistant, function.map(blocks::call).unwrap_or_default());
        if !item {
            return;
        }
        self.weigher.add_blocks(unit, Class::Assistant, blocks::call(element));
        let action = element.get("action").map_or(0, |action| structured(action, Encoding::Plain));
        self.weigher.add(unit, Class::Assistant, action);
        let summary = element.get("summary").map(blocks::content).unwrap_or_default();
        self.weigher.add_blocks(unit, Class::Assistant, summary);
    }

    pub fn finish(self, responses: &[Response]) -> Outline {
        let own = responses.get(self.first..).unwrap_or_default();
        let sent = Sent { place: &Some, requests: 0..u64::MAX, errors: 0, whole: u64::MAX };
        self.weigher.finish(&sent, own.iter().map(|r| (r.record, r)))
    }
}
