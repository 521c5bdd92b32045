//! What holds of any session.

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use serde_json::{Value, json};
use unwedge::format::{self, Depth};

use super::support::{lines, outline, read, weight};

/// What happens in a session without branches or compactions, and how long its text is.
#[derive(Debug, Clone, Copy)]
enum Step {
    Asks(usize),
    Says(usize),
    Calls(usize, usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (1_usize..40).prop_map(Step::Asks),
        (1_usize..40).prop_map(Step::Says),
        (1_usize..40, 0_usize..40).prop_map(|(call, result)| Step::Calls(call, result)),
    ];
    prop::collection::vec(step, 1..12)
}

/// Text of so many bytes, with something to decode in it where there is room.
fn text(size: usize) -> String {
    if size < 3 { "x".repeat(size) } else { format!("é\n{}", "x".repeat(size - 3)) }
}

/// The records of a step, as a format has them. `n`: how many records there are.
fn records(format: &str, step: Step, n: usize) -> Vec<Value> {
    let id = format!("c{n}");
    let (asks, says, call, result): (Value, Value, Value, Value);
    let (a, b) = match step {
        Step::Asks(size) | Step::Says(size) => (text(size), String::new()),
        Step::Calls(call, result) => (text(call), text(result)),
    };
    match format {
        "claude-code" => {
            let line = |kind: &str, n: usize, content: Value| json!({ "type": kind, "uuid": format!("u{n}"), "isSidechain": false, "message": { "id": format!("m{n}"), "role": kind, "content": content } });
            asks = line("user", n, a.clone().into());
            says = line("assistant", n, json!([{ "type": "text", "text": a }]));
            call = line("assistant", n, json!([{ "type": "tool_use", "id": id, "name": "", "input": { "": a } }]));
            result = line("user", n + 1, json!([{ "type": "tool_result", "tool_use_id": id, "content": b }]));
        }
        "pi" => {
            let entry = |n: usize, message: Value| json!({ "type": "message", "id": format!("e{n}"), "parentId": n.checked_sub(2).map(|_| format!("e{}", n - 1)), "message": message });
            asks = entry(n, json!({ "role": "user", "content": a }));
            says = entry(n, json!({ "role": "assistant", "content": [{ "type": "text", "text": a }] }));
            call = entry(
                n,
                json!({ "role": "assistant", "content": [{ "type": "toolCall", "id": id, "name": "", "arguments": { "": a } }] }),
            );
            result = entry(
                n + 1,
                json!({ "role": "toolResult", "toolCallId": id, "content": [{ "type": "text", "text": b }] }),
            );
        }
        "codex" => {
            let item = |payload: Value| json!({ "timestamp": "t", "type": "response_item", "payload": payload });
            let said = |role: &str, kind: &str| {
                item(json!({ "type": "message", "role": role, "content": [{ "type": kind, "text": a }] }))
            };
            asks = said("user", "input_text");
            says = said("assistant", "output_text");
            call = item(json!({ "type": "function_call", "name": "", "call_id": id, "arguments": a }));
            result = item(json!({ "type": "function_call_output", "call_id": id, "output": b }));
        }
        "qwen" => {
            let record = |n: usize, kind: &str, part: Value| json!({ "uuid": format!("q{n}"), "parentUuid": n.checked_sub(1).map(|n| format!("q{n}")), "type": kind, "message": { "parts": [part] } });
            asks = record(n, "user", json!({ "text": a }));
            says = record(n, "assistant", json!({ "text": a }));
            call = record(n, "assistant", json!({ "functionCall": { "id": id, "name": "", "args": { "": a } } }));
            result =
                record(n + 1, "tool_result", json!({ "functionResponse": { "id": id, "response": { "output": b } } }));
        }
        "copilot" => {
            let event = |kind: &str, data: Value| json!({ "type": kind, "data": data });
            asks = event("user.message", json!({ "content": a }));
            says = event("assistant.message", json!({ "content": a }));
            call = event(
                "assistant.message",
                json!({ "content": "", "toolRequests": [{ "toolCallId": id, "name": "", "arguments": { "": a } }] }),
            );
            result = event(
                "tool.execution_complete",
                json!({ "toolCallId": id, "success": true, "result": { "content": b } }),
            );
        }
        "jp" => {
            let event = |kind: &str, key: &str, text: &str| json!({ "type": kind, "timestamp": "2026-07-27 10:00:00.0", key: text });
            asks = event("chat_request", "content", &a);
            says = event("chat_response", "message", &a);
            call = json!({ "type": "tool_call_request", "timestamp": "2026-07-27 10:00:00.0", "id": id, "name": "", "arguments": { "": format!("{a}!") } });
            result = json!({ "type": "tool_call_response", "timestamp": "2026-07-27 10:00:00.0", "id": id, "content": b, "is_error": false });
        }
        _ => {
            asks = json!({ "role": "user", "content": a });
            says = json!({ "role": "assistant", "content": a });
            call = json!({ "role": "assistant", "content": [{ "type": "tool_use", "id": id, "name": "", "input": { "": a } }] });
            result = json!({ "role": "user", "content": [{ "type": "tool_result", "tool_use_id": id, "content": b }] });
        }
    }
    match step {
        Step::Asks(_) => vec![asks],
        Step::Says(_) => vec![says],
        Step::Calls(..) => vec![call, result],
    }
}

fn bytes(format: &str, records: &[Value]) -> Vec<u8> {
    match format {
        "jp" | "provider-log" => serde_json::to_vec(records).unwrap(),
        "cline" => serde_json::to_vec(&json!({ "sessionId": "s", "messages": records })).unwrap(),
        _ => lines(records),
    }
}

fn header(format: &str) -> Vec<Value> {
    match format {
        "pi" => vec![json!({ "type": "session", "version": 3, "id": "s", "timestamp": "t", "cwd": "/" })],
        "codex" => vec![json!({ "timestamp": "t", "type": "session_meta", "payload": {} })],
        _ => Vec::new(),
    }
}

const LINEAR: [&str; 8] = ["claude-code", "pi", "codex", "qwen", "copilot", "jp", "cline", "provider-log"];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// However far a session without branches has come, what is live is the plain sum of it.
    #[test]
    fn a_linear_session_weighs_the_sum_of_its_steps(steps in steps()) {
        for format in LINEAR {
            let mut so_far = header(format);
            let (mut assistant, mut user, mut responses) = (0, 0, 0);
            let mut turns = Vec::new();
            for step in &steps {
                let n = so_far.len();
                so_far.extend(records(format, *step, n));
                match *step {
                    Step::Asks(size) => {
                        user += size as u64;
                        turns.push(n as u64);
                    }
                    Step::Says(size) => assistant += size as u64,
                    Step::Calls(call, result) => {
                        // JP's takes a mark that it is no base64.
                        assistant += call as u64 + u64::from(format == "jp");
                        responses += result as u64;
                    }
                }
                let found = outline(format, &bytes(format, &so_far));
                prop_assert_eq!(found.weight, weight(assistant, user, 0, 0, 0), "{}", format);
                prop_assert_eq!(found.responses.bytes, responses, "{}", format);
                prop_assert_eq!(&found.turns, &turns, "{}", format);
                prop_assert_eq!(found.stored_error, None);
            }
        }
    }

    /// Streams whose lines were lost, doubled or torn: nothing fails, and no more is live than there is.
    #[test]
    fn any_damage_is_weighed(pick in any::<usize>(), seeds in prop::collection::vec((any::<usize>(), 0_u8..3), 0..4)) {
        let streams = streams();
        let (format, path) = &streams[pick % streams.len()];
        let stored = std::fs::read(path).unwrap();
        let mut damaged: Vec<Vec<u8>> = stored.split_inclusive(|b| *b == b'\n').map(<[u8]>::to_vec).collect();
        for (at, how) in seeds {
            let at = at % damaged.len();
            match how {
                0 if damaged.len() > 1 => drop(damaged.remove(at)),
                1 => damaged.insert(at, damaged[at].clone()),
                _ => {
                    let half = damaged[at].len() / 2;
                    damaged[at].truncate(half);
                }
            }
        }
        let damaged = damaged.concat();
        let found = read(format, path, &damaged, Depth::Outline, 4096).located;
        if let Some(outline) = found.outline {
            // JP's system prompt may lie beside the stream.
            if *format != "jp" {
                prop_assert!(outline.weight.bytes() + outline.responses.bytes <= 2 * damaged.len() as u64);
            }
            prop_assert!(outline.turns.is_sorted());
            if let Some(usage) = outline.usage {
                prop_assert!(usage.prompt_tokens > 0);
                prop_assert!(usage.bytes <= outline.weight.bytes() + outline.responses.bytes);
            }
        }
    }
}

/// The streams in `testdata/`, with their formats.
fn streams() -> Vec<(&'static str, PathBuf)> {
    let testdata = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let all = format::FORMATS.iter().flat_map(|f| {
        let files = walkdir::WalkDir::new(testdata.join(f.about().name)).sort_by_file_name().into_iter();
        let files = files.map(|e| e.unwrap().into_path()).filter(|p| p.is_file() && f.candidate(p));
        let files = files.filter(|p| p.components().any(|c| c.as_os_str() == "before"));
        files.map(|path| (f.about().name, path)).collect::<Vec<_>>()
    });
    let all: Vec<_> = all.collect();
    assert!(all.len() > 60);
    all
}

/// Counts of tokens, numbers of turns and whatever else is stored are a stranger's: none is too large.
#[test]
fn numbers_may_be_anything() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let files = walkdir::WalkDir::new(root).into_iter().map(|e| e.unwrap().into_path()).filter(|path| path.is_file());
    let mut read_at_all = 0;
    for path in files.filter(|path| path.components().any(|c| c.as_os_str() == "before")) {
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        for format in format::FORMATS.iter().filter(|format| format.candidate(&path)) {
            for number in [u64::MAX, u64::MAX - 1, 1 << 63] {
                let huge = with_numbers(&text, &number.to_string());
                let mut reading = unwedge::assess::Reading::new(*format, &path, Depth::Outline, []);
                reading.push(huge.as_bytes()).unwrap();
                let outline = reading.finish(&unwedge::cap::limits::Limits::default(), false).located.outline;
                read_at_all += usize::from(outline.is_some());
            }
        }
    }
    assert!(read_at_all > 200, "{read_at_all}");
}

/// The text with this in place of every whole number that is a value.
fn with_numbers(text: &str, number: &str) -> String {
    let mut out = String::new();
    let mut digits = false;
    for c in text.chars() {
        let value = c.is_ascii_digit() && (digits || out.trim_end_matches(' ').ends_with(':'));
        match (value, digits) {
            (true, false) => out.push_str(number),
            (true, true) => {}
            (false, _) => out.push(c),
        }
        digits = value;
    }
    out
}
