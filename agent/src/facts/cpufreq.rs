// SPDX-License-Identifier: Apache-2.0
//! The processor's frequency and idle drivers.

use serde::Serialize;

use super::probe::{absent, count, cpu_list, list, switch, text, Miss, Probe};
use super::{Machine, Sink};
use crate::root::Root;

const FOLDER: &str = "/sys/devices/system/cpu/cpufreq";

pub(super) fn collect(machine: &Machine, sink: &mut Sink) {
    let root = machine.root;
    sink.add("cpufreq.driver", || first(root, "scaling_driver"));
    sink.add("cpufreq.governor", || first(root, "scaling_governor"));
    sink.add("cpufreq.preference", || {
        first(root, "energy_performance_preference")
    });
    sink.add("cpufreq.boost", || boost(root));
    sink.add("cpufreq.policies", || {
        Ok(policies(root)?
            .into_iter()
            .map(|name| policy(root, name))
            .collect::<Vec<_>>())
    });
    sink.add("cpuidle.driver", || idle_driver(root));
}

/// Returns the names of the policies; at least one.
fn policies(root: &Root) -> Probe<Vec<String>> {
    let mut names = list(root, FOLDER)?;
    names.retain(|name| name.starts_with("policy"));
    if names.is_empty() {
        return absent("no cpufreq driver serves this processor");
    }
    Ok(names)
}

/// Reads a file of the first policy.
fn first(root: &Root, file: &str) -> Probe<String> {
    let names = policies(root)?;
    text(root, &format!("{FOLDER}/{}/{file}", names[0]))
}

fn boost(root: &Root) -> Probe<bool> {
    match switch(root, "/sys/devices/system/cpu/intel_pstate/no_turbo") {
        Err(Miss::Absent(_)) => {}
        found => return found.map(|off| !off),
    }
    match switch(root, &format!("{FOLDER}/boost")) {
        Err(Miss::Absent(_)) => switch(root, &format!("{FOLDER}/{}/boost", policies(root)?[0])),
        found => found,
    }
}

/// A cpufreq policy. The frequencies are the hardware's, not the configured limits.
#[derive(Debug, Serialize)]
struct Policy {
    name: String,
    cpus: Option<Vec<u32>>,
    driver: Option<String>,
    governor: Option<String>,
    governors: Option<Vec<String>>,
    minimum_khz: Option<u64>,
    maximum_khz: Option<u64>,
}

fn policy(root: &Root, name: String) -> Policy {
    let path = |file: &str| format!("{FOLDER}/{name}/{file}");
    let governors = text(root, &path("scaling_available_governors")).ok();
    Policy {
        cpus: cpu_list(root, &path("affected_cpus")).ok(),
        driver: text(root, &path("scaling_driver")).ok(),
        governor: text(root, &path("scaling_governor")).ok(),
        governors: governors.map(|names| names.split_whitespace().map(str::to_owned).collect()),
        minimum_khz: count(root, &path("cpuinfo_min_freq")).ok(),
        maximum_khz: count(root, &path("cpuinfo_max_freq")).ok(),
        name,
    }
}

fn idle_driver(root: &Root) -> Probe<String> {
    let driver = text(root, "/sys/devices/system/cpu/cpuidle/current_driver")?;
    if driver == "none" {
        return absent("no cpuidle driver serves this processor");
    }
    Ok(driver)
}
