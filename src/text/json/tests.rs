use super::*;
use proptest::prelude::*;
use serde_json::value::RawValue;

fn error(doc: &[u8]) -> (usize, &'static str) {
    let e = Node::document(doc).unwrap_err();
    (e.at, e.what)
}

#[test]
fn navigates_by_spans() {
    let doc = br#" {"a": [1, {"b": "x\"y"}, [], {} , "z"], "a\u0062": -1.5E+3, "a": [true, null]} "#;
    let root = Node::document(doc).unwrap();
    assert_eq!(root.kind(), Kind::Object);
    let keys: Vec<_> = root.entries().map(|(k, _)| k.text().unwrap().into_owned()).collect();
    assert_eq!(keys, ["a", "ab", "a"]);
    // The last of two equal keys wins.
    let a: Vec<_> = root.get("a").unwrap().items().map(|n| n.raw()).collect();
    assert_eq!(a, [&b"true"[..], b"null"]);
    let first = root.entries().next().unwrap().1;
    assert_eq!(
        first.items().map(|n| n.kind()).collect::<Vec<_>>(),
        [Kind::Number, Kind::Object, Kind::Array, Kind::Object, Kind::String]
    );
    let inner = first.items().nth(1).unwrap().get("b").unwrap();
    assert_eq!(&doc[inner.range()], br#""x\"y""#);
    assert!(inner.is("x\"y") && !inner.is("x"));
    assert!(root.get("ab").unwrap().whole_number().is_none());
    assert!(root.items().next().is_none() && inner.entries().next().is_none());
}

#[test]
fn depth_costs_no_stack() {
    let n = 100_000;
    let doc = [b"[{\"a\":".repeat(n), b"1".to_vec(), b"}]".repeat(n)].concat();
    let root = Node::document(&doc).unwrap();
    assert_eq!(root.items().count(), 1);
    assert_eq!(Node::document(&doc[..doc.len() - 1]).unwrap_err().what, "the text ends before the JSON value does");
}

#[test]
fn ordinary_but_odd() {
    for ok in
        [&br#"["\ud83d"]"#[..], b"[1e400]", b"[123456789012345678901234567890]", b"[-0]", b"\r\n[]\r\n", b"\"\"", b"7"]
    {
        assert!(Node::document(ok).is_ok(), "{}", String::from_utf8_lossy(ok));
    }
    assert_eq!(Node::document(br#""\ud83d""#).unwrap().text().unwrap(), "\u{fffd}\u{fffd}\u{fffd}");
}

#[test]
fn errors_say_where() {
    assert_eq!(error(b""), (0, "the text ends before the JSON value does"));
    assert_eq!(error(b"[1,]"), (3, "expected a JSON value"));
    assert_eq!(error(b"{\"a\":1,}"), (7, "expected a key in quotes"));
    assert_eq!(error(b"{\"a\" 1}"), (5, "expected `:`"));
    assert_eq!(error(b"[1 2]"), (3, "expected `,` or `]`"));
    assert_eq!(error(b"{\"a\":1]"), (6, "expected `,` or `}`"));
    assert_eq!(error(b"[]x"), (2, "more after the end of the JSON value"));
    assert_eq!(error(b"[\"a\nb\"]"), (3, "a raw control character inside a string"));
    assert_eq!(error(b"[\"a\\x\"]"), (3, "an escape that JSON does not have"));
    assert_eq!(error(b"[\"ab"), (4, "the text ends inside a string"));
    assert_eq!(error(b"[\"a\xff\"]"), (3, "bytes that are not UTF-8"));
    assert_eq!(error(b"\xef\xbb\xbf[]"), (0, "expected a JSON value"));
    assert_eq!(error(b"[01]"), (2, "expected `,` or `]`"));
    assert_eq!(error(b"[1.]"), (3, "expected a digit"));
    assert_eq!(error(b"[tru]"), (1, "expected a JSON value"));
}

/// Text that is JSON, nearly JSON, or not at all.
fn texts() -> impl Strategy<Value = String> {
    let token = prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"a\"",
        "\"\\\"\"",
        "\"\\ud83d\"",
        "\"\\u12\"",
        "\"",
        "\\",
        "1",
        "-0",
        "1.5e-7",
        "01",
        "1.",
        "true",
        "nul",
        "null",
        " ",
        "\n",
        "\u{1}",
        "é",
        "{\"k\":[1,{}]}",
        "[\"x\",null]",
    ]);
    prop::collection::vec(token, 0..14).prop_map(|t| t.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    /// The same is accepted as by `serde_json`'s borrowed values, and the same spans come out.
    #[test]
    fn agrees_with_serde_json(text in texts()) {
        let ours = Node::document(text.as_bytes());
        let theirs = serde_json::from_str::<&RawValue>(&text);
        prop_assert_eq!(ours.is_ok(), theirs.is_ok(), "{:?} {:?}", ours, theirs);
        let (Ok(ours), Ok(theirs)) = (ours, theirs) else { return Ok(()) };
        prop_assert_eq!(ours.raw(), theirs.get().as_bytes());
        if let Ok(items) = serde_json::from_str::<Vec<&RawValue>>(&text) {
            prop_assert_eq!(ours.items().map(|n| n.raw()).collect::<Vec<_>>(), items.iter().map(|r| r.get().as_bytes()).collect::<Vec<_>>());
        }
        if let Ok(map) = serde_json::from_str::<std::collections::BTreeMap<String, &RawValue>>(&text) {
            for (key, value) in map {
                prop_assert_eq!(ours.get(&key).unwrap().raw(), value.get().as_bytes());
            }
        }
    }

    /// Whatever bytes come in: no panic, and errors lie inside.
    #[test]
    fn any_bytes(doc in prop::collection::vec(any::<u8>(), 0..60)) {
        match Node::document(&doc) {
            Ok(node) => prop_assert!(node.range().end <= doc.len()),
            Err(e) => prop_assert!(e.at <= doc.len()),
        }
    }
}
