//! The only reader of the environment.
#![allow(clippy::disallowed_methods, reason = "only cli reads the environment, and in cli only this module")]

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Context, Result};
use etcetera::BaseStrategy;
use unwedge::format::Places;

use super::args::When;

/// The directory of ours below each of the platform's.
const NAME: &str = "unwedge";

/// What the environment says about colour.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wishes {
    no_color: bool,
    force: bool,
    dumb: bool,
}

impl Wishes {
    /// As the variables are set.
    pub fn read() -> Self {
        let set = |name| env::var_os(name).filter(|value| !value.is_empty());
        Wishes {
            no_color: set("NO_COLOR").is_some(),
            force: set("CLICOLOR_FORCE").is_some_and(|value| value != "0"),
            dumb: set("TERM").is_some_and(|value| value == "dumb") || set("CLICOLOR").is_some_and(|value| value == "0"),
        }
    }

    /// Whether there is colour. The flag outranks the variables, and `NO_COLOR` outranks `CLICOLOR_FORCE`.
    pub fn color(self, flag: When, terminal: bool) -> bool {
        match flag {
            When::Always => true,
            When::Never => false,
            When::Auto if self.no_color => false,
            When::Auto => self.force || (terminal && !self.dumb),
        }
    }
}

/// The command line.
pub fn args() -> impl Iterator<Item = OsString> {
    env::args_os()
}

/// Where a run may look.
///
/// # Errors
/// There is no current directory.
pub fn places() -> Result<Places> {
    let platform = etcetera::base_strategy::choose_native_strategy().ok();
    Ok(Places {
        cwd: env::current_dir().context("cannot tell the current directory")?,
        home: etcetera::home_dir().ok(),
        xdg_data_home: absolute("XDG_DATA_HOME"),
        // Agents that keep data per machine use the local one of Windows' two.
        data: platform.map(|p| if cfg!(windows) { p.cache_dir() } else { p.data_dir() }),
        jp_user_data_dir: env::var_os("JP_USER_DATA_DIR").filter(|dir| !dir.is_empty()).map(PathBuf::from),
    })
}

/// The directory of backups and journal: below the platform's state directory, or its data directory where it has no such.
pub fn state_dir() -> Option<PathBuf> {
    let platform = || {
        let platform = etcetera::base_strategy::choose_native_strategy().ok()?;
        Some(platform.state_dir().unwrap_or_else(|| platform.data_dir()))
    };
    Some(absolute("XDG_STATE_HOME").or_else(platform)?.join(NAME))
}

/// The user's configuration file, which need not be there.
pub fn config_file() -> Option<PathBuf> {
    let platform = || Some(etcetera::base_strategy::choose_native_strategy().ok()?.config_dir());
    Some(absolute("XDG_CONFIG_HOME").or_else(platform)?.join(NAME).join("config.toml"))
}

/// A directory from a variable. The XDG specification has relative ones ignored.
fn absolute(name: &str) -> Option<PathBuf> {
    env::var_os(name).map(PathBuf::from).filter(|dir| dir.is_absolute())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_decides_about_colour() {
        let wishes = |no_color, force, dumb| Wishes { no_color, force, dumb };
        assert!(wishes(false, false, false).color(When::Auto, true));
        assert!(!wishes(false, false, false).color(When::Auto, false));
        assert!(!wishes(true, true, false).color(When::Auto, true));
        assert!(wishes(false, true, true).color(When::Auto, false));
        assert!(!wishes(false, false, true).color(When::Auto, true));
        assert!(wishes(true, false, true).color(When::Always, false));
        assert!(!wishes(false, true, false).color(When::Never, true));
    }
}
