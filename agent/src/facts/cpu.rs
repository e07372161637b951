// SPDX-License-Identifier: Apache-2.0
//! Processor: model, topology, core types, instruction set level, mitigations.

use std::collections::{BTreeMap, BTreeSet};

use super::probe::{absent, cpu_list, garbage, list, number, switch, text, unknown, Miss, Probe};
use super::{Machine, Sink};
use crate::root::Root;

const CPUS: &str = "/sys/devices/system/cpu";
/// Prefixes of processor event sources, besides plain `cpu`.
const COUNTERS: [&str; 6] = ["cpu_core", "cpu_atom", "armv8", "armv9", "apple_", "riscv"];

pub(super) fn collect(machine: &Machine, sink: &mut Sink) {
    let root = machine.root;
    sink.add("cpu.model", || machine.cpuinfo().and_then(model));
    sink.add("cpu.vendor", || machine.cpuinfo().and_then(vendor));
    sink.add("cpu.architecture", || architecture(root));
    sink.add("cpu.level", || level(&architecture(root)?, machine.cpuinfo()?));
    sink.add("cpu.threads", || Ok(online(machine)?.len()));
    sink.add("cpu.online", || online(machine));
    sink.add("cpu.cores", || groups(machine, "thread_siblings_list", "core id"));
    sink.add("cpu.sockets", || {
        groups(machine, "physical_package_id", "physical id")
    });
    sink.add("cpu.smt", || simultaneous_threads(machine));
    sink.add("cpu.performance_cores", || Ok(kinds(machine)?.performance));
    sink.add("cpu.efficiency_cores", || Ok(kinds(machine)?.efficiency));
    sink.add("cpu.microcode", || microcode(machine));
    sink.add("cpu.mitigations", || mitigations(root));
    sink.add("cpu.counters", || has_counters(root));
}

/// Returns the distinct values of a key in `/proc/cpuinfo`, in order of appearance.
fn values<'a>(cpuinfo: &'a str, key: &str) -> Vec<&'a str> {
    let mut found = Vec::new();
    for line in cpuinfo.lines() {
        let Some((name, value)) = line.split_once(':') else {
            continue;
        };
        let value = value.trim();
        if name.trim() == key && !value.is_empty() && !found.contains(&value) {
            found.push(value);
        }
    }
    found
}

fn model(cpuinfo: &str) -> Probe<String> {
    for key in ["model name", "cpu model", "cpu", "uarch"] {
        let names = values(cpuinfo, key);
        if !names.is_empty() {
            return Ok(names.join(" + "));
        }
    }
    let parts: Vec<String> = arm_cores(cpuinfo)
        .iter()
        .map(|core| arm_name(core.0, core.1))
        .collect();
    if !parts.is_empty() {
        return Ok(parts.join(" + "));
    }
    match values(cpuinfo, "Hardware").first() {
        Some(hardware) => Ok((*hardware).to_owned()),
        None => unknown("/proc/cpuinfo lists no model"),
    }
}

fn vendor(cpuinfo: &str) -> Probe<String> {
    if let Some(id) = values(cpuinfo, "vendor_id").first() {
        let name = match *id {
            "AuthenticAMD" => "AMD",
            "GenuineIntel" => "Intel",
            "HygonGenuine" => "Hygon",
            "CentaurHauls" => "VIA",
            "Shanghai" => "Zhaoxin",
            other => other,
        };
        return Ok(name.to_owned());
    }
    match arm_cores(cpuinfo).first() {
        Some((implementer, _)) => Ok(arm_vendor(*implementer)),
        None => unknown("/proc/cpuinfo lists no vendor"),
    }
}

/// Returns the distinct (implementer, part) pairs of an ARM `/proc/cpuinfo`.
fn arm_cores(cpuinfo: &str) -> Vec<(u32, u32)> {
    let mut cores = Vec::new();
    let mut implementer = None;
    for line in cpuinfo.lines() {
        let Some((name, value)) = line.split_once(':') else {
            continue;
        };
        let number = u32::from_str_radix(value.trim().trim_start_matches("0x"), 16).ok();
        match (name.trim(), number, implementer) {
            ("CPU implementer", number, _) => implementer = number,
            ("CPU part", Some(part), Some(implementer)) if !cores.contains(&(implementer, part)) => {
                cores.push((implementer, part));
            }
            _ => {}
        }
    }
    cores
}

/// Returns the name of an implementer code in the Main ID Register (Arm Architecture Reference
/// Manual, `MIDR_EL1`).
fn arm_vendor(implementer: u32) -> String {
    let name = match implementer {
        0x41 => "ARM",
        0x42 => "Broadcom",
        0x43 => "Cavium",
        0x46 => "Fujitsu",
        0x48 => "HiSilicon",
        0x4e => "NVIDIA",
        0x50 => "APM",
        0x51 => "Qualcomm",
        0x53 => "Samsung",
        0x61 => "Apple",
        0x6d => "Microsoft",
        0xc0 => "Ampere",
        other => return format!("implementer {other:#04x}"),
    };
    name.to_owned()
}

fn arm_name(implementer: u32, part: u32) -> String {
    let name = match (implementer, part) {
        (0x41, 0xd03) => "Cortex-A53",
        (0x41, 0xd05) => "Cortex-A55",
        (0x41, 0xd07) => "Cortex-A57",
        (0x41, 0xd08) => "Cortex-A72",
        (0x41, 0xd09) => "Cortex-A73",
        (0x41, 0xd0a) => "Cortex-A75",
        (0x41, 0xd0b) => "Cortex-A76",
        (0x41, 0xd0c) => "Neoverse-N1",
        (0x41, 0xd0d) => "Cortex-A77",
        (0x41, 0xd40) => "Neoverse-V1",
        (0x41, 0xd41) => "Cortex-A78",
        (0x41, 0xd44) => "Cortex-X1",
        (0x41, 0xd46) => "Cortex-A510",
        (0x41, 0xd47) => "Cortex-A710",
        (0x41, 0xd48) => "Cortex-X2",
        (0x41, 0xd49) => "Neoverse-N2",
        (0x41, 0xd4d) => "Cortex-A715",
        (0x41, 0xd4e) => "Cortex-X3",
        (0x41, 0xd4f) => "Neoverse-V2",
        (0x41, 0xd80) => "Cortex-A520",
        (0x41, 0xd81) => "Cortex-A720",
        (0x41, 0xd82) => "Cortex-X4",
        _ => return format!("{} part {part:#05x}", arm_vendor(implementer)),
    };
    name.to_owned()
}

/// Returns the machine's architecture: from `/proc/sys/kernel/arch` on kernels that have it,
/// otherwise from uname.
fn architecture(root: &Root) -> Probe<String> {
    const PATH: &str = "/proc/sys/kernel/arch";
    let is_name = |name: &str| {
        name.chars()
            .all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
    };
    match text(root, PATH) {
        Ok(name) if !is_name(&name) => Err(garbage(PATH, "the name of an architecture", &name)),
        Err(_) if root.is_real() => Ok(rustix::system::uname().machine().to_string_lossy().into_owned()),
        found => found.map_err(Miss::into_unknown),
    }
}

/// The flags that each x86-64 level adds, in the kernel's spelling (x86-64 psABI,
/// "Micro-Architecture Levels").
const LEVELS: [&[&str]; 4] = [
    &[
        "lm", "cmov", "cx8", "fpu", "fxsr", "mmx", "syscall", "sse", "sse2",
    ],
    &["cx16", "lahf_lm", "popcnt", "pni", "sse4_1", "sse4_2", "ssse3"],
    &[
        "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave",
    ],
    &["avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"],
];

fn level(architecture: &str, cpuinfo: &str) -> Probe<usize> {
    if architecture != "x86_64" {
        return absent(format!("{architecture} has no x86-64 level"));
    }
    let flags: BTreeSet<&str> = match values(cpuinfo, "flags").first() {
        Some(flags) => flags.split_whitespace().collect(),
        None => return unknown("/proc/cpuinfo has no flags"),
    };
    match LEVELS
        .iter()
        .take_while(|level| level.iter().all(|flag| flags.contains(flag)))
        .count()
    {
        0 => unknown("the flags in /proc/cpuinfo do not reach level 1"),
        level => Ok(level),
    }
}

fn online(machine: &Machine) -> Probe<Vec<u32>> {
    cpu_list(machine.root, &format!("{CPUS}/online")).or_else(|miss| {
        let cpuinfo = machine.cpuinfo().map_err(|_| miss)?;
        let processors: Vec<u32> = values(cpuinfo, "processor")
            .iter()
            .filter_map(|number| number.parse().ok())
            .collect();
        if processors.is_empty() {
            return unknown("/proc/cpuinfo lists no processor");
        }
        Ok(processors)
    })
}

/// Counts the groups of online CPUs by a topology file, or by a key of `/proc/cpuinfo` if that
/// fails.
fn groups(machine: &Machine, file: &str, key: &str) -> Probe<usize> {
    let mut seen = BTreeSet::new();
    let mut missed = None;
    for cpu in online(machine)? {
        match text(machine.root, &format!("{CPUS}/cpu{cpu}/topology/{file}")) {
            Ok(group) if group != "-1" => {
                seen.insert(group);
            }
            Ok(_) => {
                missed = Some(Miss::Unknown(format!(
                    "the kernel does not know {file} of cpu{cpu}"
                )));
            }
            Err(miss) => missed = Some(miss.into_unknown()),
        }
    }
    let Some(miss) = missed else { return Ok(seen.len()) };
    match machine
        .cpuinfo()
        .map_or(0, |cpuinfo| cpuinfo_groups(cpuinfo, key))
    {
        0 => Err(miss),
        count => Ok(count),
    }
}

/// Counts the distinct (package, value of `key`) pairs in `/proc/cpuinfo`.
fn cpuinfo_groups(cpuinfo: &str, key: &str) -> usize {
    let of = |section: &str, key: &str| values(section, key).first().map(|value| (*value).to_owned());
    let groups: BTreeSet<_> = cpuinfo
        .split("\n\n")
        .filter_map(|section| Some((of(section, "physical id"), of(section, key)?)))
        .collect();
    groups.len()
}

fn simultaneous_threads(machine: &Machine) -> Probe<bool> {
    switch(machine.root, &format!("{CPUS}/smt/active")).or_else(|_| {
        let threads = online(machine)?.len();
        Ok(groups(machine, "thread_siblings_list", "core id")? < threads)
    })
}

/// Logical CPUs by core type.
#[derive(Debug, PartialEq)]
struct Kinds {
    performance: Vec<u32>,
    efficiency: Vec<u32>,
}

fn kinds(machine: &Machine) -> Probe<Kinds> {
    let root = machine.root;
    if let Ok(efficiency) = cpu_list(root, "/sys/devices/cpu_atom/cpus") {
        let performance = cpu_list(root, "/sys/devices/cpu_core/cpus")?;
        return Ok(Kinds {
            performance,
            efficiency,
        });
    }
    let cpus = online(machine)?;
    let mut readable = false;
    for file in [
        "cpu_capacity",
        "cpufreq/base_frequency",
        "cpufreq/cpuinfo_max_freq",
    ] {
        let values: Option<Vec<(u32, i64)>> = cpus
            .iter()
            .map(|cpu| Some((*cpu, number(root, &format!("{CPUS}/cpu{cpu}/{file}")).ok()?)))
            .collect();
        let Some(values) = values else { continue };
        readable = true;
        if let Some(kinds) = split(&values) {
            return Ok(kinds);
        }
    }
    if readable {
        return absent("all cores have the same type");
    }
    unknown("the kernel shows no core types, capacities or frequencies")
}

/// Splits CPUs by strength. A few cores that clock slightly higher are not another type: the
/// weakest must be below 80 % of the strongest, and cores within 10 % of the weakest belong to it.
fn split(values: &[(u32, i64)]) -> Option<Kinds> {
    let weakest = values.iter().map(|value| value.1).min()?;
    let strongest = values.iter().map(|value| value.1).max()?;
    if weakest <= 0 || weakest.saturating_mul(10) >= strongest.saturating_mul(8) {
        return None;
    }
    let is_weak = |value: &&(u32, i64)| value.1.saturating_mul(10) <= weakest.saturating_mul(11);
    Some(Kinds {
        performance: values
            .iter()
            .filter(|value| !is_weak(value))
            .map(|value| value.0)
            .collect(),
        efficiency: values.iter().filter(is_weak).map(|value| value.0).collect(),
    })
}

fn microcode(machine: &Machine) -> Probe<String> {
    let cpuinfo = machine.cpuinfo()?;
    match values(cpuinfo, "microcode").first() {
        Some(revision) => Ok((*revision).to_owned()),
        None => text(machine.root, &format!("{CPUS}/cpu0/microcode/version")),
    }
}

/// Whether the processor's performance counters are available; guests often have none.
fn has_counters(root: &Root) -> Probe<bool> {
    let units = list(root, "/sys/bus/event_source/devices")?;
    Ok(units
        .iter()
        .any(|unit| unit == "cpu" || COUNTERS.iter().any(|name| unit.starts_with(name))))
}

fn mitigations(root: &Root) -> Probe<BTreeMap<String, String>> {
    let folder = format!("{CPUS}/vulnerabilities");
    let mut table = BTreeMap::new();
    for name in list(root, &folder)? {
        let path = format!("{folder}/{name}");
        if let Ok(status) = text(root, &path) {
            table.insert(name, status);
        }
    }
    if table.is_empty() {
        return Err(garbage(&folder, "a folder of vulnerabilities", ""));
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(levels: usize) -> String {
        let flags: Vec<&str> = LEVELS[..levels].concat();
        format!("processor : 0\nflags : {}", flags.join(" "))
    }

    #[test]
    fn each_level_needs_all_its_flags() {
        for wanted in 1..=4 {
            assert_eq!(level("x86_64", &flags(wanted)), Ok(wanted));
        }
        assert_eq!(level("x86_64", &flags(4).replace("movbe", "")), Ok(2));
        assert!(matches!(level("x86_64", "flags : sse"), Err(Miss::Unknown(_))));
        assert!(matches!(level("aarch64", &flags(4)), Err(Miss::Absent(_))));
    }

    #[test]
    fn arm_cores_have_names_without_a_model_name() {
        let phone = "processor : 0\nCPU implementer : 0x41\nCPU part : 0xd05\n\nprocessor : 1\nCPU implementer : 0x41\nCPU part : 0xd0d\n\nprocessor : 2\nCPU implementer : 0x41\nCPU part : 0xd05\n";
        assert_eq!(model(phone).unwrap(), "Cortex-A55 + Cortex-A77");
        assert_eq!(vendor(phone).unwrap(), "ARM");
        assert_eq!(
            model("CPU implementer : 0x61\nCPU part : 0x022\n").unwrap(),
            "Apple part 0x022"
        );
        assert!(matches!(model("garbage\n\0"), Err(Miss::Unknown(_))));
    }

    #[test]
    fn kinds_are_told_from_favoured_cores() {
        assert_eq!(split(&[(0, 5_000_000), (1, 5_300_000)]), None);
        let kinds = split(&[(0, 160), (1, 170), (2, 500), (3, 1024)]).unwrap();
        assert_eq!(
            kinds,
            Kinds {
                performance: vec![2, 3],
                efficiency: vec![0, 1]
            }
        );
        assert_eq!(split(&[]), None);
        assert_eq!(split(&[(0, i64::MIN), (1, i64::MAX)]), None);
    }
}
