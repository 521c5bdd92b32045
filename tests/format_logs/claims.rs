use std::path::Path;

use crate::support::{FORMATS, claimants, files, testdata};

#[track_caller]
fn check(path: &str, head: &str, expected: &[&str]) {
    let head = head.as_bytes();
    assert_eq!(claimants(Path::new(path), head), expected, "{path}: {}", String::from_utf8_lossy(head));
}

/// A call and its response, in the shape of Chat Completions.
const CHAT: &str = r#"{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"bash","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c1","content":"text"}"#;

#[test]
fn what_is_not_a_log_is_not_claimed() {
    let chat = CHAT;
    let unrelated = [
        // Packages, settings, exports, traces.
        r#"{"name":"x","version":"1.0.0","scripts":{"test":"x"},"dependencies":{}}"#.to_owned(),
        r#"{"compilerOptions":{"strict":true},"include":["src"]}"#.into(),
        r#"{"openapi":"3.0.0","paths":{"/tools":{"get":{"tools":[]}}}}"#.into(),
        r#"{"cells":[{"cell_type":"code","source":[],"outputs":[{"output_type":"stream","text":["x"]}]}]}"#.into(),
        r#"{"type":"FeatureCollection","features":[{"type":"Feature","properties":{}}]}"#.into(),
        format!(r#"{{"log":{{"version":"1.2","entries":[{{"request":{{"method":"POST","postData":{{"text":"{{\"messages\":[]}}"}}}},"x":{{"messages":[{chat}]}}}}]}}}}"#),
        format!(r#"{{"interactions":[{{"request":{{"body":{{"model":"m","messages":[{chat}]}}}}}}]}}"#),
        r#"{"resourceSpans":[{"scopeSpans":[{"spans":[{"attributes":[{"key":"gen_ai.tool.call.result","value":{"stringValue":"x"}}]}]}]}]}"#.into(),
        r#"{"temperature":0.6,"top_p":0.9,"max_tokens":4096,"do_sample":true}"#.into(),
        r#"{"model":"text-embedding-3","input":["a text","another"],"encoding_format":"float"}"#.into(),
        r#"{"model":"gpt-4","input":"say something","max_output_tokens":10}"#.into(),
        // Arrays of objects with roles, contents, types.
        r#"[{"id":1,"content":"a"},{"id":2,"content":"b"}]"#.into(),
        r#"[{"role":"user","content":"hi"},{"role":"assistant","content":"hello"}]"#.into(),
        r#"[{"role":"assistant","content":"x","tool_calls":null,"function_call":null}]"#.into(),
        r#"[{"role":"admin","tool_call_id":"x","content":"x","tool_calls":[{"id":"c","function":{"name":"f"}}]}]"#.into(),
        r#"[{"type":"phone_call","call_id":"7","duration":12}]"#.into(),
        r#"[{"type":"function_call_output","output":"no id"}]"#.into(),
        r#"[{"type":"message","content":[{"type":"text","text":"x"}]}]"#.into(),
        format!(r#"[{chat},{{"id":7,"name":"no message"}}]"#),
        format!(r#"[{chat},"text"]"#),
        format!(r#"[{{"messages":[{chat}],"model":"m","stream":true}}]"#),
        "[]".into(),
        "{}".into(),
        String::new(),
        "not JSON".into(),
        r#"{"messages":[]}"#.into(),
        r#"{"messages":{"greeting":"hi"},"model":"m","stream":true}"#.into(),
        r#"{"messages":[{"author":"a","text":"b","timestamp":1}],"model":"m","stream":true}"#.into(),
        // Other programs' conversations, with calls in them.
        r#"{"v":3,"id":"T-1","created":1,"messages":[{"role":"assistant","messageId":0,"content":[{"type":"tool_use","id":"t","name":"Bash","input":{}}]}]}"#.into(),
        r#"{"version":"0.3.0","messages":[{"Agent":{"content":[],"tool_results":{}}}]}"#.into(),
        r#"{"history":[{"message":{"role":"assistant","toolCalls":[{"id":"x"}]},"toolCallStates":[]}]}"#.into(),
        r#"{"info":{"id":"ses"},"messages":[{"info":{"role":"assistant"},"parts":[{"type":"tool","tool":"bash"}]}]}"#.into(),
        r#"{"sessionId":"s","projectHash":"p","messages":[{"id":"1","type":"gemini","content":"","toolCalls":[{"id":"x","name":"f","result":[{"functionResponse":{"id":"x","name":"f","response":{"output":"x"}}}]}]}]}"#.into(),
        r#"{"messages":[{"role":"tool","content":[{"type":"tool-result","tool_call_id":"x","result":{}}]}]}"#.into(),
        r#"{"trajectory":[{"action":"ls","observation":"x"}],"history":[{"role":"user","content":"x"}]}"#.into(),
        // What models are trained on.
        r#"{"conversations":[{"from":"human","value":"x"},{"from":"function_call","value":"{}"},{"from":"observation","value":"x"}]}"#.into(),
        r#"{"instruction":"x","input":"y","output":"z"}"#.into(),
        r#"{"query":"x","tools":[{"name":"f"}],"answers":[{"name":"f"}]}"#.into(),
        r#"{"messages":[{"role":"system","content":"x"},{"role":"user","content":"y"},{"role":"assistant","content":"z"}]}"#.into(),
        r#"{"id":"1","model":"m","temperature":1,"messages":[{"role":"user","content":"y"},{"role":"assistant","content":"z"}]}"#.into(),
        r#"{"prompt":"x","completion":"y","model":"m"}"#.into(),
        r#"{"conversation_id":"x","model":"m","conversation":[{"role":"user","content":"x"}],"turn":1}"#.into(),
        r#"{"systemInstruction":{"parts":[{"text":"x"}]},"contents":[{"role":"user","parts":[{"text":"x"}]},{"role":"model","parts":[{"text":"y"}]}]}"#.into(),
    ];
    for text in &unrelated {
        for name in [
            "/data/x.json",
            "/data/x.jsonl",
            "/data/x.ndjson",
            "/data/package.json",
            "/data/events.jsonl",
            "/data/en.messages.json",
            "/data/en/en.messages.json",
        ] {
            check(name, text, &[]);
            check(name, &format!("{text}\n{text}\n"), &[]);
        }
    }
    // As one document this may be a transcript; as lines it is what models are trained on.
    let tuned =
        format!(r#"{{"messages":[{{"role":"user","content":"x"}},{chat}],"tools":[],"parallel_tool_calls":false}}"#);
    check("/data/x.jsonl", &tuned, &[]);
    check("/data/x.jsonl", &format!("{tuned}\n{tuned}\n"), &[]);
    check("/data/x.json", &format!("{tuned}\n{tuned}\n"), &[]);
    let tuned = r#"{"contents":[{"role":"model","parts":[{"functionCall":{"name":"f","args":{}}}]}],"tools":[]}"#;
    check("/data/x.jsonl", tuned, &[]);
}

#[test]
fn what_is_a_log_is() {
    let document = |head: &str| check("/data/x.json", head, &["provider-log"]);
    let line = |head: &str| {
        check("/data/x.jsonl", head, &["provider-log-lines"]);
        check("/data/x.json", &format!("{head}\n{head}\n"), &["provider-log-lines"]);
    };
    let chat = CHAT;
    document(&format!("[{chat}]"));
    document(&format!(" \n[\n{chat}]\n"));
    document(&format!("\u{feff}{{\"messages\":[{chat}]}}"));
    document(&format!(r#"{{"messages":[{chat}],"tools":[]}}"#));
    document(&format!(r#"{{"title":"x","messages":[{chat}],"model":"m"}}"#));
    line(&format!(r#"{{"messages":[{chat}],"model":"m"}}"#));
    line(&format!(r#"{{"at":"2026","request_id":7,"model":"m","messages":[{chat}]}}"#));
    document(
        r#"[{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"x"}]"#,
    );
    line(
        r#"{"model":"m","input":[{"role":"user","content":"x"},{"type":"reasoning","summary":[]},{"type":"custom_tool_call","call_id":"c","name":"f","input":"x"}]}"#,
    );
    line(
        r#"{"id":"resp_1","object":"response","output":[{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}]}"#,
    );
    document(
        r#"[{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t"}]}]"#,
    );
    line(r#"{"max_tokens":1,"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t"}]}]}"#);
    document(r#"[{"role":"user","parts":[{"text":"x"}]},{"parts":[{"functionResponse":{"name":"f","response":{}}}]}]"#);
    line(r#"{"contents":[{"role":"model","parts":[{"functionCall":{"name":"f"}}]}],"generationConfig":{}}"#);
    document(r#"{"messages":[{"role":"assistant","content":[{"toolUse":{"toolUseId":"t","name":"f"}}]}]}"#);
    line(
        r#"{"inferenceConfig":{},"messages":[{"role":"user","content":[{"toolResult":{"toolUseId":"t","content":[]}}]}]}"#,
    );
    // The system prompt is longer than what is seen.
    let long = "x".repeat(9000);
    for head in [
        format!(r#"{{"model":"m","stream":true,"messages":[{{"role":"system","content":"{long}"#),
        format!(r#"{{"model":"m","tools":[],"messages":[{{"content":"{long}"#),
        format!(r#"{{"max_tokens":1,"model":"m","messages":[{{"content":[{{"type":"text","text":"{long}"#),
    ] {
        document(&head);
        check("/data/x.jsonl", &head, &["provider-log-lines"]);
    }
    check("/data/x.jsonl", &format!(r#"{{"messages":[{{"role":"system","content":"{long}"#), &[]);
    // Gemini CLI's checkpoints begin with pages of text.
    let contents = format!(r#"[{{"role":"user","parts":[{{"text":"{long}"#);
    check("/tmp/checkpoint-before.json", &contents, &["provider-log"]);
    check("/tmp/checkpoint-before.json", &format!("{{\"history\":{contents}"), &["provider-log"]);
    check("/tmp/other.json", &contents, &[]);
}

/// An agent's own files are the agent's, though they hold messages of an interface's shape.
#[test]
fn an_agents_file_is_the_agents() {
    let messages = r#"[{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{}}]}]"#;
    check("/t/tasks/1733000000001/api_conversation_history.json", messages, &["cline"]);
    check("/copy/of/api_conversation_history.json", messages, &["cline"]);
    check("/copy/of/claude_messages.json", messages, &["cline"]);
    check("/copy/of/other.json", messages, &["provider-log"]);
    let own = format!(r#"{{"version":1,"agent":"lead","sessionId":"s","origin":{{}},"messages":{messages}}}"#);
    check("/copy/of/x.messages.json", &own, &["cline"]);
    check("/copy/of/x.json", &own, &[]);
    check("/copy/of/ui_messages.json", r#"[{"ts":1,"type":"say","say":"text","text":"x"}]"#, &["cline"]);
    check("/copy/of/ui_messages.json", r#"[{"text":"x"}]"#, &[]);
    // Broken ones are found where they lie in their own folders.
    for name in ["api_conversation_history.json", "claude_messages.json", "ui_messages.json"] {
        check(&format!("/t/tasks/1733000000001/{name}"), "\0\0", &["cline"]);
        check(&format!("/t/tasks/0199aabb-0000-7000-8000-000000000001/{name}"), "", &["cline"]);
        check(&format!("/t/tasks/other/{name}"), "\0\0", &[]);
    }
    check("/s/1796083950583_a/1796083950583_a.messages.json", "", &["cline"]);
    check("/s/1796083950583_a/1796083950583_a.json", r#"{"version":1,"session_id":"x"}"#, &[]);
    check("/home/dev/.copilot/session-state/be25/events.jsonl", "\0\0", &["copilot"]);
    let start =
        r#"{"type":"session.start","data":{"sessionId":"x","version":1},"id":"e","timestamp":"t","parentId":null}"#;
    check("/copy/of/events.jsonl", start, &["copilot"]);
    check("/copy/session-state/be25.jsonl", start, &["copilot"]);
    check("/copy/session-state/be25.jsonl", "{}", &[]);
    check("/copy/of/other.jsonl", start, &[]);
    check("/copy/of/events.jsonl", r#"{"type":"session","version":3,"id":"x","timestamp":"t","cwd":"/"}"#, &["pi"]);
    check("/home/dev/.copilot/session-state/be25/workspace.yaml", "id: x", &[]);
}

/// Whatever lies in the cases, of ours and of others, has one owner at most, and the one whose case it is.
#[test]
fn one_owner_at_most() {
    for path in files(&testdata()) {
        let bytes = std::fs::read(&path).unwrap();
        let claimants = claimants(&path, &bytes);
        assert!(claimants.len() < 2, "{}: {claimants:?}", path.display());
        let below = path.strip_prefix(testdata()).unwrap();
        for name in claimants.into_iter().filter(|name| FORMATS.contains(name)) {
            assert!(below.starts_with(name), "{}: {name}", path.display());
        }
    }
}
