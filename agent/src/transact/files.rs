// SPDX-License-Identifier: Apache-2.0
//! Writes and removes configuration files. After a crash a file is the old or the new one, never
//! part of one.

use crate::fault;
use crate::root::Root;
use crate::transact::allow::{self, Purpose};
use crate::transact::machine::Refusal;
use rustix::fs::{Gid, Mode, OFlags, Uid};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Owner and mode of a file.
#[derive(Debug, Clone, Copy)]
pub struct Rights {
    /// Permission bits.
    pub mode: u32,
    /// Owner and group; none keeps the agent's.
    pub owner: Option<(u32, u32)>,
}

fn target(root: &Root, path: &str) -> Result<PathBuf, Refusal> {
    allow::check(root, path, Purpose::File).map_err(|denial| Refusal::denied(denial, path))
}

/// Returns the name under which a transaction writes a file before it renames it.
fn temporary(file: &Path, transaction: u64) -> PathBuf {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    file.with_file_name(format!(".{name}.{transaction:06}"))
}

/// Returns the folder of a path.
pub fn folder_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("/", |(folder, _)| folder)
}

/// Whether the folder of a file must be created first. Refuses if its parent is missing too, or is
/// not writable.
pub fn needs_folder(root: &Root, path: &str) -> Result<bool, Refusal> {
    let file = target(root, path)?;
    let folder = file.parent().unwrap_or(Path::new("/"));
    let refuse = |errno: Errno| Refusal::of("write", path, &errno.into());
    if fs::symlink_metadata(&file).is_ok_and(|found| !found.is_file()) {
        return Err(refuse(Errno::INVAL));
    }
    if folder.is_dir() {
        rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).map_err(refuse)?;
        return Ok(false);
    }
    let parent = folder.parent().unwrap_or(Path::new("/"));
    rustix::fs::access(parent, rustix::fs::Access::WRITE_OK).map_err(refuse)?;
    Ok(true)
}

/// Replaces a file of the allow-list atomically.
pub fn put(root: &Root, path: &str, content: &[u8], rights: Rights, transaction: u64) -> Result<(), Refusal> {
    let file = target(root, path)?;
    put_at(&file, content, rights, transaction).map_err(|error| Refusal::of("write", path, &error))
}

/// Writes a temporary file next to `file`, syncs it, renames it over `file` and syncs the folder.
/// Creates the folder if it is missing.
pub fn put_at(file: &Path, content: &[u8], rights: Rights, transaction: u64) -> io::Result<()> {
    let folder = file.parent().unwrap_or(Path::new("/"));
    if !folder.is_dir() {
        fault::point();
        fs::create_dir(folder)?;
        rustix::fs::chmod(folder, Mode::from_raw_mode(0o755))?;
        fault::point();
        folder.parent().map_or(Ok(()), sync_folder)?;
    }
    let beside = temporary(file, transaction);
    remove_if_there(&beside)?;
    fault::point();
    // Create a new file, so that no link is followed.
    let mut opened = File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&beside)?;
    opened.write_all(content)?;
    if let Some((uid, gid)) = rights.owner {
        rustix::fs::fchown(&opened, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?;
    }
    rustix::fs::fchmod(&opened, Mode::from_raw_mode(rights.mode))?;
    fault::point();
    #[cfg(not(feature = "sabotage-unsynced-rename"))]
    opened.sync_all()?;
    fault::point();
    fs::rename(&beside, file)?;
    fault::point();
    sync_folder(folder)
}

/// Removes a file.
pub fn remove(root: &Root, path: &str) -> Result<(), Refusal> {
    let file = target(root, path)?;
    fault::point();
    remove_if_there(&file).map_err(|error| Refusal::of("remove", path, &error))?;
    fault::point();
    match file.parent().filter(|folder| folder.is_dir()) {
        Some(folder) => sync_folder(folder).map_err(|error| Refusal::of("sync the folder of", path, &error)),
        None => Ok(()),
    }
}

/// Removes the temporary file that an interrupted [`put`] of a transaction may have left.
pub fn clean(root: &Root, path: &str, transaction: u64) -> Result<(), Refusal> {
    let file = target(root, path)?;
    remove_if_there(&temporary(&file, transaction))
        .map_err(|error| Refusal::of("clean up after", path, &error))
}

/// Removes a folder that a transaction created, unless it contains something else by now.
pub fn remove_folder(root: &Root, path: &str) -> Result<(), Refusal> {
    fault::point();
    let result = fs::remove_dir(root.path(path));
    fault::point();
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) if error.raw_os_error() == Some(Errno::NOTEMPTY.raw_os_error()) => Ok(()),
        other => other.map_err(|error| Refusal::of("remove", path, &error)),
    }
}

pub(crate) fn remove_if_there(file: &Path) -> io::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        // Its folder doesn't exist either.
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Ok(()),
        other => other,
    }
}

/// Syncs a folder's entries to the disk.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    fault::point();
    let opened = rustix::fs::open(
        folder,
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    rustix::fs::fsync(opened)?;
    fault::folder_synced(folder);
    fault::point();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transact::machine::Outcome;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_folder_that_is_gone_or_in_use_is_left_and_what_is_none_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        assert!(remove_folder(&root, "/gone").is_ok());
        fs::create_dir(folder.path().join("used")).unwrap();
        fs::write(folder.path().join("used/file"), "x").unwrap();
        assert!(remove_folder(&root, "/used").is_ok());
        assert!(folder.path().join("used/file").exists());
        let refusal = remove_folder(&root, "/used/file").unwrap_err();
        assert_eq!(refusal.errno, Errno::NOTDIR.raw_os_error());
        fs::remove_file(folder.path().join("used/file")).unwrap();
        assert!(remove_folder(&root, "/used").is_ok());
        assert!(!folder.path().join("used").exists());
    }

    #[test]
    fn files_are_put_and_taken_away() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("etc/systemd")).unwrap();
        let root = Root::new(folder.path());
        let path = "/etc/systemd/zram-generator.conf.d/ktrial.conf";
        assert!(needs_folder(&root, path).unwrap());
        put(
            &root,
            path,
            b"[zram0]\n",
            Rights {
                mode: 0o640,
                owner: None,
            },
            3,
        )
        .unwrap();
        assert!(!needs_folder(&root, path).unwrap());
        let file = root.path(path);
        assert_eq!(fs::read(&file).unwrap(), b"[zram0]\n");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 1);
        remove(&root, path).unwrap();
        remove_folder(&root, folder_of(path)).unwrap();
        assert!(!file.parent().unwrap().exists());
    }

    #[test]
    fn foreign_names_are_forbidden() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("etc/sysctl.d")).unwrap();
        let root = Root::new(folder.path());
        let refusal = put(
            &root,
            "/etc/sysctl.d/99-own.conf",
            b"",
            Rights {
                mode: 0o644,
                owner: None,
            },
            1,
        )
        .unwrap_err();
        assert_eq!(refusal.outcome, Outcome::Forbidden);
    }

    #[test]
    fn only_a_folder_that_is_there_is_synced_as_one() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        assert!(sync_folder(folder.path()).is_ok());
        assert!(sync_folder(&file).is_err());
        fs::write(&file, "x").unwrap();
        assert!(sync_folder(&file).is_err());
    }

    #[test]
    fn what_cannot_be_taken_away_is_told() {
        let folder = tempfile::tempdir().unwrap();
        assert!(remove_if_there(folder.path()).is_err());
        assert!(remove_if_there(&folder.path().join("gone")).is_ok());
        fs::write(folder.path().join("file"), "x").unwrap();
        assert!(remove_if_there(&folder.path().join("file/below")).is_ok());
    }
}
