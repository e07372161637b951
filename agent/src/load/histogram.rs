// SPDX-License-Identifier: Apache-2.0
//! A histogram of nanoseconds on a fixed log-linear grid, so that histograms of several threads and
//! runs can be added.
//!
//! Each value below 1024 ns, including zero, has its own cell. Above that, each power of two has
//! 512 cells; a value is reported as the middle of its cell, which is within 0.1 % of it. The
//! largest value and the sum are exact.

use serde_json::{json, Map, Value};
use std::hint::black_box;

/// Cells per power of two, as a power of two.
const CELL_BITS: u32 = 9;
const CELLS: u64 = 1 << CELL_BITS;
/// Number of cells for all 64-bit values: two rounds of exact ones, then one round per further
/// power of two.
const ALL_CELLS: usize = ((64 - CELL_BITS + 1) as usize) << CELL_BITS;

/// Quantiles reported for every latency: the name, and the fraction of values at or below.
const QUANTILES: [(&str, u64, u64); 4] = [
    ("p50_ns", 1, 2),
    ("p90_ns", 9, 10),
    ("p99_ns", 99, 100),
    ("p99_9_ns", 999, 1000),
];

/// Counts of values, in nanoseconds.
#[derive(Debug, Clone)]
pub struct Histogram {
    counts: Vec<u64>,
    count: u64,
    sum_ns: u128,
    max_ns: u64,
}

impl Histogram {
    /// Creates an empty histogram. Touches all its memory, so that recording causes no page fault.
    pub fn new() -> Self {
        let mut counts = Vec::with_capacity(ALL_CELLS);
        counts.resize_with(ALL_CELLS, || black_box(0));
        Self {
            counts,
            count: 0,
            sum_ns: 0,
            max_ns: 0,
        }
    }

    /// Counts one value.
    pub fn record(&mut self, ns: u64) {
        self.counts[cell_of(ns)] += 1;
        self.count += 1;
        self.sum_ns += u128::from(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    /// Adds the counts of another histogram.
    pub fn add(&mut self, other: &Self) {
        for (own, more) in self.counts.iter_mut().zip(&other.counts) {
            *own += more;
        }
        self.count += other.count;
        self.sum_ns += other.sum_ns;
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// Returns the number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the sum of all values, saturating.
    pub fn sum_ns(&self) -> u64 {
        u64::try_from(self.sum_ns).unwrap_or(u64::MAX)
    }

    /// Returns the mean, rounded down; None without values.
    fn mean_ns(&self) -> Option<u64> {
        let mean = self.sum_ns.checked_div(u128::from(self.count))?;
        u64::try_from(mean).ok()
    }

    /// Returns the smallest cell with at least `part` of `whole` values at or below it (nearest
    /// rank). None if there are too few values for one to be above it.
    fn quantile_ns(&self, part: u64, whole: u64) -> Option<u64> {
        if self.count * (whole - part) < whole {
            return None;
        }
        let rank = (self.count * part).div_ceil(whole);
        let mut below = 0;
        let cell = self.counts.iter().position(|count| {
            below += count;
            below >= rank
        })?;
        Some(middle_of(cell).min(self.max_ns))
    }

    /// Returns count, mean, quantiles and largest value, with `prefix` before each name; null if
    /// there are too few values.
    pub fn summary(&self, prefix: &str) -> Map<String, Value> {
        let mut summary = Map::new();
        let mut put = |name: &str, value: Value| summary.insert(format!("{prefix}{name}"), value);
        put("count", json!(self.count));
        put("mean_ns", json!(self.mean_ns()));
        for (name, part, whole) in QUANTILES {
            put(name, json!(self.quantile_ns(part, whole)));
        }
        put("max_ns", json!((self.count > 0).then_some(self.max_ns)));
        summary
    }

    /// Returns the non-empty cells: middle in nanoseconds, count.
    pub fn to_json(&self) -> Value {
        let held = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        let cells: Map<String, Value> = held
            .map(|(cell, count)| (middle_of(cell).to_string(), json!(count)))
            .collect();
        Value::Object(cells)
    }
}

/// Returns the cell of a value.
fn cell_of(ns: u64) -> usize {
    let power = ns.checked_ilog2().unwrap_or_default();
    let round = power.saturating_sub(CELL_BITS);
    let within = ns >> round;
    // At most 2^CELL_BITS * 64, which fits into any usize.
    usize::try_from(u64::from(round) * CELLS + within).unwrap_or(ALL_CELLS - 1)
}

/// Returns the middle of a cell, rounded down.
fn middle_of(cell: usize) -> u64 {
    let cell = cell as u64;
    let round = (cell / CELLS).saturating_sub(1);
    let low = (cell - round * CELLS) << round;
    low + ((1_u64 << round) - 1) / 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn zeros_are_counted_and_small_values_are_exact() {
        let mut histogram = Histogram::new();
        for ns in [0, 0, 1, 1023] {
            histogram.record(ns);
        }
        assert_eq!(histogram.to_json(), json!({"0": 2, "1": 1, "1023": 1}));
        assert_eq!(histogram.quantile_ns(1, 2), Some(0));
        assert_eq!(histogram.mean_ns(), Some(256));
    }

    #[test]
    fn quantiles_are_of_nearest_rank_and_need_enough_values() {
        let mut histogram = Histogram::new();
        for ns in 1..=100 {
            histogram.record(ns);
        }
        assert_eq!(histogram.quantile_ns(1, 2), Some(50));
        assert_eq!(histogram.quantile_ns(99, 100), Some(99));
        assert_eq!(histogram.quantile_ns(999, 1000), None);
        let summary = histogram.summary("x_");
        assert_eq!(summary["x_p90_ns"], json!(90));
        assert_eq!(summary["x_p99_9_ns"], Value::Null);
        assert_eq!(summary["x_max_ns"], json!(100));
    }

    #[test]
    fn an_empty_one_knows_nothing() {
        let summary = Histogram::new().summary("");
        assert_eq!(summary["count"], json!(0));
        for name in ["mean_ns", "p50_ns", "p99_9_ns", "max_ns"] {
            assert_eq!(summary[name], Value::Null, "{name}");
        }
    }

    #[test]
    fn the_largest_value_is_exact_and_has_a_cell() {
        let mut histogram = Histogram::new();
        histogram.record(u64::MAX);
        assert_eq!(histogram.summary("")["max_ns"], json!(u64::MAX));
        assert_eq!(cell_of(u64::MAX), ALL_CELLS - 1);
    }

    #[test]
    fn adding_is_recording_into_one() {
        let (mut one, mut two, mut both) = (Histogram::new(), Histogram::new(), Histogram::new());
        for ns in [0, 5, 70_000] {
            one.record(ns);
            both.record(ns);
        }
        two.record(123_456_789);
        both.record(123_456_789);
        one.add(&two);
        assert_eq!(one.to_json(), both.to_json());
        assert_eq!(one.summary(""), both.summary(""));
    }

    proptest! {
        #[test]
        fn a_cell_is_within_a_thousandth_of_its_values(ns in any::<u64>(), shift in 0_u32..64) {
            let ns = ns >> shift;
            let middle = middle_of(cell_of(ns));
            prop_assert!(u128::from(middle.abs_diff(ns)) * 1000 <= u128::from(ns));
            prop_assert_eq!(cell_of(middle), cell_of(ns));
        }

        #[test]
        fn larger_values_are_in_no_lower_cell(one in any::<u64>(), two in any::<u64>()) {
            prop_assert!((cell_of(one) <= cell_of(two)) || one > two);
        }
    }
}
