// SPDX-License-Identifier: Apache-2.0
//! Memory of loads: how much they may use, and buffers that are really allocated.

use crate::error::{Error, Kind, Result};
use crate::root::Root;
use std::hint::black_box;

/// Refuses a load that would use more than half of the available memory.
pub fn room_for(bytes: u64) -> Result<()> {
    let available = available_bytes()?;
    if bytes <= available / 2 {
        return Ok(());
    }
    let message = format!("the load needs {bytes} bytes of memory, but only {available} are available");
    Err(Error::new(Kind::BadRequest, message)
        .hint("make the load smaller; it may use at most half of the available memory"))
}

/// Returns how much memory is available without swapping: the kernel's estimate for the machine, or
/// less if the agent's control groups have a lower limit.
pub fn available_bytes() -> Result<u64> {
    const FILE: &str = "/proc/meminfo";
    let root = Root::new("/");
    let text = root
        .read_text(FILE)
        .map_err(|error| Error::io("read", FILE, &error))?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let number = line.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    let of_machine = number
        .map(|kib| kib * 1024)
        .ok_or_else(|| Error::new(Kind::Io, format!("{FILE} has no MemAvailable in kB")))?;
    Ok(left_in_groups(&root).map_or(of_machine, |left| left.min(of_machine)))
}

/// Returns how often since boot a thread had to free memory itself before an allocation; None if
/// the kernel doesn't report it.
pub fn allocation_stalls() -> Option<u64> {
    stalls_in(&Root::new("/").read_text("/proc/vmstat").ok()?)
}

/// Sums the counters of allocation stalls. There is one per zone.
fn stalls_in(vmstat: &str) -> Option<u64> {
    vmstat
        .lines()
        .filter_map(|line| {
            line.strip_prefix("allocstall")?
                .split_once(' ')?
                .1
                .trim()
                .parse::<u64>()
                .ok()
        })
        .reduce(u64::saturating_add)
}

/// The memory files of one version of control groups.
struct Groups {
    mount: &'static str,
    limit: &'static str,
    used: &'static str,
    /// Lines of `memory.stat` with the page cache of the group and its subgroups.
    cached: [&'static str; 2],
}

const VERSIONS: [Groups; 2] = [
    Groups {
        mount: "/sys/fs/cgroup/memory",
        limit: "memory.limit_in_bytes",
        used: "memory.usage_in_bytes",
        cached: ["total_inactive_file", "total_active_file"],
    },
    Groups {
        mount: "/sys/fs/cgroup",
        limit: "memory.max",
        used: "memory.current",
        cached: ["inactive_file", "active_file"],
    },
];

/// Returns what the limits of the agent's control group and of those above it leave; None without a
/// limit. A group's page cache counts as free, because the kernel can reclaim it.
fn left_in_groups(root: &Root) -> Option<u64> {
    let own = root.read_text("/proc/self/cgroup").ok()?;
    let lines = own.lines().filter_map(|line| {
        let (number, rest) = line.split_once(':')?;
        let (controllers, group) = rest.split_once(':')?;
        match (number, controllers) {
            ("0", "") => Some((&VERSIONS[1], group)),
            _ if controllers.split(',').any(|name| name == "memory") => Some((&VERSIONS[0], group)),
            _ => None,
        }
    });
    lines
        .filter_map(|(version, group)| version.left(root, group))
        .min()
}

impl Groups {
    /// Returns what the limits of a group and of those above it leave. A container may see its own
    /// group as the root, under any name.
    fn left(&self, root: &Root, group: &str) -> Option<u64> {
        let ends = group.rmatch_indices('/').map(|(end, _)| end);
        let groups = std::iter::once(group.len())
            .chain(ends)
            .map(|end| format!("{}{}", self.mount, &group[..end]));
        groups.filter_map(|folder| self.left_in(root, &folder)).min()
    }

    fn left_in(&self, root: &Root, folder: &str) -> Option<u64> {
        let number = |name: &str| {
            let text = root.read_text(&format!("{folder}/{name}")).ok()?;
            text.parse::<u64>().ok()
        };
        let (limit, used) = (number(self.limit)?, number(self.used)?);
        Some(limit.saturating_sub(used.saturating_sub(self.cached_in(root, folder))))
    }

    /// Returns the page cache of a control group in bytes; 0 if the kernel doesn't report it.
    fn cached_in(&self, root: &Root, folder: &str) -> u64 {
        let text = root
            .read_text(&format!("{folder}/memory.stat"))
            .unwrap_or_default();
        let parts = text.lines().filter_map(|line| line.split_once(' '));
        parts
            .filter(|(name, _)| self.cached.contains(name))
            .filter_map(|(_, bytes)| bytes.parse::<u64>().ok())
            .sum()
    }
}

/// Converts a size to this machine's address width.
pub fn to_size(bytes: u64) -> Result<usize> {
    usize::try_from(bytes).map_err(|_| {
        Error::new(
            Kind::BadRequest,
            format!("{bytes} bytes exceed this machine's address space"),
        )
    })
}

/// Allocates a buffer and writes every byte.
pub fn written(size: usize, byte: u8) -> Vec<u8> {
    let mut buffer = Vec::with_capacity(size);
    buffer.resize(size, black_box(byte));
    buffer
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(root: &Root, path: &str, text: &str) {
        let path = root.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    #[test]
    fn the_narrowest_group_counts() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        assert_eq!(left_in_groups(&root), None);
        put(&root, "/proc/self/cgroup", "0::/user/session\n");
        assert_eq!(left_in_groups(&root), None);
        put(&root, "/sys/fs/cgroup/user/session/memory.max", "max\n");
        put(&root, "/sys/fs/cgroup/user/session/memory.current", "70\n");
        assert_eq!(left_in_groups(&root), None);
        put(&root, "/sys/fs/cgroup/user/memory.max", "1000\n");
        put(&root, "/sys/fs/cgroup/user/memory.current", "400\n");
        assert_eq!(left_in_groups(&root), Some(600));
        put(
            &root,
            "/sys/fs/cgroup/user/memory.stat",
            "anon 300\ninactive_file 60\nactive_file 40\n",
        );
        assert_eq!(left_in_groups(&root), Some(700));
        put(&root, "/sys/fs/cgroup/user/session/memory.max", "50\n");
        assert_eq!(left_in_groups(&root), Some(0));
    }

    #[test]
    fn groups_of_the_first_version_count_too() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        put(
            &root,
            "/proc/self/cgroup",
            "5:cpu,cpuacct:/other\n4:memory:/box/inner\n0::/\n",
        );
        put(&root, "/sys/fs/cgroup/memory/box/memory.limit_in_bytes", "1000\n");
        put(&root, "/sys/fs/cgroup/memory/box/memory.usage_in_bytes", "400\n");
        put(
            &root,
            "/sys/fs/cgroup/memory/box/memory.stat",
            "inactive_file 1\ntotal_inactive_file 60\ntotal_active_file 40\n",
        );
        assert_eq!(left_in_groups(&root), Some(700));
        put(
            &root,
            "/sys/fs/cgroup/memory/box/inner/memory.limit_in_bytes",
            "9223372036854771712\n",
        );
        put(
            &root,
            "/sys/fs/cgroup/memory/box/inner/memory.usage_in_bytes",
            "70\n",
        );
        assert_eq!(left_in_groups(&root), Some(700));
    }

    #[test]
    fn in_a_container_the_uppermost_group_is_its_own() {
        for (line, limit, used) in [
            (
                "4:memory:/docker/1234\n",
                "memory/memory.limit_in_bytes",
                "memory/memory.usage_in_bytes",
            ),
            ("0::/\n", "memory.max", "memory.current"),
            ("0::/../outside\n", "memory.max", "memory.current"),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let root = Root::new(folder.path());
            put(&root, "/proc/self/cgroup", line);
            put(&root, &format!("/sys/fs/cgroup/{limit}"), "500\n");
            put(&root, &format!("/sys/fs/cgroup/{used}"), "200\n");
            assert_eq!(left_in_groups(&root), Some(300), "{line}");
        }
    }

    #[test]
    fn stalls_of_all_zones_are_one_number() {
        let text = "allocstall_dma 1\nallocstall_normal 20\nallocstall_movable 300\npgscan_direct 4\n";
        assert_eq!(stalls_in(text), Some(321));
        assert_eq!(stalls_in("pgscan_direct 4\n"), None);
        assert!(allocation_stalls().is_some());
    }

    #[test]
    fn half_of_what_is_there_may_be_taken() {
        let available = available_bytes().unwrap();
        assert!(available > 0);
        room_for(available / 8).unwrap();
        assert_eq!(room_for(available * 2).unwrap_err().kind, Kind::BadRequest);
    }
}
