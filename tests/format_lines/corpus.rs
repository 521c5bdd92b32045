//! The samples of the shared folder, where `UNWEDGE_SHARED` names it. The figures are what `measure.py` beside them prints
//! for a threshold of 512 bytes and a ceiling of 1024.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use unwedge::assess::size;
use unwedge::format::{FORMATS, HEAD, Probe};

use super::support::{Args, read, repair, walk};

const ROLLOUTS: &str = "codex/sessions/2026/12/01/rollout-2026-12-01T00-0";

struct Expected {
    format: &'static str,
    path: String,
    responses: usize,
    live: usize,
    largest: u64,
    /// Of the live ones.
    largest_batch: u64,
    over: usize,
    heavy_batches: usize,
    /// Copies that are sent too, and those that are not.
    copies: (usize, usize),
}

fn expected() -> [Expected; 5] {
    [
        Expected {
            format: "codex",
            path: format!("{ROLLOUTS}5-15-01a22eeb-800a-7121-8dfc-6a79f9b92b5c.jsonl"),
            responses: 3,
            live: 3,
            largest: 5720,
            largest_batch: 6791,
            over: 2,
            heavy_batches: 1,
            copies: (0, 2),
        },
        Expected {
            format: "codex",
            path: format!("{ROLLOUTS}6-00-01a22eeb-0000-7121-8dfc-000000000001.legacy-compacted.jsonl"),
            responses: 6,
            live: 3,
            largest: 5720,
            largest_batch: 6791,
            over: 4,
            heavy_batches: 1,
            copies: (0, 1),
        },
        Expected {
            format: "gemini-json",
            path: "gemini/tmp/demo/chats/session-2025-11-20T10-00-aaaaaaaa.json".into(),
            responses: 2,
            live: 2,
            largest: 920,
            largest_batch: 1320,
            over: 1,
            heavy_batches: 0,
            copies: (0, 2),
        },
        Expected {
            format: "gemini",
            path: "gemini/tmp/demo/chats/session-2026-12-01T00-10-1c4bf908.jsonl".into(),
            responses: 2,
            live: 2,
            largest: 920,
            largest_batch: 1320,
            over: 1,
            heavy_batches: 0,
            copies: (2, 2),
        },
        Expected {
            format: "qwen",
            path: "qwen/projects/-home-demo/chats/ee81102e-8c55-4ef8-a8e0-604c40d2793e.jsonl".into(),
            responses: 1,
            live: 1,
            largest: 920,
            largest_batch: 920,
            over: 1,
            heavy_batches: 0,
            copies: (0, 1),
        },
    ]
}

fn corpus() -> Option<PathBuf> {
    std::env::var_os("UNWEDGE_SHARED").map(|shared| PathBuf::from(shared).join("corpus"))
}

#[test]
fn figures() {
    let Some(corpus) = corpus() else { return };
    let args = Args::new(&["--size-threshold", "512", "--batch-ceiling", "1024"]);
    for expected in expected() {
        let bytes = std::fs::read(corpus.join(&expected.path)).unwrap();
        let found = read(expected.format, &bytes, &args, 4096).located;
        assert_eq!((&*found.broken, &*found.notes), (&[][..], &[][..]), "{}", expected.path);
        let live: Vec<_> = found.responses.iter().filter(|r| r.dead.is_none()).collect();
        let mut batches: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for response in &live {
            batches.entry(response.batch).or_default().push(size(&response.parts));
        }
        let sizes: Vec<u64> = found.responses.iter().map(|r| size(&r.parts)).collect();
        let copies = found.responses.iter().flat_map(|r| &r.copies);
        let (sent, kept): (Vec<_>, Vec<_>) = copies.partition(|copy| copy.sent);
        let capped = |batch: &&Vec<u64>| batch.iter().map(|size| *size.min(&512)).sum::<u64>() > 1024;
        let figures = (
            (sizes.len(), live.len()),
            sizes.iter().max().copied(),
            batches.values().map(|batch| batch.iter().sum()).max(),
            sizes.iter().filter(|size| **size > 512).count(),
            batches.values().filter(capped).count(),
            (sent.len(), kept.len()),
        );
        let readme = (
            (expected.responses, expected.live),
            Some(expected.largest),
            Some(expected.largest_batch),
            expected.over,
            expected.heavy_batches,
            expected.copies,
        );
        assert_eq!(figures, readme, "{}", expected.path);
        repair(expected.format, &bytes, &args);
        // Nothing is over the limits in force.
        assert_eq!(read(expected.format, &bytes, &Args::default(), 4096).targets, [], "{}", expected.path);
    }
}

#[test]
fn every_sample_is_claimed_by_its_own_format() {
    let Some(corpus) = corpus() else { return };
    let mut files = Vec::new();
    walk(&corpus, &mut files);
    let expected: BTreeMap<PathBuf, &str> = expected().into_iter().map(|e| (corpus.join(e.path), e.format)).collect();
    let ours = ["codex", "gemini", "gemini-json", "qwen"];
    let mut claimed = 0;
    for file in &files {
        let bytes = std::fs::read(file).unwrap();
        for path in [file, Path::new("/elsewhere").join(file.file_name().unwrap()).as_path()] {
            let probe = Probe { path, head: &bytes[..bytes.len().min(HEAD)] };
            let claims = FORMATS.iter().filter(|f| f.candidate(path) && f.claims(&probe)).map(|f| f.about().name);
            let claims: Vec<_> = claims.filter(|name| ours.contains(name)).collect();
            assert_eq!(claims, expected.get(file).map_or(vec![], |name| vec![*name]), "{}", path.display());
            claimed += claims.len();
        }
    }
    assert_eq!(claimed, 10);
}
