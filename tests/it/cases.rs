//! Every folder `testdata/<format>/<case>`: `before/`, the arguments, `after/` and the report.
//!
//! A case goes the whole way: a dry run that touches nothing, the repair, a second run that finds nothing new, and an undo
//! that gives back what there was. `UNWEDGE_BLESS=1` writes `after/` and `report.json` anew: read the difference before
//! you keep it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::sandbox::{Sandbox, bytes, copy, snapshot, testdata};

/// What a case folder says.
struct Case {
    dir: PathBuf,
    args: Vec<String>,
    /// What only `fix` takes.
    fix: Vec<String>,
}

fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = walkdir::WalkDir::new(testdata())
        .min_depth(3)
        .max_depth(3)
        .into_iter()
        .map(Result::unwrap)
        .filter(|e| e.file_name() == "case.json")
        .map(|e| {
            let case: Value = serde_json::from_slice(&fs::read(e.path()).unwrap()).unwrap();
            let words =
                |list: &Value| list.as_array().unwrap().iter().map(|a| a.as_str().unwrap().to_owned()).collect();
            assert!(
                case["note"].as_str().is_some_and(|n| !n.is_empty()),
                "{}: a case says what it is for",
                e.path().display()
            );
            let fix = case.get("fix").map(words).unwrap_or_default();
            Case { dir: e.path().parent().unwrap().to_owned(), args: words(&case["args"]), fix }
        })
        .collect();
    cases.sort_by(|a, b| a.dir.cmp(&b.dir));
    cases
}

#[test]
fn every_format_has_its_cases() {
    let mut count = std::collections::BTreeMap::new();
    for case in cases() {
        let format = case.dir.parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
        *count.entry(format).or_insert(0) += 1;
    }
    for format in unwedge::format::FORMATS {
        let name = format.about().name;
        assert!(count.get(name).copied().unwrap_or(0) >= 6, "{name}: {:?} cases in testdata/{name}", count.get(name));
    }
}

#[test]
fn cases_go_the_whole_way() {
    let only = std::env::var("UNWEDGE_CASE").ok();
    let mut failed = Vec::new();
    for case in cases() {
        let name = case.dir.strip_prefix(testdata()).unwrap().display().to_string();
        if only.as_ref().is_some_and(|only| !name.contains(only.as_str())) {
            continue;
        }
        if std::panic::catch_unwind(|| whole_way(&case)).is_err() {
            failed.push(name);
        }
    }
    assert!(failed.is_empty(), "failed: {failed:#?}");
}

fn whole_way(case: &Case) {
    let sandbox = Sandbox::new();
    copy(&case.dir.join("before"), &sandbox.tree());
    let args: Vec<&str> = case.args.iter().map(String::as_str).collect();
    let check = [&["check"][..], &args, &["."]].concat();
    let before = sandbox.snapshot();

    // Check: what is reported, and nothing touched.
    let run = sandbox.run(&[&check[..], &["--output-format", "json"]].concat());
    let report: Value =
        serde_json::from_str(&run.stdout).unwrap_or_else(|e| panic!("{e}\n{}\n{}", run.stdout, run.stderr));
    assert_eq!(sandbox.snapshot(), before, "check touched something");
    compare_report(case, run.status, &report);

    // A dry run: the same as the real one prints, and nothing touched, not even a state directory.
    let own: Vec<&str> = case.fix.iter().map(String::as_str).collect();
    let fix = [&["fix", "--min-idle", "0"][..], &own, &args, &["."]].concat();
    let dry = sandbox.run(&[&fix[..], &["-n"]].concat());
    assert_eq!(sandbox.snapshot(), before, "the dry run touched something");
    assert_eq!(snapshot(&sandbox.path("state")).len(), 0, "the dry run left something in the state directory");

    // The repair.
    let broken = !report["errors"].as_array().unwrap().is_empty();
    let real = sandbox.run(&fix);
    let after = sandbox.snapshot();
    if std::env::var_os("UNWEDGE_BLESS").is_some() {
        bless(&case.dir.join("after"), &sandbox.tree());
    }
    assert_eq!(
        bytes(&after),
        bytes(&snapshot(&case.dir.join("after"))),
        "after the repair\n{}{}",
        real.stdout,
        real.stderr
    );
    assert!(
        real.stdout.starts_with(dry.stdout.trim_end()),
        "the dry run said\n{}\nand the real one\n{}",
        dry.stdout,
        real.stdout
    );
    let changed: BTreeSet<&PathBuf> =
        before.iter().filter(|(path, was)| after[*path].bytes != was.bytes).map(|(path, _)| path).collect();
    for (path, was) in &before {
        let now = &after[path];
        assert_eq!(now.mode, was.mode, "{}", path.display());
        if !changed.contains(path) {
            assert_eq!(now, was, "{}: touched without need", path.display());
        }
    }
    let still_over = still_over(&sandbox, &check);
    assert_eq!(real.status, if broken { 2 } else { i32::from(still_over) }, "{}{}", real.stdout, real.stderr);
    assert_eq!(
        sandbox.backups().len(),
        changed.iter().map(|p| &before[*p].bytes).collect::<BTreeSet<_>>().len(),
        "a backup for each changed document"
    );

    // A second run writes nothing, and finds nothing but what was still over.
    let again = sandbox.run(&fix);
    assert_eq!(sandbox.snapshot(), after, "the second run touched something");
    assert_eq!(again.status, real.status, "{}{}", again.stdout, again.stderr);
    assert_eq!(
        sandbox.backups().len(),
        changed.iter().map(|p| &before[*p].bytes).collect::<BTreeSet<_>>().len(),
        "the second run made a backup"
    );

    // Undo gives back every byte.
    if !changed.is_empty() {
        let run = run_id(&sandbox);
        sandbox.expect(0, &["undo", &run, "--min-idle", "0"]);
        assert_eq!(bytes(&sandbox.snapshot()), bytes(&before), "undo");
        sandbox.expect(0, &["undo", &run, "--min-idle", "0"]);
        assert_eq!(bytes(&sandbox.snapshot()), bytes(&before), "a second undo");
    }
}

/// Whether something is reported after a repair.
fn still_over(sandbox: &Sandbox, check: &[&str]) -> bool {
    let run = sandbox.run(&[check, &["--output-format", "json"]].concat());
    let report: Value = serde_json::from_str(&run.stdout).unwrap();
    report["files"].as_array().unwrap().iter().any(|f| !f["findings"].as_array().unwrap().is_empty())
}

/// The only run in the vault.
fn run_id(sandbox: &Sandbox) -> String {
    let runs: Vec<_> =
        fs::read_dir(sandbox.path("state").join("unwedge/runs")).unwrap().map(|e| e.unwrap().path()).collect();
    assert_eq!(runs.len(), 1, "{runs:?}");
    runs[0].file_stem().unwrap().to_str().unwrap().to_owned()
}

/// The parts of a report that do not depend on the machine.
fn compare_report(case: &Case, status: i32, report: &Value) {
    let files: Vec<Value> = report["files"].as_array().unwrap().iter().map(|f| {
        json!({ "path": f["path"], "format": f["format"], "conversation": f["conversation"], "status": f["status"], "bytes": f["bytes"], "findings": f["findings"], "notes": f["notes"] })
    }).collect();
    let errors: Vec<Value> = report["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| json!({ "path": e["path"], "code": e["code"], "line": e["line"] }))
        .collect();
    let got = json!({ "exit": status, "files": files, "errors": errors });
    let path = case.dir.join("report.json");
    if std::env::var_os("UNWEDGE_BLESS").is_some() {
        fs::write(&path, serde_json::to_string_pretty(&got).unwrap() + "\n").unwrap();
    }
    let expected: Value =
        serde_json::from_slice(&fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))).unwrap();
    assert_eq!(got, expected, "{}: got\n{}", path.display(), serde_json::to_string_pretty(&got).unwrap());
}

fn bless(after: &Path, tree: &Path) {
    if after.exists() {
        fs::remove_dir_all(after).unwrap();
    }
    copy(tree, after);
}
