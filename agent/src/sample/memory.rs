// SPDX-License-Identifier: Apache-2.0
//! `memory`: free, available, cached, dirty and swapped memory.

use super::feed::{Column, Feed, Found};
use super::text::Keyed;
use crate::root::Root;

const PATH: &str = "/proc/meminfo";
/// The kernel counts in units of 1024 bytes.
const UNIT_BYTES: i64 = 1024;
const WANTED: [&str; 16] = [
    "MemTotal",
    "MemFree",
    "MemAvailable",
    "Buffers",
    "Cached",
    "SwapCached",
    "SwapTotal",
    "SwapFree",
    "Zswap",
    "Zswapped",
    "Dirty",
    "Writeback",
    "AnonPages",
    "Shmem",
    "Slab",
    "AnonHugePages",
];

pub fn open(root: &Root) -> Found {
    let text = match root.read_bytes(PATH) {
        Ok(text) => text,
        Err(error) => return Found::none(format!("{PATH}: {error}")),
    };
    let (names, parser) = Keyed::layout(&text, b':', UNIT_BYTES, |name| WANTED.contains(&name));
    if names.is_empty() {
        return Found::none(format!("{PATH}: no known line"));
    }
    let columns = names
        .iter()
        .map(|name| Column::level(format!("memory.{name}"), "B", 1))
        .collect();
    Found::one(Feed::open(root, PATH, columns, parser))
}
