//! One entry of a session, and its message: the fields that matter here.

use crate::text::json::Node;

/// The fields of an entry that matter here.
#[derive(Default)]
pub(super) struct Entry<'a> {
    pub kind: Option<Node<'a>>,
    pub id: Option<Node<'a>>,
    pub parent: Option<Node<'a>>,
    pub version: Option<Node<'a>>,
    pub message: Option<Node<'a>>,
    pub kept_id: Option<Node<'a>>,
    pub kept_index: Option<Node<'a>>,
    pub target: Option<Node<'a>>,
    pub replacement: Option<Node<'a>>,
}

impl<'a> Entry<'a> {
    pub fn of(root: Node<'a>) -> Self {
        let mut entry = Entry::default();
        for (name, value) in root.entries() {
            match name.text().as_deref() {
                Some("type") => entry.kind = Some(value),
                Some("id") => entry.id = Some(value),
                Some("parentId") => entry.parent = Some(value),
                Some("version") => entry.version = Some(value),
                Some("message") => entry.message = Some(value),
                Some("firstKeptEntryId") => entry.kept_id = Some(value),
                Some("firstKeptEntryIndex") => entry.kept_index = Some(value),
                Some("targetId") => entry.target = Some(value),
                Some("replacement") => entry.replacement = Some(value),
                _ => {}
            }
        }
        entry
    }

    pub fn is(&self, kind: &str) -> bool {
        self.kind.is_some_and(|k| k.is(kind))
    }
}

/// The fields of a message that matter here.
#[derive(Default)]
pub(super) struct Message<'a> {
    pub role: Option<Node<'a>>,
    pub content: Option<Node<'a>>,
    pub call: Option<Node<'a>>,
    pub tool: Option<Node<'a>>,
    pub is_error: Option<Node<'a>>,
    pub details: Option<Node<'a>>,
    pub command: Option<Node<'a>>,
    pub output: Option<Node<'a>>,
    pub model: Option<Node<'a>>,
    pub stop: Option<Node<'a>>,
    pub error: Option<Node<'a>>,
    pub usage: Option<Node<'a>>,
    pub excluded: bool,
}

impl<'a> Message<'a> {
    pub fn of(node: Node<'a>) -> Self {
        let mut message = Message::default();
        for (name, value) in node.entries() {
            match name.text().as_deref() {
                Some("role") => message.role = Some(value),
                Some("content") => message.content = Some(value),
                Some("toolCallId") => message.call = Some(value),
                Some("toolName") => message.tool = Some(value),
                Some("isError") => message.is_error = Some(value),
                Some("details") => message.details = Some(value),
                Some("command") => message.command = Some(value),
                Some("output") => message.output = Some(value),
                Some("model") => message.model = Some(value),
                Some("stopReason") => message.stop = Some(value),
                Some("errorMessage") => message.error = Some(value),
                Some("usage") => message.usage = Some(value),
                Some("excludeFromContext") => message.excluded = value.boolean() == Some(true),
                _ => {}
            }
        }
        message
    }
}
