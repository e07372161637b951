// SPDX-License-Identifier: Apache-2.0
//! Columns that are read together, at their own rate.

use super::blocks::{self, Holds};
use crate::load::clock::{now_ns, slept_ns, thread_cpu_ns, unix_at_zero_ns};
use crate::root::Root;
use crate::sample::feed::{Cell, Column, MISSING};
use crate::sample::set::Set;
use crate::sample::threads_of;
use crate::trace::{threads, Tracer};
use serde_json::{json, Map, Value};

/// Nanoseconds between two checks for threads that came or went.
const THREADS_NS: u64 = 1_000_000_000;

/// Where the numbers of a group come from.
pub enum Reads {
    /// Open files.
    Files(Set),
    /// Open files of a process's threads, which come and go.
    Threads {
        process: u32,
        set: Set,
        known: Vec<i32>,
        looked_ns: u64,
    },
    /// The offsets of the other clocks from the monotonic one.
    Clocks,
    /// The totals of each kind of event.
    Trace,
    /// Another thread, which supplies the rows.
    Rows,
}

/// A source, its rows since the last block, and what they cost.
pub struct Group {
    pub source: &'static str,
    pub period_ns: u64,
    pub due_ns: u64,
    pub reads: Reads,
    pub columns: Vec<Column>,
    pub times_ns: Vec<u64>,
    pub cells: Vec<Cell>,
    /// The last row that was sent.
    last: Vec<Cell>,
    told: bool,
    taken: u64,
    missed: u64,
    late_ns: u64,
    pub cpu_ns: u64,
}

impl Group {
    pub fn new(
        source: &'static str,
        period_ns: u64,
        start_ns: u64,
        reads: Reads,
        columns: Vec<Column>,
    ) -> Self {
        Self {
            source,
            period_ns,
            due_ns: start_ns,
            reads,
            columns,
            times_ns: Vec::new(),
            cells: Vec::new(),
            last: Vec::new(),
            told: false,
            taken: 0,
            missed: 0,
            late_ns: 0,
            cpu_ns: 0,
        }
    }

    /// Creates a group of files; None if the source has no columns.
    pub fn of_files(source: &'static str, period_ns: u64, start_ns: u64, set: Set) -> Option<Self> {
        let columns: Vec<Column> = set.columns().cloned().collect();
        (!columns.is_empty()).then(|| Self::new(source, period_ns, start_ns, Reads::Files(set), columns))
    }

    /// Takes a row and schedules the next one. If the columns have changed, the rows before that go
    /// to `out`.
    pub fn take(&mut self, number: u32, root: &Root, tracer: &mut Option<Tracer>, out: &mut Vec<Vec<u8>>) {
        let began_cpu_ns = thread_cpu_ns();
        let at_ns = now_ns();
        self.late_ns = self.late_ns.max(at_ns.saturating_sub(self.due_ns));
        if self.look_for_threads(root, at_ns) {
            self.hand_on(number, out);
            self.told = false;
            self.columns = match &self.reads {
                Reads::Threads { set, .. } => set.columns().cloned().collect(),
                _ => Vec::new(),
            };
        }
        let begin = self.cells.len();
        match &mut self.reads {
            Reads::Files(set) | Reads::Threads { set, .. } => {
                self.cells.resize(begin + set.width(), MISSING);
                set.sample(&mut self.cells[begin..]);
            }
            Reads::Clocks => self.cells.extend(clocks()),
            Reads::Trace => {
                if let Some(tracer) = tracer {
                    tracer.drain();
                    tracer.row(&mut self.cells);
                }
            }
            Reads::Rows => {}
        }
        self.times_ns.push(at_ns);
        self.taken += 1;
        self.cpu_ns += thread_cpu_ns().saturating_sub(began_cpu_ns);
        self.next(now_ns());
    }

    /// Schedules the next moment on the grid that is not over.
    fn next(&mut self, now_ns: u64) {
        let steps = now_ns.saturating_sub(self.due_ns) / self.period_ns + 1;
        self.missed += steps - 1;
        self.due_ns += steps * self.period_ns;
    }

    fn look_for_threads(&mut self, root: &Root, at_ns: u64) -> bool {
        let Reads::Threads {
            process,
            set,
            known,
            looked_ns,
        } = &mut self.reads
        else {
            return false;
        };
        if at_ns < *looked_ns + THREADS_NS {
            return false;
        }
        *looked_ns = at_ns;
        let now = threads(root, *process);
        if now == *known || now.is_empty() {
            return false;
        }
        *set = Set::of("threads", threads_of(root, *process, &now));
        *known = now;
        true
    }

    /// Whether the group is read when it is due, rather than filled by another thread.
    pub fn is_read(&self) -> bool {
        !matches!(self.reads, Reads::Rows)
    }

    /// Adds rows that another thread has taken.
    pub fn add(&mut self, rows: Vec<(u64, Cell)>) {
        self.taken += rows.len() as u64;
        for (at_ns, cell) in rows {
            self.times_ns.push(at_ns);
            self.cells.push(cell);
        }
    }

    /// Returns the value of a column in the last row.
    pub fn last(&self, name: &str) -> Option<Cell> {
        let place = self.columns.iter().position(|column| column.name == name)?;
        let row = match self.cells.len().checked_sub(self.columns.len()) {
            Some(begin) if !self.cells.is_empty() => &self.cells[begin..],
            _ => &self.last,
        };
        row.get(place).copied().filter(|cell| *cell != MISSING)
    }

    /// Encodes the rows so far, preceded by the columns if those are new.
    pub fn hand_on(&mut self, number: u32, out: &mut Vec<Vec<u8>>) {
        if self.times_ns.is_empty() {
            return;
        }
        if !self.told {
            self.told = true;
            let columns: Map<String, Value> = self
                .columns
                .iter()
                .map(|column| (column.name.clone(), json!(column)))
                .collect();
            let layout = json!({"group": number, "source": self.source, "columns": columns});
            out.push(blocks::json_block(Holds::Layout, &layout));
        }
        out.push(blocks::samples(
            number,
            &self.times_ns,
            &self.cells,
            self.columns.len(),
        ));
        self.last = self.cells.split_off(self.cells.len() - self.columns.len());
        self.times_ns.clear();
        self.cells.clear();
    }

    /// Returns statistics about the sampling.
    pub fn report(&self) -> Value {
        let mut report = json!({
            "period_ns": self.period_ns, "taken": self.taken, "missed": self.missed, "late_ns": self.late_ns,
            "cpu_ns": self.cpu_ns,
        });
        if let Reads::Files(set) | Reads::Threads { set, .. } = &self.reads {
            let failures: u64 = set.feeds.iter().map(|(_, feed)| feed.failures).sum();
            report["failures"] = json!(failures);
            report["unopened"] = json!(set.unopened);
            let gone = set
                .feeds
                .iter()
                .filter_map(|(_, feed)| Some((feed.path.clone(), json!(feed.gone.as_ref()?))));
            report["gone"] = Value::Object(gone.collect());
        }
        report
    }
}

/// Returns the columns of [`Reads::Clocks`].
pub fn clock_columns() -> Vec<Column> {
    ["clocks.suspended", "clocks.unix"]
        .map(|name| Column::level(name, "s", 1_000_000_000))
        .into()
}

/// Returns the time spent suspended, and the wall clock at the zero of the monotonic one.
fn clocks() -> [Cell; 2] {
    [slept_ns(), unix_at_zero_ns().0]
}
