//! Workflow commands of GitHub Actions: each finding and each error becomes an annotation.

use std::fmt::Write;
use std::path::Path;

use unwedge::error::Error;
use unwedge::event::FileReport;

use super::tally::Tally;
use super::{End, Render, Volume, sarif};
use crate::cli::escape::{self, Shown, escaped, is_unsafe};
use crate::cli::out::Console;

/// See the module.
pub struct Github {
    volume: Volume,
}

impl Github {
    /// As loud as this.
    pub fn new(volume: Volume) -> Self {
        Github { volume }
    }
}

impl Render for Github {
    fn file(&mut self, file: &FileReport, console: &mut Console) {
        for finding in &file.findings {
            let title = format!("unwedge: {}", finding.rule.name());
            console.line(command(
                "warning",
                Some(&file.path),
                Some(finding.place.line),
                &title,
                &sarif::message(finding),
            ));
        }
        for note in file.notes.iter().filter(|_| !self.volume.quiet) {
            console.line(command("notice", Some(&file.path), note.line, "unwedge", &note.text));
        }
    }

    fn error(&mut self, error: &Error, console: &mut Console) {
        let title = format!("unwedge: {}", error.code());
        console.line(command("error", error.path(), error.line(), &title, &escape::error(error)));
    }

    fn note(&mut self, path: &Path, text: &str, console: &mut Console) {
        if !self.volume.quiet {
            console.line(command("notice", Some(path), None, "unwedge", text));
        }
    }

    fn end(&mut self, _end: &End<'_>, _tally: &Tally, _console: &mut Console) {}
}

/// `::warning file=…,line=…,title=…::message`
fn command(kind: &str, path: Option<&Path>, line: Option<u64>, title: &str, message: &str) -> String {
    let mut out = format!("::{kind} ");
    if let Some(path) = path {
        let path = path.to_str().map_or_else(|| Shown::path(path).to_string(), str::to_owned);
        // Writing to a string does not fail.
        let _ = write!(out, "file={},", property(&path));
    }
    if let Some(line) = line {
        let _ = write!(out, "line={line},");
    }
    let _ = write!(out, "title={}::{}", property(title), data(message));
    out
}

/// A command's text. Newlines have an escape of GitHub's; what else a terminal would obey is shown.
fn data(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '%' => out.push_str("%25"),
            '\r' => out.push_str("%0D"),
            '\n' => out.push_str("%0A"),
            c if is_unsafe(c) => {
                let _ = escaped(c, &mut out);
            }
            c => out.push(c),
        }
    }
    out
}

/// A command's property: `:` and `,` would end it.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::super::tests::{file, finding, print, some};
    use super::*;
    use crate::cli::args::ReportFormat;
    use unwedge::repair::Task;

    #[test]
    fn annotations() {
        let (out, err) =
            print(ReportFormat::Github, Volume::default(), Task::Check, false, some(file(vec![finding()])));
        assert_eq!(
            out,
            "::warning file=a/events.json,line=22,title=unwedge%3A threshold::response of shell to call c0 has 4.7 MB, over 256 KB (threshold, default)\n\
             ::notice file=a/events.json,line=5,title=unwedge::an unpaired%0Asurrogate\n\
             ::error file=b/events.json,line=7,title=unwedge%3A broken-record::b/events.json:7: not\\nJSON; the record stays as it is\n\
             ::notice file=x\\x1b[31m,title=unwedge::no format claims this file\n"
        );
        assert_eq!(err, "");
    }

    #[test]
    fn nothing_ends_a_command_early() {
        assert_eq!(
            command("error", Some(Path::new("a:b,c%\n")), None, "t,", "m::\r\n%"),
            "::error file=a%3Ab%2Cc%25%0A,title=t%2C::m::%0D%0A%25"
        );
    }
}
