// SPDX-License-Identifier: Apache-2.0
//! Read-only admin commands to an `NVMe` controller.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// A command to an `NVMe` controller, in the layout of `linux/nvme_ioctl.h`.
#[repr(C)]
#[derive(Default)]
struct NvmeCommand {
    opcode: u8,
    flags: u8,
    reserved: u16,
    namespace: u32,
    words_2_3: [u32; 2],
    metadata: u64,
    address: u64,
    metadata_bytes: u32,
    data_bytes: u32,
    words_10_15: [u32; 6],
    timeout_ms: u32,
    result: u32,
}

/// `NVME_IOCTL_ADMIN_CMD`: read and write, type `N`, number 0x41, 72 bytes.
const NVME_ADMIN_COMMAND: libc::Ioctl = 0xc048_4e41;
/// Length of the Identify Controller data structure.
pub const IDENTIFY_BYTES: usize = 4096;
const IDENTIFY: u8 = 0x06;
const GET_FEATURES: u8 = 0x0a;
const CONTROLLER_STRUCTURE: u32 = 1;
const AUTONOMOUS_TRANSITIONS: u32 = 0x0c;

/// Returns the Identify Controller data structure of an `NVMe` controller.
///
/// # Errors
///
/// It is not an `NVMe` device, the session lacks privileges, or the controller refuses.
pub fn nvme_identify_controller(device: &File) -> io::Result<Vec<u8>> {
    let mut data = vec![0; IDENTIFY_BYTES];
    nvme_admin(device, IDENTIFY, CONTROLLER_STRUCTURE, &mut data)?;
    Ok(data)
}

/// Whether an `NVMe` controller changes power states on its own (APST).
///
/// # Errors
///
/// It is not an `NVMe` device, the session lacks privileges, or the controller lacks the feature.
pub fn nvme_autonomous_transitions(device: &File) -> io::Result<bool> {
    let mut table = [0; 256];
    Ok(nvme_admin(device, GET_FEATURES, AUTONOMOUS_TRANSITIONS, &mut table)? & 1 == 1)
}

/// Sends a read-only admin command and returns its result word.
fn nvme_admin(device: &File, opcode: u8, word_10: u32, data: &mut [u8]) -> io::Result<u32> {
    let mut command = NvmeCommand {
        opcode,
        address: data.as_mut_ptr() as u64,
        data_bytes: u32::try_from(data.len()).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?,
        words_10_15: [word_10, 0, 0, 0, 0, 0],
        timeout_ms: 1000,
        ..NvmeCommand::default()
    };
    // SAFETY: the structure has the kernel's layout, and its address and length describe the live
    // buffer `data`.
    let status = unsafe { libc::ioctl(device.as_raw_fd(), NVME_ADMIN_COMMAND, &raw mut command) };
    match status {
        0 => Ok(command.result),
        -1 => Err(io::Error::last_os_error()),
        status => Err(io::Error::other(format!(
            "the controller returned status {status:#x}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nvme_command_has_the_size_that_its_number_says() {
        assert_eq!(
            std::mem::size_of::<NvmeCommand>(),
            (NVME_ADMIN_COMMAND >> 16 & 0x3fff) as usize
        );
    }
}
