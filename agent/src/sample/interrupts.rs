// SPDX-License-Identifier: Apache-2.0
//! `interrupts`, `softirqs`: how often each occurred, over all CPUs.

use super::feed::{Cell, Column, Feed, Found};
use super::names::clean;
use super::table::{whole_lines, Table};
use super::text::number;
use crate::root::Root;
use memchr::memchr;

const HARD: &str = "/proc/interrupts";
const SOFT: &str = "/proc/softirqs";

pub fn open(root: &Root) -> Found {
    table(root, HARD, "interrupts")
}

pub fn open_soft(root: &Root) -> Found {
    table(root, SOFT, "softirqs")
}

fn table(root: &Root, path: &str, source: &str) -> Found {
    let text = match root.read_bytes(path) {
        Ok(text) => text,
        Err(error) => return Found::none(format!("{path}: {error}")),
    };
    let names = Table::names(&text, key, |_, rest| number(rest).is_some());
    if names.is_empty() {
        return Found::none(format!("{path}: no known line"));
    }
    let labels: Vec<Option<String>> = whole_lines(&text)
        .filter_map(key)
        .filter(|(_, rest)| number(rest).is_some())
        .map(|(_, rest)| label(rest))
        .collect();
    let column = |(name, label): (&Vec<u8>, Option<String>)| {
        let name = clean(&String::from_utf8_lossy(name));
        Column::counter(format!("{source}.{name}"), "count", 1).labelled(label)
    };
    let columns = names.iter().zip(labels).map(column).collect();
    let table = Table {
        names,
        each: 1,
        key,
        fill: sum,
    };
    Found::one(Feed::open(root, path, columns, table))
}

/// Splits ` 24:  1  0  IO-APIC …` into the name and the rest.
fn key(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = memchr(b':', line)?;
    Some((line[..end].trim_ascii(), &line[end + 1..]))
}

/// Sums the counts of all CPUs.
fn sum(rest: &[u8], row: &mut [Cell]) {
    let mut rest = rest;
    let mut sum: Cell = 0;
    while let Some((count, after)) = number(rest) {
        // A chip's name may begin with digits.
        if after.first().is_some_and(|byte| *byte != b' ') {
            break;
        }
        sum = sum.saturating_add(count);
        rest = after;
    }
    row[0] = sum;
}

/// Returns the text after the counts.
fn label(rest: &[u8]) -> Option<String> {
    let mut rest = rest;
    while let Some((_, after)) = number(rest) {
        rest = after;
    }
    let words: Vec<String> = String::from_utf8_lossy(rest)
        .split_whitespace()
        .map(str::to_owned)
        .collect();
    (!words.is_empty()).then(|| words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_summed_up_to_the_name_of_the_chip() {
        let mut row = [0];
        sum(b"   3    39833 8259A-edge  timer", &mut row);
        assert_eq!(row, [39836]);
        assert_eq!(
            label(b" 1 2  IO-APIC   5-edge  ACPI:Ged"),
            Some("IO-APIC 5-edge ACPI:Ged".to_owned())
        );
        assert_eq!(label(b" 1 2"), None);
    }
}
