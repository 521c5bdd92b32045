//! Codex (CLI, IDE extension and app): `~/.codex/sessions/YYYY/MM/DD/rollout-*.jsonl`.
//!
//! One compact object a line:
//!
//! ```json
//! {"timestamp":"…","ordinal":0,"type":"session_meta","payload":{"id":"01a2…","history_mode":"paginated"}}
//! {"timestamp":"…","ordinal":5,"type":"response_item","payload":{"type":"function_call","name":"exec_command","call_id":"call_0","arguments":"{}"}}
//! {"timestamp":"…","ordinal":6,"type":"response_item","payload":{"type":"custom_tool_call","name":"apply_patch","call_id":"call_1","input":"…"}}
//! {"timestamp":"…","ordinal":7,"type":"event_msg","payload":{"type":"item_completed","item":{"type":"CommandExecution","id":"call_0","aggregated_output":"…"}}}
//! {"timestamp":"…","ordinal":8,"type":"response_item","payload":{"type":"function_call_output","call_id":"call_0","output":"…"}}
//! {"timestamp":"…","ordinal":9,"type":"response_item","payload":{"type":"custom_tool_call_output","call_id":"call_1","output":[{"type":"input_text","text":"…"}]}}
//! {"timestamp":"…","ordinal":10,"type":"compacted","payload":{"message":"…","replacement_history":[{"type":"function_call_output","call_id":"call_0","output":"…"}]}}
//! {"timestamp":"…","ordinal":11,"type":"event_msg","payload":{"type":"thread_rolled_back","num_turns":1}}
//! ```
//!
//! Learnt from running codex 0.171.0 offline with edited rollouts, and from openai/codex: `rollout/src/recorder.rs`
//! (`05eb6e5e`), `load_error.rs` (`0fe5f32c`) and `compression.rs` (`3846901e`), `core/src/session/rollout_reconstruction.rs`
//! (`0cf88612`) for what is live, `protocol/src/models.rs` for outputs. A database of the agent's (`thread_history`) holds byte
//! offsets of lines, and accepts blanks before a newline: so records are padded,
//! and nothing else has to go with a cut.

mod events;
mod locate;
mod weigh;

use std::path::{Path, PathBuf};

use memchr::memmem;

use super::jsonlines::{Head, files_below, is_uuid, looks_whole};
use super::{
    About, Depth, Etiquette, Format, Framing, Locator, Lock, Look, Places, Probe, Stream, Times, gemini, qwen,
};

/// Codex's rollouts.
pub struct Codex;

/// Rollouts that were not used for a week. What is in them is what a plain one holds, and is there again when the thread is
/// resumed, so `thread_history` goes on with the byte offsets of the unpacked lines: these are padded too.
const COLD: &str = ".jsonl.zst";
const PLAIN: &str = ".jsonl";
const LOCKS: &str = "thread-writer-locks";

/// The types of lines. The first line of a rollout is a `session_meta`; one that lost it is still known by the others.
const LINES: [&str; 7] =
    ["session_meta", "response_item", "compacted", "event_msg", "turn_context", "world_state", "token_usage_record"];

impl Format for Codex {
    fn about(&self) -> About {
        About {
            name: "codex",
            agent: "Codex",
            places: "`~/.codex/sessions/YYYY/MM/DD/rollout-*.jsonl` and `~/.codex/archived_sessions/`",
            reads: "rollouts, plain and compressed (`.jsonl.zst`)",
            writes: "the rollout, compressed again where it was; each line keeps its length, so that the byte offsets of `thread_history` stay right",
        }
    }

    fn endings(&self) -> &'static [&'static str] {
        &[".jsonl", ".jsonl.zst"]
    }

    fn candidate(&self, path: &Path) -> bool {
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        name.ends_with(PLAIN) || name.ends_with(COLD)
    }

    fn claims(&self, probe: &Probe<'_>) -> bool {
        if !self.candidate(probe.path) {
            return false;
        }
        // What lies in Codex's own folders is Codex's even where it is broken, but not where it begins as another's does.
        let head = Head::of(probe.head);
        let own = || Site::of(probe.path).is_some_and(|site| site.home.is_some());
        begins(&head) || (own() && !gemini::begins(&head) && !qwen::begins(&head))
    }

    fn framing(&self) -> Framing {
        Framing::Lines
    }

    fn seams(&self) -> Option<&dyn super::Seams> {
        Some(&super::seams::CODEX)
    }

    fn packed(&self, path: &Path) -> bool {
        path.extension().is_some_and(|extension| extension == "zst")
    }

    fn renamed(&self, path: &Path) -> Option<PathBuf> {
        let name = path.file_name()?.to_str()?;
        let other = match name.strip_suffix(COLD) {
            Some(stem) => format!("{stem}{PLAIN}"),
            None => format!("{}{COLD}", name.strip_suffix(PLAIN)?),
        };
        Some(path.with_file_name(other))
    }

    fn matters(&self, record: &[u8]) -> bool {
        const WORDS: [&str; 8] = [
            "response_item",
            "compacted",
            "_end\"",
            "item_completed",
            "dynamic_tool_call_response",
            "thread_rolled_back",
            "session_meta",
            // Of the oldest rollouts, whose items stand in the line itself.
            "_call",
        ];
        !looks_whole(record) || WORDS.iter().any(|word| memmem::find(record, word.as_bytes()).is_some())
    }

    fn error_marks(&self) -> &'static [&'static [u8]] {
        &[b"\"type\":\"error\"", b"\"type\":\"stream_error\""]
    }

    fn known_places(&self, look: &dyn Look, places: &Places) -> Vec<PathBuf> {
        let home = places.home.iter().map(|home| home.join(".codex"));
        home.flat_map(|home| ["sessions", "archived_sessions"].map(|dir| home.join(dir)))
            .filter(|dir| look.is_dir(dir))
            .collect()
    }

    fn resolve(&self, id: &str, look: &dyn Look, places: &Places) -> Option<Vec<PathBuf>> {
        let fits = |name: &str| name.get(28..).is_some_and(|rest| rest.starts_with(id)) && name.starts_with("rollout-");
        let home = places.home.as_ref().filter(|_| is_uuid(id))?.join(".codex");
        let mut found = files_below(look, &home.join("sessions"), 3, &fits);
        found.extend(files_below(look, &home.join("archived_sessions"), 0, &fits));
        (!found.is_empty()).then_some(found)
    }

    fn conversation(&self, path: &Path, look: &dyn Look, _places: &Places) -> Etiquette {
        let site = Site::of(path);
        let lock = site.as_ref().and_then(|site| {
            let dir = site.home?.join(LOCKS);
            let lock = dir.join(format!("{}.lock", site.thread?));
            // Versions that lock made this folder, and leave it.
            Some(Lock { existing: vec![lock.clone()], create: look.is_dir(&dir).then_some(lock) })
        });
        Etiquette {
            id: site.and_then(|site| site.thread).map(str::to_owned),
            streams: vec![Stream { path: path.to_owned(), asides: Vec::new() }],
            lock,
            times: Times::Keep,
            appends: !path.to_string_lossy().ends_with(COLD),
            pads: true,
        }
    }

    fn locator(&self, _path: &Path, depth: Depth) -> Box<dyn Locator> {
        Box::new(locate::Finder::new(depth))
    }
}

/// Whether a file begins as a rollout does, wherever it stands.
pub(super) fn begins(head: &Head<'_>) -> bool {
    head.has(&["timestamp"]) && head.is("type", &LINES) && head.get("payload").is_some_and(|p| p.starts_with(b"{"))
}

/// Where a rollout stands, and whose it is by its name: `rollout-<time>-<thread>[_<rollout>].jsonl`.
struct Site<'a> {
    /// `$CODEX_HOME`, where the file stands in one.
    home: Option<&'a Path>,
    thread: Option<&'a str>,
}

impl<'a> Site<'a> {
    fn of(path: &'a Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?;
        let rest = name.strip_prefix("rollout-")?;
        // The time has 19 characters, `2026-12-01T00-05-15`; the thread is a UUID.
        let thread = rest.get(20..56).filter(|id| is_uuid(id));
        Some(Site { home: home(path), thread })
    }
}

fn home(path: &Path) -> Option<&Path> {
    let dir = path.parent()?;
    if dir.file_name()? == "archived_sessions" {
        return dir.parent();
    }
    let sessions = [2, 2, 4].into_iter().try_fold(dir, |dir, digits| {
        let name = dir.file_name()?.to_str()?;
        (name.len() == digits && name.bytes().all(|b| b.is_ascii_digit())).then(|| dir.parent()).flatten()
    })?;
    (sessions.file_name()? == "sessions").then(|| sessions.parent()).flatten()
}
