//! Notes, and lines that are no records.

use super::*;

#[test]
fn what_a_person_should_know() {
    let notice = format!(
        "<persisted-output>\nOutput too large (83.7KB). Full output saved to: /x\n{}\n</persisted-output>",
        text(9)
    );
    let mut s = Session::default();
    s.call("m1", "a", "T").copied("a", json!(notice), json!({ "stdout": text(5000) }));
    s.call("m2", "b", "T").result("b", blocks(&["[Old tool result content cleared]"]));
    s.line(json!({ "type": "system", "subtype": "microcompact_boundary", "microcompactMetadata": { "compactedToolIds": ["b", "gone"] } }));
    s.line(json!({ "type": "assistant", "message": { "id": "m3", "content": [{ "type": "text", "text": "" }] } }));
    s.raw(
        br#"{"parentUuid":null,"isSidechain":false,"type":"user","message":{"role":"user","content":"\ud83d \u0000"}}"#
            .to_vec(),
    );
    s.failure("Prompt is too long").failure("API Error: 500");
    assert_eq!(
        notes(&s.located()),
        [
            format!("8: the session ends in an error of its client's (Prompt is too long); its live results hold {} bytes of text", notice.len() + 33),
            "2: 2 results are notices of Claude Code's own, for what it cut or put in a file, this is the first".into(),
            "7: half a surrogate pair is escaped here: requests with it may be refused (no low surrogate)".into(),
            "7: a NUL character is escaped here: requests with it may be refused (unexpected end of data)".into(),
            "6: an empty text block: requests with it may be refused (must be non-empty)".into(),
            "5: a microcompaction took 1 live results from what is sent; whether a resumed session sends them again is not known, so they count".into(),
        ]
    );
    // It went on: no longer wedged.
    s.call("m4", "z", "T");
    assert!(!notes(&s.located()).iter().any(|n| n.contains("ends in")));
}

#[test]
fn damage_is_reported_and_passed_over() {
    let mut s = Session::default();
    s.call("m", "a", "T");
    s.raw("").raw(" \t\r").raw(vec![0; 9]).raw("[1]").raw("{\"type\":\"user\",\"mess");
    s.raw("{\"type\":\"pr-link\",\"prNu{\"parentUuid\":null,\"type\":\"user\",\"message\":{}}");
    s.line(json!({ "type": "user", "message": { "content": [{ "type": "tool_result", "content": 7 }, 3, { "type": "tool_result", "tool_use_id": "a", "content": { "a": "b" } }] } }));
    s.raw("{\"odd\":true}").raw("{\"type\":7,\"message\":[],\"toolUseResult\":1}").result("a", json!("kept"));
    let last = s.lines.last_mut().unwrap();
    last.push(b'\r');
    let mut bytes = s.bytes();
    bytes.extend_from_slice(b"{\"parentUuid\":\"u9\",\"is");
    let located = find(&bytes);
    assert_eq!(summary(&located), ["- - batch 1 size 0 in 0", "a T batch 2 size 0 in 0", "a T batch 2 size 4"]);
    let line = |at: u64| bytes[..at as usize].iter().filter(|b| **b == b'\n').count() + 1;
    let broken: Vec<String> = located.broken.iter().map(|b| format!("{}: {}", line(b.at), b.what)).collect();
    assert_eq!(
        broken,
        [
            "4: 9 NUL bytes, as a crash leaves them, in place of a record or a part of one",
            "5: not a record (an object)",
            "6: not a record: the text ends inside a string",
            "7: a torn record: another record begins at byte 23 of the line",
            "8: a tool_result without a `tool_use_id`",
            "8: the `content` of a tool_result is neither a string nor a list of blocks",
            "8: the `content` of a tool_result is neither a string nor a list of blocks",
            "12: the last line is torn: the text ends inside a string",
        ]
    );
    assert!(located.broken.iter().all(|b| !b.whole));
}

#[test]
fn a_last_line_without_its_newline_is_a_line() {
    let mut s = Session::default();
    s.call("m", "a", "T").result("a", json!("x"));
    let bytes = s.bytes();
    let located = find(&bytes[..bytes.len() - 1]);
    assert_eq!((located.responses.len(), located.broken.len()), (1, 0));
    let bom = find(&[b"\xef\xbb\xbf", &*bytes].concat());
    assert_eq!(bom.broken[0].what, "a byte order mark, which makes the record unreadable for Claude Code");
}

#[test]
fn enormous_and_deep() {
    let mut s = Session::default();
    let deep = "[".repeat(50_000) + &"]".repeat(50_000);
    s.call("m", "a", "T").result("a", json!(text(12_000_000)));
    s.raw(format!(r#"{{"parentUuid":null,"isSidechain":false,"type":"user","message":{{"content":[{{"type":"tool_result","tool_use_id":"a","content":{deep}}}]}},"toolUseResult":{{"x":{deep}}}}}"#));
    let located = crate::format::testing::located(&ClaudeCode, "/x/y.jsonl", &s.bytes());
    assert_eq!(summary(&located), ["a T batch 1 size 12000000", "a T batch 1 size 0 in 0"]);
}
