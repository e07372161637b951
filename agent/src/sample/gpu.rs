// SPDX-License-Identifier: Apache-2.0
//! `gpu`: load, memory, clock and power of each graphics card, as its driver tells them in sysfs.

use super::feed::{Column, Feed, Found};
use super::names::numbered;
use super::text::Number;
use crate::root::Root;

const FOLDER: &str = "/sys/class/drm";
/// What a file tells, its unit, how many parts make one, and what the number is multiplied by.
struct Told(&'static str, &'static str, &'static str, u64, i64);

/// Files of amdgpu, i915 and xe in a card's folder that tell a state.
const LEVELS: [Told; 8] = [
    Told("device/gpu_busy_percent", "busy", "", 100, 1),
    Told("device/mem_busy_percent", "memory_busy", "", 100, 1),
    Told("device/mem_info_vram_used", "vram_used", "B", 1, 1),
    Told("device/mem_info_vram_total", "vram_total", "B", 1, 1),
    Told("device/mem_info_gtt_used", "gtt_used", "B", 1, 1),
    Told("gt_act_freq_mhz", "frequency", "Hz", 1, 1_000_000),
    Told("gt/gt0/rps_act_freq_mhz", "gt0_frequency", "Hz", 1, 1_000_000),
    Told(
        "device/tile0/gt0/freq0/act_freq",
        "tile0_frequency",
        "Hz",
        1,
        1_000_000,
    ),
];
/// Files that tell how long the card had nothing to do: the first that is there counts (i915 of two ages, xe).
const IDLE: [Told; 3] = [
    Told("gt/gt0/rc6_residency_ms", "idle_time", "s", 1000, 1),
    Told("power/rc6_residency_ms", "idle_time", "s", 1000, 1),
    Told(
        "device/tile0/gt0/gtidle/idle_residency_ms",
        "idle_time",
        "s",
        1000,
        1,
    ),
];
/// Files of the card's sensors: what amdgpu draws on average or right now, its clock.
const SENSED: [Told; 3] = [
    Told("power1_average", "power", "W", 1_000_000, 1),
    Told("power1_input", "power", "W", 1_000_000, 1),
    Told("freq1_input", "frequency", "Hz", 1, 1),
];
/// What i915 and xe have used up.
const USED: Told = Told("energy1_input", "energy", "J", 1_000_000, 1);

pub fn open(root: &Root) -> Found {
    let mut found = Found::default();
    for (card, folder) in numbered(root, FOLDER, "card") {
        let path = format!("{FOLDER}/{folder}");
        let name = |what: &str| format!("gpu.card{card}.{what}");
        for told in &LEVELS {
            add(root, &mut found, &path, told, |what, unit, parts| {
                Column::level(name(what), unit, parts)
            });
        }
        IDLE.iter().any(|told| {
            add(root, &mut found, &path, told, |what, unit, parts| {
                Column::counter(name(what), unit, parts)
            })
        });
        let sensors = format!("{path}/device/hwmon");
        for (_, sensor) in numbered(root, &sensors, "hwmon") {
            let path = format!("{sensors}/{sensor}");
            let mut columns: Vec<&str> = Vec::new();
            for told in &SENSED {
                let new = !columns.contains(&told.1);
                if new
                    && add(root, &mut found, &path, told, |what, unit, parts| {
                        Column::level(name(what), unit, parts)
                    })
                {
                    columns.push(told.1);
                }
            }
            add(root, &mut found, &path, &USED, |what, unit, parts| {
                Column::counter(name(what), unit, parts)
            });
        }
    }
    if found.feeds.is_empty() && found.missing.is_empty() {
        return Found::none("no graphics card tells anything in sysfs");
    }
    found
}

/// Adds a file; whether it is there.
fn add(
    root: &Root,
    found: &mut Found,
    folder: &str,
    told: &Told,
    column: impl Fn(&str, &'static str, u64) -> Column,
) -> bool {
    let Told(file, what, unit, parts, scale) = *told;
    let path = format!("{folder}/{file}");
    let there = root.path(&path).exists();
    if there {
        let number = Number {
            scale,
            ..Number::any()
        };
        found.add(Feed::open(root, &path, vec![column(what, unit, parts)], number));
    }
    there
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::set::Set;
    use std::collections::BTreeMap;

    /// What a card whose driver has these files tells.
    fn told(files: &[(&str, &str)]) -> BTreeMap<String, (i64, &'static str, u64)> {
        let folder = tempfile::tempdir().unwrap();
        for (file, text) in files {
            let path = folder.path().join("sys/class/drm/card1").join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let mut set = Set::of("gpu", open(&Root::new(folder.path())));
        let mut row = vec![0; set.width()];
        set.sample(&mut row);
        let columns = set.columns().zip(row);
        columns
            .map(|(column, cell)| (column.name.clone(), (cell, column.unit, column.per_unit)))
            .collect()
    }

    #[test]
    fn amdgpu_tells_load_memory_clock_and_power() {
        let found = told(&[
            ("device/gpu_busy_percent", "87\n"),
            ("device/mem_info_vram_used", "4096\n"),
            ("device/mem_info_vram_total", "8192\n"),
            ("device/hwmon/hwmon5/power1_average", "123000000\n"),
            ("device/hwmon/hwmon5/power1_input", "140000000\n"),
            ("device/hwmon/hwmon5/freq1_input", "1800000000\n"),
        ]);
        assert_eq!(found["gpu.card1.busy"], (87, "", 100));
        assert_eq!(found["gpu.card1.vram_used"], (4096, "B", 1));
        assert_eq!(found["gpu.card1.power"], (123_000_000, "W", 1_000_000));
        assert_eq!(found["gpu.card1.frequency"], (1_800_000_000, "Hz", 1));
        assert_eq!(found.len(), 5);
    }

    #[test]
    fn i915_and_xe_tell_how_long_they_were_idle_and_what_they_used() {
        let i915 = told(&[
            ("gt_act_freq_mhz", "1300\n"),
            ("gt/gt0/rc6_residency_ms", "5000\n"),
            ("power/rc6_residency_ms", "5000\n"),
            ("device/hwmon/hwmon2/energy1_input", "7000000\n"),
        ]);
        assert_eq!(i915["gpu.card1.idle_time"], (5000, "s", 1000));
        assert_eq!(i915["gpu.card1.energy"], (7_000_000, "J", 1_000_000));
        assert_eq!(i915["gpu.card1.frequency"].0, 1_300_000_000);
        assert_eq!(i915.len(), 3);
        let xe = told(&[
            ("device/tile0/gt0/gtidle/idle_residency_ms", "9\n"),
            ("device/tile0/gt0/freq0/act_freq", "400\n"),
        ]);
        assert_eq!(xe["gpu.card1.idle_time"].0, 9);
        assert_eq!(xe["gpu.card1.tile0_frequency"].0, 400_000_000);
    }
}
