// SPDX-License-Identifier: Apache-2.0
//! Pairs beginnings and ends into events with a length, counts them, and decides which are reported
//! individually.

use super::events::{Kind, Told, What};
use super::latency::{Latency, IDLE_NS};
use super::reader::{Raw, TEXT};
use compactions::Compactions;
use faults::Faults;
use std::collections::{BTreeMap, HashMap, HashSet};

mod compactions;
mod faults;

/// An event with a length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub kind: Kind,
    pub begin_ns: u64,
    /// None for an instantaneous event.
    pub length_ns: Option<u64>,
    pub cpu: u32,
    pub pid: i32,
    /// The thread's name, if the event contains it.
    pub thread: Option<String>,
    /// The kernel's number for the block device.
    pub device: Option<u32>,
    pub amount: Option<i64>,
    pub detail: Option<String>,
    /// How long the device was idle before the request.
    pub idle_ns: Option<u64>,
}

/// Totals of a kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    pub begun: u64,
    pub ended: u64,
    pub time_ns: u64,
    pub longest_ns: u64,
}

/// An event that has begun and not ended.
#[derive(Debug, Clone)]
struct Open {
    at_ns: u64,
    pid: i32,
    numbers: [i64; 4],
    text: [u8; TEXT],
    idle_ns: Option<u64>,
}

/// When a thread became runnable, and whether it had been preempted.
#[derive(Debug, Clone, Copy)]
struct Ready {
    at_ns: u64,
    preempted: bool,
}

/// Identifies what begins and ends: by thread, CPU, or position on a device.
type Key = (Kind, u64, u64);

/// Which events are reported.
#[derive(Debug, Clone, Default)]
pub struct Limits {
    /// By kind.
    pub kinds: BTreeMap<Kind, Told>,
    /// By the kernel's number for a block device; overrides the kind.
    pub devices: BTreeMap<u32, u64>,
}

/// Pairs beginnings with ends.
#[derive(Debug, Default)]
pub struct Pairs {
    pub limits: Limits,
    /// Threads of the watched program.
    pub watched: HashSet<i32>,
    pub counts: BTreeMap<Kind, Count>,
    pub latency: BTreeMap<u32, Latency>,
    /// Pages that direct reclaim has freed.
    pub reclaimed_pages: u64,
    pub compactions: Compactions,
    /// Handler calls by interrupt number.
    pub interrupts: BTreeMap<u64, u64>,
    /// Events to report.
    pub events: Vec<Event>,
    /// Beginnings whose ends were lost, and ends whose beginnings were.
    pub cut: BTreeMap<Kind, u64>,
    open: HashMap<Key, Open>,
    ready: HashMap<i32, Ready>,
    faults: Faults,
    /// Last known names of watched threads.
    called: HashMap<i32, [u8; TEXT]>,
}

impl Pairs {
    pub fn new(limits: Limits, watched: &[i32]) -> Self {
        Self {
            limits,
            watched: watched.iter().copied().collect(),
            ..Self::default()
        }
    }

    /// Takes the next event, in order of time.
    pub fn take(&mut self, raw: &Raw) {
        match raw.what {
            What::Begin(kind) => self.begin(kind, raw),
            What::End(kind) => self.end(kind, raw),
            What::Whole(kind) => self.whole(kind, raw),
            What::Asked(_) => self.compactions.asked(raw.pid),
            What::Waking => self.wakes(pid_of(raw.numbers[0]), raw.at_ns, false),
            What::Switch => self.switch(raw),
            What::Fork => {
                if self.watched.contains(&pid_of(raw.numbers[0])) {
                    self.watched.insert(pid_of(raw.numbers[1]));
                }
            }
            What::Exit => {
                let pid = pid_of(raw.numbers[0]);
                self.watched.remove(&pid);
                self.ready.remove(&pid);
                let fault = self.faults.over(pid);
                self.finish_all(fault);
                self.called.remove(&pid);
            }
            What::Mark => {}
        }
    }

    /// Forgets everything that has begun, because an end may have been lost.
    pub fn forget(&mut self) {
        for (kind, _, _) in std::mem::take(&mut self.open).into_keys() {
            *self.cut.entry(kind).or_default() += 1;
        }
        *self.cut.entry(Kind::RunDelay).or_default() += self.ready.len() as u64;
        self.ready.clear();
        *self.cut.entry(Kind::FileFault).or_default() += self.faults.forget();
        self.latency.values_mut().for_each(Latency::forget);
        self.compactions.forget();
    }

    /// Returns what has begun and not ended, with its beginning.
    pub fn unfinished(&self) -> impl Iterator<Item = (Kind, u64, i32)> + '_ {
        self.open
            .iter()
            .map(|((kind, _, _), open)| (*kind, open.at_ns, open.pid))
    }

    /// Returns the device of a request.
    fn device(&mut self, raw: &Raw) -> &mut Latency {
        self.latency.entry(device_of(raw.numbers[0])).or_default()
    }

    fn begin(&mut self, kind: Kind, raw: &Raw) {
        self.counts.entry(kind).or_default().begun += 1;
        match kind {
            Kind::Irq => *self.interrupts.entry(raw.numbers[0].unsigned_abs()).or_default() += 1,
            Kind::Compaction => self.compactions.begun(raw.pid),
            _ => {}
        }
        let idle_ns = match kind {
            Kind::BlockIo => self.device(raw).begin(raw.at_ns),
            _ => None,
        };
        let open = Open {
            at_ns: raw.at_ns,
            pid: raw.pid,
            numbers: raw.numbers,
            text: raw.text,
            idle_ns,
        };
        // A second wake-up while awake, or a thread whose end was lost.
        if kind == Kind::Kswapd {
            self.open.entry(key(kind, raw)).or_insert(open);
        } else if self.open.insert(key(kind, raw), open).is_some() {
            *self.cut.entry(kind).or_default() += 1;
            if kind == Kind::BlockIo {
                // Reissued to the driver; it is still one request.
                self.device(raw).again();
            }
        }
    }

    fn end(&mut self, kind: Kind, raw: &Raw) {
        let key = key(kind, raw);
        let has_data = |open: &Open| open.numbers[2] > 0;
        if kind == Kind::BlockIo && raw.numbers[2] == 0 && !self.open.get(&key).is_some_and(has_data) {
            self.end_without_data(raw);
            return;
        }
        let Some(open) = self.open.remove(&key) else {
            // It began before tracing started.
            *self.cut.entry(kind).or_default() += 1;
            return;
        };
        let mut event = Event {
            kind,
            begin_ns: open.at_ns,
            length_ns: Some(raw.at_ns.saturating_sub(open.at_ns)),
            cpu: raw.cpu,
            pid: open.pid,
            thread: None,
            device: None,
            amount: Some(raw.numbers[0]),
            detail: None,
            idle_ns: None,
        };
        match kind {
            Kind::BlockIo => {
                let rest = open.numbers[2] - raw.numbers[2];
                if rest > 0 && raw.numbers[2] > 0 {
                    let mut left = open;
                    left.numbers[1] += raw.numbers[2];
                    left.numbers[2] = rest;
                    self.open
                        .insert((kind, key.1, left.numbers[1].unsigned_abs()), left);
                    return;
                }
                let device = device_of(raw.numbers[0]);
                let length_ns = event.length_ns.unwrap_or_default();
                self.device(raw)
                    .end(raw.at_ns, length_ns, open.numbers[3], open.idle_ns);
                event.idle_ns = open.idle_ns.filter(|idle_ns| *idle_ns >= IDLE_NS);
                event.device = Some(device);
                event.amount = Some(open.numbers[3]);
                event.detail = Some(text_of(&open.text));
            }
            Kind::DirectReclaim | Kind::CgroupReclaim => {
                if kind == Kind::DirectReclaim {
                    self.reclaimed_pages += raw.numbers[0].max(0).unsigned_abs();
                }
                event.detail = Some(format!("order {}", open.numbers[0]));
            }
            Kind::Compaction => {
                event.detail = Some(if open.numbers[0] == 0 { "async" } else { "sync" }.to_owned());
            }
            Kind::Irq => event.detail = Some(text_of(&open.text)),
            Kind::Softirq => event.detail = softirq(raw.numbers[0]).map(str::to_owned),
            _ => event.amount = None,
        }
        self.finish(event);
    }

    /// Handles the end of a flush, of a request without data that waited for one, or of a request
    /// whose data ended before.
    fn end_without_data(&mut self, raw: &Raw) {
        let begin = (Kind::BlockIo, raw.numbers[0].unsigned_abs(), 0);
        let is_flush = raw.text.starts_with(b"FF");
        let is_open = self.open.get(&begin).is_some_and(|open| open.numbers[2] == 0);
        if is_flush && is_open {
            self.open.remove(&begin);
            self.device(raw).again();
        }
        let device = self.device(raw);
        if is_flush {
            device.flushes += 1;
        } else if raw.numbers[1] == 0 {
            device.waits += 1;
        }
    }

    fn whole(&mut self, kind: Kind, raw: &Raw) {
        self.counts.entry(kind).or_default().begun += 1;
        let number = raw.numbers[0].max(0).unsigned_abs();
        let mut event = Event {
            kind,
            begin_ns: raw.at_ns,
            length_ns: None,
            cpu: raw.cpu,
            pid: raw.pid,
            thread: None,
            device: None,
            amount: Some(raw.numbers[0]),
            detail: None,
            idle_ns: None,
        };
        match kind {
            Kind::ReclaimThrottle => {
                let length_ns = number.saturating_mul(1000);
                event.begin_ns = raw.at_ns.saturating_sub(length_ns);
                event.length_ns = Some(length_ns);
                event.amount = None;
            }
            Kind::DirtyPause => {
                event.length_ns = Some(number.saturating_mul(1_000_000));
                event.amount = None;
                event.detail = Some(text_of(&raw.text));
            }
            Kind::FileFault => {
                event.device = Some(device_of(raw.numbers[0]));
                event.amount = None;
                // Its length is known when its thread continues.
                let before = self.faults.begin(event);
                return self.finish_all(before);
            }
            Kind::Migration => {
                event.pid = pid_of(raw.numbers[0]);
                event.thread = Some(text_of(&raw.text));
                event.amount = None;
                event.detail = Some(format!("CPU {} to {}", raw.numbers[1], raw.numbers[2]));
                if !self.watched.contains(&event.pid) {
                    return;
                }
            }
            Kind::Oom => {
                event.pid = pid_of(raw.numbers[0]);
                event.amount = None;
            }
            _ => {}
        }
        self.finish(event);
    }

    /// Records that a thread becomes runnable, if it is watched.
    fn wakes(&mut self, pid: i32, at_ns: u64, preempted: bool) {
        if self.watched.contains(&pid) {
            self.ready.entry(pid).or_insert(Ready { at_ns, preempted });
        }
    }

    fn switch(&mut self, raw: &Raw) {
        let [before, state, after, _] = raw.numbers;
        let (before, after) = (pid_of(before), pid_of(after));
        let stopped = self.faults.stops(before, raw.at_ns, state);
        let waited = self.faults.runs(after, raw.at_ns);
        self.finish_all(stopped.into_iter().chain(waited));
        if self.watched.contains(&after) {
            self.called.insert(after, raw.text);
        }
        if let Some(ready) = self.ready.remove(&after) {
            self.counts.entry(Kind::RunDelay).or_default().begun += 1;
            let why = if ready.preempted { "preempted" } else { "woken" };
            self.finish(Event {
                kind: Kind::RunDelay,
                begin_ns: ready.at_ns,
                length_ns: Some(raw.at_ns.saturating_sub(ready.at_ns)),
                cpu: raw.cpu,
                pid: after,
                thread: Some(text_of(&raw.text)),
                device: None,
                amount: None,
                detail: Some(format!("{why}, then after pid {before}")),
                idle_ns: None,
            });
        }
        // The thread has been running until now, so an earlier wake-up didn't make it wait.
        self.ready.remove(&before);
        // A preempted thread has state 0, or a flag above those of all sleep states.
        if state == 0 || state & PREEMPTED != 0 {
            self.wakes(before, raw.at_ns, true);
        }
    }

    fn finish_all(&mut self, events: impl IntoIterator<Item = Event>) {
        events.into_iter().for_each(|event| self.finish(event));
    }

    fn finish(&mut self, mut event: Event) {
        let count = self.counts.entry(event.kind).or_default();
        let length_ns = event.length_ns.unwrap_or_default();
        count.ended += 1;
        count.time_ns += length_ns;
        count.longest_ns = count.longest_ns.max(length_ns);
        let of_device = event.device.filter(|_| event.kind == Kind::BlockIo);
        let least = of_device.and_then(|device| self.limits.devices.get(&device));
        let is_reported = match self
            .limits
            .kinds
            .get(&event.kind)
            .copied()
            .unwrap_or(event.kind.told())
        {
            Told::From(kind_ns) => length_ns >= least.copied().unwrap_or(kind_ns),
            Told::Waits => event.length_ns.is_some(),
            Told::Never => false,
        };
        if is_reported {
            // A thread that exits at once has no name in /proc by the time it is looked up.
            let called = self.called.get(&event.pid).map(|name| text_of(name));
            event.thread = event.thread.or(called);
            self.events.push(event);
        }
    }
}

/// Set in the state of a preempted thread (`TASK_REPORT_MAX`, on kernels since 4.14).
const PREEMPTED: i64 = 0x100;

fn key(kind: Kind, raw: &Raw) -> Key {
    let unsigned = i64::unsigned_abs;
    match kind {
        Kind::BlockIo => (kind, unsigned(raw.numbers[0]), unsigned(raw.numbers[1])),
        Kind::Irq | Kind::Softirq => (kind, u64::from(raw.cpu), unsigned(raw.numbers[0])),
        _ => (kind, u64::from(raw.pid.unsigned_abs()), 0),
    }
}

fn pid_of(number: i64) -> i32 {
    i32::try_from(number).unwrap_or(-1)
}

fn device_of(number: i64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Returns a text up to its first zero.
pub fn text_of(bytes: &[u8]) -> String {
    let end = memchr::memchr(0, bytes).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// Returns the name of a softirq as in `/proc/softirqs`.
fn softirq(vector: i64) -> Option<&'static str> {
    const NAMES: [&str; 10] = [
        "HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU",
    ];
    usize::try_from(vector)
        .ok()
        .and_then(|vector| NAMES.get(vector).copied())
}

#[cfg(test)]
mod tests;
