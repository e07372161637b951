// SPDX-License-Identifier: Apache-2.0
//! `zram`: how full each device is.

use super::feed::{Cell, Column, Feed, Found, Parser, Progress};
use super::names::numbered;
use super::text::{number, Number};
use crate::root::Root;

const FOLDER: &str = "/sys/block";
/// Numbers of the file in order; None for a number to skip.
const FIELDS: [Option<(&str, &str)>; 8] = [
    Some(("data", "B")),
    Some(("compressed", "B")),
    Some(("memory", "B")),
    None,
    None,
    Some(("same_pages", "count")),
    None,
    Some(("huge_pages", "count")),
];

struct Fill;

pub fn open(root: &Root) -> Found {
    let mut found = Found::default();
    for (device, name) in numbered(root, FOLDER, "zram") {
        let column = |what: &str, unit| Column::level(format!("zram.zram{device}.{what}"), unit, 1);
        let columns = FIELDS.iter().flatten().map(|(what, unit)| column(what, unit));
        let path = |file: &str| format!("{FOLDER}/{name}/{file}");
        found.add(Feed::open(root, &path("mm_stat"), columns.collect(), Fill));
        let size = vec![column("disk", "B")];
        found.add(Feed::open(root, &path("disksize"), size, Number::any()));
    }
    if found.feeds.is_empty() && found.missing.is_empty() {
        return Found::none("no zram device");
    }
    found
}

impl Parser for Fill {
    fn parse(&mut self, text: &[u8], row: &mut [Cell]) -> Progress {
        let mut rest = text;
        let mut cells = row.iter_mut();
        for (place, field) in FIELDS.iter().enumerate() {
            let Some((value, after)) = number(rest) else {
                // Older kernels have fewer numbers.
                return if place == 0 {
                    Progress::Garbage
                } else {
                    Progress::Done
                };
            };
            rest = after;
            if field.is_some() {
                if let Some(cell) = cells.next() {
                    *cell = value;
                }
            }
        }
        Progress::Done
    }
}
