//! Whether a conversation will run again: the diagnosis, the window, the policies.

use std::fs;

use serde_json::{Value, json};

use crate::sandbox::{Ran, Sandbox};

const NAME: &str = ".claude/projects/-p/00000000-0000-4000-8000-000000000013.jsonl";

/// A Claude Code session: results of these sizes by these tools, each its own message, five of them a turn.
struct Session {
    lines: Vec<String>,
    bytes: usize,
    results: usize,
    /// What the provider is said to have counted for a byte, in thousandths of a token, besides 20,000 tokens.
    counts: Option<usize>,
}

impl Session {
    fn new(counts: Option<usize>) -> Self {
        Session { lines: Vec::new(), bytes: 0, results: 0, counts }
    }

    fn line(&mut self, kind: &str, message: &Value) {
        let n = self.lines.len();
        let parent = n.checked_sub(1).map(|p| format!("u{p}"));
        let line = json!({ "parentUuid": parent, "isSidechain": false, "type": kind, "message": message, "uuid": format!("u{n}"), "sessionId": "s" });
        self.lines.push(line.to_string());
    }

    fn user(mut self, text: &str) -> Self {
        self.bytes += text.len();
        self.line("user", &json!({ "role": "user", "content": text }));
        self
    }

    fn result(mut self, tool: &str, text: &str, failed: bool) -> Self {
        let n = self.results;
        self.results += 1;
        let counted = self.counts.map(|c| 20_000 + self.bytes * c / 1000).unwrap_or_default();
        let usage =
            json!({ "input_tokens": 1, "cache_read_input_tokens": counted.saturating_sub(1), "output_tokens": 9 });
        let input = json!({ "q": "x" });
        self.bytes += tool.len() + 2;
        self.line(
            "assistant",
            &json!({ "id": format!("m{n}"), "role": "assistant", "model": "claude-opus-4-5-20251101", "usage": usage,
            "content": [{ "type": "tool_use", "id": format!("t{n}"), "name": tool, "input": input }] }),
        );
        self.bytes += text.len();
        self.line("user", &json!({ "role": "user", "content": [{ "type": "tool_result", "tool_use_id": format!("t{n}"), "content": text, "is_error": failed }] }));
        self
    }

    /// The error that Claude Code stores.
    fn wedged(mut self) -> Self {
        let n = self.lines.len();
        let line = json!({ "parentUuid": format!("u{}", n - 1), "isSidechain": false, "type": "assistant", "uuid": format!("u{n}"), "sessionId": "s", "isApiErrorMessage": true,
            "message": { "id": "e", "role": "assistant", "model": "<synthetic>", "usage": { "input_tokens": 0 }, "content": [{ "type": "text", "text": "Prompt is too long" }] } });
        self.lines.push(line.to_string());
        self
    }

    fn text(&self) -> String {
        self.lines.iter().map(|line| format!("{line}\n")).collect()
    }
}

/// Forty results of 20 KB, in eight turns: 800 KB that no limit fires on.
fn middling(counts: Option<usize>) -> Session {
    (0..40).fold(Session::new(counts), |session, n| {
        let session = if n % 5 == 0 { session.user("go on") } else { session };
        session.result("Read", &format!("{n} {}", "text of it ".repeat(1862)), false)
    })
}

/// One that the provider counted 240,000 tokens for.
pub fn wedged_session() -> String {
    middling(Some(270)).wedged().text()
}

fn put(session: &Session) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.put(NAME, session.text());
    sandbox
}

fn said(sandbox: &Sandbox, status: i32, args: &[&str]) -> Value {
    let ran = sandbox.expect(status, &[&["check", "--output-format", "json"], args].concat());
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    report["files"][0]["diagnosis"].clone()
}

/// The texts of the results.
fn results(sandbox: &Sandbox) -> Vec<String> {
    let text = fs::read_to_string(sandbox.tree().join(NAME)).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter_map(|line| line["message"]["content"][0]["content"].as_str().map(str::to_owned)).collect()
}

fn fix(sandbox: &Sandbox, status: i32, args: &[&str]) -> Ran {
    sandbox.expect(status, &[&["fix", "--min-idle", "0", "--diff", "none", NAME], args].concat())
}

#[test]
fn a_conversation_that_no_limit_frees_is_wedged_and_a_window_frees_it() {
    let session = middling(None).wedged();
    let sandbox = put(&session);
    let before = session.text();
    let said_first = said(&sandbox, 1, &[NAME]);
    assert_eq!(said_first["verdict"], "wedged-repairable");
    assert_eq!(said_first["error"], json!({ "line": 89, "record": 88 }));
    assert_eq!(said_first["window"], json!({ "tokens": 200_000, "source": "the model" }));
    assert_eq!(said_first["estimate"]["method"], "bytes");
    let bytes = session.bytes as u64;
    assert_eq!(said_first["tokens"].as_u64().unwrap(), (bytes * 3).div_ceil(8));
    let text = sandbox.expect(1, &["check", NAME]).stdout;
    assert!(
        text.contains("wedged: it ends in \"Prompt is too long\"; nothing is over a limit; `fix --window 200k`"),
        "{text}"
    );

    // Without a window a fix has nothing to cut, and says so.
    fix(&sandbox, 1, &[]);
    assert_eq!(fs::read_to_string(sandbox.tree().join(NAME)).unwrap(), before);
    let run = fix(&sandbox, 0, &["--window", "200k"]);
    let cut = fs::read_to_string(sandbox.tree().join(NAME)).unwrap();
    let after = said(&sandbox, 0, &["--window", "200k", NAME]);
    let tokens = after["tokens"].as_u64().unwrap();
    assert!(tokens <= 200_000 - 16_384 && tokens > 175_000, "{tokens}");
    assert_eq!(after["verdict"], "clean");
    // The last two turns keep theirs, all others give alike.
    let kept: Vec<usize> = results(&sandbox).iter().map(String::len).collect();
    assert!(kept[30..].iter().all(|len| *len > 20_000), "{kept:?}");
    assert!(kept[..30].iter().all(|len| *len == kept[0] && *len < 20_000), "{kept:?}");

    // A second run finds nothing, a look without the window sees that it fits, and undo brings everything back.
    fix(&sandbox, 0, &["--window", "200k"]);
    assert_eq!(fs::read_to_string(sandbox.tree().join(NAME)).unwrap(), cut);
    said(&sandbox, 0, &[NAME]);
    let id = run.stdout.lines().last().unwrap().rsplit(' ').next().unwrap().to_owned();
    sandbox.expect(0, &["undo", "--min-idle", "0", &id]);
    assert_eq!(fs::read_to_string(sandbox.tree().join(NAME)).unwrap(), before);
}

#[test]
fn the_provider_s_figures_are_the_measure_before_and_after_a_cut() {
    for keep in ["head", "tail", "both"] {
        for stuck in [false, true] {
            let session = middling(Some(280));
            let session = if stuck { session.wedged() } else { session };
            let sandbox = put(&session);
            let first = said(&sandbox, i32::from(stuck), &[NAME]);
            assert_eq!(first["estimate"]["method"], "calibrated");
            // What was counted for the last answer, and what its result has added since.
            let tokens = first["tokens"].as_u64().unwrap();
            let real = 20_000 + session.bytes as u64 * 280 / 1000;
            assert!(tokens.abs_diff(real) < 10, "{tokens} {real}");
            fix(&sandbox, 0, &["--window", "150k", "--keep", keep]);
            let cut = fs::read_to_string(sandbox.tree().join(NAME)).unwrap();
            let after = said(&sandbox, 0, &["--window", "150k", NAME]);
            assert_eq!(after["estimate"]["method"], "calibrated");
            let left: usize = results(&sandbox).iter().map(String::len).sum();
            let other = session.bytes - middling_bytes();
            let real = 20_000 + (left + other) as u64 * 280 / 1000;
            assert!(real <= 150_000 - 16_384 && real > 125_000, "{keep} {stuck}: {real}");
            let tokens = after["tokens"].as_u64().unwrap();
            // From markers' rounded sizes, and never more than it was.
            assert!(tokens <= real + 10 && real - tokens < 8_000, "{keep} {stuck}: {tokens} {real}");
            fix(&sandbox, 0, &["--window", "150k", "--keep", keep]);
            assert_eq!(fs::read_to_string(sandbox.tree().join(NAME)).unwrap(), cut, "{keep} {stuck}");
        }
    }
}

fn middling_bytes() -> usize {
    (0..40).map(|n: usize| format!("{n} {}", "text of it ".repeat(1862)).len()).sum()
}

#[test]
fn auto_is_the_window_of_the_model() {
    let sandbox = put(&middling(None));
    let auto = said(&sandbox, 1, &["--window", "auto", NAME]);
    assert_eq!((&auto["verdict"], &auto["window"]["tokens"]), (&json!("over-a-limit"), &json!(200_000)));
    let text = middling(None).text().replace("claude-opus-4-5-20251101", "home-made");
    sandbox.put(NAME, text);
    let ran = sandbox.expect(0, &["check", "--window", "auto", NAME]);
    assert!(ran.stderr.contains("the window is not known"), "{}", ran.stderr);
}

#[test]
fn what_cannot_fit_is_said_before_anything_is_written() {
    let session = middling(None).user(&"my own words ".repeat(60_000));
    let sandbox = put(&session);
    let ran = fix(&sandbox, 1, &["--window", "200k"]);
    assert!(ran.stdout.contains("cannot be made to fit: 762 KB are the user's text"), "{}", ran.stdout);
    assert_eq!(fs::read_to_string(sandbox.tree().join(NAME)).unwrap(), session.text());
    assert!(!sandbox.path("state").join("unwedge").exists());
}

#[test]
fn a_wedge_whose_weight_is_elsewhere_is_named() {
    let session = Session::new(None).user(&"my own words ".repeat(100_000)).result("Bash", "ok", false).wedged();
    let sandbox = put(&session);
    assert_eq!(said(&sandbox, 1, &[NAME])["verdict"], "wedged-nothing-to-cut");
    let text = sandbox.expect(1, &["check", NAME]).stdout;
    assert!(text.contains("the weight is not in tool responses: 1.2 MB are the user's text"), "{text}");
    fix(&sandbox, 1, &[]);
}

/// A directory is skimmed, and a session that ends in an error is read all the same.
#[test]
fn a_walk_finds_the_wedged() {
    let sandbox = put(&middling(None).wedged());
    sandbox.put(&NAME.replace("013", "014"), middling(None).text());
    let ran = sandbox.expect(1, &["check", "."]);
    assert!(ran.stdout.contains("and skimmed 1: nothing over a limit; 1 wedged"), "{}", ran.stdout);
    assert!(ran.stdout.contains("000000000013.jsonl:89: wedged"), "{}", ran.stdout);
}

#[test]
fn policies_keep_the_end_that_matters() {
    let text = |name: &str| format!("{name} begins\n{}\n{name} ends", "middle ".repeat(1000));
    let session = Session::new(None)
        .user("go")
        .result("Bash", &text("bash"), false)
        .result("Read", &text("read"), false)
        .result("Read", &text("failed"), true)
        .result("mcp__x__y", &text("other"), false);
    let ends = |args: &[&str]| {
        let sandbox = put(&session);
        fix(&sandbox, 0, &[&["--size-threshold", "1KB"], args].concat());
        results(&sandbox).iter().map(|t| (t.contains(" begins\n"), t.ends_with(" ends"))).collect::<Vec<_>>()
    };
    let (head, tail, both) = ((true, false), (false, true), (true, true));
    assert_eq!(ends(&[]), [head; 4]);
    assert_eq!(ends(&["--policy", "d24"]), [head; 4]);
    assert_eq!(ends(&["--policy", "agent"]), [tail, head, tail, both]);
    assert_eq!(ends(&["--policy", "coder"]), [both; 4]);
    // What is said outranks a policy.
    assert_eq!(ends(&["--policy", "agent", "--keep", "head"]), [head; 4]);
}

#[test]
fn coder_holds_a_response_to_its_share_of_the_window() {
    let sandbox = put(&Session::new(None).user("go").result("Read", &"x".repeat(150_000), false));
    let limit = |args: &[&str]| {
        let ran = sandbox.run(&[&["check", "--output-format", "json", "--policy", "coder", NAME], args].concat());
        let report: Value = serde_json::from_str(&ran.stdout).unwrap();
        let finding = &report["files"][0]["findings"][0];
        (finding["limit"].as_u64(), finding["limit_source"].as_str().map(str::to_owned))
    };
    // The session names its model, whose window is 200,000: 199,998 bytes, so nothing is over.
    assert_eq!(limit(&[]), (None, None));
    assert_eq!(limit(&["--window", "100k"]), (Some(99_999), Some("--policy".to_owned())));
    // What is said of a size outranks it.
    assert_eq!(limit(&["--window", "100k", "--size-threshold", "1MB"]), (None, None));
}

#[test]
fn bad_values_are_refused_before_any_work() {
    let sandbox = put(&middling(None));
    let refused = |args: &[&str], why: &str| {
        let ran = sandbox.expect(2, &[&["fix", NAME], args].concat());
        assert!(ran.stderr.contains(why) && ran.stdout.is_empty(), "{args:?}: {}", ran.stderr);
    };
    refused(&["--window", "10k"], "--window 10000 leaves nothing: 16384 tokens of it are kept free");
    refused(&["--window", "lots"], "not a number of tokens");
    refused(&["--policy", "mine"], "possible values: d24, agent, coder");
    refused(&["--reserve", "5"], "--window");
    assert_eq!(fs::read_to_string(sandbox.tree().join(NAME)).unwrap(), middling(None).text());
}

/// Once a response before a count is cut, nobody can tell whether the count came before that or after it, and the estimate may
/// be another one. The proof is by the estimate that the cut was made by.
#[test]
fn a_cut_is_proven_by_the_estimate_it_was_made_by() {
    for sizes in [vec![400_000, 250_000, 250_000], vec![250_000; 4]] {
        for counts in [180, 200, 220] {
            let session = Session::new(Some(counts)).user("go");
            let session = sizes.iter().fold(session, |session, size| session.result("Bash", &"r".repeat(*size), false));
            let sandbox = put(&session.wedged());
            fix(&sandbox, 0, &["--window", "200k"]);
            assert!(results(&sandbox).iter().map(String::len).sum::<usize>() < sizes.iter().sum());
        }
    }
}
