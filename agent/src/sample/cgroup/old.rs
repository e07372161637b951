// SPDX-License-Identifier: Apache-2.0
//! Control groups of version 1: a hierarchy per controller, under the names of version 2 where both
//! count the same.

use super::{upwards, MOUNT};
use crate::root::Root;
use crate::sample::feed::{Column, Feed, Found};
use crate::sample::text::{Keyed, Number};

/// A number near the largest one means no limit.
const NO_LIMIT: u64 = 1 << 60;

/// Adds memory use, memory limits reached and CPU throttling of a process's groups, and of the
/// groups above them that have a limit. The root groups, which have no limits, are left out.
pub fn add(root: &Root, process: u32, found: &mut Found) {
    for (controller, look) in [("memory", memory as Look), ("cpu", cpu)] {
        let Some(group) = group_of(root, process, controller) else {
            continue;
        };
        for (number, path) in (0..).zip(upwards(&group)) {
            let prefix = match number {
                0 => "cgroup".to_owned(),
                above => format!("cgroup.above{above}"),
            };
            let place = Place {
                folder: format!("{MOUNT}/{controller}{path}"),
                label: Some(format!("{controller}:{path}")),
                prefix,
            };
            if number == 0 || is_limited(root, &place) {
                look(root, &place, found);
            }
        }
    }
}

type Look = fn(&Root, &Place, &mut Found);

/// A group of one hierarchy: its folder, label, and the prefix of its columns.
struct Place {
    folder: String,
    label: Option<String>,
    prefix: String,
}

/// Returns the path of the process's group in a controller's hierarchy, without a final `/`.
fn group_of(root: &Root, process: u32, controller: &str) -> Option<String> {
    let text = root.read_text(&format!("/proc/{process}/cgroup")).ok()?;
    let of_controller = |line: &str| {
        let (controllers, group) = line.split_once(':')?.1.split_once(':')?;
        let is_it = controllers.split(',').any(|one| one == controller);
        is_it.then(|| group.trim_end_matches('/').to_owned())
    };
    text.lines()
        .find_map(of_controller)
        .filter(|group| !group.split('/').any(|part| part == ".."))
}

fn is_limited(root: &Root, place: &Place) -> bool {
    let number = |file: &str| {
        let text = root.read_text(&format!("{}/{file}", place.folder)).ok()?;
        text.trim().parse::<i64>().ok()?.try_into().ok()
    };
    let memory: Option<u64> = number("memory.limit_in_bytes");
    // -1 means no quota.
    memory.is_some_and(|limit| limit < NO_LIMIT) || number("cpu.cfs_quota_us").is_some()
}

fn memory(root: &Root, place: &Place, found: &mut Found) {
    let Place {
        folder,
        label,
        prefix,
    } = place;
    let columns = [
        (
            "memory.usage_in_bytes",
            Column::level(format!("{prefix}.memory"), "B", 1),
        ),
        (
            "memory.failcnt",
            Column::counter(format!("{prefix}.memory_events.max"), "count", 1),
        ),
    ];
    for (file, column) in columns {
        let path = format!("{folder}/{file}");
        if root.path(&path).exists() {
            let column = column.labelled(label.clone());
            found.add(Feed::open(root, &path, vec![column], Number::any()));
        }
    }
}

fn cpu(root: &Root, place: &Place, found: &mut Found) {
    let path = format!("{}/cpu.stat", place.folder);
    let Ok(text) = root.read_bytes(&path) else {
        return;
    };
    let (names, parser) = Keyed::layout(&text, b' ', 1, |name| {
        ["nr_throttled", "throttled_time"].contains(&name)
    });
    let column = |name: &String| {
        let prefix = &place.prefix;
        let column = match name.as_str() {
            "throttled_time" => Column::counter(format!("{prefix}.cpu.throttled"), "s", 1_000_000_000),
            _ => Column::counter(format!("{prefix}.cpu.{name}"), "count", 1),
        };
        column.labelled(place.label.clone())
    };
    if !names.is_empty() {
        found.add(Feed::open(
            root,
            &path,
            names.iter().map(column).collect(),
            parser,
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::machine;
    use crate::sample::cgroup::open;

    const USED: (&str, &str) = ("/memory/a/b/memory.usage_in_bytes", "4096\n");
    const MET: (&str, &str) = ("/memory/a/b/memory.failcnt", "7\n");
    const MET_ABOVE: (&str, &str) = ("/memory/a/memory.failcnt", "3\n");
    const STAT: (&str, &str) = (
        "/cpu/q/cpu.stat",
        "nr_periods 9\nnr_throttled 4\nthrottled_time 2500000000\n",
    );

    fn told(groups: &str, files: &[(&str, &str)]) -> Vec<(String, String)> {
        let (_folder, root) = machine(groups, files);
        let found = open(&root, 7);
        let columns = found.feeds.iter().flat_map(|feed| &feed.columns);
        columns
            .map(|column| (column.name.clone(), column.label.clone().unwrap_or_default()))
            .collect()
    }

    #[test]
    fn limits_and_what_is_used_have_the_names_of_version_2() {
        let groups = "4:memory:/a/b\n2:cpu,cpuacct:/q\n0::/\n";
        let free = ("/memory/a/memory.limit_in_bytes", "9223372036854771712\n");
        let pair = |name: &str, label: &str| (name.to_owned(), label.to_owned());
        let own = [
            pair("cgroup.memory", "memory:/a/b"),
            pair("cgroup.memory_events.max", "memory:/a/b"),
            pair("cgroup.cpu.nr_throttled", "cpu:/q"),
            pair("cgroup.cpu.throttled", "cpu:/q"),
        ];
        assert_eq!(told(groups, &[USED, MET, MET_ABOVE, free, STAT]), own);
        let limited = ("/memory/a/memory.limit_in_bytes", "1048576\n");
        let above = pair("cgroup.above1.memory_events.max", "memory:/a");
        assert!(told(groups, &[USED, MET, MET_ABOVE, limited, STAT]).contains(&above));
    }

    #[test]
    fn the_topmost_groups_and_those_outside_tell_nothing() {
        let topmost = ("/memory/memory.usage_in_bytes", "4096\n");
        assert!(told("4:memory:/\n0::/\n", &[topmost]).is_empty());
        assert!(told("4:memory:/../a/b\n", &[USED]).is_empty());
        let (_folder, root) = machine("0::/\n", &[]);
        assert!(open(&root, 7).feeds.is_empty());
    }
}
