// SPDX-License-Identifier: Apache-2.0
//! Memory management switches, pressure, control groups, and access to kernel internals.

use std::fs::File;
use std::io;

use super::probe::{absent, choice, list, number, seen, switch, text, Miss, Probe};
use super::{Machine, Sink};
use crate::root::Root;

pub(super) fn collect(machine: &Machine, sink: &mut Sink) {
    let root = machine.root;
    sink.add("thp.enabled", || {
        Ok(choice(root, "/sys/kernel/mm/transparent_hugepage/enabled")?.0)
    });
    sink.add("mglru.enabled", || {
        Ok(number(root, "/sys/kernel/mm/lru_gen/enabled")? & 1 == 1)
    });
    // 2 means unmerge and stop.
    sink.add("ksm.running", || Ok(number(root, "/sys/kernel/mm/ksm/run")? == 1));
    sink.add("zswap.enabled", || {
        switch(root, "/sys/module/zswap/parameters/enabled")
    });
    sink.add("psi.available", || pressure(root));
    sink.add("cgroup.version", || cgroup_version(machine));
    sink.add("tracing.tracefs", || {
        let places = [
            "/sys/kernel/tracing/current_tracer",
            "/sys/kernel/debug/tracing/current_tracer",
        ];
        Ok(places.iter().any(|path| opens(root, path)))
    });
    sink.add("tracing.debugfs", || Ok(debugfs(root)));
}

/// Whether the kernel reports pressure. A kernel booted with `psi=0` has the files but refuses to
/// read them.
fn pressure(root: &Root) -> Probe<bool> {
    const PATH: &str = "/proc/pressure/memory";
    match root.read_bytes(PATH) {
        Ok(_) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(false),
        Err(error) => match Miss::from_io(root, PATH, &error) {
            Miss::Absent(_) => Ok(false),
            Miss::Unknown(_) if error.kind() == io::ErrorKind::PermissionDenied => Ok(false),
            miss @ Miss::Unknown(_) => Err(miss),
        },
    }
}

fn cgroup_version(machine: &Machine) -> Probe<u8> {
    let mounts = machine.mounts()?;
    if mounts
        .iter()
        .any(|mount| mount.kind == "cgroup" && mount.options.iter().any(|option| option == "cpu"))
    {
        return Ok(1);
    }
    for mount in mounts.iter().filter(|mount| mount.kind == "cgroup2") {
        let controllers =
            text(machine.root, &format!("{}/cgroup.controllers", mount.point)).unwrap_or_default();
        if controllers
            .split_whitespace()
            .any(|controller| controller == "cpu")
        {
            return Ok(2);
        }
    }
    absent("no mounted hierarchy has the cpu controller")
}

/// Whether this session may open a file for reading. Kernel lockdown denies opening, not listing.
fn opens(root: &Root, path: &str) -> bool {
    File::open(root.path(path)).is_ok()
}

fn debugfs(root: &Root) -> bool {
    const FOLDER: &str = "/sys/kernel/debug";
    if !list(root, FOLDER).is_ok_and(|names| !names.is_empty()) {
        return false;
    }
    let usual = [
        "sched/features",
        "sched/debug",
        "wakeup_sources",
        "devices_deferred",
        "suspend_stats",
        "gpio",
    ];
    let mut present = usual
        .iter()
        .map(|name| format!("{FOLDER}/{name}"))
        .filter(|path| seen(root, path))
        .peekable();
    present.peek().is_none() || present.any(|path| opens(root, &path))
}
