// SPDX-License-Identifier: Apache-2.0
//! The kernel's own counters for traced events, and the names of block devices.

use super::events::Kind;
use super::AtMark;
use crate::root::Root;
use serde_json::{json, Value};
use std::collections::BTreeMap;

use interrupts::Interrupts;

mod interrupts;

/// Fields of `/proc/diskstats` that count completed requests: reads, writes (including those that
/// only waited for a flush), discards. Several requests may share a flush.
const FINISHED: [usize; 3] = [3, 7, 14];
/// Bits of the minor device number in an event.
const MINOR_BITS: u32 = 20;

/// Kinds of event with a counter of the kernel's, and where it is.
const COUNTED: [(Kind, &str); 4] = [
    (Kind::Kswapd, "pageoutrun"),
    (Kind::Oom, "oom_kill"),
    (Kind::TlbShootdown, "nr_tlb_remote_flush"),
    (Kind::Softirq, SOFTIRQS),
];
const SOFTIRQS: &str = "softirqs";

/// Values of the kernel's counters.
#[derive(Debug, Clone, Default)]
pub struct Counters {
    allocstall: Option<u64>,
    /// Pages that direct reclaim has freed.
    stolen_pages: Option<u64>,
    compact_stall: Option<u64>,
    /// Pages that compaction has scanned.
    compact_scanned: Option<u64>,
    interrupts: Interrupts,
    /// Counts of those [`COUNTED`] kinds that this kernel has.
    events: BTreeMap<Kind, u64>,
    /// Completed requests by device.
    disks: BTreeMap<u32, u64>,
}

impl Counters {
    pub fn read(root: &Root) -> Self {
        let vmstat = root.read_text("/proc/vmstat").unwrap_or_default();
        let disks = root.read_text("/proc/diskstats").unwrap_or_default();
        let softirqs = root.read_text("/proc/softirqs").unwrap_or_default();
        let events = COUNTED.into_iter().filter_map(|(kind, name)| {
            let count = match name {
                SOFTIRQS => sum_of_all(&softirqs),
                _ => value_of(&vmstat, name),
            };
            Some((kind, count?))
        });
        Self {
            events: events.collect(),
            allocstall: sum_of(&vmstat, "allocstall"),
            stolen_pages: sum_of(&vmstat, "pgsteal_direct"),
            compact_stall: value_of(&vmstat, "compact_stall"),
            compact_scanned: value_of(&vmstat, "compact_migrate_scanned"),
            interrupts: Interrupts::parse(&root.read_text("/proc/interrupts").unwrap_or_default()),
            disks: disks.lines().filter_map(finished).collect(),
        }
    }
}

/// Sums the lines of `/proc/vmstat` that begin with a text; some kernels have one per zone. None if
/// there is none.
fn sum_of(vmstat: &str, begin: &str) -> Option<u64> {
    let found: Vec<u64> = vmstat
        .lines()
        .filter(|line| line.starts_with(begin))
        .filter_map(|line| line.rsplit(' ').next()?.parse().ok())
        .collect();
    (!found.is_empty()).then(|| found.iter().sum())
}

/// Returns the value of a line in `/proc/vmstat`.
fn value_of(vmstat: &str, name: &str) -> Option<u64> {
    let value = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok();
    vmstat.lines().find_map(value)
}

/// Sums all counts in `/proc/softirqs`; None if there are none.
fn sum_of_all(table: &str) -> Option<u64> {
    let counts = table.lines().filter_map(|line| line.split_once(':'));
    let counts = counts.flat_map(|(_, counts)| counts.split_ascii_whitespace());
    let found: Vec<u64> = counts.filter_map(|count| count.parse().ok()).collect();
    (!found.is_empty()).then(|| found.iter().sum())
}

/// Parses a line of `/proc/diskstats`: the device, and how many requests it has completed.
fn finished(line: &str) -> Option<(u32, u64)> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    let device = u32::try_from(number(0)? << MINOR_BITS | number(1)?).ok()?;
    number(FINISHED[0])?;
    Some((device, FINISHED.into_iter().filter_map(number).sum()))
}

/// The counters directly before and after a marker; on a busy machine they can differ a lot.
#[derive(Debug, Clone, Default)]
pub struct AroundMark {
    pub before: Counters,
    pub after: Counters,
}

/// Compares what was traced between two markers with the least and the most that the kernel can
/// have counted in between.
pub fn compare(root: &Root, counted: [&AroundMark; 2], traced: [&AtMark; 2], kinds: &[Kind]) -> Vec<Value> {
    let [first_mark, last_mark] = counted;
    let mut checks = Vec::new();
    let kind = Kind::DirectReclaim;
    let has_direct = kinds.contains(&kind);
    let mut direct = |what: &str, counter: &str, seen: u64, count: &dyn Fn(&Counters) -> Option<u64>| {
        if let (true, Some(_), Some(last)) = (has_direct, count(&first_mark.before), count(&last_mark.after))
        {
            checks.push(json!({
                "what": what, "counter": counter, "seen": seen,
                "counted": grown(count(&first_mark.before).as_ref(), Some(&last)),
                "counted_least": grown(count(&first_mark.after).as_ref(), count(&last_mark.before).as_ref()),
            }));
        }
    };
    let begun = grown(traced[0].begun.get(&kind), traced[1].begun.get(&kind));
    direct(kind.name(), "vmstat.allocstall", begun, &|counters| {
        counters.allocstall
    });
    let freed = traced[1]
        .reclaimed_pages
        .saturating_sub(traced[0].reclaimed_pages);
    direct(
        "direct-reclaim-pages",
        "vmstat.pgsteal_direct",
        freed,
        &|counters| counters.stolen_pages,
    );
    for counted in COUNTED.into_iter().filter(|(kind, _)| kinds.contains(kind)) {
        checks.extend(of_events(counted, [first_mark, last_mark], traced));
    }
    if kinds.contains(&Kind::Compaction) {
        checks.extend(of_compaction(counted, traced));
    }
    if kinds.contains(&Kind::Irq) {
        checks.extend(interrupts::compare(counted, traced));
    }
    if kinds.contains(&Kind::BlockIo) {
        for (device, last) in &last_mark.after.disks {
            let kernel = grown(first_mark.before.disks.get(device), Some(last));
            let least = grown(
                first_mark.after.disks.get(device),
                last_mark.before.disks.get(device),
            );
            let seen = grown(traced[0].finished.get(device), traced[1].finished.get(device));
            let name = device_name(root, *device);
            if seen > 0 || kernel > 0 && has_requests(root, &name) {
                let what = format!("block-io@{name}");
                checks.push(json!({
                    "what": what, "counter": "diskstats", "seen": seen, "counted": kernel, "counted_least": least,
                }));
            }
        }
    }
    checks
}

/// Whether a device has requests of its own. Partitions share those of their disk. For devices that
/// only pass requests on (zram, device-mapper, md) the kernel counts them but emits no events.
fn has_requests(root: &Root, name: &str) -> bool {
    let folder = root.path(&format!("/sys/class/block/{name}"));
    !folder.exists() || folder.join("mq").exists()
}

fn grown(first: Option<&u64>, last: Option<&u64>) -> u64 {
    let value = |count: Option<&u64>| count.copied().unwrap_or_default();
    value(last).saturating_sub(value(first))
}

/// Checks compaction: requests that led to a pass, all requests, and whether any pass scanned
/// pages.
fn of_compaction([first, last]: [&AroundMark; 2], traced: [&AtMark; 2]) -> Vec<Value> {
    let between = |what: &str, counter: &str, count: &dyn Fn(&Counters) -> Option<u64>| {
        let end = count(&last.after)?;
        Some(json!({
            "what": what, "counter": counter, "counted": grown(count(&first.before).as_ref(), Some(&end)),
            "counted_least": grown(count(&first.after).as_ref(), count(&last.before).as_ref()),
        }))
    };
    let name = Kind::Compaction.name();
    let stalls = between(name, "vmstat.compact_stall", &|counters| counters.compact_stall);
    let scanned = between("compaction-scan", "vmstat.compact_migrate_scanned", &|counters| {
        counters.compact_scanned
    });
    let [all, at_work] = [0, 1].map(|at| grown(traced[0].compactions.get(at), traced[1].compactions.get(at)));
    let passes = grown(Some(&traced[0].compacting), Some(&traced[1].compacting));
    let stalls = stalls.map(|mut check| {
        check["seen"] = json!(at_work);
        check["seen_most"] = json!(all);
        check
    });
    let scanned = scanned.map(|mut check| {
        check["seen"] = json!(passes);
        check
    });
    stalls.into_iter().chain(scanned).collect()
}

/// Compares the events of a kind with the kernel's counter, if it has one.
fn of_events(
    (kind, name): (Kind, &str),
    [first, last]: [&AroundMark; 2],
    traced: [&AtMark; 2],
) -> Option<Value> {
    let end = last.after.events.get(&kind)?;
    let counter = if name == SOFTIRQS {
        name.to_owned()
    } else {
        format!("vmstat.{name}")
    };
    Some(json!({
        "what": kind.name(), "counter": counter,
        "seen": grown(traced[0].begun.get(&kind), traced[1].begun.get(&kind)),
        "counted": grown(first.before.events.get(&kind), Some(end)),
        "counted_least": grown(first.after.events.get(&kind), last.before.events.get(&kind)),
    }))
}

/// Returns the name of a device, or its numbers.
pub fn device_name(root: &Root, device: u32) -> String {
    let (major, minor) = (device >> MINOR_BITS, device & ((1 << MINOR_BITS) - 1));
    let link = std::fs::read_link(root.path(&format!("/sys/dev/block/{major}:{minor}")));
    let name = link
        .ok()
        .and_then(|target| Some(target.file_name()?.to_string_lossy().into_owned()));
    name.unwrap_or_else(|| format!("{major}:{minor}"))
}

/// Returns the number in a device's events.
pub fn device_number(root: &Root, name: &str) -> Option<u32> {
    let clean = !name.is_empty() && !name.contains('/') && !name.starts_with('.');
    let text = clean.then(|| root.read_text(&format!("/sys/class/block/{name}/dev")).ok())??;
    let (major, minor) = text.split_once(':')?;
    Some(major.parse::<u32>().ok()?.checked_shl(MINOR_BITS)? | minor.parse::<u32>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_counted_by_the_kernel_too_where_it_does() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("proc")).unwrap();
        let vmstat = "pageoutrun 7\nnr_tlb_remote_flush_received 5\nnr_tlb_remote_flush 3\n";
        std::fs::write(folder.path().join("proc/vmstat"), vmstat).unwrap();
        let root = Root::new(folder.path());
        let found = Counters::read(&root).events;
        let wanted = BTreeMap::from([(Kind::Kswapd, 7), (Kind::TlbShootdown, 3)]);
        assert_eq!(found, wanted);
        let table = "        CPU0  CPU1\n  HI:  1   2\nTIMER:  30  40\n";
        std::fs::write(folder.path().join("proc/softirqs"), table).unwrap();
        assert_eq!(Counters::read(&root).events[&Kind::Softirq], 73);
    }

    #[test]
    fn requests_for_compaction_are_told_with_and_without_those_that_came_to_nothing() {
        let at = |stalls, scanned| AroundMark {
            before: Counters {
                compact_stall: Some(stalls),
                compact_scanned: scanned,
                ..Counters::default()
            },
            after: Counters {
                compact_stall: Some(stalls + 1),
                compact_scanned: scanned,
                ..Counters::default()
            },
        };
        let traced = |all, at_work, compacting| AtMark {
            compactions: [all, at_work],
            compacting,
            ..AtMark::default()
        };
        let traced = [traced(2, 1, 5), traced(12, 7, 25)];
        let found = of_compaction(
            [&at(100, Some(50)), &at(108, Some(950))],
            [&traced[0], &traced[1]],
        );
        let stalls = json!({
            "what": "compaction", "counter": "vmstat.compact_stall", "seen": 6, "seen_most": 10, "counted": 9,
            "counted_least": 7,
        });
        let scanned = json!({
            "what": "compaction-scan", "counter": "vmstat.compact_migrate_scanned", "seen": 20, "counted": 900,
            "counted_least": 900,
        });
        assert_eq!(found, [stalls, scanned]);
        let without = of_compaction([&at(1, None), &at(1, None)], [&traced[0], &traced[0]]);
        assert_eq!(without.len(), 1, "this kernel does not count what it scans");
    }

    #[test]
    fn finished_requests_are_those_of_all_directions() {
        let new = "   8       0 sda 10 0 0 0 20 0 0 0 0 0 0 3 0 0 0 4 0";
        assert_eq!(finished(new), Some((8 << 20, 33)));
        let old = "   8       1 sda1 10 0 0 0 20 0 0 0 0 0 0";
        assert_eq!(finished(old), Some((8 << 20 | 1, 30)));
        assert_eq!(finished("8 0 sda"), None);
    }

    #[test]
    fn what_passes_on_and_what_is_part_of_a_disk_has_no_requests() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = Root::new(folder.path());
        for (path, wanted) in [("vda/mq/0", "vda"), ("zram0/queue", "zram0"), ("vda1", "vda1")] {
            std::fs::create_dir_all(folder.path().join("sys/class/block").join(path)).expect("made");
            assert_eq!(has_requests(&root, wanted), wanted == "vda", "{wanted}");
        }
        assert!(has_requests(&root, "8:0"), "nothing is known of it");
    }
}
