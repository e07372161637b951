// SPDX-License-Identifier: Apache-2.0
//! Values that files write at boot: settings of sysctl.d and tmpfiles.d, and the unit for what no
//! other file can, with the drop-in that starts it.

use super::{boot, check_components, check_value, drift, notes, scheduler, Checked, Setting, IN_VALUES};
use std::fmt::Write as _;

/// The unit's name.
pub(super) const UNIT: &str = "ktrial-keep.service";

/// Writes one value. The shell gets path and value as arguments; systemd itself would replace `%` and `$`.
const WRITE: &str = r#"ExecStart=-/bin/sh -c 'printf "%%s\\n" "$$2" > "$$1"' ktrial"#;
const DEBUGFS: &str = "/sys/kernel/debug/";

impl Setting {
    fn sysctl_key(&self) -> Option<&str> {
        self.path.strip_prefix("/proc/sys/")
    }

    pub(super) fn check_sysctl(&self) -> Checked {
        let Some(key) = self.sysctl_key() else {
            return Err(format!("{:?} is not below /proc/sys", self.path));
        };
        if !key.contains('/') {
            return Err(format!("{:?} is not in a subfolder of /proc/sys", self.path));
        }
        check_components(&self.path, key)?;
        check_value(&self.path, &self.value, IN_VALUES)
    }

    pub(super) fn check_tmpfiles(&self) -> Checked {
        let Some(rest) = self.path.strip_prefix('/') else {
            return Err(format!("{:?} is not an absolute path", self.path));
        };
        check_components(&self.path, rest)?;
        if self.value == "-" {
            return Err(format!(
                "the value of {} may not be \"-\", which means no value",
                self.path
            ));
        }
        check_value(&self.path, &self.value, IN_VALUES)
    }

    pub(super) fn sysctl(&self) -> String {
        let key = self.sysctl_key().unwrap_or_default();
        // If the first separator is a slash, dots belong to the names; device names contain some.
        let key = if key.contains('.') {
            key.to_owned()
        } else {
            key.replace('/', ".")
        };
        format!("{key} = {}\n", self.value)
    }

    /// Returns a line that counts at boot only: packages run systemd-tmpfiles at any time.
    pub(super) fn tmpfiles(&self) -> String {
        format!("w! {} - - - - {}\n", self.path, self.value)
    }

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

/// The drop-in that starts the service of a scheduler.
const OF_SCHEDULERS: &str = "/etc/systemd/system/multi-user.target.d/ktrial-scx.conf";

/// Renders the drop-in that makes a target start a unit.
pub(super) fn wants(unit: &str) -> String {
    let header = match unit {
        UNIT => notes::HEADER,
        _ if scheduler::UNITS.contains(&unit) => notes::HEADER,
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
        OF_SCHEDULERS if unit == scheduler::UNITS[1] => scheduler::UNITS[1],
        OF_SCHEDULERS => scheduler::UNITS[0],
        _ => return Err(format!("{path}: no unit can be started from here")),
    };
    if unit == expected {
        return Ok(());
    }
    Err(format!("{path}: expected {expected}, got {unit:?}"))
}
