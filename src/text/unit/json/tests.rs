//! JSON as it reads when it was shortened, and how much work that is.

use super::*;
use crate::cap::limits::Unit;
use crate::text::cut::{Manner, Part, cut_by};
use crate::text::json::Node;
use crate::text::literal::{Encoding, decode};

fn cut(text: &str, allowance: u64, keep: Keep) -> String {
    let literal = serde_json::to_vec(text).unwrap();
    let part = Part::Text { literal: &literal, encoding: Encoding::Plain };
    let found = cut_by(&[part], allowance, &Manner { keep, unit: Unit::Auto, full_text: None }).unwrap();
    let new = found.parts[0].as_ref().map_or(literal.clone(), |cut| cut.literal.clone());
    String::from_utf8(decode(&new, Encoding::Plain).unwrap()).unwrap()
}

#[test]
fn the_largest_become_shorter() {
    let items: Vec<String> = (0..500).map(|n| format!("{{\"id\": {n}}}")).collect();
    let text = format!(
        "{{\"ok\": true,\n \"items\": [{}],\n \"a b\": {{\"log\": \"{}\"}}}}",
        items.join(",\n"),
        "é\\n".repeat(900)
    );
    let new = cut(&text, 900, Keep::Head);
    let (json, rest) = new.split_once("\n[").unwrap();
    let value: serde_json::Value = serde_json::from_str(json).unwrap();
    let items = value["items"].as_array().unwrap();
    assert_eq!(
        items.last().unwrap(),
        &format!("[{0} of 500 elements kept; omitted {1}-500]", items.len() - 1, items.len())
    );
    let log = value["a b"]["log"].as_str().unwrap();
    assert!(log.starts_with("é\né\né\n") && log.ends_with("é\n[90 of 2700 bytes kept; omitted 91-2700]"), "{log}");
    assert!(
        rest.contains(&format!("omitted elements {}-500 of .items, bytes 91-2700 of .[\"a b\"].log]", items.len())),
        "{rest}"
    );
    assert!(new.len() <= 900 && new.len() > 700, "{}", new.len());
    assert!(json.starts_with("{\"ok\": true,\n \"items\": [{\"id\": 0},\n{\"id\": 1}"), "{json}");

    let tail = cut(&text, 900, Keep::Tail);
    let value: serde_json::Value = serde_json::from_str(tail.split_once("\n[").unwrap().0).unwrap();
    let items = value["items"].as_array().unwrap();
    assert!(items[0].as_str().unwrap().contains(" elements kept; omitted 1-") && items.last().unwrap()["id"] == 499);
    assert!(value["a b"]["log"].as_str().unwrap().ends_with("é\né\n"));

    // Cut again, the numbers are still the original's.
    let again = cut(&new, 700, Keep::Head);
    let value: serde_json::Value = serde_json::from_str(again.split_once("\n[").unwrap().0).unwrap();
    let items = value["items"].as_array().unwrap();
    assert_eq!(
        items.last().unwrap(),
        &format!("[{0} of 500 elements kept; omitted {1}-500]", items.len() - 1, items.len())
    );
}

#[test]
fn what_cannot_become_shorter_is_left_to_lines() {
    let keys: Vec<String> = (0..500).map(|n| format!("\"key {n}\": {n}")).collect();
    let new = cut(&format!("{{{}}}", keys.join(",\n")), 900, Keep::Head);
    assert!(new.contains(" of 500 lines kept; omitted "), "{new}");
    let deep = format!("{}{}", "[".repeat(50_000), "]".repeat(50_000));
    assert!(cut(&deep, 900, Keep::Head).contains(" of 100000 bytes kept"), "one level an array: nothing to leave out");
}

/// Steps of the one pass, and looks at the list of what it found: both grow as the text does, and no faster.
#[test]
fn the_work_is_linear() {
    let steps = |megabytes: usize| {
        let mut text = String::from("{\"rows\": [");
        let mut n = 0;
        while text.len() < megabytes << 20 {
            n += 1;
            text.push_str(&format!(
                "{{\"id\": {n}, \"tags\": [{n}, [{n}, [{n}]]], \"text\": \"{}\"}},\n",
                "a row of it ".repeat(1 + n % 17)
            ));
        }
        text.push_str("null]}");
        let outline = Outline::of(Node::document(text.as_bytes()).unwrap()).unwrap();
        let looks = std::cell::Cell::new(0_u64);
        let found = holes::levels_counted(&outline, 256 << 10, Keep::Both, &looks).unwrap();
        assert!(found.array > 10 && found.array < 10_000, "{found:?}");
        (outline.steps as f64 / text.len() as f64, looks.get() as f64 / text.len() as f64)
    };
    let (small, large) = (steps(5), steps(20));
    assert!(small.0 < 1.0 && small.1 < 2.0, "{small:?}");
    for (small, large) in [(small.0, large.0), (small.1, large.1)] {
        assert!(large < small * 1.2, "{small} steps a byte became {large}");
    }
}
