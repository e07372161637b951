// SPDX-License-Identifier: Apache-2.0
//! `pagefault`: how fast threads touch memory that they have mapped but not used yet.
//!
//! Each thread maps `bytes`, touches every page once (it writes anonymous memory and reads a file),
//! unmaps, and repeats until the time is up. Page faults are those that the kernel counts for these
//! threads: with huge pages and with files, one fault serves many pages.

use super::clock::now_ns;
use super::crew::{self, Job};
use super::{files, memory, seconds, within, Load, Measured, Run};
use crate::error::{Error, Result};
use crate::sys::{self, HugePages, Mapping};
use serde::{Deserialize, Serialize};
use serde_json::{json, Map};
use std::fs::File;
use std::io;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum Backing {
    /// Anonymous memory.
    Anonymous,
    /// A file in the page cache.
    File,
}

/// Whether anonymous memory may use huge pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum Huge {
    /// Requested; in force unless the system's setting is `never`.
    Always,
    /// Requested for the first half of the memory; the system's setting for the other half.
    Half,
    /// Declined.
    Never,
    /// The system's setting.
    System,
}

#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Parameters {
    backing: Backing,
    huge_pages: Huge,
    /// Size of each thread's mapping.
    bytes: u64,
    threads: u32,
    duration_s: f64,
    /// Folder for the file.
    directory: String,
    /// I/O priority level of the threads in the class best-effort [default: the agent's].
    io_priority: Option<u8>,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            backing: Backing::Anonymous,
            huge_pages: Huge::Never,
            bytes: 64 << 20,
            threads: 1,
            duration_s: 2.0,
            directory: files::DIRECTORY.to_owned(),
            io_priority: None,
        }
    }
}

/// What one thread did.
#[derive(Debug, Clone, Copy, Default)]
struct Touched {
    faults: u64,
    pages: u64,
    passes: u64,
}

impl Load for Parameters {
    fn check(&self) -> Result<()> {
        within("bytes", self.bytes, 1 << 20, 2 << 30)?;
        within("threads", self.threads, 1, 256)?;
        seconds("duration_s", self.duration_s)?;
        files::check(&self.directory)?;
        files::check_io_priority(self.io_priority)?;
        memory::room_for(self.bytes * u64::from(self.threads))
    }

    fn run(&self, run: &Run) -> Result<Measured> {
        let duration_ns = seconds("duration_s", self.duration_s)?;
        let size = memory::to_size(self.bytes)?;
        let file = self.file()?;
        let file = file.as_ref();
        let jobs: Vec<Job<Touched>> = (0..self.threads)
            .map(|_| -> Job<Touched> {
                Box::new(move |start_ns| self.touch(run, file, size, start_ns + duration_ns))
            })
            .collect();
        let done = crew::run(jobs)?;
        let sum = |of: fn(&Touched) -> u64| json!(done.results.iter().map(of).sum::<u64>());
        let mut results = Map::new();
        results.insert("faults".to_owned(), sum(|touched| touched.faults));
        results.insert("pages".to_owned(), sum(|touched| touched.pages));
        results.insert("passes".to_owned(), sum(|touched| touched.passes));
        results.insert("page_bytes".to_owned(), json!(sys::page_bytes()));
        results.insert("elapsed_ns".to_owned(), json!(done.elapsed_ns));
        Ok(Measured {
            results,
            histogram: None,
        })
    }
}

impl Parameters {
    /// Creates the file to map, and reads it once so that it is in the page cache.
    fn file(&self) -> Result<Option<File>> {
        if self.backing == Backing::Anonymous {
            return Ok(None);
        }
        let file = files::nameless(&self.directory)?;
        let refused = |error: io::Error| Error::io("prepare a file in", &self.directory, &error);
        file.set_len(self.bytes).map_err(refused)?;
        files::read_through(&file).map_err(refused)?;
        Ok(Some(file))
    }

    fn touch(&self, run: &Run, file: Option<&File>, size: usize, end_ns: u64) -> io::Result<Touched> {
        let huge = match self.huge_pages {
            Huge::Always => Some(HugePages::Wanted),
            Huge::Never => Some(HugePages::Declined),
            Huge::Half | Huge::System => None,
        };
        files::set_io_priority(self.io_priority)?;
        let page = sys::page_bytes();
        let mut touched = Touched::default();
        let before = sys::thread_faults()?;
        while !run.stopped() && now_ns() < end_ns {
            let mut mapping = match file {
                None => Mapping::anonymous(size, huge)?,
                Some(file) => Mapping::of_file(file, size)?,
            };
            if self.huge_pages == Huge::Half && file.is_none() {
                mapping.advise(HugePages::Wanted, size / 2)?;
            }
            for offset in (0..size).step_by(page) {
                match file {
                    None => mapping.write(offset, 1),
                    Some(_) => mapping.read(offset),
                }
                touched.pages += 1;
                if touched.pages % 1024 == 0 && run.stopped() {
                    break;
                }
            }
            touched.passes += 1;
        }
        touched.faults = sys::thread_faults()? - before;
        Ok(touched)
    }
}
