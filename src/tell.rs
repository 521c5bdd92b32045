//! What an assessment comes to, as a report tells it.

use std::collections::BTreeSet;

use crate::assess::{self, Assessment, Target};
use crate::event::{BatchInfo, Finding, Kind, Place, Sums};
use crate::format::Part;

/// Sums over the responses of a document.
#[must_use]
pub fn sums(before: &Assessment) -> Sums {
    let mut sums = Sums::default();
    let mut batches = BTreeSet::new();
    for response in &before.located.responses {
        if !response.only_copies {
            sums.responses += 1;
            batches.insert(response.batch);
        }
        let size = assess::size(&response.parts);
        let sum = if response.dead.is_some() { &mut sums.dead } else { &mut sums.live };
        *sum = sum.saturating_add(size);
        sums.copies =
            response.copies.iter().fold(sums.copies, |sum, copy| sum.saturating_add(assess::size(&copy.parts)));
        for part in response.parts.iter().chain(response.copies.iter().flat_map(|c| &c.parts)) {
            if let Part::Opaque { stored } = part {
                sums.opaque_stored = sums.opaque_stored.saturating_add(*stored);
            }
        }
    }
    sums.batches = batches.len() as u64;
    sums
}

/// What is over a limit, largest first.
#[must_use]
pub fn findings(before: &Assessment) -> Vec<Finding> {
    let finding = |target: &Target| {
        let response = before.located.responses.get(target.response)?;
        let batch = before.batches.get(&response.batch);
        let copy = target.copy.and_then(|number| response.copies.get(number));
        let line = before.parts(target).iter().find_map(|part| match part {
            Part::Text { line, .. } => Some(*line),
            Part::Opaque { .. } => None,
        });
        Some(Finding {
            rule: target.held.rule,
            kind: if target.copy.is_some() { Kind::Copy } else { Kind::Response },
            place: Place { line: line.unwrap_or(1), record: copy.map_or(response.record, |copy| copy.record) },
            call_id: response.id.clone(),
            tool: response.tool.clone(),
            batch: batch.map(|b| BatchInfo {
                number: response.batch,
                responses: b.responses,
                size: b.size,
                still_over: b.still_over,
            }),
            dead: response.dead,
            size: target.size,
            limit: target.held.limit,
            limit_source: target.held.source.name(),
            delivered: None,
            still_over: false,
            cut: None,
            unit: None,
            full_text: None,
            hunks: Vec::new(),
        })
    };
    before.targets.iter().filter_map(finding).collect()
}
