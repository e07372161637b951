// SPDX-License-Identifier: Apache-2.0
//! The state folder: the journals, the machine's lock and the lease files.

use crate::error::{Error, Kind, Result};
use crate::root::Root;
use crate::transact::files::sync_folder;
use crate::transact::journal;
use crate::transact::plan::Lease;
use crate::transact::transaction::{State, Transaction};
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use serde::Serialize;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write as _};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The default state folder.
pub const DEFAULT_STATE: &str = "/var/lib/ktrial";

/// How many ended transactions are kept on disk.
const KEPT: usize = 50;

/// The suffix of journal files.
const SUFFIX: &str = ".journal";

/// No transaction has a number this high; files with such names are not the agent's.
const HIGHEST: u64 = 1_000_000_000_000;

/// Most bytes of a small file with a process ID.
const WORDS_BYTES: u64 = 64;

/// How long to wait for the machine's lock before reporting who holds it.
const LOCK_WAIT: Duration = Duration::from_millis(500);

/// How long a killed process may take to exit.
const DYING_WAIT: Duration = Duration::from_secs(5);

/// The next step if the journal cannot be written.
const UNWRITABLE: &str = "nothing was changed; free space on the disk or make it writable";

/// The next step on a kernel without file locks.
const NO_LOCKS: &str = "the kernel cannot lock files: build it with CONFIG_FILE_LOCKING=y";

/// The state folder of a machine.
#[derive(Debug, Clone)]
pub struct Store {
    folder: PathBuf,
    root: Root,
}

/// The content of the journals' folder.
#[derive(Debug, Default)]
pub struct Journals {
    /// Transactions, oldest first.
    pub transactions: Vec<Transaction>,
    /// Files that are not journals of root's.
    pub skipped: Vec<Skipped>,
}

/// A file among the journals that is not one.
#[derive(Debug, Serialize)]
pub struct Skipped {
    /// Its path.
    pub file: String,
    /// Why it is not a journal.
    pub message: String,
}

/// What a journal's path leads to.
enum JournalFile {
    Transaction(Box<Transaction>),
    None,
    NoJournal(String),
}

/// A lock, released on drop.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Store {
    /// The state folder at `state`, an absolute path of the machine.
    #[must_use]
    pub fn new(root: &Root, state: &str) -> Self {
        Self {
            folder: root.path(state),
            root: root.clone(),
        }
    }

    fn journals_folder(&self) -> PathBuf {
        self.folder.join("transactions")
    }

    /// Returns the journal file of a transaction.
    #[must_use]
    pub fn journal_path(&self, id: u64) -> PathBuf {
        self.journals_folder().join(format!("{id:06}{SUFFIX}"))
    }

    /// Creates missing folders, and refuses folders that others could write.
    pub fn prepare(&self) -> Result<()> {
        let cannot = |error: io::Error| {
            Error::new(
                Kind::Journal,
                format!("cannot create {}: {error}", self.folder.display()),
            )
            .hint(UNWRITABLE)
        };
        for folder in [self.folder.clone(), self.journals_folder()] {
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

    /// Whether the state folder exists. Refuses one that others could write.
    pub fn is_there(&self) -> Result<bool> {
        for folder in [self.folder.clone(), self.journals_folder()] {
            match fs::symlink_metadata(&folder) {
                Ok(metadata) => check_folder(&folder, &metadata)?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
                Err(error) => return Err(unreadable(&folder, &error)),
            }
        }
        Ok(true)
    }

    /// Takes the machine's lock, or reports which process holds it. If the disk is not writable the
    /// file is opened for reading, and if it never existed the folder is locked.
    pub fn lock(&self) -> Result<Lock> {
        let path = self.folder.join("lock");
        let opened = open_lock(&path).map(|file| (file, true));
        let (file, is_writable) = opened
            .or_else(|error| match Errno::from_io_error(&error) {
                Some(Errno::ROFS | Errno::NOSPC | Errno::DQUOT | Errno::IO) => open_to_read(&path)
                    .or_else(|_| open_to_read(&self.folder))
                    .map(|file| (file, false)),
                _ => Err(error),
            })
            .map_err(|error| {
                Error::new(Kind::Journal, format!("cannot open {}: {error}", path.display())).hint(UNWRITABLE)
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
        let noted = if is_writable { note_owner(&file) } else { Ok(()) };
        if let Err(error) = noted {
            // The name of the owner is only for messages: a full disk must not prevent a recovery.
            eprintln!("ktrial-agent: cannot write {}: {error}", path.display());
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

    /// Marks this process as the holder of a transaction's lease, until the lock is dropped.
    pub fn mark_holder(&self, id: u64) -> io::Result<Lock> {
        let file = open_lock(&self.holder_path(id))?;
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        note_owner(&file)?;
        Ok(Lock { _file: file })
    }

    /// Whether a process holds the lease file. Opens it for reading, which works even on a disk
    /// that has become read-only.
    fn is_marked(&self, id: u64) -> bool {
        open_to_read(&self.holder_path(id)).is_ok_and(|file| {
            rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK)
        })
    }

    /// Whether a live process holds the lease of a transaction. Waits for a holder that was killed,
    /// because its lock lasts until the kernel is done with it.
    #[must_use]
    pub fn is_held(&self, id: u64) -> bool {
        let began = Instant::now();
        let pid = first_words(&self.holder_path(id));
        while self.is_marked(id) {
            if !is_dying(pid.trim()) || began.elapsed() > DYING_WAIT {
                return true;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        false
    }

    /// Whether the journal says that a lease is in force, but nobody will end it: its holder is
    /// gone, or ended it and could not update the journal.
    #[must_use]
    pub fn is_abandoned(&self, transaction: &Transaction) -> bool {
        let is_leased = transaction.state() == State::Applied && transaction.lease() != Lease::Keep;
        is_leased && !(transaction.this_boot && self.is_held(transaction.id))
    }

    /// Removes the lease file of a transaction.
    pub fn clear_holder(&self, id: u64) -> io::Result<()> {
        let mark = self.holder_path(id);
        match fs::remove_file(&mark) {
            // A read-only disk refuses to remove even a file that does not exist.
            Err(error) if fs::symlink_metadata(&mark).is_ok() => Err(error),
            _ => Ok(()),
        }
    }

    fn holder_path(&self, id: u64) -> PathBuf {
        self.folder.join(format!("{id:06}.holder"))
    }

    /// Returns all transactions, oldest first; warns of other files among the journals.
    pub fn transactions(&self) -> Result<Vec<Transaction>> {
        let Journals {
            transactions,
            skipped,
        } = self.journals()?;
        for Skipped { file, message } in skipped {
            eprintln!("ktrial-agent: skipped {file}: {message}");
        }
        Ok(transactions)
    }

    /// Returns all transactions, oldest first, and the other files among their journals.
    pub fn journals(&self) -> Result<Journals> {
        let mut found = Journals::default();
        for name in self.names()? {
            let path = self.journals_folder().join(&name);
            let id = number_of(&name).filter(|id| self.journal_path(*id) == path);
            let message = match id.map(|id| self.read(id)).transpose()? {
                Some(JournalFile::Transaction(transaction)) => {
                    found.transactions.push(*transaction);
                    continue;
                }
                Some(JournalFile::None) => continue,
                Some(JournalFile::NoJournal(message)) => message,
                None if !name.ends_with(SUFFIX) => continue,
                None => "not the name of a journal".to_owned(),
            };
            let file = path.display().to_string();
            found.skipped.push(Skipped { file, message });
        }
        found.transactions.sort_by_key(|transaction| transaction.id);
        Ok(found)
    }

    /// Returns the transactions that are newer than this one, oldest first.
    pub fn newer(&self, id: u64) -> Result<Vec<Transaction>> {
        let names = self.names()?;
        let mut numbers: Vec<u64> = names.iter().filter_map(|name| number_of(name)).collect();
        numbers.sort_unstable();
        let mut found = Vec::new();
        for number in numbers.into_iter().filter(|number| *number > id) {
            if let JournalFile::Transaction(transaction) = self.read(number)? {
                found.push(*transaction);
            }
        }
        Ok(found)
    }

    /// Loads one transaction.
    pub fn load(&self, id: u64) -> Result<Transaction> {
        match self.read(id)? {
            JournalFile::Transaction(transaction) => Ok(*transaction),
            JournalFile::None => Err(Error::new(Kind::NotFound, format!("no such transaction: {id}"))),
            JournalFile::NoJournal(message) => {
                let path = self.journal_path(id);
                Err(Error::new(
                    Kind::Corrupt,
                    format!("{}: {message}", path.display()),
                ))
            }
        }
    }

    fn read(&self, id: u64) -> Result<JournalFile> {
        let path = self.journal_path(id);
        let metadata = match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(JournalFile::None),
            found => found.map_err(|error| unreadable(&path, &error))?,
        };
        if let Some(message) = why_no_journal(&metadata) {
            return Ok(JournalFile::NoJournal(message.to_owned()));
        }
        let mut bytes = Vec::new();
        let read =
            open_to_read(&path).and_then(|file| file.take(journal::LIMIT_BYTES).read_to_end(&mut bytes));
        let mut contents = journal::parse(&bytes);
        match read {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Err(unreadable(&path, &error));
            }
            Err(error) => contents.break_off(&error),
            Ok(_) => {}
        }
        let changed = metadata.mtime();
        let this_boot = self.booted_unix_s().is_none_or(|booted| changed >= booted);
        let transaction = Transaction::new(id, &path, contents, &self.boot_id(), this_boot);
        Ok(JournalFile::Transaction(Box::new(transaction)))
    }

    /// Returns the number of the next transaction, higher than that of any file in the folder.
    pub fn next_id(&self) -> Result<u64> {
        let numbers = self.names()?;
        let highest = numbers.iter().filter_map(|name| number_of(name)).max();
        Ok(highest.unwrap_or(0) + 1)
    }

    /// Returns the names of all files in the journals' folder, sorted.
    fn names(&self) -> Result<Vec<String>> {
        if !self.is_there()? {
            return Ok(Vec::new());
        }
        let folder = self.journals_folder();
        let mut names = Vec::new();
        for entry in fs::read_dir(&folder).map_err(|error| unreadable(&folder, &error))? {
            let entry = entry.map_err(|error| unreadable(&folder, &error))?;
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Returns the machine's boot ID; empty if the kernel has none.
    #[must_use]
    pub fn boot_id(&self) -> String {
        self.root
            .read_text("/proc/sys/kernel/random/boot_id")
            .unwrap_or_default()
    }

    /// Returns the time of the boot, in seconds since 1970.
    fn booted_unix_s(&self) -> Option<i64> {
        let text = self.root.read_text("/proc/stat").ok()?;
        text.lines()
            .find_map(|line| line.strip_prefix("btime "))?
            .trim()
            .parse()
            .ok()
    }
}

/// Removes the oldest ended transactions beyond those that are kept. Keeps transactions that left
/// something alone, because their old values are still needed.
pub fn drop_old(transactions: &[Transaction]) {
    let ended: Vec<&Transaction> = transactions
        .iter()
        .filter(|transaction| !transaction.is_open() && transaction.left_alone().is_empty())
        .collect();
    for old in ended.iter().take(ended.len().saturating_sub(KEPT)) {
        if let Err(error) = fs::remove_file(&old.file) {
            eprintln!("ktrial-agent: cannot remove {}: {error}", old.file.display());
        }
    }
}

/// Returns the number in a journal's name.
fn number_of(name: &str) -> Option<u64> {
    let number = name.strip_suffix(SUFFIX)?;
    number.parse().ok().filter(|number| *number < HIGHEST)
}

/// Opens a file that may have become a FIFO, a device or a link: without blocking, and without
/// following a link.
fn open_to_read(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    Ok(File::from(rustix::fs::open(path, flags, Mode::empty())?))
}

/// Returns why a file is not a journal.
fn why_no_journal(metadata: &fs::Metadata) -> Option<&'static str> {
    let own = rustix::process::geteuid().as_raw();
    if !metadata.is_file() {
        Some("not a regular file")
    } else if own == 0 && metadata.uid() != 0 {
        Some("not owned by root")
    } else if metadata.len() > journal::LIMIT_BYTES {
        Some("longer than a journal can be")
    } else {
        None
    }
}

/// Reads the beginning of one of the agent's own small files.
fn first_words(path: &Path) -> String {
    let mut words = String::new();
    let read = open_to_read(path)
        .and_then(|file| file.metadata().map(|metadata| (file, metadata)))
        .and_then(|(file, metadata)| match why_no_journal(&metadata) {
            None => file.take(WORDS_BYTES).read_to_string(&mut words),
            Some(why) => Err(io::Error::other(why)),
        });
    if read.is_err() {
        words.clear();
    }
    words
}

fn open_lock(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    Ok(File::from(rustix::fs::open(
        path,
        flags,
        Mode::RUSR | Mode::WUSR,
    )?))
}

/// Writes this process's ID in place and always in the same length, so that the next owner needs no
/// space on the disk.
fn note_owner(mut file: &File) -> io::Result<()> {
    file.write_all(format!("{:<10}\n", std::process::id()).as_bytes())
}

/// Whether a process was killed but has not exited yet.
fn is_dying(pid: &str) -> bool {
    is_killed(&fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default())
}

/// Whether the kernel says that a process was killed: its memory is gone, or SIGKILL is pending.
fn is_killed(status: &str) -> bool {
    let kill = 1_u64 << (rustix::process::Signal::KILL.as_raw() - 1);
    let field = |name: &str| {
        status
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .map(str::trim)
    };
    let has_kill = |mask: &str| u64::from_str_radix(mask, 16).is_ok_and(|mask| mask & kill != 0);
    let has_memory = field("VmSize:").is_some();
    !has_memory || field("SigPnd:").is_some_and(has_kill) || field("ShdPnd:").is_some_and(has_kill)
}

fn busy(path: &Path) -> Error {
    let holder = first_words(path);
    let holder = match holder.trim() {
        "" => "another process".to_owned(),
        pid => format!("process {pid}"),
    };
    Error::new(Kind::Busy, format!("{holder} holds the lock {}", path.display()))
        .hint("try again when it has ended")
}

fn unreadable(path: &Path, error: &io::Error) -> Error {
    if error.kind() == io::ErrorKind::PermissionDenied {
        return Error::new(
            Kind::Privilege,
            format!("cannot read {}: {error}", path.display()),
        )
        .hint("use sudo; only root can read transactions");
    }
    Error::io("read", path.display(), error)
}

fn check_folder(folder: &Path, metadata: &fs::Metadata) -> Result<()> {
    let own = rustix::process::geteuid().as_raw();
    let wrong = if !metadata.is_dir() {
        "is not a folder"
    } else if own == 0 && metadata.uid() != 0 {
        "is not owned by root"
    } else if own == 0 && metadata.mode() & 0o022 != 0 {
        "is writable by others"
    } else {
        return Ok(());
    };
    Err(Error::new(Kind::Journal, format!("{} {wrong}", folder.display()))
        .hint("nothing was changed; make the folder private: chown root and chmod 700"))
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
    fn a_process_is_dying_without_memory_or_with_its_kill_pending() {
        let status = |own: &str, shared: &str| format!("VmSize:\t 9 kB\nSigPnd:\t{own}\nShdPnd:\t{shared}\n");
        let (none, kill, other) = ("0000000000000000", "0000000000000100", "fffffffffffffeff");
        assert!(!is_killed(&status(none, none)));
        assert!(!is_killed(&status(other, other)));
        assert!(is_killed(&status(kill, none)));
        assert!(is_killed(&status(none, kill)));
        assert!(is_killed("State:\tZ (zombie)\nSigPnd:\t0\nShdPnd:\t0\n"));
        assert!(!is_dying(&std::process::id().to_string()));
        assert!(is_dying("no number"));
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
    fn the_time_of_the_boot_is_what_the_kernel_says() {
        let (folder, store) = store();
        assert_eq!(store.booted_unix_s(), None);
        fs::create_dir(folder.path().join("proc")).unwrap();
        for (said, told) in [
            ("cpu 1\nbtime 1700000000\nctxt 2\n", Some(1_700_000_000)),
            ("btime x\n", None),
        ] {
            fs::write(folder.path().join("proc/stat"), said).unwrap();
            assert_eq!(store.booted_unix_s(), told);
        }
    }

    #[test]
    fn the_lock_is_private_and_names_its_owner_and_no_link_is_followed() {
        let (folder, store) = store();
        store.prepare().unwrap();
        let path = store.folder.join("lock");
        let held = store.lock().unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(
            fs::read_to_string(&path).unwrap(),
            format!("{:<10}\n", std::process::id())
        );
        let told = busy(&path).message;
        assert!(
            told.starts_with(&format!("process {} holds", std::process::id())),
            "{told}"
        );
        assert!(busy(&folder.path().join("none"))
            .message
            .starts_with("another process holds"));
        drop(held);
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(open_lock(&link).is_err());
        assert!(open_to_read(&link).is_err());
        assert_eq!(first_words(&link), "");
    }

    #[test]
    fn a_journal_whose_folder_is_none_cannot_be_read() {
        let (_folder, store) = store();
        let parent = store.folder.parent().unwrap();
        fs::create_dir_all(parent.parent().unwrap()).unwrap();
        fs::write(parent, "").unwrap();
        assert_eq!(store.load(1).unwrap_err().kind, Kind::Io);
    }

    #[test]
    fn a_mark_that_is_not_there_is_away_and_one_that_stays_is_told() {
        let (_folder, store) = store();
        store.prepare().unwrap();
        store.clear_holder(1).unwrap();
        fs::create_dir(store.holder_path(1)).unwrap();
        assert!(store.clear_holder(1).is_err());
    }

    #[test]
    fn a_journal_has_a_number_below_the_highest() {
        assert_eq!(number_of("000007.journal"), Some(7));
        assert_eq!(number_of("999999999999.journal"), Some(HIGHEST - 1));
        assert_eq!(number_of("1000000000000.journal"), None);
        assert_eq!(number_of("7.lock"), None);
    }

    #[test]
    fn a_journal_may_be_as_long_as_the_limit() {
        let folder = tempfile::tempdir().unwrap();
        let file = fs::File::create(folder.path().join("journal")).unwrap();
        for (length, told) in [
            (journal::LIMIT_BYTES, None),
            (journal::LIMIT_BYTES + 1, Some("longer than a journal can be")),
        ] {
            file.set_len(length).unwrap();
            assert_eq!(why_no_journal(&file.metadata().unwrap()), told);
        }
        let of_folder = fs::metadata(folder.path()).unwrap();
        assert_eq!(why_no_journal(&of_folder), Some("not a regular file"));
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

    /// Holds the lock for `held` while `work` runs.
    fn while_locked<T>(store: &Store, held: Duration, work: impl FnOnce() -> T) -> T {
        let lock = store.lock().unwrap();
        let end = std::thread::spawn(move || {
            std::thread::sleep(held);
            drop(lock);
        });
        let done = work();
        end.join().unwrap();
        done
    }

    #[test]
    fn a_lock_that_is_held_is_waited_for() {
        let (_folder, store) = store();
        store.prepare().unwrap();
        assert!(while_locked(&store, LOCK_WAIT / 5, || store.lock()).is_ok());
        assert!(while_locked(&store, LOCK_WAIT * 2, || store.lock()).is_err());
        assert!(while_locked(&store, LOCK_WAIT * 2, || store.lock_waiting()).is_ok());
    }

    #[test]
    fn what_is_no_folder_is_told_and_not_waited_for() {
        let (folder, _) = store();
        fs::write(folder.path().join("file"), "").unwrap();
        let store = Store::new(&Root::new(folder.path()), "/file/state");
        assert_eq!(store.is_there().unwrap_err().kind, Kind::Io);
        assert_eq!(store.lock_waiting().unwrap_err().kind, Kind::Journal);
    }

    #[test]
    fn a_holder_that_dies_holds_nothing() {
        let (_folder, store) = store();
        store.prepare().unwrap();
        let mark = store.mark_holder(1).unwrap();
        assert!(store.is_held(1));
        // The lease file of a process that is gone, still open in another one.
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

    #[test]
    fn what_a_user_may_not_read_is_told_as_that() {
        let (folder, store) = store();
        store.prepare().unwrap();
        fs::write(store.journal_path(1), "").unwrap();
        let file = open_to_read(&store.journal_path(1)).unwrap();
        assert!(rustix::io::fcntl_getfd(&file)
            .unwrap()
            .contains(rustix::io::FdFlags::CLOEXEC));
        if rustix::process::geteuid().is_root() {
            for open in [folder.path(), &store.folder, &store.journals_folder()] {
                fs::set_permissions(open, fs::Permissions::from_mode(0o755)).unwrap();
            }
            fs::set_permissions(store.journal_path(1), fs::Permissions::from_mode(0o600)).unwrap();
            let refused = crate::sys::as_nobody(|| store.load(1).unwrap_err());
            assert_eq!(refused.kind, Kind::Privilege);
        }
    }
}
