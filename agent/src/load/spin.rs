// SPDX-License-Identifier: Apache-2.0
//! `spin`: threads that compute without pause, as background load. They count their work, which
//! exposes a scheduler that starves them. They run until the limit, the next request, or the end of
//! the session.

use super::clock::now_ns;
use super::crew::{self, Job};
use super::{within, Load, Measured, Run};
use crate::error::Result;
use serde::{Deserialize, Serialize};
use serde_json::{json, Map};
use std::hint::black_box;

/// Arithmetic steps per round: some tens of microseconds of work.
const STEPS: u32 = 1 << 15;
/// Length of the slices in which rounds are counted, so that those of any period can be determined
/// later.
const SLICE_NS: u64 = 10_000_000;

#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Parameters {
    /// Number of threads [default: half the number of CPUs, rounded up].
    threads: Option<u32>,
}

#[allow(
    clippy::derivable_impls,
    reason = "every load has its defaults in the same place"
)]
impl Default for Parameters {
    fn default() -> Self {
        Self { threads: None }
    }
}

/// What one thread did.
struct Spun {
    start_ns: u64,
    rounds: u64,
    /// Rounds in each complete slice since the start.
    slices: Vec<u64>,
}

impl Load for Parameters {
    fn check(&self) -> Result<()> {
        within("threads", self.threads.unwrap_or(1), 1, 1000)
    }

    fn run(&self, run: &Run) -> Result<Measured> {
        let threads = self
            .threads
            .map_or(run.cpus.len().div_ceil(2), |threads| threads as usize);
        let jobs: Vec<Job<Spun>> = (0..threads)
            .map(|_| -> Job<Spun> { Box::new(|start_ns| Ok(spin(run, start_ns))) })
            .collect();
        let done = crew::run(jobs)?;
        let rounds = || done.results.iter().map(|spun| spun.rounds);
        let whole = done.results.iter().map(|spun| spun.slices.len()).min();
        let slices: Vec<u64> = (0..whole.unwrap_or_default())
            .map(|slice| done.results.iter().map(|spun| spun.slices[slice]).sum())
            .collect();
        let start_ns = done.results.first().map(|spun| spun.start_ns);
        let mut results = Map::new();
        results.insert("rounds".to_owned(), json!(rounds().sum::<u64>()));
        results.insert("least_of_a_thread".to_owned(), json!(rounds().min()));
        results.insert("most_of_a_thread".to_owned(), json!(rounds().max()));
        results.insert("threads".to_owned(), json!(threads));
        results.insert("start_ns".to_owned(), json!(start_ns));
        results.insert("slice_ns".to_owned(), json!(SLICE_NS));
        results.insert("slices".to_owned(), json!(slices));
        results.insert("elapsed_ns".to_owned(), json!(done.elapsed_ns));
        Ok(Measured {
            results,
            histogram: None,
        })
    }
}

fn spin(run: &Run, start_ns: u64) -> Spun {
    let mut spun = Spun {
        start_ns,
        rounds: 0,
        slices: Vec::new(),
    };
    let mut before = 0;
    let mut state = start_ns | 1;
    while !run.stopped() {
        for _ in 0..STEPS {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
        }
        black_box(state);
        spun.rounds += 1;
        let slice = (now_ns() - start_ns) / SLICE_NS;
        // A thread that was held up for more than a slice did nothing in it.
        while (spun.slices.len() as u64) < slice {
            spun.slices.push(spun.rounds - before);
            before = spun.rounds;
        }
    }
    spun
}
