//! The laws of sections 1 to 4 of the behaviour page, over generated texts, literals and batches.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod given;
mod slow;
mod units;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use given::{PIECES, allowance, base64ed, characters, is_unicode, keep, parts, store, stored};
use proptest::prelude::*;
use slow::{IMAGE, Text, codes, size, total, utf8};
use unwedge::cap::batch::{Budget, Member, budget};
use unwedge::cap::limits::{Keep, LEAST};
use unwedge::cap::size::ByteSize;
use unwedge::text::cut::{self, Cut};
use unwedge::text::literal::{Encoding, decode, measure};

/// Cuts stored parts: `None` stands for an image, and in the result for a part that stays.
fn cut_stored(stored: &[Option<Vec<u8>>], encoding: Encoding, allowance: u64, keep: Keep) -> Vec<Option<Cut>> {
    let part = |literal: Option<_>| literal.map_or(cut::Part::Opaque, |literal| cut::Part::Text { literal, encoding });
    let parts: Vec<_> = stored.iter().map(|literal| part(literal.as_deref())).collect();
    cut::cut(&parts, allowance, keep).unwrap()
}

/// The literals after the cut.
fn after(stored: &[Option<Vec<u8>>], cuts: &[Option<Cut>]) -> Vec<Option<Vec<u8>>> {
    let new =
        |(old, cut): (&Option<Vec<u8>>, &Option<Cut>)| cut.as_ref().map(|cut| cut.literal.clone()).or(old.clone());
    stored.iter().zip(cuts).map(new).collect()
}

fn charge(stored: &[Option<Vec<u8>>], of: impl Fn(&[u8]) -> u64) -> u64 {
    stored.iter().map(|literal| literal.as_deref().map_or(IMAGE, &of)).sum()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

    /// Cutting literals is cutting their texts, the kept text is the longest that fits, and the kept bytes are the
    /// literal's own.
    #[test]
    fn the_cut_is_the_slow_one(parts in parts(), keep in keep(), pick in any::<u64>(), near in any::<u64>(), seed in any::<u64>()) {
        let allowance = allowance(&parts, keep, pick, near);
        let expected = slow::cut(&parts, allowance, keep);
        let old = store(&parts, Encoding::Plain, seed);
        let cuts = cut_stored(&old, Encoding::Plain, allowance, keep);
        let new = after(&old, &cuts);
        for (((old, cut), new), (before, expected)) in old.iter().zip(&cuts).zip(&new).zip(parts.iter().zip(&expected)) {
            let (Some(old), Some(new), Some(before), Some(expected)) = (old, new, before, expected) else { continue };
            prop_assert_eq!(decode(old, Encoding::Plain).unwrap(), utf8(before));
            prop_assert_eq!(decode(new, Encoding::Plain).unwrap(), utf8(expected));
            let Some(cut) = cut else {
                prop_assert_eq!(before, expected);
                continue;
            };
            prop_assert_eq!((cut.before, cut.after), (size(before), size(expected)));
            prop_assert!(cut.after < cut.before);
            let at = find(new, cut.marker.as_bytes(), keep);
            let (head, tail) = (&new[..at], &new[at + cut.marker.len()..]);
            prop_assert!(old.starts_with(head) || old.starts_with(head.strip_suffix(b"\\n").unwrap()));
            prop_assert!(old.ends_with(tail) || old.ends_with(tail.strip_prefix(b"\\n").unwrap()));
            prop_assert!(is_whole(cut.head, before.iter()) && is_whole(cut.tail, before.iter().rev()));
            prop_assert!(cut.head + cut.tail < cut.before);
        }
        if is_unicode(&parts) {
            let old = store(&parts, Encoding::Base64, 0);
            let new = after(&old, &cut_stored(&old, Encoding::Base64, allowance, keep));
            let canonical: Vec<_> = expected.iter().map(|part| part.as_ref().map(|text| base64ed(text))).collect();
            prop_assert_eq!(new, canonical);
        }
    }

    /// Never over the allowance unless at the floor; nothing is made longer, emptied, added or moved; a second cut changes
    /// nothing; what fits is not touched.
    #[test]
    fn a_cut_holds(parts in parts(), keep in keep(), pick in any::<u64>(), near in any::<u64>(), seed in any::<u64>()) {
        let allowance = allowance(&parts, keep, pick, near);
        let old = store(&parts, Encoding::Plain, seed);
        let sizes = |literals: &[Option<Vec<u8>>]| charge(literals, |literal| measure(literal, Encoding::Plain).unwrap().size);
        let floor = charge(&old, |literal| measure(literal, Encoding::Plain).unwrap().floor(keep));
        let cuts = cut_stored(&old, Encoding::Plain, allowance, keep);
        let new = after(&old, &cuts);
        prop_assert_eq!(sizes(&old), total(&parts));
        prop_assert!(sizes(&new) <= allowance.max(floor));
        prop_assert!(sizes(&new) >= floor && sizes(&new) <= sizes(&old));
        prop_assert_eq!(cuts.iter().all(Option::is_none), sizes(&old) <= allowance || floor == sizes(&old));
        prop_assert_eq!(cuts.len(), parts.len());
        for (old, new) in old.iter().zip(&new) {
            prop_assert_eq!(old.is_some(), new.is_some());
            prop_assert_eq!(old.as_deref() == Some(b"\"\""), new.as_deref() == Some(b"\"\""));
        }
        let again = cut_stored(&new, Encoding::Plain, allowance, keep);
        prop_assert!(again.iter().all(Option::is_none), "{:?}", again);

        let lower = if allowance == 0 { 0 } else { seed % (allowance + 1) };
        let less = after(&old, &cut_stored(&old, Encoding::Plain, lower, keep));
        prop_assert!(sizes(&less) <= sizes(&new));
        if keep != Keep::Both {
            let twice = after(&new, &cut_stored(&new, Encoding::Plain, lower, keep));
            prop_assert_eq!(twice, less);
        }
    }

    /// One text with one end kept: no longer kept text has a true B within the allowance. Tried one by one, without shares.
    #[test]
    fn one_text_keeps_most(text in characters(300), tail in any::<bool>(), allowance in LEAST..260) {
        let keep = if tail { Keep::Tail } else { Keep::Head };
        let old = [Some(stored(&text, 0))];
        let cuts = cut_stored(&old, Encoding::Plain, allowance, keep);
        let Some(cut) = &cuts[0] else {
            prop_assert!(size(&text) <= allowance);
            return Ok(());
        };
        let newline = u32::from(b'\n');
        let best = (1..text.len()).rev().find_map(|count| {
            let kept = if tail { &text[text.len() - count..] } else { &text[..count] };
            let joint = if tail { kept.first() } else { kept.last() } != Some(&newline);
            let rest = size(kept) + u64::from(joint);
            let b = (rest..=allowance).find(|b| rest + slow::marker(size(&text), *b).len() as u64 == *b)?;
            Some((size(kept), b))
        });
        let bare = slow::marker(size(&text), 0).len() as u64;
        prop_assert_eq!(best.unwrap_or((0, bare)), (cut.head + cut.tail, cut.after));
    }

    /// Any bytes between quotes are a JSON string or an error, by the judgement of another reader.
    #[test]
    fn literals_are_json(pieces in prop::collection::vec(prop::sample::select(PIECES.to_vec()), 0..12), keep in keep()) {
        let literal = [b"\"", pieces.concat().as_slice(), b"\""].concat();
        let theirs = serde_json::from_slice::<String>(&literal).ok();
        for encoding in [Encoding::Plain, Encoding::Base64] {
            let ours = decode(&literal, encoding);
            let measured = measure(&literal, encoding);
            prop_assert_eq!(ours.as_ref().map(|text| text.len() as u64), measured.as_ref().map(|m| m.size));
            let cuts = cut::cut(&[cut::Part::Text { literal: &literal, encoding }], 1, keep);
            prop_assert_eq!(ours.is_err(), cuts.is_err());
            match (ours, encoding) {
                (Ok(ours), Encoding::Plain) => prop_assert_eq!(String::from_utf8(ours).ok(), theirs.clone()),
                (Ok(_), Encoding::Base64) => {}
                (Err(error), _) => {
                    prop_assert!(theirs.is_none());
                    prop_assert!(error.at <= literal.len());
                }
            }
        }
    }

    #[test]
    fn sizes_survive(n in any::<u64>(), shift in 0_u32..64) {
        let size = ByteSize(n >> shift);
        prop_assert_eq!(size.canonical().parse(), Ok(size));
        prop_assert_eq!(size.human(), slow::human(size.0));
        let rounded: ByteSize = size.human().parse().unwrap();
        prop_assert_eq!(rounded.human(), size.human());
    }

    #[test]
    fn a_batch_is_fair(
        members in prop::collection::vec((0_u64..3000, prop::option::of(prop::sample::select(vec![100_u64, 700, 1500])), prop::sample::select(vec![0_u64, 30, 200, 5000])), 0..9),
        ceiling in LEAST..9000,
        turn in any::<usize>(),
    ) {
        let members: Vec<Member> =
            members.into_iter().map(|(size, threshold, floor)| Member { size, threshold, floor: floor.min(size) }).collect();
        let got = budget(&members, Some(ceiling));
        let sum: u64 = got.planned.iter().sum();
        prop_assert_eq!(got.still_over, sum > ceiling);

        // Order does not matter.
        let mut turned: Vec<(Member, Option<u64>)> = members.iter().copied().zip(got.allowances.iter().copied()).collect();
        let turns = turn % turned.len().max(1);
        turned.rotate_left(turns);
        turned.reverse();
        let (order, allowances): (Vec<Member>, Vec<Option<u64>>) = turned.into_iter().unzip();
        prop_assert_eq!(&budget(&order, Some(ceiling)).allowances, &allowances);

        // The level is the greatest that fits, and holds all alike.
        let at = |level: u64| -> u64 {
            members.iter().map(|m| m.size.min(m.threshold.unwrap_or(u64::MAX)).min(level).max(m.floor)).sum()
        };
        match got.level {
            None => prop_assert!(at(u64::MAX) <= ceiling),
            Some(level) => {
                prop_assert!(level >= LEAST && at(u64::MAX) > ceiling);
                prop_assert!(at(level + 1) > ceiling);
                prop_assert!(at(level) <= ceiling || level == LEAST);
                prop_assert_eq!(sum, at(level));
            }
        }
        for (member, held) in members.iter().zip(&got.allowances) {
            let limit = member.threshold.into_iter().chain(got.level).min();
            prop_assert_eq!(*held, limit.filter(|limit| member.size > *limit));
        }

        // A lower ceiling never gives more, and what was planned needs nothing further.
        let lower: u64 = budget(&members, Some(ceiling / 2 + LEAST / 2)).planned.iter().sum();
        prop_assert!(lower <= sum);
        let done: Vec<Member> = members.iter().zip(&got.planned).map(|(m, size)| Member { size: *size, ..*m }).collect();
        let Budget { planned, .. } = budget(&done, Some(ceiling));
        prop_assert_eq!(planned, got.planned);
    }
}

/// Where a marker stands: the last one like it where the head was kept, else the first.
fn find(text: &[u8], marker: &[u8], keep: Keep) -> usize {
    let is_it = |window: &[u8]| window == marker;
    let mut windows = text.windows(marker.len());
    if keep == Keep::Head { windows.rposition(is_it).unwrap() } else { windows.position(is_it).unwrap() }
}

/// Whether so many bytes are a number of whole characters.
fn is_whole<'a>(bytes: u64, mut codes: impl Iterator<Item = &'a u32>) -> bool {
    let mut sum = 0;
    bytes == 0
        || codes.any(|code| {
            sum += slow::width(*code);
            sum == bytes
        })
}

/// Long enough for marks and for base64 in several chunks.
#[test]
fn long_texts_are_cut_alike() {
    let unit = codes("row 界\t\"é\" 😀\n");
    let text: Text = unit.iter().cycle().take(20_000).copied().collect();
    for keep in [Keep::Head, Keep::Tail, Keep::Both] {
        for allowance in [200, 20_001] {
            let expected = slow::cut(&[Some(text.clone())], allowance, keep);
            let expected = expected[0].as_ref().unwrap();
            for seed in [1, 2] {
                let old = [Some(stored(&text, seed))];
                let new = after(&old, &cut_stored(&old, Encoding::Plain, allowance, keep));
                assert_eq!(decode(new[0].as_ref().unwrap(), Encoding::Plain).unwrap(), utf8(expected));
            }
            let old = [Some(base64ed(&text))];
            let new = after(&old, &cut_stored(&old, Encoding::Base64, allowance, keep));
            assert_eq!(new[0].as_ref().unwrap(), &base64ed(expected));
            // The same characters, every one of them escaped: still base64, and its kept groups are still its own.
            let spelled: String = STANDARD.encode(utf8(&text)).bytes().map(|byte| format!("\\u{byte:04x}")).collect();
            let old = [Some(format!("\"{spelled}\"").into_bytes())];
            let cuts = cut_stored(&old, Encoding::Base64, allowance, keep);
            let cut = cuts[0].as_ref().unwrap();
            let own = 1 + 6 * 4 * usize::try_from(cut.head / 3).unwrap();
            assert_eq!(cut.literal[..own], old[0].as_ref().unwrap()[..own]);
            assert_eq!(decode(&cut.literal, Encoding::Base64).unwrap(), utf8(expected));
        }
    }
}

/// The search is neither linear in the text nor quadratic in the parts: this would not end otherwise.
#[test]
fn ten_thousand_parts() {
    for length in [25, 31, 100] {
        let literal = format!("\"{}\"", "x".repeat(length)).into_bytes();
        let part = cut::Part::Text { literal: &literal, encoding: Encoding::Plain };
        let all = vec![part; 10_000];
        let size = length as u64 * 10_000;
        for keep in [Keep::Head, Keep::Tail, Keep::Both] {
            let floor = 10_000 * measure(&literal, Encoding::Plain).unwrap().floor(keep);
            for allowance in [1, floor + 100, floor.midpoint(size)] {
                let cuts = cut::cut(&all, allowance, keep).unwrap();
                let delivered: u64 = cuts.iter().map(|cut| cut.as_ref().map_or(length as u64, |cut| cut.after)).sum();
                assert!(delivered <= allowance.max(floor), "{length} {keep:?} {allowance}: {delivered}");
                assert!(delivered + 200 > allowance.min(size), "{length} {keep:?} {allowance}: {delivered}");
            }
        }
    }
}

#[test]
fn a_bad_part_is_an_error_wherever_it_stands() {
    let good = cut::Part::Text { literal: b"\"good\"", encoding: Encoding::Plain };
    let bad = cut::Part::Text { literal: b"\"b\\ad\"", encoding: Encoding::Plain };
    for parts in [[good, bad], [bad, good]] {
        let error = cut::cut(&parts, 1000, Keep::Head).unwrap_err();
        assert_eq!((error.at, error.what), (2, "an unknown escape"));
    }
}
