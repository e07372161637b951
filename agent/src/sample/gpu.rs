// SPDX-License-Identifier: Apache-2.0
//! `gpu`: load, memory and clock of each graphics card, as its driver tells them in sysfs.

use super::feed::{Column, Feed, Found};
use super::names::numbered;
use super::text::Number;
use crate::root::Root;

const FOLDER: &str = "/sys/class/drm";
/// Files of amdgpu, i915 and xe; what they tell; unit, parts of it, and what the number is multiplied by.
const FILES: [(&str, &str, &str, u64, i64); 8] = [
    ("device/gpu_busy_percent", "busy", "", 100, 1),
    ("device/mem_busy_percent", "memory_busy", "", 100, 1),
    ("device/mem_info_vram_used", "vram_used", "B", 1, 1),
    ("device/mem_info_vram_total", "vram_total", "B", 1, 1),
    ("device/mem_info_gtt_used", "gtt_used", "B", 1, 1),
    ("gt_act_freq_mhz", "frequency", "Hz", 1, 1_000_000),
    ("gt/gt0/rps_act_freq_mhz", "gt0_frequency", "Hz", 1, 1_000_000),
    (
        "device/tile0/gt0/freq0/act_freq",
        "tile0_frequency",
        "Hz",
        1,
        1_000_000,
    ),
];

pub fn open(root: &Root) -> Found {
    let mut found = Found::default();
    for (card, folder) in numbered(root, FOLDER, "card") {
        for (file, what, unit, per_unit, scale) in FILES {
            let path = format!("{FOLDER}/{folder}/{file}");
            if root.path(&path).exists() {
                let column = Column::level(format!("gpu.card{card}.{what}"), unit, per_unit);
                let number = Number {
                    scale,
                    ..Number::any()
                };
                found.add(Feed::open(root, &path, vec![column], number));
            }
        }
    }
    if found.feeds.is_empty() && found.missing.is_empty() {
        return Found::none("no graphics card tells anything in sysfs");
    }
    found
}
