use crate::support::{broken, file, locate, located, shown};

const CHAT: [&str; 3] = ["3: c1 bash batch 1 1640", "4: c2 read batch 1 780+780", "6: - grep batch 2 1560"];

#[track_caller]
fn check(format: &str, case: &str, path: &str, expected: &[&str]) {
    let found = located(format, case, path);
    assert_eq!(shown(&found), expected);
    assert_eq!((found.broken, found.notes), (vec![], vec![]));
}

#[test]
fn chat_completions() {
    check("provider-log", "chat", "request.json", &CHAT);
}

/// A batch is a run of calls; an MCP call is its own response; the output of a local shell names the item.
#[test]
fn responses() {
    check(
        "provider-log",
        "responses",
        "responses.json",
        &[
            "4: f1 shell batch 1 1640",
            "5: f2 apply batch 1 1560+[158]+195",
            "7: ls_1 local_shell batch 2 1290",
            "9: f4 shell batch 3 1230+1230",
            "11: f5 computer batch 4 [166]",
            "12: mcp_1 dump batch 5 1640 ok",
            "14: f6 apply_patch batch 5 1290",
        ],
    );
}

/// Results split over two messages are one batch; what the server's own tools returned is not there at all.
#[test]
fn anthropic_messages() {
    check(
        "provider-log",
        "anthropic",
        "messages.json",
        &[
            "2: t1 Read batch 1 1170+[237]+1230+[158]+1290",
            "3: t2 Bash batch 1 1560 error",
            "5: t3 Bash batch 2 nothing",
            "5: lost - batch 3 0",
        ],
    );
}

#[test]
fn gemini_contents() {
    check(
        "provider-log",
        "gemini",
        "checkpoint-before.json",
        &[
            "2: - ls batch 1 1640 ok",
            "2: - cat batch 1 1640 error",
            "2: - ls batch 1 840+1 ok",
            "4: g1 web batch 2 1640+[181]",
        ],
    );
}

#[test]
fn bedrock_converse() {
    check(
        "provider-log",
        "bedrock",
        "converse.json",
        &["2: b1 query batch 1 1170+1+780+[138] ok", "2: b2 shell batch 1 1560 error"],
    );
}

#[test]
fn hostile_text_is_text() {
    check("provider-log", "hostile", "log.json", &["1: c1 b\u{202e}ad batch 1 876", "3: c1 again batch 2 876"]);
    check(
        "provider-log-lines",
        "hostile",
        "h.jsonl",
        &[
            "0: c1 b\u{202e}ad batch 1 876",
            "0: c1 again batch 2 876",
            "1: c1 b\u{202e}ad batch 3 876",
            "1: c1 again batch 4 876",
        ],
    );
}

#[test]
fn strange_contents() {
    let (_, bytes) = file("provider-log", "strange", "strange.json");
    let found = located("provider-log", "strange", "strange.json");
    assert_eq!(
        shown(&found),
        ["1: c1 x batch 1 nothing", "2: c1 x batch 1 nothing", "3: lost - batch 2 1640", "4: lost2 - batch 2 164",]
    );
    assert_eq!(broken(&found, &bytes), ["1: the `content` of a tool message is neither text nor an array"]);
}

#[test]
fn a_document_that_is_none_is_broken_as_a_whole() {
    let (_, bytes) = file("provider-log", "broken-document", "torn.json");
    let found = located("provider-log", "broken-document", "torn.json");
    assert_eq!(broken(&found, &bytes), ["1 (whole): not JSON: the text ends inside a string"]);
    check("provider-log", "broken-document", "whole.json", &CHAT);
    let found = locate("provider-log", "/x.json", b"{\"model\":\"m\"}");
    assert_eq!((found.broken.len(), found.notes.len()), (0, 1));
    let found = locate("provider-log", "/x.json", b"{\"messages\":[]}\n{}");
    let what =
        "not JSON: more after the end of the JSON value; if these are JSON lines, use --format provider-log-lines";
    assert_eq!(found.broken[0].what, what);
    let found = locate("provider-log", "/x.json", b"7");
    assert_eq!(found.broken[0].what, "expected a request (an object) or an array of messages");
}

#[test]
fn a_request_a_line() {
    check(
        "provider-log-lines",
        "plain",
        "requests.jsonl",
        &[
            "0: c1 bash batch 1 1640",
            "0: c2 read batch 1 780+780",
            "0: - grep batch 2 1560",
            "1: f1 shell batch 3 1640",
            "1: f2 apply batch 3 1560+[155]+195",
            "1: ls_1 local_shell batch 4 1290",
            "1: f4 shell batch 5 1230+1230",
            "1: f5 computer batch 6 [163]",
            "1: mcp_1 dump batch 7 1640 ok",
            "1: f6 apply_patch batch 7 1290",
            "2: t1 Read batch 8 1170+[174]+1230+[95]+1290",
            "2: t2 Bash batch 8 1560 error",
            "2: t3 Bash batch 9 nothing",
            "2: lost - batch 10 0",
            "3: - ls batch 11 1640 ok",
            "3: - cat batch 11 1640 error",
            "3: - ls batch 11 840+1 ok",
            "3: g1 web batch 12 1640+[130]",
            "4: b1 query batch 13 1170+1+780+[134] ok",
            "4: b2 shell batch 13 1560 error",
        ],
    );
}

#[test]
fn a_batch_ends_with_its_line() {
    check(
        "provider-log-lines",
        "batch",
        "log.ndjson",
        &["0: t2 b batch 1 1950", "0: t1 a batch 1 1170", "1: t2 b batch 2 1950", "1: t1 a batch 2 1170"],
    );
    check("provider-log-lines", "parts", "requests.json", &["1: t1 a batch 1 1640+[58]+1640"]);
    assert_eq!(located("provider-log-lines", "grows", "grows.jsonl").responses.len(), 6);
}

#[test]
fn what_is_broken_is_said_and_hides_nothing() {
    let (_, bytes) = file("provider-log-lines", "broken", "b.jsonl");
    let found = located("provider-log-lines", "broken", "b.jsonl");
    assert_eq!(shown(&found), ["0: c1 bash batch 1 1640", "8: c1 bash batch 2 1640"]);
    assert_eq!(
        broken(&found, &bytes),
        [
            "3: a line that is torn: the text ends inside a string",
            "4: not JSON: 32 NUL bytes, as a crash or a full disk leaves them",
            "5: two records on one line: the second begins at byte 1895 of it",
            "6: a torn record, and another one behind it on the same line, from byte 600 of it",
            "10: the last line is torn: the text ends inside a string",
        ]
    );
}

/// Depth, in a tool's JSON and around it, costs neither stack nor patience.
#[test]
fn depth_is_no_danger() {
    let deep = format!("{}\"x\"{}", "[".repeat(100_000), "]".repeat(100_000));
    let doc =
        format!(r#"{{"contents":[{{"parts":[{{"functionResponse":{{"name":"f","response":{deep}}}}}]}},{deep}]}}"#);
    let path = std::path::Path::new("/x.json");
    let format = unwedge::format::named("provider-log").unwrap();
    let found = crate::support::read(format, path, doc.as_bytes(), &Default::default(), 1 << 16);
    assert_eq!(shown(&found.located), ["0: - f batch 1 1"]);
}
