//! The vectors of `testdata/vectors`, one JSON object a line. `$UNWEDGE_SHARED/conformance` is read instead where it is set.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a test fails by panicking, says how much it ran, and reads its own variable"
)]

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;
use unwedge::cap::batch::{Budget, Member, budget};
use unwedge::cap::limits::{Keep, Layer, Limit, Limits, OPAQUE_CHARGE, Source};
use unwedge::cap::marker;
use unwedge::cap::size::ByteSize;
use unwedge::text::cut::{Cut, Part, cut};
use unwedge::text::literal::{Encoding, Measure, decode, measure};

/// Runs every line of a file of vectors, and makes sure that there were any.
fn each(file: &str, run: impl Fn(&Value)) {
    let own = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata/vectors");
    let folder =
        std::env::var_os("UNWEDGE_SHARED").map_or_else(own, |shared| PathBuf::from(shared).join("conformance"));
    let path = folder.join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut ran = 0;
    for (number, line) in text.lines().enumerate() {
        let case: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{file}:{}: {e}", number + 1));
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(&case)));
        assert!(result.is_ok(), "{file}:{}: {}", number + 1, case["name"]);
        ran += 1;
    }
    assert!(ran > 0, "no cases in {}", path.display());
    assert_eq!(ran, text.bytes().filter(|byte| *byte == b'\n').count(), "{} was not read to its end", path.display());
    println!("{file}: {ran} cases");
}

fn text<'a>(case: &'a Value, key: &str) -> &'a str {
    case[key].as_str().unwrap_or_else(|| panic!("{key} is no string"))
}

fn bytes(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no size"))
}

fn bytes_or_unlimited(value: &Value) -> Option<u64> {
    (!value.is_null()).then(|| bytes(value))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_else(|| panic!("{value} is no list"))
}

fn keep(case: &Value) -> Keep {
    match text(case, "keep") {
        "head" => Keep::Head,
        "tail" => Keep::Tail,
        "both" => Keep::Both,
        other => panic!("keep {other}"),
    }
}

#[test]
fn sizes() {
    each("sizes.jsonl", |case| {
        let size = text(case, "input").parse::<ByteSize>();
        if case["bytes"] == "error" {
            assert!(size.is_err(), "{size:?}");
            assert_eq!(case["canonical"], "error");
        } else {
            let size = size.unwrap();
            assert_eq!(size.0, bytes(&case["bytes"]));
            assert_eq!(size.canonical(), text(case, "canonical"));
            assert_eq!(size.canonical().parse(), Ok(size));
        }
        let limit = text(case, "input").parse::<Limit>();
        match &case["limit"] {
            Value::String(s) if s == "error" => assert!(limit.is_err(), "{limit:?}"),
            Value::String(s) if s == "unlimited" => assert_eq!(limit, Ok(Limit::Unlimited)),
            n => assert_eq!(limit, Ok(Limit::Bytes(bytes(n)))),
        }
    });
}

#[test]
fn human() {
    each("human.jsonl", |case| {
        let size = ByteSize(bytes(&case["bytes"]));
        assert_eq!(size.human(), text(case, "human"));
        assert_eq!(size.canonical(), text(case, "canonical"));
    });
}

#[test]
fn markers() {
    each("marker.jsonl", |case| match text(case, "op") {
        "render" => {
            let (a, b) = (bytes(&case["a"]), bytes(&case["b"]));
            assert_eq!(marker::render(a, b), text(case, "marker"));
            assert_eq!(marker::length(a, b), bytes(&case["bytes"]));
        }
        "recognise" => {
            let shown = text(case, "text");
            let literal = plain(shown);
            let found = measure(&literal, Encoding::Plain).unwrap();
            assert_eq!(found.size, bytes(&case["size"]));
            let a = match keep(case) {
                Keep::Head => found.prior.head,
                Keep::Tail => found.prior.tail,
                Keep::Both => found.prior.both,
            };
            assert_eq!(a, bytes_or_unlimited(&case["a"]));
            assert_eq!(a.map(|_| body(shown, keep(case))), case["body"].as_str());
        }
        other => panic!("op {other}"),
    });
}

/// A text without its first or last line.
fn body(text: &str, keep: Keep) -> &str {
    match keep {
        Keep::Head => text.rfind('\n').map_or("", |at| &text[..=at]),
        Keep::Tail => text.find('\n').map_or("", |at| &text[at..]),
        Keep::Both => "",
    }
}

fn plain(text: &str) -> Vec<u8> {
    serde_json::to_vec(text).unwrap()
}

/// Every code unit as an escape.
fn escaped(text: &str) -> Vec<u8> {
    let units: String = text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
    format!("\"{units}\"").into_bytes()
}

fn base64ed(text: &str) -> Vec<u8> {
    use base64::Engine as _;
    format!("\"{}\"", base64::engine::general_purpose::STANDARD.encode(text)).into_bytes()
}

/// Cuts text parts, stored in any way, and checks what the cutter says of itself. The new literals and their texts.
fn cut_texts(
    stored: &[Option<Vec<u8>>],
    encoding: Encoding,
    allowance: u64,
    keep: Keep,
) -> Vec<Option<(Vec<u8>, String)>> {
    let parts: Vec<Part<'_>> = stored
        .iter()
        .map(|literal| literal.as_ref().map_or(Part::Opaque, |literal| Part::Text { literal, encoding }))
        .collect();
    let cuts = cut(&parts, allowance, keep).unwrap();
    assert_eq!(cuts.len(), parts.len());
    let checked = |(old, cut): (&Option<Vec<u8>>, Option<Cut>)| {
        let (old, cut) = (old.as_ref()?, cut?);
        let before = decode(old, encoding).unwrap();
        let after = decode(&cut.literal, encoding).unwrap();
        assert_eq!((cut.before, cut.after), (before.len() as u64, after.len() as u64));
        assert_eq!(measure(&cut.literal, encoding).unwrap().size, cut.after);
        let (head, tail) = (usize::try_from(cut.head).unwrap(), usize::try_from(cut.tail).unwrap());
        assert_eq!(before[..head], after[..head]);
        assert_eq!(before[before.len() - tail..], after[after.len() - tail..]);
        let middle = std::str::from_utf8(&after[head..after.len() - tail]).unwrap();
        assert_eq!(middle.trim_matches('\n'), cut.marker);
        Some((cut.literal, String::from_utf8_lossy(&after).into_owned()))
    };
    stored.iter().zip(cuts).map(checked).collect()
}

#[test]
fn cuts() {
    each("cut.jsonl", |case| {
        let (allowance, keep) = (bytes(&case["allowance"]), keep(case));
        let old = match case["unit"].as_str() {
            Some(unit) => unit.repeat(usize::try_from(bytes(&case["times"])).unwrap()),
            None => text(case, "text").to_owned(),
        };
        assert_eq!(old.len() as u64, bytes(&case["size"]));
        let expected = if case["unit"].is_null() { case["out"].as_str().map(str::to_owned) } else { Some(long(case)) };
        let delivered = expected.as_ref().unwrap_or(&old).len() as u64;
        assert_eq!(delivered, bytes(&case["delivered"]));
        let forms =
            [(plain(&old), Encoding::Plain), (escaped(&old), Encoding::Plain), (base64ed(&old), Encoding::Base64)];
        for (literal, encoding) in forms {
            let cuts = cut_texts(&[Some(literal)], encoding, allowance, keep);
            let new = cuts.into_iter().next().unwrap().map(|(_, text)| text);
            assert_eq!(new, expected);
        }
    });
}

/// The expected text of a case that is given by units.
fn long(case: &Value) -> String {
    let unit = text(case, "unit");
    let kept = list(&case["kept_times"]);
    let [head, tail] = [0, 1].map(|end| unit.repeat(usize::try_from(bytes(&kept[end])).unwrap()));
    let newline = |there: &str| if there.is_empty() || unit == "\n" { "" } else { "\n" };
    format!("{head}{}{}{}{tail}", newline(&head), text(case, "marker"), newline(&tail))
}

#[test]
fn parts() {
    each("parts.jsonl", |case| {
        let (allowance, keep) = (bytes(&case["allowance"]), keep(case));
        let old: Vec<Option<&str>> = list(&case["parts"]).iter().map(Value::as_str).collect();
        let new = case["out"].as_array().map_or(old.clone(), |out| out.iter().map(Value::as_str).collect());
        type Form = (fn(&str) -> Vec<u8>, Encoding);
        let forms: [Form; 3] = [(plain, Encoding::Plain), (escaped, Encoding::Plain), (base64ed, Encoding::Base64)];
        for (store, encoding) in forms {
            let stored: Vec<Option<Vec<u8>>> = old.iter().map(|part| part.map(store)).collect();
            let charge = |of: &dyn Fn(&Measure) -> u64| -> u64 {
                let one = |part: &Option<Vec<u8>>| {
                    part.as_ref().map_or(OPAQUE_CHARGE, |literal| of(&measure(literal, encoding).unwrap()))
                };
                stored.iter().map(one).sum()
            };
            assert_eq!(charge(&|measure| measure.size), bytes(&case["size"]));
            assert_eq!(charge(&|measure| measure.floor(keep)), bytes(&case["floor"]));
            let cuts = cut_texts(&stored, encoding, allowance, keep);
            let mut delivered = 0;
            for ((cut, old), new) in cuts.iter().zip(&old).zip(&new) {
                let text = cut.as_ref().map(|(_, text)| text.as_str());
                assert_eq!(text, if old == new { None } else { *new });
                delivered += new.map_or(OPAQUE_CHARGE, |new| new.len() as u64);
            }
            assert_eq!(delivered, bytes(&case["delivered"]));
            assert_eq!(Value::Bool(delivered > allowance), case["still_over"]);
        }
    });
}

#[test]
fn budgets() {
    each("budget.jsonl", |case| {
        let member = |response: &Value| Member {
            size: bytes(&response["size"]),
            threshold: bytes_or_unlimited(&response["threshold"]),
            floor: bytes(&response["floor"]),
        };
        let members: Vec<Member> = list(&case["responses"]).iter().map(member).collect();
        let expected = Budget {
            level: bytes_or_unlimited(&case["level"]),
            allowances: list(&case["allowances"]).iter().map(bytes_or_unlimited).collect(),
            planned: list(&case["planned"]).iter().map(bytes).collect(),
            still_over: case["still_over"].as_bool().unwrap(),
        };
        assert_eq!(budget(&members, bytes_or_unlimited(&case["ceiling"])), expected);
    });
}

/// One stored literal: its size and what it is cut to.
fn literal(case: &Value, old: &[u8], new: Option<&[u8]>, encoding: Encoding) {
    let measure = match measure(old, encoding) {
        Err(error) => {
            assert_eq!(case["error"], true, "{error}");
            assert!(decode(old, encoding).is_err());
            assert!(error.at <= old.len(), "{error}");
            return;
        }
        Ok(measure) => measure,
    };
    assert!(case["error"].is_null(), "it is no literal");
    assert_eq!(measure.size, bytes(&case["size"]));
    assert_eq!(measure.size, decode(old, encoding).unwrap().len() as u64);
    if let Some(decoded) = case["decoded"].as_bool() {
        assert_eq!(measure.base64, decoded);
    }
    let cuts = cut_texts(&[Some(old.to_vec())], encoding, bytes(&case["allowance"]), keep(case));
    let cut = cuts.into_iter().next().unwrap().map(|(literal, _)| literal);
    assert_eq!(cut.as_deref().map(String::from_utf8_lossy), new.map(String::from_utf8_lossy));
    let delivered = decode(cut.as_deref().unwrap_or(old), encoding).unwrap().len() as u64;
    assert_eq!(delivered, bytes(&case["delivered"]));
}

#[test]
fn literals() {
    each("literal.jsonl", |case| {
        let new = case["out_hex"].as_str().map(unhex);
        literal(case, &unhex(text(case, "literal_hex")), new.as_deref(), Encoding::Plain);
    });
}

fn unhex(text: &str) -> Vec<u8> {
    assert!(text.len().is_multiple_of(2));
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

#[test]
fn base64s() {
    each("base64.jsonl", |case| {
        literal(case, text(case, "literal").as_bytes(), case["out"].as_str().map(str::as_bytes), Encoding::Base64);
    });
}

/// A limit as a flag or a file gives it. Only a conversation's own value may be passed over.
fn limit(value: &Value) -> Option<Limit> {
    match value {
        Value::String(text) => text.parse().ok(),
        Value::Number(n) => Limit::from_bytes(n.as_u64()?).ok(),
        _ => None,
    }
}

#[test]
fn resolve() {
    const SOURCES: [Source; 5] =
        [Source::ToolFlag, Source::SizeFlag, Source::Project, Source::Conversation, Source::User];
    each("resolve.jsonl", |case| {
        let mut layers = Vec::new();
        let mut refused = false;
        for given in list(&case["layers"]) {
            let source = SOURCES.into_iter().find(|source| source.to_string() == text(given, "source")).unwrap();
            let mut thresholds = BTreeMap::new();
            for (key, value) in given["values"].as_object().unwrap() {
                match limit(value) {
                    Some(limit) => drop(thresholds.insert(key.clone(), limit)),
                    None => refused |= source != Source::Conversation,
                }
            }
            layers.push(Layer { thresholds, ..Layer::new(source) });
        }
        assert_eq!(refused, case["error"] == true);
        if refused {
            return;
        }
        for layers in [layers.clone(), layers.into_iter().rev().collect()] {
            let found = Limits::new(layers).threshold(case["tool"].as_str());
            assert_eq!(found.value.bytes(), case["threshold"].as_u64());
            assert_eq!(found.source.to_string(), text(case, "source"));
            assert_eq!(found.key, text(case, "key"));
        }
    });
}
