//! A diff by its file sections: each stays whole or goes whole.

use super::compose::Composition;
use super::{Counted, Kept, Piece, Second, Side, Try, ends};
use crate::cap::limits::Keep;
use crate::text::second::{name, range};

/// The most names of files that are listed, in bytes.
const NAMES: u64 = 1500;

/// One file's section.
#[derive(Debug, PartialEq, Eq)]
struct Section<'t> {
    from: usize,
    to: usize,
    file: &'t [u8],
}

impl Section<'_> {
    fn size(&self) -> u64 {
        (self.to - self.from) as u64
    }
}

/// Whether a text looks like a diff from its first line on.
pub(super) fn begins(text: &[u8]) -> bool {
    let mut lines = text.split(|b| *b == b'\n');
    let first = lines.next().unwrap_or_default();
    [&b"diff --git "[..], b"diff -", b"Index: "].iter().any(|start| first.starts_with(start))
        || (first.starts_with(b"--- ") && lines.next().is_some_and(|next| next.starts_with(b"+++ ")))
}

/// The sections that stay within the room. One that alone is too large for it goes first: a lock file must not push out all
/// that follows. Of the others `keep` says which. `None`: the text is no diff, or not one section fits.
pub(super) fn fit(cut: &Try<'_>) -> Option<Composition> {
    let text = cut.text;
    let sections = sections(&text.body);
    let total = cut.total(Counted::Files, |text| self::sections(text).len() as u64);
    let mut room = cut.room;
    loop {
        let (stays, split) = chosen(&sections, text.keep, room);
        if !stays.contains(&true) {
            return None;
        }
        if !stays.contains(&false) {
            // All of it fits, but not with the brackets.
            room = (text.body.len() as u64).checked_sub(1)?;
            continue;
        }
        let runs =
            sections.iter().zip(&stays).filter(|(_, stays)| **stays).map(|(section, _)| section.from..section.to);
        let side = match text.keep {
            Keep::Head => Side::After,
            Keep::Tail => Side::Before,
            Keep::Both => Side::At(sections.get(split).map_or(text.body.len(), |section| section.from)),
        };
        let kept = stays.iter().filter(|stays| **stays).count() as u64;
        // Numbers are of the sections that are here, so they are left out where some went before.
        let numbers = total == Some(sections.len() as u64);
        let omitted = omitted(&sections, &stays, NAMES.min(cut.room / 4), numbers);
        let line = Second { kept, total, counted: Counted::Files, omitted: Some(omitted), path: None };
        let found = text.compose(&Kept { pieces: merged(runs), side, line: cut.named(line) });
        let over = match found {
            Ok(found) if found.total <= cut.room && text.adds_no_lines(&found) => return Some(found),
            Ok(found) => found.total.saturating_sub(cut.room).max(1),
            Err(over) => over,
        };
        // With less room than this the choice is another.
        let sum: u64 =
            sections.iter().zip(&stays).filter(|(_, stays)| **stays).map(|(section, _)| section.size()).sum();
        let largest = sections.iter().map(Section::size).filter(|size| *size <= room).max().unwrap_or(0);
        let other = match text.keep {
            Keep::Both => room - room.div_ceil(64),
            Keep::Head | Keep::Tail => sum.max(largest).saturating_sub(1),
        };
        room = room.checked_sub(over)?.min(other);
    }
}

/// Which sections stay, and the first one behind the head.
fn chosen(sections: &[Section<'_>], keep: Keep, room: u64) -> (Vec<bool>, usize) {
    let (head_room, tail_room) = ends(keep, room);
    let mut stays = vec![false; sections.len()];
    let mut split = 0;
    let mut left = head_room;
    for (i, section) in sections.iter().enumerate().filter(|(_, section)| section.size() <= head_room) {
        let Some(rest) = left.checked_sub(section.size()) else { break };
        left = rest;
        split = i + 1;
        stays.iter_mut().skip(i).take(1).for_each(|stays| *stays = true);
    }
    let mut left = tail_room;
    for (i, section) in sections.iter().enumerate().skip(split).rev().filter(|(_, section)| section.size() <= tail_room)
    {
        let Some(rest) = left.checked_sub(section.size()) else { break };
        left = rest;
        stays.iter_mut().skip(i).take(1).for_each(|stays| *stays = true);
    }
    (stays, split)
}

/// Runs that touch are one.
fn merged(runs: impl Iterator<Item = std::ops::Range<usize>>) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    for run in runs {
        match pieces.last_mut() {
            Some(Piece::Run(last)) if last.end == run.start => last.end = run.end,
            _ => pieces.push(Piece::Run(run)),
        }
    }
    pieces
}

/// The numbers of the sections that went, where they are true, and the names of their files.
fn omitted(sections: &[Section<'_>], stays: &[bool], most: u64, numbers: bool) -> String {
    let gone = || sections.iter().zip(stays).enumerate().filter(|(_, (_, stays))| !**stays);
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for (i, _) in gone() {
        let number = i as u64 + 1;
        match ranges.last_mut() {
            Some((_, to)) if *to + 1 == number => *to = number,
            _ => ranges.push((number, number)),
        }
    }
    let listed = |all: Vec<String>| {
        let mut list = String::new();
        for (i, item) in all.iter().enumerate() {
            if i > 0 && (list.len() + item.len()) as u64 > most {
                return format!("{list} and {} more", all.len() - i);
            }
            list.push_str(if i > 0 { ", " } else { "" });
            list.push_str(item);
        }
        list
    };
    let names = listed(gone().map(|(_, (section, _))| name(section.file)).collect());
    if numbers {
        format!("{}: {names}", listed(ranges.iter().map(|(from, to)| range(*from, *to)).collect()))
    } else {
        names
    }
}

/// The sections of a diff. What comes before the first file belongs to it; a text without a file has none.
fn sections(text: &[u8]) -> Vec<Section<'_>> {
    let git = text.starts_with(b"diff --git ") || memchr::memmem::find(text, b"\ndiff --git ").is_some();
    let mut sections: Vec<Section<'_>> = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let rest = text.get(at..).unwrap_or_default();
        let next = memchr::memchr(b'\n', rest).map_or(text.len(), |n| at + n + 1);
        let below = text.get(next..).unwrap_or_default();
        let file = match rest.strip_prefix(b"diff --git ") {
            Some(names) => Some(git_name(names)),
            // The headers of another diff's files; in git's they are within a section.
            None if git => None,
            None if rest.starts_with(b"--- ") && below.starts_with(b"+++ ") => {
                below.strip_prefix(b"+++ ").map(plain_name)
            }
            None => None,
        };
        if let Some(file) = file {
            let from = if sections.is_empty() { 0 } else { at };
            if let Some(last) = sections.last_mut() {
                last.to = at;
            }
            sections.push(Section { from, to: text.len(), file });
        }
        at = next;
    }
    sections
}

/// The new name in `a/old b/new`.
fn git_name(names: &[u8]) -> &[u8] {
    let line = names.split(|b| matches!(b, b'\n' | b'\r')).next().unwrap_or_default();
    memchr::memmem::rfind(line, b" b/").and_then(|at| line.get(at + 3..)).unwrap_or(line)
}

/// The name in `b/new<tab>time`.
fn plain_name(rest: &[u8]) -> &[u8] {
    let name = rest.split(|b| matches!(b, b'\n' | b'\r' | b'\t')).next().unwrap_or_default();
    name.strip_prefix(b"b/").unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files() {
        let text = b"From: x\n\ndiff --git a/one b/one\n--- a/one\n+++ b/one\n@@ -1 +1 @@\n-a\n+b\ndiff --git a/two b/three\nrename\n";
        let found = sections(text);
        let shown: Vec<_> = found.iter().map(|s| (s.from, s.to, s.file)).collect();
        let second = memchr::memmem::find(text, b"diff --git a/two").unwrap();
        assert_eq!(shown, [(0, second, &b"one"[..]), (second, text.len(), b"three")]);
        let plain = b"--- old.c\t2020\n+++ b/new.c\t2021\n@@ -1 +1 @@\n--- gone\n+++ come\n--- a\n+++ c\n";
        // Lines removed and added that look like a header are taken for one: a section more, and still whole.
        assert_eq!(sections(plain).iter().map(|s| s.file).collect::<Vec<_>>(), [&b"new.c"[..], b"come", b"c"]);
        assert!(sections(b"no diff\n").is_empty() && !begins(b"--- \n") && begins(b"--- a\n+++ b\n"));
    }

    #[test]
    fn one_that_never_fits_makes_way() {
        let section = |from, to| Section { from, to, file: b"" };
        let all = [section(0, 10), section(10, 500), section(500, 520), section(520, 545)];
        assert_eq!(chosen(&all, Keep::Head, 40).0, [true, false, true, false]);
        assert_eq!(chosen(&all, Keep::Tail, 40).0, [false, false, false, true]);
        assert_eq!(chosen(&all, Keep::Both, 60).0, [true, false, true, false]);
        assert_eq!(chosen(&all, Keep::Both, 75).0, [true, false, true, true]);
    }

    #[test]
    fn what_is_listed() {
        let all: Vec<Section<'_>> =
            (0..6).map(|i| Section { from: i, to: i + 1, file: [&b"a.rs"[..], b"b;c"][i % 2] }).collect();
        let stays = [false, true, false, false, true, false];
        assert_eq!(omitted(&all, &stays, 1000, true), "1, 3-4, 6: a.rs, a.rs, b?c, b?c");
        assert_eq!(omitted(&all, &stays, 9, false), "a.rs, a.rs and 2 more");
    }
}
