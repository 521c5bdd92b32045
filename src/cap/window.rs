//! Whether a live conversation fits the model's context window, and what its responses may keep if it does not.
//!
//! Numbers in, numbers out. Tokens are estimated from bytes: no tokenizer is the right one for every model. Where the
//! stream stores what the provider counted for one of its requests, that count is the base, and only what came since is
//! estimated.

use super::batch;

/// Tokens that are kept free for the answer, unless said otherwise.
pub const RESERVE: u64 = 16_384;
/// Turns at the end whose responses are cut last, unless said otherwise.
pub const KEEP_LAST: u64 = 2;
/// The least that a response is cut to for the window, in bytes.
pub const FLOOR: u64 = 2 * 1024;
/// Tokens an image is taken to cost.
pub const IMAGE_TOKENS: u64 = 1_600;

/// What the live conversation must fit into, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// The model's context window.
    pub tokens: u64,
    /// What is kept free of it.
    pub reserve: u64,
    /// How many turns at the end are cut last.
    pub keep_last: u64,
}

impl Window {
    /// The tokens that a request may have.
    #[must_use]
    pub fn room(&self) -> u64 {
        self.tokens.saturating_sub(self.reserve)
    }
}

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

/// How tokens are estimated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Estimate {
    /// From what the provider counted: that, and for each byte since what a byte cost then.
    Calibrated(Counted),
    /// Bytes over four, times one and a half: code and JSON have more tokens than prose, and what is sent besides the
    /// stream (system prompt, tools) is not in it.
    Inflated,
}

impl Estimate {
    /// From what a provider counted, where that can be: a count that no text makes is not believed.
    #[must_use]
    pub fn new(counted: Option<Counted>) -> Self {
        match counted {
            // Between half a byte a token and twenty: else something else was counted, or the stream holds other text.
            Some(c) if c.bytes >= 1024 && c.text() >= c.bytes / 20 && c.text() / 2 <= c.bytes => {
                Estimate::Calibrated(c)
            }
            _ => Estimate::Inflated,
        }
    }

    /// The tokens of a request with so many live bytes of text and images. Rounded up.
    #[must_use]
    pub fn tokens(&self, bytes: u64, images: u64) -> u64 {
        let pictures = u128::from(images) * u128::from(IMAGE_TOKENS);
        let text = match self {
            Estimate::Calibrated(c) => (u128::from(bytes) * u128::from(c.text())).div_ceil(u128::from(c.bytes.max(1))),
            Estimate::Inflated => (u128::from(bytes) * 3).div_ceil(8),
        };
        u64::try_from(text + pictures).unwrap_or(u64::MAX)
    }

    /// The most live bytes of text that are no more than so many tokens together with the images.
    #[must_use]
    pub fn bytes(&self, tokens: u64, images: u64) -> u64 {
        let text = u128::from(tokens.saturating_sub(images.saturating_mul(IMAGE_TOKENS)));
        let bytes = match self {
            Estimate::Calibrated(c) => text * u128::from(c.bytes) / u128::from(c.text().max(1)),
            Estimate::Inflated => text * 8 / 3,
        };
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// The method's name in reports.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Estimate::Calibrated(_) => "calibrated",
            Estimate::Inflated => "bytes",
        }
    }
}

impl Counted {
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

/// Shares `room` bytes among the responses: largest first by one level, those of the last turns only when the others are at
/// their least.
#[must_use]
pub fn share(responses: &[Sent], room: u64) -> Fit {
    let level_of = |levels: (u64, u64), r: &Sent| if r.late { levels.1 } else { levels.0 };
    let planned = |levels, r: &Sent| r.size.min(level_of(levels, r).max(r.floor));
    let total = |levels| responses.iter().map(|r| u128::from(planned(levels, r)) * u128::from(r.times)).sum::<u128>();
    let fits = |levels| total(levels) <= u128::from(room);
    let all = u64::MAX;
    let levels = if fits((all, all)) {
        (all, all)
    } else if fits((FLOOR, all)) {
        (batch::greatest(FLOOR, |level| fits((level, all))), all)
    } else {
        (FLOOR, batch::greatest(FLOOR, |level| fits((FLOOR, level))))
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
        assert_eq!(share(&responses, 210_000).held, [None, None, None]);
        assert_eq!(share(&responses, 160_000).held, [Some(50_000), None, None]);
        let hard = share(&responses, 10_000);
        assert_eq!((hard.held, hard.fits), (vec![Some(FLOOR), Some(FLOOR), Some(10_000 - 2 * FLOOR)], true));
        let never = share(&responses, 5_000);
        assert_eq!((never.held, never.bytes, never.fits), (vec![Some(FLOOR); 3], 3 * FLOOR, false));
        assert_eq!(share(&[], 0), Fit { held: vec![], bytes: 0, fits: true });
    }

    #[test]
    fn what_is_sent_twice_counts_twice() {
        let twice = [Sent { times: 2, ..sent(50_000, false) }];
        assert_eq!(share(&twice, 100_000).held, [None]);
        assert_eq!(share(&twice, 60_000).held, [Some(30_000)]);
    }

    #[test]
    fn a_provider_s_count_is_the_measure_where_it_can_be_one() {
        let counted = Counted { tokens: 150_000, bytes: 400_000, images: 0 };
        let estimate = Estimate::new(Some(counted));
        assert_eq!(estimate, Estimate::Calibrated(counted));
        assert_eq!((estimate.tokens(400_000, 0), estimate.tokens(800_000, 0)), (150_000, 300_000));
        assert_eq!(estimate.tokens(400_000, 2), 150_000 + 2 * IMAGE_TOKENS);
        // Ten tokens for a megabyte, or a million for a kilobyte: not of this text.
        for odd in
            [Counted { tokens: 10, bytes: 1_000_000, images: 0 }, Counted { tokens: 1_000_000, bytes: 2048, images: 0 }]
        {
            assert_eq!(Estimate::new(Some(odd)), Estimate::Inflated);
        }
        assert_eq!(Estimate::Inflated.tokens(400_000, 0), 150_000);
    }

    proptest! {
        #[test]
        fn bytes_are_the_most_that_tokens_hold(tokens in 0_u64..1 << 40, bytes in 1024_u64..1 << 40, counted in 1_u64..1 << 40, images in 0_u64..9) {
            for estimate in [Estimate::Inflated, Estimate::Calibrated(Counted { tokens: counted, bytes, images: 0 })] {
                let most = estimate.bytes(tokens, images);
                if tokens >= images * IMAGE_TOKENS {
                    prop_assert!(estimate.tokens(most, images) <= tokens);
                    prop_assert!(estimate.tokens(most + 1, images) > tokens);
                }
            }
        }

        /// Never over the room if it says so; never below the floor, and nothing is cut that need not be: one byte more for
        /// the level would be too much.
        #[test]
        fn a_share_fits_and_is_the_greatest(sizes in prop::collection::vec((0_u64..100_000, any::<bool>(), 1_u64..3), 0..12), room in 0_u64..400_000) {
            let responses: Vec<Sent> = sizes.iter().map(|(size, late, times)| Sent { times: *times, ..sent(*size, *late) }).collect();
            let fit = share(&responses, room);
            let after = |fit: &Fit, more: u64| responses.iter().zip(&fit.held).map(|(r, h)| r.times * h.map_or(r.size, |h| (h + more).min(r.size))).sum::<u64>();
            prop_assert_eq!(after(&fit, 0), fit.bytes);
            prop_assert_eq!(fit.fits, fit.bytes <= room);
            prop_assert!(fit.held.iter().flatten().all(|h| *h >= FLOOR));
            let late_cut = responses.iter().zip(&fit.held).any(|(r, h)| r.late && h.is_some());
            if late_cut {
                prop_assert!(responses.iter().zip(&fit.held).all(|(r, h)| r.late || h.unwrap_or(r.size) <= FLOOR));
            }
        }
    }
}
