// SPDX-License-Identifier: Apache-2.0
//! `fragmentation`: free blocks of memory by order, over all zones.

use super::feed::{Cell, Column, Feed, Found, Parser, Progress};
use super::text::{lines, number};
use crate::root::Root;
use memchr::memmem::find;

const PATH: &str = "/proc/buddyinfo";

struct Buddies {
    /// Number of zones.
    zones: usize,
}

pub fn open(root: &Root) -> Found {
    let text = match root.read_bytes(PATH) {
        Ok(text) => text,
        Err(error) => return Found::none(format!("{PATH}: {error}")),
    };
    let zones: Vec<usize> = lines(&text)
        .filter_map(|line| Some(counts(line)?.count()))
        .collect();
    let orders = zones.iter().copied().max().unwrap_or_default();
    if orders == 0 {
        return Found::none(format!("{PATH}: no known line"));
    }
    let columns = (0..orders)
        .map(|order| Column::level(format!("fragmentation.free_blocks_order_{order}"), "count", 1))
        .collect();
    Found::one(Feed::open(root, PATH, columns, Buddies { zones: zones.len() }))
}

/// Returns the free blocks of a zone, by order.
fn counts(line: &[u8]) -> Option<impl Iterator<Item = Cell> + '_> {
    let zone = line
        .get(find(line, b"zone")? + b"zone".len()..)?
        .trim_ascii_start();
    let mut rest = zone.get(memchr::memchr(b' ', zone)?..)?;
    Some(std::iter::from_fn(move || {
        let (count, after) = number(rest)?;
        rest = after;
        Some(count)
    }))
}

impl Parser for Buddies {
    fn parse(&mut self, text: &[u8], row: &mut [Cell]) -> Progress {
        if memchr::memchr_iter(b'\n', text).count() < self.zones {
            return Progress::More;
        }
        row.fill(0);
        for counts in lines(text).filter_map(counts) {
            for (cell, count) in row.iter_mut().zip(counts) {
                *cell = cell.saturating_add(count);
            }
        }
        Progress::Done
    }
}
