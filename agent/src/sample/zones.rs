// SPDX-License-Identifier: Apache-2.0
//! `zones`: free pages of each memory zone, and its watermarks.

use super::feed::{Cell, Column, Feed, Found, Parser, Progress};
use super::names::clean;
use super::table::whole_lines;
use super::text::number;
use crate::root::Root;

const PATH: &str = "/proc/zoneinfo";
/// Beginnings of the lines to read, and their columns.
const WANTED: [(&[u8], &str); 6] = [
    (b"pages free", "free"),
    (b"boost", "boost"),
    (b"min", "min"),
    (b"low", "low"),
    (b"high", "high"),
    (b"managed", "managed"),
];

struct Zones {
    /// Lines such as `Node 0, zone   Normal`.
    heads: Vec<Vec<u8>>,
}

pub fn open(root: &Root) -> Found {
    let text = match root.read_bytes(PATH) {
        Ok(text) => text,
        Err(error) => return Found::none(format!("{PATH}: {error}")),
    };
    let heads: Vec<Vec<u8>> = whole_lines(&text)
        .filter(|line| is_head(line))
        .map(<[u8]>::to_vec)
        .collect();
    if heads.is_empty() {
        return Found::none(format!("{PATH}: no known line"));
    }
    let columns = heads.iter().flat_map(|head| {
        let name = String::from_utf8_lossy(head);
        let (node, zone) = name.split_once(", zone").unwrap_or_default();
        let zone = format!("{}.{}", clean(&node.replace("Node ", "node")), clean(zone));
        WANTED.map(|(_, what)| Column::level(format!("zones.{zone}.{what}"), "count", 1))
    });
    let columns: Vec<Column> = columns.collect();
    Found::one(Feed::open(root, PATH, columns, Zones { heads }))
}

fn is_head(line: &[u8]) -> bool {
    line.starts_with(b"Node ")
}

impl Parser for Zones {
    fn parse(&mut self, text: &[u8], row: &mut [Cell]) -> Progress {
        let mut cells: Option<&mut [Cell]> = None;
        let mut row = row;
        let mut heads = self.heads.iter();
        for line in whole_lines(text) {
            if is_head(line) {
                if heads.next().is_none_or(|head| head != line) {
                    return Progress::Garbage;
                }
                let (own, rest) = std::mem::take(&mut row).split_at_mut(WANTED.len());
                cells = Some(own);
                row = rest;
                continue;
            }
            let Some(cells) = cells.as_deref_mut() else {
                continue;
            };
            let line = line.trim_ascii_start();
            for (cell, (begin, _)) in cells.iter_mut().zip(WANTED) {
                let found = line.strip_prefix(begin).filter(|rest| rest.starts_with(b" "));
                if let Some((value, _)) = found.and_then(number) {
                    *cell = value;
                }
            }
        }
        // More lines of the last zone may follow.
        Progress::SoFar
    }
}

#[cfg(test)]
mod tests {
    use super::super::feed::MISSING;
    use super::*;

    #[test]
    fn watermarks_belong_to_their_zones() {
        let text = b"Node 0, zone      DMA\n  per-node stats\n      nr_inactive_anon 5\n  pages free     3840\n        boost    0\n        \
            min      15\n        low      18\n        high     21\n        managed  3840\nNode 0, zone   Normal\n  pages free     77\n        min      9\n";
        let heads = whole_lines(text)
            .filter(|line| is_head(line))
            .map(<[u8]>::to_vec)
            .collect();
        let mut row = [MISSING; 12];
        assert_eq!(Zones { heads }.parse(text, &mut row), Progress::SoFar);
        assert_eq!(row[..6], [3840, 0, 15, 18, 21, 3840]);
        assert_eq!((row[6], row[7], row[8]), (77, MISSING, 9));
    }
}
