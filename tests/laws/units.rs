//! The laws of cuts in natural units: what is kept is the old text's own, what is said of it is true, and nothing is longer.

use proptest::prelude::*;
use serde_json::Value;
use unwedge::cap::limits::{Keep, Unit};
use unwedge::text::cut::{self, Counted, Cut, FullText, Manner, Piece, cut_by};
use unwedge::text::literal::{Encoding, decode, measure};

use crate::given::{allowance, is_unicode, keep, parts, store};
use crate::slow::{codes, size, utf8};

/// Where the whole text is said to be.
const PATH: &str = "/spill \"é\"; kept here/0123.txt";

fn unit() -> impl Strategy<Value = Unit> {
    prop::sample::select(vec![Unit::Auto, Unit::Bytes, Unit::Lines, Unit::Json, Unit::Diff])
}

/// Cuts stored parts, and says what the response's whole text was where it was asked for.
fn cut_stored(
    stored: &[Option<Vec<u8>>],
    encoding: Encoding,
    allowance: u64,
    (keep, unit, spill): (Keep, Unit, bool),
) -> (cut::Response, Option<Vec<u8>>) {
    let part = |literal: Option<_>| literal.map_or(cut::Part::Opaque, |literal| cut::Part::Text { literal, encoding });
    let parts: Vec<_> = stored.iter().map(|literal| part(literal.as_deref())).collect();
    let whole = std::cell::RefCell::new(None);
    let full_text = |text: &[u8]| {
        whole.replace(Some(text.to_vec()));
        Some(PATH.to_owned())
    };
    let full_text: Option<FullText<'_>> = if spill { Some(&full_text) } else { None };
    (cut_by(&parts, allowance, &Manner { keep, unit, full_text }).unwrap(), whole.into_inner())
}

fn after(stored: &[Option<Vec<u8>>], cut: &cut::Response) -> Vec<Option<Vec<u8>>> {
    let new =
        |(old, cut): (&Option<Vec<u8>>, &Option<Cut>)| cut.as_ref().map(|cut| cut.literal.clone()).or(old.clone());
    stored.iter().zip(&cut.parts).map(new).collect()
}

fn charge(stored: &[Option<Vec<u8>>], encoding: Encoding) -> u64 {
    let one = |literal: &Option<Vec<u8>>| {
        literal.as_ref().map_or(crate::slow::IMAGE, |literal| measure(literal, encoding).unwrap().size)
    };
    stored.iter().map(one).sum()
}

fn lines(text: &[u8]) -> u64 {
    text.iter().filter(|b| **b == b'\n').count() as u64 + u64::from(text.last().is_some_and(|b| *b != b'\n'))
}

/// The second line, read by eyes of its own: kept, total, unit, what is omitted, path.
#[derive(Debug)]
struct Line {
    kept: u64,
    total: Option<u64>,
    unit: String,
    omitted: Option<String>,
    path: Option<String>,
}

fn read_line(line: &str) -> Line {
    let inner = line.strip_prefix('[').unwrap().strip_suffix(']').unwrap();
    let (inner, path) = match inner.find("; full text: ") {
        Some(at) => (&inner[..at], Some(inner[at + 13..].to_owned())),
        None => (inner, None),
    };
    let (inner, omitted) = match inner.split_once("; omitted ") {
        Some((inner, omitted)) => (inner, Some(omitted.to_owned())),
        None => (inner, None),
    };
    let words: Vec<&str> = inner.strip_suffix(" kept").unwrap().split(' ').collect();
    let (total, rest) = match words[1] {
        "of" => (Some(words[2].parse().unwrap()), 3),
        _ => (None, 1),
    };
    Line { kept: words[0].parse().unwrap(), total, unit: words[rest..].join(" "), omitted, path }
}

/// `a-b` or `a`, as a half-open range from 0.
fn range(text: &str) -> (u64, u64) {
    let (from, to) = text.split_once('-').unwrap_or((text, text));
    (from.parse::<u64>().unwrap() - 1, to.parse().unwrap())
}

/// The offset of the line of this number, from 0.
fn line_start(text: &[u8], number: u64) -> usize {
    let newlines = text.iter().enumerate().filter(|(_, b)| **b == b'\n').map(|(at, _)| at + 1);
    [0].into_iter().chain(newlines).nth(usize::try_from(number).unwrap()).unwrap_or(text.len())
}

/// Texts that units are for: lines, and what else the laws of the plain cut are tried on.
fn stories() -> impl Strategy<Value = Vec<crate::slow::Part>> {
    let line = prop_oneof![6 => "[a-zé ]{0,30}", 2 => "[x]{30,120}", 1 => Just(String::new())];
    let ends = prop::sample::select(vec!["\n", "\n", "\r\n"]);
    let text = (prop::collection::vec((line, ends), 0..40), any::<bool>()).prop_map(|(lines, whole)| {
        let mut text: String = lines.into_iter().map(|(line, end)| line + end).collect();
        if !whole {
            text = text.trim_end().to_owned();
        }
        codes(&text)
    });
    prop_oneof![
        3 => prop::collection::vec(prop_oneof![8 => text.clone().prop_map(Some), 1 => Just(None)], 1..4),
        2 => text.prop_map(|text| vec![Some(text)]),
        2 => parts(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) })]

    /// In every unit: within the allowance unless at the floor, made of the old text's own runs and of new text, nothing
    /// longer, nothing emptied, and a second cut with the same limit changes nothing.
    #[test]
    fn a_cut_in_units_holds(
        parts in stories(), how in (keep(), unit(), any::<bool>()), pick in any::<u64>(), near in any::<u64>(), seed in any::<u64>(),
    ) {
        let allowance = allowance(&parts, how.0, pick, near) + near % 3 * 40;
        for encoding in [Encoding::Plain, Encoding::Base64] {
            if encoding == Encoding::Base64 && !is_unicode(&parts) {
                continue;
            }
            let old = store(&parts, encoding, seed);
            let floor: u64 = old.iter().map(|literal| literal.as_ref().map_or(crate::slow::IMAGE, |l| measure(l, encoding).unwrap().floor(how.0))).sum();
            let (cut, _) = cut_stored(&old, encoding, allowance, how);
            let new = after(&old, &cut);
            prop_assert!(charge(&new, encoding) <= allowance.max(floor), "{} > {}", charge(&new, encoding), allowance);
            let mut seconds = 0;
            for ((old, new), cut) in old.iter().zip(&new).zip(&cut.parts) {
                let (Some(old), Some(new)) = (old, new) else { continue };
                let (was, now) = (decode(old, encoding).unwrap(), decode(new, encoding).unwrap());
                prop_assert_eq!(was.is_empty(), now.is_empty());
                let Some(cut) = cut else { continue };
                prop_assert!(now.len() < was.len() && now.len() as u64 == cut.after);
                if cut.second.is_some() {
                    prop_assert!(new.len() <= old.len());
                }
                seconds += usize::from(cut.second.is_some());
                let piece = |piece: &Piece| match piece {
                    Piece::Run(run) => was[usize::try_from(run.start).unwrap()..usize::try_from(run.end).unwrap()].to_vec(),
                    Piece::New(text) => text.clone().into_bytes(),
                };
                let made: Vec<u8> = cut.pieces.iter().flat_map(piece).collect();
                prop_assert_eq!(shown(&made), shown(&now));
                let shown = shown(&now);
                let marker_at = shown.lines().position(|line| line == cut.marker);
                prop_assert!(marker_at.is_some(), "{shown}");
                if let Some(second) = &cut.second {
                    let second_at = shown.lines().position(|line| line == second).unwrap();
                    prop_assert_eq!(second_at.abs_diff(marker_at.unwrap()), 1);
                }
            }
            prop_assert!(seconds <= 1);
            let (again, _) = cut_stored(&new, encoding, allowance, how);
            prop_assert!(again.parts.iter().all(Option::is_none), "{:?}", again);
            // Stored in another spelling, the texts are cut alike; the kept bytes of a plain literal are its own.
            if encoding == Encoding::Plain {
                for (old, cut) in old.iter().zip(&cut.parts) {
                    let (Some(old), Some(cut)) = (old, cut) else { continue };
                    let mut rest = &cut.literal[1..cut.literal.len() - 1];
                    for (i, piece) in cut.pieces.iter().enumerate() {
                        match piece {
                            Piece::New(text) => rest = rest.strip_prefix(&*escaped(text)).unwrap(),
                            Piece::Run(_) => {
                                let next = cut.pieces.get(i + 1).map(|next| if let Piece::New(text) = next { escaped(text) } else { panic!() });
                                let end = next.map_or(rest.len(), |next| (0..rest.len()).find(|at| rest[*at..].starts_with(&next) && is_run(old, &rest[..*at])).unwrap());
                                prop_assert!(is_run(old, &rest[..end]));
                                rest = &rest[end..];
                            }
                        }
                    }
                    prop_assert!(rest.is_empty());
                }
            }
        }
    }

    /// Without a unit and without a place it is the plain cut, to the byte.
    #[test]
    fn nothing_asked_is_the_plain_cut(parts in stories(), keep in keep(), pick in any::<u64>(), near in any::<u64>(), seed in any::<u64>()) {
        let allowance = allowance(&parts, keep, pick, near);
        let old = store(&parts, Encoding::Plain, seed);
        let part = |literal: Option<_>| literal.map_or(cut::Part::Opaque, |literal| cut::Part::Text { literal, encoding: Encoding::Plain });
        let given: Vec<_> = old.iter().map(|literal| part(literal.as_deref())).collect();
        let (cut, _) = cut_stored(&old, Encoding::Plain, allowance, (keep, Unit::Bytes, false));
        prop_assert_eq!(cut.parts, cut::cut(&given, allowance, keep).unwrap());
    }

    /// Head, hole and tail together are the original: what is kept stands in the text, what is said to be missing is found in
    /// the whole text, and both are all of it.
    #[test]
    fn what_is_said_is_true(
        parts in stories(), keep in keep(), unit in prop::sample::select(vec![Unit::Bytes, Unit::Lines]), pick in any::<u64>(), near in any::<u64>(),
    ) {
        let allowance = allowance(&parts, keep, pick, near) + 150;
        let old = store(&parts, Encoding::Plain, 0);
        let (cut, whole) = cut_stored(&old, Encoding::Plain, allowance, (keep, unit, true));
        let Some(second) = cut.parts.iter().flatten().find_map(|cut| cut.second.as_deref()) else { return Ok(()) };
        let line = read_line(second);
        // Where an earlier cut named the whole text, it is not asked for again; these texts have no such line.
        let whole = whole.unwrap();
        prop_assert_eq!(&whole, &parts.iter().flatten().flat_map(|text| utf8(text)).collect::<Vec<u8>>());
        let Some(path) = &line.path else { return Ok(()) };
        prop_assert_eq!(path, PATH);
        let in_lines = line.unit == "lines";
        prop_assert!(in_lines || line.unit == "bytes");
        let count = if in_lines { lines(&whole) } else { whole.len() as u64 };
        let start = |text: &[u8], n: u64| if in_lines { line_start(text, n) } else { usize::try_from(n).unwrap() };
        prop_assert_eq!(line.total, Some(count));
        let (from, to) = range(line.omitted.as_deref().unwrap());
        prop_assert_eq!(count - (to - from), line.kept);
        let (head, tail) = (&whole[..start(&whole, from)], &whole[start(&whole, to)..]);
        // The runs of the cut parts and the parts that stay, less what stays within the hole because it is too small to go.
        let mut kept = Vec::new();
        for (part, cut) in parts.iter().zip(&cut.parts) {
            let Some(text) = part else { continue };
            let text = utf8(text);
            match cut {
                None => kept.push(text),
                Some(cut) => for piece in &cut.pieces {
                    match piece {
                        Piece::Run(run) => kept.push(text[usize::try_from(run.start).unwrap()..usize::try_from(run.end).unwrap()].to_vec()),
                        Piece::New(_) => kept.push(b"\xff".to_vec()),
                    }
                },
            }
        }
        let kept = kept.concat();
        let visible: Vec<&[u8]> = kept.split(|b| *b == 0xff).collect();
        let (first, last) = (visible[0], visible[visible.len() - 1]);
        let earlier = is_marked(&parts);
        if !earlier {
            if keep != Keep::Tail {
                prop_assert!(first.starts_with(head), "{:?} {:?}", shown(head), shown(first));
            }
            if keep != Keep::Head {
                prop_assert!(last.ends_with(tail), "{:?} {:?}", shown(tail), shown(last));
            }
        }
    }

    /// Two cuts give what one to the lower limit gives, in lines and in bytes, with a place for the whole text and without.
    #[test]
    fn two_cuts_are_one(
        parts in stories(), how in (prop::sample::select(vec![Keep::Head, Keep::Tail]), prop::sample::select(vec![Unit::Bytes, Unit::Lines]), any::<bool>()),
        pick in any::<u64>(), near in any::<u64>(), seed in any::<u64>(),
    ) {
        if is_marked(&parts) {
            return Ok(());
        }
        let allowance = allowance(&parts, how.0, pick, near) + near % 3 * 60;
        let old = store(&parts, Encoding::Plain, seed);
        let (first, _) = cut_stored(&old, Encoding::Plain, allowance, how);
        let new = after(&old, &first);
        let lower = if allowance == 0 { 0 } else { seed % (allowance + 1) };
        let (once, _) = cut_stored(&old, Encoding::Plain, lower, how);
        let twice = after(&new, &cut_stored(&new, Encoding::Plain, lower, how).0);
        let text = |stored: &[Option<Vec<u8>>]| stored.iter().flatten().map(|l| shown(&decode(l, Encoding::Plain).unwrap())).collect::<Vec<_>>();
        // A cut in which the second line found no room has forgotten what it knew, and keeps text in its place.
        let forgets = |cut: &cut::Response| cut.parts.iter().any(Option::is_some) && cut.parts.iter().flatten().all(|cut| cut.second.as_deref().is_none_or(|line| how.2 && read_line(line).path.is_none()));
        let forgot = (how.1 != Unit::Bytes || how.2) && (forgets(&first) || forgets(&once));
        // A cut in lines knows nothing of the bytes there were.
        let wanted = if how.1 == Unit::Lines { Counted::Lines } else { Counted::Bytes };
        let other_unit = [&first, &once].iter().any(|cut| cut.parts.iter().any(Option::is_some) && cut.counted != wanted);
        let once = after(&old, &once);
        if !forgot && !other_unit {
            prop_assert_eq!(text(&twice), text(&once), "first {:?}", text(&new));
        }
    }

    /// Whole lines stay whole, and there are never more of them than there were.
    #[test]
    fn no_more_lines(parts in stories(), keep in keep(), spill in any::<bool>(), pick in any::<u64>(), near in any::<u64>()) {
        let allowance = allowance(&parts, keep, pick, near) + 100;
        let old = store(&parts, Encoding::Plain, 0);
        let (cut, _) = cut_stored(&old, Encoding::Plain, allowance, (keep, Unit::Lines, spill));
        let count = |stored: &[Option<Vec<u8>>]| stored.iter().flatten().map(|l| lines(&decode(l, Encoding::Plain).unwrap())).sum::<u64>();
        let new = after(&old, &cut);
        if cut.counted == Counted::Lines {
            prop_assert!(count(&new) <= count(&old), "{} > {}", count(&new), count(&old));
        } else {
            // The plain cut may part a line, and its brackets have lines of their own.
            let texts = old.iter().flatten().count() as u64;
            prop_assert!(count(&new) <= count(&old) + 3 * texts);
        }
    }

    /// JSON stays JSON: the same keys in the same order, the same numbers, and strings and arrays that begin or end as they did.
    #[test]
    fn json_stays_json(value in json_value(), pretty in any::<bool>(), keep in keep(), near in any::<u64>(), spill in any::<bool>()) {
        let text = if pretty { serde_json::to_string_pretty(&value).unwrap() } else { value.to_string() };
        let old = [Some(serde_json::to_vec(&text).unwrap())];
        let size = text.len() as u64;
        prop_assume!(size > 600);
        let allowance = 300 + near % (size - 300);
        let (cut, _) = cut_stored(&old, Encoding::Plain, allowance, (keep, Unit::Json, spill));
        if cut.counted != Counted::Json || cut.parts[0].is_none() {
            return Ok(());
        }
        let now = String::from_utf8(decode(&cut.parts[0].as_ref().unwrap().literal, Encoding::Plain).unwrap()).unwrap();
        prop_assert!(now.len() as u64 <= allowance);
        let (rest, marker) = now.rsplit_once('\n').unwrap();
        let (json, second) = rest.rsplit_once('\n').unwrap();
        prop_assert!(marker.starts_with("... [truncated, "));
        let line = read_line(second);
        prop_assert_eq!((line.total, &*line.unit, line.path.is_some()), (Some(size), "JSON bytes", spill));
        prop_assert!(lines(json.as_bytes()) <= lines(text.as_bytes()));
        let new: Value = serde_json::from_str(json).unwrap();
        let mut left_out = 0;
        shortened(&value, &new, &mut left_out);
        prop_assert!(left_out > 0);
        // What is kept is counted to the byte: the runs, and nothing else.
        let runs: u64 = cut.parts[0].as_ref().unwrap().pieces.iter().map(|p| if let Piece::Run(run) = p { run.end - run.start } else { 0 }).sum();
        prop_assert_eq!(line.kept, runs);
        // Once more, and to half: it is still JSON.
        let new = [Some(cut.parts[0].as_ref().unwrap().literal.clone())];
        let (again, _) = cut_stored(&new, Encoding::Plain, allowance, (keep, Unit::Json, spill));
        prop_assert!(again.parts[0].is_none());
        let (half, _) = cut_stored(&new, Encoding::Plain, allowance / 2, (keep, Unit::Json, spill));
        if half.counted == Counted::Json && half.parts[0].is_some() {
            let half = String::from_utf8(decode(&half.parts[0].as_ref().unwrap().literal, Encoding::Plain).unwrap()).unwrap();
            prop_assert!(half.len() as u64 <= allowance / 2);
            let (rest, _) = half.rsplit_once('\n').unwrap();
            let (json, second) = rest.rsplit_once('\n').unwrap();
            prop_assert!(serde_json::from_str::<Value>(json).is_ok(), "{json}");
            prop_assert_eq!(read_line(second).total, Some(size));
        }
    }
}

fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn escaped(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for byte in text.bytes() {
        match byte {
            b'\n' => out.extend(b"\\n"),
            b'"' | b'\\' => out.extend([b'\\', byte]),
            _ => out.push(byte),
        }
    }
    out
}

/// Whether bytes stand somewhere in a literal.
fn is_run(literal: &[u8], run: &[u8]) -> bool {
    run.is_empty() || literal.windows(run.len()).any(|window| window == run)
}

/// Whether a text shows what looks like an earlier cut.
fn is_marked(parts: &[crate::slow::Part]) -> bool {
    parts.iter().flatten().any(|text| size(text) > 0 && shown(&utf8(text)).contains("... [truncated, "))
}

fn json_value() -> impl Strategy<Value = Value> {
    let text = prop_oneof![3 => "[a-z\"\\\\é\n]{0,20}", 2 => "[a-z é\"\\\\\n]{100,900}"];
    let leaf = prop_oneof![
        1 => Just(Value::Null),
        1 => any::<bool>().prop_map(Value::from),
        2 => any::<i64>().prop_map(Value::from),
        4 => text.prop_map(Value::from),
    ];
    let inner = leaf.prop_recursive(3, 60, 12, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..12).prop_map(Value::from),
            prop::collection::btree_map("[a-z;, ]{1,6}", inner, 0..6).prop_map(Value::from_iter),
        ]
    });
    prop_oneof![
        prop::collection::vec(inner.clone(), 2..12).prop_map(Value::from),
        prop::collection::btree_map("[a-z]{1,6}", inner, 1..8).prop_map(Value::from_iter),
    ]
}

/// Holds a shortened value to the old one, and counts the places where something is left out.
fn shortened(old: &Value, new: &Value, left_out: &mut usize) {
    match (old, new) {
        (Value::Object(a), Value::Object(b)) => {
            assert_eq!(a.keys().collect::<Vec<_>>(), b.keys().collect::<Vec<_>>());
            a.values().zip(b.values()).for_each(|(a, b)| shortened(a, b, left_out));
        }
        (Value::Array(a), Value::Array(b)) => {
            let note = |v: &Value| {
                v.as_str().filter(|s| s.starts_with('[') && s.contains(" elements kept; omitted ")).map(read_line)
            };
            let Some(at) = b.iter().position(|v| note(v).is_some()).filter(|_| b.len() <= a.len()) else {
                assert_eq!(a.len(), b.len());
                return a.iter().zip(b).for_each(|(a, b)| shortened(a, b, left_out));
            };
            *left_out += 1;
            let line = note(&b[at]).unwrap();
            let (from, to) = range(line.omitted.as_deref().unwrap());
            assert_eq!((from as usize, line.total, line.kept as usize), (at, Some(a.len() as u64), b.len() - 1));
            b[..at].iter().zip(a).for_each(|(b, a)| shortened(a, b, left_out));
            assert_eq!(b.len() - at - 1, a.len() - to as usize);
            b[at + 1..].iter().zip(&a[to as usize..]).for_each(|(b, a)| shortened(a, b, left_out));
        }
        (Value::String(a), Value::String(b)) if a != b => {
            *left_out += 1;
            let (open, close) = (b.rfind(" bytes kept; omitted ").unwrap(), b.rfind(" bytes kept; omitted ").unwrap());
            let from = b[..open].rfind('[').unwrap();
            let to = close + b[close..].find(']').unwrap() + 1;
            let line = read_line(&b[from..to]);
            let (gone, back) = range(line.omitted.as_deref().unwrap());
            assert_eq!(line.total, Some(a.len() as u64));
            assert_eq!(&a[..gone as usize], &b[..from]);
            assert_eq!(&a[back as usize..], &b[to..]);
        }
        (old, new) => assert_eq!(old, new),
    }
}
