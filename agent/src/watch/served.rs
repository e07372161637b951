// SPDX-License-Identifier: Apache-2.0
//! Which CPUs served each interrupt during a recording.

use crate::root::Root;
use serde_json::{json, Map, Value};
use std::collections::BTreeMap;

const TABLE: &str = "/proc/interrupts";
/// Most lines to report: those with the most interrupts.
const MOST: usize = 32;

/// The counts of each line by CPU, and the text after them.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Served {
    cpus: Vec<u32>,
    lines: BTreeMap<String, (Vec<u64>, String)>,
}

impl Served {
    pub fn read(root: &Root) -> Self {
        root.read_text(TABLE).map(|text| parse(&text)).unwrap_or_default()
    }

    /// Returns how often each interrupt occurred on each CPU until `now`, as `{line: {label, cpus:
    /// {cpu: count}}}`; null if a CPU came or went.
    pub fn until(&self, now: &Self) -> Value {
        if self.cpus.is_empty() || self.cpus != now.cpus {
            return Value::Null;
        }
        let mut grown: Vec<(&String, u64, Value)> = now
            .lines
            .iter()
            .filter_map(|(name, (counts, label))| {
                let before = self.lines.get(name).map(|(counts, _)| counts.as_slice());
                let before = before.unwrap_or_default();
                let grown = counts.iter().enumerate().map(|(place, count)| {
                    count.saturating_sub(before.get(place).copied().unwrap_or_default())
                });
                let by_cpu: Vec<(u32, u64)> = self.cpus.iter().copied().zip(grown).collect();
                let sum = by_cpu.iter().map(|(_, count)| count).sum();
                let cpus: Map<String, Value> = by_cpu
                    .into_iter()
                    .filter(|(_, count)| *count > 0)
                    .map(|(cpu, count)| (cpu.to_string(), json!(count)))
                    .collect();
                (sum > 0).then(|| (name, sum, json!({"label": label, "cpus": cpus})))
            })
            .collect();
        grown.sort_by_key(|(_, sum, _)| std::cmp::Reverse(*sum));
        grown.truncate(MOST);
        let entries = grown.into_iter().map(|(name, _, entry)| (name.clone(), entry));
        Value::Object(entries.collect())
    }
}

fn parse(text: &str) -> Served {
    let mut lines = text.lines();
    let names = lines.next().unwrap_or_default().split_ascii_whitespace();
    let cpus: Vec<u32> = names
        .filter_map(|name| name.strip_prefix("CPU")?.parse().ok())
        .collect();
    let lines = lines.filter_map(|line| {
        let (name, rest) = line.split_once(':')?;
        let words: Vec<&str> = rest.split_ascii_whitespace().collect();
        let counts: Vec<u64> = words
            .iter()
            .take(cpus.len())
            .map_while(|word| word.parse().ok())
            .collect();
        // Lines without a count per CPU (ERR, MIS) belong to no CPU.
        (counts.len() == cpus.len())
            .then(|| (name.trim().to_owned(), (counts, words[cpus.len()..].join(" "))))
    });
    Served {
        lines: lines.collect(),
        cpus,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(first: u64, second: u64) -> Served {
        parse(&format!(
            "           CPU0       CPU2\n 24:  {first}  {second}  IO-APIC  24-edge  virtio0\n\
             LOC:  5  5  Local timer interrupts\nERR:  0\n"
        ))
    }

    #[test]
    fn what_grew_is_told_by_cpu() {
        let told = table(3, 0).until(&table(10, 0));
        assert_eq!(
            told,
            json!({"24": {"label": "IO-APIC 24-edge virtio0", "cpus": {"0": 7}}})
        );
    }

    #[test]
    fn a_cpu_that_came_makes_it_unknown() {
        let other = parse("  CPU0\n 24:  3  IO-APIC  24-edge  virtio0\n");
        assert_eq!(other.until(&table(10, 0)), Value::Null);
        assert_eq!(Served::default().until(&Served::default()), Value::Null);
    }
}
