//! The JSON view accepts what `serde_json` accepts, finds the same spans, and finds them with an index and without.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use unwedge::text::json::{Index, Kind, Node};
use unwedge::text::literal::{self, Encoding};

/// Values that are looked at in one input: each level is walked over again for those below it.
const MOST: usize = 400;

pub fn run(data: &[u8]) {
    let plain = Node::document(data);
    let mut index = Index::default();
    let indexed = Node::indexed(data, &mut index);
    let theirs = serde_json::from_slice::<&RawValue>(data);
    assert_eq!(plain.is_ok(), theirs.is_ok(), "{plain:?} {theirs:?}");
    let (plain, indexed, theirs) = match (plain, indexed, theirs) {
        (Ok(plain), Ok(indexed), Ok(theirs)) => (plain, indexed, theirs),
        (Err(plain), Err(indexed), _) => {
            assert_eq!(plain, indexed);
            assert!(plain.at <= data.len());
            return;
        }
        (plain, indexed, _) => panic!("{plain:?} {indexed:?}"),
    };
    assert_eq!(plain.raw(), theirs.get().as_bytes());
    let mut left = vec![(plain, indexed)];
    for _ in 0..MOST {
        let Some((plain, indexed)) = left.pop() else { break };
        same(data, plain, indexed);
        left.extend(plain.items().zip(indexed.items()));
        for ((key, value), (its_key, its_value)) in plain.entries().zip(indexed.entries()) {
            left.extend([(key, its_key), (value, its_value)]);
        }
    }
}

fn same(data: &[u8], plain: Node<'_>, indexed: Node<'_>) {
    let raw = plain.raw();
    assert_eq!((plain.range(), plain.kind()), (indexed.range(), indexed.kind()));
    assert_eq!(raw, &data[plain.range()]);
    assert_eq!(plain.items().count(), indexed.items().count());
    assert_eq!(plain.entries().count(), indexed.entries().count());
    for encoding in [Encoding::Plain, Encoding::Base64] {
        let measure = literal::measure(raw, encoding);
        assert_eq!(measure.is_ok(), plain.kind() == Kind::String);
        assert_eq!(plain.measure(encoding), measure);
        assert_eq!(indexed.measure(encoding), measure);
    }
    let theirs = serde_json::from_slice::<&RawValue>(raw).unwrap();
    assert_eq!(theirs.get().as_bytes(), raw);
    match plain.kind() {
        Kind::Array => {
            let items: Vec<&RawValue> = serde_json::from_slice(raw).unwrap();
            assert!(plain.items().map(|item| item.raw()).eq(items.iter().map(|item| item.get().as_bytes())));
        }
        Kind::Object => {
            // Not where a key has half of a surrogate pair.
            let Ok(entries) = serde_json::from_slice::<BTreeMap<String, &RawValue>>(raw) else { return };
            assert!(plain.entries().count() >= entries.len());
            for (key, value) in entries {
                assert_eq!(plain.get(&key).unwrap().raw(), value.get().as_bytes());
                assert_eq!(indexed.get(&key).unwrap().raw(), value.get().as_bytes());
            }
        }
        Kind::String => {
            if let Ok(text) = serde_json::from_slice::<String>(raw) {
                assert_eq!(plain.text().unwrap(), text);
                assert!(plain.is(&text) && !plain.is(&format!("{text}.")));
            }
            assert!(plain.text().is_some());
        }
        Kind::Number => assert_eq!(plain.whole_number(), theirs.get().parse().ok()),
        Kind::Bool => assert_eq!(plain.boolean(), serde_json::from_slice(raw).ok()),
        Kind::Null => assert_eq!(raw, b"null"),
    }
}
