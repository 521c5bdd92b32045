//! The whole way of every agent's session at once: check, repair, a second run, undo, with what must hold of each.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use serde_json::Value;

use crate::agents::{Agent, Session, agents};
use crate::compare::{Cut, cuts};
use crate::sandbox::{Sandbox, Was};

/// What a session must come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expect {
    /// Something is over a limit, and is cut.
    Cut,
    /// Nothing is.
    Clean,
    /// Something is cut, and the records of these lines are broken and stay.
    Broken(Vec<u64>),
    /// It cannot be understood, and stays.
    Refused,
}

/// One session, before the run.
struct Given {
    agent: Agent,
    old: Vec<u8>,
    expect: Expect,
}

/// One session, after the repair.
pub struct Done<'a> {
    pub agent: &'a Agent,
    pub old: &'a [u8],
    pub new: &'a [u8],
    /// Its part of the report.
    pub file: &'a Value,
    pub errors: Vec<&'a Value>,
    pub cuts: Vec<Cut<'a>>,
}

impl Done<'_> {
    /// Its findings of this kind.
    pub fn findings(&self, kind: &str) -> Vec<&Value> {
        self.file["findings"].as_array().unwrap().iter().filter(|f| f["kind"] == kind).collect()
    }

    /// Whether so many texts were found and cut, and so often as each is kept.
    #[track_caller]
    pub fn found(&self, texts: usize, copies: bool) {
        assert_eq!(self.findings("response").len(), texts, "responses over a limit");
        let each = self.agent.echoes + if copies { self.agent.copies } else { 0 };
        assert_eq!(self.findings("copy").len(), texts * each, "copies over a limit");
        assert_eq!(self.cuts.len(), texts * (1 + each), "cuts");
    }
}

/// A session for each agent, and the arguments of the run.
pub struct Round {
    args: Vec<&'static str>,
    given: Vec<Given>,
}

impl Round {
    /// The same session for each agent.
    pub fn of(session: &Session) -> Self {
        Round::with(|agent| Some((agent.bytes(session), Expect::Cut)))
    }

    /// Bytes for each agent, and what they must come to.
    pub fn with(make: impl Fn(&Agent) -> Option<(Vec<u8>, Expect)>) -> Self {
        let given = agents().into_iter().filter_map(|agent| {
            let (old, expect) = make(&agent)?;
            Some(Given { agent, old, expect })
        });
        Round { args: Vec::new(), given: given.collect() }
    }

    pub fn args(self, args: &[&'static str]) -> Self {
        Round { args: args.to_vec(), ..self }
    }

    pub fn expect(mut self, expect: Expect) -> Self {
        self.given.iter_mut().for_each(|given| given.expect = expect.clone());
        self
    }

    /// Goes the whole way. `more`: what must hold besides.
    #[track_caller]
    pub fn run(self, more: impl Fn(&Done<'_>)) {
        let sandbox = Sandbox::new();
        for (given, mode) in self.given.iter().zip([0o600, 0o640, 0o664, 0o444].into_iter().cycle()) {
            let path = sandbox.put(given.agent.path, &given.old);
            let file = fs::File::options().write(true).open(&path).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::new(1_700_000_000, 123_456_789)).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        }
        let before = sandbox.snapshot();
        let args = |command: &'static str| [&[command, "."], &*self.args, &["--output-format", "json"]].concat();
        let report = |args: &[&str]| {
            let ran = sandbox.run(args);
            let report = serde_json::from_str(&ran.stdout);
            let report: Value = report.unwrap_or_else(|e| panic!("{e}\n{}\n{}", ran.stdout, ran.stderr));
            (ran.status, report)
        };

        let (status, check) = report(&args("check"));
        assert_eq!(sandbox.snapshot(), before, "check touched something");
        let (fixed, fix) = report(&args("fix"));
        let after = sandbox.snapshot();
        self.each("check and fix", |given| given.holds(&check, &fix, &before, &after, &more));
        let any = |wanted: &dyn Fn(&Expect) -> bool| self.given.iter().any(|given| wanted(&given.expect));
        let trouble = any(&|e| matches!(e, Expect::Broken(_) | Expect::Refused));
        let found = any(&|e| *e == Expect::Cut);
        assert_eq!((status, fixed), if trouble { (2, 2) } else { (i32::from(found), 0) });

        let (again, second) = report(&args("fix"));
        assert_eq!((again, &second["summary"]["findings"]), (fixed, &Value::from(0)), "the second run");
        assert_eq!(sandbox.snapshot(), after, "the second run touched something");

        let Some(run) = fix["run"].as_str() else {
            assert_eq!(after, before, "something was changed without a run");
            return;
        };
        sandbox.expect(0, &["undo", run]);
        let back = sandbox.snapshot();
        self.each("undo", |given| {
            let (was, is) = (given.was(&before), given.was(&back));
            assert!(is.bytes == was.bytes, "undo gave other bytes");
            assert_eq!((is.mode, is.mtime), (was.mode, was.mtime));
        });
    }

    /// Does it for each session, and says which failed.
    fn each(&self, what: &str, check: impl Fn(&Given)) {
        let fails = |given: &&Given| catch_unwind(AssertUnwindSafe(|| check(given))).is_err();
        let failed: Vec<&str> = self.given.iter().filter(fails).map(|given| given.agent.label).collect();
        assert!(failed.is_empty(), "{what} failed for {failed:?}");
    }
}

impl Given {
    fn was<'a>(&self, snapshot: &'a BTreeMap<PathBuf, Was>) -> &'a Was {
        snapshot.get(&PathBuf::from(self.agent.path)).expect("the file is there")
    }

    fn of<'a>(&self, report: &'a Value, key: &str) -> Vec<&'a Value> {
        let all = report[key].as_array().unwrap().iter();
        all.filter(|one| one["path"].as_str().is_some_and(|path| path.ends_with(self.agent.path))).collect()
    }

    fn holds(
        &self,
        check: &Value,
        fix: &Value,
        before: &BTreeMap<PathBuf, Was>,
        after: &BTreeMap<PathBuf, Was>,
        more: &impl Fn(&Done<'_>),
    ) {
        let (was, is) = (self.was(before), self.was(after));
        let [errors, checked] = [self.of(fix, "errors"), self.of(check, "errors")];
        let lines = |errors: &[&Value]| errors.iter().map(|e| e["line"].as_u64().unwrap_or(0)).collect::<Vec<_>>();
        match &self.expect {
            Expect::Broken(wanted) => {
                assert_eq!(&lines(&errors), wanted, "{errors:#?}");
                assert!(errors.iter().all(|e| e["code"] == "broken-record"), "{errors:#?}");
            }
            Expect::Refused => assert_eq!(errors.len(), 1, "{errors:#?}"),
            Expect::Cut | Expect::Clean => assert_eq!(errors.len(), 0, "{errors:#?}"),
        }
        assert_eq!(lines(&checked), lines(&errors), "check and fix say the same");
        let files = self.of(fix, "files");
        let Some(file) = files.first() else {
            assert_eq!(self.expect, Expect::Clean, "it is not in the report");
            return;
        };
        assert_eq!((files.len(), &file["format"]), (1, &Value::from(self.agent.format)));
        let status = match self.expect {
            Expect::Cut | Expect::Broken(_) => "repaired",
            Expect::Clean => "clean",
            Expect::Refused => "failed",
        };
        assert_eq!(file["status"], status, "{file:#}");
        let count = |file: &Value| file["findings"].as_array().unwrap().len();
        assert_eq!(
            self.of(check, "files").iter().map(|f| count(f)).sum::<usize>(),
            count(file),
            "check finds the same"
        );
        if status != "repaired" {
            assert_eq!(is, was, "touched without need");
        } else {
            // None of these agents needs a new time.
            assert_eq!((is.mode, is.mtime), (was.mode, was.mtime), "mode and time stay");
        }
        let cuts = cuts(&was.bytes, &is.bytes, self.agent.format == "codex");
        assert_eq!(cuts.is_empty(), status != "repaired");
        let limit = |size: u64| {
            let findings = file["findings"].as_array().unwrap();
            findings.iter().find(|f| f["size"] == size).map(|f| f["limit"].as_u64().unwrap())
        };
        cuts.iter().for_each(|cut| cut.is_true(limit(cut.sizes().0)));
        more(&Done { agent: &self.agent, old: &was.bytes, new: &is.bytes, file, errors, cuts });
    }
}
