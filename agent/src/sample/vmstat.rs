// SPDX-License-Identifier: Apache-2.0
//! `vmstat`: counters of reclaim, swap, compaction and faults.

use super::feed::{Column, Feed, Found};
use super::text::Keyed;
use crate::root::Root;

const PATH: &str = "/proc/vmstat";
/// Prefixes of counters.
const BEGIN: [&str; 8] = [
    "allocstall",
    "pgscan",
    "pgsteal",
    "pswp",
    "compact_",
    "workingset_refault",
    "thp_fault_",
    "kswapd_",
];
/// Full names of counters.
const WHOLE: [&str; 8] = [
    "pgfault",
    "pgmajfault",
    "pgpgin",
    "pgpgout",
    "pageoutrun",
    "oom_kill",
    "drop_pagecache",
    "drop_slab",
];

/// Amounts read from and written to disks and swap.
const PAGING: [&str; 4] = ["pgpgin", "pgpgout", "pswpin", "pswpout"];

pub fn open(root: &Root) -> Found {
    let wanted = |name: &str| WHOLE.contains(&name) || BEGIN.iter().any(|begin| name.starts_with(begin));
    counters(root, "vmstat", wanted)
}

/// `paging`: four of these counters, at half the cost.
pub fn open_paging(root: &Root) -> Found {
    counters(root, "paging", |name| PAGING.contains(&name))
}

/// The source with all lines.
pub const WHOLE_SOURCE: &str = "vmstat_all";
/// Prefixes of values that are states rather than counters.
const LEVELS: [&str; 2] = ["nr_", "unevictable_pgs_mlocked"];
/// Exceptions to these prefixes, which are counters.
const COUNTING: [&str; 5] = [
    "nr_dirtied",
    "nr_written",
    "nr_vmscan_",
    "nr_throttled_written",
    "nr_foll_pin_",
];

/// `vmstat_all`: every line, under the names of `vmstat`.
pub fn open_whole(root: &Root) -> Found {
    let begins = |name: &str, with: &[&str]| with.iter().any(|begin| name.starts_with(begin));
    let column = |name: &str| {
        let full = format!("vmstat.{name}");
        if begins(name, &LEVELS) && !begins(name, &COUNTING) {
            Column::level(full, "count", 1)
        } else {
            Column::word_counter(full, "count")
        }
    };
    lines_of(root, |_| true, column)
}

fn counters(root: &Root, source: &str, wanted: impl Fn(&str) -> bool) -> Found {
    lines_of(root, wanted, |name| {
        Column::word_counter(format!("{source}.{name}"), "count")
    })
}

fn lines_of(root: &Root, wanted: impl Fn(&str) -> bool, column: impl Fn(&str) -> Column) -> Found {
    let text = match root.read_bytes(PATH) {
        Ok(text) => text,
        Err(error) => return Found::none(format!("{PATH}: {error}")),
    };
    let (names, parser) = Keyed::layout(&text, b' ', 1, wanted);
    if names.is_empty() {
        return Found::none(format!("{PATH}: no known line"));
    }
    let columns = names.iter().map(|name| column(name)).collect();
    Found::one(Feed::open(root, PATH, columns, parser))
}
