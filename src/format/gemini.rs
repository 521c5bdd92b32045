//! Gemini CLI: `~/.gemini/tmp/<project>/chats/session-*.jsonl`, and the older one-document `session-*.json`.
//!
//! A log in which a later message of an id replaces the earlier one:
//!
//! ```json
//! {"sessionId":"1c4b…","projectHash":"00…","startTime":"…","lastUpdated":"…","kind":"main"}
//! {"id":"u1","timestamp":"…","type":"user","content":[{"text":"hello"}]}
//! {"id":"g1","timestamp":"…","type":"gemini","content":"","toolCalls":[{"id":"sh_0","name":"run_shell_command","args":{},
//!   "result":[{"functionResponse":{"id":"sh_0","name":"run_shell_command","response":{"output":"…"}}}],"resultDisplay":"…"}]}
//! {"id":"u2","timestamp":"…","type":"user","content":[{"functionResponse":{"id":"sh_0","name":"…","response":{"output":"…"}}}]}
//! {"$set":{"lastUpdated":"…","messages":[{"id":"u1","type":"user","content":"…"}]}}
//! {"$rewindTo":"u1"}
//! ```
//!
//! A resumed session sends both copies of a response: the one in `toolCalls` and the one in the user's record after it.
//!
//! Learnt from running gemini-cli 0.61.0 offline with edited sessions, and from google-gemini/gemini-cli at `5411f113`:
//! `services/chatRecordingService.ts` (what replaces what), `utils/sessionUtils.ts` (what a resumed session sends),
//! `ui/utils/rewindFileOps.ts` (what of a display is written back into files, and so is never cut).

mod found;
mod locate;
mod weigh;

use std::path::{Path, PathBuf};

use memchr::memmem;

use super::jsonlines::{Head, files_below, is_uuid, looks_whole};
use super::{About, Depth, Etiquette, Format, Framing, Locator, Look, Places, Probe, Stream, Times, codex, qwen};

/// Gemini CLI's sessions.
pub struct Gemini;

/// Gemini CLI's older sessions, one document each. A resumed one goes on in a `.jsonl` beside it.
pub struct GeminiJson;

impl Format for Gemini {
    fn about(&self) -> About {
        About {
            name: "gemini",
            agent: "Gemini CLI",
            places: "`~/.gemini/tmp/*/chats/session-*.jsonl`, and those of subagents in folders beside them",
            reads: "sessions",
            writes: "the session: both copies that are sent, and those for the screen; not while Gemini CLI runs",
        }
    }

    fn endings(&self) -> &'static [&'static str] {
        &[".jsonl"]
    }

    fn candidate(&self, path: &Path) -> bool {
        path.extension().is_some_and(|e| e == "jsonl")
    }

    fn claims(&self, probe: &Probe<'_>) -> bool {
        self.candidate(probe.path) && claims(probe)
    }

    fn framing(&self) -> Framing {
        Framing::Lines
    }

    fn seams(&self) -> Option<&dyn super::Seams> {
        Some(&super::seams::EveryLine)
    }

    fn matters(&self, record: &[u8]) -> bool {
        const WORDS: [&str; 4] = ["\"id\"", "\"messages\"", "$rewindTo", "projectHash"];
        !looks_whole(record) || WORDS.iter().any(|word| memmem::find(record, word.as_bytes()).is_some())
    }

    fn error_marks(&self) -> &'static [&'static [u8]] {
        &[b"\"type\":\"error\""]
    }

    fn known_places(&self, look: &dyn Look, places: &Places) -> Vec<PathBuf> {
        known_places(look, places)
    }

    fn resolve(&self, id: &str, look: &dyn Look, places: &Places) -> Option<Vec<PathBuf>> {
        resolve(id, ".jsonl", look, places)
    }

    fn conversation(&self, path: &Path, _look: &dyn Look, _places: &Places) -> Etiquette {
        etiquette(path, true)
    }

    fn locator(&self, _path: &Path, depth: Depth) -> Box<dyn Locator> {
        Box::new(locate::Finder::new(depth))
    }
}

impl Format for GeminiJson {
    fn about(&self) -> About {
        About {
            name: "gemini-json",
            agent: "Gemini CLI (older)",
            places: "`~/.gemini/tmp/*/chats/session-*.json`",
            reads: "sessions of one document",
            writes: "the session; one that was resumed goes on in a `.jsonl` beside it",
        }
    }

    fn endings(&self) -> &'static [&'static str] {
        &[".json"]
    }

    fn candidate(&self, path: &Path) -> bool {
        path.extension().is_some_and(|e| e == "json")
    }

    fn claims(&self, probe: &Probe<'_>) -> bool {
        self.candidate(probe.path) && claims(probe)
    }

    fn framing(&self) -> Framing {
        Framing::Document
    }

    fn known_places(&self, look: &dyn Look, places: &Places) -> Vec<PathBuf> {
        known_places(look, places)
    }

    fn resolve(&self, id: &str, look: &dyn Look, places: &Places) -> Option<Vec<PathBuf>> {
        resolve(id, ".json", look, places)
    }

    fn conversation(&self, path: &Path, _look: &dyn Look, _places: &Places) -> Etiquette {
        etiquette(path, false)
    }

    fn locator(&self, _path: &Path, depth: Depth) -> Box<dyn Locator> {
        Box::new(locate::Document::new(depth))
    }
}

/// Whether a file stands where Gemini CLI keeps its sessions: `.gemini/tmp/<project>/chats/[<parent session>/]<file>`.
fn in_chats(path: &Path) -> bool {
    let dir = path.parent();
    let at = |dir: Option<&Path>, name: &str| dir.and_then(Path::file_name).is_some_and(|n| n == name);
    let chats = if at(dir, "chats") { dir } else { dir.and_then(Path::parent).filter(|dir| at(Some(dir), "chats")) };
    let tmp = chats.and_then(Path::parent).and_then(Path::parent);
    at(tmp, "tmp") && at(tmp.and_then(Path::parent), ".gemini")
}

/// What lies in its own folders is its own even where it is broken, but not where it begins as another's does.
fn claims(probe: &Probe<'_>) -> bool {
    let head = Head::of(probe.head);
    begins(&head) || (in_chats(probe.path) && !codex::begins(&head) && !qwen::begins(&head))
}

/// Whether a file begins as a session does, wherever it stands.
pub(super) fn begins(head: &Head<'_>) -> bool {
    let text = |key| head.get(key).is_some_and(|value| value.starts_with(b"\""));
    text("sessionId") && text("projectHash") && text("startTime")
}

fn known_places(look: &dyn Look, places: &Places) -> Vec<PathBuf> {
    places.home.iter().map(|home| home.join(".gemini").join("tmp")).filter(|dir| look.is_dir(dir)).collect()
}

/// A session's file has the first eight characters of its id in its name, a subagent's the whole id.
fn resolve(id: &str, ending: &str, look: &dyn Look, places: &Places) -> Option<Vec<PathBuf>> {
    let tmp = places.home.as_ref().filter(|_| is_uuid(id))?.join(".gemini").join("tmp");
    let short = format!("-{}{ending}", id.get(..8)?);
    let whole = format!("{id}{ending}");
    let mut found = Vec::new();
    for project in look.list(&tmp) {
        let chats = tmp.join(project).join("chats");
        found.extend(files_below(look, &chats, 0, &|name| name.starts_with("session-") && name.ends_with(&short)));
        found.extend(files_below(look, &chats, 1, &|name| name == whole));
    }
    (!found.is_empty()).then_some(found)
}

fn etiquette(path: &Path, appends: bool) -> Etiquette {
    // `session-<time>-<first 8 of the id>`; a subagent's file has the id alone.
    let stem = path.file_stem().and_then(|stem| stem.to_str());
    let id = stem.map(|stem| match stem.strip_prefix("session-") {
        Some(rest) => rest.rsplit('-').next().unwrap_or(rest),
        None => stem,
    });
    Etiquette {
        id: id.map(str::to_owned),
        streams: vec![Stream { path: path.to_owned(), asides: Vec::new() }],
        lock: None,
        times: Times::Keep,
        appends,
        pads: false,
    }
}
