// SPDX-License-Identifier: Apache-2.0
//! `uptime`: time since boot.

use super::feed::{Cell, Column, Feed, Found, Parser, Progress};
use super::text::hundredths;
use crate::root::Root;

const PATH: &str = "/proc/uptime";

struct Uptime;

pub fn open(root: &Root) -> Found {
    let columns = vec![Column::level("uptime.since_boot", "s", 100)];
    Found::one(Feed::open(root, PATH, columns, Uptime))
}

impl Parser for Uptime {
    fn parse(&mut self, text: &[u8], row: &mut [Cell]) -> Progress {
        match hundredths(text) {
            Some((value, _)) => {
                row[0] = value;
                Progress::Done
            }
            None => Progress::Garbage,
        }
    }
}
