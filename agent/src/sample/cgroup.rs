// SPDX-License-Identifier: Apache-2.0
//! `cgroup`: memory, throttling and pressure of the control group of a process.

use super::feed::{Column, Feed, Found};
use super::text::{Keyed, Number};
use crate::root::Root;

const MOUNT: &str = "/sys/fs/cgroup";
/// Counters of files of lines, by file: what a column is called after it.
const LINES: [(&str, &str, &[&str]); 3] = [
    (
        "memory.events",
        "memory_events",
        &["high", "max", "oom", "oom_kill"],
    ),
    (
        "cpu.stat",
        "cpu",
        &["nr_throttled", "throttled_usec", "usage_usec"],
    ),
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

/// That of this process.
pub fn open(root: &Root, process: u32) -> Found {
    let path = format!("/proc/{process}/cgroup");
    let text = match root.read_text(&path) {
        Ok(text) => text,
        Err(error) => return Found::none(format!("{path}: {error}")),
    };
    let Some(group) = text.lines().find_map(|line| line.strip_prefix("0::")) else {
        return Found::none("the process is in no control group of version 2");
    };
    let folder = format!("{MOUNT}{}", group.trim_end_matches('/'));
    let mut found = Found::default();
    for (file, what) in [("memory.current", "memory"), ("memory.swap.current", "swap")] {
        let path = format!("{folder}/{file}");
        if root.path(&path).exists() {
            let column = Column::level(format!("cgroup.{what}"), "B", 1).labelled(Some(group.to_owned()));
            found.add(Feed::open(root, &path, vec![column], Number::any()));
        }
    }
    for (file, what, wanted) in LINES {
        let path = format!("{folder}/{file}");
        let Ok(text) = root.read_bytes(&path) else {
            continue;
        };
        let (names, parser) = Keyed::layout(&text, b' ', 1, |name| wanted.contains(&name));
        let column = |name: &String| match name.strip_suffix("_usec") {
            Some(time) => Column::counter(format!("cgroup.{what}.{time}"), "s", 1_000_000),
            None => Column::counter(format!("cgroup.{what}.{name}"), "count", 1),
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
    if found.feeds.is_empty() && found.missing.is_empty() {
        return Found::none(format!(
            "{folder} tells nothing of memory and CPU (controllers of version 1, or none)"
        ));
    }
    found
}
