// SPDX-License-Identifier: Apache-2.0
//! A file of a source that stays open, and the columns that it fills.

use crate::root::Root;
use rustix::fs::{Mode, OFlags};
use rustix::io::{pread, Errno};
use serde::Serialize;
use std::fs::File;

/// One number of one sample.
pub type Cell = i64;
/// The cell of what was not there or could not be read.
pub const MISSING: Cell = i64::MIN;
/// The cell of a sensor that showed what cannot be.
pub const LIE: Cell = i64::MIN + 1;

/// How a column's numbers are to be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A state of that moment.
    Level,
    /// It only grows; what counts is the difference.
    Counter,
}

/// What a column holds: `value / per_unit` is in `unit`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Column {
    /// Its name, with the source's before it.
    #[serde(skip)]
    pub name: String,
    /// A base unit.
    pub unit: &'static str,
    /// Whole numbers to one unit.
    pub per_unit: u64,
    /// Level or counter.
    pub kind: Kind,
    /// Bits after which a counter begins anew.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bits: Option<u32>,
    /// What the kernel calls the sensor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

impl Column {
    /// A state.
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

    /// A counter of 64 bits.
    pub fn counter(name: impl Into<String>, unit: &'static str, per_unit: u64) -> Self {
        Self {
            kind: Kind::Counter,
            bits: Some(64),
            ..Self::level(name, unit, per_unit)
        }
    }

    /// A counter as wide as a word of the kernel.
    pub fn word_counter(name: impl Into<String>, unit: &'static str) -> Self {
        Self {
            bits: Some(usize::BITS),
            ..Self::counter(name, unit, 1)
        }
    }

    /// The same with what the kernel calls it.
    #[must_use]
    pub fn labelled(mut self, label: Option<String>) -> Self {
        self.label = label;
        self
    }
}

/// How far a parser came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// It has all that it wants.
    Done,
    /// What it wants may lie further on.
    More,
    /// It took what there is so far; of the rest all may be gone.
    SoFar,
    /// This is not what the file held when it was opened.
    Garbage,
}

/// Reads a file's text into cells, which are all [`MISSING`] when it begins.
pub trait Parser: Send {
    /// Fills the cells; `text` is the file from its beginning, as far as it was read.
    fn parse(&mut self, text: &[u8], row: &mut [Cell]) -> Progress;

    /// Bytes from the file's beginning that usually hold all that is wanted: the kernel makes no more of some files than
    /// it is asked for.
    fn enough(&self) -> usize {
        usize::MAX
    }
}

/// Why a feed gives nothing more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Gone {
    /// Since when, in monotonic time.
    pub at_ns: u64,
    /// What the kernel said.
    pub why: String,
}

/// A file that stays open.
pub struct Feed {
    /// The machine's path.
    pub path: String,
    /// What it fills.
    pub columns: Vec<Column>,
    /// Set when it vanished.
    pub gone: Option<Gone>,
    /// Samples in which it could not be read or understood.
    pub failures: u64,
    file: File,
    offset: u64,
    parser: Box<dyn Parser>,
    /// Reads that the last sample took.
    reads: u32,
}

impl Feed {
    /// Opens a file.
    ///
    /// # Errors
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

    /// The same file read from elsewhere than its beginning.
    #[must_use]
    pub fn at(mut self, offset: u64) -> Self {
        self.offset = offset;
        self
    }

    /// Fills the feed's own cells.
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

    /// Reads on after the bytes that are held.
    fn read(&self, buffer: &mut [u8], held: usize) -> rustix::io::Result<usize> {
        let end = if held == 0 {
            self.parser.enough().min(buffer.len())
        } else {
            buffer.len()
        };
        pread(&self.file, &mut buffer[held..end], self.offset + held as u64)
    }

    /// Reads once to see what it gives: why that is nothing, None when it is something.
    pub fn probe(&mut self, buffer: &mut [u8], row: &mut [Cell]) -> Option<String> {
        let read = rustix::io::retry_on_intr(|| self.read(buffer, 0));
        if let Err(error) = read {
            return Some(error.to_string());
        }
        self.sample(buffer, row, || 0);
        let failed = self.failures > 0;
        self.failures = 0;
        failed.then(|| "its content is not as expected".to_owned())
    }

    fn fail(&mut self, error: Errno, now_ns: u64) {
        self.failures += 1;
        // What is behind the file has gone: a device, a driver, a process.
        if [Errno::NODEV, Errno::NXIO, Errno::NOENT, Errno::SRCH, Errno::STALE].contains(&error) {
            let why = error.to_string();
            self.gone = Some(Gone { at_ns: now_ns, why });
        }
    }

    /// The reads of the last sample and nothing else, to tell what they cost alone.
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

/// What was found of a source.
#[derive(Default)]
pub struct Found {
    /// Its open files.
    pub feeds: Vec<Feed>,
    /// What could not be opened, and why.
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

    /// A source of one file.
    pub fn one(opened: Result<Feed, String>) -> Self {
        let mut found = Self::default();
        found.add(opened);
        found
    }

    /// A source that is not there.
    pub fn none(why: impl Into<String>) -> Self {
        Self {
            feeds: Vec::new(),
            missing: vec![why.into()],
        }
    }
}
