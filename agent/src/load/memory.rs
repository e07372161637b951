// SPDX-License-Identifier: Apache-2.0
//! Memory of loads: what may be taken, and buffers that are really there.

use crate::error::{Error, Kind, Result};
use crate::root::Root;
use std::hint::black_box;

/// Refuses a load that would take more than half of the memory that is free now.
pub fn room_for(bytes: u64) -> Result<()> {
    let available = available_bytes()?;
    if bytes <= available / 2 {
        return Ok(());
    }
    let message = format!("the load needs {bytes} bytes of memory; {available} are available");
    Err(Error::new(Kind::BadRequest, message).hint("a load takes at most half of that: make it smaller"))
}

/// Bytes of memory that can be had without swapping, in the kernel's own estimate.
fn available_bytes() -> Result<u64> {
    const FILE: &str = "/proc/meminfo";
    let text = Root::new("/")
        .read_text(FILE)
        .map_err(|error| Error::io("cannot read", FILE, &error))?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let number = line.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    number
        .map(|kib| kib * 1024)
        .ok_or_else(|| Error::new(Kind::Io, format!("{FILE} does not tell MemAvailable in kB")))
}

/// A size in bytes as this machine addresses it.
pub fn to_size(bytes: u64) -> Result<usize> {
    usize::try_from(bytes).map_err(|_| {
        Error::new(
            Kind::BadRequest,
            format!("{bytes} bytes are too many for this machine"),
        )
    })
}

/// A buffer whose every byte was written.
pub fn written(size: usize, byte: u8) -> Vec<u8> {
    let mut buffer = Vec::with_capacity(size);
    buffer.resize(size, black_box(byte));
    buffer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_what_is_there_may_be_taken() {
        let available = available_bytes().unwrap();
        assert!(available > 0);
        room_for(available / 8).unwrap();
        assert_eq!(room_for(available * 2).unwrap_err().kind, Kind::BadRequest);
    }
}
