//! What is told without reading a stream is what reading it would tell.

use std::path::Path;

use unwedge::assess::Reading;
use unwedge::cap::limits::{Layer, Limit, Limits, Source};
use unwedge::cap::plan::Rule;
use unwedge::format::{Depth, FORMATS, Framing};
use unwedge::skim::{Bytes, nothing_over};

use crate::input::Input;

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

pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let (how, most, ceiling) = (input.byte(), input.small() % 1024, input.small() % 4096);
    // Now and then longer than the blocks that are read: the same bytes again and again.
    let len = if how % 8 == 0 && !input.0.is_empty() { 20_000 + usize::from(input.byte()) * 200 } else { input.0.len() };
    let doc: Vec<u8> = input.0.iter().copied().cycle().take(len).collect();
    let longest = doc.split(|b| *b == b'\n').map(<[u8]>::len).max().unwrap_or(0) as u64;
    let lines = nothing_over(&Slice(&doc), None, Some(most), None).unwrap();
    assert_eq!(lines, longest <= most || doc.len() as u64 <= most);
    let named = nothing_over(&Slice(&doc), None, Some(most), Some(ceiling)).unwrap();
    assert_eq!(named, lines && doc.len() as u64 <= ceiling);

    // Whatever the bytes, no response alone is over a threshold where nothing was said to be.
    let format = FORMATS[usize::from(how) % FORMATS.len()];
    if format.framing() != Framing::Lines {
        return;
    }
    let (most, ceiling) = (most.max(64), ceiling.max(64));
    if !nothing_over(&Slice(&doc), format.seams(), Some(most), Some(ceiling)).unwrap() {
        return;
    }
    let mut layer = Layer::new(Source::SizeFlag);
    layer.thresholds.insert("*".into(), Limit::Bytes(most));
    layer.ceiling = Some(Limit::Bytes(ceiling));
    let limits = Limits::new(vec![layer]);
    let mut reading = Reading::new(format, Path::new("/w/x.jsonl"), Depth::Limits, []);
    reading.push(&doc).unwrap();
    let found = reading.finish(&limits, false);
    let over = found.targets.iter().find(|target| target.held.rule != Rule::Batch);
    assert!(over.is_none(), "called clean, but {over:?}");
}
