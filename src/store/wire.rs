//! How values stand in the journal's lines.

/// A hash as sixty-four digits.
pub(super) mod digest {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(in crate::store) fn serialize<S: Serializer>(sha256: &[u8; 32], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&crate::store::object::hex(sha256))
    }

    pub(in crate::store) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<[u8; 32], D::Error> {
        let text = String::deserialize(from)?;
        crate::store::object::unhex(&text).ok_or_else(|| D::Error::custom("not a hash"))
    }
}

/// A path as text where it is text, else its bytes in base64: no name of a file may be lost to an encoding.
pub(super) mod path {
    use std::path::{Path, PathBuf};

    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum Text {
        Utf8(String),
        Bytes { bytes_base64: String },
    }

    pub(in crate::store) fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
        match path.to_str() {
            Some(text) => to.serialize_str(text),
            None => Text::Bytes { bytes_base64: STANDARD.encode(path.as_os_str().as_encoded_bytes()) }.serialize(to),
        }
    }

    pub(in crate::store) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
        match Text::deserialize(from)? {
            Text::Utf8(text) => Ok(text.into()),
            Text::Bytes { bytes_base64 } => {
                from_bytes(STANDARD.decode(bytes_base64).map_err(|_| D::Error::custom("not base64"))?)
                    .ok_or_else(|| D::Error::custom("not a path of this system"))
            }
        }
    }

    #[cfg(unix)]
    #[expect(clippy::unnecessary_wraps, reason = "elsewhere it can fail")]
    fn from_bytes(bytes: Vec<u8>) -> Option<PathBuf> {
        use std::os::unix::ffi::OsStringExt;
        Some(std::ffi::OsString::from_vec(bytes).into())
    }

    #[cfg(not(unix))]
    fn from_bytes(bytes: Vec<u8>) -> Option<PathBuf> {
        String::from_utf8(bytes).ok().map(PathBuf::from)
    }
}

/// How a text is stored, in a word.
pub(super) mod encoding {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    use crate::text::literal::Encoding;

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
    pub(in crate::store) fn serialize<S: Serializer>(encoding: &Encoding, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(match encoding {
            Encoding::Plain => "plain",
            Encoding::Base64 => "base64",
        })
    }

    pub(in crate::store) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Encoding, D::Error> {
        match String::deserialize(from)?.as_str() {
            "plain" => Ok(Encoding::Plain),
            "base64" => Ok(Encoding::Base64),
            other => Err(D::Error::custom(format!("no encoding: {other}"))),
        }
    }
}
