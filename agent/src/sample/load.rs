// SPDX-License-Identifier: Apache-2.0
//! `load`: load averages, runnable tasks, all tasks.

use super::feed::{Cell, Column, Feed, Found, Parser, Progress};
use super::text::{hundredths, number};
use crate::root::Root;

const PATH: &str = "/proc/loadavg";

struct Averages;

pub fn open(root: &Root) -> Found {
    let columns = vec![
        Column::level("load.1min", "count", 100),
        Column::level("load.5min", "count", 100),
        Column::level("load.15min", "count", 100),
        Column::level("load.runnable", "count", 1),
        Column::level("load.tasks", "count", 1),
    ];
    Found::one(Feed::open(root, PATH, columns, Averages))
}

fn fields(text: &[u8]) -> Option<[Cell; 5]> {
    let (one, rest) = hundredths(text)?;
    let (five, rest) = hundredths(rest)?;
    let (fifteen, rest) = hundredths(rest)?;
    let (runnable, rest) = number(rest)?;
    let (tasks, _) = number(rest.strip_prefix(b"/")?)?;
    Some([one, five, fifteen, runnable, tasks])
}

impl Parser for Averages {
    fn parse(&mut self, text: &[u8], row: &mut [Cell]) -> Progress {
        match fields(text) {
            Some(found) => {
                row.copy_from_slice(&found);
                Progress::Done
            }
            None => Progress::Garbage,
        }
    }
}
