// SPDX-License-Identifier: Apache-2.0
//! Where the files of each kind are stored.

use super::{boot, drift, unit};

/// Where files of a kind are stored.
pub(super) struct Kind {
    pub(super) name: &'static str,
    pub(super) folder: &'static str,
    /// How the names of its files end; without a dot at the beginning, the only name.
    pub(super) ending: &'static str,
}

/// The kinds of files; some have several places.
pub(super) const KINDS: [Kind; 25] = [
    Kind::new("sysctl.d", "/etc/sysctl.d", ".conf"),
    Kind::new("tmpfiles.d", "/etc/tmpfiles.d", ".conf"),
    Kind::new("modprobe.d", "/etc/modprobe.d", ".conf"),
    Kind::new("udev", "/etc/udev/rules.d", ".rules"),
    Kind::new("zram-generator", "/etc/systemd/zram-generator.conf.d", ".conf"),
    Kind::new("systemd-unit", "/etc/systemd/system", unit::UNIT),
    Kind::new(
        "systemd-wants",
        "/etc/systemd/system/multi-user.target.d",
        "ktrial.conf",
    ),
    Kind::new("grub.d", "/etc/default/grub.d", ".cfg"),
    Kind::new("drift-service", "/etc/systemd/system", drift::SERVICE),
    Kind::new("drift-timer", "/etc/systemd/system", drift::TIMER),
    Kind::new(
        "systemd-wants",
        "/etc/systemd/system/timers.target.d",
        "ktrial.conf",
    ),
    Kind::new("grub-entries", "/boot/grub", "custom.cfg"),
    Kind::new("grub-entries", "/boot/grub2", "custom.cfg"),
    Kind::new("boot-entry", "/efi/loader/entries", ".conf"),
    Kind::new("boot-entry", "/boot/loader/entries", ".conf"),
    Kind::new("boot-entry", "/boot/efi/loader/entries", ".conf"),
    Kind::new("boot-entry", "/etc/ktrial-kexec", ".conf"),
    Kind::new("boot-service", "/etc/systemd/system", boot::SERVICE),
    Kind::new("boot-next", "/etc/systemd/system", boot::NEXT),
    Kind::new(
        "systemd-wants",
        "/etc/systemd/system/sysinit.target.d",
        "ktrial-boot.conf",
    ),
    Kind::new(
        "systemd-wants",
        "/etc/systemd/system/multi-user.target.d",
        "ktrial-boot.conf",
    ),
    Kind::new("scx-loader", "/etc", "scx_loader.toml"),
    Kind::new("scx-loader", "/etc/scx_loader", "config.toml"),
    Kind::new("scx-service", "/etc/default", "scx"),
    Kind::new(
        "systemd-wants",
        "/etc/systemd/system/multi-user.target.d",
        "ktrial-scx.conf",
    ),
];

impl Kind {
    const fn new(name: &'static str, folder: &'static str, ending: &'static str) -> Self {
        Self { name, folder, ending }
    }

    pub(super) fn has(&self, path: &str) -> bool {
        path.rsplit_once('/').is_some_and(|(folder, name)| {
            let fits = if self.is_one_file() {
                name == self.ending
            } else {
                name.ends_with(self.ending)
            };
            folder == self.folder && fits
        })
    }

    pub(super) fn is_one_file(&self) -> bool {
        !self.ending.starts_with('.')
    }

    /// Whether ktrial owns only some lines of its files; the others may be somebody else's.
    pub(super) fn is_shared(&self) -> bool {
        matches!(self.name, "scx-loader" | "scx-service")
    }

    /// Describes the places of its files.
    pub(super) fn places(&self) -> String {
        let any = if self.is_one_file() { "" } else { "*" };
        format!("{}/{any}{}", self.folder, self.ending)
    }
}
