// SPDX-License-Identifier: Apache-2.0
//! `idle`: how long each CPU was in each of its idle states, and how often.

use super::feed::{Column, Feed, Found};
use super::names::numbered;
use super::text::Number;
use crate::root::Root;

const CPUS: &str = "/sys/devices/system/cpu";

pub fn open(root: &Root) -> Found {
    let mut found = Found::default();
    for (cpu, folder) in numbered(root, CPUS, "cpu") {
        let states = format!("{CPUS}/{folder}/cpuidle");
        for (number, state) in numbered(root, &states, "state") {
            let label = root.read_text(&format!("{states}/{state}/name")).ok();
            for (file, unit, per_unit) in [("time", "s", 1_000_000), ("usage", "count", 1)] {
                let name = format!("idle.cpu{cpu}.state{number}.{file}");
                let column = Column::counter(name, unit, per_unit).labelled(label.clone());
                found.add(Feed::open(
                    root,
                    &format!("{states}/{state}/{file}"),
                    vec![column],
                    Number::any(),
                ));
            }
        }
    }
    if found.feeds.is_empty() && found.missing.is_empty() {
        return Found::none("no CPU has idle states (cpuidle)");
    }
    found
}
