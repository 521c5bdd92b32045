//! What a cut takes away, shown as a hunk of the decoded text.
//!
//! The cut is known, so nothing has to be searched for but the few lines at its edges: a line that is cut in two must show
//! as the whole line removed and its kept part added. Those are compared by `similar`. What lies between, which may be
//! megabytes, is one block to it.

use std::fmt::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use similar::{Algorithm, DiffOp};
use unwedge::event::{Finding, Hunk};

use super::size::human;
use crate::cli::escape::{Shown, escaped};
use crate::cli::out::{Styles, styled};

/// The most columns of a line where not all is shown. With at most 18 lines a short diff stays below 2 KB.
const WIDTH: usize = 96;
/// Stands for the block of removed lines. No line holds a newline.
const BLOCK: &str = "\n";
/// The edges are a few lines each; this is never used up.
const PATIENCE: Duration = Duration::from_millis(200);

/// The diff of one finding. `safe`: text is escaped for a terminal. `whole`: lines are not shortened.
pub fn render(path: &Path, finding: &Finding, styles: Styles, safe: bool, whole: bool) -> String {
    let path = Shown::path(path.strip_prefix("/").unwrap_or(path));
    let tool = finding.tool.as_deref().unwrap_or("unknown tool");
    let id = finding.call_id.iter().map(|id| format!(", {}", Shown::line(id))).collect::<String>();
    let mut out = String::new();
    // Writing to a string does not fail, here and below.
    let _ = writeln!(out, "{}", styled(styles.path, format!("--- a/{path} ({}{id})", Shown::line(tool))));
    let _ = writeln!(out, "{}", styled(styles.path, format!("+++ b/{path}")));
    for hunk in &finding.hunks {
        Printer { out: &mut out, styles, safe, whole }.hunk(hunk);
    }
    out
}

struct Printer<'a> {
    out: &'a mut String,
    styles: Styles,
    safe: bool,
    /// Lines are not shortened.
    whole: bool,
}

impl Printer<'_> {
    fn hunk(&mut self, hunk: &Hunk) {
        let edges = Edges::of(hunk);
        let (head, tail) = (format!("{}{}", hunk.before, edges.first), format!("{}{}", edges.last, hunk.after));
        let block = (!edges.block.is_empty() || hunk.removed_end.is_some()).then_some(BLOCK);
        // Without a block the edges are one text, and its last line may end in the second.
        let joined = format!("{head}{tail}");
        let old: Vec<&str> = match block {
            Some(block) => lines(&head).chain([block]).chain(lines(&tail)).collect(),
            None => lines(&joined).collect(),
        };
        let kept = kept(hunk);
        let new: Vec<&str> = lines(&kept).collect();
        let header = format!("@@ -{},{} +{},{} @@", hunk.first_line, old_lines(hunk), hunk.first_line, new.len());
        let _ = writeln!(self.out, "{}", styled(self.styles.note, header));
        let deadline = Some(Instant::now() + PATIENCE);
        for op in similar::capture_diff_slices_deadline(Algorithm::Myers, &old, &new, deadline) {
            if let DiffOp::Equal { old_index, len, .. } = op {
                for line in old.iter().skip(old_index).take(len) {
                    self.line(' ', line);
                }
                continue;
            }
            for line in old.iter().skip(op.old_range().start).take(op.old_range().len()) {
                if *line == BLOCK { self.block(hunk, &edges) } else { self.line('-', line) }
            }
            for line in new.iter().skip(op.new_range().start).take(op.new_range().len()) {
                self.line('+', line);
            }
        }
    }

    /// The removed lines between the edges.
    fn block(&mut self, hunk: &Hunk, edges: &Edges<'_>) {
        for line in lines(edges.block) {
            self.line('-', line);
        }
        let Some(end) = &hunk.removed_end else { return };
        let shown = lines(&hunk.removed).count() + lines(end).count();
        let bytes = hunk.removed_bytes.saturating_sub((hunk.removed.len() + end.len()) as u64);
        let more = hunk.removed_lines.saturating_sub(shown as u64);
        let said = match more {
            0 => format!("… {} more of it", human(bytes)),
            1 => format!("… 1 more removed line ({})", human(bytes)),
            n => format!("… {n} more removed lines ({})", human(bytes)),
        };
        let _ = writeln!(self.out, "{}", styled(self.styles.note, said));
        for line in lines(edges.end_block) {
            self.line('-', line);
        }
    }

    fn line(&mut self, sign: char, line: &str) {
        let style = match sign {
            '-' => self.styles.bad,
            '+' => self.styles.good,
            _ => clap::builder::styling::Style::new(),
        };
        let mut shown = String::from(sign);
        for (at, c) in line.char_indices() {
            if !self.whole && shown.len() > WIDTH {
                let _ = write!(shown, "…[+{} B]", line.len() - at);
                break;
            }
            // A tab stands for itself.
            if self.safe && c != '\t' {
                let _ = escaped(c, &mut shown);
            } else {
                shown.push(c);
            }
        }
        let _ = writeln!(self.out, "{}", styled(style, shown));
    }
}

/// The removed text, parted into what shares a line with kept text and what does not.
struct Edges<'h> {
    /// The rest of the line that `before` ends in.
    first: &'h str,
    /// Whole lines, as far as they are shown from the start.
    block: &'h str,
    /// Lines from the end, where the middle is not shown.
    end_block: &'h str,
    /// The start of the line that `after` continues.
    last: &'h str,
}

impl<'h> Edges<'h> {
    fn of(hunk: &'h Hunk) -> Self {
        let (first, rest) = after_first_newline(&hunk.removed);
        match &hunk.removed_end {
            Some(end) => {
                let (end_block, last) = after_last_newline(end);
                Edges { first, block: rest, end_block, last }
            }
            None => {
                let (block, last) = after_last_newline(rest);
                Edges { first, block, end_block: "", last }
            }
        }
    }
}

fn after_first_newline(text: &str) -> (&str, &str) {
    text.find('\n').and_then(|at| text.split_at_checked(at + 1)).unwrap_or((text, ""))
}

fn after_last_newline(text: &str) -> (&str, &str) {
    text.rfind('\n').and_then(|at| text.split_at_checked(at + 1)).unwrap_or(("", text))
}

/// The text after the cut, as far as it is shown: the marker stands on a line of its own.
fn kept(hunk: &Hunk) -> String {
    if hunk.marker.is_empty() {
        return format!("{}{}", hunk.before, hunk.after);
    }
    let before = if hunk.before.is_empty() || hunk.before.ends_with('\n') { "" } else { "\n" };
    let after = if hunk.after.is_empty() || hunk.after.starts_with('\n') { "" } else { "\n" };
    format!("{}{before}{}{after}{}", hunk.before, hunk.marker, hunk.after)
}

/// How many lines of the old text the hunk is about, those that are not shown among them.
fn old_lines(hunk: &Hunk) -> u64 {
    let newlines = |text: &str| text.matches('\n').count() as u64;
    let removed = hunk.removed_end.as_deref().unwrap_or(&hunk.removed);
    let torn = u64::from(!removed.is_empty() && !removed.ends_with('\n'));
    let last = [&*hunk.after, removed, &*hunk.before].into_iter().find(|text| !text.is_empty()).unwrap_or_default();
    let unfinished = u64::from(!last.is_empty() && !last.ends_with('\n'));
    newlines(&hunk.before) + hunk.removed_lines.saturating_sub(torn) + newlines(&hunk.after) + unfinished
}

/// The lines of a text; a newline at its end begins no other.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.split_terminator('\n')
}

#[cfg(test)]
mod tests {
    use super::super::tests::{finding, hunk};
    use super::*;

    fn diff(hunk: Hunk, safe: bool) -> String {
        render(Path::new("/a/b.json"), &Finding { hunks: vec![hunk], ..finding() }, Styles::default(), safe, false)
    }

    #[track_caller]
    fn shows(hunk: Hunk, expected: &str) {
        let all = diff(hunk, false);
        assert_eq!(all.strip_prefix("--- a/a/b.json (shell, c0)\n+++ b/a/b.json\n").unwrap(), expected);
    }

    #[test]
    fn a_short_one() {
        shows(
            hunk(),
            "@@ -2,100007 +2,4 @@\n two\n three\n-four\n-five\n-six\n… 100000 more removed lines (4.4 MB)\n-y\n-z\n\
             +fo\n+... [truncated, 4.7 MB → 256 KB]\n",
        );
    }

    #[test]
    fn a_whole_one() {
        let whole =
            Hunk { removed: "ur\nfive\n".into(), removed_end: None, removed_bytes: 8, removed_lines: 2, ..hunk() };
        shows(whole, "@@ -2,4 +2,4 @@\n two\n three\n-four\n-five\n+fo\n+... [truncated, 4.7 MB → 256 KB]\n");
    }

    #[test]
    fn at_a_line_break_nothing_is_shown_twice() {
        let clean =
            Hunk { before: "two\n".into(), removed: "three\n".into(), removed_end: None, removed_lines: 1, ..hunk() };
        shows(clean, "@@ -2,2 +2,2 @@\n two\n-three\n+... [truncated, 4.7 MB → 256 KB]\n");
    }

    #[test]
    fn a_hole_in_the_middle() {
        let both = Hunk {
            before: "a\nbe".into(),
            removed: "gin\nc\nd\ne".into(),
            removed_end: None,
            after: "nd\nf\n".into(),
            removed_bytes: 9,
            removed_lines: 4,
            first_line: 1,
            ..hunk()
        };
        shows(both, "@@ -1,6 +1,5 @@\n a\n-begin\n-c\n-d\n-end\n+be\n+... [truncated, 4.7 MB → 256 KB]\n+nd\n f\n");
    }

    #[test]
    fn a_hole_without_a_marker_of_its_own() {
        let gap = Hunk {
            before: "a\n".into(),
            marker: String::new(),
            removed: "b\nc\n".into(),
            removed_end: None,
            after: "d\n".into(),
            removed_bytes: 4,
            removed_lines: 2,
            first_line: 1,
        };
        shows(gap, "@@ -1,4 +1,2 @@\n a\n-b\n-c\n d\n");
    }

    #[test]
    fn a_tail_and_one_line() {
        let tail = Hunk {
            before: String::new(),
            removed: "a\n".into(),
            removed_end: None,
            after: "b\n".into(),
            removed_lines: 1,
            first_line: 1,
            ..hunk()
        };
        shows(tail, "@@ -1,2 +1,2 @@\n-a\n+... [truncated, 4.7 MB → 256 KB]\n b\n");
        let line = Hunk { before: "aa".into(), removed: "bb".into(), removed_end: None, removed_lines: 1, ..hunk() };
        shows(line, "@@ -2,1 +2,2 @@\n-aabb\n+aa\n+... [truncated, 4.7 MB → 256 KB]\n");
    }

    #[test]
    fn the_default_is_short_whatever_is_cut() {
        let line = "long line ".repeat(60);
        let giant = Hunk {
            before: line.clone(),
            removed: line.clone(),
            removed_end: Some(line.clone()),
            after: line.clone(),
            removed_bytes: 5_000_000,
            removed_lines: 1,
            first_line: 1,
            ..hunk()
        };
        let shown = diff(giant.clone(), true);
        assert!(shown.contains("… 4.8 MB more of it\n") && shown.contains("…[+"), "{shown}");
        let many = [&*line; 3].join("\n");
        let most =
            Hunk { before: many.clone(), removed: many.clone(), removed_end: Some(many.clone()), after: many, ..giant };
        let shown = diff(most, true);
        assert!(shown.len() <= 2048, "{} bytes\n{shown}", shown.len());
    }

    #[test]
    fn a_terminal_gets_no_sequences_and_a_pipe_gets_the_text() {
        let hostile = || Hunk { before: "\u{1b}[2J\u{9b}m\tx\r\n".into(), ..hunk() };
        let shown = diff(hostile(), true);
        assert!(shown.contains(" \\x1b[2J\\u{9b}m\tx\\r\n"), "{shown}");
        assert!(diff(hostile(), false).contains(" \u{1b}[2J\u{9b}m\tx\r\n"));
    }

    #[test]
    fn five_megabytes_in_full() {
        let removed: String = (0..150_000).map(|n| format!("a line that is removed: {n}\n")).collect();
        let full = Hunk {
            removed_bytes: removed.len() as u64,
            removed_lines: 150_000,
            removed,
            removed_end: None,
            before: "a line that is removed: 7\n".into(),
            ..hunk()
        };
        let shown = diff(full, false);
        assert_eq!(shown.lines().filter(|l| l.starts_with('-')).count(), 150_001);
    }
}
