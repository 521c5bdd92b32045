//! What is claimed, and where it is looked for.

use super::*;

#[test]
fn its_own_are_claimed_and_no_others() {
    let own = format!("/h/.pi/agent/sessions/--home-dev--/{NAME}");
    let own = [
        own.as_str(),
        &format!("/h/.omp/agent/sessions/--x--/{NAME}"),
        &format!("/h/.openclaw/agents/one/sessions/{NAME}"),
    ];
    for place in own {
        for broken in [
            &b""[..],
            b"\0\0\0",
            b"{\"type\":\"sess",
            b"\xef\xbb\xbf{\"type\"",
            b"{\"type\":\"message\",\"id\":\"1\"}\n",
        ] {
            assert_eq!(claimants(place, broken), ["pi"], "{place}");
        }
        assert_eq!(claimants(place, b"{\"parentUuid\":null,\"isSidechain\":false}\n"), ["claude-code"]);
    }
    let mut files: Vec<Vec<u8>> = [1, 2, 3].map(|v| session(v).user().bytes()).into();
    files.push([b"\xef\xbb\xbf\r\n \n", &*files[2]].concat());
    for file in &files {
        assert_eq!(claimants("/backup/copy.jsonl", file), ["pi"]);
        assert_eq!(claimants("/h/.claude/projects/-x/5e551011-0000-4000-8000-00000000c0de.jsonl", file), ["pi"]);
        assert_eq!(claimants("/backup/copy.jsonl.bak", file), [""; 0]);
    }
    for other in [
        "",
        "{\"type\":\"session\"}",
        "{\"type\":\"session.start\",\"data\":{},\"id\":\"1\",\"timestamp\":\"2\"}",
        "{\"timestamp\":\"1\",\"type\":\"session_meta\",\"payload\":{\"id\":\"1\",\"cwd\":\"/x\"}}",
        "{\"type\":\"message\",\"id\":\"1\",\"parentId\":null}\n{\"type\":\"session\",\"id\":\"1\",\"timestamp\":\"2\",\"cwd\":\"/x\"}",
        "[{\"type\":\"session\",\"id\":\"1\",\"timestamp\":\"2\",\"cwd\":\"/x\"}]",
        "{\"header\":{\"type\":\"session\",\"id\":\"1\",\"timestamp\":\"2\",\"cwd\":\"/x\"}}",
    ] {
        for place in ["/backup/copy.jsonl", "/h/.pi/agent/sessions/--x--/notes.jsonl"] {
            assert!(!claimants(place, other.as_bytes()).contains(&"pi"), "{other}");
        }
    }
}

#[test]
fn places() {
    let home = Places { home: Some("/h".into()), ..Places::default() };
    let stream = PathBuf::from("/h/.pi/agent/sessions/--x--").join(NAME);
    let id = "01a22eec-0000-7000-8000-00000000c0de";
    let bak = format!("{}.bak", stream.display());
    let tree = Files(vec![stream.to_str().unwrap(), &bak]);
    assert_eq!(Pi.known_places(&tree, &home), [Path::new("/h/.pi/agent/sessions")]);
    assert_eq!(Pi.resolve(id, &tree, &home), Some(vec![stream.clone()]));
    assert_eq!(Pi.resolve(&id.replace('e', "f"), &tree, &home), None);
    assert_eq!(Pi.resolve("de", &tree, &home), None);
    let found = Pi.conversation(&stream, &tree, &home);
    assert_eq!((found.id.as_deref(), found.streams.len(), found.lock, found.times), (Some(id), 1, None, Times::Keep));
    assert!(found.appends);
    assert_eq!(Pi.conversation(Path::new("/x/02-copy.jsonl"), &tree, &home).id, None);
}
