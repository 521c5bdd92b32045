//! Streams in memory, read for their outline.

use std::path::Path;

use serde_json::Value;
use unwedge::assess::{Assessment, Reading};
use unwedge::cap::limits::Limits;
use unwedge::format::{self, Depth, Outline, Weight};

/// Reads a stream at a depth, in chunks of this many bytes, with what lies beside it.
pub fn read(format: &str, path: &Path, bytes: &[u8], depth: Depth, chunk: usize) -> Assessment {
    let aside = path.with_file_name("base_config.json");
    let config = std::fs::read(&aside).ok().filter(|_| format == "jp");
    let asides = config.iter().map(|bytes| (&*aside, &**bytes));
    let mut reading = Reading::new(format::named(format).unwrap(), path, depth, asides);
    bytes.chunks(chunk).for_each(|chunk| reading.push(chunk).unwrap());
    reading.finish(&Limits::default(), false)
}

/// The outline of a stream. However it comes in, and nothing else differs from what is found without it.
pub fn outline_of(format: &str, path: &Path, bytes: &[u8]) -> Option<Outline> {
    let mut whole = read(format, path, bytes, Depth::Outline, bytes.len().max(1)).located;
    assert_eq!(whole, read(format, path, bytes, Depth::Outline, 1009).located);
    let outline = whole.outline.take();
    assert_eq!(whole, read(format, path, bytes, Depth::Limits, bytes.len().max(1)).located, "{}", path.display());
    outline
}

/// That of a stream that has one.
pub fn outline(format: &str, bytes: &[u8]) -> Outline {
    let name = match format {
        "cline" => "/x/1.messages.json",
        "jp" => "/x/events.json",
        _ => "/x/stream.jsonl",
    };
    outline_of(format, Path::new(name), bytes).expect("an outline")
}

/// Records as lines.
pub fn lines(records: &[Value]) -> Vec<u8> {
    records.iter().flat_map(|r| [serde_json::to_vec(r).unwrap(), b"\n".to_vec()].concat()).collect()
}

pub fn weight(assistant: u64, user: u64, attachments: u64, images: u64, other: u64) -> Weight {
    Weight { assistant, user, attachments, images, other }
}
