// SPDX-License-Identifier: Apache-2.0
//! Reads and writes single files of the machine, and classifies the system's errors.

use crate::bytes::Bytes;
use crate::fault;
use crate::root::Root;
use crate::transact::allow::{self, Denial, Purpose};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The most bytes of a file that a reply contains.
pub const READ_LIMIT_BYTES: usize = 1 << 20;

/// The outcome of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Can be written.
    Ready,
    /// Already has the requested value.
    Same,
    /// Outside the allow-list.
    Forbidden,
    /// The value differs from the one that the plan expects.
    Stale,
    /// The value read back is the requested one.
    Accepted,
    /// No such file.
    Absent,
    /// Permission, lockdown, read-only, busy.
    Refused,
    /// The kernel rejects the value.
    Invalid,
    /// The kernel chose another value.
    Clamped,
    /// Accepted, but the old value is still read back.
    Ignored,
    /// Existed when the transaction began and is gone now.
    Vanished,
    /// Not tried, because an earlier step failed.
    NotTried,
    /// Was written, then restored.
    RolledBack,
    /// The old value is back.
    Restored,
    /// Had the old value already.
    Unchanged,
    /// Others have changed it since; not restored.
    ChangedByOthers,
    /// A newer transaction has changed it too, and restores the old value when it ends.
    HandedOver,
    /// The journal doesn't prove that the transaction changed it; not restored.
    LeftAlone,
    /// The machine was rebooted since.
    GoneWithBoot,
    /// Could not be restored.
    Failed,
    /// Still has the requested value.
    InForce,
    /// Has another value than the transaction left.
    Drifted,
    /// No longer there.
    Gone,
    /// Could not be read.
    Unreadable,
}

/// Why a file could not be read or written.
#[derive(Debug, Clone)]
pub struct Refusal {
    /// The protocol's word for it.
    pub outcome: Outcome,
    /// The errno.
    pub errno: i32,
    /// Explanation for a person.
    pub message: String,
}

impl Refusal {
    /// Classifies a system error on a file.
    pub fn of(what: &str, path: &str, error: &io::Error) -> Self {
        let errno = error.raw_os_error().unwrap_or(Errno::IO.raw_os_error());
        Self {
            outcome: meaning(Errno::from_raw_os_error(errno)),
            errno,
            message: format!("cannot {what} {path}: {error}"),
        }
    }

    /// Converts a denial of the allow-list.
    pub fn denied(denial: Denial, path: &str) -> Self {
        match denial {
            Denial::Forbidden(why) => Self {
                outcome: Outcome::Forbidden,
                errno: Errno::PERM.raw_os_error(),
                message: why,
            },
            Denial::System(error) => Self::of("inspect", path, &error),
        }
    }
}

fn meaning(errno: Errno) -> Outcome {
    match errno {
        Errno::NOENT | Errno::NOTDIR => Outcome::Absent,
        Errno::NODEV | Errno::NXIO => Outcome::Vanished,
        Errno::INVAL | Errno::RANGE | Errno::OVERFLOW | Errno::TOOBIG | Errno::DOM | Errno::NAMETOOLONG => {
            Outcome::Invalid
        }
        _ => Outcome::Refused,
    }
}

/// Content, owner and mode of a file.
#[derive(Debug, Clone)]
pub struct Content {
    /// Its bytes.
    pub bytes: Bytes,
    /// Permission bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Whether the file is longer than [`READ_LIMIT_BYTES`].
    pub truncated: bool,
}

impl Content {
    /// Returns the permission bits as octal text.
    #[must_use]
    pub fn mode_text(&self) -> String {
        mode_text(self.mode)
    }
}

/// Formats permission bits as octal text, such as `0644`.
#[must_use]
pub fn mode_text(mode: u32) -> String {
    format!("{mode:04o}")
}

/// Reads a file that `purpose` allows.
pub fn read(root: &Root, path: &str, purpose: Purpose) -> Result<Content, Refusal> {
    let open = allow::check(root, path, purpose).map_err(|denial| Refusal::denied(denial, path))?;
    let content = read_at(&open).map_err(|error| Refusal::of("read", path, &error))?;
    if purpose == Purpose::Read && allow::may_hold_password(&open) && holds_password(&content.bytes) {
        return Err(Refusal {
            outcome: Outcome::Forbidden,
            errno: Errno::PERM.raw_os_error(),
            message: format!("{path} contains a password, so it is not read as root"),
        });
    }
    Ok(content)
}

/// Whether GRUB's configuration contains a password or the hash of one.
fn holds_password(text: &[u8]) -> bool {
    let word = b"password";
    text.windows(word.len())
        .any(|window| window.eq_ignore_ascii_case(word))
}

fn read_at(open: &Path) -> io::Result<Content> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = File::from(rustix::fs::open(open, flags, Mode::empty())?);
    let metadata = file.metadata()?;
    let mut bytes = Vec::new();
    (&file)
        .take(READ_LIMIT_BYTES as u64 + 1)
        .read_to_end(&mut bytes)?;
    let truncated = bytes.len() > READ_LIMIT_BYTES;
    bytes.truncate(READ_LIMIT_BYTES);
    Ok(Content {
        bytes: Bytes(bytes),
        mode: metadata.mode() & 0o7777,
        uid: metadata.uid(),
        gid: metadata.gid(),
        truncated,
    })
}

/// Checks that a file exists and could be written, without opening it. `as_root`: also check that
/// this process may.
pub fn probe_write(root: &Root, path: &str, as_root: bool) -> Result<(), Refusal> {
    let open = allow::check(root, path, Purpose::Write).map_err(|denial| Refusal::denied(denial, path))?;
    let refuse = |error: io::Error| Refusal::of("write", path, &error);
    let metadata = std::fs::metadata(&open).map_err(refuse)?;
    if !metadata.is_file() {
        return Err(refuse(Errno::ISDIR.into()));
    }
    if metadata.mode() & 0o222 == 0 {
        return Err(Refusal {
            outcome: Outcome::Refused,
            errno: Errno::ACCESS.raw_os_error(),
            message: format!("{path} is read-only on this kernel"),
        });
    }
    match rustix::fs::access(&open, rustix::fs::Access::WRITE_OK) {
        Err(errno) if as_root || errno == Errno::ROFS => Err(refuse(errno.into())),
        _ => Ok(()),
    }
}

/// Writes a knob that `purpose` allows, with one open (truncating) and one write.
pub fn write(root: &Root, path: &str, bytes: &[u8], purpose: Purpose) -> Result<(), Refusal> {
    let open = allow::check(root, path, purpose).map_err(|denial| Refusal::denied(denial, path))?;
    fault::point();
    let result = write_at(&open, bytes).map_err(|error| Refusal::of("write", path, &error));
    fault::point();
    match result.map_err(|refusal| while_there(root, path, refusal))? {
        taken if taken == bytes.len() => Ok(()),
        taken => Err(Refusal {
            outcome: Outcome::Invalid,
            errno: Errno::INVAL.raw_os_error(),
            message: format!(
                "cannot write {path}: the kernel accepted {taken} of {} bytes",
                bytes.len()
            ),
        }),
    }
}

/// Reclassifies a failed write if the file still exists: it did not vanish, whatever the errno
/// says.
fn while_there(root: &Root, path: &str, refusal: Refusal) -> Refusal {
    if !exists(root, path) {
        return refusal;
    }
    match refusal.outcome {
        // The value names something that does not exist, such as an unknown congestion control.
        Outcome::Absent => Refusal {
            outcome: Outcome::Invalid,
            message: format!(
                "{} (the value names something that does not exist)",
                refusal.message
            ),
            ..refusal
        },
        Outcome::Vanished => Refusal {
            outcome: Outcome::Refused,
            ..refusal
        },
        _ => refusal,
    }
}

fn write_at(open: &Path, bytes: &[u8]) -> io::Result<usize> {
    let flags = OFlags::WRONLY | OFlags::TRUNC | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NOCTTY;
    let file = rustix::fs::open(open, flags, Mode::empty())?;
    Ok(rustix::io::retry_on_intr(|| rustix::io::write(&file, bytes))?)
}

/// Whether a path is on a kernel file system (proc, sysfs, debugfs, cgroup …), which may return
/// something else than was written.
pub fn is_made_up(root: &Root, path: &str) -> bool {
    const MADE_UP: [u64; 8] = [
        0x9fa0,      // proc
        0x6265_6572, // sysfs
        0x6462_6720, // debugfs
        0x7472_6163, // tracefs
        0x0027_e0eb, // cgroup
        0x6367_7270, // cgroup2
        0x4249_4e4d, // binfmt_misc
        0x6265_6570, // configfs
    ];
    rustix::fs::statfs(root.path(path))
        .is_ok_and(|found| u64::try_from(found.f_type).is_ok_and(|kind| MADE_UP.contains(&kind)))
}

/// Whether a path exists, without following a link.
pub fn exists(root: &Root, path: &str) -> bool {
    std::fs::symlink_metadata(root.path(path)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys;

    fn tree() -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("proc/sys/vm")).unwrap();
        std::fs::write(folder.path().join("proc/sys/vm/swappiness"), "60\n").unwrap();
        let root = Root::new(folder.path());
        (folder, root)
    }

    #[test]
    fn what_the_system_says_has_a_meaning() {
        assert_eq!(meaning(Errno::NOENT), Outcome::Absent);
        assert_eq!(meaning(Errno::NODEV), Outcome::Vanished);
        assert_eq!(meaning(Errno::INVAL), Outcome::Invalid);
        assert_eq!(meaning(Errno::RANGE), Outcome::Invalid);
        assert_eq!(meaning(Errno::ACCESS), Outcome::Refused);
    }

    #[test]
    fn nothing_is_written_through_a_link() {
        let (folder, _) = tree();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("proc/sys/vm/swappiness", &link).unwrap();
        assert!(write_at(&link, b"7").is_err());
    }

    #[test]
    fn reads_and_writes_bytes_and_names_what_fails() {
        let (_folder, root) = tree();
        write(&root, "/proc/sys/vm/swappiness", b"7", Purpose::Write).unwrap();
        assert_eq!(
            read(&root, "/proc/sys/vm/swappiness", Purpose::Read)
                .unwrap()
                .bytes,
            Bytes::from("7")
        );
        let absent = write(&root, "/proc/sys/vm/stat_interval", b"7", Purpose::Write).unwrap_err();
        assert_eq!(absent.outcome, Outcome::Absent);
        let outside = write(&root, "/etc/passwd", b"7", Purpose::Write).unwrap_err();
        assert_eq!(outside.outcome, Outcome::Forbidden);
        let still_there = |errno: Errno| {
            let path = "/proc/sys/vm/swappiness";
            let failed = Refusal::of("write", path, &errno.into());
            while_there(&root, path, failed).outcome
        };
        assert_eq!(still_there(Errno::NOENT), Outcome::Invalid);
        assert_eq!(still_there(Errno::NODEV), Outcome::Refused);
        let below_file = read(&root, "/proc/sys/vm/swappiness/x", Purpose::Read).unwrap_err();
        assert_eq!(below_file.outcome, Outcome::Absent);
    }

    #[test]
    fn the_configuration_of_grub_is_read_unless_it_contains_a_password() {
        let (folder, root) = tree();
        let path = "/boot/grub/grub.cfg";
        std::fs::create_dir_all(folder.path().join("boot/grub")).unwrap();
        std::fs::write(root.path(path), "set timeout=0\n").unwrap();
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(root.path(path), private).unwrap();
        assert!(read(&root, path, Purpose::Read).is_ok());
        std::fs::write(root.path(path), "password_pbkdf2 root grub.pbkdf2.x\n").unwrap();
        let refusal = read(&root, path, Purpose::Read).unwrap_err();
        assert!(
            refusal.message.contains("contains a password"),
            "{}",
            refusal.message
        );
        assert!(read(&root, "/boot//grub/grub.cfg", Purpose::Read).is_err());
        assert!(read(&root, path, Purpose::Own).is_ok(), "to restore it");
    }

    #[test]
    fn long_files_are_cut_and_say_so() {
        let (folder, root) = tree();
        std::fs::write(
            folder.path().join("proc/meminfo"),
            vec![b'x'; READ_LIMIT_BYTES + 1],
        )
        .unwrap();
        let content = read(&root, "/proc/meminfo", Purpose::Read).unwrap();
        assert!(content.truncated);
        assert_eq!(content.bytes.len(), READ_LIMIT_BYTES);
        std::fs::write(folder.path().join("proc/meminfo"), content.bytes.0).unwrap();
        assert!(!read(&root, "/proc/meminfo", Purpose::Read).unwrap().truncated);
    }

    #[test]
    fn a_plain_file_is_not_made_up() {
        let (_folder, root) = tree();
        assert!(!is_made_up(&root, "/proc/sys/vm/swappiness"));
        assert!(is_made_up(&Root::new("/"), "/proc/version"));
    }

    #[test]
    fn nothing_is_read_through_a_link_and_a_pipe_is_not_waited_for() {
        let (folder, _) = tree();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("proc/sys/vm/swappiness", &link).unwrap();
        assert!(read_at(&link).is_err());
        let pipe = folder.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, Mode::RUSR).unwrap();
        assert_eq!(read_at(&pipe).unwrap().bytes, Bytes::default());
    }

    #[test]
    fn what_nobody_may_write_is_read_only_and_what_root_may_is_not() {
        let (folder, root) = tree();
        let path = "/proc/sys/vm/swappiness";
        let set = |mode| {
            let rights = std::os::unix::fs::PermissionsExt::from_mode(mode);
            std::fs::set_permissions(root.path(path), rights).unwrap();
        };
        set(0o444);
        let refusal = probe_write(&root, path, true).unwrap_err();
        assert_eq!(refusal.message, format!("{path} is read-only on this kernel"));
        set(0o644);
        assert!(probe_write(&root, path, true).is_ok());
        if rustix::process::geteuid().is_root() {
            let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(folder.path(), open).unwrap();
            let as_nobody = |as_root| sys::as_nobody(|| probe_write(&root, path, as_root).is_ok());
            assert!(as_nobody(false), "root could write it");
            assert!(!as_nobody(true));
        }
    }
}
