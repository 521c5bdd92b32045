use std::os::unix::ffi::OsStrExt;

use super::super::journal::{self, Content, Intent, Outcome, split_cut_id};
use super::super::vault::RunState;
use super::*;

fn content(text: &str) -> Content {
    Content { sha256: sha(text), len: text.len() as u64 }
}

fn intent(journal: &Journal, path: &Path) -> Intent {
    let info = IntentInfo {
        format: "test".into(),
        conversation: None,
        packed: false,
        cuts: vec![cut(), Cut { id: 2, ..cut() }],
    };
    journal.intent(path, info, content("old"), content("new"), true).unwrap()
}

fn file(root: &TempDir) -> PathBuf {
    let runs = root.path().join("runs");
    runs.join(&names(&runs)[0])
}

#[test]
fn a_run_reads_back_as_it_was_written() {
    let _alone = alone();
    let root = tempfile::tempdir().unwrap();
    let journal = Journal::start(root.path(), Kind::Undo, Some("20260101-000000-abcd".into()));
    assert_eq!((journal.run(), names(root.path()).len()), (None, 0));
    let odd = Path::new(std::ffi::OsStr::from_bytes(b"/tmp/\xff\"\n")).to_owned();
    let (first, second) = (intent(&journal, Path::new("/tmp/a")), intent(&journal, &odd));
    assert_eq!(second.cuts.iter().map(|c| c.id).collect::<Vec<_>>(), [1, 2], "as the caller numbers them");
    journal.done(1).unwrap();
    journal.dropped(2, "in use").unwrap();
    let id = journal.run().unwrap();
    let run = journal::read(root.path(), &id).unwrap();
    assert_eq!(run.state, RunState::Running);
    journal.end().unwrap();
    journal.end().unwrap();
    let run2 = journal::read(root.path(), &id).unwrap();
    assert_eq!(run2, Run { state: RunState::Done, ..run });
    assert_eq!((run2.kind, run2.undoes.as_deref()), (Kind::Undo, Some("20260101-000000-abcd")));
    assert_eq!(run2.version, env!("CARGO_PKG_VERSION"));
    assert_eq!(run2.documents, [(first, Outcome::Done), (second, Outcome::Dropped("in use".into()))]);
    assert_eq!(mode(&file(&root)), 0o600);
}

#[test]
fn the_lines_are_what_the_design_says() {
    let root = tempfile::tempdir().unwrap();
    let journal = Journal::start(root.path(), Kind::Fix, None);
    intent(&journal, Path::new(std::ffi::OsStr::from_bytes(b"/\xff")));
    journal.done(1).unwrap();
    journal.end().unwrap();
    let text = std::fs::read_to_string(file(&root)).unwrap();
    let lines: Vec<serde_json::Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(lines.iter().map(|l| l["type"].as_str().unwrap()).collect::<Vec<_>>(), ["run", "intent", "done", "end"]);
    assert_eq!((&lines[0]["kind"], &lines[0]["undoes"]), (&"fix".into(), &serde_json::Value::Null));
    assert_eq!(lines[1]["path"]["bytes_base64"], "L/8=");
    assert_eq!(lines[1]["old"]["sha256"], super::super::object::hex(&sha("old")));
    let cut = &lines[1]["cuts"][1];
    assert_eq!(
        (&cut["id"], &cut["encoding"], &cut["old"]["start"], &cut["new"]["end"]),
        (&2.into(), &"plain".into(), &14.into(), &21.into())
    );
    assert_eq!(lines[2]["document"], 1);
}

#[test]
fn a_torn_or_strange_line_is_passed_over() {
    let _alone = alone();
    let root = tempfile::tempdir().unwrap();
    let journal = Journal::start(root.path(), Kind::Fix, None);
    intent(&journal, Path::new("/a"));
    intent(&journal, Path::new("/b"));
    journal.done(1).unwrap();
    let id = journal.run().unwrap();
    drop(journal);
    let path = file(&root);
    let whole = std::fs::read_to_string(&path).unwrap();
    for torn in [
        "{\"type\":\"done\",\"docu",
        "{\"type\":\"later\",\"x\":1}\n",
        "null\n",
        "\u{0}\u{0}\n",
        "{\"type\":\"done\",\"document\":9}\n",
    ] {
        std::fs::write(&path, format!("{whole}{torn}")).unwrap();
        let run = journal::read(root.path(), &id).unwrap();
        assert_eq!(run.state, RunState::Interrupted);
        assert_eq!(run.documents.iter().map(|(_, o)| o).collect::<Vec<_>>(), [&Outcome::Done, &Outcome::Pending]);
    }
    // Fields that a later version adds.
    let more = whole
        .replace("\"type\":\"done\"", "\"type\":\"done\",\"more\":[1]")
        .replace("\"kind\":", "\"more\":{},\"kind\":");
    std::fs::write(&path, more.replace("\"call_id\":", "\"more\":0,\"call_id\":")).unwrap();
    assert_eq!(journal::read(root.path(), &id).unwrap().documents.len(), 2);
    // Any cut of the file is a run that got less far, or none.
    for len in 0..whole.len() {
        std::fs::write(&path, &whole[..len]).unwrap();
        match journal::read(root.path(), &id) {
            Ok(run) => assert!(run.documents.len() <= 2 && run.state == RunState::Interrupted),
            Err(e) => assert!(matches!(e, Error::Unknown(_))),
        }
    }
}

#[test]
fn an_unsettled_document_leaves_the_run_open() {
    let _alone = alone();
    let root = tempfile::tempdir().unwrap();
    let journal = Journal::start(root.path(), Kind::Fix, None);
    intent(&journal, Path::new("/a"));
    journal.end().unwrap();
    assert_eq!(journal::runs(root.path()).unwrap()[0].state, RunState::Interrupted);
    assert!(journal.done(1).is_err());
}

#[test]
fn nothing_to_note_makes_no_file() {
    let root = tempfile::tempdir().unwrap();
    let journal = Journal::start(&root.path().join("state"), Kind::Fix, None);
    assert!(matches!(journal.done(1), Err(Error::Unknown(_))));
    journal.end().unwrap();
    assert!(journal::runs(&root.path().join("state")).unwrap().is_empty());
    assert!(names(root.path()).is_empty());
}

#[test]
fn runs_that_are_not_there() {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join("runs")).unwrap();
    std::fs::write(root.path().join("secret.jsonl"), "").unwrap();
    for run in ["", "../secret", "20260101-000000-abcd", "a/b", "\u{0}"] {
        assert!(matches!(journal::read(root.path(), run), Err(Error::Unknown(_))), "{run}");
    }
}

#[test]
fn ids_of_runs_and_cuts() {
    let root = tempfile::tempdir().unwrap();
    let runs: Vec<_> = (0..20)
        .map(|_| {
            let journal = Journal::start(root.path(), Kind::Fix, None);
            intent(&journal, Path::new("/a"));
            journal.run().unwrap()
        })
        .collect();
    assert_eq!(runs.iter().collect::<std::collections::BTreeSet<_>>().len(), 20);
    let (date, rest) = runs[0].split_once('-').unwrap();
    let (time, chance) = rest.split_once('-').unwrap();
    assert_eq!((date.len(), time.len(), chance.len()), (8, 6, 4));
    assert_eq!(journal::runs(root.path()).unwrap().into_iter().map(|r| r.run).collect::<Vec<_>>(), runs);
    assert_eq!(split_cut_id(&format!("{}-12", runs[0])), Some((runs[0].as_str(), 12)));
    for not in [runs[0].as_str(), "", "12", "20260101-000000-abcd-", "20260101-000000-abcd-x"] {
        assert_eq!(split_cut_id(not), None, "{not}");
    }
}
