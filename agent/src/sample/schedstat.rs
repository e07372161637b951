// SPDX-License-Identifier: Apache-2.0
//! `schedstat`: for each CPU, how long tasks ran and how long they waited for it.

use super::feed::{Cell, Column, Feed, Found, MISSING};
use super::table::Table;
use super::text::number;
use crate::root::Root;

const PATH: &str = "/proc/schedstat";
/// Fields after a CPU's name: time run and time waited, in nanoseconds.
const WANTED: [(usize, &str); 2] = [(6, "run"), (7, "wait")];
const PER_S: u64 = 1_000_000_000;

pub fn open(root: &Root) -> Found {
    let text = match root.read_bytes(PATH) {
        Ok(text) => text,
        Err(error) => return Found::none(format!("{PATH}: {error}")),
    };
    let names = Table::names(&text, key, |_, _| true);
    if names.is_empty() {
        return Found::none(format!("{PATH}: no known line"));
    }
    let columns = names.iter().flat_map(|name| {
        let cpu = String::from_utf8_lossy(name).into_owned();
        WANTED.map(|(_, what)| Column::counter(format!("schedstat.{cpu}.{what}"), "s", PER_S))
    });
    let columns: Vec<Column> = columns.collect();
    let table = Table {
        names,
        each: WANTED.len(),
        key,
        fill,
    };
    Found::one(Feed::open(root, PATH, columns, table))
}

fn key(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = memchr::memchr(b' ', line)?;
    line.starts_with(b"cpu").then(|| (&line[..end], &line[end..]))
}

fn fill(rest: &[u8], row: &mut [Cell]) {
    let fields: Vec<&[u8]> = rest
        .split(|byte| *byte == b' ')
        .filter(|field| !field.is_empty())
        .collect();
    for (cell, (place, _)) in row.iter_mut().zip(WANTED) {
        let found = fields.get(place).and_then(|field| number(field));
        *cell = found.map_or(MISSING, |(value, _)| value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_are_the_seventh_and_eighth() {
        let (name, rest) = key(b"cpu0 0 0 0 0 0 0 111 222 33").unwrap();
        let mut row = [0; 2];
        fill(rest, &mut row);
        assert_eq!((name, row), (&b"cpu0"[..], [111, 222]));
        assert!(key(b"domain0 3 0").is_none());
    }
}
