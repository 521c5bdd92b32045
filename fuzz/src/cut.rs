//! The cutter: any texts, both encodings, any end, unit and allowance.

use std::borrow::Cow;
use std::collections::HashMap;

use unwedge::cap::limits::{Keep, OPAQUE_CHARGE, Unit};
use unwedge::cap::marker;
use unwedge::hunk::hunks;
use unwedge::text::cut::{self, Cut, Manner, Part, Piece, cut_by};
use unwedge::text::json::Node;
use unwedge::text::literal::{Encoding, decode, measure};

use crate::input::Input;
use crate::slow;

const PATH: &str = "/spill \"é\"; kept here/0123.txt";

/// The longest text in bytes.
const MOST: usize = 3000;

/// Parts as they are stored: `None` is an image.
type Stored = Vec<Option<Vec<u8>>>;

pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let (keep, unit, how) = (input.keep(), input.unit(), input.byte());
    let (allowance, lower) = (input.small() % 4096, input.small() % 4096);
    let encoding = if how & 1 == 0 { Encoding::Plain } else { Encoding::Base64 };
    let times = [1, 1, 3, 40][usize::from(how >> 1 & 3)];
    let repeated = |piece: &[u8]| -> Vec<u8> { piece.iter().copied().cycle().take((piece.len() * times).min(MOST)).collect() };
    let store = |piece: &[u8]| match piece {
        [0xfe, ..] => None,
        // As it stands, which may be no literal.
        _ if how & 8 != 0 => Some([b"\"", &*repeated(piece), b"\""].concat()),
        _ if encoding == Encoding::Base64 => Some(slow::encode(&repeated(piece))),
        _ => Some(serde_json::to_vec(&String::from_utf8_lossy(&repeated(piece))).unwrap()),
    };
    let old: Stored = input.0.split(|b| *b == 0xff).take(8).map(store).collect();
    let valid = old.iter().flatten().all(|literal| slow::decode(literal).is_some());
    let plain = cut::cut(&parts(&old, encoding), allowance, keep);
    assert_eq!(plain.is_ok(), valid);
    let spill = |_: &[u8]| Some(PATH.to_owned());
    let full_text: Option<&dyn Fn(&[u8]) -> Option<String>> = if how & 16 == 0 { None } else { Some(&spill) };
    let manner = Manner { keep, unit, full_text };
    let by_unit = cut_by(&parts(&old, encoding), allowance, &manner);
    assert_eq!(by_unit.is_ok(), valid);
    let (Ok(plain), Ok(by_unit)) = (plain, by_unit) else { return };

    holds(&old, &plain, encoding, allowance, keep);
    let once = after(&old, &plain);
    let again = cut::cut(&parts(&once, encoding), allowance, keep).unwrap();
    assert!(again.iter().all(Option::is_none), "a second cut changes {again:?}");
    // A line of the text itself that has the shape of a second line is taken for one once a cut has put its marker next to it.
    let pretends = old.iter().flatten().any(|literal| memchr::memmem::find(&text(literal, encoding), b" kept").is_some());
    if keep != Keep::Both && lower <= allowance && !pretends {
        let less = after(&old, &cut::cut(&parts(&old, encoding), lower, keep).unwrap());
        let twice = after(&once, &cut::cut(&parts(&once, encoding), lower, keep).unwrap());
        let shown = |stored: &Stored| stored.iter().flatten().map(|l| text(l, encoding)).collect::<Vec<_>>();
        assert_eq!(shown(&twice), shown(&less), "two cuts are not one");
    }

    holds(&old, &by_unit.parts, encoding, allowance, keep);
    let new = after(&old, &by_unit.parts);
    let again = cut_by(&parts(&new, encoding), allowance, &manner).unwrap();
    assert!(again.parts.iter().all(Option::is_none), "a second cut changes {again:?}");
    if unit == Unit::Bytes && full_text.is_none() && by_unit.full_text.is_none() {
        assert_eq!(by_unit.parts, plain);
    }
}

fn parts(stored: &Stored, encoding: Encoding) -> Vec<Part<'_>> {
    stored.iter().map(|l| l.as_deref().map_or(Part::Opaque, |literal| Part::Text { literal, encoding })).collect()
}

fn after(old: &Stored, cuts: &[Option<Cut>]) -> Stored {
    old.iter().zip(cuts).map(|(old, cut)| cut.as_ref().map(|cut| cut.literal.clone()).or(old.clone())).collect()
}

fn charge(stored: &Stored, of: impl Fn(&[u8]) -> u64) -> u64 {
    stored.iter().map(|literal| literal.as_deref().map_or(OPAQUE_CHARGE, &of)).sum()
}

/// What the assistant receives, by the slow reader.
fn text(literal: &[u8], encoding: Encoding) -> Vec<u8> {
    let text = slow::decode(literal).unwrap();
    let inner = if encoding == Encoding::Base64 { slow::base64(&text) } else { None };
    inner.unwrap_or(text)
}

/// Within the allowance or at the floor; nothing longer, emptied or moved; the kept bytes are the old ones.
pub fn holds(old: &Stored, cuts: &[Option<Cut>], encoding: Encoding, allowance: u64, keep: Keep) {
    let new = after(old, cuts);
    let size = |stored: &Stored| charge(stored, |literal| measure(literal, encoding).unwrap().size);
    let floor = charge(old, |literal| measure(literal, encoding).unwrap().floor(keep));
    assert_eq!(old.len(), cuts.len());
    assert!(size(&new) <= allowance.max(floor), "{} over {allowance} and {floor}", size(&new));
    assert!(size(&new) <= size(old));
    if size(old) <= allowance {
        assert!(cuts.iter().all(Option::is_none));
    }
    for (old, cut) in old.iter().zip(cuts) {
        let Some(cut) = cut else { continue };
        one(old.as_deref().unwrap(), cut, encoding);
    }
}

fn one(old: &[u8], cut: &Cut, encoding: Encoding) {
    assert!(Node::document(&cut.literal).is_ok());
    let (was, now) = (text(old, encoding), text(&cut.literal, encoding));
    assert_eq!(decode(&cut.literal, encoding).unwrap(), now);
    assert_eq!((cut.before, cut.after), (was.len() as u64, now.len() as u64));
    assert!(cut.after < cut.before && !now.is_empty());
    assert!(cut.head + cut.tail < cut.before);
    let (old_measure, new_measure) = (measure(old, encoding).unwrap(), measure(&cut.literal, encoding).unwrap());
    assert_eq!(old_measure.base64, new_measure.base64);

    // The marker stands on a line of its own, and says what is.
    let shown = String::from_utf8_lossy(&now);
    assert!(shown.split('\n').any(|line| line == cut.marker), "{shown:?} {:?}", cut.marker);
    let (_, b) = marker::parse_line(&cut.marker).unwrap();
    assert!(marker::reads(b, cut.after) || b == "0 B", "{b} of {}", cut.after);

    // Every run begins and ends between two characters, and its bytes are the old literal's own.
    let mut places = HashMap::new();
    slow::walk(old, |decoded, stored| _ = places.insert(decoded, stored)).unwrap();
    let mut expected = vec![b'"'];
    let mut made = Vec::new();
    let mut at = 0;
    for piece in &cut.pieces {
        match piece {
            Piece::Run(run) => {
                assert!(run.start >= at && run.start < run.end && run.end <= cut.before, "{:?}", cut.pieces);
                at = run.end;
                made.extend_from_slice(&was[run.start as usize..run.end as usize]);
                if !old_measure.base64 {
                    expected.extend_from_slice(&old[places[&run.start]..places[&run.end]]);
                }
            }
            Piece::New(new) => {
                made.extend_from_slice(new.as_bytes());
                expected.extend_from_slice(&escaped(new));
            }
        }
    }
    expected.push(b'"');
    assert_eq!(made, now);
    assert_eq!(cut.literal, if old_measure.base64 { slow::encode(&made) } else { expected });
    for full in [false, true] {
        let holes = hunks(&was, cut, full);
        let gone: u64 = holes.iter().map(|hole| hole.removed_bytes).sum();
        assert!(gone <= cut.before && (!full || gone > 0));
    }
}

fn escaped(text: &str) -> Vec<u8> {
    let escape = |c: char| -> Cow<'_, str> {
        match c {
            '\n' => "\\n".into(),
            '"' | '\\' => format!("\\{c}").into(),
            '\0'..' ' => format!("\\u{:04x}", u32::from(c)).into(),
            c => c.to_string().into(),
        }
    };
    text.chars().map(escape).collect::<String>().into_bytes()
}
