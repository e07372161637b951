// SPDX-License-Identifier: Apache-2.0
//! Paths that match a pattern.

use crate::error::{Error, Kind, Result};
use crate::root::Root;
use crate::transact::allow::{self, Denial, Purpose};
use crate::transact::machine;
use std::cmp::Ordering;

/// The greatest depth that a final `**` searches; no kernel tree is nearly as deep.
const DEEPEST: usize = 32;

/// Returns the existing paths that match `pattern`, sorted by name with numbers in numeric order.
/// `*` matches anything within one component, a final `**` all files below. Paths that `purpose`
/// does not allow are left out.
pub fn matches(root: &Root, pattern: &str, purpose: Purpose) -> Result<Vec<String>> {
    if !pattern.starts_with('/')
        || pattern
            .split('/')
            .any(|component| component == "." || component == "..")
    {
        return Err(Error::new(
            Kind::Forbidden,
            format!("{pattern:?}: expected an absolute path without `.` and `..`"),
        ));
    }
    let mut found = vec![String::new()];
    let folders = pattern.strip_suffix("/**");
    let components = folders.unwrap_or(pattern).split('/');
    for component in components.filter(|component| !component.is_empty()) {
        found = found
            .iter()
            .flat_map(|folder| step(root, folder, component))
            .collect();
    }
    if folders.is_some() {
        let mut files = Vec::new();
        for folder in &found {
            files_below(root, folder, DEEPEST, &mut files);
        }
        found = files;
    }
    found.retain(|path| {
        machine::exists(root, path) && !matches!(allow::check(root, path, purpose), Err(Denial::Forbidden(_)))
    });
    found.sort_by(|one, other| by_number(one, other));
    Ok(found)
}

fn step(root: &Root, folder: &str, component: &str) -> Vec<String> {
    if !component.contains('*') {
        return vec![format!("{folder}/{component}")];
    }
    let hidden = component.starts_with('.');
    // A folder that is absent or unreadable contains nothing that this session could read.
    let names = root
        .list(if folder.is_empty() { "/" } else { folder })
        .unwrap_or_default();
    names
        .into_iter()
        .filter(|name| allow::fits(component, name) && (hidden || !name.starts_with('.')))
        .map(|name| format!("{folder}/{name}"))
        .collect()
}

/// Collects the regular files below a folder. Symbolic links are not followed.
fn files_below(root: &Root, folder: &str, deepest: usize, files: &mut Vec<String>) {
    // As above: an absent or unreadable folder contributes nothing.
    let Ok(entries) = std::fs::read_dir(root.path(folder)) else {
        return;
    };
    for entry in entries.flatten() {
        let (Ok(kind), Ok(name)) = (entry.file_type(), entry.file_name().into_string()) else {
            continue;
        };
        let path = format!("{folder}/{name}");
        if kind.is_file() {
            files.push(path);
        } else if kind.is_dir() && deepest > 0 {
            files_below(root, &path, deepest - 1, files);
        }
    }
}

/// Orders names, with runs of digits compared as numbers.
fn by_number(one: &str, other: &str) -> Ordering {
    let (mut left, mut right) = (one, other);
    while !left.is_empty() && !right.is_empty() {
        let (left_run, left_rest) = run(left);
        let (right_run, right_rest) = run(right);
        let numbers = left_run.parse::<u128>().ok().zip(right_run.parse::<u128>().ok());
        let order = numbers.map_or_else(|| left_run.cmp(right_run), |(left, right)| left.cmp(&right));
        if order != Ordering::Equal {
            return order;
        }
        (left, right) = (left_rest, right_rest);
    }
    left.len().cmp(&right.len()).then_with(|| one.cmp(other))
}

/// Splits off the first run of digits or of other characters.
fn run(text: &str) -> (&str, &str) {
    let digits = text.starts_with(|first: char| first.is_ascii_digit());
    let end = text
        .find(|next: char| next.is_ascii_digit() != digits)
        .unwrap_or(text.len());
    text.split_at(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_in_order() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["cpu10", "cpu2", "cpu1", "cpuidle"] {
            std::fs::create_dir_all(folder.path().join("sys/devices/system/cpu").join(name)).unwrap();
        }
        let root = Root::new(folder.path());
        let found = matches(&root, "/sys/devices/system/cpu/cpu*", Purpose::Names).unwrap();
        let names: Vec<&str> = found.iter().filter_map(|path| path.rsplit('/').next()).collect();
        assert_eq!(names, ["cpu1", "cpu2", "cpu10", "cpuidle"]);
        assert!(matches(&root, "/sys/*/none/*", Purpose::Names)
            .unwrap()
            .is_empty());
        assert!(matches(&root, "/sys/../etc/*", Purpose::Names).is_err());
    }

    #[test]
    fn two_stars_are_all_files_below_and_no_links() {
        let folder = tempfile::tempdir().unwrap();
        let sys = folder.path().join("proc/sys");
        std::fs::create_dir_all(sys.join("net/ipv4/conf/eth0")).unwrap();
        std::fs::create_dir_all(sys.join("debug")).unwrap();
        for name in ["net/ipv4/conf/eth0/rp_filter", "vm_zone", "net/.hidden"] {
            std::fs::write(sys.join(name), "1").unwrap();
        }
        std::os::unix::fs::symlink(&sys, sys.join("net/loop")).unwrap();
        let root = Root::new(folder.path());
        let found = matches(&root, "/proc/sys/**", Purpose::Names).unwrap();
        let expected = ["net/.hidden", "net/ipv4/conf/eth0/rp_filter", "vm_zone"];
        assert_eq!(found, expected.map(|name| format!("/proc/sys/{name}")));
        assert_eq!(
            matches(&root, "/proc/sys/n*/**", Purpose::Names).unwrap().len(),
            2
        );
        assert!(matches(&root, "/proc/none/**", Purpose::Names)
            .unwrap()
            .is_empty());
    }
}
