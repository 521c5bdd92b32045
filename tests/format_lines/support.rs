//! Streams in memory, pushed through a format's locator as the repair pushes them.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::Value;
use unwedge::assess::{self, Assessment, Reading};
use unwedge::cap::limits::{Layer, Limits, Source};
use unwedge::format::{self, Depth, Located, Look, Part, Places, Response};
use unwedge::text::splice::{Splice, Splices};

/// Limits in the spelling of the command line, and whether dead responses are left.
#[derive(Clone, Default)]
pub struct Args {
    pub limits: Limits,
    pub live_only: bool,
}

impl Args {
    pub fn new(args: &[&str]) -> Self {
        let (mut size, mut tool, mut ceiling) =
            (Layer::new(Source::SizeFlag), Layer::new(Source::ToolFlag), Layer::new(Source::CeilingFlag));
        let mut live_only = false;
        let mut rest = args.iter();
        while let Some(flag) = rest.next() {
            let mut value = || *rest.next().expect("a value");
            match *flag {
                "--size-threshold" => drop(size.thresholds.insert("*".into(), value().parse().unwrap())),
                "--batch-ceiling" => ceiling.ceiling = Some(value().parse().unwrap()),
                "--tool" => {
                    let (name, limit) = value().rsplit_once('=').unwrap();
                    tool.thresholds.insert(name.into(), limit.parse().unwrap());
                }
                "--live-only" => live_only = true,
                other => panic!("{other}: not a flag of these cases"),
            }
        }
        Args { limits: Limits::new(vec![size, tool, ceiling]), live_only }
    }
}

/// Reads a stream, in chunks of this many bytes.
pub fn read(format: &str, bytes: &[u8], args: &Args, chunk: usize) -> Assessment {
    let mut reading = Reading::new(format::named(format).unwrap(), Path::new("/stream.jsonl"), Depth::Limits, []);
    bytes.chunks(chunk).for_each(|chunk| reading.push(chunk).unwrap());
    reading.finish(&args.limits, args.live_only)
}

/// What a format finds in a stream.
pub fn locate(format: &str, bytes: &[u8]) -> Located {
    read(format, bytes, &Args::default(), 1 << 16).located
}

/// Everything found, in a few words a response: what a test compares.
pub fn shown(located: &Located) -> Vec<String> {
    located.responses.iter().map(show).collect()
}

fn show(response: &Response) -> String {
    let none = "-".to_owned();
    let mut line = format!(
        "{}: {} {} batch {} {}",
        response.record,
        response.id.as_ref().unwrap_or(&none),
        response.tool.as_ref().unwrap_or(&none),
        response.batch,
        if response.only_copies { "only copies".to_owned() } else { sizes(&response.parts) },
    );
    match response.is_error {
        Some(true) => line.push_str(" error"),
        Some(false) => line.push_str(" ok"),
        None => {}
    }
    if let Some(why) = response.dead {
        write!(line, " dead ({why})").unwrap();
    }
    for copy in &response.copies {
        let sent = if copy.sent { " sent" } else { "" };
        write!(line, " | {}: {} {}{sent}", copy.record, copy.place, sizes(&copy.parts)).unwrap();
    }
    line
}

fn sizes(parts: &[Part]) -> String {
    let size = |part: &Part| match part {
        Part::Text { measure, .. } => measure.size.to_string(),
        Part::Opaque { stored } => format!("[{stored}]"),
    };
    parts.iter().map(size).collect::<Vec<_>>().join("+")
}

/// The broken places, with their offsets.
pub fn broken(located: &Located) -> Vec<(u64, &str)> {
    located.broken.iter().map(|b| (b.at, &*b.what)).collect()
}

/// Cuts everything that is over a limit, and checks what must hold of it. Gives the new bytes.
pub fn repair(format: &str, bytes: &[u8], args: &Args) -> Vec<u8> {
    let before = read(format, bytes, args, 1 << 16);
    let mut splices = Vec::new();
    for target in &before.targets {
        let mut span = |range: std::ops::Range<u64>| Ok(bytes[range.start as usize..range.end as usize].to_vec());
        let done = before.cut(target, &mut span, &|what| panic!("{what}")).unwrap();
        assert!(done.delivered <= target.held.limit.max(target.size), "{target:?}");
        splices.extend(done.parts.into_iter().map(|p| Splice { range: p.span, new: p.cut.literal }));
    }
    splices.sort_by_key(|s| s.range.start);
    let splices = Splices::new(splices).unwrap();
    let mut new = Vec::new();
    splices.apply(&mut &*bytes, &mut new).unwrap();
    let after = read(format, &new, args, 1 << 16);
    assert_eq!(assess::difference(&before.located, &after.located), None);
    // What is still over is what could not be made smaller.
    for target in &after.targets {
        let mut span = |range: std::ops::Range<u64>| Ok(new[range.start as usize..range.end as usize].to_vec());
        let done = after.cut(target, &mut span, &|what| panic!("{what}")).unwrap();
        assert!(done.parts.is_empty(), "a second run would cut {target:?}");
    }
    new
}

/// A case of `testdata`: its format, its files, and its arguments.
pub struct Case {
    pub name: String,
    pub format: String,
    pub files: Vec<PathBuf>,
    pub args: Args,
}

pub fn testdata() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata")
}

/// The cases of these formats.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for format in ["codex", "gemini", "gemini-json", "qwen"] {
        for dir in std::fs::read_dir(testdata().join(format)).unwrap().map(|entry| entry.unwrap().path()) {
            let case: Value = serde_json::from_slice(&std::fs::read(dir.join("case.json")).unwrap()).unwrap();
            let args: Vec<&str> = case["args"].as_array().unwrap().iter().map(|a| a.as_str().unwrap()).collect();
            let mut files = Vec::new();
            walk(&dir.join("before"), &mut files);
            assert!(!files.is_empty() && !case["note"].as_str().unwrap().is_empty(), "{}", dir.display());
            cases.push(Case { name: dir.display().to_string(), format: format.into(), files, args: Args::new(&args) });
        }
    }
    cases
}

/// What a file of a case holds: unpacked where it is packed, and nothing where that cannot be done, which is the store's to tell.
pub fn contents(file: &Path) -> Option<Vec<u8>> {
    let bytes = std::fs::read(file).unwrap();
    if file.extension().is_none_or(|extension| extension != "zst") {
        return Some(bytes);
    }
    let unpacked = zstd::stream::decode_all(&*bytes);
    let broken = file.to_str().unwrap().contains("zst-torn") || file.to_str().unwrap().contains("zst-damaged");
    assert_eq!(unpacked.is_err(), broken, "{}", file.display());
    unpacked.ok()
}

pub fn walk(dir: &Path, files: &mut Vec<PathBuf>) {
    for path in std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() { walk(&path, files) } else { files.push(path) }
    }
}

/// The one file of a case.
pub fn stream(format: &str, case: &str) -> Vec<u8> {
    let mut files = Vec::new();
    walk(&testdata().join(format).join(case).join("before"), &mut files);
    let [file] = &*files else { panic!("{format}/{case} has {} files", files.len()) };
    std::fs::read(file).unwrap()
}

/// A home to look for places in.
pub fn places() -> Places {
    Places { home: Some("/home/demo".into()), ..Places::default() }
}

/// Files that are not there.
pub struct Tree(BTreeSet<PathBuf>);

impl Tree {
    pub fn new(files: &[&str]) -> Self {
        Tree(files.iter().map(PathBuf::from).collect())
    }
}

impl Look for Tree {
    fn read(&self, _path: &Path) -> Option<Vec<u8>> {
        None
    }
    fn list(&self, dir: &Path) -> Vec<OsString> {
        let names =
            self.0.iter().filter_map(|p| Some(p.strip_prefix(dir).ok()?.components().next()?.as_os_str().to_owned()));
        names.collect::<BTreeSet<_>>().into_iter().collect()
    }
    fn is_dir(&self, path: &Path) -> bool {
        self.0.iter().any(|p| p.starts_with(path) && p != path)
    }
    fn is_file(&self, path: &Path) -> bool {
        self.0.contains(path)
    }
    fn link(&self, _path: &Path) -> Option<PathBuf> {
        None
    }
    fn modified(&self, _path: &Path) -> Option<SystemTime> {
        None
    }
}
