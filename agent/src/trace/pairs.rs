// SPDX-License-Identifier: Apache-2.0
//! From begins and ends to events with a length: what is counted, what is told one by one, and whom it hit.

use super::events::{Kind, Told, What};
use super::latency::Latency;
use super::reader::{Raw, TEXT};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Something that took a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub kind: Kind,
    pub begin_ns: u64,
    /// None of what is over in an instant.
    pub length_ns: Option<u64>,
    pub cpu: u32,
    pub pid: i32,
    /// The thread's name where the event told it.
    pub thread: Option<String>,
    /// The kernel's number of a block device.
    pub device: Option<u32>,
    pub amount: Option<i64>,
    pub detail: Option<String>,
}

/// How much of a kind there was.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    pub begun: u64,
    pub ended: u64,
    pub time_ns: u64,
    pub longest_ns: u64,
}

/// What has begun and not ended.
#[derive(Debug, Clone)]
struct Open {
    at_ns: u64,
    pid: i32,
    numbers: [i64; 4],
    text: [u8; TEXT],
}

/// When a thread could run, and why it did not run before.
#[derive(Debug, Clone, Copy)]
struct Ready {
    at_ns: u64,
    preempted: bool,
}

/// What begins and ends in one thread, on one CPU, at one place of a device.
type Key = (Kind, u64, u64);

/// Which events are told.
#[derive(Debug, Clone, Default)]
pub struct Limits {
    /// By kind.
    pub kinds: BTreeMap<Kind, Told>,
    /// By the kernel's number of a block device, before that of the kind.
    pub devices: BTreeMap<u32, u64>,
}

/// Joins begins and ends.
#[derive(Debug, Default)]
pub struct Pairs {
    pub limits: Limits,
    /// Threads of the watched program.
    pub watched: HashSet<i32>,
    pub counts: BTreeMap<Kind, Count>,
    pub latency: BTreeMap<u32, Latency>,
    /// Events to be told.
    pub events: Vec<Event>,
    /// Begins whose ends were lost, or ends whose begins were.
    pub cut: BTreeMap<Kind, u64>,
    open: HashMap<Key, Open>,
    ready: HashMap<i32, Ready>,
}

impl Pairs {
    pub fn new(limits: Limits, watched: &[i32]) -> Self {
        Self {
            limits,
            watched: watched.iter().copied().collect(),
            ..Self::default()
        }
    }

    /// Takes events in the order of their times.
    pub fn take(&mut self, raw: &Raw) {
        match raw.what {
            What::Begin(kind) => self.begin(kind, raw),
            What::End(kind) => self.end(kind, raw),
            What::Whole(kind) => self.whole(kind, raw),
            What::Waking => self.wakes(pid_of(raw.numbers[0]), raw.at_ns, false),
            What::Switch => self.switch(raw),
            What::Fork => {
                if self.watched.contains(&pid_of(raw.numbers[0])) {
                    self.watched.insert(pid_of(raw.numbers[1]));
                }
            }
            What::Exit => {
                self.watched.remove(&pid_of(raw.numbers[0]));
                self.ready.remove(&pid_of(raw.numbers[0]));
            }
            What::Mark => {}
        }
    }

    /// Forgets what has begun: an end may have been lost.
    pub fn forget(&mut self) {
        for (kind, _, _) in std::mem::take(&mut self.open).into_keys() {
            *self.cut.entry(kind).or_default() += 1;
        }
        *self.cut.entry(Kind::RunDelay).or_default() += self.ready.len() as u64;
        self.ready.clear();
    }

    /// What has begun and not ended, with its beginning.
    pub fn unfinished(&self) -> impl Iterator<Item = (Kind, u64, i32)> + '_ {
        self.open
            .iter()
            .map(|((kind, _, _), open)| (*kind, open.at_ns, open.pid))
    }

    fn begin(&mut self, kind: Kind, raw: &Raw) {
        self.counts.entry(kind).or_default().begun += 1;
        let open = Open {
            at_ns: raw.at_ns,
            pid: raw.pid,
            numbers: raw.numbers,
            text: raw.text,
        };
        // A second wake-up of one that is awake, or a thread whose end was lost.
        if kind == Kind::Kswapd {
            self.open.entry(key(kind, raw)).or_insert(open);
        } else if self.open.insert(key(kind, raw), open).is_some() {
            *self.cut.entry(kind).or_default() += 1;
        }
    }

    fn end(&mut self, kind: Kind, raw: &Raw) {
        let key = key(kind, raw);
        let Some(open) = self.open.remove(&key) else {
            if kind == Kind::BlockIo && raw.numbers[2] == 0 {
                // A flush: the kernel tells its end alone.
                self.latency.entry(device_of(raw.numbers[0])).or_default().flushes += 1;
            } else {
                // Begun before the tracing did.
                *self.cut.entry(kind).or_default() += 1;
            }
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
                let latency = self.latency.entry(device).or_default();
                latency.add(event.length_ns.unwrap_or_default(), open.numbers[3]);
                event.device = Some(device);
                event.amount = Some(open.numbers[3]);
                event.detail = Some(text_of(&open.text));
            }
            Kind::DirectReclaim | Kind::CgroupReclaim => {
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

    /// A thread can run from now on, if it is watched.
    fn wakes(&mut self, pid: i32, at_ns: u64, preempted: bool) {
        if self.watched.contains(&pid) {
            self.ready.entry(pid).or_insert(Ready { at_ns, preempted });
        }
    }

    fn switch(&mut self, raw: &Raw) {
        let [before, state, after, _] = raw.numbers;
        let (before, after) = (pid_of(before), pid_of(after));
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
            });
        }
        // Of a thread that was pushed aside the state is 0, or has a mark above those of all sleepers.
        if state == 0 || state & PREEMPTED != 0 {
            self.wakes(before, raw.at_ns, true);
        }
    }

    fn finish(&mut self, event: Event) {
        let count = self.counts.entry(event.kind).or_default();
        let length_ns = event.length_ns.unwrap_or_default();
        count.ended += 1;
        count.time_ns += length_ns;
        count.longest_ns = count.longest_ns.max(length_ns);
        let of_device = event.device.filter(|_| event.kind == Kind::BlockIo);
        let least = of_device.and_then(|device| self.limits.devices.get(&device));
        let told = match self
            .limits
            .kinds
            .get(&event.kind)
            .copied()
            .unwrap_or(event.kind.told())
        {
            Told::From(kind_ns) => length_ns >= least.copied().unwrap_or(kind_ns),
            Told::OfWatched => self.watched.contains(&event.pid),
            Told::Never => false,
        };
        if told {
            self.events.push(event);
        }
    }
}

/// Set in the state of a thread that could go on (`TASK_REPORT_MAX`, on kernels since 4.14).
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

/// A text up to its first zero.
pub fn text_of(bytes: &[u8]) -> String {
    let end = memchr::memchr(0, bytes).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// Softirqs by number, as `/proc/softirqs` names them.
fn softirq(vector: i64) -> Option<&'static str> {
    const NAMES: [&str; 10] = [
        "HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU",
    ];
    usize::try_from(vector)
        .ok()
        .and_then(|vector| NAMES.get(vector).copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(at_ns: u64, what: What, pid: i32, numbers: [i64; 4]) -> Raw {
        let mut text = [0; TEXT];
        text[..2].copy_from_slice(b"WS");
        Raw {
            at_ns,
            cpu: 1,
            what,
            pid,
            numbers,
            text,
        }
    }

    fn pairs(watched: &[i32], events: &[Raw]) -> Pairs {
        let mut pairs = Pairs::new(Limits::default(), watched);
        for event in events {
            pairs.take(event);
        }
        pairs
    }

    #[test]
    fn direct_reclaim_is_joined_by_thread() {
        let kind = Kind::DirectReclaim;
        let found = pairs(
            &[],
            &[
                raw(100, What::Begin(kind), 7, [2, 0, 0, 0]),
                raw(150, What::Begin(kind), 8, [0; 4]),
                raw(400, What::End(kind), 7, [32, 0, 0, 0]),
                raw(900, What::End(kind), 9, [1, 0, 0, 0]),
            ],
        );
        let event = &found.events[0];
        assert_eq!(
            (event.begin_ns, event.length_ns, event.pid, event.amount),
            (100, Some(300), 7, Some(32))
        );
        assert_eq!(event.detail.as_deref(), Some("order 2"));
        assert_eq!((found.events.len(), found.cut[&kind]), (1, 1));
        assert_eq!(found.unfinished().collect::<Vec<_>>(), [(kind, 150, 8)]);
        assert_eq!((found.counts[&kind].begun, found.counts[&kind].ended), (2, 1));
    }

    #[test]
    fn a_request_ends_with_its_last_part_and_is_told_above_its_limit() {
        let (issue, complete) = (What::Begin(Kind::BlockIo), What::End(Kind::BlockIo));
        let found = pairs(
            &[],
            &[
                raw(0, issue, 3, [8, 1000, 16, 8192]),
                raw(0, issue, 3, [8, 2000, 8, 4096]),
                raw(4_000_000, complete, 0, [8, 2000, 8, 0]),
                raw(6_000_000, complete, 0, [8, 1000, 8, 0]),
                raw(7_000_000, complete, 0, [8, 1008, 8, 0]),
                raw(7_000_000, complete, 0, [8, -1, 0, 0]),
            ],
        );
        assert_eq!(found.events.len(), 1);
        let event = &found.events[0];
        assert_eq!(
            (event.length_ns, event.device, event.pid),
            (Some(7_000_000), Some(8), 3)
        );
        assert_eq!((event.amount, event.detail.as_deref()), (Some(8192), Some("WS")));
        assert_eq!(
            (
                found.latency[&8].requests,
                found.latency[&8].flushes,
                found.cut.len()
            ),
            (2, 1, 0)
        );
    }

    #[test]
    fn run_delay_is_that_of_watched_threads_from_waking_or_preemption_on() {
        let delay =
            |at, before, state, after| raw(at, What::Switch, before, [before.into(), state, after, 0]);
        let found = pairs(
            &[7],
            &[
                raw(0, What::Waking, 1, [7, 0, 0, 0]),
                raw(10, What::Waking, 1, [8, 0, 0, 0]),
                delay(2_000_000, 99, 1, 7),
                delay(3_000_000, 7, 0, 8),
                delay(5_000_000, 8, 1, 7),
                delay(6_000_000, 7, 1, 8),
                delay(9_000_000, 8, 1, 7),
            ],
        );
        let told: Vec<_> = found
            .events
            .iter()
            .map(|event| (event.begin_ns, event.length_ns))
            .collect();
        assert_eq!(told, [(0, Some(2_000_000)), (3_000_000, Some(2_000_000))]);
        assert!(found.events[1]
            .detail
            .as_deref()
            .unwrap()
            .starts_with("preempted"));
        assert_eq!(found.counts[&Kind::RunDelay].ended, 2);
    }

    #[test]
    fn children_of_watched_threads_are_watched_until_they_end() {
        let mut found = pairs(
            &[7],
            &[
                raw(0, What::Fork, 7, [7, 20, 0, 0]),
                raw(1, What::Fork, 1, [1, 30, 0, 0]),
            ],
        );
        assert!(found.watched.contains(&20) && !found.watched.contains(&30));
        found.take(&raw(2, What::Exit, 20, [20, 0, 0, 0]));
        assert!(!found.watched.contains(&20));
    }

    #[test]
    fn a_loss_forgets_what_was_open() {
        let mut found = pairs(&[], &[raw(0, What::Begin(Kind::Compaction), 7, [0; 4])]);
        found.forget();
        found.take(&raw(5, What::End(Kind::Compaction), 7, [0; 4]));
        assert_eq!((found.events.len(), found.cut[&Kind::Compaction]), (0, 2));
    }

    #[test]
    fn throttling_lies_before_its_event_and_a_pause_behind_it() {
        let found = pairs(
            &[],
            &[
                raw(9_000_000, What::Whole(Kind::ReclaimThrottle), 7, [4000, 0, 0, 0]),
                raw(9_000_000, What::Whole(Kind::DirtyPause), 7, [20, 0, 0, 0]),
            ],
        );
        let told: Vec<_> = found
            .events
            .iter()
            .map(|event| (event.begin_ns, event.length_ns))
            .collect();
        assert_eq!(
            told,
            [(5_000_000, Some(4_000_000)), (9_000_000, Some(20_000_000))]
        );
    }
}
