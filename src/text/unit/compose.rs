//! What is kept of a text, made into what each part of the response becomes.
//!
//! Here is where the brackets stand, which part has the second line, and what B is true of each.

use std::ops::Range;

use super::{Counted, Gathered, Kept, Piece, Side, Span, count_lines, index};
use crate::cap::marker;
use crate::text::layout::settle;

/// A part as it becomes.
pub(in crate::text) struct Part {
    /// In order.
    pub pieces: Vec<Local>,
    pub before: u64,
    pub after: u64,
    pub marker: String,
    /// The second line, in the part that has it.
    pub second: Option<String>,
}

/// A piece of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::text) enum Local {
    /// A run of its own decoded bytes.
    Run(Range<u64>),
    /// New text.
    New(String),
}

/// All parts; `None` for one that stays.
pub(in crate::text) struct Composition {
    pub parts: Vec<Option<Part>>,
    /// What all of them take.
    pub total: u64,
    /// What was counted.
    pub counted: Counted,
}

impl Gathered {
    /// What is kept, as parts. The first part that gets a marker has the second line too (for a tail, the last one).
    ///
    /// # Errors
    /// By how many bytes less must be kept at least, where a marker has no true B or the second line has no room.
    pub(super) fn compose(&self, kept: &Kept) -> Result<Composition, u64> {
        let line = kept.line.to_string();
        let locals = self.split(&kept.pieces);
        let both = || self.parts.iter().zip(&locals);
        let mut shapes = Vec::with_capacity(self.parts.len());
        for (part, local) in both() {
            let new = if !part.stale && is_whole(&part.range, local) {
                None
            } else {
                Some(self.shape(part, local, kept.side, None).ok_or(1_u64)?)
            };
            shapes.push(new.filter(|new| new.after < part.size));
        }
        let mut marked = shapes.iter_mut().zip(both()).filter(|(shape, _)| shape.is_some());
        let first = if matches!(kept.side, Side::Before) { marked.next_back() } else { marked.next() };
        let (carrier, (part, local)) = first.ok_or(1_u64)?;
        let with = self.shape(part, local, kept.side, Some(&line)).ok_or(1_u64)?;
        if with.after >= part.size {
            let own: u64 = local.iter().map(Local::len).sum();
            return Err((with.after - part.size + 1).min(own + 1));
        }
        *carrier = Some(with);
        let takes = |(part, shape): (&Span, &Option<Part>)| shape.as_ref().map_or(part.size, |shape| shape.after);
        Ok(Composition {
            total: self.parts.iter().zip(&shapes).map(takes).sum(),
            parts: shapes,
            counted: kept.line.counted,
        })
    }

    /// Whether no more lines are there than were.
    pub(super) fn adds_no_lines(&self, found: &Composition) -> bool {
        let mut sum = (0, 0);
        for (part, new) in self.parts.iter().zip(&found.parts) {
            let text = self.body.get(part.range.clone()).unwrap_or_default();
            let brackets = part.size - text.len() as u64;
            let was = count_lines(text) + u64::from(brackets > 0);
            sum.0 += was;
            sum.1 += new.as_ref().map_or(was, |new| {
                let newlines = new.pieces.iter().map(|piece| match piece {
                    Local::New(text) => memchr::memchr_iter(b'\n', text.as_bytes()).count(),
                    Local::Run(run) => memchr::memchr_iter(b'\n', self.run(part, run)).count(),
                });
                newlines.sum::<usize>() as u64 + u64::from(!self.ends_line(part, new.pieces.last()))
            });
        }
        sum.1 <= sum.0
    }

    /// The pieces of each part.
    fn split(&self, pieces: &[Piece]) -> Vec<Vec<Local>> {
        let mut locals: Vec<Vec<Local>> = self.parts.iter().map(|_| Vec::new()).collect();
        let mut at = 0;
        let mut parts = self.parts.iter().zip(&mut locals);
        let mut current = parts.next();
        for piece in pieces {
            let (from, to) = match piece {
                Piece::Run(run) => (run.start, run.end),
                Piece::Note(place, _) => (*place, *place + 1),
            };
            at = from.max(at);
            while let Some((part, local)) = &mut current {
                if part.range.end <= at {
                    current = parts.next();
                    continue;
                }
                match piece {
                    Piece::Note(_, text) => {
                        local.push(Local::New(text.clone()));
                        break;
                    }
                    Piece::Run(_) => {
                        let end = to.min(part.range.end);
                        let offset = |n: usize| part.offset + (n - part.range.start) as u64;
                        local.push(Local::Run(offset(at)..offset(end)));
                        at = end;
                        if at == to {
                            break;
                        }
                    }
                }
            }
        }
        locals
    }

    /// One part with its brackets. `None` where no B is true.
    fn shape(&self, part: &Span, local: &[Local], side: Side, line: Option<&String>) -> Option<Part> {
        let split = match side {
            Side::After => local.len(),
            Side::Before => 0,
            Side::At(place) => {
                let place =
                    part.offset + place.clamp(part.range.start, part.range.end).saturating_sub(part.range.start) as u64;
                local.iter().take_while(|piece| matches!(piece, Local::Run(run) if run.end <= place)).count()
            }
        };
        let (head, tail) = local.split_at(split);
        let mut rest: u64 = local.iter().map(Local::len).sum();
        let empty = rest == 0;
        let before = !head.is_empty() && !self.ends_line(part, head.last());
        let after = !tail.is_empty();
        rest += u64::from(before) + u64::from(after) + line.map_or(0, |line| line.len() as u64 + 1);
        let b = if empty { 0 } else { settle(part.a, rest)? };
        let marker = marker::render(part.a, b);
        let brackets = match (line, side) {
            (None, _) => marker.clone(),
            (Some(line), Side::Before) => format!("{marker}\n{line}"),
            (Some(line), _) => format!("{line}\n{marker}"),
        };
        let newline = |there| if there { "\n" } else { "" };
        let new = Local::New(format!("{}{brackets}{}", newline(before), newline(after)));
        let pieces = head.iter().cloned().chain([new]).chain(tail.iter().cloned()).collect();
        Some(Part { pieces, before: part.size, after: rest + marker.len() as u64, marker, second: line.cloned() })
    }

    fn ends_line(&self, part: &Span, last: Option<&Local>) -> bool {
        match last {
            Some(Local::New(text)) => text.ends_with('\n'),
            Some(Local::Run(run)) => self.run(part, run).ends_with(b"\n"),
            None => true,
        }
    }

    /// The bytes of a run.
    fn run(&self, part: &Span, run: &Range<u64>) -> &[u8] {
        let at = |n: u64| part.range.start + index(n.saturating_sub(part.offset));
        self.body.get(at(run.start)..at(run.end)).unwrap_or_default()
    }
}

impl Local {
    fn len(&self) -> u64 {
        match self {
            Local::Run(run) => run.end - run.start,
            Local::New(text) => text.len() as u64,
        }
    }
}

/// Whether nothing of a part is gone.
fn is_whole(range: &Range<usize>, local: &[Local]) -> bool {
    let run = |piece: &Local| if let Local::Run(run) = piece { Some(run.end - run.start) } else { None };
    local.iter().map(run).sum::<Option<u64>>() == Some(range.len() as u64)
}
