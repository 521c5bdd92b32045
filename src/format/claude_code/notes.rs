//! What a person should know of a session beyond sizes: each thing once, however often it is there.

use std::collections::HashSet;

use memchr::memmem;

use super::line::Fields;
use crate::format::kept::Key;
use crate::format::{Located, Note, Part, Record, Response};
use crate::text::json::Node;

/// The client's own messages for what wedges a session, as they stand in its synthetic assistant lines.
const WEDGED: [&str; 15] = [
    "Prompt is too long",
    "Request too large",
    "Image was too large",
    "PDF too large",
    "API Error: 413",
    "no low surrogate",
    "unexpected end of data",
    "must be non-empty",
    "cannot be modified",
    "tool_use ids were found without",
    "unexpected tool_use_id",
    "exceeds 5 MB",
    "Could not process image",
    "image dimensions exceed",
    "tool use concurrency issues",
];

/// Something that is counted, and the line it was first seen on.
#[derive(Default)]
struct Count {
    first: Option<u64>,
    count: u64,
}

impl Count {
    fn add(&mut self, line: u64) {
        self.first.get_or_insert(line);
        self.count += 1;
    }
}

#[derive(Default)]
pub(super) struct Noticed {
    pairs: bool,
    wedge: Option<(u64, &'static str)>,
    notices: Count,
    orphans: Count,
    orphan: Option<String>,
    surrogates: Count,
    nuls: Count,
    empty: Count,
    /// Results that a microcompaction took from what is sent.
    cleared: HashSet<Key>,
    cleared_at: Option<u64>,
    cleared_live: u64,
    live: u64,
}

impl Noticed {
    pub fn new(pairs: bool) -> Self {
        Noticed { pairs, ..Noticed::default() }
    }

    /// Looks at a line's escapes: half a surrogate pair and NUL make requests that are refused.
    pub fn line(&mut self, record: &Record<'_>) {
        let (half, nul) = escapes(record.bytes);
        if half {
            self.surrogates.add(record.line);
        }
        if nul {
            self.nuls.add(record.line);
        }
    }

    pub fn block(&mut self, record: &Record<'_>, block: &Fields<'_>) {
        if block.kind.is_some_and(|k| k.is("text")) && block.text.is_some_and(|t| t.raw() == b"\"\"") {
            self.empty.add(record.line);
        }
    }

    /// Takes a block of an assistant line. `failed`: the client wrote it, for a request that failed; `synthetic`: for some
    /// other reason.
    pub fn said(&mut self, record: &Record<'_>, block: &Fields<'_>, failed: bool, synthetic: bool) {
        if !failed && !synthetic {
            // The conversation went on.
            self.wedge = None;
        } else if let Some(text) = block.text.and_then(|t| t.text()) {
            let phrase = WEDGED.iter().find(|phrase| text.contains(**phrase));
            self.wedge = phrase.map(|phrase| (record.line, *phrase)).or(self.wedge);
        }
    }

    pub fn result(&mut self, record: &Record<'_>, content: Option<Node<'_>>) {
        let first = content.into_iter().flat_map(|c| c.items()).find_map(|block| block.get("text"));
        if first.or(content).is_some_and(|c| is_notice(c.raw())) {
            self.notices.add(record.line);
        }
    }

    pub fn cleared(&mut self, record: &Record<'_>, ids: impl Iterator<Item = Key>) {
        self.cleared_at.get_or_insert(record.line);
        self.cleared.extend(ids);
    }

    /// The record before which all results were sent whole, where a microcompaction took live ones.
    pub fn cleared_since(&self) -> Option<u64> {
        self.cleared_at.filter(|_| self.cleared_live > 0).map(|line| line.saturating_sub(1))
    }

    /// Takes a response whose liveness is known.
    pub fn response(&mut self, response: &Response, id: Option<Key>, paired: bool) {
        if response.dead.is_some() {
            return;
        }
        self.live += response
            .parts
            .iter()
            .map(|p| if let Part::Text { measure, .. } = p { measure.size } else { 0 })
            .sum::<u64>();
        self.cleared_live += u64::from(id.is_some_and(|id| self.cleared.contains(&id)));
        if !paired && self.pairs {
            self.orphans.add(response.record + 1);
            if self.orphan.is_none() {
                self.orphan.clone_from(&response.id);
            }
        }
    }

    pub fn tell(&self, located: &mut Located) {
        let mut note = |line: Option<u64>, text: String| located.notes.push(Note { line, text });
        if let Some((line, phrase)) = self.wedge {
            let live = self.live;
            note(
                Some(line),
                format!(
                    "the session ends in an error of its client's ({phrase}); its live results hold {live} bytes of text"
                ),
            );
        }
        let mut counted = |count: &Count, one: &str, many: &str| match count.count {
            0 => {}
            1 => note(count.first, one.to_owned()),
            n => note(count.first, format!("{n} {many}, this is the first")),
        };
        counted(
            &self.notices,
            "a notice of Claude Code's own stands for a result that it cut or put in a file",
            "results are notices of Claude Code's own, for what it cut or put in a file",
        );
        let id = self.orphan.as_deref().unwrap_or("without an id");
        counted(
            &self.orphans,
            &format!("a result ({id}) whose call is not in the stream: requests with it may be refused"),
            &format!("results (such as {id}) whose calls are not in the stream: requests with them may be refused"),
        );
        counted(
            &self.surrogates,
            "half a surrogate pair is escaped here: requests with it may be refused (no low surrogate)",
            "lines escape half a surrogate pair: requests with them may be refused (no low surrogate)",
        );
        counted(
            &self.nuls,
            "a NUL character is escaped here: requests with it may be refused (unexpected end of data)",
            "lines escape a NUL character: requests with them may be refused (unexpected end of data)",
        );
        counted(
            &self.empty,
            "an empty text block: requests with it may be refused (must be non-empty)",
            "lines hold an empty text block: requests with them may be refused (must be non-empty)",
        );
        if self.cleared_live > 0 {
            note(
                self.cleared_at,
                format!(
                    "a microcompaction took {} live results from what is sent; whether a resumed session sends them again is not known, so they count",
                    self.cleared_live
                ),
            );
        }
    }
}

/// Whether a stored literal is one of the client's own notices: it starts as they do. Texts that only talk about notices
/// are far more common, so nothing further in is looked at.
fn is_notice(literal: &[u8]) -> bool {
    let Some(text) = literal.strip_prefix(b"\"").and_then(|l| l.strip_suffix(b"\"")) else { return false };
    let head = text.get(..text.len().min(400)).unwrap_or_default();
    let says = |start: &[u8], then: &[u8]| head.starts_with(start) && memmem::find(head, then).is_some();
    (text.starts_with(b"<persisted-output>") && text.trim_ascii_end().ends_with(b"</persisted-output>"))
        || text == b"[Old tool result content cleared]"
        || text == b"[Tool result missing due to internal error]"
        || says(b"Error: result (", b" exceeds maximum allowed tokens")
        || says(b"MCP tool \\\"", b" exceeds maximum allowed tokens")
        || says(b"File content (", b" exceeds maximum allowed size")
}

/// Whether a record escapes half a surrogate pair, and whether it escapes NUL.
fn escapes(bytes: &[u8]) -> (bool, bool) {
    let unit = |at: usize| {
        let hex = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
        u16::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok()
    };
    let (mut half, mut nul, mut paired) = (false, false, None);
    for at in memmem::find_iter(bytes, b"\\u") {
        let before = bytes.get(..at).unwrap_or_default();
        if before.iter().rev().take_while(|b| **b == b'\\').count() % 2 == 1 {
            continue;
        }
        match unit(at) {
            Some(0) => nul = true,
            Some(0xd800..=0xdbff) if matches!(unit(at + 6), Some(0xdc00..=0xdfff)) => paired = Some(at + 6),
            Some(0xd800..=0xdbff) => half = true,
            Some(0xdc00..=0xdfff) => half |= paired != Some(at),
            _ => {}
        }
        if half && nul {
            break;
        }
    }
    (half, nul)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notices_are_known_by_their_start() {
        for yes in [
            r#""<persisted-output>\nOutput too large (83.7KB). Full output saved to: /x\n\nPreview (first 2KB):\n…\n</persisted-output>""#,
            r#""[Old tool result content cleared]""#,
            r#""Error: result (123 characters) exceeds maximum allowed tokens. Output has been saved to /x""#,
            r#""MCP tool \"x\" response (9 tokens) exceeds maximum allowed tokens (25000).""#,
            r#""File content (363KB) exceeds maximum allowed size (256KB).""#,
        ] {
            assert!(is_notice(yes.as_bytes()), "{yes}");
        }
        for no in [
            r#""what is <persisted-output>\n…</persisted-output>""#,
            r#""<persisted-output> is a tag""#,
            r#""[Old tool result content cleared] he said""#,
            r#"[{"type":"text","text":"[Old tool result content cleared]"}]"#,
            r#""""#,
            "null",
        ] {
            assert!(!is_notice(no.as_bytes()), "{no}");
        }
    }

    #[test]
    fn halves_and_nul() {
        assert_eq!(escapes(br#"{"a":"\ud83d\ude00 \\ud83d \u00e9"}"#), (false, false));
        assert_eq!(escapes(br#"{"a":"\ud83d"}"#), (true, false));
        assert_eq!(escapes(br#"{"a":"\ude00\ud83d\ude00"}"#), (true, false));
        assert_eq!(escapes(br#"{"a":"\\\u0000"}"#), (false, true));
    }
}
