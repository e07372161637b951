// SPDX-License-Identifier: Apache-2.0
//! Which paths a session may write and read. Judged on the path as it was asked for and on the path that
//! symbolic links lead to: both must be allowed.

use crate::root::Root;
use std::io;
use std::path::PathBuf;

/// A pattern names one file, or with a final `/` all that lies below; `*` stands for anything within one component.
type Patterns = &'static [&'static str];

const WRITE: Patterns = &[
    "/proc/sys/",
    "/proc/irq/",
    "/sys/block/",
    "/sys/devices/",
    "/sys/kernel/mm/",
    "/sys/kernel/debug/sched/",
    "/sys/kernel/debug/sched_features",
    "/sys/kernel/rcu_*",
    "/sys/module/*/parameters/",
    "/sys/class/",
    "/sys/bus/workqueue/",
    "/sys/bus/pci/devices/",
    "/sys/bus/usb/devices/",
    "/sys/fs/cgroup/",
    "/dev/stune/",
    "/dev/cpuctl/",
];

/// Names a program to run, opens the machine, or takes devices away.
const NEVER_WRITE: Patterns = &[
    "/proc/sys/kernel/core_pattern",
    "/proc/sys/kernel/modprobe",
    "/proc/sys/kernel/hotplug",
    "/proc/sys/kernel/poweroff_cmd",
    "/proc/sys/kernel/usermodehelper/",
    "/proc/sys/kernel/sysrq",
    "/proc/sys/kernel/modules_disabled",
    "/proc/sys/kernel/kexec_*",
    "/proc/sys/fs/binfmt_misc/",
    "/proc/sys/fs/suid_dumpable",
    "/sys/module/firmware_class/parameters/path",
];

/// Files that move, stop or kill the processes of a control group, or say what they may open: no knobs.
const NEVER_WRITE_OF_GROUPS: Patterns = &[
    "cgroup.*",
    "tasks",
    "devices.*",
    "notify_on_release",
    "release_agent",
];

const GROUPS: Patterns = &["/sys/fs/cgroup/", "/dev/stune/", "/dev/cpuctl/"];

/// Files of a device folder that reach past the driver: raw registers, removal, binding, firmware.
const NEVER_WRITE_NAMES: Patterns = &[
    "config",
    "resource*",
    "rom",
    "remove",
    "rescan",
    "delete",
    "bind",
    "unbind",
    "driver_override",
    "new_id",
    "uevent",
    "reload",
    "hot_add",
    "hot_remove",
    "backing_dev",
    "firmware_node",
    "loading",
    "data",
];

const FILES: Patterns = &[
    "/etc/sysctl.d/*",
    "/etc/udev/rules.d/*",
    "/etc/modprobe.d/*",
    "/etc/tmpfiles.d/*",
    "/etc/systemd/system/*",
    "/etc/systemd/zram-generator.conf.d/*",
];

const READ: Patterns = &[
    "/proc/",
    "/sys/",
    "/dev/stune/",
    "/dev/cpuctl/",
    "/dev/null",
    "/etc/os-release",
    "/etc/sysctl.conf",
    "/etc/sysctl.d/",
    "/etc/udev/",
    "/etc/modprobe.d/",
    "/etc/modules",
    "/etc/modules-load.d/",
    "/etc/tmpfiles.d/",
    "/etc/tuned/",
    "/etc/systemd/",
    "/etc/default/grub*",
    "/etc/default/grub.d/",
    "/etc/kernel/",
    "/etc/fstab",
    "/usr/lib/",
    "/usr/local/lib/",
    "/usr/src/*/.config",
    "/lib/",
    "/run/sysctl.d/",
    "/run/udev/rules.d/",
    "/run/modprobe.d/",
    "/run/tmpfiles.d/",
    "/run/tuned/",
    "/run/systemd/",
    "/run/kernel/",
    "/boot/config-*",
];

/// Of `/usr/lib`, `/usr/local/lib` and `/lib` only these.
const READ_LIBRARY: Patterns = &[
    "os-release",
    "sysctl.d/",
    "udev/",
    "modprobe.d/",
    "modules-load.d/",
    "tmpfiles.d/",
    "tuned/",
    "systemd/",
    "kernel/",
    "modules/*/config",
    "modules/*/build/.config",
    "modules/*/modules.builtin",
    "modules/*/modules.builtin.modinfo",
];

const LIBRARIES: Patterns = &["/usr/lib/", "/usr/local/lib/", "/lib/"];

/// Secrets, and files that do something when read.
const NEVER_READ: Patterns = &[
    "/proc/kcore",
    "/proc/kmsg",
    "/proc/kallsyms",
    "/proc/kpage*",
    "/proc/vmcore",
    "/proc/keys",
    "/proc/key-users",
    "/proc/sysrq-trigger",
    "/proc/sys/net/ipv4/tcp_fastopen_key",
    "/proc/sys/net/ipv6/conf/*/stable_secret",
    "/sys/firmware/efi/efivars/",
    "/sys/firmware/dmi/",
    "/sys/firmware/acpi/",
    "/sys/class/zram-control/hot_add",
    "/sys/devices/virtual/dmi/id/*serial",
    "/sys/devices/virtual/dmi/id/product_uuid",
    "/sys/kernel/debug/tracing/",
    "/sys/kernel/tracing/",
    "/run/systemd/ask-password/",
    "/run/systemd/private",
    "/run/systemd/creds/",
    "/etc/systemd/network/",
    "/run/systemd/netif/",
    "/run/systemd/network/",
];

/// Of a process's folder only these.
const READ_PROCESS: Patterns = &[
    "comm",
    "status",
    "stat",
    "statm",
    "cgroup",
    "sched",
    "schedstat",
    "mountinfo",
    "mounts",
    "limits",
    "autogroup",
    "uid_map",
];

/// What a path is wanted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Writing a knob.
    Write,
    /// Putting or removing a configuration file.
    File,
    /// Reading, as root.
    Read,
    /// Reading with the user's own rights.
    ReadAsUser,
}

/// Why a path cannot be opened.
#[derive(Debug)]
pub enum Denial {
    /// Outside the allow-list; the text says which path and why.
    Forbidden(String),
    /// The system refused to look.
    System(io::Error),
}

/// The file to open for the machine's path `path`, with all links followed but for a file that may be absent.
pub fn check(root: &Root, path: &str, purpose: Purpose) -> Result<PathBuf, Denial> {
    let asked = clean(path).map_err(|why| Denial::Forbidden(format!("{path:?} {why}")))?;
    if let Err(why) = judge(&asked, purpose) {
        return Err(Denial::Forbidden(format!("{path} {why}")));
    }
    let resolved = root.resolve(&asked).map_err(Denial::System)?;
    let Some(resolved) = resolved else {
        return Err(Denial::Forbidden(format!(
            "{path} leads out of the tree of the machine"
        )));
    };
    if resolved != asked {
        if let Err(why) = judge(&resolved, purpose) {
            return Err(Denial::Forbidden(format!("{path} is {resolved}, which {why}")));
        }
    }
    Ok(root.path(&resolved))
}

/// The path without doubled slashes, if it is absolute and has no `.` or `..`.
fn clean(path: &str) -> Result<String, &'static str> {
    if !path.starts_with('/') {
        return Err("is not an absolute path");
    }
    if path.contains('\0') {
        return Err("holds a NUL byte");
    }
    let mut cleaned = String::with_capacity(path.len());
    for component in path.split('/').filter(|component| !component.is_empty()) {
        if component == "." || component == ".." {
            return Err("holds `.` or `..`");
        }
        cleaned.push('/');
        cleaned.push_str(component);
    }
    if cleaned.is_empty() {
        return Err("names no file");
    }
    Ok(cleaned)
}

fn judge(path: &str, purpose: Purpose) -> Result<(), &'static str> {
    let allowed = match purpose {
        Purpose::Write => may_write(path),
        Purpose::File => any(FILES, path) && ours(path.rsplit('/').next().unwrap_or_default()),
        Purpose::Read => may_read(path),
        Purpose::ReadAsUser => true,
    };
    match (allowed, purpose) {
        (true, _) => Ok(()),
        (false, Purpose::Write) => Err("is outside the paths that the agent writes"),
        (false, Purpose::File) => Err("is no ktrial file in a folder that the agent writes"),
        (false, _) => Err("is outside the paths that the agent reads as root"),
    }
}

fn may_write(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    let device =
        path.starts_with("/sys/") && !path.starts_with("/sys/module/") && !path.starts_with("/sys/kernel/");
    let forbidden = any(NEVER_WRITE, path)
        || device && any(NEVER_WRITE_NAMES, name)
        || any(GROUPS, path) && any(NEVER_WRITE_OF_GROUPS, name);
    any(WRITE, path) && !forbidden
}

fn may_read(path: &str) -> bool {
    if !any(READ, path) || any(NEVER_READ, path) {
        return false;
    }
    if let Some(rest) = LIBRARIES.iter().find_map(|library| path.strip_prefix(library)) {
        return any(READ_LIBRARY, rest);
    }
    process_file(path).is_none_or(|rest| any(READ_PROCESS, rest))
}

/// The part of a path below a process's (or thread's) folder of `/proc`.
fn process_file(path: &str) -> Option<&str> {
    let rest = path.strip_prefix("/proc/")?;
    let (first, rest) = rest.split_once('/').unwrap_or((rest, ""));
    let of_process =
        first == "self" || first == "thread-self" || first.bytes().all(|byte| byte.is_ascii_digit());
    if !of_process {
        return None;
    }
    match rest.strip_prefix("task/").and_then(|rest| rest.split_once('/')) {
        Some((_, rest)) => Some(rest),
        None => Some(rest),
    }
}

/// Whether a configuration file's name says that it is ktrial's: `ktrial…` or `NN-ktrial…`.
fn ours(name: &str) -> bool {
    let rest = name.strip_prefix(|first: char| first.is_ascii_digit());
    let rest = rest.and_then(|rest| rest.strip_prefix(|second: char| second.is_ascii_digit()));
    let rest = rest.and_then(|rest| rest.strip_prefix('-'));
    rest.unwrap_or(name).starts_with("ktrial")
}

fn any(patterns: Patterns, path: &str) -> bool {
    patterns.iter().any(|pattern| covers(pattern, path))
}

/// Whether a pattern covers a path.
fn covers(pattern: &str, path: &str) -> bool {
    let below = pattern.ends_with('/');
    let mut wanted = pattern.trim_end_matches('/').split('/');
    let mut found = path.split('/');
    loop {
        match (wanted.next(), found.next()) {
            (Some(wanted), Some(found)) if fits(wanted, found) => {}
            (None, Some(_)) => return below,
            (None, None) => return !below,
            _ => return false,
        }
    }
}

/// Whether a name fits a pattern in which `*` stands for any characters.
pub fn fits(pattern: &str, name: &str) -> bool {
    let Some((head, tail)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let Some(mut rest) = name.strip_prefix(head) else {
        return false;
    };
    let mut pieces: Vec<&str> = tail.split('*').collect();
    let last = pieces.pop().unwrap_or_default();
    for piece in pieces {
        match rest.find(piece) {
            Some(at) => rest = &rest[at + piece.len()..],
            None => return false,
        }
    }
    rest.len() >= last.len() && rest.ends_with(last)
}

#[cfg(test)]
mod tests;
