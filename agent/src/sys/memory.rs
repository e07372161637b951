// SPDX-License-Identifier: Apache-2.0
//! Mapped memory and page faults.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use super::children::usage_of;

/// Returns the size of a memory page in bytes.
#[must_use]
pub fn page_bytes() -> usize {
    rustix::param::page_size()
}

/// Returns the page faults of the calling thread so far, with and without reading from a disk.
///
/// # Errors
///
/// The kernel does not count per thread.
pub fn thread_faults() -> io::Result<u64> {
    // SAFETY: rusage consists of integers, for which all zeroes is valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live value of the type that getrusage fills.
    if unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let usage = usage_of(&usage);
    Ok(usage.minor_faults + usage.major_faults)
}

/// A request to the kernel about huge pages in a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HugePages {
    /// Use them.
    Wanted,
    /// Don't use them.
    Declined,
}

/// Mapped memory, unmapped on drop.
#[derive(Debug)]
pub struct Mapping {
    address: std::ptr::NonNull<u8>,
    bytes: usize,
    writable: bool,
}

// SAFETY: the value owns its memory alone; nothing about it belongs to the thread that mapped it.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps anonymous memory, which is allocated when it is touched.
    ///
    /// # Errors
    ///
    /// There is not enough memory, or the kernel does not support huge pages.
    pub fn anonymous(bytes: usize, huge: Option<HugePages>) -> io::Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let mapping = Self::map(bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1)?;
        match huge {
            Some(huge) => mapping.advise(huge, bytes).map(|()| mapping),
            None => Ok(mapping),
        }
    }

    /// Requests or declines huge pages in the first `bytes`.
    ///
    /// # Errors
    ///
    /// The kernel does not support huge pages.
    ///
    /// # Panics
    ///
    /// The mapping is shorter.
    pub fn advise(&self, huge: HugePages, bytes: usize) -> io::Result<()> {
        assert!(bytes <= self.bytes, "no {bytes} bytes in {self:?}");
        let advice = match huge {
            HugePages::Wanted => libc::MADV_HUGEPAGE,
            HugePages::Declined => libc::MADV_NOHUGEPAGE,
        };
        // SAFETY: the range is the mapping's own; the advice changes no content.
        if unsafe { libc::madvise(self.address.as_ptr().cast(), bytes, advice) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        // A kernel without huge pages rejects the advice, but declines them anyway.
        if huge == HugePages::Declined && error.raw_os_error() == Some(libc::EINVAL) {
            return Ok(());
        }
        Err(error)
    }

    /// Maps the first `bytes` of a file for reading. The file must not become shorter.
    ///
    /// # Errors
    ///
    /// The file is shorter, or cannot be mapped.
    pub fn of_file(file: &File, bytes: usize) -> io::Result<Self> {
        if file.metadata()?.len() < bytes as u64 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Self::map(bytes, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd())
    }

    fn map(bytes: usize, protection: libc::c_int, flags: libc::c_int, fd: libc::c_int) -> io::Result<Self> {
        // SAFETY: the kernel chooses the address, so no memory in use is affected.
        let address = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, fd, 0) };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let address = std::ptr::NonNull::new(address.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let writable = protection & libc::PROT_WRITE != 0;
        Ok(Self {
            address,
            bytes,
            writable,
        })
    }

    /// Writes a byte.
    ///
    /// # Panics
    ///
    /// The offset is outside the mapping, or the mapping is read-only.
    pub fn write(&mut self, offset: usize, byte: u8) {
        assert!(
            offset < self.bytes && self.writable,
            "no byte {offset} to write in {self:?}"
        );
        // SAFETY: the offset was checked; the memory is writable and belongs to this value alone.
        unsafe { self.address.as_ptr().add(offset).write_volatile(byte) };
    }

    /// Reads a byte and discards it.
    ///
    /// # Panics
    ///
    /// The offset is outside the mapping.
    pub fn read(&self, offset: usize) {
        assert!(offset < self.bytes, "no byte {offset} in {self:?}");
        // SAFETY: the offset was checked, and the whole mapping is readable.
        let _: u8 = unsafe { self.address.as_ptr().add(offset).read_volatile() };
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is the mapping's own, and nothing refers to it any more.
        let _: libc::c_int = unsafe { libc::munmap(self.address.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn touching_a_mapping_costs_a_fault_per_page() {
        const PAGES: usize = 64;
        let mut mapping = Mapping::anonymous(PAGES * page_bytes(), Some(HugePages::Declined)).unwrap();
        let before = thread_faults().unwrap();
        for page in 0..PAGES {
            mapping.write(page * page_bytes(), 1);
        }
        let faults = thread_faults().unwrap() - before;
        assert!((PAGES as u64..2 * PAGES as u64).contains(&faults), "{faults}");
    }

    #[test]
    fn a_mapping_has_bounds() {
        let file = tempfile::tempfile().unwrap();
        assert!(Mapping::of_file(&file, 1).is_err());
        file.set_len(10).unwrap();
        let mapping = Mapping::of_file(&file, 10).unwrap();
        mapping.read(9);
        assert!(std::panic::catch_unwind(|| mapping.read(10)).is_err());
        assert!(Mapping::anonymous(usize::MAX, None).is_err());
        let small = Mapping::anonymous(page_bytes(), None).unwrap();
        assert!(std::panic::catch_unwind(|| small.advise(HugePages::Declined, page_bytes() + 1)).is_err());
    }
}
