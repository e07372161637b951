// SPDX-License-Identifier: Apache-2.0
//! The log of a plan: lines that are appended, and on the disk before anything changes again.

use crate::load::clock::now_ns;
use crate::transact::context::{boot_ms, unix_ms};
use serde_json::{json, Map, Value};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The schema of the log, in its first line.
pub const SCHEMA: &str = "ktrial.unattended-log/1";

/// A log that is being written.
#[derive(Debug)]
pub struct Log {
    file: File,
    is_synced: bool,
}

impl Log {
    /// Creates a log; there must be none yet.
    pub fn create(path: &Path) -> io::Result<Self> {
        let file = File::options()
            .append(true)
            .create_new(true)
            .mode(0o600)
            .open(path)?;
        Ok(Self {
            file,
            is_synced: false,
        })
    }

    /// Appends a line with the event, the times and these fields. It outlives this process at once,
    /// and a power cut from the next [`Log::sync`] on.
    pub fn append(&mut self, event: &str, fields: Value) -> io::Result<()> {
        self.append_with(event, fields, None)
    }

    /// Appends a line like [`Log::append`], with one more field that may be large.
    pub fn append_with(
        &mut self,
        event: &str,
        fields: Value,
        more: Option<(&str, &Value)>,
    ) -> io::Result<()> {
        let mut line = Map::new();
        line.insert("event".into(), json!(event));
        let at_ns = now_ns();
        line.insert("at_ns".into(), json!(at_ns));
        line.insert("at_unix_ms".into(), json!(unix_ms()));
        // Both clocks were read at almost the same time, so this is exact to a few milliseconds.
        line.insert(
            "slept_ms".into(),
            json!(boot_ms().saturating_sub(at_ns / 1_000_000)),
        );
        if let Value::Object(fields) = fields {
            line.extend(fields);
        }
        let mut text = Value::Object(line).to_string().into_bytes();
        if let Some((name, value)) = more {
            text.pop();
            text.extend_from_slice(format!(",\"{name}\":").as_bytes());
            serde_json::to_writer(&mut text, value)?;
            text.push(b'}');
        }
        text.push(b'\n');
        self.file.write_all(&text)?;
        self.is_synced = false;
        Ok(())
    }

    /// Brings all lines to the disk.
    pub fn sync(&mut self) -> io::Result<()> {
        if !self.is_synced {
            self.file.sync_data()?;
            self.is_synced = true;
        }
        Ok(())
    }
}

/// How far a plan got, according to its log.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Progress {
    /// Visits that are over, with or without a void run.
    pub visits: u64,
    /// Why the plan ended, and the message; None if the log does not say.
    pub ended: Option<(String, String)>,
}

impl Progress {
    /// Reads the whole lines of a log; a last line without its end was cut off while it was written.
    #[must_use]
    pub fn of(log: &[u8]) -> Self {
        let mut progress = Self::default();
        let end = log.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        for line in log[..end]
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
        {
            // Only short lines matter here; long ones are answers.
            let Some(line) = is_short(line)
                .then(|| serde_json::from_slice::<Value>(line).ok())
                .flatten()
            else {
                continue;
            };
            let text = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
            match line["event"].as_str() {
                Some("visit-ended") => progress.visits += 1,
                Some("ended") => progress.ended = Some((text("reason"), text("message"))),
                _ => {}
            }
        }
        progress
    }
}

fn is_short(line: &[u8]) -> bool {
    line.starts_with(b"{\"event\":\"visit-ended\"") || line.starts_with(b"{\"event\":\"ended\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_was_cut_off_tells_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.jsonl");
        let mut log = Log::create(&path).unwrap();
        assert!(Log::create(&path).is_err());
        log.append("visit", json!({"visit": 0})).unwrap();
        log.sync().unwrap();
        log.append("visit-ended", json!({"visit": 0})).unwrap();
        log.append_with("answer", json!({"do": "read"}), Some(("ok", &json!({"n": [1]}))))
            .unwrap();
        log.append("ended", json!({"reason": "done", "message": "x"}))
            .unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let whole = Progress::of(&bytes);
        assert_eq!(whole.visits, 1);
        assert_eq!(whole.ended, Some(("done".to_owned(), "x".to_owned())));
        let cut = Progress::of(&bytes[..bytes.len() - 1]);
        assert_eq!((cut.visits, cut.ended), (1, None));
        let first: Value =
            serde_json::from_slice(bytes.split(|byte| *byte == b'\n').next().unwrap()).unwrap();
        let answer: Value =
            serde_json::from_slice(bytes.split(|byte| *byte == b'\n').nth(2).unwrap()).unwrap();
        assert_eq!(
            (&answer["do"], &answer["ok"]),
            (&json!("read"), &json!({"n": [1]}))
        );
        assert!(first["at_ns"].as_u64() > Some(0) && first["at_unix_ms"].as_u64() > Some(0));
    }
}
