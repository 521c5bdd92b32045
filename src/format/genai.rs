//! The shape of Google's `Content`, in which Gemini CLI and Qwen Code keep what is sent.
//!
//! `{"role": "user", "parts": [{"functionResponse": {"id", "name", "response": {"output" or "error": text}, "parts"?}}]}`.
//! Learnt from google-gemini/gemini-cli at `5411f113`: `utils/generateContentResponseUtilities.ts` writes the responses,
//! `tools/mcp-client.ts` those of MCP, `tools/tools.ts` lists the displays.

use std::borrow::Cow;
use std::collections::HashSet;

use super::jsonlines::{Texts, opaque};
use super::{Copy, Note, Part};
use crate::text::json::{Kind, Node};

/// A `functionResponse`.
#[derive(Clone, Copy)]
pub(super) struct Answer<'a>(Node<'a>);

impl<'a> Answer<'a> {
    /// That of a part, where the part is one.
    pub(super) fn of(part: Node<'a>) -> Option<Self> {
        part.get("functionResponse").filter(|r| r.kind() == Kind::Object).map(Answer)
    }

    /// The id of the call.
    pub(super) fn id(self) -> Option<Cow<'a, str>> {
        self.0.get("id").and_then(|id| id.text())
    }

    /// The name of the tool.
    pub(super) fn name(self) -> Option<Cow<'a, str>> {
        self.0.get("name").and_then(|name| name.text())
    }

    /// Whether it says that the tool failed.
    pub(super) fn failed(self) -> bool {
        self.0.at(&["response", "error"]).is_some_and(|e| e.kind() != Kind::Null)
    }

    /// What the assistant receives.
    pub(super) fn parts(self, texts: &mut Texts<'_, '_>, parts: &mut Vec<Part>) {
        if let Some(response) = self.0.get("response") {
            // Any key's text is sent: `output`, `error`, or what a tool named it.
            for value in last_entries(response) {
                gather(texts, value, DEPTH, parts);
            }
        }
        if let Some(media) = self.0.get("parts") {
            gather(texts, media, DEPTH, parts);
        }
    }
}

/// How deep texts are looked for. Servers nest them two or three levels deep, and hostile ones no deeper than this.
const DEPTH: usize = 6;

/// The values of an object, of equal keys only the last; of anything else, itself.
fn last_entries(node: Node<'_>) -> Vec<Node<'_>> {
    if node.kind() != Kind::Object {
        return vec![node];
    }
    let mut seen = HashSet::new();
    let all: Vec<_> = node.entries().collect();
    let mut last: Vec<_> =
        all.into_iter().rev().filter(|(key, _)| key.text().is_some_and(|k| seen.insert(k))).map(|(_, v)| v).collect();
    last.reverse();
    last
}

/// The texts and media of a value. In an object only what is known to be text is that: a type or an address is none.
fn gather(texts: &mut Texts<'_, '_>, value: Node<'_>, depth: usize, parts: &mut Vec<Part>) {
    match value.kind() {
        Kind::String => parts.extend(texts.part(value)),
        Kind::Array if depth > 0 => value.items().for_each(|item| gather(texts, item, depth - 1, parts)),
        Kind::Object if depth > 0 => {
            for (key, value) in value.entries() {
                match key.text().as_deref() {
                    Some("inlineData" | "fileData") => parts.push(opaque(value)),
                    Some("data" | "blob") if value.kind() == Kind::String => parts.push(opaque(value)),
                    Some("text" | "content" | "contents" | "output" | "error" | "message" | "result" | "resource") => {
                        gather(texts, value, depth - 1, parts);
                    }
                    _ => {}
                }
            }
        }
        _ => {}
    }
}

/// A part beside a `functionResponse`, written by the tool: older versions put its text there, all put media there.
pub(super) fn beside(texts: &mut Texts<'_, '_>, part: Node<'_>, parts: &mut Vec<Part>) {
    if let Some(text) = part.get("text").filter(|t| t.kind() == Kind::String) {
        parts.extend(texts.part(text));
    }
    media_beside(texts, part, parts);
}

/// A media part beside a `functionResponse`.
pub(super) fn media_beside(_texts: &mut Texts<'_, '_>, part: Node<'_>, parts: &mut Vec<Part>) {
    parts.extend(["inlineData", "fileData"].into_iter().filter_map(|key| part.get(key)).map(opaque));
}

/// What is kept for the screen and cannot be cut.
#[derive(Debug, Default)]
pub(super) struct Kept {
    styled: u64,
    contents: u64,
}

/// Below this many bytes nothing is said of what is kept.
const WORTH_A_NOTE: u64 = 256 * 1024;

impl Kept {
    /// The copies in a display: a text, a diff, or a screen of styled pieces. `places` names the text and the diff.
    pub(super) fn display(
        &mut self,
        texts: &mut Texts<'_, '_>,
        display: Option<Node<'_>>,
        places: [&'static str; 2],
        copies: &mut Vec<Copy>,
    ) {
        let [text, diff] = places;
        let Some(display) = display else { return };
        match display.kind() {
            Kind::String => copies.extend(texts.copy(text, Some(display))),
            // Its pieces are shorter than a marker, so cutting each gains nothing, and none may be left out.
            Kind::Array => self.styled += display.raw().len() as u64,
            Kind::Object => {
                copies.extend(texts.copy(diff, display.get("fileDiff")));
                self.styled += display.get("ansiOutput").map_or(0, |a| a.raw().len() as u64);
                // A rewind writes these back into the user's files (`ui/utils/rewindFileOps.ts`): never cut.
                let contents = ["originalContent", "newContent"].into_iter().filter_map(|key| display.get(key));
                self.contents += contents.map(|c| c.raw().len() as u64).sum::<u64>();
            }
            _ => {}
        }
    }

    /// What a person should know of it.
    pub(super) fn notes(&self) -> impl Iterator<Item = Note> {
        let styled = (self.styled, "bytes of screen copies are styled pieces, too short to cut, and stay");
        let contents = (
            self.contents,
            "bytes of screen copies are the contents of edited files, which a rewind puts back, and stay",
        );
        [styled, contents]
            .into_iter()
            .filter(|(bytes, _)| *bytes >= WORTH_A_NOTE)
            .map(|(bytes, what)| Note { line: None, text: format!("{bytes} {what}") })
    }
}
