//! What a unit makes of a text, as it reads. The laws are in `tests/laws`.

use crate::cap::limits::{Keep, Unit};
use crate::text::cut::{FullText, Manner, Part, cut_by};
use crate::text::literal::{Encoding, decode};

/// A text whose `<B>` is its own size in bytes.
fn sealed(text: &str) -> String {
    let is = |b: usize| text.replace("<B>", &b.to_string());
    (0..1024).map(is).enumerate().find(|(b, text)| text.len() == *b).unwrap().1
}

#[track_caller]
fn cut(text: &str, allowance: u64, keep: Keep, unit: Unit, path: Option<&str>) -> String {
    let literal = serde_json::to_vec(text).unwrap();
    let named = |_: &[u8]| path.map(str::to_owned);
    let full_text: Option<FullText<'_>> = if path.is_some() { Some(&named) } else { None };
    let part = Part::Text { literal: &literal, encoding: Encoding::Plain };
    let found = cut_by(&[part], allowance, &Manner { keep, unit, full_text }).unwrap();
    let new = found.parts[0].as_ref().map_or(literal.clone(), |cut| cut.literal.clone());
    String::from_utf8(decode(&new, Encoding::Plain).unwrap()).unwrap()
}

fn lines(count: usize) -> String {
    (1..=count).map(|n| format!("this is line {n} of them\n")).collect()
}

#[test]
fn lines_head_tail_and_both() {
    let text = lines(100);
    assert_eq!(
        cut(&text, 200, Keep::Head, Unit::Lines, None),
        sealed(
            "this is line 1 of them\nthis is line 2 of them\nthis is line 3 of them\nthis is line 4 of them\n\
         this is line 5 of them\n[5 of 100 lines kept; omitted 6-100]\n... [truncated, 2 KB → <B> B]"
        )
    );
    assert_eq!(
        cut(&text, 150, Keep::Tail, Unit::Lines, Some("/s/f.txt")),
        sealed(
            "... [truncated, 2 KB → <B> B]\n[2 of 100 lines kept; omitted 1-98; full text: /s/f.txt]\n\
         this is line 99 of them\nthis is line 100 of them\n"
        )
    );
    assert_eq!(
        cut(&text, 200, Keep::Both, Unit::Lines, None),
        sealed(
            "this is line 1 of them\nthis is line 2 of them\nthis is line 3 of them\n\
         this is line 4 of them\n[5 of 100 lines kept; omitted 5-99]\n... [truncated, 2 KB → <B> B]\nthis is line 100 of them\n"
        )
    );
}

#[test]
fn one_long_line_is_cut_in_bytes() {
    let text = "x".repeat(5000);
    let expected =
        sealed(&format!("{}\n[84 of 5000 bytes kept; omitted 85-5000]\n... [truncated, 5 KB → <B> B]", "x".repeat(84)));
    for unit in [Unit::Auto, Unit::Lines, Unit::Json, Unit::Diff] {
        assert_eq!(cut(&text, 157, Keep::Head, unit, None), expected, "{unit:?}");
    }
    let named = cut(&text, 157, Keep::Head, Unit::Bytes, Some("/s/f"));
    assert!(
        named.ends_with("x\n[67 of 5000 bytes kept; omitted 68-5000; full text: /s/f]\n... [truncated, 5 KB → 157 B]"),
        "{named}"
    );
}

#[test]
fn a_place_that_does_not_fit_is_left_out_and_an_old_one_stays() {
    let text = lines(100);
    let path = format!("/{}", "long/".repeat(60));
    assert_eq!(cut(&text, 200, Keep::Head, Unit::Lines, Some(&path)), cut(&text, 200, Keep::Head, Unit::Lines, None));
    let first = cut(&text, 1000, Keep::Head, Unit::Lines, Some("/s/first"));
    let second = cut(&first, 400, Keep::Head, Unit::Lines, Some("/s/second"));
    assert_eq!(second, cut(&text, 400, Keep::Head, Unit::Lines, Some("/s/first")));
    let bytes = cut(&first, 400, Keep::Head, Unit::Bytes, None);
    assert!(
        bytes.contains(" bytes kept; omitted 314-end; full text: /s/first]\n... [truncated, 2 KB → 400 B]"),
        "{bytes}"
    );
    // Cut before without a place, and now with one: the numbers are those of what the place holds.
    let first = cut(&text, 1000, Keep::Head, Unit::Lines, None);
    let second = cut(&first, 400, Keep::Head, Unit::Lines, Some("/s/second"));
    let count = first.lines().count();
    assert!(
        second.contains(&format!("[13 of {count} lines kept; omitted 14-{count}; full text: /s/second]")),
        "{second}"
    );
}

#[test]
fn a_diff_by_files() {
    let file = |name: &str, lines: usize| {
        let body: String = (0..lines).map(|n| format!("+added line {n}\n")).collect();
        format!("diff --git a/{name} b/{name}\n--- a/{name}\n+++ b/{name}\n@@ -0,0 +1,{lines} @@\n{body}")
    };
    let (one, lock, two, three) =
        (file("src/one.rs", 5), file("Cargo.lock", 500), file("two.rs", 5), file("three.rs", 5));
    let text = format!("{one}{lock}{two}{three}");
    assert_eq!(
        cut(&text, 600, Keep::Head, Unit::Auto, None),
        sealed(&format!("{one}{two}{three}[3 of 4 files kept; omitted 2: Cargo.lock]\n... [truncated, 8 KB → <B> B]"))
    );
    assert_eq!(
        cut(&text, 420, Keep::Tail, Unit::Diff, None),
        sealed(&format!(
            "... [truncated, 8 KB → <B> B]\n[2 of 4 files kept; omitted 1-2: src/one.rs, Cargo.lock]\n{two}{three}"
        ))
    );
    let longer = file("two.rs", 15);
    assert_eq!(
        cut(&format!("{one}{lock}{longer}{three}"), 450, Keep::Both, Unit::Diff, Some("/s/d")),
        sealed(&format!(
            "{one}[2 of 4 files kept; omitted 2-3: Cargo.lock, two.rs; full text: /s/d]\n\
             ... [truncated, 8 KB → <B> B]\n{three}"
        ))
    );
    // Cut again, the files that go now are named; those that went before are in the whole text.
    let first = cut(&text, 600, Keep::Head, Unit::Auto, Some("/s/d"));
    let again = cut(&first, 450, Keep::Head, Unit::Auto, Some("/s/other"));
    assert!(again.contains("[2 of 4 files kept; omitted three.rs; full text: /s/d]"), "{again}");
}

#[test]
fn a_blob_goes_whole() {
    use base64::Engine as _;
    let png =
        [b"\x89PNG\r\n\x1a\n".as_slice(), &(0..5000_u32).map(|n| (n * 7 % 256) as u8).collect::<Vec<u8>>()].concat();
    let blob = base64::engine::general_purpose::STANDARD.encode(&png);
    let new = cut(&blob, 400, Keep::Head, Unit::Auto, Some("/s/b"));
    let (note, rest) = new.split_once('\n').unwrap();
    assert!(note.starts_with("[image/png, 5008 bytes, sha256 ") && note.len() == 31 + 64 + 1, "{note}");
    let brackets = format!(
        "[0 of {0} base64 bytes kept; omitted 1-{0}; full text: /s/b]\n... [truncated, 7 KB → <B> B]",
        blob.len()
    );
    assert_eq!(format!("{note}\n{rest}"), sealed(&format!("{note}\n{brackets}")));
    let inside = format!("{{\"name\": \"shot\", \"data\": \"{blob}\", \"n\": 1e400}}");
    let new = cut(&inside, 500, Keep::Tail, Unit::Auto, None);
    let expected = format!(
        "{{\"name\": \"shot\", \"data\": \"{note}\", \"n\": 1e400}}\n\
         [40 of 6720 JSON bytes kept; omitted the blob of .data]\n... [truncated, 7 KB → <B> B]"
    );
    assert_eq!(new, sealed(&expected));
}
