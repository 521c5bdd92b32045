//! What the formats with the longest sessions share: keys instead of ids, and which strings beside a result are its text.
//!
//! A session of millions of lines is read in the memory that a key a line takes, so no id is kept that nobody will print.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::num::{NonZeroU32, NonZeroU64};

use memchr::memmem;

use super::parts::owned_text;
use super::{Copy, Part, Record, Response};
use crate::text::json::{Kind, Node};

/// 64 bits that stand for a text. Beside it, none takes no room.
pub(super) type Key = NonZeroU64;

/// The key of texts together. Equal in every run, so that two readings of one stream agree.
pub(super) fn key(texts: &[&[u8]]) -> Key {
    let mut hasher = DefaultHasher::new();
    texts.hash(&mut hasher);
    Key::new(hasher.finish()).unwrap_or(Key::MIN)
}

/// The key of a string of a record; of anything else, none.
pub(super) fn key_of(node: Option<Node<'_>>) -> Option<Key> {
    Some(key(&[node?.text()?.as_bytes()]))
}

/// Names that occur again and again, kept once and numbered from 1.
#[derive(Default)]
pub(super) struct Names {
    numbers: HashMap<Box<str>, NonZeroU32>,
    names: Vec<Box<str>>,
}

impl Names {
    pub fn number(&mut self, name: &str) -> Option<NonZeroU32> {
        if let Some(number) = self.numbers.get(name) {
            return Some(*number);
        }
        let number = NonZeroU32::new(u32::try_from(self.names.len() + 1).ok()?)?;
        self.names.push(name.into());
        self.numbers.insert(name.into(), number);
        Some(number)
    }

    pub fn get(&self, number: NonZeroU32) -> Option<&str> {
        self.names.get(usize::try_from(number.get() - 1).ok()?).map(AsRef::as_ref)
    }
}

/// A response of which only id and parts are known yet.
pub(super) fn response(record: &Record<'_>, id: Option<Node<'_>>, mut parts: Vec<Part>) -> Response {
    parts.shrink_to_fit();
    Response {
        id: id.and_then(owned_text),
        tool: None,
        batch: 0,
        is_error: None,
        dead: None,
        record: record.index,
        parts,
        copies: Vec::new(),
        only_copies: false,
    }
}

/// Less than this can neither be over a limit (the least is 64 bytes) nor be what a cut has left: a marker is longer.
const LEAST_COPY: u64 = 24;

/// A text that is kept once more. Images in it cost nobody a context, so they are not charged.
pub(super) fn copy(record: &Record<'_>, place: &'static str, mut parts: Vec<Part>) -> Option<Copy> {
    parts.retain(|part| matches!(part, Part::Text { .. }));
    parts.shrink_to_fit();
    let sizes = parts.iter().map(|part| if let Part::Text { measure, .. } = part { measure.size } else { 0 });
    let kept = sizes.fold(0_u64, u64::saturating_add) >= LEAST_COPY;
    kept.then_some(Copy { place, sent: false, record: record.index, parts })
}

/// The stored length from which a string whose key says nothing counts as text: below, it may be an id, a path or a flag.
const TEXT_FROM: usize = 1024;
/// What a marker starts with. A text that was cut stays text, however short it has become.
const MARKER: &[u8] = b"... [truncated, ";
/// How deep texts are looked for.
const DEEPEST: u32 = 12;

/// The strings within a value that are text, in order. Those under the keys given are left out, and so is what images
/// are kept in: half an image is none.
pub(super) fn leaves<'a>(root: Node<'a>, except: &[&str], found: &mut Vec<Node<'a>>) {
    let mut open = vec![(root, 0)];
    while let Some((node, depth)) = open.pop() {
        let first = open.len();
        match node.kind() {
            Kind::String if node.raw().len() >= TEXT_FROM || memmem::find(node.raw(), MARKER).is_some() => {
                found.push(node);
            }
            Kind::Array if depth < DEEPEST => open.extend(node.items().map(|item| (item, depth + 1))),
            Kind::Object if depth < DEEPEST && !is_image(node) => {
                let wanted = node.entries().filter(|(name, _)| !except.iter().any(|e| name.is(e)));
                open.extend(wanted.map(|(_, value)| (value, depth + 1)));
            }
            _ => {}
        }
        if let Some(children) = open.get_mut(first..) {
            children.reverse();
        }
    }
}

/// Whether an object holds an image or another file in base64.
pub(super) fn is_image(node: Node<'_>) -> bool {
    let (mut image, mut data, mut kind) = (false, false, false);
    for (name, value) in node.entries() {
        match name.text().as_deref() {
            Some("base64" | "blob") => image = true,
            Some("type") => image |= value.is("image") || value.is("base64"),
            Some("data") => data = true,
            Some("mimeType" | "media_type" | "mime_type") => kind = true,
            _ => {}
        }
    }
    image || (data && kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_told_from_ids_and_images() {
        let long = "x".repeat(1022);
        let doc = format!(
            r#"{{"path":"/tmp/x","out":["{long}",{{"deep":"{long}"}}],"patch":"{long}","short":"... [truncated, 9 KB → 40 B]",
                "image":{{"type":"image","data":"{long}"}},"file":{{"data":"{long}","mimeType":"a/b"}},"last":"{long}"}}"#
        );
        let mut found = Vec::new();
        leaves(Node::document(doc.as_bytes()).unwrap(), &["patch"], &mut found);
        let lengths: Vec<usize> = found.iter().map(|n| n.raw().len()).collect();
        assert_eq!(lengths, [1024, 1024, 32, 1024]);
        assert!(found.is_sorted_by_key(|n| n.range().start));
    }

    #[test]
    fn names_are_kept_once() {
        let mut names = Names::default();
        let numbers = ["a", "b", "a"].map(|n| names.number(n).unwrap());
        assert_eq!(numbers.map(|n| names.get(n).unwrap().to_owned()), ["a", "b", "a"]);
        assert_eq!((numbers[0], names.names.len()), (numbers[2], 2));
        assert_ne!(key(&[b"a", b"b"]), key(&[b"ab"]));
    }
}
