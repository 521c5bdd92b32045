//! From measured responses and limits to what each response is held to.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, reason = "numbers from files and journals"))]

use std::collections::BTreeMap;

use super::batch::{self, Member};
use super::limits::{Limits, Source};

/// One response, measured. Sizes are decoded bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Measured<'a> {
    /// The tool's name, where it is known.
    pub tool: Option<&'a str>,
    /// Responses of one batch share the number.
    pub batch: u64,
    /// What the assistant receives.
    pub size: u64,
    /// The least the cutter can make of it.
    pub floor: u64,
}

/// What a response is held to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// In decoded bytes.
    pub limit: u64,
    /// Where the limit comes from.
    pub source: Source,
    /// Which limit it is.
    pub rule: Rule,
}

/// The limits there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rule {
    /// The response's own threshold.
    Threshold,
    /// The level that its batch comes down to.
    Batch,
    /// The level that the live conversation comes down to, so that it fits the window.
    Window,
}

impl Rule {
    /// The name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Rule::Threshold => "threshold",
            Rule::Batch => "batch",
            Rule::Window => "window",
        }
    }
}

/// A batch and what is left of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Batch {
    /// Its responses.
    pub responses: u64,
    /// Their size together, before.
    pub size: u64,
    /// The level its responses were held to; `None` where the ceiling asks for none.
    pub level: Option<u64>,
    /// Whether it exceeds the ceiling even so.
    pub still_over: bool,
}

/// What every response is held to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// In the order of the responses: `None` where a response is over nothing.
    pub held: Vec<Option<Held>>,
    /// By batch number.
    pub batches: BTreeMap<u64, Batch>,
}

/// Holds every response to its threshold and every batch to the ceiling.
#[must_use]
pub fn plan(responses: &[Measured<'_>], limits: &Limits) -> Plan {
    let ceiling = limits.ceiling();
    let mut groups: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for (i, response) in responses.iter().enumerate() {
        groups.entry(response.batch).or_default().push(i);
    }
    let mut plan = Plan { held: vec![None; responses.len()], batches: BTreeMap::new() };
    for (number, group) in groups {
        let measured: Vec<_> = group
            .iter()
            .filter_map(|i| Some((*i, responses.get(*i)?, limits.threshold(responses.get(*i)?.tool))))
            .collect();
        let members: Vec<_> = measured
            .iter()
            .map(|(_, r, t)| Member { size: r.size, threshold: t.value.bytes(), floor: r.floor })
            .collect();
        let budget = batch::budget(&members, ceiling.value.bytes());
        for ((i, _, threshold), allowance) in measured.iter().zip(&budget.allowances) {
            let Some(limit) = *allowance else { continue };
            let rule = if threshold.value.bytes() == Some(limit) { Rule::Threshold } else { Rule::Batch };
            let source = if rule == Rule::Batch { ceiling.source } else { threshold.source };
            if let Some(slot) = plan.held.get_mut(*i) {
                *slot = Some(Held { limit, source, rule });
            }
        }
        let size = members.iter().fold(0_u64, |sum, m| sum.saturating_add(m.size));
        plan.batches.insert(
            number,
            Batch { responses: members.len() as u64, size, level: budget.level, still_over: budget.still_over },
        );
    }
    plan
}
