// SPDX-License-Identifier: Apache-2.0
//! Monotonic time in nanoseconds, and sleeping until a moment of it.

use rustix::thread::{clock_nanosleep_absolute, ClockId as SleepClock};
use rustix::time::{clock_gettime, ClockId, Timespec};
use std::io;

const SECOND_NS: u64 = 1_000_000_000;

/// Most readings of two clocks; the fastest reading counts.
const TRIES: usize = 10;
/// A reading of two clocks that took no longer is good enough.
const AT_ONCE_NS: u64 = 1_000_000;

/// Returns the monotonic time in nanoseconds.
pub fn now_ns() -> u64 {
    read_ns(ClockId::Monotonic)
}

/// Returns the CPU time of the calling thread in nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    read_ns(ClockId::ThreadCPUTime)
}

/// Returns for how many nanoseconds the machine has been suspended since boot.
pub fn slept_ns() -> i64 {
    lead_by(|| [now_ns(), read_ns(ClockId::Boottime), now_ns()]).0
}

/// Returns the wall clock's time at the zero of the monotonic clock, and its largest possible
/// error.
pub fn unix_at_zero_ns() -> (i64, u64) {
    lead_by(|| [now_ns(), read_ns(ClockId::Realtime), now_ns()])
}

/// Returns the lead of the second clock over the first one, which is read before and after it, and
/// how long that took.
///
/// On a busy machine any time may pass between two readings, which would look like a suspension or
/// a clock step.
fn lead_by(mut read: impl FnMut() -> [u64; 3]) -> (i64, u64) {
    let (mut shortest_ns, mut lead) = (u64::MAX, 0);
    for _ in 0..TRIES {
        let [before, other, after] = read();
        let length_ns = after.saturating_sub(before);
        if length_ns < shortest_ns {
            shortest_ns = length_ns;
            let lead_ns = i128::from(other) - i128::from(before + length_ns / 2);
            lead = i64::try_from(lead_ns).unwrap_or_default();
        }
        if shortest_ns <= AT_ONCE_NS {
            break;
        }
    }
    (lead, shortest_ns)
}

/// Returns the time of a clock that is never negative.
fn read_ns(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    let part = |value: i64| u64::try_from(value).unwrap_or_default();
    part(now.tv_sec) * SECOND_NS + part(now.tv_nsec)
}

/// Sleeps until a moment of monotonic time; returns at once if it has passed.
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

/// The moments of an open loop, fixed before it starts, however late it gets.
#[derive(Debug, Clone, Copy)]
pub struct Schedule {
    /// The first moment.
    pub first_ns: u64,
    /// Moments per second.
    pub rate_per_s: u32,
    /// Number of moments.
    pub count: u64,
    /// With a seed, each moment is anywhere in its period, but always the same for the same seed.
    pub seed: Option<u64>,
}

impl Schedule {
    /// Returns the moment with this index.
    pub fn at_ns(&self, index: u64) -> u64 {
        let rate = u64::from(self.rate_per_s);
        let even_ns = self.first_ns + index * SECOND_NS / rate;
        match self.seed {
            None => even_ns,
            Some(seed) => even_ns + mixed(seed, index) % (SECOND_NS / rate).max(1),
        }
    }
}

/// Returns a pseudo-random number that depends only on seed and index (the finaliser of
/// `SplitMix64`).
pub fn mixed(seed: u64, index: u64) -> u64 {
    let mut bits = seed
        .wrapping_mul(0xd134_2543_de82_ef95)
        .wrapping_add(index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeded_moments_stay_in_their_periods_and_differ_by_seed() {
        let moments = |seed| {
            let schedule = Schedule {
                first_ns: 7,
                rate_per_s: 100,
                count: 500,
                seed: Some(seed),
            };
            (0..500).map(|index| schedule.at_ns(index)).collect::<Vec<_>>()
        };
        for (index, moment) in moments(1).iter().enumerate() {
            assert_eq!((moment - 7) / 10_000_000, index as u64);
        }
        assert_eq!(moments(1), moments(1));
        assert_ne!(moments(1), moments(2));
        let places: u64 = moments(3).iter().map(|moment| (moment - 7) % 10_000_000).sum();
        assert!((4_500_000..5_500_000).contains(&(places / 500)), "{places}");
    }

    #[test]
    fn a_delay_between_two_clocks_is_no_lead() {
        let mut readings = [
            [1_000, 900_001_500, 900_002_000],
            [901_000_000, 901_000_100, 1_500_000_000],
            [1_600_000_000, 1_607_000_200, 1_600_000_400],
        ]
        .into_iter();
        assert_eq!(lead_by(|| readings.next().unwrap()), (7_000_000, 400));
        let mut last = 0;
        let lead = lead_by(|| {
            last += 4_000_000;
            [last - 2_000_000, last + 49_000_000, last]
        });
        assert_eq!(lead, (50_000_000, 2_000_000));
        assert_eq!(last, 40_000_000, "none was fast: all have been tried");
    }

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
            seed: None,
        };
        assert_eq!(schedule.at_ns(0), 5);
        assert_eq!(schedule.at_ns(1), 333_333_338);
        assert_eq!(schedule.at_ns(3_000_000), 1_000_000_000_000_005);
    }
}
