// SPDX-License-Identifier: Apache-2.0
//! An open file of a source, and the columns that it fills.

use crate::root::Root;
use rustix::fs::{Mode, OFlags};
use rustix::io::{pread, Errno};
use serde::Serialize;
use std::fs::File;

/// One number of a sample.
pub type Cell = i64;
/// The value of a cell that was absent or unreadable.
pub const MISSING: Cell = i64::MIN;
/// The value of a cell whose sensor showed an impossible value.
pub const LIE: Cell = i64::MIN + 1;

/// How to interpret a column's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The state at that moment.
    Level,
    /// A growing counter; only its differences matter.
    Counter,
}

/// A column: `value / per_unit` is in `unit`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Column {
    /// Its name, prefixed with the source's.
    #[serde(skip)]
    pub name: String,
    /// The base unit.
    pub unit: &'static str,
    /// Integers per unit.
    pub per_unit: u64,
    /// Level or counter.
    pub kind: Kind,
    /// Bits after which a counter wraps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bits: Option<u32>,
    /// The kernel's name for the sensor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

impl Column {
    /// Creates a column of states.
    pub fn level(name: impl Into<String>, unit: &'static str, per_unit: u64) -> Self {
        Self {
            name: name.into(),
            unit,
            per_unit,
            kind: Kind::Level,
            bits: None,
            label: None,
        }
    }

    /// Creates a column of a 64-bit counter.
    pub fn counter(name: impl Into<String>, unit: &'static str, per_unit: u64) -> Self {
        Self {
            kind: Kind::Counter,
            bits: Some(64),
            ..Self::level(name, unit, per_unit)
        }
    }

    /// Creates a column of a counter as wide as a word of the kernel.
    pub fn word_counter(name: impl Into<String>, unit: &'static str) -> Self {
        Self {
            bits: Some(usize::BITS),
            ..Self::counter(name, unit, 1)
        }
    }

    /// Adds the kernel's name.
    #[must_use]
    pub fn labelled(mut self, label: Option<String>) -> Self {
        self.label = label;
        self
    }
}

/// The result of a parser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// All values were found.
    Done,
    /// Missing values may follow further on.
    More,
    /// The values so far are valid; the others may not exist any more.
    SoFar,
    /// The content differs from when the file was opened.
    Garbage,
}

/// Parses a file's text into cells, which are all [`MISSING`] before.
pub trait Parser: Send {
    /// Fills the cells; `text` is the file from its beginning, as far as it was read.
    fn parse(&mut self, text: &[u8], row: &mut [Cell]) -> Progress;

    /// Returns how many bytes usually contain all values: the kernel generates no more of some
    /// files than is read.
    fn enough(&self) -> usize {
        usize::MAX
    }
}

/// Why a feed has stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Gone {
    /// Since when, in monotonic time.
    pub at_ns: u64,
    /// The kernel's error.
    pub why: String,
}

/// An open file.
pub struct Feed {
    /// Path on the machine.
    pub path: String,
    /// The columns that it fills.
    pub columns: Vec<Column>,
    /// Set when the file has vanished.
    pub gone: Option<Gone>,
    /// Number of samples in which it was unreadable or invalid.
    pub failures: u64,
    file: File,
    offset: u64,
    parser: Box<dyn Parser>,
    /// Number of reads in the last sample.
    reads: u32,
}

impl Feed {
    /// Opens a file.
    ///
    /// # Errors
    ///
    /// Why it cannot be read, with its path.
    pub fn open(
        root: &Root,
        path: &str,
        columns: Vec<Column>,
        parser: impl Parser + 'static,
    ) -> Result<Self, String> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let opened = rustix::fs::open(root.path(path), flags, Mode::empty());
        let file = File::from(opened.map_err(|error| format!("{path}: {error}"))?);
        Ok(Self {
            path: path.to_owned(),
            columns,
            gone: None,
            failures: 0,
            file,
            offset: 0,
            parser: Box::new(parser),
            reads: 1,
        })
    }

    /// Reads the file from an offset instead of its beginning.
    #[must_use]
    pub fn at(mut self, offset: u64) -> Self {
        self.offset = offset;
        self
    }

    /// Fills the feed's cells.
    pub fn sample(&mut self, buffer: &mut [u8], row: &mut [Cell], now_ns: impl Fn() -> u64) {
        row.fill(MISSING);
        if self.gone.is_some() {
            return;
        }
        let mut held = 0;
        self.reads = 0;
        loop {
            let read = match self.read(buffer, held) {
                Ok(read) => read,
                Err(Errno::INTR) => continue,
                Err(error) => return self.fail(error, now_ns()),
            };
            self.reads += 1;
            held += read;
            match self.parser.parse(&buffer[..held], row) {
                Progress::Done => return,
                Progress::More | Progress::SoFar if read > 0 && held < buffer.len() => {}
                Progress::SoFar if read == 0 => return,
                Progress::More | Progress::SoFar | Progress::Garbage => {
                    self.failures += 1;
                    return row.fill(MISSING);
                }
            }
        }
    }

    /// Reads on after the first `held` bytes.
    fn read(&self, buffer: &mut [u8], held: usize) -> rustix::io::Result<usize> {
        let end = if held == 0 {
            self.parser.enough().min(buffer.len())
        } else {
            buffer.len()
        };
        pread(&self.file, &mut buffer[held..end], self.offset + held as u64)
    }

    /// Reads once as a test. Returns why there is nothing to read; None if there is.
    pub fn probe(&mut self, buffer: &mut [u8], row: &mut [Cell]) -> Option<String> {
        let read = rustix::io::retry_on_intr(|| self.read(buffer, 0));
        if let Err(error) = read {
            return Some(error.to_string());
        }
        self.sample(buffer, row, || 0);
        let failed = self.failures > 0;
        self.failures = 0;
        failed.then(|| "unexpected content".to_owned())
    }

    fn fail(&mut self, error: Errno, now_ns: u64) {
        self.failures += 1;
        // What was behind the file is gone: a device, a driver, a process.
        if [Errno::NODEV, Errno::NXIO, Errno::NOENT, Errno::SRCH, Errno::STALE].contains(&error) {
            let why = error.to_string();
            self.gone = Some(Gone { at_ns: now_ns, why });
        }
    }

    /// Repeats the reads of the last sample without parsing, to measure their cost.
    pub fn bare(&self, buffer: &mut [u8]) {
        let mut held = 0;
        for _ in 0..self.reads {
            match self.read(buffer, held) {
                Ok(read) => held += read,
                Err(_) => return,
            }
        }
    }
}

/// The files of a source.
#[derive(Default)]
pub struct Found {
    /// Its open files.
    pub feeds: Vec<Feed>,
    /// Files that could not be opened, and why.
    pub missing: Vec<String>,
}

impl Found {
    /// Adds a file, or why it cannot be read.
    pub fn add(&mut self, opened: Result<Feed, String>) {
        match opened {
            Ok(feed) => self.feeds.push(feed),
            Err(why) => self.missing.push(why),
        }
    }

    /// Creates a source with one file.
    pub fn one(opened: Result<Feed, String>) -> Self {
        let mut found = Self::default();
        found.add(opened);
        found
    }

    /// Creates a source that is missing.
    pub fn none(why: impl Into<String>) -> Self {
        Self {
            feeds: Vec::new(),
            missing: vec![why.into()],
        }
    }
}
