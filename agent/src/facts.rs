// SPDX-License-Identifier: Apache-2.0
//! Facts: what this machine is, without changing it. Their names and types are listed in `facts.toml` of the catalog.
//!
//! Every probe has three outcomes (a value, absent, unknown with the reason). A probe asks files and features,
//! never a version number. Inside records a field that does not apply or could not be read is null.

mod block;
mod boot;
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

/// Facts by name, in the order of their names.
pub type Facts = BTreeMap<&'static str, Fact>;

/// Collects the facts of the machine below `root`; with `only`, those that are named in it or lie below a name in it
/// (`cpu` takes `cpu.model` but not `cpufreq.driver`).
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

/// The machine looked at, with what several facts need and is dear to read.
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

    /// The running kernel's configuration.
    fn config(&self) -> Result<&KernelConfig, Miss> {
        self.config
            .get_or_init(|| config::find(self.root))
            .as_ref()
            .map_err(Clone::clone)
    }

    /// The mount table of this session.
    fn mounts(&self) -> Result<&[Mount], Miss> {
        self.mounts
            .get_or_init(|| mounts::read(self.root))
            .as_deref()
            .map_err(Clone::clone)
    }

    /// `/proc/cpuinfo`.
    fn cpuinfo(&self) -> Result<&str, Miss> {
        self.cpuinfo
            .get_or_init(|| probe::text(self.root, "/proc/cpuinfo"))
            .as_deref()
            .map_err(Clone::clone)
    }

    /// The kernel's command line, as words.
    fn command_line(&self) -> Probe<Vec<String>> {
        let text = probe::text(self.root, "/proc/cmdline")?;
        Ok(text.split_whitespace().map(str::to_owned).collect())
    }
}

/// Takes the facts that were asked for.
struct Sink<'a> {
    only: &'a [String],
    facts: Facts,
}

impl Sink<'_> {
    /// Adds the fact, probing only when it was asked for.
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
