//! Where in a JSON text a value is, as jq writes it: `.items[3].log`. Indices there count from 0.

use std::ops::Range;

use crate::text::json::{blanks, scalar_end, skip_string};

/// A longer place is not named, in bytes.
const LONGEST: usize = 160;

/// The container that is open: in an object the key's bytes, in an array the element's number.
enum Open {
    Object { key: Range<usize>, next_is_key: bool },
    Array { index: u64 },
}

/// The places of the values that start at these offsets, which ascend. `None` for one that would be too long.
pub(super) fn places(doc: &[u8], starts: &[usize]) -> Vec<Option<String>> {
    let mut found = Vec::with_capacity(starts.len());
    let mut open: Vec<Open> = Vec::new();
    let mut at = blanks(doc, 0);
    while let (Some(byte), Some(wanted)) = (doc.get(at), starts.get(found.len())) {
        let is_key = matches!(open.last(), Some(Open::Object { next_is_key: true, .. }));
        if at == *wanted && !is_key {
            found.push(shown(doc, &open));
        }
        match byte {
            b'{' => open.push(Open::Object { key: 0..0, next_is_key: true }),
            b'[' => open.push(Open::Array { index: 0 }),
            b'}' | b']' => drop(open.pop()),
            b',' => match open.last_mut() {
                Some(Open::Object { next_is_key, .. }) => *next_is_key = true,
                Some(Open::Array { index }) => *index += 1,
                None => {}
            },
            b'"' => {
                let end = skip_string(doc, at);
                if let Some(Open::Object { key, next_is_key }) = open.last_mut().filter(|_| is_key) {
                    (*key, *next_is_key) = (at..end, false);
                }
                at = end;
                continue;
            }
            b' ' | b'\t' | b'\r' | b'\n' | b':' => {}
            _ => {
                at = scalar_end(doc, at);
                continue;
            }
        }
        at += 1;
    }
    found.resize(starts.len(), None);
    found
}

fn shown(doc: &[u8], open: &[Open]) -> Option<String> {
    let mut place = String::new();
    for step in open {
        match step {
            Open::Array { index } => place.push_str(&format!("{}[{index}]", if place.is_empty() { "." } else { "" })),
            Open::Object { key, .. } => {
                let key = std::str::from_utf8(doc.get(key.clone())?).ok()?;
                let bare = key.trim_matches('"');
                let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
                if !bare.is_empty() && bare.chars().all(word) && !bare.starts_with(|c: char| c.is_ascii_digit()) {
                    place.push_str(&format!(".{bare}"));
                } else {
                    // As it stands in the text, but for what parts the line's own parts.
                    let dot = if place.is_empty() { "." } else { "" };
                    place.push_str(&format!("{dot}[{}]", key.replace(';', "\\u003b").replace(',', "\\u002c")));
                }
            }
        }
        if place.len() > LONGEST {
            return None;
        }
    }
    Some(if place.is_empty() { ".".to_owned() } else { place })
}
