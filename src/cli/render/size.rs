//! Sizes for people.

use unwedge::cap::size::ByteSize;

/// A size.
pub fn human(bytes: u64) -> String {
    ByteSize(bytes).human()
}

/// A size and what it is compared with: where one of those differs and would read the same, all are given in bytes.
pub fn compared<const N: usize>(size: u64, with: [u64; N]) -> (String, [String; N]) {
    if with.iter().any(|other| *other != size && human(*other) == human(size)) {
        let bytes = |n| format!("{n} B");
        return (bytes(size), with.map(bytes));
    }
    (human(size), with.map(human))
}

/// `1 response`, `2 responses`.
pub fn count(n: u64, one: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {one}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_sizes_read_differently() {
        let read = |size, with| {
            let (size, [a, b]) = compared(size, with);
            [size, a, b].join(" ")
        };
        assert_eq!(read(300_000, [262_144, 262_143]), "293 KB 256 KB 256 KB", "these two are not compared");
        assert_eq!(read(262_145, [262_144, 200_000]), "262145 B 262144 B 200000 B");
        assert_eq!(read(262_144, [262_144, 1]), "256 KB 256 KB 1 B");
        assert_eq!((count(1, "note"), count(0, "note")), ("1 note".into(), "0 notes".into()));
    }
}
