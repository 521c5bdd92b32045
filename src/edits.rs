//! What must go with a cut: stored values by which an agent would take the conversation for too large all the same.
//!
//! Which values these are the format says ([`Located::relics`](crate::format::Located::relics)); here is decided whether they
//! go, and what stands there instead. An error is reworded. Of a count of tokens goes what was cut before it, four bytes a
//! token, as the agents themselves estimate. Nothing here touches what the assistant is sent.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, reason = "numbers from files and journals"))]

use std::ops::Range;

use sha2::{Digest, Sha256};

use crate::assess::{Assessment, CutTarget, Target};
use crate::error::Result;
use crate::event::{Edit, EditKind, FileReport, Note, Place, Status};
use crate::format::{Relic, RelicKind};
use crate::store::journal::Cut;
use crate::text::literal::Encoding;
use crate::text::splice::Splice;

/// Whether such values are edited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unwedge {
    /// Where the conversation is wedged, that is, ends in a stored error of too much context, and something that is sent was
    /// cut. Without a cut the error is still true.
    #[default]
    Auto,
    /// Also where it does not end in an error: counts of tokens are lowered by what was cut. And errors are reworded also
    /// where nothing is cut.
    Always,
    /// Never.
    Never,
}

/// An edit of one record.
pub struct Planned {
    /// Its kind.
    pub kind: EditKind,
    record: u64,
    line: u64,
    tokens: Option<(u64, u64)>,
    /// What is replaced, in the order of the format.
    pub values: Vec<Value>,
}

/// One value, and what comes instead.
pub struct Value {
    span: Range<u64>,
    new: Vec<u8>,
}

/// A cut of something that is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gone {
    record: u64,
    bytes: u64,
}

const BYTES_PER_TOKEN: u64 = 4;

/// How many edits there may be at most. One record is one edit.
#[must_use]
pub fn count(before: &Assessment, unwedge: Unwedge) -> u64 {
    let relics = &before.located.relics;
    let possible = match unwedge {
        Unwedge::Never => false,
        Unwedge::Auto => relics.iter().any(is_error) && !before.targets.is_empty(),
        Unwedge::Always => relics.iter().any(is_error) || !before.targets.is_empty(),
    };
    if possible { records(relics).count() as u64 } else { 0 }
}

/// What a cut takes from the next request.
#[must_use]
pub fn gone(before: &Assessment, target: &Target, cut: &CutTarget) -> Option<Gone> {
    let response = before.located.responses.get(target.response)?;
    let bytes = target.size.saturating_sub(cut.delivered);
    let sent = response.dead.is_none() && !response.only_copies && target.copy.is_none();
    (sent && bytes > 0).then_some(Gone { record: response.record, bytes })
}

/// The edits that go with these cuts. `read` gives stored bytes of the document.
///
/// # Errors
/// What `read` returns.
pub fn plan(
    before: &Assessment,
    unwedge: Unwedge,
    gone: &[Gone],
    read: &mut dyn FnMut(Range<u64>) -> Result<Vec<u8>>,
) -> Result<Vec<Planned>> {
    let relics = &before.located.relics;
    let wanted = match unwedge {
        Unwedge::Never => false,
        Unwedge::Auto => relics.iter().any(is_error) && !gone.is_empty(),
        Unwedge::Always => true,
    };
    let mut edits = Vec::new();
    for relics in records(relics).filter(|_| wanted) {
        let Some(first) = relics.first() else { continue };
        let (mut values, mut tokens) = (Vec::new(), None);
        let bytes = gone.iter().filter(|gone| gone.record < first.record).map(|gone| gone.bytes);
        let mut left = bytes.fold(0, u64::saturating_add) / BYTES_PER_TOKEN;
        let mut taken = 0;
        for relic in relics {
            if let RelicKind::Error { new, .. } = relic.kind {
                values.push(Value { span: relic.span.clone(), new: new.as_bytes().to_vec() });
                continue;
            }
            // The prompt's numbers come first: together they lose what the total loses.
            let Some(old) = number(&read(relic.span.clone())?) else { continue };
            let new = match relic.kind {
                RelicKind::Total => old.saturating_sub(taken),
                _ => old.saturating_sub(left),
            };
            if relic.kind == RelicKind::Prompt {
                let less = old.saturating_sub(new);
                (left, taken) = (left.saturating_sub(less), taken.saturating_add(less));
            }
            let (was, is) = tokens.filter(|_| relic.kind == RelicKind::Prompt).unwrap_or((0, 0));
            tokens = Some((old.saturating_add(was), new.saturating_add(is)));
            if new < old {
                values.push(Value { span: relic.span.clone(), new: new.to_string().into_bytes() });
            }
        }
        if !values.is_empty() {
            let kind = if is_error(first) { EditKind::Error } else { EditKind::Usage };
            edits.push(Planned { kind, record: first.record, line: first.line, tokens, values });
        }
    }
    Ok(edits)
}

/// Whether no stored error may be left.
#[must_use]
pub fn unwedges(edits: &[Planned]) -> bool {
    edits.iter().any(|edit| edit.kind == EditKind::Error)
}

/// Tells of edits that were made, or in a dry run would be.
pub fn tell(edits: Vec<Planned>, before: &Assessment, report: &mut FileReport) {
    if unwedges(&edits) {
        // It no longer does what its note says.
        let stale = |note: &Note| {
            before.located.relics.iter().any(|relic| match relic.kind {
                RelicKind::Error { note: text, .. } => note.line == Some(relic.line) && note.text == text,
                RelicKind::Prompt | RelicKind::Total => false,
            })
        };
        report.notes.retain(|note| !stale(note));
    }
    if !edits.is_empty() && report.status == Status::Clean {
        report.status = Status::Over;
    }
    for edit in edits {
        let text = match (edit.kind, edit.tokens) {
            (EditKind::Usage, Some((was, is))) => {
                format!("the stored count of tokens goes from {was} to {is}: what was cut is no longer among them")
            }
            _ => {
                "the stored error of too much context is reworded: its agent would compact what the cut kept".to_owned()
            }
        };
        report.notes.push(Note { line: Some(edit.line), text });
        let place = Place { line: edit.line, record: edit.record };
        report.edits.push(Edit { kind: edit.kind, place, tokens: edit.tokens, cut: None });
    }
}

impl Value {
    /// The replacement.
    #[must_use]
    pub fn splice(&self) -> Splice {
        Splice { range: self.span.clone(), new: self.new.clone() }
    }
}

impl Planned {
    /// What the journal keeps of it.
    #[must_use]
    pub fn journal(&self, id: u64, value: &Value) -> Cut {
        let part = self.values.iter().take_while(|v| v.span != value.span).count() as u64;
        Cut {
            id,
            call_id: String::new(),
            tool: None,
            part,
            record: self.record,
            line: self.line,
            old: value.span.clone(),
            new: 0..0,
            new_sha256: Sha256::digest(&value.new).into(),
            encoding: Encoding::Plain,
            size: value.span.end.saturating_sub(value.span.start),
            delivered: value.new.len() as u64,
            padding: false,
            edit: Some(self.kind),
        }
    }
}

fn is_error(relic: &Relic) -> bool {
    matches!(relic.kind, RelicKind::Error { .. })
}

/// The relics of each record.
fn records(relics: &[Relic]) -> impl Iterator<Item = &[Relic]> {
    relics.chunk_by(|a, b| a.record == b.record)
}

fn number(literal: &[u8]) -> Option<u64> {
    std::str::from_utf8(literal).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::path::Path;

    use super::*;
    use crate::assess::Reading;
    use crate::cap::limits::Limits;
    use crate::error::Error;
    use crate::format::{Depth, pi::Pi};
    use crate::text::splice::Splices;
    use crate::verify::{Claim, Goal, Written, prove};

    const SESSION: &str = concat!(
        r#"{"type":"session","version":3,"id":"s","timestamp":"t","cwd":"/"}"#,
        "\n",
        r#"{"type":"message","id":"1","parentId":null,"message":{"role":"assistant","content":[],"usage":{"input":3,"cacheRead":10,"cacheWrite":4,"output":1,"totalTokens":18},"stopReason":"stop"}}"#,
        "\n",
        r#"{"type":"message","id":"2","parentId":"1","message":{"role":"assistant","content":[],"stopReason":"error","errorMessage":"prompt is too long"}}"#,
        "\n",
        r#"{"type":"message","id":"3","parentId":"2","message":{"role":"assistant","content":[],"stopReason":"error","errorMessage":"413 x"}}"#,
        "\n"
    );

    struct Bytes<'a>(&'a [u8]);

    impl Read for Bytes<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            self.0.read(buffer)
        }
    }

    impl Written for Bytes<'_> {
        fn stored(&self) -> Option<([u8; 32], u64)> {
            None
        }
    }

    fn read() -> Assessment {
        let mut reading = Reading::new(&Pi, Path::new("s.jsonl"), Depth::Limits, []);
        reading.push(SESSION.as_bytes()).unwrap();
        reading.finish(&Limits::default(), false)
    }

    fn planned(unwedge: Unwedge, bytes: &[u64]) -> Vec<Planned> {
        let gone: Vec<Gone> = bytes.iter().map(|bytes| Gone { record: 0, bytes: *bytes }).collect();
        let mut read_old = |span: Range<u64>| Ok(SESSION.as_bytes()[span.start as usize..span.end as usize].to_vec());
        plan(&read(), unwedge, &gone, &mut read_old).unwrap()
    }

    fn proven(splices: Vec<Splice>) -> Result<()> {
        let before = read();
        let splices = Splices::new(splices).unwrap();
        let mut new = Vec::new();
        splices.apply(&mut SESSION.as_bytes(), &mut new).unwrap();
        let claim = Claim {
            format: &Pi,
            path: Path::new("s.jsonl"),
            asides: &[],
            limits: &Limits::default(),
            live_only: false,
            before: &before,
            splices: &splices,
            goal: Goal::Unwedged,
            left: &Default::default(),
        };
        prove(&claim, &mut SESSION.as_bytes(), &mut Bytes(&new), &mut |_| Ok(Vec::new())).map(|_| ())
    }

    #[test]
    fn the_prompt_loses_what_the_total_loses() {
        for (bytes, new, tokens) in [
            (&[24][..], &["4", "12"][..], (18, 12)),
            (&[43], &["0", "8"], (18, 8)),
            (&[20, 24], &["0", "3", "7"], (18, 7)),
            (&[u64::MAX, 9], &["0", "0", "0", "1"], (18, 1)),
            (&[3], &[], (0, 0)),
        ] {
            let usage: Vec<Planned> =
                planned(Unwedge::Always, bytes).into_iter().filter(|edit| edit.kind == EditKind::Usage).collect();
            let values: Vec<&[u8]> = usage.iter().flat_map(|edit| &edit.values).map(|v| &*v.new).collect();
            assert_eq!(usage.first().and_then(|u| u.tokens).unwrap_or_default(), tokens, "{bytes:?}");
            assert_eq!(values, new.iter().map(|new| new.as_bytes()).collect::<Vec<_>>(), "{bytes:?}");
            assert!(usage.iter().flat_map(|e| &e.values).all(|v| v.new.len() as u64 <= v.span.end - v.span.start));
        }
    }

    #[test]
    fn when_what_goes() {
        let kinds = |unwedge, bytes: &[u64]| planned(unwedge, bytes).iter().map(|e| e.kind).collect::<Vec<_>>();
        assert_eq!(kinds(Unwedge::Never, &[40]), []);
        assert_eq!(kinds(Unwedge::Auto, &[]), []);
        assert_eq!(kinds(Unwedge::Auto, &[40]), [EditKind::Usage, EditKind::Error, EditKind::Error]);
        assert_eq!(kinds(Unwedge::Always, &[]), [EditKind::Error, EditKind::Error]);
        let before = read();
        assert_eq!([Unwedge::Never, Unwedge::Auto, Unwedge::Always].map(|u| count(&before, u)), [0, 0, 3]);
    }

    #[test]
    fn an_error_that_is_left_is_not_proven() {
        let splices: Vec<Splice> =
            planned(Unwedge::Always, &[]).iter().flat_map(|edit| &edit.values).map(Value::splice).collect();
        assert_eq!(splices.len(), 2);
        proven(splices.clone()).unwrap();
        for left in 0..2 {
            let mut some = splices.clone();
            some.remove(left);
            assert!(matches!(proven(some), Err(Error::Unproven { .. })), "error {left} is left");
        }
    }

    #[test]
    fn stored_counts_may_be_any_numbers() {
        let huge = SESSION.replace(r#""input":3,"cacheRead":10"#, &format!(r#""input":{0},"cacheRead":{0}"#, u64::MAX));
        // Without a total, what is said of is the sum.
        let huge = huge.replace(r#","totalTokens":18"#, "");
        let mut reading = Reading::new(&Pi, Path::new("s.jsonl"), Depth::Limits, []);
        reading.push(huge.as_bytes()).unwrap();
        let gone = [Gone { record: 0, bytes: u64::MAX }, Gone { record: 0, bytes: u64::MAX }];
        let mut read_old = |span: Range<u64>| Ok(huge.as_bytes()[span.start as usize..span.end as usize].to_vec());
        let edits = plan(&reading.finish(&Limits::default(), false), Unwedge::Always, &gone, &mut read_old).unwrap();
        let usage = edits.iter().find(|edit| edit.kind == EditKind::Usage).unwrap();
        assert_eq!(usage.tokens.unwrap().0, u64::MAX);
        assert!(!usage.values.is_empty());
    }
}
