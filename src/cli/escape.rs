//! Foreign text made safe to show.
//!
//! Paths, tool names, ids, error texts and the text of a stream come from elsewhere and may hold anything: a terminal obeys
//! escape sequences, a bidi override shows one thing and means another, a newline in a file name makes two findings of one.
//! [`Shown`] is the one way such text reaches the screen.
//!
//! A one-line field is escaped wherever it goes, so that one finding stays one line. The text of a diff is escaped where it
//! goes to a terminal and is the stream's own where it goes to a file or a pipe, as `git diff` and `rg` have it.
//! Backslashes stay as they are: this is for people to read, the JSON report is for programs.

use std::ffi::OsStr;
use std::fmt::{self, Write};
use std::path::Path;

use unwedge::error::Error;

/// Text that displays with everything a terminal could obey, or a reader overlook, made visible.
#[derive(Debug, Clone, Copy)]
pub struct Shown<'a> {
    bytes: &'a [u8],
    /// Whether newlines and tabs stand for themselves.
    lines: bool,
}

impl<'a> Shown<'a> {
    /// A field that stays on one line.
    pub fn line(text: &'a str) -> Self {
        Shown { bytes: text.as_bytes(), lines: false }
    }

    /// A path. Bytes that are no UTF-8 show as `\xNN`.
    pub fn path(path: &'a Path) -> Self {
        Shown::os(path.as_os_str())
    }

    /// Any text of the system's.
    pub fn os(text: &'a OsStr) -> Self {
        Shown { bytes: text.as_encoded_bytes(), lines: false }
    }

    /// Text of several lines: newlines and tabs stand for themselves.
    pub fn lines(text: &'a [u8]) -> Self {
        Shown { bytes: text, lines: true }
    }
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.bytes.utf8_chunks() {
            for c in chunk.valid().chars() {
                if self.lines && matches!(c, '\n' | '\t') {
                    f.write_char(c)?;
                } else {
                    escaped(c, f)?;
                }
            }
            for byte in chunk.invalid() {
                write!(f, "\\x{byte:02x}")?;
            }
        }
        Ok(())
    }
}

/// Writes one character, escaped where it must be.
pub fn escaped(c: char, to: &mut dyn Write) -> fmt::Result {
    match c {
        '\n' => to.write_str("\\n"),
        '\r' => to.write_str("\\r"),
        '\t' => to.write_str("\\t"),
        c if c.is_ascii() && is_unsafe(c) => write!(to, "\\x{:02x}", u32::from(c)),
        c if is_unsafe(c) => write!(to, "\\u{{{:x}}}", u32::from(c)),
        c => to.write_char(c),
    }
}

/// Whether a terminal obeys this character, or a reader cannot see it.
pub fn is_unsafe(c: char) -> bool {
    matches!(c,
        // C0, DEL and C1: U+009B alone starts a sequence as ESC [ does.
        '\0'..='\x1f' | '\x7f'..='\u{9f}'
        // Soft hyphen, Arabic letter mark, Mongolian vowel separator: invisible.
        | '\u{ad}' | '\u{61c}' | '\u{180e}'
        // Zero-width characters and direction marks; line and paragraph separator, bidi embeddings and overrides.
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        // Invisible operators, bidi isolates, deprecated format characters.
        | '\u{2060}'..='\u{206f}'
        // Byte order mark, interlinear annotation, tags.
        | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// An error on one line, the path it is about shown as a path.
pub fn error(error: &Error) -> String {
    let text = error.to_string();
    // The library's text holds the path as far as it is Unicode.
    if let Some(path) = error.path()
        && let Some(rest) = text.strip_prefix(&path.display().to_string())
    {
        return format!("{}{}", Shown::path(path), Shown::line(rest));
    }
    Shown::line(&text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_visible() {
        let hostile = "a\u{1b}[2J\u{9b}31m\r\n\u{8}\u{7f}\u{202e}\u{2066}\u{200b}\u{feff}\u{2028}\tz";
        assert_eq!(
            Shown::line(hostile).to_string(),
            r"a\x1b[2J\u{9b}31m\r\n\x08\x7f\u{202e}\u{2066}\u{200b}\u{feff}\u{2028}\tz"
        );
        assert_eq!(Shown::lines(b"a\tb\r\nc\0").to_string(), "a\tb\\r\nc\\x00");
    }

    #[test]
    fn ordinary_text_stays() {
        for text in ["plain", "größer → 日本 🙂", r"C:\new\table", "e\u{301}"] {
            assert_eq!(Shown::line(text).to_string(), text);
        }
    }

    #[test]
    fn nothing_unsafe_comes_through() {
        for c in (0..=0x10_ffff).filter_map(char::from_u32) {
            let mut out = String::new();
            escaped(c, &mut out).unwrap();
            assert!(!out.chars().any(is_unsafe), "U+{:04x}", u32::from(c));
        }
    }

    #[cfg(unix)]
    #[test]
    fn paths_that_are_no_unicode() {
        use std::os::unix::ffi::OsStrExt;
        let path = Path::new(OsStr::from_bytes(b"dir/\xff\xc3\n\xc3\xa9"));
        assert_eq!(Shown::path(path).to_string(), "dir/\\xff\\xc3\\n\u{e9}");
        let e = Error::Refused { path: path.to_owned(), why: "no\nreason".into() };
        assert_eq!(error(&e), "dir/\\xff\\xc3\\n\u{e9}: no\\nreason");
    }
}
