// SPDX-License-Identifier: Apache-2.0
//! Numbered entries of folders, and hwmon sensors by chip.

use crate::root::Root;
use std::collections::BTreeMap;

const HWMON: &str = "/sys/class/hwmon";

/// Returns the entries of a folder named `prefix` and a number, in numeric order.
pub fn numbered(root: &Root, folder: &str, prefix: &str) -> Vec<(u64, String)> {
    let names = root.list(folder).unwrap_or_default().into_iter();
    let mut found: Vec<(u64, String)> = names
        .filter_map(|name| Some((name.strip_prefix(prefix)?.parse().ok()?, name)))
        .collect();
    found.sort();
    found
}

/// Replaces everything but letters, digits and `-` by `_`; an empty name becomes `unnamed`.
pub fn clean(name: &str) -> String {
    let kept = |letter: char| {
        if letter.is_ascii_alphanumeric() || letter == '-' {
            letter
        } else {
            '_'
        }
    };
    match name.trim() {
        "" => "unnamed".to_owned(),
        name => name.chars().take(64).map(kept).collect(),
    }
}

/// A sensor of a chip.
pub struct Sensor {
    /// Name of the chip; with that of its folder if another chip has the same name.
    pub chip: String,
    /// hwmon's name for it: `temp1`.
    pub input: String,
    /// Path of its value.
    pub path: String,
    /// The driver's name for it.
    pub label: Option<String>,
}

/// Returns all sensors of a kind (`temp`, `fan`), by chip and number.
pub fn chips(root: &Root, kind: &str) -> Vec<Sensor> {
    let mut met: BTreeMap<String, usize> = BTreeMap::new();
    let mut found = Vec::new();
    for (_, folder) in numbered(root, HWMON, "hwmon") {
        let name = root
            .read_text(&format!("{HWMON}/{folder}/name"))
            .unwrap_or_default();
        let name = clean(&name);
        let times = met.entry(name.clone()).or_default();
        *times += 1;
        let chip = if *times == 1 {
            name
        } else {
            format!("{name}-{folder}")
        };
        let files = root.list(&format!("{HWMON}/{folder}")).unwrap_or_default();
        let mut numbers: Vec<u64> = files
            .iter()
            .filter_map(|file| file.strip_prefix(kind)?.strip_suffix("_input")?.parse().ok())
            .collect();
        numbers.sort_unstable();
        for number in numbers {
            let input = format!("{kind}{number}");
            let label = root.read_text(&format!("{HWMON}/{folder}/{input}_label")).ok();
            found.push(Sensor {
                chip: chip.clone(),
                path: format!("{HWMON}/{folder}/{input}_input"),
                input,
                label,
            });
        }
    }
    found
}
