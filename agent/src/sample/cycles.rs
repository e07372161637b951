// SPDX-License-Identifier: Apache-2.0
//! `cycles`: the counters APERF and MPERF of each CPU, whose differences' ratio is its clock over the nominal one.
//! For root alone, where the kernel offers the registers as files.

use super::feed::{Cell, Column, Feed, Found, Parser, Progress};
use super::names::numbered;
use crate::root::Root;

const FOLDER: &str = "/dev/cpu";
/// Register, column.
const REGISTERS: [(u64, &str); 2] = [(0xe8, "aperf"), (0xe7, "mperf")];

/// A register's bytes.
const BYTES: usize = 8;

/// A register.
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
            .unwrap_or_else(|| format!("{FOLDER}: no CPU's registers"));
        return Found::none(why);
    }
    found
}

impl Parser for Register {
    /// A longer read makes the CPU read the register again and again.
    fn enough(&self) -> usize {
        BYTES
    }

    fn parse(&mut self, text: &[u8], row: &mut [Cell]) -> Progress {
        let value = text
            .first_chunk::<BYTES>()
            .map(|bytes| u64::from_le_bytes(*bytes));
        match value.and_then(|value| Cell::try_from(value).ok()) {
            // A virtual machine that has no such counter shows zero.
            Some(0) | None => Progress::Garbage,
            Some(value) => {
                row[0] = value;
                Progress::Done
            }
        }
    }
}
