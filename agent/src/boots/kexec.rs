// SPDX-License-Identifier: Apache-2.0
//! Entries that the running kernel starts itself, without the firmware and the boot loader.

use super::oneshot::refused;
use crate::error::{Error, Kind, Result};
use crate::root::Root;
use crate::transact::files::{self, Rights};
use crate::transact::forms::{BootEntry, KEXEC_FOLDER};
use crate::transact::machine::Refusal;
use crate::transact::programs;

/// The file that names the loaded entry; like the entry, it is gone after each boot.
const LOADED: &str = "/run/ktrial-kexec";
/// 1 if another kernel is loaded.
const HOLDS: &str = "/sys/kernel/kexec_loaded";
/// 1 if no other kernel can be loaded until the next boot.
const LOCKED: &str = "/proc/sys/kernel/kexec_load_disabled";

/// Whether an entry is started by the running kernel.
#[must_use]
pub fn is_kexec(path: &str) -> bool {
    path.starts_with(KEXEC_FOLDER)
}

/// Returns the kernel that starts entries.
pub fn starter(root: &Root) -> Option<String> {
    let release = root.read_text("/proc/sys/kernel/osrelease").ok()?;
    Some(format!("kexec of {}", release.trim()))
}

/// Refuses an entry that the running kernel cannot start.
pub fn check(root: &Root, entry: &BootEntry) -> std::result::Result<(), Refusal> {
    if entry.kernel != entry.file {
        return Err(refused(format!(
            "{}: kexec loads {}, not {}",
            entry.id, entry.file, entry.kernel
        )));
    }
    if entry.initrds.len() > 1 {
        return Err(refused(format!("{}: kexec can load only one initrd", entry.id)));
    }
    if root.read_text(LOCKED).is_ok_and(|text| text.trim() != "0") {
        return Err(refused(format!(
            "{LOCKED} is set: this kernel cannot start another one"
        )));
    }
    programs::has(root, "kexec").map(|_| ())
}

/// Loads an entry for the next reboot.
pub fn load(root: &Root, entry: &BootEntry) -> std::result::Result<(), Refusal> {
    programs::run(root, &entry.kexec())?;
    let rights = Rights {
        mode: 0o600,
        owner: None,
    };
    files::put_at(&root.path(LOADED), entry.id.as_bytes(), rights, 0)
        .map_err(|error| Refusal::of("write", LOADED, &error))
}

/// Returns the entry that the next reboot starts.
pub fn loaded(root: &Root) -> Option<String> {
    let holds = root.read_text(HOLDS).is_ok_and(|text| text.trim() == "1");
    root.read_text(LOADED).ok().filter(|_| holds)
}

/// Lets the next reboot go through the firmware again.
pub fn unload(root: &Root) -> std::result::Result<(), Refusal> {
    programs::run(root, &["kexec", "--unload"].map(str::to_owned))?;
    std::fs::remove_file(root.path(LOADED)).map_err(|error| Refusal::of("remove", LOADED, &error))
}

/// Reboots into the entry that is loaded.
///
/// # Errors
///
/// systemd cannot be asked.
pub fn reboot(root: &Root) -> Result<()> {
    programs::run(root, &["systemctl", "--no-block", "kexec"].map(str::to_owned))
        .map_err(|refusal| Error::new(Kind::Io, refusal.message))
}
