//! Drives a locator as the program does.
#![allow(clippy::disallowed_methods, reason = "tests look at samples and make scratch folders")]

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::{Depth, FORMATS, Format, HEAD, Located, Look, Part, Probe, Response};
use crate::assess::{self, Assessment, Reading};
use crate::cap::limits::{Keep, Layer, Limit, Limits, Source, Unit};
use crate::error::Error;
use crate::text::splice::{Splice, Splices};

/// Reads a document, whole and in chunks: both must come to the same.
pub fn read(format: &dyn Format, path: &Path, bytes: &[u8]) -> Assessment {
    let chunked = |size: usize| {
        let mut reading = Reading::new(format, path, Depth::Limits, []);
        bytes.chunks(size).for_each(|chunk| reading.push(chunk).unwrap());
        reading.finish(&Limits::default(), false)
    };
    let whole = chunked(bytes.len().max(1));
    assert_eq!(whole.located, chunked((bytes.len() / 7).max(1000)).located);
    check(&whole.located, bytes);
    whole
}

pub fn located(format: &dyn Format, path: &str, bytes: &[u8]) -> Located {
    read(format, Path::new(path), bytes).located
}

/// What holds of every locator: spans are literals on their lines, disjoint, and in order within a text.
fn check(located: &Located, bytes: &[u8]) {
    let mut spans = Vec::new();
    let mut last = 0;
    for response in &located.responses {
        assert!(response.record >= last, "responses come in the order of the stream");
        last = response.record;
        assert!(!response.only_copies || (response.parts.is_empty() && !response.copies.is_empty()));
        let texts = std::iter::once((&response.parts, response.record));
        for (parts, record) in texts.chain(response.copies.iter().map(|c| (&c.parts, c.record))) {
            let mut end = 0;
            for part in parts {
                let Part::Text { span, line, .. } = part else { continue };
                assert!(span.start >= end);
                end = span.end;
                let at = span.start as usize..span.end as usize;
                assert!(bytes[at.clone()].starts_with(b"\"") && bytes[at.clone()].ends_with(b"\"") && at.len() > 1);
                assert_eq!(*line, record + 1);
                assert_eq!(*line, 1 + memchr::memchr_iter(b'\n', &bytes[..at.start]).count() as u64);
                spans.push(at);
            }
        }
    }
    spans.sort_by_key(|s| s.start);
    assert!(spans.windows(2).all(|w| w[0].end <= w[1].start), "no text is cut twice");
}

/// Which formats claim a file.
pub fn claimants(path: &str, bytes: &[u8]) -> Vec<&'static str> {
    let probe = Probe { path: Path::new(path), head: &bytes[..bytes.len().min(HEAD)] };
    let claims = |f: &&&dyn Format| f.candidate(probe.path) && f.claims(&probe);
    FORMATS.iter().filter(claims).map(|f| f.about().name).collect()
}

/// One line for each response: `id tool batch size, state, copies`.
pub fn summary(located: &Located) -> Vec<String> {
    let one = |r: &Response| {
        let mut line = format!(
            "{} {} batch {} size {}",
            r.id.as_deref().unwrap_or("-"),
            r.tool.as_deref().unwrap_or("-"),
            r.batch,
            assess::size(&r.parts)
        );
        if r.parts.len() != 1 {
            line += &format!(" in {}", r.parts.len());
        }
        if r.is_error == Some(true) {
            line += ", failed";
        }
        if let Some(dead) = r.dead {
            line += &format!(", {dead}");
        }
        if r.only_copies {
            line += ", only copies";
        }
        for copy in &r.copies {
            line += &format!(", {} {}", copy.place, assess::size(&copy.parts));
            if copy.record != r.record {
                line += &format!(" on line {}", copy.record + 1);
            }
        }
        line
    };
    located.responses.iter().map(one).collect()
}

pub fn notes(located: &Located) -> Vec<String> {
    let line = |line: Option<u64>| line.map(|l| format!("{l}: ")).unwrap_or_default();
    located.notes.iter().map(|n| line(n.line) + &n.text).collect()
}

/// Responses, live ones, the largest, the largest live batch, and how many are over 256 KB.
pub fn figures(located: &Located) -> [u64; 5] {
    let sent: Vec<&Response> = located.responses.iter().filter(|r| !r.only_copies).collect();
    let live: Vec<&&Response> = sent.iter().filter(|r| r.dead.is_none()).collect();
    let mut batches = std::collections::BTreeMap::new();
    for r in &live {
        *batches.entry(r.batch).or_insert(0) += assess::size(&r.parts);
    }
    let sizes = || sent.iter().map(|r| assess::size(&r.parts));
    [
        sent.len() as u64,
        live.len() as u64,
        sizes().max().unwrap_or(0),
        batches.values().copied().max().unwrap_or(0),
        sizes().filter(|s| *s > 256 << 10).count() as u64,
    ]
}

/// The folder of samples that is not part of this package, where one is at hand.
pub fn shared() -> Option<PathBuf> {
    std::env::var_os("UNWEDGE_SHARED").map(PathBuf::from)
}

pub fn load(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Limits as the flags give them.
pub fn limits(thresholds: &[(&str, &str)], ceiling: &str, keep: Keep) -> Limits {
    let mut layer = Layer::new(Source::SizeFlag);
    layer.thresholds = thresholds.iter().map(|(tool, size)| ((*tool).to_owned(), size.parse().unwrap())).collect();
    layer.ceiling = Some(ceiling.parse::<Limit>().unwrap());
    layer.keeps.insert("*".into(), keep);
    Limits::new(vec![layer])
}

/// Repairs a document as the program does, and proves as it does that only sizes have changed and that nothing is left to
/// be cut. Gives the new document and how many texts were cut.
pub fn repair(format: &dyn Format, path: &Path, bytes: &[u8], limits: &Limits) -> (Vec<u8>, usize) {
    let assess = |bytes: &[u8]| {
        let mut reading = Reading::new(format, path, Depth::Limits, []);
        reading.push(bytes).unwrap();
        reading.finish(limits, false)
    };
    let cuts = |assessment: &Assessment, bytes: &[u8]| -> Vec<Splice> {
        let mut read = |span: std::ops::Range<u64>| Ok(bytes[span.start as usize..span.end as usize].to_vec());
        let bad = |what| Error::Unproven { path: path.to_owned(), what };
        let cut = assessment.targets.iter().flat_map(|t| assessment.cut(t, &mut read, &bad).unwrap().parts);
        cut.map(|part| Splice { range: part.span, new: part.cut.literal }).collect()
    };
    let before = assess(bytes);
    let made = cuts(&before, bytes);
    let count = made.len();
    let mut new = Vec::new();
    Splices::new(made).unwrap().apply(&mut &*bytes, &mut new).unwrap();
    let after = assess(&new);
    assert_eq!(assess::difference(&before.located, &after.located), None, "{}", path.display());
    assert!(cuts(&after, &new).is_empty(), "{}: a second repair finds more", path.display());
    let lines = |bytes: &[u8]| memchr::memchr_iter(b'\n', bytes).count();
    assert_eq!(lines(bytes), lines(&new));
    (new, count)
}

/// A file system that only has these files.
pub struct Files<'a>(pub Vec<&'a str>);

impl Look for Files<'_> {
    fn read(&self, _: &Path) -> Option<Vec<u8>> {
        None
    }
    fn list(&self, dir: &Path) -> Vec<OsString> {
        let below = self.0.iter().filter_map(|path| Path::new(path).strip_prefix(dir).ok()?.iter().next());
        let mut names: Vec<OsString> = below.map(OsStr::to_owned).collect();
        names.sort();
        names.dedup();
        names
    }
    fn is_dir(&self, path: &Path) -> bool {
        self.0.iter().any(|p| Path::new(p).starts_with(path) && Path::new(p) != path)
    }
    fn is_file(&self, path: &Path) -> bool {
        self.0.iter().any(|p| Path::new(p) == path)
    }
    fn link(&self, _: &Path) -> Option<PathBuf> {
        None
    }
    fn modified(&self, _: &Path) -> Option<SystemTime> {
        None
    }
}

/// Every case of a format in `testdata/`: its streams are claimed by it alone, something in it is over its limits, and a
/// repair keeps its laws. The whole way, by the program, they go in `tests/`.
pub fn cases(format: &dyn Format) {
    let name = format.about().name;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(name);
    let cases: Vec<PathBuf> = std::fs::read_dir(root).unwrap().map(|e| e.unwrap().path()).collect();
    assert!(cases.len() >= 6);
    for case in cases {
        let limits = arguments(&load(&case.join("case.json")));
        let files = walkdir::WalkDir::new(case.join("before")).into_iter().map(|e| e.unwrap().into_path());
        let mut cut = 0;
        for path in files.filter(|p| p.is_file() && format.candidate(p)) {
            let bytes = load(&path);
            assert_eq!(claimants(path.to_str().unwrap(), &bytes), [name], "{}", path.display());
            read(format, &path, &bytes);
            cut += repair(format, &path, &bytes, &limits).1;
        }
        assert!(cut > 0, "{}", case.display());
    }
}

/// The limits of a case's arguments.
fn arguments(case: &[u8]) -> Limits {
    let case: serde_json::Value = serde_json::from_slice(case).unwrap();
    let args: Vec<&str> = case["args"].as_array().unwrap().iter().map(|a| a.as_str().unwrap()).collect();
    let (mut thresholds, mut ceiling, mut keep) = (vec![("*", "256KB")], "2MB", Keep::Head);
    let mut units = Layer::new(Source::UnitFlag);
    for pair in args.chunks(2) {
        match pair {
            ["--size-threshold", size] => thresholds[0].1 = size,
            ["--tool", tool] => thresholds.push(tool.split_once('=').unwrap()),
            ["--batch-ceiling", size] => ceiling = size,
            ["--keep", "tail"] => keep = Keep::Tail,
            ["--keep", "both"] => keep = Keep::Both,
            ["--unit", unit] => {
                let unit = [("auto", Unit::Auto), ("lines", Unit::Lines), ("json", Unit::Json)]
                    .into_iter()
                    .find(|(name, _)| name == unit);
                units.units.insert("*".into(), unit.unwrap().1);
            }
            other => panic!("{other:?}"),
        }
    }
    limits(&thresholds, ceiling, keep).with(units)
}
