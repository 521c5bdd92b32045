//! Takes what a stream holds beside responses, and sums up what of it is live.
//!
//! A format pushes what each record holds into a [`Weigher`] as it goes, under a number of its own, the *unit*. Only at the
//! end, when the format knows which units are live and in which order they are sent, is it summed up. It knows no agent, and
//! nothing of limits or windows.

use std::ops::Range;

use super::blocks::Held;
use super::kept::Key;
use super::outline::{Load, Weight};
use super::{Depth, Outline, Part, Response, StoredError, Usage};
use crate::text::json::Node;

/// What a text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    Assistant,
    User,
    Attachment,
    /// Counted, not measured.
    Image,
    Other,
}

/// What one unit holds of one class.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece {
    pub unit: u64,
    pub class: Class,
    amount: u64,
}

struct Request {
    key: Option<Key>,
    unit: u64,
    record: u64,
    tokens: u64,
}

/// Takes what a stream holds beside responses.
#[derive(Default)]
pub(super) struct Weigher {
    pieces: Vec<Piece>,
    turns: Vec<(u64, u64)>,
    errors: Vec<(u64, StoredError)>,
    /// Units that show that the conversation went on, from the first error on.
    answers: Vec<u64>,
    requests: Vec<Request>,
    pub model: Option<String>,
    pub window: Option<u64>,
}

/// How many characters of an error are kept.
const ERROR_CHARS: usize = 200;
/// Among how many of the last requests one of the same key is looked for: an answer is stored in neighbouring records.
const NEAR: usize = 32;

/// What of the units is sent, as the format knows it at the end.
pub(super) struct Sent<'a> {
    /// The place of a unit in what is sent; `None`: it is not.
    pub place: &'a dyn Fn(u64) -> Option<u64>,
    /// The places of answers whose requests carried nothing else than what is before them now.
    pub requests: Range<u64>,
    /// The place before which no error matters any more.
    pub errors: u64,
    /// A response of more bytes than this may have been cut by the agent when it was sent.
    pub whole: u64,
}

impl Weigher {
    /// One for a locator that is asked for the outline.
    pub fn of(depth: Depth) -> Option<Self> {
        (depth == Depth::Outline).then(Self::default)
    }

    pub fn add(&mut self, unit: u64, class: Class, amount: u64) {
        match self.pieces.last_mut() {
            _ if amount == 0 => {}
            Some(last) if last.unit == unit && last.class == class => last.amount = last.amount.saturating_add(amount),
            _ => self.pieces.push(Piece { unit, class, amount }),
        }
    }

    /// What blocks hold: their text in a class, and their images.
    pub fn add_blocks(&mut self, unit: u64, class: Class, held: Held) {
        self.add(unit, class, held.bytes);
        self.add(unit, Class::Image, held.images);
    }

    /// A user's message begins.
    pub fn turn(&mut self, unit: u64, record: u64) {
        self.turns.push((unit, record));
    }

    /// A request failed. Only what says that it was too large is remembered.
    pub fn failed(&mut self, unit: u64, record: u64, line: u64, text: &str) {
        if overflows(text) {
            let text = text.chars().take(ERROR_CHARS).collect();
            self.errors.push((unit, StoredError { record, line, text }));
        }
    }

    /// A request succeeded.
    pub fn answered(&mut self, unit: u64) {
        if !self.errors.is_empty() && self.answers.last() != Some(&unit) {
            self.answers.push(unit);
        }
    }

    /// What the provider counted for the request that this unit answers. Units of one key are one answer: it stands where
    /// the first of them does.
    pub fn request(&mut self, key: Option<Key>, unit: u64, record: u64, tokens: u64) {
        if tokens == 0 {
            return;
        }
        let same = self.requests.iter_mut().rev().take(NEAR).find(|r| key.is_some() && r.key == key);
        match same {
            Some(same) => same.tokens = tokens,
            None => self.requests.push(Request { key, unit, record, tokens }),
        }
    }

    /// The model of what comes.
    pub fn named(&mut self, model: Option<Node<'_>>) {
        if let Some(name) = model.and_then(|m| m.text()).filter(|name| !name.is_empty())
            && self.model.as_deref() != Some(&*name)
        {
            self.model = Some(name.into_owned());
        }
    }

    /// The class of the text that a unit holds. Only where units came in ascending order.
    pub fn class(&self, unit: u64) -> Option<Class> {
        let from = self.pieces.partition_point(|piece| piece.unit < unit);
        let own = self.pieces.get(from..).unwrap_or_default().iter().take_while(|piece| piece.unit == unit);
        own.map(|piece| piece.class).find(|class| *class != Class::Image)
    }

    /// Another history takes the place of all so far, but for these pieces of it.
    pub fn restart(&mut self, stays: impl FnMut(&Piece) -> bool) {
        self.pieces.retain(stays);
        self.turns.clear();
        self.errors.clear();
        self.answers.clear();
        self.requests.clear();
    }

    /// All from this unit on is taken back. Only where units came in ascending order.
    pub fn take_back(&mut self, from: u64) {
        fn pop<T>(all: &mut Vec<T>, from: u64, unit: impl Fn(&T) -> u64) {
            while all.last().is_some_and(|last| unit(last) >= from) {
                all.pop();
            }
        }
        pop(&mut self.pieces, from, |piece| piece.unit);
        pop(&mut self.turns, from, |(unit, _)| *unit);
        pop(&mut self.errors, from, |(unit, _)| *unit);
        pop(&mut self.answers, from, |unit| *unit);
        pop(&mut self.requests, from, |request| request.unit);
    }

    /// Sums up what is sent. `responses`: all that were found, each with its place; dead ones are passed over.
    pub fn finish<'a>(self, sent: &Sent<'_>, responses: impl Iterator<Item = (u64, &'a Response)> + Clone) -> Outline {
        let live = || responses.clone().filter(|(_, r)| r.dead.is_none() && !r.only_copies);
        let mut outline = Outline { model: self.model.clone(), window: self.window, ..Outline::default() };
        for piece in self.pieces.iter().filter(|piece| (sent.place)(piece.unit).is_some()) {
            outline.weight.add(piece.class, piece.amount);
        }
        for (_, response) in live() {
            outline.responses.take(&response.parts);
            response.copies.iter().filter(|copy| copy.sent).for_each(|copy| outline.responses.take(&copy.parts));
        }
        let turns = self.turns.iter().filter(|(unit, _)| (sent.place)(*unit).is_some());
        outline.turns = turns.map(|(_, record)| *record).collect();
        outline.turns.sort_unstable();
        outline.turns.dedup();
        (outline.usage, outline.first_usage) = self.usage(sent, live);
        let answered = self.answers.iter().filter_map(|unit| (sent.place)(*unit)).max();
        let stands = |unit: u64| {
            let place = (sent.place)(unit)?;
            (place >= sent.errors && answered.is_none_or(|answered| answered < place)).then_some(place)
        };
        let errors = self.errors.into_iter().filter_map(|(unit, error)| Some((stands(unit)?, error)));
        outline.stored_error = errors.max_by_key(|(place, _)| *place).map(|(_, error)| error);
        outline
    }

    /// The figures of the last request that can be held against what is live, and of the first.
    fn usage<'a, I: Iterator<Item = (u64, &'a Response)>>(
        &self,
        sent: &Sent<'_>,
        live: impl Fn() -> I,
    ) -> (Option<Usage>, Option<Usage>) {
        let placed = || self.requests.iter().filter_map(|r| Some(((sent.place)(r.unit)?, r)));
        let requests = || placed().filter(|(place, _)| sent.requests.contains(place));
        let (last, first) = (requests().max_by_key(|(place, _)| *place), requests().min_by_key(|(place, _)| *place));
        let first = first.filter(|(place, _)| last.is_some_and(|(last, _)| *place < last));
        let figures = |(at, request)| self.figures(at, request, sent, live());
        (last.and_then(figures), first.and_then(figures))
    }

    fn figures<'a>(
        &self,
        at: u64,
        request: &Request,
        sent: &Sent<'_>,
        live: impl Iterator<Item = (u64, &'a Response)>,
    ) -> Option<Usage> {
        let mut weight = Weight::default();
        for piece in self.pieces.iter().filter(|piece| (sent.place)(piece.unit).is_some_and(|place| place < at)) {
            weight.add(piece.class, piece.amount);
        }
        let (mut load, mut cut) = (Load::default(), 0_u64);
        for (_, response) in live.filter(|(place, _)| *place < at) {
            let before = load.bytes;
            load.take(&response.parts);
            if load.bytes - before > sent.whole {
                return None;
            }
            cut = response.parts.iter().map(cut_from).fold(cut, u64::saturating_add);
        }
        Some(Usage {
            record: request.record,
            prompt_tokens: request.tokens,
            bytes: weight.bytes().saturating_add(load.bytes),
            images: weight.images + load.images,
            cut,
        })
    }
}

/// How many bytes more a text had before it was cut, at most: its marker gives that rounded.
fn cut_from(part: &Part) -> u64 {
    let Part::Text { measure, .. } = part else { return 0 };
    let prior = measure.prior;
    let original = [prior.head, prior.tail, prior.both, measure.speaks_of].into_iter().flatten().max();
    let rounded = |a: u64| match a {
        0..1024 => 0,
        1024..0x10_0000 => 512,
        0x10_0000..0x4000_0000 => 0x10_0000 / 20 + 1,
        _ => 0x4000_0000 / 20 + 1,
    };
    original.map_or(0, |a| a.saturating_add(rounded(a)).saturating_sub(measure.size))
}

impl Weight {
    fn add(&mut self, class: Class, amount: u64) {
        let sum = match class {
            Class::Assistant => &mut self.assistant,
            Class::User => &mut self.user,
            Class::Attachment => &mut self.attachments,
            Class::Image => &mut self.images,
            Class::Other => &mut self.other,
        };
        *sum = sum.saturating_add(amount);
    }
}

impl Load {
    fn take(&mut self, parts: &[Part]) {
        for part in parts {
            match part {
                Part::Text { measure, .. } => self.bytes = self.bytes.saturating_add(measure.size),
                Part::Opaque { .. } => self.images += 1,
            }
        }
    }
}

/// What providers and agents say where a request was too large.
const OVERFLOWS: [&str; 39] = [
    "prompt is too long",
    "prompt too long",
    "prompt exceeds max length",
    "context_length_exceeded",
    "context_window_exceeded",
    "context length exceeded",
    "context_length exceeded",
    "context length_exceeded",
    "maximum context length",
    "exceeds the context window",
    "exceeds the available context size",
    "greater than the context length",
    "longer than the model's context length",
    "longer than the models context length",
    "maximum prompt length is",
    "maximum allowed input length of",
    "but the configured context size is",
    "range of input length should be",
    "reduce the length of the messages",
    "exceeded model token limit",
    "token limit exceeded",
    "context window exceeds limit",
    "exceed context limit",
    "context window exceeded",
    "context window is full",
    "context overflow recovery failed",
    "ran out of room in the model's context window",
    "exceeds the maximum number of tokens",
    "string_above_max_length",
    "request too large",
    "request_too_large",
    "request entity too large",
    "payload too large",
    "failed to parse request",
    "too many tokens",
    "input is too long",
    "image was too large",
    "pdf too large",
    "exceeds 5 mb",
];

/// What they say where there were too many requests, perhaps in words of the above.
const THROTTLES: [&str; 2] = ["rate limit", "too many requests"];

/// Whether an error says that a request was too large. Whatever pi 0.73 and 1.6 take for that (`utils/overflow.js` of its
/// package `pi-ai`), is that here too.
pub(super) fn overflows(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    let throttled = || {
        THROTTLES.iter().any(|phrase| text.contains(phrase))
            || ["throttling error:", "service unavailable:"].iter().any(|start| text.starts_with(start))
    };
    let behind = |phrase| text.split_once(phrase).map_or("", |(_, rest)| rest);
    let says = || {
        OVERFLOWS.iter().any(|phrase| text.contains(phrase))
            || behind("exceeds the limit of ").starts_with(|c: char| c.is_ascii_digit())
            || behind("input token count").contains("exceeds the maximum")
            || (text.starts_with("400") && behind("400").contains("(no body)"))
            || text.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word == "413")
    };
    says() && !throttled()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_too_much_context_are_known() {
        for yes in [
            "Prompt is too long",
            "400 {\"message\":\"prompt is too long: 213462 tokens > 200000 maximum\"}",
            "Your input exceeds the context window of this model.",
            "input length and `max_tokens` exceed context limit: 199999 + 32000 > 200000",
            "github-copilot API error (413): {\"message\":\"failed to parse request\"}",
            "Codex ran out of room in the model's context window.",
            "The input token count (2) exceeds the maximum number of tokens allowed (1).",
            // The examples of pi's own list.
            "413 {\"error\":{\"type\":\"request_too_large\",\"message\":\"Request exceeds the maximum size\"}}",
            "Requested token count exceeds the model's maximum context length of 131072 tokens",
            "litellm.ContextWindowExceededError: ... Context Window exceeded for given call.",
            "Input length (265330) exceeds model's maximum context length (262144).",
            "This model's maximum prompt length is 131072 but the request contains 537812 tokens",
            "Please reduce the length of the messages or completion",
            "This endpoint's maximum context length is 9 tokens. However, you requested about 10 tokens",
            "Input length 9 exceeds the maximum allowed input length of 8 tokens.",
            "The input (9 tokens) is longer than the model's context length (8 tokens).",
            "the request exceeds the available context size, try increasing it",
            "tokens to keep from the initial prompt is greater than the context length",
            "prompt token count of 9 exceeds the limit of 8",
            "invalid params, context window exceeds limit",
            "Your request exceeded model token limit: 9 (requested: 10)",
            "Prompt has 9 tokens, but the configured context size is 8 tokens",
            "400 status code (no body)",
            "413 (no body)",
            "Prompt contains 9 tokens ... too large for model with 8 maximum context length",
            "{\"code\":\"1261\",\"message\":\"Prompt too long\"}",
            "{\"code\":\"1261\",\"message\":\"Prompt exceeds max length\"}",
            "Range of input length should be [1, 8]",
            "prompt too long; exceeded max context length by 9 tokens",
            "model_context_window_exceeded",
            "too many tokens",
            "token limit exceeded",
        ] {
            assert!(overflows(yes), "{yes}");
        }
        for no in [
            "[repaired: context overflow error, oversized tool result has been cut]",
            "github-copilot API error: {\"message\":\"request too big (repaired)\"}",
            "API Error: 500 overloaded, request 4131",
            "no low surrogate in string",
            "ThrottlingException: Too many tokens: rate limit reached",
            "Throttling error: Too many tokens, please wait before trying again.",
            "429 Too many requests, 413 of them",
            "the file exceeds the limit of its kind",
            "cleared by unwedge",
            "unwedged",
            "-",
            "",
        ] {
            assert!(!overflows(no), "{no}");
        }
    }
}
