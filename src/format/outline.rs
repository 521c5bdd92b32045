//! What the next request of a conversation would carry beside tool responses, and what its stream says of its end.

#[cfg(doc)]
use super::Response;

/// How much is asked of a locator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Depth {
    /// What limits are held against. Records that cannot matter to it need not come.
    #[default]
    Limits,
    /// [`super::Located::outline`] besides. Every record must come.
    Outline,
}

/// What the next request would carry, and what the stream says of its end. Only what is live counts, as with
/// [`Response::dead`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outline {
    /// What is live beside tool responses.
    pub weight: Weight,
    /// The live tool responses as they are sent: with a text's second sent copy ([`super::Copy::sent`]) where there is one.
    pub responses: Load,
    /// The live turns: the number of the record at which each begins, ascending. A turn is a user's message and all that
    /// follows it up to the next. What is live before the first (a summary) belongs to none.
    pub turns: Vec<u64>,
    /// The error of too much context that ended the conversation: nothing successful came after it, and no compaction.
    pub stored_error: Option<StoredError>,
    /// The model that was named last, as the agent spells it.
    pub model: Option<String>,
    /// The context window in tokens, where the stream itself stores it.
    pub window: Option<u64>,
    /// The provider's own figures of the last request that can be held against what is live now.
    pub usage: Option<Usage>,
    /// Those of the first such request, where that is another one: two points make a line.
    pub first_usage: Option<Usage>,
}

/// Decoded UTF-8 bytes by what they are; images by number. Of structured values (the arguments of calls) the keys, strings
/// and scalars count, brackets and blanks do not. Signatures, encrypted reasoning and binaries have no bytes here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Weight {
    /// What the assistant said: text, thinking that is sent again, names and arguments of calls.
    pub assistant: u64,
    /// What the user said.
    pub user: u64,
    /// What the agent added on the user's side: files, reminders, hooks, environment.
    pub attachments: u64,
    /// Images and other binary parts, however large.
    pub images: u64,
    /// System prompts, descriptions of tools, summaries.
    pub other: u64,
}

impl Weight {
    /// All that has bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        [self.assistant, self.user, self.attachments, self.other].into_iter().fold(0, u64::saturating_add)
    }
}

/// Texts and images together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Load {
    /// Decoded UTF-8 bytes of the texts.
    pub bytes: u64,
    /// Images and other binary parts.
    pub images: u64,
}

/// An error that a conversation ended in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredError {
    /// The number of its record, from 0.
    pub record: u64,
    /// The physical line it starts on, from 1.
    pub line: u64,
    /// Its text, the first 200 characters. A stranger's: to be escaped wherever it is shown.
    pub text: String,
}

/// What the provider counted for one request, and what stood before it. Left out where the request carried something else
/// than what is live of it now: before a compaction or an edit of the context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// The record of the answer, from 0.
    pub record: u64,
    /// Tokens of the prompt, read from a cache or not. They hold what is not in every stream too: system prompt, tools.
    pub prompt_tokens: u64,
    /// The live bytes that stood before the answer: responses and [`Weight::bytes`].
    pub bytes: u64,
    /// The images among it.
    pub images: u64,
    /// How many bytes more the responses had before they were cut, by what their markers say, rounded up. Nobody can tell
    /// whether that was before this request or after it.
    pub cut: u64,
}
