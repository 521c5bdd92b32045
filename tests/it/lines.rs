//! What once went wrong somewhere, or easily could, for every agent's sessions: sizes, texts, blocks, batches.

use serde_json::Value;

use crate::agents::{Part, Res, Session, agents, lit};
use crate::compare::marker;
use crate::round::{Expect, Round};
use crate::sandbox::Sandbox;

/// A small limit, so that sessions can be small.
pub const SMALL: &[&str] = &["--size-threshold", "1000"];

/// So many bytes of lines.
pub fn lines_of(bytes: usize) -> String {
    "0123456789abcde\n".repeat(bytes.div_ceil(16))[..bytes].to_owned()
}

/// A turn for each result.
pub fn turns(results: Vec<Res>) -> Session {
    Session::new(results.into_iter().map(|res| vec![res]).collect())
}

pub fn holds(bytes: &[u8], what: &str) -> bool {
    memchr::memmem::find(bytes, what.as_bytes()).is_some()
}

#[test]
fn a_line_over_ten_megabytes_is_kept_and_cut() {
    Round::of(&turns(vec![Res::text(&lines_of(10_500_000))])).run(|done| {
        done.found(1, false);
        assert_eq!(done.findings("response")[0]["size"], 10_500_000);
    });
}

#[test]
fn characters_at_the_limit() {
    let escaped = |text: &str| text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect::<String>();
    let mut results = Vec::new();
    let texts =
        ["漢字かな", "😀", "👩‍👩‍👧‍👦🏳️‍🌈", "e\u{301}\u{323}", "한글한글", "नमस्ते", "é", "\u{2028}\u{2029}", "a\u{200b}\u{feff}"];
    for unit in texts {
        // Each place of a character comes to stand at the limit.
        for offset in 0..4 {
            let (head, tail) = ("x".repeat(offset), unit.repeat(1100 / unit.len()));
            results.push(Res::text(&format!("{head}{tail}")));
            results.push(Res::stored(&format!("\"{head}{}\"", escaped(&tail))));
        }
    }
    let count = results.len();
    Round::of(&turns(results).with_copies()).args(SMALL).run(|done| done.found(count, true));
    // The same where the default limit falls.
    let wide =
        |unit: &str, offset: usize| Res::text(&format!("{}{}", "x".repeat(offset), unit.repeat(262_200 / unit.len())));
    Round::of(&turns(vec![wide("漢", 0), wide("漢", 1), wide("😀", 3), wide("e\u{301}", 2)])).run(|done| {
        done.found(4, false);
        for cut in &done.cuts {
            // Both sizes read 256 KB, so they are in bytes.
            let (before, after) = cut.sizes();
            assert!((262_134..=262_144).contains(&after));
            assert!(holds(cut.new, &format!("{before} B → {after} B")));
        }
    });
}

#[test]
fn a_limit_is_exceeded_only_by_more() {
    let results = [999, 1000, 1001, 1002]
        .map(|n| Res::text(&"é".repeat(n / 2).chars().chain("x".repeat(n % 2).chars()).collect::<String>()));
    Round::of(&turns(results.to_vec()).with_copies()).args(SMALL).run(|done| {
        done.found(2, true);
        let mut sizes: Vec<u64> = done.findings("response").iter().map(|f| f["size"].as_u64().unwrap()).collect();
        sizes.sort_unstable();
        assert_eq!(sizes, [1001, 1002]);
    });
}

#[test]
fn strings_and_blocks() {
    let text = |n| Part::Text(lit(&lines_of(n)));
    let one = vec![vec![Res::text(&lines_of(300_000)), Res::list(vec![text(300_000)]), Res::list(vec![text(20)])]];
    Round::of(&Session::new(one).with_copies()).run(|done| done.found(2, true));
    let several = Res::list(vec![text(100_000), text(200_000), text(40_000), text(20)]);
    let session = Session::new(vec![vec![several, Res::text("short")]]);
    Round::with(|agent| agent.lists.then(|| (agent.bytes(&session), Expect::Cut))).run(|done| {
        let each = 1 + done.agent.echoes;
        assert_eq!(done.file["findings"].as_array().unwrap().len(), each);
        // The first part and the last are as they were, the second is cut, and nothing is left of the third.
        assert_eq!(done.cuts.len(), 2 * each);
        for pair in done.cuts.chunks(2) {
            assert_eq!((pair[0].sizes().0, pair[1].sizes().0), (200_000, 40_000));
            assert_eq!(pair[1].new, lit(&marker(40_000, 0)).as_bytes());
            let delivered = 100_000 + pair[0].sizes().1 + pair[1].sizes().1 + 20;
            assert!((262_128..=262_144).contains(&delivered), "{delivered}");
            assert_eq!(done.file["findings"][0]["delivered"], delivered);
        }
    });
}

#[test]
fn an_image_among_blocks_stays_byte_for_byte() {
    let image = format!("iVBORw0KGgo{}", "AQIDBAUGBwgJ+/".repeat(30_000));
    let text = |n| Part::Text(lit(&lines_of(n)));
    let results = vec![
        Res::list(vec![text(300_000), Part::Image(image.clone())]),
        Res::list(vec![Part::Image(image.clone()), text(300_000)]),
        // Its charge alone puts it over.
        Res::list(vec![text(260_000), Part::Image(image.clone())]),
        Res::list(vec![Part::Image(image.clone()), text(100)]),
    ];
    Round::of(&turns(results)).run(|done| {
        done.found(3, false);
        let count = |bytes: &[u8]| memchr::memmem::find_iter(bytes, &image).count();
        assert_eq!(count(done.new), count(done.old));
        assert!(count(done.new) >= 4);
        for finding in done.findings("response") {
            assert!([304_800, 264_800].contains(&finding["size"].as_u64().unwrap()), "{finding}");
            assert!((262_128..=262_144).contains(&finding["delivered"].as_u64().unwrap()), "{finding}");
        }
    });
}

/// Our own marker in its forms, and what agents write where they cut.
const NOTICES: &[&str] = &[
    "... [truncated, 623 KB → 256 KB]",
    "... [truncated, 262145 B → 262144 B]",
    "... [truncated, 12 KB → 0 B]",
    "... [truncated]",
    "[1000 of 5000 lines kept; omitted 1001-5000; full text: /tmp/full.txt]",
    "<persisted-output>\nOutput too large (83.7KB). Full output saved to: /tmp/x\n\nPreview (first 2KB):\n</persisted-output>",
    "[Old tool result content cleared]",
    "Error: result (99999 characters) exceeds maximum allowed tokens. Output has been saved to /tmp/x",
    "... [12 lines truncated] ...",
    "... [345 characters truncated] ...",
    "... [678 bytes trimmed by cozempic] ...",
    "[Tool result missing due to internal error]",
    "…1234 chars truncated…",
    "…1234 tokens truncated…",
    "... 1234 bytes omitted ...",
    "Total output lines: 40000",
    "Warning: truncated output (original token count: 40000)",
    "[omitted 3 text items ...]",
    "[Showing lines 1782-2389 of 2389 (50.0KB limit). Full output: /tmp/pi-bash-0123456789abcdef.log]",
    "[3429 more lines in file. Use offset=150 to continue.]",
    "Output too large. Showing first 8,000 and last 32,000 characters. For full output see: /tmp/x",
    "... [123 characters omitted] ...",
    "[Message Normalized: Tool output exceeded size limit]",
    "<tool_output_masked>\n</tool_output_masked>",
    "Tool output was too large and has been truncated.\nThe full output has been saved to: /tmp/x",
    "...[truncated 99 chars]...",
    "[outdated - see the latest file content]",
    "[... 99 lines omitted ...]",
    "Prompt is too long",
    "prompt is too long: 1293623 tokens > 200000 maximum",
    "context_length_exceeded",
];

#[test]
fn size_alone_decides_and_no_text() {
    let mut results = Vec::new();
    for notice in NOTICES {
        // All of it, at the start, at the end: too small to be cut, then too large.
        results.extend(
            [(*notice).to_owned(), format!("{notice}\n{}", "x".repeat(500)), format!("{}\n{notice}", "x".repeat(500))]
                .map(|t| Res::text(&t)),
        );
        results.extend(
            [
                format!("{notice}\n{}", lines_of(1200)),
                format!("{}\n{notice}", "x".repeat(1200)),
                format!("{}\n{notice}\n", lines_of(990)),
            ]
            .map(|t| Res::text(&t)),
        );
    }
    let all = NOTICES.join("\n");
    results.push(Res::text(&all));
    assert!(all.len() > 1000);
    let over = NOTICES.len() * 3 + 1;
    Round::of(&turns(results).with_copies()).args(SMALL).run(|done| done.found(over, true));
}

#[test]
fn a_text_that_was_cut_before_keeps_its_first_size() {
    // 300,000 bytes of what once were 9.9 MB, as the marker at the end truly says.
    let text = format!("{}\n{}", "x".repeat(299_965), "... [truncated, 9.9 MB → 293 KB]");
    assert_eq!(text.len(), 300_000);
    let session = turns(vec![Res::text(&text)]);
    for agent in agents() {
        let sandbox = Sandbox::new();
        sandbox.put(agent.path, agent.bytes(&session));
        sandbox.expect(0, &["fix", ".", "--min-idle", "0"]);
        let new = std::fs::read(sandbox.tree().join(agent.path)).unwrap();
        assert!(holds(&new, "... [truncated, 9.9 MB → 256 KB]") && !holds(&new, "293 KB"), "{}", agent.label);
    }
}

#[test]
fn a_hundred_and_one_huge_lines_in_one_result() {
    let line = format!("{}\n", "0123456789".repeat(1000));
    Round::of(&turns(vec![Res::text(&line.repeat(101))]).with_copies()).run(|done| {
        done.found(1, true);
        for cut in &done.cuts {
            // It falls into a line.
            assert_eq!(cut.sizes().0, 1_010_101);
            assert!(cut.sizes().1 > 262_100);
        }
    });
}

#[test]
fn parallel_results_are_no_damage() {
    let turn = |n: usize| (0..n).map(|i| Res::text(&lines_of(1001 + i))).collect::<Vec<_>>();
    let session = Session::new(vec![turn(5), turn(1), turn(9), Vec::new(), turn(2)]).with_copies();
    Round::of(&session).args(SMALL).run(|done| {
        done.found(17, true);
        assert_eq!(done.file["notes"], Value::Array(Vec::new()));
        assert_eq!(done.file["sums"]["responses"], 17);
        assert_eq!(done.file["sums"]["batches"], 4);
        assert_eq!(done.file["sums"]["dead"], 0);
    });
}

#[test]
fn ten_large_results_under_one_message() {
    // Ten times the threshold is more than the ceiling, so the level is a tenth of that.
    let level = 2 * 1024 * 1024 / 10;
    let session = Session::new(vec![(0..10).map(|_| Res::text(&lines_of(300_000))).collect()]);
    Round::of(&session).run(|done| {
        done.found(10, false);
        for finding in done.file["findings"].as_array().unwrap() {
            assert_eq!((&finding["limit"], &finding["rule"]), (&Value::from(level), &Value::from("batch")));
            assert_eq!(finding["limit_source"], "default");
            let batch = &finding["batch"];
            assert_eq!((&batch["responses"], &batch["size"]), (&Value::from(10), &Value::from(3_000_000)));
            let delivered = finding["delivered"].as_u64().unwrap();
            assert!(delivered <= level && delivered + 16 > level, "{delivered}");
        }
    });
}

#[test]
fn thirty_middling_results_over_thirty_turns() {
    let session = turns((0..30).map(|_| Res::text(&lines_of(80 * 1024))).collect());
    Round::of(&session).expect(Expect::Clean).run(|done| {
        assert_eq!(done.old, done.new);
    });
    // Named, it is read whole, and what it comes to is said.
    let sandbox = Sandbox::new();
    let all = agents();
    for agent in &all {
        sandbox.put(agent.path, agent.bytes(&session));
    }
    let paths: Vec<&str> = all.iter().map(|agent| agent.path).collect();
    let report = sandbox.json(0, &[&["check"], &*paths].concat());
    let files = report["files"].as_array().unwrap();
    assert_eq!(files.len(), all.len());
    for file in files {
        assert_eq!(
            (&file["sums"]["live"], &file["sums"]["responses"]),
            (&Value::from(30 * 81_920), &Value::from(30)),
            "{file:#}"
        );
    }
    let ran = sandbox.expect(0, &["check", "-v", all[0].path]);
    assert!(ran.stdout.contains("2.3 MB to the assistant"), "{}", ran.stdout);
}
