// SPDX-License-Identifier: Apache-2.0
//! How long the requests of a block device took: a histogram with four bars to each doubling.

use serde_json::{json, Value};
use std::collections::BTreeMap;

/// Requests of one device.
#[derive(Debug, Clone, Default)]
pub struct Latency {
    pub requests: u64,
    pub bytes: u64,
    /// Flushes that only their end is known of.
    pub flushes: u64,
    bars: BTreeMap<u64, u64>,
}

impl Latency {
    /// One more request.
    pub fn add(&mut self, length_ns: u64, bytes: i64) {
        self.requests += 1;
        self.bytes += bytes.max(0).unsigned_abs();
        *self.bars.entry(end_ns(length_ns)).or_default() += 1;
    }

    /// Requests, bytes, and `[[end of a bar in nanoseconds, requests]]`.
    pub fn to_json(&self) -> Value {
        let bars: Vec<(u64, u64)> = self.bars.iter().map(|(end, count)| (*end, *count)).collect();
        json!({"requests": self.requests, "bytes": self.bytes, "flushes": self.flushes, "histogram": bars})
    }
}

/// Where the bar ends that holds a length.
fn end_ns(length_ns: u64) -> u64 {
    let doubling = length_ns.max(4).ilog2();
    let step = 1_u64 << (doubling - 2);
    (length_ns / step + 1).saturating_mul(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_hold_what_lies_below_their_ends() {
        for length_ns in [0, 1, 4, 5, 1000, 1023, 1024, 5_000_000, u64::MAX / 2] {
            let end = end_ns(length_ns);
            assert!(end > length_ns, "{length_ns}");
            assert!(
                length_ns < 8 || end - length_ns <= length_ns / 4 + 1,
                "{length_ns}"
            );
        }
        let mut latency = Latency::default();
        latency.add(1000, 512);
        latency.add(1001, 512);
        assert_eq!(
            latency.to_json(),
            json!({"requests": 2, "bytes": 1024, "flushes": 0, "histogram": [[1024, 2]]})
        );
    }
}
