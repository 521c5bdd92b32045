//! Cline and its kin, JP, and provider request logs.

use std::path::Path;

use serde_json::{Value, json};
use unwedge::format::{Outline, Usage};

use super::support::{lines, outline, outline_of, weight};

fn document(format: &str, value: &Value) -> Outline {
    outline(format, &serde_json::to_vec_pretty(value).unwrap())
}

#[test]
fn cline_messages_and_results_in_two_shapes() {
    let history = json!([
        { "role": "user", "content": [{ "type": "text", "text": "<task>\nhi\n</task>" }, { "type": "text", "text": "<environment_details>\nx" }] },
        { "role": "assistant", "content": [{ "type": "text", "text": "<ls>\n</ls>" }, { "type": "thinking", "thinking": "hm" }] },
        { "role": "user", "content": [{ "type": "text", "text": "[ls for '.'] Result:" }, { "type": "text", "text": "12345" }, { "type": "text", "text": "<environment_details>\ny" }] },
        { "role": "assistant", "content": [{ "type": "tool_use", "id": "t", "name": "read", "input": { "path": "/a" } }] },
        { "role": "user", "content": [{ "type": "tool_result", "tool_use_id": "t", "content": "67" }] },
        { "role": "user", "content": "next" },
    ]);
    let path = Path::new("/x/tasks/1/api_conversation_history.json");
    let outline = outline_of("cline", path, &serde_json::to_vec(&history).unwrap()).unwrap();
    let header = "[ls for '.'] Result:".len() as u64;
    assert_eq!(outline.weight, weight(10 + 2 + 4 + 4 + 2, 17 + header + 4, 23 + 23, 0, 0));
    assert_eq!((outline.responses.bytes, outline.turns), (7, vec![0, 5]));
    assert_eq!((outline.model, outline.usage, outline.stored_error), (None, None, None));
    // What the screen shows is not what is sent.
    let screen = br#"[{"ts":1,"type":"say","say":"command_output","text":"x"}]"#;
    assert_eq!(outline_of("cline", Path::new("/x/tasks/1/ui_messages.json"), screen), None);
}

#[test]
fn cline_keeps_figures_and_leaves_out_what_a_summary_stands_for() {
    let session = |messages: Value| {
        document(
            "cline",
            &json!({ "version": 1, "sessionId": "s", "messages": messages, "system_prompt": "Be brief." }),
        )
    };
    let says = |text: &str, cached: u64| json!({ "role": "assistant", "content": [{ "type": "text", "text": text }], "modelInfo": { "id": "m-1" }, "metrics": { "inputTokens": 50, "cacheReadTokens": cached, "cacheWriteTokens": 0 } });
    let ask = json!({ "role": "user", "content": "ask" });
    let outline = session(json!([ask, says("one", 0), ask, says("two", 0)]));
    assert_eq!((outline.weight, outline.model.as_deref()), (weight(6, 6, 0, 0, 9), Some("m-1")));
    assert_eq!(outline.usage, Some(Usage { record: 3, prompt_tokens: 50, bytes: 9 + 3 + 3 + 3, images: 0, cut: 0 }));
    assert_eq!(session(json!([ask, says("one", 0), ask, says("two", 7)])).usage.unwrap().record, 1);
    // A result that Cline itself cuts when it sends it.
    let result = |size: usize| json!({ "role": "user", "content": [{ "type": "tool_result", "tool_use_id": "t", "content": "x".repeat(size) }] });
    assert_eq!(session(json!([ask, result(8001), says("one", 0)])).usage, None);
    assert!(session(json!([ask, result(8000), says("one", 0)])).usage.is_some());
    let hidden = json!({ "role": "user", "content": "before", "condenseParent": "c" });
    let summary = json!({ "role": "user", "content": "summary", "isSummary": true, "condenseId": "c" });
    let outline = session(json!([hidden, says("kept", 0), summary, ask]));
    assert_eq!((outline.weight, outline.turns), (weight(4, 3, 0, 0, 9 + 7), vec![3]));
    // An orphan is sent again.
    assert_eq!(session(json!([hidden, ask])).weight.user, 9);
}

fn jp(events: &[Value]) -> Outline {
    let events: Vec<Value> = events
        .iter()
        .map(|e| {
            let mut e = e.clone();
            e.as_object_mut().unwrap().entry("timestamp").or_insert("2026-07-27 10:00:00.0".into());
            e
        })
        .collect();
    document("jp", &Value::Array(events))
}

fn talk() -> Vec<Value> {
    vec![
        json!({ "type": "config_delta", "delta": { "assistant": { "system_prompt": "Be brief.", "instructions": [{ "title": "a", "items": ["bc"] }], "model": { "id": { "provider": "p", "name": "m-1" } } } } }),
        json!({ "type": "turn_start" }),
        json!({ "type": "chat_request", "content": "ask" }),
        json!({ "type": "chat_response", "reasoning": "hmm" }),
        // "ls" and "not base64!" as they are stored.
        json!({ "type": "tool_call_request", "id": "t", "name": "sh", "arguments": { "command": "bHM=", "why": "not base64!" } }),
        json!({ "type": "tool_call_response", "id": "t", "content": "MTIzNDU=", "is_error": false }),
        json!({ "type": "chat_response", "message": "done" }),
        json!({ "type": "turn_start" }),
        json!({ "type": "chat_request", "content": "and" }),
        json!({ "type": "chat_request", "content": "more" }),
    ]
}

#[test]
fn jp_events_of_every_kind() {
    let outline = jp(&talk());
    let call = 2 + (7 + 2) + (3 + 11);
    assert_eq!(outline.weight, weight(3 + call + 4, 3 + 3 + 4, 0, 0, 9 + 1 + 2));
    // A second request within a turn is no turn of JP's.
    assert_eq!((outline.responses.bytes, outline.turns), (5, vec![1, 7]));
    assert_eq!((outline.model.as_deref(), outline.usage, outline.stored_error), (Some("m-1"), None, None));
    // From before turns were marked.
    let old: Vec<Value> = talk().into_iter().filter(|e| e["type"] != "turn_start").collect();
    assert_eq!(jp(&old).turns, [1, 6, 7]);
    let path = Path::new("/w/.jp/conversations/.archive/17712345000/events.json");
    let shelved = outline_of("jp", path, &serde_json::to_vec(&talk()).unwrap()).unwrap();
    assert_eq!((shelved.weight.bytes(), shelved.responses.bytes, shelved.turns.len()), (0, 0, 0));
}

#[test]
fn jp_compactions_hide_what_they_say() {
    let compacted = |more: Value| {
        let mut compaction = json!({ "type": "compaction", "from_turn": 0, "to_turn": 0 });
        compaction.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let mut talk = talk();
        talk.push(compaction);
        jp(&talk)
    };
    let all = jp(&talk()).weight.assistant;
    assert_eq!(compacted(json!({ "reasoning": "strip" })).weight.assistant, all - 3);
    let strip = |request: bool, response: bool| json!({ "tool_calls": { "policy": "strip", "request": request, "response": response } });
    let outline = compacted(strip(true, false));
    assert_eq!((outline.weight.assistant, outline.responses.bytes), (all - 23, 5));
    let outline = compacted(strip(false, true));
    assert_eq!((outline.weight.assistant, outline.responses.bytes), (all, 0));
    let outline = compacted(json!({ "tool_calls": { "policy": "omit" } }));
    assert_eq!((outline.weight.assistant, outline.responses.bytes), (all - 25, 0));
    let outline = compacted(json!({ "summary": { "summary": "short" } }));
    assert_eq!((outline.weight, outline.responses.bytes), (weight(0, 7, 0, 0, 12 + 5), 0));
    assert_eq!(outline.turns, [7]);
}

#[test]
fn a_request_with_its_prompt_its_tools_and_its_tokens() {
    let anthropic = document(
        "provider-log",
        &json!({
            "model": "claude", "system": [{ "type": "text", "text": "Be brief." }], "tools": [{ "name": "sh", "input_schema": { "n": 12 } }],
            "messages": [
                { "role": "user", "content": "ask" },
                { "role": "assistant", "content": [{ "type": "thinking", "thinking": "hm", "signature": "AA" }, { "type": "tool_use", "id": "t", "name": "sh", "input": {} }] },
                { "role": "user", "content": [{ "type": "tool_result", "tool_use_id": "t", "content": "12345" }, { "type": "image", "source": {} }] },
            ],
            "usage": { "input_tokens": 4, "cache_read_input_tokens": 30, "cache_creation_input_tokens": 6 },
        }),
    );
    assert_eq!(anthropic.weight, weight(2 + 2, 3, 0, 1, 9 + (4 + 2 + 12 + 1 + 2)));
    assert_eq!((anthropic.responses.bytes, anthropic.turns, anthropic.model.as_deref()), (5, vec![0], Some("claude")));
    assert_eq!(anthropic.usage, Some(Usage { record: 0, prompt_tokens: 40, bytes: 30 + 3 + 4 + 5, images: 1, cut: 0 }));
    let chat = document(
        "provider-log",
        &json!({ "messages": [
            { "role": "system", "content": "sys" },
            { "role": "user", "content": [{ "type": "text", "text": "ask" }, { "type": "image_url", "image_url": { "url": "data:" } }] },
            { "role": "assistant", "content": null, "tool_calls": [{ "id": "c", "type": "function", "function": { "name": "sh", "arguments": "{\"a\":1}" } }] },
            { "role": "tool", "tool_call_id": "c", "content": "123" },
        ] }),
    );
    assert_eq!((chat.weight, chat.responses.bytes, chat.turns), (weight(9, 3, 0, 1, 3), 3, vec![1]));
    let responses = document(
        "provider-log",
        &json!({ "instructions": "sys", "input": [
            { "role": "user", "content": [{ "type": "input_text", "text": "ask" }] },
            { "type": "reasoning", "summary": [{ "type": "summary_text", "text": "why" }], "encrypted_content": "AAAA" },
            { "type": "function_call", "call_id": "c", "name": "sh", "arguments": "{}" },
            { "type": "function_call_output", "call_id": "c", "output": "123" },
        ], "output": [{ "type": "message", "role": "assistant", "content": [{ "type": "output_text", "text": "done" }] }], "usage": { "input_tokens": 20 } }),
    );
    assert_eq!((responses.weight, responses.responses.bytes), (weight(3 + 4 + 4, 3, 0, 0, 3), 3));
    assert_eq!(responses.usage, Some(Usage { record: 0, prompt_tokens: 20, bytes: 3 + 3 + 7 + 3, images: 0, cut: 0 }));
    let gemini = document(
        "provider-log",
        &json!({ "systemInstruction": { "parts": [{ "text": "sys" }] }, "contents": [
            { "role": "user", "parts": [{ "text": "ask" }, { "inlineData": { "mimeType": "image/png", "data": "AAAA" } }] },
            { "role": "model", "parts": [{ "functionCall": { "name": "sh", "args": { "a": true } } }] },
            { "role": "user", "parts": [{ "functionResponse": { "name": "sh", "response": { "output": "123" } } }] },
        ] }),
    );
    assert_eq!((gemini.weight, gemini.responses.bytes, gemini.turns), (weight(2 + 1 + 4, 3, 0, 1, 3), 3, vec![0]));
    let bedrock = document(
        "provider-log",
        &json!({ "messages": [
            { "role": "user", "content": [{ "text": "ask" }, { "document": { "format": "pdf" } }] },
            { "role": "assistant", "content": [{ "toolUse": { "toolUseId": "t", "name": "sh", "input": { "a": "b" } } }] },
            { "role": "user", "content": [{ "toolResult": { "toolUseId": "t", "content": [{ "text": "123" }] } }] },
        ], "inferenceConfig": {} }),
    );
    assert_eq!((bedrock.weight, bedrock.responses.bytes, bedrock.turns), (weight(4, 3, 0, 1, 0), 3, vec![0]));
}

#[test]
fn of_a_log_the_last_request_counts() {
    let request = |n: usize| {
        let mut messages = vec![json!({ "role": "user", "content": "ask" })];
        for call in 0..n {
            let id = format!("c{call}");
            messages.push(json!({ "role": "assistant", "content": null, "tool_calls": [{ "id": id, "function": { "name": "sh", "arguments": "{}" } }] }));
            messages.push(json!({ "role": "tool", "tool_call_id": id, "content": "12345" }));
        }
        json!({ "model": "m", "messages": messages })
    };
    let log = [request(1), request(2), request(3)];
    let whole = outline("provider-log-lines", &lines(&log));
    assert_eq!((whole.weight, whole.responses.bytes, whole.turns), (weight(12, 3, 0, 0, 0), 15, vec![2]));
    let error =
        json!({ "error": { "type": "invalid_request_error", "message": "prompt is too long: 2 tokens > 1 maximum" } });
    let wedged = outline("provider-log-lines", &lines(&[&log[..], std::slice::from_ref(&error)].concat()));
    assert_eq!((wedged.stored_error.unwrap().record, wedged.responses.bytes), (3, 15));
    assert_eq!(outline("provider-log-lines", &lines(&[&[error], &log[..]].concat())).stored_error, None);
}
