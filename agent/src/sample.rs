// SPDX-License-Identifier: Apache-2.0
//! The `sample` request: samples the machine's sensors and counters periodically during a run.
//!
//! Each source opens its files once. A sample re-reads them and converts their text to integers.
//! Samples stay in memory until the end, so that nothing is written or sent during a measurement.

mod cgroup;
mod cycles;
mod disks;
mod fan;
pub(crate) mod feed;
mod fragmentation;
mod frequency;
mod gpu;
mod idle;
mod interrupts;
mod load;
mod memory;
mod names;
mod power;
mod pressure;
mod queues;
mod recording;
mod schedstat;
pub mod selfcost;
pub(crate) mod set;
mod stat;
mod table;
mod temperature;
mod text;
mod threads;
mod throttle;
mod uptime;
mod vmstat;
mod zones;
mod zram;

pub(crate) use cgroup::{limits_of, open as cgroup_of};
pub(crate) use threads::open as threads_of;

use crate::error::{Error, Kind, Result};
use crate::load::clock::{now_ns, thread_cpu_ns};
use crate::load::Ended;
use crate::root::Root;
use crate::transact::context::Told;
use recording::Recording;
use rustix::process::{getrlimit, setrlimit, Resource, Rlimit};
use serde::Deserialize;
use serde_json::{json, Value};
use set::Set;

/// Limits of the time between two samples.
const PERIOD_S: std::ops::RangeInclusive<f64> = 0.1..=60.0;
/// Longest sampling time.
const MOST_SECONDS: f64 = 86_400.0;

/// What to sample.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Names of sources [default: all].
    #[serde(default)]
    pub sources: Option<Vec<String>>,
    /// Seconds between two samples.
    #[serde(default = "one_second")]
    pub period_s: f64,
    /// Seconds after which sampling ends.
    pub limit_s: f64,
    /// Number of samples after which sampling ends.
    #[serde(default)]
    pub count: Option<u64>,
    /// Whether to report when the first sample has been taken.
    #[serde(default)]
    pub tell_begun: bool,
}

fn one_second() -> f64 {
    1.0
}

/// Samples until the count, the limit, the next request or the end of the input. Calls `begun`
/// after the first sample.
///
/// # Errors
///
/// The request is invalid, or the system does not let this session wait.
pub fn run(
    root: &Root,
    request: &Request,
    told: Told,
    begun: &dyn Fn() -> std::io::Result<()>,
) -> Result<Value> {
    let period_ns = within("period_s", request.period_s, *PERIOD_S.start(), *PERIOD_S.end())?;
    let limit_ns = within("limit_s", request.limit_s, 0.0, MOST_SECONDS)?;
    if request.count == Some(0) {
        return Err(Error::new(Kind::BadRequest, "count: expected at least 1, got 0"));
    }
    let _descriptors = ManyFiles::begin();
    let mut set = Set::open(root, request.sources.as_deref())?;
    let most = (limit_ns / period_ns + 2).min(request.count.unwrap_or(u64::MAX));
    let mut recording = Recording::new(set.width(), most);
    let (started_ns, started_cpu_ns) = (now_ns(), thread_cpu_ns());
    let mut clock = Clock::new(started_ns, period_ns, started_ns + limit_ns, told);
    recording.take(&mut set, now_ns);
    if request.tell_begun {
        begun().map_err(|error| Error::io("write to", "the head", &error))?;
    }
    let (ended, taken) = clock
        .go_on(&mut set, &mut recording, request.count)
        .map_err(|error| Error::io("wait for", "the next sample", &error))?;
    let (wall_ns, cpu_ns) = (now_ns() - started_ns, thread_cpu_ns() - started_cpu_ns);
    clock.halved += recording.fit();
    let mut cost = recording.read_ns();
    cost["cpu_ns_per_sample"] = json!(cpu_ns / taken.max(1));
    let mut reply = recording.reply(&set, root);
    let statistics = json!({
        "started_ns": started_ns, "wall_ns": wall_ns, "ended": ended, "period_s": request.period_s,
        "taken": taken, "missed": clock.missed, "kept_of": 1_u64 << clock.halved, "cost": cost,
    });
    if let Value::Object(statistics) = statistics {
        reply.extend(statistics);
    }
    Ok(Value::Object(reply))
}

/// Converts a field in seconds to nanoseconds.
fn within(field: &str, value: f64, least: f64, most: f64) -> Result<u64> {
    let span = std::time::Duration::try_from_secs_f64(value)
        .ok()
        .filter(|span| value >= least && value <= most && !span.is_zero());
    span.and_then(|span| u64::try_from(span.as_nanos()).ok())
        .ok_or_else(|| {
            let message = format!("{field}: expected {least} to {most} seconds, got {value}");
            Error::new(Kind::BadRequest, message)
        })
}

/// Raises the limit of open files to its maximum until dropped: a machine with hundreds of CPUs has
/// more files than the default limit allows.
struct ManyFiles {
    before: Rlimit,
}

impl ManyFiles {
    fn begin() -> Self {
        let before = getrlimit(Resource::Nofile);
        let current = before.maximum;
        // Files that cannot be opened are reported one by one.
        let _ = setrlimit(Resource::Nofile, Rlimit { current, ..before });
        Self { before }
    }
}

impl Drop for ManyFiles {
    fn drop(&mut self) {
        let _ = setrlimit(Resource::Nofile, self.before);
    }
}

/// The schedule: samples are due at multiples of the period from the start, however long a sample
/// takes.
struct Clock {
    start_ns: u64,
    period_ns: u64,
    end_ns: u64,
    told: Told,
    /// Samples that were skipped because their time had passed.
    missed: u64,
    /// How often samples were halved for lack of space.
    halved: u32,
}

impl Clock {
    fn new(start_ns: u64, period_ns: u64, end_ns: u64, told: Told) -> Self {
        Self {
            start_ns,
            period_ns,
            end_ns,
            told,
            missed: 0,
            halved: 0,
        }
    }

    /// Takes all samples after the first. Returns why it ended, and how many samples there are. The
    /// last one is taken at the end.
    fn go_on(
        &mut self,
        set: &mut Set,
        recording: &mut Recording,
        count: Option<u64>,
    ) -> std::io::Result<(Ended, u64)> {
        let mut taken = 1;
        let mut due_ns = self.start_ns;
        loop {
            if count == Some(taken) {
                return Ok((Ended::Done, taken));
            }
            due_ns = self.next(due_ns, now_ns());
            let is_stopped = self.told.wait_until(due_ns.min(self.end_ns))?;
            if is_stopped || due_ns >= self.end_ns {
                recording.take(set, now_ns);
                return Ok((if is_stopped { Ended::Told } else { Ended::Limit }, taken + 1));
            }
            if recording.take(set, now_ns) {
                self.halved += 1;
                self.period_ns *= 2;
            }
            taken += 1;
        }
    }

    /// Returns the next moment on the grid after both `due_ns` and `now_ns`.
    fn next(&mut self, due_ns: u64, now_ns: u64) -> u64 {
        let past = now_ns.max(due_ns) - self.start_ns;
        let next_ns = self.start_ns + (past / self.period_ns + 1) * self.period_ns;
        self.missed += ((next_ns - due_ns) / self.period_ns).saturating_sub(1);
        next_ns
    }
}

#[cfg(test)]
mod tests;
