// SPDX-License-Identifier: Apache-2.0
//! Samples in memory, thinned if there are too many, and their encoding in a reply.

use super::feed::{Cell, LIE, MISSING};
use super::set::Set;
use crate::bytes::LINE_BYTES;
use crate::root::Root;
use serde_json::{json, Map, Value};
use std::collections::BTreeMap;

/// Most cells to keep: 32 MiB.
const MOST_CELLS: usize = 4 << 20;
/// Bytes of a reply reserved for everything but the cells.
const FRAME_BYTES: usize = LINE_BYTES / 8;
/// Bytes for a column's name, unit and so on: twice the usual.
const COLUMN_BYTES: usize = 256;

/// The samples of a set.
pub struct Recording {
    times_ns: Vec<u64>,
    read_ns: Vec<u64>,
    cells: Vec<Cell>,
    width: usize,
    most_cells: usize,
}

impl Recording {
    /// Creates a recording with space for this many samples, up to the memory limit.
    pub fn new(width: usize, samples: u64) -> Self {
        Self::bounded(width, samples, MOST_CELLS)
    }

    fn bounded(width: usize, samples: u64, most_cells: usize) -> Self {
        let most = most_cells / width.max(1) + 1;
        let room = usize::try_from(samples).unwrap_or(most).min(most);
        Self {
            times_ns: Vec::with_capacity(room),
            read_ns: Vec::with_capacity(room),
            cells: Vec::with_capacity(room * width),
            width,
            most_cells,
        }
    }

    /// Returns the number of samples.
    pub fn len(&self) -> usize {
        self.times_ns.len()
    }

    /// Takes a sample. Returns true if every second one was dropped to make space.
    pub fn take(&mut self, set: &mut Set, now_ns: impl Fn() -> u64) -> bool {
        let begin = self.cells.len();
        self.cells.resize(begin + self.width, MISSING);
        let at_ns = now_ns();
        set.sample(&mut self.cells[begin..]);
        self.times_ns.push(at_ns);
        self.read_ns.push(now_ns().saturating_sub(at_ns));
        let full = self.cells.len() + self.width > self.most_cells && self.len() > 2;
        if full {
            self.thin();
        }
        full
    }

    /// Drops every second sample, but neither the first nor the last.
    fn thin(&mut self) {
        let last = self.len() - 1;
        let mut kept = 0;
        for place in 0..=last {
            if place % 2 == 0 || place == last {
                self.times_ns[kept] = self.times_ns[place];
                self.read_ns[kept] = self.read_ns[place];
                let from = place * self.width;
                self.cells.copy_within(from..from + self.width, kept * self.width);
                kept += 1;
            }
        }
        self.times_ns.truncate(kept);
        self.read_ns.truncate(kept);
        self.cells.truncate(kept * self.width);
    }

    /// Thins the samples until they fit into a reply. Returns how often they were halved.
    pub fn fit(&mut self) -> u32 {
        let mut halved = 0;
        let room = LINE_BYTES - FRAME_BYTES - (self.width * COLUMN_BYTES).min(LINE_BYTES / 2);
        while self.len() > 2 && self.text_bytes() > room {
            self.thin();
            halved += 1;
        }
        halved
    }

    fn text_bytes(&self) -> usize {
        let digits = |cell: &Cell| match *cell {
            MISSING | LIE => 5,
            value => value.unsigned_abs().checked_ilog10().unwrap_or(0) as usize + 3,
        };
        self.cells.iter().map(digits).sum::<usize>() + self.len() * 21
    }

    /// Returns times, columns, and what is known about them.
    pub fn reply(&self, set: &Set, root: &Root) -> Map<String, Value> {
        let mut columns = Map::new();
        let mut units = Map::new();
        let mut lies = Map::new();
        for (place, column) in set.columns().enumerate() {
            let cells = || self.cells.iter().skip(place).step_by(self.width.max(1));
            let number = |cell: &Cell| match *cell {
                MISSING | LIE => Value::Null,
                value => json!(value),
            };
            columns.insert(column.name.clone(), cells().map(number).collect());
            units.insert(column.name.clone(), json!(column));
            let count = cells().filter(|cell| **cell == LIE).count();
            if count > 0 {
                lies.insert(column.name.clone(), json!(count));
            }
        }
        let feeds = || set.feeds.iter().map(|(_, feed)| feed);
        let gone: BTreeMap<&str, _> = feeds()
            .filter_map(|feed| Some((feed.path.as_str(), feed.gone.as_ref()?)))
            .collect();
        let failures: BTreeMap<&str, u64> = feeds()
            .filter(|feed| feed.failures > 0)
            .map(|feed| (feed.path.as_str(), feed.failures))
            .collect();
        let absent: BTreeMap<&str, &str> = set
            .absent
            .iter()
            .map(|(name, why)| (*name, why.as_str()))
            .collect();
        let reply = json!({
            "times_ns": self.times_ns, "columns": columns, "units": units, "absent": absent, "unopened": set.unopened,
            "lies": lies, "failures": failures, "gone": gone, "appeared": set.appeared(root),
        });
        match reply {
            Value::Object(map) => map,
            _ => Map::new(),
        }
    }

    /// Returns quantiles of the time that a sample's reads took.
    pub fn read_ns(&self) -> Value {
        let mut sorted = self.read_ns.clone();
        sorted.sort_unstable();
        let at = |share: usize| sorted.get((sorted.len() * share).div_ceil(100).saturating_sub(1));
        json!({"read_ns_p50": at(50), "read_ns_p99": at(99), "read_ns_max": sorted.last()})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(rows: u64, width: usize, most_cells: usize) -> (Recording, u32) {
        let mut recording = Recording::bounded(width, rows, most_cells);
        let folder = tempfile::tempdir().unwrap();
        let mut set = Set::open(&Root::new(folder.path()), Some(&[])).unwrap();
        let mut halved = 0;
        for row in 0..rows {
            halved += u32::from(recording.take(&mut set, || row));
        }
        (recording, halved)
    }

    #[test]
    fn memory_is_bounded_and_first_and_last_are_kept() {
        let (recording, halved) = filled(1000, 4, 400);
        assert!(recording.cells.len() <= 400);
        assert!(halved >= 4, "{halved}");
        assert_eq!(recording.times_ns.first(), Some(&0));
        assert_eq!(recording.times_ns.last(), Some(&999));
        assert!(recording.times_ns.is_sorted());
        assert_eq!(recording.cells.len(), recording.len() * 4);
    }

    #[test]
    fn a_reply_has_room_for_what_is_left() {
        let (mut recording, _) = filled(20_000, 50, MOST_CELLS);
        recording.cells.fill(Cell::MAX);
        assert!(recording.fit() >= 2);
        assert!(json!(recording.cells).to_string().len() < LINE_BYTES);
        assert_eq!(recording.times_ns.last(), Some(&19_999));
    }

    #[test]
    fn thinning_keeps_rows_whole() {
        let (mut recording, _) = filled(7, 2, 1000);
        recording.cells = (0..7).flat_map(|row| [row, row * 10]).collect();
        recording.thin();
        assert_eq!(recording.times_ns, [0, 2, 4, 6]);
        assert_eq!(recording.cells, [0, 0, 2, 20, 4, 40, 6, 60]);
    }
}
