//! Codex, Gemini CLI, Qwen Code and Copilot.

use serde_json::{Value, json};
use unwedge::format::{Load, Usage};

use super::support::{lines, outline, weight};

fn item(payload: Value) -> Value {
    json!({ "timestamp": "t", "type": "response_item", "payload": payload })
}

fn event(payload: Value) -> Value {
    json!({ "timestamp": "t", "type": "event_msg", "payload": payload })
}

fn said(role: &str, text: &str) -> Value {
    let kind = if role == "assistant" { "output_text" } else { "input_text" };
    item(json!({ "type": "message", "role": role, "content": [{ "type": kind, "text": text }] }))
}

fn call(id: &str) -> Value {
    item(json!({ "type": "function_call", "name": "exec", "call_id": id, "arguments": "{\"a\":1}" }))
}

fn output(id: &str, text: &str) -> Value {
    item(json!({ "type": "function_call_output", "call_id": id, "output": text }))
}

fn tokens(input: u64) -> Value {
    event(
        json!({ "type": "token_count", "info": { "last_token_usage": { "input_tokens": input, "cached_input_tokens": 1 }, "total_token_usage": { "input_tokens": 9, "total_tokens": 99 }, "model_context_window": 258_400 } }),
    )
}

fn codex(items: &[Value]) -> unwedge::format::Outline {
    let meta = json!({ "timestamp": "t", "type": "session_meta", "payload": { "id": "i", "base_instructions": { "text": "Be brief." } } });
    let turn = json!({ "timestamp": "t", "type": "turn_context", "payload": { "model": "gpt-5-codex" } });
    outline("codex", &lines(&[&[meta, turn], items].concat()))
}

#[test]
fn codex_items_and_the_request_that_the_tokens_are_of() {
    let outline = codex(&[
        said("developer", "rules"),
        said("user", "<environment_context>\nx"),
        said("user", "hello"),
        item(
            json!({ "type": "reasoning", "summary": [{ "type": "summary_text", "text": "why" }], "encrypted_content": "AAAA" }),
        ),
        call("c"),
        tokens(50),
        output("c", "12345"),
        item(json!({ "type": "custom_tool_call", "name": "patch", "call_id": "d", "input": "+\n" })),
        // The outputs of an answer may come before what was counted for it.
        output("d", "67"),
        tokens(70),
        tokens(70),
    ]);
    assert_eq!(outline.weight, weight(3 + 11 + 7, 5, 23, 0, 9 + 5));
    assert_eq!((outline.responses, outline.turns), (Load { bytes: 7, images: 0 }, vec![4]));
    assert_eq!((outline.model.as_deref(), outline.window), (Some("gpt-5-codex"), Some(258_400)));
    let bytes = 9 + 5 + 23 + 5 + 14 + 5;
    assert_eq!(outline.usage, Some(Usage { record: 9, prompt_tokens: 70, bytes, images: 0, cut: 0 }));
}

#[test]
fn codex_histories_replace_and_turns_are_taken_back() {
    let first = [said("user", "one"), said("assistant", "first"), call("c"), output("c", "12345"), tokens(40)];
    let history = json!([
        said("user", "one")["payload"],
        said("assistant", "summary")["payload"],
        call("k")["payload"],
        output("k", "123")["payload"]
    ]);
    let compacted = |payload: Value| json!({ "timestamp": "t", "type": "compacted", "payload": payload });
    let replaced = codex(
        &[&first[..], &[compacted(json!({ "message": "m", "replacement_history": history })), said("user", "two")]]
            .concat(),
    );
    assert_eq!((replaced.weight, replaced.responses.bytes), (weight(7 + 11, 6, 0, 0, 9), 3));
    assert_eq!((replaced.turns, replaced.usage), (vec![7, 8], None));
    // Without a history the user's own words stay.
    let summed = codex(
        &[
            &first[..],
            &[compacted(json!({ "message": "sum" })), said("user", "two"), said("assistant", "b"), tokens(30)],
        ]
        .concat(),
    );
    assert_eq!((summed.weight, summed.responses.bytes), (weight(1, 6, 0, 0, 12), 0));
    assert_eq!(summed.usage, Some(Usage { record: 9, prompt_tokens: 30, bytes: 12 + 6, images: 0, cut: 0 }));
    let back = event(json!({ "type": "thread_rolled_back", "num_turns": 1 }));
    let rolled = codex(&[&first[..], &[said("user", "two"), said("assistant", "second"), tokens(60), back]].concat());
    assert_eq!((rolled.weight, rolled.responses.bytes), (weight(5 + 11, 3, 0, 0, 9), 5));
    assert_eq!((rolled.turns, rolled.usage.unwrap().record), (vec![2], 3));
}

#[test]
fn codex_says_that_the_window_was_full() {
    let full = event(
        json!({ "type": "token_count", "info": { "last_token_usage": { "input_tokens": 0, "total_tokens": 5 }, "total_token_usage": { "input_tokens": 0, "total_tokens": 258_400 }, "model_context_window": 258_400 } }),
    );
    let wedged = [said("user", "one"), full];
    let error = codex(&wedged).stored_error.unwrap();
    assert_eq!((error.record, error.line), (3, 4));
    assert!(error.text.contains("258400"));
    assert_eq!(codex(&[&wedged[..], &[said("user", "again"), said("assistant", "b")]].concat()).stored_error, None);
    let said_so = event(
        json!({ "type": "error", "message": "Codex ran out of room in the model's context window. Start a new thread.", "codex_error_info": "context_window_exceeded" }),
    );
    assert_eq!(codex(&[said("assistant", "b"), said_so]).stored_error.unwrap().record, 3);
    // An output that the agent may have cut again says nothing of what was sent.
    let long =
        codex(&[said("user", "a"), call("c"), output("c", &"x".repeat(10_001)), said("assistant", "b"), tokens(9)]);
    assert_eq!(long.usage, None);
}

fn gemini(messages: &[Value]) -> unwedge::format::Outline {
    let header = json!({ "sessionId": "s", "projectHash": "h", "startTime": "t" });
    outline("gemini", &lines(&[&[header], messages].concat()))
}

fn model(id: &str, text: &str, tokens: u64) -> Value {
    json!({ "id": id, "type": "gemini", "content": text, "thoughts": [{ "subject": "never sent" }], "tokens": { "input": tokens }, "model": "gemini-2.5-pro" })
}

fn asked(id: &str, text: &str) -> Value {
    json!({ "id": id, "type": "user", "content": [{ "text": text }] })
}

#[test]
fn gemini_messages_and_both_copies() {
    let answer = json!({ "functionResponse": { "id": "c", "name": "sh", "response": { "output": "12345" } } });
    let mut calls = model("g1", "", 10);
    calls["toolCalls"] =
        json!([{ "id": "c", "name": "sh", "args": { "command": "ls" }, "result": [answer], "status": "success" }]);
    let outline = gemini(&[
        asked("c0", "<session_context>\ndemo"),
        asked("u1", "hello"),
        model("g1", "", 10),
        calls,
        json!({ "id": "u2", "type": "user", "content": [answer] }),
        asked("u3", "/stats"),
        json!({ "id": "i1", "type": "info", "content": "never sent" }),
        model("g2", "done", 30),
    ]);
    assert_eq!(outline.weight, weight(2 + 7 + 2 + 4, 5, 22, 0, 0));
    // A resumed session sends a response twice, the request that was counted held it once.
    assert_eq!((outline.responses.bytes, outline.turns), (10, vec![2]));
    assert_eq!(outline.usage, Some(Usage { record: 8, prompt_tokens: 30, bytes: 22 + 5 + 11 + 5, images: 0, cut: 0 }));
    assert_eq!(outline.model.as_deref(), Some("gemini-2.5-pro"));
}

#[test]
fn gemini_messages_are_replaced_rewound_and_set() {
    let talk = [asked("u1", "one"), model("g1", "first", 10), asked("u2", "two"), model("g2", "second", 20)];
    // A message that comes again stands where it first stood.
    let replaced = gemini(&[&talk[..], &[asked("u1", "longer")]].concat());
    assert_eq!((replaced.weight, replaced.usage.unwrap().bytes), (weight(11, 9, 0, 0, 0), 6 + 5 + 3));
    assert_eq!(replaced.turns, [3, 5]);
    let rewound = gemini(&[&talk[..], &[json!({ "$rewindTo": "u2" }), asked("u2", "again")]].concat());
    assert_eq!((rewound.weight, rewound.turns), (weight(5, 8, 0, 0, 0), vec![1, 6]));
    let set = json!({ "$set": { "messages": [asked("u1", "one"), model("g9", "sum", 99)] } });
    let set = gemini(&[&talk[..], &[set]].concat());
    assert_eq!((set.weight, set.usage), (weight(3, 3, 0, 0, 0), None));
    let error = json!({ "id": "e", "type": "error", "content": "[API Error: The input token count exceeds the maximum number of tokens allowed]" });
    let wedged = [&talk[..], std::slice::from_ref(&error)].concat();
    assert_eq!(gemini(&wedged).stored_error.unwrap().record, 5);
    assert_eq!(gemini(&[&wedged[..], &[model("g3", "b", 9)]].concat()).stored_error, None);
}

fn qwen(records: &[(&str, &str, Value)]) -> unwedge::format::Outline {
    let record = |(uuid, parent, more): &(&str, &str, Value)| {
        let mut record =
            json!({ "uuid": uuid, "parentUuid": (!parent.is_empty()).then_some(parent), "sessionId": "s" });
        record.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        record
    };
    outline("qwen", &lines(&records.iter().map(record).collect::<Vec<_>>()))
}

#[test]
fn qwen_records_on_the_chain() {
    let user = |text: &str| json!({ "type": "user", "message": { "role": "user", "parts": [{ "text": text }] } });
    let says = |text: &str, tokens: u64| json!({ "type": "assistant", "model": "qwen3", "message": { "role": "model", "parts": [{ "text": "hm", "thought": true }, { "text": text }] }, "usageMetadata": { "promptTokenCount": tokens } });
    let telemetry = |message: &str| json!({ "type": "system", "subtype": "ui_telemetry", "systemPayload": { "uiEvent": { "event.name": "qwen-code.api_error", "error_message": message } } });
    let outline = qwen(&[
        ("a1", "", user("one")),
        ("a2", "a1", says("left", 10)),
        ("b2", "a1", says("right", 20)),
        ("b3", "b2", user("two")),
        ("b4", "b3", telemetry("Range of input length should be [1, 258048]; input is too long")),
    ]);
    assert_eq!((outline.weight, outline.turns), (weight(2 + 5, 6, 0, 0, 0), vec![0, 3]));
    assert_eq!(outline.usage, Some(Usage { record: 2, prompt_tokens: 20, bytes: 3, images: 0, cut: 0 }));
    assert_eq!((outline.stored_error.unwrap().record, outline.model.as_deref()), (4, Some("qwen3")));
    let history =
        json!([{ "role": "user", "parts": [{ "text": "summary" }] }, { "role": "model", "parts": [{ "text": "ok" }] }]);
    let compressed =
        json!({ "type": "system", "subtype": "chat_compression", "systemPayload": { "compressedHistory": history } });
    let outline = qwen(&[
        ("a1", "", user("one")),
        ("a2", "a1", says("x", 9)),
        ("a3", "a2", compressed),
        ("a4", "a3", user("two")),
    ]);
    assert_eq!((outline.weight, outline.turns, outline.usage), (weight(2, 3, 0, 0, 7), vec![3], None));
}

#[test]
fn copilot_events_of_the_main_agent() {
    let event =
        |kind: &str, data: Value| json!({ "type": kind, "data": data, "id": "i", "timestamp": "t", "parentId": null });
    let of_a_subagent = |mut event: Value| {
        event["agentId"] = "a".into();
        event
    };
    let result = event(
        "tool.execution_complete",
        json!({ "toolCallId": "c", "success": true, "result": { "content": "12345" } }),
    );
    let talk = [
        event("session.start", json!({ "sessionId": "s", "selectedModel": "gpt-5" })),
        event("system.message", json!({ "content": "Be brief.", "role": "system" })),
        event(
            "user.message",
            json!({ "content": "hi", "transformedContent": "<now/>hi", "attachments": [{ "type": "blob", "data": "AAAA" }] }),
        ),
        event(
            "assistant.message",
            json!({ "content": "ok", "reasoningText": "sealed", "toolRequests": [{ "toolCallId": "c", "name": "sh", "arguments": { "a": "b" } }] }),
        ),
        result.clone(),
        of_a_subagent(event("assistant.message", json!({ "content": "of a subagent" }))),
        of_a_subagent(result),
        event("user.message", json!({ "content": "put in", "source": "skill-x" })),
    ];
    let whole = outline("copilot", &lines(&talk));
    assert_eq!(whole.weight, weight(2 + 4, 8, 6, 1, 9));
    assert_eq!((whole.responses.bytes, whole.turns), (5, vec![2]));
    assert_eq!((whole.model.as_deref(), whole.window, whole.usage), (Some("gpt-5"), None, None));
    let compacted = event(
        "session.compaction_complete",
        json!({ "success": true, "summaryContent": "sum", "tokenLimit": 128_000 }),
    );
    let error = event("session.error", json!({ "message": "failed", "statusCode": 413 }));
    let after = outline(
        "copilot",
        &lines(&[&talk[..], &[error.clone(), compacted, event("user.message", json!({ "content": "next" }))]].concat()),
    );
    assert_eq!((after.weight, after.responses.bytes), (weight(0, 4, 0, 0, 9 + 3), 0));
    assert_eq!((after.window, after.stored_error), (Some(128_000), None));
    let wedged = outline("copilot", &lines(&[&talk[..], &[error]].concat()));
    assert_eq!(wedged.stored_error.unwrap().text, "413: failed");
}
