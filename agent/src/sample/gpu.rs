// SPDX-License-Identifier: Apache-2.0
//! `gpu`: load, memory, clock and power of each graphics card, from its driver's files in sysfs.

use super::feed::{Column, Feed, Found};
use super::names::numbered;
use super::text::Number;
use crate::root::Root;

const FOLDER: &str = "/sys/class/drm";
/// A file, the name of its column, the unit, the parts per unit, and the factor to multiply with.
struct SensorFile(&'static str, &'static str, &'static str, u64, i64);

/// Files of amdgpu, i915 and xe in a card's folder with a state.
const LEVELS: [SensorFile; 8] = [
    SensorFile("device/gpu_busy_percent", "busy", "", 100, 1),
    SensorFile("device/mem_busy_percent", "memory_busy", "", 100, 1),
    SensorFile("device/mem_info_vram_used", "vram_used", "B", 1, 1),
    SensorFile("device/mem_info_vram_total", "vram_total", "B", 1, 1),
    SensorFile("device/mem_info_gtt_used", "gtt_used", "B", 1, 1),
    SensorFile("gt_act_freq_mhz", "frequency", "Hz", 1, 1_000_000),
    SensorFile("gt/gt0/rps_act_freq_mhz", "gt0_frequency", "Hz", 1, 1_000_000),
    SensorFile(
        "device/tile0/gt0/freq0/act_freq",
        "tile0_frequency",
        "Hz",
        1,
        1_000_000,
    ),
];
/// Files with the card's idle time; the first that exists counts (old i915, new i915, xe).
const IDLE: [SensorFile; 3] = [
    SensorFile("gt/gt0/rc6_residency_ms", "idle_time", "s", 1000, 1),
    SensorFile("power/rc6_residency_ms", "idle_time", "s", 1000, 1),
    SensorFile(
        "device/tile0/gt0/gtidle/idle_residency_ms",
        "idle_time",
        "s",
        1000,
        1,
    ),
];
/// The card's sensors: power of amdgpu, average or present, and its clock.
const SENSED: [SensorFile; 3] = [
    SensorFile("power1_average", "power", "W", 1_000_000, 1),
    SensorFile("power1_input", "power", "W", 1_000_000, 1),
    SensorFile("freq1_input", "frequency", "Hz", 1, 1),
];
/// The energy that i915 and xe have used.
const USED: SensorFile = SensorFile("energy1_input", "energy", "J", 1_000_000, 1);

pub fn open(root: &Root) -> Found {
    let mut found = Found::default();
    for (card, folder) in numbered(root, FOLDER, "card") {
        let path = format!("{FOLDER}/{folder}");
        let name = |what: &str| format!("gpu.card{card}.{what}");
        for sensor in &LEVELS {
            add(root, &mut found, &path, sensor, |what, unit, parts| {
                Column::level(name(what), unit, parts)
            });
        }
        IDLE.iter().any(|sensor| {
            add(root, &mut found, &path, sensor, |what, unit, parts| {
                Column::counter(name(what), unit, parts)
            })
        });
        let sensors = format!("{path}/device/hwmon");
        for (_, sensor) in numbered(root, &sensors, "hwmon") {
            let path = format!("{sensors}/{sensor}");
            let mut columns: Vec<&str> = Vec::new();
            for sensor in &SENSED {
                let new = !columns.contains(&sensor.1);
                if new
                    && add(root, &mut found, &path, sensor, |what, unit, parts| {
                        Column::level(name(what), unit, parts)
                    })
                {
                    columns.push(sensor.1);
                }
            }
            add(root, &mut found, &path, &USED, |what, unit, parts| {
                Column::counter(name(what), unit, parts)
            });
        }
    }
    if found.feeds.is_empty() && found.missing.is_empty() {
        return Found::none("no graphics card has sensors in sysfs");
    }
    found
}

/// Adds a file if it exists; returns whether it does.
fn add(
    root: &Root,
    found: &mut Found,
    folder: &str,
    sensor: &SensorFile,
    column: impl Fn(&str, &'static str, u64) -> Column,
) -> bool {
    let SensorFile(file, what, unit, parts, scale) = *sensor;
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

    /// Returns the columns of a card whose driver has these files.
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
