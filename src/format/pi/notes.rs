//! What pi writes beside results: errors of too much context, and its own notices.

use memchr::memmem;

const OVERFLOWS: [&str; 12] = [
    "prompt is too long",
    "context_length_exceeded",
    "context length exceeded",
    "maximum context length",
    "exceeds the context window",
    "context window exceeded",
    "context overflow recovery failed",
    "request too large",
    "request_too_large",
    "request entity too large",
    "too many tokens",
    "input is too long",
];

/// Whether an error is one of too much context, by what providers say; pi itself knows 29 patterns.
pub(super) fn overflows(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    OVERFLOWS.iter().any(|phrase| text.contains(phrase))
        || text.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word == "413")
}

/// Whether a content ends in a notice of pi's own: bracketed, after a blank line, perhaps before a line on the exit code.
pub(super) fn has_notice(content: &[u8]) -> bool {
    let tail = content.get(content.len().saturating_sub(800)..).unwrap_or_default();
    let Some(at) = memmem::rfind(tail, b"\\n\\n[") else {
        return memmem::find(tail, b"\"text\":\"[Line ").is_some() && memmem::find(tail, b" limit. Use ").is_some();
    };
    let notice = tail.get(at + 4..).unwrap_or_default();
    let closed =
        memmem::find(notice, b"]\"").is_some() || memmem::find(notice, b"]\\n\\nCommand exited with code ").is_some();
    let says: [&[u8]; 5] =
        [b"[Showing ", b" more lines in file. Use offset=", b" limit reached", b" limit). ", b" limit. Use "];
    closed && says.iter().any(|phrase| memmem::find(notice, phrase).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notices_are_known_at_the_end_only() {
        for yes in [
            r#"[{"type":"text","text":"a\n\n[Showing lines 1782-2389 of 2389 (50.0KB limit). Full output: /x]"}]"#,
            r#"[{"type":"text","text":"a\n\n[Showing lines 1-2 of 3. Full output: /x]\n\nCommand exited with code 2"}]"#,
            r#"[{"type":"text","text":"a\n\n[3429 more lines in file. Use offset=150 to continue.]"}]"#,
            r#"[{"type":"text","text":"a\n\n[500 entries limit reached. Use limit=1000 for more]"}]"#,
            r#"[{"type":"text","text":"[Line 1 is 208.8KB, exceeds 50.0KB limit. Use bash: sed -n '1p' x]"}]"#,
        ] {
            assert!(has_notice(yes.as_bytes()), "{yes}");
        }
        for no in [
            r#"[{"type":"text","text":"a\n\n[Showing lines 1-2 of 3] is what it says"}]"#,
            r#"[{"type":"text","text":"[\"a\"]"}]"#,
            r#"[{"type":"text","text":"a\n\n[b]"}]"#,
            "null",
        ] {
            assert!(!has_notice(no.as_bytes()), "{no}");
        }
    }

    #[test]
    fn overflow_errors() {
        assert!(overflows("400 {\"message\":\"prompt is too long: 213462 tokens > 200000 maximum\"}"));
        assert!(overflows("Your input exceeds the context window of this model."));
        assert!(overflows("github-copilot API error (413): {\"message\":\"failed to parse request\"}"));
        assert!(!overflows("[repaired: context overflow error, oversized tool result has been cut]"));
        assert!(!overflows("github-copilot API error: {\"message\":\"request too big (repaired)\"}"));
    }
}
