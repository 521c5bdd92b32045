//! The cutter again, slow and simple, from the behaviour page: every length is tried, every text is copied.
//!
//! A text is a list of code points, unpaired surrogates among them. Shares no code with the crate.

use std::ops::Range;

use unwedge::cap::limits::Keep;

pub type Text = Vec<u32>;

/// A text part, or `None` for an image.
pub type Part = Option<Text>;

pub const IMAGE: u64 = 4800;

pub fn width(code: u32) -> u64 {
    match code {
        0..0x80 => 1,
        0x80..0x800 => 2,
        0x800..0x1_0000 => 3,
        _ => 4,
    }
}

pub fn size(text: &[u32]) -> u64 {
    text.iter().map(|code| width(*code)).sum()
}

pub fn total(parts: &[Part]) -> u64 {
    parts.iter().map(|part| part.as_deref().map_or(IMAGE, size)).sum()
}

/// UTF-8, and three bytes for an unpaired surrogate.
pub fn utf8(text: &[u32]) -> Vec<u8> {
    let mut out = Vec::new();
    for code in text {
        match char::from_u32(*code) {
            Some(c) => out.extend(c.to_string().bytes()),
            None => out.extend([0xed, (0x80 | (code >> 6 & 0x3f)) as u8, (0x80 | (code & 0x3f)) as u8]),
        }
    }
    out
}

pub fn codes(text: &str) -> Text {
    text.chars().map(u32::from).collect()
}

pub fn human(n: u64) -> String {
    let n = u128::from(n);
    let rounded = |times: u128, unit: u128| (2 * n * times + unit) / (2 * unit);
    let (kilos, megas, gigas) = (rounded(1, 1 << 10), rounded(10, 1 << 20), rounded(10, 1 << 30));
    match n {
        0..1024 => format!("{n} B"),
        _ if kilos < 1024 => format!("{kilos} KB"),
        _ if megas < 10240 => format!("{}.{} MB", megas / 10, megas % 10),
        _ => format!("{}.{} GB", gigas / 10, gigas % 10),
    }
}

pub fn marker(a: u64, b: u64) -> String {
    match (human(a), human(b)) {
        (x, y) if x == y => format!("... [truncated, {a} B → {b} B]"),
        (x, y) => format!("... [truncated, {x} → {y}]"),
    }
}

/// A of the marker that a text carries at the end a cut would be made, and the text without it, in characters.
fn recognise(text: &[u32], keep: Keep) -> Option<(u64, Range<usize>)> {
    let newline = u32::from(b'\n');
    let line = match keep {
        Keep::Head => text.iter().rposition(|code| *code == newline).map_or(0, |at| at + 1)..text.len(),
        Keep::Tail => 0..text.iter().position(|code| *code == newline).unwrap_or(text.len()),
        Keep::Both => 0..text.len(),
    };
    let shown: String = text[line.clone()].iter().map(|code| char::from_u32(*code)).collect::<Option<_>>()?;
    let inner = shown.strip_prefix("... [truncated, ")?.strip_suffix(']')?;
    let (a, b) = inner.split_once(" → ")?;
    let now = size(text);
    let b_is_true = b == human(now) || b == format!("{now} B") || (b == "0 B" && line.len() == text.len());
    let (a, b) = (bytes(a)?, bytes(b)?);
    let body = if line.start == 0 && keep == Keep::Tail { line.end..text.len() } else { 0..line.start };
    (b_is_true && a > b).then_some((a, body))
}

/// A size as a marker spells it.
fn bytes(text: &str) -> Option<u64> {
    let (number, unit) = text.split_once(' ')?;
    let digits = number.replacen('.', "", 1);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let whole = number.split('.').next()?;
    if whole.is_empty() || (whole.len() > 1 && whole.starts_with('0')) {
        return None;
    }
    let decimals = number.split_once('.').map_or(0, |(_, tenth)| tenth.len());
    let n: u128 = digits.parse().ok()?;
    let n = match (unit, decimals) {
        ("B", 0) => n,
        ("KB", 0) => n << 10,
        ("MB", 1) if number.contains('.') => (n << 20) / 10,
        ("GB", 1) if number.contains('.') => (n << 30) / 10,
        _ => return None,
    };
    n.try_into().ok()
}

/// One text with so many characters kept at both ends; `None` where no B is true.
fn joined(head: &[u32], tail: &[u32], a: u64) -> Option<Text> {
    let newline = u32::from(b'\n');
    if head.is_empty() && tail.is_empty() {
        return Some(codes(&marker(a, 0)));
    }
    let rest = size(head) + size(tail);
    (rest..rest + 100).find_map(|b| {
        let mut out = head.to_vec();
        if !head.is_empty() && !head.ends_with(&[newline]) {
            out.push(newline);
        }
        out.extend(codes(&marker(a, b)));
        if !tail.is_empty() && !tail.starts_with(&[newline]) {
            out.push(newline);
        }
        out.extend(tail);
        (size(&out) == b).then_some(out)
    })
}

fn whole_characters(text: impl Iterator<Item = u32>, mut room: u64) -> usize {
    text.take_while(|code| {
        let fits = width(*code) <= room;
        room = room.saturating_sub(if fits { width(*code) } else { room });
        fits
    })
    .count()
}

/// The texts with so many bytes of them kept.
fn keeping(texts: &[&Text], kept: u64, keep: Keep) -> Option<Vec<Text>> {
    let head = match keep {
        Keep::Head => kept,
        Keep::Tail => 0,
        Keep::Both => 2 * kept / 3,
    };
    let (mut heads, mut tails) = (vec![0; texts.len()], vec![0; texts.len()]);
    let hand_out = |mut room: u64, i: usize, shares: &mut [u64]| {
        shares[i] = room.min(size(texts[i]));
        room -= shares[i];
        room
    };
    (0..texts.len()).fold(head, |room, i| hand_out(room, i, &mut heads));
    (0..texts.len()).rev().fold(kept - head, |room, i| hand_out(room, i, &mut tails));
    let one = |i: usize| {
        let text = texts[i];
        if heads[i] == size(text) || tails[i] == size(text) {
            return Some(text.clone());
        }
        let (a, body) = recognise(text, keep).unwrap_or((size(text), 0..text.len()));
        let body = &text[body];
        let head = whole_characters(body.iter().copied(), heads[i]);
        let tail = whole_characters(body.iter().rev().copied(), tails[i]);
        let out = joined(&body[..head], &body[body.len() - tail..], a)?;
        Some(if size(&out) < size(text) { out } else { text.clone() })
    };
    (0..texts.len()).map(one).collect()
}

/// A response held to its allowance.
pub fn cut(parts: &[Part], allowance: u64, keep: Keep) -> Vec<Part> {
    let texts: Vec<&Text> = parts.iter().flatten().collect();
    let images = (parts.len() - texts.len()) as u64 * IMAGE;
    let fits = |texts: &[Text]| texts.iter().map(|text| size(text)).sum::<u64>() + images <= allowance;
    let as_they_are: Vec<Text> = texts.iter().map(|text| (*text).clone()).collect();
    let cut = if fits(&as_they_are) {
        as_they_are
    } else {
        let lengths = (1..=allowance.saturating_sub(images)).rev();
        let mut tried = lengths.filter_map(|kept| keeping(&texts, kept, keep));
        tried.find(|texts| fits(texts)).or_else(|| keeping(&texts, 0, keep)).unwrap()
    };
    let mut cut = cut.into_iter();
    parts.iter().map(|part| part.as_ref().and_then(|_| cut.next())).collect()
}
