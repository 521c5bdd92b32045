//! The vectors and the corpus of `$UNWEDGE_SHARED`, against figures that were found without unwedge.
//!
//! Not among the tests that `cargo test` runs: it needs a folder that does not ship. `.ci/run` runs it where the folder is there.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that fails says so by panicking")]
#![allow(clippy::disallowed_methods, reason = "tests set up and change files")]
#![allow(dead_code, reason = "not all of the sandbox is needed here")]

#[path = "../it/sandbox.rs"]
mod sandbox;

use std::path::PathBuf;

use sandbox::{Sandbox, bytes, copy, snapshot};
use serde_json::Value;

fn shared() -> PathBuf {
    PathBuf::from(std::env::var_os("UNWEDGE_SHARED").expect("UNWEDGE_SHARED names the folder"))
}

/// A sandbox with a copy of a folder of the corpus.
fn corpus(name: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    copy(&shared().join("corpus").join(name), &sandbox.tree());
    sandbox
}

/// Sizes of all findings, largest first, and the number of responses that were measured.
fn sizes(report: &Value) -> Vec<u64> {
    let findings = report["files"].as_array().unwrap().iter().flat_map(|f| f["findings"].as_array().unwrap());
    let mut sizes: Vec<u64> = findings.map(|f| f["size"].as_u64().unwrap()).collect();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    sizes
}

#[test]
fn real_jp_conversations() {
    let sandbox = corpus("jp/real-checked-in");
    let report = sandbox.json(0, &["check", "."]);
    assert!(sizes(&report).is_empty());
    assert_eq!(report["files"].as_array().unwrap().len(), 21);
    assert_eq!(report["summary"]["responses"], 859);
    assert_eq!(sizes(&sandbox.json(1, &["check", ".", "--size-threshold", "64KB"])), [135_465, 97_089]);
    assert_eq!(sizes(&sandbox.json(1, &["check", ".", "--size-threshold", "128KB"])), [135_465]);
    assert_eq!(sizes(&sandbox.json(1, &["check", ".", "--size-threshold", "48KB"])), [135_465, 97_089, 61_866, 56_333]);
}

#[test]
fn generated_jp_conversations() {
    let sandbox = corpus("jp/generated-by-jp");
    let before = sandbox.snapshot();
    let report = sandbox.json(1, &["check", "."]);
    assert_eq!(sizes(&report), [637_962, 500_010, 500_010, 500_010, 500_010, 500_010]);
    sandbox.expect(0, &["fix", "."]);
    let spliced =
        std::fs::read(shared().join("corpus/jp/repaired-by-splice/conversations/17636257999/events.json")).unwrap();
    assert_eq!(std::fs::read(sandbox.tree().join("conversations/17636257999/events.json")).unwrap(), spliced);
    sandbox.expect(0, &["undo", "."]);
    assert_eq!(bytes(&sandbox.snapshot()), bytes(&before));
    // Without a threshold the batch itself is the finding.
    let sandbox = corpus("jp/generated-by-jp");
    let report = sandbox.json(0, &["fix", ".", "--size-threshold", "unlimited"]);
    let batch = report["files"]
        .as_array()
        .unwrap()
        .iter()
        .find(|f| f["path"].as_str().unwrap().contains("17636260000"))
        .unwrap();
    let delivered: Vec<u64> =
        batch["findings"].as_array().unwrap().iter().map(|f| f["delivered"].as_u64().unwrap()).collect();
    assert_eq!(delivered, [419_430; 5]);
    assert!(batch["findings"].as_array().unwrap().iter().all(|f| f["rule"] == "batch"));
}

/// Repairing `before` gives `after`, the cuts are those that are listed, and a second run changes nothing.
#[test]
fn golden_examples() {
    let root = shared().join("conformance/golden");
    let mut done = 0;
    for format in unwedge::format::FORMATS {
        let dir = root.join(format.about().name);
        if !dir.is_dir() {
            continue;
        }
        done += 1;
        let read = |name: &str| -> Value { serde_json::from_slice(&std::fs::read(dir.join(name)).unwrap()).unwrap() };
        let (limits, cuts) = (read("limits.json"), read("cuts.json"));
        let sandbox = Sandbox::new();
        let tree = match format.about().name {
            "jp" => "conversations",
            "claude-code" => ".claude/projects/-home-demo",
            _ => ".pi/agent/sessions/--home-demo--",
        };
        copy(&dir.join("before"), &sandbox.tree().join(tree));
        let mut args = vec!["fix".to_owned(), ".".into(), "--min-idle".into(), "0".into()];
        for (tool, limit) in limits["size_threshold"].as_object().unwrap() {
            args.extend([
                "--tool".into(),
                format!("{tool}={}", limit.as_str().map_or_else(|| limit.to_string(), str::to_owned)),
            ]);
        }
        args.extend([
            "--batch-ceiling".into(),
            limits["batch_ceiling"].as_str().unwrap().into(),
            "--keep".into(),
            limits["keep"].as_str().unwrap().into(),
        ]);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let report = sandbox.json(0, &args);
        assert_eq!(
            bytes(&snapshot(&sandbox.tree().join(tree))),
            bytes(&snapshot(&dir.join("after"))),
            "{}",
            dir.display()
        );
        let mut findings: Vec<&Value> = report["files"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|f| f["findings"].as_array().unwrap())
            .filter(|f| f["kind"] == "response")
            .collect();
        findings.sort_by_key(|f| f["place"]["line"].as_u64());
        let mut cuts: Vec<&Value> = cuts.as_array().unwrap().iter().collect();
        cuts.sort_by_key(|c| c["line"].as_u64());
        assert_eq!(findings.len(), cuts.len());
        for (finding, cut) in findings.iter().zip(cuts) {
            for key in ["tool", "call_id", "size", "limit", "delivered"] {
                assert_eq!(finding[key], cut[key], "{key} of {finding}");
            }
            assert_eq!((&finding["rule"], &finding["place"]["line"]), (&cut["why"], &cut["line"]));
        }
        let after = sandbox.snapshot();
        sandbox.expect(0, &args);
        assert_eq!(sandbox.snapshot(), after);
    }
    assert!(done > 0);
}
