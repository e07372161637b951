// SPDX-License-Identifier: Apache-2.0
//! `cgroup`: memory, throttling and pressure of a process's control group, and of the groups above
//! it that have a limit.

use super::feed::{Column, Feed, Found};
use super::text::{Keyed, Number};
use crate::root::Root;
use std::collections::BTreeMap;

mod old;

const MOUNT: &str = "/sys/fs/cgroup";
/// A file of keyed lines, the middle part of its columns' names, and the requested counters.
type Lines = (&'static str, &'static str, &'static [&'static str]);
const EVENTS: &[&str] = &["high", "max", "oom", "oom_kill"];
const CPU: Lines = (
    "cpu.stat",
    "cpu",
    &["nr_throttled", "throttled_usec", "usage_usec"],
);
const OWN: [Lines; 3] = [
    ("memory.events", "memory_events", EVENTS),
    CPU,
    (
        "memory.stat",
        "memory",
        &[
            "workingset_refault_file",
            "workingset_refault_anon",
            "pgmajfault",
            "pgscan",
            "pgsteal",
        ],
    ),
];
/// For groups above: events at their own limits, not at those of their subgroups.
const ABOVE: [Lines; 2] = [("memory.events.local", "memory_events", EVENTS), CPU];
/// Files with the limits of a group.
const LIMITS: [&str; 3] = ["memory.high", "memory.max", "cpu.max"];

/// Opens the group of the process; those of version 1 if the group of version 2 has no controllers.
pub fn open(root: &Root, process: u32) -> Found {
    let mut found = Found::default();
    let group = group_of(root, process);
    if let Ok(group) = &group {
        add(root, group, "cgroup", &OWN, &mut found);
    }
    if found.feeds.is_empty() && found.missing.is_empty() {
        old::add(root, process, &mut found);
        if !found.feeds.is_empty() {
            return found;
        }
        return Found::none(group.map_or_else(
            |why| why,
            |group| {
                format!(
                    "{MOUNT}{group} has no memory or CPU controller, and no group of version 1 has a limit"
                )
            },
        ));
    }
    for (number, above) in (1..).zip(upwards(&group.unwrap_or_default()).skip(1)) {
        if limits(root, above)
            .values()
            .any(|limit| !limit.starts_with("max"))
        {
            add(root, above, &format!("cgroup.above{number}"), &ABOVE, &mut found);
        }
    }
    found
}

/// Returns the limits of a process's group and the groups above it, nearest first. Groups that
/// cannot have limits are left out.
pub fn limits_of(root: &Root, process: u32) -> Vec<BTreeMap<&'static str, String>> {
    let Ok(group) = group_of(root, process) else {
        return Vec::new();
    };
    let groups = upwards(&group).map(|path| (path, limits(root, path)));
    groups
        .filter(|(_, limits)| !limits.is_empty())
        .map(|(path, mut limits)| {
            limits.insert("path", path.to_owned());
            limits
        })
        .collect()
}

/// Returns the path of the process's group below the mount, without a final `/`.
fn group_of(root: &Root, process: u32) -> Result<String, String> {
    let path = format!("/proc/{process}/cgroup");
    let text = root
        .read_text(&path)
        .map_err(|error| format!("{path}: {error}"))?;
    let Some(group) = text.lines().find_map(|line| line.strip_prefix("0::")) else {
        return Err("the process has no control group of version 2".to_owned());
    };
    if group.split('/').any(|part| part == "..") {
        return Err("the control group of the process is not visible from here".to_owned());
    }
    Ok(group.trim_end_matches('/').to_owned())
}

/// Returns a group and the groups above it, except for the root.
fn upwards(group: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(group), |group| Some(group.rsplit_once('/')?.0))
        .filter(|group| !group.is_empty())
}

fn limits(root: &Root, group: &str) -> BTreeMap<&'static str, String> {
    let read = |file| Some((file, root.read_text(&format!("{MOUNT}{group}/{file}")).ok()?));
    LIMITS.into_iter().filter_map(read).collect()
}

/// Adds the columns of one group.
fn add(root: &Root, group: &str, prefix: &str, lines: &[Lines], found: &mut Found) {
    let label = Some(group.to_owned());
    for (file, what) in [("memory.current", "memory"), ("memory.swap.current", "swap")] {
        let path = format!("{MOUNT}{group}/{file}");
        if root.path(&path).exists() {
            let column = Column::level(format!("{prefix}.{what}"), "B", 1).labelled(label.clone());
            found.add(Feed::open(root, &path, vec![column], Number::any()));
        }
    }
    for (file, what, wanted) in lines {
        let path = format!("{MOUNT}{group}/{file}");
        let Ok(text) = root.read_bytes(&path) else {
            continue;
        };
        let (names, parser) = Keyed::layout(&text, b' ', 1, |name| wanted.contains(&name));
        let column = |name: &String| match name.strip_suffix("_usec") {
            Some(time) => Column::counter(format!("{prefix}.{what}.{time}"), "s", 1_000_000),
            None => Column::counter(format!("{prefix}.{what}.{name}"), "count", 1),
        };
        if !names.is_empty() {
            let columns = names.iter().map(|name| column(name).labelled(label.clone()));
            found.add(Feed::open(root, &path, columns.collect(), parser));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const GROUP: &str = "/user.slice/user-1000.slice/user@1000.service/app.slice/game.scope";

    pub fn machine(groups: &str, files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path.trim_start_matches('/'));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("/proc/7/cgroup", groups);
        for (path, text) in files {
            write(&format!("{MOUNT}{path}"), text);
        }
        let root = Root::new(folder.path());
        (folder, root)
    }

    fn file(group: &str, name: &str) -> String {
        format!("{group}/{name}")
    }

    #[test]
    fn groups_above_are_read_where_they_have_a_limit() {
        let [own, above, free] = ["memory.events", "memory.events.local", "memory.events.local"];
        let (own, above) = (file(GROUP, own), file("/user.slice", above));
        let (free, open, limit) = (
            file("/user.slice/user-1000.slice", free),
            file("/user.slice/user-1000.slice", "memory.high"),
            file("/user.slice", "memory.high"),
        );
        let events = "low 0\nhigh 3\nmax 0\noom 0\noom_kill 0\n";
        let files = [
            (own.as_str(), events),
            (above.as_str(), events),
            (free.as_str(), events),
            (open.as_str(), "max\n"),
            (limit.as_str(), "1048576\n"),
        ];
        let (_folder, root) = machine(&format!("3:cpu:/old\n0::{GROUP}\n"), &files);
        let found = super::open(&root, 7);
        let columns = found.feeds.iter().flat_map(|feed| &feed.columns);
        let told: Vec<(&str, Option<&str>)> = columns
            .filter(|column| column.name.contains("events.high"))
            .map(|column| (column.name.as_str(), column.label.as_deref()))
            .collect();
        assert_eq!(
            told,
            [
                ("cgroup.memory_events.high", Some(GROUP)),
                ("cgroup.above4.memory_events.high", Some("/user.slice")),
            ]
        );
        let limits = limits_of(&root, 7);
        let paths: Vec<&str> = limits.iter().map(|one| one["path"].as_str()).collect();
        assert_eq!(paths, ["/user.slice/user-1000.slice", "/user.slice"]);
        assert_eq!(limits[1]["memory.high"], "1048576");
    }

    #[test]
    fn what_lies_outside_a_container_is_not_looked_for() {
        let (_folder, root) = machine("0::/../other.slice\n", &[("/other.slice/memory.high", "1\n")]);
        assert!(super::open(&root, 7).feeds.is_empty());
        assert!(limits_of(&root, 7).is_empty());
        let (_folder, root) = machine("0::/\n", &[("/memory.stat", "pgscan 1\n")]);
        assert!(limits_of(&root, 7).is_empty());
    }
}
