use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use super::super::journal;
use super::super::vault::{Prune, RunState};
use super::*;

/// One repair of a document with these bytes, as a run of its own.
fn run(bench: &Bench, name: &str, text: &str) -> String {
    let doc = bench.doc.with_file_name(name);
    {
        let _alone = alone();
        std::fs::write(&doc, text).unwrap();
    }
    let store = bench.store(Options::default());
    let source = Source::open(&doc).unwrap();
    let splices = Splices::new(vec![Splice { range: 0..1, new: b"[".to_vec() }]).unwrap();
    let done = store.commit(change(&source, &splices)).unwrap();
    assert!(store.finish().errors.is_empty());
    // Runs are told apart by their times.
    std::thread::sleep(Duration::from_millis(2));
    done.run.unwrap()
}

fn objects(bench: &Bench) -> Vec<PathBuf> {
    let root = bench.state().join("objects");
    names(&root)
        .into_iter()
        .flat_map(|shard| names(&root.join(&shard)).into_iter().map(move |n| PathBuf::from(&shard).join(n)))
        .map(|name| root.join(name))
        .collect()
}

fn ids(bench: &Bench) -> Vec<String> {
    bench.vault().list().unwrap().into_iter().map(|run| run.run).collect()
}

#[test]
fn the_same_bytes_are_kept_once() {
    let bench = Bench::new();
    let source = Source::open(&bench.doc).unwrap();
    let vault = bench.vault();
    let first = vault.put(&source, None).unwrap();
    let before = std::fs::metadata(&first.path).unwrap().modified().unwrap();
    assert_eq!(vault.put(&source, None).unwrap(), first);
    assert_eq!(vault.put(&source, Some(sha(OLD))).unwrap(), first);
    assert_eq!(std::fs::metadata(&first.path).unwrap().modified().unwrap(), before);
    assert_eq!((objects(&bench), first.len), (vec![first.path.clone()], OLD.len() as u64));
    assert_eq!(names(&bench.state().join("objects")).len(), 1);
    let mut text = String::new();
    vault.open(&first.sha256).unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, OLD);
    // An independent copy.
    append(&bench.doc, LATE);
    assert_eq!(std::fs::read_to_string(&first.path).unwrap(), OLD);
    // The document has grown since it was opened: what was measured is still there, other bytes are not.
    assert_eq!(vault.put(&source, Some(sha(OLD))).unwrap(), first);
    std::fs::write(&bench.doc, "short").unwrap();
    assert_changed(vault.put(&source, Some(sha(OLD))), "changed");
    assert_changed(vault.put(&source, Some(sha("other"))), "changed");
    assert_changed(vault.put(&source, None), "changed");
    assert_eq!(names(&bench.state().join("objects")).len(), 1);
}

#[test]
fn a_damaged_object_is_found_and_replaced_by_a_sound_one() {
    let bench = Bench::new();
    let source = Source::open(&bench.doc).unwrap();
    let vault = bench.vault();
    let object = vault.put(&source, None).unwrap();
    std::fs::write(&object.path, OLD.replace("long", "lone")).unwrap();
    let error = vault.open(&object.sha256).unwrap_err();
    assert!(
        matches!(&error, Error::Backup { path, what } if *path == object.path && what.contains("damaged")),
        "{error}"
    );
    assert_eq!(vault.put(&source, Some(object.sha256)).unwrap(), object);
    assert_eq!(std::fs::read_to_string(&object.path).unwrap(), OLD);
    vault.open(&object.sha256).unwrap();
    std::fs::remove_file(&object.path).unwrap();
    let error = vault.open(&object.sha256).unwrap_err();
    assert!(matches!(&error, Error::Backup { what, .. } if what.contains("missing")), "{error}");
}

#[test]
fn what_others_could_read_is_closed() {
    let bench = Bench::new();
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::create_dir_all(bench.state().join("objects")).unwrap();
    std::fs::set_permissions(bench.state(), open.clone()).unwrap();
    std::fs::set_permissions(bench.state().join("objects"), open.clone()).unwrap();
    run(&bench, "a", OLD);
    assert_eq!((mode(&bench.state()), mode(&bench.state().join("objects"))), (0o700, 0o700));
    // A directory that has other things in it stays as it is. What is ours in it is closed.
    let bench = Bench::new();
    std::fs::create_dir_all(bench.state().join("others")).unwrap();
    std::fs::set_permissions(bench.state(), open).unwrap();
    run(&bench, "a", OLD);
    assert_eq!(mode(&bench.state()), 0o755);
    assert_eq!((mode(&bench.state().join("objects")), mode(&bench.state().join("runs"))), (0o700, 0o700));
}

#[test]
fn an_empty_vault_is_no_trouble() {
    let bench = Bench::new();
    assert!(bench.vault().list().unwrap().is_empty());
    assert_eq!(bench.vault().verify().unwrap(), Default::default());
    assert_eq!(bench.vault().prune(&Prune { keep: Some(0), ..Prune::default() }, false).unwrap(), Default::default());
    assert!(!bench.state().exists());
}

#[test]
fn runs_are_listed_oldest_first() {
    let _alone = alone();
    let bench = Bench::new();
    let (a, b) = (run(&bench, "a", "{a}\n"), run(&bench, "b", "{b}\n"));
    let store =
        FileStore::new(bench.vault(), Journal::start(&bench.state(), Kind::Undo, Some(a.clone())), Options::default());
    let c = commit(&store, &bench.doc).unwrap().run.unwrap();
    let list = bench.vault().list().unwrap();
    assert_eq!(list.iter().map(|r| &r.run).collect::<Vec<_>>(), [&a, &b, &c]);
    assert_eq!(list.iter().map(|r| r.state).collect::<Vec<_>>(), [RunState::Done, RunState::Done, RunState::Running]);
    assert_eq!((list[0].kind.as_str(), list[2].kind.as_str(), list[2].undoes.as_ref()), ("fix", "undo", Some(&a)));
    humantime::parse_rfc3339(&list[0].time).unwrap();
    let document = &list[2].documents[0];
    assert_eq!((document.bytes, document.cuts, document.done), (OLD.len() as u64, 1, true));
    assert_eq!(document.backup.as_deref(), Some(bench.vault().path_of(&sha(OLD)).as_path()));
    std::fs::remove_file(bench.vault().path_of(&sha(OLD))).unwrap();
    assert_eq!(bench.vault().list().unwrap()[2].documents[0].backup, None);
}

#[test]
fn verify_checks_objects_and_runs() {
    let _alone = alone();
    let bench = Bench::new();
    let (a, b, c) = (run(&bench, "a", "{a}\n"), run(&bench, "b", "{b}\n"), run(&bench, "c", "{a}\n"));
    let found = bench.vault().verify().unwrap();
    assert_eq!((found.sound, found.bytes), (2, 8));
    assert!(found.damaged.is_empty() && found.recovered.is_empty());
    let (first, second) = (bench.vault().path_of(&sha("{a}\n")), bench.vault().path_of(&sha("{b}\n")));
    std::fs::write(&first, "{z}\n").unwrap();
    std::fs::remove_file(&second).unwrap();
    let mut found = bench.vault().verify().unwrap();
    found.damaged.sort_by_key(|d| d.0 == second);
    assert_eq!(found.sound, 0);
    let [(path, what, runs), (path2, what2, runs2)] = &found.damaged[..] else { panic!("{found:?}") };
    assert_eq!((path, runs), (&first, &vec![a, c]));
    assert!(what.contains("damaged"), "{what}");
    assert_eq!((path2, what2.as_str(), runs2), (&second, "the backup is missing", &vec![b]));
}

#[test]
fn a_killed_runs_half_backup_is_swept_and_a_living_ones_is_not() {
    let _alone = alone();
    let bench = Bench::new();
    run(&bench, "a", OLD);
    let objects = bench.state().join("objects");
    let (dead, alive) = (objects.join(".part-dead"), objects.join(".part-alive"));
    std::fs::write(&dead, "half").unwrap();
    std::fs::write(&alive, "half").unwrap();
    std::fs::write(objects.join("not-ours"), "").unwrap();
    let held = std::fs::File::open(&alive).unwrap();
    assert!(super::super::sys::flock(&held, super::super::sys::Flock::TryExclusive).unwrap());
    let recovered = bench.vault().verify().unwrap().recovered;
    assert_eq!(recovered.len(), 1);
    assert!(recovered[0].contains(".part-dead"), "{recovered:?}");
    assert!(!dead.exists() && alive.exists() && objects.join("not-ours").exists());
}

#[test]
fn prune_keeps_the_newest() {
    let _alone = alone();
    let bench = Bench::new();
    let a = run(&bench, "a", "{a}\n");
    let b = run(&bench, "b", "{b}\n");
    let c = run(&bench, "c", "{a}\n");
    let keep = |keep| Prune { keep: Some(keep), ..Prune::default() };
    let vault = bench.vault();
    // Nothing is asked for.
    assert_eq!(vault.prune(&Prune::default(), false).unwrap(), Default::default());
    // Run a's object is run c's too.
    let dry = vault.prune(&keep(1), true).unwrap();
    assert_eq!((dry.runs.clone(), dry.objects, dry.bytes), (vec![a.clone(), b.clone()], 1, 4));
    assert_eq!((ids(&bench).len(), objects(&bench).len()), (3, 2));
    assert_eq!(vault.prune(&keep(1), false).unwrap(), dry);
    assert_eq!((ids(&bench), objects(&bench)), (vec![c], vec![vault.path_of(&sha("{a}\n"))]));
    assert!(vault.verify().unwrap().damaged.is_empty());
    assert_eq!(vault.prune(&keep(0), false).unwrap().runs.len(), 1);
    assert!(ids(&bench).is_empty() && objects(&bench).is_empty());
}

/// Makes a run as old as this.
fn age(bench: &Bench, run: &str, days: u64) {
    let path = bench.state().join("runs").join(format!("{run}.jsonl"));
    let text = std::fs::read_to_string(&path).unwrap();
    let time = bench.vault().list().unwrap().into_iter().find(|r| r.run == run).unwrap().time;
    let then = std::time::SystemTime::now() - Duration::from_secs(days * 86_400);
    std::fs::write(&path, text.replace(&time, &humantime::format_rfc3339_micros(then).to_string())).unwrap();
}

#[test]
fn prune_by_age_and_by_size() {
    let _alone = alone();
    let bench = Bench::new();
    let a = run(&bench, "a", "{a}\n");
    let b = run(&bench, "b", &format!("{{{}}}\n", "b".repeat(100)));
    let c = run(&bench, "c", "{c}\n");
    age(&bench, &a, 40);
    age(&bench, &b, 20);
    let vault = bench.vault();
    let days = |days: u64| Some(Duration::from_secs(days * 86_400));
    let prune = |what: &Prune| vault.prune(what, true).unwrap().runs;
    assert!(prune(&Prune { older_than: days(50), ..Prune::default() }).is_empty());
    assert_eq!(prune(&Prune { older_than: days(30), ..Prune::default() }), std::slice::from_ref(&a));
    // Every condition must allow a run to stay.
    assert_eq!(prune(&Prune { older_than: days(30), keep: Some(1), ..Prune::default() }), [a.clone(), b.clone()]);
    assert_eq!(prune(&Prune { older_than: days(10), keep: Some(3), ..Prune::default() }), [a.clone(), b.clone()]);
    assert!(prune(&Prune { max_size: Some(111), ..Prune::default() }).is_empty());
    assert_eq!(prune(&Prune { max_size: Some(110), ..Prune::default() }), std::slice::from_ref(&a));
    // The oldest go first, though a smaller sacrifice would do.
    assert_eq!(prune(&Prune { max_size: Some(8), ..Prune::default() }), [a.clone(), b.clone()]);
    assert_eq!(prune(&Prune { max_size: Some(0), ..Prune::default() }), [a, b, c]);
}

#[test]
fn prune_leaves_what_runs_or_was_killed() {
    let _alone = alone();
    let bench = Bench::new();
    let killed = run(&bench, "a", "{a}\n");
    // Without its last line it has not ended.
    let path = bench.state().join("runs").join(format!("{killed}.jsonl"));
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("{\"type\":\"end\"}\n", "")).unwrap();
    assert_eq!(bench.vault().list().unwrap()[0].state, RunState::Interrupted);
    let all = Prune { keep: Some(0), ..Prune::default() };
    assert_eq!(bench.vault().prune(&all, false).unwrap(), Default::default());
    // A repair that has begun relies on the vault.
    let store = bench.store(Options::default());
    commit(&store, &bench.doc).unwrap();
    assert_in_use(bench.vault().prune(&all, false), "relies on the backups");
    assert!(bench.vault().prune(&all, true).unwrap().runs.is_empty());
    store.finish();
    assert_eq!(bench.vault().prune(&all, false).unwrap().runs.len(), 1);
    // Settled, it can go.
    assert_eq!(super::super::recover::recover(&bench.state()).unwrap().said, Vec::<String>::new());
    assert_eq!(bench.vault().prune(&all, false).unwrap().runs, [killed]);
    let hold = bench.vault().hold().unwrap();
    assert_in_use(bench.vault().prune(&all, false), "relies on the backups");
    drop(hold);
    bench.vault().prune(&all, false).unwrap();
    assert!(journal::runs(&bench.state()).unwrap().is_empty());
}
