//! Whether a conversation will run again: what ended it, what its next request would carry, and whether that fits.
//!
//! Numbers of an [`Outline`] and of a plan in, a verdict out. It reads no bytes.

use crate::cap::limits::{Limits, WindowLimit};
use crate::cap::window::{self, Counted, Estimate, Fit, Sent};
use crate::format::{Load, Outline, StoredError, Usage, Weight};

/// What is said of one conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnosis {
    /// In one word.
    pub verdict: Verdict,
    /// The stored error that ended it.
    pub error: Option<StoredError>,
    /// The model that was named last.
    pub model: Option<String>,
    /// The context window it is held against, where one is known, and how.
    pub window: Option<Known>,
    /// The tokens of it that a request may have: the window less the reserve.
    pub room: Option<u64>,
    /// How tokens were estimated.
    pub estimate: Estimate,
    /// What the next request would carry beside responses.
    pub weight: Weight,
    /// The live responses, as they are.
    pub responses: Load,
    /// Tokens of the next request, estimated.
    pub tokens: u64,
    /// The same once everything over a limit is cut.
    pub tokens_after: u64,
}

/// What a conversation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Nothing is over a limit, and nothing says that it is stuck.
    Clean,
    /// Something is over a limit.
    OverLimit,
    /// It ended in an error of too much context, and there are responses to cut.
    WedgedRepairable,
    /// It ended in one, and the weight is elsewhere.
    WedgedElsewhere,
    /// It is over the window that was asked for, and cutting responses alone cannot make it fit.
    CannotFit,
}

impl Verdict {
    /// The name in JSON reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Clean => "clean",
            Verdict::OverLimit => "over-a-limit",
            Verdict::WedgedRepairable => "wedged-repairable",
            Verdict::WedgedElsewhere => "wedged-nothing-to-cut",
            Verdict::CannotFit => "cannot-fit",
        }
    }

    /// Whether the conversation ended in an error of too much context.
    #[must_use]
    pub fn wedged(self) -> bool {
        matches!(self, Verdict::WedgedRepairable | Verdict::WedgedElsewhere)
    }
}

/// A context window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// In tokens.
    pub tokens: u64,
    /// Who says so.
    pub source: &'static str,
}

/// The window of a conversation: as asked for, else as its stream stores it, as its error names it, or as its model has.
#[must_use]
pub fn known(limit: Option<WindowLimit>, outline: &Outline) -> Option<Known> {
    let known = |source| move |tokens| Known { tokens, source };
    let asked = limit.and_then(|l| l.tokens).map(known("--window"));
    let named = || outline.stored_error.as_ref().and_then(|e| maximum(&e.text)).map(known("the error"));
    let model = || outline.model.as_deref().and_then(window::of_model).map(known("the model"));
    asked.or(outline.window.map(known("the stream"))).or_else(named).or_else(model)
}

/// The maximum in an error's text: `213462 tokens > 200000 maximum`, `maximum context length is 128000 tokens`.
fn maximum(text: &str) -> Option<u64> {
    let digits = |text: &str| text.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default().parse::<u64>().ok();
    let behind = |words: &str| text.split_once(words).and_then(|(_, rest)| digits(rest));
    let tokens = behind(" > ").filter(|_| text.contains(" maximum")).or_else(|| behind("maximum context length is "));
    tokens.filter(|tokens| *tokens >= 1000)
}

/// A live response in the plan.
#[derive(Debug, Clone, Copy)]
pub struct Planned {
    /// What it has now, images charged.
    pub size: u64,
    /// What it will have within thresholds and ceiling.
    pub held: u64,
    /// The least the cutter can make of it.
    pub floor: u64,
    /// What its images are charged.
    pub charge: u64,
    /// How often it is sent.
    pub times: u64,
    /// The record it is in.
    pub record: u64,
    /// Whether it carries the marker of a cut.
    pub cut: bool,
}

/// What the window asks of each response, and the diagnosis.
#[derive(Debug)]
pub struct Weighed {
    /// In the order of the responses: the level of the window, where one must be cut to it.
    pub held: Vec<Option<u64>>,
    /// What is said.
    pub diagnosis: Diagnosis,
    /// Why a window that was asked for is not applied.
    pub passed_over: Option<&'static str>,
}

/// Holds a conversation against its window. `over`: whether anything is over another limit.
#[must_use]
pub fn weigh(outline: &Outline, limits: &Limits, responses: &[Planned], over: bool) -> Weighed {
    let estimate = Estimate::new(outline.usage.map(counted), outline.first_usage.map(counted));
    weigh_by(estimate, outline, limits, responses, over)
}

/// The same with an estimate that was made before.
#[must_use]
pub fn weigh_by(estimate: Estimate, outline: &Outline, limits: &Limits, responses: &[Planned], over: bool) -> Weighed {
    let images = outline.weight.images.saturating_add(outline.responses.images);
    let other = outline.weight.bytes();
    let asked = limits.window();
    let window = known(asked, outline);
    let reserve = asked.map_or(window::RESERVE, |w| w.reserve);
    let room = window.map(|w| w.tokens.saturating_sub(reserve));
    let sum = |of: &dyn Fn(&Planned) -> u64| {
        responses
            .iter()
            .fold(0_u64, |sum, r| sum.saturating_add(of(r).saturating_sub(r.charge).saturating_mul(r.times)))
    };
    // Where not every live response is in the next request, these sums are of something else.
    let all_sent = sum(&|r| r.size) == outline.responses.bytes;
    let tokens_of = |responses: u64| estimate.tokens(other.saturating_add(responses), images);
    let tokens = tokens_of(outline.responses.bytes);
    let planned = if all_sent { sum(&|r| r.held) } else { outline.responses.bytes };
    let mut fitted = None;
    let mut passed_over = None;
    if let Some(asked) = asked {
        match room {
            None => {
                passed_over =
                    Some("the window is not known: the stream names no model that is; give it with --window TOKENS")
            }
            Some(_) if !all_sent => {
                passed_over = Some("not every response of it is in the next request, so the window is not applied")
            }
            Some(room) if tokens_of(planned) > room => {
                fitted = Some(fit(outline, &estimate, room, asked.keep_last, responses, other, images));
            }
            Some(_) => {}
        }
    }
    let fits = fitted.as_ref().is_none_or(|fit| fit.fits);
    let held = match &fitted {
        Some(fit) if fit.fits => fit.held.clone(),
        _ => vec![None; responses.len()],
    };
    let after = responses.iter().zip(&held).map(|(r, h)| Planned { held: h.map_or(r.held, |h| h.min(r.held)), ..*r });
    let after: Vec<Planned> = after.collect();
    let after =
        after.iter().fold(0_u64, |sum, r| sum.saturating_add(r.held.saturating_sub(r.charge).saturating_mul(r.times)));
    let tokens_after = if all_sent { tokens_of(after) } else { tokens };
    let over = over || held.iter().any(Option::is_some);
    // A wedged conversation can be freed where its responses could be made to fit. Where that is not known, or what is stored
    // would fit as it is, where they are most of what is stored.
    let freed = match room {
        Some(room) if all_sent && tokens > room => {
            fit(outline, &estimate, room, window::KEEP_LAST, responses, other, images).fits
        }
        _ => outline.responses.bytes >= other && outline.responses.bytes > 0,
    };
    // The error stands in the stream after a repair too. What was cut, and now fits, is not wedged any more.
    let cut_since = responses.iter().any(|r| r.cut) && room.is_none_or(|room| tokens <= room);
    let verdict = match outline.stored_error.as_ref().filter(|_| !cut_since || over) {
        _ if !fits => Verdict::CannotFit,
        Some(_) if over || freed => Verdict::WedgedRepairable,
        Some(_) => Verdict::WedgedElsewhere,
        None if over => Verdict::OverLimit,
        None => Verdict::Clean,
    };
    let diagnosis = Diagnosis {
        verdict,
        error: outline.stored_error.clone(),
        model: outline.model.clone(),
        window,
        room,
        estimate,
        weight: outline.weight,
        responses: outline.responses,
        tokens,
        tokens_after,
    };
    Weighed { held, diagnosis, passed_over }
}

fn counted(usage: Usage) -> Counted {
    Counted::either(usage.prompt_tokens, usage.bytes, usage.images, usage.cut)
}

/// Shares the room among the responses. They are cut to a little less than the room: what a second look estimates from the
/// markers' rounded sizes must not be over it again.
fn fit(
    outline: &Outline,
    estimate: &Estimate,
    room: u64,
    keep_last: u64,
    responses: &[Planned],
    other: u64,
    images: u64,
) -> Fit {
    let aim = room - room / 64;
    let late = usize::try_from(keep_last).ok().and_then(|n| outline.turns.len().checked_sub(n.max(1)));
    let late = match late {
        _ if keep_last == 0 => u64::MAX,
        Some(index) => outline.turns.get(index).copied().unwrap_or(u64::MAX),
        // Fewer turns than are to be kept: nothing is old.
        None => 0,
    };
    let sent = |r: &Planned| Sent { size: r.held, floor: r.floor, times: r.times, late: r.record >= late };
    let sent: Vec<Sent> = responses.iter().map(sent).collect();
    let charges = responses.iter().fold(0_u64, |sum, r| sum.saturating_add(r.charge.saturating_mul(r.times)));
    let bytes = estimate.bytes(aim, images).saturating_sub(other).saturating_add(charges);
    window::share(&sent, bytes, window::floor(estimate.bytes(room, images)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(size: u64, record: u64) -> Planned {
        Planned { size, held: size, floor: 40, charge: 0, times: 1, record, cut: false }
    }

    fn outline(responses: &[Planned], error: Option<&str>) -> Outline {
        Outline {
            weight: Weight { assistant: 10_000, user: 2_000, ..Weight::default() },
            responses: Load { bytes: responses.iter().map(|r| r.size).sum(), images: 0 },
            turns: vec![0, 100, 200],
            stored_error: error.map(|text| StoredError { record: 300, line: 301, text: text.into() }),
            model: Some("claude-opus-4-5-20251101".into()),
            ..Outline::default()
        }
    }

    fn asked(tokens: u64) -> Limits {
        let window = WindowLimit { tokens: Some(tokens), reserve: 1000, keep_last: 2 };
        Limits::default().within(Some(window))
    }

    #[test]
    fn many_middling_responses_are_wedged_and_repairable() {
        let responses: Vec<Planned> = (0..20).map(|n| response(40_000, 10 * n)).collect();
        let said =
            weigh(&outline(&responses, Some("Prompt is too long")), &Limits::default(), &responses, false).diagnosis;
        assert_eq!(said.verdict, Verdict::WedgedRepairable);
        assert_eq!(said.tokens, (812_000 * 3_u64).div_ceil(8));
        assert_eq!(said.window, Some(Known { tokens: 200_000, source: "the model" }));
        assert_eq!(said.tokens_after, said.tokens, "nothing is cut without a window");
    }

    #[test]
    fn a_window_is_shared_and_the_result_fits() {
        let responses: Vec<Planned> = (0..20).map(|n| response(40_000, 15 * n)).collect();
        let outline = outline(&responses, None);
        let weighed = weigh(&outline, &asked(220_000), &responses, false);
        assert_eq!(weighed.diagnosis.verdict, Verdict::OverLimit);
        // The last two turns begin at record 100: the seven responses before it give.
        let cut: Vec<bool> = weighed.held.iter().map(Option::is_some).collect();
        assert_eq!(cut, (0..20).map(|n| n < 7).collect::<Vec<_>>());
        assert!(weighed.diagnosis.tokens_after <= 219_000 && weighed.diagnosis.tokens_after > 210_000);
        let wide = weigh(&outline, &asked(1_000_000), &responses, false);
        assert_eq!((wide.diagnosis.verdict, wide.held), (Verdict::Clean, vec![None; 20]));
    }

    #[test]
    fn what_cannot_fit_is_not_cut() {
        let responses = [response(40_000, 0)];
        let mut outline = outline(&responses, None);
        outline.weight.user = 1_000_000;
        let weighed = weigh(&outline, &asked(200_000), &responses, false);
        assert_eq!((weighed.diagnosis.verdict, weighed.held), (Verdict::CannotFit, vec![None]));
    }

    #[test]
    fn a_wedge_without_weight_in_responses_is_elsewhere() {
        let responses = [response(21, 0)];
        let said =
            weigh(&outline(&responses, Some("Prompt is too long")), &Limits::default(), &responses, false).diagnosis;
        assert_eq!(said.verdict, Verdict::WedgedElsewhere);
    }

    #[test]
    fn a_wedge_that_was_cut_and_fits_is_none() {
        let cut = |size| [Planned { cut: true, ..response(size, 0) }];
        let said = |responses: &[Planned]| {
            weigh(&outline(responses, Some("Prompt is too long")), &Limits::default(), responses, false)
                .diagnosis
                .verdict
        };
        assert_eq!(said(&cut(100_000)), Verdict::Clean);
        assert_eq!(said(&cut(1_000_000)), Verdict::WedgedRepairable, "cut, and still too much");
    }

    #[test]
    fn the_window_is_the_one_that_is_nearest() {
        let mut outline = outline(&[], Some("prompt is too long: 213462 tokens > 150000 maximum"));
        assert_eq!(known(None, &outline).map(|k| (k.tokens, k.source)), Some((150_000, "the error")));
        outline.window = Some(258_400);
        assert_eq!(known(None, &outline).map(|k| k.source), Some("the stream"));
        assert_eq!(known(asked(7).window(), &outline).map(|k| k.tokens), Some(7));
        assert_eq!(maximum("This model's maximum context length is 128000 tokens."), Some(128_000));
        assert_eq!(maximum("Prompt is too long"), None);
        let nobody = Outline::default();
        assert_eq!(known(None, &nobody), None);
        let auto = Limits::default().within(Some(WindowLimit { tokens: None, reserve: 0, keep_last: 2 }));
        assert!(weigh(&nobody, &auto, &[], false).passed_over.is_some());
    }
}
