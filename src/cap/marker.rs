//! The one marker: `... [truncated, 623 KB → 256 KB]`.
//!
//! Written and read here and nowhere else. Where it stands in a text, and what a text without it is, is for [`crate::text`].

use super::size::{ByteSize, Human};

pub(crate) const OPEN: &str = "... [truncated, ";
const ARROW: &str = " → ";
const CLOSE: &str = "]";

/// The longest line [`parse_line`] can accept, in bytes: two sizes of twenty digits and a unit.
pub const LONGEST: u64 = (OPEN.len() + ARROW.len() + CLOSE.len()) as u64 + 2 * 22;

/// The shortest marker, in bytes: two sizes of one digit and a unit.
pub const SHORTEST: u64 = (OPEN.len() + ARROW.len() + CLOSE.len()) as u64 + 2 * 3;

/// The marker of a text of `a` bytes of which `b` are delivered, marker included.
#[must_use]
pub fn render(a: u64, b: u64) -> String {
    let (a, b) = sizes(a, b);
    format!("{OPEN}{a}{ARROW}{b}{CLOSE}")
}

/// The length of [`render`]`(a, b)` in bytes, without making it.
#[must_use]
pub fn length(a: u64, b: u64) -> u64 {
    let (a, b) = sizes(a, b);
    (OPEN.len() + ARROW.len() + CLOSE.len()) as u64 + a.len() + b.len()
}

/// Both sizes as they are printed: in bytes where they would read the same.
fn sizes(a: u64, b: u64) -> (Human, Human) {
    let (human_a, human_b) = (Human::of(a), Human::of(b));
    if human_a == human_b { (Human::bytes(a), Human::bytes(b)) } else { (human_a, human_b) }
}

/// Reads a line, without its newline, as a marker: A in bytes (rounded as it was printed) and the text of B.
/// `None` where it is none, or where A is not more than B. Whether B is true is another question: see [`reads`].
#[must_use]
pub fn parse_line(line: &str) -> Option<(u64, &str)> {
    let (a, b) = line.strip_prefix(OPEN)?.strip_suffix(CLOSE)?.split_once(ARROW)?;
    let (a, b_bytes) = (size(a)?, size(b)?);
    (a > b_bytes).then_some((a, b))
}

/// Whether B, as printed, is true of a size in bytes.
#[must_use]
pub fn reads(b: &str, size: u64) -> bool {
    [Human::of(size), Human::bytes(size)].iter().any(|human| human.to_string() == b)
}

/// A size spelled as markers spell it: no leading zero, one blank, a decimal with MB and GB and nowhere else.
fn size(text: &str) -> Option<u64> {
    let (number, unit) = text.split_once(' ')?;
    let whole = match unit {
        "B" | "KB" => number,
        "MB" | "GB" => {
            let (whole, tenth) = number.split_once('.')?;
            if tenth.len() != 1 {
                return None;
            }
            whole
        }
        _ => return None,
    };
    if !whole.bytes().all(|byte| byte.is_ascii_digit()) || (whole.len() > 1 && whole.starts_with('0')) {
        return None;
    }
    // What is left to refuse (no digits, an overflow) is no size either.
    text.parse().ok().map(|ByteSize(n)| n)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_bounds_are_reached() {
        assert_eq!(SHORTEST, length(1, 0));
        let longest = format!("{OPEN}{} B{ARROW}{} B{CLOSE}", u64::MAX, u64::MAX - 1);
        assert!(parse_line(&longest).is_some());
        assert_eq!(LONGEST, longest.len() as u64);
    }

    #[test]
    fn near_misses_are_text() {
        for (a, b) in [
            ("01 KB", "9 B"),
            ("1  KB", "9 B"),
            ("1 KB ", "9 B"),
            (" 1 KB", "9 B"),
            ("1\tKB", "9 B"),
            ("1 kb", "9 B"),
            ("1 KiB", "9 B"),
            ("1.0 KB", "9 B"),
            ("1.25 MB", "9 B"),
            ("1. MB", "9 B"),
            (".1 MB", "9 B"),
            ("1 MB", "9 B"),
            ("01.1 MB", "9 B"),
            ("1.٣ MB", "9 B"),
            ("+1 KB", "9 B"),
            ("1 KB", "-9 B"),
            ("1 KB", ""),
            ("1 KB", "9 B → 9 B"),
            ("9 B", "9 B"),
        ] {
            assert_eq!(parse_line(&format!("{OPEN}{a}{ARROW}{b}{CLOSE}")), None, "{a} {b}");
        }
        assert_eq!(parse_line("... [truncated, 0.1 GB → 0 B]"), Some((107_374_182, "0 B")));
    }

    proptest! {
        #[test]
        fn what_is_rendered_is_read_back(a in any::<u64>(), shift in 0_u32..64, less in 0_u32..64) {
            let a = a >> shift;
            let b = a >> less;
            let marker = render(a, b);
            prop_assert_eq!(marker.len() as u64, length(a, b));
            prop_assert!(length(a, b) <= LONGEST);
            prop_assert!(length(a, b) >= length(a, 0));
            if let Some((_, text)) = parse_line(&marker) {
                prop_assert!(reads(text, b));
            } else {
                prop_assert_eq!(a, b);
            }
        }
    }
}
