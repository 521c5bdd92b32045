//! What happens to a conversation between its audit and its repair.

use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use unwedge::cap::limits::Limits;
use unwedge::conversation::{Repair, read_document};
use unwedge::error::Error;
use unwedge::event::{Event, Status};
use unwedge::format::Places;
use unwedge::repair::{Hunks, Options};
use unwedge::scan::{self, Request};
use unwedge::store::journal::{Journal, Kind};
use unwedge::store::vault::Vault;
use unwedge::store::{self, FileStore};

use crate::jp::{config, stream};
use crate::sandbox::{Sandbox, snapshot};

/// Audits a wedged conversation, lets something happen to it, repairs it. Returns what became of it, and the errors.
fn between(happen: impl Fn(&Path)) -> (Sandbox, Status, Vec<Error>) {
    let sandbox = Sandbox::new();
    let path = sandbox.put("conversations/17712345001/events.json", stream(&"x".repeat(300_000), 0));
    sandbox.put("conversations/17712345001/base_config.json", config());
    let limits = |_: &Path| Ok(Limits::default());
    let stop = AtomicBool::new(false);
    let options = Options {
        limits: &limits,
        places: Places::default(),
        jobs: 1,
        live_only: false,
        unwedge: unwedge::edits::Unwedge::Never,
        thorough: false,
        max_record: u64::MAX,
        min_idle: Duration::ZERO,
        vault: sandbox.path("state"),
        vault_named: false,
        no_backup: false,
        spill: None,
        break_hardlinks: false,
        hunks: Hunks::None,
        stop: &stop,
    };
    let request = Request { named: vec![sandbox.tree()], ..Request::default() };
    let found = scan::scan(&request, &options.places, &limits).unwrap();
    let conversation = &found.conversations[0];
    let drafts: Vec<_> = conversation.documents.iter().map(|d| read_document(conversation, d, &options)).collect();
    assert!(drafts.iter().all(|d| d.as_ref().is_ok_and(|d| d.changes() == 1)));
    happen(&path);
    let journal = Journal::start(&options.vault, Kind::Fix, None);
    let store = FileStore::new(Vault::new(&options.vault), journal, store::Options::default());
    let events = Repair { conversation, options: &options, store: Some(&store), writes: true, number: 1 }.run(drafts);
    assert!(store.finish().errors.is_empty());
    let mut status = None;
    let mut errors = Vec::new();
    for event in events {
        match event {
            Event::File(report) => status = Some(report.status),
            Event::Trouble(e) => errors.push(e),
            _ => {}
        }
    }
    (sandbox, status.unwrap(), errors)
}

#[test]
fn it_vanishes() {
    let (sandbox, status, errors) = between(|path| fs::remove_file(path).unwrap());
    assert_eq!(status, Status::Failed);
    assert!(
        matches!(&*errors, [Error::Changed { path, what: "vanished" }] if path.ends_with("17712345001/events.json")),
        "{errors:?}"
    );
    assert_eq!(snapshot(&sandbox.tree()).len(), 1, "nothing is left in its place");
    assert!(sandbox.backups().is_empty());
}

#[test]
fn it_is_mended_by_somebody_else() {
    let now = stream("short", 2);
    let (sandbox, status, errors) = between(|path| fs::write(path, &now).unwrap());
    assert_eq!(status, Status::Failed);
    assert!(matches!(&*errors, [Error::Changed { what: "changed", .. }]), "{errors:?}");
    assert_eq!(fs::read(sandbox.tree().join("conversations/17712345001/events.json")).unwrap(), now);
    assert!(sandbox.backups().is_empty());
}

#[test]
fn it_is_torn() {
    let whole = stream(&"x".repeat(300_000), 0);
    let (sandbox, status, errors) = between(|path| fs::write(path, &whole[..5000]).unwrap());
    assert_eq!(status, Status::Failed);
    assert!(matches!(&*errors, [Error::Broken { .. }]), "{errors:?}");
    assert_eq!(fs::read(sandbox.tree().join("conversations/17712345001/events.json")).unwrap(), &whole[..5000]);
}

/// What came in between is kept: the repair is of what is there now.
#[test]
fn it_goes_on() {
    let text = "x".repeat(300_000);
    let (sandbox, status, errors) = between(|path| fs::write(path, stream(&text, 2)).unwrap());
    assert!(errors.is_empty(), "{errors:?}");
    assert_eq!(status, Status::Repaired);
    let now = fs::read_to_string(sandbox.tree().join("conversations/17712345001/events.json")).unwrap();
    assert!(now.len() < 400_000 && now.contains("turn 1"));
    assert_eq!(fs::read(sandbox.path("state").join(&sandbox.backups()[0])).unwrap(), stream(&text, 2));
}
