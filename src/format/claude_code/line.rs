//! One line of a session, and one block of a message: the fields that matter here.

use crate::format::kept::{Key, key};
use crate::text::json::Node;

/// The fields of a line that matter here.
#[derive(Default)]
pub(super) struct Line<'a> {
    pub kind: Option<Node<'a>>,
    pub message: Option<Node<'a>>,
    pub result: Option<Node<'a>>,
    pub uuid: Option<Node<'a>>,
    pub source: Option<Node<'a>>,
    pub request: Option<Node<'a>>,
    pub subtype: Option<Node<'a>>,
    pub compact: Option<Node<'a>>,
    pub micro: Option<Node<'a>>,
    pub data: Option<Node<'a>>,
    pub parent: Option<Node<'a>>,
    pub agent: Option<Node<'a>>,
    pub attachment: Option<Node<'a>>,
    pub sidechain: bool,
    pub failed: bool,
    pub meta: bool,
    pub summary: bool,
}

impl<'a> Line<'a> {
    pub fn of(root: Node<'a>) -> Self {
        let mut line = Line::default();
        for (name, value) in root.entries() {
            match name.text().as_deref() {
                Some("type") => line.kind = Some(value),
                Some("message") => line.message = Some(value),
                Some("toolUseResult") => line.result = Some(value),
                Some("uuid") => line.uuid = Some(value),
                Some("sourceToolAssistantUUID") => line.source = Some(value),
                Some("requestId") => line.request = Some(value),
                Some("subtype") => line.subtype = Some(value),
                Some("compactMetadata") => line.compact = Some(value),
                Some("microcompactMetadata") => line.micro = Some(value),
                Some("data") => line.data = Some(value),
                Some("parentToolUseID") => line.parent = Some(value),
                Some("agentId") => line.agent = Some(value),
                Some("attachment") => line.attachment = Some(value),
                Some("isSidechain") => line.sidechain = value.boolean() == Some(true),
                Some("isApiErrorMessage") => line.failed = value.boolean() == Some(true),
                Some("isMeta") => line.meta = value.boolean() == Some(true),
                Some("isCompactSummary") => line.summary = value.boolean() == Some(true),
                _ => {}
            }
        }
        line
    }

    pub fn is(&self, kind: &str) -> bool {
        self.kind.is_some_and(|k| k.is(kind))
    }

    /// Whether it is a message of this role: by its type or, in converted sessions, by what the message itself says.
    pub fn speaks(&self, role: &str) -> bool {
        match self.kind {
            Some(kind) => kind.is(role),
            None => self.message.and_then(|m| m.get("role")).is_some_and(|r| r.is(role)),
        }
    }

    /// The subagent whose line it is.
    pub fn thread(&self) -> Option<Key> {
        self.sidechain.then(|| key(&[b"agent", self.agent.map(|a| a.raw()).unwrap_or_default()]))
    }
}

/// The fields of a block of a message.
#[derive(Default)]
pub(super) struct Fields<'a> {
    pub kind: Option<Node<'a>>,
    pub id: Option<Node<'a>>,
    pub name: Option<Node<'a>>,
    /// `tool_use_id`.
    pub call: Option<Node<'a>>,
    pub content: Option<Node<'a>>,
    pub is_error: Option<Node<'a>>,
    pub text: Option<Node<'a>>,
}

impl<'a> Fields<'a> {
    pub fn of(block: Node<'a>) -> Self {
        let mut fields = Fields::default();
        for (name, value) in block.entries() {
            match name.text().as_deref() {
                Some("type") => fields.kind = Some(value),
                Some("id") => fields.id = Some(value),
                Some("name") => fields.name = Some(value),
                Some("tool_use_id") => fields.call = Some(value),
                Some("content") => fields.content = Some(value),
                Some("is_error") => fields.is_error = Some(value),
                Some("text") => fields.text = Some(value),
                _ => {}
            }
        }
        fields
    }

    pub fn is(&self, kind: &str) -> bool {
        self.kind.is_some_and(|k| k.is(kind))
    }
}
