//! Cline, Roo Code and Kilo Code: `<id>.messages.json` of Cline's own store, and the task folders of the VS Code extensions,
//! `api_conversation_history.json` with `ui_messages.json` beside it.
//!
//! One JSON document of Anthropic messages, bare or under `messages`; a second one of what the screen shows:
//!
//! ```json
//! {"version":1,"sessionId":"1796…","messages":[
//!   {"role":"assistant","content":[{"type":"tool_use","id":"call_0","name":"run_commands","input":{}}]},
//!   {"role":"user","content":[{"type":"tool_result","tool_use_id":"call_0","name":"run_commands",
//!     "content":[{"query":"seq 1 40","result":"1\n2\n…","success":true}]}]}]}
//! [{"role":"assistant","content":[{"type":"text","text":"<execute_command>\n<command>seq 1 40</command>\n</execute_command>"}]},
//!  {"role":"user","content":[{"type":"text","text":"[execute_command for 'seq 1 40'] Result:"},{"type":"text","text":"1\n2\n…"}],
//!   "condenseParent":"c1"},
//!  {"role":"user","content":"…","isSummary":true,"condenseId":"c1"}]
//! [{"ts":1733000000003,"type":"say","say":"command_output","text":"1\n2\n…"}]
//! ```
//!
//! Learnt from running Cline CLI 3.0.65, from cline/cline at `21cb8d25` and Roo Code at `cb836567` (`pushToolResult` in
//! `presentAssistantMessage.ts` for results as text, `core/condense/index.ts` for what is not sent, `ChatRow.tsx` for which
//! texts the screen parses). Cline's search index and Roo's folder lock (`<file>.lock`) are not looked at.

mod messages;
mod screen;
mod weigh;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::peek::Peek;
use super::{About, Depth, Etiquette, Format, Framing, Locator, Look, Places, Probe, Stream, Times};

/// Cline's and its descendants' tasks.
pub struct Cline;

/// Of Cline's own store.
const SESSION: &str = ".messages.json";
/// What is sent, in the order in which the extension looks for it.
const HISTORIES: [&str; 2] = ["api_conversation_history.json", "claude_messages.json"];
const SCREEN: &str = "ui_messages.json";
/// The extensions that keep such task folders.
const EXTENSIONS: [&str; 3] = ["saoudrizwan.claude-dev", "rooveterinaryinc.roo-cline", "kilocode.kilo-code"];
/// The editors they run in.
const EDITORS: [&str; 5] = ["Code", "Code - Insiders", "VSCodium", "Cursor", "Windsurf"];
/// Where editors keep a user's data, below the home directory, on each system.
const SETTINGS: [&str; 3] = [".config", "Library/Application Support", "AppData/Roaming"];

/// What a file of this name is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Session,
    History,
    Screen,
}

impl Kind {
    fn of(path: &Path) -> Option<Kind> {
        let name = path.file_name()?.to_str()?;
        if HISTORIES.contains(&name) {
            Some(Kind::History)
        } else if name == SCREEN {
            Some(Kind::Screen)
        } else {
            session_of(name).map(|_| Kind::Session)
        }
    }
}

/// The session's id in the name of its document.
fn session_of(name: &str) -> Option<&str> {
    name.strip_suffix(SESSION).filter(|id| !id.is_empty())
}

impl Format for Cline {
    fn about(&self) -> About {
        About {
            name: "cline",
            agent: "Cline, Roo Code, Kilo Code",
            places: "`~/.cline/data/sessions/*/*.messages.json`, and `globalStorage/*/tasks/*/` of VS Code and its kin",
            reads: "`*.messages.json`; `api_conversation_history.json`, `ui_messages.json`",
            writes: "the same files; of `ui_messages.json` the output of commands and MCP servers",
        }
    }

    fn endings(&self) -> &'static [&'static str] {
        &[".json"]
    }

    fn candidate(&self, path: &Path) -> bool {
        Kind::of(path).is_some()
    }

    fn claims(&self, probe: &Probe<'_>) -> bool {
        let Some(kind) = Kind::of(probe.path) else { return false };
        // What lies in a task's or session's own folder is ours even where it is broken.
        if at_home(probe.path, kind) {
            return true;
        }
        let Some((root, _)) = Peek::of(probe.head) else { return false };
        match kind {
            Kind::Session => {
                root.has_text("sessionId")
                    && root.get("version").is_some()
                    && (root.get("messages").is_some() || root.get("origin").is_some())
            }
            Kind::History => root.items().first().is_some_and(|message| {
                matches!(message.get("role").and_then(Peek::text), Some("user" | "assistant"))
                    && message.get("content").is_some()
            }),
            Kind::Screen => root.items().first().is_some_and(|entry| {
                entry.get("ts").is_some() && matches!(entry.get("type").and_then(Peek::text), Some("say" | "ask"))
            }),
        }
    }

    fn framing(&self) -> Framing {
        Framing::Document
    }

    fn known_places(&self, look: &dyn Look, places: &Places) -> Vec<PathBuf> {
        dirs(places).into_iter().filter(|dir| look.is_dir(dir)).collect()
    }

    fn resolve(&self, id: &str, look: &dyn Look, places: &Places) -> Option<Vec<PathBuf>> {
        // Ids are milliseconds, UUIDs and the like, as other agents' are: only one that is here is ours.
        if id.len() < 10 || !id.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_')) {
            return None;
        }
        let found: Vec<PathBuf> =
            self.known_places(look, places).iter().filter_map(|dir| first_stream(&dir.join(id), id, look)).collect();
        (!found.is_empty()).then_some(found)
    }

    fn conversation(&self, path: &Path, look: &dyn Look, _places: &Places) -> Etiquette {
        let stream = |path: PathBuf| Stream { path, asides: Vec::new() };
        let folder = path.parent().and_then(Path::file_name).and_then(OsStr::to_str);
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        let (id, streams) = match Kind::of(path) {
            Some(Kind::History | Kind::Screen) => {
                // What is sent comes first; naming either repairs both.
                let names = HISTORIES.iter().chain([&SCREEN]).map(|name| path.with_file_name(name));
                (folder, names.filter(|file| file == path || look.is_file(file)).map(stream).collect())
            }
            _ => (session_of(name), vec![stream(path.to_owned())]),
        };
        Etiquette { id: id.map(str::to_owned), streams, lock: None, times: Times::Keep, appends: false, pads: false }
    }

    fn locator(&self, path: &Path, depth: Depth) -> Box<dyn Locator> {
        match Kind::of(path) {
            Some(Kind::Screen) => Box::new(screen::Finder::default()),
            _ => Box::new(messages::Finder::new(depth)),
        }
    }
}

/// Whether a file lies in the folder that an agent made for it: `<id>/<id>.messages.json`, `tasks/<id>/…`.
fn at_home(path: &Path, kind: Kind) -> bool {
    let dir = path.parent();
    let folder = dir.and_then(Path::file_name).and_then(OsStr::to_str).unwrap_or_default();
    let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let digits = folder.bytes().take_while(u8::is_ascii_digit).count();
    let uuid = folder.len() == 36 && folder.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
    match kind {
        Kind::Session => digits >= 10 && session_of(name) == Some(folder),
        Kind::History | Kind::Screen => {
            let tasks = dir.and_then(Path::parent).and_then(Path::file_name) == Some(OsStr::new("tasks"));
            tasks && (uuid || (digits >= 10 && digits == folder.len()))
        }
    }
}

/// Where sessions and tasks are kept, whether or not anything is there.
fn dirs(places: &Places) -> Vec<PathBuf> {
    let Some(home) = &places.home else { return Vec::new() };
    let own = home.join(".cline/data");
    let mut dirs = vec![own.join("sessions"), own.join("tasks")];
    let editors = SETTINGS.iter().flat_map(|settings| EDITORS.iter().map(move |e| home.join(settings).join(e)));
    for editor in editors.chain([home.join(".vscode-server/data")]) {
        let storage = editor.join("User/globalStorage");
        dirs.extend(EXTENSIONS.iter().map(|extension| storage.join(extension).join("tasks")));
    }
    dirs
}

/// The document that a session's or task's folder is found by.
fn first_stream(folder: &Path, id: &str, look: &dyn Look) -> Option<PathBuf> {
    let session = format!("{id}{SESSION}");
    let names = [&*session].into_iter().chain(HISTORIES).chain([SCREEN]);
    names.map(|name| folder.join(name)).find(|path| look.is_file(path))
}
