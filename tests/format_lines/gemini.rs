use std::path::Path;

use unwedge::format::{self, Times};

use super::support::{Tree, broken, locate, places, shown, stream};

fn check(format: &str, case: &str, expected: &[&str]) {
    assert_eq!(shown(&locate(format, &stream(format, case))), expected, "{format}/{case}");
}

#[test]
fn a_response_is_sent_twice_and_counted_once() {
    check(
        "gemini",
        "plain",
        &["3: sh_0 run_shell_command batch 1 3000 ok | 3: resultDisplay 3000 | 4: content.functionResponse 3000 sent"],
    );
    check(
        "gemini",
        "batch",
        &[
            "2: sh_0 run_shell_command batch 1 900 ok | 3: content.functionResponse 900 sent",
            "2: sh_1 run_shell_command batch 1 700 ok | 3: content.functionResponse 700 sent",
            "2: sh_2 run_shell_command batch 1 200 ok | 3: content.functionResponse 200 sent",
            "4: sh_3 run_shell_command batch 2 900 ok | 5: content.functionResponse 900 sent",
        ],
    );
    check(
        "gemini",
        "shared",
        &[
            "2: sh_0 run_shell_command batch 1 2000 ok | 2: result 2000 sent | 3: content.functionResponse 2000 sent",
            "2: sh_1 run_shell_command batch 1 1500 ok | 2: result 1500 sent | 3: content.functionResponse 1500 sent",
        ],
    );
}

#[test]
fn parts() {
    check(
        "gemini",
        "parts",
        &[
            "2: m_0 mcp_big_dump batch 1 700+[14]+6500+[46] ok | 3: content.functionResponse 700+[14]+6500+[46] sent",
            "2: m_1 read_file batch 1 25+1500+[46] ok",
            "2: m_2 web_fetch batch 1 1200 ok",
            "2: m_3 write_file batch 1 1400 error",
        ],
    );
}

#[test]
fn copies_and_what_stands_only_in_one_place() {
    check(
        "gemini",
        "copies",
        &[
            "2: e_0 replace batch 1 1500 ok | 2: resultDisplay.fileDiff 2000 | 3: content.functionResponse 1500 sent",
            "2: e_1 run_shell_command batch 1 300 ok | 2: resultDisplay 5000 | 3: content.functionResponse 300 sent",
            "2: e_2 run_shell_command batch 1 300 ok | 3: content.functionResponse 300 sent",
            "2: e_3 run_shell_command batch 1 only copies | 2: resultDisplay 1800",
            "3: e_4 run_shell_command batch 1 1600 ok | 2: resultDisplay 1900",
            "4: x_9 lost batch 2 1250 ok",
        ],
    );
}

#[test]
fn what_is_sent_follows_the_log() {
    check(
        "gemini",
        "upserts",
        &[
            "2: sh_0 run_shell_command batch 1 2000 ok dead (superseded) | 2: resultDisplay 2000 | 3: content.functionResponse 2000 sent",
            "4: sh_0 run_shell_command batch 2 2000 ok dead (before the last checkpoint) | 4: resultDisplay 2000",
            "5: sh_1 run_shell_command batch 3 1500 ok dead (before the last checkpoint) | 5: resultDisplay 1500 | 6: content.functionResponse 1500 sent",
            "7: sh_0 run_shell_command batch 4 2000 ok | 7: resultDisplay 2000 | 7: content.functionResponse 2000 sent",
            "7: sh_1 run_shell_command batch 5 1500 ok | 7: resultDisplay 1500 | 7: content.functionResponse 1500 sent",
            "9: sh_2 run_shell_command batch 6 1700 ok dead (superseded) | 9: resultDisplay 1700",
            "12: sh_3 run_shell_command batch 7 1600 ok dead (rewound) | 12: resultDisplay 1600 | 13: content.functionResponse 1600 sent",
            "14: sh_2 run_shell_command batch 8 1700 ok | 14: resultDisplay 1700 | 10: content.functionResponse 1700 sent",
        ],
    );
}

const HEADER: &str = r#"{"sessionId":"s","projectHash":"p","startTime":"t"}"#;

fn gemini(id: &str, call: &str) -> String {
    format!(
        r#"{{"id":"{id}","type":"gemini","content":"","toolCalls":[{{"id":"{call}","name":"t","result":[{{"functionResponse":{{"id":"{call}","name":"t","response":{{"output":"text"}}}}}}]}}]}}"#
    )
}

fn log(lines: &[String]) -> Vec<String> {
    shown(&locate("gemini", [HEADER.to_owned(), lines.join("\n")].join("\n").as_bytes()))
}

#[test]
fn a_rewind_goes_by_where_a_message_first_came() {
    // g1 was written again after g2, and still stands before it.
    let lines = [gemini("g1", "a"), gemini("g2", "b"), gemini("g1", "c"), r#"{"$rewindTo":"g2"}"#.to_owned()];
    let found = log(&lines);
    assert_eq!(found[0], "1: a t batch 1 4 dead (superseded)");
    assert_eq!(found[1], "2: b t batch 2 4 dead (rewound)");
    assert_eq!(found[2], "3: c t batch 3 4");
    // After an unknown message nothing is left, as in the agent.
    let found = log(&[gemini("g1", "a"), r#"{"$rewindTo":"nobody"}"#.to_owned(), gemini("g2", "b")]);
    assert_eq!(found, ["1: a t batch 1 4 dead (rewound)", "3: b t batch 2 4"]);
}

#[test]
fn the_second_copy_of_a_dead_record_is_a_mere_copy() {
    let user = |id: &str| {
        format!(
            r#"{{"id":"{id}","type":"user","content":[{{"functionResponse":{{"id":"a","name":"t","response":{{"output":"text"}}}}}}]}}"#
        )
    };
    let found = log(&[gemini("g1", "a"), user("u2"), user("u2")]);
    assert_eq!(
        found,
        [
            "1: a t batch 1 4 | 3: content.functionResponse 4 sent",
            "2: a t batch 2 only copies ok dead (superseded) | 2: content.functionResponse 4",
        ]
    );
    // What is sent twice in two live records is one response.
    let found = log(&[gemini("g1", "a"), user("u2"), user("u3")]);
    assert_eq!(found, ["1: a t batch 1 4 | 2: content.functionResponse 4 sent | 3: content.functionResponse 4 sent"]);
}

#[test]
fn hostile_text_is_text() {
    check(
        "gemini",
        "hostile",
        &[
            "2: sh_0 run_shell_command batch 1 2072 ok | 3: content.functionResponse 2072 sent",
            "4: sh_0 run_shell_command batch 2 1100 ok | 5: content.functionResponse 1100 sent",
            "6: sh_5 run_shell_command batch 3 1431 ok",
        ],
    );
    // Nesting without end is looked into only so far.
    let deep = format!(
        r#"{{"id":"g","toolCalls":[{{"id":"c","result":{}"x"{}}}]}}"#,
        "[".repeat(100_000),
        "]".repeat(100_000)
    );
    assert_eq!(log(&[deep]), ["1: c - batch 1 "]);
}

#[test]
fn broken_lines_are_reported_and_left() {
    let located = locate("gemini", &stream("gemini", "broken"));
    assert_eq!(located.responses.len(), 1);
    assert_eq!(
        broken(&located),
        [
            (10160, "64 NUL bytes, as a crash leaves them, in place of a record or a part of one"),
            (10703, "a torn record: another record begins at byte 400 of the line"),
            (10833, "two records on one line: another record begins at byte 78 of the line"),
            (10912, "not a record (an object)"),
            (10918, "not a record: expected a key in quotes"),
            (11524, "the last line is torn: the text ends inside a string"),
        ]
    );
    assert_eq!(located.notes, []);
    let located = locate("gemini", b"{\"id\":\"u1\",\"type\":\"user\",\"content\":\"x\"}\n");
    assert_eq!(located.notes[0].text, "no line has `sessionId` and `projectHash`: Gemini CLI cannot load the session");
}

#[test]
fn the_older_document() {
    check("gemini-json", "plain", &["1: sh_0 run_shell_command batch 1 3000 ok | 1: resultDisplay 3000"]);
    check(
        "gemini-json",
        "parts",
        &[
            "1: m_0 mcp_big_dump batch 1 700+[14]+6500+[115] ok",
            "1: m_1 read_file batch 1 25+1500+[97] ok",
            "1: m_2 web_fetch batch 1 1200 ok",
            "1: m_3 write_file batch 1 1400 error",
        ],
    );
    check(
        "gemini-json",
        "batch",
        &[
            "1: sh_0 run_shell_command batch 1 900 ok",
            "1: sh_1 run_shell_command batch 1 700 ok",
            "1: sh_2 run_shell_command batch 1 200 ok",
            "2: sh_3 run_shell_command batch 2 900 ok",
        ],
    );
    check(
        "gemini-json",
        "copies",
        &[
            "1: e_0 replace batch 1 1500 ok | 1: resultDisplay.fileDiff 2000",
            "1: e_1 run_shell_command batch 1 300 ok | 1: resultDisplay 5000",
            "1: e_2 run_shell_command batch 1 300 ok",
            "1: e_3 run_shell_command batch 1 only copies | 1: resultDisplay 1800",
            "1: e_4 run_shell_command batch 1 only copies ok | 1: resultDisplay 1900",
        ],
    );
    check(
        "gemini-json",
        "hostile",
        &["1: sh_0 run_shell_command batch 1 2072 ok", "2: sh_0 run_shell_command batch 2 1100 ok"],
    );
    let located = locate("gemini-json", &stream("gemini-json", "broken"));
    assert_eq!(broken(&located), [(2500, "the text ends inside a string")]);
    assert!(located.broken[0].whole && located.responses.is_empty());
    assert!(locate("gemini-json", b"{}").broken[0].whole);
    assert!(locate("gemini-json", b"").broken[0].whole);
    let located = locate("gemini-json", b"{\"messages\": [\n1,\n{}]}");
    assert_eq!(broken(&located), [(15, "message 0 is not an object")]);
}

#[test]
fn places_and_ids() {
    let main = "/home/demo/.gemini/tmp/demo/chats/session-2026-12-01T00-10-1c4bf908.jsonl";
    let sub = "/home/demo/.gemini/tmp/demo/chats/1c4bf908-1fb7-447d-b345-5c15b67cdbca/2d4bf908-1fb7-447d-b345-5c15b67cdbca.jsonl";
    let old = "/home/demo/.gemini/tmp/demo/chats/session-2025-12-01T00-10-aaaaaaaa.json";
    let tree = Tree::new(&[main, sub, old]);
    let gemini = format::named("gemini").unwrap();
    assert_eq!(gemini.known_places(&tree, &places()), [Path::new("/home/demo/.gemini/tmp")]);
    let resolve = |format: &str, id: &str| format::named(format).unwrap().resolve(id, &tree, &places());
    assert_eq!(resolve("gemini", "1c4bf908-1fb7-447d-b345-5c15b67cdbca"), Some(vec![main.into()]));
    assert_eq!(resolve("gemini", "2d4bf908-1fb7-447d-b345-5c15b67cdbca"), Some(vec![sub.into()]));
    assert_eq!(resolve("gemini", "aaaaaaaa-1fb7-447d-b345-5c15b67cdbca"), None);
    assert_eq!(resolve("gemini-json", "aaaaaaaa-1fb7-447d-b345-5c15b67cdbca"), Some(vec![old.into()]));
    let found = gemini.conversation(Path::new(main), &tree, &places());
    assert_eq!((found.id.as_deref(), found.lock, found.times), (Some("1c4bf908"), None, Times::Keep));
    assert!(found.appends && !found.pads);
    assert!(!format::named("gemini-json").unwrap().conversation(Path::new(old), &tree, &places()).appends);
}

#[test]
fn an_id_that_comes_again_and_again() {
    let user = |n: usize| {
        format!(
            r#"{{"id":"u{n}","type":"user","content":[{{"functionResponse":{{"id":"a","name":"t","response":{{"output":"text"}}}}}}]}}"#
        )
    };
    let lines: Vec<String> = (0..2000).flat_map(|n| [gemini(&format!("g{n}"), "a"), user(n)]).collect();
    let found = log(&lines);
    assert_eq!(found.len(), 2000);
    for (n, line) in found.iter().enumerate() {
        let (record, batch) = (2 * n + 1, n + 1);
        assert_eq!(*line, format!("{record}: a t batch {batch} 4 | {}: content.functionResponse 4 sent", record + 1));
    }
}
