//! The strict base64 of text: standard alphabet, canonical padding, no blanks, no stray bits, valid UTF-8 inside.
//!
//! Takes the raw string between a literal's quotes, which may spell its characters with escapes (`\/`).

use base64::Engine;

use super::stored::{self, Place};

/// The standard alphabet with canonical padding, by wide instructions where the processor has them.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn engine() -> &'static impl Engine {
    use base64::engine::{Simd, general_purpose::PAD};
    static WIDE: std::sync::LazyLock<Simd> = std::sync::LazyLock::new(|| Simd::standard(PAD));
    &*WIDE
}

/// The standard alphabet with canonical padding.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn engine() -> &'static impl Engine {
    &base64::engine::general_purpose::STANDARD
}

/// Characters that are decoded at a time: a multiple of four, small enough for the nearest cache.
const CHUNK: usize = 16 * 1024;

/// The size of the text that a string of `chars` decoded bytes stands for, or `None` where it is no base64 of text.
/// Nothing is kept of it.
pub(super) fn text_size(raw: &[u8], chars: usize) -> Option<usize> {
    if !chars.is_multiple_of(4) {
        return None;
    }
    let mut text = Utf8::new(chars.min(CHUNK));
    if chars == raw.len() {
        let (most, last) = raw.split_at(raw.len().saturating_sub(1) / CHUNK * CHUNK);
        for chunk in most.chunks_exact(CHUNK) {
            text.full(chunk)?;
        }
        return text.last(last);
    }
    let mut at = Place::default();
    let mut chunk = Vec::with_capacity(CHUNK + 4);
    loop {
        chunk.clear();
        at = stored::decode(raw, at, &mut chunk, CHUNK).ok()?;
        if at.stored == raw.len() {
            return text.last(&chunk);
        }
        text.full(&chunk)?;
    }
}

/// The bytes that whole groups of four characters stand for.
pub(super) fn decode(chars: &[u8]) -> Option<Vec<u8>> {
    engine().decode(chars).ok()
}

/// The canonical encoding.
pub(super) fn encode(bytes: &[u8]) -> String {
    engine().encode(bytes)
}

/// The most that a chunk can leave of its last character.
const CARRY: usize = 3;

/// Decodes chunk by chunk and checks that it is UTF-8, with what a chunk leaves of its last character carried over.
struct Utf8 {
    buffer: Vec<u8>,
    carried: usize,
    size: usize,
}

impl Utf8 {
    /// For chunks of at most so many characters.
    fn new(chunk: usize) -> Self {
        Utf8 { buffer: vec![0; chunk / 4 * 3 + CARRY], carried: 0, size: 0 }
    }
    /// A chunk that is not the last: no padding in it.
    fn full(&mut self, chunk: &[u8]) -> Option<()> {
        let decoded = self.take(chunk)?;
        (decoded == chunk.len() / 4 * 3).then_some(())
    }
    /// The last chunk. Returns the size of it all.
    fn last(&mut self, chunk: &[u8]) -> Option<usize> {
        self.take(chunk)?;
        (self.carried == 0).then_some(self.size)
    }
    fn take(&mut self, chunk: &[u8]) -> Option<usize> {
        let decoded = engine().decode_slice(chunk, self.buffer.get_mut(self.carried..)?).ok()?;
        self.size += decoded;
        let filled = self.carried + decoded;
        let whole = match std::str::from_utf8(self.buffer.get(..filled)?) {
            Ok(_) => filled,
            Err(e) if e.error_len().is_none() => e.valid_up_to(),
            Err(_) => return None,
        };
        self.buffer.copy_within(whole..filled, 0);
        self.carried = filled - whole;
        Some(decoded)
    }
}
