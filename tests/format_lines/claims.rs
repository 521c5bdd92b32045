use std::path::{Path, PathBuf};

use unwedge::format::{FORMATS, HEAD, Probe};

use super::support::{cases, contents};

/// The formats that claim a file.
fn claimants(path: &Path, bytes: &[u8]) -> Vec<&'static str> {
    let head = &bytes[..bytes.len().min(HEAD)];
    let candidates = FORMATS.iter().filter(|f| f.candidate(path));
    candidates.filter(|f| f.claims(&Probe { path, head })).map(|f| f.about().name).collect()
}

#[test]
fn every_case_has_one_claimant() {
    for case in cases() {
        for file in &case.files {
            // What cannot be unpacked shows nothing of itself, and is in its agent's folder.
            let bytes = contents(file).unwrap_or_default();
            assert_eq!(claimants(file, &bytes), [&*case.format], "{}", file.display());
        }
    }
}

#[test]
fn a_copy_is_known_by_its_first_line() {
    for case in cases() {
        for file in &case.files {
            let Some(bytes) = contents(file) else { continue };
            let name = file.file_name().unwrap().to_str().unwrap();
            let copy = PathBuf::from(format!("/elsewhere/copy{}", &name[name.find('.').unwrap()..]));
            assert_eq!(claimants(&copy, &bytes), [&*case.format], "{}", file.display());
        }
    }
}

#[test]
fn what_is_broken_is_claimed_in_the_agents_own_folder_alone() {
    let own = [
        ("codex", "/h/.codex/sessions/2026/12/01/rollout-2026-12-01T00-05-15-x.jsonl"),
        ("codex", "/h/.codex/sessions/2026/12/01/rollout-2026-12-01T00-05-15-x.jsonl.zst"),
        ("codex", "/h/.codex/archived_sessions/rollout-2026-12-01T00-05-15-x.jsonl.zst"),
        ("gemini", "/h/.gemini/tmp/demo/chats/session-2026-12-01T00-10-1c4bf908.jsonl"),
        ("gemini", "/h/.gemini/tmp/demo/chats/1c4bf908/x.jsonl"),
        ("gemini-json", "/h/.gemini/tmp/demo/chats/session-2026-12-01T00-10-1c4bf908.json"),
        ("qwen", "/h/.qwen/projects/-home-demo/chats/x.jsonl"),
    ];
    let broken: [&[u8]; 6] = [b"", b"\0\0\0\0", b"{\"timest", b"{}\n", b"not JSON\n", b"\x28\xb5\x2f\xfd"];
    for bytes in broken {
        for (format, path) in own {
            assert_eq!(claimants(Path::new(path), bytes), [format], "{path}");
        }
        for path in [
            "/elsewhere/x.jsonl",
            "/elsewhere/x.jsonl.zst",
            "/elsewhere/x.json",
            "/h/.codex/sessions/2026/rollout-x.jsonl",
            "/h/.codex/sessions/2026/12/01/other.jsonl",
            "/h/.codex/history.jsonl",
            "/h/.gemini/tmp/demo/logs.json",
            "/h/.gemini/tmp/demo/checkpoint-x.json",
            "/h/.gemini/tmp/demo/tool-outputs/session-x/chats/a/b/x.json",
            "/tmp/demo/chats/x.jsonl",
            "/h/.qwen/projects/-home-demo/x.jsonl",
            "/h/.qwen/tmp/x/chats/x.jsonl",
        ] {
            assert_eq!(claimants(Path::new(path), bytes), [""; 0], "{path}");
        }
    }
}

#[test]
fn lines_of_others_are_not_claimed() {
    let others: [&str; 10] = [
        // Claude Code
        r#"{"parentUuid":null,"isSidechain":false,"userType":"external","cwd":"/h","sessionId":"s","version":"2.1","type":"user","message":{"role":"user","content":"x"},"uuid":"u","timestamp":"t"}"#,
        r#"{"parentUuid":null,"isSidechain":false,"sessionId":"s","type":"user","message":{"role":"user","content":[{"type":"text","text":"parts"}]},"uuid":"u"}"#,
        r#"{"type":"summary","summary":"\"uuid\" \"parentUuid\" \"sessionId\"","leafUuid":"u"}"#,
        // pi
        r#"{"type":"session","version":3,"id":"i","timestamp":"t","cwd":"/h"}"#,
        // Copilot
        r#"{"type":"session.start","data":{"sessionId":"s"},"id":"i","timestamp":"t","parentId":null}"#,
        // a log, whose text speaks of all of them
        r#"{"timestamp":"t","type":"log","payload":"{\"type\":\"session_meta\",\"payload\":{}}"}"#,
        r#"{"timestamp":"t","level":"info","message":{"type":"session_meta","payload":{}}}"#,
        r#"{"sessionId":"s","events":[{"projectHash":"p","startTime":"t"}]}"#,
        r#"{"uuid":"u","parentUuid":"p","sessionId":"s","type":"user","text":"parts"}"#,
        r#"{"messages":[{"role":"user","content":"hi"}]}"#,
    ];
    for line in others {
        for path in ["/elsewhere/x.jsonl", "/elsewhere/x.json"] {
            let claimed = claimants(Path::new(path), format!("{line}\n").as_bytes());
            assert!(claimed.iter().all(|name| OTHERS.contains(name)), "{line}: {claimed:?}");
        }
    }
}

/// Formats that are not tested here, and may well claim their own.
const OTHERS: [&str; 3] = ["claude-code", "pi", "copilot"];

/// The first line may be longer than a head.
#[test]
fn a_head_that_ends_anywhere() {
    let long = "x".repeat(2 * HEAD);
    let lines = [
        ("codex", format!(r#"{{"timestamp":"t","type":"session_meta","payload":{{"base_instructions":"{long}"}}}}"#)),
        ("gemini", format!(r#"{{"sessionId":"s","projectHash":"p","startTime":"t","directories":["{long}"]}}"#)),
        (
            "qwen",
            format!(
                r#"{{"uuid":"u","parentUuid":null,"sessionId":"s","timestamp":"t","type":"user","message":{{"role":"user","parts":[{{"text":"{long}"}}]}}}}"#
            ),
        ),
    ];
    for (format, line) in &lines {
        assert_eq!(claimants(Path::new("/elsewhere/x.jsonl"), line.as_bytes()), [*format]);
        for end in 0..line.len().min(HEAD) {
            assert!(claimants(Path::new("/elsewhere/x.jsonl"), &line.as_bytes()[..end]).len() <= 1);
        }
    }
    // A rollout in another agent's folder is still a rollout.
    let strayed = Path::new("/h/.gemini/tmp/demo/chats/session-x.jsonl");
    assert_eq!(claimants(strayed, lines[0].1.as_bytes()), ["codex"]);
}
