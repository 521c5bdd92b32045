//! Paths to conversations: named ones, walked ones, ids.
//!
//! One place decides what is work. A file is claimed by exactly one format or it is none of ours; the streams of one
//! conversation are brought together; what comes out is sorted, so that a report does not depend on the walk.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use walkdir::{DirEntry, WalkDir};

use crate::around;
use crate::cap::limits::Limits;
use crate::error::{Error, Result};
use crate::format::{self, Etiquette, FORMATS, Format, HEAD, Places, Probe, Stream};
use crate::store::file::{Source, full_path};
use crate::store::look::Disk;

/// What was asked for.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// Files, directories or conversation ids, as given.
    pub named: Vec<PathBuf>,
    /// Look where the known agents keep their streams, and in the workspace of the current directory.
    pub known_places: bool,
    /// Globs of what to leave out, matched against the path as walked and against its file name.
    pub exclude: Vec<String>,
    /// Only this format. A file that is named is taken as one of it.
    pub format: Option<String>,
    /// A directory that no walk enters: where backups live.
    pub skip: Option<PathBuf>,
    /// Open small files too: what is asked of a stream is more than whether something in it is over a limit.
    pub every: bool,
}

/// The work that a request comes to.
#[derive(Default)]
pub struct Found {
    /// Conversations, sorted by their first document.
    pub conversations: Vec<Conversation>,
    /// Files seen by walking that no format claims.
    pub passed_over: u64,
    /// Files seen by walking that could be a stream, and whose size alone shows that nothing in them is over a limit.
    pub too_small: u64,
    /// What could not be looked at.
    pub troubles: Vec<Error>,
    /// Named files that no format claims.
    pub unclaimed: Vec<PathBuf>,
    /// The directories that were walked, absolute.
    pub walked: Vec<PathBuf>,
}

/// One conversation with all its streams.
pub struct Conversation {
    /// Its format.
    pub format: &'static dyn Format,
    /// What a repair must respect.
    pub etiquette: Etiquette,
    /// Its streams, in the order of the etiquette.
    pub documents: Vec<Document>,
}

/// One stream of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// The path as it was named or walked.
    pub shown: PathBuf,
    /// The path that is opened: absolute, and free of links at the time of the scan.
    pub real: PathBuf,
    /// Documents that are only read, before it.
    pub asides: Vec<PathBuf>,
    /// Whether it was named itself, rather than found by walking or as another one's twin: then it is read whole.
    pub named: bool,
}

/// Finds the conversations of a request.
///
/// # Errors
/// A glob or a format's name that cannot be understood. A file that cannot be looked at is among the troubles.
pub fn scan(request: &Request, places: &Places, limits: &dyn Fn(&Path) -> Result<Limits>) -> Result<Found> {
    let formats: Vec<&'static dyn Format> = match &request.format {
        None => FORMATS.to_vec(),
        Some(name) => vec![format::named(name).ok_or_else(|| {
            let known: Vec<_> = FORMATS.iter().map(|f| f.about().name).collect();
            Error::Unknown(format!("no format {name:?}; known are {}", known.join(", ")))
        })?],
    };
    let mut scan = Scan {
        formats,
        forced: request.format.is_some(),
        every: request.every,
        exclude: globs(&request.exclude)?,
        skip: request.skip.as_deref().and_then(|dir| std::fs::canonicalize(dir).ok()),
        places,
        limits,
        found: Found::default(),
        by_stream: BTreeMap::new(),
        smallest: None,
        claimed: BTreeSet::new(),
    };
    for path in &request.named {
        scan.named(path);
    }
    if request.known_places {
        let dirs: BTreeSet<PathBuf> = scan.formats.iter().flat_map(|f| f.known_places(&Disk, places)).collect();
        for dir in dirs {
            scan.walk(&dir);
        }
    }
    scan.found.conversations.sort_by(|a, b| first(a).cmp(&first(b)));
    scan.found.troubles.sort_by(|a, b| a.path().cmp(&b.path()));
    Ok(scan.found)
}

/// The path that a conversation is sorted by.
fn first(conversation: &Conversation) -> Option<&Path> {
    conversation.documents.iter().map(|d| &*d.shown).min()
}

fn globs(patterns: &[String]) -> Result<GlobSet> {
    let bad = |e: globset::Error| Error::Unknown(format!("--exclude: {e}"));
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        set.add(GlobBuilder::new(pattern).literal_separator(true).build().map_err(bad)?);
        // A pattern without a slash means a name at any depth, as it does in .gitignore.
        if let Some(path) = pattern.strip_suffix('/') {
            set.add(GlobBuilder::new(path).literal_separator(true).build().map_err(bad)?);
        }
    }
    set.build().map_err(bad)
}

fn ends_as(name: &OsStr, endings: &[&str]) -> bool {
    let name = name.as_encoded_bytes();
    endings.iter().any(|ending| name.ends_with(ending.as_bytes()))
}

struct Scan<'a> {
    formats: Vec<&'static dyn Format>,
    forced: bool,
    every: bool,
    exclude: GlobSet,
    skip: Option<PathBuf>,
    places: &'a Places,
    limits: &'a dyn Fn(&Path) -> Result<Limits>,
    found: Found,
    /// Which conversation a stream belongs to, by its real path.
    by_stream: BTreeMap<PathBuf, usize>,
    /// The smallest limit in force for the files of the directory at hand, which nearest configuration files decide.
    smallest: Option<(OsString, Option<Option<u64>>)>,
    /// Streams that were named or walked, rather than found as another one's twin.
    claimed: BTreeSet<PathBuf>,
}

impl Scan<'_> {
    fn named(&mut self, path: &Path) {
        let missing = match std::fs::metadata(path) {
            Ok(meta) if meta.is_dir() => return self.walk(path),
            Ok(meta) if meta.is_file() => return self.named_file(path),
            Ok(_) => {
                let why = "not a regular file or a directory".into();
                return self.found.troubles.push(Error::Refused { path: path.to_owned(), why });
            }
            Err(e) => e,
        };
        let id = path.to_str().unwrap_or_default();
        let streams: Vec<PathBuf> = match self.formats.iter().find_map(|f| f.resolve(id, &Disk, self.places)) {
            // A path that is not there and no id either.
            None => return self.found.troubles.push(Error::io(path, "open it")(missing)),
            Some(streams) => streams,
        };
        if streams.is_empty() {
            let why =
                format!("{id}: no such conversation in this workspace or among the user's; name its directory instead");
            return self.found.troubles.push(Error::Unknown(why));
        }
        for stream in streams {
            self.named_file(&stream);
        }
    }

    fn named_file(&mut self, path: &Path) {
        match std::fs::canonicalize(path) {
            Ok(real) => match self.claimants(&real, true) {
                Ok(claimants) => match claimants.as_slice() {
                    [] => self.found.unclaimed.push(path.to_owned()),
                    [format] => self.add(*format, path, &real, true),
                    several => self.ambiguous(path, several),
                },
                Err(e) => self.found.troubles.push(e),
            },
            Err(e) => self.found.troubles.push(Error::io(path, "open it")(e)),
        }
    }

    fn ambiguous(&mut self, path: &Path, formats: &[&'static dyn Format]) {
        let formats = formats.iter().map(|f| f.about().name).collect();
        self.found.troubles.push(Error::Ambiguous { path: path.to_owned(), formats });
    }

    fn walk(&mut self, root: &Path) {
        let real_root = match std::fs::canonicalize(root) {
            Ok(real) => real,
            Err(e) => return self.found.troubles.push(Error::io(root, "read the directory")(e)),
        };
        self.found.walked.push(real_root.clone());
        // Links are not followed, so below the root a path as walked is the real one.
        let real =
            |path: &Path| path.strip_prefix(root).map_or_else(|_| real_root.clone(), |below| real_root.join(below));
        // What was found is sorted in the end: sorting every directory costs more than looking at it.
        let mut walk = WalkDir::new(root).into_iter();
        while let Some(entry) = walk.next() {
            let entry = match entry {
                Ok(entry) => entry,
                Err(e) => {
                    let path = e.path().unwrap_or(root).to_owned();
                    let source = e.into_io_error().unwrap_or_else(|| std::io::Error::other("a loop of directories"));
                    self.found.troubles.push(Error::Io { path, doing: "read the directory", source });
                    continue;
                }
            };
            let path = entry.path();
            if entry.file_type().is_dir() {
                if entry.depth() > 0 && self.leaves_out(path, root, &real(path)) {
                    walk.skip_current_dir();
                }
                continue;
            }
            // Links, devices, sockets and pipes that were not named are not ours to touch.
            if !entry.file_type().is_file() || self.excluded(path, root) {
                continue;
            }
            if !self.likely(&entry) {
                self.found.passed_over += 1;
                continue;
            }
            if self.too_small(&entry, &real) {
                self.found.too_small += 1;
                continue;
            }
            let real = real(path);
            match self.claimants(&real, false) {
                Ok(claimants) => match claimants.as_slice() {
                    [] => self.found.passed_over += 1,
                    [format] => self.add(*format, path, &real, false),
                    several => self.ambiguous(path, several),
                },
                Err(e) => self.found.troubles.push(e),
            }
        }
    }

    /// Whether a walk does not enter a directory.
    fn leaves_out(&self, path: &Path, root: &Path, real: &Path) -> bool {
        path.file_name().is_some_and(|name| name == ".git")
            || self.skip.as_deref() == Some(real)
            || self.formats.iter().any(|f| f.prunes(real))
            || self.excluded(path, root)
    }

    fn excluded(&self, path: &Path, root: &Path) -> bool {
        if self.exclude.is_empty() {
            return false;
        }
        let below = path.strip_prefix(root).unwrap_or(path);
        self.exclude.is_match(path)
            || self.exclude.is_match(below)
            || path.file_name().is_some_and(|name| self.exclude.is_match(name))
    }

    /// Whether a file's name alone can be a stream's of any agent.
    fn likely(&self, entry: &DirEntry) -> bool {
        self.formats.iter().any(|f| ends_as(entry.file_name(), f.endings()))
    }

    /// Whether a file's size alone shows that nothing in it is over a limit: decoded text is never longer than stored text.
    fn too_small(&mut self, entry: &DirEntry, real: &dyn Fn(&Path) -> PathBuf) -> bool {
        let mut likely = self.formats.iter().filter(|f| ends_as(entry.file_name(), f.endings()));
        // A small file may unpack to a large one.
        let looks = |f: &dyn Format| !f.small_is_clean() || f.packed(entry.path());
        if likely.any(|f| looks(*f) && f.candidate(&real(entry.path()))) {
            return false;
        }
        if self.every {
            return false;
        }
        let Ok(len) = entry.metadata().map(|m| m.len()) else { return false };
        let dir = entry.path().parent().unwrap_or(entry.path()).as_os_str();
        if self.smallest.as_ref().is_none_or(|(known, _)| known != dir) {
            // A configuration that cannot be read is said where the file is.
            let smallest = (self.limits)(&real(entry.path())).ok().map(|limits| limits.smallest());
            self.smallest = Some((dir.to_owned(), smallest));
        }
        let smallest = self.smallest.as_ref().and_then(|(_, smallest)| *smallest);
        smallest.is_some_and(|smallest| smallest.is_none_or(|s| len <= s))
    }

    /// The formats that claim a file. Only a file whose path can be a stream's is opened.
    fn claimants(&self, real: &Path, named: bool) -> Result<Vec<&'static dyn Format>> {
        if named && self.forced {
            return Ok(self.formats.clone());
        }
        let mut candidates: Vec<_> = self.formats.iter().copied().filter(|f| f.candidate(real)).collect();
        if candidates.is_empty() {
            return Ok(candidates);
        }
        let packed = candidates.iter().any(|f| f.packed(real));
        let source = Source::open_real(real)?.unpacking(packed);
        let head = source.head(HEAD)?;
        candidates.retain(|f| f.claims(&Probe { path: real, head: &head }));
        Ok(candidates)
    }

    fn add(&mut self, format: &'static dyn Format, shown: &Path, real: &Path, named: bool) {
        if !self.claimed.insert(real.to_owned()) {
            return;
        }
        if let Some(found) = self.by_stream.get(real).and_then(|i| self.found.conversations.get_mut(*i)) {
            // It was found as a twin, under its real path; it is shown as it was named.
            for document in found.documents.iter_mut().filter(|d| d.real == real) {
                document.shown = shown.to_owned();
                document.named |= named;
            }
            return;
        }
        let etiquette = match around::conversation(format, real, self.places) {
            Ok(etiquette) => etiquette,
            Err(e) => return self.found.troubles.push(e),
        };
        let owner = Disk.owner(real);
        let others = |s: &&Stream| Disk.owner(&s.path).is_some_and(|uid| Some(uid) != owner);
        if let Some(other) = etiquette.streams.iter().find(others) {
            let other = other.path.display();
            let why = format!("its conversation's other copy {other} is another user's; repair it as that user");
            return self.found.troubles.push(Error::Refused { path: shown.to_owned(), why });
        }
        let documents = etiquette.streams.iter().map(|stream| Document {
            shown: if stream.path == real { shown.to_owned() } else { stream.path.clone() },
            real: if stream.path == real { real.to_owned() } else { full_path(&stream.path) },
            asides: stream.asides.clone(),
            named: named && stream.path == real,
        });
        let documents: Vec<Document> = documents.collect();
        for document in &documents {
            self.by_stream.insert(document.real.clone(), self.found.conversations.len());
        }
        self.found.conversations.push(Conversation { format, etiquette, documents });
    }
}
