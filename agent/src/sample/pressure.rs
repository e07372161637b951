// SPDX-License-Identifier: Apache-2.0
//! `pressure`: time that some or all tasks waited for a resource.

use super::feed::{Cell, Column, Feed, Found, Parser, Progress};
use super::text::{lines, number};
use crate::root::Root;
use memchr::memmem::rfind;

const RESOURCES: [&str; 4] = ["cpu", "memory", "io", "irq"];
const SHARES: [&str; 2] = ["some", "full"];

struct Pressure {
    /// The shares in the file.
    shares: Vec<&'static str>,
}

pub fn open(root: &Root) -> Found {
    let mut found = Found::default();
    for resource in RESOURCES {
        let path = format!("/proc/pressure/{resource}");
        // A kernel booted with psi=0 has the files but refuses to read them.
        let text = match root.read_bytes(&path) {
            Ok(text) => text,
            Err(_) if resource == "irq" => continue,
            Err(error) => {
                found.missing.push(format!("{path}: {error}"));
                continue;
            }
        };
        let has_share = |share: &&str| lines(&text).any(|line| line.starts_with(share.as_bytes()));
        let shares: Vec<&'static str> = SHARES.into_iter().filter(has_share).collect();
        if shares.is_empty() {
            found.missing.push(format!("{path}: no known line"));
            continue;
        }
        let columns = shares
            .iter()
            .map(|share| Column::counter(format!("pressure.{resource}.{share}"), "s", 1_000_000))
            .collect();
        found.add(Feed::open(root, &path, columns, Pressure { shares }));
    }
    found
}

/// Returns the microseconds since boot.
fn total(line: &[u8]) -> Option<Cell> {
    const TOTAL: &[u8] = b"total=";
    Some(number(&line[rfind(line, TOTAL)? + TOTAL.len()..])?.0)
}

impl Parser for Pressure {
    fn parse(&mut self, text: &[u8], row: &mut [Cell]) -> Progress {
        let mut found = false;
        for line in lines(text) {
            let place = self
                .shares
                .iter()
                .position(|share| line.starts_with(share.as_bytes()));
            if let (Some(place), Some(value)) = (place, total(line)) {
                row[place] = value;
                found = true;
            }
        }
        if found {
            Progress::Done
        } else {
            Progress::Garbage
        }
    }
}
