//! pi: `~/.pi/agent/sessions/--<cwd>--/<time>_<session>.jsonl`, header versions 1 to 3. oh-my-pi and OpenClaw write the same.
//!
//! JSON lines, a tree of entries behind a header (shortened):
//!
//! ```json
//! {"type":"session","version":3,"id":"01a2…","timestamp":"2026-12-01T00:06:21.260Z","cwd":"/home/dev/project"}
//! {"type":"message","id":"0000000a","parentId":null,"message":{"role":"user","content":[{"type":"text","text":"Check it"}]}}
//! {"type":"message","id":"0000000b","parentId":"0000000a","message":{"role":"assistant","content":[{"type":"toolCall","id":"c|1","name":"bash","arguments":{}}],"stopReason":"toolUse"}}
//! {"type":"message","id":"0000000c","parentId":"0000000b","message":{"role":"toolResult","toolCallId":"c|1","toolName":"bash","content":[{"type":"text","text":"…"}],"details":{"truncation":{"content":"…"}},"isError":false}}
//! {"type":"compaction","id":"0000000d","parentId":"0000000c","summary":"…","firstKeptEntryId":"0000000c","tokensBefore":70000}
//! {"type":"context_edit","id":"0000000e","parentId":"0000000d","targetId":"0000000c","replacement":{"content":[{"type":"text","text":"…"}]}}
//! ```
//!
//! * A batch is every result whose nearest ancestor with its call is the same assistant. Ids of calls repeat, so the tree
//!   decides, not a map. A result on another branch is never sent together with a live one and is not added to it.
//! * What is sent: the way from the root to the last entry, from what the latest compaction on it keeps; of a result that a
//!   `context_edit` replaces, the replacement, which is a response of its own here. All else is dead.
//! * In version 1 the entries are a plain list, and a compaction names what it keeps by its number, the header being 0.
//! * At the next prompt pi compacts where the last assistant ended in an error of too much context, or its last count of
//!   tokens is above the window: the cut text is summed up, and never sent. So both have to go with a cut.
//! * The modification time stays: pi continues the newest file. No line comes, goes or moves.
//!
//! Learnt by running `@mariozechner/pi-coding-agent` 0.73.1 and `@earendil-works/pi-coding-agent` 1.6.0: what counts as live
//! here is what both put into the model's context, but that 0.73 knows no `context_edit` and sends what it replaces. Reports
//! are in the issues of earendil-works/pi.

mod entry;
mod find;
mod notes;
mod relics;
mod sent;
#[cfg(test)]
mod tests;
mod tree;
mod weigh;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::jsonlines::{Head, files_below, is_uuid};
use super::{
    About, Depth, Etiquette, Format, Framing, Locator, Look, Places, Probe, Stream, Times, claude_code, codex, gemini,
    qwen,
};

/// pi's sessions.
pub struct Pi;

impl Format for Pi {
    fn about(&self) -> About {
        About {
            name: "pi",
            agent: "pi",
            places: "`~/.pi/agent/sessions/--<cwd>--/*.jsonl`",
            reads: "sessions with headers of version 1 to 3",
            writes: "results, `context_edit` replacements of results, and copies in `details`; where a session is wedged also its stored errors and last count of tokens; the modification time stays",
        }
    }

    fn endings(&self) -> &'static [&'static str] {
        &[".jsonl"]
    }

    fn candidate(&self, path: &Path) -> bool {
        path.extension() == Some(OsStr::new("jsonl"))
    }

    fn claims(&self, probe: &Probe<'_>) -> bool {
        // What lies in pi's own folder is its own even where it is broken, but not where it begins as another's does.
        let head = Head::of(probe.head);
        let another = || codex::begins(&head) || gemini::begins(&head) || qwen::begins(&head);
        let broken = || own(probe.path) && !another() && !claude_code::speaks(probe.head);
        self.candidate(probe.path) && (opens(probe.head) || broken())
    }

    fn framing(&self) -> Framing {
        Framing::Lines
    }

    fn seams(&self) -> Option<&dyn super::Seams> {
        Some(&super::seams::PI)
    }

    fn keeps_relics(&self) -> bool {
        true
    }

    fn matters(&self, record: &[u8]) -> bool {
        // Every entry is part of the tree that tells live from dead.
        !record.trim_ascii().is_empty()
    }

    fn error_marks(&self) -> &'static [&'static [u8]] {
        &[b"\"stopReason\":\"error\""]
    }

    fn known_places(&self, look: &dyn Look, places: &Places) -> Vec<PathBuf> {
        let sessions = places.home.as_ref().map(|home| home.join(".pi/agent/sessions"));
        sessions.into_iter().filter(|dir| look.is_dir(dir)).collect()
    }

    fn resolve(&self, id: &str, look: &dyn Look, places: &Places) -> Option<Vec<PathBuf>> {
        // A session's id is a UUID; less would fit the names of many.
        let fits = |name: &str| session(Path::new(name)).is_some_and(|(_, its)| its == id);
        let sessions = self.known_places(look, places).into_iter().filter(|_| is_uuid(id));
        let found: Vec<PathBuf> = sessions.flat_map(|dir| files_below(look, &dir, 1, &fits)).collect();
        (!found.is_empty()).then_some(found)
    }

    fn conversation(&self, path: &Path, _look: &dyn Look, _places: &Places) -> Etiquette {
        Etiquette {
            id: session(path).map(|(_, id)| id.to_owned()),
            streams: vec![Stream { path: path.to_owned(), asides: Vec::new() }],
            lock: None,
            // `pi -c` continues the newest.
            times: Times::Keep,
            appends: true,
            pads: false,
        }
    }

    fn locator(&self, _path: &Path, depth: Depth) -> Box<dyn Locator> {
        Box::new(find::Finder::new(depth))
    }
}

/// Whether a file starts with pi's header, perhaps behind a byte order mark.
pub(super) fn opens(head: &[u8]) -> bool {
    let header = Head::of(head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head));
    let text = |name| header.get(name).is_some_and(|value| value.starts_with(b"\""));
    header.is("type", &["session"]) && text("id") && text("timestamp") && text("cwd")
}

/// Whether a file stands where only pi, or one of its forks, keeps its sessions: it is one, however broken.
fn own(path: &Path) -> bool {
    let sessions = path.ancestors().skip(1).take(2).any(|dir| dir.ends_with("sessions"));
    let agent = path.ancestors().skip(2).take(3).any(|dir| {
        let dir = dir.file_name().and_then(OsStr::to_str).unwrap_or_default();
        matches!(dir, "agent" | "agents")
    });
    sessions && agent && session(path).is_some()
}

/// Time and id in the name of a session's file: `2026-12-01T00-06-21-260Z_<id>.jsonl`.
fn session(path: &Path) -> Option<(&str, &str)> {
    let (time, id) = path.file_name()?.to_str()?.strip_suffix(".jsonl")?.split_once('_')?;
    let shape = |(want, is): (u8, u8)| if want == b'0' { is.is_ascii_digit() } else { want == is };
    let stamp = b"0000-00-00T00-00-00-000Z";
    (time.len() == stamp.len() && stamp.iter().copied().zip(time.bytes()).all(shape) && !id.is_empty())
        .then_some((time, id))
}
