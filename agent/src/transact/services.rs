// SPDX-License-Identifier: Apache-2.0
//! Services that a plan may start and stop: those that tune a machine while it runs.

use crate::transact::forms::is_zram;
use crate::transact::machine::{Outcome, Refusal};
use rustix::io::Errno;

/// What tunes, or answers a shortage of memory: the services that `ktrial doctor` names as changing settings, and those
/// whose work a trial compares. None of them gives anybody access to the machine or takes it away.
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

/// Refuses a unit that is none of these.
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
            "{unit:?} is none of the services that a plan may start and stop: {}, systemd-zram-setup@zramN",
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
