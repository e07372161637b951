// SPDX-License-Identifier: Apache-2.0
//! Identifies the kernel's scheduler by its features, never by a version number.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use super::probe::{absent, number, seen, text, unknown, Miss, Probe};
use super::{Machine, Sink};
use crate::root::Root;
use crate::sys;

const FEATURES: [&str; 2] = [
    "/sys/kernel/debug/sched/features",
    "/sys/kernel/debug/sched_features",
];

pub(super) fn collect(machine: &Machine, sink: &mut Sink) {
    let root = machine.root;
    sink.add("kernel.scheduler", || Ok(identity(machine)?.to_owned()));
    sink.add("kernel.scheduler_version", || version(machine));
    sink.add("kernel.sched_ext_state", || {
        text(root, "/sys/kernel/sched_ext/state")
    });
    sink.add("kernel.sched_ext_name", || {
        let state = text(root, "/sys/kernel/sched_ext/state")?;
        match text(root, "/sys/kernel/sched_ext/root/ops") {
            Err(Miss::Absent(_)) => absent(format!("sched_ext is {state}: no scheduler is loaded")),
            found => found,
        }
    });
}

fn identity(machine: &Machine) -> Probe<&'static str> {
    if let Some(name) = patched(machine)? {
        return Ok(name);
    }
    let probes = [by_debugfs, by_sysctl, by_task, by_type_information];
    match probes.iter().find_map(|probe| probe(machine.root)) {
        Some(name) => Ok(name),
        None => unknown("neither debugfs, /proc/self/sched nor the kernel's BTF shows the scheduler"),
    }
}

/// Detects schedulers that replace or change the kernel's own.
fn patched(machine: &Machine) -> Probe<Option<&'static str>> {
    let config = machine.config().ok();
    let is_on = |symbol: &str| config.is_some_and(|config| config.is_on(symbol));
    match number(machine.root, "/proc/sys/kernel/sched_bore") {
        Ok(0) => return Ok(None),
        Ok(_) => return Ok(Some("BORE")),
        Err(Miss::Absent(_)) => {}
        Err(miss) => return Err(miss),
    }
    if is_on("SCHED_BORE") {
        return Ok(Some("BORE"));
    }
    if is_on("SCHED_PDS") {
        return Ok(Some("PDS"));
    }
    if is_on("SCHED_BMQ") {
        return Ok(Some("BMQ"));
    }
    if is_on("SCHED_ALT") || seen(machine.root, "/proc/sys/kernel/yield_type") {
        return unknown("PDS or BMQ: the configuration does not show which");
    }
    Ok(None)
}

/// Returns the scheduler that debugfs shows: EEVDF places tasks by lag and has a base slice; CFS
/// has gentle sleepers and a latency target.
fn by_debugfs(root: &Root) -> Option<&'static str> {
    for path in FEATURES {
        let Ok(features) = text(root, path) else { continue };
        let has = |name: &str| {
            features
                .split_whitespace()
                .any(|word| word.trim_start_matches("NO_") == name)
        };
        if has("PLACE_LAG") || has("RUN_TO_PARITY") {
            return Some("EEVDF");
        }
        if has("GENTLE_FAIR_SLEEPERS") {
            return Some("CFS");
        }
    }
    if seen(root, "/sys/kernel/debug/sched/base_slice_ns") {
        return Some("EEVDF");
    }
    seen(root, "/sys/kernel/debug/sched/latency_ns").then_some("CFS")
}

/// Detects old CFS kernels, which have their latency target among the sysctls.
fn by_sysctl(root: &Root) -> Option<&'static str> {
    seen(root, "/proc/sys/kernel/sched_latency_ns").then_some("CFS")
}

/// Detects EEVDF by the task's own slice; CFS has no such line, nor do early versions of EEVDF.
fn by_task(root: &Root) -> Option<&'static str> {
    let task = text(root, "/proc/self/sched").ok()?;
    task.lines()
        .any(|line| line.starts_with("se.slice "))
        .then_some("EEVDF")
}

/// Detects EEVDF by BTF, which lists the members of a scheduling entity: only EEVDF has a lag
/// (`vlag`).
fn by_type_information(root: &Root) -> Option<&'static str> {
    let names = type_names(root)?;
    if !names.contains("\0sched_entity\0") {
        return None;
    }
    Some(if names.contains("\0vlag\0") {
        "EEVDF"
    } else {
        "CFS"
    })
}

/// Returns the string section of the kernel's BTF: names separated by zero bytes.
fn type_names(root: &Root) -> Option<String> {
    const LIMIT_BYTES: u32 = 64 << 20;
    let mut file = File::open(root.path("/sys/kernel/btf/vmlinux")).ok()?;
    let mut header = [0; 24];
    file.read_exact(&mut header).ok()?;
    let field = |at: usize| Some(u32::from_le_bytes(header.get(at..at + 4)?.try_into().ok()?));
    let (header_bytes, strings_at, strings_bytes) = (field(4)?, field(16)?, field(20)?);
    if header[..2] != [0x9f, 0xeb] || strings_bytes > LIMIT_BYTES {
        return None;
    }
    file.seek(SeekFrom::Start(u64::from(header_bytes) + u64::from(strings_at)))
        .ok()?;
    let mut names = Vec::new();
    file.take(u64::from(strings_bytes)).read_to_end(&mut names).ok()?;
    String::from_utf8(names).ok()
}

fn version(machine: &Machine) -> Probe<String> {
    let name = identity(machine)?;
    if matches!(name, "CFS" | "EEVDF") {
        return absent(format!("{name} has no version of its own"));
    }
    let banner = text(machine.root, "/proc/version").unwrap_or_default();
    if let Some(version) = find_version(&banner, name) {
        return Ok(version);
    }
    if !machine.root.is_real() {
        return unknown(format!("/proc/version does not name the version of {name}"));
    }
    let log = sys::kernel_log()
        .map_err(|error| Miss::Unknown(format!("this session may not read the kernel log: {error}")))?;
    match find_version(&log, name) {
        Some(version) => Ok(version),
        None => unknown(format!("the kernel log no longer contains the version of {name}")),
    }
}

/// Finds the version in a line such as `BORE CPU Scheduler modification 5.9.6 by …` or `sched/pds:
/// PDS CPU Scheduler v6.0 by …`.
fn find_version(text: &str, scheduler: &str) -> Option<String> {
    let marker = format!("{scheduler} CPU Scheduler");
    let line = text.lines().find_map(|line| line.split_once(&marker))?.1;
    let words = line.split_whitespace().map(|word| {
        word.trim_start_matches(['v', '('])
            .trim_end_matches([',', ')', '.'])
    });
    let is_version = |word: &&str| word.starts_with(|first: char| first.is_ascii_digit());
    words.take(3).find(is_version).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_in_the_log() {
        let log = "<6>[    0.1] x\n<6>[    0.2] BORE CPU Scheduler modification 5.9.6 by A. Uthor\n";
        assert_eq!(find_version(log, "BORE").as_deref(), Some("5.9.6"));
        assert_eq!(
            find_version("sched/pds: PDS CPU Scheduler v6.12-r0 by A. Uthor.", "PDS").as_deref(),
            Some("6.12-r0")
        );
        assert_eq!(find_version("BORE CPU Scheduler by 2 people", "PDS"), None);
        assert_eq!(find_version("BORE CPU Scheduler", "BORE"), None);
    }
}
