//! `--unit` and `--spill`, the whole way, for every agent.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::agents::{Agent, Part, Res, Session, agents, lit};
use crate::compare::{cuts, decode};
use crate::lines::turns;
use crate::sandbox::{Sandbox, snapshot};

const LIMITS: [&str; 2] = ["--size-threshold", "2KB"];

fn numbered(count: usize) -> String {
    (1..=count).map(|n| format!("line {n}: \"quoted\", é and 😀\n")).collect()
}

fn json(count: usize) -> String {
    let rows: Vec<String> = (0..count).map(|n| format!("{{\"id\": {n}, \"n\": 1e400}}")).collect();
    format!("{{\"rows\": [{}], \"log\": {}}}", rows.join(",\n "), lit(&numbered(count)))
}

fn diff(files: usize) -> String {
    let file = |n: usize| {
        let body = format!("+added \"{n}\"\n").repeat(if n == 2 { 400 } else { 10 });
        format!("diff --git a/f{n}.rs b/f{n}.rs\n--- a/f{n}.rs\n+++ b/f{n}.rs\n@@ -0,0 +1 @@\n{body}")
    };
    (1..=files).map(file).collect()
}

fn blob() -> String {
    format!("iVBORw0KGgo{}", "AQIDBAUGBwgJ+/".repeat(1000) + "A")
}

/// One text for each unit, and one that is only long.
fn texts() -> [(String, &'static str); 5] {
    [(numbered(300), "lines"), (json(300), "json"), (diff(30), "diff"), (blob(), "base64"), ("x".repeat(9000), "bytes")]
}

fn hex(text: &[u8]) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The second line of a cut text, with its numbers and its path.
fn second(text: &str) -> &str {
    text.lines()
        .find(|line| line.starts_with('[') && line.contains(" kept; omitted "))
        .unwrap_or_else(|| panic!("{text}"))
}

struct Told {
    sandbox: Sandbox,
    spill: PathBuf,
    agents: Vec<Agent>,
    olds: Vec<Vec<u8>>,
}

/// A sandbox with the same session of each agent.
fn told(session: &Session) -> Told {
    let sandbox = Sandbox::new();
    let agents = agents();
    let olds: Vec<Vec<u8>> = agents.iter().map(|agent| agent.bytes(session)).collect();
    for (agent, old) in agents.iter().zip(&olds) {
        sandbox.put(agent.path, old);
    }
    let spill = sandbox.path("texts");
    Told { sandbox, spill, agents, olds }
}

impl Told {
    fn args<'a>(&'a self, command: &[&'a str]) -> Vec<&'a str> {
        let spill = self.spill.to_str().unwrap();
        [command, &["--min-idle", "0", "--spill", spill], &LIMITS, &["."]].concat()
    }
}

#[test]
fn every_unit_of_every_agent_with_its_whole_text() {
    let told = told(&turns(texts().iter().map(|(text, _)| Res::text(text)).collect()).with_copies());
    let fix = ["fix", "--unit", "auto"];
    let dry = told.sandbox.json(1, &told.args(&[&fix[..], &["-n"]].concat()));
    assert!(!told.spill.exists(), "a dry run keeps nothing");
    let report = told.sandbox.json(0, &told.args(&fix));
    let of = |report: &Value, key: &str| -> Vec<Value> {
        report["files"].as_array().unwrap().iter().map(|f| f[key].clone()).collect()
    };
    assert_eq!(of(&dry, "bytes_after"), of(&report, "bytes_after"), "the dry run plans the same bytes");

    let whole: BTreeMap<String, (String, &str)> =
        texts().into_iter().map(|(text, unit)| (hex(text.as_bytes()), (text, unit))).collect();
    let kept = snapshot(&told.spill);
    let names: BTreeSet<PathBuf> = whole.keys().map(|hash| PathBuf::from(format!("{hash}.txt"))).collect();
    assert_eq!(kept.keys().cloned().collect::<BTreeSet<_>>(), names, "each text once, and nothing else");
    for (path, was) in &kept {
        assert_eq!(was.bytes, whole[path.file_stem().unwrap().to_str().unwrap()].0.as_bytes());
        assert_eq!(was.mode & 0o777, 0o600);
    }
    assert_eq!(fs::metadata(&told.spill).unwrap().permissions().mode() & 0o777, 0o700);

    for (agent, old) in told.agents.iter().zip(&told.olds) {
        let new = fs::read(told.sandbox.tree().join(agent.path)).unwrap();
        let found = cuts(old, &new, agent.format == "codex");
        assert!(found.len() >= 5, "{}", agent.label);
        for cut in &found {
            let (was, now) = (decode(cut.old), String::from_utf8(decode(cut.new)).unwrap());
            let (_, unit) = &whole[&hex(&was)];
            let path = told.spill.join(format!("{}.txt", hex(&was)));
            assert!(second(&now).ends_with(&format!("; full text: {}]", path.display())), "{}: {now}", agent.label);
            assert!(now.len() <= 2048 && now.lines().last().unwrap().starts_with("... [truncated, "), "{now}");
            assert!(is_kept(unit, std::str::from_utf8(&was).unwrap(), &now), "{} {unit}: {now}", agent.label);
        }
    }
    for file in report["files"].as_array().unwrap() {
        for finding in file["findings"].as_array().unwrap() {
            let path = Path::new(finding["full_text"].as_str().unwrap());
            assert_eq!(finding["unit"], whole[path.file_stem().unwrap().to_str().unwrap()].1);
        }
    }
    // Nothing is left to do, and what is cut can be shown and put back.
    let after = (told.sandbox.snapshot(), snapshot(&told.spill));
    let again = told.sandbox.json(0, &told.args(&fix));
    assert_eq!(again["summary"]["findings"], 0);
    assert_eq!((told.sandbox.snapshot(), snapshot(&told.spill)), after);
    let finding = &report["files"][0]["findings"][0];
    let shown = told.sandbox.expect(0, &["show", finding["cut"].as_str().unwrap()]);
    assert!(
        shown.stdout
            == whole[Path::new(finding["full_text"].as_str().unwrap()).file_stem().unwrap().to_str().unwrap()].0
    );
    told.sandbox.expect(0, &["undo", report["run"].as_str().unwrap(), "--min-idle", "0"]);
    for (agent, old) in told.agents.iter().zip(&told.olds) {
        assert!(fs::read(told.sandbox.tree().join(agent.path)).unwrap() == *old, "{}", agent.label);
    }
}

/// Whether what is left is the old text in its unit.
fn is_kept(unit: &str, was: &str, now: &str) -> bool {
    let body = now.split("\n[").next().unwrap();
    match unit {
        "lines" => {
            let kept = second(now).split(' ').next().unwrap().trim_start_matches('[').parse::<usize>().unwrap();
            now.starts_with(&was.lines().take(kept).map(|line| format!("{line}\n")).collect::<String>()) && kept > 20
        }
        "json" => serde_json::from_str::<Value>(&body.replace("1e400", "1"))
            .is_ok_and(|value| value["log"].is_string() && value["rows"][0]["id"] == 0),
        "diff" => {
            now.contains("/f1.rs")
                && now.contains("+++ b/f3.rs")
                && second(now).contains("omitted 2, ")
                && !now.contains("+++ b/f2.rs")
        }
        "base64" => now.starts_with("[image/png, 10509 bytes, sha256 "),
        _ => was.starts_with(body),
    }
}

#[test]
fn head_hole_and_tail_are_the_original() {
    for keep in ["head", "tail", "both"] {
        for unit in ["bytes", "lines"] {
            let told = told(&turns(vec![Res::text(&numbered(500))]));
            told.sandbox.expect(0, &told.args(&["fix", "--unit", unit, "--keep", keep]));
            for (agent, old) in told.agents.iter().zip(&told.olds) {
                let new = fs::read(told.sandbox.tree().join(agent.path)).unwrap();
                for cut in cuts(old, &new, agent.format == "codex") {
                    let (was, now) = (decode(cut.old), String::from_utf8(decode(cut.new)).unwrap());
                    let line = second(&now);
                    let (range, path) = line.split_once("omitted ").unwrap().1.split_once("; full text: ").unwrap();
                    let whole = fs::read_to_string(path.trim_end_matches(']')).unwrap();
                    let (from, to) = range.split_once('-').unwrap();
                    let (from, to): (usize, usize) = (from.parse().unwrap(), to.parse().unwrap());
                    // The hole is read as an agent would read it: by line numbers, or by bytes.
                    let (head, hole, tail) = if unit == "lines" {
                        let lines: Vec<&str> = whole.split_inclusive('\n').collect();
                        (lines[..from - 1].concat(), lines[from - 1..to].concat(), lines[to..].concat())
                    } else {
                        let part = |from: usize, to: usize| whole[from..to].to_owned();
                        (part(0, from - 1), part(from - 1, to), part(to, whole.len()))
                    };
                    assert!(now.starts_with(&head) && now.ends_with(&tail) && !hole.is_empty(), "{unit} {keep}: {now}");
                    assert_eq!((head.is_empty(), tail.is_empty()), (keep == "tail", keep == "head"));
                    assert!(format!("{head}{hole}{tail}").as_bytes() == was, "{unit} {keep}");
                }
            }
        }
    }
}

#[test]
fn without_its_whole_text_kept_a_response_is_not_cut() {
    let (one, two) = (numbered(300), "y".repeat(9000));
    let told = told(&turns(vec![Res::text(&one), Res::text(&two)]));
    fs::create_dir_all(told.spill.join(format!("{}.txt", hex(one.as_bytes())))).unwrap();
    let report = told.sandbox.json(2, &told.args(&["fix", "--unit", "lines"]));
    assert!(!report["errors"].as_array().unwrap().is_empty());
    for error in report["errors"].as_array().unwrap() {
        assert!(error["message"].as_str().unwrap().contains(&hex(one.as_bytes())), "{error}");
    }
    for (agent, old) in told.agents.iter().zip(&told.olds) {
        let new = fs::read(told.sandbox.tree().join(agent.path)).unwrap();
        let found = cuts(old, &new, agent.format == "codex");
        assert!(!found.is_empty() && found.iter().all(|cut| decode(cut.old) == two.as_bytes()), "{}", agent.label);
    }
    // Once the place is free, the rest follows.
    fs::remove_dir(told.spill.join(format!("{}.txt", hex(one.as_bytes())))).unwrap();
    told.sandbox.expect(0, &told.args(&["fix", "--unit", "lines"]));
    assert_eq!(fs::read(told.spill.join(format!("{}.txt", hex(one.as_bytes())))).unwrap(), one.as_bytes());
}

#[test]
fn a_batch_whose_text_could_not_be_kept_is_cut_as_planned() {
    let texts = [numbered(200), "y".repeat(6000), "z".repeat(5000)];
    let told = told(&Session::new(vec![texts.iter().map(|text| Res::text(text)).collect()]));
    fs::create_dir_all(told.spill.join(format!("{}.txt", hex(texts[0].as_bytes())))).unwrap();
    let spill = told.spill.to_str().unwrap();
    let report = told.sandbox.json(
        2,
        &["fix", "--min-idle", "0", "--spill", spill, "--size-threshold", "unlimited", "--batch-ceiling", "6KB", "."],
    );
    assert!(report["errors"].as_array().unwrap().iter().all(|e| e["code"] == "io"), "{:#}", report["errors"]);
    let cut: Vec<&Value> = report["files"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|f| f["findings"].as_array().unwrap())
        .filter(|f| !f["cut"].is_null())
        .collect();
    assert!(
        cut.len() >= 2 * told.agents.len() && cut.iter().all(|f| f["delivered"].as_u64() <= Some(2048)),
        "{cut:#?}"
    );
}

#[test]
fn a_place_that_will_not_do_is_refused_before_any_work() {
    let told = told(&turns(vec![Res::text(&numbered(300))]));
    let sandbox = &told.sandbox;
    sandbox.put("file", "");
    let before = sandbox.snapshot();
    let said = |dir: &str, command: &[&str]| {
        let args = [command, &["--spill", dir, "."]].concat();
        let ran = sandbox.expect(2, &args);
        assert_eq!((sandbox.snapshot(), snapshot(&sandbox.path("state")).len()), (before.clone(), 0));
        ran.stderr
    };
    for command in [&["check"][..], &["fix", "-n"], &["fix", "--min-idle", "0"]] {
        assert!(
            said("below/here", command).contains("the spill directory lies inside the scanned tree"),
            "{command:?}"
        );
        assert!(said("", command).contains("a value is required for '--spill <DIR>'"));
        let file = sandbox.path("home").join("file");
        fs::write(&file, "").unwrap();
        assert!(said(file.join("x").to_str().unwrap(), command).contains("is no directory"));
        let dark = sandbox.path("home").join("dark");
        fs::create_dir_all(&dark).unwrap();
        fs::set_permissions(&dark, fs::Permissions::from_mode(0o500)).unwrap();
        if fs::write(dark.join("probe"), "").is_ok() {
            fs::remove_file(dark.join("probe")).unwrap();
            eprintln!("SKIPPED: this user may write everywhere, so no directory is unwritable");
            continue;
        }
        assert!(said(dark.to_str().unwrap(), command).contains("nothing can be written in"));
    }
    sandbox.expect(2, &["fix", "--unit", "words", "."]);
    sandbox.put("unwedge.toml", "[tools.run]\nunit = 'words'\n");
    assert!(sandbox.run(&["check", "."]).stderr.contains("`tools.run.unit` must be"));
}

#[test]
fn what_the_agent_keeps_itself_is_named_and_not_written() {
    let sandbox = Sandbox::new();
    let agent = agents().into_iter().find(|agent| agent.format == "claude-code").unwrap();
    let texts = [numbered(300), "y".repeat(9000)];
    let session = turns(texts.iter().map(|text| Res::text(text)).collect());
    let path = sandbox.put(agent.path, agent.bytes(&session));
    let report = sandbox.json(1, &["check", "--size-threshold", "2KB", "."]);
    let findings = report["files"][0]["findings"].as_array().unwrap();
    let id = findings.iter().find(|f| f["size"] == texts[0].len()).unwrap()["call_id"].as_str().unwrap();
    let side = path.with_extension("").join("tool-results").join(format!("{id}.txt"));
    fs::create_dir_all(side.parent().unwrap()).unwrap();
    fs::write(&side, &texts[0]).unwrap();
    let spill = sandbox.path("texts");
    let args = ["fix", "--min-idle", "0", "--spill", spill.to_str().unwrap(), "--size-threshold", "2KB", "."];
    let report = sandbox.json(0, &args);
    let real = fs::canonicalize(&side).unwrap();
    let named: Vec<&str> =
        report["files"][0]["findings"].as_array().unwrap().iter().map(|f| f["full_text"].as_str().unwrap()).collect();
    assert!(named.contains(&real.to_str().unwrap()), "{named:?}");
    assert_eq!(
        snapshot(&spill).into_keys().collect::<Vec<_>>(),
        [PathBuf::from(format!("{}.txt", hex(texts[1].as_bytes())))]
    );
    assert!(
        String::from_utf8(fs::read(&path).unwrap()).unwrap().contains(&format!("; full text: {}]", real.display()))
    );
    assert_eq!(fs::read(&side).unwrap(), texts[0].as_bytes());
}

#[test]
fn several_texts_are_one_and_keep_their_number() {
    let parts: Vec<String> = [numbered(60), numbered(90), "short".to_owned(), numbered(70)].into();
    let block = |text: &String| Part::Text(lit(text));
    let session = turns(vec![Res::list(parts.iter().map(block).collect())]);
    let sandbox = Sandbox::new();
    let agent = agents().into_iter().find(|agent| agent.format == "claude-code").unwrap();
    let old = agent.bytes(&session);
    let path = sandbox.put(agent.path, &old);
    let spill = sandbox.path("texts");
    let args = [
        "fix",
        "--min-idle",
        "0",
        "--unit",
        "lines",
        "--spill",
        spill.to_str().unwrap(),
        "--size-threshold",
        "4KB",
        ".",
    ];
    let report = sandbox.json(0, &args);
    let whole = fs::read_to_string(report["files"][0]["findings"][0]["full_text"].as_str().unwrap()).unwrap();
    assert_eq!(whole, parts.concat());
    let new = fs::read(&path).unwrap();
    let found = cuts(&old, &new, false);
    let texts: Vec<String> = found.iter().map(|cut| String::from_utf8(decode(cut.new)).unwrap()).collect();
    assert_eq!(texts.len(), 2, "the second is cut, the last is a marker alone, the short one stays");
    let line = second(&texts[0]);
    let kept: usize = line[1..].split(' ').next().unwrap().parse().unwrap();
    let total = whole.lines().count();
    assert!(line.starts_with(&format!("[{kept} of {total} lines kept; omitted {}-{total}; ", kept + 1)), "{line}");
    let visible: String = whole.split_inclusive('\n').take(kept).collect();
    assert!(format!("{}{}", parts[0], texts[0]).starts_with(&visible));
    assert!(texts[1].starts_with("... [truncated, ") && texts[1].ends_with("→ 0 B]"));
}

#[test]
fn a_unit_for_each_tool_and_the_flag_for_the_rest() {
    let told = told(&turns(vec![Res::text(&numbered(300))]));
    let unit = |args: &[&str]| -> BTreeSet<String> {
        let report = told.sandbox.json(1, &[&["fix", "-n", "--min-idle", "0"][..], &LIMITS, args, &["."]].concat());
        let findings = report["files"].as_array().unwrap().iter().flat_map(|f| f["findings"].as_array().unwrap());
        findings.map(|f| f["unit"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(unit(&[]), ["bytes".to_owned()].into());
    assert_eq!(unit(&["--unit", "lines"]), ["lines".to_owned()].into());
    told.sandbox.put("unwedge.toml", "[tools.'*']\nunit = 'lines'\n");
    assert_eq!(unit(&[]), ["lines".to_owned()].into());
    assert_eq!(unit(&["--unit", "bytes"]), ["bytes".to_owned()].into());
}

#[test]
fn a_diff_of_each_hole() {
    let told = told(&turns(vec![Res::text(&diff(30))]));
    let ran = told.sandbox.expect(1, &told.args(&["fix", "-n", "--unit", "diff", "--diff", "full"]));
    let added: Vec<&str> = ran.stdout.lines().filter(|line| line.starts_with("+[")).collect();
    assert!(added.len() >= told.agents.len(), "{}", ran.stdout);
    assert!(ran.stdout.contains("-+added \"2\"\n") && ran.stdout.contains("; full text: "), "{}", ran.stdout);
    // The second file goes from within, the others from the end: two holes a text.
    let headers = ran.stdout.lines().filter(|line| line.starts_with("@@ ")).count();
    assert_eq!(headers, 2 * added.len());
}
