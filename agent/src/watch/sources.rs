// SPDX-License-Identifier: Apache-2.0
//! The sources of a watch and their rates.

use super::group::{clock_columns, Group, Reads};
use super::lateness::Lateness;
use super::triggers::Triggers;
use super::usage::Usage;
use crate::error::{Error, Kind, Result};
use crate::root::Root;
use crate::sample::feed::Column;
use crate::sample::set::Set;
use crate::sample::{cgroup_of, threads_of};
use crate::trace::{threads, Tracer};
use serde_json::{json, Map, Value};
use std::collections::BTreeMap;
use std::io;

/// Default samples per second of each source.
const RATES: [(&str, f64); 25] = [
    ("cpu", 10.0),
    ("memory", 10.0),
    ("vmstat_all", 10.0),
    ("pressure", 10.0),
    ("disks", 10.0),
    ("queues", 10.0),
    ("schedstat", 10.0),
    ("trace", 10.0),
    ("cgroup", 10.0),
    ("threads", 2.0),
    ("zram", 2.0),
    ("softirqs", 2.0),
    ("frequency", 2.0),
    ("gpu", 10.0),
    ("interrupts", 1.0),
    ("zones", 1.0),
    ("fragmentation", 1.0),
    ("idle", 1.0),
    ("throttle", 1.0),
    ("temperature", 1.0),
    ("power", 1.0),
    ("clocks", 1.0),
    ("usage", 1.0),
    ("triggers", 1.0),
    ("wakeup", 60.0),
];
/// Limits of the samples per second.
const LIMITS: std::ops::RangeInclusive<f64> = 1.0..=100.0;
const SECOND_NS: f64 = 1e9;

/// Returns the sources and their periods.
pub fn rates(asked: &BTreeMap<String, f64>, only: bool) -> Result<Vec<(&'static str, u64)>> {
    for (name, rate) in asked {
        if !RATES.iter().any(|(known, _)| known == name) {
            let known: Vec<&str> = RATES.iter().map(|(name, _)| *name).collect();
            let message = format!("unknown source {name:?}");
            return Err(
                Error::new(Kind::BadRequest, message).hint(format!("use one of {}", known.join(", ")))
            );
        }
        if *rate != 0.0 && !LIMITS.contains(rate) {
            let message = format!(
                "sources.{name}: expected 0, or {} to {} per second, got {rate}",
                LIMITS.start(),
                LIMITS.end()
            );
            return Err(Error::new(Kind::BadRequest, message));
        }
    }
    let rate = |name: &str, usual: f64| asked.get(name).copied().unwrap_or(if only { 0.0 } else { usual });
    let periods = RATES.into_iter().map(|(name, usual)| (name, rate(name, usual)));
    Ok(periods
        .filter(|(_, rate)| *rate > 0.0)
        .map(|(name, rate)| (name, period_ns(rate)))
        .collect())
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "1 to 100 per second is a positive number of nanoseconds"
)]
fn period_ns(rate: f64) -> u64 {
    (SECOND_NS / rate).round() as u64
}

/// The sources that could be opened, and why the others could not.
pub struct Opened {
    pub groups: Vec<Group>,
    pub lateness: Option<Lateness>,
    pub triggers: Option<Triggers>,
    pub usage: Option<Usage>,
    pub absent: Map<String, Value>,
}

/// Opens the sources.
pub fn open(
    root: &Root,
    rates: &[(&'static str, u64)],
    process: Option<u32>,
    start_ns: u64,
    tracer: Option<&Tracer>,
) -> io::Result<Opened> {
    let mut opened = Opened {
        groups: Vec::new(),
        lateness: None,
        triggers: None,
        usage: None,
        absent: Map::new(),
    };
    for (name, period_ns) in rates {
        let new = |reads, columns| Group::new(name, *period_ns, start_ns, reads, columns);
        match *name {
            "clocks" => opened.groups.push(new(Reads::Clocks, clock_columns())),
            "trace" => {
                if let Some(tracer) = tracer {
                    opened.groups.push(new(Reads::Trace, trace_columns(tracer)));
                }
            }
            "wakeup" => {
                opened.lateness = Some(Lateness::start(*period_ns)?);
                let column = Column::level("wakeup.late", "s", 1_000_000_000);
                // Its rows are fetched when a block is sent.
                let mut group = new(Reads::Rows, vec![column]);
                group.due_ns = u64::MAX;
                opened.groups.push(group);
            }
            "usage" => opened.usage = Some(Usage::new(*period_ns, start_ns)),
            "triggers" => match Triggers::start(root, *period_ns) {
                Ok(triggers) => opened.triggers = Some(triggers),
                Err(why) => {
                    opened.absent.insert((*name).to_owned(), json!(why));
                }
            },
            "threads" | "cgroup" if process.is_none() => {
                opened
                    .absent
                    .insert((*name).to_owned(), json!("no program is watched"));
            }
            "threads" => {
                let process = process.unwrap_or_default();
                let known = threads(root, process);
                let set = Set::of(name, threads_of(root, process, &known));
                let columns = set.columns().cloned().collect();
                let looked_ns = start_ns;
                opened.groups.push(new(
                    Reads::Threads {
                        process,
                        set,
                        known,
                        looked_ns,
                    },
                    columns,
                ));
            }
            "cgroup" => {
                let set = Set::of(name, cgroup_of(root, process.unwrap_or_default()));
                opened.add_files(name, *period_ns, start_ns, set);
            }
            _ => {
                // The name is one of a known source.
                if let Ok(set) = Set::open(root, Some(&[(*name).to_owned()])) {
                    opened.add_files(name, *period_ns, start_ns, set);
                }
            }
        }
    }
    Ok(opened)
}

impl Opened {
    fn add_files(&mut self, name: &'static str, period_ns: u64, start_ns: u64, set: Set) {
        for (source, why) in &set.absent {
            self.absent.insert((*source).to_owned(), json!(why));
        }
        self.groups
            .extend(Group::of_files(name, period_ns, start_ns, set));
    }
}

fn trace_columns(tracer: &Tracer) -> Vec<Column> {
    let of_kind = |kind: &str| {
        [
            Column::counter(format!("trace.{kind}.count"), "count", 1),
            Column::counter(format!("trace.{kind}.time"), "s", 1_000_000_000),
        ]
    };
    tracer.columns().into_iter().flat_map(of_kind).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(name: &str, rate: f64) -> BTreeMap<String, f64> {
        BTreeMap::from([(name.to_owned(), rate)])
    }

    #[test]
    fn rates_are_checked_and_those_not_named_stay_as_usual() {
        let found = rates(&asked("cpu", 100.0), false).unwrap();
        assert_eq!((found.len(), found[0]), (RATES.len(), ("cpu", 10_000_000)));
        assert_eq!(rates(&asked("cpu", 0.0), false).unwrap().len(), RATES.len() - 1);
        assert_eq!(
            rates(&asked("zones", 1.0), true).unwrap(),
            [("zones", 1_000_000_000)]
        );
        for (name, rate) in [("cpu", 0.5), ("cpu", 101.0), ("cpu", f64::NAN), ("gone", 1.0)] {
            assert!(rates(&asked(name, rate), false).is_err(), "{name} {rate}");
        }
    }

    #[test]
    fn every_source_of_files_exists() {
        let own = [
            "trace", "cgroup", "threads", "clocks", "wakeup", "usage", "triggers",
        ];
        for (name, _) in RATES.iter().filter(|(name, _)| !own.contains(name)) {
            assert!(crate::sample::set::names().any(|known| known == *name), "{name}");
        }
    }
}
