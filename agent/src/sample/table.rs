// SPDX-License-Identifier: Apache-2.0
//! Files with one line per device, CPU or interrupt, which may come and go.

use super::feed::{Cell, Parser, Progress};
use memchr::memchr;

/// Splits a line into its name and the rest; None for a line outside the table.
pub type Key = fn(&[u8]) -> Option<(&[u8], &[u8])>;
/// Fills the cells of a line.
pub type Fill = fn(&[u8], &mut [Cell]);

/// Lines identified by name.
pub struct Table {
    pub names: Vec<Vec<u8>>,
    /// Number of cells per line.
    pub each: usize,
    pub key: Key,
    pub fill: Fill,
}

/// Returns the lines of a text that end with a newline.
pub fn whole_lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let end = memchr(b'\n', rest)?;
        let line = &rest[..end];
        rest = &rest[end + 1..];
        Some(line)
    })
}

impl Table {
    /// Returns the names in a text, in order.
    pub fn names(text: &[u8], key: Key, wanted: impl Fn(&[u8], &[u8]) -> bool) -> Vec<Vec<u8>> {
        whole_lines(text)
            .filter_map(key)
            .filter(|(name, rest)| wanted(name, rest))
            .map(|(name, _)| name.to_vec())
            .collect()
    }
}

impl Parser for Table {
    fn parse(&mut self, text: &[u8], row: &mut [Cell]) -> Progress {
        let mut place = 0;
        let mut met = 0;
        for (name, rest) in whole_lines(text).filter_map(self.key) {
            let known = |at: &usize| self.names[*at] == name;
            // Lines keep their order; removed ones are skipped, and new ones ignored.
            if let Some(found) = (place..self.names.len()).find(known) {
                (self.fill)(rest, &mut row[found * self.each..][..self.each]);
                place = found + 1;
                met += 1;
            }
        }
        if met == self.names.len() {
            Progress::Done
        } else {
            Progress::SoFar
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::feed::MISSING;
    use super::super::text::number;
    use super::*;

    fn key(line: &[u8]) -> Option<(&[u8], &[u8])> {
        let end = memchr(b':', line)?;
        Some((&line[..end], &line[end + 1..]))
    }

    #[test]
    fn what_went_is_missing_and_what_came_is_not_taken_for_it() {
        let names = Table::names(b"a: 1\nb: 2\nc: 3\nrest", key, |_, _| true);
        let fill = |rest: &[u8], row: &mut [Cell]| row[0] = number(rest).map_or(MISSING, |found| found.0);
        let mut table = Table {
            names,
            each: 1,
            key,
            fill,
        };
        let mut row = [MISSING; 3];
        assert_eq!(table.parse(b"a: 5\nnew: 9\nc: 7\n", &mut row), Progress::SoFar);
        assert_eq!(row, [5, MISSING, 7]);
        assert_eq!(table.parse(b"a: 5\nb: 6\nc: 7", &mut row), Progress::SoFar);
        assert_eq!(table.parse(b"a: 5\nb: 6\nc: 7\n", &mut row), Progress::Done);
    }
}
