// SPDX-License-Identifier: Apache-2.0
//! Files of loads. They are unnamed: the kernel removes them when the last process that has them
//! open ends, however it ends.

use crate::error::{Error, Kind, Result};
use crate::sys;
use rustix::fs::{fcntl_getfl, fcntl_setfl, open, unlink, Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::ops::{Deref, DerefMut};
use std::os::unix::fs::FileExt;

/// Default folder for files: usually on a real file system, unlike `/tmp`.
pub const DIRECTORY: &str = "/var/tmp";

const CHUNK_BYTES: usize = 1 << 20;

/// Alignment of buffers and blocks for direct I/O; no common device needs more.
pub const DIRECT_BYTES: u64 = 4096;

/// Memory aligned for direct I/O.
pub struct Aligned {
    memory: Vec<u8>,
    from: usize,
    bytes: usize,
}

impl Aligned {
    /// Allocates bytes that all have this value.
    pub fn new(bytes: usize, value: u8) -> Self {
        let alignment = usize::try_from(DIRECT_BYTES).unwrap_or(1);
        let memory = vec![value; bytes + alignment];
        let from = memory.as_ptr().align_offset(alignment).min(alignment);
        Self { memory, from, bytes }
    }
}

impl Deref for Aligned {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[self.from..self.from + self.bytes]
    }
}

impl DerefMut for Aligned {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.from..self.from + self.bytes]
    }
}

/// Refuses a folder that is not an absolute path.
pub fn check(directory: &str) -> Result<()> {
    if directory.starts_with('/') && directory.split('/').all(|part| part != "..") {
        return Ok(());
    }
    let message = format!("parameters: directory: expected an absolute path without `..`, got {directory:?}");
    Err(Error::new(Kind::BadRequest, message))
}

/// Refuses a level that the class best-effort doesn't have.
pub fn check_io_priority(level: Option<u8>) -> Result<()> {
    level.map_or(Ok(()), |level| super::within("io_priority", level, 0, 7))
}

/// Sets the I/O priority level of the calling thread, if one is given.
pub fn set_io_priority(level: Option<u8>) -> io::Result<()> {
    level.map_or(Ok(()), sys::set_io_priority)
}

/// Creates an unnamed file in a folder, for reading and writing.
pub fn nameless(directory: &str) -> Result<File> {
    let mode = Mode::RUSR | Mode::WUSR;
    let opened = match open(directory, OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC, mode) {
        // The file system (an old overlay) has no unnamed files.
        Err(Errno::OPNOTSUPP | Errno::ISDIR) => unlinked(directory, mode),
        other => other,
    };
    let refused = |error: Errno| {
        Error::io("create a file in", directory, &error.into()).hint("set `directory` to a writable folder")
    };
    Ok(File::from(opened.map_err(refused)?))
}

/// Creates a file and unlinks it at once.
fn unlinked(directory: &str, mode: Mode) -> rustix::io::Result<rustix::fd::OwnedFd> {
    let path = format!("{directory}/.ktrial-{}-{}", std::process::id(), super::now_ns());
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
    let file = open(&path, flags, mode)?;
    unlink(&path)?;
    Ok(file)
}

/// Makes all reads and writes of an open file bypass the page cache.
pub fn bypass_cache(file: &File) -> io::Result<()> {
    Ok(fcntl_setfl(file, fcntl_getfl(file)? | OFlags::DIRECT)?)
}

/// Reads a file from beginning to end.
pub fn read_through(file: &File) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut at = 0;
    loop {
        match file.read_at(&mut buffer, at)? {
            0 => return Ok(()),
            read => at += read as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::read_dir;

    #[test]
    fn files_leave_no_name() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().to_str().unwrap();
        let other = unlinked(directory, Mode::RUSR | Mode::WUSR).unwrap();
        for file in [nameless(directory).unwrap(), File::from(other)] {
            file.write_all_at(b"abc", 0).unwrap();
            read_through(&file).unwrap();
            assert_eq!(read_dir(directory).unwrap().count(), 0);
        }
    }

    #[test]
    fn memory_is_aligned() {
        let mut memory = Aligned::new(10_000, 7);
        assert_eq!(memory.as_ptr().align_offset(4096), 0);
        assert!(memory.len() == 10_000 && memory.iter().all(|byte| *byte == 7));
        memory[9_999] = 1;
    }

    #[test]
    fn a_folder_must_be_there_and_given_in_full() {
        assert_eq!(check("tmp").unwrap_err().kind, Kind::BadRequest);
        assert_eq!(check("/tmp/../etc").unwrap_err().kind, Kind::BadRequest);
        assert!(nameless("/proc").unwrap_err().hint.is_some());
    }
}
