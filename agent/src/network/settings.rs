// SPDX-License-Identifier: Apache-2.0
//! Copies the machine's TCP settings into a new namespace, which starts with the kernel's defaults
//! for most of them.

use crate::root::Root;
use std::fs::{self, DirEntry};
use std::os::unix::fs::MetadataExt;

const FOLDER: &str = "/proc/sys/net/ipv4";
/// A setting that new namespaces inherit anyway, a list that belongs to the whole machine, and a
/// secret.
const LEFT_OUT: [&str; 3] = [
    "tcp_allowed_congestion_control",
    "tcp_congestion_control",
    "tcp_fastopen_key",
];

/// Settings: file names and values.
pub type Settings = Vec<(String, String)>;

/// Returns the TCP settings of the caller's namespace, by name.
pub fn of_machine(root: &Root) -> Settings {
    let names = fs::read_dir(root.path(FOLDER)).into_iter().flatten().flatten();
    let is_setting = |entry: &DirEntry| entry.metadata().is_ok_and(|data| data.mode() & 0o200 != 0);
    let mut names: Vec<String> = names
        .filter(is_setting)
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.starts_with("tcp_") && !LEFT_OUT.contains(&name.as_str()))
        .collect();
    names.sort_unstable();
    let read = |name: String| {
        let value = root.read_text(&format!("{FOLDER}/{name}")).ok()?;
        Some((name, value))
    };
    names.into_iter().filter_map(read).collect()
}

/// Applies the settings that differ, and returns the names of those that could not be applied. A
/// setting that the namespace lacks belongs to the whole machine and is in force already.
pub fn carry(root: &Root, settings: &Settings) -> Vec<String> {
    let mut failed = Vec::new();
    for (name, value) in settings {
        let path = format!("{FOLDER}/{name}");
        let now = |root: &Root| root.read_text(&path).ok();
        if now(root).is_none_or(|now| now == *value) {
            continue;
        }
        // Only the value read back counts.
        fs::write(root.path(&path), value).unwrap_or_default();
        if now(root).as_ref() != Some(value) {
            failed.push(name.clone());
        }
    }
    failed
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn tree(settings: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        fs::create_dir_all(root.path(FOLDER)).unwrap();
        for (name, value) in settings {
            fs::write(root.path(&format!("{FOLDER}/{name}")), format!("{value}\n")).unwrap();
        }
        (folder, root)
    }

    #[test]
    fn what_differs_is_written_and_what_cannot_be_is_named() {
        let (_machine, machine) = tree(&[
            ("tcp_ecn", "1"),
            ("tcp_sack", "1"),
            ("tcp_mem", "7"),
            ("tcp_rmem", "4096\t131072\t9"),
            ("tcp_congestion_control", "bbr"),
            ("ip_forward", "1"),
        ]);
        let told = machine.path("/proc/sys/net/ipv4/tcp_ehash_entries");
        fs::write(&told, "9").unwrap();
        fs::set_permissions(&told, fs::Permissions::from_mode(0o444)).unwrap();
        let found = of_machine(&machine);
        let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["tcp_ecn", "tcp_mem", "tcp_rmem", "tcp_sack"]);
        let (_empty, empty) = tree(&[("tcp_ecn", "2"), ("tcp_sack", "1"), ("tcp_rmem", "1\t2\t3")]);
        assert!(carry(&empty, &found).is_empty());
        assert_eq!(empty.read_text("/proc/sys/net/ipv4/tcp_ecn").unwrap(), "1");
        assert_eq!(
            empty.read_text("/proc/sys/net/ipv4/tcp_rmem").unwrap(),
            "4096\t131072\t9"
        );
        assert!(!empty.path("/proc/sys/net/ipv4/tcp_mem").exists());
    }
}
