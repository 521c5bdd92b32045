//! How each agent spells a session.

use super::{ODD, Res, Session, fill};

/// The results of a turn with the ids of their calls.
fn calls(number: usize, turn: &[Res]) -> Vec<(String, &Res)> {
    turn.iter().enumerate().map(|(n, res)| (format!("call_{number}_{n}"), res)).collect()
}

fn joined(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join(",")
}

const BLOCK: &str = r#"{"type":"text","text":$}"#;
const MCP_IMAGE: &str = r#"{"type":"image","data":"$","mimeType":"image/png"}"#;
const SOURCE: &str = r#"{"type":"image","source":{"type":"base64","media_type":"image/png","data":"$"}}"#;

pub fn codex(session: &Session) -> Vec<String> {
    let mut out = Vec::new();
    let line = |out: &mut Vec<String>, kind: &str, payload: String| {
        let (n, ordinal) = (out.len(), out.len().to_string());
        let time = format!("2026-12-01T{:02}:{:02}:{:02}.000Z", n / 3600, n / 60 % 60, n % 60);
        let line = r#"{"timestamp":"$","ordinal":$,"type":"$","payload":$}"#;
        out.push(fill(line, &[&time, &ordinal, kind, &payload]));
    };
    let meta = r#"{"id":"01a2b3c4-0000-4000-8000-000000000003","cwd":"/w","history_mode":"paginated"}"#;
    line(&mut out, "session_meta", meta.to_owned());
    for (number, turn) in session.turns.iter().enumerate() {
        let user = r#"{"type":"message","role":"user","content":[{"type":"input_text","text":$}]}"#;
        line(&mut out, "response_item", fill(user, &[&session.said]));
        let assistant = r#"{"type":"message","role":"assistant","content":[{"type":"output_text","text":"yes"}]}"#;
        line(&mut out, "response_item", assistant.to_owned());
        for (id, _) in calls(number, turn) {
            let call = r#"{"type":"function_call","name":"run","call_id":"$","arguments":"{}",$}"#;
            line(&mut out, "response_item", fill(call, &[&id, ODD]));
        }
        for (id, res) in calls(number, turn).into_iter().rev() {
            if session.copies {
                let item =
                    r#"{"type":"item_completed","item":{"type":"CommandExecution","id":"$","aggregated_output":$}}"#;
                line(&mut out, "event_msg", fill(item, &[&id, res.first()]));
            }
            let image = r#"{"type":"input_image","image_url":"data:image/png;base64,$"}"#;
            let output = res.value(r#"{"type":"input_text","text":$}"#, image);
            let response = r#"{"type":"function_call_output","call_id":"$","output":$}"#;
            line(&mut out, "response_item", fill(response, &[&id, &output]));
        }
    }
    out
}

pub fn gemini(session: &Session) -> Vec<String> {
    let header = r#"{"sessionId":"01a2b3c4-0000","projectHash":"00ff","startTime":"2026-12-01","lastUpdated":"2026-12-01","kind":"main"}"#;
    [vec![header.to_owned()], gemini_messages(session)].concat()
}

pub fn gemini_messages(session: &Session) -> Vec<String> {
    let mut out = Vec::new();
    for (number, turn) in session.turns.iter().enumerate() {
        let number_text = number.to_string();
        let user = r#"{"id":"u$","timestamp":"2026-12-01","type":"user","content":[{"text":$}]}"#;
        out.push(fill(user, &[&number_text, &session.said]));
        let call = |(id, res): (String, &Res)| {
            let display = if session.copies { fill(r#","resultDisplay":$"#, &[res.first()]) } else { String::new() };
            let call = r#"{"id":"$","name":"run","args":{$},"result":[{"functionResponse":$}],"status":"success"$}"#;
            fill(call, &[&id, ODD, &answer(&id, res), &display])
        };
        let calls_text = joined(calls(number, turn).into_iter().map(call));
        let message = r#"{"id":"g$","timestamp":"2026-12-01","type":"gemini","content":"","toolCalls":[$]}"#;
        out.push(fill(message, &[&number_text, &calls_text]));
        let echo = |(id, res): (String, &Res)| fill(r#"{"functionResponse":$}"#, &[&answer(&id, res)]);
        let echoes = joined(calls(number, turn).into_iter().map(echo));
        let message = r#"{"id":"e$","timestamp":"2026-12-01","type":"user","content":[$]}"#;
        out.push(fill(message, &[&number_text, &echoes]));
    }
    out
}

/// A `functionResponse`.
fn answer(id: &str, res: &Res) -> String {
    let response = if res.list {
        fill(r#"{"content":$}"#, &[&res.blocks(BLOCK, MCP_IMAGE)])
    } else {
        fill(r#"{"output":$}"#, &[res.first()])
    };
    fill(r#"{"id":"$","name":"run","response":$}"#, &[id, &response])
}

/// Records that each follow the one before.
struct Chain {
    out: Vec<String>,
    /// What a record begins with: parent and id go in.
    start: &'static str,
}

impl Chain {
    fn id(n: usize) -> String {
        if n == 0 { "null".to_owned() } else { format!("\"{n:08x}\"") }
    }

    /// Adds one behind the given one, and gives its number.
    fn add(&mut self, parent: usize, rest: &str) -> usize {
        let number = self.out.len() + 1;
        self.out.push(fill(self.start, &[&Chain::id(parent), &Chain::id(number)]) + rest);
        number
    }

    fn next(&mut self, rest: &str) -> usize {
        self.add(self.out.len(), rest)
    }
}

pub fn qwen(session: &Session) -> Vec<String> {
    let start = r#"{"parentUuid":$,"uuid":$,"sessionId":"01a2b3c4-0000-4000-8000-000000000004","timestamp":"2026-12-01","version":"0.15.10","#;
    let mut chain = Chain { out: Vec::new(), start };
    for (number, turn) in session.turns.iter().enumerate() {
        let user = r#""type":"user","message":{"role":"user","parts":[{"text":$}]}}"#;
        chain.next(&fill(user, &[&session.said]));
        let call =
            |(id, _): (String, &Res)| fill(r#"{"functionCall":{"id":"$","name":"run","args":{$}}}"#, &[&id, ODD]);
        let parts = joined(calls(number, turn).into_iter().map(call));
        chain.next(&fill(r#""type":"assistant","message":{"role":"model","parts":[$]}}"#, &[&parts]));
        for (id, res) in calls(number, turn).into_iter().rev() {
            let display = if session.copies { fill(r#","resultDisplay":$"#, &[res.first()]) } else { String::new() };
            let result = r#""type":"tool_result","message":{"role":"user","parts":[{"functionResponse":$}]},"toolCallResult":{"callId":"$","status":"success"$}}"#;
            chain.next(&fill(result, &[&answer(&id, res), &id, &display]));
        }
    }
    chain.out
}

pub fn copilot(session: &Session) -> Vec<String> {
    let mut chain = Chain { out: Vec::new(), start: r#"{"parentId":$,"id":$,"timestamp":"2026-12-01","# };
    chain.next(r#""type":"session.start","data":{"sessionId":"01a2b3c4-0000-4000-8000-000000000005","version":1}}"#);
    for (number, turn) in session.turns.iter().enumerate() {
        // Every other turn is a subagent's in the background, and the messages beside it are the main agent's.
        let agents = ["", r#""agentId":"a1","#];
        let own = if session.beside == 0 { 0 } else { number % 2 };
        let (own, other) = (agents[own], agents[1 - own]);
        chain.next(&fill(r#""type":"user.message","data":{"content":$}}"#, &[&session.said]));
        let request = |(id, _): (String, &Res)| fill(r#"{"toolCallId":"$","name":"run","arguments":{$}}"#, &[&id, ODD]);
        let requests = joined(calls(number, turn).into_iter().map(request));
        let message = r#"$"type":"assistant.message","data":{"content":"","toolRequests":[$]}}"#;
        chain.next(&fill(message, &[own, &requests]));
        for (id, _) in calls(number, turn) {
            let start = r#"$"type":"tool.execution_start","data":{"toolCallId":"$","toolName":"run"}}"#;
            chain.next(&fill(start, &[own, &id]));
        }
        for (id, res) in calls(number, turn).into_iter().rev() {
            for _ in 0..session.beside {
                chain
                    .next(&fill(r#"$"type":"assistant.message","data":{"content":"hm","toolRequests":[]}}"#, &[other]));
            }
            let mut rest = String::new();
            if session.copies {
                rest += &fill(r#","detailedContent":$"#, &[res.first()]);
            }
            let images = res.images(MCP_IMAGE);
            if !images.is_empty() {
                rest += &fill(r#","binaryResultsForLlm":[$]"#, &[&images.join(",")]);
            }
            let done = r#"$"type":"tool.execution_complete","data":{"toolCallId":"$","success":true,"result":{"content":$$}}}"#;
            chain.next(&fill(done, &[own, &id, res.first(), &rest]));
        }
    }
    chain.out
}

pub fn cline(session: &Session) -> Vec<String> {
    let mut out = Vec::new();
    for (number, turn) in session.turns.iter().enumerate() {
        out.push(fill(r#"{"role":"user","content":[{"type":"text","text":$}],"ts":1}"#, &[&session.said]));
        let call =
            |(id, _): (String, &Res)| fill(r#"{"type":"tool_use","id":"$","name":"run","input":{$}}"#, &[&id, ODD]);
        let content = joined(calls(number, turn).into_iter().map(call));
        out.push(fill(r#"{"role":"assistant","content":[$],"ts":2}"#, &[&content]));
        for (id, res) in calls(number, turn) {
            let result = r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"$","content":$}],"ts":3}"#;
            out.push(fill(result, &[&id, &res.value(BLOCK, SOURCE)]));
        }
    }
    out
}

/// The items of the Responses interface.
pub fn responses(session: &Session) -> Vec<String> {
    let mut out = Vec::new();
    for (number, turn) in session.turns.iter().enumerate() {
        let user = r#"{"type":"message","role":"user","content":[{"type":"input_text","text":$}]}"#;
        out.push(fill(user, &[&session.said]));
        let call = r#"{"type":"function_call","call_id":"$","name":"run","arguments":"{}",$}"#;
        out.extend(calls(number, turn).into_iter().map(|(id, _): (String, &Res)| fill(call, &[&id, ODD])));
        let image = r#"{"type":"input_image","image_url":"data:image/png;base64,$"}"#;
        let output = |(id, res): (String, &Res)| {
            let output = res.value(r#"{"type":"input_text","text":$}"#, image);
            fill(r#"{"type":"function_call_output","call_id":"$","output":$}"#, &[&id, &output])
        };
        out.extend(calls(number, turn).into_iter().map(output));
    }
    out
}

/// A request of the Chat Completions interface for each turn.
pub fn chat(session: &Session) -> Vec<String> {
    let request = |(number, turn): (usize, &Vec<Res>)| {
        let call = r#"{"id":"$","type":"function","function":{"name":"run","arguments":"{}"},$}"#;
        let tool_calls = joined(calls(number, turn).into_iter().map(|(id, _): (String, &Res)| fill(call, &[&id, ODD])));
        let image = r#"{"type":"image_url","image_url":{"url":"data:image/png;base64,$"}}"#;
        let result = |(id, res): (String, &Res)| {
            fill(r#",{"role":"tool","tool_call_id":"$","content":$}"#, &[&id, &res.value(BLOCK, image)])
        };
        let results: String = calls(number, turn).into_iter().map(result).collect();
        let request = r#"{"model":"m","stream":false,"messages":[{"role":"user","content":$},{"role":"assistant","content":null,"tool_calls":[$]}$]}"#;
        fill(request, &[&session.said, &tool_calls, &results])
    };
    session.turns.iter().enumerate().map(request).collect()
}

pub fn claude_code(session: &Session) -> Vec<String> {
    let start = r#"{"parentUuid":$,"uuid":$,"userType":"external","cwd":"/w","sessionId":"01a2b3c4-0000-4000-8000-000000000001","version":"2.1.0","timestamp":"2026-12-01","#;
    let mut chain = Chain { out: Vec::new(), start };
    for (number, turn) in session.turns.iter().enumerate() {
        chain.next(&fill(
            r#""isSidechain":false,"type":"user","message":{"role":"user","content":$}}"#,
            &[&session.said],
        ));
        let message = number.to_string();
        // A block a line; results come as they finish, each behind its own call.
        let call = |(id, res): (String, _)| {
            let line = r#""isSidechain":false,"type":"assistant","requestId":"req_$","message":{"id":"msg_$","role":"assistant","model":"m","content":[{"type":"tool_use","id":"$","name":"run","input":{$}}]}}"#;
            let own = chain.next(&fill(line, &[&message, &message, &id, ODD]));
            (own, id, res)
        };
        let called: Vec<(usize, String, &Res)> = calls(number, turn).into_iter().map(call).collect();
        for (own, id, res) in called.into_iter().rev() {
            for n in 0..session.beside {
                let side = r#""isSidechain":true,"agentId":"a1","type":"assistant","message":{"id":"side_$_$","role":"assistant","model":"m","content":[{"type":"text","text":"hm"}]}}"#;
                chain.next(&fill(side, &[&id, &n.to_string()]));
            }
            let copy = r#","toolUseResult":{"stdout":$,"stderr":"","interrupted":false}"#;
            let copy = if session.copies { fill(copy, &[res.first()]) } else { String::new() };
            let line = r#""isSidechain":false,"type":"user","message":{"role":"user","content":[{"tool_use_id":"$","type":"tool_result","content":$}]}$}"#;
            chain.add(own, &fill(line, &[&id, &res.value(BLOCK, SOURCE), &copy]));
        }
    }
    chain.out
}

pub fn pi(session: &Session) -> Vec<String> {
    let start = r#"{"type":"message","parentId":$,"id":$,"timestamp":"2026-12-01T00:06:21.260Z","message":"#;
    let mut chain = Chain { out: Vec::new(), start };
    for (number, turn) in session.turns.iter().enumerate() {
        chain.next(&fill(r#"{"role":"user","content":[{"type":"text","text":$}]}}"#, &[&session.said]));
        let call =
            |(id, _): (String, &Res)| fill(r#"{"type":"toolCall","id":"$","name":"run","arguments":{$}}"#, &[&id, ODD]);
        let content = joined(calls(number, turn).into_iter().map(call));
        chain.next(&fill(r#"{"role":"assistant","content":[$],"stopReason":"toolUse"}}"#, &[&content]));
        for (id, res) in calls(number, turn).into_iter().rev() {
            let copy = r#""details":{"truncation":{"content":$}},"#;
            let copy = if session.copies { fill(copy, &[res.first()]) } else { String::new() };
            let line = r#"{"role":"toolResult","toolCallId":"$","toolName":"run","content":$,$"isError":false}}"#;
            chain.next(&fill(line, &[&id, &res.value(BLOCK, MCP_IMAGE), &copy]));
        }
    }
    let header = r#"{"type":"session","version":3,"id":"01a2b3c4-0000-4000-8000-000000000002","timestamp":"2026-12-01T00:06:21.260Z","cwd":"/w"}"#;
    chain.out.insert(0, header.to_owned());
    chain.out
}
