use std::cell::RefCell;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Command;
use std::time::{Duration, SystemTime};

use super::super::journal::{Content, Outcome};
use super::super::replace::{Draft, Sealed};
use super::super::swap::{Order, Swapped};
use super::*;

fn sealed<'a>(source: &'a Source, text: &str, times: Times) -> Result<Sealed<'a>> {
    let mut draft = Draft::create(source, ".unwedge-draft".as_ref())?;
    draft.write_all(text.as_bytes()).unwrap();
    draft.finish(times)
}

fn swap(sealed: Sealed<'_>, proven: &str, break_hardlinks: bool) -> Result<Swapped> {
    let old = Content { sha256: sha(OLD), len: OLD.len() as u64 };
    let rescue = |_: &File| -> Result<PathBuf> { panic!("nothing to rescue") };
    let order = Order { old, carry: true, break_hardlinks, lock: None, rescue: &rescue, ways: Ways::default() };
    let swapped = sealed.swap(&Verified::unproven(proven.as_bytes()), &order)?;
    swapped.result?;
    Ok(Swapped { result: Ok(()), ..swapped })
}

#[test]
fn rights_owner_attributes_and_time_are_kept() {
    let bench = Bench::new();
    let times =
        std::fs::FileTimes::new().set_modified(SystemTime::UNIX_EPOCH + Duration::new(1_600_000_000, 123_456_789));
    let alone = alone();
    File::options().append(true).open(&bench.doc).unwrap().set_times(times).unwrap();
    drop(alone);
    std::fs::set_permissions(&bench.doc, std::fs::Permissions::from_mode(0o4640)).unwrap();
    if is_root() {
        std::os::unix::fs::chown(&bench.doc, Some(1234), Some(4321)).unwrap();
        std::fs::set_permissions(&bench.doc, std::fs::Permissions::from_mode(0o4640)).unwrap();
    }
    // An access list: user 77 may read. Version 2; then tag, rights, id of each entry, in little endian.
    let entries =
        [(0x01_u16, 6_u16, u32::MAX), (0x02, 4, 77), (0x04, 4, u32::MAX), (0x10, 4, u32::MAX), (0x20, 0, u32::MAX)];
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, rights, id) in entries {
        list.extend(tag.to_le_bytes().into_iter().chain(rights.to_le_bytes()).chain(id.to_le_bytes()));
    }
    let attributes = [("user.note", b"kept".to_vec()), ("system.posix_acl_access", list)];
    let mut set = Vec::new();
    for (name, value) in &attributes {
        match rustix::fs::setxattr(&bench.doc, *name, value, rustix::fs::XattrFlags::empty()) {
            Ok(()) => set.push((*name, value.clone())),
            Err(e) => skip(&format!("{name}: {e}")),
        }
    }
    let before = std::fs::metadata(&bench.doc).unwrap();
    commit(&bench.store(Options::default()), &bench.doc).unwrap();
    bench.is(NEW);
    let after = std::fs::metadata(&bench.doc).unwrap();
    assert_ne!(before.ino(), after.ino());
    assert_eq!((before.mode(), before.uid(), before.gid()), (after.mode(), after.uid(), after.gid()));
    assert_eq!(before.modified().unwrap(), after.modified().unwrap());
    for (name, value) in set {
        let mut there = vec![0; 1000];
        let n = rustix::fs::getxattr(&bench.doc, name, &mut there).unwrap();
        assert_eq!(there[..n], value, "{name}");
    }
}

#[test]
fn an_inherited_access_list_is_not_added() {
    let bench = Bench::new();
    // A default list on the directory: user 77 may read what is made there.
    let entries =
        [(0x01_u16, 6_u16, u32::MAX), (0x02, 4, 77), (0x04, 4, u32::MAX), (0x10, 4, u32::MAX), (0x20, 0, u32::MAX)];
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, rights, id) in entries {
        list.extend(tag.to_le_bytes().into_iter().chain(rights.to_le_bytes()).chain(id.to_le_bytes()));
    }
    let dir = bench.doc.parent().unwrap();
    if let Err(e) = rustix::fs::setxattr(dir, "system.posix_acl_default", &list, rustix::fs::XattrFlags::empty()) {
        return skip(&format!("no access lists here: {e}"));
    }
    let mode_before = mode(&bench.doc);
    commit(&bench.store(Options::default()), &bench.doc).unwrap();
    bench.is(NEW);
    assert_eq!(mode(&bench.doc), mode_before);
    assert!(rustix::fs::getxattr(&bench.doc, "system.posix_acl_access", &mut vec![0; 1000]).is_err());
}

#[test]
fn a_new_time_where_the_format_wants_one() {
    let bench = Bench::new();
    for at in [
        SystemTime::UNIX_EPOCH + Duration::new(1_800_000_000, 5),
        SystemTime::UNIX_EPOCH - Duration::new(10, 250_000_000),
        SystemTime::UNIX_EPOCH - Duration::new(10, 0),
    ] {
        let source = Source::open(&bench.doc).unwrap();
        drop(sealed(&source, NEW, Times::At(at)).inspect(|_| {
            assert_eq!(std::fs::metadata(bench.doc.with_file_name(".unwedge-draft")).unwrap().modified().unwrap(), at);
        }));
    }
    bench.is(OLD);
}

#[test]
fn a_draft_that_is_not_swapped_in_goes() {
    let bench = Bench::new();
    let source = Source::open(&bench.doc).unwrap();
    let draft = Draft::create(&source, ".unwedge-draft".as_ref()).unwrap();
    let path = bench.doc.with_file_name(".unwedge-draft");
    assert_eq!(mode(&path), 0o600);
    let taken = Draft::create(&source, ".unwedge-draft".as_ref()).unwrap_err();
    assert_eq!(taken.path(), Some(path.as_path()));
    drop(draft);
    bench.is(OLD);
    drop(sealed(&source, NEW, Times::Keep).unwrap());
    bench.is(OLD);
    // What somebody else has put there in the meantime stays.
    let draft = Draft::create(&source, ".unwedge-draft".as_ref()).unwrap();
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, "another's").unwrap();
    drop(draft);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "another's");
    // And nothing is written through a link.
    std::fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink(bench.root.path().join("elsewhere"), &path).unwrap();
    assert!(Draft::create(&source, ".unwedge-draft".as_ref()).is_err());
    assert!(!bench.root.path().join("elsewhere").exists());
}

#[test]
fn what_was_written_can_be_read_back_and_must_be_what_was_proven() {
    let bench = Bench::new();
    let source = Source::open(&bench.doc).unwrap();
    let new = sealed(&source, NEW, Times::Keep).unwrap();
    let mut text = String::new();
    new.reader().read_to_string(&mut text).unwrap();
    assert_eq!(text, NEW);
    assert_eq!(new.content(), Content { sha256: sha(NEW), len: NEW.len() as u64 });
    assert!(matches!(swap(new, "other bytes", false), Err(Error::Unproven { .. })));
    bench.is(OLD);
    let swapped = swap(sealed(&source, NEW, Times::Keep).unwrap(), NEW, false).unwrap();
    assert!(swapped.replaced && !swapped.held.touched().unwrap());
    bench.is(NEW);
}

#[test]
fn hard_links_are_refused_unless_they_may_be_broken() {
    let bench = Bench::new();
    let other = bench.root.path().join("other");
    std::fs::hard_link(&bench.doc, &other).unwrap();
    assert_refused(commit(&bench.store(Options::default()), &bench.doc), "2 names (hard links)");
    assert!(!bench.state().exists());
    let source = Source::open(&bench.doc).unwrap();
    assert_refused(swap(sealed(&source, NEW, Times::Keep).unwrap(), NEW, false), "--break-hardlinks");
    bench.is(OLD);
    commit(&bench.store(Options { break_hardlinks: true, ..Options::default() }), &bench.doc).unwrap();
    bench.is(NEW);
    assert_eq!(std::fs::read_to_string(other).unwrap(), OLD);
}

#[test]
fn every_way_replaces() {
    for (lease, exchange) in [(true, true), (false, true), (true, false), (false, false)] {
        let bench = Bench::new();
        let store = bench.store(Options::default());
        let steps = RefCell::new(Vec::new());
        commit_with(&store, &bench.doc, lease, exchange, true, &|step| steps.borrow_mut().push(step)).unwrap();
        bench.is(NEW);
        assert_eq!(steps.take(), [Step::Leased, Step::Checked, Step::Exchanged, Step::Synced]);
        assert!(store.finish().errors.is_empty());
        assert_eq!(bench.run().documents[0].1, Outcome::Done);
    }
}

/// Runs as a user who may write in the directory but not give files away.
#[test]
#[ignore = "run by `an_owner_that_cannot_be_kept_is_refused` as nobody"]
#[expect(clippy::disallowed_methods, reason = "the outer test says where")]
fn as_nobody() {
    let doc = PathBuf::from(std::env::var_os("UNWEDGE_TEST_DOC").unwrap());
    let state = doc.with_file_name("state");
    let store = FileStore::new(Vault::new(&state), Journal::start(&state, Kind::Fix, None), Options::default());
    assert_refused(commit(&store, &doc), "its owner and group (1234:4321) cannot be kept");
}

#[test]
fn an_owner_that_cannot_be_kept_is_refused() {
    use std::os::unix::process::CommandExt;
    if !is_root() {
        return skip("needs root to be somebody else");
    }
    let bench = Bench::new();
    std::os::unix::fs::chown(&bench.doc, Some(1234), Some(4321)).unwrap();
    for dir in [bench.root.path(), bench.doc.parent().unwrap()] {
        std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o777)).unwrap();
    }
    // The test program itself may be where nobody else can look.
    let program = bench.root.path().join("program");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let alone = alone();
    let ran = Command::new(&program)
        .args(["--ignored", "--exact", "store::tests::swap::as_nobody"])
        .env("UNWEDGE_TEST_DOC", &bench.doc)
        .current_dir("/")
        .uid(65534)
        .gid(65534)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(alone);
    let ran = ran.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(ran.status.success() && text.contains("1 passed"), "{text}");
    assert_eq!(bench.text(), OLD);
    assert_eq!(bench.beside(), ["doc.jsonl", "state"]);
}
