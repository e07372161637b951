// SPDX-License-Identifier: Apache-2.0
//! The record of boots: one line of JSON per event, in the state folder.

use super::health::Baseline;
use crate::error::{Error, Kind, Result};
use crate::fault;
use crate::transact::context::Context;
use crate::transact::files::{self, Rights};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

/// How many of the newest events count.
const KEPT: usize = 200;
const NAME: &str = "boots.jsonl";
/// A longer file is cut to the events that count.
const LIMIT_BYTES: u64 = 4 << 20;

/// What has happened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Happened {
    /// The loader was set to start an entry at the next boot.
    #[default]
    Armed,
    /// The running kernel was asked to start an entry of kexec.
    Begun,
    /// Userspace of such a boot has started.
    Started,
    /// The boot passed all checks.
    Healthy,
    /// A check failed, or the boot ended too early.
    Failed,
    /// The machine came back in another entry, and nothing of the boot was seen.
    FellBack,
    /// The rehearsal did what it should: the machine came back.
    Rehearsed,
    /// A healthy boot is over.
    Left,
}

/// An event.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// What has happened.
    #[serde(rename = "event")]
    pub what: Happened,
    /// The entry.
    pub entry: String,
    /// The boot in which it was recorded.
    pub boot_id: String,
    /// Seconds since 1970.
    pub at: u64,
    /// The transaction with the entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transaction: Option<u64>,
    /// The loader and its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loader: Option<String>,
    /// The entry to try next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub then: Option<String>,
    /// The machine before the first boot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Baseline>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub why: Vec<String>,
    /// The last lines that the boot logged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<String>,
}

/// Returns the record's file.
pub fn path(context: &Context) -> PathBuf {
    context.root.path(&context.state).join(NAME)
}

/// Returns the newest events, oldest first, and what a long series of boots relies on: the newest rehearsal,
/// and the machine before the first boot. A line that a power cut has truncated is skipped.
pub fn read(context: &Context) -> Result<Vec<Event>> {
    let path = path(context);
    let text = match fs::read(&path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Error::io("read", path.display(), &error)),
    };
    let events: Vec<Event> = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    let (older, newest) = events.split_at(events.len().saturating_sub(KEPT));
    let lasting = BTreeSet::from([
        older.iter().rposition(|one| one.what == Happened::Rehearsed),
        older.iter().rposition(|one| one.before.is_some()),
    ]);
    let lasting = lasting.into_iter().flatten().map(|place| &older[place]);
    Ok(lasting.chain(newest).cloned().collect())
}

/// Leaves only the newest events in the file.
fn cut(context: &Context) -> Result<()> {
    let path = path(context);
    let cannot = |error: io::Error| {
        Error::new(
            Kind::Journal,
            format!("cannot shorten {}: {error}", path.display()),
        )
    };
    let mut text = String::new();
    for event in read(context)? {
        text.push_str(&serde_json::to_string(&event).map_err(|error| cannot(error.into()))?);
        text.push('\n');
    }
    let rights = Rights {
        mode: 0o600,
        owner: None,
    };
    files::put_at(&path, text.as_bytes(), rights, 0).map_err(cannot)
}

/// Adds an event; it is on the disk when this returns.
pub fn append(context: &Context, event: &Event) -> Result<()> {
    context.store.prepare()?;
    let path = path(context);
    let cannot =
        |error: io::Error| Error::new(Kind::Journal, format!("cannot write {}: {error}", path.display()));
    let line = serde_json::to_string(event).map_err(|error| cannot(error.into()))?;
    let length = fs::metadata(&path).map(|found| found.len());
    if length.as_ref().is_ok_and(|length| *length > LIMIT_BYTES) {
        cut(context)?;
    }
    let is_new = length.is_err();
    fault::point();
    let mut file = File::options()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(&path)
        .map_err(cannot)?;
    // The line of a cut-off write may still lack its end.
    file.write_all(format!("\n{line}\n").as_bytes()).map_err(cannot)?;
    file.sync_all().map_err(cannot)?;
    fault::point();
    if is_new {
        path.parent().map_or(Ok(()), files::sync_folder).map_err(cannot)?;
    }
    Ok(())
}
