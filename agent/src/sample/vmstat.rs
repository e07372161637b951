// SPDX-License-Identifier: Apache-2.0
//! `vmstat`: counters of reclaim, swap, compaction, faults.

use super::feed::{Column, Feed, Found};
use super::text::Keyed;
use crate::root::Root;

const PATH: &str = "/proc/vmstat";
/// Counters, by what their names begin with.
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
/// Counters by their whole names.
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

/// What was read from and written to disks and swap.
const PAGING: [&str; 4] = ["pgpgin", "pgpgout", "pswpin", "pswpout"];

pub fn open(root: &Root) -> Found {
    let wanted = |name: &str| WHOLE.contains(&name) || BEGIN.iter().any(|begin| name.starts_with(begin));
    counters(root, "vmstat", wanted)
}

/// `paging`: four of these counters alone, at half the cost.
pub fn open_paging(root: &Root) -> Found {
    counters(root, "paging", |name| PAGING.contains(&name))
}

fn counters(root: &Root, source: &str, wanted: impl Fn(&str) -> bool) -> Found {
    let text = match root.read_bytes(PATH) {
        Ok(text) => text,
        Err(error) => return Found::none(format!("{PATH}: {error}")),
    };
    let (names, parser) = Keyed::layout(&text, b' ', 1, wanted);
    if names.is_empty() {
        return Found::none(format!("{PATH}: none of its lines is known"));
    }
    let columns = names
        .iter()
        .map(|name| Column::word_counter(format!("{source}.{name}"), "count"))
        .collect();
    Found::one(Feed::open(root, PATH, columns, parser))
}
