//! What is claimed, and where it is looked for.

use super::*;

#[test]
fn its_own_are_claimed_and_no_others() {
    let mut s = Session::default();
    let session = s.user("hi").bytes();
    let id = "5e551011-0000-4000-8000-00000000c0de";
    let places = [
        format!("/h/.claude/projects/-x/{id}.jsonl"),
        format!("/h/.claude/projects/-x/{id}/subagents/workflows/w/agent-a1.jsonl"),
        "/h/.claude/projects/-x/agent-a1.jsonl".into(),
    ];
    for place in &places {
        for broken in [&b""[..], b"\0\0\0\0", b"{\"par", b"\xef\xbb\xbf{}", b"{\"type\":\"new-kind\"}\n"] {
            assert_eq!(claimants(place, broken), ["claude-code"], "{place}");
        }
        // Another's, wherever it stands.
        assert_eq!(
            claimants(place, b"{\"type\":\"session\",\"id\":\"1\",\"timestamp\":\"2\",\"cwd\":\"/x\"}\n"),
            ["pi"]
        );
    }
    let firsts = [
        "{\"type\":\"summary\",\"summary\":\"x\",\"leafUuid\":\"1\"}",
        "{\"type\":\"file-history-snapshot\",\"messageId\":\"1\",\"snapshot\":{},\"isSnapshotUpdate\":false}",
        "{\"type\":\"queue-operation\",\"operation\":\"enqueue\",\"timestamp\":\"1\",\"sessionId\":\"2\",\"content\":\"x\"}",
        "{\"parentUuid\":null,\"isSidechain\":false,\"promptId\":\"1\",\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":\"cut o",
        "{\"torn\n{\"parentUuid\":null,\"isSidechain\":true}",
    ];
    for first in firsts.iter().map(|f| f.as_bytes()).chain([&*session]) {
        assert_eq!(claimants("/backup/copy.jsonl", first), ["claude-code"]);
        assert_eq!(claimants("/h/.pi/agent/sessions/--x--/2026-02-02T02-00-00-000Z_1.jsonl", first), ["claude-code"]);
        assert_eq!(claimants("/backup/copy.jsonl.bak", first), [""; 0]);
    }
    for other in [
        "",
        "{\"type\":\"user\",\"message\":{}}",
        "{\"uuid\":\"a1\",\"parentUuid\":null,\"sessionId\":\"e\",\"type\":\"user\",\"message\":{\"parts\":[]}}",
        "{\"display\":\"x\",\"pastedContents\":{},\"timestamp\":1,\"project\":\"/x\",\"sessionId\":\"2\"}",
        "{\"note\":\"\\\"parentUuid\\\":1,\\\"isSidechain\\\":\"}",
        "{\"a\":{\"parentUuid\":null,\"isSidechain\":false}}",
        "not json at all",
    ] {
        let sidecar = format!("/h/.claude/projects/-x/{id}/tool-results/{id}.jsonl");
        for place in ["/backup/copy.jsonl", "/h/.claude/history.jsonl", &sidecar] {
            assert!(!claimants(place, other.as_bytes()).contains(&"claude-code"), "{other}");
        }
    }
}

#[test]
fn places() {
    let stream = "/h/.claude/projects/-x/5e551011-0000-4000-8000-00000000c0de.jsonl";
    let id = "5e551011-0000-4000-8000-00000000c0de";
    let tree = Files(vec![stream, "/h/.claude/projects/-y/memory/x.md"]);
    let home = Places { home: Some("/h".into()), ..Places::default() };
    assert_eq!(ClaudeCode.known_places(&tree, &home), [Path::new("/h/.claude/projects")]);
    assert!(ClaudeCode.known_places(&tree, &Places::default()).is_empty());
    assert_eq!(ClaudeCode.resolve(id, &tree, &home), Some(vec![stream.into()]));
    assert_eq!(ClaudeCode.resolve(&id.replace('5', "6"), &tree, &home), None);
    assert_eq!(ClaudeCode.resolve("jp-c1", &tree, &home), None);
    let found = ClaudeCode.conversation(Path::new(stream), &tree, &home);
    assert_eq!((found.id.as_deref(), found.streams.len(), found.lock, found.times), (Some(id), 1, None, Times::Keep));
    assert!(found.appends && found.streams[0].asides.is_empty());
    assert_eq!(ClaudeCode.conversation(Path::new("/x/01-copy.jsonl"), &tree, &home).id, None);
    assert!(ClaudeCode.prunes(&Path::new(stream).with_extension("").join("tool-results")));
    assert!(!ClaudeCode.prunes(Path::new("/x/tool-results")) && !ClaudeCode.prunes(Path::new("/")));
    let dir = Path::new(stream).with_extension("").join("tool-results");
    let both = [dir.join("toolu_q.txt"), dir.join("toolu_q.json")];
    assert_eq!(ClaudeCode.sidecars(Path::new(stream), "toolu_q"), both);
    let agent = Path::new(stream).with_extension("").join("subagents/workflows/w/agent-1.jsonl");
    assert_eq!(ClaudeCode.sidecars(&agent, "toolu_q"), both);
    for bad in ["", "..", "../x", "a/b", "a\\b", "a:b", "C:"] {
        assert!(ClaudeCode.sidecars(Path::new(stream), bad).is_empty());
    }
}
