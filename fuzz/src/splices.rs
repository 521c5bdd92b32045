//! Replacements: what lies outside is copied, however they are read; what cannot be is refused.

use std::convert::Infallible;
use std::io::{ErrorKind, Read};
use std::ops::Range;

use unwedge::text::splice::{Splice, Splices};

use crate::input::Input;

pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let count = input.byte() % 8;
    let inside = input.byte() % 4 > 0;
    let lens: Vec<(u64, u64, usize)> =
        (0..count).map(|_| (input.number(), input.number(), usize::from(input.byte() % 32))).collect();
    let (wanted, step) = (input.number()..input.number(), usize::from(input.byte()) + 1);
    let old = input.0;
    let mut at = 0;
    let mut splices = Vec::new();
    for (gap, len, new) in lens {
        // In order and inside of the document, or anywhere.
        let range = if inside {
            let start = (at + gap % 40).min(old.len() as u64);
            start..(start + len % 40).min(old.len() as u64)
        } else {
            gap..len
        };
        at = range.end;
        let new = old.iter().rev().copied().cycle().take(if old.is_empty() { 0 } else { new }).collect();
        splices.push(Splice { range, new });
    }
    let well_formed = splices.iter().all(|s| s.range.start <= s.range.end);
    let mut sorted: Vec<Range<u64>> = splices.iter().map(|s| s.range.clone()).collect();
    sorted.sort_by_key(|range| (range.start, range.end));
    let disjoint = well_formed && sorted.windows(2).all(|pair| pair[0].end <= pair[1].start);
    let made = Splices::new(splices.clone());
    assert_eq!(made.is_ok(), disjoint);
    let Ok(made) = made else { return };
    splices.sort_by_key(|s| (s.range.start, s.range.end));
    assert!(made.iter().eq(&splices));
    assert_eq!(made.is_empty(), splices.is_empty());

    let mut written = Vec::new();
    let applied = made.apply(&mut &*old, &mut written);
    let fits = splices.last().is_none_or(|s| s.range.end <= old.len() as u64);
    assert_eq!(applied.is_ok(), fits);
    assert_eq!(made.new_len(old.len() as u64), applied.as_ref().ok().copied());
    let _ = made.new_ranges().count();
    if !fits {
        assert_eq!(applied.unwrap_err().kind(), ErrorKind::UnexpectedEof);
        return;
    }
    let expected = slowly(old, &splices);
    assert_eq!(written, expected);

    // Read in steps of any size it is the same document.
    let mut stepped = Vec::new();
    let mut document = old;
    let mut reader = made.reader(&mut document);
    let mut buffer = vec![0; step];
    loop {
        match reader.read(&mut buffer).unwrap() {
            0 => break,
            n => stepped.extend_from_slice(&buffer[..n]),
        }
    }
    assert_eq!(stepped, expected);

    let mut read_old = |r: Range<u64>| Ok::<_, Infallible>(old[clamp(&r, old.len())].to_vec());
    let part = made.read_new(wanted.clone(), &mut read_old).unwrap();
    assert_eq!(part, expected[clamp(&wanted, expected.len())]);
    for (splice, range) in splices.iter().zip(made.new_ranges()) {
        assert_eq!(expected[clamp(&range, expected.len())], splice.new);
    }

    let mut stays = Vec::new();
    let narrow = splices.iter().cloned().map(|mut splice| {
        stays.push(splice.narrow(&old[clamp(&splice.range, old.len())]));
        splice
    });
    let narrow = Splices::new(narrow.collect()).unwrap();
    assert_eq!(slowly(old, &narrow.iter().cloned().collect::<Vec<_>>()), expected);
    for ((range, (before, after)), whole) in narrow.new_ranges().zip(stays).zip(made.new_ranges()) {
        assert_eq!(range.start - before..range.end + after, whole);
    }
}

fn clamp(range: &Range<u64>, len: usize) -> Range<usize> {
    let end = usize::try_from(range.end).unwrap_or(len).min(len);
    usize::try_from(range.start).unwrap_or(len).min(end)..end
}

fn slowly(old: &[u8], splices: &[Splice]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut from = 0;
    for splice in splices {
        out.extend_from_slice(&old[from..splice.range.start as usize]);
        out.extend_from_slice(&splice.new);
        from = splice.range.end as usize;
    }
    out.extend_from_slice(&old[from..]);
    out
}
