// SPDX-License-Identifier: Apache-2.0
//! Compares handler calls with `/proc/interrupts`, which counts each interrupt before its handlers
//! are called.

use super::AroundMark;
use crate::trace::AtMark;
use serde_json::{json, Value};
use std::collections::{BTreeMap, HashSet};

/// The counts of `/proc/interrupts`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Interrupts {
    /// The CPUs that have a column.
    cpus: String,
    lines: BTreeMap<u64, Line>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Line {
    /// Sum over all CPUs; the kernel's own counters wrap after 32 bits.
    count: u32,
    chip: String,
    /// Number of handlers called for each interrupt.
    handlers: u64,
}

impl Interrupts {
    /// Parses the numbered interrupts; others have no traceable handler.
    pub fn parse(text: &str) -> Self {
        let mut lines = text.lines();
        let cpus = lines.next().unwrap_or_default().trim().to_owned();
        let columns = cpus.split_ascii_whitespace().count();
        let line = |line: &str| {
            let (number, rest) = line.split_once(':')?;
            Some((number.trim().parse().ok()?, Line::parse(rest, columns)?))
        };
        Self {
            lines: lines.filter_map(line).collect(),
            cpus,
        }
    }

    /// Returns how many handler calls a line has gained up to `last`.
    fn grown(&self, number: u64, last: &Line) -> u64 {
        let first = self.lines.get(&number).map_or(0, |line| line.count);
        u64::from(last.count.wrapping_sub(first)) * last.handlers
    }
}

impl Line {
    fn parse(rest: &str, columns: usize) -> Option<Self> {
        let mut words = rest.split_ascii_whitespace();
        let counts: Vec<u32> = words
            .by_ref()
            .take(columns)
            .map_while(|word| word.parse().ok())
            .collect();
        (counts.len() == columns).then(|| Self {
            count: counts.iter().fold(0, |sum, count| sum.wrapping_add(*count)),
            chip: words.next().unwrap_or_default().to_owned(),
            handlers: 1 + rest.matches(", ").count() as u64,
        })
    }
}

/// Compares all handler calls with all counted interrupts; None if a CPU came or went, or the table
/// is unreadable. Skips chips whose handlers were never called while those of others were:
/// interrupts behind another interrupt have threads instead of handlers.
pub fn compare([first, last]: [&AroundMark; 2], [begin, end]: [&AtMark; 2]) -> Option<Value> {
    let tables = [&first.before, &first.after, &last.before, &last.after].map(|one| &one.interrupts);
    let [first_before, first_after, last_before, last_after] = tables;
    if last_after.lines.is_empty() || tables.iter().any(|table| table.cpus != last_after.cpus) {
        return None;
    }
    let called = |number: u64| {
        let at = |mark: &AtMark| mark.interrupts.get(&number).copied().unwrap_or_default();
        at(end).saturating_sub(at(begin))
    };
    let alive: HashSet<&str> = last_after
        .lines
        .iter()
        .filter(|(number, _)| called(**number) > 0)
        .map(|(_, line)| line.chip.as_str())
        .collect();
    let [mut seen, mut most, mut fewest] = [0, 0, 0];
    for (number, line) in &last_after.lines {
        if alive.is_empty() || alive.contains(line.chip.as_str()) {
            seen += called(*number);
            most += first_before.grown(*number, line);
            let before = last_before.lines.get(number);
            fewest += before.map_or(0, |before| first_after.grown(*number, before));
        }
    }
    Some(json!({
        "what": "irq", "counter": "interrupts", "seen": seen, "counted": most, "counted_least": fewest,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::checks::Counters;

    fn table(disk: u32, shared: u32, nested: u32) -> String {
        format!(
            "       CPU0  CPU2\n 24: {disk} 4294967295 PCI-MSIX-0000:00:02.0 1-edge virtio1-req.0\n \
             9: {shared} 0 IO-APIC 9-fasteoi acpi, i801_smbus\n 77: {nested} 0 pmic 3 power key\n\
             LOC: 500 500 Local timer interrupts\nERR: 0\n"
        )
    }

    fn mark(text: &str) -> AroundMark {
        let counters = Counters {
            interrupts: Interrupts::parse(text),
            ..Counters::default()
        };
        AroundMark {
            before: counters.clone(),
            after: counters,
        }
    }

    fn seen(called: &[(u64, u64)]) -> AtMark {
        AtMark {
            interrupts: called.iter().copied().collect(),
            ..AtMark::default()
        }
    }

    #[test]
    fn every_handler_counts_and_what_has_threads_in_their_place_does_not() {
        let marks = [mark(&table(1, 5, 0)), mark(&table(101, 15, 40))];
        let [first, last] = [seen(&[(24, 7)]), seen(&[(24, 107), (9, 20)])];
        let told = compare([&marks[0], &marks[1]], [&first, &last]).unwrap();
        assert_eq!((&told["seen"], &told["counted"]), (&json!(120), &json!(120)));
        assert_eq!(told["counted_least"], json!(120));
    }

    #[test]
    fn that_none_was_seen_at_all_is_no_reason_to_leave_all_out() {
        let marks = [mark(&table(1, 5, 0)), mark(&table(101, 15, 40))];
        let nothing = AtMark::default();
        let told = compare([&marks[0], &marks[1]], [&nothing, &nothing]).unwrap();
        assert_eq!((&told["seen"], &told["counted"]), (&json!(0), &json!(160)));
    }

    #[test]
    fn a_cpu_that_came_and_a_table_that_is_not_there_tell_nothing() {
        let other = mark("  CPU0\n 24: 1 PCI-MSIX-0000:00:02.0 1-edge virtio1-req.0\n");
        let same = mark(&table(1, 5, 0));
        let nothing = AtMark::default();
        assert_eq!(compare([&other, &same], [&nothing, &nothing]), None);
        assert_eq!(compare([&mark(""), &mark("")], [&nothing, &nothing]), None);
    }
}
