//! What the README says of the program is what the program says. `UNWEDGE_BLESS=1` writes it anew.

use std::fs;
use std::path::{Path, PathBuf};

use crate::sandbox::{Sandbox, copy, testdata};
use crate::window::wedged_session;

fn readme() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")
}

/// Holds the text between two marks of the README to what it must be.
#[track_caller]
fn section(name: &str, expected: &str) {
    let text = fs::read_to_string(readme()).unwrap();
    let (from, to) = (format!("<!-- {name} -->\n"), format!("<!-- /{name} -->"));
    let start = text.find(&from).unwrap_or_else(|| panic!("README.md has no {from}")) + from.len();
    let end = start + text[start..].find(&to).unwrap_or_else(|| panic!("README.md has no {to}"));
    if std::env::var_os("UNWEDGE_BLESS").is_some() {
        return fs::write(readme(), format!("{}{expected}{}", &text[..start], &text[end..])).unwrap();
    }
    assert_eq!(&text[start..end], expected, "README.md, {name}");
}

/// One after the other: both write the same file where they bless.
#[test]
fn readme_is_what_the_program_says() {
    let mut table =
        String::from("| `--format` | agent | where | what is read | what is written |\n|---|---|---|---|---|\n");
    for format in unwedge::format::FORMATS {
        let about = format.about();
        table +=
            &format!("| {} | {} | {} | {} | {} |\n", about.name, about.agent, about.places, about.reads, about.writes);
    }
    section("formats", &table);

    let sandbox = Sandbox::new();
    copy(&testdata().join("jp/wedged/before"), &sandbox.tree());
    let check = sandbox.expect(1, &["check", ".jp"]).stdout;
    let fix = sandbox.expect(0, &["fix", ".jp"]).stdout;
    let shown = |text: &str| {
        let text = text.replace(sandbox.path("state").to_str().unwrap(), "/home/you/.local/state");
        // A run's id is made of its time.
        let run = text.find("undo 20").map_or("", |at| &text[at + 5..at + 25]);
        if run.is_empty() { text } else { text.replace(run, "20261201-093000-5a1e") }
    };
    let sample = format!("```console\n$ unwedge .jp\n{}$ unwedge fix .jp\n{}```\n", shown(&check), shown(&fix));
    section("sample", &sample);

    let sandbox = Sandbox::new();
    sandbox.put("session.jsonl", wedged_session());
    let check = sandbox.expect(1, &["check", "session.jsonl"]).stdout;
    let fixed =
        sandbox.expect(0, &["fix", "--min-idle", "0", "--diff", "none", "--window", "200k", "session.jsonl"]).stdout;
    let summary: String =
        fixed.lines().filter(|l| l.starts_with("session.jsonl: the next")).map(|l| format!("{l}\n")).collect();
    let again = sandbox.expect(0, &["check", "session.jsonl"]).stdout;
    section(
        "wedged",
        &format!(
            "```console\n$ unwedge session.jsonl\n{check}$ unwedge fix --window 200k session.jsonl\n…\n{summary}…\n$ unwedge session.jsonl\n{again}```\n"
        ),
    );
}

#[test]
fn architecture_stays_short() {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("ARCHITECTURE.md")).unwrap();
    assert!(text.lines().count() <= 120);
    // Every module it names is there.
    for line in text.lines().filter(|l| l.starts_with("      ")) {
        for name in line.split_whitespace().take_while(|w| w.ends_with(".rs") || w.ends_with('/')) {
            let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
            let found = walkdir::WalkDir::new(&src)
                .into_iter()
                .map(Result::unwrap)
                .any(|e| e.path().ends_with(name.trim_end_matches('/')));
            assert!(found, "ARCHITECTURE.md names {name}");
        }
    }
}
