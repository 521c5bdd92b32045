//! What the program says without looking at a conversation: usage, help, completions, the manual.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that fails says so by panicking")]
#![allow(clippy::disallowed_methods, reason = "tests set up files")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Output, Stdio};

use assert_cmd::Command;

/// An empty home and an empty work tree.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("tree")).unwrap();
        Place(dir)
    }

    fn put(&self, name: &str, text: &str) {
        fs::write(self.0.path().join("tree").join(name), text).unwrap();
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::cargo_bin("unwedge").unwrap();
        command.args(args).current_dir(self.0.path().join("tree")).env("HOME", self.0.path());
        for name in
            ["XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "JP_USER_DATA_DIR", "NO_COLOR", "CLICOLOR_FORCE"]
        {
            command.env_remove(name);
        }
        command
    }

    /// Standard output and standard error of a run with this status.
    #[track_caller]
    fn expect(&self, status: i32, args: &[&str]) -> (String, String) {
        let Output { status: ended, stdout, stderr } = self.command(args).output().unwrap();
        let (out, err) = (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap());
        assert_eq!(ended.code(), Some(status), "unwedge {}\n{out}\n{err}", args.join(" "));
        (out, err)
    }
}

#[track_caller]
fn usage_error(args: &[&str], says: &str) {
    let (out, err) = Place::new().expect(2, args);
    assert!(out.is_empty() && err.contains(says), "unwedge {}\n{out}\n{err}", args.join(" "));
}

#[test]
fn usage_errors() {
    usage_error(&["fix"], "--all");
    usage_error(&["fix", "-n"], "--all");
    usage_error(&["--size-threshold", "1TB"], "\"1TB\"");
    usage_error(&["--size-threshold", "10"], "64 bytes");
    usage_error(&["--tool", "shell"], "\"shell\"");
    usage_error(&["fix", "--min-idle", "soon", "."], "\"soon\"");
    usage_error(&["--live-only", "fix", "."], "unwedge fix --live-only");
    usage_error(&["--nonsense"], "--nonsense");
    usage_error(&["--format", "nonsense"], "jp");
    usage_error(&["undo"], "there is no run to undo");
    usage_error(&["undo", "nonsense"], "nonsense");
    usage_error(&["undo", "./nonsense"], "./nonsense");
    usage_error(&["show", "nonsense-1"], "nonsense-1");
    usage_error(&["backups", "prune"], "--older-than");
    usage_error(&["--files-from", "none"], "none");
    usage_error(&["--config", "none.toml"], "none.toml");
}

#[test]
fn what_was_typed_is_escaped_too() {
    let (_, err) = Place::new().expect(2, &["--size-threshold", "\u{1b}[31m\u{202e}"]);
    assert!(!err.contains(['\u{1b}', '\u{202e}']), "{err:?}");
}

#[test]
fn help_and_version() {
    let place = Place::new();
    let (out, _) = place.expect(0, &["--help"]);
    for text in ["Exit status:", "130", "unwedge.toml", "--size-threshold", "fix", "unwedge fix -n ."] {
        assert!(out.contains(text), "{text}");
    }
    for command in ["check", "fix", "undo", "show", "backups", "formats", "completions", "man"] {
        let (long, _) = place.expect(0, &[command, "--help"]);
        let (short, _) = place.expect(0, &[command, "-h"]);
        assert!(long.contains("Usage: unwedge") && short.contains("Usage: unwedge"), "{command}");
    }
    let (out, _) = place.expect(0, &["--version"]);
    assert_eq!(out, format!("unwedge {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn completions_for_every_shell() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let (out, _) = Place::new().expect(0, &["completions", shell]);
        assert!(out.contains("size-threshold") && out.contains("exit-non-zero-on-fix"), "{shell}");
    }
}

fn pages(dir: &Path) -> BTreeMap<String, String> {
    let entries = fs::read_dir(dir).unwrap().map(Result::unwrap);
    entries.map(|e| (e.file_name().into_string().unwrap(), fs::read_to_string(e.path()).unwrap())).collect()
}

#[test]
fn the_manual_is_the_one_that_is_checked_in() {
    let place = Place::new();
    fs::create_dir(place.0.path().join("tree/man")).unwrap();
    place.expect(0, &["man", "man"]);
    let made = pages(&place.0.path().join("tree/man"));
    let kept = pages(&Path::new(env!("CARGO_MANIFEST_DIR")).join("man"));
    assert_eq!(made.keys().collect::<Vec<_>>(), kept.keys().collect::<Vec<_>>());
    for (name, page) in &made {
        assert!(*page == kept[name], "man/{name} is old: run `unwedge man man`");
    }
    assert!(made.contains_key("unwedge-fix.1") && made.contains_key("unwedge-backups-prune.1"));
    assert_eq!(place.expect(0, &["man"]).0, made["unwedge.1"]);
}

#[test]
fn formats() {
    let place = Place::new();
    let (text, _) = place.expect(0, &["formats"]);
    let (json, _) = place.expect(0, &["formats", "--output-format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let names: Vec<&str> = json["formats"].as_array().unwrap().iter().map(|f| f["name"].as_str().unwrap()).collect();
    let expected: Vec<&str> = unwedge::format::FORMATS.iter().map(|f| f.about().name).collect();
    assert_eq!(names, expected);
    assert!(names.iter().all(|name| text.contains(&format!("{name}: "))));
}

#[test]
fn nothing_anywhere_is_no_trouble() {
    let place = Place::new();
    let (out, err) = place.expect(0, &[]);
    assert_eq!((&*out, &*err), ("checked 0 responses in 0 documents: nothing over a limit\n", ""));
    assert_eq!(place.expect(0, &["fix", "--all"]).0, out);
    place.put("list", "");
    assert_eq!(place.expect(0, &["fix", "--files-from", "list"]).0, out, "an empty list is not everything");
    assert_eq!(place.expect(0, &["backups"]).0.lines().count(), 1);
    place.expect(0, &["backups", "verify"]);
    place.expect(0, &["backups", "prune", "--keep", "0"]);
    assert_eq!(fs::read_dir(place.0.path()).unwrap().count(), 1, "nothing is made where nothing is kept");
}

#[test]
fn a_list_of_paths() {
    let place = Place::new();
    place.put("a b", "{}");
    let piped = place.command(&["--files-from", "-", "-0"]).write_stdin("a b\0").output().unwrap();
    assert_eq!(piped.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&piped.stderr).contains("note: a b: no format claims"));
    place.put("list", "a b\nmissing\n");
    let (_, err) = place.expect(2, &["--files-from", "list"]);
    assert!(err.contains("a b: no format") && err.contains("error: missing: "), "{err}");
}

#[test]
fn a_path_that_is_named_like_a_command() {
    let place = Place::new();
    place.put("fix", "{}");
    let (_, err) = place.expect(0, &["./fix"]);
    assert!(err.contains("./fix: no format claims"), "{err}");
    place.expect(2, &["fix"]);
}

#[test]
fn a_broken_configuration_comes_first() {
    let place = Place::new();
    place.put("bad.toml", "\n[tools.shell]\nsize = 1\n");
    for args in [&["--config", "bad.toml"][..], &["fix", "--all", "--config", "bad.toml"]] {
        let (out, err) = place.expect(2, args);
        assert!(out.is_empty() && err.contains("bad.toml:3: unknown key `tools.shell.size`"), "{err}");
    }
    let config = place.0.path().join(".config/unwedge");
    fs::create_dir_all(&config).unwrap();
    fs::write(config.join("config.toml"), "batch_ceiling = -1").unwrap();
    let (_, err) = place.expect(2, &["."]);
    assert!(err.contains("config.toml:1: `batch_ceiling`: -1"), "{err}");
    place.expect(0, &["--isolated", "."]);
}

#[test]
fn every_format_of_an_empty_report() {
    let place = Place::new();
    for format in ["json", "jsonl", "sarif"] {
        let (out, _) = place.expect(0, &["--output-format", format]);
        let report: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert!(report["schema_version"] == 1 || report["version"] == "2.1.0", "{out}");
    }
    assert_eq!(place.expect(0, &["--output-format", "github"]).0, "");
    // What makes the whole run impossible is in the report too.
    let (out, err) = place.expect(2, &["--output-format", "json", "--exclude", "[", "."]);
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert!(
        report["errors"][0]["message"].as_str().unwrap().contains("--exclude") && err.contains("--exclude"),
        "{out}"
    );
}

#[cfg(unix)]
#[test]
fn a_reader_that_went_away() {
    let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin!("unwedge"));
    let mut child = command.arg("man").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let ended = child.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), &*ended.stderr), (Some(0), &b""[..]));
}

#[cfg(target_os = "linux")]
#[test]
fn a_report_that_cannot_be_written() {
    for args in [&["man"][..], &["--help"]] {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin!("unwedge"));
        let ended = command.args(args).stdout(full).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(ended.status.code(), Some(2));
        let err = String::from_utf8(ended.stderr).unwrap();
        assert!(err.contains("error: cannot write the report: ") && err.contains("space"), "{err}");
    }
}

#[test]
fn colour() {
    let place = Place::new();
    let colored = |args: &[&str], env: &[(&str, &str)]| {
        let output = place.command(args).envs(env.iter().copied()).output().unwrap();
        output.stdout.contains(&0x1b)
    };
    assert!(!colored(&[], &[]));
    assert!(colored(&["--color", "always"], &[("NO_COLOR", "1")]));
    assert!(colored(&[], &[("CLICOLOR_FORCE", "1")]));
    assert!(!colored(&[], &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]));
}
