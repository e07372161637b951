// SPDX-License-Identifier: Apache-2.0
//! What a session of a head on another machine needs here: private folders for its runs, and locks
//! that exclude other trials and measurements. Both end with the session.

use crate::bytes::Bytes;
use crate::error::{Error, Kind, Result};
use crate::root::Root;
use rustix::fs::{flock, FlockOperation, Mode, OFlags};
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Bytes of a file in one reply.
const PIECE_BYTES: usize = 1 << 20;
const PREFIX: &str = "run-";
const PLAN_PREFIX: &str = "plan-";
/// What `statfs` says of a file system in memory.
const TMPFS: rustix::fs::FsWord = 0x0102_1994;
/// Kernel objects that exist once per machine. Trials lock the first that exists, as the head does
/// for a trial of its own machine.
const SEATS: [&str; 2] = ["/proc/self/ns/time", "/sys/kernel"];

/// The folders and locks of a session.
#[derive(Debug, Default)]
pub struct Work {
    /// Where private folders are made; only sessions of a remote head have such a place.
    pub place: Option<PathBuf>,
    folders: Vec<(PathBuf, File)>,
    seats: Vec<(Seat, File)>,
}

/// What a head may have for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Seat {
    /// The only trial on this machine.
    Trial,
    /// The only measurement of this user.
    Measurement,
}

/// A process that holds a lock.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Holder {
    pid: u32,
    uid: Option<u32>,
    words: Vec<String>,
}

impl Work {
    fn place(&self) -> Result<&Path> {
        self.place.as_deref().ok_or_else(|| {
            Error::new(Kind::BadRequest, "this session has no folder for runs")
                .hint("start the agent with --work DIR")
        })
    }

    /// Makes a private folder, and removes those of sessions that were killed.
    pub fn make(&mut self, in_memory: bool) -> Result<PathBuf> {
        let place = if in_memory {
            memory()?
        } else {
            self.place()?.to_owned()
        };
        let failed = |error: io::Error| {
            Error::io("make a private folder in", place.display(), &error)
                .hint("free some space there, or make it writable")
        };
        private(&place).map_err(failed)?;
        let lock = File::open(&place).map_err(failed)?;
        flock(&lock, FlockOperation::LockExclusive).map_err(|errno| failed(errno.into()))?;
        remove_leftovers(&place);
        let folder = (0..=u32::MAX)
            .map(|number| place.join(format!("{PREFIX}{}-{number}", std::process::id())))
            .find(|folder| !folder.exists())
            .ok_or_else(|| failed(io::ErrorKind::AlreadyExists.into()))?;
        DirBuilder::new().mode(0o700).create(&folder).map_err(failed)?;
        let held = File::open(&folder).map_err(failed)?;
        flock(&held, FlockOperation::LockShared).map_err(|errno| failed(errno.into()))?;
        self.folders.push((folder.clone(), held));
        Ok(folder)
    }

    /// Makes the folders of a plan's runs, which outlive the session: the machine makes the runs by
    /// itself. Another session reads and removes them.
    pub fn make_for_plan(&mut self, name: &str, runs: u32) -> Result<PathBuf> {
        let place = self.place()?.to_owned();
        let failed = |error: io::Error| Error::io("make the folders of a plan in", place.display(), &error);
        if name.is_empty()
            || !name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
        {
            return Err(Error::new(
                Kind::BadRequest,
                format!("not the name of a plan: {name:?}"),
            ));
        }
        private(&place).map_err(failed)?;
        let folder = place.join(format!("{PLAN_PREFIX}{name}"));
        let make = |folder: &Path| DirBuilder::new().mode(0o700).create(folder);
        make(&folder).map_err(failed)?;
        for number in 1..=runs {
            make(&folder.join(format!("{PREFIX}{number}"))).map_err(failed)?;
        }
        Ok(folder)
    }

    /// Whether a path is the folder of a plan, or inside one.
    fn is_of_plan(&self, path: &Path) -> bool {
        let below = self
            .place
            .as_deref()
            .and_then(|place| path.strip_prefix(place).ok());
        let first = below.and_then(|below| below.components().next());
        first.is_some_and(|first| first.as_os_str().to_string_lossy().starts_with(PLAN_PREFIX))
    }

    /// Reads a piece of a file in one of the session's folders, or in those of a plan.
    pub fn read(&self, path: &Path, offset: u64) -> Result<(Bytes, bool)> {
        let inside = path.components().all(|part| part.as_os_str() != "..")
            && (self.is_of_plan(path) || self.folders.iter().any(|(folder, _)| path.starts_with(folder)));
        if !inside {
            let message = format!("{} is not in a folder of this session", path.display());
            return Err(Error::new(Kind::Forbidden, message));
        }
        let failed = |error: io::Error| Error::io("read", path.display(), &error);
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file =
            File::from(rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| failed(errno.into()))?);
        if !file.metadata().map_err(failed)?.is_file() {
            let message = format!("cannot read {}: not a regular file", path.display());
            return Err(Error::new(Kind::Io, message));
        }
        let mut piece = vec![0; PIECE_BYTES];
        let mut length = 0;
        while length < piece.len() {
            match file.read_at(&mut piece[length..], offset + length as u64) {
                Ok(0) => break,
                Ok(count) => length += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(failed(error)),
            }
        }
        let is_last = length < piece.len();
        piece.truncate(length);
        Ok((Bytes(piece), is_last))
    }

    /// Removes a folder of the session or of a plan.
    pub fn remove(&mut self, folder: &Path) -> Result<()> {
        if self.is_of_plan(folder) && folder.components().all(|part| part.as_os_str() != "..") {
            remove_whole(folder);
            return Ok(());
        }
        let Some(place) = self.folders.iter().position(|(own, _)| own == folder) else {
            let message = format!("{} is not a folder of this session", folder.display());
            return Err(Error::new(Kind::NotFound, message));
        };
        remove_whole(folder);
        self.folders.swap_remove(place);
        Ok(())
    }

    /// Takes a seat until the session ends; if it is taken, returns who has it.
    pub fn sit(&mut self, root: &Root, seat: Seat) -> Result<Option<Vec<Holder>>> {
        if self.seats.iter().any(|(own, _)| *own == seat) {
            return Ok(None);
        }
        let file = match seat {
            Seat::Trial => machine_seat(root),
            Seat::Measurement => {
                let place = self.place()?;
                // A folder that is there as long as anybody measures, so that nothing needs to be left.
                private(place).and_then(|()| File::open(place.parent().unwrap_or(place)))
            }
        }
        .map_err(|error| Error::io("open", "the lock on measuring", &error))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => self.seats.push((seat, file)),
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(Some(holders(&file))),
            Err(errno) => return Err(Error::io("lock", "the place of measuring", &errno.into())),
        }
        Ok(None)
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        for (folder, _) in &self.folders {
            remove_whole(folder);
        }
        // What is not empty stays.
        let places = self.folders.iter().filter_map(|(folder, _)| folder.parent());
        for place in places.chain(self.place.as_deref()) {
            let _ = fs::remove_dir(place);
        }
    }
}

fn machine_seat(root: &Root) -> io::Result<File> {
    if !root.is_real() {
        return File::open(root.base());
    }
    let last = File::open(SEATS[1]);
    File::open(SEATS[0]).or(last)
}

/// Creates a folder that only this user can enter.
fn private(place: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(place)?;
    let found = fs::symlink_metadata(place)?;
    let own = rustix::process::geteuid().as_raw();
    if !found.is_dir() || found.uid() != own {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "it belongs to another user",
        ));
    }
    Ok(())
}

/// Returns the folder for runs on this user's private file system in memory.
fn memory() -> Result<PathBuf> {
    let uid = rustix::process::geteuid();
    let own = PathBuf::from(format!("/run/user/{}", uid.as_raw()));
    let places = if uid.is_root() {
        vec![PathBuf::from("/run"), own]
    } else {
        vec![own]
    };
    let fits = |place: &PathBuf| {
        let is_own = fs::metadata(place).is_ok_and(|found| found.uid() == uid.as_raw());
        is_own && rustix::fs::statfs(place).is_ok_and(|found| found.f_type == TMPFS)
    };
    let found = places.into_iter().find(fits).ok_or_else(|| {
        Error::new(
            Kind::Io,
            "this benchmark needs a private tmpfs, and this user has none",
        )
        .hint("log in through systemd-logind, which makes /run/user/UID")
    })?;
    Ok(found.join("ktrial-work"))
}

/// Removes the folders that no session has locked. The caller holds the lock on `place`.
fn remove_leftovers(place: &Path) {
    for folder in fs::read_dir(place).into_iter().flatten().flatten() {
        if !folder.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        let is_free = |file: File| flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
        if File::open(folder.path()).is_ok_and(is_free) {
            remove_whole(&folder.path());
        }
    }
}

/// Removes a folder, including parts that the run made unreadable. What cannot be removed now is
/// removed by a later session.
fn remove_whole(folder: &Path) {
    if fs::remove_dir_all(folder).is_err() && folder.exists() {
        open_up(folder);
        let _ = fs::remove_dir_all(folder);
    }
}

fn open_up(folder: &Path) {
    let _ = fs::set_permissions(folder, fs::Permissions::from_mode(0o700));
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_up(&entry.path());
        }
    }
}

/// Returns the processes that hold a lock on this file, as far as /proc shows them.
fn holders(file: &File) -> Vec<Holder> {
    let Ok(found) = file.metadata() else {
        return Vec::new();
    };
    let device = found.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let own = format!("{major:02x}:{minor:02x}:{}", found.ino());
    let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
    pids(&locks, &own).into_iter().map(describe).collect()
}

/// Returns the processes that hold a lock on the file numbered `own` in the text of `/proc/locks`.
fn pids(locks: &str, own: &str) -> Vec<u32> {
    let pid = |line: &str| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let is_held = words.get(1) == Some(&"FLOCK") && words.get(5) == Some(&own);
        words.get(4).filter(|_| is_held)?.parse().ok()
    };
    locks.lines().filter_map(pid).collect()
}

fn describe(pid: u32) -> Holder {
    let folder = PathBuf::from(format!("/proc/{pid}"));
    let words = fs::read(folder.join("cmdline")).unwrap_or_default();
    let words = String::from_utf8_lossy(&words);
    Holder {
        pid,
        uid: fs::metadata(&folder).ok().map(|found| found.uid()),
        words: words.split_terminator('\0').map(str::to_owned).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(place: &Path) -> Work {
        let mut made = Work::default();
        made.place = Some(place.join("work"));
        made
    }

    #[test]
    fn folders_are_private_and_end_with_their_session() {
        let place = tempfile::tempdir().unwrap();
        let mut session = work(place.path());
        let folder = session.make(false).unwrap();
        let other = session.make(false).unwrap();
        assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
        session.remove(&other).unwrap();
        assert!(folder.exists() && !other.exists());
        let locked = folder.join("locked");
        fs::create_dir(&locked).unwrap();
        fs::write(locked.join("file"), "").unwrap();
        fs::set_permissions(&locked, fs::Permissions::from_mode(0o000)).unwrap();
        drop(session);
        assert!(!folder.exists());
    }

    #[test]
    fn what_a_killed_session_left_is_removed_and_what_a_live_one_uses_is_not() {
        let place = tempfile::tempdir().unwrap();
        let left = place.path().join("work/run-1-0");
        fs::create_dir_all(&left).unwrap();
        let mut first = work(place.path());
        let used = first.make(false).unwrap();
        let mut second = work(place.path());
        second.make(false).unwrap();
        assert!(!left.exists() && used.exists());
    }

    #[test]
    fn the_folders_of_a_plan_outlive_the_session_and_another_one_removes_them() {
        let place = tempfile::tempdir().unwrap();
        let mut first = work(place.path());
        let folder = first.make_for_plan("trial-1", 2).unwrap();
        assert!(first.make_for_plan("../x", 1).is_err() && first.make_for_plan("trial-1", 1).is_err());
        drop(first);
        fs::write(folder.join("run-2/out"), "x").unwrap();
        let mut second = work(place.path());
        second.make(false).unwrap();
        assert_eq!(second.read(&folder.join("run-2/out"), 0).unwrap().0.len(), 1);
        assert!(second.remove(&folder.join("../run-1-0")).is_err());
        second.remove(&folder).unwrap();
        assert!(!folder.exists());
    }

    #[test]
    fn a_file_is_read_in_pieces_and_nothing_outside_is_read() {
        let place = tempfile::tempdir().unwrap();
        let mut session = work(place.path());
        let folder = session.make(false).unwrap();
        let long = vec![b'x'; PIECE_BYTES + 3];
        fs::write(folder.join("out"), &long).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", folder.join("link")).unwrap();
        let path = folder.join("out");
        let (first, is_last) = session.read(&path, 0).unwrap();
        assert_eq!((first.len(), is_last), (PIECE_BYTES, false));
        let (rest, is_last) = session.read(&path, PIECE_BYTES as u64).unwrap();
        assert_eq!((rest.len(), is_last), (3, true));
        for bad in [
            folder.join("link"),
            folder.join("../../x"),
            "/etc/passwd".into(),
            folder.clone(),
        ] {
            assert!(session.read(&bad, 0).is_err(), "{}", bad.display());
        }
    }

    #[test]
    fn a_seat_is_taken_once_and_its_holder_is_named() {
        let place = tempfile::tempdir().unwrap();
        let root = Root::new(place.path());
        for seat in [Seat::Trial, Seat::Measurement] {
            let (mut first, mut second) = (work(place.path()), work(place.path()));
            assert_eq!(first.sit(&root, seat).unwrap(), None);
            assert_eq!(first.sit(&root, seat).unwrap(), None);
            let holders = second.sit(&root, seat).unwrap().unwrap();
            assert!(
                holders.iter().any(|one| one.pid == std::process::id()),
                "{holders:?}"
            );
            drop(first);
            assert_eq!(second.sit(&root, seat).unwrap(), None);
        }
    }

    #[test]
    fn only_held_locks_of_the_file_count() {
        let locks = "1: FLOCK  ADVISORY  WRITE 12 00:04:77 0 EOF\n\
                     1: -> FLOCK  ADVISORY  WRITE 13 00:04:77 0 EOF\n\
                     2: POSIX  ADVISORY  WRITE 14 00:04:77 0 EOF\n\
                     3: FLOCK  ADVISORY  READ 15 00:04:78 0 EOF\n";
        assert_eq!(pids(locks, "00:04:77"), [12]);
    }
}
