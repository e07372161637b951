// SPDX-License-Identifier: Apache-2.0
//! Facts: describe this machine without changing it. `facts.toml` in the catalog lists their names
//! and types.
//!
//! Every probe has three outcomes: a value, absent, or unknown with the reason. A probe checks
//! files and features, never a version number. Inside a record, a field that does not apply or is
//! unreadable is null.

mod block;
pub(crate) mod boot;
mod config;
mod cpu;
mod cpufreq;
mod devices;
mod filesystems;
mod kernel;
mod memory;
mod mounts;
pub(crate) mod nvme;
mod os;
pub(crate) mod power;
mod probe;
mod processes;
mod reclaim;
mod scheduler;
mod virtualisation;

use std::cell::OnceCell;
use std::collections::BTreeMap;

use serde::Serialize;

use crate::root::Root;
use config::KernelConfig;
use mounts::Mount;
pub(crate) use probe::unescape;
pub use probe::Fact;
use probe::{Miss, Probe};

/// Facts by name, sorted.
pub type Facts = BTreeMap<&'static str, Fact>;

/// Collects the facts of the machine below `root`. With `only`, just those that are named in it or
/// below a name in it: `cpu` selects `cpu.model` but not `cpufreq.driver`.
#[must_use]
pub fn collect(root: &Root, only: &[String]) -> Facts {
    let machine = Machine::new(root);
    let mut sink = Sink {
        only,
        facts: Facts::new(),
    };
    let areas: [fn(&Machine, &mut Sink); 14] = [
        cpu::collect,
        memory::collect,
        block::collect,
        nvme::collect,
        filesystems::collect,
        devices::collect,
        kernel::collect,
        scheduler::collect,
        os::collect,
        boot::collect,
        virtualisation::collect,
        power::collect,
        cpufreq::collect,
        reclaim::collect,
    ];
    for area in areas {
        area(&machine, &mut sink);
    }
    processes::collect(&machine, &mut sink);
    sink.facts
}

/// The machine, with a cache of what several facts need and is expensive to read.
struct Machine<'a> {
    root: &'a Root,
    config: OnceCell<Probe<KernelConfig>>,
    mounts: OnceCell<Probe<Vec<Mount>>>,
    cpuinfo: OnceCell<Probe<String>>,
}

impl<'a> Machine<'a> {
    fn new(root: &'a Root) -> Self {
        Self {
            root,
            config: OnceCell::new(),
            mounts: OnceCell::new(),
            cpuinfo: OnceCell::new(),
        }
    }

    /// Returns the running kernel's configuration.
    fn config(&self) -> Result<&KernelConfig, Miss> {
        self.config
            .get_or_init(|| config::find(self.root))
            .as_ref()
            .map_err(Clone::clone)
    }

    /// Returns this session's mount table.
    fn mounts(&self) -> Result<&[Mount], Miss> {
        self.mounts
            .get_or_init(|| mounts::read(self.root))
            .as_deref()
            .map_err(Clone::clone)
    }

    /// Returns `/proc/cpuinfo`.
    fn cpuinfo(&self) -> Result<&str, Miss> {
        self.cpuinfo
            .get_or_init(|| probe::text(self.root, "/proc/cpuinfo"))
            .as_deref()
            .map_err(Clone::clone)
    }

    /// Returns the kernel's command line, split into words.
    fn command_line(&self) -> Probe<Vec<String>> {
        let text = probe::text(self.root, "/proc/cmdline")?;
        Ok(text.split_whitespace().map(str::to_owned).collect())
    }
}

/// Collects the requested facts.
struct Sink<'a> {
    only: &'a [String],
    facts: Facts,
}

impl Sink<'_> {
    /// Adds a fact; probes only if it was requested.
    fn add<T: Serialize>(&mut self, name: &'static str, probe: impl FnOnce() -> Probe<T>) {
        if self.wants(name) {
            self.facts.insert(name, Fact::from(probe()));
        }
    }

    fn wants(&self, name: &str) -> bool {
        let below = |prefix: &String| {
            let prefix = prefix.trim_end_matches('.');
            name.strip_prefix(prefix)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        self.only.is_empty() || self.only.iter().any(below)
    }
}
