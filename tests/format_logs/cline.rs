use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use unwedge::cap::limits::{Keep, Layer, Limit, Limits, Source, Unit};
use unwedge::format::{self, Look, Places, Times};

use crate::support::{broken, file, locate, located, repair, shown};

fn session(id: &str) -> String {
    format!(".cline/data/sessions/{id}/{id}.messages.json")
}

fn task(extension: &str, id: &str, name: &str) -> String {
    format!("{extension}/tasks/{id}/{name}")
}

#[track_caller]
fn check(case: &str, path: &str, expected: &[&str]) {
    let found = located("cline", case, path);
    assert_eq!(shown(&found), expected);
    assert_eq!(found.broken, []);
}

/// What the assistant asked is none of the result's; the JSON text of an MCP result is only text.
#[test]
fn clines_own_store() {
    check(
        "plain",
        &session("1796083950583_a1b2c"),
        &["2: call_0 run_commands batch 1 1640", "3: call_1 big__dump batch 1 1719"],
    );
}

#[test]
fn several_parts() {
    check(
        "parts",
        &session("1796083950584_parts"),
        &["1: call_0 look batch 1 1170+[182]+1170", "3: call_1 read_files batch 2 3510+[151]+0+12 error"],
    );
}

/// Results are user messages of their own; the ids say which belong together.
#[test]
fn batches_go_by_ids() {
    let path = session("1796083950585_batch");
    let found = located("cline", "batch", &path);
    assert_eq!(
        shown(&found),
        [
            "1: b y batch 1 1950",
            "2: a x batch 1 1560",
            "2: c z batch 1 117",
            "3: ? lost batch 2 390",
            "3: - - batch 2 78",
            "5: a again batch 3 390",
        ]
    );
    let (_, bytes) = file("cline", "batch", &path);
    assert_eq!(broken(&found, &bytes), ["85: element 3: a tool_result without a `tool_use_id`"]);
}

#[test]
fn a_task_and_its_screen() {
    let of = |name| task("Code/User/globalStorage/saoudrizwan.claude-dev", "1733000000001", name);
    check(
        "twin",
        &of("api_conversation_history.json"),
        &["2: toolu_0 use_mcp_tool batch 1 1640", "4: - execute_command batch 2 1666"],
    );
    check(
        "twin",
        &of("ui_messages.json"),
        &["1: - use_mcp_tool  | mcp_server_response.text 1640", "2: - execute_command  | command_output.text 1640"],
    );
}

/// Pasted headers, environment details, and what a person wrote are no results.
#[test]
fn results_as_text() {
    let of = |name| task("Code/User/globalStorage/saoudrizwan.claude-dev", "1733000000002", name);
    check(
        "results-as-text",
        &of("claude_messages.json"),
        &[
            "2: - read_file batch 1 1909",
            "4: - browser_action batch 2 1260+[174]",
            "6: - list_files batch 3 nothing",
            "11: - attempt_completion batch 5 1789",
        ],
    );
}

#[test]
fn what_roo_replaced_is_dead_as_long_as_the_summary_is_there() {
    check(
        "roo-condensed",
        &task("rooveterinaryinc.roo-cline", "0199aabb-0000-7000-8000-000000000001", "api_conversation_history.json"),
        &[
            "2: a read_file batch 1 1880 dead: replaced by a summary",
            "4: b read_file batch 2 1760",
            "6: c read_file batch 3 1880 dead: hidden by truncation",
            "11: d read_file batch 4 1680 ok",
        ],
    );
}

#[test]
fn hostile_text_is_text() {
    let result = "1: a e\u{202e}vil\n batch 1 1164";
    check("hostile", &session("1796083950586_hostile"), &[result, result]);
}

#[test]
fn a_document_that_is_none_is_broken_as_a_whole() {
    let path = session("1796083950587_torn");
    let (_, bytes) = file("cline", "broken-document", &path);
    let found = located("cline", "broken-document", &path);
    assert_eq!(
        broken(&found, &bytes),
        ["35 (whole): not JSON: the text ends inside a string: the agent takes the file for empty"]
    );
    check("broken-document", &session("1796083950588_whole"), &["1: a x batch 1 1640"]);
    for (bytes, what) in [
        (&b""[..], "the file is empty"),
        (b"\xef\xbb\xbf[]", "a byte order mark"),
        (b"[\0\0\0]", "not JSON: NUL bytes"),
        (b"{}", "expected an array of"),
        (b"[]x", "not JSON: more after the end"),
    ] {
        for path in ["/x/ui_messages.json", "/x/api_conversation_history.json"] {
            let found = locate("cline", path, bytes);
            let [broken] = &*found.broken else { panic!("{path}: {:?}", found.broken) };
            assert!(broken.whole && broken.what.starts_with(what), "{broken:?}");
        }
    }
}

#[test]
fn elements_that_are_none() {
    let path = task("rooveterinaryinc.roo-cline", "1733000000003", "api_conversation_history.json");
    let (_, bytes) = file("cline", "broken-messages", &path);
    let found = located("cline", "broken-messages", &path);
    assert_eq!(shown(&found), ["2: x - batch 1 nothing", "4: a x batch 2 1640"]);
    assert_eq!(
        broken(&found, &bytes),
        [
            "1: element 0 is not a message (an object)",
            "1: element 1 has no `role` or no `content`",
            "1: the `content` of a tool_result is neither text nor an array",
        ]
    );
}

#[test]
fn what_is_left_or_cut_anyway_is_noted() {
    let large = "x".repeat(300_000);
    let screen = format!(r#"[{{"ts":1,"type":"say","say":"tool","text":"{{\"content\":\"{large}\"}}"}}]"#);
    let found = locate("cline", "/x/ui_messages.json", screen.as_bytes());
    assert_eq!(found.responses, []);
    assert!(
        found.notes[0].text.starts_with("300020 bytes of this file are JSON inside of strings"),
        "{:?}",
        found.notes
    );
    let own = format!(
        r#"{{"messages":[{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"a","content":"{large}"}}]}}]}}"#
    );
    let found = locate("cline", "/x/1796083950583_a.messages.json", own.as_bytes());
    assert!(found.notes[0].text.starts_with("Cline sends at most 8,000 characters"), "{:?}", found.notes);
}

struct Disk(Vec<&'static str>);

impl Look for Disk {
    fn read(&self, _: &Path) -> Option<Vec<u8>> {
        None
    }
    fn list(&self, _: &Path) -> Vec<OsString> {
        Vec::new()
    }
    fn is_dir(&self, path: &Path) -> bool {
        self.0.iter().any(|f| Path::new(f).starts_with(path) && Path::new(f) != path)
    }
    fn is_file(&self, path: &Path) -> bool {
        self.0.iter().any(|f| Path::new(f) == path)
    }
    fn link(&self, _: &Path) -> Option<PathBuf> {
        None
    }
    fn modified(&self, _: &Path) -> Option<SystemTime> {
        None
    }
}

#[test]
fn naming_one_file_of_a_task_names_both() {
    let dir = "/home/dev/.config/Code/User/globalStorage/saoudrizwan.claude-dev/tasks/1733000000001";
    let disk = Disk(vec![
        "/home/dev/.config/Code/User/globalStorage/saoudrizwan.claude-dev/tasks/1733000000001/api_conversation_history.json",
        "/home/dev/.config/Code/User/globalStorage/saoudrizwan.claude-dev/tasks/1733000000001/ui_messages.json",
        "/home/dev/.cline/data/sessions/1796083950583_a1b2c/1796083950583_a1b2c.messages.json",
    ]);
    let places = Places { home: Some("/home/dev".into()), ..Places::default() };
    let cline = format::named("cline").unwrap();
    let both = [Path::new(dir).join("api_conversation_history.json"), Path::new(dir).join("ui_messages.json")];
    for path in &both {
        let etiquette = cline.conversation(path, &disk, &places);
        assert_eq!(etiquette.streams.iter().map(|s| &s.path).collect::<Vec<_>>(), both.iter().collect::<Vec<_>>());
        assert_eq!(etiquette.id.as_deref(), Some("1733000000001"));
        assert_eq!((etiquette.times, etiquette.appends, etiquette.lock), (Times::Keep, false, None));
    }
    let alone = cline.conversation(Path::new("/x/ui_messages.json"), &disk, &places);
    assert_eq!(alone.streams.len(), 1);
    assert_eq!(
        cline.known_places(&disk, &places),
        [Path::new("/home/dev/.cline/data/sessions"), Path::new(dir).parent().unwrap()]
    );
    assert_eq!(cline.resolve("1733000000001", &disk, &places), Some(vec![both[0].clone()]));
    assert_eq!(cline.resolve("1796083950583_a1b2c", &disk, &places).map(|p| p.len()), Some(1));
    assert_eq!(cline.resolve("1733000000009", &disk, &places), None);
    assert_eq!(cline.resolve("../../1733000000001", &disk, &places), None);
}

/// A result as text is one by its header: no cut takes that, whatever end is kept and however little.
#[test]
fn a_header_stays() {
    let command = "a \\\"b\\\" ".repeat(20);
    let lines: String = (0..60).map(|n| format!("line {n}\\n")).collect();
    let text = |argument: &str| format!("[execute_command for '{argument}'] Result:\\n{lines}");
    let (short, long) = (text("ls"), text(&command));
    let image = r#"{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}}"#;
    let doc = format!(
        r#"[{{"role":"assistant","content":"<execute_command>"}},
{{"role":"user","content":"{short}"}},
{{"role":"user","content":[{{"type":"text","text":"{short}"}},{image},{{"type":"text","text":"{long}"}}]}}]"#
    );
    let path = task("Code/User/globalStorage/saoudrizwan.claude-dev", "1733000000009", "api_conversation_history.json");
    let cline = format::named("cline").unwrap();
    for (keep, unit) in [Keep::Head, Keep::Tail, Keep::Both]
        .into_iter()
        .flat_map(|keep| [Unit::Bytes, Unit::Auto, Unit::Lines, Unit::Json, Unit::Diff].map(|unit| (keep, unit)))
    {
        for (threshold, ceiling) in [(64, 100_000), (200, 100_000), (400, 100_000), (100_000, 64), (100_000, 5_600)] {
            let mut layer = Layer::new(Source::SizeFlag);
            layer.thresholds.insert("*".into(), Limit::Bytes(threshold));
            layer.keeps.insert("*".into(), keep);
            layer.units.insert("*".into(), unit);
            layer.ceiling = Some(Limit::Bytes(ceiling));
            let new = repair(cline, Path::new(&path), doc.as_bytes(), &Limits::new(vec![layer]));
            let new = String::from_utf8(new).unwrap();
            assert_eq!(new.matches("[execute_command for 'ls'] Result:").count(), 2, "{new}");
            assert!(new.contains(&format!("[execute_command for '{command}'] Result:")), "{new}");
            assert!(new.len() < doc.len() - 500, "{keep:?} {unit:?} {threshold} {ceiling}: {new}");
        }
    }
}
