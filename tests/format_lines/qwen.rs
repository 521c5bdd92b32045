use std::path::Path;

use unwedge::format::{self, Times};

use super::support::{Tree, broken, locate, places, shown, stream};

fn check(case: &str, expected: &[&str]) {
    assert_eq!(shown(&locate("qwen", &stream("qwen", case))), expected, "{case}");
}

#[test]
fn one_line_a_response() {
    check("plain", &["3: c_0 run_shell_command batch 1 3000 ok | 3: toolCallResult.resultDisplay 3000"]);
    check("parts", &["2: c_0 mcp__big__dump batch 1 700+6500+[46] ok", "3: c_1 read_file batch 1 25+1500+[46] ok"]);
    check(
        "batch",
        &[
            "2: c_0 run_shell_command batch 1 900 ok",
            "4: c_1 run_shell_command batch 1 700 ok",
            "5: c_2 run_shell_command batch 1 200 ok",
            "7: c_3 run_shell_command batch 2 900 ok",
        ],
    );
}

#[test]
fn copies() {
    check(
        "copies",
        &[
            "2: c_0 edit batch 1 300 ok | 2: toolCallResult.resultDisplay.fileDiff 2000",
            "3: c_1 run_shell_command batch 1 1200 error | 3: toolCallResult.resultDisplay 1500 | 3: toolCallResult.error.message 1250",
            "4: c_2 run_shell_command batch 1 200 ok | 4: toolCallResult.responseParts 1100",
            "6: c_9 - batch 2 only copies | 6: toolCallResult.resultDisplay 1600",
        ],
    );
}

#[test]
fn only_the_chain_to_the_last_record_is_live() {
    check(
        "tree",
        &[
            "2: c_0 run_shell_command batch 1 2000 ok dead (compressed)",
            "6: c_1 run_shell_command batch 2 1500 ok dead (on another branch)",
            "10: c_2 run_shell_command batch 3 1800 ok dead (compressed)",
            "12: c_2 run_shell_command batch 4 1800 ok",
            "15: c_3 run_shell_command batch 5 1300 ok",
        ],
    );
}

fn record(uuid: &str, parent: &str, rest: &str) -> String {
    format!(r#"{{"uuid":"{uuid}","parentUuid":{parent},"sessionId":"s",{rest}}}"#)
}

fn response(uuid: &str, parent: &str, id: &str) -> String {
    let rest = format!(
        r#""type":"tool_result","message":{{"role":"user","parts":[{{"functionResponse":{{"id":"{id}","name":"t","response":{{"output":"text"}}}}}}]}}"#
    );
    record(uuid, parent, &rest)
}

#[test]
fn a_record_beside_the_chain_does_not_end_it() {
    let lines = [
        response("1", "null", "a"),
        response("2", "\"1\"", "b"),
        record("x", "\"1\"", r#""type":"system","subtype":"session_artifact_event""#),
    ];
    let found = shown(&locate("qwen", lines.join("\n").as_bytes()));
    assert_eq!(found, ["0: a t batch 1 4 ok", "1: b t batch 1 4 ok"]);
}

#[test]
fn fragments_of_one_record_are_one() {
    let lines = [response("1", "null", "a"), response("1", "null", "b"), response("2", "\"1\"", "c")];
    let found = locate("qwen", lines.join("\n").as_bytes());
    assert!(found.responses.iter().all(|r| r.dead.is_none()), "{found:?}");
}

#[test]
fn behind_a_lost_record_the_conversation_begins() {
    let lines = [response("1", "null", "a"), response("3", "\"2\"", "b"), response("4", "\"3\"", "c")];
    let found = locate("qwen", lines.join("\n").as_bytes());
    let dead: Vec<_> = found.responses.iter().map(|r| r.dead).collect();
    assert_eq!(dead, [Some("on another branch"), None, None]);
    assert_eq!(found.notes[0].text, "a record's parent is missing: the conversation begins behind it");
    // A record that is its own parent, or the child of a later one, is no loop.
    let lines = [response("1", "\"2\"", "a"), response("2", "\"2\"", "b"), response("2", "\"9\"", "c")];
    assert_eq!(locate("qwen", lines.join("\n").as_bytes()).responses.len(), 3);
}

#[test]
fn hostile_text_is_text() {
    check(
        "hostile",
        &["2: c_0 run_shell_command batch 1 2072 ok", "4: c_0 again batch 2 1100 ok", "5: c_7 lost batch 2 1431 ok"],
    );
}

#[test]
fn broken_lines_are_reported_and_left() {
    let located = locate("qwen", &stream("qwen", "broken"));
    assert_eq!(shown(&located), ["2: c_0 run_shell_command batch 1 3000 ok"]);
    assert_eq!(
        broken(&located),
        [
            (4002, "10 NUL bytes, as a crash leaves them, in place of a record or a part of one"),
            (4313, "a torn record: another record begins at byte 300 of the line"),
            (4624, "not a record (an object)"),
            (4635, "a record without a `uuid` and a `type`"),
            (4651, "not a record: expected a JSON value"),
            (5358, "the last line is torn: the text ends inside a string"),
        ]
    );
}

#[test]
fn what_cannot_be_cut_is_noted_where_it_is_much() {
    let rest = format!(
        r#""type":"tool_result","message":{{"parts":[]}},"toolCallResult":{{"callId":"a","resultDisplay":{{"fileDiff":"d","fileName":"f","originalContent":"{0}","newContent":"{0}"}}}}"#,
        "x".repeat(200_000)
    );
    let located = locate("qwen", record("1", "null", &rest).as_bytes());
    assert_eq!(shown(&located), ["0: a - batch 1 only copies | 0: toolCallResult.resultDisplay.fileDiff 1"]);
    assert_eq!(
        located.notes[0].text,
        "400004 bytes of screen copies are the contents of edited files, which a rewind puts back, and stay"
    );
}

#[test]
fn places_and_ids() {
    let id = "ee81102e-8c55-4ef8-a8e0-604c40d2793e";
    let path = format!("/home/demo/.qwen/projects/-home-demo/chats/{id}.jsonl");
    let tree = Tree::new(&[&path]);
    let qwen = format::named("qwen").unwrap();
    assert_eq!(qwen.known_places(&tree, &places()), [Path::new("/home/demo/.qwen/projects")]);
    assert_eq!(qwen.resolve(id, &tree, &places()), Some(vec![path.clone().into()]));
    assert_eq!(qwen.resolve("ee81102e-8c55-4ef8-a8e0-604c40d2793f", &tree, &places()), None);
    let found = qwen.conversation(Path::new(&path), &tree, &places());
    assert_eq!((found.id.as_deref(), found.lock, found.times), (Some(id), None, Times::Keep));
    assert!(found.appends && !found.pads);
}
