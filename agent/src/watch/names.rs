// SPDX-License-Identifier: Apache-2.0
//! A cache for names of threads and devices.

use crate::root::Root;
use crate::trace::device_name;
use std::collections::HashMap;

/// How long a name is valid: thread IDs are reused.
const HOLDS_NS: u64 = 1_000_000_000;
/// Most names in the cache.
const MOST: usize = 4096;

#[derive(Default)]
pub struct Names {
    threads: HashMap<i32, (u64, Option<String>)>,
    devices: HashMap<u32, String>,
}

impl Names {
    /// Returns the name of a thread; None if it has ended.
    pub fn of(&mut self, root: &Root, thread: i32, now_ns: u64) -> Option<String> {
        if thread == 0 {
            return Some("idle".to_owned());
        }
        if self.threads.len() > MOST {
            self.threads.clear();
        }
        if let Some((until_ns, name)) = self.threads.get(&thread) {
            if now_ns < *until_ns {
                return name.clone();
            }
        }
        let name = root.read_text(&format!("/proc/{thread}/comm")).ok();
        self.threads.insert(thread, (now_ns + HOLDS_NS, name.clone()));
        name
    }

    /// Returns the name of a block device.
    pub fn device(&mut self, root: &Root, device: u32) -> String {
        self.devices
            .entry(device)
            .or_insert_with(|| device_name(root, device))
            .clone()
    }
}
