// SPDX-License-Identifier: Apache-2.0
//! The journal of a transaction: an append-only file of lines with a CRC. `docs/formats.md`
//! describes the format.

mod writer;

use crate::bytes::Bytes;
use crate::transact::machine::{Content, Outcome};
use crate::transact::plan::Plan;
use crate::transact::zram::Swap;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
pub(crate) use writer::Writer;

/// The format version that this agent writes.
pub const VERSION: u32 = 2;

/// The oldest version that this agent reads.
const OLDEST: u32 = 1;

/// Length of the header before an entry's JSON text: length and checksum, each followed by a space.
const HEADER_BYTES: usize = 18;

/// Longest journal that is read and written.
pub const LIMIT_BYTES: u64 = 64 << 20;

/// A line of a journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "kebab-case")]
pub enum Entry {
    /// The transaction and its plan.
    Begin(Box<Begin>),
    /// The old value of a path.
    Old(Old),
    /// All old values are in the journal.
    Armed,
    /// A step is about to be carried out.
    Writing {
        /// Index of the step.
        step: usize,
    },
    /// A step was carried out.
    Wrote {
        /// Index of the step.
        step: usize,
        /// The result.
        outcome: Outcome,
        /// The value read back.
        #[serde(default)]
        value: Option<Bytes>,
    },
    /// A zram device was created for a step.
    Made {
        /// Index of the step.
        step: usize,
        /// Name of the device.
        device: String,
    },
    /// All steps were carried out.
    Applied {
        /// Values read back after all steps, without files that are absent.
        values: BTreeMap<String, Bytes>,
        /// When an `until-confirmed` lease ends, in milliseconds since boot.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        deadline_boot_ms: Option<u64>,
        /// The same in milliseconds since 1970; only in journals of version 1.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        deadline_unix_ms: Option<u64>,
    },
    /// A step failed and everything was restored.
    RolledBack,
    /// The lease became `keep`.
    Confirmed,
    /// A revert begins.
    Reverting {
        /// Steps that others have changed and that the revert leaves alone.
        #[serde(default)]
        left: Vec<usize>,
    },
    /// An older transaction is over: this one restores its old value instead of its own.
    Inherited {
        /// Number of the older transaction.
        from: u64,
        /// The old value; the step is that of the older transaction.
        old: Old,
    },
    /// A step was restored, or could not be.
    Restored {
        /// Index of the step.
        step: usize,
        /// The result.
        outcome: Outcome,
    },
    /// The transaction is over.
    Reverted,
    /// The machine was rebooted: runtime changes are gone.
    Gone,
}

/// The first entry of a journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Begin {
    /// [`VERSION`].
    pub version: u32,
    /// Number of the transaction.
    pub transaction: u64,
    /// The boot in which the transaction began.
    pub boot_id: String,
    /// The time in milliseconds since 1970.
    pub at_unix_ms: u64,
    /// The plan.
    pub plan: Plan,
}

/// The value of a path before a transaction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Old {
    /// Index of the step that may change it.
    pub step: usize,
    /// Path on the machine.
    pub path: String,
    /// Its content, if it is a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Bytes>,
    /// Whether nothing was there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub absent: bool,
    /// Whether the path is a folder that the step creates.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub folder: bool,
    /// Permission bits as octal text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// Group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gid: Option<u32>,
    /// State of a zram device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub swap: Option<Swap>,
}

impl Old {
    /// Records a file that existed.
    #[must_use]
    pub fn file(step: usize, path: &str, content: &Content) -> Self {
        Self {
            bytes: Some(content.bytes.clone()),
            absent: false,
            mode: Some(content.mode_text()),
            uid: Some(content.uid),
            gid: Some(content.gid),
            ..Self::nothing(step, path)
        }
    }

    /// Records a path at which nothing existed.
    #[must_use]
    pub fn nothing(step: usize, path: &str) -> Self {
        Self {
            step,
            path: path.to_owned(),
            bytes: None,
            absent: true,
            folder: false,
            mode: None,
            uid: None,
            gid: None,
            swap: None,
        }
    }

    /// Returns the permission bits as a number.
    #[must_use]
    pub fn mode_bits(&self) -> Option<u32> {
        self.mode
            .as_deref()
            .and_then(|text| u32::from_str_radix(text, 8).ok())
            .map(|bits| bits & 0o7777)
    }
}

/// A line that cannot be trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Line number, from 1.
    pub line: usize,
    /// What is wrong.
    pub message: String,
    /// Whether the line is among the old values.
    pub is_among_olds: bool,
    /// Whether the line is the last one, which might have recorded the end.
    pub is_last: bool,
    /// Whether the disk could not read it.
    pub is_unread: bool,
}

/// The content of a journal file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Contents {
    /// Entries in order.
    pub entries: Vec<Entry>,
    /// Lines that cannot be trusted.
    pub damage: Vec<Damage>,
    /// Length up to the last complete line. An incomplete line after it is ignored, and cut off by
    /// the next writer.
    pub valid_bytes: usize,
}

/// A parsed line.
enum Line {
    Whole(Entry),
    /// An incomplete line, treated as if it didn't exist.
    Torn,
    Damaged(String),
}

/// Encodes an entry as a line: length, CRC, text, newline.
///
/// # Errors
///
/// The entry cannot be expressed in JSON.
pub fn line(entry: &Entry) -> io::Result<Vec<u8>> {
    let json = serde_json::to_vec(entry)?;
    let mut line = format!("{:08x} {:08x} ", json.len(), crc32fast::hash(&json)).into_bytes();
    line.extend_from_slice(&json);
    line.push(b'\n');
    Ok(line)
}

/// Parses a journal. Ignores a torn last line; any other bad line is damage.
#[must_use]
pub fn parse(bytes: &[u8]) -> Contents {
    let mut contents = Contents::default();
    let mut offset = 0;
    for (index, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        offset += line.len();
        match read_line(line) {
            Line::Whole(entry) => contents.add(entry),
            Line::Torn => break,
            Line::Damaged(message) => contents.add_damage(index + 1, message),
        }
        if line.ends_with(b"\n") {
            contents.valid_bytes = offset;
        }
    }
    contents
}

impl Contents {
    fn add(&mut self, entry: Entry) {
        self.entries.push(entry);
        if let Some(last) = self.damage.last_mut() {
            last.is_last = false;
        }
    }

    fn add_damage(&mut self, line: usize, message: String) {
        if let Some(last) = self.damage.last_mut() {
            last.is_last = false;
        }
        let is_old = |entry: &Entry| matches!(entry, Entry::Begin(_) | Entry::Old(_));
        self.damage.push(Damage {
            line,
            message,
            is_among_olds: line > 1 && self.entries.iter().all(is_old),
            is_last: true,
            is_unread: false,
        });
    }

    /// Records that the file could not be read any further.
    pub fn break_off(&mut self, error: &io::Error) {
        self.add_damage(self.entries.len() + self.damage.len() + 1, error.to_string());
        if let Some(last) = self.damage.last_mut() {
            last.is_unread = true;
        }
    }
}

fn read_line(line: &[u8]) -> Line {
    let Some(whole) = line.strip_suffix(b"\n") else {
        return if is_begun(line) {
            Line::Torn
        } else {
            Line::Damaged("the line is incomplete".to_owned())
        };
    };
    match entry_of(whole) {
        Ok(entry) => Line::Whole(entry),
        Err(message) => Line::Damaged(message),
    }
}

/// Whether a last line without newline is torn: shorter than its declared length, or the zeros that
/// a file system leaves in reserved space.
fn is_begun(line: &[u8]) -> bool {
    if line.len() < HEADER_BYTES || is_of_version_1(line) || line.iter().all(|byte| *byte == 0) {
        return true;
    }
    number(line).is_some_and(|length| line.len() < HEADER_BYTES + length + 1)
}

/// Whether a line is of version 1, whose lines have no length.
fn is_of_version_1(line: &[u8]) -> bool {
    line.get(9) == Some(&b'{')
}

/// Parses the eight hexadecimal digits at the beginning, which a space must follow.
fn number(text: &[u8]) -> Option<usize> {
    let (digits, Some(b' ')) = (text.get(..8)?, text.get(8)) else {
        return None;
    };
    let is_plain = digits.iter().all(u8::is_ascii_hexdigit);
    let digits = std::str::from_utf8(digits).ok().filter(|_| is_plain)?;
    usize::from_str_radix(digits, 16).ok()
}

fn entry_of(line: &[u8]) -> Result<Entry, String> {
    let header = if is_of_version_1(line) {
        0
    } else {
        HEADER_BYTES / 2
    };
    let (Some(crc), Some(json)) = (line.get(header..).and_then(number), line.get(header + 9..)) else {
        return Err("the line has no checksum".to_owned());
    };
    if header > 0 && number(line) != Some(json.len()) {
        return Err("the length does not match".to_owned());
    }
    if u32::try_from(crc) != Ok(crc32fast::hash(json)) {
        return Err("the checksum does not match".to_owned());
    }
    let entry: Entry =
        serde_json::from_slice(json).map_err(|error| format!("cannot parse the entry: {error}"))?;
    match &entry {
        Entry::Begin(begin) if !(OLDEST..=VERSION).contains(&begin.version) => Err(format!(
            "journal version {}; this agent reads {OLDEST} to {VERSION}",
            begin.version
        )),
        _ => Ok(entry),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn journal() -> Vec<u8> {
        let old = Old {
            bytes: Some("60\n".into()),
            absent: false,
            ..Old::nothing(0, "/proc/sys/vm/swappiness")
        };
        [Entry::Old(old), Entry::Armed, Entry::Writing { step: 0 }]
            .iter()
            .flat_map(|entry| line(entry).unwrap())
            .collect()
    }

    #[test]
    fn what_was_written_is_read() {
        let contents = parse(&journal());
        assert_eq!(contents.entries.len(), 3);
        assert!(contents.damage.is_empty());
        assert_eq!(contents.valid_bytes, journal().len());
    }

    #[test]
    fn every_truncation_loses_only_the_torn_line() {
        let whole = journal();
        let ends: Vec<usize> = (0..whole.len())
            .filter(|at| whole[*at] == b'\n')
            .map(|at| at + 1)
            .collect();
        for length in 0..whole.len() {
            let contents = parse(&whole[..length]);
            let complete = ends.iter().filter(|end| **end <= length).count();
            assert_eq!(contents.entries.len(), complete, "{length}");
            assert!(contents.damage.is_empty(), "{length}");
        }
    }

    #[test]
    fn a_bad_line_is_damage_wherever_it_is_and_is_named() {
        for number in 0..3 {
            let mut bytes = journal();
            let lines = bytes.split_inclusive(|byte| *byte == b'\n');
            let start: usize = lines.take(number).map(<[u8]>::len).sum();
            bytes[start + 20] ^= 1;
            let contents = parse(&bytes);
            assert_eq!(contents.entries.len(), 2);
            assert_eq!(contents.damage.len(), 1);
            assert_eq!(contents.damage[0].line, number + 1);
            assert_eq!(contents.damage[0].is_last, number == 2);
            assert_eq!(contents.valid_bytes, bytes.len(), "it is kept, as evidence");
        }
    }

    #[test]
    fn one_byte_that_changed_is_never_taken_for_a_line_that_was_not_written_to_its_end() {
        let whole = journal();
        let all = parse(&whole).entries;
        for at in 0..whole.len() {
            for flip in [1, 2, 4, 8, 16, 32, 64, 128] {
                let mut bytes = whole.clone();
                bytes[at] ^= flip;
                let contents = parse(&bytes);
                let is_told = !contents.damage.is_empty();
                // Only the digits of a length or checksum can be written in two ways.
                assert!(is_told || contents.entries == all, "{at} {flip}");
            }
        }
    }

    #[test]
    fn a_last_line_without_end_is_torn_if_it_is_shorter_than_it_says() {
        let whole = journal();
        let last = whole.len() - 1;
        let mut zeros = whole.clone();
        zeros.extend([0; 300]);
        let mut garbage = whole.clone();
        garbage.extend(b"nothing of a journal's");
        let mut unended = whole.clone();
        unended[last] = b' ';
        let cases: [(&[u8], usize, bool); 4] = [
            (&whole[..last], 2, false),
            (&zeros, 3, false),
            (&garbage, 3, true),
            (&unended, 2, true),
        ];
        for (number, (bytes, entries, is_damaged)) in cases.into_iter().enumerate() {
            let contents = parse(bytes);
            assert_eq!(contents.entries.len(), entries, "{number}");
            assert_eq!(
                contents.damage.iter().any(|damage| damage.is_last),
                is_damaged,
                "{number}"
            );
        }
    }

    #[test]
    fn lines_of_version_1_are_read_and_its_torn_and_damaged_ones_told_apart() {
        let json = br#"{"entry":"armed"}"#;
        let mut line = format!("{:08x} ", crc32fast::hash(json)).into_bytes();
        line.extend_from_slice(json);
        assert!(parse(&line).damage.is_empty() && parse(&line).entries.is_empty());
        line.push(b'\n');
        assert_eq!(parse(&line).entries, [Entry::Armed]);
        line[12] ^= 1;
        assert!(parse(&line).damage[0].is_last);
    }

    #[test]
    fn what_is_as_long_as_a_header_and_is_none_was_not_begun_by_us() {
        assert!(is_begun(&[b'x'; HEADER_BYTES - 1]));
        assert!(!is_begun(&[b'x'; HEADER_BYTES]));
    }

    #[test]
    fn a_journal_of_a_newer_version_is_refused_by_its_number() {
        let plan = serde_json::json!({"schema": crate::transact::plan::SCHEMA, "steps": [
            {"kind": "write", "path": "/proc/sys/vm/swappiness", "new": "1", "verify": "integer"}]});
        let begin = Entry::Begin(Box::new(Begin {
            version: VERSION + 1,
            transaction: 1,
            boot_id: String::new(),
            at_unix_ms: 0,
            plan: crate::transact::plan::Plan::from_value(plan).unwrap(),
        }));
        let contents = parse(&line(&begin).unwrap());
        assert_eq!(contents.entries, []);
        let message = &contents.damage[0].message;
        assert!(
            message.starts_with(&format!("journal version {}", VERSION + 1)),
            "{message}"
        );
    }

    #[test]
    fn a_line_whose_length_is_another_is_damaged_though_its_checksum_fits() {
        let whole = line(&Entry::Armed).unwrap();
        let other = [b"00000fff", &whole[8..]].concat();
        assert_eq!(parse(&other).damage[0].message, "the length does not match");
    }

    #[test]
    fn where_the_disk_gives_no_more_the_next_line_is_missing() {
        let mut contents = parse(&[journal().as_slice(), b"x\n"].concat());
        contents.break_off(&io::Error::other("no medium"));
        let last = contents.damage.last().unwrap();
        assert_eq!((last.line, last.is_unread), (5, true));
    }
}
