// SPDX-License-Identifier: Apache-2.0
//! `frequency`: the clock of each cpufreq policy.

use super::feed::{Column, Feed, Found};
use super::names::numbered;
use super::text::Number;
use crate::root::Root;

const FOLDER: &str = "/sys/devices/system/cpu/cpufreq";

pub fn open(root: &Root) -> Found {
    let mut found = Found::default();
    for (policy, name) in numbered(root, FOLDER, "policy") {
        let columns = vec![Column::level(format!("frequency.policy{policy}"), "Hz", 1)];
        // In kilohertz; no clock stands still, and none runs at a terahertz.
        let parser = Number {
            scale: 1000,
            sane: 1..=1_000_000_000,
        };
        found.add(Feed::open(
            root,
            &format!("{FOLDER}/{name}/scaling_cur_freq"),
            columns,
            parser,
        ));
    }
    if found.feeds.is_empty() && found.missing.is_empty() {
        return Found::none(format!(
            "no policy in {FOLDER}: the kernel does not control the clock here"
        ));
    }
    found
}
