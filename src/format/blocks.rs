//! What the blocks of a message weigh, in the shapes of all interfaces: agents keep what they send.

use super::kept::is_image;
use super::outline::{Held, size, structured};
use super::parts::BINARIES;
use crate::text::json::{Kind, Node};
use crate::text::literal::Encoding;

/// Blocks that call a tool.
const CALLS: [&str; 4] = ["mcp_tool_use", "server_tool_use", "toolCall", "tool_use"];
/// Blocks and members that are a tool's response: they are not weighed here.
const ANSWERS: [&str; 3] = ["tool_result", "functionResponse", "toolResult"];
/// Members that hold a file or an image, in base64 or by its address.
const MEDIA: [&str; 5] = ["inlineData", "fileData", "image", "video", "audio"];
/// Of a block of unknown kind: what is no text of anybody's.
const NO_TEXTS: [&str; 8] =
    ["type", "id", "tool_use_id", "cache_control", "signature", "encrypted_content", "thoughtSignature", "citations"];
/// How deep blocks and values are looked into.
const DEEPEST: u32 = 12;

/// Whether a block is a tool's response.
pub(super) fn answers(block: Node<'_>) -> bool {
    block.get("type").is_some_and(|t| t.is("tool_result"))
        || block.entries().any(|(key, _)| ANSWERS.iter().skip(1).any(|name| key.is(name)))
}

/// What a content holds: a string, one block, or an array of them.
pub(super) fn content(content: Node<'_>) -> Held {
    within(content, true)
}

fn within(content: Node<'_>, nested: bool) -> Held {
    let mut held = Held::default();
    match content.kind() {
        Kind::String => held.bytes = size(content),
        Kind::Object => held = one(content, nested),
        Kind::Array => content.items().for_each(|block| held += one(block, nested)),
        _ => {}
    }
    held
}

/// What one block holds. A tool's response holds nothing.
pub(super) fn block(node: Node<'_>) -> Held {
    one(node, true)
}

/// A document may hold blocks again, once.
fn one(node: Node<'_>, nested: bool) -> Held {
    if node.kind() == Kind::String {
        return Held { bytes: size(node), images: 0 };
    }
    let image = Held { bytes: 0, images: 1 };
    let kind = node.get("type").and_then(|t| t.text()).unwrap_or_default();
    if ANSWERS.contains(&&*kind) || kind == "redacted_thinking" {
        return Held::default();
    }
    if BINARIES.contains(&&*kind) {
        return image;
    }
    if CALLS.contains(&&*kind) {
        return call(node);
    }
    if kind == "document" && nested {
        let source = node.get("source");
        let inner = |name: &str, key: &str| source.filter(|s| s.get("type").is_some_and(|t| t.is(name)))?.get(key);
        let inner = inner("text", "data").or_else(|| inner("content", "content"));
        return inner.map_or(image, |inner| within(inner, false));
    }
    let mut held = Held::default();
    let mut known = false;
    for (key, value) in node.entries() {
        let name = key.text().unwrap_or_default();
        match &*name {
            "functionResponse" | "toolResult" => return Held::default(),
            "text" | "thinking" | "refusal" if value.kind() == Kind::String => held.bytes += size(value),
            "functionCall" | "toolUse" => held += call(value),
            "reasoningContent" => held.bytes += value.at(&["reasoningText", "text"]).map_or(0, size),
            name if value.kind() == Kind::Object && MEDIA.contains(&name) => held.images += 1,
            "document" if value.kind() == Kind::Object => held.images += 1,
            _ => continue,
        }
        known = true;
    }
    if known { held } else { loose(node) }
}

/// A call's name and arguments, whatever the interface calls them.
pub(super) fn call(node: Node<'_>) -> Held {
    let bytes = node.entries().map(|(key, value)| match key.text().as_deref() {
        Some("name") => size(value),
        // Of a string, which is JSON already, the text.
        Some("input" | "arguments" | "args") if value.kind() == Kind::String => size(value),
        Some("input" | "arguments" | "args") => structured(value, Encoding::Plain),
        _ => 0,
    });
    Held { bytes: bytes.fold(0, u64::saturating_add), images: 0 }
}

/// The strings within a value of unknown shape, and its images.
pub(super) fn loose(root: Node<'_>) -> Held {
    let mut held = Held::default();
    let mut open = vec![(root, 0)];
    while let Some((node, depth)) = open.pop() {
        match node.kind() {
            Kind::String => held.bytes = held.bytes.saturating_add(size(node)),
            Kind::Object if is_image(node) => held.images += 1,
            Kind::Object | Kind::Array if depth == DEEPEST => {
                held.bytes = held.bytes.saturating_add(structured(node, Encoding::Plain));
            }
            Kind::Array => open.extend(node.items().map(|item| (item, depth + 1))),
            Kind::Object => {
                let wanted = node.entries().filter(|(key, _)| !NO_TEXTS.iter().any(|name| key.is(name)));
                open.extend(wanted.map(|(_, value)| (value, depth + 1)));
            }
            _ => {}
        }
    }
    held
}
