//! Whether a live conversation fits the model's context window, and what its responses may keep if it does not.
//!
//! Numbers in, numbers out. Tokens are estimated from bytes: no tokenizer is the right one for every model. Where the
//! stream stores what the provider counted for one of its requests, that count is the base, and only what came since is
//! estimated.

use super::batch;
use super::limits::LEAST;

/// Tokens that are kept free for the answer, unless said otherwise.
pub const RESERVE: u64 = 16_384;
/// Turns at the end whose responses are cut last, unless said otherwise.
pub const KEEP_LAST: u64 = 2;
/// The least that a response is cut to for the window, in bytes. Of a window so small that sixty-four such responses would
/// fill it, a sixty-fourth.
pub const FLOOR: u64 = 2 * 1024;
/// Tokens an image is taken to cost.
pub const IMAGE_TOKENS: u64 = 1_600;

/// What a provider counted for a request, and what of the stream was in that request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    /// The provider's count of the whole prompt, in tokens.
    pub tokens: u64,
    /// Live bytes of text at that point.
    pub bytes: u64,
    /// Live images at that point.
    pub images: u64,
}

/// The context windows of models, in tokens, by what their names hold: the first that fits counts. Of models that are offered
/// with several, the usual one.
pub const MODELS: &[(&str, u64)] = &[
    ("[1m]", 1_000_000),
    ("claude", 200_000),
    ("gpt-5", 272_000),
    ("codex-mini", 200_000),
    ("gpt-4.1", 1_047_576),
    ("gpt-4o", 128_000),
    ("o3", 200_000),
    ("o4-mini", 200_000),
    ("gemini", 1_048_576),
    ("qwen3-coder", 262_144),
    ("deepseek", 128_000),
    ("kimi-k2", 262_144),
    ("glm-4.6", 200_000),
    ("grok-code", 256_000),
    ("grok-4", 256_000),
];

/// The window of a model, by its name as agents spell it (`anthropic/claude-opus-4-5-20251101`).
#[must_use]
pub fn of_model(name: &str) -> Option<u64> {
    let name = name.to_ascii_lowercase();
    MODELS.iter().find(|(part, _)| name.contains(part)).map(|(_, tokens)| *tokens)
}

/// How tokens are estimated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Estimate {
    /// From what the provider counted: that, and for each byte more or less what a byte costs.
    Calibrated {
        /// The last count.
        base: Counted,
        /// What text costs: so many tokens …
        tokens: u64,
        /// … for so many bytes.
        bytes: u64,
    },
    /// Bytes over four, times one and a half: code and JSON have more tokens than prose, and what is sent besides the
    /// stream (system prompt, tools) is not in it.
    Inflated,
}

/// Bytes between two counts from which they tell what a byte costs.
const APART: u64 = 32 * 1024;

impl Estimate {
    /// From what a provider counted last, and first. A count that no text of this size makes is not believed: agents count
    /// differently, and not all that is sent is in every stream.
    #[must_use]
    pub fn new(last: Option<Counted>, first: Option<Counted>) -> Self {
        let Some(base) = last.filter(|last| last.bytes >= 1024 && plausible(last.text(), last.bytes)) else {
            return Estimate::Inflated;
        };
        // Two counts show what text costs without what is always sent besides.
        let apart = first.and_then(|first| {
            let bytes = base.bytes.checked_sub(first.bytes).filter(|bytes| *bytes >= APART)?;
            let tokens = base.text().checked_sub(first.text())?;
            plausible(tokens, bytes).then_some((tokens, bytes))
        });
        let (tokens, bytes) = apart.unwrap_or((base.text(), base.bytes));
        // Nobody's text costs more than a token for two bytes over a whole session; the rest was sent besides.
        let (tokens, bytes) = if tokens > bytes / 2 { (1, 2) } else { (tokens, bytes) };
        Estimate::Calibrated { base, tokens, bytes }
    }

    /// The tokens of a request with so many live bytes of text and images. Rounded up.
    #[must_use]
    pub fn tokens(&self, bytes: u64, images: u64) -> u64 {
        let pictures = i128::from(images) * i128::from(IMAGE_TOKENS);
        let text = match self {
            Estimate::Calibrated { base, tokens, bytes: each } => {
                let more = i128::from(bytes) - i128::from(base.bytes);
                i128::from(base.text()) + (more * i128::from(*tokens)).div_euclid(i128::from(*each)) + 1
            }
            Estimate::Inflated => (i128::from(bytes) * 3 + 7).div_euclid(8),
        };
        u64::try_from((text + pictures).max(0)).unwrap_or(u64::MAX)
    }

    /// The most live bytes of text that are no more than so many tokens together with the images.
    #[must_use]
    pub fn bytes(&self, tokens: u64, images: u64) -> u64 {
        let text = i128::from(tokens) - i128::from(images) * i128::from(IMAGE_TOKENS);
        let bytes = match self {
            Estimate::Calibrated { base, tokens, bytes: each } => {
                // The last byte before the next token: rounded up, less one.
                let more = (text - i128::from(base.text())) * i128::from(*each);
                i128::from(base.bytes) - (-more).div_euclid(i128::from(*tokens).max(1)) - 1
            }
            Estimate::Inflated => (text * 8).div_euclid(3),
        };
        u64::try_from(bytes.max(0)).unwrap_or(u64::MAX)
    }

    /// The method's name in reports.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Estimate::Calibrated { .. } => "calibrated",
            Estimate::Inflated => "bytes",
        }
    }
}

/// Between twenty bytes a token and a token for half a byte.
fn plausible(tokens: u64, bytes: u64) -> bool {
    tokens >= bytes / 20 && tokens / 2 <= bytes && tokens > 0
}

impl Counted {
    /// Of a request of which it is not known whether it came before its responses were cut or after: where they had `cut`
    /// bytes more, the one of which the cost of a byte is nearer to the usual three tenths of a token.
    #[must_use]
    pub fn either(tokens: u64, bytes: u64, images: u64, cut: u64) -> Self {
        let after = Counted { tokens, bytes, images };
        let before = Counted { bytes: bytes.saturating_add(cut), ..after };
        // Compared as ratios to three tenths: r or 1/r, whichever is more.
        let off = |c: Counted| {
            let (tokens, usual) = (u128::from(c.text()) * 10 + 1, u128::from(c.bytes) * 3 + 1);
            (tokens.max(usual) << 20) / tokens.min(usual)
        };
        if off(before) <= off(after) { before } else { after }
    }

    /// The tokens that its text cost.
    fn text(&self) -> u64 {
        self.tokens.saturating_sub(self.images.saturating_mul(IMAGE_TOKENS))
    }
}

/// A live response, in decoded bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// What it has once thresholds and ceiling are applied.
    pub size: u64,
    /// The least the cutter can make of it.
    pub floor: u64,
    /// How often it is sent.
    pub times: u64,
    /// Whether it is of the turns that are cut last.
    pub late: bool,
}

/// What the responses are held to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fit {
    /// In the order of the responses: `None` where one keeps what it has.
    pub held: Vec<Option<u64>>,
    /// The bytes that all of them have then.
    pub bytes: u64,
    /// Whether they fit.
    pub fits: bool,
}

/// The least that a response is cut to where a request may have so many bytes in all.
#[must_use]
pub fn floor(request: u64) -> u64 {
    (request / 64).clamp(LEAST, FLOOR)
}

/// Shares `room` bytes among the responses: largest first by one level, those of the last turns only when the others are at
/// their least.
#[must_use]
pub fn share(responses: &[Sent], room: u64, floor: u64) -> Fit {
    let level_of = |levels: (u64, u64), r: &Sent| if r.late { levels.1 } else { levels.0 };
    let planned = |levels, r: &Sent| r.size.min(level_of(levels, r).max(r.floor));
    let total = |levels| responses.iter().map(|r| u128::from(planned(levels, r)) * u128::from(r.times)).sum::<u128>();
    let fits = |levels| total(levels) <= u128::from(room);
    let all = u64::MAX;
    let levels = if fits((all, all)) {
        (all, all)
    } else if fits((floor, all)) {
        (batch::greatest(floor, |level| fits((level, all))), all)
    } else {
        (floor, batch::greatest(floor, |level| fits((floor, level))))
    };
    let held = responses.iter().map(|r| Some(level_of(levels, r)).filter(|level| *level < r.size));
    Fit { held: held.collect(), bytes: u64::try_from(total(levels)).unwrap_or(u64::MAX), fits: fits(levels) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sent(size: u64, late: bool) -> Sent {
        Sent { size, floor: 40, times: 1, late }
    }

    #[test]
    fn the_largest_give_first_and_the_last_turns_last() {
        let responses = [sent(100_000, false), sent(10_000, false), sent(100_000, true)];
        assert_eq!(share(&responses, 210_000, FLOOR).held, [None, None, None]);
        assert_eq!(share(&responses, 160_000, FLOOR).held, [Some(50_000), None, None]);
        let hard = share(&responses, 10_000, FLOOR);
        assert_eq!((hard.held, hard.fits), (vec![Some(FLOOR), Some(FLOOR), Some(10_000 - 2 * FLOOR)], true));
        let never = share(&responses, 5_000, FLOOR);
        assert_eq!((never.held, never.bytes, never.fits), (vec![Some(FLOOR); 3], 3 * FLOOR, false));
        assert_eq!(share(&[], 0, FLOOR), Fit { held: vec![], bytes: 0, fits: true });
    }

    #[test]
    fn models_are_known_by_their_names() {
        let of = [
            "claude-opus-4-5-20251101",
            "anthropic/Claude-Sonnet-4[1m]",
            "gpt-5-codex",
            "models/gemini-2.5-pro",
            "mine",
        ];
        assert_eq!(of.map(of_model), [Some(200_000), Some(1_000_000), Some(272_000), Some(1_048_576), None]);
    }

    #[test]
    fn the_floor_is_small_in_a_small_window() {
        assert_eq!([0, 64 * 100, 64 * FLOOR, u64::MAX].map(floor), [LEAST, 100, FLOOR, FLOOR]);
    }

    #[test]
    fn what_is_sent_twice_counts_twice() {
        let twice = [Sent { times: 2, ..sent(50_000, false) }];
        assert_eq!(share(&twice, 100_000, FLOOR).held, [None]);
        assert_eq!(share(&twice, 60_000, FLOOR).held, [Some(30_000)]);
    }

    #[test]
    fn a_provider_s_count_is_the_measure_where_it_can_be_one() {
        let counted = |tokens, bytes| Counted { tokens, bytes, images: 0 };
        let one = Estimate::new(Some(counted(120_000, 400_000)), None);
        assert_eq!((one.tokens(400_000, 0), one.tokens(800_000, 0)), (120_001, 240_001));
        assert_eq!(one.tokens(400_000, 2), 120_001 + 2 * IMAGE_TOKENS);
        // Two counts: 20,000 tokens are always sent besides, and text costs a quarter of a token a byte.
        let two = Estimate::new(Some(counted(120_000, 400_000)), Some(counted(30_000, 40_000)));
        assert_eq!((two.tokens(400_000, 0), two.tokens(0, 0)), (120_001, 20_001));
        // Ten tokens for a megabyte, or a million for a kilobyte: not of this text.
        for odd in [counted(10, 1_000_000), counted(1_000_000, 2048), counted(0, 5000)] {
            assert_eq!(Estimate::new(Some(odd), None), Estimate::Inflated);
        }
        assert_eq!(Estimate::Inflated.tokens(400_000, 0), 150_000);
    }

    #[test]
    fn whether_a_request_came_before_the_cut_is_told_by_what_a_byte_would_cost() {
        // 150,000 tokens are of half a megabyte, not of the hundred kilobytes that are left of it ...
        assert_eq!(Counted::either(150_000, 100_000, 0, 400_000).bytes, 500_000);
        // ... and 30,000 of what is left.
        assert_eq!(Counted::either(30_000, 100_000, 0, 400_000).bytes, 100_000);
    }

    proptest! {
        #[test]
        fn bytes_are_the_most_that_tokens_hold(tokens in 0_u64..1 << 40, bytes in 1024_u64..1 << 40, counted in 1_u64..1 << 40, images in 0_u64..9) {
            let calibrated = Estimate::new(Some(Counted { tokens: counted, bytes, images: 0 }), None);
            for estimate in [Estimate::Inflated, calibrated] {
                let most = estimate.bytes(tokens, images);
                if most > 0 {
                    prop_assert!(estimate.tokens(most, images) <= tokens);
                }
                if estimate.tokens(0, images) <= tokens {
                    prop_assert!(estimate.tokens(most + 1, images) > tokens);
                }
            }
        }

        /// Never over the room if it says so; never below the floor; the last turns lose nothing before the others are at
        /// their least.
        #[test]
        fn a_share_fits(sizes in prop::collection::vec((0_u64..100_000, any::<bool>(), 1_u64..3), 0..12), room in 0_u64..400_000) {
            let responses: Vec<Sent> = sizes.iter().map(|(size, late, times)| Sent { times: *times, ..sent(*size, *late) }).collect();
            let fit = share(&responses, room, FLOOR);
            let after: u64 = responses.iter().zip(&fit.held).map(|(r, h)| r.times * h.map_or(r.size, |h| h.min(r.size))).sum();
            prop_assert_eq!(after, fit.bytes);
            prop_assert_eq!(fit.fits, fit.bytes <= room);
            prop_assert!(fit.held.iter().flatten().all(|h| *h >= FLOOR));
            let late_cut = responses.iter().zip(&fit.held).any(|(r, h)| r.late && h.is_some());
            if late_cut {
                prop_assert!(responses.iter().zip(&fit.held).all(|(r, h)| r.late || h.unwrap_or(r.size) <= FLOOR));
            }
        }
    }
}
