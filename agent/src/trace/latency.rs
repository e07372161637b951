// SPDX-License-Identifier: Apache-2.0
//! Latency histograms of a block device's requests, with four bars per doubling: of all requests,
//! and of those that found the device idle and had to wake it.

use serde_json::{json, Value};
use std::collections::BTreeMap;

/// A device without a request for this long may have gone to sleep.
pub const IDLE_NS: u64 = 50_000_000;

/// The requests of one device.
#[derive(Debug, Clone, Default)]
pub struct Latency {
    pub requests: u64,
    pub bytes: u64,
    /// Cache flushes.
    pub flushes: u64,
    /// Requests without data that waited for a flush; the kernel counts them as writes.
    pub waits: u64,
    bars: BTreeMap<u64, u64>,
    after_idle: BTreeMap<u64, u64>,
    in_flight: u64,
    /// When the last request ended; None if that was not seen.
    ended_ns: Option<u64>,
}

impl Latency {
    /// Starts a request. Returns how long the device was idle before; None if that is unknown, or
    /// it has other requests.
    pub fn begin(&mut self, at_ns: u64) -> Option<u64> {
        let idle_ns = self
            .ended_ns
            .filter(|_| self.in_flight == 0)
            .map(|ended_ns| at_ns.saturating_sub(ended_ns));
        self.in_flight += 1;
        idle_ns
    }

    /// Undoes the start of something that was not a request, or had started before.
    pub fn again(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// Ends a request.
    pub fn end(&mut self, at_ns: u64, length_ns: u64, bytes: i64, idle_ns: Option<u64>) {
        self.requests += 1;
        self.bytes += bytes.max(0).unsigned_abs();
        let end_ns = end_ns(length_ns);
        *self.bars.entry(end_ns).or_default() += 1;
        if idle_ns.is_some_and(|idle_ns| idle_ns >= IDLE_NS) {
            *self.after_idle.entry(end_ns).or_default() += 1;
        }
        self.in_flight = self.in_flight.saturating_sub(1);
        self.ended_ns = Some(at_ns);
    }

    /// Forgets the requests in flight.
    pub fn forget(&mut self) {
        self.in_flight = 0;
        self.ended_ns = None;
    }

    /// Returns requests, bytes, and `[[end of a bar in nanoseconds, requests]]`.
    pub fn to_json(&self) -> Value {
        let pairs = |bars: &BTreeMap<u64, u64>| -> Value {
            bars.iter().map(|(end, count)| json!([end, count])).collect()
        };
        json!({
            "requests": self.requests, "bytes": self.bytes, "flushes": self.flushes, "histogram": pairs(&self.bars),
            "after_idle": pairs(&self.after_idle),
        })
    }
}

/// Returns the end of the bar that contains a length.
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
        latency.end(1000, 1000, 512, None);
        latency.end(1001, 1001, 512, Some(IDLE_NS - 1));
        assert_eq!(
            latency.to_json(),
            json!({"requests": 2, "bytes": 1024, "flushes": 0, "histogram": [[1024, 2]], "after_idle": []})
        );
    }

    #[test]
    fn a_request_that_finds_the_device_idle_is_counted_twice() {
        let mut latency = Latency::default();
        assert_eq!(latency.begin(0), None);
        latency.end(1000, 1000, 0, None);
        assert_eq!(latency.begin(IDLE_NS + 1000), Some(IDLE_NS));
        assert_eq!(latency.begin(IDLE_NS + 1001), None);
        latency.end(IDLE_NS + 9000, 8000, 0, Some(IDLE_NS));
        latency.end(IDLE_NS + 9000, 7999, 0, None);
        assert_eq!(latency.to_json()["after_idle"], json!([[8192, 1]]));
        latency.forget();
        assert_eq!(latency.begin(u64::MAX), None);
    }
}
