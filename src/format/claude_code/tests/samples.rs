//! The cases in `testdata/`, and the samples beside this package where `UNWEDGE_SHARED` says where they are.

use std::process::Command;

use super::*;
use crate::format::FORMATS;

/// `corpus/README.md` has the figures.
#[test]
fn the_samples_come_out_as_they_were_measured() {
    let Some(shared) = shared() else { return };
    let corpus = shared.join("corpus/claude-code");
    let large = tempfile::tempdir().unwrap();
    let made = Command::new("python3").arg(corpus.join("make.py")).arg(large.path()).arg("800").status().unwrap();
    assert!(made.success());
    let figures = |dir: &Path, name: &str| {
        let path = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path());
        let path =
            path.filter(|p| p.extension().is_some_and(|e| e == "jsonl")).find(|p| self::name(p).starts_with(name));
        let bytes = load(&path.unwrap());
        assert_eq!(claimants("/copy/x.jsonl", &bytes), ["claude-code"]);
        (figures(&find(&bytes)), find(&bytes))
    };
    // Responses, live ones, the largest, the largest live batch, how many are over 256 KB.
    for (name, expected) in [
        ("00000000-", [2, 2, 1_227_008, 1_227_008, 1]),
        ("01", [3, 3, 1_051_722, 2_243_672, 2]),
        ("02", [1, 1, 65, 65, 0]),
        ("04", [2, 2, 4814, 4814, 0]),
        ("05", [1, 1, 288_012, 288_012, 1]),
        ("06", [1, 1, 733_148, 733_148, 1]),
        ("07", [1, 1, 1_051_722, 1_051_722, 1]),
        ("08", [0, 0, 0, 0, 0]),
        ("09", [1, 1, 14, 14, 0]),
        ("10", [1, 1, 1_227_008, 1_227_008, 1]),
        ("11", [1, 1, 576_003, 576_003, 1]),
        ("12", [2, 1, 1_227_008, 0, 1]),
        ("13", [12, 12, 157_758, 157_758, 0]),
        ("14", [4, 4, 1_227_007, 1_227_007, 2]),
    ] {
        let (got, located) = figures(large.path(), name);
        assert_eq!(got, expected, "{name}");
        let (small, _) = figures(&corpus, name);
        assert_eq!((small[0], small[1], small[4]), (expected[0], expected[1], 0), "{name}");
        assert!(small[2] <= 4814);
        match name {
            "01" => assert_eq!(small[3], 2798),
            "02" => assert_eq!(located.responses[0].copies[0].place, "toolUseResult.originalFile"),
            "07" => assert_eq!(located.responses[0].tool, None),
            "08" => assert_eq!(located.broken.len(), 2),
            "13" => assert!(notes(&located)[0].contains("Prompt is too long); its live results hold 1893096 bytes")),
            _ => {}
        }
    }
    // At every limit and end: the laws of a repair.
    for dir in [&corpus, large.path()] {
        for path in std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).filter(|p| ClaudeCode.candidate(p)) {
            for (threshold, ceiling, keep) in [
                ("64", "64", Keep::Head),
                ("100", "200", Keep::Tail),
                ("1KB", "2KB", Keep::Both),
                ("256KB", "2MB", Keep::Head),
            ] {
                repair(&ClaudeCode, &path, &load(&path), &limits(&[("*", threshold)], ceiling, keep));
            }
        }
    }
}

/// The worked example, byte for byte.
#[test]
fn the_worked_example() {
    let Some(shared) = shared() else { return };
    let (dir, name) = (shared.join("conformance/golden/claude-code"), "5e551011-0000-4000-8000-00000000c0de.jsonl");
    let limits = limits(&[("*", "1KB")], "2KB", Keep::Head);
    let (new, cuts) = repair(&ClaudeCode, Path::new(name), &load(&dir.join("before").join(name)), &limits);
    assert!(new == load(&dir.join("after").join(name)));
    assert!(cuts >= 3);
}

/// No other agent's stream is claimed, and none twice.
#[test]
fn other_agents_streams_are_not_claimed() {
    let Some(shared) = shared() else { return };
    let mut seen = 0;
    for entry in walkdir::WalkDir::new(shared.join("corpus")).into_iter().map(Result::unwrap) {
        let path = entry.path();
        if !entry.file_type().is_file() || !FORMATS.iter().any(|f| f.candidate(path)) {
            continue;
        }
        let below = path.strip_prefix(shared.join("corpus")).unwrap();
        let agent = below.iter().next().unwrap().to_str().unwrap();
        let claimants = claimants(path.to_str().unwrap(), &load(path));
        assert!(claimants.len() <= 1, "{}: {claimants:?}", path.display());
        for ours in ["claude-code", "pi"] {
            assert_eq!(claimants.contains(&ours), agent == ours, "{}", path.display());
        }
        seen += 1;
    }
    assert!(seen > 40);
}

/// The cases in `testdata/`.
#[test]
fn cases_keep_the_laws() {
    cases(&ClaudeCode);
}
