//! Changes to JSON that leave it JSON, mostly: what bytes alone would rarely come to, so that locators are reached in their depth.

/// Strings that mean something to the text side: markers, second lines, escapes, base64, pairs and their halves.
const WORDS: [&[u8]; 19] = [
    b"null",
    b"[]",
    b"{}",
    b"true",
    b"0",
    b"18446744073709551615",
    b"-1.5e9",
    br#""""#,
    br#""... [truncated, 623 B \u2192 100 B]""#,
    "\"kept\\n... [truncated, 99 KB → 0 B]\"".as_bytes(),
    "\"... [truncated, 1.0 GB → 52 B]\\n[1 of 9 lines kept; omitted 2-9; full text: /a]\"".as_bytes(),
    "\"k\\n[18446744073709551615 bytes kept]\\n... [truncated, 18446744073709551615 B → 79 B]\"".as_bytes(),
    "\"... [truncated, 9 KB → 84 B]\\n[18446744073709551614 of 18446744073709551615 lines kept]\\nx\"".as_bytes(),
    br#""\ud83d""#,
    br#""\ud83d\ude00\u00e9\/""#,
    br#""aGVsbG8gaGVsbG8gaGVsbG8gaGVsbG8gaGVsbG8gaGVsbG8gaGVsbG8gaGVsbG8gaGVsbG8gaGVsbG8gaGVsbG8K""#,
    br#"[{"type":"text","text":"t"}]"#,
    br#""data:image/png;base64,iVBORw0KGgo=""#,
    br#""diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n""#,
];

/// A small generator of numbers: the same for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or(0) % most.max(1)
    }
}

/// One to three changes. `None` where there is no JSON to be seen, or the result would be too long.
#[must_use]
pub fn json(data: &[u8], most: usize, seed: u32) -> Option<Vec<u8>> {
    let mut random = Random(u64::from(seed));
    random.below(1);
    let mut new = data.to_vec();
    for _ in 0..=random.below(3) {
        new = change(&new, &mut random)?;
    }
    (new.len() <= most && new != data).then_some(new)
}

fn change(data: &[u8], random: &mut Random) -> Option<Vec<u8>> {
    if random.below(4) == 0 {
        return lines(data, random);
    }
    let values = values(data);
    if values.is_empty() {
        return None;
    }
    let (from, to) = values[random.below(values.len())];
    let (other_from, other_to) = values[random.below(values.len())];
    let (old, other) = (&data[from..to], &data[other_from..other_to]);
    let new = match random.below(8) {
        // Another value of the same document, keys among them.
        0 | 1 => other.to_vec(),
        2 => WORDS[random.below(WORDS.len())].to_vec(),
        // A long string.
        3 | 4 if old.starts_with(b"\"") && old.len() > 1 => {
            let inner = &old[1..old.len() - 1];
            let filler: &[u8] = [&b"x"[..], b"\\n", b"\\u00e9", "界".as_bytes(), b"ab\\n"][random.below(5)];
            [b"\"", inner, &filler.repeat(random.below(300)), b"\""].concat()
        }
        5 => [b"[", old, b",", other, b"]"].concat(),
        6 => [old, b",", old].concat(),
        _ => [b"{", WORDS[7 + random.below(5)], b":", old, b"}"].concat(),
    };
    Some([&data[..from], &new, &data[to..]].concat())
}

/// Lines swapped, doubled, gone, torn.
fn lines(data: &[u8], random: &mut Random) -> Option<Vec<u8>> {
    let mut lines: Vec<&[u8]> = data.split_inclusive(|b| *b == b'\n').collect();
    if lines.len() < 2 {
        return None;
    }
    let (a, b) = (random.below(lines.len()), random.below(lines.len()));
    match random.below(5) {
        0 => lines.swap(a, b),
        1 => lines.insert(b, lines[a]),
        2 => drop(lines.remove(a)),
        3 => lines[a] = &lines[a][..random.below(lines[a].len())],
        _ => {
            let line = lines.remove(a);
            lines.push(line);
        }
    }
    Some(lines.concat())
}

/// Where the values stand, keys among them, as far as the brackets hold. Whatever it is: nothing depends on it but luck.
fn values(data: &[u8]) -> Vec<(usize, usize)> {
    let mut values = Vec::new();
    let mut open = Vec::new();
    let mut at = 0;
    while let Some(byte) = data.get(at) {
        let from = at;
        at += 1;
        match byte {
            b'"' => {
                while data.get(at).is_some_and(|b| *b != b'"') {
                    at += if data[at] == b'\\' { 2 } else { 1 };
                }
                at = (at + 1).min(data.len());
                values.push((from, at));
            }
            b'{' | b'[' => open.push(from),
            b'}' | b']' => values.extend(open.pop().map(|from| (from, at))),
            b'0'..=b'9' | b'-' | b'a'..=b'z' => {
                while data.get(at).is_some_and(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'+' | b'-')) {
                    at += 1;
                }
                values.push((from, at));
            }
            _ => {}
        }
    }
    values
}

#[cfg(test)]
mod tests {
    #[test]
    fn documents_stay_documents_mostly() {
        let doc = br#"{"a":[1,"x",null],"b":{"c":"y"}}
{"a":"z"}
"#;
        let changed = (0..1000).filter_map(|seed| super::json(doc, 4096, seed)).collect::<Vec<_>>();
        let whole = |doc: &&Vec<u8>| {
            let mut lines = doc.split(|b| *b == b'\n').filter(|line| !line.is_empty());
            lines.all(|line| serde_json::from_slice::<&serde_json::value::RawValue>(line).is_ok())
        };
        assert!(changed.len() > 900 && changed.iter().filter(whole).count() > 300);
        assert!(changed.iter().all(|new| new != doc));
    }
}
