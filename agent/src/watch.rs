// SPDX-License-Identifier: Apache-2.0
//! The `watch` request: records a machine or a program for a long time.
//!
//! Samples of all sources, each at its own rate, and events of the tracer go to the head in blocks
//! every few seconds. The head appends them to a file unchanged, so a killed agent loses only what
//! it had not sent yet.

mod ahead;
mod blocks;
mod group;
mod head;
mod lateness;
mod names;
mod output;
mod served;
mod sources;
mod triggers;
mod usage;

use crate::bytes::Bytes;
use crate::error::{Error, Kind, Result};
use crate::load::clock::{now_ns, thread_cpu_ns};
use crate::load::{Ended, Woken};
use crate::root::Root;
use crate::trace::{Event, Options, Tracer};
use crate::transact::context::Context;
use ahead::Ahead;
use blocks::Holds;
use group::{Group, Reads};
use head::head;
use lateness::Lateness;
use names::Names;
use output::Output;
use rustix::time::{clock_gettime, ClockId};
use serde::Deserialize;
use serde_json::{json, Map, Value};
use served::Served;
use std::collections::BTreeMap;
use triggers::Triggers;
use usage::Usage;

/// Longest watch: a week.
const MOST_SECONDS: f64 = 604_800.0;
/// Limits of the interval in seconds between sending blocks.
const SPILL_S: std::ops::RangeInclusive<f64> = 0.2..=10.0;
/// Bytes of blocks per line.
const LINE_BYTES: usize = 1 << 20;
/// Events per block.
const EVENTS: usize = 20_000;
/// Events that the live display shows at once.
const SEEN_EVENTS: usize = 20;
const SECOND_NS: u64 = 1_000_000_000;

/// What to watch.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Samples per second by source, if not the default; 0 leaves a source out.
    #[serde(default)]
    sources: BTreeMap<String, f64>,
    /// Whether to leave out sources that are not named.
    #[serde(default)]
    only: bool,
    /// Whether to trace events.
    #[serde(default = "yes")]
    trace: bool,
    /// Kinds of event [default: all].
    #[serde(default)]
    events: Option<Vec<String>>,
    /// Seconds from which on an event is reported, by kind or by `block-io:DEVICE`.
    #[serde(default)]
    least_s: BTreeMap<String, f64>,
    /// The process to watch.
    #[serde(default)]
    process: Option<u32>,
    /// The command that the process will run [default: the one that it runs now].
    #[serde(default)]
    command: Option<Vec<String>>,
    /// The thread whose delays matter [default: the main thread of the process].
    #[serde(default)]
    frame_thread: Option<i32>,
    /// Seconds after which the watch ends.
    limit_s: f64,
    /// Seconds between sending blocks.
    #[serde(default = "five")]
    spill_s: f64,
    /// Columns to show live, every second.
    #[serde(default)]
    show: Vec<String>,
    /// Whether to send nothing before the end.
    #[serde(default)]
    hold: bool,
}

fn yes() -> bool {
    true
}

fn five() -> f64 {
    5.0
}

/// Watches until the limit, the next request, the end of the input, or the end of the process.
///
/// # Errors
///
/// The request is invalid, or the system does not let this session wait.
pub fn run(context: &Context, request: &Request) -> Result<Value> {
    let limit_ns = span("limit_s", request.limit_s, 0.0..=MOST_SECONDS)?;
    let spill_ns = span("spill_s", request.spill_s, SPILL_S)?;
    let rates = sources::rates(&request.sources, request.only)?;
    let root = &context.root;
    if let Some(process) = request.process {
        if crate::trace::threads(root, process).is_empty() {
            return Err(Error::new(
                Kind::BadRequest,
                format!("no such process: {process}"),
            ));
        }
    }
    let tracer = tracer(context, request)?;
    let (mut watch, first) = Watch::begin(context, request, &rates, tracer)?;
    // Before the first block, because from here on another thread writes.
    context
        .tell_begun()
        .map_err(|error| Error::io("write to", "the head", &error))?;
    watch.send(&first);
    // The threads that it has started keep their priority: one of them measures how late a
    // program's thread would be.
    let _ahead = Ahead::go();
    let ended = watch.go_on(context, watch.started_ns + limit_ns, spill_ns);
    Ok(watch.finish(
        root,
        ended.map_err(|error| Error::io("wait for", "the next sample", &error))?,
    ))
}

/// Starts the tracer, or returns why there is none. Invalid options are an error.
fn tracer(context: &Context, request: &Request) -> Result<std::result::Result<Tracer, String>> {
    if !request.trace {
        return Ok(Err("not asked for".to_owned()));
    }
    let mut least_ns = BTreeMap::new();
    for (kind, seconds) in &request.least_s {
        least_ns.insert(
            kind.clone(),
            span(&format!("least_s.{kind}"), *seconds, 0.0..=3600.0).unwrap_or(0),
        );
    }
    let options = Options {
        kinds: request.events.clone(),
        least_ns,
        process: request.process,
    };
    options
        .check(&context.root)
        .map_err(|why| Error::new(Kind::BadRequest, why))?;
    Ok(Tracer::begin(&context.root, &context.store.boot_id(), &options))
}

fn span(field: &str, seconds: f64, limits: std::ops::RangeInclusive<f64>) -> Result<u64> {
    let found = std::time::Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|span| limits.contains(&seconds) && !span.is_zero());
    found
        .and_then(|span| u64::try_from(span.as_nanos()).ok())
        .ok_or_else(|| {
            let message = format!(
                "{field}: expected {} to {} seconds, got {seconds}",
                limits.start(),
                limits.end()
            );
            Error::new(Kind::BadRequest, message)
        })
}

/// A running watch.
struct Watch<'a> {
    request: &'a Request,
    id: Value,
    groups: Vec<Group>,
    tracer: Option<Tracer>,
    lateness: Option<Lateness>,
    triggers: Option<Triggers>,
    usage: Option<Usage>,
    names: Names,
    output: Output,
    events: Vec<Value>,
    used: Vec<Value>,
    seen_events: Vec<Value>,
    served: Served,
    started_ns: u64,
    bytes: u64,
}

impl<'a> Watch<'a> {
    /// Starts a watch and returns its first blocks.
    fn begin(
        context: &Context,
        request: &'a Request,
        rates: &[(&'static str, u64)],
        tracer: std::result::Result<Tracer, String>,
    ) -> Result<(Self, Vec<Vec<u8>>)> {
        let root = &context.root;
        let started_ns = now_ns();
        let sources::Opened {
            groups,
            lateness,
            triggers,
            usage,
            mut absent,
        } = sources::open(root, rates, request.process, started_ns, tracer.as_ref().ok())
            .map_err(|error| Error::io("start", "a thread", &error))?;
        let (tracer, trace) = match tracer {
            Ok(tracer) => {
                let description = json!({"kinds": tracer.columns(), "absent": tracer.absent()});
                if let Some(why) = tracer.why_no_threads() {
                    absent.insert("trace.threads".to_owned(), json!(why));
                }
                (Some(tracer), description)
            }
            Err(why) => {
                absent.insert("trace".to_owned(), json!(why));
                (None, Value::Null)
            }
        };
        let output = Output::start(request.hold).map_err(|error| Error::io("start", "a thread", &error))?;
        let mut watch = Self {
            request,
            id: context.request.clone(),
            groups,
            tracer,
            lateness,
            triggers,
            usage,
            names: Names::default(),
            output,
            events: Vec::new(),
            used: Vec::new(),
            seen_events: Vec::new(),
            served: Served::read(root),
            started_ns,
            bytes: 0,
        };
        let mut first = blocks::MAGIC.to_vec();
        let head = head(context, request, rates, &absent, &trace, started_ns);
        first.extend(blocks::json_block(Holds::Head, &head));
        let mut out = vec![first];
        // Sample before anybody learns that the watch has begun, so that a program that waits for
        // that comes after these rows.
        watch.take_due(root, now_ns(), false, &mut out);
        Ok((watch, out))
    }

    /// Takes rows of the groups that are due; at the end, of all groups.
    fn take_due(&mut self, root: &Root, now: u64, over: bool, out: &mut Vec<Vec<u8>>) {
        for (number, group) in (0..).zip(&mut self.groups) {
            if group.due_ns <= now || (over && group.is_read()) {
                group.take(number, root, &mut self.tracer, out);
            }
        }
    }

    fn go_on(&mut self, context: &Context, end_ns: u64, spill_ns: u64) -> std::io::Result<Ended> {
        let root = &context.root;
        let mut spill_at_ns = self.started_ns + spill_ns;
        let mut tell_at_ns = self.started_ns + SECOND_NS;
        loop {
            let due = self.due_ns();
            let due = due.min(spill_at_ns).min(tell_at_ns).min(end_ns);
            let filling = self.tracer.as_ref().map(Tracer::filling).unwrap_or_default();
            let woken = context.told.wait_until_or(due, &filling)?;
            if woken == Woken::Ready {
                self.read_events_early();
            }
            let is_stopped = woken == Woken::Told;
            let now = now_ns();
            let looked = now >= tell_at_ns;
            let gone = looked && self.is_gone(root);
            let over = is_stopped || gone || now >= end_ns || self.output.broken;
            let mut out = Vec::new();
            self.take_due(root, now, over, &mut out);
            self.collect(root, now);
            self.look_at_usage(root, now);
            if looked {
                tell_at_ns = now + SECOND_NS;
                self.tell(now);
            }
            if now >= spill_at_ns || over {
                spill_at_ns = now + spill_ns;
                self.spill(&mut out);
            }
            self.send(&out);
            self.output.go_on();
            if over {
                return Ok(match (gone, is_stopped) {
                    (true, _) => Ended::Done,
                    (false, true) => Ended::Told,
                    (false, false) => Ended::Limit,
                });
            }
        }
    }

    /// Empties buffers that are filling up early.
    fn read_events_early(&mut self) {
        let began_cpu_ns = thread_cpu_ns();
        if let Some(tracer) = &mut self.tracer {
            tracer.drain();
        }
        let spent_ns = thread_cpu_ns().saturating_sub(began_cpu_ns);
        let group = self
            .groups
            .iter_mut()
            .find(|group| matches!(group.reads, Reads::Trace));
        if let Some(group) = group {
            group.cpu_ns += spent_ns;
        }
    }

    /// Returns when the next reading is due.
    fn due_ns(&self) -> u64 {
        let groups = self.groups.iter().map(|group| group.due_ns);
        groups
            .chain(self.usage.iter().map(|usage| usage.due_ns))
            .min()
            .unwrap_or(u64::MAX)
    }

    fn look_at_usage(&mut self, root: &Root, now: u64) {
        if let Some(usage) = self.usage.as_mut().filter(|usage| usage.due_ns <= now) {
            self.used.extend(usage.look(root));
        }
    }

    /// Whether the watched process has ended.
    fn is_gone(&self, root: &Root) -> bool {
        self.request
            .process
            .is_some_and(|process| crate::trace::threads(root, process).is_empty())
    }

    /// Collects the tracer's events, with the names of their threads.
    fn collect(&mut self, root: &Root, now: u64) {
        if let Some(triggers) = &self.triggers {
            for passed in triggers.passed() {
                self.hold(passed.to_json());
            }
        }
        let Some(tracer) = &mut self.tracer else {
            return;
        };
        let frame = self.request.frame_thread.or(self
            .request
            .process
            .and_then(|process| i32::try_from(process).ok()));
        let threads = tracer.why_no_threads().is_none();
        let mut entries = Vec::new();
        for event in tracer.events() {
            let watched = tracer.watches(event.pid);
            let thread = threads.then_some((frame, watched));
            entries.push(to_json(root, &mut self.names, &event, now, thread));
        }
        for event in entries {
            self.hold(event);
        }
    }

    /// Keeps an event until it is sent; the first ones are also shown live.
    fn hold(&mut self, event: Value) {
        if self.seen_events.len() < SEEN_EVENTS {
            self.seen_events.push(event.clone());
        }
        self.events.push(event);
    }

    /// Sends what a person wants to see live.
    fn tell(&mut self, now: u64) {
        let find = |name: &String| {
            self.groups
                .iter()
                .find_map(|group| Some((name.clone(), json!(group.last(name)?))))
        };
        let columns: Map<String, Value> = self.request.show.iter().filter_map(find).collect();
        let seen = json!({
            "at_ns": now, "started_ns": self.started_ns, "cpu_ns": process_cpu_ns(), "bytes": self.bytes,
            "lost": self.tracer.as_ref().map(Tracer::lost), "columns": columns,
            "events": std::mem::take(&mut self.seen_events),
        });
        let line = json!({"id": self.id, "seen": seen});
        self.output.tell(format!("{line}\n").into_bytes());
    }

    fn spill(&mut self, out: &mut Vec<Vec<u8>>) {
        if let Some(lateness) = &self.lateness {
            let rows = lateness.rows();
            if let Some(group) = self
                .groups
                .iter_mut()
                .find(|group| matches!(group.reads, Reads::Rows))
            {
                group.add(rows);
            }
        }
        for (number, group) in (0..).zip(&mut self.groups) {
            group.hand_on(number, out);
        }
        for events in self.events.chunks(EVENTS) {
            out.push(blocks::lines(Holds::Events, events));
        }
        self.events.clear();
        if !self.used.is_empty() {
            out.push(blocks::lines(Holds::Usage, &self.used));
            self.used.clear();
        }
    }

    /// Sends blocks to the head, several per line.
    fn send(&mut self, blocks: &[Vec<u8>]) {
        let mut line: Vec<u8> = Vec::new();
        for (place, block) in blocks.iter().enumerate() {
            line.extend(block);
            if line.len() >= LINE_BYTES || place + 1 == blocks.len() {
                self.bytes += line.len() as u64;
                let message = json!({"id": self.id, "chunk": Bytes(std::mem::take(&mut line))});
                self.output.send(format!("{message}\n").into_bytes());
            }
        }
    }

    fn finish(mut self, root: &Root, ended: Ended) -> Value {
        let trace = self.tracer.take().map(|mut tracer| {
            tracer.drain();
            tracer.finish(root)
        });
        let mut sources: Map<String, Value> = self
            .groups
            .iter()
            .map(|group| (group.source.to_owned(), group.report()))
            .collect();
        if let Some(usage) = &self.usage {
            sources.insert("usage".to_owned(), usage.report());
        }
        let mut tail = json!({
            "ended": ended, "started_ns": self.started_ns, "wall_ns": now_ns() - self.started_ns,
            "cpu_ns": process_cpu_ns(), "bytes": self.bytes, "sources": sources, "trace": trace, "dropped": self.output.dropped,
            "interrupts": self.served.until(&Served::read(root)),
        });
        let last = blocks::json_block(Holds::Tail, &tail);
        self.send(&[last]);
        tail["dropped"] = json!(self.output.finish());
        tail
    }
}

/// Returns the event for the recording. `thread` is the frame thread, and whether the event's
/// thread is watched; None if threads cannot be told apart.
fn to_json(
    root: &Root,
    names: &mut Names,
    event: &Event,
    now: u64,
    thread: Option<(Option<i32>, bool)>,
) -> Value {
    let mut object = Map::new();
    object.insert("kind".into(), json!(event.kind));
    object.insert("begin_ns".into(), json!(event.begin_ns));
    let mut put = |name: &str, value: Value| {
        if !value.is_null() {
            object.insert(name.into(), value);
        }
    };
    put("length_ns", json!(event.length_ns));
    put("cpu", json!(event.cpu));
    put("pid", json!(event.pid));
    let name = || thread.and_then(|_| names.of(root, event.pid, now));
    put("thread", json!(event.thread.clone().or_else(name)));
    put(
        "device",
        json!(event.device.map(|device| names.device(root, device))),
    );
    put("amount", json!(event.amount));
    put("detail", json!(event.detail));
    put("idle_ns", json!(event.idle_ns));
    if let Some((Some(frame), watched)) = thread {
        put("victim", json!(event.pid == frame));
        put("watched", json!(watched));
    }
    Value::Object(object)
}

/// Returns the CPU time of all threads of this process.
fn process_cpu_ns() -> u64 {
    let spent = clock_gettime(ClockId::ProcessCPUTime);
    let part = |value: i64| u64::try_from(value).unwrap_or_default();
    part(spent.tv_sec) * SECOND_NS + part(spent.tv_nsec)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transact::context::Role;

    #[test]
    fn it_has_begun_when_every_source_was_read_once() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("proc")).unwrap();
        let disk = " 254 0 vda 1 0 8 1 2 0 16 3 0 4 5\n";
        std::fs::write(folder.path().join("proc/diskstats"), disk).unwrap();
        let context = Context::new(Role::User, Root::new(folder.path()), "/var/lib/ktrial");
        let request: Request = serde_json::from_value(json!({"limit_s": 1.0, "trace": false})).unwrap();
        let rates = sources::rates(&request.sources, request.only).unwrap();
        let (watch, _) = Watch::begin(&context, &request, &rates, Err("not asked for".to_owned())).unwrap();
        let disks = watch.groups.iter().find(|group| group.source == "disks").unwrap();
        assert_eq!(disks.last("disks.vda.written"), Some(16 * 512));
        let unread = watch
            .groups
            .iter()
            .filter(|group| group.is_read() && group.times_ns.is_empty());
        assert_eq!(
            unread.map(|group| group.source).collect::<Vec<_>>(),
            Vec::<&str>::new()
        );
    }
}
