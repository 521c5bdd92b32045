use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::*;

#[test]
fn only_regular_files_are_opened() {
    let bench = Bench::new();
    let dir = bench.doc.parent().unwrap();
    std::os::unix::fs::symlink(&bench.doc, dir.join("link")).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, dir.join("fifo"), rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(dir.join("socket")).unwrap();
    assert_refused(Source::open(dir.join("link")), "a symbolic link");
    assert_refused(Source::open(dir.join("fifo")), "a FIFO");
    assert_refused(Source::open(dir.join("socket")), "a socket");
    assert_refused(Source::open(dir), "a directory");
    assert_refused(Source::open("/dev/null"), "a device");
    assert_refused(Source::open("/"), "not the name of a file");
    assert_refused(Source::open(dir.join("..")), "not the name of a file");
    let missing = Source::open(dir.join("missing")).unwrap_err();
    assert!(matches!(&missing, Error::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound));
    assert_eq!(missing.path(), Some(dir.join("missing").as_path()));
    assert!(matches!(Source::open(dir.join("no/such")), Err(Error::Io { .. })));
}

#[test]
fn reads_what_the_stamp_says() {
    let bench = Bench::new();
    let source = Source::open(&bench.doc).unwrap();
    assert_eq!(source.read_all().unwrap(), OLD.as_bytes());
    let mut five = [0; 5];
    source.read_at(1, &mut five).unwrap();
    assert_eq!(&five, b"\"n\":1");
    assert_changed(source.read_at(OLD.len() as u64 - 4, &mut five), "changed");
    append(&bench.doc, LATE);
    let mut text = String::new();
    source.reader().read_to_string(&mut text).unwrap();
    assert_eq!(text, OLD);
    assert_changed(source.read_all(), "changed");
    std::fs::write(&bench.doc, "{}").unwrap();
    assert_changed(source.read_all(), "changed");
}

#[test]
fn every_change_is_seen() {
    let unchanged = |what: &dyn Fn(&Path)| {
        let bench = Bench::new();
        let source = Source::open(&bench.doc).unwrap();
        source.unchanged().unwrap();
        // The clock of a file system is coarse: what changes within its tick needs another size to be seen.
        what(&bench.doc);
        source.unchanged()
    };
    assert!(unchanged(&|_| {}).is_ok());
    assert_changed(unchanged(&|doc| append(doc, LATE)), "changed");
    assert_changed(
        unchanged(&|doc| std::fs::OpenOptions::new().write(true).open(doc).unwrap().set_len(1).unwrap()),
        "changed",
    );
    assert_changed(unchanged(&|doc| std::fs::remove_file(doc).unwrap()), "vanished");
    assert_changed(
        unchanged(&|doc| {
            std::fs::write(doc.with_extension("tmp"), OLD).unwrap();
            std::fs::rename(doc.with_extension("tmp"), doc).unwrap();
        }),
        "was replaced",
    );
    assert_changed(
        unchanged(&|doc| {
            std::thread::sleep(std::time::Duration::from_millis(20));
            std::fs::set_permissions(doc, std::fs::Permissions::from_mode(0o604)).unwrap();
        }),
        "changed",
    );
}

#[test]
fn names_and_paths() {
    let bench = Bench::named(std::ffi::OsStr::from_bytes(b"caf\xe9.jsonl"));
    let source = Source::open(&bench.doc).unwrap();
    assert_eq!(source.name(), bench.doc.file_name().unwrap());
    assert_eq!(source.path(), bench.doc);
    let real = bench.doc.parent().unwrap().canonicalize().unwrap().join(source.name());
    assert_eq!(source.full_path(), real);
    // Through a link to the directory it is the same document.
    let link = bench.root.path().join("link");
    std::os::unix::fs::symlink(bench.doc.parent().unwrap(), &link).unwrap();
    let through = Source::open(link.join(source.name())).unwrap();
    assert_eq!(through.full_path(), real);
    assert_eq!(super::super::file::full_path(&link.join("missing")), real.with_file_name("missing"));
    assert!(through.stamp().same_file(&source.stamp()));
}

#[test]
fn a_lone_name_is_in_the_current_directory() {
    let source = Source::open("Cargo.toml").unwrap();
    assert!(source.full_path().is_absolute());
    source.unchanged().unwrap();
}
