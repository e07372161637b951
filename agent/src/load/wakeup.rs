// SPDX-License-Identifier: Apache-2.0
//! `wakeup`: how late threads run after they should have been woken, in an open loop with a fixed
//! rate.
//!
//! Each pair consists of a thread that rings at moments fixed beforehand, and a thread that sleeps
//! until it hears a ring. The lateness of each ring counts from its intended moment, whether or not
//! the sleeper has answered the previous one. The time since the ring itself, which is stamped
//! individually, is reported as well. With the kind `timer` there is no ringing thread: the sleeper
//! sets its own timer for each moment.

mod bell;

use super::clock::{mixed, now_ns, sleep_until, thread_cpu_ns, Schedule};
use super::crew::{self, Job};
use super::histogram::Histogram;
use super::{seconds, within, Load, Measured, Run};
use crate::error::{Error, Kind, Result};
use bell::{bell, Ears, Rope};
use rustix::thread::{current_timer_slack, set_current_timer_slack};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::hint::black_box;
use std::io;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};

/// Time between the start of the threads and the first moment.
const LEAD_NS: u64 = 5_000_000;
const MOST_RINGS: u64 = 4_000_000;
/// A working thread checks nothing else.
const MOST_WORK_S: f64 = 1.0;

/// How the sleeper is woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum Means {
    /// A futex.
    Futex,
    /// A byte through a pipe.
    Pipe,
    /// An eventfd, waited for with epoll.
    Eventfd,
    /// The sleeper's own timer.
    Timer,
}

#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Parameters {
    kind: Means,
    pairs: u32,
    rate_per_s: u32,
    duration_s: f64,
    /// With a seed, each moment is at a random place in its period.
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    /// CPU time that a woken thread uses at each moment, so that the scheduler has something to
    /// distribute.
    #[serde(skip_serializing_if = "Option::is_none")]
    work_s: Option<f64>,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            kind: Means::Futex,
            pairs: 1,
            rate_per_s: 1000,
            duration_s: 2.0,
            seed: None,
            work_s: None,
        }
    }
}

/// The results of one thread; a thread that only rings has none.
#[derive(Debug, Default)]
struct ThreadResult {
    /// Since the intended moment.
    lateness: Option<Histogram>,
    /// Since the ring.
    ring: Option<Histogram>,
    timer_slack_ns: Option<u64>,
}

impl Load for Parameters {
    fn check(&self) -> Result<()> {
        within("pairs", self.pairs, 1, 256)?;
        within("rate_per_s", self.rate_per_s, 1, 100_000)?;
        self.work_ns()?;
        let rings = self.rings()? * u64::from(self.pairs);
        if (1..=MOST_RINGS).contains(&rings) {
            return Ok(());
        }
        let message = format!("parameters: pairs, rate_per_s and duration_s make {rings} wake-ups");
        Err(Error::new(Kind::BadRequest, message).hint(format!("use 1 to {MOST_RINGS} in total")))
    }

    fn run(&self, run: &Run) -> Result<Measured> {
        let (rings, work_ns) = (self.rings()?, self.work_ns()?);
        let logs: Vec<Log> = (0..self.pairs).map(|_| Log::new(rings)).collect();
        let mut jobs: Vec<Job<ThreadResult>> = Vec::new();
        for (pair, log) in (0..self.pairs).zip(&logs) {
            let schedule = move |start_ns| self.schedule(pair, start_ns, rings);
            let no_bell = |error: io::Error| Error::io("create", "a wake-up channel", &error);
            match bell(self.kind).map_err(no_bell)? {
                None => jobs.push(Box::new(move |start_ns| {
                    sleep_by_timer(run, schedule(start_ns), work_ns)
                })),
                Some((rope, ears)) => {
                    jobs.push(Box::new(move |start_ns| ring(run, schedule(start_ns), log, rope)));
                    jobs.push(Box::new(move |start_ns| {
                        listen(schedule(start_ns), log, ears, work_ns)
                    }));
                }
            }
        }
        let done = crew::run(jobs)?;
        Ok(measured(
            &done.results,
            rings * u64::from(self.pairs),
            done.elapsed_ns,
        ))
    }
}

impl Parameters {
    /// Returns the number of rings per pair.
    fn rings(&self) -> Result<u64> {
        let nanoseconds = u128::from(seconds("duration_s", self.duration_s)?);
        let rings = nanoseconds * u128::from(self.rate_per_s) / 1_000_000_000;
        Ok(u64::try_from(rings).unwrap_or(u64::MAX / 256))
    }

    /// Returns the work after each wake-up.
    fn work_ns(&self) -> Result<u64> {
        let Some(work_s) = self.work_s else { return Ok(0) };
        within("work_s", work_s, f64::MIN_POSITIVE, MOST_WORK_S)?;
        seconds("work_s", work_s)
    }

    /// Returns the moments of a pair; those of different pairs are spread over the period.
    fn schedule(&self, pair: u32, start_ns: u64, count: u64) -> Schedule {
        let period_ns = 1_000_000_000 / u64::from(self.rate_per_s);
        Schedule {
            first_ns: start_ns + LEAD_NS + period_ns * u64::from(pair) / u64::from(self.pairs),
            rate_per_s: self.rate_per_s,
            count,
            seed: self.seed.map(|seed| mixed(seed, u64::from(pair))),
        }
    }
}

/// When each ring of a pair was made, and how many there were.
struct Log {
    rung_ns: Vec<AtomicU64>,
    /// The number of rings; the maximum while ringing continues.
    made: AtomicU64,
}

impl Log {
    fn new(rings: u64) -> Self {
        let mut rung_ns = Vec::new();
        // Touches all of it, so that no ring waits for a page fault.
        rung_ns.resize_with(usize::try_from(rings).unwrap_or_default(), || {
            AtomicU64::new(black_box(0))
        });
        Self {
            rung_ns,
            made: AtomicU64::new(u64::MAX),
        }
    }
}

/// Rings once more at the end, even an early one or an error, to tell the listener how many rings
/// were made.
struct LastRing<'a> {
    rope: Box<dyn Rope>,
    log: &'a Log,
    made: u64,
}

impl Drop for LastRing<'_> {
    fn drop(&mut self) {
        self.log.made.store(self.made, Ordering::Release);
        // Fails only if the listener is gone.
        self.rope.ring().unwrap_or_default();
    }
}

/// Rings at each moment of the schedule.
fn ring(run: &Run, schedule: Schedule, log: &Log, rope: Box<dyn Rope>) -> io::Result<ThreadResult> {
    // The kernel may delay an ordinary thread's sleep by 50 microseconds, which must not count as
    // wake-up latency.
    set_current_timer_slack(NonZeroU64::new(1))?;
    let mut last = LastRing { rope, log, made: 0 };
    for (index, rung_ns) in (0..schedule.count).zip(&log.rung_ns) {
        sleep_until(schedule.at_ns(index))?;
        if run.stopped() {
            break;
        }
        rung_ns.store(now_ns(), Ordering::Release);
        last.rope.ring()?;
        last.made += 1;
    }
    Ok(ThreadResult::default())
}

/// Counts every ring, however many arrive at once, and works for each.
fn listen(schedule: Schedule, log: &Log, mut ears: Box<dyn Ears>, work_ns: u64) -> io::Result<ThreadResult> {
    let (mut lateness, mut since_ring) = (Histogram::new(), Histogram::new());
    let mut heard = 0;
    while heard < schedule.count {
        let new = ears.wait()?;
        let mut at_ns = now_ns();
        let made = log.made.load(Ordering::Acquire).min(schedule.count);
        let until = (heard + new).min(made);
        for index in heard..until {
            lateness.record(at_ns.saturating_sub(schedule.at_ns(index)));
            let rung_ns = log.rung_ns[usize::try_from(index).unwrap_or_default()].load(Ordering::Acquire);
            since_ring.record(at_ns.saturating_sub(rung_ns));
            if work_ns > 0 {
                work(work_ns);
                at_ns = now_ns();
            }
        }
        if until < heard + new || new == 0 {
            break;
        }
        heard = until;
    }
    Ok(ThreadResult {
        lateness: Some(lateness),
        ring: Some(since_ring),
        timer_slack_ns: None,
    })
}

/// Sleeps until each moment with the thread's own timer.
fn sleep_by_timer(run: &Run, schedule: Schedule, work_ns: u64) -> io::Result<ThreadResult> {
    let mut lateness = Histogram::new();
    for index in 0..schedule.count {
        let moment_ns = schedule.at_ns(index);
        sleep_until(moment_ns)?;
        lateness.record(now_ns().saturating_sub(moment_ns));
        if run.stopped() {
            break;
        }
        if work_ns > 0 {
            work(work_ns);
        }
    }
    Ok(ThreadResult {
        lateness: Some(lateness),
        ring: None,
        timer_slack_ns: Some(current_timer_slack()?),
    })
}

/// Uses this much CPU time of the calling thread.
fn work(ns: u64) {
    let until_ns = thread_cpu_ns() + ns;
    while thread_cpu_ns() < until_ns {
        std::hint::spin_loop();
    }
}

fn measured(found: &[ThreadResult], planned: u64, elapsed_ns: u64) -> Measured {
    let all = |of: fn(&ThreadResult) -> Option<&Histogram>| {
        let mut whole: Option<Histogram> = None;
        for histogram in found.iter().filter_map(of) {
            whole.get_or_insert_with(Histogram::new).add(histogram);
        }
        whole
    };
    let lateness = all(|found| found.lateness.as_ref());
    let mut results = lateness.as_ref().map(|all| all.summary("")).unwrap_or_default();
    if let Some(ring) = all(|found| found.ring.as_ref()) {
        results.extend(ring.summary("ring_"));
    }
    results.insert("planned".to_owned(), json!(planned));
    results.insert("elapsed_ns".to_owned(), json!(elapsed_ns));
    let slack = found.iter().find_map(|found| found.timer_slack_ns);
    results.insert("timer_slack_ns".to_owned(), json!(slack));
    Measured {
        results,
        histogram: lateness,
    }
}
