//! A base64 blob goes whole: half an image is none. What is said of it is its media type, size and hash.

use base64::Engine as _;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use sha2::{Digest, Sha256};

use super::compose::Composition;
use super::{Counted, Kept, Piece, Second, Side, Try, shown};

/// Shorter ones may be a hash or a key.
const LEAST: usize = 512;

/// The note in place of the blob that a text is. `None` where it is none.
pub(super) fn fit(cut: &Try<'_>) -> Option<Composition> {
    let text = cut.text;
    let note = note(&text.body).filter(|_| text.alone())?;
    let total = cut.total(Counted::Base64, |text| text.len() as u64);
    let line = cut.named(Second::of(Counted::Base64, 0, 0, total));
    let kept = Kept { pieces: vec![Piece::Note(0, note)], side: Side::After, line };
    text.compose(&kept).ok().filter(|found| found.total <= cut.room)
}

/// What a blob is: `[image/png, 48213 bytes, sha256 …]`. `None` for what is no long base64 from end to end.
pub(super) fn note(text: &[u8]) -> Option<String> {
    let text = text.trim_ascii();
    let (named, chars) = match text.strip_prefix(b"data:") {
        Some(url) => {
            let comma = memchr::memchr(b',', url.get(..200.min(url.len()))?)?;
            let (head, chars) = url.split_at_checked(comma)?;
            let kind = shown(head.strip_suffix(b";base64")?).into_owned();
            (kind.split(';').next().filter(|kind| is_media_type(kind)).map(str::to_owned), chars.get(1..)?)
        }
        None => (None, text),
    };
    if chars.len() < LEAST || !looks_encoded(chars) {
        return None;
    }
    let chars: Vec<u8> = chars.iter().copied().filter(|b| !b.is_ascii_whitespace()).collect();
    let lenient = GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    let bytes = GeneralPurpose::new(&base64::alphabet::STANDARD, lenient).decode(chars).ok()?;
    let is_text = std::str::from_utf8(&bytes).is_ok();
    let unknown = if is_text { "text/plain" } else { "application/octet-stream" };
    let kind = named.or_else(|| sniffed(&bytes).map(str::to_owned)).unwrap_or_else(|| unknown.to_owned());
    let hash: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    Some(format!("[{kind}, {} bytes, sha256 {hash}]", bytes.len()))
}

fn is_media_type(kind: &str) -> bool {
    kind.len() < 80
        && kind.contains('/')
        && kind.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'/' | b'.' | b'+' | b'-'))
}

/// Letters of both cases and digits, in one line or in lines of one length: what a list of hashes or of names is not.
fn looks_encoded(chars: &[u8]) -> bool {
    let all = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'=' | b'\n' | b'\r');
    let any = |is: fn(&u8) -> bool| chars.iter().any(is);
    let mixed = any(u8::is_ascii_uppercase) && any(u8::is_ascii_lowercase) && any(u8::is_ascii_digit);
    let mut lines = chars.split(|b| *b == b'\n');
    let width = lines.next().map_or(0, <[u8]>::len);
    let last = lines.next_back().map_or(0, <[u8]>::len);
    chars.iter().all(all) && mixed && width >= 60 && last <= width && lines.all(|line| line.len() == width)
}

/// The media type that the first bytes show.
fn sniffed(bytes: &[u8]) -> Option<&'static str> {
    const KNOWN: [(&[u8], &str); 10] = [
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"\xff\xd8\xff", "image/jpeg"),
        (b"GIF8", "image/gif"),
        (b"BM", "image/bmp"),
        (b"%PDF-", "application/pdf"),
        (b"PK\x03\x04", "application/zip"),
        (b"\x1f\x8b", "application/gzip"),
        (b"\x7fELF", "application/x-elf"),
        (b"OggS", "audio/ogg"),
        (b"\x28\xb5\x2f\xfd", "application/zstd"),
    ];
    if bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") {
        return Some("image/webp");
    }
    KNOWN.iter().find(|(start, _)| bytes.starts_with(start)).map(|(_, kind)| *kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::engine::general_purpose::STANDARD;

    #[test]
    fn what_it_is() {
        let png = [b"\x89PNG\r\n\x1a\n".as_slice(), &[7; 1000]].concat();
        let blob = STANDARD.encode(&png);
        let hash: String = Sha256::digest(&png).iter().map(|byte| format!("{byte:02x}")).collect();
        let expected = format!("[image/png, 1008 bytes, sha256 {hash}]");
        assert_eq!(note(blob.as_bytes()), Some(expected.clone()));
        let wrapped: String = blob.as_bytes().chunks(76).map(|line| format!("{}\r\n", shown(line))).collect();
        assert_eq!(note(wrapped.as_bytes()), Some(expected.clone()));
        assert_eq!(note(blob.trim_end_matches('=').as_bytes()), Some(expected.clone()));
        let url = format!("data:image/x-own;charset=a;base64,{blob}");
        assert_eq!(note(url.as_bytes()), Some(expected.replace("png", "x-own")));
        let bytes: Vec<u8> = (0..600_u32).map(|i| (i * 7 % 251) as u8).collect();
        assert!(note(STANDARD.encode(bytes).as_bytes()).unwrap().starts_with("[application/octet-stream, 600 bytes"));
    }

    #[test]
    fn what_it_is_not() {
        assert_eq!(note(b"aGVsbG8="), None, "short");
        assert_eq!(note("word and word ".repeat(100).as_bytes()), None);
        assert_eq!(note("hello-".repeat(200).as_bytes()), None);
        assert_eq!(note("x".repeat(1000).as_bytes()), None);
        assert_eq!(note("00112233445566778899aabbccddeeff00112233\n".repeat(50).as_bytes()), None, "hashes");
        assert_eq!(note("src/Main1\nsrc/a/B2\n".repeat(50).as_bytes()), None, "paths");
        assert_eq!(note("aB3".repeat(667).as_bytes()), None, "no length that base64 has");
    }
}
