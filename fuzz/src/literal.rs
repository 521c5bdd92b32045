//! Stored literals are measured and decoded as a slow reader does it, sixty-four bytes at a time or one.

use unwedge::text::json::{Index, Node};
use unwedge::text::literal::{self, Encoding};

use crate::slow;

pub fn run(data: &[u8]) {
    check(data);
    check(&[b"\"", data, b"\""].concat());
    // The same text at another place of a block, and as base64.
    let shift = data.first().map_or(0, |n| usize::from(*n) % 70);
    check(&[&b"\""[..], &b"x".repeat(shift), data, b"\""].concat());
    check(&slow::encode(data));
}

fn check(bytes: &[u8]) {
    let theirs = slow::decode(bytes);
    let ours = literal::decode(bytes, Encoding::Plain);
    assert_eq!(ours.as_ref().ok(), theirs.as_ref());
    let Some(text) = theirs else {
        let error = ours.unwrap_err();
        assert!(error.at <= bytes.len());
        assert_eq!(literal::measure(bytes, Encoding::Plain), Err(error.clone()));
        assert_eq!(literal::measure(bytes, Encoding::Base64), Err(error));
        assert!(Node::document(bytes).map_or(true, |node| node.measure(Encoding::Plain).is_err() || node.raw() != bytes));
        return;
    };
    let plain = literal::measure(bytes, Encoding::Plain).unwrap();
    assert_eq!((plain.size, plain.base64), (text.len() as u64, false));
    let inner = slow::base64(&text);
    let encoded = literal::measure(bytes, Encoding::Base64).unwrap();
    assert_eq!(encoded.base64, inner.is_some());
    let decoded = inner.unwrap_or(text);
    assert_eq!(encoded.size, decoded.len() as u64);
    assert_eq!(literal::decode(bytes, Encoding::Base64).unwrap(), decoded);
    let mut index = Index::default();
    let node = Node::indexed(bytes, &mut index).unwrap();
    assert_eq!(node.measure(Encoding::Plain), Ok(plain));
    assert_eq!(node.measure(Encoding::Base64), Ok(encoded));
}
