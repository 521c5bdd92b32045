//! One stream, read once: what is in it, what is over a limit, and how it would be cut.
//!
//! Pure but for the bytes it is handed: the repair pushes a stored document in, the proof pushes the new one in, and both
//! get the same answer from the same code.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::path::Path;

use crate::cap::limits::{Keep, Layer, Limit, LimitError, Limits, OPAQUE_CHARGE, Source, Unit};
use crate::cap::marker;
use crate::cap::plan::{self, Batch, Held, Measured, Rule};
use crate::cap::window::Estimate;
use crate::diagnosis::{self, Diagnosis, Planned};
use crate::error::Result;
use crate::event::Note;
use crate::format::{Broken, Depth, Format, Located, Locator, Part, Record, Response, Setting};
use crate::text::cut::{self, Counted, Cut, FullText, Manner};
use crate::text::literal::{Encoding, Prior};
use crate::text::records::{Splitter, TooLong};

/// A stream on its way in.
pub struct Reading {
    locator: Box<dyn Locator>,
    splitter: Splitter,
    len: u64,
}

impl Reading {
    /// Of a stream of this format and path. The asides are what lies beside it and is only read.
    #[must_use]
    pub fn new<'a>(
        format: &dyn Format,
        path: &Path,
        depth: Depth,
        asides: impl IntoIterator<Item = (&'a Path, &'a [u8])>,
    ) -> Self {
        Self::within(u64::MAX, format, path, depth, asides)
    }

    /// The same, with records of at most so many bytes.
    #[must_use]
    pub fn within<'a>(
        most: u64,
        format: &dyn Format,
        path: &Path,
        depth: Depth,
        asides: impl IntoIterator<Item = (&'a Path, &'a [u8])>,
    ) -> Self {
        let mut locator = format.locator(path, depth);
        for (path, bytes) in asides {
            locator.aside(path, bytes);
        }
        Reading { locator, splitter: Splitter::new(format.framing(), most), len: 0 }
    }

    /// Takes the next bytes of the document.
    ///
    /// # Errors
    /// See [`Splitter::push`].
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        self.len += bytes.len() as u64;
        self.splitter.push(bytes, &mut |record: &Record<'_>| self.locator.record(record))
    }

    /// The document has ended.
    #[must_use]
    pub fn finish(self, limits: &Limits, live_only: bool) -> Assessment {
        self.finish_by(None, limits, live_only)
    }

    /// The same, with the window held as it was before.
    #[must_use]
    pub fn finish_by(mut self, earlier: Option<Earlier>, limits: &Limits, live_only: bool) -> Assessment {
        self.splitter.finish(&mut |record: &Record<'_>| self.locator.record(record));
        Assessment::of(self.locator.finish(), self.len, earlier, limits, live_only)
    }
}

/// What is in a stream, and what of it is over a limit.
#[derive(Debug)]
pub struct Assessment {
    /// What the format found.
    pub located: Located,
    /// The limits in force, those of the conversation among them.
    pub limits: Limits,
    /// What is over a limit, largest first.
    pub targets: Vec<Target>,
    /// Batches by number.
    pub batches: BTreeMap<u64, Batch>,
    /// Notes for people.
    pub notes: Vec<Note>,
    /// Stored bytes of the document.
    pub len: u64,
    /// Whether most of it was not read, because little of it showed that nothing is over a limit.
    pub skimmed: bool,
    /// Whether the conversation will run again, where the format tells and was asked.
    pub diagnosis: Option<Diagnosis>,
}

/// How a window was held before a cut. What a provider counted says less afterwards, when it is not known whether that came
/// before the cut or after it; and sizes that differed may be equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Earlier {
    /// How tokens were estimated.
    pub estimate: Estimate,
    /// Whether it asked anything of a response.
    pub asked: bool,
}

impl Earlier {
    /// Of what was found before.
    #[must_use]
    pub fn of(before: &Assessment) -> Option<Self> {
        let asked = before.targets.iter().any(|target| target.held.rule == Rule::Window);
        before.diagnosis.as_ref().map(|diagnosis| Earlier { estimate: diagnosis.estimate, asked })
    }
}

/// One text over its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    /// Which response.
    pub response: usize,
    /// Which of its copies; `None` is the text the assistant receives.
    pub copy: Option<usize>,
    /// Its decoded size.
    pub size: u64,
    /// What it is held to.
    pub held: Held,
}

impl Assessment {
    fn of(located: Located, len: u64, earlier: Option<Earlier>, limits: &Limits, live_only: bool) -> Self {
        let mut notes: Vec<Note> = located.notes.iter().map(|n| Note { line: n.line, text: n.text.clone() }).collect();
        let limits = limits.with(conversation_layer(&located, &mut notes));
        let window = located.outline.as_ref().and_then(|outline| diagnosis::known(limits.window(), outline));
        let limits = limits.knowing(window.map(|w| w.tokens));
        let considered: Vec<(usize, &Response)> =
            located.responses.iter().enumerate().filter(|(_, r)| !(live_only && r.dead.is_some())).collect();
        // What is only copies has no part in a batch.
        let sent: Vec<(usize, &Response)> = considered.iter().copied().filter(|(_, r)| !r.only_copies).collect();
        let measured = sent.iter().map(|(_, r)| {
            let tool = r.tool.as_deref();
            Measured { tool, batch: r.batch, size: size(&r.parts), floor: floor(r, &limits) }
        });
        let measured: Vec<Measured<'_>> = measured.collect();
        let mut plan = plan::plan(&measured, &limits);
        let diagnosis = hold_to_window(&located, earlier, &limits, &sent, &measured, &mut plan.held, &mut notes);
        let mut targets = Vec::new();
        let mut held_of: HashMap<usize, Held> = HashMap::new();
        for (((index, _), held), measured) in sent.iter().zip(&plan.held).zip(&measured) {
            if let Some(held) = *held {
                targets.push(Target { response: *index, copy: None, size: measured.size, held });
                held_of.insert(*index, held);
            }
        }
        // A batch that is over although each of its responses is at the least level is said of its largest one.
        for (number, batch) in plan.batches.iter().filter(|(_, batch)| batch.still_over) {
            let members = || sent.iter().zip(&measured).filter(|((_, r), _)| r.batch == *number);
            let largest = members().max_by_key(|((index, _), m)| (m.size, std::cmp::Reverse(*index)));
            if let (Some(((index, _), m)), Some(level), false) =
                (largest, batch.level, members().any(|((index, _), _)| held_of.contains_key(index)))
            {
                let held = Held { limit: level, source: limits.ceiling().source, rule: Rule::Batch };
                targets.push(Target { response: *index, copy: None, size: m.size, held });
            }
        }
        for (index, response) in &considered {
            // A copy is held to what its sent text is held to; where that was not cut, to the tool's threshold.
            let threshold = limits.threshold(response.tool.as_deref());
            let own =
                threshold.value.bytes().map(|limit| Held { limit, source: threshold.source, rule: Rule::Threshold });
            let Some(held) = held_of.get(index).copied().or(own) else { continue };
            for (number, copy) in response.copies.iter().enumerate() {
                let size = size(&copy.parts);
                if size > held.limit {
                    targets.push(Target { response: *index, copy: Some(number), size, held });
                }
            }
        }
        targets.sort_by_key(|t| (std::cmp::Reverse(t.size), t.response, t.copy));
        Assessment { located, limits, targets, batches: plan.batches, notes, len, skimmed: false, diagnosis }
    }

    /// Of a stream that needs no reading.
    #[must_use]
    pub fn skimmed(len: u64, limits: &Limits) -> Self {
        Assessment {
            located: Located::default(),
            limits: limits.clone(),
            targets: Vec::new(),
            batches: BTreeMap::new(),
            notes: Vec::new(),
            len,
            skimmed: true,
            diagnosis: None,
        }
    }

    /// The parts of a target.
    #[must_use]
    pub fn parts(&self, target: &Target) -> &[Part] {
        let response = self.located.responses.get(target.response);
        response
            .and_then(|r| target.copy.map_or(Some(&r.parts), |c| r.copies.get(c).map(|c| &c.parts)))
            .map_or(&[], Vec::as_slice)
    }

    /// Where a target's first text starts.
    #[must_use]
    pub fn start(&self, target: &Target) -> Option<u64> {
        self.parts(target).iter().find_map(|part| match part {
            Part::Text { span, .. } => Some(span.start),
            Part::Opaque { .. } => None,
        })
    }

    /// What is broken, and whether that makes the whole stream impossible to understand.
    pub fn broken(&self) -> impl Iterator<Item = &Broken> {
        self.located.broken.iter()
    }

    /// Cuts one target. `read` gives stored bytes of the document.
    ///
    /// # Errors
    /// What `read` returns. A literal that has become none since it was measured is an error of `read`'s kind, made by `bad`.
    pub fn cut(
        &self,
        target: &Target,
        read: &mut dyn FnMut(Range<u64>) -> Result<Vec<u8>>,
        bad: &dyn Fn(String) -> crate::error::Error,
    ) -> Result<CutTarget> {
        self.cut_naming(target, read, bad, None)
    }

    /// The same, and the response names the place where its whole text is or will be kept.
    ///
    /// # Errors
    /// See [`Assessment::cut`].
    pub fn cut_naming(
        &self,
        target: &Target,
        read: &mut dyn FnMut(Range<u64>) -> Result<Vec<u8>>,
        bad: &dyn Fn(String) -> crate::error::Error,
        full_text: Option<FullText<'_>>,
    ) -> Result<CutTarget> {
        let response = self.located.responses.get(target.response);
        let tool = response.and_then(|r| r.tool.as_deref());
        let parts = self.parts(target);
        let opening = opening(parts);
        // What a text opens with can only stay where its head does.
        let keep = self.limits.keep_of(tool, response.is_some_and(|r| r.is_error == Some(true)));
        let keep = if opening > 0 { Keep::Head } else { keep };
        let manner = Manner { keep, unit: self.limits.unit(tool).value, full_text };
        let mut literals = Vec::with_capacity(parts.len());
        for part in parts {
            literals.push(match part {
                Part::Text { span, encoding, .. } => Some((read(span.clone())?, *encoding)),
                Part::Opaque { .. } => None,
            });
        }
        let given = literals.iter().map(|l| match l {
            Some((literal, encoding)) => cut::Part::Text { literal, encoding: *encoding },
            None => cut::Part::Opaque,
        });
        let given: Vec<cut::Part<'_>> = given.collect();
        let allowance = target.held.limit.max(least(parts, opening));
        let by = |manner: &Manner<'_>| cut::cut_by(&given, allowance, manner).map_err(|e| bad(e.to_string()));
        let opens = |cuts: &cut::Response| cuts.parts.iter().flatten().all(|cut| cut.head >= opening);
        let mut cuts = by(&manner)?;
        if !opens(&cuts) {
            // In some units little stays at the start, and the place of the whole text takes room.
            cuts = by(&Manner { unit: Unit::Bytes, full_text: None, ..manner })?;
        }
        if !opens(&cuts) {
            cuts.parts.fill(None);
        }
        let mut delivered = target.size;
        let mut out = Vec::new();
        for (((index, part), literal), cut) in (0..).zip(parts).zip(literals).zip(cuts.parts) {
            let (Part::Text { span, line, encoding, .. }, Some((old, _)), Some(cut)) = (part, literal, cut) else {
                continue;
            };
            delivered = delivered.saturating_sub(cut.before).saturating_add(cut.after);
            out.push(CutPart { index, span: span.clone(), line: *line, encoding: *encoding, old, cut });
        }
        Ok(CutTarget { parts: out, delivered, counted: cuts.counted, full_text: cuts.full_text })
    }
}

/// A target, cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CutTarget {
    /// The parts that change; none where nothing could be gained.
    pub parts: Vec<CutPart>,
    /// The decoded size afterwards.
    pub delivered: u64,
    /// What it was cut in.
    pub counted: Counted,
    /// Where its whole text is, as far as that is known.
    pub full_text: Option<String>,
}

/// One part, cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CutPart {
    /// Its number in the response, from 0.
    pub index: u64,
    /// Its literal's bytes in the old document.
    pub span: Range<u64>,
    /// The physical line the literal starts at.
    pub line: u64,
    /// How it is stored.
    pub encoding: Encoding,
    /// The old literal.
    pub old: Vec<u8>,
    /// The cut.
    pub cut: Cut,
}

/// The decoded size of a response, images charged.
#[must_use]
pub fn size(parts: &[Part]) -> u64 {
    parts.iter().fold(0, |sum: u64, part| {
        sum.saturating_add(match part {
            Part::Text { measure, .. } => measure.size,
            Part::Opaque { .. } => OPAQUE_CHARGE,
        })
    })
}

/// Decoded bytes of the first text that must stay.
fn opening(parts: &[Part]) -> u64 {
    match parts.first() {
        Some(Part::Text { opening, .. }) => *opening,
        _ => 0,
    }
}

/// The least that leaves the opening whole: it, a newline and a marker, and what is never cut. Zero where there is none.
fn least(parts: &[Part], opening: u64) -> u64 {
    let opaque = parts.iter().filter(|part| matches!(part, Part::Opaque { .. })).count() as u64;
    let text = opening.saturating_add(1 + marker::LONGEST);
    if opening > 0 { opaque.saturating_mul(OPAQUE_CHARGE).saturating_add(text) } else { 0 }
}

fn floor(response: &Response, limits: &Limits) -> u64 {
    let whole = least(&response.parts, opening(&response.parts));
    floor_of_texts(response, limits).max(whole).min(size(&response.parts))
}

fn floor_of_texts(response: &Response, limits: &Limits) -> u64 {
    let keep = limits.keep_of(response.tool.as_deref(), response.is_error == Some(true));
    response.parts.iter().fold(0, |sum: u64, part| {
        sum.saturating_add(match part {
            Part::Text { measure, .. } => measure.floor(keep),
            Part::Opaque { .. } => OPAQUE_CHARGE,
        })
    })
}

/// Holds the live responses to the window as well, and says how the conversation stands.
fn hold_to_window(
    located: &Located,
    earlier: Option<Earlier>,
    limits: &Limits,
    sent: &[(usize, &Response)],
    measured: &[Measured<'_>],
    held: &mut [Option<Held>],
    notes: &mut Vec<Note>,
) -> Option<Diagnosis> {
    let outline = located.outline.as_ref()?;
    let live = || sent.iter().enumerate().filter(|(_, (_, r))| r.dead.is_none());
    let planned = live().filter_map(|(at, (_, r))| {
        let m = measured.get(at)?;
        let limit = held.get(at).copied().flatten().map_or(u64::MAX, |held| held.limit.max(m.floor));
        let opaque = r.parts.iter().filter(|p| matches!(p, Part::Opaque { .. })).count() as u64;
        let times = 1 + r.copies.iter().filter(|copy| copy.sent).count() as u64;
        let marked = |p: &Part| matches!(p, Part::Text { measure, .. } if measure.speaks_of.is_some() || measure.prior != Prior::default());
        let cut = r.parts.iter().any(marked);
        let charge = opaque.saturating_mul(OPAQUE_CHARGE);
        Some(Planned { size: m.size, held: m.size.min(limit), floor: m.floor, charge, times, record: r.record, cut })
    });
    let planned: Vec<Planned> = planned.collect();
    let over = held.iter().any(Option::is_some);
    let weighed = match earlier {
        Some(earlier) => diagnosis::weigh_by(earlier.estimate, outline, limits, &planned, over),
        None => diagnosis::weigh(outline, limits, &planned, over),
    };
    if earlier.is_some_and(|earlier| !earlier.asked) {
        return Some(weighed.diagnosis);
    }
    for ((at, _), level) in live().zip(&weighed.held) {
        let (Some(slot), Some(limit)) = (held.get_mut(at), *level) else { continue };
        if slot.is_none_or(|held| limit < held.limit) {
            *slot = Some(Held { limit, source: Source::WindowFlag, rule: Rule::Window });
        }
    }
    notes.extend(weighed.passed_over.map(|text| Note { line: None, text: text.to_owned() }));
    Some(weighed.diagnosis)
}

/// What the conversation's own configuration says. A value that is no limit is noted and passed over.
fn conversation_layer(located: &Located, notes: &mut Vec<Note>) -> Layer {
    let mut layer = Layer::new(Source::Conversation);
    for (tool, setting) in &located.settings {
        let limit = match setting {
            Setting::Text(text) => text.parse::<Limit>(),
            Setting::Number(n) => Limit::from_bytes(*n),
            Setting::Other(text) => Err(LimitError::Unreadable(text.clone())),
        };
        match limit {
            Ok(limit) => {
                layer.thresholds.insert(tool.clone(), limit);
            }
            Err(e) => notes.push(Note {
                line: None,
                text: format!("size_threshold of {tool} in the conversation's configuration is passed over: {e}"),
            }),
        }
    }
    layer
}

/// The first difference in what must not change: number, order, ids, tools, batches and kinds. Sizes and places may differ.
#[must_use]
pub fn difference(old: &Located, new: &Located) -> Option<String> {
    if old.responses.len() != new.responses.len() {
        return Some(format!("{} responses became {}", old.responses.len(), new.responses.len()));
    }
    if old.broken.len() != new.broken.len() {
        return Some(format!("{} broken places became {}", old.broken.len(), new.broken.len()));
    }
    for (index, (a, b)) in old.responses.iter().zip(&new.responses).enumerate() {
        let same = (&a.id, &a.tool, a.batch, a.is_error, a.dead, a.record)
            == (&b.id, &b.tool, b.batch, b.is_error, b.dead, b.record);
        let shapes = same_parts(&a.parts, &b.parts)
            && a.copies.len() == b.copies.len()
            && a.copies.iter().zip(&b.copies).all(|(a, b)| {
                (a.place, a.sent, a.record) == (b.place, b.sent, b.record) && same_parts(&a.parts, &b.parts)
            });
        if !same || !shapes {
            return Some(format!("response {index} is not the same one"));
        }
    }
    None
}

fn same_parts(old: &[Part], new: &[Part]) -> bool {
    old.len() == new.len()
        && old.iter().zip(new).all(|(a, b)| match (a, b) {
            (Part::Text { encoding: x, measure: m, .. }, Part::Text { encoding: y, measure: n, .. }) => {
                x == y && m.base64 == n.base64 && (m.size == 0) == (n.size == 0)
            }
            (Part::Opaque { stored: x }, Part::Opaque { stored: y }) => x == y,
            _ => false,
        })
}
