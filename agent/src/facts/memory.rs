// SPDX-License-Identifier: Apache-2.0
//! Memory, zones, NUMA nodes, swap and zram.

use serde::Serialize;

use super::probe::{absent, choice, count, cpu_list, garbage, list, text, unescape, unknown, Miss, Probe};
use super::{Machine, Sink};
use crate::root::Root;

pub(super) fn collect(machine: &Machine, sink: &mut Sink) {
    let root = machine.root;
    sink.add("memory.total", || meminfo(root, "MemTotal"));
    sink.add("memory.available", || meminfo(root, "MemAvailable"));
    sink.add("memory.numa_nodes", || numa_nodes(root));
    sink.add("memory.zones", || zones(&text(root, "/proc/zoneinfo")?));
    sink.add("memory.page_bytes", || page_bytes(root));
    sink.add("swap.total", || meminfo(root, "SwapTotal"));
    sink.add("swap.used", || {
        Ok(meminfo(root, "SwapTotal")?.saturating_sub(meminfo(root, "SwapFree")?))
    });
    sink.add("swap.devices", || swap_areas(root));
    sink.add("zram.devices", || zram_devices(root));
}

/// Returns a value of `/proc/meminfo` in bytes.
fn meminfo(root: &Root, key: &str) -> Probe<u64> {
    let text = text(root, "/proc/meminfo")?;
    match labelled_kib(&text, key) {
        Some(bytes) => Ok(bytes),
        None if text.contains(&format!("{key}:")) => {
            unknown(format!("/proc/meminfo: {key} is not a size in kB"))
        }
        None => absent(format!("/proc/meminfo has no {key}")),
    }
}

/// Converts `KEY:   123 kB` to bytes.
fn labelled_kib(text: &str, key: &str) -> Option<u64> {
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    let kib = value
        .trim()
        .strip_suffix("kB")
        .and_then(|kib| kib.trim().parse::<u64>().ok());
    kib.and_then(|kib| kib.checked_mul(1024))
}

fn numa_nodes(root: &Root) -> Probe<usize> {
    match cpu_list(root, "/sys/devices/system/node/online") {
        Ok(nodes) => Ok(nodes.len()),
        Err(Miss::Absent(_)) => {
            let populated = zones(&text(root, "/proc/zoneinfo")?)?;
            let mut nodes: Vec<u32> = populated.iter().map(|zone| zone.node).collect();
            nodes.dedup();
            Ok(nodes.len())
        }
        Err(miss) => Err(miss),
    }
}

/// A populated memory zone. Sizes are in base pages.
#[derive(Debug, Default, PartialEq, Serialize)]
struct Zone {
    node: u32,
    #[serde(rename = "zone")]
    name: String,
    managed_pages: Option<u64>,
    min_pages: Option<u64>,
    low_pages: Option<u64>,
    high_pages: Option<u64>,
}

/// Returns the zones of `/proc/zoneinfo` that contain memory.
fn zones(text: &str) -> Probe<Vec<Zone>> {
    let mut zones: Vec<Zone> = Vec::new();
    for line in text.lines() {
        if let Some((number, name)) = line
            .strip_prefix("Node ")
            .and_then(|line| line.split_once(", zone"))
        {
            let node = number
                .parse()
                .map_err(|_| garbage("/proc/zoneinfo", "a list of zones by node number", line))?;
            let name = name.trim().to_owned();
            zones.push(Zone {
                node,
                name,
                ..Zone::default()
            });
            continue;
        }
        let Some(zone) = zones.last_mut() else { continue };
        let mut words = line.split_whitespace();
        let target = match words.next() {
            Some("managed") => &mut zone.managed_pages,
            Some("min") => &mut zone.min_pages,
            Some("low") => &mut zone.low_pages,
            Some("high") => &mut zone.high_pages,
            _ => continue,
        };
        if target.is_none() {
            *target = words.next().and_then(|pages| pages.parse().ok());
        }
    }
    zones.retain(|zone| zone.managed_pages != Some(0));
    if zones.is_empty() {
        return unknown("/proc/zoneinfo lists no zone with memory");
    }
    Ok(zones)
}

fn page_bytes(root: &Root) -> Probe<u64> {
    if root.is_real() {
        return Ok(rustix::param::page_size() as u64);
    }
    let text = text(root, "/proc/self/smaps").map_err(Miss::into_unknown)?;
    match labelled_kib(&text, "KernelPageSize") {
        Some(bytes) => Ok(bytes),
        None => unknown("/proc/self/smaps has no KernelPageSize"),
    }
}

/// An active swap area.
#[derive(Debug, PartialEq, Serialize)]
struct SwapArea {
    name: String,
    kind: String,
    size_bytes: u64,
    used_bytes: u64,
    priority: i64,
}

fn swap_areas(root: &Root) -> Probe<Vec<SwapArea>> {
    let text = text(root, "/proc/swaps")?;
    let mut lines = text.lines();
    if !lines.next().is_some_and(|head| head.starts_with("Filename")) {
        return Err(garbage("/proc/swaps", "a table that starts with Filename", &text));
    }
    lines
        .map(|line| parse_swap(line).ok_or_else(|| garbage("/proc/swaps", "a table of swap areas", line)))
        .collect()
}

fn parse_swap(line: &str) -> Option<SwapArea> {
    let mut words = line.split_whitespace();
    let (name, kind) = (unescape(words.next()?), words.next()?.to_owned());
    let mut bytes = || words.next()?.parse::<u64>().ok()?.checked_mul(1024);
    let (size_bytes, used_bytes) = (bytes()?, bytes()?);
    let priority = words.next()?.parse().ok()?;
    Some(SwapArea {
        name,
        kind,
        size_bytes,
        used_bytes,
        priority,
    })
}

/// A compressed block device in memory.
#[derive(Debug, PartialEq, Serialize)]
struct Zram {
    name: String,
    size_bytes: Option<u64>,
    algorithm: Option<String>,
    algorithms: Option<Vec<String>>,
    swap: Option<bool>,
}

fn zram_devices(root: &Root) -> Probe<Vec<Zram>> {
    let areas = swap_areas(root).ok();
    let devices = list(root, "/sys/block")?
        .into_iter()
        .filter(|name| name.starts_with("zram"));
    Ok(devices
        .map(|name| {
            let folder = format!("/sys/block/{name}");
            let (algorithm, algorithms) = choice(root, &format!("{folder}/comp_algorithm")).ok().unzip();
            let is_ours = |area: &SwapArea| area.name == format!("/dev/{name}");
            let swap = areas.as_ref().map(|areas| areas.iter().any(is_ours));
            let size_bytes = count(root, &format!("{folder}/disksize")).ok();
            Zram {
                name,
                size_bytes,
                algorithm,
                algorithms,
                swap,
            }
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_keep_their_own_watermarks_and_not_those_of_page_sets() {
        let text = "Node 0, zone   Normal\n  per-node stats\n      nr_low 3\n  pages free     9\n        boost    0\n        min      5012\n        low      6265\n        high     7518\n        managed  327680\n  pagesets\n              high:     11424\n              high_min: 3132\nNode 0, zone  Movable\n        min      32\n        managed  0\n";
        let expected = Zone {
            node: 0,
            name: "Normal".into(),
            managed_pages: Some(327_680),
            min_pages: Some(5012),
            low_pages: Some(6265),
            high_pages: Some(7518),
        };
        assert_eq!(zones(text).unwrap(), [expected]);
        assert!(matches!(zones("nonsense"), Err(Miss::Unknown(_))));
        assert!(matches!(zones("Node x, zone y"), Err(Miss::Unknown(_))));
    }

    #[test]
    fn swap_lines() {
        let area = parse_swap(r"/my\040swap file 1048572 12 -2").unwrap();
        assert_eq!(
            (area.name.as_str(), area.size_bytes, area.used_bytes),
            ("/my swap", 1_073_737_728, 12288)
        );
        for bad in [
            "",
            "/dev/zram0",
            "/dev/zram0 partition x 0 1",
            "/dev/zram0 partition 18446744073709551615 0 1",
        ] {
            assert_eq!(parse_swap(bad), None, "{bad}");
        }
    }

    #[test]
    fn sizes_that_do_not_parse_are_not_zero() {
        assert_eq!(labelled_kib("MemTotal:  5 kB", "MemTotal"), Some(5120));
        assert_eq!(labelled_kib("MemTotal:  many kB", "MemTotal"), None);
        assert_eq!(labelled_kib("MemTotalX: 5 kB", "MemTotal"), None);
    }
}
