//! All that is in `testdata/`, and the samples beside this package where `UNWEDGE_SHARED` says where they are, counted a second
//! time by a program that shares no code with this one: `tests/oracles/weigh.py`.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use unwedge::format::Outline;

use super::support::outline_of;

const FORMATS: [&str; 8] = ["claude-code", "pi", "codex", "gemini", "gemini-json", "qwen", "copilot", "jp"];

/// What is told of an outline by both.
fn told(outline: &Outline) -> Value {
    json!({
        "assistant": outline.weight.assistant,
        "user": outline.weight.user,
        "attachments": outline.weight.attachments,
        "images": outline.weight.images,
        "other": outline.weight.other,
        "tools": outline.responses.bytes,
        "tool_images": outline.responses.images,
        "turns": outline.turns,
        "error": outline.stored_error.as_ref().map(|e| e.record),
        "model": outline.model,
        "window": outline.window,
    })
}

fn files(below: &Path) -> Vec<PathBuf> {
    let all = walkdir::WalkDir::new(below).sort_by_file_name().into_iter().map(|e| e.unwrap().into_path());
    all.filter(|path| path.is_file()).collect()
}

/// Compares every stream below a folder; gives how many there were.
fn compare(format: &str, below: &Path, except: &[&str]) -> usize {
    let like = unwedge::format::named(format).unwrap();
    let streams: Vec<PathBuf> = files(below)
        .into_iter()
        .filter(|path| like.candidate(path) && !except.iter().any(|e| path.to_string_lossy().contains(e)))
        .collect();
    if streams.is_empty() {
        return 0;
    }
    let oracle = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracles/weigh.py");
    let output = Command::new("python3").arg(oracle).arg(format).args(&streams).output().unwrap();
    assert!(output.status.success(), "{format}: {}", String::from_utf8_lossy(&output.stderr));
    let counted: Vec<Value> =
        String::from_utf8(output.stdout).unwrap().lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(counted.len(), streams.len());
    let differing = streams.iter().zip(counted).filter_map(|(path, counted)| {
        let outline = outline_of(format, path, &std::fs::read(path).unwrap()).expect("an outline");
        let told = told(&outline);
        (told != counted).then(|| format!("{}\n  told    {told}\n  counted {counted}", path.display()))
    });
    let differing: Vec<String> = differing.collect();
    assert!(differing.is_empty(), "{}", differing.join("\n"));
    streams.len()
}

fn python() -> bool {
    let there = Command::new("python3").arg("--version").output().is_ok_and(|o| o.status.success());
    if !there {
        eprintln!("!!!! SKIPPED: the second count: there is no python3 !!!!");
    }
    there
}

#[test]
fn the_cases_are_counted_alike() {
    if !python() {
        return;
    }
    let testdata = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let seen = FORMATS.map(|format| (format, compare(format, &testdata.join(format), EXCEPT)));
    assert!(seen.iter().all(|(_, seen)| *seen >= 10), "{seen:?}");
}

/// A document that is none, which the second count cannot read at all, and what describes the cases.
const EXCEPT: &[&str] = &["gemini-json/broken", "case.json", "report.json"];

#[test]
fn the_samples_are_counted_alike() {
    let Some(shared) = std::env::var_os("UNWEDGE_SHARED").map(PathBuf::from) else { return };
    if !python() {
        return;
    }
    for format in FORMATS {
        let folder = format.strip_suffix("-json").unwrap_or(format);
        assert!(compare(format, &shared.join("corpus").join(folder), EXCEPT) > 0, "{format}");
    }
    // Those that are wedged are told to be, and no others; what is live in them is what `corpus/README.md` says.
    let mut wedged = Vec::new();
    for (format, folder) in [("claude-code", "claude-code"), ("pi", "pi"), ("pi", "pi/repaired")] {
        for entry in std::fs::read_dir(shared.join("corpus").join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|e| e == "jsonl") {
                let outline = outline_of(format, &path, &std::fs::read(&path).unwrap()).unwrap();
                let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
                wedged.extend(outline.stored_error.map(|_| (name, outline.responses.bytes)));
            }
        }
    }
    wedged.sort();
    assert_eq!(
        wedged.iter().map(|(name, bytes)| (&**name, *bytes)).collect::<Vec<_>>(),
        [
            ("02-a-inplace-only", 262_139),
            ("02-wedged-single-v3", 637_123),
            ("03-wedged-batch-v3", 2_366_031),
            ("04-image-wedges", 14),
            ("08-image-wedge-v3", 36),
            ("13-many-middling-prompt-too-long", 2352),
        ]
    );
}
