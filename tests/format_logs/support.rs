//! Streams in memory, pushed through a format's locator as the repair pushes them.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::Value;
use unwedge::assess::{self, Assessment, Reading};
use unwedge::cap::limits::{Layer, Limits, Source};
use unwedge::format::{self, Depth, Format, HEAD, Located, Part, Probe, Response};
use unwedge::text::splice::{Splice, Splices};

pub const FORMATS: [&str; 4] = ["copilot", "cline", "provider-log", "provider-log-lines"];

/// Limits, in the spelling of the command line.
pub fn limits(args: &[&str]) -> Limits {
    let (mut size, mut ceiling) = (Layer::new(Source::SizeFlag), Layer::new(Source::CeilingFlag));
    for pair in args.chunks(2) {
        match pair {
            ["--size-threshold", value] => drop(size.thresholds.insert("*".into(), value.parse().unwrap())),
            ["--batch-ceiling", value] => ceiling.ceiling = Some(value.parse().unwrap()),
            other => panic!("{other:?}: not among the flags of these cases"),
        }
    }
    Limits::new(vec![size, ceiling])
}

/// Reads a stream of this path, in chunks of this many bytes, and checks that every part is what it says it is.
pub fn read(format: &dyn Format, path: &Path, bytes: &[u8], limits: &Limits, chunk: usize) -> Assessment {
    let mut reading = Reading::new(format, path, Depth::Limits, []);
    bytes.chunks(chunk).for_each(|chunk| reading.push(chunk).unwrap());
    let read = reading.finish(limits, false);
    let mut taken = BTreeSet::new();
    for response in &read.located.responses {
        assert!(!response.only_copies || (response.parts.is_empty() && !response.copies.is_empty()));
        for part in response.parts.iter().chain(response.copies.iter().flat_map(|c| &c.parts)) {
            let Part::Text { span, line, encoding, measure, .. } = part else { continue };
            let (start, end) = (usize::try_from(span.start).unwrap(), usize::try_from(span.end).unwrap());
            assert_eq!(unwedge::text::literal::measure(&bytes[start..end], *encoding).unwrap(), *measure);
            assert_eq!(*line, 1 + bytes[..start].iter().filter(|b| **b == b'\n').count() as u64);
            assert!(taken.insert(span.start), "a text is there twice: {span:?}");
        }
    }
    read
}

/// The file of this path in a case.
pub fn file(format: &str, case: &str, path: &str) -> (PathBuf, Vec<u8>) {
    let path = testdata().join(format).join(case).join("before").join(path);
    let bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    (path, bytes)
}

/// What is found in one file of a case.
pub fn located(format: &str, case: &str, path: &str) -> Located {
    let (path, bytes) = file(format, case, path);
    let format = format::named(format).unwrap();
    assert_eq!(claimants(&path, &bytes), [format.about().name]);
    read(format, &path, &bytes, &Limits::default(), 1 << 16).located
}

/// What is found in these bytes.
pub fn locate(format: &str, path: &str, bytes: &[u8]) -> Located {
    read(format::named(format).unwrap(), Path::new(path), bytes, &Limits::default(), 7).located
}

/// The names of the formats that claim a file.
pub fn claimants(path: &Path, bytes: &[u8]) -> Vec<&'static str> {
    let probe = Probe { path, head: &bytes[..bytes.len().min(HEAD)] };
    let formats = format::FORMATS.iter().filter(|f| f.candidate(path) && f.claims(&probe));
    formats.map(|f| f.about().name).collect()
}

/// Everything found: a line a response.
pub fn shown(located: &Located) -> Vec<String> {
    located.responses.iter().map(show).collect()
}

fn show(response: &Response) -> String {
    let or_none = |s: &Option<String>| s.clone().unwrap_or("-".into());
    let mut line = format!("{}: {} {} ", response.record, or_none(&response.id), or_none(&response.tool));
    if !response.only_copies {
        write!(line, "batch {} {}", response.batch, sizes(&response.parts)).unwrap();
    }
    match response.is_error {
        Some(true) => line.push_str(" error"),
        Some(false) => line.push_str(" ok"),
        None => {}
    }
    if let Some(why) = response.dead {
        write!(line, " dead: {why}").unwrap();
    }
    for copy in &response.copies {
        assert!(!copy.sent && copy.record == response.record);
        write!(line, " | {} {}", copy.place, sizes(&copy.parts)).unwrap();
    }
    line
}

fn sizes(parts: &[Part]) -> String {
    let size = |part: &Part| match part {
        Part::Text { measure, .. } => measure.size.to_string(),
        Part::Opaque { stored } => format!("[{stored}]"),
    };
    if parts.is_empty() { "nothing".into() } else { parts.iter().map(size).collect::<Vec<_>>().join("+") }
}

/// What is broken: line, and whether it is the whole stream, and what.
pub fn broken(located: &Located, bytes: &[u8]) -> Vec<String> {
    let line = |at: u64| 1 + bytes[..usize::try_from(at).unwrap()].iter().filter(|b| **b == b'\n').count();
    let show =
        |b: &unwedge::format::Broken| format!("{}{}: {}", line(b.at), if b.whole { " (whole)" } else { "" }, b.what);
    located.broken.iter().map(show).collect()
}

/// Cuts everything that is over a limit, and checks what must hold of the result. Gives the new bytes.
pub fn repair(format: &dyn Format, path: &Path, bytes: &[u8], limits: &Limits) -> Vec<u8> {
    let before = read(format, path, bytes, limits, 1 << 16);
    let mut splices = Vec::new();
    for target in &before.targets {
        let mut span = |r: std::ops::Range<u64>| Ok(bytes[r.start as usize..r.end as usize].to_vec());
        let done = before.cut(target, &mut span, &|what| panic!("{what}")).unwrap();
        splices.extend(done.parts.into_iter().map(|p| Splice { range: p.span, new: p.cut.literal }));
    }
    splices.sort_by_key(|s| s.range.start);
    let mut new = Vec::new();
    Splices::new(splices).unwrap().apply(&mut &*bytes, &mut new).unwrap();
    let after = read(format, path, &new, limits, 1 << 16);
    assert_eq!(assess::difference(&before.located, &after.located), None, "{}", path.display());
    for target in &after.targets {
        let mut span = |r: std::ops::Range<u64>| Ok(new[r.start as usize..r.end as usize].to_vec());
        let done = after.cut(target, &mut span, &|what| panic!("{what}")).unwrap();
        assert!(done.parts.is_empty(), "{}: a second run would cut {target:?}", path.display());
    }
    assert_eq!(claimants(path, bytes), claimants(path, &new), "{}: no longer the same format's", path.display());
    new
}

pub fn testdata() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata")
}

/// The files of every case of these formats, with the format and the case's arguments.
pub fn cases() -> Vec<(&'static dyn Format, PathBuf, Limits)> {
    let mut cases = Vec::new();
    for name in FORMATS {
        for dir in std::fs::read_dir(testdata().join(name)).unwrap().map(|entry| entry.unwrap().path()) {
            let case: Value = serde_json::from_slice(&std::fs::read(dir.join("case.json")).unwrap()).unwrap();
            let args: Vec<&str> = case["args"].as_array().unwrap().iter().map(|a| a.as_str().unwrap()).collect();
            for file in files(&dir.join("before")) {
                cases.push((format::named(name).unwrap(), file, limits(&args)));
            }
        }
    }
    cases
}

/// All files below a directory.
pub fn files(dir: &Path) -> Vec<PathBuf> {
    let walk = walkdir::WalkDir::new(dir).sort_by_file_name().into_iter().map(Result::unwrap);
    walk.filter(|e| e.file_type().is_file()).map(walkdir::DirEntry::into_path).collect()
}
