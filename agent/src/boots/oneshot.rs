// SPDX-License-Identifier: Apache-2.0
//! Makes a boot loader start an entry once: GRUB by a variable of its environment, which GRUB
//! clears, and systemd-boot by a variable of the firmware.

use super::grubenv::{self, Variables};
use super::kexec;
use crate::facts::boot::loader_variable;
use crate::root::Root;
use crate::transact::files;
use crate::transact::forms::{BootEntry, BOOT_HEADER, STARTED};
use crate::transact::machine::{Outcome, Refusal};
use crate::transact::programs;
use rustix::fs::{OFlags, ResolveFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt;

/// GRUB's environment, beside the file with our entries.
pub const GRUB_ENVIRONMENTS: [&str; 2] = ["/boot/grub/grubenv", "/boot/grub2/grubenv"];
/// The variable that names the entry of the next boot.
const NEXT: &str = "next_entry";
/// The variables that ktrial and its entries set.
const OURS: [&str; 2] = [NEXT, STARTED];

/// File systems whose blocks GRUB writes in place: ext2 to ext4, FAT, XFS.
const WRITABLE: [u64; 3] = [0xef53, 0x4d44, 0x5846_5342];
/// The folder of a device that consists of other devices, and what such a device is.
const LAYERS: [(&str, &str); 2] = [("dm", "device mapper (LVM or encryption)"), ("md", "RAID")];

/// Whether systemd-boot has booted this machine.
pub fn is_systemd_boot(root: &Root) -> bool {
    loader_variable(root, "LoaderInfo").is_some_and(|info| info.starts_with("systemd-boot"))
}

/// Whether a path is the file with our entries for GRUB.
#[must_use]
pub fn is_grub_entries(path: &str) -> bool {
    path.starts_with("/boot/grub") && path.ends_with("/custom.cfg")
}

/// Returns the kind of loader that reads the file at `path`.
#[must_use]
pub fn kind_of(path: &str) -> &'static str {
    if kexec::is_kexec(path) {
        "kexec"
    } else if is_grub_entries(path) {
        "grub"
    } else {
        "systemd-boot"
    }
}

fn environment(path: &str) -> String {
    format!("{}/grubenv", files::folder_of(path))
}

/// Returns the loader that reads the file at `path`, with its version.
pub fn loader_of(root: &Root, path: &str) -> Option<String> {
    if kexec::is_kexec(path) {
        return kexec::starter(root);
    }
    if !is_grub_entries(path) {
        return loader_variable(root, "LoaderInfo");
    }
    let folder = files::folder_of(path);
    let version = root.list(folder).ok()?.into_iter().find_map(|name| {
        let text = root.read_text(&format!("{folder}/{name}/modinfo.sh")).ok()?;
        let named = |key: &str| text.lines().find_map(|line| line.strip_prefix(key));
        let line = named("grub_package_version=").or_else(|| named("grub_version="))?;
        Some(line.trim_matches(['"', '\'']).to_owned())
    });
    Some(version.map_or_else(|| "grub".to_owned(), |version| format!("grub {version}")))
}

pub(super) fn refused(message: String) -> Refusal {
    Refusal {
        outcome: Outcome::Refused,
        errno: Errno::NOTSUP.raw_os_error(),
        message,
    }
}

fn read(root: &Root, path: &str) -> Result<Variables, Refusal> {
    let block = root
        .read_bytes(path)
        .map_err(|error| Refusal::of("read", path, &error))?;
    Variables::read(&block).ok_or_else(|| refused(format!("{path} is not an environment block of GRUB")))
}

fn is_foreign(entry: &str) -> bool {
    !entry.is_empty() && !entry.starts_with("ktrial-")
}

/// Lets the loader start an entry at the next boot.
pub fn set(root: &Root, path: &str, entry: &BootEntry) -> Result<(), Refusal> {
    let id = entry.id.as_str();
    if kexec::is_kexec(path) {
        return kexec::load(root, entry);
    }
    if !is_grub_entries(path) {
        let file = format!("{id}.conf");
        programs::run(
            root,
            &["bootctl".to_owned(), "set-oneshot".to_owned(), file.clone()],
        )?;
        let now = loader_variable(root, "LoaderEntryOneShot").unwrap_or_default();
        if now != file {
            return Err(refused(format!(
                "the firmware did not store the entry: its variable is {now:?}"
            )));
        }
        return Ok(());
    }
    let environment = environment(path);
    let mut variables = read(root, &environment)?;
    if variables.get(NEXT).is_some_and(is_foreign) {
        return Err(refused(format!(
            "{environment} already names another entry for the next boot"
        )));
    }
    variables.set(STARTED, None);
    variables.set(NEXT, Some(id));
    let block = variables
        .render()
        .ok_or_else(|| refused(format!("{environment} has no space left")))?;
    overwrite(root, &environment, &block)?;
    if read(root, &environment)?.get(NEXT) != Some(id) {
        return Err(refused(format!("{environment} did not store the entry")));
    }
    Ok(())
}

/// Overwrites a file in its place, because GRUB writes to the blocks that it finds, before any
/// journal of the file system is replayed.
pub fn overwrite(root: &Root, path: &str, block: &[u8]) -> Result<(), Refusal> {
    let cannot = |error: std::io::Error| Refusal::of("write", path, &error);
    let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let base = File::open(root.base()).map_err(cannot)?;
    let opened = rustix::fs::openat2(
        &base,
        path.trim_start_matches('/'),
        flags,
        rustix::fs::Mode::empty(),
        ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS,
    );
    let mut file = File::from(opened.map_err(|errno| cannot(errno.into()))?);
    if file.metadata().map_err(cannot)?.len() != block.len() as u64 {
        return Err(refused(format!(
            "{path} is not as long as an environment block of GRUB"
        )));
    }
    file.write_all(block).map_err(cannot)?;
    file.sync_all().map_err(cannot)
}

/// Returns the entry that the loader will start at the next boot, if it is one of ours.
pub fn armed(root: &Root, path: &str) -> Option<String> {
    let found = if kexec::is_kexec(path) {
        kexec::loaded(root)?
    } else if is_grub_entries(path) {
        read(root, &environment(path)).ok()?.get(NEXT)?.to_owned()
    } else {
        loader_variable(root, "LoaderEntryOneShot")?
            .strip_suffix(".conf")?
            .to_owned()
    };
    found.starts_with("ktrial-").then_some(found)
}

/// Whether the loader started an entry; None if nothing shows it.
pub fn seen(root: &Root, path: &str, id: &str) -> Option<bool> {
    if armed(root, path).as_deref() == Some(id) {
        return Some(false);
    }
    if !is_grub_entries(path) {
        return None;
    }
    let variables = read(root, &environment(path)).ok()?;
    Some(variables.get(STARTED) == Some(id))
}

/// Lets the loader start its default entry at the next boot, if it would start one of ours.
pub fn clear(root: &Root, path: &str) -> Result<(), Refusal> {
    if armed(root, path).is_none() {
        return Ok(());
    }
    if kexec::is_kexec(path) {
        return kexec::unload(root);
    }
    if !is_grub_entries(path) {
        return programs::run(root, &["bootctl", "set-oneshot", ""].map(str::to_owned));
    }
    let environment = environment(path);
    let mut variables = read(root, &environment)?;
    variables.set(NEXT, Some(""));
    let block = variables
        .render()
        .ok_or_else(|| refused(format!("{environment} is too long")))?;
    overwrite(root, &environment, &block)
}

/// Restores GRUB's environment, but leaves what others have changed in it since.
pub fn restore(root: &Root, path: &str, old: &[u8]) -> Result<(), Refusal> {
    let now = root
        .read_bytes(path)
        .map_err(|error| Refusal::of("read", path, &error))?;
    let next = Variables::read(&now).and_then(|now| now.get(NEXT).map(str::to_owned));
    // What somebody has chosen for the next boot since is theirs.
    let ours = if next.as_deref().is_some_and(is_foreign) {
        &OURS[1..]
    } else {
        &OURS[..]
    };
    match grubenv::restored(old, &now, ours) {
        Some(block) if block == now => Ok(()),
        Some(block) => overwrite(root, path, &block),
        None => Err(refused(format!("{path} is not an environment block of GRUB"))),
    }
}

/// Refuses entries for GRUB that it would not read, or could not start only once.
pub fn check_entries_file(root: &Root, path: &str) -> Result<(), Refusal> {
    if let Ok(text) = root.read_bytes(path) {
        if !text.starts_with(BOOT_HEADER.as_bytes()) {
            return Err(refused(format!("ktrial did not write {path}")));
        }
    }
    let folder = files::folder_of(path);
    let configuration = format!("{folder}/grub.cfg");
    let text = root
        .read_text(&configuration)
        .map_err(|error| Refusal::of("read", &configuration, &error))?;
    for (word, what) in [
        ("custom.cfg", "entries besides its own"),
        (NEXT, "an entry for one boot"),
    ] {
        if !text.contains(word) {
            return Err(refused(format!("{configuration} does not read {what} ({word})")));
        }
    }
    let environment = environment(path);
    read(root, &environment)?;
    check_writable(root, &environment)
}

/// Refuses an environment that GRUB cannot write, because GRUB would start the entry at every boot.
fn check_writable(root: &Root, environment: &str) -> Result<(), Refusal> {
    let cannot = |what: &str| {
        Err(refused(format!(
            "GRUB cannot write {environment}, which is on {what}: the entry would start at every boot"
        )))
    };
    let file = root.path(environment);
    let kind = rustix::fs::statfs(&file)
        .map(|found| found.f_type)
        .unwrap_or_default();
    let is_writable = u64::try_from(kind).is_ok_and(|kind| WRITABLE.contains(&kind));
    if root.is_real() && !is_writable {
        return cannot("a file system that does not write blocks in place");
    }
    let device = std::fs::metadata(&file)
        .map(|found| found.dev())
        .unwrap_or_default();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    for (name, what) in LAYERS {
        let device = format!("/sys/dev/block/{major}:{minor}");
        // A partition has what its disk is made of in the folder above.
        let places = [format!("{device}/{name}"), format!("{device}/../{name}")];
        if places.iter().any(|place| root.path(place).exists()) {
            return cannot(what);
        }
    }
    Ok(())
}

/// Lets the next boot take the default entry if the one at `path` is gone.
pub fn forget_entry(root: &Root, path: &str) {
    let is_entry = (path.contains("/loader/entries/") || kexec::is_kexec(path)) && !root.path(path).exists();
    if !is_entry || !root.is_real() {
        return;
    }
    if let Err(refusal) = clear(root, path) {
        eprintln!("ktrial-agent: {}", refusal.message);
    }
}
