use unwedge::format::{self, Note};

use crate::support::{broken, file, locate, located, shown};

fn stream(number: u32) -> String {
    format!("session-state/be25adf7-5860-40ac-bfb6-{number:012}/events.jsonl")
}

#[track_caller]
fn check(case: &str, number: u32, expected: &[&str]) {
    assert_eq!(shown(&located("copilot", case, &stream(number))), expected);
}

#[test]
fn a_result_or_the_message_of_a_failure() {
    check(
        "plain",
        1,
        &["4: call_0 bash batch 1 1640 ok", "6: call_1 bash batch 2 1290 error", "8: call_2 view batch 3 5 ok"],
    );
}

/// An omitted binary has no bytes anywhere and is not charged; one that is kept elsewhere is sent.
#[test]
fn binaries_are_charged() {
    check("parts", 2, &["2: call_0 screenshot batch 1 8200+[145]+[77] ok"]);
}

#[test]
fn the_calls_of_one_message_are_a_batch() {
    check(
        "batch",
        3,
        &[
            "3: call_1 bash batch 1 2460 ok",
            "4: call_0 bash batch 1 1230 ok",
            "5: call_2 view batch 1 82 ok",
            "7: call_9 bash batch 2 210 ok",
        ],
    );
}

#[test]
fn copies_stand_in_the_same_event() {
    check(
        "copies",
        4,
        &[
            "2: call_0 big-dump batch 1 1640 ok | result.detailedContent 1649 | result.contents 1640+1290+123 | result.structuredContent 1470+5",
            "3: call_1 edit batch 1 6 ok | result.detailedContent 2100",
            "4: call_2 bash  ok | result.detailedContent 1680",
        ],
    );
}

/// Of repeated keys the last one counts, an escape in a type hides nothing, and a repeated id answers the latest call.
#[test]
fn hostile_text_is_text() {
    check("hostile", 5, &["2: call_0 ba\u{202e}sh batch 1 1260 ok", "3: call_0 ba\u{202e}sh batch 1 1170 ok"]);
}

#[test]
fn a_compaction_ends_what_is_sent() {
    let found = located("copilot", "compacted", &stream(6));
    assert_eq!(
        shown(&found),
        [
            "2: call_0 bash batch 1 1640 ok dead: before a compaction",
            "5: call_1 bash batch 2 1880 ok",
            "7: call_1 bash batch 2 1640 ok",
        ]
    );
    let text = "the interface refused a request as too large (413): it takes 5 MB".into();
    assert_eq!(found.notes, [Note { line: Some(11), text }]);
}

#[test]
fn an_agent_is_compacted_alone_and_a_cleared_context_is_dead() {
    let call = |id: &str, rest: &str| {
        format!(
            r#"{{"type":"tool.execution_complete","data":{{"toolCallId":"{id}","success":true,"result":{{"content":"x"}}}}{rest}}}"#
        )
    };
    let lines = [
        call("main", ""),
        call("sub", r#","agentId":"a""#),
        r#"{"type":"session.compaction_complete","agentId":"a","data":{"success":true}}"#.into(),
        call("sub2", r#","agentId":"a""#),
    ];
    let found = locate("copilot", "/x/events.jsonl", lines.join("\n").as_bytes());
    let dead: Vec<_> = found.responses.iter().map(|r| r.dead).collect();
    assert_eq!(dead, [None, Some("before a compaction"), None]);

    let cleared = [call("a", ""), r#"{"type":"session.context_cleared","data":{}}"#.into(), call("b", "")];
    let found = locate("copilot", "/x/events.jsonl", cleared.join("\n").as_bytes());
    let dead: Vec<_> = found.responses.iter().map(|r| r.dead).collect();
    assert_eq!(dead, [Some("before the context was cleared"), None]);
}

#[test]
fn what_is_broken_is_said_and_hides_nothing() {
    let (_, bytes) = file("copilot", "broken", &stream(7));
    let found = located("copilot", "broken", &stream(7));
    assert_eq!(shown(&found), ["3: call_0 bash batch 1 1640 ok", "10: - - batch 2 nothing ok"]);
    assert_eq!(
        broken(&found, &bytes),
        [
            "5: not JSON: 64 NUL bytes, as a crash or a full disk leaves them",
            "6: two records on one line: the second begins at byte 1403 of it",
            "8: a torn record, and another one behind it on the same line, from byte 500 of it",
            "9: not an event (an object with a `type`)",
            "10: a tool.execution_complete without `data`",
            "11: a tool.execution_complete without a `toolCallId`",
            "11: the `result.content` of a tool.execution_complete is not a string",
            "12: not JSON: a byte order mark at the start of the line",
            "13: the last line is torn: the text ends inside a string",
        ]
    );
}

#[test]
fn what_lies_in_a_sessions_folders_is_not_walked() {
    let copilot = format::named("copilot").unwrap();
    let prunes = |dir: &str| copilot.prunes(std::path::Path::new(dir));
    assert!(prunes("/h/.copilot/session-state/be25/checkpoints"));
    assert!(!prunes("/h/.copilot/session-state/be25") && !prunes("/h/.copilot/session-state"));
}

#[test]
fn a_line_of_many_megabytes() {
    let text = "word \\u001b\\n".repeat(2_000_000);
    let line = format!(
        r#"{{"type":"tool.execution_complete","data":{{"toolCallId":"c","success":true,"result":{{"content":"{text}"}}}}}}"#
    );
    assert!(line.len() > 10 << 20);
    let path = std::path::Path::new("/x/events.jsonl");
    let limits = crate::support::limits(&["--size-threshold", "1KB"]);
    let copilot = format::named("copilot").unwrap();
    let found = crate::support::read(copilot, path, line.as_bytes(), &limits, 1 << 16);
    assert_eq!(shown(&found.located), ["0: c - batch 1 14000000 ok"]);
    assert!(crate::support::repair(copilot, path, line.as_bytes(), &limits).len() < 2000);
}
