// SPDX-License-Identifier: Apache-2.0
//! `disks`: requests, bytes and time of each block device that has been used.

use super::feed::{Cell, Column, Feed, Found, MISSING};
use super::names::clean;
use super::table::Table;
use super::text::number;
use crate::root::Root;

const PATH: &str = "/proc/diskstats";
const SECTOR_BYTES: Cell = 512;
/// Fields after the name, in order; None for a field to skip. The last number is the factor to
/// multiply with.
const FIELDS: [Option<(&str, &str, u64, Cell)>; 17] = [
    Some(("reads", "count", 1, 1)),
    None,
    Some(("read", "B", 1, SECTOR_BYTES)),
    Some(("read_time", "s", 1000, 1)),
    Some(("writes", "count", 1, 1)),
    None,
    Some(("written", "B", 1, SECTOR_BYTES)),
    Some(("write_time", "s", 1000, 1)),
    Some(("in_flight", "count", 1, 1)),
    Some(("busy_time", "s", 1000, 1)),
    Some(("queue_time", "s", 1000, 1)),
    Some(("discards", "count", 1, 1)),
    None,
    None,
    Some(("discard_time", "s", 1000, 1)),
    Some(("flushes", "count", 1, 1)),
    Some(("flush_time", "s", 1000, 1)),
];

pub fn open(root: &Root) -> Found {
    let text = match root.read_bytes(PATH) {
        Ok(text) => text,
        Err(error) => return Found::none(format!("{PATH}: {error}")),
    };
    let whole = |name: &str| !root.path(&format!("/sys/class/block/{name}/partition")).exists();
    let used = |_: &[u8], rest: &[u8]| {
        rest.split(|byte| *byte == b' ')
            .any(|count| !matches!(count, b"" | b"0"))
    };
    let names: Vec<Vec<u8>> = Table::names(&text, key, used)
        .into_iter()
        .filter(|name| whole(&String::from_utf8_lossy(name)))
        .collect();
    if names.is_empty() {
        return Found::none(format!("{PATH}: no device has been used"));
    }
    let wanted = || FIELDS.into_iter().flatten();
    let columns = names.iter().flat_map(|name| {
        let device = clean(&String::from_utf8_lossy(name));
        wanted().map(move |(what, unit, per_unit, _)| {
            let name = format!("disks.{device}.{what}");
            if what == "in_flight" {
                Column::level(name, unit, per_unit)
            } else {
                Column::counter(name, unit, per_unit)
            }
        })
    });
    let columns: Vec<Column> = columns.collect();
    let table = Table {
        names,
        each: wanted().count(),
        key,
        fill,
    };
    Found::one(Feed::open(root, PATH, columns, table))
}

/// Splits `   8       0 sda 1 2 3` into the device and the rest.
fn key(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let (_, rest) = number(line)?;
    let (_, rest) = number(rest)?;
    let rest = rest.trim_ascii_start();
    let end = memchr::memchr(b' ', rest)?;
    Some((&rest[..end], &rest[end..]))
}

fn fill(rest: &[u8], row: &mut [Cell]) {
    let mut rest = rest;
    let mut cells = row.iter_mut();
    for field in FIELDS {
        let found = number(rest);
        if let Some((_, after)) = found {
            rest = after;
        }
        if let Some((_, _, _, times)) = field {
            if let Some(cell) = cells.next() {
                *cell = found.map_or(MISSING, |(value, _)| value.saturating_mul(times));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_an_older_kernel_does_not_have_are_missing() {
        let (name, rest) = key(b"   8       0 sda 10 1 16 30 20 2 32 40 1 50 70").unwrap();
        assert_eq!(name, b"sda");
        let mut row = [0; 13];
        fill(rest, &mut row);
        assert_eq!(row[..9], [10, 8192, 30, 20, 16384, 40, 1, 50, 70]);
        assert!(row[9..].iter().all(|cell| *cell == MISSING));
    }
}
