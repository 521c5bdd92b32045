//! Every locator, on any bytes, at both depths: what it finds is there, and a repair of it keeps its laws.

use std::collections::BTreeSet;
use std::io::{self, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};

use unwedge::assess::{Assessment, CutTarget, Reading, Target, difference};
use unwedge::cap::limits::{Layer, Limit, Limits, Source, WindowLimit};
use unwedge::edits::Unwedge;
use unwedge::error::Error;
use unwedge::format::{self, Depth, FORMATS, Format, Framing, HEAD, Located, Part, Probe, Record};
use unwedge::text::literal::{decode, measure};
use unwedge::text::splice::{Splice, Splices};
use unwedge::verify::{Claim, Goal, Written, prove};
use unwedge::{edits, hunk, tell};

use crate::input::Input;

/// The formats by the first byte of an input, and a path of a stream of each. `fuzz/seeds.py` reads this.
const STREAMS: [(&str, &str); 14] = [
    ("jp", "/h/.jp/conversations/17636257999-a-talk/events.json"),
    ("claude-code", "/h/.claude/projects/-h-demo/5e551011-0000-4000-8000-000000000001.jsonl"),
    ("pi", "/h/.pi/agent/sessions/--h--/2026-02-02T02-00-00-000Z_01a22eec-0000-7000-8000-000000000001.jsonl"),
    ("codex", "/h/.codex/sessions/2026/01/05/rollout-2026-01-05T10-00-00-019a0000-0000-7000-8000-000000000000.jsonl"),
    ("gemini", "/h/.gemini/tmp/demo/chats/session-2026-01-05T10-00-7c0ffee0.jsonl"),
    ("gemini-json", "/h/.gemini/tmp/demo/chats/session-2025-11-05T10-00-7c0ffee0.json"),
    ("qwen", "/h/.qwen/projects/-h-demo/chats/beefcafe-0000-4000-8000-000000000000.jsonl"),
    ("copilot", "/h/.copilot/session-state/be25adf7-5860-40ac-bfb6-000000000001/events.jsonl"),
    ("cline", "/h/.cline/data/sessions/1796083950583_a1b2c/1796083950583_a1b2c.messages.json"),
    ("provider-log", "/h/log.json"),
    ("provider-log-lines", "/h/log.jsonl"),
    ("jp", "/h/.jp/conversations/.archive/17712345000-a-talk/events.json"),
    ("cline", "/h/tasks/1796083950583/ui_messages.json"),
    ("claude-code", "/h/.claude/projects/-h-demo/5e551011-0000-4000-8000-000000000008/subagents/agent-acompact-1.jsonl"),
];

pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let (name, path) = STREAMS[usize::from(input.byte()) % STREAMS.len()];
    let format = format::named(name).unwrap();
    let (how, chunk) = (input.byte(), usize::from(input.byte()) + 1);
    let mut layer = Layer::new(Source::SizeFlag);
    layer.thresholds.insert("*".into(), Limit::Bytes(64 + input.small() % 512));
    layer.ceiling = Some(if how & 1 == 0 { Limit::Unlimited } else { Limit::Bytes(64 + input.small() % 2048) });
    layer.keeps.insert("*".into(), input.keep());
    layer.units.insert("*".into(), input.unit());
    let window = input.small() % 4096;
    let live_only = how & 2 != 0;
    let limits = Limits::new(vec![layer]);
    // What is only read stands first, behind it what is repaired.
    let aside = memchr::memchr(0xff, input.0).filter(|_| how & 4 != 0);
    let (aside, doc) = match aside {
        Some(at) => (Some(&input.0[..at]), &input.0[at + 1..]),
        None => (None, input.0),
    };
    let stream = Stream { format, path: Path::new(path), aside: aside.map(|bytes| (path.into(), bytes.to_vec())), limits, live_only };

    for other in FORMATS {
        let probe = Probe { path: stream.path, head: &doc[..doc.len().min(HEAD)] };
        let _ = other.candidate(probe.path) && other.claims(&probe);
        let _ = other.claims(&probe);
    }
    let whole = stream.read(doc, doc.len().max(1), Depth::Limits);
    spans(&whole.located, doc, format.framing());
    let chunked = stream.read(doc, chunk, Depth::Limits);
    assert_eq!(whole.located, chunked.located);
    let mut outlined = stream.read(doc, doc.len().max(1), Depth::Outline).located;
    assert!(whole.located.outline.is_none());
    if let Some(outline) = outlined.outline.take() {
        let records = doc.len() as u64 + 1;
        assert!(outline.turns.is_sorted_by(|a, b| a < b), "{:?}", outline.turns);
        assert!(outline.turns.iter().all(|turn| *turn < records));
        assert!(outline.stored_error.is_none_or(|error| error.text.chars().count() <= 200));
        let _ = outline.weight.bytes();
    }
    assert_eq!(whole.located.responses, outlined.responses);
    if format.framing() == Framing::Lines {
        quickly(&stream, doc, &whole.located);
    }
    if !whole.located.broken.iter().any(|broken| broken.whole) {
        let unwedge = [Unwedge::Auto, Unwedge::Always, Unwedge::Never][usize::from(how >> 4 & 3) % 3];
        repair(&stream, doc, &whole, unwedge);
        // The same with the window of a model as the third limit.
        if how & 8 != 0 {
            let window = WindowLimit { tokens: Some(window), reserve: 16, keep_last: 1 };
            let limits = stream.limits.clone().within(Some(window));
            let stream = Stream { limits, ..stream };
            let outlined = stream.read(doc, doc.len().max(1), Depth::Outline);
            repair(&stream, doc, &outlined, unwedge);
        }
    }
}

struct Stream {
    format: &'static dyn Format,
    path: &'static Path,
    aside: Option<(PathBuf, Vec<u8>)>,
    limits: Limits,
    live_only: bool,
}

impl Stream {
    fn read(&self, doc: &[u8], chunk: usize, depth: Depth) -> Assessment {
        let aside = self.aside.iter().map(|(path, bytes)| (&**path, &**bytes));
        let mut reading = Reading::new(self.format, self.path, depth, aside);
        doc.chunks(chunk).for_each(|chunk| reading.push(chunk).unwrap());
        reading.finish(&self.limits, self.live_only)
    }
}

/// Spans are literals on their lines, disjoint, in order within a text, and of the size that is said.
fn spans(located: &Located, doc: &[u8], framing: Framing) {
    let mut all = Vec::new();
    let mut last = 0;
    for response in &located.responses {
        assert!(response.record >= last, "responses come in the order of the stream");
        last = response.record;
        assert!(!response.only_copies || (response.parts.is_empty() && !response.copies.is_empty()));
        let copies = response.copies.iter().map(|copy| (&copy.parts, copy.record));
        for (parts, record) in std::iter::once((&response.parts, response.record)).chain(copies) {
            let mut end = 0;
            for part in parts {
                let Part::Text { span, line, encoding, measure: said, opening } = part else { continue };
                assert!(*opening <= said.size);
                assert!(span.start >= end);
                end = span.end;
                let at = span.start as usize..span.end as usize;
                assert_eq!(measure(&doc[at.clone()], *encoding).as_ref(), Ok(said));
                assert_eq!(*line, 1 + memchr::memchr_iter(b'\n', &doc[..at.start]).count() as u64);
                assert!(framing == Framing::Document || *line == record + 1);
                all.push(at);
            }
        }
    }
    all.sort_by_key(|span| span.start);
    assert!(all.windows(2).all(|pair| pair[0].end <= pair[1].start), "a text would be cut twice");
    assert!(located.broken.iter().all(|broken| broken.at <= doc.len() as u64));
    for end in located.record_ends.values() {
        let at = *end as usize;
        assert!(at == doc.len() || doc[at] == b'\n' || doc[at..].starts_with(b"\r\n"));
    }
}

/// What cannot matter can be left out, and looking for the ends of batches finds no trouble.
fn quickly(stream: &Stream, doc: &[u8], whole: &Located) {
    let mut locator = stream.format.locator(stream.path, Depth::Limits);
    if let Some((path, bytes)) = &stream.aside {
        locator.aside(path, bytes);
    }
    let mut offset = 0;
    let mut broken = false;
    for (index, line) in (0..).zip(doc.split_inclusive(|b| *b == b'\n')) {
        let bytes = line.strip_suffix(b"\n").unwrap_or(line);
        if let Some(seams) = stream.format.seams() {
            let _ = seams.seam(bytes);
        }
        let record = Record { offset, line: index + 1, index, bytes, ended: line.len() > bytes.len() };
        broken |= serde_json::from_slice::<&serde_json::value::RawValue>(bytes).is_err();
        if stream.format.matters(bytes) {
            locator.record(&record);
        }
        offset += line.len() as u64;
    }
    // Of a broken line a quick look cannot be certain.
    if !broken {
        assert_eq!(locator.finish().responses, whole.responses, "a record that matters was passed over");
    }
}

/// As the program does it: cut, narrowed, what is left of an error gone, proven, and then there is nothing more to do.
fn repair(stream: &Stream, doc: &[u8], before: &Assessment, unwedge: Unwedge) {
    let _ = (tell::sums(before), tell::findings(before));
    let mut read_old = |span: Range<u64>| Ok(doc[span.start as usize..span.end as usize].to_vec());
    let made = cuts(before, doc);
    let mut gone = Vec::new();
    let mut splices = Vec::new();
    for (target, cut) in &made {
        gone.extend(edits::gone(before, target, cut));
        for part in &cut.parts {
            let text = decode(&part.old, part.encoding).unwrap();
            assert_eq!(text.len() as u64, part.cut.before);
            let _ = hunk::hunks(&text, &part.cut, false);
            let mut splice = Splice { range: part.span.clone(), new: part.cut.literal.clone() };
            splice.narrow(&part.old);
            splices.push(splice);
        }
    }
    let edits = edits::plan(before, unwedge, &gone, &mut read_old).unwrap();
    assert!(edits.len() as u64 <= edits::count(before, unwedge));
    splices.extend(edits.iter().flat_map(|edit| &edit.values).map(|value| value.splice()));
    let splices = Splices::new(splices).unwrap();
    let mut new = Vec::new();
    splices.apply(&mut &*doc, &mut new).unwrap();
    let asides: Vec<_> = stream.aside.iter().cloned().collect();
    let claim = Claim {
        format: stream.format,
        path: stream.path,
        asides: &asides,
        limits: &stream.limits,
        live_only: stream.live_only,
        before,
        splices: &splices,
        goal: if edits::unwedges(&edits) { Goal::Unwedged } else { Goal::WithinLimits },
        left: &BTreeSet::new(),
    };
    prove(&claim, &mut &*doc, &mut Bytes(&new), &mut read_old).unwrap_or_else(|e| panic!("{e}"));
    // The window is no part of it: what it asks for is an estimate, which a cut may change.
    let stream = Stream { limits: stream.limits.clone().within(None), aside: stream.aside.clone(), ..*stream };
    let after = stream.read(&new, new.len().max(1), Depth::Limits);
    spans(&after.located, &new, stream.format.framing());
    assert_eq!(difference(&before.located, &after.located), None);
    assert!(cuts(&after, &new).iter().all(|(_, cut)| cut.parts.is_empty()), "a second repair finds more");
    let lines = |bytes: &[u8]| memchr::memchr_iter(b'\n', bytes).count();
    assert_eq!(lines(doc), lines(&new));
}

fn cuts(assessment: &Assessment, doc: &[u8]) -> Vec<(Target, CutTarget)> {
    let mut read = |span: Range<u64>| Ok(doc[span.start as usize..span.end as usize].to_vec());
    let bad = |what| Error::Unproven { path: PathBuf::new(), what };
    assessment.targets.iter().map(|target| (*target, assessment.cut(target, &mut read, &bad).unwrap())).collect()
}

struct Bytes<'a>(&'a [u8]);

impl Read for Bytes<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Written for Bytes<'_> {
    fn stored(&self) -> Option<([u8; 32], u64)> {
        None
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_format_has_a_stream() {
        for format in super::FORMATS {
            let name = format.about().name;
            let (_, path) = super::STREAMS.iter().find(|(known, _)| *known == name).unwrap();
            assert!(format.candidate(std::path::Path::new(path)), "{path}");
        }
        assert!(super::STREAMS.iter().all(|(name, _)| super::format::named(name).is_some()));
    }
}
