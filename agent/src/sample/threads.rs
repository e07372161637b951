// SPDX-License-Identifier: Apache-2.0
//! `threads`: for each thread of a process, its CPU time, time spent waiting for a CPU, page
//! faults, state and CPU.

use super::feed::{Cell, Column, Feed, Found, Parser, Progress, MISSING};
use super::text::number;
use crate::root::Root;

const PER_S: u64 = 1_000_000_000;
/// Fields of `stat` after the name: state; minor faults, major faults, last CPU.
const STATE: usize = 0;
const NUMBERS: [usize; 3] = [7, 9, 36];

struct Delays;
struct Stat;

/// Opens the given threads of a process.
pub fn open(root: &Root, process: u32, threads: &[i32]) -> Found {
    let mut found = Found::default();
    for thread in threads {
        let folder = format!("/proc/{process}/task/{thread}");
        let label = root.read_text(&format!("{folder}/comm")).ok();
        let named = |column: Column| column.labelled(label.clone());
        let counter = |what: &str, unit, per_unit| {
            named(Column::counter(
                format!("threads.{thread}.{what}"),
                unit,
                per_unit,
            ))
        };
        let times = vec![counter("run", "s", PER_S), counter("wait", "s", PER_S)];
        found.add(Feed::open(root, &format!("{folder}/schedstat"), times, Delays));
        let state = named(Column::level(format!("threads.{thread}.state"), "letter", 1));
        let columns = vec![
            state,
            counter("minor_faults", "count", 1),
            counter("major_faults", "count", 1),
            named(Column::level(format!("threads.{thread}.cpu"), "number", 1)),
        ];
        found.add(Feed::open(root, &format!("{folder}/stat"), columns, Stat));
    }
    if found.feeds.is_empty() && found.missing.is_empty() {
        return Found::none(format!("no such process: {process}"));
    }
    found
}

impl Parser for Delays {
    fn parse(&mut self, text: &[u8], row: &mut [Cell]) -> Progress {
        let taken = number(text).and_then(|(run, rest)| Some((run, number(rest)?.0)));
        let Some((run, wait)) = taken else {
            return Progress::Garbage;
        };
        row.copy_from_slice(&[run, wait]);
        Progress::Done
    }
}

impl Parser for Stat {
    fn parse(&mut self, text: &[u8], row: &mut [Cell]) -> Progress {
        // The name may contain blanks and parentheses; only the last parenthesis counts.
        let Some(end) = memchr::memrchr(b')', text) else {
            return Progress::Garbage;
        };
        let fields: Vec<&[u8]> = text[end + 1..]
            .split(|byte| *byte == b' ')
            .filter(|field| !field.is_empty())
            .collect();
        let Some([letter]) = fields.get(STATE) else {
            return Progress::Garbage;
        };
        let value = |place: usize| {
            fields
                .get(place)
                .and_then(|field| number(field))
                .map_or(MISSING, |found| found.0)
        };
        row[0] = Cell::from(*letter);
        for (cell, place) in row[1..].iter_mut().zip(NUMBERS) {
            *cell = value(place);
        }
        Progress::Done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_anything() {
        let mut row = [0; 4];
        let text = b"42 (a) S 1 (b) D 1 42 42 0 -1 4194304 97 5 3 6 0 0 0 0 20 0 1 0 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 17 3 0 0\n";
        assert_eq!(Stat.parse(text, &mut row), Progress::Done);
        assert_eq!(row, [Cell::from(b'D'), 97, 3, 3]);
        assert_eq!(Stat.parse(b"42 (a", &mut row), Progress::Garbage);
    }
}
