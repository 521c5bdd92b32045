//! What the blocks of a message weigh, in the shapes of all interfaces: agents keep what they send.

use memchr::memchr;

use super::kept::is_image;
use super::parts::{BINARIES, string_end};
use crate::text::json::{Kind, Node};
use crate::text::literal::{self, Encoding};

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

/// The decoded size of a string; nothing for anything else.
pub(super) fn size(text: Node<'_>) -> u64 {
    if text.kind() == Kind::String { literal_size(text.raw(), Encoding::Plain) } else { 0 }
}

fn literal_size(literal: &[u8], encoding: Encoding) -> u64 {
    if encoding == Encoding::Plain && memchr(b'\\', literal).is_none() {
        return literal.len().saturating_sub(2) as u64;
    }
    literal::measure(literal, encoding).map_or(0, |measure| measure.size)
}

/// The size of a structured value: keys, strings, scalars. One pass, so that depth costs nothing. Strings that are no keys
/// are stored in this encoding.
pub(super) fn structured(node: Node<'_>, encoding: Encoding) -> u64 {
    let raw = node.raw();
    let (mut at, mut sum) = (0, 0_u64);
    while let Some(byte) = raw.get(at) {
        match byte {
            b'"' => {
                let end = string_end(raw, at);
                let after = raw.get(end..).unwrap_or_default();
                let key = after.iter().find(|b| !b.is_ascii_whitespace()) == Some(&b':');
                let encoding = if key { Encoding::Plain } else { encoding };
                sum = sum.saturating_add(literal_size(raw.get(at..end).unwrap_or_default(), encoding));
                at = end;
            }
            b'{' | b'}' | b'[' | b']' | b',' | b':' => at += 1,
            byte => {
                sum += u64::from(!byte.is_ascii_whitespace());
                at += 1;
            }
        }
    }
    sum
}

/// Whether a text starts with one of these, blanks aside.
pub(super) fn starts(text: Node<'_>, with: &[&str]) -> bool {
    text.text().is_some_and(|text| {
        let text = text.trim_start();
        with.iter().any(|start| text.starts_with(start))
    })
}

/// What blocks hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Held {
    pub bytes: u64,
    pub images: u64,
}

impl std::ops::AddAssign for Held {
    fn add_assign(&mut self, other: Held) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.images += other.images;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(json: &str, weigh: impl Fn(Node<'_>) -> u64) -> u64 {
        weigh(Node::document(json.as_bytes()).unwrap())
    }

    #[test]
    fn keys_strings_and_scalars_count() {
        let plain = |json: &str| of(json, |node| structured(node, Encoding::Plain));
        assert_eq!(
            plain(r#" { "a\n" : [1.5e3, true, null, "é\u00e9\ud83d\ude00"], "b": {} } "#),
            2 + 5 + 4 + 4 + 8 + 1
        );
        // Values are decoded, keys are not.
        assert_eq!(of(r#"{"bHM=":"bHM="}"#, |node| structured(node, Encoding::Base64)), 4 + 2);
        let deep = format!("{}\"x\"{}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(plain(&deep), 1);
        assert_eq!(of(&deep, |node| loose(node).bytes), 1);
        assert_eq!(of(&deep, |node| content(node).bytes), 1);
    }

    #[test]
    fn documents_do_not_nest_without_end() {
        let (open, close) = (r#"{"type":"document","source":{"type":"content","content":["#, "]}}");
        let text = r#"{"type":"text","text":"abc"}"#;
        let once = format!("[{open}{text}{close}]");
        assert_eq!(of(&once, |node| content(node).bytes), 3);
        let deep = format!("[{}{text}{}]", open.repeat(20_000), close.repeat(20_000));
        assert!(of(&deep, |node| content(node).bytes) < deep.len() as u64);
    }
}
