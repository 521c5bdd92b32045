//! What must hold of every case.

use crate::support::{cases, claimants, read, repair};

#[test]
fn a_case_is_repaired_in_one_go() {
    let mut cut = 0;
    for (format, path, limits) in cases() {
        let bytes = std::fs::read(&path).unwrap();
        if claimants(&path, &bytes).is_empty() {
            continue;
        }
        cut += u32::from(repair(format, &path, &bytes, &limits) != bytes);
    }
    assert!(cut > 20, "{cut} files were changed");
}

#[test]
fn it_does_not_matter_how_the_stream_comes_in() {
    for (format, path, limits) in cases() {
        let bytes = std::fs::read(&path).unwrap();
        let whole = read(format, &path, &bytes, &limits, usize::MAX);
        assert_eq!(read(format, &path, &bytes, &limits, 61).located, whole.located, "{}", path.display());
    }
}

/// What is found does not change where only the records that matter are looked at.
#[test]
fn what_does_not_matter_holds_nothing() {
    for (format, path, limits) in cases() {
        if format.framing() == unwedge::format::Framing::Document {
            continue;
        }
        let bytes = std::fs::read(&path).unwrap();
        // Blank lines in place of the others keep the numbers.
        let lines = bytes.split_inclusive(|b| *b == b'\n').map(|l| if format.matters(l) { l } else { b"\n" });
        let some: Vec<u8> = lines.flatten().copied().collect();
        let (some, all) = (read(format, &path, &some, &limits, 1 << 16), read(format, &path, &bytes, &limits, 1 << 16));
        assert_eq!(crate::support::shown(&some.located), crate::support::shown(&all.located), "{}", path.display());
    }
}

#[test]
fn cut_short_anywhere_it_neither_fails_nor_finds_more() {
    for (format, path, limits) in cases() {
        let bytes = std::fs::read(&path).unwrap();
        let all = read(format, &path, &bytes, &limits, usize::MAX).located.responses.len();
        for cut in (0..bytes.len()).step_by(97) {
            let some = read(format, &path, &bytes[..cut], &limits, usize::MAX).located.responses.len();
            assert!(some <= all, "{} at {cut}", path.display());
        }
    }
}

/// Bytes that were changed anyhow: no panic, and every part is still a literal of the document.
#[test]
fn damaged_anyhow_it_does_not_fail() {
    let mut state = 7_u64;
    let mut next = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % below
    };
    for (format, path, limits) in cases() {
        let bytes = std::fs::read(&path).unwrap();
        for _ in 0..60 {
            let mut damaged = bytes.clone();
            for _ in 0..=next(3) {
                let at = next(damaged.len());
                match next(4) {
                    0 => damaged[at] = b"\0\n\"\\{}[]:,x\xff7"[next(13)],
                    1 => drop(damaged.drain(at..(at + next(40)).min(damaged.len()))),
                    2 => {
                        let piece = damaged[at..(at + next(400)).min(damaged.len())].to_vec();
                        let to = next(damaged.len());
                        drop(damaged.splice(to..to, piece));
                    }
                    _ => {
                        // A value of another kind.
                        let word = [&b"null"[..], b"7", b"[]", b"{}", b"\"\"", b"true"][next(6)];
                        if let Some(colon) = damaged[at..].iter().position(|b| *b == b':') {
                            let from = at + colon + 1;
                            let end = damaged[from..].iter().position(|b| matches!(b, b',' | b'}')).unwrap_or(0);
                            drop(damaged.splice(from..from + end, word.iter().copied()));
                        }
                    }
                }
            }
            read(format, &path, &damaged, &limits, usize::MAX);
            claimants(&path, &damaged);
        }
    }
}
