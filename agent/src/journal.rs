// SPDX-License-Identifier: Apache-2.0
//! The journal of a transaction: one append-only file of lines that carry a CRC. `docs/formats.md` has the format.

use crate::bytes::Bytes;
use crate::fault;
use crate::machine::{Content, Outcome};
use crate::plan::Plan;
use crate::zram::Swap;
use rustix::fs::{FallocateFlags, Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// The version of the format that this agent writes.
pub const VERSION: u32 = 1;

/// One line of a journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "kebab-case")]
pub enum Entry {
    /// The transaction and its plan.
    Begin(Box<Begin>),
    /// What a path held before.
    Old(Old),
    /// All old values are written down.
    Armed,
    /// A step is about to be carried out.
    Writing {
        /// Its index.
        step: usize,
    },
    /// A step was carried out.
    Wrote {
        /// Its index.
        step: usize,
        /// What became of it.
        outcome: Outcome,
        /// What was read back.
        #[serde(default)]
        value: Option<Bytes>,
    },
    /// A zram device was made for a step.
    Made {
        /// The step's index.
        step: usize,
        /// Name of the device.
        device: String,
    },
    /// All steps were carried out.
    Applied {
        /// What was read back after all of them; a file that is absent is missing.
        values: BTreeMap<String, Bytes>,
        /// When an `until-confirmed` lease ends, in milliseconds since 1970.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        deadline_unix_ms: Option<u64>,
    },
    /// A step failed and all was put back.
    RolledBack,
    /// The lease became `keep`.
    Confirmed,
    /// A revert begins.
    Reverting {
        /// Steps that a third party changed and that are left alone.
        #[serde(default)]
        left: Vec<usize>,
    },
    /// A step was put back, or could not be.
    Restored {
        /// Its index.
        step: usize,
        /// What became of it.
        outcome: Outcome,
    },
    /// The transaction is over.
    Reverted,
    /// The machine was restarted: runtime changes are gone.
    Gone,
}

/// First entry of a journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Begin {
    /// [`VERSION`].
    pub version: u32,
    /// Number of the transaction.
    pub transaction: u64,
    /// The boot in which it began.
    pub boot_id: String,
    /// When, in milliseconds since 1970.
    pub at_unix_ms: u64,
    /// What is carried out.
    pub plan: Plan,
}

/// What a path held before a transaction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Old {
    /// Index of the step that may change it.
    pub step: usize,
    /// The machine's path.
    pub path: String,
    /// Its content, where it is a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Bytes>,
    /// Nothing was there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub absent: bool,
    /// The path is a folder that the step makes.
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
    /// A file that was there.
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

    /// A path at which nothing was.
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

    /// Permission bits as a number.
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
    /// What is wrong with it.
    pub message: String,
}

/// What a journal file holds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Contents {
    /// Entries in order.
    pub entries: Vec<Entry>,
    /// Lines in the middle that cannot be trusted.
    pub damage: Vec<Damage>,
    /// Length up to the last trusted line; what follows never existed.
    pub valid_bytes: usize,
}

/// The line of an entry, with CRC and newline.
///
/// # Errors
/// When the entry cannot be expressed in JSON.
pub fn line(entry: &Entry) -> io::Result<Vec<u8>> {
    let json = serde_json::to_vec(entry)?;
    let mut line = format!("{:08x} ", crc32fast::hash(&json)).into_bytes();
    line.extend_from_slice(&json);
    line.push(b'\n');
    Ok(line)
}

/// Reads a journal's bytes. A torn last line is ignored; any other bad line is damage.
#[must_use]
pub fn parse(bytes: &[u8]) -> Contents {
    let mut contents = Contents::default();
    let mut suspects = Vec::new();
    let mut offset = 0;
    for (index, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        offset += line.len();
        match parse_line(line) {
            Ok(entry) => {
                contents.damage.append(&mut suspects);
                contents.entries.push(entry);
                contents.valid_bytes = offset;
            }
            Err(message) => suspects.push(Damage {
                line: index + 1,
                message,
            }),
        }
    }
    // Only one line can be torn: more of them at the end are damage.
    if suspects.len() > 1 {
        suspects.pop();
        contents.damage.append(&mut suspects);
    }
    contents
}

fn parse_line(line: &[u8]) -> Result<Entry, String> {
    let Some(line) = line.strip_suffix(b"\n") else {
        return Err("the line is torn".to_owned());
    };
    let (Some(crc), Some(b' '), Some(json)) = (line.get(..8), line.get(8), line.get(9..)) else {
        return Err("the line has no checksum".to_owned());
    };
    let crc = std::str::from_utf8(crc)
        .ok()
        .and_then(|text| u32::from_str_radix(text, 16).ok());
    if crc != Some(crc32fast::hash(json)) {
        return Err("the checksum does not fit".to_owned());
    }
    let entry: Entry =
        serde_json::from_slice(json).map_err(|error| format!("the entry cannot be read: {error}"))?;
    match &entry {
        Entry::Begin(begin) if begin.version != VERSION => Err(format!(
            "version {} of the journal, this agent reads {VERSION}",
            begin.version
        )),
        _ => Ok(entry),
    }
}

/// Appends to a journal file.
#[derive(Debug)]
pub(crate) struct Writer {
    file: File,
    path: PathBuf,
    length: u64,
}

impl Writer {
    /// Makes the file of a new transaction.
    pub fn create(path: &Path) -> io::Result<Self> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::APPEND | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?);
        fault::created(path);
        Ok(Self {
            file,
            path: path.to_owned(),
            length: 0,
        })
    }

    /// Opens the file of a known transaction and cuts off what lies behind its last trusted line.
    pub fn open(path: &Path, valid_bytes: usize) -> io::Result<Self> {
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
        let length = valid_bytes as u64;
        fault::synced(path, length);
        if file.metadata()?.len() != length {
            file.set_len(length)?;
        }
        Ok(Self {
            file,
            path: path.to_owned(),
            length,
        })
    }

    /// Appends one entry with one write.
    pub fn append(&mut self, entry: &Entry) -> io::Result<()> {
        let line = line(entry)?;
        fault::point();
        if let Err(error) = self.file.write_all(&line) {
            self.file.set_len(self.length)?;
            return Err(error);
        }
        self.length += line.len() as u64;
        fault::point();
        Ok(())
    }

    /// Brings all that was appended to the disk.
    pub fn sync(&mut self) -> io::Result<()> {
        fault::point();
        self.file.sync_data()?;
        fault::synced(&self.path, self.length);
        fault::point();
        Ok(())
    }

    /// Sets room aside for what the transaction will yet append, so that a full disk stops it before its first write.
    pub fn reserve(&mut self, more_bytes: u64) -> io::Result<()> {
        match rustix::fs::fallocate(&self.file, FallocateFlags::KEEP_SIZE, self.length, more_bytes) {
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Length in bytes.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.length
    }
}

/// Brings a folder's entries to the disk.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    fault::point();
    let opened = rustix::fs::open(
        folder,
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    rustix::fs::fsync(opened)?;
    fault::folder_synced(folder);
    fault::point();
    Ok(())
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
    fn a_bad_line_in_the_middle_is_damage_and_names_the_line() {
        let mut bytes = journal();
        bytes[12] ^= 1;
        let contents = parse(&bytes);
        assert_eq!(contents.entries.len(), 2);
        assert_eq!(contents.damage.len(), 1);
        assert_eq!(contents.damage[0].line, 1);
    }

    #[test]
    fn appending_cuts_a_torn_tail_off() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("000001.journal");
        let mut bytes = journal();
        let valid = bytes.len();
        bytes.extend_from_slice(b"12345678 {\"ent");
        std::fs::write(&path, &bytes).unwrap();
        let mut writer = Writer::open(&path, parse(&bytes).valid_bytes).unwrap();
        writer.append(&Entry::RolledBack).unwrap();
        let contents = parse(&std::fs::read(&path).unwrap());
        assert_eq!(contents.entries.len(), 4);
        assert!(contents.damage.is_empty());
        assert!(contents.valid_bytes > valid);
    }
}
