//! What holds of every case, and of any bytes.

use std::path::Path;

use proptest::prelude::*;
use unwedge::format::{self, Depth, Framing, Located, Part, Record};
use unwedge::text::splice::{Splice, Splices};

use super::support::{Args, cases, contents, locate, read, repair};

fn streams() -> Vec<(String, Vec<u8>, Args, String)> {
    let streams = cases().into_iter().flat_map(|case| {
        let (format, args, name) = (case.format, case.args, case.name);
        case.files
            .into_iter()
            .filter_map(move |file| Some((format.clone(), contents(&file)?, args.clone(), name.clone())))
    });
    streams.collect()
}

#[test]
fn every_format_has_six_cases() {
    for format in ["codex", "gemini", "gemini-json", "qwen"] {
        assert!(cases().iter().filter(|case| case.format == format).count() >= 6, "{format}");
    }
}

#[test]
fn chunks_do_not_matter() {
    for (format, bytes, args, name) in streams() {
        for chunk in [1, 7, 4096] {
            assert_eq!(read(&format, &bytes, &args, chunk).located, locate(&format, &bytes), "{name}");
        }
    }
}

#[test]
fn repaired_once_is_repaired() {
    for (format, bytes, args, name) in streams() {
        let found = !read(&format, &bytes, &args, 4096).targets.is_empty();
        let whole = locate(&format, &bytes).broken.iter().any(|b| b.whole);
        assert_eq!(found, !whole && !name.ends_with("clean"), "{name}");
        let new = repair(&format, &bytes, &args);
        assert_eq!(found, new.len() < bytes.len(), "{name}");
        assert_eq!(repair(&format, &new, &args), new, "{name}");
    }
}

#[test]
fn what_is_live_alone_can_be_cut() {
    for (format, bytes, mut args, name) in streams() {
        args.live_only = true;
        let before = read(&format, &bytes, &args, 4096);
        for target in &before.targets {
            assert_eq!(before.located.responses[target.response].dead, None, "{name}");
        }
        repair(&format, &bytes, &args);
    }
}

/// A record that does not matter can be left out.
#[test]
fn a_quick_look_misses_nothing() {
    let mut left_out = 0;
    for (name, bytes, _, case) in streams() {
        let format = format::named(&name).unwrap();
        if format.framing() == Framing::Document {
            continue;
        }
        let mut locator = format.locator(Path::new("/stream.jsonl"), Depth::Limits);
        let (mut offset, mut index) = (0, 0);
        for line in bytes.split_inclusive(|b| *b == b'\n') {
            let ended = line.ends_with(b"\n");
            let text = line.strip_suffix(b"\n").unwrap_or(line);
            if format.matters(text) {
                locator.record(&Record { offset, line: index + 1, index, bytes: text, ended });
            } else {
                left_out += 1;
            }
            offset += line.len() as u64;
            index += 1;
        }
        let (quick, whole) = (locator.finish(), locate(&name, &bytes));
        assert_eq!((quick.responses, quick.record_ends), (whole.responses, whole.record_ends), "{case}");
    }
    assert!(left_out > 0);
}

/// Blanks at the ends of records give a shortened rollout its old offsets back.
#[test]
fn a_rollout_can_be_padded() {
    for (format, bytes, args, name) in streams().into_iter().filter(|s| s.0 == "codex") {
        let before = read(&format, &bytes, &args, 4096);
        let ends = &before.located.record_ends;
        let mut splices = Vec::new();
        for target in &before.targets {
            let mut span = |range: std::ops::Range<u64>| Ok(bytes[range.start as usize..range.end as usize].to_vec());
            for part in before.cut(target, &mut span, &|what| panic!("{what}")).unwrap().parts {
                splices.push(Splice { range: part.span, new: part.cut.literal });
            }
        }
        let mut pads = std::collections::BTreeMap::new();
        for splice in &splices {
            let end = *ends.values().find(|end| **end >= splice.range.end).unwrap();
            *pads.entry(end).or_insert(0) += (splice.range.end - splice.range.start) as usize - splice.new.len();
        }
        splices.extend(pads.into_iter().map(|(end, n)| Splice { range: end..end, new: vec![b' '; n] }));
        splices.sort_by_key(|s| s.range.start);
        let mut new = Vec::new();
        Splices::new(splices).unwrap().apply(&mut &*bytes, &mut new).unwrap();
        let newlines = |bytes: &[u8]| memchr::memchr_iter(b'\n', bytes).collect::<Vec<_>>();
        assert_eq!((new.len(), newlines(&new)), (bytes.len(), newlines(&bytes)), "{name}");
        let after = read(&format, &new, &args, 4096);
        assert_eq!(repair(&format, &new, &args), new, "{name}");
        assert_eq!(unwedge::assess::difference(&before.located, &after.located), None, "{name}");
        assert_eq!(after.located.record_ends, before.located.record_ends, "{name}");
    }
}

fn spans_are_literals(located: &Located, bytes: &[u8]) {
    let copies = located.responses.iter().flat_map(|r| &r.copies).flat_map(|c| &c.parts);
    for part in located.responses.iter().flat_map(|r| &r.parts).chain(copies) {
        if let Part::Text { span, line, .. } = part {
            let literal = &bytes[span.start as usize..span.end as usize];
            assert!(literal.len() >= 2 && literal.starts_with(b"\"") && literal.ends_with(b"\""));
            let before = &bytes[..span.start as usize];
            assert_eq!(*line, before.iter().filter(|b| **b == b'\n').count() as u64 + 1);
        }
    }
    for broken in &located.broken {
        assert!(broken.at <= bytes.len() as u64);
    }
}

#[test]
fn every_span_is_a_literal() {
    for (format, bytes, _, _) in streams() {
        spans_are_literals(&locate(&format, &bytes), &bytes);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    /// Whatever a crash, a disk or another program does to a stream, it is read to its end.
    #[test]
    fn damage_is_survived(
        pick in any::<prop::sample::Index>(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), 0_usize..5, any::<u8>()), 1..6),
    ) {
        let streams = streams();
        let (format, mut bytes, _, _) = pick.get(&streams).clone();
        for (at, how, byte) in damage {
            let at = at.index(bytes.len().max(1)).min(bytes.len());
            match how {
                0 if at < bytes.len() => bytes[at] = byte,
                1 => bytes.truncate(at),
                2 => bytes.insert(at, byte),
                3 => { bytes.splice(at..at, [0; 40]); }
                _ => { bytes.drain(at..(at + 50).min(bytes.len())); }
            }
        }
        let located = locate(&format, &bytes);
        spans_are_literals(&located, &bytes);
        for format in ["codex", "gemini", "gemini-json", "qwen"] {
            locate(format, &bytes);
        }
    }
}
