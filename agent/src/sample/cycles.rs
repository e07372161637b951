// SPDX-License-Identifier: Apache-2.0
//! `cycles`: the counters APERF and MPERF of each CPU. The ratio of their differences is the clock
//! relative to the nominal one. For root only, if the kernel offers the registers as files.

use super::feed::{Cell, Column, Feed, Found, Parser, Progress};
use super::names::numbered;
use crate::root::Root;

const FOLDER: &str = "/dev/cpu";
/// Register numbers and columns.
const REGISTERS: [(u64, &str); 2] = [(0xe8, "aperf"), (0xe7, "mperf")];

/// Size of a register.
const BYTES: usize = 8;

/// Parses a register.
pub struct Register;

pub fn open(root: &Root) -> Found {
    let mut found = Found::default();
    for (cpu, name) in numbered(root, FOLDER, "") {
        for (register, column) in REGISTERS {
            let columns = vec![Column::counter(format!("cycles.cpu{cpu}.{column}"), "count", 1)];
            found.add(
                Feed::open(root, &format!("{FOLDER}/{name}/msr"), columns, Register)
                    .map(|feed| feed.at(register)),
            );
        }
    }
    if found.feeds.is_empty() {
        let why = found
            .missing
            .pop()
            .unwrap_or_else(|| format!("{FOLDER}: no CPU has registers here"));
        return Found::none(why);
    }
    found
}

impl Parser for Register {
    /// A longer read would make the CPU read the register repeatedly.
    fn enough(&self) -> usize {
        BYTES
    }

    fn parse(&mut self, text: &[u8], row: &mut [Cell]) -> Progress {
        let value = text
            .first_chunk::<BYTES>()
            .map(|bytes| u64::from_le_bytes(*bytes));
        match value.and_then(|value| Cell::try_from(value).ok()) {
            // A virtual machine without this counter shows zero.
            Some(0) | None => Progress::Garbage,
            Some(value) => {
                row[0] = value;
                Progress::Done
            }
        }
    }
}
