// SPDX-License-Identifier: Apache-2.0
//! Services that tune the running machine.

use std::collections::BTreeSet;

use super::probe::{seen, Miss, Probe};
use super::{Machine, Sink};
use crate::root::Root;

/// Length of process names in the kernel: 15 bytes.
const NAME_BYTES: usize = 15;

const SERVICES: [&str; 18] = [
    "ananicy",
    "ananicy-cpp",
    "auto-cpufreq",
    "earlyoom",
    "gamemoded",
    "irqbalance",
    "ksmtuned",
    "laptop_mode",
    "nohang",
    "power-profiles-daemon",
    "scx_loader",
    "systemd-oomd",
    "thermald",
    "tlp",
    "tuned",
    "tuned-ppd",
    "uksmd",
    "zramd",
];

pub(super) fn collect(machine: &Machine, sink: &mut Sink) {
    sink.add("services.active", || active(machine.root));
}

fn active(root: &Root) -> Probe<BTreeSet<String>> {
    let names = root
        .list("/proc")
        .map_err(|error| Miss::from_io(root, "/proc", &error))?;
    let mut found = BTreeSet::new();
    for process in names
        .iter()
        .filter(|name| name.starts_with(|first: char| first.is_ascii_digit()))
    {
        // A process may end meanwhile.
        let Ok(name) = root.read_text(&format!("/proc/{process}/comm")) else {
            continue;
        };
        found.extend(service(&name));
    }
    // TLP applies its settings and exits; its mark stays until the next boot.
    if seen(root, "/run/tlp/last_pwr") {
        found.insert("tlp".to_owned());
    }
    Ok(found)
}

/// Returns the service with this process name.
fn service(name: &str) -> Option<String> {
    if name.starts_with("scx_") {
        return Some(name.to_owned());
    }
    let is_ours = |service: &&&str| name == service.get(..NAME_BYTES).unwrap_or(service);
    SERVICES.iter().find(is_ours).map(|service| (*service).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cut_by_the_kernel() {
        assert_eq!(
            service("power-profiles-").as_deref(),
            Some("power-profiles-daemon")
        );
        assert_eq!(service("scx_lavd").as_deref(), Some("scx_lavd"));
        assert_eq!(service("tuned").as_deref(), Some("tuned"));
        assert_eq!(service("ksmtuned").as_deref(), Some("ksmtuned"));
        assert_eq!(service("bash"), None);
        assert_eq!(service("power"), None);
    }
}
