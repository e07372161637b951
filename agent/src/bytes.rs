// SPDX-License-Identifier: Apache-2.0
//! Bytes in JSON: a string if they are valid UTF-8 and that is no longer than base64, otherwise
//! `{"base64": "…"}`.

use base64::engine::general_purpose::STANDARD;
use base64::Engine;
use serde::de::Error as _;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt::Write;
use std::ops::Deref;

/// Longest line of either side of the protocol, including its newline.
pub const LINE_BYTES: usize = 4 << 20;

/// Formats bytes as two digits each.
#[must_use]
pub fn hexadecimal(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
            // Writing to a string cannot fail.
            write!(text, "{byte:02x}").unwrap_or_default();
            text
        })
}

/// The bytes of a file.
#[derive(Debug, Clone, PartialEq, Eq, Default, Hash, PartialOrd, Ord)]
pub struct Bytes(pub Vec<u8>);

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl From<&[u8]> for Bytes {
    fn from(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }
}

impl From<&str> for Bytes {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().to_vec())
    }
}

impl Bytes {
    /// Formats the content for a message: as text, trimmed and shortened.
    #[must_use]
    pub fn brief(&self) -> String {
        let text = String::from_utf8_lossy(&self.0);
        let text = text.trim();
        if text.chars().count() > 80 {
            return format!("{}…", text.chars().take(79).collect::<String>());
        }
        text.to_owned()
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let Some(text) = std::str::from_utf8(&self.0).ok().filter(|text| is_short(text)) {
            return serializer.serialize_str(text);
        }
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry("base64", &STANDARD.encode(&self.0))?;
        map.end()
    }
}

/// Whether a text is no longer as a JSON string than in base64: JSON escapes control characters
/// with up to six characters.
fn is_short(text: &str) -> bool {
    let written = |byte: u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 8 | 12 => 2,
        0..=31 => 6,
        _ => 1,
    };
    let length: usize = text.bytes().map(written).sum();
    length + r#""""#.len() <= text.len().div_ceil(3) * 4 + r#"{"base64":""}"#.len()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Encoded {
    base64: String,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Either {
    Text(String),
    Encoded(Encoded),
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let either = Either::deserialize(deserializer)
            .map_err(|_| D::Error::custom("expected a string or {\"base64\": \"…\"}"))?;
        match either {
            Either::Text(text) => Ok(Self(text.into_bytes())),
            Either::Encoded(encoded) => STANDARD
                .decode(&encoded.base64)
                .map(Self)
                .map_err(|error| D::Error::custom(format!("base64: {error}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_text_and_the_rest_is_base64() {
        assert_eq!(serde_json::to_string(&Bytes::from("60\n")).unwrap(), "\"60\\n\"");
        let raw = Bytes(vec![0xff, 0]);
        let json = serde_json::to_string(&raw).unwrap();
        assert_eq!(json, r#"{"base64":"/wA="}"#);
        assert_eq!(serde_json::from_str::<Bytes>(&json).unwrap(), raw);
    }

    #[test]
    fn control_characters_never_make_it_much_longer() {
        assert_eq!(
            serde_json::to_string(&Bytes::from("a\0b")).unwrap(),
            r#""a\u0000b""#
        );
        for byte in 0..=127_u8 {
            let bytes = Bytes(vec![byte; 3000]);
            let json = serde_json::to_string(&bytes).unwrap();
            assert!(json.len() <= 4020, "{byte}: {}", json.len());
            assert_eq!(serde_json::from_str::<Bytes>(&json).unwrap(), bytes);
        }
    }

    #[test]
    fn other_shapes_are_refused() {
        for bad in ["1", "null", r#"{"base64":"!"}"#, r#"{"base64":"","x":1}"#] {
            assert!(serde_json::from_str::<Bytes>(bad).is_err(), "{bad}");
        }
    }
}
