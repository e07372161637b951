// SPDX-License-Identifier: Apache-2.0
//! `throttle`: how often and how long heat slowed a CPU down.

use super::feed::{Column, Feed, Found};
use super::names::numbered;
use super::text::Number;
use crate::root::Root;
use std::collections::BTreeSet;

const FOLDER: &str = "/sys/devices/system/cpu";
/// File, column, unit, integers per unit.
const OF_CORE: [(&str, &str, &str, u64); 2] = [
    ("core_throttle_count", "core_count", "count", 1),
    ("core_throttle_total_time_ms", "core_time", "s", 1000),
];
const OF_PACKAGE: [(&str, &str, &str, u64); 2] = [
    ("package_throttle_count", "package_count", "count", 1),
    ("package_throttle_total_time_ms", "package_time", "s", 1000),
];

pub fn open(root: &Root) -> Found {
    let mut found = Found::default();
    let mut packages = BTreeSet::new();
    for (cpu, name) in numbered(root, FOLDER, "cpu") {
        let package = root.read_text(&format!("{FOLDER}/{name}/topology/physical_package_id"));
        // All CPUs of a package show the same counter.
        let first = packages.insert(package.unwrap_or_else(|_| name.clone()));
        let files = OF_CORE
            .into_iter()
            .chain(OF_PACKAGE.into_iter().filter(|_| first));
        for (file, column, unit, per_unit) in files {
            let columns = vec![Column::counter(
                format!("throttle.cpu{cpu}.{column}"),
                unit,
                per_unit,
            )];
            let path = format!("{FOLDER}/{name}/thermal_throttle/{file}");
            if let Ok(feed) = Feed::open(root, &path, columns, Number::any()) {
                found.feeds.push(feed);
            }
        }
    }
    if found.feeds.is_empty() {
        return Found::none(format!("no CPU in {FOLDER} has thermal_throttle"));
    }
    found
}
