// SPDX-License-Identifier: Apache-2.0
//! `fan`: the speed of each fan in hwmon.

use super::feed::{Column, Feed, Found};
use super::names::{chips, Sensor};
use super::text::Number;
use crate::root::Root;

pub fn open(root: &Root) -> Found {
    let mut found = Found::default();
    for Sensor {
        chip,
        input,
        path,
        label,
    } in chips(root, "fan")
    {
        let columns = vec![Column::level(format!("fan.{chip}.{input}"), "1/s", 60).labelled(label)];
        // In revolutions per minute; a fan may stand still.
        let parser = Number {
            scale: 1,
            sane: 0..=65_000,
        };
        found.add(Feed::open(root, &path, columns, parser));
    }
    if found.feeds.is_empty() && found.missing.is_empty() {
        return Found::none("hwmon has no fan");
    }
    found
}
