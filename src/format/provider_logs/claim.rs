//! Whether a file is a log of requests, from its first bytes. Strict: training data, exports and configurations have roles,
//! messages and contents too.
//!
//! Two kinds of sign count: a **call or response** in the exact place and spelling of one of the interfaces, and a **mark**, a
//! key that only a request has (`max_tokens`, `generationConfig`).
//!
//! * A bare array must show a call or response, and nothing but messages.
//! * A request that shows one must have a mark, or before its messages no key that a request does not have.
//! * One that shows none yet, because its system prompt is longer than what is seen, must have no such key, and two marks, or one
//!   and `tools`.
//! * A line always needs a mark: without one it is what models are trained on.

use crate::format::Probe;
use crate::format::peek::Peek;

/// Whether this begins one request, or one array of messages.
pub(super) fn document(probe: &Probe<'_>) -> bool {
    let Some((root, rest)) = Peek::of(without_mark(probe.head)) else { return false };
    if rest.is_some_and(|rest| !rest.trim_ascii().is_empty()) {
        return false;
    }
    let cut = rest.is_none();
    let contents = root.get("history").unwrap_or(&root).items();
    request(&root, cut, false) || bare(root.items(), cut) || is_checkpoint(probe, contents)
}

/// Whether this begins lines of requests. `second`: a second line must be seen.
pub(super) fn lines(head: &[u8], second: bool) -> bool {
    let head = without_mark(head).trim_ascii_start();
    let line = head.split(|b| *b == b'\n').next().unwrap_or_default();
    let next = head.get(line.len()..).unwrap_or_default().trim_ascii_start();
    if second && !next.starts_with(b"{") {
        return false;
    }
    let Some((root, rest)) = Peek::of(line) else { return false };
    rest.is_none_or(|rest| rest.trim_ascii().is_empty()) && request(&root, rest.is_none(), true)
}

fn without_mark(head: &[u8]) -> &[u8] {
    head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head)
}

/// Whether a key, with a value of this kind, is one that only a request has, or the answer of the Responses interface.
fn is_mark(key: &[u8], value: &Peek<'_>) -> bool {
    let Ok(key) = std::str::from_utf8(key) else { return false };
    match value {
        Peek::Text(text) => match key {
            "object" => *text == b"response",
            "anthropic_version"
            | "model"
            | "modelId"
            | "previous_response_id"
            | "prompt_cache_key"
            | "reasoning_effort"
            | "service_tier"
            | "tool_choice"
            | "cachedContent" => true,
            _ => false,
        },
        Peek::Word => matches!(
            key,
            "frequency_penalty"
                | "max_completion_tokens"
                | "max_output_tokens"
                | "max_tokens"
                | "presence_penalty"
                | "store"
                | "stream"
                | "temperature"
                | "top_k"
                | "top_logprobs"
                | "top_p"
        ),
        Peek::Object(_) => matches!(
            key,
            "additionalModelRequestFields"
                | "generationConfig"
                | "generation_config"
                | "guardrailConfig"
                | "inferenceConfig"
                | "response_format"
                | "stream_options"
                | "thinking"
                | "tool_choice"
                | "toolConfig"
                | "tool_config"
        ),
        Peek::Array(_) => matches!(key, "safetySettings" | "safety_settings" | "stop_sequences"),
        Peek::Cut => false,
    }
}

/// Keys that a request may have and other things have too.
const OTHERS: [&str; 19] = [
    "contents",
    "functions",
    "history",
    "include",
    "input",
    "instructions",
    "messages",
    "metadata",
    "n",
    "output",
    "parallel_tool_calls",
    "reasoning",
    "stop",
    "system",
    "systemInstruction",
    "system_instruction",
    "text",
    "tools",
    "user",
];

fn request(root: &Peek<'_>, cut: bool, line: bool) -> bool {
    let entries = root.entries();
    let among = |names: &[&str], key: &[u8]| names.iter().any(|name| name.as_bytes() == key);
    let marks = entries.iter().filter(|(key, value)| is_mark(key, value)).count();
    // Of keys only those before the messages: the others are seen or not as the messages are short or long, cut or not.
    let before = entries.iter().take_while(|(key, value)| value.items().is_empty() || !among(&super::ARRAYS, key));
    let foreign = before.into_iter().any(|(key, value)| !is_mark(key, value) && !among(&OTHERS, key));
    let arrays = entries.iter().filter(|(key, _)| among(&super::ARRAYS, key)).map(|(_, value)| value.items());
    let arrays: Vec<&[Peek<'_>]> = arrays.filter(|items| !items.is_empty()).collect();
    if arrays.is_empty() || !arrays.iter().all(|messages| framed(messages, cut)) {
        return false;
    }
    if arrays.iter().any(|messages| messages.iter().any(shows_tools)) {
        return marks > 0 || (!line && !foreign);
    }
    !foreign && (marks > 1 || (marks == 1 && root.get("tools").is_some()))
}

fn bare(messages: &[Peek<'_>], cut: bool) -> bool {
    framed(messages, cut) && messages.iter().any(shows_tools)
}

/// Whether all that is seen are messages or items. The last one may be cut off before it says what it is.
fn framed(messages: &[Peek<'_>], cut: bool) -> bool {
    const ROLES: [&str; 7] = ["assistant", "developer", "function", "model", "system", "tool", "user"];
    const FIRST: [&str; 7] = ["content", "id", "name", "parts", "role", "tool_calls", "type"];
    messages.iter().enumerate().all(|(index, message)| {
        if message.entries().is_empty() {
            return cut && index + 1 == messages.len() && matches!(message, Peek::Cut | Peek::Object(_));
        }
        if let Some(role) = message.get("role").and_then(Peek::text) {
            return ROLES.contains(&role);
        }
        let item = message.get("type").and_then(Peek::text).is_some_and(is_item);
        let begun = || message.entries().first().is_some_and(|(key, _)| FIRST.iter().any(|f| f.as_bytes() == *key));
        item || message.get("parts").is_some() || (cut && index + 1 == messages.len() && begun())
    })
}

/// The items of the Responses interface, as far as they tell it from others.
fn is_item(kind: &str) -> bool {
    matches!(kind, "message" | "reasoning" | "item_reference" | "compaction")
        || kind.ends_with("_call")
        || kind.ends_with("_call_output")
}

/// Whether a message holds a call or a response in one of the interfaces' spellings.
fn shows_tools(message: &Peek<'_>) -> bool {
    let role = message.get("role").and_then(Peek::text);
    let blocks = || message.get("content").map_or(&[][..], Peek::items);
    let parts = || message.get("parts").map_or(&[][..], Peek::items);
    let named = |value: &Peek<'_>, key: &str, name: &str| value.get(key).is_some_and(|v| v.has_text(name));
    match role {
        Some("tool") if message.has_text("tool_call_id") => return true,
        Some("function") if message.has_text("name") && message.get("content").is_some() => return true,
        Some("assistant") => {
            let calls = message.get("tool_calls").map_or(&[][..], Peek::items);
            let called = |call: &Peek<'_>| {
                call.has_text("id") && (named(call, "function", "name") || named(call, "custom", "name"))
            };
            if calls.iter().any(called) || named(message, "function_call", "name") {
                return true;
            }
        }
        None => return is_call_or_output(message) || parts().iter().any(is_gemini),
        _ => {}
    }
    blocks().iter().any(|block| {
        let kind = block.get("type").and_then(Peek::text);
        (kind == Some("tool_use") && block.has_text("id") && block.has_text("name"))
            || (kind == Some("tool_result") && block.has_text("tool_use_id"))
            || named(block, "toolUse", "toolUseId")
            || named(block, "toolResult", "toolUseId")
    }) || parts().iter().any(is_gemini)
}

fn is_gemini(part: &Peek<'_>) -> bool {
    ["functionCall", "functionResponse"].iter().any(|key| part.get(key).is_some_and(|f| f.has_text("name")))
}

fn is_call_or_output(item: &Peek<'_>) -> bool {
    let Some(kind) = item.get("type").and_then(Peek::text) else { return false };
    let kind = kind.strip_suffix("_output").unwrap_or(kind);
    match kind {
        "function_call" | "custom_tool_call" | "shell_call" | "apply_patch_call" | "computer_call" => {
            item.has_text("call_id")
        }
        "local_shell_call" => item.has_text("call_id") || item.has_text("id"),
        "mcp_call" => item.has_text("server_label"),
        _ => false,
    }
}

/// Gemini CLI's `/chat save`: an array of contents, whose first are long and hold no tools.
fn is_checkpoint(probe: &Probe<'_>, contents: &[Peek<'_>]) -> bool {
    let name = probe.path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
    let content =
        |c: &Peek<'_>| matches!(c.get("role").and_then(Peek::text), Some("user" | "model")) && c.get("parts").is_some();
    name.starts_with("checkpoint-") && contents.first().is_some_and(content)
}
