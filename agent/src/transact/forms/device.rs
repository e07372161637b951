// SPDX-License-Identifier: Apache-2.0
//! Zram devices of the generator.

use super::{check_value, Checked, Device};
use std::fmt::Write as _;

impl Device {
    pub(super) fn check(&self) -> Checked {
        if !is_zram(&self.device) {
            return Err(format!("{:?}: expected zram and a number", self.device));
        }
        for (key, value) in self.keys() {
            let more = if key == "compression-algorithm" {
                "_-"
            } else {
                " .+-*/(),"
            };
            check_value(key, &value, more)?;
        }
        match self.swap_priority {
            Some(priority) if !(-1..=32_767).contains(&priority) => {
                Err("swap-priority: expected -1 to 32767".to_owned())
            }
            _ => Ok(()),
        }
    }

    fn keys(&self) -> Vec<(&'static str, String)> {
        let priority = self.swap_priority.map(|priority| priority.to_string());
        let keys = [
            ("zram-size", &self.zram_size),
            ("compression-algorithm", &self.compression_algorithm),
            ("swap-priority", &priority),
            ("host-memory-limit", &self.host_memory_limit),
            ("zram-resident-limit", &self.zram_resident_limit),
        ];
        let present = keys
            .into_iter()
            .filter_map(|(key, value)| Some((key, value.clone()?)));
        present.collect()
    }

    pub(super) fn section(&self) -> String {
        let mut section = format!("[{}]\n", self.device);
        for (key, value) in self.keys() {
            let _ = writeln!(section, "{key} = {value}");
        }
        section
    }
}

/// Whether this is the name of a zram device.
#[must_use]
pub fn is_zram(name: &str) -> bool {
    name.strip_prefix("zram").is_some_and(|number| {
        !number.is_empty() && number.len() <= 4 && number.bytes().all(|digit| digit.is_ascii_digit())
    })
}
