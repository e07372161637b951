// SPDX-License-Identifier: Apache-2.0
//! The state folder: journals, the machine's lock, marks of lease holders.

use crate::error::{Error, Kind, Result};
use crate::journal::sync_folder;
use crate::root::Root;
use crate::transaction::Transaction;
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write as _};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Where the state folder is unless told otherwise.
pub const DEFAULT_STATE: &str = "/var/lib/ktrial";

/// Ended transactions that are kept on disk.
const KEPT: usize = 50;

/// How long to wait for the machine's lock before saying who holds it.
const LOCK_WAIT: Duration = Duration::from_millis(500);

/// How long a process that was killed may take to go.
const DYING_WAIT: Duration = Duration::from_secs(5);

/// What to do when the journal cannot be written.
const UNWRITABLE: &str = "nothing was changed; make room on the disk or make it writable";

/// What a kernel lacks that cannot lock files.
const NO_LOCKS: &str =
    "its kernel was built without locks of files: FILE_LOCKING=y in its configuration brings them";

/// The state folder of a machine.
#[derive(Debug, Clone)]
pub struct Store {
    folder: PathBuf,
    root: Root,
}

/// A lock that is held until it is dropped.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Store {
    /// The state folder `state`, an absolute path of the machine.
    #[must_use]
    pub fn new(root: &Root, state: &str) -> Self {
        Self {
            folder: root.path(state),
            root: root.clone(),
        }
    }

    fn journals(&self) -> PathBuf {
        self.folder.join("transactions")
    }

    /// The journal file of a transaction.
    #[must_use]
    pub fn journal_path(&self, id: u64) -> PathBuf {
        self.journals().join(format!("{id:06}.journal"))
    }

    /// Makes the folders where they are missing, and refuses them when others could write them.
    pub fn prepare(&self) -> Result<()> {
        let cannot = |error: io::Error| {
            Error::new(Kind::Journal, format!("make {}: {error}", self.folder.display())).hint(UNWRITABLE)
        };
        for folder in [self.folder.clone(), self.journals()] {
            if fs::symlink_metadata(&folder).is_err() {
                DirBuilder::new()
                    .recursive(true)
                    .mode(0o700)
                    .create(&folder)
                    .map_err(cannot)?;
                folder.parent().map_or(Ok(()), sync_folder).map_err(cannot)?;
            }
        }
        self.is_there().map(|_| ())
    }

    /// Whether there is a state folder, which must then be safe.
    pub fn is_there(&self) -> Result<bool> {
        for folder in [self.folder.clone(), self.journals()] {
            match fs::symlink_metadata(&folder) {
                Ok(metadata) => check_folder(&folder, &metadata)?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
                Err(error) => return Err(unreadable(&folder, &error)),
            }
        }
        Ok(true)
    }

    /// Takes the machine's lock, or says which process holds it.
    pub fn lock(&self) -> Result<Lock> {
        let path = self.folder.join("lock");
        let file = open_lock(&path).map_err(|error| {
            Error::new(Kind::Journal, format!("open {}: {error}", path.display())).hint(UNWRITABLE)
        })?;
        let began = Instant::now();
        while let Err(errno) = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            if errno == Errno::NOSYS {
                return Err(Error::io("lock", path.display(), &errno.into()).hint(NO_LOCKS));
            }
            if errno != Errno::WOULDBLOCK {
                return Err(Error::io("lock", path.display(), &errno.into()));
            }
            if began.elapsed() > LOCK_WAIT {
                return Err(busy(&path));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        if let Err(error) = note_owner(&file) {
            // Who holds the lock is only for messages: a full disk must not keep a recovery from its work.
            eprintln!("ktrial-agent: write {}: {error}", path.display());
        }
        Ok(Lock { _file: file })
    }

    /// Waits for the machine's lock as long as it takes.
    pub fn lock_waiting(&self) -> Result<Lock> {
        loop {
            match self.lock() {
                Err(error) if error.kind == Kind::Busy => {}
                other => return other,
            }
        }
    }

    /// Marks that this process holds the lease of a transaction, until the mark is dropped.
    pub fn mark_holder(&self, id: u64) -> io::Result<Lock> {
        let file = open_lock(&self.holder_path(id))?;
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        note_owner(&file)?;
        Ok(Lock { _file: file })
    }

    fn is_marked(&self, id: u64) -> bool {
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        rustix::fs::open(self.holder_path(id), flags, Mode::empty()).is_ok_and(|file| {
            rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK)
        })
    }

    /// Whether a process holds the lease of a transaction and lives on: one that was killed is waited for, as it keeps
    /// its mark until the kernel is done with it.
    #[must_use]
    pub fn is_held(&self, id: u64) -> bool {
        let began = Instant::now();
        let pid = fs::read_to_string(self.holder_path(id)).unwrap_or_default();
        while self.is_marked(id) {
            if !is_dying(pid.trim()) || began.elapsed() > DYING_WAIT {
                return true;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        false
    }

    /// Takes the mark of a lease away.
    pub fn clear_holder(&self, id: u64) -> io::Result<()> {
        match fs::remove_file(self.holder_path(id)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn holder_path(&self, id: u64) -> PathBuf {
        self.folder.join(format!("{id:06}.holder"))
    }

    /// All transactions, oldest first.
    pub fn transactions(&self) -> Result<Vec<Transaction>> {
        self.ids()?.into_iter().map(|id| self.load(id)).collect()
    }

    /// One transaction.
    pub fn load(&self, id: u64) -> Result<Transaction> {
        let path = self.journal_path(id);
        let mut bytes = Vec::new();
        let mut file = match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(Error::new(
                    Kind::NotFound,
                    format!("there is no transaction {id}"),
                ));
            }
            opened => opened.map_err(|error| unreadable(&path, &error))?,
        };
        file.read_to_end(&mut bytes)
            .map_err(|error| unreadable(&path, &error))?;
        let changed = file
            .metadata()
            .map_err(|error| unreadable(&path, &error))?
            .mtime();
        let this_boot = self.booted_unix_s().is_none_or(|booted| changed >= booted);
        Ok(Transaction::new(id, &path, &bytes, &self.boot_id(), this_boot))
    }

    /// Numbers of all transactions, in order.
    fn ids(&self) -> Result<Vec<u64>> {
        if !self.is_there()? {
            return Ok(Vec::new());
        }
        let folder = self.journals();
        let mut ids = Vec::new();
        for entry in fs::read_dir(&folder).map_err(|error| unreadable(&folder, &error))? {
            let entry = entry.map_err(|error| unreadable(&folder, &error))?;
            let name = entry.file_name();
            let number = name.to_str().and_then(|name| name.strip_suffix(".journal"));
            ids.extend(number.and_then(|number| number.parse::<u64>().ok()));
        }
        ids.sort_unstable();
        Ok(ids)
    }

    /// The machine's boot id; empty where the kernel gives none.
    #[must_use]
    pub fn boot_id(&self) -> String {
        self.root
            .read_text("/proc/sys/kernel/random/boot_id")
            .unwrap_or_default()
    }

    /// When the machine was started, in seconds since 1970.
    fn booted_unix_s(&self) -> Option<i64> {
        let text = self.root.read_text("/proc/stat").ok()?;
        text.lines()
            .find_map(|line| line.strip_prefix("btime "))?
            .trim()
            .parse()
            .ok()
    }
}

/// The number of the next transaction; drops the oldest ended ones beyond those that are kept.
pub fn next_id(transactions: &[Transaction]) -> u64 {
    let ended: Vec<&Transaction> = transactions
        .iter()
        .filter(|transaction| !transaction.is_open())
        .collect();
    for old in ended.iter().take(ended.len().saturating_sub(KEPT)) {
        if let Err(error) = fs::remove_file(&old.file) {
            eprintln!("ktrial-agent: remove {}: {error}", old.file.display());
        }
    }
    transactions.last().map_or(1, |newest| newest.id + 1)
}

fn open_lock(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    Ok(File::from(rustix::fs::open(
        path,
        flags,
        Mode::RUSR | Mode::WUSR,
    )?))
}

/// In place and always of the same length: the next owner needs no room on the disk.
fn note_owner(mut file: &File) -> io::Result<()> {
    file.write_all(format!("{:<10}\n", std::process::id()).as_bytes())
}

/// Whether a process was killed and is not gone yet.
fn is_dying(pid: &str) -> bool {
    let kill = 1_u64 << (rustix::process::Signal::KILL.as_raw() - 1);
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let field = |name: &str| {
        status
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .map(str::trim)
    };
    let is_killed = |mask: &str| u64::from_str_radix(mask, 16).is_ok_and(|mask| mask & kill != 0);
    let has_memory = field("VmSize:").is_some();
    !has_memory || field("SigPnd:").is_some_and(is_killed) || field("ShdPnd:").is_some_and(is_killed)
}

fn busy(path: &Path) -> Error {
    let holder = fs::read_to_string(path).unwrap_or_default();
    let holder = match holder.trim() {
        "" => "another process".to_owned(),
        pid => format!("process {pid}"),
    };
    Error::new(
        Kind::Busy,
        format!("{holder} holds the machine's lock {}", path.display()),
    )
    .hint("wait until it is done, then try again")
}

fn unreadable(path: &Path, error: &io::Error) -> Error {
    if error.kind() == io::ErrorKind::PermissionDenied {
        return Error::new(Kind::Privilege, format!("read {}: {error}", path.display()))
            .hint("transactions are kept by root: use sudo");
    }
    Error::io("read", path.display(), error)
}

fn check_folder(folder: &Path, metadata: &fs::Metadata) -> Result<()> {
    let own = rustix::process::geteuid().as_raw();
    let wrong = if !metadata.is_dir() {
        "is not a folder"
    } else if own == 0 && metadata.uid() != 0 {
        "does not belong to root"
    } else if own == 0 && metadata.mode() & 0o022 != 0 {
        "can be written by others"
    } else {
        return Ok(());
    };
    Err(Error::new(Kind::Journal, format!("{} {wrong}", folder.display()))
        .hint("nothing was changed; a journal that others can write cannot be trusted: chown root and chmod 700 it"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn store() -> (tempfile::TempDir, Store) {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(&Root::new(folder.path()), DEFAULT_STATE);
        (folder, store)
    }

    #[test]
    fn folders_are_made_private_and_refused_when_open() {
        let (_folder, store) = store();
        assert!(store.transactions().unwrap().is_empty());
        store.prepare().unwrap();
        let mode = fs::metadata(&store.folder).unwrap().mode();
        assert_eq!(mode & 0o777, 0o700);
        if rustix::process::geteuid().is_root() {
            fs::set_permissions(&store.folder, fs::Permissions::from_mode(0o777)).unwrap();
            assert_eq!(store.prepare().unwrap_err().kind, Kind::Journal);
        }
    }

    #[test]
    fn the_lock_names_its_holder() {
        let (_folder, store) = store();
        store.prepare().unwrap();
        let lock = store.lock().unwrap();
        let error = store.lock().unwrap_err();
        assert_eq!(error.kind, Kind::Busy);
        assert!(error.message.contains(&std::process::id().to_string()), "{error}");
        drop(lock);
        assert!(store.lock().is_ok());
    }

    #[test]
    fn a_holder_that_dies_holds_nothing() {
        let (_folder, store) = store();
        store.prepare().unwrap();
        let mark = store.mark_holder(1).unwrap();
        assert!(store.is_held(1));
        // The mark of a process that is gone, which another one still has open.
        let mut gone = std::process::Command::new("true").spawn().unwrap();
        gone.wait().unwrap();
        fs::write(store.holder_path(1), format!("{}\n", gone.id())).unwrap();
        let end = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            drop(mark);
        });
        assert!(!store.is_held(1));
        end.join().unwrap();
    }

    #[test]
    fn a_missing_transaction_is_not_found() {
        let (_folder, store) = store();
        assert_eq!(store.load(7).unwrap_err().kind, Kind::NotFound);
    }
}
