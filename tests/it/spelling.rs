//! The bytes around what is cut, for every agent's sessions: odd spellings, newlines, marks, surrogates, damage.

use crate::agents::{Agent, Mark, Res, lit};
use crate::lines::{SMALL, holds, lines_of, turns};
use crate::round::{Expect, Round};

/// Stored as no agent here stores it, and as valid.
#[test]
fn odd_spellings_are_kept() {
    let slashes = format!("\"{}\"", r"\/usr\/bin\u002f\u00e9\b\f".repeat(100));
    let spelled = r"\/usr\/bin\u002f\u00e9\b\f";
    let session = |agent: &Agent| {
        // Of equal keys the last one counts.
        let twice = format!("\"short\",\"{}\":{}", agent.key, lit(&lines_of(1200)));
        let unread = format!("{},\"{}\":\"short\"", lit(&lines_of(1200)), agent.key);
        turns(vec![Res::stored(&slashes), Res::stored(&twice), Res::stored(&unread)])
    };
    Round::with(|agent| Some((agent.bytes(&session(agent)), Expect::Cut))).args(SMALL).run(|done| {
        done.found(2, false);
        assert!(holds(done.new, r#""slash":"a\/b","n":1E5,"small":0.000009,"twice":1,"twice":"2""#));
        assert!(holds(done.new, &spelled.repeat(10)));
        assert!(holds(done.new, &lit(&lines_of(1200))), "the one that nobody reads stays");
    });
}

#[test]
fn newlines_are_kept() {
    let session = turns(vec![Res::text(&lines_of(1200)), Res::text("short"), Res::text(&lines_of(5000))]).with_copies();
    for (newline, ended) in [("\r\n", true), ("\r\n", false), ("\n", false)] {
        Round::with(|agent| Some((agent.file(&agent.records(&session), newline, ended), Expect::Cut))).args(SMALL).run(
            |done| {
                done.found(2, true);
                assert_eq!(done.new.ends_with(b"\n"), ended);
                let count = |bytes: &[u8]| memchr::memmem::find_iter(bytes, newline).count();
                assert_eq!(count(done.new), count(done.old));
            },
        );
    }
}

#[test]
fn a_byte_order_mark_is_kept_or_refused_as_the_agent_does() {
    let session = turns(vec![Res::text(&lines_of(1200)), Res::text(&lines_of(5000))]);
    let marked = |agent: &Agent| {
        let bytes = ["\u{feff}".as_bytes(), &agent.bytes(&session)].concat();
        let expect = match agent.mark {
            Mark::Kept => Expect::Cut,
            Mark::OneRecord => Expect::Broken(vec![1]),
            Mark::Refused => Expect::Refused,
        };
        Some((bytes, expect))
    };
    Round::with(marked).args(SMALL).run(|done| {
        assert!(done.new.starts_with("\u{feff}".as_bytes()));
        if done.agent.mark == Mark::Refused {
            let message = done.errors[0]["message"].as_str().unwrap();
            assert!(message.contains("byte order mark"), "{message}");
        } else {
            done.found(2, false);
        }
    });
}

/// A reader of lines that splits at these finds no JSON.
#[test]
fn only_a_newline_ends_a_line() {
    let text = format!("a\u{2028}b\u{2029}c\u{85}d\u{b}e\u{c}f\0g{}", "漢\u{2028}".repeat(300));
    let mut session = turns(vec![Res::text(&text), Res::text("a\u{2028}b\u{2029}"), Res::text("\u{85}")]).with_copies();
    session.said = lit("go\u{2028}on\u{85}");
    Round::of(&session).args(SMALL).run(|done| {
        done.found(1, true);
        assert_eq!(done.file["sums"]["responses"], 3);
    });
}

#[test]
fn unpaired_surrogates_are_neither_skipped_nor_repaired() {
    let x = "x".repeat(1200);
    let literals = [
        format!(r#""\ud83d{x}""#),
        format!(r#""{x}\ud83d""#),
        format!(r#""\ude00{x}\ud83d\ud83d\ude00\ud83dx""#),
        format!("\"{}\"", r"\ud83d".repeat(400)),
        format!("\"x{}\"", r"\udfff".repeat(400)),
    ];
    let sizes = [1203, 1203, 1214, 1200, 1201];
    let mut session = turns(literals.iter().map(|l| Res::stored(l)).collect()).with_copies();
    session.turns.push(vec![Res::stored(r#""short \ud83d""#)]);
    session.said = r#""go \udead on""#.to_owned();
    Round::of(&session).args(SMALL).run(|done| {
        done.found(5, true);
        let mut found: Vec<u64> = done.findings("response").iter().map(|f| f["size"].as_u64().unwrap()).collect();
        let mut wanted = sizes.to_vec();
        found.sort_unstable();
        wanted.sort_unstable();
        assert_eq!(found, wanted);
        assert!(
            holds(done.new, r"short \ud83d") && holds(done.new, r"go \udead on") && holds(done.new, r#""\ud83dxxx"#)
        );
    });
}

#[test]
fn broken_lines_stay_and_are_reported_and_the_rest_is_repaired() {
    let session = turns((0..4).map(|n| Res::text(&lines_of(1200 + n))).collect()).with_copies();
    let broken = |agent: &Agent| {
        let mut records = agent.records(&session);
        let last = records.last().unwrap().clone();
        let nuls = "\0".repeat(40);
        // Between the turns, so that no call or result is lost.
        let step = records.len() / 4;
        for (at, bad) in
            [(1, &*nuls), (step + 1, r#"{"type":"user","text":"it never ends"#), (2 * step + 1, r#"{"a":1}{"b":2}"#)]
                .into_iter()
                .rev()
        {
            records.insert(at, bad.to_owned());
        }
        records.push(last[..last.len() / 2].to_owned());
        let bad = [2, step + 3, 2 * step + 4, records.len()].map(|line| line as u64);
        (records, bad.to_vec())
    };
    let make = |agent: &Agent| {
        let (records, bad) = broken(agent);
        agent.is_lines().then(|| (agent.file(&records, "\n", false), Expect::Broken(bad)))
    };
    Round::with(make).args(SMALL).run(|done| {
        done.found(4, true);
        let (records, bad) = broken(done.agent);
        let lines: Vec<&[u8]> = done.new.split(|b| *b == b'\n').collect();
        for line in bad {
            assert_eq!(lines[line as usize - 1], records[line as usize - 1].as_bytes());
        }
        for error in &done.errors {
            let message = error["message"].as_str().unwrap();
            assert!(message.contains(&format!("{}:{}", done.agent.path, error["line"])), "{message}");
        }
    });
}

#[test]
fn a_torn_document_stays_and_is_reported() {
    let session = turns(vec![Res::text(&lines_of(1200)), Res::text(&lines_of(5000))]);
    let torn = |agent: &Agent| {
        let whole = agent.bytes(&session);
        (!agent.is_lines()).then(|| (whole[..whole.len() - 700].to_vec(), Expect::Refused))
    };
    Round::with(torn).args(SMALL).run(|done| assert_eq!(done.errors[0]["code"], "broken"));
}
