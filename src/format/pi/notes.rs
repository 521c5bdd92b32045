//! What pi writes into results: its own notices.

use memchr::memmem;

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
}
