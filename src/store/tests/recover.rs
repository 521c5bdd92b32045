use super::super::journal::{Content, Outcome};
use super::super::vault::RunState;
use super::*;

fn recover(root: &Path) -> Result<Vec<String>> {
    super::super::recover::recover(root).map(|found| found.said)
}

fn content(text: &str) -> Content {
    Content { sha256: sha(text), len: text.len() as u64 }
}

/// A run that was killed with a document in this state, and this under its draft's name.
struct Killed {
    bench: Bench,
    _alone: Alone,
    draft: PathBuf,
}

impl Killed {
    fn new(target: Option<&str>, draft: Option<&str>, backup: bool) -> Self {
        // A child of another test would hold the run's lock for a moment longer.
        let _alone = alone();
        let bench = Bench::new();
        if backup {
            bench.vault().put(&Source::open(&bench.doc).unwrap(), None).unwrap();
        }
        let journal = Journal::start(&bench.state(), Kind::Fix, None);
        let info = IntentInfo { cuts: vec![cut()], ..IntentInfo::default() };
        let path = bench.doc.canonicalize().unwrap();
        let intent = journal.intent(&path, info, content(OLD), content(NEW), backup).unwrap();
        let draft_path = path.with_file_name(&intent.draft);
        match target {
            Some(text) => std::fs::write(&bench.doc, text).unwrap(),
            None => std::fs::remove_file(&bench.doc).unwrap(),
        }
        if let Some(text) = draft {
            std::fs::write(&draft_path, text).unwrap();
        }
        Killed { bench, _alone, draft: draft_path }
    }

    /// Recovers, and expects these words in the one sentence.
    #[track_caller]
    fn recovers(&self, words: &[&str], done: bool, left: bool) {
        assert_eq!(self.bench.run().state, RunState::Interrupted);
        let said = recover(&self.bench.state()).unwrap();
        assert_eq!(said.len(), 1, "{said:?}");
        for word in words.iter().chain(&["doc.jsonl: "]) {
            assert!(said[0].contains(word), "{said:?}");
        }
        assert_eq!(self.draft.symlink_metadata().is_ok(), left, "{said:?}");
        let run = self.bench.run();
        assert_eq!(run.state, RunState::Done);
        assert_eq!(run.documents[0].1 == Outcome::Done, done, "{said:?}");
        assert_ne!(run.documents[0].1, Outcome::Pending);
        // Once is enough.
        assert_eq!(recover(&self.bench.state()).unwrap(), Vec::<String>::new());
    }
}

fn grown(text: &str) -> String {
    format!("{text}{LATE}")
}

#[test]
fn every_moment_of_a_kill() {
    let half = &NEW[..20];
    // Before the draft, while it is written, before the exchange, after an exchange that was undone.
    Killed::new(Some(OLD), None, true).recovers(&["the old one, whole"], false, false);
    Killed::new(Some(OLD), Some(""), true).recovers(&["the old one, whole", "removed"], false, false);
    Killed::new(Some(OLD), Some(half), true).recovers(&["the old one, whole", "removed"], false, false);
    Killed::new(Some(OLD), Some(NEW), true).recovers(&["the old one, whole", "removed"], false, false);
    // After the exchange, and after the old file's name has gone.
    Killed::new(Some(NEW), Some(OLD), true).recovers(&["the new one, whole", "removed"], true, false);
    Killed::new(Some(NEW), None, true).recovers(&["the new one, whole"], true, false);
    // The agent has gone on since.
    Killed::new(Some(&grown(OLD)), Some(half), true).recovers(&["the old one, grown since", "removed"], false, false);
    Killed::new(Some(&grown(NEW)), Some(OLD), true).recovers(&["the new one, grown since", "removed"], true, false);
    Killed::new(Some(&grown(NEW)), None, true).recovers(&["the new one, grown since"], true, false);
}

#[test]
fn without_a_backup_as_long_as_the_document_is_whole() {
    Killed::new(Some(OLD), Some(NEW), false).recovers(&["the old one, whole", "removed"], false, false);
    Killed::new(Some(NEW), Some(OLD), false).recovers(&["the new one, whole", "removed"], true, false);
    Killed::new(Some("other"), Some(NEW), false).recovers(&["neither", "removed"], false, false);
    Killed::new(Some("other"), Some(OLD), false).recovers(&["neither", "was left: there is no other copy"], true, true);
    Killed::new(None, Some(OLD), false).recovers(&["gone", "was left: there is no other copy"], true, true);
    Killed::new(None, Some(NEW), false).recovers(&["gone", "was left: there is no other copy"], false, true);
}

#[test]
fn what_the_agent_has_replaced_or_removed_since() {
    Killed::new(Some("other"), None, true).recovers(&["neither the old one nor the new one"], true, false);
    Killed::new(Some("other"), Some(OLD), true).recovers(&["neither", "removed"], true, false);
    Killed::new(Some("other"), Some(NEW), true).recovers(&["neither", "removed"], false, false);
    Killed::new(Some("other"), Some("strange"), true).recovers(&["neither", "was left"], true, true);
    Killed::new(Some(NEW), Some("strange"), true).recovers(&["the new one", "was left"], true, true);
    Killed::new(None, None, true).recovers(&["gone"], true, false);
    Killed::new(None, Some(OLD), true).recovers(&["gone", "removed"], true, false);
    Killed::new(None, Some(NEW), true).recovers(&["gone", "removed"], false, false);
}

#[test]
fn late_lines_are_never_thrown_away() {
    let lost = &["was left: it has lines that are not in the document"];
    Killed::new(Some(NEW), Some(&grown(OLD)), true).recovers(lost, true, true);
    Killed::new(Some(OLD), Some(&grown(NEW)), true).recovers(lost, false, true);
    Killed::new(None, Some(&grown(OLD)), true).recovers(lost, true, true);
    // They had been carried over already.
    Killed::new(Some(&grown(NEW)), Some(&grown(OLD)), true).recovers(&["removed"], true, false);
    let more = format!("{}{{\"n\":4}}\n", grown(OLD));
    Killed::new(Some(&more), Some(&grown(NEW)), true).recovers(&["removed"], false, false);
}

#[test]
fn a_damaged_backup_is_no_copy() {
    let killed = Killed::new(Some("other"), Some(OLD), true);
    std::fs::write(killed.bench.vault().path_of(&sha(OLD)), "damaged").unwrap();
    killed.recovers(&["was left: there is no other copy"], true, true);
}

#[test]
fn only_a_file_of_ours_is_removed() {
    let killed = Killed::new(Some(OLD), None, true);
    std::os::unix::fs::symlink(&killed.bench.doc, &killed.draft).unwrap();
    killed.recovers(&["was left: it is a symbolic link"], false, true);
    // A journal that was tampered with names somebody else's file.
    let killed = Killed::new(Some(OLD), None, true);
    let other = killed.bench.doc.with_file_name("other");
    std::fs::write(&other, OLD).unwrap();
    let runs = killed.bench.state().join("runs");
    let path = runs.join(&names(&runs)[0]);
    let text = std::fs::read_to_string(&path).unwrap();
    let name = killed.draft.file_name().unwrap().to_str().unwrap();
    std::fs::write(&path, text.replace(name, "other")).unwrap();
    killed.recovers(&["the old one, whole"], false, false);
    assert!(other.exists());
    let killed = Killed::new(Some(OLD), None, true);
    let runs = killed.bench.state().join("runs");
    let path = runs.join(&names(&runs)[0]);
    let text = std::fs::read_to_string(&path).unwrap();
    let name = killed.draft.file_name().unwrap().to_str().unwrap();
    let outside = killed.bench.root.path().join(".unwedge-x");
    std::fs::write(&outside, OLD).unwrap();
    std::fs::write(&path, text.replace(name, ".unwedge-/../../.unwedge-x")).unwrap();
    killed.recovers(&["the old one, whole"], false, false);
    assert!(outside.exists());
    // The document's place is taken by something else.
    let killed = Killed::new(None, Some(OLD), true);
    std::os::unix::fs::symlink("/etc/passwd", &killed.bench.doc).unwrap();
    killed.recovers(&["gone", "removed"], true, false);
}

#[test]
fn a_living_run_is_left_alone() {
    let _alone = alone();
    let bench = Bench::new();
    let journal = Journal::start(&bench.state(), Kind::Fix, None);
    let intent = journal
        .intent(&bench.doc.canonicalize().unwrap(), IntentInfo::default(), content(OLD), content(NEW), false)
        .unwrap();
    std::fs::write(bench.doc.with_file_name(&intent.draft), NEW).unwrap();
    assert_eq!(recover(&bench.state()).unwrap(), Vec::<String>::new());
    assert_eq!(bench.beside().len(), 2);
    drop(journal);
    assert_eq!(recover(&bench.state()).unwrap().len(), 1);
    bench.is(OLD);
}

#[test]
fn torn_journals() {
    let _alone = alone();
    // The kill tore the announcement: nothing was begun.
    let killed = Killed::new(Some(OLD), None, true);
    let runs = killed.bench.state().join("runs");
    let path = runs.join(&names(&runs)[0]);
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, &text[..text.len() - 30]).unwrap();
    assert_eq!(recover(&killed.bench.state()).unwrap(), Vec::<String>::new());
    assert_eq!((killed.bench.run().state, killed.bench.run().documents.len()), (RunState::Done, 0));
    // It tore a later line: what is added is not glued to it.
    let killed = Killed::new(Some(NEW), Some(OLD), true);
    let runs = killed.bench.state().join("runs");
    append(&runs.join(&names(&runs)[0]), "{\"type\":\"do");
    killed.recovers(&["the new one, whole"], true, false);
    // It tore the first: the file is as good as none.
    std::fs::write(runs.join("20260101-000000-abcd.jsonl"), "{\"type\":\"run\"").unwrap();
    std::fs::write(runs.join("20260101-000000-abce.jsonl"), "").unwrap();
    std::fs::write(runs.join("notes.txt"), "").unwrap();
    assert_eq!(recover(&killed.bench.state()).unwrap(), Vec::<String>::new());
    assert_eq!(names(&runs).len(), 2);
}

#[test]
fn no_vault_no_trouble() {
    let root = tempfile::tempdir().unwrap();
    assert_eq!(recover(&root.path().join("state")).unwrap(), Vec::<String>::new());
    assert!(names(root.path()).is_empty());
}
