// SPDX-License-Identifier: Apache-2.0
//! Blocks of a recording, `ktrial.recording/1`: each can be read even if earlier ones are damaged.

use crate::sample::feed::Cell;
use flate2::write::ZlibEncoder;
use flate2::Compression;
use serde_json::Value;
use std::io::Write;

/// The beginning of a recording.
pub const MAGIC: &[u8] = b"ktrial.recording/1\n";

/// The content of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Holds {
    /// JSON: the machine, the clocks, and what is missing.
    Head = b'H',
    /// JSON: the columns of a group from here on.
    Layout = b'L',
    /// Binary: rows of a group.
    Samples = b'S',
    /// Lines of JSON: events.
    Events = b'E',
    /// Lines of JSON: processes and groups whose use of memory or disks changed.
    Usage = b'U',
    /// JSON: how the recording ended.
    Tail = b'T',
}

/// Encodes a block: length of what follows, its checksum, the kind of content, and the deflated
/// content.
pub fn block(holds: Holds, content: &[u8]) -> Vec<u8> {
    let mut packed = vec![holds as u8];
    let mut encoder = ZlibEncoder::new(&mut packed, Compression::fast());
    // Writing to memory cannot fail.
    let written = encoder
        .write_all(content)
        .and_then(|()| encoder.finish().map(|_| ()));
    debug_assert!(written.is_ok());
    let mut block = u32::try_from(packed.len())
        .unwrap_or(u32::MAX)
        .to_le_bytes()
        .to_vec();
    block.extend(crc32fast::hash(&packed).to_le_bytes());
    block.append(&mut packed);
    block
}

/// Encodes a block of JSON.
pub fn json_block(holds: Holds, value: &Value) -> Vec<u8> {
    block(holds, value.to_string().as_bytes())
}

/// Encodes a block of JSON lines.
pub fn lines(holds: Holds, values: &[Value]) -> Vec<u8> {
    let lines: Vec<String> = values.iter().map(ToString::to_string).collect();
    block(holds, lines.join("\n").as_bytes())
}

/// Encodes rows of a group: its number, the numbers of rows and columns, the times, then for each
/// column the first number and the differences.
pub fn samples(group: u32, times_ns: &[u64], cells: &[Cell], width: usize) -> Vec<u8> {
    let rows = times_ns.len();
    let mut content = Vec::with_capacity(12 + (rows * (width + 1)) * 8);
    for number in [group, narrow(rows), narrow(width)] {
        content.extend(number.to_le_bytes());
    }
    let times = times_ns
        .iter()
        .map(|time_ns| i64::try_from(*time_ns).unwrap_or(i64::MAX));
    differences(times, &mut content);
    for column in 0..width {
        differences(cells.iter().skip(column).step_by(width).copied(), &mut content);
    }
    block(Holds::Samples, &content)
}

fn differences(numbers: impl Iterator<Item = i64>, content: &mut Vec<u8>) {
    let mut before = 0_i64;
    for number in numbers {
        content.extend(number.wrapping_sub(before).to_le_bytes());
        before = number;
    }
}

fn narrow(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::ZlibDecoder;
    use std::io::Read;

    #[test]
    fn a_block_tells_its_length_and_checksum() {
        let found = samples(3, &[1000, 1100], &[5, i64::MIN, 7, 4], 2);
        let length = u32::from_le_bytes(found[..4].try_into().unwrap()) as usize;
        assert_eq!(length, found.len() - 8);
        assert_eq!(
            u32::from_le_bytes(found[4..8].try_into().unwrap()),
            crc32fast::hash(&found[8..])
        );
        assert_eq!(found[8], b'S');
        let mut content = Vec::new();
        ZlibDecoder::new(&found[9..]).read_to_end(&mut content).unwrap();
        let numbers: Vec<i64> = content[12..]
            .chunks(8)
            .map(|bytes| i64::from_le_bytes(bytes.try_into().unwrap()))
            .collect();
        assert_eq!(content[..12], [3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0]);
        assert_eq!(numbers[..4], [1000, 100, 5, 2]);
        assert_eq!(numbers[4].wrapping_add(numbers[5]), 4);
    }
}
