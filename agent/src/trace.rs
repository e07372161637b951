// SPDX-License-Identifier: Apache-2.0
//! What the kernel does and how long it takes, according to its tracepoints: instances of our own
//! in tracefs, read in the kernel's binary format.
//!
//! The readings are verified: a marker that the agent writes must come back, the number of events
//! must match what the kernel says it delivered, and the kernel's own counters must agree, for kinds
//! that have one.

mod checks;
mod events;
pub mod format;
mod latency;
pub mod page;
mod pairs;
mod reader;
mod tracefs;

pub(crate) use pairs::Event;

use crate::load::clock::now_ns;
use crate::root::Root;
use checks::{AroundMark, Counters};
use events::{Buffer, Kind, Told, Tracepoint, What, TRACEPOINTS};
use pairs::{Limits, Pairs};
use reader::{kinds_without, Compiled, Met, Raw, Reader};
use rustix::fd::BorrowedFd;
use serde_json::{json, Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use tracefs::{Instance, Tracefs};

/// Least and most size of a buffer per CPU, in KiB.
const BUFFER_KIB: std::ops::RangeInclusive<u64> = 64..=1024;
/// All buffers together take at most one part in this many of the memory.
const MEMORY_SHARE: u64 = 100;
/// How full a buffer must be to be read early.
const FULL_PERCENT: &str = "25";
/// How often to look for the final marker, and how long to wait between.
const LOOKS: u32 = 50;
const LOOK_MS: u64 = 2;
/// Counters of a buffer: events overwritten, dropped and read.
const LOST_AND_READ: [&str; 3] = ["overrun", "dropped events", "read events"];

/// What to trace.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Kinds of event [default: all].
    pub kinds: Option<Vec<String>>,
    /// Minimum lengths in nanoseconds, by kind or by `block-io:DEVICE`.
    pub least_ns: BTreeMap<String, u64>,
    /// A process whose threads and descendants are watched.
    pub process: Option<u32>,
}

/// The counts at the time of a marker.
#[derive(Debug, Default)]
struct AtMark {
    begun: BTreeMap<Kind, u64>,
    /// Completed requests by device.
    finished: BTreeMap<u32, u64>,
    reclaimed_pages: u64,
    /// Requests for compaction: all, and those that led to a pass.
    compactions: [u64; 2],
    /// Compaction events: beginnings and ends, including unpaired ones.
    compacting: u64,
    /// Handler calls by interrupt number.
    interrupts: BTreeMap<u64, u64>,
}

impl AtMark {
    fn of(pairs: &Pairs) -> Self {
        let kind = Kind::Compaction;
        let count = pairs.counts.get(&kind).copied().unwrap_or_default();
        let cut = pairs.cut.get(&kind).copied().unwrap_or_default();
        Self {
            compactions: [pairs.compactions.requests, pairs.compactions.at_work],
            compacting: count.begun + count.ended + cut,
            interrupts: pairs.interrupts.clone(),
            begun: pairs
                .counts
                .iter()
                .map(|(kind, count)| (*kind, count.begun))
                .collect(),
            finished: pairs
                .latency
                .iter()
                .map(|(device, latency)| (*device, latency.requests + latency.waits))
                .collect(),
            reclaimed_pages: pairs.reclaimed_pages,
        }
    }
}

impl Options {
    /// Checks that all kinds and devices exist.
    ///
    /// # Errors
    ///
    /// The one that doesn't.
    pub fn check(&self, root: &Root) -> Result<(), String> {
        parse_kinds(self.kinds.as_deref())?;
        limits(root, &self.least_ns).map(|_| ())
    }
}

/// An active trace.
pub struct Tracer {
    readers: Vec<Reader>,
    buffers: Vec<Instance>,
    tracefs: Tracefs,
    pairs: Pairs,
    pending: Vec<Raw>,
    /// Tracepoints that this kernel lacks, and why.
    missing: Vec<(&'static Tracepoint, String)>,
    kinds: Vec<Kind>,
    /// The kernel's own counters around the last marker.
    around_mark: AroundMark,
    marks: Vec<u64>,
    at_mark: AtMark,
    clock_error_ns: u64,
    buffer_kib: u64,
    losses: u64,
    waits_until_full: bool,
    /// Why thread IDs of events are not usable.
    why_no_threads: Option<String>,
}

impl Tracer {
    /// Starts tracing.
    ///
    /// # Errors
    ///
    /// The reason why nothing can be traced: no tracefs, read-only, locked down, no permission, or
    /// the marker could not be read back.
    pub fn begin(root: &Root, boot_id: &str, options: &Options) -> Result<Self, String> {
        let kinds = parse_kinds(options.kinds.as_deref())?;
        let limits = limits(root, &options.least_ns)?;
        let tracefs = Tracefs::open(root)?;
        tracefs.clear(root)?;
        let why_no_threads = tracefs::why_other_numbers(root);
        let process = options.process.filter(|_| why_no_threads.is_none());
        let watched: Vec<i32> = process.map(|process| threads(root, process)).unwrap_or_default();
        let buffer_kib = buffer_kib(process.is_some());
        let mut tracer = Self {
            readers: Vec::new(),
            buffers: Vec::new(),
            tracefs,
            pairs: Pairs::new(limits, &watched),
            pending: Vec::new(),
            missing: Vec::new(),
            kinds,
            around_mark: AroundMark::default(),
            marks: Vec::new(),
            at_mark: AtMark::default(),
            clock_error_ns: 0,
            buffer_kib,
            losses: 0,
            waits_until_full: false,
            why_no_threads,
        };
        tracer.add(root, boot_id, Buffer::Machine, &[])?;
        if process.is_some() {
            tracer.add(root, boot_id, Buffer::Threads, &watched)?;
        }
        tracer.mark(root)?;
        Ok(tracer)
    }

    /// Creates one of the two buffers and enables its tracepoints.
    fn add(&mut self, root: &Root, boot_id: &str, which: Buffer, watched: &[i32]) -> Result<(), String> {
        let what = match which {
            Buffer::Machine => "machine",
            Buffer::Threads => "threads",
        };
        let instance = self.tracefs.instance(root, boot_id, what)?;
        instance.write("tracing_on", "0")?;
        instance.write("trace_clock", "mono")?;
        instance.write("buffer_size_kb", &self.buffer_kib.to_string())?;
        let _ = instance.write("buffer_percent", FULL_PERCENT);
        // Names are read from /proc; recording them would add work to every context switch of the
        // machine.
        let _ = instance.write("options/record-cmd", "0");
        if which == Buffer::Threads {
            let list: Vec<String> = watched.iter().map(ToString::to_string).collect();
            instance.write("set_event_pid", &list.join("\n"))?;
            instance.write("options/event-fork", "1")?;
        }
        let mut compiled = Vec::new();
        for tracepoint in TRACEPOINTS
            .iter()
            .filter(|one| one.buffer == which || one.what == What::Mark)
        {
            match self.turn_on(&instance, tracepoint) {
                Ok(Some(known)) => compiled.push(known),
                Ok(None) => {}
                Err(why) if tracepoint.what == What::Mark => {
                    return Err(format!("{}: {why}", tracepoint.path))
                }
                Err(why) => self.missing.push((tracepoint, why)),
            }
        }
        self.readers
            .push(Reader::open(&self.tracefs, &instance, compiled)?);
        instance.write("tracing_on", "1")?;
        self.buffers.push(instance);
        Ok(())
    }

    /// Enables a tracepoint. Returns None if no requested kind needs it.
    fn turn_on(&self, instance: &Instance, tracepoint: &Tracepoint) -> Result<Option<Compiled>, String> {
        let kinds = tracepoint.kinds();
        if !kinds.is_empty() && !kinds.iter().any(|kind| self.kinds.contains(kind)) {
            return Ok(None);
        }
        let folder = format!("events/{}", tracepoint.path);
        let format = self.tracefs.text(&format!("{folder}/format"));
        let format = format.map_err(|_| "this kernel lacks it".to_owned())?;
        let compiled = Compiled::new(tracepoint, &format)?;
        if let Some(filter) = tracepoint.filter {
            instance.write(&format!("{folder}/filter"), filter)?;
        }
        if tracepoint.what != What::Mark {
            instance.write(&format!("{folder}/enable"), "1")?;
        }
        Ok(Some(compiled))
    }

    /// Writes a marker and looks for it. This proves that kernel events are read, and shows how far
    /// the clocks differ.
    fn mark(&mut self, root: &Root) -> Result<(), String> {
        self.around_mark.before = Counters::read(root);
        let before_ns = now_ns();
        self.buffers[0].write("trace_marker", "ktrial")?;
        let after_ns = now_ns();
        self.around_mark.after = Counters::read(root);
        // The buffer has some content now, but far too little to be worth waking for.
        self.waits_until_full = self.readers.iter().all(Reader::waits_until_full);
        let seen = self.marks.len();
        for _ in 0..LOOKS {
            self.drain();
            if let Some(mark_ns) = self.marks.get(seen) {
                let early_ns = before_ns.saturating_sub(*mark_ns);
                let late_ns = mark_ns.saturating_sub(after_ns);
                self.clock_error_ns = self.clock_error_ns.max(after_ns - before_ns + early_ns + late_ns);
                return Ok(());
            }
            std::thread::sleep(std::time::Duration::from_millis(LOOK_MS));
        }
        Err("cannot trust the trace: the tracer's own marker did not come back".to_owned())
    }

    /// Reads new events and pairs beginnings with ends.
    pub fn drain(&mut self) {
        // Events of one CPU that are written while another CPU is read must wait, or ends would
        // precede their beginnings.
        let until_ns = now_ns();
        let mut loss_ns = None;
        for reader in &mut self.readers {
            let loss = reader.drain(&mut self.pending);
            loss_ns = loss_ns.into_iter().chain(loss).min();
        }
        self.pending.sort_by_key(|raw| raw.at_ns);
        let ready = self.pending.partition_point(|raw| raw.at_ns <= until_ns);
        for raw in self.pending.drain(..ready) {
            if loss_ns.is_some_and(|loss_ns| raw.at_ns >= loss_ns) {
                self.losses += 1;
                self.pairs.forget();
                loss_ns = None;
            }
            if raw.what == What::Mark {
                self.marks.push(raw.at_ns);
                self.at_mark = AtMark::of(&self.pairs);
            } else {
                self.pairs.take(&raw);
            }
        }
        if loss_ns.is_some() {
            self.losses += 1;
            self.pairs.forget();
        }
    }

    /// Returns the buffers to poll for early reading; none if the kernel cannot signal how full
    /// they are.
    #[must_use]
    pub fn filling(&self) -> Vec<BorrowedFd<'_>> {
        let readers = self.readers.iter().filter(|_| self.waits_until_full);
        readers.flat_map(Reader::files).collect()
    }

    /// Returns the requested kinds that this kernel can report.
    #[must_use]
    pub fn columns(&self) -> Vec<&'static str> {
        self.reported_kinds().map(Kind::name).collect()
    }

    fn reported_kinds(&self) -> impl Iterator<Item = Kind> + '_ {
        let without = kinds_without(&self.missing.iter().map(|(one, _)| *one).collect::<Vec<_>>());
        let threads = self.buffers.len() > 1;
        let is_reported = move |kind: &Kind| !without.contains(kind) && (threads || !kind.is_of_threads());
        self.kinds.iter().copied().filter(is_reported)
    }

    /// Appends the number and total time of each of these kinds.
    pub fn row(&self, row: &mut Vec<i64>) {
        for kind in self.reported_kinds() {
            let count = self.pairs.counts.get(&kind).copied().unwrap_or_default();
            row.push(whole(count.ended));
            row.push(whole(count.time_ns));
        }
    }

    /// Returns the events since the last call.
    pub(crate) fn events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.pairs.events)
    }

    /// Returns why threads of events cannot be told apart, so that none counts as the watched
    /// program's; None if they can.
    #[must_use]
    pub fn why_no_threads(&self) -> Option<&str> {
        self.why_no_threads.as_deref()
    }

    /// Whether this is a thread of the watched program.
    #[must_use]
    pub fn watches(&self, pid: i32) -> bool {
        self.pairs.watched.contains(&pid)
    }

    /// Returns how many events have been overwritten or dropped so far.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.buffers
            .iter()
            .map(|buffer| buffer.counters(LOST_AND_READ))
            .map(|[overrun, dropped, _]| overrun + dropped)
            .sum()
    }

    /// Returns missing tracepoints, with the reasons, and the kinds that cannot be reported without
    /// them.
    #[must_use]
    pub fn absent(&self) -> Value {
        let points: Map<String, Value> = self
            .missing
            .iter()
            .map(|(one, why)| (one.path.to_owned(), json!(why)))
            .collect();
        let without = kinds_without(&self.missing.iter().map(|(one, _)| *one).collect::<Vec<_>>());
        let kinds: Vec<&str> = without.iter().map(|kind| kind.name()).collect();
        json!({"tracepoints": points, "kinds": kinds})
    }

    /// Stops tracing. Returns the totals, the losses, and what the kernel's own counters say.
    #[must_use]
    pub fn finish(mut self, root: &Root) -> Value {
        let first = std::mem::take(&mut self.at_mark);
        let first_around = std::mem::take(&mut self.around_mark);
        let blind = self.mark(root).err();
        for buffer in &self.buffers {
            let _ = buffer.write("tracing_on", "0");
        }
        let kinds: Vec<Kind> = self.reported_kinds().collect();
        let checks = checks::compare(
            root,
            [&first_around, &self.around_mark],
            [&first, &self.at_mark],
            &kinds,
        );
        self.drain();
        let handed_out: u64 = self
            .buffers
            .iter()
            .map(|buffer| buffer.counters(LOST_AND_READ)[2])
            .sum();
        let met = self
            .readers
            .iter()
            .fold(Met::default(), |sum, reader| sum.and(&reader.met));
        let devices = self.pairs.latency.iter();
        let devices: Map<String, Value> = devices
            .map(|(device, latency)| (checks::device_name(root, *device), latency.to_json()))
            .collect();
        let cut: BTreeMap<&str, u64> = self
            .pairs
            .cut
            .iter()
            .map(|(kind, count)| (kind.name(), *count))
            .collect();
        json!({
            "read": met.events, "handed_out": handed_out, "lost": self.lost(), "losses": self.losses, "cut": cut,
            "strange": met.strange, "damaged": met.damaged, "damage": met.why, "blind": blind,
            "counts": self.counts(&kinds), "unfinished": self.unfinished(), "devices": devices, "checks": checks,
            "absent": self.absent(), "clock": "mono", "clock_error_ns": self.clock_error_ns, "buffer_kib": self.buffer_kib,
        })
    }

    fn counts(&self, kinds: &[Kind]) -> Map<String, Value> {
        let one = |kind: &Kind| {
            let count = self.pairs.counts.get(kind).copied().unwrap_or_default();
            let totals =
                json!({"count": count.ended, "time_ns": count.time_ns, "longest_ns": count.longest_ns});
            (kind.name().to_owned(), totals)
        };
        kinds.iter().map(one).collect()
    }

    fn unfinished(&self) -> Vec<Value> {
        let open = self.pairs.unfinished();
        open.map(|(kind, begin_ns, pid)| json!({"kind": kind.name(), "begin_ns": begin_ns, "pid": pid}))
            .collect()
    }
}

/// Removes the instances that killed agents left, and returns their names.
///
/// # Errors
///
/// Some of them could not be removed.
pub fn clear(root: &Root) -> Result<Vec<String>, String> {
    match Tracefs::open(root) {
        Ok(tracefs) => tracefs.clear(root),
        // Without tracefs there was no trace either.
        Err(_) => Ok(Vec::new()),
    }
}

/// Returns the name of a block device by the number in its events.
#[must_use]
pub fn device_name(root: &Root, device: u32) -> String {
    checks::device_name(root, device)
}

fn parse_kinds(names: Option<&[String]>) -> Result<Vec<Kind>, String> {
    let Some(names) = names else {
        return Ok(Kind::ALL.to_vec());
    };
    let known = || Kind::ALL.map(Kind::name).join(", ");
    let found = names.iter().map(|name| {
        Kind::by_name(name)
            .ok_or_else(|| format!("unknown kind of event {name:?}; expected one of {}", known()))
    });
    Ok(found
        .collect::<Result<BTreeSet<Kind>, String>>()?
        .into_iter()
        .collect())
}

fn limits(root: &Root, least_ns: &BTreeMap<String, u64>) -> Result<Limits, String> {
    let mut limits = Limits::default();
    for (name, least) in least_ns {
        if let Some(device) = name.strip_prefix("block-io:") {
            let number = checks::device_number(root, device)
                .ok_or_else(|| format!("no such block device: {device:?}"))?;
            limits.devices.insert(number, *least);
        } else {
            let kind = parse_kinds(Some(std::slice::from_ref(name)))?[0];
            limits.kinds.insert(kind, Told::From(*least));
        }
    }
    Ok(limits)
}

/// Returns the threads of a process.
#[must_use]
pub fn threads(root: &Root, process: u32) -> Vec<i32> {
    let found = root.list(&format!("/proc/{process}/task")).unwrap_or_default();
    found.iter().filter_map(|name| name.parse().ok()).collect()
}

/// Returns the buffer size per CPU in KiB, small enough that all buffers together take a small
/// share of the memory.
fn buffer_kib(two: bool) -> u64 {
    let info = rustix::system::sysinfo();
    #[allow(clippy::useless_conversion, reason = "the types differ between architectures")]
    let memory_kib = u64::from(info.totalram).saturating_mul(u64::from(info.mem_unit)) / 1024;
    let cpus = std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
    let fair = memory_kib / MEMORY_SHARE / cpus / if two { 2 } else { 1 };
    fair.clamp(*BUFFER_KIB.start(), *BUFFER_KIB.end())
}

fn whole(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
