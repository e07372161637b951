// SPDX-License-Identifier: Apache-2.0
//! The unit that writes at boot what no other file can, and the drop-in that starts it.

use super::{boot, drift, notes, Checked, Setting};
use std::fmt::Write as _;

/// The unit's name.
pub(super) const UNIT: &str = "ktrial-keep.service";

/// Writes one value. The shell gets path and value as arguments; systemd itself would replace `%` and `$`.
const WRITE: &str = r#"ExecStart=-/bin/sh -c 'printf "%%s\\n" "$$2" > "$$1"' ktrial"#;
const DEBUGFS: &str = "/sys/kernel/debug/";

impl Setting {
    pub(super) fn exec(&self) -> String {
        format!("{WRITE} \"{}\" \"{}\"\n", self.path, self.value)
    }
}

/// Renders the unit. A value that the kernel refuses stops neither the others nor the boot.
pub(super) fn render(settings: &[Setting]) -> String {
    let mut text = notes::HEADER.to_owned();
    text.push_str("[Unit]\nDescription=Settings that `ktrial keep` writes at boot\n");
    text.push_str(
        "After=systemd-sysctl.service systemd-tmpfiles-setup.service systemd-udev-settle.service\n",
    );
    if settings.iter().any(|one| one.path.starts_with(DEBUGFS)) {
        text.push_str("Wants=sys-kernel-debug.mount\nAfter=sys-kernel-debug.mount\n");
    }
    text.push_str("\n[Service]\nType=oneshot\nRemainAfterExit=yes\n");
    for setting in settings {
        for line in &setting.note {
            let _ = writeln!(text, "# {line}");
        }
        text.push_str(&setting.exec());
    }
    text
}

/// Renders the drop-in that makes a target start a unit.
pub(super) fn wants(unit: &str) -> String {
    let header = match unit {
        UNIT => notes::HEADER,
        drift::TIMER => drift::HEADER,
        _ => boot::HEADER,
    };
    format!("{header}[Unit]\nWants={unit}\n")
}

/// Refuses a unit that this drop-in does not start.
pub(super) fn check_wants(path: &str, unit: &str) -> Checked {
    let expected = match path {
        "/etc/systemd/system/multi-user.target.d/ktrial.conf" => UNIT,
        "/etc/systemd/system/timers.target.d/ktrial.conf" => drift::TIMER,
        "/etc/systemd/system/sysinit.target.d/ktrial-boot.conf" => boot::SERVICE,
        "/etc/systemd/system/multi-user.target.d/ktrial-boot.conf" => boot::NEXT,
        _ => return Err(format!("{path}: no unit can be started from here")),
    };
    if unit == expected {
        return Ok(());
    }
    Err(format!("{path}: expected {expected}, got {unit:?}"))
}
