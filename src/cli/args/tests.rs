//! What can be said and what cannot.

use super::*;

fn read(line: &str) -> Result<Cli, clap::Error> {
    Cli::read(std::iter::once("unwedge").chain(line.split_whitespace()).map(OsString::from))
}

#[test]
fn clap_has_no_objection() {
    Cli::command().debug_assert();
}

#[test]
fn every_argument_has_one_line_of_help() {
    fn check(command: &clap::Command) {
        for arg in command.get_arguments() {
            let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
            assert!(!help.is_empty() && !help.contains('\n'), "{} {arg}: {help:?}", command.get_name());
            assert!(!help.ends_with('.'), "{} {arg}", command.get_name());
        }
        command.get_subcommands().for_each(check);
    }
    check(&Cli::command());
}

#[test]
fn without_a_command_paths_are_checked() {
    let cli = read("a ./fix -q --exclude *.bak").unwrap();
    assert!(cli.command.is_none() && cli.talk.quiet);
    assert_eq!(cli.check.paths, [PathBuf::from("a"), "./fix".into()]);
    assert_eq!(cli.check.run.selection.exclude, ["*.bak"]);
    assert!(matches!(read("fix a").unwrap().command, Some(Command::Fix(_))));
    assert!(matches!(read("-q --color never check a").unwrap().command, Some(Command::Check(_))));
}

#[test]
fn every_command_can_be_said() {
    for line in [
        "",
        "check",
        "fix -n --all --min-idle 0",
        "undo",
        "undo -n RUN --min-idle 1m --backup-dir x --output-format json",
        "show RUN-1",
        "backups",
        "backups --backup-dir x --output-format json",
        "backups list --output-format json",
        "backups verify --backup-dir x",
        "backups prune --keep 3 --older-than 30d --max-size 1.5GB -n",
        "formats --output-format json",
        "completions zsh",
        "man",
        "man dir",
    ] {
        if let Err(e) = read(line) {
            panic!("{line}: {e}");
        }
    }
}

#[test]
fn what_belongs_to_a_command_comes_after_it() {
    let said = read("--live-only fix .").unwrap_err().to_string();
    assert!(said.contains("--live-only must come after the command: unwedge fix --live-only"), "{said}");
    assert!(read("--diff full backups list").is_err());
}

#[test]
fn limits() {
    let cli = read("--tool a=b=1KB --tool *=unlimited --size-threshold 64 --batch-ceiling 1.5mb --keep both").unwrap();
    let limits = cli.check.run.limits;
    assert_eq!(limits.tools, [("a=b".into(), Limit::Bytes(1024)), ("*".into(), Limit::Unlimited)]);
    assert_eq!(limits.size_threshold, Some(Limit::Bytes(64)));
    assert_eq!(limits.batch_ceiling, Some(Limit::Bytes(1_572_864)));
    assert_eq!(limits.keep, Some(End::Both));
}

#[test]
fn what_is_no_limit_is_quoted() {
    for (line, quoted) in [
        ("--size-threshold 1TB", "\"1TB\""),
        ("--size-threshold 63", "63 is below"),
        ("--size-threshold=", "\"\""),
        ("--size-threshold=-1", "\"-1\""),
        ("--batch-ceiling .5KB", "\".5KB\""),
        ("--tool shell", "\"shell\""),
        ("--tool =1KB", "\"=1KB\""),
        ("--tool shell=", "\"\""),
        ("--tool shell=1XB", "\"1XB\""),
        ("fix --min-idle soon", "\"soon\""),
        ("fix --min-idle 5", "\"5\""),
        ("backups prune --max-size big", "\"big\""),
    ] {
        let said = read(line).unwrap_err().to_string();
        assert!(said.contains(quoted), "{line}: {said}");
    }
}

#[test]
fn idle_times() {
    let idle = |text| match read(&format!("fix . --min-idle {text}")).unwrap().command {
        Some(Command::Fix(fix)) => fix.min_idle.as_millis(),
        other => panic!("{other:?}"),
    };
    assert_eq!(["0", "500ms", "2s", "1m"].map(idle), [0, 500, 2000, 60_000]);
    match read("fix .").unwrap().command {
        Some(Command::Fix(fix)) => assert_eq!(fix.min_idle.as_secs(), 2),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_does_not_go_together() {
    for line in [
        "fix --all .",
        "fix --all --files-from x",
        "fix . --exit-zero --exit-non-zero-on-fix",
        "-q -v",
        "--isolated --config x",
        "-0",
        "backups prune",
        "show",
        "completions",
        "--format nonsense",
        "--output-format xml",
        "--nonsense",
    ] {
        assert!(read(line).is_err(), "{line}");
    }
}
