// SPDX-License-Identifier: Apache-2.0
//! Kernel: release, configuration, tick, preemption, taints, lockdown, clock source, modules.

use super::probe::{absent, choice, count, garbage, parse_choice, text, unknown, Miss, Probe};
use super::{Machine, Sink};
use crate::bytes::hexadecimal;
use crate::root::Root;

pub(super) fn collect(machine: &Machine, sink: &mut Sink) {
    let root = machine.root;
    sink.add("kernel.release", || text(root, "/proc/sys/kernel/osrelease"));
    sink.add("kernel.version", || text(root, "/proc/sys/kernel/version"));
    sink.add("kernel.build_id", || build_id(root));
    sink.add("kernel.config_source", || Ok(machine.config()?.source.clone()));
    sink.add("kernel.config_hash", || Ok(machine.config()?.hash.clone()));
    sink.add("kernel.config", || Ok(&machine.config()?.symbols));
    sink.add("kernel.command_line", || text(root, "/proc/cmdline"));
    sink.add("kernel.tick_rate", || {
        let rate = machine.config()?.get("HZ");
        rate.parse::<u32>()
            .map_err(|_| garbage("CONFIG_HZ", "a number", rate))
    });
    sink.add("kernel.preemption", || preemption(machine));
    sink.add("kernel.taints", || {
        Ok(taints(count(root, "/proc/sys/kernel/tainted")?))
    });
    sink.add("kernel.lockdown", || lockdown(machine));
    sink.add("kernel.clocksource", || {
        text(
            root,
            "/sys/devices/system/clocksource/clocksource0/current_clocksource",
        )
    });
    sink.add("kernel.modules", || modules(root));
}

const NOTES: &str = "/sys/kernel/notes";

/// Returns the linker's hash of the whole image, which differs between any two builds whose bytes
/// differ.
fn build_id(root: &Root) -> Probe<String> {
    let notes = root
        .read_bytes(NOTES)
        .map_err(|error| Miss::from_io(root, NOTES, &error))?;
    gnu_build_id(&notes).map_or_else(|| unknown(format!("{NOTES} has no build ID")), Ok)
}

/// Finds the ELF note with the name `GNU` and type 3. Fields are padded to four bytes.
fn gnu_build_id(mut notes: &[u8]) -> Option<String> {
    const BUILD_ID: usize = 3;
    while let Some((header, rest)) = notes.split_at_checked(12) {
        let number = |at: usize| {
            let bytes = header.get(at..at + 4)?.try_into().ok()?;
            usize::try_from(u32::from_ne_bytes(bytes)).ok()
        };
        let (name_length, length, kind) = (number(0)?, number(4)?, number(8)?);
        let (name, rest) = rest.split_at_checked(name_length.checked_next_multiple_of(4)?)?;
        let description = rest.get(..length)?;
        if kind == BUILD_ID && name.starts_with(b"GNU\0") && !description.is_empty() {
            return Some(hexadecimal(description));
        }
        notes = rest.get(length.checked_next_multiple_of(4)?..)?;
    }
    None
}

const MODELS: [&str; 4] = ["none", "voluntary", "full", "lazy"];

/// Returns the preemption model in force: from debugfs, otherwise from the command line or the
/// configuration.
fn preemption(machine: &Machine) -> Probe<String> {
    let version = text(machine.root, "/proc/sys/kernel/version").unwrap_or_default();
    let says = |word: &str| version.split_whitespace().any(|found| found == word);
    let config = machine.config();
    if says("PREEMPT_RT") || config.as_ref().is_ok_and(|config| config.is_on("PREEMPT_RT")) {
        return Ok("rt".to_owned());
    }
    let in_force = text(machine.root, "/sys/kernel/debug/sched/preempt").ok();
    if let Some((model, _)) = in_force.and_then(|text| parse_choice(&text, '(', ')')) {
        return Ok(model);
    }
    let dynamic = says("PREEMPT_DYNAMIC")
        || config
            .as_ref()
            .is_ok_and(|config| config.is_on("PREEMPT_DYNAMIC"));
    if dynamic {
        let words = machine.command_line()?;
        let chosen = words.iter().rev().find_map(|word| word.strip_prefix("preempt="));
        if let Some(model) = chosen.filter(|model| MODELS.contains(model)) {
            return Ok(model.to_owned());
        }
    }
    match config {
        Ok(config) => {
            let symbols = [
                ("PREEMPT_NONE", "none"),
                ("PREEMPT_VOLUNTARY", "voluntary"),
                ("PREEMPT_LAZY", "lazy"),
                ("PREEMPT", "full"),
            ];
            let chosen = symbols.iter().find(|(symbol, _)| config.is_on(symbol));
            chosen.map_or_else(
                || unknown("the configuration selects no preemption model"),
                |(_, model)| Ok((*model).to_owned()),
            )
        }
        Err(_) if dynamic => {
            unknown("PREEMPT_DYNAMIC, but neither debugfs, command line nor configuration shows the model")
        }
        Err(_) if says("PREEMPT_LAZY") => Ok("lazy".to_owned()),
        Err(_) if says("PREEMPT") => Ok("full".to_owned()),
        Err(_) => unknown("none or voluntary: the configuration cannot be read"),
    }
}

/// Letters of the taint flags, bit by bit (the kernel's
/// Documentation/admin-guide/tainted-kernels.rst).
const TAINTS: &str = "PFSRMBUDAWCIOELKXTNJ";

fn taints(flags: u64) -> Vec<String> {
    let letters: Vec<char> = TAINTS.chars().collect();
    let set = (0..64).filter(|bit| flags >> bit & 1 == 1);
    set.map(|bit| {
        letters
            .get(bit)
            .map_or_else(|| format!("bit {bit}"), char::to_string)
    })
    .collect()
}

fn lockdown(machine: &Machine) -> Probe<String> {
    match choice(machine.root, "/sys/kernel/security/lockdown") {
        Ok((level, _)) => Ok(level),
        Err(Miss::Absent(why)) => match machine.config() {
            Ok(config) if !config.is_on("SECURITY_LOCKDOWN_LSM") => {
                absent("this kernel is built without lockdown")
            }
            _ => unknown(format!("{why} (is securityfs mounted?)")),
        },
        Err(miss) => Err(miss),
    }
}

fn modules(root: &Root) -> Probe<Vec<String>> {
    let bytes = root
        .read_bytes("/proc/modules")
        .map_err(|error| Miss::from_io(root, "/proc/modules", &error))?;
    let text = String::from_utf8_lossy(&bytes);
    let mut names: Vec<String> = text
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .map(str::to_owned)
        .collect();
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(name: &[u8], description: &[u8], kind: u32) -> Vec<u8> {
        let length = |part: &[u8]| u32::try_from(part.len()).unwrap();
        let lengths = [length(name), length(description), kind];
        let mut bytes: Vec<u8> = lengths.iter().flat_map(|number| number.to_ne_bytes()).collect();
        for part in [name, description] {
            bytes.extend_from_slice(part);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        bytes
    }

    #[test]
    fn the_build_id_is_found_among_other_notes() {
        let other = note(b"Linux\0", &[1, 2, 3, 4, 5], 0x101);
        let own = note(b"GNU\0", &[0x48, 0xdc, 0x0c], 3);
        let notes = [other.clone(), own].concat();
        assert_eq!(gnu_build_id(&notes).as_deref(), Some("48dc0c"));
        assert_eq!(gnu_build_id(&other), None);
        for cut in 0..notes.len() - 1 {
            assert_eq!(gnu_build_id(&notes[..cut]), None);
        }
        assert_eq!(gnu_build_id(&[0xff; 40]), None);
    }

    #[test]
    fn taint_letters() {
        assert!(taints(0).is_empty());
        assert_eq!(taints(1 | 1 << 12 | 1 << 13), ["P", "O", "E"]);
        assert_eq!(taints(1 << 18 | 1 << 40), ["N", "bit 40"]);
    }
}
