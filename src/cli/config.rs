//! Which limits hold for which file: flags, the nearest `unwedge.toml`, the user's file.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use unwedge::cap::limits::{Layer, Limit, Limits, Resolved, Source, WindowLimit};
use unwedge::cap::policy::Policy;
use unwedge::error::Error;

use super::args::{Ask, LimitFlags};
use super::config_file::{self, ConfigError};

/// The file that is looked for in a repaired file's directory and above.
pub const NAME: &str = "unwedge.toml";
/// The key that stands for every tool.
const EVERY: &str = "*";

/// Limits by file.
pub struct Config {
    /// What holds for every file: flags, `--config`, the user's file.
    base: Vec<Layer>,
    /// Whether the nearest `unwedge.toml` is looked for.
    nearest: bool,
    /// The policy, where one was asked for.
    policy: Option<&'static Policy>,
    /// The window, where one was asked for.
    window: Option<WindowLimit>,
    /// What is known of directories. Files of one directory share their limits, and agents keep many files in one.
    known: Mutex<HashMap<PathBuf, Nearest>>,
}

/// The nearest file to a directory, and what it says.
type Nearest = Result<Option<Arc<Project>>, ConfigError>;

/// A project's configuration.
#[derive(Debug, PartialEq, Eq)]
struct Project {
    path: PathBuf,
    layer: Layer,
}

/// The limits that a report names.
#[derive(Debug)]
pub struct InForce {
    /// `size_threshold` of every tool that has none of its own.
    pub threshold: Resolved<Limit>,
    /// `batch_ceiling`.
    pub ceiling: Resolved<Limit>,
    /// Tools that have a `size_threshold` of their own.
    pub tools: BTreeMap<String, Resolved<Limit>>,
    /// The `unwedge.toml`s that were used, sorted. Where there are several, what they say is not among these limits: each
    /// finding names its own.
    pub files: Vec<PathBuf>,
}

impl Config {
    /// From flags, and files where they allow it. `user`: the user's file.
    ///
    /// # Errors
    /// A file that cannot be used, or a `--config` that is not there.
    pub fn new(flags: &LimitFlags, user: Option<&Path>) -> Result<Self, ConfigError> {
        let mut base = from_flags(flags);
        if let Some(user) = user.filter(|_| !flags.isolated) {
            base.extend(config_file::read(user, Source::User)?);
        }
        if let Some(path) = &flags.config {
            let absent = || ConfigError { path: path.clone(), line: None, what: "there is no such file".into() };
            base.push(config_file::read(path, Source::Project)?.ok_or_else(absent)?);
        }
        let policy = flags.policy.as_deref().and_then(Policy::named);
        let nearest = !flags.isolated && flags.config.is_none();
        Ok(Config { base, nearest, policy, window: window(flags), known: Mutex::default() })
    }

    /// The limits of a file, without those of its conversation.
    ///
    /// # Errors
    /// The nearest `unwedge.toml` cannot be used.
    pub fn limits(&self, file: &Path) -> Result<Limits, Error> {
        let project = self.project(file).map_err(|e| {
            let line = e.line.map(|n| format!("line {n}: ")).unwrap_or_default();
            Error::Refused { path: e.path, why: format!("{line}{}; {} was left alone", e.what, file.display()) }
        })?;
        let limits = Limits::new(self.base.iter().cloned().chain(project.map(|p| p.layer.clone())).collect());
        let limits = limits.within(self.window);
        Ok(match self.policy {
            Some(policy) => limits.under(policy),
            None => limits,
        })
    }

    /// What a report says was in force: once all files are done.
    pub fn in_force(&self) -> InForce {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let used: BTreeMap<&Path, Arc<Project>> =
            known.values().flatten().flatten().map(|p| (&*p.path, Arc::clone(p))).collect();
        let common = used.values().next().filter(|_| used.len() == 1).map(|p| p.layer.clone());
        let layers: Vec<Layer> = self.base.iter().cloned().chain(common).collect();
        let names: BTreeSet<String> =
            layers.iter().flat_map(|l| l.thresholds.keys()).filter(|name| *name != EVERY).cloned().collect();
        let limits = Limits::new(layers);
        InForce {
            threshold: limits.threshold(None),
            ceiling: limits.ceiling(),
            tools: names.into_iter().map(|name| (name.clone(), limits.threshold(Some(&name)))).collect(),
            files: used.into_keys().map(Path::to_owned).collect(),
        }
    }

    fn project(&self, file: &Path) -> Nearest {
        if !self.nearest {
            return Ok(None);
        }
        let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
        file.parent().map_or(Ok(None), |dir| self.nearest(dir))
    }

    fn nearest(&self, dir: &Path) -> Nearest {
        let known = |dir: &Path| self.known.lock().unwrap_or_else(PoisonError::into_inner).get(dir).cloned();
        if let Some(known) = known(dir) {
            return known;
        }
        let path = dir.join(NAME);
        let nearest = match config_file::read_found(&path) {
            Ok(Some(layer)) => Ok(Some(Arc::new(Project { path, layer }))),
            Ok(None) => dir.parent().map_or(Ok(None), |above| self.nearest(above)),
            Err(e) => Err(e),
        };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        // Where two threads came here together, both files' limits are those of the first.
        known.entry(dir.to_owned()).or_insert(nearest).clone()
    }
}

fn window(flags: &LimitFlags) -> Option<WindowLimit> {
    let tokens = match flags.window? {
        Ask::Auto => None,
        Ask::Tokens(tokens) => Some(tokens),
    };
    Some(WindowLimit { tokens, reserve: flags.reserve, keep_last: flags.keep_last })
}

fn from_flags(flags: &LimitFlags) -> Vec<Layer> {
    let mut tools = Layer::new(Source::ToolFlag);
    tools.thresholds.extend(flags.tools.iter().cloned());
    let mut size = Layer::new(Source::SizeFlag);
    size.thresholds.extend(flags.size_threshold.map(|limit| (EVERY.to_owned(), limit)));
    let mut ceiling = Layer::new(Source::CeilingFlag);
    ceiling.ceiling = flags.batch_ceiling;
    let mut keep = Layer::new(Source::KeepFlag);
    keep.keeps.extend(flags.keep.map(|end| (EVERY.to_owned(), end.into())));
    let mut unit = Layer::new(Source::UnitFlag);
    unit.units.extend(flags.unit.map(|unit| (EVERY.to_owned(), unit.into())));
    vec![tools, size, ceiling, keep, unit]
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests set up files")]
mod tests {
    use super::*;
    use std::fs;

    fn threshold(config: &Config, file: &Path) -> (Limit, Source) {
        let limit = config.limits(file).unwrap().threshold(None);
        (limit.value, limit.source)
    }

    #[test]
    fn the_nearest_file_holds() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::write(root.join(NAME), "[tools.'*']\nsize_threshold = 1000\n[tools.shell]\nsize_threshold = 2000\n")
            .unwrap();
        fs::write(root.join("a").join(NAME), "[tools.'*']\nsize_threshold = 3000\n").unwrap();
        let user = root.join("user.toml");
        fs::write(&user, "batch_ceiling = 5000\n[tools.'*']\nsize_threshold = 4000\n").unwrap();
        let flags = LimitFlags::default();

        let config = Config::new(&flags, Some(&user)).unwrap();
        assert_eq!(threshold(&config, &root.join("a/b/f")), (Limit::Bytes(3000), Source::Project));
        assert_eq!(config.in_force().files, [root.join("a").join(NAME)]);
        assert_eq!(config.in_force().threshold.value, Limit::Bytes(3000));
        assert_eq!(threshold(&config, &root.join("f")), (Limit::Bytes(1000), Source::Project));
        let shell = config.limits(&root.join("a/f")).unwrap().threshold(Some("shell"));
        assert_eq!(shell.value, Limit::Bytes(3000), "files are not merged: the nearest one holds");
        let in_force = config.in_force();
        assert_eq!((in_force.files.len(), in_force.threshold.value), (2, Limit::Bytes(4000)));
        assert_eq!((in_force.ceiling.value, in_force.ceiling.source), (Limit::Bytes(5000), Source::User));

        let one = LimitFlags { config: Some(root.join(NAME)), ..flags.clone() };
        let config = Config::new(&one, Some(&user)).unwrap();
        assert_eq!(threshold(&config, &root.join("a/b/f")), (Limit::Bytes(1000), Source::Project));
        assert_eq!(config.in_force().tools.keys().collect::<Vec<_>>(), ["shell"]);

        let isolated = LimitFlags { isolated: true, size_threshold: Some(Limit::Bytes(99)), ..flags };
        let config = Config::new(&isolated, Some(&user)).unwrap();
        assert_eq!(threshold(&config, &root.join("a/b/f")), (Limit::Bytes(99), Source::SizeFlag));
        assert_eq!(config.in_force().ceiling.source, Source::Default);
    }

    #[test]
    fn a_broken_file_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(NAME);
        fs::write(&path, "\nnonsense = 1").unwrap();
        let config = Config::new(&LimitFlags::default(), None).unwrap();
        let said = config.limits(&dir.path().join("events.json")).unwrap_err().to_string();
        assert!(said.starts_with(path.to_str().unwrap()) && said.contains("line 2: unknown key `nonsense`"), "{said}");
        assert!(said.contains("events.json was left alone"), "{said}");
        let said = Config::new(&LimitFlags::default(), Some(&path)).err().unwrap().to_string();
        assert!(said.contains(":2: unknown key `nonsense`"), "{said}");
        let flags = LimitFlags { config: Some(dir.path().join("none")), ..LimitFlags::default() };
        assert!(Config::new(&flags, None).err().unwrap().to_string().contains("no such file"));
    }

    #[test]
    fn flags() {
        let flags = LimitFlags {
            tools: vec![
                ("*".into(), Limit::Bytes(70)),
                ("shell".into(), Limit::Bytes(80)),
                ("shell".into(), Limit::Bytes(90)),
            ],
            size_threshold: Some(Limit::Bytes(100)),
            batch_ceiling: Some(Limit::Unlimited),
            ..LimitFlags::default()
        };
        let in_force = Config::new(&flags, None).unwrap().in_force();
        assert_eq!((in_force.threshold.value, in_force.threshold.source), (Limit::Bytes(70), Source::ToolFlag));
        assert_eq!(in_force.tools["shell"].value, Limit::Bytes(90), "the last one counts");
        assert_eq!((in_force.ceiling.value, in_force.ceiling.source), (Limit::Unlimited, Source::CeilingFlag));
    }
}
