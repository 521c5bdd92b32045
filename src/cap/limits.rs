//! Limits, and where each came from.
//!
//! It knows the order of the sources and nothing of how each is read: files and flags arrive as [`Layer`]s.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::policy::Policy;
use super::size::ByteSize;

/// The key that stands for every tool.
const EVERY: &str = "*";

/// The least limit in bytes: less could not hold the marker.
pub const LEAST: u64 = 64;
/// The default `size_threshold` in bytes.
pub const DEFAULT_THRESHOLD: u64 = 256 * 1024;
/// The default `batch_ceiling` in bytes.
pub const DEFAULT_CEILING: u64 = 2 * 1024 * 1024;
/// What an uncuttable part (an image) is charged to its response, in bytes.
pub const OPAQUE_CHARGE: u64 = 4800;

/// A limit in decoded bytes, at least [`LEAST`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// At most this many bytes.
    Bytes(u64),
    /// No limit.
    Unlimited,
}

/// A value that is no limit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LimitError {
    /// Not a size at all.
    #[error(
        "not a limit: {0:?}; accepted are `unlimited`, a whole number of bytes, or a number with B, K, KB, KiB, M, MB, MiB, G, GB or GiB"
    )]
    Unreadable(String),
    /// Below the least limit.
    #[error("{0} is below the least limit of 64 bytes: it could not hold the marker")]
    TooSmall(String),
}

impl Limit {
    /// From a number in a configuration file.
    pub fn from_bytes(n: u64) -> Result<Self, LimitError> {
        Limit::at_least(n, || n.to_string())
    }
    fn at_least(n: u64, shown: impl FnOnce() -> String) -> Result<Self, LimitError> {
        if n < LEAST { Err(LimitError::TooSmall(shown())) } else { Ok(Limit::Bytes(n)) }
    }
    /// The bytes, or `None` for unlimited.
    #[must_use]
    pub fn bytes(self) -> Option<u64> {
        match self {
            Limit::Bytes(n) => Some(n),
            Limit::Unlimited => None,
        }
    }
    /// Canonical text: `256KB`, `unlimited`.
    #[must_use]
    pub fn canonical(self) -> String {
        match self {
            Limit::Bytes(n) => ByteSize(n).canonical(),
            Limit::Unlimited => "unlimited".to_owned(),
        }
    }
}

impl std::str::FromStr for Limit {
    type Err = LimitError;
    /// Reads a size, or `unlimited` in any case.
    fn from_str(s: &str) -> Result<Self, LimitError> {
        if s.trim_matches([' ', '\t']).eq_ignore_ascii_case("unlimited") {
            return Ok(Limit::Unlimited);
        }
        let ByteSize(n) = s.parse().map_err(|_| LimitError::Unreadable(s.to_owned()))?;
        Limit::at_least(n, || s.to_owned())
    }
}

/// Which end of a text a cut keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum Keep {
    /// The head, as RFD D24 does.
    #[default]
    Head,
    /// The tail.
    Tail,
    /// Two thirds head, one third tail.
    Both,
}

/// In what a text is cut: the pieces that are kept or go whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum Unit {
    /// Characters, as RFD D24 does.
    #[default]
    Bytes,
    /// What suits the text, by its looks.
    Auto,
    /// Whole lines.
    Lines,
    /// JSON that stays JSON: its largest strings and arrays become shorter.
    Json,
    /// A diff's whole file sections.
    Diff,
}

/// Where a value came from. Its text is what reports print as `limit_source`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// `--tool NAME=SIZE`.
    ToolFlag,
    /// `--size-threshold SIZE`.
    SizeFlag,
    /// `--batch-ceiling SIZE`.
    CeilingFlag,
    /// `--keep`.
    KeepFlag,
    /// `--unit`.
    UnitFlag,
    /// The nearest `unwedge.toml`.
    Project,
    /// The conversation's own configuration.
    Conversation,
    /// The user's configuration file.
    User,
    /// `--window`.
    WindowFlag,
    /// `--policy`.
    PolicyFlag,
    /// Nothing said otherwise.
    Default,
}

impl Source {
    /// What reports print as `limit_source`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Source::ToolFlag => "--tool",
            Source::SizeFlag => "--size-threshold",
            Source::CeilingFlag => "--batch-ceiling",
            Source::KeepFlag => "--keep",
            Source::UnitFlag => "--unit",
            Source::Project => "unwedge.toml",
            Source::Conversation => "conversation",
            Source::User => "user config",
            Source::WindowFlag => "--window",
            Source::PolicyFlag => "--policy",
            Source::Default => "default",
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What one source says. Keys of the maps are tool names, or `*` for every tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layer {
    /// The source.
    pub source: Source,
    /// `size_threshold` by tool.
    pub thresholds: BTreeMap<String, Limit>,
    /// `keep` by tool.
    pub keeps: BTreeMap<String, Keep>,
    /// `unit` by tool.
    pub units: BTreeMap<String, Unit>,
    /// `batch_ceiling`.
    pub ceiling: Option<Limit>,
}

impl Layer {
    /// A source that says nothing yet.
    #[must_use]
    pub fn new(source: Source) -> Self {
        Layer { source, thresholds: BTreeMap::new(), keeps: BTreeMap::new(), units: BTreeMap::new(), ceiling: None }
    }
}

/// A resolved value, the source it came from and the key (`*` or the tool's name) it stood under.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved<T> {
    /// The value.
    pub value: T,
    /// Its source.
    pub source: Source,
    /// Its key: the tool's name, or `*`.
    pub key: String,
}

/// All limits in force, as layers. Kept sorted: the strongest source first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Limits {
    layers: Vec<Layer>,
    policy: Option<&'static Policy>,
    window: Option<WindowLimit>,
    agent: &'static str,
}

/// The third limit: what the live conversation must fit into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowLimit {
    /// The model's context window in tokens; `None`: that of the model that the stream names.
    pub tokens: Option<u64>,
    /// Tokens of it that are kept free.
    pub reserve: u64,
    /// How many turns at the end are cut last.
    pub keep_last: u64,
}

impl Limits {
    /// From layers in any order: they are sorted by the order of [`Source`].
    #[must_use]
    pub fn new(mut layers: Vec<Layer>) -> Self {
        layers.sort_by_key(|l| l.source);
        Limits { layers, ..Limits::default() }
    }
    /// These limits with a policy: it says which end is kept where nothing else does, and may hold a response to a share of the
    /// window.
    #[must_use]
    pub fn under(self, policy: &'static Policy) -> Self {
        Limits { policy: Some(policy), ..self }
    }
    /// These limits and a window.
    #[must_use]
    pub fn within(self, window: Option<WindowLimit>) -> Self {
        Limits { window, ..self }
    }
    /// These limits for the conversations of one agent, by its format's name.
    #[must_use]
    pub fn of_agent(&self, agent: &'static str) -> Self {
        Limits { agent, ..self.clone() }
    }
    /// The window, where there is one.
    #[must_use]
    pub fn window(&self) -> Option<WindowLimit> {
        self.window
    }
    /// The policy in force.
    #[must_use]
    pub fn policy(&self) -> &'static Policy {
        self.policy.unwrap_or(Policy::D24)
    }
    /// These limits once the window of the conversation is known: the policy may hold a response to a share of it. That is no
    /// more than what is the limit without a policy.
    #[must_use]
    pub fn knowing(&self, window: Option<u64>) -> Self {
        let Some(share) = self.policy().most else { return self.clone() };
        let mut layer = Layer::new(Source::PolicyFlag);
        layer.thresholds.insert(EVERY.to_owned(), Limit::Bytes(share.bytes(window).min(DEFAULT_THRESHOLD)));
        self.with(layer)
    }
    /// These limits with one more layer, in its place.
    #[must_use]
    pub fn with(&self, layer: Layer) -> Self {
        let mut layers = self.layers.clone();
        layers.push(layer);
        Limits { layers: Limits::new(layers).layers, ..self.clone() }
    }
    /// The `size_threshold` of a tool; a response whose tool is not known has only `*`.
    #[must_use]
    pub fn threshold(&self, tool: Option<&str>) -> Resolved<Limit> {
        self.resolve(tool, |layer| &layer.thresholds, Limit::Bytes(DEFAULT_THRESHOLD))
    }
    /// Which end a cut of this tool's responses keeps.
    #[must_use]
    pub fn keep(&self, tool: Option<&str>) -> Resolved<Keep> {
        self.resolve(tool, |layer| &layer.keeps, Keep::default())
    }
    /// Which end a cut of one response keeps: as it is said for its tool, else by the policy, which may know the tool and
    /// whether it said that it failed.
    #[must_use]
    pub fn keep_of(&self, tool: Option<&str>, failed: bool) -> Keep {
        let said = self.keep(tool);
        if said.source == Source::Default { self.policy().keep(self.agent, tool, failed) } else { said.value }
    }
    /// In what unit responses of this tool are cut.
    #[must_use]
    pub fn unit(&self, tool: Option<&str>) -> Resolved<Unit> {
        self.resolve(tool, |layer| &layer.units, Unit::default())
    }
    /// The `batch_ceiling`. Its key is always `*`.
    #[must_use]
    pub fn ceiling(&self) -> Resolved<Limit> {
        let said = self.layers.iter().find_map(|layer| Some((layer.ceiling?, layer.source)));
        let (value, source) = said.unwrap_or((Limit::Bytes(DEFAULT_CEILING), Source::Default));
        Resolved { value, source, key: EVERY.to_owned() }
    }
    /// The smallest limit any tool or batch could have, in bytes: what is no larger cannot be over. `None` where nothing is
    /// limited.
    #[must_use]
    pub fn smallest(&self) -> Option<u64> {
        // Only what a name resolves to counts: a weaker source's value for it holds nothing.
        let named: BTreeSet<&str> =
            self.layers.iter().flat_map(|layer| layer.thresholds.keys().map(String::as_str)).collect();
        let thresholds = named.into_iter().map(Some).chain([None]).map(|tool| self.threshold(tool).value);
        let shares = self.policy().most.map(|share| Limit::Bytes(share.least));
        thresholds.chain([self.ceiling().value]).chain(shares).filter_map(Limit::bytes).min()
    }
    /// A named tool in any source comes before `*` in every source.
    fn resolve<T: Copy>(
        &self,
        tool: Option<&str>,
        values: impl Fn(&Layer) -> &BTreeMap<String, T>,
        default: T,
    ) -> Resolved<T> {
        for key in tool.into_iter().chain([EVERY]) {
            for layer in &self.layers {
                if let Some(value) = values(layer).get(key) {
                    return Resolved { value: *value, source: layer.source, key: key.to_owned() };
                }
            }
        }
        Resolved { value: default, source: Source::Default, key: EVERY.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(source: Source, thresholds: &[(&str, Limit)]) -> Layer {
        let mut layer = Layer::new(source);
        layer.thresholds = thresholds.iter().map(|(name, limit)| ((*name).to_owned(), *limit)).collect();
        layer
    }

    #[test]
    fn the_smallest_counts_what_holds_and_nothing_else() {
        let limits = Limits::default();
        assert_eq!(limits.smallest(), Some(DEFAULT_THRESHOLD));

        let limits = limits.with(layer(Source::User, &[("bash", Limit::Bytes(100)), ("grep", Limit::Bytes(200))]));
        assert_eq!(limits.smallest(), Some(100));
        let limits = limits.with(layer(Source::ToolFlag, &[("bash", Limit::Unlimited)]));
        assert_eq!(limits.smallest(), Some(200), "the flag lifts what the file says of bash");

        let mut free = layer(Source::SizeFlag, &[(EVERY, Limit::Unlimited)]);
        assert_eq!(Limits::new(vec![free.clone()]).smallest(), Some(DEFAULT_CEILING));
        free.ceiling = Some(Limit::Unlimited);
        assert_eq!(Limits::new(vec![free]).smallest(), None);
    }

    #[test]
    fn keep_and_ceiling_are_resolved_like_thresholds() {
        let mut user = Layer::new(Source::User);
        user.keeps.insert("bash".to_owned(), Keep::Tail);
        user.ceiling = Some(Limit::Bytes(100));
        let mut flag = Layer::new(Source::KeepFlag);
        flag.keeps.insert(EVERY.to_owned(), Keep::Both);
        let limits = Limits::new(vec![user, flag]);
        let keep = limits.keep(Some("bash"));
        assert_eq!((keep.value, keep.source, keep.key.as_str()), (Keep::Tail, Source::User, "bash"));
        assert_eq!(limits.keep(None).value, Keep::Both);
        assert_eq!(Limits::default().keep(Some("bash")).source, Source::Default);
        assert_eq!((limits.ceiling().value, limits.ceiling().source), (Limit::Bytes(100), Source::User));
        assert_eq!(Limits::default().ceiling().value, Limit::Bytes(DEFAULT_CEILING));
    }

    #[test]
    fn a_limit_that_could_not_hold_the_marker_is_refused() {
        assert_eq!(Limit::from_bytes(64), Ok(Limit::Bytes(64)));
        assert_eq!(Limit::from_bytes(63), Err(LimitError::TooSmall("63".to_owned())));
        assert_eq!("0.05KB".parse::<Limit>(), Err(LimitError::TooSmall("0.05KB".to_owned())));
        assert_eq!(Limit::Unlimited.canonical().parse(), Ok(Limit::Unlimited));
    }
}
