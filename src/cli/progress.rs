//! Progress, on the standard error: a bar on a terminal, a line now and then where one was asked for elsewhere.

use std::io::Write;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::args::When;

/// How often a line is written where there is no terminal.
const PAUSE: Duration = Duration::from_secs(1);

/// Progress, if it is shown.
pub struct Progress(Kind);

enum Kind {
    Hidden,
    Bar(ProgressBar),
    Lines { total: u64, done: u64, last: Instant },
}

impl Progress {
    /// None.
    pub fn hidden() -> Self {
        Progress(Kind::Hidden)
    }

    /// Of this many steps.
    pub fn new(when: When, terminal: bool, total: u64) -> Self {
        match when {
            When::Never => Progress::hidden(),
            When::Auto | When::Always if terminal => {
                let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
                if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} conversations, {elapsed}") {
                    bar.set_style(style);
                }
                Progress(Kind::Bar(bar))
            }
            When::Auto => Progress::hidden(),
            When::Always => Progress(Kind::Lines { total, done: 0, last: Instant::now() }),
        }
    }

    /// One step is done.
    pub fn step(&mut self) {
        match &mut self.0 {
            Kind::Hidden => {}
            Kind::Bar(bar) => bar.inc(1),
            Kind::Lines { total, done, last } => {
                *done += 1;
                if last.elapsed() >= PAUSE || done == total {
                    *last = Instant::now();
                    // Whoever closed the standard error does not miss it.
                    let _ = writeln!(std::io::stderr(), "{done}/{total} conversations");
                }
            }
        }
    }

    /// Does something with the bar out of the way.
    pub fn aside<T>(&self, print: impl FnOnce() -> T) -> T {
        match &self.0 {
            Kind::Bar(bar) => bar.suspend(print),
            Kind::Hidden | Kind::Lines { .. } => print(),
        }
    }

    /// Takes it away.
    pub fn finish(&mut self) {
        if let Kind::Bar(bar) = &self.0 {
            bar.finish_and_clear();
        }
        self.0 = Kind::Hidden;
    }
}
