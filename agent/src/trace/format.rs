// SPDX-License-Identifier: Apache-2.0
//! The layout of an event's fields, from its `format` file.

use super::page::word;

/// Reinterprets the bits as a signed number.
fn signed(bits: u64) -> i64 {
    i64::from_ne_bytes(bits.to_ne_bytes())
}

/// A field of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Offset in bytes.
    pub offset: usize,
    /// Length in bytes.
    pub bytes: usize,
    /// Whether the field is signed.
    pub signed: bool,
    /// Whether it contains the offset and length of a text instead of the text.
    pub elsewhere: bool,
}

/// The number and fields of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Format {
    /// The number at the beginning of its records.
    pub id: u16,
    fields: Vec<(String, Field)>,
}

impl Format {
    /// Parses a `format` file.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
        let id = value("ID:").ok_or("its format has no ID")?.trim();
        let id = id
            .parse()
            .map_err(|_| format!("its format has an invalid ID: {id:?}"))?;
        let mut fields = Vec::new();
        for line in text.lines() {
            if let Some(line) = line.trim_start().strip_prefix("field:") {
                fields.push(field(line).ok_or_else(|| format!("its format has an invalid field: {line:?}"))?);
            }
        }
        Ok(Self { id, fields })
    }

    /// Returns a field by its name.
    ///
    /// # Errors
    ///
    /// There is no such field.
    pub fn field(&self, name: &str) -> Result<Field, String> {
        let found = self.fields.iter().find(|(known, _)| known == name);
        found
            .map(|(_, field)| *field)
            .ok_or_else(|| format!("it has no field {name}"))
    }
}

/// Parses `unsigned long x;  offset:8;  size:8;  signed:0;`.
fn field(line: &str) -> Option<(String, Field)> {
    let mut parts = line.split(';').map(str::trim);
    let declared = parts.next()?;
    let number = |part: Option<&str>, name: &str| part?.strip_prefix(name)?.parse::<usize>().ok();
    let offset = number(parts.next(), "offset:")?;
    let bytes = number(parts.next(), "size:")?;
    // Kernels before 2.6.34 don't state the sign.
    let signed = number(parts.next(), "signed:") == Some(1);
    let name = declared.split_whitespace().next_back()?;
    let name = name.split('[').next()?.trim_start_matches('*');
    let elsewhere = declared.starts_with("__data_loc");
    let field = Field {
        offset,
        bytes,
        signed,
        elsewhere,
    };
    let sane = !name.is_empty() && offset < 1 << 16 && bytes < 1 << 24;
    sane.then(|| (name.to_owned(), field))
}

impl Field {
    /// Returns the field's value. None if the record is too short or the field is not a number.
    #[must_use]
    pub fn number(&self, record: &[u8]) -> Option<i64> {
        let found = word(record, self.offset, self.bytes)?;
        let bits = 64 - u32::try_from(self.bytes).ok()? * 8;
        let raised = signed(found << bits);
        Some(if self.signed {
            raised >> bits
        } else {
            signed(found << bits >> bits)
        })
    }

    /// Returns the field's text, up to its end or its first zero.
    #[must_use]
    pub fn text<'a>(&self, record: &'a [u8]) -> Option<&'a [u8]> {
        let (offset, bytes) = if self.elsewhere {
            let place = word(record, self.offset, 4)?;
            ((place & 0xffff) as usize, (place >> 16) as usize)
        } else {
            (self.offset, self.bytes)
        };
        let text = record.get(offset..offset.checked_add(bytes)?)?;
        let end = memchr::memchr(0, text).unwrap_or(text.len());
        Some(&text[..end])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARK_VICTIM: &str = "name: mark_victim\nID: 609\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:__data_loc char[] comm;\toffset:8;\tsize:4;\tsigned:0;\n\
        \tfield:char rwbs[10];\toffset:12;\tsize:10;\tsigned:0;\n\
        \tfield:short oom_score_adj;\toffset:22;\tsize:2;\tsigned:1;\n\n\
        print fmt: \"pid=%d\", REC->pid\n";

    #[test]
    fn numbers_and_texts_are_where_the_format_says() {
        let format = Format::parse(MARK_VICTIM).unwrap();
        assert_eq!(format.id, 609);
        let mut record = [0_u8; 40];
        record[0..2].copy_from_slice(&609_u16.to_ne_bytes());
        record[4..8].copy_from_slice(&(-7_i32).to_ne_bytes());
        record[8..12].copy_from_slice(&((11_u32 << 16) + 24).to_ne_bytes());
        record[12..14].copy_from_slice(b"WS");
        record[22..24].copy_from_slice(&(-998_i16).to_ne_bytes());
        record[24..35].copy_from_slice(b"Main Thread");
        let field = |name| format.field(name).unwrap();
        assert_eq!(field("common_type").number(&record), Some(609));
        assert_eq!(field("common_pid").number(&record), Some(-7));
        assert_eq!(field("oom_score_adj").number(&record), Some(-998));
        assert_eq!(field("rwbs").text(&record), Some(&b"WS"[..]));
        assert_eq!(field("comm").text(&record), Some(&b"Main Thread"[..]));
        assert_eq!(field("comm").text(&record[..30]), None);
        assert!(format.field("nothing").is_err());
    }

    #[test]
    fn a_format_without_number_or_with_odd_fields_is_refused() {
        for text in [
            "",
            "name: x\nID: many\n",
            "ID: 70000\n",
            "ID: 1\n\tfield:int x;\n",
            "ID: 1\nfield:;offset:0;size:1;\n",
        ] {
            assert!(Format::parse(text).is_err(), "{text:?}");
        }
    }
}
