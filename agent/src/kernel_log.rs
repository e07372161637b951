// SPDX-License-Identifier: Apache-2.0
//! The kernel's log with record numbers, which show what is new and whether records were lost.

use crate::bytes::Bytes;
use crate::root::Root;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use serde::Serialize;
use std::io;

/// Returns one record per read, with its number.
pub const DEVICE: &str = "/dev/kmsg";

/// Most text of a reply. Twice as much would still fit into a line in base64.
const TEXT_LIMIT_BYTES: usize = 1 << 20;
/// Longer than any record; the kernel refuses to read a record into a smaller buffer.
const RECORD_BYTES: usize = 16 << 10;

/// The content of the log.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct KernelLog {
    /// Number of the oldest record that still exists; null if the log is empty.
    oldest: Option<u64>,
    /// Number of the newest record.
    newest: Option<u64>,
    /// The requested records, as the device returns them.
    log: Bytes,
    /// Whether the newest of the requested records are missing because there were too many.
    truncated: bool,
}

/// Reads the log. The text contains the records from number `from` on; it is empty without `from`.
///
/// # Errors
///
/// The session may not read the log, or the kernel keeps none.
pub fn read(root: &Root, from: Option<u64>) -> io::Result<KernelLog> {
    let mut found = KernelLog::default();
    if !root.is_real() {
        for record in records_of(&root.read_bytes(DEVICE)?) {
            found.take(record, from);
        }
        return Ok(found);
    }
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let device = rustix::fs::open(root.path(DEVICE), flags, Mode::empty())?;
    let mut buffer = vec![0; RECORD_BYTES];
    loop {
        match rustix::io::read(&device, &mut buffer) {
            Ok(0) | Err(Errno::AGAIN) => return Ok(found),
            Ok(length) => found.take(&buffer[..length], from),
            // Overwritten before it was read: the next read continues with the oldest remaining
            // record.
            Err(Errno::PIPE | Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

impl KernelLog {
    /// Returns the texts of the requested records.
    #[must_use]
    pub fn texts(&self) -> Vec<String> {
        let text = String::from_utf8_lossy(&self.log.0);
        let records = text.lines().filter(|line| !line.starts_with(' '));
        records
            .filter_map(|line| line.split_once(';').map(|(_, text)| text.to_owned()))
            .collect()
    }

    fn take(&mut self, record: &[u8], from: Option<u64>) {
        let Some(number) = number_of(record) else {
            return;
        };
        self.oldest = self.oldest.or(Some(number));
        self.newest = Some(number);
        if from.is_none_or(|from| number < from) || self.truncated {
            return;
        }
        if self.log.0.len() + record.len() > TEXT_LIMIT_BYTES {
            self.truncated = true;
        } else {
            self.log.0.extend_from_slice(record);
        }
    }
}

/// Splits a file that stands for the device into records: a line, and the lines after it that begin
/// with a blank.
fn records_of(text: &[u8]) -> Vec<&[u8]> {
    let mut records = Vec::new();
    let mut start = 0;
    for (at, _) in text.iter().enumerate().filter(|(_, byte)| **byte == b'\n') {
        if text.get(at + 1) != Some(&b' ') {
            records.push(&text[start..=at]);
            start = at + 1;
        }
    }
    records
}

/// Parses the number in `PRIORITY,NUMBER,MICROSECONDS,FLAGS…;TEXT`.
fn number_of(record: &[u8]) -> Option<u64> {
    let number = record.split(|byte| *byte == b',').nth(1)?;
    std::str::from_utf8(number).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "5,7,100,-;one\n SUBSYSTEM=cpu\n6,8,200,-;two\n4,9,300,-;three\n";

    fn root(text: &str) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("dev")).unwrap();
        std::fs::write(folder.path().join("dev/kmsg"), text).unwrap();
        let root = Root::new(folder.path());
        (folder, root)
    }

    #[test]
    fn records_are_told_from_a_number_on() {
        let (_folder, root) = root(LOG);
        let all = read(&root, None).unwrap();
        assert_eq!((all.oldest, all.newest, all.log.0.len()), (Some(7), Some(9), 0));
        let told = |from| read(&root, Some(from)).unwrap().log;
        assert_eq!(told(9), Bytes::from("4,9,300,-;three\n"));
        assert_eq!(told(0), Bytes::from(LOG));
        assert_eq!(told(10), Bytes::from(""));
    }

    #[test]
    fn an_empty_log_has_no_numbers() {
        let (_folder, root) = root("");
        assert_eq!(read(&root, Some(0)).unwrap(), KernelLog::default());
        assert!(read(&Root::new("/nonexistent"), None).is_err());
    }

    #[test]
    fn too_much_is_cut_between_records() {
        let line = format!("6,1,1,-;{}\n", "x".repeat(1000));
        let (_folder, root) = root(&line.repeat(2000));
        let found = read(&root, Some(0)).unwrap();
        assert!(found.truncated && found.log.0.len() <= TEXT_LIMIT_BYTES);
        assert_eq!(found.log.0.len() % line.len(), 0);
    }
}
