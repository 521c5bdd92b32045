//! JP (Jean-Pierre): `.jp/conversations/<ds>[-slug]/events.json` and its user-local twin.
//!
//! One JSON array, pretty-printed, strings of tools in base64:
//!
//! ```json
//! [
//!   { "timestamp": "2026-07-27 10:00:00.0", "type": "turn_start" },
//!   { "timestamp": "…", "type": "chat_request", "content": "Check it" },
//!   { "timestamp": "…", "type": "tool_call_request", "id": "toolu_03", "name": "cargo_test", "arguments": {} },
//!   { "timestamp": "…", "type": "tool_call_response", "id": "toolu_03", "content": "c3RkZXJy…", "is_error": true },
//!   { "type": "config_delta", "timestamp": "…", "delta": { "conversation": { "tools": { … } } } }
//! ]
//! ```
//!
//! Learnt from dcdpr/jp at `4c1c39f1`: `jp_conversation` (`storage.rs` for base64, `stream/projection.rs` for turns and
//! compactions), `jp_storage` (`lock.rs`, `load.rs`, `lib.rs` for the two roots), and from running its storage crates.

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use memchr::memmem;

use super::{About, Depth, Etiquette, Format, Framing, Locator, Lock, Look, Places, Probe, Stream, Times};
use find::{Finder, TYPES};

mod find;
mod weigh;

/// JP's conversations.
pub struct Jp;

const STREAM: &str = "events.json";
const CONVERSATIONS: &str = "conversations";
const ARCHIVE: &str = ".archive";
const TRASH: &str = ".trash";

impl Format for Jp {
    fn about(&self) -> About {
        About {
            name: "jp",
            agent: "JP (Jean-Pierre)",
            places: "`.jp/conversations/*/events.json` of a workspace, and the user-local copy under `~/.local/share/jp/workspace/`",
            reads: "`events.json`; `base_config.json` for thresholds",
            writes: "`events.json`, in both places, with a new modification time",
        }
    }

    fn endings(&self) -> &'static [&'static str] {
        &[STREAM]
    }

    fn candidate(&self, path: &Path) -> bool {
        path.file_name() == Some(OsStr::new(STREAM))
    }

    fn claims(&self, probe: &Probe<'_>) -> bool {
        if !self.candidate(probe.path) {
            return false;
        }
        // A conversation's own folder says enough: what lies there is JP's even where it is broken. Elsewhere (a copy under
        // another name) the first event must look like one.
        let ours = Site::of(probe.path).is_some_and(|site| site.ds.len() >= 9);
        ours || (probe.head.trim_ascii_start().starts_with(b"[")
            && memmem::find(probe.head, b"\"timestamp\"").is_some()
            && memmem::find(probe.head, b"\"type\"").is_some()
            && TYPES.iter().any(|t| memmem::find(probe.head, format!("\"{t}\"").as_bytes()).is_some()))
    }

    fn framing(&self) -> Framing {
        Framing::Document
    }

    fn small_is_clean(&self) -> bool {
        false
    }

    fn prunes(&self, dir: &Path) -> bool {
        // `.trash`, `.staging-*` and `.old-*`: JP itself skips what starts with a dot, but for the archive.
        let in_conversations = dir.parent().and_then(Path::file_name) == Some(OsStr::new(CONVERSATIONS));
        let name = dir.file_name().and_then(OsStr::to_str).unwrap_or_default();
        in_conversations && name.starts_with('.') && name != ARCHIVE
    }

    fn known_places(&self, look: &dyn Look, places: &Places) -> Vec<PathBuf> {
        let workspace = places.cwd.ancestors().map(|dir| dir.join(".jp")).find(|dir| look.is_dir(dir));
        let silos = user_data(places)
            .map(|data| data.join("workspace"))
            .into_iter()
            .flat_map(|dir| look.list(&dir).into_iter().map(move |name| dir.join(name)));
        workspace.into_iter().chain(silos).map(|root| root.join(CONVERSATIONS)).filter(|dir| look.is_dir(dir)).collect()
    }

    fn resolve(&self, id: &str, look: &dyn Look, places: &Places) -> Option<Vec<PathBuf>> {
        let rest = id.strip_prefix("jp-c")?;
        let (ds, workspace) = match rest.split_once('-') {
            Some((ds, workspace)) => (ds, Some(workspace)),
            None => (rest, None),
        };
        if ds.is_empty() || !ds.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let here = places.cwd.ancestors().map(|dir| dir.join(".jp")).find(|dir| look.is_dir(dir));
        let here = here.filter(|root| workspace.is_none() || workspace == workspace_id(look, root).as_deref());
        let silos = user_data(places).map(|data| data.join("workspace")).into_iter().flat_map(|dir| {
            let names = look.list(&dir);
            names
                .into_iter()
                .filter(|name| workspace.is_none_or(|id| silo_of(name, id)))
                .map(move |name| dir.join(name))
                .collect::<Vec<_>>()
        });
        let roots = here.into_iter().chain(silos);
        Some(
            roots
                .flat_map(|root| conversation_dirs(look, &root, ds))
                .map(|dir| dir.join(STREAM))
                .filter(|path| look.is_file(path))
                .collect(),
        )
    }

    fn conversation(&self, path: &Path, look: &dyn Look, places: &Places) -> Etiquette {
        let own = Stream { path: path.to_owned(), asides: vec![path.with_file_name("base_config.json")] };
        let alone = Etiquette {
            id: None,
            streams: vec![own.clone()],
            lock: None,
            times: Times::New,
            appends: false,
            pads: false,
        };
        let Some(site) = Site::of(path) else { return alone };
        let roots = Roots::around(&site.root, look, places);
        let lock_name = format!("jp-c{}.lock", site.ds);
        let lock_in = |root: &Path| root.join("locks").join(&lock_name);
        let twin = roots.other(&site.root).into_iter().flat_map(|root| {
            let parent = root.join(CONVERSATIONS);
            let parent = if site.archived { parent.join(ARCHIVE) } else { parent };
            named_for(look, &parent, &site.ds)
        });
        let twins = twin.map(|dir| dir.join(STREAM)).filter(|p| look.is_file(p) && p != path);
        let mut streams: Vec<Stream> =
            twins.take(1).map(|p| Stream { asides: vec![p.with_file_name("base_config.json")], path: p }).collect();
        // Of two copies of the same time JP loads the user-local one: it stands first.
        if roots.user.as_deref() == Some(&*site.root) {
            streams.insert(0, own);
        } else {
            streams.push(own);
        }
        let holders = [&roots.user, &roots.workspace];
        let create = match (&roots.user, &roots.workspace) {
            (Some(user), _) => Some(lock_in(user)),
            (None, Some(workspace)) => Some(lock_in(workspace)),
            (None, None) => None,
        };
        let mut existing: Vec<PathBuf> = holders.into_iter().flatten().map(|root| lock_in(root)).collect();
        if existing.is_empty() {
            existing.push(lock_in(&site.root));
        }
        Etiquette { id: Some(format!("jp-c{}", site.ds)), streams, lock: Some(Lock { existing, create }), ..alone }
    }

    fn locator(&self, path: &Path, depth: Depth) -> Box<dyn Locator> {
        let within = |name| path.components().any(|c| c == Component::Normal(OsStr::new(name)));
        let shelved = Site::of(path).and_then(|_| {
            if within(TRASH) {
                Some("in the trash")
            } else if within(ARCHIVE) {
                Some("archived")
            } else {
                None
            }
        });
        Box::new(Finder::new(shelved, depth))
    }
}

/// Where a stream stands: `<root>/conversations/[.archive/]<ds>[-slug]/events.json`.
struct Site {
    root: PathBuf,
    ds: String,
    archived: bool,
}

impl Site {
    fn of(path: &Path) -> Option<Site> {
        let dir = path.parent()?;
        let ds = ds_of(dir.file_name()?)?;
        let mut parent = dir.parent()?;
        let shelf = parent.file_name()?;
        let archived = shelf == ARCHIVE;
        if archived || shelf == TRASH {
            parent = parent.parent()?;
        }
        if parent.file_name()? != CONVERSATIONS {
            return None;
        }
        Some(Site { root: parent.parent()?.to_owned(), ds: ds.to_owned(), archived })
    }
}

/// The number that a conversation's folder starts with: Unix time in tenths of a second.
fn ds_of(name: &OsStr) -> Option<&str> {
    let name = name.to_str()?;
    let ds = name.split_once('-').map_or(name, |(ds, _)| ds);
    (!ds.is_empty() && ds.bytes().all(|b| b.is_ascii_digit())).then_some(ds)
}

/// The two storage roots of a workspace, as far as they are to be found.
struct Roots {
    user: Option<PathBuf>,
    workspace: Option<PathBuf>,
}

impl Roots {
    fn around(root: &Path, look: &dyn Look, places: &Places) -> Roots {
        let silos = user_data(places).map(|data| data.join("workspace"));
        let in_silos = silos.as_deref().is_some_and(|dir| root.parent() == Some(dir));
        let link = look.link(&root.join("storage"));
        if in_silos || link.is_some() {
            return Roots { user: Some(root.to_owned()), workspace: link.filter(|w| look.is_dir(w)) };
        }
        let id = workspace_id(look, root);
        if id.is_none() && root.file_name() != Some(OsStr::new(".jp")) {
            return Roots { user: None, workspace: None };
        }
        let user = silos.zip(id).and_then(|(dir, id)| {
            let mut found: Vec<PathBuf> = look
                .list(&dir)
                .into_iter()
                .filter(|name| silo_of(name, &id))
                .map(|name| dir.join(name))
                .filter(|d| look.is_dir(d))
                .collect();
            // An exact `<slug>-<id>` wins, else the most recently modified.
            let slug = root.parent().and_then(Path::file_name).and_then(OsStr::to_str).unwrap_or_default();
            let exact = dir.join(format!("{slug}-{id}"));
            found.sort_by_key(|d| (*d == exact, look.modified(d)));
            found.pop()
        });
        Roots { user, workspace: Some(root.to_owned()) }
    }

    fn other(&self, root: &Path) -> Option<PathBuf> {
        let twin = if self.user.as_deref() == Some(root) { &self.workspace } else { &self.user };
        twin.clone().filter(|t| t != root)
    }
}

/// `<data>`: `$JP_USER_DATA_DIR`, else `$XDG_DATA_HOME/jp`, else the platform's.
fn user_data(places: &Places) -> Option<PathBuf> {
    let xdg = places.xdg_data_home.as_ref().or(places.data.as_ref());
    places.jp_user_data_dir.clone().or_else(|| xdg.map(|dir| dir.join("jp")))
}

/// The last line of `<root>/.id`.
fn workspace_id(look: &dyn Look, root: &Path) -> Option<String> {
    let text = String::from_utf8(look.read(&root.join(".id"))?).ok()?;
    let id = text.lines().map(str::trim).rfind(|line| !line.is_empty())?;
    id.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()).then(|| id.to_owned())
}

/// Whether a folder of user-local storage is that of a workspace: `<id>` or `<slug>-<id>`.
fn silo_of(name: &OsStr, id: &str) -> bool {
    name.to_str().and_then(|n| n.strip_suffix(id)).is_some_and(|rest| rest.is_empty() || rest.ends_with('-'))
}

fn conversation_dirs(look: &dyn Look, root: &Path, ds: &str) -> Vec<PathBuf> {
    let dir = root.join(CONVERSATIONS);
    let mut found = named_for(look, &dir, ds);
    found.extend(named_for(look, &dir.join(ARCHIVE), ds));
    found
}

fn named_for(look: &dyn Look, dir: &Path, ds: &str) -> Vec<PathBuf> {
    look.list(dir).into_iter().filter(|name| ds_of(name) == Some(ds)).map(|name| dir.join(name)).collect()
}
