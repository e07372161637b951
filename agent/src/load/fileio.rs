// SPDX-License-Identifier: Apache-2.0
//! `fileio`: reads or writes of one file, block by block, sequentially or at random.
//!
//! `cold`: reads find nothing of the file in the page cache, because it is written, flushed and
//! dropped from the cache before the measurement, and dropped again before each pass; a write is
//! flushed to the device before it counts as done. `warm`: the whole file is in the page cache.
//! `direct` is cold without a page cache: each block is transferred between the load's memory and
//! the device.

use super::clock::now_ns;
use super::crew::{self, Job};
use super::histogram::Histogram;
use super::{files, memory, seconds, within, Load, Measured, Run};
use crate::error::{Error, Kind, Result};
use rustix::fs::{fadvise, Advice};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

const MOST_BLOCKS: u64 = 16 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum Operation {
    Read,
    Write,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum Order {
    Sequential,
    Random,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum Cache {
    Cold,
    Warm,
}

#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Parameters {
    operation: Operation,
    order: Order,
    cache: Cache,
    /// Whether to bypass the page cache.
    direct: bool,
    /// Size of the file.
    bytes: u64,
    block_bytes: u64,
    duration_s: f64,
    /// Folder for the file.
    directory: String,
    /// I/O priority level in the class best-effort [default: the agent's].
    io_priority: Option<u8>,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            operation: Operation::Read,
            order: Order::Sequential,
            cache: Cache::Cold,
            direct: false,
            bytes: 256 << 20,
            block_bytes: 128 << 10,
            duration_s: 2.0,
            directory: files::DIRECTORY.to_owned(),
            io_priority: None,
        }
    }
}

impl Load for Parameters {
    fn check(&self) -> Result<()> {
        within("bytes", self.bytes, 1 << 20, 64 << 30)?;
        within("block_bytes", self.block_bytes, 512, 1 << 20)?;
        seconds("duration_s", self.duration_s)?;
        files::check(&self.directory)?;
        files::check_io_priority(self.io_priority)?;
        if self.cache == Cache::Warm {
            memory::room_for(self.bytes)?;
        }
        if self.direct {
            self.check_direct()?;
        }
        within(
            "bytes / block_bytes",
            self.bytes / self.block_bytes,
            1,
            MOST_BLOCKS,
        )?;
        if self.bytes % self.block_bytes == 0 {
            return Ok(());
        }
        let message = format!(
            "parameters: bytes: {} is not a multiple of block_bytes",
            self.bytes
        );
        let hint = format!("choose a multiple of {}", self.block_bytes);
        Err(Error::new(Kind::BadRequest, message).hint(hint))
    }

    fn run(&self, run: &Run) -> Result<Measured> {
        let duration_ns = seconds("duration_s", self.duration_s)?;
        let file = files::nameless(&self.directory)?;
        self.prepare(run, &file)
            .map_err(|error| Error::io("fill a file in", &self.directory, &error))?;
        if self.direct {
            files::bypass_cache(&file).map_err(|error| {
                Error::io("bypass the page cache in", &self.directory, &error)
                    .hint("set `directory` to a folder on a disk, or omit `direct`")
            })?;
        }
        let job: Job<Histogram> = Box::new(|start_ns| self.blocks(run, &file, start_ns + duration_ns));
        let done = crew::run(vec![job])?;
        let mut whole = Histogram::new();
        done.results.iter().for_each(|histogram| whole.add(histogram));
        let mut results = whole.summary("");
        results.insert("moved_bytes".to_owned(), json!(whole.count() * self.block_bytes));
        results.insert("busy_ns".to_owned(), json!(whole.sum_ns()));
        results.insert("elapsed_ns".to_owned(), json!(done.elapsed_ns));
        Ok(Measured {
            results,
            histogram: Some(whole),
        })
    }
}

impl Parameters {
    fn check_direct(&self) -> Result<()> {
        let refuse = |message: String| Err(Error::new(Kind::BadRequest, format!("parameters: {message}")));
        if self.cache == Cache::Warm {
            return refuse("`direct` bypasses the page cache, but `cache` is `warm`".to_owned());
        }
        if self.block_bytes % files::DIRECT_BYTES == 0 {
            return Ok(());
        }
        let (block, unit) = (self.block_bytes, files::DIRECT_BYTES);
        refuse(format!(
            "block_bytes: `direct` needs a multiple of {unit}, got {block}"
        ))
    }

    /// Writes the file and flushes it, so that no writing remains for the measured time.
    fn prepare(&self, run: &Run, file: &File) -> io::Result<()> {
        // Not zeros, because some devices and file systems don't store those.
        let mut block = vec![0; 1 << 20];
        let mut state = now_ns() | 1;
        let mut at = 0;
        while at < self.bytes && !run.stopped() {
            for word in block.chunks_exact_mut(8) {
                word.copy_from_slice(&next(&mut state).to_ne_bytes());
            }
            let rest = usize::try_from(self.bytes - at)
                .unwrap_or(block.len())
                .min(block.len());
            file.write_all_at(&block[..rest], at)?;
            at += rest as u64;
        }
        file.sync_all()?;
        match self.cache {
            Cache::Cold => forget(file),
            Cache::Warm => files::read_through(file),
        }
    }

    fn blocks(&self, run: &Run, file: &File, end_ns: u64) -> io::Result<Histogram> {
        files::set_io_priority(self.io_priority)?;
        let mut histogram = Histogram::new();
        let mut block = files::Aligned::new(usize::try_from(self.block_bytes).unwrap_or(1 << 20), 0x5a);
        if self.order == Order::Random {
            fadvise(file, 0, None, Advice::Random)?;
        }
        let places = self.places();
        for pass in 0_u64.. {
            if pass > 0 && self.cache == Cache::Cold {
                forget(file)?;
            }
            for place in &places {
                let began_ns = now_ns();
                if began_ns >= end_ns || run.stopped() {
                    return Ok(histogram);
                }
                let at = u64::from(*place) * self.block_bytes;
                match self.operation {
                    Operation::Read => file.read_exact_at(&mut block, at)?,
                    Operation::Write => file.write_all_at(&block, at)?,
                }
                if self.operation == Operation::Write && self.cache == Cache::Cold {
                    file.sync_data()?;
                }
                histogram.record(now_ns() - began_ns);
            }
        }
        Ok(histogram)
    }

    /// Returns the numbers of all blocks in the order of a pass, each once.
    fn places(&self) -> Vec<u32> {
        let count = u32::try_from(self.bytes / self.block_bytes).unwrap_or(u32::MAX);
        let mut places: Vec<u32> = (0..count).collect();
        if self.order == Order::Random {
            let mut state = now_ns() | 1;
            for last in (1..places.len()).rev() {
                let other = next(&mut state) % (last as u64 + 1);
                places.swap(last, usize::try_from(other).unwrap_or_default());
            }
        }
        places
    }
}

/// Drops a file from the page cache. Only synced data can be dropped.
fn forget(file: &File) -> io::Result<()> {
    file.sync_data()?;
    Ok(fadvise(file, 0, None, Advice::DontNeed)?)
}

/// Returns the next pseudo-random number (xorshift).
fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}
