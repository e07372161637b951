// SPDX-License-Identifier: Apache-2.0
//! The `load` request: the agent's own loads.
//!
//! A load runs in threads that end with the request. It needs no privileges and installs no signal
//! handlers. Its files are unnamed, so they vanish even if the agent is killed. Results are
//! integers: counts, bytes and nanoseconds.

pub(crate) mod clock;
mod contextswitch;
mod crew;
mod fileio;
mod files;
mod histogram;
mod lock;
mod memcpy;
mod memory;
mod messaging;
mod pagefault;
mod pressure;
mod requests;
mod spin;
mod tcp;
mod wakeup;
pub mod zram;

use crate::error::{Error, Kind, Result};
use crate::transact::context::Told;
use clock::now_ns;
use histogram::Histogram;
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::{ioctl_fionread, Errno};
use rustix::pipe::{pipe_with, PipeFlags};
use rustix::thread::{sched_getaffinity, sched_setaffinity, CpuSet};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{json, Map, Value};
use std::fmt::Display;
use std::io::{self, stdin, stdout};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// The longest limit of a load.
const MOST_SECONDS: f64 = 3600.0;

/// What to run.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Name of the load.
    pub load: String,
    /// Its parameters; missing ones have the load's defaults.
    #[serde(default)]
    pub parameters: Map<String, Value>,
    /// Logical CPUs to run on [default: all that the agent may use].
    #[serde(default)]
    pub cpus: Option<Vec<u32>>,
    /// Seconds after which the load is ended.
    pub limit_s: f64,
}

/// Why a load ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Ended {
    /// It finished.
    Done,
    /// It reached its limit.
    Limit,
    /// The head ended it.
    Told,
}

/// The results of a load.
#[derive(Debug)]
struct Measured {
    results: Map<String, Value>,
    histogram: Option<Histogram>,
}

/// The parameters of a load, and its work.
trait Load: Send + Sync {
    /// Checks each parameter against its limits.
    fn check(&self) -> Result<()>;
    /// Does the work; returns soon after `run.stopped()` becomes true.
    fn run(&self, run: &Run) -> Result<Measured>;
}

/// All parameters of a load, and the load.
type Prepared = (Value, Box<dyn Load>);

/// A named load.
struct Entry {
    name: &'static str,
    /// Whether the load runs until the head ends it.
    until_stopped: bool,
    prepare: fn(Map<String, Value>) -> Result<Prepared>,
}

const LOADS: &[Entry] = &[
    Entry {
        name: "wakeup",
        until_stopped: false,
        prepare: prepare::<wakeup::Parameters>,
    },
    Entry {
        name: "pagefault",
        until_stopped: false,
        prepare: prepare::<pagefault::Parameters>,
    },
    Entry {
        name: "contextswitch",
        until_stopped: false,
        prepare: prepare::<contextswitch::Parameters>,
    },
    Entry {
        name: "messaging",
        until_stopped: false,
        prepare: prepare::<messaging::Parameters>,
    },
    Entry {
        name: "memcpy",
        until_stopped: false,
        prepare: prepare::<memcpy::Parameters>,
    },
    Entry {
        name: "lock",
        until_stopped: false,
        prepare: prepare::<lock::Parameters>,
    },
    Entry {
        name: "spin",
        until_stopped: true,
        prepare: prepare::<spin::Parameters>,
    },
    Entry {
        name: "pressure",
        until_stopped: false,
        prepare: prepare::<pressure::Parameters>,
    },
    Entry {
        name: "fileio",
        until_stopped: false,
        prepare: prepare::<fileio::Parameters>,
    },
    Entry {
        name: "tcp",
        until_stopped: false,
        prepare: prepare::<tcp::Parameters>,
    },
    Entry {
        name: "requests",
        until_stopped: false,
        prepare: prepare::<requests::Parameters>,
    },
];

fn prepare<P>(parameters: Map<String, Value>) -> Result<Prepared>
where
    P: Load + DeserializeOwned + Serialize + 'static,
{
    let bad = |error: serde_json::Error| Error::new(Kind::BadRequest, format!("parameters: {error}"));
    let load: P = serde_json::from_value(Value::Object(parameters)).map_err(bad)?;
    load.check()?;
    Ok((serde_json::to_value(&load).map_err(bad)?, Box::new(load)))
}

/// The environment of a load.
struct Run<'a> {
    /// The CPUs that its threads may use, lowest first.
    cpus: Vec<u32>,
    stop: &'a AtomicBool,
}

impl Run<'_> {
    /// Whether the load must end now.
    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Runs the frame loop of the load `pressure` as a program, with the load's parameters as JSON. It
/// writes its lines to standard output.
///
/// # Errors
///
/// The parameters are invalid, or a system call failed.
pub fn frame_loop(parameters: &str) -> Result<()> {
    let parameters: pressure::Parameters = serde_json::from_str(parameters)
        .map_err(|error| Error::new(Kind::BadRequest, format!("parameters: {error}")))?;
    pressure::frame_loop(&parameters, &mut stdout().lock())
}

/// Runs a load to its end or its limit.
///
/// # Errors
///
/// The request is invalid, or a system call that the load needs failed.
pub fn run(request: Request, told: Told) -> Result<Value> {
    if request.load == zram::NAME {
        let message = "only a session of role root may run the load `zram`, which needs its own device";
        return Err(Error::new(Kind::Forbidden, message));
    }
    let Some(entry) = LOADS.iter().find(|entry| entry.name == request.load) else {
        let known: Vec<&str> = LOADS.iter().map(|entry| entry.name).collect();
        let message = format!("unknown load {:?}", request.load);
        return Err(Error::new(Kind::BadRequest, message).hint(format!("use one of {}", known.join(", "))));
    };
    let limit_ns = seconds("limit_s", request.limit_s)?;
    let prepared = (entry.prepare)(request.parameters)?;
    let events = told.events(entry.until_stopped);
    carry_out(entry.name, prepared, request.cpus.as_deref(), limit_ns, events)
}

/// Runs a load whose parameters have been checked.
fn carry_out(
    name: &str,
    (parameters, load): Prepared,
    cpus: Option<&[u32]>,
    limit_ns: u64,
    events: Option<Events>,
) -> Result<Value> {
    let stop = AtomicBool::new(false);
    let (done, working) =
        pipe_with(PipeFlags::CLOEXEC).map_err(|error| Error::io("create a pipe for", name, &error.into()))?;
    let started_ns = now_ns();
    let (ended, measured) = thread::scope(|scope| {
        let work = || {
            // Closed at the end of the work, even in a panic.
            let _working = working;
            let cpus = pin_all(cpus)?;
            let stop = &stop;
            load.run(&Run { cpus, stop })
        };
        let worker = thread::Builder::new()
            .name("load".to_owned())
            .spawn_scoped(scope, work)
            .map_err(|error| Error::io("start", name, &error))?;
        let ended = watch(&done, events, started_ns + limit_ns, &stop)
            .map_err(|error| Error::io("watch", name, &error));
        let broke = |_| Err(Error::new(Kind::Io, format!("the load {name} crashed")));
        let measured = worker.join().unwrap_or_else(broke)?;
        Ok((ended?, measured))
    })?;
    let mut reply = json!({
        "load": name, "parameters": parameters, "started_ns": started_ns, "wall_ns": now_ns() - started_ns,
        "ended": ended, "results": measured.results,
    });
    if let Some(histogram) = measured.histogram {
        reply["histogram"] = histogram.to_json();
    }
    Ok(reply)
}

impl Told {
    /// Waits for a moment, the next request or the end of the input. Returns whether it was one of
    /// the latter two.
    ///
    /// # Errors
    ///
    /// The system does not let this session wait.
    pub fn wait_until(self, deadline_ns: u64) -> io::Result<bool> {
        Ok(self.wait_until_or(deadline_ns, &[])? == Woken::Told)
    }

    /// Waits like `wait_until`, and also for one of `others` to become readable.
    ///
    /// # Errors
    ///
    /// The system does not let this session wait.
    pub fn wait_until_or(self, deadline_ns: u64, others: &[BorrowedFd]) -> io::Result<Woken> {
        let events = self.events(true);
        if events.is_some_and(|events| events.already) {
            return Ok(Woken::Told);
        }
        let input = stdin();
        let mut sources: Vec<PollFd> = others
            .iter()
            .map(|other| PollFd::from_borrowed_fd(*other, PollFlags::IN))
            .collect();
        sources.extend(events.map(|events| PollFd::from_borrowed_fd(input.as_fd(), events.watched)));
        loop {
            let now_ns = now_ns();
            if now_ns >= deadline_ns {
                return Ok(Woken::Due);
            }
            match poll(&mut sources, Some(&span(deadline_ns - now_ns))) {
                Ok(0) | Err(Errno::INTR) => continue,
                other => other?,
            };
            let is_input = sources[others.len()..]
                .iter()
                .any(|input| !input.revents().is_empty());
            return Ok(if is_input { Woken::Told } else { Woken::Ready });
        }
    }

    /// Whether at least the first bytes of the next request have arrived, as opposed to the end of
    /// the input.
    ///
    /// # Errors
    ///
    /// The input cannot be queried.
    pub fn has_request(self) -> io::Result<bool> {
        match self {
            Self::Never => Ok(false),
            Self::ByInput { waiting } => Ok(waiting || ioctl_fionread(stdin())? > 0),
        }
    }

    /// Returns which events on standard input end a load; None if none do.
    fn events(self, until_stopped: bool) -> Option<Events> {
        let Self::ByInput { waiting } = self else {
            return None;
        };
        let end = PollFlags::RDHUP;
        Some(Events {
            watched: if until_stopped { end | PollFlags::IN } else { end },
            already: until_stopped && waiting,
        })
    }
}

/// Why a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Woken {
    /// The moment came.
    Due,
    /// The next request arrived, or the input ended.
    Told,
    /// Another source is readable.
    Ready,
}

/// The events on standard input that end a load.
#[derive(Debug, Clone, Copy)]
struct Events {
    watched: PollFlags,
    already: bool,
}

/// Waits until the load is done, and stops it if necessary. Returns why it ended.
fn watch(done: &OwnedFd, events: Option<Events>, deadline_ns: u64, stop: &AtomicBool) -> io::Result<Ended> {
    let mut ended = Ended::Done;
    let mut events = events;
    loop {
        if ended == Ended::Done && events.is_some_and(|events| events.already) {
            ended = Ended::Told;
        }
        let now_ns = now_ns();
        if ended == Ended::Done && now_ns >= deadline_ns {
            ended = Ended::Limit;
        }
        let mut timeout = None;
        if ended == Ended::Done {
            timeout = Some(span(deadline_ns - now_ns));
        } else {
            stop.store(true, Ordering::Relaxed);
            events = None;
        }
        let input = stdin();
        let mut sources = vec![PollFd::new(done, PollFlags::empty())];
        if let Some(events) = events {
            sources.push(PollFd::from_borrowed_fd(input.as_fd(), events.watched));
        }
        match poll(&mut sources, timeout.as_ref()) {
            Err(Errno::INTR) => continue,
            other => other?,
        };
        if !sources[0].revents().is_empty() {
            return Ok(ended);
        }
        if sources.get(1).is_some_and(|input| !input.revents().is_empty()) {
            ended = Ended::Told;
        }
    }
}

fn span(ns: u64) -> Timespec {
    let part = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    Timespec {
        tv_sec: part(ns / 1_000_000_000),
        tv_nsec: part(ns % 1_000_000_000),
    }
}

/// Converts a field in seconds to nanoseconds.
fn seconds(field: &str, value: f64) -> Result<u64> {
    let refuse = || {
        let message =
            format!("{field}: expected more than 0 and at most {MOST_SECONDS} seconds, got {value}");
        Error::new(Kind::BadRequest, message)
    };
    if value > MOST_SECONDS {
        return Err(refuse());
    }
    let span = std::time::Duration::try_from_secs_f64(value).map_err(|_| refuse())?;
    match u64::try_from(span.as_nanos()) {
        Ok(ns) if ns > 0 => Ok(ns),
        _ => Err(refuse()),
    }
}

/// Refuses a parameter that is out of range.
fn within<T: PartialOrd + Display + Copy>(field: &str, value: T, least: T, most: T) -> Result<()> {
    if value >= least && value <= most {
        return Ok(());
    }
    let message = format!("parameters: {field}: expected {least} to {most}, got {value}");
    Err(Error::new(Kind::BadRequest, message))
}

/// Returns the CPUs that the calling thread may use, lowest first.
fn affinity() -> io::Result<Vec<u32>> {
    let set = sched_getaffinity(None)?;
    let held = (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu));
    Ok(held.filter_map(|cpu| u32::try_from(cpu).ok()).collect())
}

/// Restricts the calling thread and its children to `cpus`.
fn pin(cpus: &[u32]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for cpu in cpus {
        set.set(*cpu as usize);
    }
    Ok(sched_setaffinity(None, &set)?)
}

/// Pins the load's thread if CPUs are given. Returns the CPUs that it may use.
fn pin_all(cpus: Option<&[u32]>) -> Result<Vec<u32>> {
    let refused = |error: &io::Error| Error::io("run on the CPUs", format!("{cpus:?}"), error);
    let Some(cpus) = cpus else {
        return affinity().map_err(|error| refused(&error));
    };
    if cpus.is_empty() || cpus.iter().any(|cpu| *cpu as usize >= CpuSet::MAX_CPU) {
        let message = format!(
            "cpus: expected at least one CPU, all below {}, got {cpus:?}",
            CpuSet::MAX_CPU
        );
        return Err(Error::new(Kind::BadRequest, message));
    }
    pin(cpus)
        .and_then(|()| affinity())
        .map_err(|error| refused(&error))
}

#[cfg(test)]
mod tests;
