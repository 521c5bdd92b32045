//! What is said of a conversation as a whole: whether it will run again, and what its next request would cost.

use serde::Serialize;
use unwedge::cap::window::{Estimate, RESERVE};
use unwedge::diagnosis::{Diagnosis, Verdict};
use unwedge::event::FileReport;

use super::size::{count, human};
use crate::cli::escape::Shown;
use crate::cli::out::{Styles, styled};

/// The lines for people: none for a conversation that is clean, unless everything is asked for.
pub fn lines(file: &FileReport, styles: Styles, all: bool) -> Vec<String> {
    let Some(said) = file.diagnosis.as_ref().filter(|said| all || said.verdict != Verdict::Clean) else {
        return Vec::new();
    };
    let path = Shown::path(&file.path);
    let place = match said.error.as_ref().filter(|_| said.verdict != Verdict::Clean) {
        Some(error) => format!("{path}:{}", error.line),
        None => path.to_string(),
    };
    let place = styled(styles.path, place);
    let mut lines = Vec::new();
    // What is over a limit has lines of its own.
    if said.verdict != Verdict::OverLimit {
        lines.push(format!("{place}: {}", verdict(said, file)));
    }
    lines.push(format!("{}: {}", styled(styles.path, path), request(said)));
    lines
}

fn verdict(said: &Diagnosis, file: &FileReport) -> String {
    let error =
        said.error.as_ref().map(|e| format!(": it ends in {:?}", Shown::line(&e.text).to_string())).unwrap_or_default();
    let over = if file.findings.is_empty() { "nothing is over a limit; " } else { "" };
    match said.verdict {
        Verdict::Clean => "will run".to_owned(),
        Verdict::OverLimit => "over a limit".to_owned(),
        Verdict::WedgedRepairable if file.findings.is_empty() => {
            format!("wedged{error}; {over}`fix --window {}` cuts what it takes", tokens(enough(said)))
        }
        Verdict::WedgedRepairable => format!("wedged{error}; repairable"),
        Verdict::WedgedElsewhere => {
            format!("wedged{error}; {over}the weight is not in tool responses: {}", heaviest(said))
        }
        Verdict::CannotFit => {
            format!("cannot be made to fit: {}, however far responses are cut", heaviest(said))
        }
    }
}

/// A window to cut to: the conversation's own, or, where that seems to be large enough and is not, one that takes a quarter away.
fn enough(said: &Diagnosis) -> u64 {
    match (said.window, said.room) {
        (Some(window), Some(room)) if said.tokens > room => window.tokens,
        _ => (said.tokens / 4 * 3).saturating_add(RESERVE),
    }
}

/// Where most of it is.
fn heaviest(said: &Diagnosis) -> String {
    let w = &said.weight;
    let parts = [
        (w.assistant, "the assistant's own text"),
        (w.user, "the user's text"),
        (w.attachments, "attachments"),
        (w.other, "system prompts and summaries"),
    ];
    let images = w.images.saturating_add(said.responses.images);
    let (bytes, name) = parts.into_iter().max_by_key(|(bytes, _)| *bytes).unwrap_or((0, "nothing"));
    match images {
        0 => format!("{} are {name}", human(bytes)),
        n => format!("{} are {name}, and there are {}", human(bytes), count(n, "image")),
    }
}

/// `the next request is about 231k tokens of a room of 184k …`
fn request(said: &Diagnosis) -> String {
    let room = said.room.map(|room| format!(" of {} there is room for", tokens(room))).unwrap_or_default();
    let after = if said.tokens_after < said.tokens {
        format!(", {} once it is cut", tokens(said.tokens_after))
    } else {
        String::new()
    };
    let w = &said.weight;
    let split: Vec<String> = [
        (said.responses.bytes, "responses"),
        (w.assistant, "assistant"),
        (w.user, "user"),
        (w.attachments, "attachments"),
        (w.other, "other"),
    ]
    .into_iter()
    .filter(|(bytes, _)| *bytes > 0)
    .map(|(bytes, what)| format!("{what} {}", human(bytes)))
    .chain(Some(w.images.saturating_add(said.responses.images)).filter(|n| *n > 0).map(|n| count(n, "image")))
    .collect();
    let window =
        said.window.map(|w| format!("; window {} ({})", tokens(w.tokens), Shown::line(w.source))).unwrap_or_default();
    format!(
        "the next request is about {} tokens{room}{after} ({}): {}{window}",
        tokens(said.tokens),
        method(said),
        split.join(", ")
    )
}

fn method(said: &Diagnosis) -> String {
    match said.estimate {
        Estimate::Calibrated { base, .. } => {
            format!("by the provider's count of {} for {}", tokens(base.tokens), human(base.bytes))
        }
        Estimate::Inflated => "by bytes / 4 × 1.5".to_owned(),
    }
}

/// Thousands of tokens, as people say them.
fn tokens(n: u64) -> String {
    match n {
        0..10_000 => n.to_string(),
        _ if n.is_multiple_of(1_000_000) => format!("{}M", n / 1_000_000),
        _ => format!("{}k", n.saturating_add(500) / 1000),
    }
}

/// The same for programs. The error's text is the stream's own, so only its place is given.
#[derive(Serialize)]
pub struct HealthJson {
    verdict: &'static str,
    error: Option<PlaceJson>,
    model: Option<String>,
    window: Option<WindowJson>,
    room: Option<u64>,
    estimate: EstimateJson,
    tokens: u64,
    tokens_after: u64,
    weight: WeightJson,
}

#[derive(Serialize)]
struct PlaceJson {
    line: u64,
    record: u64,
}

#[derive(Serialize)]
struct WindowJson {
    tokens: u64,
    source: &'static str,
}

#[derive(Serialize)]
struct EstimateJson {
    method: &'static str,
    counted_tokens: Option<u64>,
    counted_bytes: Option<u64>,
}

#[derive(Serialize)]
struct WeightJson {
    responses: u64,
    assistant: u64,
    user: u64,
    attachments: u64,
    other: u64,
    images: u64,
}

impl HealthJson {
    /// What is said of one conversation.
    pub fn of(said: &Diagnosis) -> Self {
        let counted = match said.estimate {
            Estimate::Calibrated { base, .. } => Some(base),
            Estimate::Inflated => None,
        };
        HealthJson {
            verdict: said.verdict.name(),
            error: said.error.as_ref().map(|e| PlaceJson { line: e.line, record: e.record }),
            model: said.model.clone(),
            window: said.window.map(|w| WindowJson { tokens: w.tokens, source: w.source }),
            room: said.room,
            estimate: EstimateJson {
                method: said.estimate.name(),
                counted_tokens: counted.map(|c| c.tokens),
                counted_bytes: counted.map(|c| c.bytes),
            },
            tokens: said.tokens,
            tokens_after: said.tokens_after,
            weight: WeightJson {
                responses: said.responses.bytes,
                assistant: said.weight.assistant,
                user: said.weight.user,
                attachments: said.weight.attachments,
                other: said.weight.other,
                images: said.weight.images.saturating_add(said.responses.images),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_thousands() {
        let said = [0, 9_999, 10_400, 199_600, 200_000, 1_000_000, 1_048_576];
        assert_eq!(said.map(tokens), ["0", "9999", "10k", "200k", "200k", "1M", "1049k"]);
    }
}
