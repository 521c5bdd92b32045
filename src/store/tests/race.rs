//! What other processes do between two steps of a swap.

use std::cell::RefCell;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::thread::JoinHandle;
use std::time::Duration;

use super::super::journal::Outcome;
use super::super::lock::AgentLock;
use super::*;

/// Does something at one step only.
fn at(when: Step, what: impl FnOnce()) -> impl Fn(Step) {
    let what = RefCell::new(Some(what));
    move |step| {
        if step == when
            && let Some(what) = what.borrow_mut().take()
        {
            what();
        }
    }
}

fn draft(doc: &Path) -> PathBuf {
    let dir = doc.parent().unwrap();
    dir.join(names(dir).into_iter().find(|n| n.as_encoded_bytes().starts_with(b".unwedge-")).unwrap())
}

/// Something that happens once someone waits for the lease: an append that cannot begin before it is given back.
fn waiter(path: PathBuf, text: &'static str) -> JoinHandle<()> {
    let waiting = std::thread::spawn(move || append_now(&path, text));
    // It takes a moment to get there. Too short a wait makes the test weaker, not wrong.
    std::thread::sleep(Duration::from_millis(100));
    waiting
}

fn dropped(bench: &Bench) -> bool {
    matches!(bench.run().documents[0].1, Outcome::Dropped(_))
}

#[test]
fn a_change_before_the_exchange_is_refused() {
    for exchange in [true, false] {
        let bench = Bench::new();
        let step = at(Step::Leased, || append(&bench.doc, LATE));
        // Without a lease, as with one our own append would wait for itself.
        assert_changed(
            commit_with(&bench.store(Options::default()), &bench.doc, false, exchange, true, &step),
            "changed",
        );
        bench.is(&format!("{OLD}{LATE}"));
        assert!(dropped(&bench));
    }
}

#[test]
fn a_replacement_between_check_and_exchange_is_put_back() {
    for lease in [true, false] {
        let bench = Bench::new();
        let step = at(Step::Checked, || {
            std::fs::write(bench.doc.with_file_name("tmp"), "another's").unwrap();
            std::fs::rename(bench.doc.with_file_name("tmp"), &bench.doc).unwrap();
        });
        let result = commit_with(&bench.store(Options::default()), &bench.doc, lease, true, true, &step);
        assert_changed(result, "was replaced");
        bench.is("another's");
        assert!(dropped(&bench));
    }
}

#[test]
fn an_append_between_check_and_exchange_is_put_back() {
    let bench = Bench::new();
    let step = at(Step::Checked, || append(&bench.doc, LATE));
    assert_changed(commit_with(&bench.store(Options::default()), &bench.doc, false, true, true, &step), "changed");
    bench.is(&format!("{OLD}{LATE}"));
    // A plain rename looks once more.
    let bench = Bench::new();
    let step = at(Step::Checked, || append(&bench.doc, LATE));
    assert_changed(commit_with(&bench.store(Options::default()), &bench.doc, false, false, true, &step), "changed");
    bench.is(&format!("{OLD}{LATE}"));
}

#[test]
fn a_vanished_document_does_not_come_back() {
    let bench = Bench::new();
    let step = at(Step::Checked, || std::fs::remove_file(&bench.doc).unwrap());
    let error = commit_with(&bench.store(Options::default()), &bench.doc, true, true, true, &step).unwrap_err();
    assert!(matches!(error, Error::Changed { what: "vanished", .. }), "{error:?}");
    assert!(bench.beside().is_empty());
}

#[test]
#[cfg(target_os = "linux")]
fn a_waiting_writer_gets_the_old_file_back() {
    for when in [Step::Leased, Step::Checked] {
        let bench = Bench::new();
        let waiting = RefCell::new(None);
        let step = at(when, || *waiting.borrow_mut() = Some(waiter(bench.doc.clone(), LATE)));
        let result = commit_with(&bench.store(Options::default()), &bench.doc, true, true, true, &step);
        assert_in_use(result, "opens it for writing just now");
        waiting.take().unwrap().join().unwrap();
        bench.is(&format!("{OLD}{LATE}"));
        assert!(dropped(&bench));
    }
}

#[test]
#[cfg(target_os = "linux")]
fn lines_written_to_a_file_that_is_taken_back_are_carried() {
    let bench = Bench::new();
    let waiting = RefCell::new(None);
    let step = |step| match step {
        Step::Checked => *waiting.borrow_mut() = Some(waiter(bench.doc.clone(), LATE)),
        Step::Exchanged => append(&bench.doc, "{\"n\":4}\n"),
        _ => {}
    };
    let store = bench.store(Options::default());
    assert_in_use(commit_with(&store, &bench.doc, true, true, true, &step), "opens it for writing just now");
    waiting.take().unwrap().join().unwrap();
    assert!(store.finish().errors.is_empty());
    let text = bench.text();
    assert!(text.starts_with(OLD) && text.contains(LATE) && text.contains("{\"n\":4}\n"), "{text}");
    assert_eq!((text.lines().count(), bench.beside().len()), (4, 1));
}

#[test]
fn what_cannot_be_carried_from_a_file_that_is_taken_back_is_kept() {
    let bench = Bench::new();
    let step = |step| match step {
        Step::Checked => append(&bench.doc, LATE),
        Step::Exchanged => write(&bench.doc, "rewritten"),
        _ => {}
    };
    let why = assert_refused(
        commit_with(&bench.store(Options::default()), &bench.doc, false, true, true, &step),
        "made the file shorter",
    );
    bench.is(&format!("{OLD}{LATE}"));
    let kept = why.rsplit(' ').next().unwrap();
    assert_eq!(std::fs::read_to_string(kept).unwrap(), "rewritten");
}

#[test]
fn one_that_is_replaced_right_after_stays_replaced() {
    let _alone = alone();
    let bench = Bench::new();
    let step = |step| match step {
        Step::Checked => append(&bench.doc, LATE),
        Step::Exchanged => {
            std::fs::write(bench.doc.with_file_name("tmp"), "another's").unwrap();
            std::fs::rename(bench.doc.with_file_name("tmp"), &bench.doc).unwrap();
        }
        _ => {}
    };
    let store = bench.store(Options::default());
    assert_changed(commit_with(&store, &bench.doc, false, true, true, &step), "was replaced");
    assert_eq!(bench.text(), "another's");
    // The old file has a line that was never measured or backed up, so it stays too, and the next run says so.
    assert_eq!(std::fs::read_to_string(draft(&bench.doc)).unwrap(), format!("{OLD}{LATE}"));
    store.finish();
    let said = super::super::recover::recover(&bench.state()).unwrap().said;
    assert!(said[0].contains("lines that are not in the document"), "{said:?}");
    assert!(draft(&bench.doc).exists());
}

#[test]
fn one_that_is_removed_right_after_stays_removed() {
    let bench = Bench::new();
    let step = |step| match step {
        // Same bytes, another time: the old file is not the one that was read.
        Step::Checked => {
            let _alone = alone();
            let file = File::options().append(true).open(&bench.doc).unwrap();
            file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        }
        Step::Exchanged => std::fs::remove_file(&bench.doc).unwrap(),
        _ => {}
    };
    let result = commit_with(&bench.store(Options::default()), &bench.doc, false, true, true, &step);
    assert_changed(result, "vanished");
    assert!(!bench.doc.exists());
    assert_eq!(std::fs::read_to_string(draft(&bench.doc)).unwrap(), OLD);
}

/// A writer that had looked up the old file before the exchange, and was slow.
#[test]
fn late_lines_are_carried_over() {
    for exchange in [true, false] {
        let bench = Bench::new();
        let _alone = alone();
        let mut late = File::options().append(true).open(&bench.doc).unwrap();
        let step = at(Step::Synced, move || late.write_all(LATE.as_bytes()).unwrap());
        let done = commit_with(&bench.store(Options::default()), &bench.doc, false, exchange, true, &step).unwrap();
        assert_eq!(done.carried, LATE.len() as u64);
        bench.is(&format!("{NEW}{LATE}"));
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_late_writer_is_waited_for() {
    let bench = Bench::new();
    let waiting = RefCell::new(None);
    let step = at(Step::Synced, || *waiting.borrow_mut() = Some(waiter(draft(&bench.doc), LATE)));
    let done = commit_with(&bench.store(Options::default()), &bench.doc, true, true, true, &step).unwrap();
    waiting.take().unwrap().join().unwrap();
    assert_eq!(done.carried, LATE.len() as u64);
    bench.is(&format!("{NEW}{LATE}"));
}

#[test]
#[cfg(target_os = "linux")]
fn a_late_writer_that_stays_gets_the_old_file_back() {
    let bench = Bench::new();
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let waiting = RefCell::new(None);
    let step = at(Step::Synced, || {
        let path = draft(&bench.doc);
        *waiting.borrow_mut() = Some(std::thread::spawn(move || {
            let mut file = File::options().append(true).open(path).unwrap();
            let _ = stopped.recv();
            file.write_all(LATE.as_bytes()).unwrap();
        }));
        std::thread::sleep(Duration::from_millis(100));
    });
    let result = commit_with(&bench.store(Options::default()), &bench.doc, true, true, true, &step);
    assert_in_use(result, "opened the file for writing just then");
    bench.is(OLD);
    drop(stop);
    waiting.take().unwrap().join().unwrap();
    bench.is(&format!("{OLD}{LATE}"));
}

#[test]
fn what_cannot_be_carried_puts_the_old_file_back_or_is_kept() {
    // No lines to carry, or a change that is none: the exchange is undone.
    for (carry, text) in [(false, LATE), (true, "")] {
        let bench = Bench::new();
        let _alone = alone();
        let mut late = File::options().write(true).open(&bench.doc).unwrap();
        let step = at(Step::Synced, || {
            late.set_len(if carry { 4 } else { OLD.len() as u64 }).unwrap();
            std::io::Seek::seek(&mut late, std::io::SeekFrom::End(0)).unwrap();
            late.write_all(text.as_bytes()).unwrap();
        });
        let result = commit_with(&bench.store(Options::default()), &bench.doc, false, true, carry, &step);
        assert_changed(result, "changed");
        bench.is(&if carry { OLD[..4].to_owned() } else { format!("{OLD}{text}") });
        assert!(dropped(&bench));
    }
    // After a plain rename there is nothing to put back.
    let bench = Bench::new();
    let _alone = alone();
    let mut late = File::options().append(true).open(&bench.doc).unwrap();
    let step = at(Step::Synced, move || late.write_all(LATE.as_bytes()).unwrap());
    let store = bench.store(Options { no_backup: true, ..Options::default() });
    let why = assert_refused(commit_with(&store, &bench.doc, false, false, false, &step), "no lines");
    bench.is(NEW);
    let kept = why.rsplit(' ').next().unwrap();
    assert_eq!(std::fs::read_to_string(kept).unwrap(), format!("{OLD}{LATE}"));
    assert_eq!(mode(kept.as_ref()), 0o600);
    assert_eq!(bench.run().documents[0].1, Outcome::Done);
    // It outlives the runs.
    store.finish();
    let all = super::super::vault::Prune { keep: Some(0), ..Default::default() };
    assert_eq!(bench.vault().prune(&all, false).unwrap().runs.len(), 1);
    assert!(Path::new(kept).exists());
}

#[test]
fn where_it_cannot_be_kept_the_old_file_keeps_a_name() {
    let bench = Bench::new();
    let _alone = alone();
    let mut late = File::options().append(true).open(&bench.doc).unwrap();
    let step = at(Step::Synced, || {
        late.write_all(LATE.as_bytes()).unwrap();
        // The new file is in use by now, so that it cannot be taken back, and the vault is gone.
        append(&bench.doc, "{\"n\":4}\n");
        std::fs::rename(bench.state().join("objects"), bench.root.path().join("away")).unwrap();
        std::fs::write(bench.state().join("objects"), "").unwrap();
    });
    let store = bench.store(Options::default());
    let why = assert_refused(commit_with(&store, &bench.doc, false, true, false, &step), "beside it");
    let left = draft(&bench.doc);
    assert!(why.contains(left.file_name().unwrap().to_str().unwrap()), "{why}");
    assert_eq!(std::fs::read_to_string(&left).unwrap(), format!("{OLD}{LATE}"));
    assert_eq!(bench.text(), format!("{NEW}{{\"n\":4}}\n"));
    // The run stays open for the next one to look into.
    store.finish();
    assert_eq!(bench.run().documents[0].1, Outcome::Pending);
    assert_eq!(bench.run().state, super::super::vault::RunState::Interrupted);
}

#[test]
fn the_end_of_the_run_looks_again() {
    let bench = Bench::new();
    let _alone = alone();
    let mut late = File::options().append(true).open(&bench.doc).unwrap();
    let store = bench.store(Options::default());
    commit_with(&store, &bench.doc, false, true, true, &|_| {}).unwrap();
    bench.is(NEW);
    late.write_all(LATE.as_bytes()).unwrap();
    drop(late);
    let found = store.finish();
    assert_eq!(found.carried, [(bench.doc.clone(), LATE.len() as u64)]);
    assert!(found.errors.is_empty());
    bench.is(&format!("{NEW}{LATE}"));
    assert!(store.finish().carried.is_empty());
}

#[test]
fn half_a_line_is_not_glued_to_anothers() {
    let bench = Bench::new();
    let _alone = alone();
    let mut late = File::options().append(true).open(&bench.doc).unwrap();
    let store = bench.store(Options::default());
    commit_with(&store, &bench.doc, false, true, true, &|_| {}).unwrap();
    late.write_all(b"{\"n\":3}\n{\"n\":").unwrap();
    drop(late);
    append(&bench.doc, "{\"n\":5}\n");
    let errors = store.finish().errors;
    bench.is(&format!("{NEW}{{\"n\":5}}\n{LATE}"));
    let Error::Refused { why, .. } = &errors[0] else { panic!("{errors:?}") };
    assert!(why.contains("its last line is not whole"), "{why}");
    let kept = why.rsplit(' ').next().unwrap();
    assert_eq!(std::fs::read_to_string(kept).unwrap(), format!("{OLD}{LATE}{{\"n\":"));
}

#[test]
fn late_lines_do_not_go_to_a_third_file() {
    let bench = Bench::new();
    let _alone = alone();
    let mut late = File::options().append(true).open(&bench.doc).unwrap();
    let store = bench.store(Options::default());
    commit_with(&store, &bench.doc, false, true, true, &|_| {}).unwrap();
    late.write_all(LATE.as_bytes()).unwrap();
    drop(late);
    std::fs::write(bench.doc.with_file_name("tmp"), "another's").unwrap();
    std::fs::rename(bench.doc.with_file_name("tmp"), &bench.doc).unwrap();
    let errors = store.finish().errors;
    assert!(errors[0].to_string().contains("a third file has its place now"), "{errors:?}");
    bench.is("another's");
}

#[test]
fn only_a_bounded_number_stays_open() {
    let bench = Bench::new();
    let store = bench.store(Options { no_backup: true, ..Options::default() });
    for _ in 0..70 {
        write(&bench.doc, OLD);
        commit(&store, &bench.doc).unwrap();
    }
    let open = format!("{store:?}").matches("Replaced {").count();
    assert_eq!(open, 64);
    assert!(store.finish().errors.is_empty());
}

#[test]
fn an_agents_lock_must_last_to_the_swap() {
    let bench = Bench::new();
    let path = bench.root.path().join("doc.lock");
    let lock = AgentLock::acquire(&[], Some(&path)).unwrap();
    let source = Source::open(&bench.doc).unwrap();
    let splices = splices();
    let store = bench.store(Options::default());
    let step = at(Step::Leased, || std::fs::remove_file(&path).unwrap());
    let change = Change { lock: Some(&lock), ..change(&source, &splices) };
    assert_in_use(store.commit_by(&change, Ways { at: &step, ..Ways::default() }), "removed or replaced");
    bench.is(OLD);
}

#[test]
fn a_writer_that_opens_without_waiting_is_no_trouble() {
    let bench = Bench::new();
    let refused = RefCell::new(None);
    let step = at(Step::Checked, || {
        let file =
            File::options().append(true).custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32).open(&bench.doc);
        *refused.borrow_mut() = Some(file.is_err());
    });
    let result = commit_with(&bench.store(Options::default()), &bench.doc, true, true, true, &step);
    // It was turned away, and has broken the lease all the same.
    if refused.take() == Some(true) {
        assert_in_use(result, "opens it for writing just now");
    }
    bench.is(OLD);
}
