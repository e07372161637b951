// SPDX-License-Identifier: Apache-2.0
//! `memcpy`: how fast threads copy memory. Each thread has two buffers, written to before the
//! start.

use super::clock::now_ns;
use super::crew::{self, Job};
use super::memory;
use super::{seconds, within, Load, Measured, Run};
use crate::error::Result;
use serde::{Deserialize, Serialize};
use serde_json::{json, Map};
use std::hint::black_box;

const MOST_BYTES: u64 = 1 << 30;

#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Parameters {
    /// Size of each of the two buffers.
    bytes: u64,
    threads: u32,
    duration_s: f64,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            bytes: 64 << 20,
            threads: 1,
            duration_s: 1.0,
        }
    }
}

impl Load for Parameters {
    fn check(&self) -> Result<()> {
        within("bytes", self.bytes, 4096, MOST_BYTES)?;
        within("threads", self.threads, 1, 256)?;
        seconds("duration_s", self.duration_s)?;
        memory::room_for(self.bytes * 2 * u64::from(self.threads))
    }

    fn run(&self, run: &Run) -> Result<Measured> {
        let duration_ns = seconds("duration_s", self.duration_s)?;
        let size = memory::to_size(self.bytes)?;
        let buffers = (0..self.threads).map(|_| (memory::written(size, 1), memory::written(size, 2)));
        let jobs: Vec<Job<u64>> = buffers
            .map(|(from, mut to)| -> Job<u64> {
                Box::new(move |start_ns| {
                    let mut passes = 0;
                    while !run.stopped() && now_ns() < start_ns + duration_ns {
                        black_box(&mut to).copy_from_slice(black_box(&from));
                        passes += 1;
                    }
                    black_box(&to);
                    Ok(passes)
                })
            })
            .collect();
        let done = crew::run(jobs)?;
        let passes: u64 = done.results.iter().sum();
        let mut results = Map::new();
        results.insert(
            "copied_bytes".to_owned(),
            json!(passes.saturating_mul(self.bytes)),
        );
        results.insert("passes".to_owned(), json!(passes));
        results.insert("elapsed_ns".to_owned(), json!(done.elapsed_ns));
        Ok(Measured {
            results,
            histogram: None,
        })
    }
}
