// SPDX-License-Identifier: Apache-2.0
//! `queues`: reads and writes in flight on each block device, and whether its `NVMe` controller
//! sleeps.

use super::feed::{Cell, Column, Feed, Found, Parser, Progress};
use super::names::{clean, numbered};
use super::text::{number, Number};
use crate::root::Root;

const BLOCK: &str = "/sys/block";
const NVME: &str = "/sys/class/nvme";
/// States of a PCI device, by depth of sleep.
const STATES: [(&[u8], Cell); 6] = [
    (b"D0", 0),
    (b"D1", 1),
    (b"D2", 2),
    (b"D3hot", 3),
    (b"D3cold", 4),
    (b"unknown", super::feed::MISSING),
];

/// Parses `       1        0`: reads and writes.
struct InFlight;
/// One if the controller accepts commands, otherwise zero.
struct Live;
struct Depth;

pub fn open(root: &Root) -> Found {
    let mut found = Found::default();
    for device in root.list(BLOCK).unwrap_or_default() {
        if is_used(root, &device) {
            let of = |what: &str| Column::level(format!("queues.{}.{what}", clean(&device)), "count", 1);
            let columns = vec![of("reads"), of("writes")];
            found.add(Feed::open(
                root,
                &format!("{BLOCK}/{device}/inflight"),
                columns,
                InFlight,
            ));
        }
    }
    for (_, name) in numbered(root, NVME, "nvme") {
        let path = |file: &str| format!("{NVME}/{name}/{file}");
        let column = |what: &str| vec![Column::level(format!("nvme.{name}.{what}"), "count", 1)];
        found.add(Feed::open(root, &path("state"), column("live"), Live));
        // Controllers reached over a network have no PCI device.
        if let Ok(feed) = Feed::open(root, &path("device/power_state"), column("pci_depth"), Depth) {
            found.feeds.push(feed);
        }
        let slept = vec![Column::counter(format!("nvme.{name}.suspended"), "s", 1000)];
        let path = path("device/power/runtime_suspended_time");
        if let Ok(feed) = Feed::open(root, &path, slept, Number::any()) {
            found.feeds.push(feed);
        }
    }
    if found.feeds.is_empty() && found.missing.is_empty() {
        return Found::none(format!("no device in {BLOCK} has been used"));
    }
    found
}

/// Whether anything was ever read from or written to the device.
fn is_used(root: &Root, device: &str) -> bool {
    let text = root
        .read_text(&format!("{BLOCK}/{device}/stat"))
        .unwrap_or_default();
    text.split_ascii_whitespace().any(|count| count != "0")
}

impl Parser for InFlight {
    fn parse(&mut self, text: &[u8], row: &mut [Cell]) -> Progress {
        let found = number(text).and_then(|(reads, rest)| Some([reads, number(rest)?.0]));
        match found {
            Some(found) => {
                row.copy_from_slice(&found);
                Progress::Done
            }
            None => Progress::Garbage,
        }
    }
}

impl Parser for Live {
    fn parse(&mut self, text: &[u8], row: &mut [Cell]) -> Progress {
        row[0] = Cell::from(text.trim_ascii() == b"live");
        Progress::Done
    }
}

impl Parser for Depth {
    fn parse(&mut self, text: &[u8], row: &mut [Cell]) -> Progress {
        let text = text.trim_ascii();
        match STATES.iter().find(|(name, _)| *name == text) {
            Some((_, depth)) => {
                row[0] = *depth;
                Progress::Done
            }
            None => Progress::Garbage,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn used_devices_and_controllers_are_read() {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in [
            ("sys/block/nvme0n1/stat", "  1 0 8 0 0 0 0 0 0 0 0"),
            ("sys/block/nvme0n1/inflight", "       3       12\n"),
            ("sys/block/loop0/stat", "  0 0 0 0 0 0 0 0 0 0 0"),
            ("sys/block/loop0/inflight", "       0        0\n"),
            ("sys/class/nvme/nvme0/state", "live\n"),
            ("sys/class/nvme/nvme0/device/power_state", "D3hot\n"),
            (
                "sys/class/nvme/nvme0/device/power/runtime_suspended_time",
                "2500\n",
            ),
            ("sys/class/nvme/nvme1/state", "resetting\n"),
        ] {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let mut set = super::super::set::Set::of("queues", open(&Root::new(folder.path())));
        let names: Vec<String> = set.columns().map(|column| column.name.clone()).collect();
        let mut row = vec![0; set.width()];
        set.sample(&mut row);
        assert_eq!(
            names,
            [
                "queues.nvme0n1.reads",
                "queues.nvme0n1.writes",
                "nvme.nvme0.live",
                "nvme.nvme0.pci_depth",
                "nvme.nvme0.suspended",
                "nvme.nvme1.live",
            ]
        );
        assert_eq!(row, [3, 12, 1, 3, 2500, 0]);
        assert!(set.absent.is_empty() && set.unopened.is_empty());
    }

    #[test]
    fn what_is_no_number_or_state_is_garbage() {
        let mut row = [0; 2];
        assert_eq!(InFlight.parse(b"many", &mut row), Progress::Garbage);
        assert_eq!(Depth.parse(b"D9", &mut row[..1]), Progress::Garbage);
    }

    #[test]
    fn a_machine_without_block_devices_has_none() {
        let folder = tempfile::tempdir().unwrap();
        let found = open(&Root::new(folder.path()));
        assert!(found.feeds.is_empty() && found.missing[0].contains("has been used"));
    }
}
