//! What events keep of a response's text, for the screen. None of it is sent.

use std::borrow::Cow;

use crate::text::json::Node;

/// The event, its item's type, the place as it is reported, and where that is in the event.
const KEPT: [(&str, &str, &str, &[&str]); 17] = [
    ("item_completed", "CommandExecution", "item.aggregated_output", &["item", "aggregated_output"]),
    ("item_completed", "CommandExecution", "item.formatted_output", &["item", "formatted_output"]),
    ("item_completed", "CommandExecution", "item.stdout", &["item", "stdout"]),
    ("item_completed", "CommandExecution", "item.stderr", &["item", "stderr"]),
    ("item_completed", "McpToolCall", "item.result.content", &["item", "result", "content"]),
    ("item_completed", "McpToolCall", "item.error.message", &["item", "error", "message"]),
    ("item_completed", "FileChange", "item.stdout", &["item", "stdout"]),
    ("item_completed", "FileChange", "item.stderr", &["item", "stderr"]),
    ("exec_command_end", "", "stdout", &["stdout"]),
    ("exec_command_end", "", "stderr", &["stderr"]),
    ("exec_command_end", "", "aggregated_output", &["aggregated_output"]),
    ("exec_command_end", "", "formatted_output", &["formatted_output"]),
    ("mcp_tool_call_end", "", "result.Ok.content", &["result", "Ok", "content"]),
    ("mcp_tool_call_end", "", "result.Err", &["result", "Err"]),
    ("patch_apply_end", "", "stdout", &["stdout"]),
    ("patch_apply_end", "", "stderr", &["stderr"]),
    ("dynamic_tool_call_response", "", "content_items", &["content_items"]),
];

/// The id of the call that an event is about.
pub(super) fn call_id<'a>(event: Node<'a>) -> Option<Cow<'a, str>> {
    event.get("item").map_or_else(|| event.get("call_id"), |item| item.get("id"))?.text()
}

/// The texts that an event of this type keeps, each with its place.
pub(super) fn kept<'a>(kind: &str, event: Node<'a>) -> impl Iterator<Item = (&'static str, Node<'a>)> {
    let item = event.get("item").and_then(|item| item.get("type"));
    KEPT.into_iter()
        .filter(move |(name, of, ..)| *name == kind && (of.is_empty() || item.is_some_and(|t| t.is(of))))
        .filter_map(move |(_, _, place, path)| Some((place, event.at(path)?)))
}
