//! Claude Code.

use std::path::Path;

use serde_json::{Value, json};
use unwedge::format::{Load, Usage};

use super::support::{lines, outline, outline_of, weight};

/// Lines as the client writes them: uuids `u0`, `u1` …
#[derive(Default)]
struct Session(Vec<Value>);

impl Session {
    fn line(mut self, mut line: Value) -> Self {
        let uuid = format!("u{}", self.0.len());
        line.as_object_mut().unwrap().entry("isSidechain").or_insert(false.into());
        line["uuid"] = uuid.into();
        line["parentUuid"] = Value::Null;
        self.0.push(line);
        self
    }

    fn user(self, content: Value) -> Self {
        self.line(json!({ "type": "user", "message": { "role": "user", "content": content } }))
    }

    /// A part of the answer of this id, to a prompt of so many tokens.
    fn answer(self, id: &str, tokens: u64, content: Value) -> Self {
        let usage = json!({ "input_tokens": 3, "cache_creation_input_tokens": 7, "cache_read_input_tokens": tokens - 10, "output_tokens": 99 });
        let message =
            json!({ "id": id, "role": "assistant", "model": "claude-opus-4-5", "content": [content], "usage": usage });
        self.line(json!({ "type": "assistant", "message": message }))
    }

    fn call(self, id: &str, tokens: u64) -> Self {
        let call = json!({ "type": "tool_use", "id": id, "name": "Bash", "input": { "command": "ls", "n": 12 } });
        self.answer(id, tokens, call)
    }

    fn result(self, id: &str, text: &str) -> Self {
        self.user(json!([{ "type": "tool_result", "tool_use_id": id, "content": text }]))
    }

    fn fails(self, text: &str) -> Self {
        let message =
            json!({ "role": "assistant", "model": "<synthetic>", "content": [{ "type": "text", "text": text }] });
        self.line(json!({ "type": "assistant", "isApiErrorMessage": true, "message": message }))
    }

    fn boundary(self, meta: Value) -> Self {
        self.line(json!({ "type": "system", "subtype": "compact_boundary", "compactMetadata": meta }))
    }

    fn read(&self) -> unwedge::format::Outline {
        outline("claude-code", &lines(&self.0))
    }

    fn error(&self) -> Option<u64> {
        self.read().stored_error.map(|e| e.record)
    }
}

#[test]
fn many_middling_results_and_prompt_is_too_long() {
    let mut session = Session::default().user("Read the docs.".into());
    for n in 0..12 {
        session = session.call(&format!("t{n}"), 1000 + n).result(&format!("t{n}"), &"x".repeat(196));
    }
    let session = session.fails("Prompt is too long");
    let outline = session.read();
    // 12 × ("Bash" + "command" + "ls" + "n" + "12"); 12 × 196.
    assert_eq!(outline.weight, weight(12 * 16, 14, 0, 0, 0));
    assert_eq!(outline.responses, Load { bytes: 2352, images: 0 });
    assert_eq!(outline.turns, [0]);
    let error = outline.stored_error.unwrap();
    assert_eq!((error.record, error.line, &*error.text), (25, 26, "Prompt is too long"));
    assert_eq!(outline.model.as_deref(), Some("claude-opus-4-5"));
    assert_eq!(outline.window, None);
    // The last answer stood behind 11 calls and 11 results.
    let usage = Usage { record: 23, prompt_tokens: 1011, bytes: 14 + 11 * (16 + 196), images: 0, cut: 0 };
    assert_eq!(outline.usage, Some(usage));
}

#[test]
fn what_a_line_is() {
    let side = json!({ "type": "user", "isSidechain": true, "agentId": "a", "message": { "role": "user", "content": "of a subagent" } });
    let outline = Session::default()
        .user("é\u{1f600}".into())
        .user(json!([{ "type": "text", "text": "<system-reminder>\nabc" }, { "type": "text", "text": "and\n" }]))
        .line(json!({ "type": "user", "isMeta": true, "message": { "role": "user", "content": "Caveat" } }))
        .line(json!({ "type": "user", "isCompactSummary": true, "message": { "role": "user", "content": "Summary" } }))
        .user(json!([{ "type": "image", "source": { "type": "base64", "data": "AAAA" } }, { "type": "document", "source": { "type": "base64", "data": "AAAA" } }]))
        .user("[Request interrupted by user]".into())
        .answer("m", 20, json!({ "type": "thinking", "thinking": "hm\n", "signature": "AAAAAAAA" }))
        .answer("m", 20, json!({ "type": "redacted_thinking", "data": "AAAA" }))
        .answer("m", 20, json!({ "type": "text", "text": "done" }))
        .line(json!({ "type": "attachment", "attachment": { "type": "file", "filename": "/a", "content": { "type": "text", "file": { "content": "12345" } } } }))
        .line(json!({ "type": "attachment", "attachment": { "type": "queued_command", "prompt": "wait" } }))
        .line(json!({ "type": "attachment", "attachment": { "type": "file", "content": { "type": "image", "file": { "base64": "AAAA" } } } }))
        .line(json!({ "type": "progress", "data": { "fullOutput": "never sent" } }))
        .line(json!({ "type": "system", "content": "never sent" }))
        .line(side)
        .read();
    let interrupted = "[Request interrupted by user]".len() as u64;
    assert_eq!(outline.weight, weight(3 + 4, 6 + 4 + interrupted + 4, 21 + 6 + 5, 3, 7));
    // The image alone is a message too; what the client or a subagent says is none, nor a command that waited.
    assert_eq!(outline.turns, [0, 1, 4]);
    assert_eq!(outline.usage.unwrap().record, 6);
}

#[test]
fn an_error_stands_until_something_succeeds() {
    let wedged = || Session::default().user("a".into()).fails("Prompt is too long");
    assert_eq!(wedged().error(), Some(1));
    assert_eq!(wedged().user("again".into()).fails("API Error: 500 overloaded").error(), Some(1));
    assert_eq!(wedged().user("again".into()).fails("API Error: 413 {}").error(), Some(3));
    assert_eq!(wedged().answer("m", 20, json!({ "type": "text", "text": "b" })).error(), None);
    assert_eq!(wedged().boundary(json!({})).error(), None);
    // Though it is preserved.
    assert_eq!(wedged().boundary(json!({ "preservedMessages": { "uuids": ["u0", "u1"] } })).error(), None);
    // What somebody says of errors is none.
    assert_eq!(Session::default().user("Prompt is too long".into()).error(), None);
    assert_eq!(
        Session::default().answer("m", 20, json!({ "type": "text", "text": "Prompt is too long" })).error(),
        None
    );
    let long = Session::default().fails(&format!("Request too large {}", "é".repeat(300))).read();
    assert_eq!(long.stored_error.unwrap().text.chars().count(), 200);
}

#[test]
fn a_compaction_leaves_what_it_preserved() {
    let session = || Session::default().user("before".into()).call("t1", 100).result("t1", "12345").user("kept".into());
    let gone = session().boundary(json!({})).user("after".into()).read();
    assert_eq!((gone.weight, gone.responses.bytes), (weight(0, 5, 0, 0, 0), 0));
    assert_eq!((gone.turns, gone.usage), (vec![5], None));
    let kept = session().boundary(json!({ "preservedSegment": { "headUuid": "u1", "tailUuid": "u3" } })).read();
    assert_eq!((kept.weight, kept.responses.bytes), (weight(16, 4, 0, 0, 0), 5));
    // The preserved answer was to a request that carried more.
    assert_eq!((kept.turns, kept.usage), (vec![3], None));
    assert_eq!(kept.model.as_deref(), Some("claude-opus-4-5"));
}

#[test]
fn figures_that_may_be_of_something_else_are_left_out() {
    let cleared = |id: &str| json!({ "type": "system", "subtype": "microcompact_boundary", "microcompactMetadata": { "compactedToolIds": [id] } });
    let session = || Session::default().user("ask".into()).call("t1", 100).result("t1", "12345").call("t2", 200);
    let usage = session().read().usage.unwrap();
    assert_eq!((usage.record, usage.prompt_tokens, usage.bytes), (3, 200, 3 + 16 + 5));
    let before = |session: Session| session.read().usage.map(|u| u.record);
    // Answers behind a microcompaction do not count, those before do.
    assert_eq!(before(session().line(cleared("t1")).call("t3", 300)), Some(3));
    assert_eq!(before(session().line(cleared("nothing that is live")).call("t3", 300)), Some(5));
    // A result that was cut: before or after the request, nobody knows, so it is said how much is gone.
    let cut = format!("{}\n... [truncated, 9 KB → 60 B]", "x".repeat(29));
    assert_eq!(cut.len(), 60);
    let session = Session::default().user("ask".into()).call("t1", 100).result("t1", &cut).call("t2", 200);
    let usage = session.read().usage.unwrap();
    assert_eq!((usage.bytes, usage.cut), (3 + 16 + 60, 9 * 1024 + 512 - 60));
}

#[test]
fn the_first_figures_are_told_beside_the_last() {
    let session = || Session::default().user("ask".into()).call("t1", 100).result("t1", "12345");
    assert_eq!(session().read().first_usage, None);
    let two = session().call("t2", 200).result("t2", "1").call("t3", 300).read();
    assert_eq!((two.first_usage.map(|u| u.record), two.usage.map(|u| u.record)), (Some(1), Some(5)));
}

#[test]
fn a_subagents_own_file_is_all_live() {
    let line =
        |kind: &str, message: Value| json!({ "type": kind, "isSidechain": true, "agentId": "a", "message": message });
    let session = Session::default()
        .line(line("user", json!({ "role": "user", "content": "do it" })))
        .line(line("assistant", json!({ "id": "m", "role": "assistant", "model": "haiku", "content": [{ "type": "text", "text": "done" }], "usage": { "input_tokens": 50 } })));
    let path = Path::new("/x/agent-a.jsonl");
    let outline = outline_of("claude-code", path, &lines(&session.0)).unwrap();
    assert_eq!(
        (outline.weight, outline.turns, outline.model.as_deref()),
        (weight(4, 5, 0, 0, 0), vec![0], Some("haiku"))
    );
    assert_eq!(outline.usage, Some(Usage { record: 1, prompt_tokens: 50, bytes: 5, images: 0, cut: 0 }));
}
