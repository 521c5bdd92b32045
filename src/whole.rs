//! The whole text of one response that is to be cut: where the agent itself keeps it, or where it is kept for the agent.

use std::cell::RefCell;
use std::path::PathBuf;

use crate::error::Result;
use crate::store::look::Disk;
use crate::store::spill::Spill;

/// Finds the place, and keeps the text there before the response is cut.
pub struct WholeText {
    /// Files of the agent's own that may hold it.
    sidecars: Vec<PathBuf>,
    /// Where it goes if none of them does.
    spill: Option<Spill>,
    /// What must go there.
    text: RefCell<Option<Vec<u8>>>,
}

impl WholeText {
    /// With the agent's own files, and a directory for texts where one was named.
    #[must_use]
    pub fn new(sidecars: Vec<PathBuf>, spill: Option<Spill>) -> Self {
        WholeText { sidecars, spill, text: RefCell::new(None) }
    }

    /// Where this text is or will be. An agent's own file with the very same text is named, and nothing will be written.
    pub fn place(&self, text: &[u8]) -> Option<String> {
        let own = self
            .sidecars
            .iter()
            .find(|path| Disk.read(path).is_ok_and(|bytes| bytes.is_some_and(|bytes| bytes == text)));
        if let Some(own) = own.and_then(|path| path.to_str()) {
            return Some(own.to_owned());
        }
        let path = self.spill.as_ref()?.path_of(text).to_str()?.to_owned();
        self.text.replace(Some(text.to_vec()));
        Some(path)
    }

    /// Keeps the text, where [`WholeText::place`] said that it will be.
    ///
    /// # Errors
    /// It could not be kept: the response must not be cut.
    pub fn keep(&self) -> Result<()> {
        match (&self.spill, self.text.take()) {
            (Some(spill), Some(text)) => spill.put(&text).map(drop),
            _ => Ok(()),
        }
    }
}
