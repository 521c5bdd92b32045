use std::path::{Path, PathBuf};

use unwedge::format::{self, Lock, Part, Times};

use super::support::{Args, Tree, broken, locate, places, read, shown, stream};

fn check(case: &str, expected: &[&str]) {
    assert_eq!(shown(&locate("codex", &stream("codex", case))), expected, "{case}");
}

#[test]
fn calls_are_paired_with_outputs() {
    check("plain", &["3: call_0 exec_command batch 1 3000"]);
    check("parts", &["4: call_0 mcp__big__dump batch 1 700+[36]+6500", "5: call_1 apply_patch batch 1 50"]);
    check(
        "batch",
        &[
            "6: call_0 exec_command batch 1 900",
            "7: call_1 exec_command batch 1 700",
            "8: call_2 exec_command batch 1 200",
            "10: call_3 exec_command batch 2 900",
        ],
    );
}

#[test]
fn copies_go_to_the_response_of_their_call() {
    check(
        "copies",
        &[
            "7: call_0 exec_command batch 1 2508 | 5: item.aggregated_output 2500",
            "8: call_1 mcp__big__dump batch 1 1500 | 6: item.result.content 1500+[14] | 12: result.Err 1100",
            "9: call_2 local_shell batch 1 300 | 10: stdout 1800 | 10: aggregated_output 1800 | 10: formatted_output 1800",
            "11: call_9 - batch 2 only copies | 11: result.Ok.content 1300",
        ],
    );
}

#[test]
fn only_the_last_history_and_what_follows_it_is_live() {
    check(
        "compacted",
        &[
            "3: call_0 exec_command batch 1 2000 dead (compacted)",
            "5: call_1 exec_command batch 2 100 dead (compacted)",
            "6: call_0 exec_command batch 3 2000 dead (compacted)",
            "8: call_2 exec_command batch 4 1500 dead (compacted)",
            "9: call_0 exec_command batch 5 2000",
            "9: call_2 exec_command batch 6 1500",
            "12: call_3 exec_command batch 7 1200",
            "16: call_4 exec_command batch 8 1300 dead (rolled back)",
        ],
    );
    // An older compaction without a history leaves nothing of what came before.
    let stream = concat!(
        r#"{"type":"session_meta","payload":{}}"#,
        "\n",
        r#"{"type":"response_item","payload":{"type":"function_call_output","call_id":"a","output":"text"}}"#,
        "\n",
        r#"{"type":"compacted","payload":{"message":"all of it"}}"#,
        "\n",
    );
    assert_eq!(shown(&locate("codex", stream.as_bytes())), ["1: a - batch 1 4 dead (compacted)"]);
}

#[test]
fn more_turns_rolled_back_than_there_are() {
    let user = r#"{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]}}"#;
    let output = |id| {
        format!(
            r#"{{"type":"response_item","payload":{{"type":"function_call_output","call_id":"{id}","output":"x"}}}}"#
        )
    };
    let back = r#"{"type":"event_msg","payload":{"type":"thread_rolled_back","num_turns":9}}"#;
    let stream = [output("a"), user.into(), output("b"), back.into(), output("c")].join("\n");
    let found = shown(&locate("codex", stream.as_bytes()));
    assert_eq!(found, ["0: a - batch 1 1", "2: b - batch 2 1 dead (rolled back)", "4: c - batch 3 1"]);
}

#[test]
fn hostile_text_is_text() {
    check(
        "hostile",
        &["3: call_0 exec_command batch 1 2072", "5: call_0 again batch 2 1100", "6: call_7 - batch 3 1431"],
    );
    let located = locate("codex", &stream("codex", "hostile"));
    assert_eq!(broken(&located), []);
}

#[test]
fn broken_lines_are_reported_and_left() {
    let bytes = stream("codex", "broken");
    let located = locate("codex", &bytes);
    assert_eq!(shown(&located), ["3: call_0 exec_command batch 1 3000", "10: call_0 exec_command batch 1 "]);
    assert_eq!(
        broken(&located),
        [
            (3947, "37 NUL bytes, as a crash leaves them, in place of a record or a part of one"),
            (4285, "a torn record: another record begins at byte 300 of the line"),
            (4405, "not a record (an object)"),
            (4411, "not a record: expected a JSON value"),
            (4424, "a line without a `type`"),
            (4599, "an `output` that is neither a string nor an array"),
            (5133, "the last line is torn: the text ends inside a string"),
        ]
    );
    assert!(located.broken.iter().all(|b| !b.whole));
    assert_eq!(&bytes[4285..4298], br#"{"timestamp":"#.get(..13).unwrap());
}

#[test]
fn what_codex_cannot_load_is_noted() {
    let located =
        locate("codex", b"{\"timestamp\":\"x\",\"type\":\"event_msg\",\"payload\":{\"type\":\"task_started\"}}\n");
    assert_eq!(located.notes[0].text, "the first line is no `session_meta`: Codex cannot load the conversation");
    assert_eq!(located.broken, []);
    let line = r#"{"type":"response_item","payload":{"type":"function_call_output","call_id":"a","output":[{"type":"input_video"}]}}"#;
    let located = locate("codex", format!("{{\"type\":\"session_meta\",\"payload\":{{}}}}\n{line}\n").as_bytes());
    assert_eq!(located.notes[0].line, Some(2));
    let located = locate("codex", b"\xef\xbb\xbf{\"type\":\"session_meta\"}\n");
    assert!(located.broken[0].whole);
    let located = locate("codex", b"\x28\xb5\x2f\xfd garbage\n more \n");
    assert_eq!(located.broken.len(), 1);
    assert!(located.broken[0].whole);
    assert_eq!(locate("codex", b""), format::Located::default());
}

#[test]
fn the_oldest_rollouts_have_items_for_lines() {
    let stream = concat!(
        r#"{"id":"5973b6c0","timestamp":"2025-06-01T10:00:00Z","instructions":null}"#,
        "\n",
        r#"{"record_type":"state"}"#,
        "\n",
        r#"{"type":"function_call","name":"shell","arguments":"{}","call_id":"call_0"}"#,
        "\n",
        r#"{"type":"function_call_output","call_id":"call_0","output":"text"}"#,
        "\n",
    );
    let located = locate("codex", stream.as_bytes());
    assert_eq!(shown(&located), ["3: call_0 shell batch 1 4"]);
    assert_eq!(broken(&located), []);
}

#[test]
fn records_that_hold_something_have_ends() {
    let bytes = stream("codex", "copies");
    let located = locate("codex", &bytes);
    assert_eq!(located.record_ends.keys().copied().collect::<Vec<_>>(), [5, 6, 7, 8, 9, 10, 11, 12]);
    for (record, end) in located.record_ends {
        assert_eq!(bytes[..end as usize].iter().filter(|b| **b == b'\n').count() as u64, record);
        assert_eq!(bytes[end as usize], b'\n');
    }
}

#[test]
fn a_line_of_many_megabytes() {
    let mut text = "a line of what the tool printed\\n".repeat(400_000);
    text.push_str("end");
    let line = format!(
        "{{\"timestamp\":\"t\",\"type\":\"response_item\",\"payload\":{{\"type\":\"function_call_output\",\"call_id\":\"a\",\"output\":\"{text}\"}}}}\n"
    );
    assert!(line.len() > 12_000_000);
    let assessment = read("codex", line.as_bytes(), &Args::default(), 1 << 18);
    assert_eq!(assessment.targets[0].size, 400_000 * 32 + 3);
    let [Part::Text { span, line, .. }] = &*assessment.located.responses[0].parts else { panic!("one text") };
    assert_eq!((span.end - span.start, *line), (text.len() as u64 + 2, 1));
}

const THREAD: &str = "01a22eeb-800a-7121-8dfc-6a79f9b92b5c";

#[test]
fn the_writers_lock() {
    let codex = format::named("codex").unwrap();
    let home = Path::new("/home/demo/.codex");
    let lock = home.join(format!("thread-writer-locks/{THREAD}.lock"));
    let path = home.join(format!("sessions/2026/12/01/rollout-2026-12-01T00-05-15-{THREAD}.jsonl"));
    let found =
        codex.conversation(&path, &Tree::new(&["/home/demo/.codex/thread-writer-locks/.coordination.lock"]), &places());
    assert_eq!(found.id.as_deref(), Some(THREAD));
    assert_eq!(found.lock, Some(Lock { existing: vec![lock.clone()], create: Some(lock.clone()) }));
    assert_eq!((found.times, found.appends, found.pads), (Times::Keep, true, true));
    assert_eq!(found.streams[0].path, path);
    // Where no version that locks has run, none is made. A fork by revert belongs to its thread.
    let path = home.join(format!("archived_sessions/rollout-2026-12-01T00-05-15-{THREAD}_{THREAD}.jsonl.zst"));
    let found = codex.conversation(&path, &Tree::new(&[]), &places());
    assert_eq!(found.lock, Some(Lock { existing: vec![lock], create: None }));
    assert!(!found.appends);
    let found = codex.conversation(Path::new("/elsewhere/copy.jsonl"), &Tree::new(&[]), &places());
    assert_eq!((found.id, found.lock), (None, None));
}

#[test]
fn places_and_ids() {
    let codex = format::named("codex").unwrap();
    let plain = format!("/home/demo/.codex/sessions/2026/12/01/rollout-2026-12-01T00-05-15-{THREAD}.jsonl");
    let cold = format!("/home/demo/.codex/archived_sessions/rollout-2026-11-01T00-05-15-{THREAD}.jsonl.zst");
    let tree =
        Tree::new(&[&plain, &cold, "/home/demo/.codex/sessions/2026/12/01/rollout-2026-12-01T00-05-15-other.jsonl"]);
    let dirs = ["/home/demo/.codex/sessions", "/home/demo/.codex/archived_sessions"].map(PathBuf::from);
    assert_eq!(codex.known_places(&tree, &places()), dirs);
    assert_eq!(codex.resolve(THREAD, &tree, &places()), Some(vec![plain.into(), cold.into()]));
    assert_eq!(codex.resolve("01a22eeb-800a-7121-8dfc-6a79f9b92b5d", &tree, &places()), None);
    assert_eq!(codex.resolve("jp-c17636257123", &tree, &places()), None);
}
