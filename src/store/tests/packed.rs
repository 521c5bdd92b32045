//! Documents that are stored as a Zstandard stream.

use std::io::Write as _;

use proptest::prelude::*;
use zstd::stream::write::Encoder;

use super::*;
use crate::store::Dry;

/// One frame, as Codex makes it or with more in its header.
fn frame(text: &[u8], checksum: bool, sized: bool) -> Vec<u8> {
    let mut encoder = Encoder::new(Vec::new(), 3).unwrap();
    encoder.include_checksum(checksum).unwrap();
    encoder.include_contentsize(sized).unwrap();
    encoder.set_pledged_src_size(sized.then_some(text.len() as u64)).unwrap();
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn skipped(len: u32) -> Vec<u8> {
    [&0x184d_2a5e_u32.to_le_bytes()[..], &len.to_le_bytes(), &vec![7; len as usize]].concat()
}

/// A bench whose document is this.
fn bench(stored: &[u8]) -> Bench {
    let bench = Bench::named("doc.jsonl.zst");
    let _alone = alone();
    std::fs::write(&bench.doc, stored).unwrap();
    bench
}

fn open(stored: &[u8]) -> (Bench, Source) {
    let bench = bench(stored);
    let source = Source::open_packed(&bench.doc).unwrap();
    (bench, source)
}

fn text(source: &Source) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    source.each_chunk(&mut |chunk| text.extend_from_slice(chunk)).map(|()| text)
}

/// A proof as `verify` gives it: of what was read, bound to the stored bytes that it came from.
fn proven(new: &mut dyn Written) -> Result<Verified> {
    let mut contents = Vec::new();
    new.read_to_end(&mut contents).unwrap();
    let (sha256, len) = new.stored().unwrap();
    Ok(Verified::unproven_packed(sha256, len, &contents))
}

fn packed_change<'a>(source: &'a Source, splices: &'a Splices) -> Change<'a> {
    Change { sha256: None, prove: &proven, carry: false, ..change(source, splices) }
}

/// What the stored bytes are, told by the reference implementation's own decoder.
fn unpacked(path: &Path) -> Vec<u8> {
    zstd::stream::decode_all(&*std::fs::read(path).unwrap()).unwrap()
}

#[test]
fn the_new_document_is_one_frame_with_the_header_of_the_old() {
    for (checksum, sized) in [(false, false), (true, false), (false, true), (true, true)] {
        let stored = frame(OLD.as_bytes(), checksum, sized);
        let bench = bench(&stored);
        let source = Source::open_packed(&bench.doc).unwrap();
        let store = bench.store(Options::default());
        let splices = splices();
        let commit = store.commit(packed_change(&source, &splices)).unwrap();
        assert_eq!(unpacked(&bench.doc), NEW.as_bytes());
        let now = std::fs::read(&bench.doc).unwrap();
        assert_eq!(now, frame(NEW.as_bytes(), checksum, sized), "the same header and the same level");
        assert_eq!(std::fs::read(commit.backup.unwrap()).unwrap(), stored, "the backup is the stored bytes");
        assert!(store.finish().errors.is_empty());
        let intent = &bench.run().documents[0].0;
        assert_eq!((intent.old.sha256, intent.new.sha256), (sha(&stored), sha(&now)));
    }
}

#[test]
fn the_whole_of_another_is_taken_as_it_is() {
    let bench = bench(&frame(OLD.as_bytes(), true, true));
    // No encoder of ours makes these bytes.
    let (first, rest) = NEW.split_at(9);
    let wanted = [skipped(3), frame(first.as_bytes(), true, false), frame(rest.as_bytes(), false, true)].concat();
    let other = bench.root.path().join("other");
    std::fs::write(&other, &wanted).unwrap();
    let (source, whole) = (Source::open_packed(&bench.doc).unwrap(), Source::open_packed(&other).unwrap());
    let splices = splices();
    let change = || Change { whole: Some(&whole), ..packed_change(&source, &splices) };
    Dry::default().commit(change()).unwrap();
    bench.store(Options::default()).commit(change()).unwrap();
    assert_eq!(std::fs::read(&bench.doc).unwrap(), wanted);
}

#[test]
fn a_proof_counts_for_the_stored_bytes_it_was_made_of_alone() {
    let stored = frame(OLD.as_bytes(), false, false);
    let bench = bench(&stored);
    let source = Source::open_packed(&bench.doc).unwrap();
    let splices = splices();
    // The contents are right. That they came from the stored bytes, nobody has said; or it was other stored bytes.
    let contents = |_: &mut dyn Written| Ok(Verified::unproven(NEW.as_bytes()));
    let other = |_: &mut dyn Written| Ok(Verified::unproven(&frame(NEW.as_bytes(), true, false)));
    for prove in [&contents as &dyn Fn(&mut dyn Written) -> Result<Verified>, &other] {
        let change = || Change { prove, ..packed_change(&source, &splices) };
        assert!(matches!(Dry::default().commit(change()), Err(Error::Unproven { .. })));
        assert!(matches!(bench.store(Options::default()).commit(change()), Err(Error::Unproven { .. })));
        assert_eq!(std::fs::read(&bench.doc).unwrap(), stored);
        assert_eq!(bench.beside(), ["doc.jsonl.zst"]);
    }
}

#[test]
fn what_cannot_be_unpacked_is_broken_and_its_place_is_named() {
    let lines: String = (0..40_000).map(|i| format!("line {i} {:x}\n", sha(i.to_string())[0])).collect();
    let (first, rest) = lines.split_at(300_000);
    let stored = [frame(first.as_bytes(), true, true), frame(rest.as_bytes(), true, true)].concat();
    let second = frame(first.as_bytes(), true, true).len();
    let line = 1 + first.matches('\n').count() as u64;
    #[track_caller]
    fn check(stored: &[u8], wanted: &str, at_least: u64) {
        let (_bench, source) = open(stored);
        let error = text(&source).unwrap_err();
        let Error::Broken { line, what, .. } = &error else { panic!("{error}") };
        assert!(what.contains(wanted) && *line >= at_least, "{error}");
    }
    check(&stored[..stored.len() - 1], "torn", line);
    check(&stored[..second + 7], "torn", line);
    check(&[&stored[..], b"{\"a\":1}\n"].concat(), "damaged", lines.lines().count() as u64);
    check(b"{\"timestamp\":1}\n", "damaged", 1);
    check(&stored[..3], "torn", 1);
    let mut checksum = stored.clone();
    checksum[second - 1] ^= 1;
    check(&checksum, "damaged", 1);
    // Nothing is no frame, and no decoder takes it for one.
    check(b"", "torn", 1);
}

#[test]
fn a_window_that_needs_more_memory_than_any_decoder_gives_is_refused() {
    // A frame that asks for a window of 2 GiB, and one raw block.
    let stored = [&b"\x28\xb5\x2f\xfd\x00\xa8"[..], &[0x11, 0, 0], b"ab"].concat();
    let (_bench, source) = open(&stored);
    let Err(Error::Broken { what, .. }) = text(&source) else { panic!() };
    assert!(what.contains("too much memory"), "{what}");
}

#[test]
fn only_so_much_is_unpacked() {
    // What it says of itself is enough.
    let says = [&b"\x28\xb5\x2f\xfd\xc0\x38"[..], &(5_u64 << 40).to_le_bytes(), &[0x02, 0, 0x10, 0]].concat();
    let (_bench, source) = open(&says);
    let mut given = 0;
    assert_refused(source.each_chunk(&mut |chunk| given += chunk.len()), "more than 4294967296 bytes");
    assert_eq!(given, 0);
    // What says nothing is found out before much of it was made anything of.
    let zeros = [&b"\x28\xb5\x2f\xfd\x00\x38"[..], &[0x02, 0, 0x10, 0].repeat(80_000)].concat();
    let (_bench, source) = open(&zeros);
    assert_refused(source.each_chunk(&mut |chunk| given += chunk.len()), "more than 4294967296 bytes");
    assert!(given < 100 << 20, "{given} of 10 GiB");
    // One line that is too long for the memory, of what is not too long as a whole.
    let zeros = [&b"\x28\xb5\x2f\xfd\x00\x38"[..], &[0x02, 0, 0x10, 0].repeat(5000), &[0x03, 0, 0x10, 0]].concat();
    let (_bench, source) = open(&zeros);
    assert_refused(source.each_chunk(&mut |_| ()), "a line of more than 536870912 bytes");
}

#[test]
fn an_intent_says_whether_it_is_of_a_packed_document() {
    let (bench, source) = open(&frame(OLD.as_bytes(), true, false));
    let splices = splices();
    let entry = IntentInfo { packed: true, ..packed_change(&source, &splices).entry };
    let store = bench.store(Options::default());
    store.commit(Change { entry, ..packed_change(&source, &splices) }).unwrap();
    store.finish();
    let run = bench.run();
    assert!(run.documents[0].0.packed);
    // Journals that know nothing of it are of plain ones.
    let path = bench.state().join("runs").join(format!("{}.jsonl", run.run));
    let old = std::fs::read_to_string(&path).unwrap().replace("\"packed\":true,", "");
    std::fs::write(&path, old).unwrap();
    assert!(!bench.run().documents[0].0.packed);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Any frames read as what they were made of, whole and in part, in whatever order parts are asked for.
    #[test]
    fn frames_are_what_they_were_made_of(
        parts in prop::collection::vec((prop::collection::vec(0_u8..4, 0..5000), any::<bool>(), any::<bool>(), 0_u32..40), 1..5),
        spans in prop::collection::vec((0_usize..9000, 0_usize..9000), 0..6),
    ) {
        let mut stored = Vec::new();
        let mut whole = Vec::new();
        for (text, checksum, sized, skip) in &parts {
            if *skip > 20 {
                stored.extend(skipped(*skip));
            }
            stored.extend(frame(text, *checksum, *sized));
            whole.extend_from_slice(text);
        }
        let (_bench, source) = open(&stored);
        prop_assert_eq!(&text(&source).unwrap(), &whole);
        prop_assert_eq!(source.contents_len().unwrap(), whole.len() as u64);
        prop_assert_eq!(source.sha256().unwrap(), sha(&stored));
        prop_assert_eq!(source.head(100).unwrap(), &whole[..100.min(whole.len())]);
        for (a, b) in spans {
            let (from, to) = (a.min(b), a.max(b));
            let span = source.span(from as u64..to as u64);
            match whole.get(from..to) {
                Some(expected) => prop_assert_eq!(span.unwrap(), expected),
                None => prop_assert!(span.is_err()),
            }
        }
    }
}
