// SPDX-License-Identifier: Apache-2.0
//! Monotonic time in nanoseconds, and sleeping until a moment of it.

use rustix::thread::{clock_nanosleep_absolute, ClockId as SleepClock};
use rustix::time::{clock_gettime, ClockId, Timespec};
use std::io;

const SECOND_NS: u64 = 1_000_000_000;

/// Nanoseconds of monotonic time.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    // Monotonic time is never negative.
    let part = |value: i64| u64::try_from(value).unwrap_or_default();
    part(now.tv_sec) * SECOND_NS + part(now.tv_nsec)
}

/// Nanoseconds that the calling thread has spent on a CPU.
pub fn thread_cpu_ns() -> u64 {
    let spent = clock_gettime(ClockId::ThreadCPUTime);
    let part = |value: i64| u64::try_from(value).unwrap_or_default();
    part(spent.tv_sec) * SECOND_NS + part(spent.tv_nsec)
}

/// Sleeps until a moment of monotonic time; returns at once when it is over.
pub fn sleep_until(ns: u64) -> io::Result<()> {
    let part = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    let moment = Timespec {
        tv_sec: part(ns / SECOND_NS),
        tv_nsec: part(ns % SECOND_NS),
    };
    Ok(rustix::io::retry_on_intr(|| {
        clock_nanosleep_absolute(SleepClock::Monotonic, &moment)
    })?)
}

/// The moments of an open loop: fixed before it starts, whatever it meets.
#[derive(Debug, Clone, Copy)]
pub struct Schedule {
    /// The first moment.
    pub first_ns: u64,
    /// Moments per second.
    pub rate_per_s: u32,
    /// How many there are.
    pub count: u64,
}

impl Schedule {
    /// The moment of number `index`.
    pub fn at_ns(&self, index: u64) -> u64 {
        self.first_ns + index * SECOND_NS / u64::from(self.rate_per_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeping_ends_after_the_moment() {
        let wanted = now_ns() + 2_000_000;
        sleep_until(wanted).unwrap();
        assert!(now_ns() >= wanted);
        sleep_until(0).unwrap();
    }

    #[test]
    fn moments_do_not_drift() {
        let schedule = Schedule {
            first_ns: 5,
            rate_per_s: 3,
            count: 10,
        };
        assert_eq!(schedule.at_ns(0), 5);
        assert_eq!(schedule.at_ns(1), 333_333_338);
        assert_eq!(schedule.at_ns(3_000_000), 1_000_000_000_000_005);
    }
}
