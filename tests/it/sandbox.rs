//! A run of the program in a place of its own: a home, a state directory and a work tree that are thrown away.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

pub struct Sandbox {
    dir: tempfile::TempDir,
}

/// What one run printed and how it ended.
pub struct Ran {
    pub status: i32,
    pub stdout: String,
    pub stderr: String,
}

/// A file as it stood: its bytes, mode, inode and modification time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Was {
    pub bytes: Vec<u8>,
    pub mode: u32,
    pub ino: u64,
    pub mtime: (i64, i64),
}

impl Sandbox {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for name in ["home", "state", "tree"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        Sandbox { dir }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The work tree: the current directory of every run.
    pub fn tree(&self) -> PathBuf {
        self.path("tree")
    }

    /// Writes a file of the work tree, with its folders.
    pub fn put(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.tree().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }

    /// The command, not yet run, with nothing of this machine's environment that matters.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_unwedge"));
        command.args(args).current_dir(self.tree()).stdin(Stdio::null());
        command.env("HOME", self.path("home")).env("XDG_STATE_HOME", self.path("state"));
        for name in ["XDG_DATA_HOME", "XDG_CONFIG_HOME", "JP_USER_DATA_DIR", "NO_COLOR", "CLICOLOR_FORCE", "CLICOLOR"] {
            command.env_remove(name);
        }
        command
    }

    pub fn run(&self, args: &[&str]) -> Ran {
        ran(self.command(args).output().unwrap())
    }

    /// Runs it and checks its exit status.
    #[track_caller]
    pub fn expect(&self, status: i32, args: &[&str]) -> Ran {
        let ran = self.run(args);
        assert_eq!(
            ran.status,
            status,
            "unwedge {}\n--- stdout\n{}\n--- stderr\n{}",
            args.join(" "),
            ran.stdout,
            ran.stderr
        );
        ran
    }

    /// The JSON report of a run with this exit status.
    #[track_caller]
    pub fn json(&self, status: i32, args: &[&str]) -> serde_json::Value {
        let ran = self.expect(status, &[args, &["--output-format", "json"]].concat());
        serde_json::from_str(&ran.stdout).unwrap()
    }

    pub fn snapshot(&self) -> BTreeMap<PathBuf, Was> {
        snapshot(&self.tree())
    }

    /// The files of the vault that hold backups.
    pub fn backups(&self) -> Vec<PathBuf> {
        let all = snapshot(&self.path("state"));
        all.into_keys().filter(|p| p.components().any(|c| c.as_os_str() == "objects")).collect()
    }
}

pub fn ran(output: Output) -> Ran {
    Ran {
        status: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

pub fn testdata() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata")
}

/// Every file below a directory.
pub fn snapshot(root: &Path) -> BTreeMap<PathBuf, Was> {
    let files = walkdir::WalkDir::new(root).into_iter().map(Result::unwrap).filter(|e| e.file_type().is_file());
    let was = |path: &Path| {
        let meta = fs::metadata(path).unwrap();
        Was {
            bytes: fs::read(path).unwrap(),
            mode: meta.mode(),
            ino: meta.ino(),
            mtime: (meta.mtime(), meta.mtime_nsec()),
        }
    };
    files.map(|e| (e.path().strip_prefix(root).unwrap().to_owned(), was(e.path()))).collect()
}

pub fn bytes(snapshot: &BTreeMap<PathBuf, Was>) -> BTreeMap<&Path, &[u8]> {
    snapshot.iter().map(|(path, was)| (&**path, &*was.bytes)).collect()
}

/// Copies a folder's files.
pub fn copy(from: &Path, to: &Path) {
    for entry in walkdir::WalkDir::new(from).into_iter().map(Result::unwrap) {
        let target = to.join(entry.path().strip_prefix(from).unwrap());
        if entry.file_type().is_dir() {
            fs::create_dir_all(&target).unwrap();
        } else {
            fs::write(&target, fs::read(entry.path()).unwrap()).unwrap();
        }
    }
}
