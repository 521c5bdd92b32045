//! One configuration file: `unwedge.toml`, or the user's own.
//!
//! It is read strictly. A misspelt key that is passed over would leave a conversation wedged, and nobody would know why.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use unwedge::cap::limits::{Keep, Layer, Limit, Source, Unit};

/// Why a configuration file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{}: {what}", super::escape::Shown::path(path), line.map(|n| format!(":{n}")).unwrap_or_default())]
pub struct ConfigError {
    /// The file.
    pub path: PathBuf,
    /// The line, from 1, where it is about one.
    pub line: Option<usize>,
    /// What is wrong, on one line and safe to show.
    pub what: String,
}

/// Reads a file. `None`: there is none.
///
/// # Errors
/// It cannot be read, or says something that is not understood.
pub fn read(path: &Path, source: Source) -> Result<Option<Layer>, ConfigError> {
    understood(path, source, bytes(path, false))
}

/// The same, of a project's file that nobody named: it was found beside a conversation, and may be a trap.
///
/// # Errors
/// See [`read`].
pub fn read_found(path: &Path) -> Result<Option<Layer>, ConfigError> {
    understood(path, Source::Project, bytes(path, true))
}

fn understood(path: &Path, source: Source, bytes: std::io::Result<Vec<u8>>) -> Result<Option<Layer>, ConfigError> {
    let fault = |what: String| ConfigError { path: path.to_owned(), line: None, what };
    match bytes {
        Ok(bytes) => {
            let text = String::from_utf8(bytes).map_err(|_| fault("the file is not UTF-8".into()))?;
            parse(&text, source)
                .map(Some)
                .map_err(|(at, what)| ConfigError { line: at.map(|at| line_of(&text, at)), ..fault(what) })
        }
        Err(e) if matches!(e.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) => Ok(None),
        Err(e) => Err(fault(format!("cannot read the configuration: {e}"))),
    }
}

/// More than anybody writes by hand.
const MOST: u64 = 16 << 20;

/// What was found may be a pipe that nobody writes to, or a device without end. What was named may be a pipe.
fn bytes(path: &Path, found: bool) -> std::io::Result<Vec<u8>> {
    let mut options = File::options();
    #[cfg(unix)]
    if found {
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK);
    }
    let file = options.read(true).open(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_dir() || (found && !kind.is_file()) {
        return Err(std::io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(MOST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST {
        return Err(std::io::Error::other("it is larger than a configuration is"));
    }
    Ok(bytes)
}

/// Where in the text (a byte offset), and what.
type Fault = (Option<usize>, String);

fn parse(text: &str, source: Source) -> Result<Layer, Fault> {
    // A byte order mark is what some editors begin a file with.
    let skipped = text.len() - text.trim_start_matches('\u{feff}').len();
    let body = text.get(skipped..).unwrap_or_default();
    let root = DeTable::parse(body).map_err(|e| (e.span().map(|s| s.start + skipped), shown(e.message())))?;
    let mut layer = Layer::new(source);
    let read = Reader { skipped };
    for (key, value) in root.get_ref() {
        match &**key.get_ref() {
            "batch_ceiling" => layer.ceiling = Some(read.limit("batch_ceiling", value)?),
            "tools" => {
                for (tool, settings) in read.table("tools", value)? {
                    read.tool(tool.get_ref(), settings, &mut layer)?;
                }
            }
            other => {
                return Err(
                    read.fault(key, format!("unknown key `{}`; known are batch_ceiling and tools", shown(other)))
                );
            }
        }
    }
    Ok(layer)
}

struct Reader {
    /// Bytes before the text that was parsed.
    skipped: usize,
}

impl Reader {
    fn tool(&self, tool: &str, settings: &Spanned<DeValue<'_>>, layer: &mut Layer) -> Result<(), Fault> {
        let name = format!("tools.{}", quoted(tool));
        for (key, value) in self.table(&name, settings)? {
            match &**key.get_ref() {
                "size_threshold" => {
                    let limit = self.limit(&format!("{name}.size_threshold"), value)?;
                    layer.thresholds.insert(tool.to_owned(), limit);
                }
                "keep" => {
                    let keep = self.keep(&format!("{name}.keep"), value)?;
                    layer.keeps.insert(tool.to_owned(), keep);
                }
                "unit" => {
                    let unit = self.unit(&format!("{name}.unit"), value)?;
                    layer.units.insert(tool.to_owned(), unit);
                }
                other => {
                    let what =
                        format!("unknown key `{name}.{}`; known are size_threshold, keep and unit", shown(other));
                    return Err(self.fault(key, what));
                }
            }
        }
        Ok(())
    }

    fn table<'t, 'i>(&self, name: &str, value: &'t Spanned<DeValue<'i>>) -> Result<&'t DeTable<'i>, Fault> {
        let is = value.get_ref().type_str();
        value
            .get_ref()
            .as_table()
            .ok_or_else(|| self.fault(value, format!("`{name}` must be a table, not a value of type {is}")))
    }

    fn limit(&self, name: &str, value: &Spanned<DeValue<'_>>) -> Result<Limit, Fault> {
        let fault = |what: String| self.fault(value, format!("`{name}`: {what}"));
        match value.get_ref() {
            DeValue::String(text) => text.parse::<Limit>().map_err(|e| fault(shown(&e.to_string()))),
            DeValue::Integer(n) => match u64::from_str_radix(n.as_str().trim_start_matches('+'), n.radix()) {
                Ok(n) => Limit::from_bytes(n).map_err(|e| fault(e.to_string())),
                Err(_) => Err(fault(format!("{} is not a number of bytes, from 64 to {}", n.as_str(), u64::MAX))),
            },
            other => Err(fault(format!(
                "a size is a string or a non-negative integer, not a value of type {}",
                other.type_str()
            ))),
        }
    }

    fn keep(&self, name: &str, value: &Spanned<DeValue<'_>>) -> Result<Keep, Fault> {
        match value.get_ref().as_str() {
            Some("head") => Ok(Keep::Head),
            Some("tail") => Ok(Keep::Tail),
            Some("both") => Ok(Keep::Both),
            _ => Err(self.fault(value, format!("`{name}` must be \"head\", \"tail\" or \"both\""))),
        }
    }

    fn unit(&self, name: &str, value: &Spanned<DeValue<'_>>) -> Result<Unit, Fault> {
        match value.get_ref().as_str() {
            Some("auto") => Ok(Unit::Auto),
            Some("bytes") => Ok(Unit::Bytes),
            Some("lines") => Ok(Unit::Lines),
            Some("json") => Ok(Unit::Json),
            Some("diff") => Ok(Unit::Diff),
            _ => {
                Err(self.fault(value, format!("`{name}` must be \"auto\", \"bytes\", \"lines\", \"json\" or \"diff\"")))
            }
        }
    }

    fn fault<T>(&self, at: &Spanned<T>, what: String) -> Fault {
        (Some(at.span().start + self.skipped), what)
    }
}

/// A key as it is written in a file.
fn quoted(key: &str) -> String {
    let bare = !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
    if bare { key.to_owned() } else { format!("'{}'", shown(key)) }
}

fn shown(text: &str) -> String {
    super::escape::Shown::line(text).to_string()
}

fn line_of(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|b| *b == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn fault(text: &str, line: usize, what: &str) {
        let (at, said) = parse(text, Source::Project).unwrap_err();
        assert_eq!((at.map(|at| line_of(text, at)), &*said), (Some(line), what), "{text}");
    }

    #[test]
    fn everything_there_is_to_say() {
        let layer = parse(
            "\u{feff}batch_ceiling = 'unlimited'\r\n[tools.'*']\nsize_threshold = '1.5MB'\nkeep = 'tail'\n[tools.shell]\nsize_threshold = 1_024\n[tools.\"a.b\"]\nsize_threshold = 0x1000\nkeep = 'both'\nunit = 'lines'\n[tools.empty]\n",
            Source::User,
        )
        .unwrap();
        assert_eq!(layer.source, Source::User);
        assert_eq!(layer.ceiling, Some(Limit::Unlimited));
        let thresholds = [("*", 1_572_864), ("a.b", 4096), ("shell", 1024)];
        assert_eq!(
            layer.thresholds.into_iter().collect::<Vec<_>>(),
            thresholds.map(|(name, n)| (name.to_owned(), Limit::Bytes(n)))
        );
        assert_eq!(
            layer.keeps.into_iter().collect::<Vec<_>>(),
            [("*".to_owned(), Keep::Tail), ("a.b".to_owned(), Keep::Both)]
        );
        assert_eq!(layer.units.into_iter().collect::<Vec<_>>(), [("a.b".to_owned(), Unit::Lines)]);
        assert_eq!(parse("", Source::Project).unwrap(), Layer::new(Source::Project));
    }

    #[test]
    fn what_is_not_understood_is_named_with_its_line() {
        fault("\nbatch_cieling = 1", 2, "unknown key `batch_cieling`; known are batch_ceiling and tools");
        fault(
            "[tools.shell]\nlimit = 1",
            2,
            "unknown key `tools.shell.limit`; known are size_threshold, keep and unit",
        );
        fault("[tools.'*']\n\nx = 1", 3, "unknown key `tools.'*'.x`; known are size_threshold, keep and unit");
        fault("tools = 1", 1, "`tools` must be a table, not a value of type integer");
        fault("[tools]\nshell = '1MB'", 2, "`tools.shell` must be a table, not a value of type string");
        fault("batch_ceiling = -1", 1, "`batch_ceiling`: -1 is not a number of bytes, from 64 to 18446744073709551615");
        fault(
            "batch_ceiling = 1.5",
            1,
            "`batch_ceiling`: a size is a string or a non-negative integer, not a value of type float",
        );
        fault(
            "batch_ceiling = 63",
            1,
            "`batch_ceiling`: 63 is below the least limit of 64 bytes: it could not hold the marker",
        );
        fault("[tools.a]\nkeep = 'middle'", 2, "`tools.a.keep` must be \"head\", \"tail\" or \"both\"");
        fault(
            "[tools.a]\nunit = 'words'",
            2,
            "`tools.a.unit` must be \"auto\", \"bytes\", \"lines\", \"json\" or \"diff\"",
        );
        fault("[tools.a]\nkeep = 1", 2, "`tools.a.keep` must be \"head\", \"tail\" or \"both\"");
        let (_, said) = parse("batch_ceiling = '1TB'", Source::Project).unwrap_err();
        assert!(said.starts_with("`batch_ceiling`: not a limit: \"1TB\""), "{said}");
        let (at, said) = parse("a = 1\nb = = 2", Source::Project).unwrap_err();
        assert!(at.is_some_and(|at| at >= 6) && !said.is_empty() && !said.contains('\n'), "{said}");
    }

    #[test]
    fn files() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read(&dir.path().join("none"), Source::User), Ok(None));
        let e = read(dir.path(), Source::User).unwrap_err();
        assert!(e.to_string().contains("cannot read the configuration"), "{e}");
    }
}
