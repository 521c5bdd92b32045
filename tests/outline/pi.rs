//! pi.

use std::path::Path;

use serde_json::{Value, json};
use unwedge::format::{Depth, Outline, Relic, RelicKind, Usage};

use super::support::{lines, outline, read, weight};

/// Entries `e0`, `e1` …, each the child of the one before unless it says otherwise.
struct Session(Vec<Value>);

impl Session {
    fn new() -> Self {
        Session(vec![json!({ "type": "session", "version": 3, "id": "s", "timestamp": "t", "cwd": "/" })])
    }

    fn entry(mut self, mut entry: Value) -> Self {
        let number = self.0.len() - 1;
        entry["id"] = format!("e{number}").into();
        let before = number.checked_sub(1).map_or(Value::Null, |n| format!("e{n}").into());
        entry.as_object_mut().unwrap().entry("parentId").or_insert(before);
        self.0.push(entry);
        self
    }

    fn message(self, message: Value) -> Self {
        self.entry(json!({ "type": "message", "message": message }))
    }

    fn user(self, text: &str) -> Self {
        self.message(json!({ "role": "user", "content": [{ "type": "text", "text": text }] }))
    }

    fn says(self, text: &str, tokens: u64) -> Self {
        let usage = json!({ "input": 5, "cacheRead": tokens - 5, "cacheWrite": 0, "output": 9 });
        let content = json!([{ "type": "thinking", "thinking": "hm", "thinkingSignature": "AAAA" }, { "type": "text", "text": text }]);
        self.message(
            json!({ "role": "assistant", "model": "m-1", "content": content, "usage": usage, "stopReason": "stop" }),
        )
    }

    fn fails(self, text: &str) -> Self {
        self.message(json!({ "role": "assistant", "model": "m-1", "content": [{ "type": "text", "text": "half" }], "stopReason": "error", "errorMessage": text }))
    }

    fn result(self, text: &str) -> Self {
        self.message(json!({ "role": "toolResult", "toolCallId": "c", "toolName": "t", "content": [{ "type": "text", "text": text }], "isError": false }))
    }

    fn edit(self, target: &str, replacement: Value) -> Self {
        self.entry(json!({ "type": "context_edit", "targetId": target, "replacement": replacement }))
    }

    fn read(&self) -> Outline {
        outline("pi", &lines(&self.0))
    }

    fn error(&self) -> Option<u64> {
        let error = self.read().stored_error.map(|e| e.record);
        let errors = self.relics().into_iter().filter(|r| matches!(r.kind, RelicKind::Error { .. }));
        assert_eq!(errors.map(|r| r.record).next_back(), error, "the last of the errors that go");
        error
    }

    fn relics(&self) -> Vec<Relic> {
        let bytes = lines(&self.0);
        let relics = read("pi", Path::new("/x/stream.jsonl"), &bytes, Depth::Limits, bytes.len()).located.relics;
        for relic in &relics {
            let value = &bytes[relic.span.start as usize..relic.span.end as usize];
            assert!(serde_json::from_slice::<Value>(value).is_ok_and(|v| v.is_string() || v.is_number()));
            assert_eq!(
                relic.line,
                1 + bytes[..relic.span.start as usize].iter().filter(|b| **b == b'\n').count() as u64
            );
        }
        relics
    }

    /// Records of the errors that go, then records and values of the counts.
    fn goes(&self) -> (Vec<u64>, Vec<(u64, String)>) {
        let (errors, counts): (Vec<Relic>, Vec<Relic>) =
            self.relics().into_iter().partition(|r| matches!(r.kind, RelicKind::Error { .. }));
        let bytes = lines(&self.0);
        let value = |r: &Relic| String::from_utf8(bytes[r.span.start as usize..r.span.end as usize].to_vec()).unwrap();
        (errors.iter().map(|r| r.record).collect(), counts.iter().map(|r| (r.record, value(r))).collect())
    }
}

#[test]
fn what_an_entry_is() {
    let call = json!({ "role": "assistant", "content": [{ "type": "toolCall", "id": "c", "name": "read", "arguments": { "path": "/a\n" } }], "stopReason": "toolUse" });
    let outline = Session::new()
        .user("ask")
        .message(call)
        .result("12345")
        .says("done", 40)
        .message(json!({ "role": "bashExecution", "command": "ls", "output": "a b" }))
        .message(json!({ "role": "bashExecution", "command": "ls", "output": "a b", "excludeFromContext": true }))
        .message(json!({ "role": "user", "content": [{ "type": "image", "data": "AAAA", "mimeType": "image/png" }] }))
        .message(
            json!({ "role": "assistant", "content": [{ "type": "text", "text": "aborted" }], "stopReason": "aborted" }),
        )
        .entry(json!({ "type": "custom_message", "customType": "x", "content": "extra", "details": { "a": "never" } }))
        .entry(json!({ "type": "branch_summary", "summary": "branch" }))
        .entry(json!({ "type": "custom", "data": "never" }))
        .entry(json!({ "type": "model_change", "provider": "p", "modelId": "m-2" }))
        .read();
    assert_eq!(outline.weight, weight(4 + 4 + 3 + 2 + 4, 3 + 5, 5, 1, 6));
    assert_eq!((outline.responses.bytes, outline.turns), (5, vec![1, 7]));
    assert_eq!(outline.model.as_deref(), Some("m-2"));
    assert_eq!(outline.usage, Some(Usage { record: 4, prompt_tokens: 40, bytes: 3 + 11 + 5, images: 0, cut: 0 }));
}

#[test]
fn only_the_way_to_the_leaf_counts() {
    let session = Session::new()
        .user("root")
        .says("left", 90)
        .result("123")
        .entry(json!({ "type": "message", "parentId": "e0", "message": { "role": "user", "content": "right" } }));
    let outline = session.read();
    assert_eq!((outline.weight, outline.responses.bytes), (weight(0, 9, 0, 0, 0), 0));
    // The one request was made on the other branch.
    assert_eq!((outline.turns, outline.usage), (vec![1, 4], None));
}

#[test]
fn a_compaction_keeps_from_where_it_says() {
    let session = || Session::new().user("first").says("a", 70).user("second").says("bb", 80);
    let compacted =
        |kept: &str| json!({ "type": "compaction", "summary": "summary", "firstKeptEntryId": kept, "tokensBefore": 1 });
    let outline = session().entry(compacted("e2")).read();
    assert_eq!(outline.weight, weight(2 + 2, 6, 0, 0, 7));
    // What is kept was answered with more before it.
    assert_eq!((outline.turns, outline.usage), (vec![3], None));
    let outline = session().entry(compacted("e0")).entry(compacted("e3")).user("third").says("c", 50).read();
    assert_eq!(outline.weight, weight(4 + 3, 5, 0, 0, 7));
    assert_eq!(outline.usage, Some(Usage { record: 8, prompt_tokens: 50, bytes: 7 + 4 + 5, images: 0, cut: 0 }));
}

#[test]
fn an_edit_takes_the_place_of_what_it_replaces() {
    let session = || Session::new().user("question").says("answer", 60).result("12345");
    let text = |text: &str| json!({ "content": [{ "type": "text", "text": text }] });
    let outline = session().edit("e0", text("q")).edit("e1", text("aa")).edit("e2", text("1")).read();
    assert_eq!((outline.weight, outline.responses.bytes), (weight(2, 1, 0, 0, 0), 1));
    assert_eq!(outline.usage, None, "the request carried what was there before");
    let outline = session().edit("e0", text("q")).edit("e0", Value::Null).says("more", 70).read();
    assert_eq!((outline.weight, outline.responses.bytes), (weight(2 + 6 + 2 + 4, 0, 0, 0, 0), 5));
    assert_eq!(outline.usage, Some(Usage { record: 6, prompt_tokens: 70, bytes: 8 + 5, images: 0, cut: 0 }));
}

#[test]
fn an_error_stands_until_something_succeeds() {
    let wedged =
        || Session::new().user("a").result("b").fails("400 prompt is too long: 213462 tokens > 200000 maximum");
    assert_eq!(wedged().error(), Some(3));
    assert_eq!(wedged().user("again").fails("github-copilot API error (413): {}").error(), Some(5));
    assert_eq!(wedged().user("again").fails("500 overloaded").error(), Some(3));
    assert_eq!(wedged().says("b", 10).error(), None);
    let compaction = json!({ "type": "compaction", "summary": "s", "firstKeptEntryId": "e2" });
    assert_eq!(wedged().entry(compaction).error(), None);
    // Taken back by an edit, though another edit leaves it.
    assert_eq!(wedged().edit("e2", Value::Null).error(), None);
    assert_eq!(wedged().edit("e1", Value::Null).error(), Some(3));
    // A half answer that failed is not sent.
    assert_eq!(wedged().read().weight, weight(0, 1, 0, 0, 0));
}

#[test]
fn what_pi_would_act_on_goes() {
    let counts = |record: u64, values: &[&str]| values.iter().map(|v| (record, (*v).to_owned())).collect::<Vec<_>>();
    let start = || Session::new().user("a").says("b", 90).result("c").says("d", 200);
    // The last count, read from the cache first; no more than the last.
    assert_eq!(start().goes(), (vec![], counts(4, &["195", "5"])));
    // Errors all of them, the count behind them, and one of an aborted answer, which 0.73 looks at too.
    let aborted = json!({ "role": "assistant", "content": [], "stopReason": "aborted", "usage": { "input": 7, "totalTokens": 8 } });
    let wedged =
        || start().message(aborted.clone()).fails("413").user("e").fails("500 busy").fails("prompt is too long");
    assert_eq!(wedged().goes(), (vec![6, 9], [counts(4, &["195", "5"]), counts(5, &["7", "8"])].concat()));
    // A count of nothing is no count; numbers of another shape are left alone.
    let none =
        json!({ "role": "assistant", "content": [], "stopReason": "stop", "usage": { "input": 0, "totalTokens": 0 } });
    assert_eq!(start().message(none).goes(), (vec![], counts(4, &["195", "5"])));
    let odd = json!({ "role": "assistant", "content": [], "stopReason": "stop", "usage": { "input": 1.5, "cacheRead": -3, "totalTokens": "9", "cacheWrite": 2 } });
    assert_eq!(start().message(odd).goes(), (vec![], counts(5, &["2"])));
    // What a compaction or an answer left behind, and what stands on another branch, pi passes over.
    let compaction = json!({ "type": "compaction", "summary": "s", "firstKeptEntryId": "e2" });
    assert_eq!(wedged().entry(compaction).goes(), (vec![], vec![]));
    assert_eq!(wedged().says("f", 300).goes(), (vec![], counts(10, &["295", "5"])));
    let branch = json!({ "type": "message", "parentId": "e2", "message": { "role": "user", "content": "g" } });
    assert_eq!(wedged().entry(branch).goes(), (vec![], counts(2, &["85", "5"])));
}

#[test]
fn version_1_is_a_list() {
    let outline = outline(
        "pi",
        &lines(&[
            json!({ "type": "session", "id": "s", "timestamp": "t", "cwd": "/", "modelId": "m-0" }),
            json!({ "type": "message", "message": { "role": "user", "content": "old" } }),
            json!({ "type": "message", "message": { "role": "user", "content": "kept" } }),
            json!({ "type": "compaction", "summary": "sum", "firstKeptEntryIndex": 2 }),
        ]),
    );
    assert_eq!((outline.weight, outline.turns), (weight(0, 4, 0, 0, 3), vec![2]));
    assert_eq!(outline.model.as_deref(), Some("m-0"));
}
