// SPDX-License-Identifier: Apache-2.0
//! `lock`: threads that contend for a few locks and yield the CPU while they hold one.
//!
//! An event is `yields` rounds of taking a lock, yielding and releasing it. Each new event of any
//! thread uses the next lock. When threads instead switched locks every round, they fell into step,
//! differently in each run.

use super::clock::now_ns;
use super::crew::{self, Job};
use super::histogram::Histogram;
use super::{seconds, within, Load, Measured, Run};
use crate::error::Result;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Parameters {
    threads: u32,
    locks: u32,
    yields: u32,
    duration_s: f64,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            threads: 4,
            locks: 8,
            yields: 1000,
            duration_s: 2.0,
        }
    }
}

impl Load for Parameters {
    fn check(&self) -> Result<()> {
        within("threads", self.threads, 1, 1000)?;
        within("locks", self.locks, 1, 1000)?;
        within("yields", self.yields, 1, 100_000)?;
        seconds("duration_s", self.duration_s).map(|_| ())
    }

    fn run(&self, run: &Run) -> Result<Measured> {
        let duration_ns = seconds("duration_s", self.duration_s)?;
        let locks: Vec<Mutex<()>> = (0..self.locks).map(|_| Mutex::new(())).collect();
        let (locks, begun) = (&locks, &AtomicUsize::new(0));
        let jobs: Vec<Job<Histogram>> = (0..self.threads)
            .map(|_| -> Job<Histogram> {
                Box::new(move |start_ns| Ok(self.contend(run, locks, begun, start_ns + duration_ns)))
            })
            .collect();
        let done = crew::run(jobs)?;
        let mut whole = Histogram::new();
        done.results.iter().for_each(|histogram| whole.add(histogram));
        let of_threads = || done.results.iter().map(Histogram::count);
        let mut results = whole.summary("");
        results.insert("elapsed_ns".to_owned(), json!(done.elapsed_ns));
        results.insert("least_of_a_thread".to_owned(), json!(of_threads().min()));
        results.insert("most_of_a_thread".to_owned(), json!(of_threads().max()));
        Ok(Measured {
            results,
            histogram: Some(whole),
        })
    }
}

impl Parameters {
    /// Runs the events of one thread until the time is up. An event that is under way then is
    /// finished and counted.
    fn contend(&self, run: &Run, locks: &[Mutex<()>], begun: &AtomicUsize, end_ns: u64) -> Histogram {
        let mut histogram = Histogram::new();
        let mut began_ns = now_ns();
        while began_ns < end_ns {
            let lock = &locks[begun.fetch_add(1, Ordering::Relaxed) % locks.len()];
            for _ in 0..self.yields {
                if run.stopped() {
                    return histogram;
                }
                let held = lock.lock().unwrap_or_else(PoisonError::into_inner);
                thread::yield_now();
                drop(held);
            }
            let ended_ns = now_ns();
            histogram.record(ended_ns - began_ns);
            began_ns = ended_ns;
        }
        histogram
    }
}
