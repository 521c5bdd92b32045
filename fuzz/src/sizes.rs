//! Sizes, limits and markers as they are typed and as they are read from files.

use unwedge::cap::limits::{LEAST, Limit};
use unwedge::cap::marker;
use unwedge::cap::size::ByteSize;

use crate::input::Input;

pub fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Ok(size) = text.parse::<ByteSize>() {
        assert_eq!(size.canonical().parse(), Ok(size));
        let human = size.human();
        // The greatest ones round up to more than there are.
        assert!(human.parse::<ByteSize>().map_or(size.0 > u64::MAX - (1 << 30), |read| read.human() == human));
        assert_eq!(text.to_ascii_uppercase().parse(), Ok(size));
        assert_eq!(text.parse::<Limit>().is_ok(), size.0 >= LEAST);
    }
    if let Ok(limit) = text.parse::<Limit>() {
        assert_eq!(limit.canonical().parse(), Ok(limit));
    }
    if let Some((a, b)) = marker::parse_line(&text) {
        assert!(data.len() as u64 <= marker::LONGEST && data.len() as u64 >= marker::SHORTEST);
        assert!(text.ends_with(&format!("{b}]")));
        let b: ByteSize = b.parse().unwrap();
        assert!(a > b.0);
        assert!(marker::render(a, b.0).len() as u64 == marker::length(a, b.0));
    }
    let mut input = Input(data);
    let (a, b) = (input.number(), input.number());
    let made = marker::render(a, b);
    assert_eq!(made.len() as u64, marker::length(a, b));
    match marker::parse_line(&made) {
        Some((_, text)) => assert!(marker::reads(text, b)),
        // One that would claim to have grown, or not to have changed.
        None => assert!(a <= b || a > u64::MAX - (1 << 30)),
    }
}
