// SPDX-License-Identifier: Apache-2.0
//! The kernel's tracing files: where they are, our own instances in them, and instances that killed
//! agents left.

use crate::root::Root;
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::mount::{fsconfig_create, fsmount, fsopen, FsMountFlags, FsOpenFlags, MountAttrFlags};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The usual places of tracefs.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// Prefix of our instances' names.
const PREFIX: &str = "ktrial-";
/// Most bytes of a text that are read.
const TEXT_BYTES: usize = 1 << 17;
/// How often to retry removing an instance that is still in use.
const TRIES: u32 = 20;
/// The inode number of the initial PID namespace.
const FIRST_NAMESPACE: u64 = 4_026_531_836;

/// The tracing files of the running kernel.
#[derive(Debug)]
pub struct Tracefs {
    folder: PathBuf,
    /// Keeps a mount that is private to this process.
    _mounted: Option<OwnedFd>,
}

impl Tracefs {
    /// Finds the tracing files. If they are mounted nowhere, mounts them privately for this
    /// process.
    ///
    /// # Errors
    ///
    /// Why there are none.
    pub fn open(root: &Root) -> Result<Self, String> {
        let usable = |place: &&&str| root.path(place).join("events").is_dir();
        if let Some(place) = PLACES.iter().find(usable) {
            return Ok(Self {
                folder: root.path(place),
                _mounted: None,
            });
        }
        if !root.is_real() {
            return Err("cannot trace: the root is not /".to_owned());
        }
        let mounted = mount().map_err(|error| explain(root, "cannot mount tracefs", &error.into()))?;
        Ok(Self {
            folder: PathBuf::from(format!("/proc/self/fd/{}", mounted.as_raw_fd())),
            _mounted: Some(mounted),
        })
    }

    /// Reads a file.
    ///
    /// # Errors
    ///
    /// Why it cannot be read.
    pub fn text(&self, file: &str) -> Result<String, String> {
        read_once(&self.folder.join(file)).map_err(|error| format!("cannot read {file}: {error}"))
    }

    /// Creates an instance for this process.
    ///
    /// # Errors
    ///
    /// Why it cannot: read-only, locked down, no permission.
    pub fn instance(&self, root: &Root, boot_id: &str, what: &str) -> Result<Instance, String> {
        let own = std::process::id();
        let start = start_ticks(root, own).ok_or("cannot read the start time of this process from /proc")?;
        let boot = boot_id.get(..8).unwrap_or(boot_id);
        let space = namespace(root, "self").unwrap_or(FIRST_NAMESPACE);
        let folder = self
            .folder
            .join(format!("instances/{PREFIX}{own}-{start}-{space}-{boot}-{what}"));
        fs::create_dir(&folder)
            .map_err(|error| explain(root, "cannot create an instance in tracefs", &error))?;
        Ok(Instance { folder })
    }

    /// Removes the instances of agents that are gone, and returns their names.
    ///
    /// # Errors
    ///
    /// Those that could not be removed, and why.
    pub fn clear(&self, root: &Root) -> Result<Vec<String>, String> {
        let mut cleared = Vec::new();
        let mut left = Vec::new();
        let found = fs::read_dir(self.folder.join("instances"))
            .into_iter()
            .flatten()
            .flatten();
        for entry in found {
            let name = entry.file_name().to_string_lossy().into_owned();
            if is_left_over(root, &name) {
                match remove(&entry.path()) {
                    Ok(()) => cleared.push(name),
                    Err(error) => left.push(format!("{name}: {error}")),
                }
            }
        }
        cleared.sort();
        if left.is_empty() {
            Ok(cleared)
        } else {
            Err(format!("cannot remove instances of tracefs: {}", left.join("; ")))
        }
    }
}

fn mount() -> rustix::io::Result<OwnedFd> {
    let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOEXEC | MountAttrFlags::MOUNT_ATTR_NOSUID;
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}

/// Reads a file whose whole text the kernel returns only to a single, sufficiently large read.
fn read_once(file: &Path) -> io::Result<String> {
    let mut opened = fs::File::open(file)?;
    let mut bytes = vec![0; TEXT_BYTES];
    let mut held = 0;
    while held < bytes.len() {
        match opened.read(&mut bytes[held..]) {
            Ok(0) => break,
            Ok(read) => held += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(String::from_utf8_lossy(&bytes[..held]).into_owned())
}

/// Explains an error of tracefs.
fn explain(root: &Root, what: &str, error: &io::Error) -> String {
    let lockdown = root
        .read_text("/sys/kernel/security/lockdown")
        .unwrap_or_default();
    let why = match error.raw_os_error() {
        Some(libc::EROFS) => "it is mounted read-only".to_owned(),
        Some(libc::ENODEV) => "the kernel was built without tracing".to_owned(),
        Some(libc::EPERM | libc::EACCES) if lockdown.contains("[confidentiality]") => {
            "the kernel is locked down (confidentiality)".to_owned()
        }
        Some(libc::EPERM | libc::EACCES) => format!("{error}; tracing needs root"),
        _ => error.to_string(),
    };
    format!("{what}: {why}")
}

/// Returns when a process started, in ticks since boot.
fn start_ticks(root: &Root, process: u32) -> Option<u64> {
    let stat = root.read_text(&format!("/proc/{process}/stat")).ok()?;
    // The name may contain blanks and parentheses; the 22nd field is the 20th after it.
    stat.rsplit_once(')')?
        .1
        .split_ascii_whitespace()
        .nth(19)?
        .parse()
        .ok()
}

/// Returns the PID namespace of a process.
fn namespace(root: &Root, process: &str) -> Option<u64> {
    let link = fs::read_link(root.path(&format!("/proc/{process}/ns/pid"))).ok()?;
    let number = link.to_str()?.strip_prefix("pid:[")?.strip_suffix(']')?;
    number.parse().ok()
}

/// Returns why thread IDs in events differ from those that this process sees; None if they are the
/// same.
pub fn why_other_numbers(root: &Root) -> Option<String> {
    let own = namespace(root, "self").filter(|own| *own != FIRST_NAMESPACE)?;
    Some(format!(
        "the agent runs in its own PID namespace ({own}), where the kernel's thread IDs don't apply; watch from the host"
    ))
}

/// Whether an instance is ours and the agent that created it is gone.
fn is_left_over(root: &Root, name: &str) -> bool {
    let Some(numbers) = name.strip_prefix(PREFIX) else {
        return false;
    };
    let mut parts = numbers.split('-').map(str::parse);
    let (Some(Ok(process)), Some(Ok(start)), Some(Ok(space))) = (parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    let own = namespace(root, "self").unwrap_or(FIRST_NAMESPACE);
    if space == own {
        return u32::try_from(process).is_ok_and(|process| start_ticks(root, process) != Some(start));
    }
    // Only the initial namespace sees all processes.
    own == FIRST_NAMESPACE && !is_lived_in(root, space)
}

/// Whether any process is in this PID namespace.
fn is_lived_in(root: &Root, space: u64) -> bool {
    let processes = root.list("/proc").unwrap_or_default();
    processes.iter().any(|name| namespace(root, name) == Some(space))
}

fn remove(folder: &Path) -> io::Result<()> {
    let mut tries = 0;
    loop {
        // Its reader has just been closed, or is about to be.
        match fs::remove_dir(folder) {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) && tries < TRIES => {
                tries += 1;
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            other => return other,
        }
    }
}

/// An instance of our own, removed on drop.
#[derive(Debug)]
pub struct Instance {
    folder: PathBuf,
}

impl Instance {
    /// Returns the path of a file in the instance.
    #[must_use]
    pub fn path(&self, file: &str) -> PathBuf {
        self.folder.join(file)
    }

    /// Writes a file of the instance.
    ///
    /// # Errors
    ///
    /// Why it cannot be written.
    pub fn write(&self, file: &str, text: &str) -> Result<(), String> {
        fs::write(self.path(file), text).map_err(|error| format!("cannot write {file}: {error}"))
    }

    /// Sums counters such as `overrun` and `read events` over all CPUs.
    #[must_use]
    pub fn counters(&self, names: [&str; 3]) -> [u64; 3] {
        let mut sums = [0; 3];
        for entry in fs::read_dir(self.path("per_cpu")).into_iter().flatten().flatten() {
            let text = fs::read_to_string(entry.path().join("stats")).unwrap_or_default();
            for line in text.lines() {
                let Some((name, value)) = line.split_once(": ") else {
                    continue;
                };
                if let Some(place) = names.iter().position(|known| *known == name) {
                    sums[place] += value.trim().parse::<u64>().unwrap_or_default();
                }
            }
        }
        sums
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = self.write("tracing_on", "0");
        if let Err(error) = remove(&self.folder) {
            eprintln!(
                "ktrial-agent: cannot remove {}: {error}; run `ktrial recover` to remove it",
                self.folder.display()
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(processes: &[(u32, u64)]) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        for (process, start) in processes {
            let path = folder.path().join(format!("proc/{process}"));
            fs::create_dir_all(&path).unwrap();
            let stat = format!("{process} (a) b) S {}{start} 0 0\n", "1 ".repeat(18));
            fs::write(path.join("stat"), stat).unwrap();
        }
        let root = Root::new(folder.path());
        (folder, root)
    }

    #[test]
    fn instances_of_agents_that_are_gone_are_known_by_their_names() {
        let (folder, root) = machine(&[(10, 500)]);
        let spaces = folder.path().join("proc/10/ns");
        fs::create_dir(&spaces).unwrap();
        std::os::unix::fs::symlink("pid:[77]", spaces.join("pid")).unwrap();
        for (name, left) in [
            ("ktrial-10-500-4026531836-abcdef01-machine", false),
            ("ktrial-10-499-4026531836-abcdef01-machine", true),
            ("ktrial-11-500-4026531836-abcdef01-threads", true),
            ("ktrial-11-500-77-abcdef01-threads", false),
            ("ktrial-11-500-78-abcdef01-threads", true),
            ("ktrial-mine", false),
            ("ktrial-10-499-abcdef01-machine", false),
            ("other-11-500-x-y", false),
        ] {
            assert_eq!(is_left_over(&root, name), left, "{name}");
        }
    }

    #[test]
    fn what_is_left_is_cleared_and_nothing_else() {
        let (folder, root) = machine(&[(10, 500)]);
        let tracing = folder.path().join("sys/kernel/tracing");
        fs::create_dir_all(tracing.join("events")).unwrap();
        let (own, gone) = (
            "ktrial-10-500-4026531836-a-machine",
            "ktrial-9-1-4026531836-a-machine",
        );
        for name in [own, gone, "somebody"] {
            fs::create_dir_all(tracing.join("instances").join(name)).unwrap();
        }
        let tracefs = Tracefs::open(&root).unwrap();
        assert_eq!(tracefs.clear(&root).unwrap(), [gone]);
        assert_eq!(tracefs.clear(&root).unwrap(), [""; 0]);
        assert_eq!(fs::read_dir(tracing.join("instances")).unwrap().count(), 2);
    }

    #[test]
    fn numbers_of_threads_are_the_kernels_in_the_first_namespace_only() {
        let (folder, root) = machine(&[]);
        assert_eq!(why_other_numbers(&root), None);
        let spaces = folder.path().join("proc/self/ns");
        fs::create_dir_all(&spaces).unwrap();
        std::os::unix::fs::symlink("pid:[77]", spaces.join("pid")).unwrap();
        assert!(why_other_numbers(&root).unwrap().contains("(77)"));
    }

    #[test]
    fn another_root_without_tracefs_has_none() {
        let (_folder, root) = machine(&[]);
        assert!(Tracefs::open(&root).unwrap_err().contains("the root is not /"));
    }
}
