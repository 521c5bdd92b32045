//! The samples beside `$UNWEDGE_SHARED/corpus/README.md`, and its figures.

use std::path::PathBuf;

use unwedge::format;

use crate::support::{claimants, limits, read, repair, shown};

fn corpus() -> Option<PathBuf> {
    std::env::var_os("UNWEDGE_SHARED").map(|shared| PathBuf::from(shared).join("corpus"))
}

/// Responses, the largest, the largest batch; copies; and what is found at the limits the README gives.
#[test]
fn figures() {
    let Some(corpus) = corpus() else { return };
    let limits = limits(&["--size-threshold", "512", "--batch-ceiling", "1024"]);
    for (name, path, expected, copies, targets) in [
        ("copilot", "copilot/session-state/be25adf7-5860-40ac-bfb6-000000000000/events.jsonl", (1, 920, 920), 3, 3),
        ("cline", "cline/cli/sessions/1796083950583_o5q11/1796083950583_o5q11.messages.json", (2, 1003, 1923), 0, 2),
        ("cline", "cline/vscode/tasks/1733000000000/api_conversation_history.json", (2, 946, 946), 0, 2),
        ("cline", "cline/vscode/tasks/1733000000000/ui_messages.json", (0, 0, 0), 2, 2),
    ] {
        let path = corpus.join(path);
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(claimants(&path, &bytes), [name]);
        let format = format::named(name).unwrap();
        let found = read(format, &path, &bytes, &limits, 1 << 16);
        let sizes =
            || found.located.responses.iter().filter(|r| !r.only_copies).map(|r| unwedge::assess::size(&r.parts));
        let batch = found.batches.values().map(|b| b.size).max().unwrap_or(0);
        assert_eq!(
            (sizes().count(), sizes().max().unwrap_or(0), batch),
            expected,
            "{}: {:#?}",
            path.display(),
            shown(&found.located)
        );
        assert_eq!(found.located.responses.iter().map(|r| r.copies.len()).sum::<usize>(), copies);
        assert_eq!(found.targets.len(), targets, "{:?}", found.targets);
        assert_eq!((&found.located.broken, &found.located.notes), (&vec![], &vec![]));
        repair(format, &path, &bytes, &limits);
    }
}

/// Other agents' samples are not taken for ours, nor anything that lies beside them.
#[test]
fn nobody_elses() {
    let Some(corpus) = corpus() else { return };
    let mut seen = 0;
    for path in crate::support::files(&corpus) {
        let bytes = std::fs::read(&path).unwrap();
        let below = path.strip_prefix(&corpus).unwrap();
        let claimants = claimants(&path, &bytes);
        assert!(claimants.len() < 2, "{}: {claimants:?}", path.display());
        for name in claimants {
            let ours = crate::support::FORMATS.contains(&name);
            assert!(!ours || below.starts_with(name), "{}: {name}", path.display());
            seen += 1;
        }
    }
    assert!(seen >= 4);
}
