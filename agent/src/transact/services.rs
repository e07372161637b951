// SPDX-License-Identifier: Apache-2.0
//! The services that a plan may start and stop: those that tune a running machine.

use crate::transact::forms::is_zram;
use crate::transact::machine::{Outcome, Refusal};
use rustix::io::Errno;

/// Services that tune the machine or react to low memory: those that `ktrial doctor` reports as
/// changing settings, and those whose effect a trial compares. None of them grants or revokes
/// access to the machine.
const TUNERS: [&str; 26] = [
    "ananicy",
    "ananicy-cpp",
    "auto-cpufreq",
    "bpftune",
    "cpupower",
    "earlyoom",
    "irqbalance",
    "ksm",
    "ksmtuned",
    "laptop-mode",
    "low-memory-monitor",
    "nohang",
    "nohang-desktop",
    "numad",
    "power-profiles-daemon",
    "preload",
    "scx",
    "scx_loader",
    "systemd-oomd",
    "thermald",
    "tlp",
    "tuned",
    "tuned-ppd",
    "uksmd",
    "zramd",
    "zramswap",
];

/// Refuses any other unit.
pub fn check(unit: &str) -> Result<(), Refusal> {
    let name = unit.strip_suffix(".service").unwrap_or(unit);
    let of_zram = name.strip_prefix("systemd-zram-setup@").is_some_and(is_zram);
    if of_zram || TUNERS.contains(&name) {
        return Ok(());
    }
    Err(Refusal {
        outcome: Outcome::Forbidden,
        errno: Errno::PERM.raw_os_error(),
        message: format!(
            "a plan may not start or stop {unit:?}, only {}, systemd-zram-setup@zramN",
            TUNERS.join(", ")
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_services_that_tune_are_started_and_stopped() {
        for unit in [
            "irqbalance",
            "tuned.service",
            "systemd-zram-setup@zram0.service",
            "systemd-zram-setup@zram12",
        ] {
            assert!(check(unit).is_ok(), "{unit}");
        }
        for unit in [
            "debug-shell.service",
            "poweroff.target",
            "ssh.service",
            "ktrial-recover.service",
            "tuned.socket",
            "tuned.service.service",
            "systemd-zram-setup@zram.service",
            "systemd-zram-setup@zram0\\x2f.service",
            "systemd-zram-setup@sda.service",
            "/tmp/tuned.service",
            "tuned ",
            "--root=/tmp",
            "",
        ] {
            assert_eq!(check(unit).unwrap_err().outcome, Outcome::Forbidden, "{unit}");
        }
    }
}
