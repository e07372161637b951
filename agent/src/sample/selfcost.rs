// SPDX-License-Identifier: Apache-2.0
//! Measures what a sample costs, source by source, compared with bare reads of the same files.

use super::set::{names, Set};
use crate::error::Result;
use crate::load::clock::thread_cpu_ns;
use crate::root::Root;
use serde_json::{json, Value};
use std::fmt::Write as _;

/// Number of rounds; the median counts.
const ROUNDS: usize = 15;
/// Samples per round.
const SAMPLES: u32 = 100;

/// Measures each source and all of them together, or only those named in `only`, together.
///
/// # Errors
///
/// A source is unknown.
pub fn measure(root: &Root, only: &[String]) -> Result<Value> {
    let mut rows = Vec::new();
    let groups: Vec<(String, Option<Vec<String>>)> = if only.is_empty() {
        names()
            .map(|name| (name.to_owned(), Some(vec![name.to_owned()])))
            .chain([("all".to_owned(), None)])
            .collect()
    } else {
        vec![(only.join("+"), Some(only.to_vec()))]
    };
    for (name, sources) in groups {
        let mut set = Set::open(root, sources.as_deref())?;
        if set.feeds.is_empty() {
            let why: Vec<&str> = set.absent.iter().map(|(_, why)| why.as_str()).collect();
            rows.push(json!({"source": name, "absent": why.join("; ")}));
            continue;
        }
        let (sample_ns, bare_ns) = cost(&mut set);
        rows.push(json!({
            "source": name, "files": set.feeds.len(), "columns": set.width(), "sample_ns": sample_ns, "bare_ns": bare_ns,
        }));
    }
    Ok(json!({ "samples": ROUNDS * SAMPLES as usize, "sources": rows }))
}

/// Returns the CPU time of a sample and of its bare reads, measured in alternating rounds.
fn cost(set: &mut Set) -> (u64, u64) {
    let mut row = vec![0; set.width()];
    let mut sampled: Vec<u64> = Vec::with_capacity(ROUNDS);
    let mut read: Vec<u64> = Vec::with_capacity(ROUNDS);
    for _ in 0..=ROUNDS {
        sampled.push(cpu_ns(|| set.sample(&mut row)));
        read.push(cpu_ns(|| set.bare()));
    }
    (middle(&mut sampled[1..]), middle(&mut read[1..]))
}

fn cpu_ns(mut work: impl FnMut()) -> u64 {
    let began_ns = thread_cpu_ns();
    for _ in 0..SAMPLES {
        work();
    }
    (thread_cpu_ns() - began_ns) / u64::from(SAMPLES)
}

fn middle(values: &mut [u64]) -> u64 {
    values.sort_unstable();
    values[values.len() / 2]
}

/// Formats the table for a person.
#[must_use]
pub fn show(measured: &Value) -> String {
    let mut text = format!(
        "{:<16}{:>7}{:>9}{:>14}{:>14}{:>8}\n",
        "source", "files", "columns", "sample", "bare reads", "ratio"
    );
    for row in measured["sources"].as_array().into_iter().flatten() {
        let name = row["source"].as_str().unwrap_or_default();
        let written = match (row["sample_ns"].as_f64(), row["bare_ns"].as_f64()) {
            (Some(sample), Some(bare)) => writeln!(
                text,
                "{name:<16}{:>7}{:>9}{:>11.2} us{:>11.2} us{:>8.2}",
                row["files"].as_u64().unwrap_or_default(),
                row["columns"].as_u64().unwrap_or_default(),
                sample / 1000.0,
                bare / 1000.0,
                sample / bare
            ),
            _ => writeln!(
                text,
                "{name:<16}  absent: {}",
                row["absent"].as_str().unwrap_or_default()
            ),
        };
        // Writing to a string cannot fail.
        let () = written.unwrap_or_default();
    }
    let samples = &measured["samples"];
    let _ = writeln!(
        text,
        "CPU time of one thread; median of rounds over {samples} samples, warm caches"
    );
    text
}
