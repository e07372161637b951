// SPDX-License-Identifier: Apache-2.0
//! The machine's TCP settings in a new namespace, which begins with the kernel's defaults for most of them.

use crate::root::Root;
use std::fs::{self, DirEntry};
use std::os::unix::fs::MetadataExt;

const FOLDER: &str = "/proc/sys/net/ipv4";
/// What new namespaces take over by themselves, a list for the whole machine, a secret.
const LEFT_OUT: [&str; 3] = [
    "tcp_allowed_congestion_control",
    "tcp_congestion_control",
    "tcp_fastopen_key",
];

/// Settings by file name.
pub type Settings = Vec<(String, String)>;

/// The TCP settings of the namespace that the caller is in, by name.
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

/// Puts settings in force where they differ; the names of those that could not be. One that the namespace does not have is
/// the whole machine's, and in force.
pub fn carry(root: &Root, settings: &Settings) -> Vec<String> {
    let mut failed = Vec::new();
    for (name, value) in settings {
        let path = format!("{FOLDER}/{name}");
        let now = |root: &Root| root.read_text(&path).ok();
        if now(root).is_none_or(|now| now == *value) {
            continue;
        }
        // What counts is what the file says afterwards.
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
