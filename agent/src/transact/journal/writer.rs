// SPDX-License-Identifier: Apache-2.0
//! Writes a journal's file and syncs it to the disk.

use super::{line, Entry, LIMIT_BYTES};
use crate::fault;
use crate::transact::files::{remove_if_there, sync_folder};
use rustix::fs::{FallocateFlags, Mode, OFlags, StatVfsMountFlags};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// Appends to a journal file.
#[derive(Debug)]
pub(crate) struct Writer {
    file: File,
    path: PathBuf,
    /// The content of the file.
    content: Vec<u8>,
    /// The offset up to which space is reserved.
    room_bytes: u64,
    disk: Disk,
}

/// What is known about earlier writes.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Disk {
    /// They were synced, or nothing was written yet.
    Took,
    /// Another agent wrote them, and may have seen a sync fail.
    Unknown,
    /// A sync failed.
    Refused,
}

impl Writer {
    /// Creates the file of a new transaction.
    pub fn create(path: &Path) -> io::Result<Self> {
        let file = new_file(path)?;
        fault::created(path);
        Ok(Self::of(file, path, Vec::new(), Disk::Took))
    }

    /// Opens the file of an existing transaction and truncates it after its last complete line. The
    /// next sync rewrites what another agent may have failed to sync.
    pub fn open(path: &Path, valid_bytes: usize) -> io::Result<Self> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
        let mut content = vec![0; valid_bytes];
        file.read_exact_at(&mut content, 0)?;
        let length = valid_bytes as u64;
        fault::synced(path, length);
        if file.metadata()?.len() != length {
            file.set_len(length)?;
        }
        Ok(Self::of(file, path, content, Disk::Unknown))
    }

    fn of(file: File, path: &Path, content: Vec<u8>, disk: Disk) -> Self {
        Self {
            file,
            path: path.to_owned(),
            room_bytes: 0,
            content,
            disk,
        }
    }

    /// Appends an entry with a single write.
    pub fn append(&mut self, entry: &Entry) -> io::Result<()> {
        let line = line(entry)?;
        let length = self.length();
        if length + line.len() as u64 > LIMIT_BYTES {
            return Err(Errno::FBIG.into());
        }
        fault::point();
        if let Err(error) = self.file.write_all_at(&line, length) {
            self.file.set_len(length)?;
            return Err(error);
        }
        self.content.extend_from_slice(&line);
        fault::point();
        Ok(())
    }

    /// Syncs everything that was appended.
    pub fn sync(&mut self) -> io::Result<()> {
        fault::point();
        match self.disk {
            Disk::Took => {
                self.disk = Disk::Refused;
                bring_to_disk(&self.file)?;
            }
            Disk::Unknown => match self.write_again() {
                // A full disk still has the reserved space.
                Err(error) if is_full(&error) => {
                    self.file.write_all_at(&self.content, 0)?;
                    bring_to_disk(&self.file)?;
                }
                written => written?,
            },
            Disk::Refused => self.write_again()?,
        }
        self.disk = Disk::Took;
        fault::synced(&self.path, self.length());
        fault::point();
        Ok(())
    }

    /// Replaces a file whose sync failed by a new one. Rewriting and syncing the old file is not
    /// enough: the kernel reports a failed write once and then marks the pages clean, and ext4
    /// leaves the blocks marked as unwritten, so that a sync succeeds and the next mount reads
    /// zeros.
    fn write_again(&mut self) -> io::Result<()> {
        let mut beside = self.path.clone().into_os_string();
        beside.push(".new");
        let beside = PathBuf::from(beside);
        remove_if_there(&beside)?;
        let replaced = self.replace(&beside);
        if replaced.is_err() {
            // The failing disk may refuse this too; the next attempt removes the file first.
            let _ = remove_if_there(&beside);
        }
        replaced
    }

    fn replace(&mut self, beside: &Path) -> io::Result<()> {
        let file = new_file(beside)?;
        file.write_all_at(&self.content, 0)?;
        let missing_bytes = self.room_bytes.saturating_sub(self.length());
        if missing_bytes > 0 {
            set_room_aside(&file, self.length(), missing_bytes)?;
        }
        bring_to_disk(&file)?;
        fault::point();
        fs::rename(beside, &self.path)?;
        self.file = file;
        fault::point();
        self.path.parent().map_or(Ok(()), sync_folder)
    }

    /// Reserves space for the entries that the transaction will append, so that a full disk stops
    /// it before its first write.
    pub fn reserve(&mut self, more_bytes: u64) -> io::Result<()> {
        set_room_aside(&self.file, self.length(), more_bytes)?;
        self.room_bytes = self.length() + more_bytes;
        Ok(())
    }

    /// Returns the length in bytes.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.content.len() as u64
    }
}

fn new_file(path: &Path) -> io::Result<File> {
    File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
}

fn is_full(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOSPC | Errno::DQUOT))
}

fn set_room_aside(file: &File, from: u64, more_bytes: u64) -> io::Result<()> {
    match rustix::fs::fallocate(file, FallocateFlags::KEEP_SIZE, from, more_bytes) {
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Syncs a file, and checks the mount: a file system that has become read-only accepts writes to an
/// open file, stores nothing, and reports success.
fn bring_to_disk(file: &File) -> io::Result<()> {
    file.sync_data()?;
    let flags = rustix::fs::fstatvfs(file)?.f_flag;
    if flags.contains(StatVfsMountFlags::RDONLY) {
        return Err(Errno::ROFS.into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transact::journal::parse;
    use std::os::unix::fs::MetadataExt as _;

    fn new_writer(folder: &tempfile::TempDir) -> (PathBuf, Writer) {
        let path = folder.path().join("000001.journal");
        let writer = Writer::create(&path).unwrap();
        (path, writer)
    }

    #[test]
    fn only_a_disk_or_a_quota_without_room_is_full() {
        for (errno, full) in [
            (Errno::NOSPC, true),
            (Errno::DQUOT, true),
            (Errno::IO, false),
            (Errno::ROFS, false),
        ] {
            assert_eq!(is_full(&errno.into()), full, "{errno}");
        }
    }

    #[test]
    fn a_link_to_a_journal_is_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        let (path, mut writer) = new_writer(&folder);
        writer.append(&Entry::Armed).unwrap();
        let link = folder.path().join("000002.journal");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(Writer::open(&path, 1).is_ok());
        assert!(Writer::open(&link, 1).is_err());
    }

    #[test]
    fn what_a_disk_refused_is_written_into_a_new_file() {
        let folder = tempfile::tempdir().unwrap();
        let (path, mut writer) = new_writer(&folder);
        let inode = || fs::metadata(&path).unwrap().ino();
        let first = inode();
        writer.append(&Entry::Armed).unwrap();
        writer.reserve(1 << 16).unwrap();
        writer.sync().unwrap();
        writer.append(&Entry::Confirmed).unwrap();
        writer.sync().unwrap();
        assert_eq!(inode(), first);
        let expected = fs::read(&path).unwrap();
        // As after a sync that failed, and with the temporary file of an agent that was killed.
        writer.disk = Disk::Refused;
        fs::write(&path, vec![0; expected.len()]).unwrap();
        fs::write(folder.path().join("000001.journal.new"), "left").unwrap();
        writer.sync().unwrap();
        assert_eq!(fs::read(&path).unwrap(), expected);
        let second = inode();
        assert_ne!(second, first);
        assert!(fs::metadata(&path).unwrap().blocks() >= (1 << 16) / 512);
        writer.append(&Entry::Reverted).unwrap();
        writer.sync().unwrap();
        assert_eq!(inode(), second);
        assert_eq!(parse(&fs::read(&path).unwrap()).entries.len(), 3);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_another_agent_wrote_is_written_into_a_new_file() {
        let folder = tempfile::tempdir().unwrap();
        let (path, mut writer) = new_writer(&folder);
        writer.append(&Entry::Armed).unwrap();
        let expected = fs::read(&path).unwrap();
        let mut writer = Writer::open(&path, expected.len()).unwrap();
        fs::write(&path, vec![0; expected.len()]).unwrap();
        writer.sync().unwrap();
        assert_eq!(fs::read(&path).unwrap(), expected);
    }

    #[test]
    fn a_file_that_cannot_be_replaced_stays_refused_and_leaves_nothing_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let (path, mut writer) = new_writer(&folder);
        writer.append(&Entry::Armed).unwrap();
        writer.disk = Disk::Refused;
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        writer.sync().unwrap_err();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        fs::remove_dir(&path).unwrap();
        writer.sync().unwrap();
        assert_eq!(parse(&fs::read(&path).unwrap()).entries, [Entry::Armed]);
    }

    #[test]
    fn a_journal_has_a_greatest_length() {
        let folder = tempfile::tempdir().unwrap();
        let (_, mut writer) = new_writer(&folder);
        let line = line(&Entry::Armed).unwrap();
        writer.content = vec![0; usize::try_from(LIMIT_BYTES).unwrap() - line.len() + 1];
        assert!(writer.append(&Entry::Armed).is_err());
        writer.content.pop();
        assert!(writer.append(&Entry::Armed).is_ok());
    }

    #[test]
    fn appending_cuts_a_torn_tail_off() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("000001.journal");
        let mut bytes = line(&Entry::Armed).unwrap();
        let valid = bytes.len();
        bytes.extend_from_slice(b"12345678 {\"ent");
        fs::write(&path, &bytes).unwrap();
        let mut writer = Writer::open(&path, parse(&bytes).valid_bytes).unwrap();
        writer.append(&Entry::RolledBack).unwrap();
        let contents = parse(&fs::read(&path).unwrap());
        assert_eq!(contents.entries, [Entry::Armed, Entry::RolledBack]);
        assert!(contents.damage.is_empty());
        assert!(contents.valid_bytes > valid);
    }

    #[test]
    fn what_lies_behind_the_last_complete_line_is_cut_off() {
        let folder = tempfile::tempdir().unwrap();
        let (path, mut writer) = new_writer(&folder);
        writer.append(&Entry::Armed).unwrap();
        let whole = fs::read(&path).unwrap();
        fs::write(&path, [whole.as_slice(), b"torn"].concat()).unwrap();
        Writer::open(&path, whole.len()).unwrap();
        assert_eq!(fs::read(&path).unwrap(), whole);
    }

    #[test]
    fn only_a_full_disk_is_written_in_place() {
        let folder = tempfile::tempdir().unwrap();
        let (path, mut writer) = new_writer(&folder);
        writer.append(&Entry::Armed).unwrap();
        let length = fs::read(&path).unwrap().len();
        fs::create_dir(folder.path().join("000001.journal.new")).unwrap();
        assert!(Writer::open(&path, length).unwrap().sync().is_err());
    }

    #[test]
    fn room_for_the_first_entries_is_set_aside_in_a_new_file_too() {
        let folder = tempfile::tempdir().unwrap();
        let (path, mut writer) = new_writer(&folder);
        writer.reserve(1 << 16).unwrap();
        writer.disk = Disk::Refused;
        writer.sync().unwrap();
        assert!(fs::metadata(&path).unwrap().blocks() >= (1 << 16) / 512);
    }

    #[test]
    fn a_disk_that_does_not_sync_took_nothing() {
        // A file on a kernel file system cannot be synced.
        assert!(bring_to_disk(&File::open("/proc/self/status").unwrap()).is_err());
    }
}
