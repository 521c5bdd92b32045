//! `ui_messages.json`: what the screen shows of a task. Never sent.

use crate::format::parts::{self, Taker};
use crate::format::{Broken, Copy, Located, Locator, Note, Record, Response};
use crate::text::json::{Index, Kind, Node};

/// Entries whose text is the output of a tool and nothing else, and the tool that it is of.
const OUTPUTS: [(&str, &str, &str); 2] = [
    ("command_output", "command_output.text", "execute_command"),
    ("mcp_server_response", "mcp_server_response.text", "use_mcp_tool"),
];

/// Entries whose text is JSON. The screen parses it, and fails where it cannot: it is not cut.
const PARSED: [&str; 5] =
    ["tool", "api_req_started", "browser_action_result", "codebase_search_result", "use_mcp_server"];

/// Less than this, in stored bytes together, is not worth a word.
const WORTH_A_NOTE: u64 = 256 * 1024;

#[derive(Default)]
pub(super) struct Finder {
    located: Located,
    /// Stored bytes of texts that are JSON.
    left: u64,
}

impl Locator for Finder {
    fn record(&mut self, record: &Record<'_>) {
        let mut index = Index::default();
        let root = match parts::document(record, &mut index, "the extension") {
            Ok(root) => root,
            Err(broken) => return self.located.broken.push(broken),
        };
        if root.kind() != Kind::Array {
            let what = "expected an array of what the screen shows".to_owned();
            return self.located.broken.push(Broken { at: record.offset, what, whole: true });
        }
        let mut taker = Taker::new(record);
        for (index, entry) in (0..).zip(root.items()) {
            self.entry(&mut taker, entry, index);
        }
        self.located.broken.append(&mut taker.broken);
    }

    fn finish(mut self: Box<Self>) -> Located {
        if self.left >= WORTH_A_NOTE {
            let text = format!(
                "{} bytes of this file are JSON inside of strings (tool, api_req_started, …), which the screen parses: left as they are",
                self.left
            );
            self.located.notes.push(Note { line: None, text });
        }
        self.located
    }
}

impl Finder {
    fn entry(&mut self, taker: &mut Taker<'_>, entry: Node<'_>, index: u64) {
        if entry.kind() != Kind::Object {
            return taker.broken(entry, format!("element {index} is not an entry (an object)"));
        }
        let (mut say, mut text) = (None, None);
        for (key, value) in entry.entries() {
            match key.text().as_deref() {
                Some("say" | "ask") => say = Some(value),
                Some("text") => text = Some(value),
                _ => {}
            }
        }
        let (Some(say), Some(text)) = (say, text.filter(|t| t.kind() == Kind::String && t.raw() != b"\"\"")) else {
            return;
        };
        if PARSED.iter().any(|kind| say.is(kind)) {
            self.left += text.raw().len() as u64;
        }
        let Some((_, place, tool)) = OUTPUTS.iter().find(|(kind, _, _)| say.is(kind)) else { return };
        let parts = taker.texts(text);
        if parts.is_empty() {
            return;
        }
        self.located.responses.push(Response {
            id: None,
            tool: Some((*tool).to_owned()),
            batch: index,
            is_error: None,
            dead: None,
            record: index,
            parts: Vec::new(),
            copies: vec![Copy { place, sent: false, record: index, parts }],
            only_copies: true,
        });
    }
}
