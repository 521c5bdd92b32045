//! What is told without reading a stream is what reading it would tell: nothing that is over a limit is called clean.

use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::Value;
use unwedge::assess::{Assessment, Reading};
use unwedge::cap::limits::{Layer, Limit, Limits, Source};
use unwedge::cap::plan::Rule;
use unwedge::format::{Depth, Framing};
use unwedge::skim::{Bytes, nothing_over};

use crate::agents::{Agent, Part, Res, Session, agents};
use crate::sandbox::Sandbox;

struct Slice<'a>(&'a [u8]);

impl Bytes for Slice<'_> {
    fn size(&self) -> u64 {
        self.0.len() as u64
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> unwedge::error::Result<()> {
        let offset = usize::try_from(offset).unwrap();
        buffer.copy_from_slice(&self.0[offset..offset + buffer.len()]);
        Ok(())
    }
}

/// Everything in a stream.
fn whole(agent: &Agent, bytes: &[u8], limits: &Limits) -> Assessment {
    let mut reading = Reading::new(agent.of(), &Path::new("/w").join(agent.path), Depth::Limits, []);
    reading.push(bytes).unwrap();
    reading.finish(limits, false)
}

/// Whether a walk says that nothing is over a limit, without reading the stream: from its size, or from little of it.
fn called_clean(agent: &Agent, bytes: &[u8], limits: &Limits) -> bool {
    let format = agent.of();
    let small = format.small_is_clean() && limits.smallest().is_none_or(|least| bytes.len() as u64 <= least);
    let ceiling = limits.ceiling().value.bytes();
    let skimmed = || nothing_over(&Slice(bytes), format.seams(), limits.smallest(), ceiling).unwrap();
    small || (format.framing() == Framing::Lines && skimmed())
}

/// What contradicts that it is clean. `seams`: whether the stream is one in which seams can be relied on.
fn contradiction(agent: &Agent, bytes: &[u8], limits: &Limits, seams: bool) -> Option<String> {
    if !called_clean(agent, bytes, limits) {
        return None;
    }
    let found = whole(agent, bytes, limits);
    let batches = seams || agent.of().seams().is_none();
    let target = found.targets.iter().find(|target| batches || target.held.rule == Rule::Threshold);
    let batch = found.batches.values().find(|batch| batches && batch.level.is_some());
    let what = target.map(|t| format!("{t:?}")).or_else(|| batch.map(|b| format!("{b:?}")))?;
    Some(format!("{}: called clean, but {what}\n{}", agent.label, String::from_utf8_lossy(bytes)))
}

fn limits(threshold: Limit, tool: Option<Limit>, ceiling: Limit) -> Limits {
    let mut size = Layer::new(Source::SizeFlag);
    size.thresholds.insert("*".to_owned(), threshold);
    size.ceiling = Some(ceiling);
    let mut tools = Layer::new(Source::ToolFlag);
    tools.thresholds.extend(tool.map(|limit| ("run".to_owned(), limit)));
    Limits::new(vec![size, tools])
}

/// Limits that are given, or such that lie near to what is in a stream: then much of it is skimmed, and little is missing.
#[derive(Debug, Clone)]
enum Near {
    Given(Limits),
    /// In thousandths of the longest line, and of the whole stream. More is no limit.
    To(u64, u64),
}

impl Near {
    fn limits(&self, bytes: &[u8]) -> Limits {
        let (line, all) = match self {
            Near::Given(limits) => return limits.clone(),
            Near::To(line, all) => (*line, *all),
        };
        let longest = bytes.split(|b| *b == b'\n').map(<[u8]>::len).max().unwrap_or(0);
        let part =
            |of: usize, n: u64| if n > 1300 { Limit::Unlimited } else { Limit::Bytes((of as u64 * n / 1000).max(64)) };
        limits(part(longest, line), None, part(bytes.len(), all))
    }
}

fn any_limits() -> impl Strategy<Value = Near> {
    let limit =
        |small: std::ops::Range<u64>| prop_oneof![9 => small.prop_map(Limit::Bytes), 1 => Just(Limit::Unlimited)];
    let tool = prop::option::weighted(0.2, limit(64..400));
    let given = (limit(64..400), tool, limit(64..2000)).prop_map(|(t, tool, c)| Near::Given(limits(t, tool, c)));
    prop_oneof![1 => given, 2 => (300_u64..1500, 50_u64..1500).prop_map(|(line, all)| Near::To(line, all))]
}

/// A text as stored, of one kind of character.
fn any_literal() -> impl Strategy<Value = String> {
    let units = vec!["r", "r", "r", "\\n", "\\/", "é", "\\u00e9", "漢", "\\u0041", "\\ud83d\\ude00", "\\ud83d"];
    let count = prop_oneof![3 => 0_usize..40, 2 => 40_usize..300, 1 => 300_usize..900];
    (select(units), count).prop_map(|(unit, count)| format!("\"{}\"", unit.repeat(count)))
}

fn any_result() -> impl Strategy<Value = Res> {
    // An image is stored in more than it is charged: see `an_image_is_charged_more_than_it_is_long`.
    let part = prop_oneof![12 => any_literal().prop_map(Part::Text), 1 => (4800_usize..5000).prop_map(|n| Part::Image("A".repeat(n)))];
    prop_oneof![
        3 => any_literal().prop_map(|literal| Res::stored(&literal)),
        1 => vec(part, 0..4).prop_map(Res::list),
    ]
}

fn any_session() -> impl Strategy<Value = Session> {
    let turns = prop_oneof![vec(vec(any_result(), 0..6), 0..9), vec(vec(any_result(), 0..3), 9..30)];
    (turns, any::<bool>(), 0_usize..500, 0_usize..3).prop_map(|(turns, copies, said, beside)| Session {
        turns,
        copies,
        said: format!("\"{}\"", "u".repeat(said)),
        beside,
    })
}

/// What may happen to a file.
#[derive(Debug, Clone)]
enum Damage {
    Byte(Index, u8),
    Cut(Index),
    Gone(Index, usize),
    Lines(Index, Index),
}

fn any_damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        (any::<Index>(), prop_oneof![Just(b'\n'), Just(b'"'), Just(b'A'), any::<u8>()])
            .prop_map(|(at, b)| Damage::Byte(at, b)),
        any::<Index>().prop_map(Damage::Cut),
        (any::<Index>(), 1_usize..400).prop_map(|(at, n)| Damage::Gone(at, n)),
        (any::<Index>(), any::<Index>()).prop_map(|(a, b)| Damage::Lines(a, b)),
    ]
}

fn damaged(mut bytes: Vec<u8>, damage: &[Damage]) -> Vec<u8> {
    for one in damage {
        let len = bytes.len();
        match one {
            _ if len == 0 => {}
            Damage::Byte(at, byte) => bytes[at.index(len)] = *byte,
            Damage::Cut(at) => bytes.truncate(at.index(len)),
            Damage::Gone(at, n) => drop(bytes.drain(at.index(len)..(at.index(len) + n).min(len))),
            // One line is written again behind another.
            Damage::Lines(a, b) => {
                let mut lines: Vec<&[u8]> = bytes.split_inclusive(|b| *b == b'\n').collect();
                let line = lines[a.index(lines.len())];
                lines.insert(b.index(lines.len() + 1), line);
                bytes = lines.concat();
            }
        }
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn sessions_are_told_as_if_they_were_read(
        session in any_session(),
        limits in any_limits(),
        newline in select(vec!["\n", "\n", "\r\n"]),
        ended in any::<bool>(),
    ) {
        for agent in agents() {
            let bytes = agent.file(&agent.records(&session), newline, ended);
            let said = contradiction(&agent, &bytes, &limits.limits(&bytes), true);
            prop_assert!(said.is_none(), "{}", said.unwrap_or_default());
        }
    }

    #[test]
    fn damaged_sessions_are_told_as_if_they_were_read(
        session in any_session(),
        limits in any_limits(),
        damage in vec(any_damage(), 1..5),
    ) {
        for agent in agents() {
            let bytes = damaged(agent.bytes(&session), &damage);
            let said = contradiction(&agent, &bytes, &limits.limits(&bytes), false);
            prop_assert!(said.is_none(), "{}", said.unwrap_or_default());
        }
    }

    #[test]
    fn any_bytes_are_told_as_if_they_were_read(
        bytes in vec(prop_oneof![4 => any::<u8>(), 1 => Just(b'\n'), 2 => select(b"{}[]\":,".to_vec())], 0..3000),
        limits in any_limits(),
    ) {
        for agent in agents() {
            let said = contradiction(&agent, &bytes, &limits.limits(&bytes), false);
            prop_assert!(said.is_none(), "{}", said.unwrap_or_default());
        }
    }

    /// Where an agent's format shows its seams, a batch over the ceiling is seen however its results are spread over lines.
    #[test]
    fn no_batch_hides_behind_seams(
        batches in vec((prop_oneof![0_usize..400, 400_usize..3000], 1_usize..12), 1..5),
        said in 0_usize..200,
        beside in 0_usize..3,
        ceiling in prop_oneof![64_u64..3000, 3000_u64..12_000],
    ) {
        // Results of about the same size: one alone is not over, nor is what stands between two messages.
        let turns = batches.iter().map(|(size, count)| vec![Res::text(&"r".repeat(*size)); *count]).collect();
        let over = batches.iter().any(|(size, count)| (size * count) as u64 > ceiling);
        let session = Session { said: format!("\"{}\"", "u".repeat(said)), beside, ..Session::new(turns) };
        let limits = limits(Limit::Unlimited, None, Limit::Bytes(ceiling));
        for agent in agents() {
            let bytes = agent.bytes(&session);
            let found = whole(&agent, &bytes, &limits);
            prop_assert_eq!(found.batches.values().any(|batch| batch.level.is_some()), over, "{}", agent.label);
            prop_assert!(!over || !called_clean(&agent, &bytes, &limits), "{}", agent.label);
        }
    }
}

/// The fast way is of use: it is gone where lines are short.
#[test]
fn short_lines_are_called_clean() {
    let session = Session::new((0..200).map(|_| vec![Res::text(&"r".repeat(1000))]).collect());
    for agent in agents().into_iter().filter(Agent::is_lines) {
        let bytes = agent.bytes(&session);
        assert!(bytes.len() > 200_000);
        let limits = |ceiling| limits(Limit::Bytes(4000), None, ceiling);
        assert!(called_clean(&agent, &bytes, &limits(Limit::Unlimited)), "{}", agent.label);
        // With seams also where all batches together are over the ceiling.
        let seams = agent.of().seams().is_some();
        assert_eq!(called_clean(&agent, &bytes, &limits(Limit::Bytes(20_000))), seams, "{}", agent.label);
    }
}

/// The same through the program: a walk and a thorough walk find the same.
#[test]
fn a_walk_finds_what_a_thorough_walk_finds() {
    let sandbox = Sandbox::new();
    for (number, size) in [10, 100, 250, 301, 400, 700].into_iter().enumerate() {
        for results in [1, 4, 12] {
            let turn = || vec![Res::text(&"r".repeat(size)); results];
            let session = Session::new(vec![turn(), Vec::new(), turn()]).with_copies();
            for agent in agents() {
                sandbox.put(&format!("{number}-{results}/{}", agent.path), agent.bytes(&session));
            }
        }
    }
    for args in [
        &["--size-threshold", "300", "--batch-ceiling", "2000"][..],
        &["--size-threshold", "2KB", "--batch-ceiling", "4KB"],
        &["--size-threshold", "2KB", "--batch-ceiling", "unlimited"],
        &["--size-threshold", "unlimited", "--batch-ceiling", "3000"],
        &["--tool", "run=unlimited"],
        &["--tool", "run=350"],
    ] {
        let report = |more: &[&str]| {
            let ran = sandbox.run(&[&["check", ".", "--output-format", "json"], args, more].concat());
            let report: Value = serde_json::from_str(&ran.stdout).unwrap();
            let findings = |file: &Value| Some((file["path"].clone(), file["findings"].clone()));
            let files = report["files"].as_array().unwrap().iter().filter(|f| f["status"] != "clean");
            (ran.status, files.filter_map(findings).collect::<Vec<_>>(), report["errors"].clone())
        };
        assert_eq!(report(&[]), report(&["--thorough"]), "{args:?}");
    }
}

/// The exception, known and small: an image is charged 4,800 bytes, so a line may be shorter than what it counts.
#[test]
fn an_image_is_charged_more_than_it_is_long() {
    let session =
        Session::new(vec![vec![Res::list(vec![Part::Text("\"r\"".to_owned()), Part::Image("AAAA".to_owned())])]]);
    let limits = limits(Limit::Bytes(4000), None, Limit::Unlimited);
    for agent in agents() {
        let bytes = agent.bytes(&session);
        assert_eq!(whole(&agent, &bytes, &limits).targets.len(), 1 + agent.echoes, "{}", agent.label);
    }
}
