// SPDX-License-Identifier: Apache-2.0
//! `temperature`: thermal zones, and hwmon sensors (including those of `NVMe` drives).

use super::feed::{Column, Feed, Found};
use super::names::{chips, clean, numbered, Sensor};
use super::text::Number;
use crate::root::Root;

const ZONES: &str = "/sys/class/thermal";

/// Thousandths of a degree. A sensor without a reading shows exactly zero, less, or an impossible
/// value.
fn degrees() -> Number {
    Number {
        scale: 1,
        sane: 1..=150_000,
    }
}

pub fn open(root: &Root) -> Found {
    let mut found = Found::default();
    for (_, zone) in numbered(root, ZONES, "thermal_zone") {
        let kind = root
            .read_text(&format!("{ZONES}/{zone}/type"))
            .unwrap_or_default();
        let name = format!("temperature.{}.{zone}", clean(&kind));
        let columns = vec![Column::level(name, "C", 1000)];
        found.add(Feed::open(
            root,
            &format!("{ZONES}/{zone}/temp"),
            columns,
            degrees(),
        ));
    }
    for Sensor {
        chip,
        input,
        path,
        label,
    } in chips(root, "temp")
    {
        let columns = vec![Column::level(format!("temperature.{chip}.{input}"), "C", 1000).labelled(label)];
        found.add(Feed::open(root, &path, columns, degrees()));
    }
    if found.feeds.is_empty() && found.missing.is_empty() {
        return Found::none("no thermal zone and no hwmon sensor");
    }
    found
}
