mod claims;
mod samples;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::cap::limits::Keep;
use crate::format::Located;
use crate::format::testing::*;

const NAME: &str = "2026-02-02T02-00-00-000Z_01a22eec-0000-7000-8000-00000000c0de.jsonl";

/// A session on its way to a document. Entry number n has the id `n`; each is the child of `at` and becomes it.
struct Session {
    lines: Vec<Vec<u8>>,
    version: u64,
    next: u64,
    at: Option<u64>,
}

fn session(version: u64) -> Session {
    let mut header = json!({ "type": "session", "id": "s", "timestamp": "t", "cwd": "/x" });
    if version > 1 {
        header["version"] = version.into();
    }
    Session { lines: vec![serde_json::to_vec(&header).unwrap()], version, next: 1, at: None }
}

impl Session {
    fn entry(&mut self, mut entry: Value) -> &mut Self {
        if self.version > 1 {
            entry["id"] = self.next.to_string().into();
            entry["parentId"] = self.at.map(|n| n.to_string()).into();
        }
        self.at = Some(self.next);
        self.next += 1;
        self.raw(serde_json::to_vec(&entry).unwrap())
    }

    fn raw(&mut self, line: impl Into<Vec<u8>>) -> &mut Self {
        self.lines.push(line.into());
        self
    }

    /// The next entry is a child of this one.
    fn at(&mut self, entry: u64) -> &mut Self {
        self.at = Some(entry);
        self
    }

    fn user(&mut self) -> &mut Self {
        self.entry(json!({ "type": "message", "message": { "role": "user", "content": "hi" } }))
    }

    fn calls(&mut self, ids: &[&str]) -> &mut Self {
        let call = |id: &&str| json!({ "type": "toolCall", "id": id, "name": "bash", "arguments": { "command": "x".repeat(2000) } });
        let blocks: Vec<Value> = ids.iter().map(call).collect();
        self.entry(json!({ "type": "message", "message": { "role": "assistant", "content": blocks, "stopReason": "toolUse" } }))
    }

    fn result(&mut self, id: &str, content: Value) -> &mut Self {
        self.detailed(id, content, json!(null))
    }

    fn detailed(&mut self, id: &str, content: Value, details: Value) -> &mut Self {
        let message = json!({ "role": "toolResult", "toolCallId": id, "toolName": "bash", "content": content, "details": details, "isError": false });
        self.entry(json!({ "type": "message", "message": message }))
    }

    fn edit(&mut self, target: u64, replacement: Value) -> &mut Self {
        self.entry(json!({ "type": "context_edit", "targetId": target.to_string(), "replacement": replacement }))
    }

    fn compaction(&mut self, kept: Value) -> &mut Self {
        let name = if self.version > 1 { "firstKeptEntryId" } else { "firstKeptEntryIndex" };
        self.entry(json!({ "type": "compaction", "summary": "x".repeat(3000), name: kept }))
    }

    fn failure(&mut self, text: &str) -> &mut Self {
        self.entry(json!({ "type": "message", "message": { "role": "assistant", "content": [], "stopReason": "error", "errorMessage": text } }))
    }

    fn bytes(&self) -> Vec<u8> {
        self.lines.iter().flat_map(|line| [line.as_slice(), b"\n"].concat()).collect()
    }

    fn located(&self) -> Located {
        located(&Pi, NAME, &self.bytes())
    }
}

fn text(n: usize) -> Value {
    json!([{ "type": "text", "text": "x".repeat(n) }])
}

#[test]
fn a_batch_is_the_calls_of_the_nearest_assistant() {
    let mut s = session(3);
    s.user().calls(&["a|1", "b|2"]).result("a|1", text(3)).result(
        "b|2",
        json!([{ "type": "text", "text": "x" }, { "type": "image", "data": "eHg=" }, { "type": "text", "text": "é" }]),
    );
    s.calls(&["a|1"]).result("a|1", json!("plain")).result("gone", json!(null)).result("gone", json!([]));
    let located = s.located();
    assert_eq!(
        summary(&located),
        [
            "a|1 bash batch 1 size 3",
            "b|2 bash batch 1 size 4803 in 3",
            "a|1 bash batch 2 size 5",
            "gone bash batch 3 size 0 in 0",
            "gone bash batch 4 size 0 in 0"
        ]
    );
    assert_eq!(notes(&located), ["8: a tool result without content: pi 0.73 cannot build the context"]);
}

#[test]
fn branches_are_told_apart() {
    let mut s = session(3);
    // 1 user, 2 calls, 3 result; 4 user, 5 calls, 6 result (left); 7 result, again under 2.
    s.user().calls(&["a"]).result("a", text(1)).user().calls(&["b"]).result("b", text(2)).at(2).result("a", text(3));
    assert_eq!(
        summary(&s.located()),
        [
            "a bash batch 1 size 1, on another branch",
            "b bash batch 2 size 2, on another branch",
            "a bash batch 3 size 3"
        ]
    );
    // Repeated ids on branches: the ancestor counts, not the latest.
    s.at(3).result("b", text(4)).at(5).result("b", text(5));
    let located = s.located();
    assert_eq!(
        summary(&located)[3..],
        ["b bash batch 4 size 4, on another branch".to_owned(), "b bash batch 5 size 5".to_owned()]
    );
}

#[test]
fn what_was_compacted_is_dead() {
    let build = |version: u64, kept: Value| {
        let mut s = session(version);
        s.calls(&["a"])
            .result("a", text(1))
            .calls(&["b"])
            .result("b", text(2))
            .compaction(kept)
            .calls(&["c"])
            .result("c", text(3));
        s.located().responses.iter().map(|r| r.dead).collect::<Vec<_>>()
    };
    let old = Some("compacted");
    for version in [2, 3] {
        assert_eq!(build(version, json!("3")), [old, None, None]);
        assert_eq!(build(version, json!("1")), [None; 3]);
        // What it keeps is not before it, or nowhere: nothing is kept.
        assert_eq!(build(version, json!("6")), [old, old, None]);
        assert_eq!(build(version, json!("99")), [old, old, None]);
        assert_eq!(build(version, json!(null)), [old, old, None]);
    }
    // The header is number 0 in version 1.
    assert_eq!(build(1, json!(3)), [old, None, None]);
    assert_eq!(build(1, json!(4)), [old, None, None]);
    assert_eq!(build(1, json!(5)), [old, old, None]);
    assert_eq!(build(1, json!(0)), [old, old, None]);
    assert_eq!(build(1, json!(99)), [old, old, None]);
}

#[test]
fn only_a_compaction_on_the_way_counts() {
    let mut s = session(3);
    s.calls(&["a"]).result("a", text(1)).user().compaction(json!("3")).at(2).user();
    assert_eq!(summary(&s.located()), ["a bash batch 1 size 1"]);
}

#[test]
fn what_is_edited_is_superseded_by_the_latest_edit() {
    let mut s = session(3);
    // 1 calls, 2 and 3 results, 4 user
    s.calls(&["a", "b"]).result("a", text(500)).result("b", text(20)).user();
    s.edit(2, json!({ "content": text(7) }))
        .edit(2, json!({ "content": text(8) }))
        .edit(4, json!({ "content": text(900) }))
        .edit(3, json!(null));
    let lines = summary(&s.located());
    assert_eq!(
        lines,
        [
            "a bash batch 1 size 500, superseded",
            "b bash batch 2 size 20, superseded",
            "a bash batch 3 size 7, superseded",
            "a bash batch 4 size 8"
        ]
    );
    // On another branch an edit does nothing.
    s.at(4).user();
    assert_eq!(
        summary(&s.located()),
        [
            "a bash batch 1 size 500",
            "b bash batch 1 size 20",
            "a bash batch 1 size 7, on another branch",
            "a bash batch 1 size 8, on another branch"
        ]
    );
    // Compacted, it is dead in every form.
    s.at(8).compaction(json!("4")).user();
    assert!(s.located().responses.iter().all(|r| r.dead == Some("compacted")));
}

#[test]
fn details_keep_texts_again() {
    let mut s = session(3);
    let long = "y".repeat(1200);
    s.calls(&["a", "b"]);
    s.detailed("a", text(30), json!({ "truncation": { "content": "z".repeat(40), "truncated": true, "totalLines": 3 }, "fullOutputPath": "/var/tmp/pi-bash-0123456789abcdef.log" }));
    s.detailed("b", json!(null), json!({ "diff": long, "jsonOutputs": [long, "short"], "shot": { "type": "image", "data": long }, "truncation": { "more": long } }));
    let located = s.located();
    assert_eq!(
        summary(&located),
        ["a bash batch 1 size 30, details.truncation.content 40", "b bash batch 1 size 0 in 0, details 3600"]
    );
}

#[test]
fn notices_and_errors_are_noted() {
    let mut s = session(3);
    s.calls(&["a", "b"]).result(
        "a",
        json!([{ "type": "text", "text": "x\n\n[Showing lines 1-2 of 3 (50.0KB limit). Full output: /x]" }]),
    );
    s.failure("400 prompt is too long: 213462 tokens > 200000 maximum").user().failure("413");
    let located = s.located();
    assert_eq!(
        notes(&located),
        [
            "4: the session ends in a stored error of too much context: as long as its text says so, pi may compact everything away at the next prompt, however small a cut has made it",
            "3: a result that pi itself cut, as its notice says"
        ]
    );
    // Taken out of the context, or answered after all.
    let count = |s: &Session| notes(&s.located()).iter().filter(|n| n.contains("ends in")).count();
    s.edit(3, json!(null));
    assert_eq!(count(&s), 1);
    s.edit(5, json!(null));
    assert_eq!(count(&s), 0);
    s.at(5).calls(&[]);
    assert_eq!(count(&s), 0);
    s.raw("{\"type\":\"custom\",\"id\":\"z\",\"parentId\":null}");
    let located = s.located();
    assert_eq!(located.responses[0].dead, Some("on another branch"));
    assert_eq!(notes(&located)[0], "10: the last entry has no parent: pi continues from an empty context");
}

#[test]
fn damage_is_reported_and_passed_over() {
    let mut s = session(3);
    s.calls(&["a"])
        .raw("")
        .raw("\0\0")
        .raw("null")
        .result("a", json!(7))
        .raw("{\"type\":\"message\",\"id\":\"x{\"type\":\"message\",\"id\":\"y\"}");
    s.result("a", text(2));
    let mut bytes = s.bytes();
    bytes.extend_from_slice(b"{\"type\":\"message\",\"id\":\"9\",\"pare");
    let located = located(&Pi, NAME, &bytes);
    assert_eq!(summary(&located), ["a bash batch 1 size 0 in 0", "a bash batch 1 size 2"]);
    let line = |at: u64| bytes[..at as usize].iter().filter(|b| **b == b'\n').count() + 1;
    let broken: Vec<String> = located.broken.iter().map(|b| format!("{}: {}", line(b.at), b.what)).collect();
    assert_eq!(
        broken,
        [
            "4: 2 NUL bytes, as a crash leaves them, in place of a record or a part of one",
            "5: not a record (an object)",
            "6: the `content` of a tool result is neither a string nor a list of blocks",
            "7: a torn record: another record begins at byte 25 of the line",
            "9: the last line is torn: the text ends inside a string"
        ]
    );
    // A line that is an entry without an id becomes the leaf.
    s.raw("[]");
    assert!(s.located().responses.iter().all(|r| r.dead.is_some()));
}

#[test]
fn headers() {
    let mut s = session(3);
    s.calls(&["a"]).result("a", text(1));
    let bytes = s.bytes();
    let bom = located(&Pi, NAME, &[b"\xef\xbb\xbf", &*bytes].concat());
    assert!(bom.broken[0].whole && bom.broken[0].at == 0 && bom.broken.len() == 1);
    s.lines[0] = b"{\"type\":\"session\",\"version\":4}".to_vec();
    assert_eq!(notes(&s.located()), ["1: a header of a version other than 1, 2 and 3: read as one of version 3"]);
    s.lines[0] = b"{\"type\":\"sess".to_vec();
    let located = s.located();
    assert_eq!((located.broken.len(), located.responses.len()), (1, 1));
    assert_eq!(
        notes(&located),
        ["2: the first record is no session header: pi 1.6 refuses the file, 0.73 overwrites it"]
    );
    // CRLF and no final newline are fine.
    let crlf =
        bytes.strip_suffix(b"\n").unwrap().iter().flat_map(|b| if *b == b'\n' { b"\r\n".to_vec() } else { vec![*b] });
    let crlf: Vec<u8> = crlf.collect();
    assert_eq!(summary(&crate::format::testing::located(&Pi, NAME, &crlf)), ["a bash batch 1 size 1"]);
    assert_eq!(crate::format::testing::located(&Pi, NAME, b""), Located::default());
}

#[test]
fn enormous_and_deep() {
    let mut s = session(3);
    let deep = "[".repeat(50_000) + &"]".repeat(50_000);
    s.calls(&["a"]).result("a", text(12_000_000));
    s.raw(format!(r#"{{"type":"message","id":"9","parentId":"2","message":{{"role":"toolResult","toolCallId":"a","content":{deep},"details":{deep}}}}}"#));
    assert_eq!(
        summary(&s.located()),
        ["a - batch 1 size 12000000", "a - batch 1 size 0 in 0"]
            .map(|l| l.replace("a - batch 1 size 12", "a bash batch 1 size 12"))
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Whatever is in a session and however low the limits: only sizes change, and a second repair finds nothing.
    #[test]
    fn a_repair_changes_sizes_only(
        version in 1_u64..4,
        events in prop::collection::vec((0_u8..9, 0_u64..12, 0_usize..4000, "[a-z\\\\\"\n\u{1}é界😀.\\[\\]]{0,12}"), 1..14),
        threshold in 64_u64..3000, ceiling in 64_u64..6000, keep in prop::sample::select(vec![Keep::Head, Keep::Tail, Keep::Both]),
        truncate in 0_usize..40,
    ) {
        let mut s = session(version);
        for (kind, n, size, seed) in &events {
            let id = format!("t{}", n % 3);
            let text: String = if seed.is_empty() { "x".repeat(*size) } else { seed.chars().cycle().take(*size).collect() };
            match kind {
                0 | 1 => s.calls(&[&id, "t0"]),
                2 => s.result(&id, json!(text)),
                3 => s.result(&id, json!([{ "type": "text", "text": text }, { "type": "image", "data": "" }, { "type": "text", "text": seed }])),
                4 => s.detailed(&id, json!([{ "type": "text", "text": text }]), json!({ "truncation": { "content": seed }, "more": [text, { "deep": text }] })),
                5 => s.edit(*n, json!({ "content": [{ "type": "text", "text": text }] })),
                6 => s.compaction(if version > 1 { json!(n.to_string()) } else { json!(n) }),
                7 => s.at(n % s.next),
                _ => s.raw(text.into_bytes().into_iter().filter(|b| *b != b'\n').collect::<Vec<_>>()),
            };
        }
        let mut bytes = s.bytes();
        bytes.truncate(bytes.len().saturating_sub(truncate));
        located(&Pi, NAME, &bytes);
        repair(&Pi, Path::new(NAME), &bytes, &limits(&[("*", &threshold.to_string())], &ceiling.to_string(), keep));
    }

    /// Any bytes at all: no panic, and nothing is claimed to stand where it does not.
    #[test]
    fn any_bytes(doc in prop::collection::vec(prop_oneof![Just(b'\n'), Just(b'{'), Just(b'"'), any::<u8>()], 0..200)) {
        located(&Pi, NAME, &doc);
        claimants(&format!("/h/.pi/agent/sessions/--x--/{NAME}"), &doc);
    }
}
