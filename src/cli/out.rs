//! The one way to the standard streams.
//!
//! A printing macro panics on a closed pipe, and a panic between two steps of a repair is a fault. Here a reader that went
//! away ends the printing and not the work; any other trouble with the report makes the run's status 2.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use clap::builder::styling::{AnsiColor, Style};

use super::args::When;
use super::env::Wishes;
use super::progress::Progress;

/// How many bytes wait at most.
const ENOUGH: usize = 1 << 16;

/// Why nothing more is printed.
enum State {
    Open,
    /// The reader has gone: `unwedge | head`.
    Closed,
    Failed(io::Error),
}

/// Standard output and standard error, and the progress bar that must not get in their way.
pub struct Console {
    out: Box<dyn Write>,
    /// What is printed and not yet written: every write goes past the progress bar.
    waiting: Vec<u8>,
    state: State,
    err: Box<dyn Write>,
    /// Whether the standard output is a terminal: then text of a stream is escaped.
    pub out_is_terminal: bool,
    /// Whether the standard error is one.
    pub err_is_terminal: bool,
    /// The styles of the standard output.
    pub styles: Styles,
    err_styles: Styles,
    /// The progress, if it is shown.
    pub progress: Progress,
}

/// Styles, all of them plain where there is no colour.
#[derive(Debug, Clone, Copy, Default)]
pub struct Styles {
    /// Paths.
    pub path: Style,
    /// What is over a limit, and warnings.
    pub over: Style,
    /// Errors, and removed lines.
    pub bad: Style,
    /// Added lines.
    pub good: Style,
    /// Notes, and the headers of hunks.
    pub note: Style,
    /// Whether any of them shows.
    pub on: bool,
}

impl Styles {
    /// With colour, or without.
    pub fn new(on: bool) -> Self {
        if !on {
            return Styles::default();
        }
        let color = |color: AnsiColor| color.on_default();
        Styles {
            path: Style::new().bold(),
            over: color(AnsiColor::Yellow),
            bad: color(AnsiColor::Red),
            good: color(AnsiColor::Green),
            note: color(AnsiColor::Cyan),
            on,
        }
    }
}

/// Text in a style.
pub fn styled(style: Style, text: impl Display) -> String {
    format!("{style}{text}{style:#}")
}

impl Console {
    /// The process's own streams.
    pub fn new(color: When, wishes: Wishes) -> Self {
        let (out, err) = (io::stdout(), io::stderr());
        let (out_is_terminal, err_is_terminal) = (out.is_terminal(), err.is_terminal());
        Console {
            styles: Styles::new(wishes.color(color, out_is_terminal)),
            err_styles: Styles::new(wishes.color(color, err_is_terminal)),
            out: Box::new(out),
            waiting: Vec::new(),
            state: State::Open,
            err: Box::new(err),
            out_is_terminal,
            err_is_terminal,
            progress: Progress::hidden(),
        }
    }

    /// Prints bytes on the standard output.
    pub fn write(&mut self, bytes: &[u8]) {
        if matches!(self.state, State::Open) {
            self.waiting.extend_from_slice(bytes);
            if self.waiting.len() >= ENOUGH {
                self.flush();
            }
        }
    }

    /// Prints one line on the standard output.
    pub fn line(&mut self, line: impl Display) {
        self.write(format!("{line}\n").as_bytes());
    }

    /// Has everything printed so far appear.
    pub fn flush(&mut self) {
        if matches!(self.state, State::Open) && !self.waiting.is_empty() {
            let (out, waiting) = (&mut self.out, &self.waiting);
            let result = self.progress.aside(|| out.write_all(waiting).and_then(|()| out.flush()));
            self.waiting.clear();
            if let Err(e) = result {
                self.state = if e.kind() == io::ErrorKind::BrokenPipe { State::Closed } else { State::Failed(e) };
            }
        }
    }

    /// An error, on the standard error.
    pub fn error(&mut self, text: impl Display) {
        self.say(self.err_styles.bad, "error", text);
    }

    /// A warning, on the standard error.
    pub fn warning(&mut self, text: impl Display) {
        self.say(self.err_styles.over, "warning", text);
    }

    /// A note, on the standard error.
    pub fn note(&mut self, text: impl Display) {
        self.say(self.err_styles.note, "note", text);
    }

    /// A line on the standard error. Where that is closed, nothing can be done about it.
    pub fn remark(&mut self, text: impl Display) {
        // In the order it happened, where both streams lead to one place.
        self.flush();
        let err = &mut self.err;
        let _ = self.progress.aside(|| err.write_all(format!("{text}\n").as_bytes()));
    }

    fn say(&mut self, style: Style, what: &str, text: impl Display) {
        self.remark(format!("{style}{what}:{style:#} {text}"));
    }

    /// Ends the printing. `Some`: the report is not whole, and not because its reader had enough.
    pub fn finish(&mut self) -> Option<&io::Error> {
        self.progress.finish();
        self.flush();
        match &self.state {
            State::Failed(e) => Some(e),
            State::Open | State::Closed => None,
        }
    }
}

/// A console that keeps what is printed, for tests.
#[cfg(test)]
pub mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::rc::Rc;

    /// Somewhere to write to and to read from.
    #[derive(Clone, Default)]
    pub struct Tape(Rc<RefCell<Vec<u8>>>);

    impl Tape {
        /// What was written.
        pub fn text(&self) -> String {
            String::from_utf8(self.bytes()).unwrap()
        }

        /// The same, whatever it is.
        pub fn bytes(&self) -> Vec<u8> {
            self.0.borrow().clone()
        }
    }

    impl Write for Tape {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.borrow_mut().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A console, its output and its errors.
    pub fn console(terminal: bool) -> (Console, Tape, Tape) {
        let (out, err) = (Tape::default(), Tape::default());
        (with(Box::new(out.clone()), Box::new(err.clone()), terminal), out, err)
    }

    fn with(out: Box<dyn Write>, err: Box<dyn Write>, terminal: bool) -> Console {
        Console {
            out,
            waiting: Vec::new(),
            state: State::Open,
            err,
            out_is_terminal: terminal,
            err_is_terminal: terminal,
            styles: Styles::new(false),
            err_styles: Styles::new(false),
            progress: Progress::hidden(),
        }
    }

    struct Broken(io::ErrorKind);

    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_went_away_is_no_trouble() {
        let mut console = with(Box::new(Broken(io::ErrorKind::BrokenPipe)), Box::new(io::sink()), false);
        console.line("x");
        console.line("y");
        assert!(console.finish().is_none());
    }

    #[test]
    fn a_report_that_cannot_be_written_is() {
        let mut console = with(Box::new(Broken(io::ErrorKind::StorageFull)), Box::new(io::sink()), false);
        console.line("x");
        assert_eq!(console.finish().unwrap().kind(), io::ErrorKind::StorageFull);
    }
}
