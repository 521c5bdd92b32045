//! The pre-commit hook, with the real `pre-commit`, on a scratch repository.
//!
//! Needs `pre-commit` and builds the program once more, so it only runs where it is asked for: `tests/run` does.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::jp::{config, stream};
use crate::sandbox::Sandbox;

fn command(sandbox: &Sandbox, dir: &Path, program: &str, args: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.args(args).current_dir(dir).env("XDG_STATE_HOME", sandbox.path("state"));
    command.env("PRE_COMMIT_HOME", sandbox.path("pre-commit")).env("GIT_CONFIG_GLOBAL", "/dev/null");
    for who in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{who}_NAME"), "Ada").env(format!("GIT_{who}_EMAIL"), "ada@example.invalid");
    }
    // pre-commit clones and builds the hook's repository; what was built before need not be built again.
    command.env("CARGO_TARGET_DIR", Path::new(env!("CARGO_MANIFEST_DIR")).join("target/hook"));
    command.output().unwrap_or_else(|e| panic!("{program}: {e}; tests/run installs what this test needs"))
}

#[track_caller]
fn ok(sandbox: &Sandbox, dir: &Path, program: &str, args: &[&str]) -> String {
    let output = command(sandbox, dir, program, args);
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{program} {}\n{text}", args.join(" "));
    text
}

/// This checkout as a repository that pre-commit can clone, whatever is committed of it.
fn hook_repository(sandbox: &Sandbox) -> (String, String) {
    let ours = Path::new(env!("CARGO_MANIFEST_DIR"));
    let dir = sandbox.path("hook");
    for name in ["Cargo.toml", "Cargo.lock", ".pre-commit-hooks.yaml", "README.md"] {
        fs::create_dir_all(&dir).unwrap();
        fs::copy(ours.join(name), dir.join(name)).unwrap();
    }
    crate::sandbox::copy(&ours.join("src"), &dir.join("src"));
    ok(sandbox, &dir, "git", &["init", "-q"]);
    ok(sandbox, &dir, "git", &["add", "-A"]);
    ok(sandbox, &dir, "git", &["commit", "-qm", "The hook"]);
    let rev = ok(sandbox, &dir, "git", &["rev-parse", "HEAD"]);
    (dir.to_str().unwrap().to_owned(), rev.trim().to_owned())
}

#[test]
#[ignore = "needs pre-commit, and builds the program: tests/run runs it"]
fn an_oversized_response_is_stopped_and_repaired() {
    let sandbox = Sandbox::new();
    let (hook, rev) = hook_repository(&sandbox);
    let tree = sandbox.tree();
    ok(&sandbox, &tree, "git", &["init", "-q"]);
    let hooks = format!("repos:\n- repo: {hook}\n  rev: {rev}\n  hooks:\n  - id: unwedge\n  - id: unwedge-check\n");
    sandbox.put(".pre-commit-config.yaml", hooks);
    ok(&sandbox, &tree, "pre-commit", &["install"]);

    // Unrelated JSON is none of its business, a clean conversation passes.
    sandbox.put("package.json", b"{\"name\": \"x\", \"big\": [1, 2, 3]}\n");
    sandbox.put("data.jsonl", b"{\"content\": \"x\"}\nnot json at all\n");
    sandbox.put(".jp/conversations/17712345000/events.json", stream("short", 1));
    sandbox.put(".jp/conversations/17712345000/base_config.json", config());
    ok(&sandbox, &tree, "git", &["add", "-A"]);
    ok(&sandbox, &tree, "git", &["commit", "-qm", "clean"]);

    // An oversized response is stopped, and repaired.
    let wedged = stream(&"x".repeat(300_000), 1);
    let path = sandbox.put(".jp/conversations/17712345001/events.json", &wedged);
    sandbox.put(".jp/conversations/17712345001/base_config.json", config());
    ok(&sandbox, &tree, "git", &["add", "-A"]);
    let stopped = command(&sandbox, &tree, "git", &["commit", "-qm", "wedged"]);
    let text = format!("{}{}", String::from_utf8_lossy(&stopped.stdout), String::from_utf8_lossy(&stopped.stderr));
    assert!(!stopped.status.success(), "{text}");
    assert!(text.contains("17712345001") && text.contains("shell"), "{text}");
    let repaired = fs::read(&path).unwrap();
    assert!(repaired.len() < 400_000);
    // Its backup is not in the work tree.
    let status = ok(&sandbox, &tree, "git", &["status", "--porcelain", "--untracked-files=all"]);
    assert!(
        status.lines().all(|l| l.ends_with("17712345001/events.json") || l.ends_with("17712345001/base_config.json")),
        "{status}"
    );
    assert_eq!(sandbox.backups().len(), 1);

    // The second attempt passes.
    ok(&sandbox, &tree, "git", &["add", "-A"]);
    ok(&sandbox, &tree, "git", &["commit", "-qm", "repaired"]);
    assert_eq!(fs::read(&path).unwrap(), repaired);
}
