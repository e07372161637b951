// SPDX-License-Identifier: Apache-2.0
//! The sources, and the open files of the requested ones.

use super::feed::{Cell, Column, Feed, Found};
use super::{
    cycles, disks, fan, fragmentation, frequency, gpu, idle, interrupts, load, memory, power, pressure,
    queues, schedstat, stat,
};
use super::{temperature, throttle, uptime, vmstat, zones, zram};
use crate::error::{Error, Kind, Result};
use crate::load::clock::now_ns;
use crate::root::Root;
use std::collections::BTreeSet;

/// A source and its name.
struct Source {
    name: &'static str,
    open: fn(&Root) -> Found,
}

/// A source that is read only by name, because another one contains all of it.
const PART: &str = "paging";
/// Sources that are read only by name: those for recordings, with more columns than a run needs.
pub const NAMED: [&str; 10] = [
    PART,
    vmstat::WHOLE_SOURCE,
    "zones",
    "interrupts",
    "softirqs",
    "disks",
    "queues",
    "schedstat",
    "idle",
    "gpu",
];

const SOURCES: &[Source] = &[
    Source {
        name: "cpu",
        open: stat::open,
    },
    Source {
        name: "memory",
        open: memory::open,
    },
    Source {
        name: "vmstat",
        open: vmstat::open,
    },
    Source {
        name: PART,
        open: vmstat::open_paging,
    },
    Source {
        name: vmstat::WHOLE_SOURCE,
        open: vmstat::open_whole,
    },
    Source {
        name: "zones",
        open: zones::open,
    },
    Source {
        name: "interrupts",
        open: interrupts::open,
    },
    Source {
        name: "softirqs",
        open: interrupts::open_soft,
    },
    Source {
        name: "disks",
        open: disks::open,
    },
    Source {
        name: "queues",
        open: queues::open,
    },
    Source {
        name: "schedstat",
        open: schedstat::open,
    },
    Source {
        name: "idle",
        open: idle::open,
    },
    Source {
        name: "gpu",
        open: gpu::open,
    },
    Source {
        name: "fragmentation",
        open: fragmentation::open,
    },
    Source {
        name: "load",
        open: load::open,
    },
    Source {
        name: "uptime",
        open: uptime::open,
    },
    Source {
        name: "pressure",
        open: pressure::open,
    },
    Source {
        name: "frequency",
        open: frequency::open,
    },
    Source {
        name: "throttle",
        open: throttle::open,
    },
    Source {
        name: "cycles",
        open: cycles::open,
    },
    Source {
        name: "temperature",
        open: temperature::open,
    },
    Source {
        name: "fan",
        open: fan::open,
    },
    Source {
        name: "power",
        open: power::open,
    },
    Source {
        name: "zram",
        open: zram::open,
    },
];

/// Space for the longest file: `/proc/stat` on a machine with thousands of interrupts.
const BUFFER_BYTES: usize = 1 << 20;

/// Open sources.
pub struct Set {
    /// Their files, with the names of the sources.
    pub feeds: Vec<(&'static str, Feed)>,
    /// Sources without data, and why.
    pub absent: Vec<(&'static str, String)>,
    /// Files that could not be opened although others of their source could, and why.
    pub unopened: Vec<String>,
    buffer: Vec<u8>,
    width: usize,
}

/// Returns the names of all sources.
pub fn names() -> impl Iterator<Item = &'static str> {
    SOURCES.iter().map(|source| source.name)
}

impl Set {
    /// Opens the named sources; without names, all except those in [`NAMED`].
    pub fn open(root: &Root, wanted: Option<&[String]>) -> Result<Self> {
        for name in wanted.unwrap_or_default() {
            if !names().any(|known| known == name) {
                let known: Vec<&str> = names().collect();
                let message = format!("unknown source {name:?}");
                return Err(
                    Error::new(Kind::BadRequest, message).hint(format!("use one of {}", known.join(", ")))
                );
            }
        }
        let mut set = Self::empty();
        let asked = |name: &str| {
            wanted.map_or(!NAMED.contains(&name), |wanted| {
                wanted.iter().any(|one| one == name)
            })
        };
        for source in SOURCES.iter().filter(|source| asked(source.name)) {
            set.add(source.name, (source.open)(root));
        }
        Ok(set)
    }

    /// Creates a set with one source that is not the machine's: a process or control group.
    pub fn of(name: &'static str, found: Found) -> Self {
        let mut set = Self::empty();
        set.add(name, found);
        set
    }

    fn empty() -> Self {
        Self {
            feeds: Vec::new(),
            absent: Vec::new(),
            unopened: Vec::new(),
            buffer: vec![0; BUFFER_BYTES],
            width: 0,
        }
    }

    /// Adds the files of a source, except for those whose first reading fails.
    fn add(&mut self, source: &'static str, found: Found) {
        let Found { feeds, mut missing } = found;
        let before = self.feeds.len();
        for mut feed in feeds {
            let mut row = vec![0; feed.columns.len()];
            let why = feed.probe(&mut self.buffer, &mut row);
            match why {
                None => {
                    self.width += row.len();
                    self.feeds.push((source, feed));
                }
                Some(why) => missing.push(format!("{}: {why}", feed.path)),
            }
        }
        if self.feeds.len() == before {
            self.absent.push((source, missing.join("; ")));
        } else {
            self.unopened.append(&mut missing);
        }
    }

    /// Returns all columns in order.
    pub fn columns(&self) -> impl Iterator<Item = &Column> {
        self.feeds.iter().flat_map(|(_, feed)| &feed.columns)
    }

    /// Returns the number of columns.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Reads all files once into a row as wide as the set.
    pub fn sample(&mut self, row: &mut [Cell]) {
        let mut rest = row;
        for (_, feed) in &mut self.feeds {
            let (own, after) = rest.split_at_mut(feed.columns.len());
            feed.sample(&mut self.buffer, own, now_ns);
            rest = after;
        }
    }

    /// Repeats the reads of a sample without parsing.
    pub fn bare(&mut self) {
        for (_, feed) in &self.feeds {
            feed.bare(&mut self.buffer);
        }
    }

    /// Returns the columns that have appeared since this set was opened.
    pub fn appeared(&self, root: &Root) -> Vec<String> {
        let sources: BTreeSet<&str> = self.feeds.iter().map(|(source, _)| *source).collect();
        let absent = self.absent.iter().map(|(source, _)| *source);
        let wanted: Vec<String> = sources.into_iter().chain(absent).map(str::to_owned).collect();
        let before: BTreeSet<&str> = self.columns().map(|column| column.name.as_str()).collect();
        let Ok(now) = Self::open(root, Some(&wanted)) else {
            return Vec::new();
        };
        let is_new = |column: &&Column| !before.contains(column.name.as_str());
        now.columns()
            .filter(is_new)
            .map(|column| column.name.clone())
            .collect()
    }
}
