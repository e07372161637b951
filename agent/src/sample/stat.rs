// SPDX-License-Identifier: Apache-2.0
//! `cpu`: how the CPUs spent their time (including steal), interrupts, context switches, runnable
//! tasks.

use super::feed::{Cell, Column, Feed, Found, Parser, Progress};
use super::text::{lines, number};
use crate::root::Root;

const PATH: &str = "/proc/stat";
/// Fields of a line of CPU time, in order.
const FIELDS: [&str; 10] = [
    "user",
    "nice",
    "system",
    "idle",
    "iowait",
    "irq",
    "softirq",
    "steal",
    "guest",
    "guest_nice",
];
/// Fields that add up to a CPU's cells.
const BUSY: [usize; 5] = [0, 1, 2, 5, 6];
const IDLE: [usize; 2] = [3, 4];
const STEAL: usize = 7;
/// Cells of each CPU.
const EACH: [&str; 3] = ["busy", "idle", "steal"];
/// Lines whose first number is enough.
const TOTALS: [(&[u8], &str); 5] = [
    (b"intr ", "interrupts"),
    (b"ctxt ", "context_switches"),
    (b"processes ", "forks"),
    (b"procs_running ", "running"),
    (b"procs_blocked ", "blocked"),
];

struct Stat {
    /// CPUs with cells, lowest first.
    cpus: Vec<u64>,
}

pub fn open(root: &Root) -> Found {
    let text = match root.read_bytes(PATH) {
        Ok(text) => text,
        Err(error) => return Found::none(format!("{PATH}: {error}")),
    };
    let cpus: Vec<u64> = lines(&text).filter_map(|line| Some(one_cpu(line)?.0)).collect();
    let ticks = rustix::param::clock_ticks_per_second();
    let mut columns: Vec<Column> = FIELDS
        .iter()
        .map(|field| Column::counter(format!("cpu.{field}"), "s", ticks))
        .collect();
    for (_, name) in TOTALS {
        let name_of_column = format!("cpu.{name}");
        columns.push(match name {
            "running" | "blocked" => Column::level(name_of_column, "count", 1),
            _ => Column::counter(name_of_column, "count", 1),
        });
    }
    for cpu in &cpus {
        let of_cpu = |field: &&str| Column::counter(format!("cpu{cpu}.{field}"), "s", ticks);
        columns.extend(EACH.iter().map(of_cpu));
    }
    Found::one(Feed::open(root, PATH, columns, Stat { cpus }))
}

/// Returns the number of a line's CPU, and the times.
fn one_cpu(line: &[u8]) -> Option<(u64, &[u8])> {
    let (cpu, rest) = number(line.strip_prefix(b"cpu")?)?;
    let numbered = line.get(3).is_some_and(u8::is_ascii_digit);
    u64::try_from(cpu)
        .ok()
        .filter(|_| numbered)
        .map(|cpu| (cpu, rest))
}

/// Parses a line of CPU time; fields that an older kernel lacks are None.
fn times(text: &[u8]) -> [Option<Cell>; FIELDS.len()] {
    let mut found = [None; FIELDS.len()];
    let mut rest = text;
    for field in &mut found {
        let Some((value, after)) = number(rest) else {
            break;
        };
        *field = Some(value);
        rest = after;
    }
    found
}

fn sum(times: &[Option<Cell>; FIELDS.len()], fields: &[usize]) -> Option<Cell> {
    fields
        .iter()
        .try_fold(0, |sum: Cell, field| sum.checked_add(times[*field]?))
}

impl Parser for Stat {
    fn parse(&mut self, text: &[u8], row: &mut [Cell]) -> Progress {
        let (totals, rest) = row.split_at_mut(FIELDS.len());
        let (others, each) = rest.split_at_mut(TOTALS.len());
        let mut place = 0;
        let mut other = 0;
        let mut recognised = false;
        for line in lines(text) {
            if let Some(all) = line.strip_prefix(b"cpu ") {
                let found = times(all);
                for (cell, value) in totals.iter_mut().zip(found) {
                    set(cell, value);
                }
                recognised = found[0].is_some();
            } else if let Some((cpu, rest)) = one_cpu(line) {
                // An offline CPU has no line.
                while self.cpus.get(place).is_some_and(|known| *known < cpu) {
                    place += 1;
                }
                if self.cpus.get(place) == Some(&cpu) {
                    let found = times(rest);
                    let cells = &mut each[place * EACH.len()..][..EACH.len()];
                    set(&mut cells[0], sum(&found, &BUSY));
                    set(&mut cells[1], sum(&found, &IDLE));
                    set(&mut cells[2], found[STEAL]);
                }
            } else if let Some(ahead) = (other..TOTALS.len()).find(|at| line.starts_with(TOTALS[*at].0)) {
                set(
                    &mut others[ahead],
                    number(&line[TOTALS[ahead].0.len()..]).map(|found| found.0),
                );
                other = ahead + 1;
                if other == TOTALS.len() {
                    break;
                }
            }
        }
        if recognised {
            Progress::Done
        } else {
            Progress::Garbage
        }
    }
}

fn set(cell: &mut Cell, value: Option<Cell>) {
    if let Some(value) = value {
        *cell = value;
    }
}
