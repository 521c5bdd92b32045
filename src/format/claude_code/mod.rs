//! Claude Code: `~/.claude/projects/<slug>/<session>.jsonl`, and `agent-<id>.jsonl` for each subagent.
//!
//! JSON lines, one block of a message a line (shortened; a real line has some ten more keys):
//!
//! ```json
//! {"parentUuid":null,"isSidechain":false,"sessionId":"…","type":"user","message":{"role":"user","content":"Check it"},"uuid":"1"}
//! {"parentUuid":"1","isSidechain":false,"type":"assistant","message":{"id":"msg_1","role":"assistant","content":[{"type":"tool_use","id":"toolu_a","name":"Bash","input":{}}]},"uuid":"2"}
//! {"parentUuid":"2","isSidechain":false,"type":"assistant","message":{"id":"msg_1","role":"assistant","content":[{"type":"tool_use","id":"toolu_b","name":"Read","input":{}}]},"uuid":"3"}
//! {"parentUuid":"3","type":"user","message":{"role":"user","content":[{"tool_use_id":"toolu_b","type":"tool_result","content":"…"}]},"toolUseResult":{"type":"text","file":{"content":"…"}},"uuid":"4"}
//! {"parentUuid":"2","type":"user","message":{"role":"user","content":[{"tool_use_id":"toolu_a","type":"tool_result","content":[{"type":"text","text":"…"}],"is_error":true}]},"toolUseResult":"Error: …","uuid":"5"}
//! {"parentUuid":"5","type":"progress","data":{"type":"bash_progress","fullOutput":"…"},"parentToolUseID":"toolu_a","uuid":"6"}
//! {"parentUuid":null,"type":"system","subtype":"compact_boundary","compactMetadata":{"preservedSegment":{"headUuid":"4","tailUuid":"6"}},"uuid":"7"}
//! ```
//!
//! * A batch is every result whose call stands in an assistant line of the same `message.id`. Lines of one message are
//!   neither neighbours nor parents of each other for certain, so neither is asked.
//! * Only `message.content[].content` is sent. `toolUseResult` and progress records repeat it for the screen.
//! * A line of the assistant is never touched: the interface compares its thinking with what it signed.
//! * Lines before the last compaction are dead, but for those it preserved; lines of a subagent in the session's own file are
//!   too. Branches that were rewound count as live: the chain of parents alone does not tell them from parallel calls, and a
//!   result wrongly called dead would stay oversized under `--live-only`.
//!
//! Learnt from 24,017 real lines in three public repositories (rcgray/claude-code-bug-phantom-reads-17407, marot/spotter,
//! d-kimuson/claude-code-viewer), the changelog up to 2.1.240 and the issues of anthropics/claude-code named where they
//! matter; what a compaction preserves, from transcripts shown in Ruya-AI/cozempic#59 and sleep2agi/agent-network#18.

mod copies;
mod find;
mod line;
mod notes;
#[cfg(test)]
mod tests;
mod weigh;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use memchr::memmem;

use super::jsonlines::{Head, files_below, is_uuid, looks_whole};
use super::{
    About, Depth, Etiquette, Format, Framing, Locator, Look, Places, Probe, Stream, Times, codex, gemini, pi, qwen,
};

/// Claude Code's sessions and subagents.
pub struct ClaudeCode;

const PROJECTS: &str = ".claude/projects";
const SIDECARS: &str = "tool-results";
const SUBAGENTS: &str = "subagents";

impl Format for ClaudeCode {
    fn about(&self) -> About {
        About {
            name: "claude-code",
            agent: "Claude Code",
            places: "`~/.claude/projects/*/<session>.jsonl` and `agent-*.jsonl` below it",
            reads: "sessions and subagents",
            writes: "results, and their copies in `toolUseResult` and `progress`; the modification time stays",
        }
    }

    fn endings(&self) -> &'static [&'static str] {
        &[".jsonl"]
    }

    fn candidate(&self, path: &Path) -> bool {
        path.extension() == Some(OsStr::new("jsonl"))
    }

    fn claims(&self, probe: &Probe<'_>) -> bool {
        if !self.candidate(probe.path) || pi::opens(probe.head) {
            return false;
        }
        // What lies in Claude Code's own folder is its own even where it is broken, but not where it begins as another's does.
        let head = Head::of(probe.head);
        let another = || codex::begins(&head) || gemini::begins(&head) || qwen::begins(&head);
        speaks(probe.head) || (own(probe.path) && !another())
    }

    fn framing(&self) -> Framing {
        Framing::Lines
    }

    fn seams(&self) -> Option<&dyn super::Seams> {
        Some(&super::seams::CLAUDE_CODE)
    }

    fn matters(&self, record: &[u8]) -> bool {
        // Messages say what they are, and which of them a compaction preserves.
        let wanted: [&[u8]; 4] = [b"\"user\"", b"\"assistant\"", b"\"system\"", b"\"progress\""];
        !looks_whole(record) || wanted.iter().any(|w| memmem::find(record, w).is_some())
    }

    fn prunes(&self, dir: &Path) -> bool {
        // The full texts of results, under the session's own name.
        dir.file_name() == Some(OsStr::new(SIDECARS)) && dir.parent().is_some_and(|session| is_uuid(name(session)))
    }

    fn error_marks(&self) -> &'static [&'static [u8]] {
        &[b"\"isApiErrorMessage\":true"]
    }

    fn known_places(&self, look: &dyn Look, places: &Places) -> Vec<PathBuf> {
        let projects = places.home.as_ref().map(|home| home.join(PROJECTS));
        projects.into_iter().filter(|dir| look.is_dir(dir)).collect()
    }

    fn resolve(&self, id: &str, look: &dyn Look, places: &Places) -> Option<Vec<PathBuf>> {
        if !is_uuid(id) {
            return None;
        }
        let name = format!("{id}.jsonl");
        let projects = self.known_places(look, places).into_iter();
        let found: Vec<PathBuf> = projects.flat_map(|dir| files_below(look, &dir, 1, &|n| n == name)).collect();
        // Other agents' ids look the same, so only a session that is there makes it one of ours.
        (!found.is_empty()).then_some(found)
    }

    fn conversation(&self, path: &Path, _look: &dyn Look, _places: &Places) -> Etiquette {
        let stem = path.file_stem().and_then(OsStr::to_str).unwrap_or_default();
        Etiquette {
            id: (is_uuid(stem) || is_agent(stem)).then(|| stem.to_owned()),
            streams: vec![Stream { path: path.to_owned(), asides: Vec::new() }],
            lock: None,
            // Until 2.1.239 the picker sorts by it.
            times: Times::Keep,
            appends: true,
            pads: false,
        }
    }

    fn sidecars(&self, path: &Path, call: &str) -> Vec<PathBuf> {
        // The id is a stranger's text: only what can be nothing but a name becomes part of a path.
        let is_name = !call.is_empty() && call.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
        let session = match path.ancestors().find(|dir| name(dir) == SUBAGENTS) {
            Some(subagents) => subagents.parent().map(Path::to_owned),
            None => Some(path.with_extension("")),
        };
        let dir = session.filter(|_| is_name).map(|session| session.join(SIDECARS));
        dir.into_iter().flat_map(|dir| ["txt", "json"].map(|kind| dir.join(format!("{call}.{kind}")))).collect()
    }

    fn locator(&self, path: &Path, depth: Depth) -> Box<dyn Locator> {
        // A subagent that compacts is given a tail of the conversation, without the calls.
        Box::new(find::Finder::new(!name(path).starts_with("agent-acompact-"), depth))
    }
}

/// Whether the records of a head are Claude Code's. `isSidechain` is a word of its own; what precedes the first message
/// are records of a few known kinds.
pub(super) fn speaks(head: &[u8]) -> bool {
    head.split(|b| *b == b'\n').map(Head::of).any(|record| {
        let text = |name| record.get(name).is_some_and(|value| value.starts_with(b"\""));
        record.has(&["parentUuid", "isSidechain"])
            || (record.is("type", &["summary"]) && text("summary") && text("leafUuid"))
            || (record.is("type", &["file-history-snapshot"]) && text("messageId") && record.has(&["snapshot"]))
            || (record.is("type", &["queue-operation"]) && text("operation") && text("sessionId"))
    })
}

/// Whether a file stands where only Claude Code keeps its streams: it is one, however broken.
fn own(path: &Path) -> bool {
    let stem = path.file_stem().and_then(OsStr::to_str).unwrap_or_default();
    let project = path.ancestors().skip(2).any(|dir| dir.ends_with(PROJECTS));
    project && (is_uuid(stem) || is_agent(stem)) && path.ancestors().all(|dir| name(dir) != SIDECARS)
}

fn name(path: &Path) -> &str {
    path.file_name().and_then(OsStr::to_str).unwrap_or_default()
}

fn is_agent(stem: &str) -> bool {
    stem.strip_prefix("agent-").is_some_and(|id| !id.is_empty())
}
