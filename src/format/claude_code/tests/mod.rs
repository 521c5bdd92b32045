mod claims;
mod damage;
mod samples;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::cap::limits::Keep;
use crate::format::testing::*;
use crate::format::{Located, Part};

/// A session on its way to a document: lines as the client writes them.
#[derive(Default)]
struct Session {
    lines: Vec<Vec<u8>>,
    side: Option<&'static str>,
}

impl Session {
    fn line(&mut self, mut fields: Value) -> &mut Self {
        let n = self.lines.len();
        let mut line = json!({ "parentUuid": n.checked_sub(1).map(|n| format!("u{n}")), "isSidechain": self.side.is_some(), "sessionId": "s", "uuid": format!("u{n}") });
        if let Some(agent) = self.side {
            line["agentId"] = agent.into();
        }
        line.as_object_mut().unwrap().append(fields.as_object_mut().unwrap());
        self.raw(serde_json::to_vec(&line).unwrap())
    }

    fn raw(&mut self, line: impl Into<Vec<u8>>) -> &mut Self {
        self.lines.push(line.into());
        self
    }

    fn user(&mut self, text: &str) -> &mut Self {
        self.line(json!({ "type": "user", "message": { "role": "user", "content": text } }))
    }

    fn call(&mut self, message: &str, id: &str, tool: &str) -> &mut Self {
        let block = json!({ "type": "tool_use", "id": id, "name": tool, "input": { "command": "x".repeat(2000) } });
        self.line(json!({ "type": "assistant", "message": { "id": message, "role": "assistant", "content": [block] } }))
    }

    fn result(&mut self, id: &str, content: Value) -> &mut Self {
        self.results(&[(id, content)], json!({}))
    }

    fn results(&mut self, results: &[(&str, Value)], mut more: Value) -> &mut Self {
        let block =
            |(id, content): &(&str, Value)| json!({ "tool_use_id": id, "type": "tool_result", "content": content });
        let blocks: Vec<Value> = results.iter().map(block).collect();
        more["type"] = "user".into();
        more["message"] = json!({ "role": "user", "content": blocks });
        self.line(more)
    }

    fn copied(&mut self, id: &str, content: Value, result: Value) -> &mut Self {
        self.results(&[(id, content)], json!({ "toolUseResult": result }))
    }

    fn progress(&mut self, parent: &str, data: Value) -> &mut Self {
        self.line(json!({ "type": "progress", "data": data, "parentToolUseID": parent }))
    }

    fn compaction(&mut self, metadata: Value) -> &mut Self {
        self.line(
            json!({ "type": "system", "subtype": "compact_boundary", "parentUuid": null, "compactMetadata": metadata }),
        )
    }

    fn failure(&mut self, text: &str) -> &mut Self {
        let message = json!({ "id": "m", "model": "<synthetic>", "role": "assistant", "content": [{ "type": "text", "text": text }] });
        self.line(json!({ "type": "assistant", "message": message, "isApiErrorMessage": true }))
    }

    fn bytes(&self) -> Vec<u8> {
        self.lines.iter().flat_map(|line| [line.as_slice(), b"\n"].concat()).collect()
    }

    fn located(&self) -> Located {
        find(&self.bytes())
    }
}

/// Locates, and checks that no line of the assistant is touched and that what does not matter changes nothing.
fn find(bytes: &[u8]) -> Located {
    let located = located(&ClaudeCode, "/x/y.jsonl", bytes);
    let lines: Vec<&[u8]> = bytes.split(|b| *b == b'\n').collect();
    for response in &located.responses {
        for part in response.parts.iter().chain(response.copies.iter().flat_map(|c| &c.parts)) {
            let Part::Text { line, .. } = part else { continue };
            let line: Value = serde_json::from_slice(lines[*line as usize - 1]).unwrap_or_default();
            assert_ne!(line["type"], "assistant");
        }
    }
    // Lines that do not matter, made blank.
    let blank = |line: &&[u8]| if ClaudeCode.matters(line) { line.to_vec() } else { vec![b' '; line.len()] };
    let quick = lines.iter().map(blank).collect::<Vec<_>>().join(&b'\n');
    let quick = crate::format::testing::located(&ClaudeCode, "/x/y.jsonl", &quick);
    assert_eq!((&quick.responses, &quick.broken), (&located.responses, &located.broken));
    located
}

fn text(n: usize) -> String {
    "x".repeat(n)
}

fn blocks(texts: &[&str]) -> Value {
    texts.iter().map(|t| json!({ "type": "text", "text": t })).collect()
}

#[test]
fn a_batch_is_the_calls_of_one_message() {
    let mut s = Session::default();
    s.user("go").call("m1", "a", "Bash").call("m1", "b", "Read").call("m1", "c", "Grep");
    s.result("b", json!(text(30)))
        .result("a", blocks(&[&text(10), "é"]))
        .call("m2", "d", "Bash")
        .result("c", json!(""));
    s.results(&[("d", json!(null))], json!({}));
    assert_eq!(
        summary(&s.located()),
        [
            "b Read batch 1 size 30",
            "a Bash batch 1 size 12 in 2",
            "c Grep batch 1 size 0",
            "d Bash batch 2 size 0 in 0"
        ]
    );
}

#[test]
fn several_results_on_a_line_and_several_calls() {
    let mut s = Session::default();
    let call = |id: &str| json!({ "type": "tool_use", "id": id, "name": "T", "input": {} });
    s.line(json!({ "type": "assistant", "message": { "id": "m", "content": [call("a"), { "type": "text", "text": "and" }, call("b")] } }));
    s.results(
        &[
            ("a", json!("one")),
            ("b", json!([{ "type": "tool_reference", "tool_name": "T" }, { "type": "image", "source": {} }])),
        ],
        json!({ "toolUseResult": text(50) }),
    );
    // Without a type, as in some exports; the message says whose it is.
    s.line(json!({ "message": { "role": "user", "content": [{ "type": "tool_result", "tool_use_id": "c", "content": "x", "is_error": true }] } }));
    assert_eq!(
        summary(&s.located()),
        ["a T batch 1 size 3, toolUseResult 50", "b T batch 1 size 4800", "c - batch 2 size 1, failed"]
    );
}

#[test]
fn results_without_their_call() {
    let mut s = Session::default();
    s.result("late", json!("1")).result("gone", json!("2")).call("m1", "late", "Bash");
    // The line of the call is known, the id is not.
    s.results(&[("other", json!("3"))], json!({ "sourceToolAssistantUUID": "u2" })).result("gone", json!("4"));
    let located = s.located();
    assert_eq!(
        summary(&located),
        ["late Bash batch 1 size 1", "gone - batch 2 size 1", "other - batch 1 size 1", "gone - batch 3 size 1"]
    );
    assert_eq!(
        notes(&located),
        [
            "2: 3 results (such as gone) whose calls are not in the stream: requests with them may be refused, this is the first"
        ]
    );
    let compacting = crate::format::testing::located(&ClaudeCode, "/x/agent-acompact-1.jsonl", &s.bytes());
    assert_eq!(notes(&compacting), [""; 0]);
}

#[test]
fn repeated_ids_mean_the_call_before() {
    let mut s = Session::default();
    s.call("m1", "f:0", "Bash").result("f:0", json!("1")).call("m2", "f:0", "Read").result("f:0", json!("2"));
    assert_eq!(summary(&s.located()), ["f:0 Bash batch 1 size 1", "f:0 Read batch 2 size 1"]);
}

#[test]
fn the_result_is_kept_again_beside_it() {
    let cases = [
        (
            json!({ "stdout": text(100), "stderr": text(40), "interrupted": false, "isImage": false }),
            "toolUseResult.stderr 40, toolUseResult.stdout 100",
        ),
        (json!({ "stdout": text(100), "stderr": "", "isImage": true }), ""),
        (
            json!({ "type": "text", "file": { "filePath": text(2000), "content": text(60), "numLines": 1 } }),
            "toolUseResult.file.content 60",
        ),
        (json!({ "type": "image", "file": { "base64": text(3000), "type": "image/png" } }), ""),
        (
            json!({ "filePath": "/x", "oldString": text(2000), "newString": text(2000), "originalFile": text(90), "structuredPatch": [{ "lines": [text(2000)] }] }),
            "toolUseResult.originalFile 90",
        ),
        (
            json!({ "type": "create", "filePath": "/x", "content": text(2000), "structuredPatch": [], "originalFile": null }),
            "",
        ),
        (
            json!({ "mode": "content", "filenames": [text(2000)], "content": text(70), "numLines": 3 }),
            "toolUseResult.content 70",
        ),
        (
            json!({ "status": "completed", "prompt": text(2000), "content": [{ "type": "text", "text": text(30) }, { "type": "text", "text": text(20) }] }),
            "toolUseResult.content 50",
        ),
        (json!(format!("Error: {}", text(30))), "toolUseResult 37"),
        (
            json!([{ "type": "text", "text": text(30) }, { "type": "image", "source": { "type": "base64", "data": text(3000) } }]),
            "toolUseResult 30",
        ),
        (
            json!([{ "type": "resource", "resource": { "uri": "x", "mimeType": "text/plain", "text": text(1500) } }]),
            "toolUseResult 1500",
        ),
        (
            json!({ "query": "q", "results": [{ "content": [{ "url": text(100), "page": text(1500) }] }, text(1200)], "durationSeconds": 1.5 }),
            "toolUseResult 2700",
        ),
        // Too short to be over any limit, or to be what a cut left.
        (json!({ "stdout": text(23), "stderr": "", "interrupted": false }), ""),
        (json!(null), ""),
        (json!(7), ""),
    ];
    for (result, expected) in cases {
        let mut s = Session::default();
        s.call("m", "a", "T").copied("a", json!("sent"), result.clone());
        let expected = if expected.is_empty() { String::new() } else { format!(", {expected}") };
        assert_eq!(summary(&s.located()), [format!("a T batch 1 size 4{expected}")], "{result}");
    }
}

#[test]
fn copies_on_other_lines_belong_to_what_they_repeat() {
    let inner = |kind: &str, block: Value| json!({ "type": kind, "message": { "role": kind, "content": [block] }, "uuid": "i" });
    let answer = || inner("user", json!({ "type": "tool_result", "tool_use_id": "in", "content": text(40) }));
    let mut with_copy = answer();
    with_copy["toolUseResult"] = json!({ "stdout": text(40) });
    let mut s = Session::default();
    s.call("m", "k", "Task");
    s.progress("k", json!({ "type": "agent_progress", "message": inner("assistant", json!({ "type": "tool_use", "id": "in", "name": "Grep", "input": text(3000) })), "normalizedMessages": [], "prompt": text(3000) }));
    s.progress(
        "k",
        json!({ "type": "agent_progress", "message": answer(), "normalizedMessages": [with_copy, answer()] }),
    );
    s.progress(
        "k",
        json!({ "type": "bash_progress", "output": text(25), "fullOutput": text(80), "elapsedTimeSeconds": 3 }),
    );
    s.progress("gone", json!({ "type": "bash_progress", "output": "", "fullOutput": text(90) }));
    s.result("k", json!("done"));
    // A line that keeps a result and sends none.
    s.line(json!({ "type": "user", "message": { "role": "user", "content": "hi" }, "toolUseResult": text(33) }));
    let located = s.located();
    assert_eq!(
        summary(&located),
        [
            "in Grep batch 2 size 0 in 0, only copies, data.message 40, data.normalizedMessages 40, data.normalizedMessages 40, data.normalizedMessages 40",
            "gone - batch 3 size 0 in 0, only copies, data.fullOutput 90",
            "k Task batch 1 size 4, data.fullOutput 80 on line 4, data.output 25 on line 4",
            "- - batch 4 size 0 in 0, only copies, toolUseResult 33",
        ]
    );
    assert!(located.notes.is_empty());
}

#[test]
fn what_is_before_a_compaction_is_dead() {
    let mut s = Session::default();
    s.call("m1", "a", "T").result("a", json!("1")).compaction(json!({ "trigger": "auto" })).user("so far");
    s.call("m2", "b", "T").result("b", json!("2")).call("m3", "c", "T").result("c", json!("3"));
    let dead = |s: &Session| summary(&s.located()).into_iter().filter(|r| r.ends_with("before a compaction")).count();
    assert_eq!((dead(&s), s.located().responses[0].dead), (1, Some("before a compaction")));
    // The next one preserves the lines u6 to u7.
    s.compaction(json!({ "preservedSegment": { "headUuid": "u6", "anchorUuid": "u8", "tailUuid": "u7" } }));
    assert_eq!(dead(&s), 2);
    s.lines.pop();
    s.compaction(
        json!({ "preservedMessages": { "anchorUuid": "u8", "uuids": ["u5", "u6", "u7"], "allUuids": ["u5"] } }),
    );
    assert_eq!(dead(&s), 1);
    s.lines.pop();
    s.compaction(json!({ "preservedSegment": { "headUuid": "nowhere", "tailUuid": "u7" } }));
    assert_eq!(dead(&s), 3);
}

#[test]
fn subagents_are_threads_of_their_own() {
    let mut s = Session::default();
    s.call("m1", "a", "Task");
    s.side = Some("ag1");
    s.call("m1", "b", "Read").result("b", json!("2")).compaction(json!({}));
    let alone = Session { lines: s.lines[1..].to_vec(), side: None };
    s.side = Some("ag2");
    s.call("m1", "c", "Read").result("c", json!("3"));
    s.side = None;
    s.result("a", json!("1"));
    assert_eq!(
        summary(&s.located()),
        ["b Read batch 1 size 1, a subagent's", "c Read batch 2 size 1, a subagent's", "a Task batch 3 size 1"]
    );
    // In a subagent's own file every line is a side chain.
    assert_eq!(summary(&alone.located()), ["b Read batch 1 size 1, before a compaction"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Whatever is in a session and however low the limits: only sizes change, and a second repair finds nothing.
    #[test]
    fn a_repair_changes_sizes_only(
        events in prop::collection::vec((0_u8..9, 0_u8..4, 0_usize..4000, "[a-z\\\\\"\n\u{1}é界😀.\\[\\]]{0,12}"), 1..14),
        threshold in 64_u64..3000, ceiling in 64_u64..6000, keep in prop::sample::select(vec![Keep::Head, Keep::Tail, Keep::Both]),
        truncate in 0_usize..40,
    ) {
        let mut s = Session::default();
        for (kind, id, size, seed) in &events {
            let id = format!("t{id}");
            let text: String = if seed.is_empty() { text(*size) } else { seed.chars().cycle().take(*size).collect() };
            match kind {
                0 => s.call(&format!("m{}", size % 3), &id, "Bash"),
                1 => s.result(&id, json!(text)),
                2 => s.result(&id, blocks(&[&text, seed, "... [truncated, 9 KB → 40 B]"])),
                3 => s.copied(&id, json!(text), json!({ "stdout": text, "stderr": seed, "more": [text, { "deep": text }] })),
                4 => s.copied(&id, json!(seed), blocks(&[seed, &text])),
                5 => s.progress(&id, json!({ "type": "bash_progress", "output": seed, "fullOutput": text })),
                6 => s.progress("x", json!({ "data": 1, "normalizedMessages": [{ "type": "user", "message": { "content": [{ "type": "tool_result", "tool_use_id": id, "content": text }] } }] })),
                7 => s.compaction(json!({ "preservedSegment": { "headUuid": "u0", "tailUuid": format!("u{}", size % 9) } })),
                _ => s.raw(text.into_bytes().into_iter().filter(|b| *b != b'\n').collect::<Vec<_>>()),
            };
        }
        let mut bytes = s.bytes();
        bytes.truncate(bytes.len().saturating_sub(truncate));
        find(&bytes);
        repair(&ClaudeCode, Path::new("/x/y.jsonl"), &bytes, &limits(&[("*", &threshold.to_string())], &ceiling.to_string(), keep));
    }

    /// Any bytes at all: no panic, and nothing is claimed to stand where it does not.
    #[test]
    fn any_bytes(doc in prop::collection::vec(prop_oneof![Just(b'\n'), Just(b'{'), Just(b'"'), any::<u8>()], 0..200)) {
        located(&ClaudeCode, "/x/y.jsonl", &doc);
        claimants("/h/.claude/projects/-x/y.jsonl", &doc);
    }
}
