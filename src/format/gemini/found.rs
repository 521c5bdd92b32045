//! What is in messages of Gemini CLI's, whatever they stand in: the responses, and where each is sent once more.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use super::super::genai::{self, Answer, Kept};
use super::super::jsonlines::{self, Texts};
use super::super::{Copy, Depth, Located, Part, Response};
use super::weigh::Scale;
use crate::text::json::{Kind, Node};

/// Where a response is kept for the screen.
const DISPLAYS: [&str; 2] = ["resultDisplay", "resultDisplay.fileDiff"];
/// Where it is sent once more.
const ECHO: &str = "content.functionResponse";

/// Why a message is not sent for which a later one of its id stands.
pub(super) const SUPERSEDED: &str = "superseded";

/// Among how many responses of the same id, before and after it, an echo's is looked for.
const NEAR: usize = 64;

/// What is found in messages, whatever they stand in.
#[derive(Default)]
pub(super) struct Found {
    pub located: Located,
    kept: Kept,
    echoes: Vec<Echo>,
    /// Keys of the ids of all responses.
    ids: HashSet<u64>,
    /// What each live message holds, where it holds anything: its responses and echoes.
    holders: HashMap<u64, (Range<usize>, Range<usize>)>,
    /// A number for each message: what one calls is a batch.
    batches: u64,
    /// Where the outline is asked for.
    pub scale: Option<Scale>,
    /// The number of its message for each response, where it is asked for.
    messages: Vec<u64>,
}

/// A response once more, in a user's record: the second copy that is sent.
struct Echo {
    key: Option<u64>,
    /// These two only where no response so far has the id.
    id: Option<String>,
    tool: Option<String>,
    batch: u64,
    failed: bool,
    message: u64,
    dead: Option<&'static str>,
    place: &'static str,
    record: u64,
    parts: Vec<Part>,
}

impl Found {
    pub(super) fn new(depth: Depth) -> Self {
        Found { scale: Scale::of(depth), ..Found::default() }
    }

    /// Takes a message. `key` is that of its id, where another one can take its place.
    pub(super) fn message(&mut self, key: Option<u64>, message: &Message<'_>, texts: &mut Texts<'_, '_>) {
        let start = (self.located.responses.len(), self.echoes.len());
        self.batches += 1;
        if let Some(calls) = message.calls {
            let ids: HashSet<u64> =
                calls.items().filter_map(|c| c.get("id")?.text().map(|id| jsonlines::key(&id))).collect();
            calls.items().for_each(|call| self.call(call, &ids, texts));
        }
        if let Some(content) = message.content {
            // One part may stand without an array around it.
            let alone = (content.kind() == Kind::Object).then_some(content);
            for part in content.items().chain(alone) {
                if let Some(answer) = Answer::of(part) {
                    self.echo(answer, ECHO, texts);
                }
            }
        }
        if let Some(scale) = &mut self.scale {
            scale.message(key, message, texts, self.batches);
            self.messages.resize(self.located.responses.len(), self.batches);
        }
        let end = (self.located.responses.len(), self.echoes.len());
        if let Some(key) = key.filter(|_| start != end) {
            self.holders.insert(key, (start.0..end.0, start.1..end.1));
        }
    }

    fn call(&mut self, call: Node<'_>, ids: &HashSet<u64>, texts: &mut Texts<'_, '_>) {
        let mut seen = Call::default();
        for (key, value) in call.entries() {
            match key.text().as_deref() {
                Some("id") => seen.id = Some(value),
                Some("name") => seen.name = Some(value),
                Some("status") => seen.status = Some(value),
                Some("result") => seen.result = Some(value),
                Some("resultDisplay") => seen.display = Some(value),
                _ => {}
            }
        }
        let id = seen.id.and_then(|id| id.text());
        let own = id.as_deref().map(jsonlines::key);
        let result = seen.result.filter(|r| r.kind() != Kind::Null);
        let mut parts = Vec::new();
        if let Some(result) = result {
            let alone = (result.kind() != Kind::Array).then_some(result);
            for part in result.items().chain(alone) {
                match (part.kind(), Answer::of(part)) {
                    (Kind::String, _) => parts.extend(texts.part(part)),
                    (_, Some(answer)) => {
                        // After a change of the history the agent puts the whole answer of a batch into each of its calls.
                        let of = answer.id().map(|id| jsonlines::key(&id));
                        if of != own && of.is_some_and(|of| ids.contains(&of)) {
                            self.echo(answer, "result", texts);
                        } else {
                            answer.parts(texts, &mut parts);
                        }
                    }
                    (_, None) => genai::beside(texts, part, &mut parts),
                }
            }
        }
        parts.shrink_to_fit();
        let mut copies = Vec::new();
        self.kept.display(texts, seen.display, DISPLAYS, &mut copies);
        copies.shrink_to_fit();
        if result.is_none() && copies.is_empty() {
            return;
        }
        self.ids.extend(own);
        self.located.responses.push(Response {
            id: id.map(std::borrow::Cow::into_owned),
            tool: seen.name.and_then(|name| name.text()).map(std::borrow::Cow::into_owned),
            batch: self.batches,
            is_error: seen.status.and_then(|status| match &*status.text()? {
                "error" => Some(true),
                "success" => Some(false),
                _ => None,
            }),
            dead: None,
            record: texts.number,
            parts,
            copies,
            only_copies: result.is_none(),
        });
    }

    fn echo(&mut self, answer: Answer<'_>, place: &'static str, texts: &mut Texts<'_, '_>) {
        let mut parts = Vec::new();
        answer.parts(texts, &mut parts);
        parts.shrink_to_fit();
        let id = answer.id();
        let key = id.as_deref().map(jsonlines::key);
        let known = key.is_some_and(|key| self.ids.contains(&key));
        self.echoes.push(Echo {
            key,
            id: id.filter(|_| !known).map(std::borrow::Cow::into_owned),
            tool: answer.name().filter(|_| !known).map(std::borrow::Cow::into_owned),
            batch: self.batches,
            failed: answer.failed(),
            message: self.batches,
            dead: None,
            place,
            record: texts.number,
            parts,
        });
    }

    /// A message is not sent any more.
    pub(super) fn bury(&mut self, key: u64, why: &'static str) {
        if let Some(scale) = &mut self.scale {
            scale.bury(key, why == SUPERSEDED);
        }
        let Some((responses, echoes)) = self.holders.remove(&key) else { return };
        let responses = self.located.responses.get_mut(responses).unwrap_or_default();
        responses.iter_mut().for_each(|r| r.dead = Some(why));
        let echoes = self.echoes.get_mut(echoes).unwrap_or_default();
        echoes.iter_mut().for_each(|e| e.dead = Some(why));
    }

    /// No message so far is sent any more.
    pub(super) fn bury_all(&mut self, why: &'static str) {
        let keys: Vec<u64> = self.holders.keys().copied().collect();
        keys.into_iter().for_each(|key| self.bury(key, why));
        if let Some(scale) = &mut self.scale {
            scale.bury_all();
        }
    }

    /// Puts each echo to its response.
    pub(super) fn finish(mut self) -> Located {
        let echoes = std::mem::take(&mut self.echoes);
        let keys = self.located.responses.iter().map(|r| r.id.as_deref().map(jsonlines::key));
        let mut by_id: Vec<(u64, usize)> = keys.zip(0..).filter_map(|(key, index)| Some((key?, index))).collect();
        by_id.sort_unstable();
        let mut echoed = HashSet::new();
        let mut messages = std::mem::take(&mut self.messages);
        let alone = echoes.into_iter().filter_map(|echo| {
            let message = echo.message;
            let from = echo.key.map_or(by_id.len(), |key| by_id.partition_point(|(k, _)| *k < key));
            let same = by_id.get(from..).unwrap_or_default();
            let same = same.get(..same.partition_point(|(k, _)| Some(*k) == echo.key)).unwrap_or_default();
            // Ids are told apart by place, and the one that is meant is near.
            let at =
                same.partition_point(|(_, i)| self.located.responses.get(*i).is_some_and(|r| r.record <= echo.record));
            let near = same.get(at.saturating_sub(NEAR)..same.len().min(at + NEAR)).unwrap_or_default();
            let same: Vec<usize> = near.iter().map(|(_, index)| *index).collect();
            let response = self.pair(echo, &same, &mut echoed)?;
            messages.push(message);
            Some(response)
        });
        let alone: Vec<Response> = alone.collect();
        self.located.responses.extend(alone);
        if let Some(scale) = self.scale.take() {
            let responses = messages.into_iter().zip(&self.located.responses);
            self.located.outline = Some(scale.finish(responses));
        }
        jsonlines::arrange(&mut self.located.responses);
        self.located.notes.extend(self.kept.notes());
        self.located
    }

    /// Puts an echo to the response that it repeats: of the same id, sent or not as it is, and the nearest before it. One that
    /// repeats none is a response itself, or, where the same is sent from elsewhere, a mere copy.
    fn pair(&mut self, echo: Echo, same: &[usize], echoed: &mut HashSet<usize>) -> Option<Response> {
        let responses = &mut self.located.responses;
        let alike = |index: &usize| responses.get(*index).is_some_and(|r| r.dead.is_none() == echo.dead.is_none());
        let before = |index: &usize| responses.get(*index).is_some_and(|r| r.record <= echo.record);
        let nearest = same.iter().copied().filter(alike).max_by_key(|index| {
            let before = before(index);
            (before, !echoed.contains(index), if before { *index } else { usize::MAX - index })
        });
        let Some(index) = nearest else {
            let mere_copy = echo.dead.is_some() && !same.is_empty();
            let known = same.first().and_then(|index| responses.get(*index));
            let mut response = Response {
                id: echo.id.or_else(|| known.and_then(|r| r.id.clone())),
                tool: echo.tool.or_else(|| known.and_then(|r| r.tool.clone())),
                batch: echo.batch,
                is_error: Some(echo.failed),
                dead: echo.dead,
                record: echo.record,
                parts: echo.parts,
                copies: Vec::new(),
                only_copies: mere_copy,
            };
            if mere_copy {
                let parts = std::mem::take(&mut response.parts);
                response.copies.push(Copy { place: echo.place, sent: false, record: echo.record, parts });
            }
            return Some(response);
        };
        if let Some(response) = responses.get_mut(index) {
            if std::mem::take(&mut response.only_copies) {
                // The call's own record has no result: what is sent stands only here.
                response.record = echo.record;
                response.parts = echo.parts;
            } else {
                response.copies.reserve_exact(1);
                response.copies.push(Copy { place: echo.place, sent: true, record: echo.record, parts: echo.parts });
            }
            if echo.place == ECHO {
                echoed.insert(index);
            }
        }
        None
    }
}

/// The fields of one line, or of one message, that matter here.
#[derive(Default)]
pub(super) struct Message<'a> {
    pub id: Option<Node<'a>>,
    /// The message itself.
    pub node: Option<Node<'a>>,
    pub calls: Option<Node<'a>>,
    pub content: Option<Node<'a>>,
    pub rewind: Option<Node<'a>>,
    pub set: Option<Node<'a>>,
}

impl<'a> Message<'a> {
    pub(super) fn of(line: Node<'a>) -> Self {
        let mut seen = Message { node: Some(line), ..Message::default() };
        for (key, value) in line.entries() {
            match key.text().as_deref() {
                Some("id") => seen.id = Some(value),
                Some("toolCalls") => seen.calls = Some(value),
                Some("content") => seen.content = Some(value),
                Some("$rewindTo") => seen.rewind = Some(value),
                Some("$set") => seen.set = Some(value),
                _ => {}
            }
        }
        seen
    }
}

/// The fields of one call that matter here.
#[derive(Default)]
struct Call<'a> {
    id: Option<Node<'a>>,
    name: Option<Node<'a>>,
    status: Option<Node<'a>>,
    result: Option<Node<'a>>,
    display: Option<Node<'a>>,
}
