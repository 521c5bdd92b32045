//! The cases in `testdata/`, and the samples beside this package where `UNWEDGE_SHARED` says where they are.

use super::*;

/// `corpus/README.md` has the figures.
#[test]
fn the_samples_come_out_as_they_were_measured() {
    let Some(shared) = shared() else { return };
    let corpus = shared.join("corpus/pi");
    // Responses, live ones, the largest, the largest live batch, how many are over 256 KB.
    for (name, expected) in [
        ("01-native-notices-v3", [9, 9, 51_303, 256_613, 0]),
        ("02-wedged-single-v3", [1, 1, 637_123, 637_123, 1]),
        ("03-wedged-batch-v3", [6, 6, 785_794, 2_370_831, 3]),
        // One is the replacement that a context_edit gives to another; both are compacted.
        ("04-tree-all-entry-types-v3", [3, 1, 300_024, 26, 1]),
        ("05-legacy-v1", [1, 0, 290_012, 0, 1]),
        ("06-legacy-v2", [1, 0, 290_012, 0, 1]),
        ("07-hostile-text-v3", [5, 5, 528_779, 798_808, 2]),
        ("08-image-wedge-v3", [3, 3, 4812, 4812, 0]),
        ("repaired/02-a-inplace-only", [1, 1, 262_139, 262_139, 0]),
        ("repaired/02-b-inplace+neutral-error", [1, 1, 262_139, 262_139, 0]),
        ("repaired/02-c-inplace+drop-errors", [1, 1, 262_139, 262_139, 0]),
        ("repaired/02-d-context-edit-only", [2, 1, 637_123, 262_139, 1]),
        ("repaired/02-e-stale-usage-still-compacts", [1, 1, 262_139, 262_139, 0]),
        ("repaired/02-f-stale-usage+context-edit", [2, 1, 262_139, 262_139, 0]),
        ("repaired/02-g-stale-usage-lowered", [1, 1, 262_139, 262_139, 0]),
        ("repaired/08-images-to-placeholders", [3, 3, 67, 67, 0]),
    ] {
        let path = corpus.join(format!("{name}.jsonl"));
        let bytes = load(&path);
        let located = located(&Pi, NAME, &bytes);
        assert_eq!(figures(&located), expected, "{name}");
        assert!(located.broken.is_empty(), "{name}");
        let wedged = notes(&located).iter().any(|n| n.contains("ends in a stored error"));
        assert_eq!(wedged, ["02-w", "03", "08", "repaired/02-a"].iter().any(|n| name.starts_with(n)), "{name}");
        for (threshold, ceiling, keep) in [
            ("64", "64", Keep::Head),
            ("100", "200", Keep::Tail),
            ("1KB", "2KB", Keep::Both),
            ("256KB", "2MB", Keep::Head),
        ] {
            repair(&Pi, &path, &bytes, &limits(&[("*", threshold)], ceiling, keep));
        }
    }
    let details = located(&Pi, NAME, &load(&corpus.join("07-hostile-text-v3.jsonl")));
    assert_eq!(summary(&details)[3], "functions.ext:3 ext batch 1 size 0 in 0, details 300000");
}

/// The worked example, byte for byte.
#[test]
fn the_worked_example() {
    let Some(shared) = shared() else { return };
    let dir = shared.join("conformance/golden/pi");
    let limits = limits(&[("*", "1KB"), ("read", "unlimited")], "2KB", Keep::Tail);
    let (new, cuts) = repair(&Pi, Path::new(NAME), &load(&dir.join("before").join(NAME)), &limits);
    assert!(new == load(&dir.join("after").join(NAME)));
    assert!(cuts >= 4);
}

/// The cases in `testdata/`.
#[test]
fn cases_keep_the_laws() {
    cases(&Pi);
}
