// SPDX-License-Identifier: Apache-2.0
//! The allow-list: a session may write and read the paths that the catalog names or that root has
//! added, except those that the lists forbid. Both the requested path and the path that its
//! symbolic links lead to are checked.

mod knobs_d;
mod lists;
mod pattern;
mod words;

use crate::root::Root;
use pattern::{after_first_star, any, covers};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

pub use pattern::fits;
pub use words::{check as check_word, check_removal, is_fixed_name, is_guarded_removal, is_unfit_default};

const FILES: lists::Patterns = &[
    "/etc/sysctl.d/*",
    "/etc/udev/rules.d/*",
    "/etc/modprobe.d/*",
    "/etc/tmpfiles.d/*",
    "/etc/systemd/zram-generator.conf.d/*",
    "/etc/systemd/system/*",
    "/etc/systemd/system/multi-user.target.d/*",
    "/etc/systemd/system/timers.target.d/*",
    "/etc/systemd/system/sysinit.target.d/*",
    "/efi/loader/entries/*",
    "/boot/loader/entries/*",
    "/boot/efi/loader/entries/*",
    "/etc/ktrial-kexec/*",
    "/etc/default/grub.d/*",
];

/// The file of GRUB's own that takes entries besides the generated ones. [`super::after`] refuses one
/// that ktrial did not write.
const GRUB_ENTRIES: lists::Patterns = &["/boot/grub/custom.cfg", "/boot/grub2/custom.cfg"];

/// Configuration files of services, in which ktrial writes only its own lines.
const SHARED: lists::Patterns = &[
    "/etc/scx_loader.toml",
    "/etc/scx_loader/config.toml",
    "/etc/default/scx",
];

const NEVER_WRITTEN: &str =
    "is a path that ktrial never writes: it names a program that root runs, protects the machine, or \
    can stop, reset or remove something that is in use";
const NEVER_READ: &str =
    "is a path that ktrial never reads as root: it contains a secret, or reading it has side effects";

/// What a path is needed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Write a knob that a plan names, and read it before and after.
    Write,
    /// Restore what root's own journal holds, even for a knob that root has since removed from
    /// `knobs.d`.
    Undo,
    /// Write for the agent's own steps, which no plan names.
    Own,
    /// Put or remove a configuration file.
    File,
    /// Read as root.
    Read,
    /// List names as root.
    Names,
    /// Read with the user's own rights.
    ReadAsUser,
}

/// Why a path cannot be opened.
#[derive(Debug)]
pub enum Denial {
    /// The path is outside the allow-list; the text says which path and why.
    Forbidden(String),
    /// The system returned an error while the path was resolved.
    System(io::Error),
}

/// Path patterns of the knobs in the catalog.
#[derive(Debug)]
struct Catalog {
    written: Vec<&'static str>,
    read: Vec<&'static str>,
    /// Words of the kernel's command line.
    words: Vec<&'static str>,
}

/// How a path is allowed.
#[derive(Debug, Clone, Copy)]
struct Admitted {
    /// How many of its last components must stay the same behind a link of the kernel's; 0 if no
    /// link is followed.
    kept: usize,
    /// Whether the path is allowed only if everybody may read it.
    as_everybody: bool,
}

type Judged = Result<Admitted, String>;

/// Returns the file to open for the machine's path `path`, with all links resolved. The file itself
/// may be absent.
pub fn check(root: &Root, path: &str, purpose: Purpose) -> Result<PathBuf, Denial> {
    let asked = clean(path).map_err(|why| Denial::Forbidden(format!("{path:?} {why}")))?;
    let admitted = judge(root, &asked, purpose).map_err(|why| Denial::Forbidden(format!("{path} {why}")))?;
    let resolved = root.resolve(&asked).map_err(Denial::System)?;
    let Some(resolved) = resolved else {
        return Err(Denial::Forbidden(format!(
            "{path} leads outside the machine's root"
        )));
    };
    let is_link = is_kernels_link(&asked, &resolved, admitted.kept);
    if resolved != asked && (!is_link || is_never(&resolved, purpose)) {
        judge(root, &resolved, purpose)
            .map_err(|why| Denial::Forbidden(format!("{path} leads to {resolved}, which {why}")))?;
    }
    if admitted.as_everybody && !everybody_reads(root, &resolved) {
        return Err(Denial::Forbidden(format!(
            "cannot read {path} as root: it is not a knob, and not world-readable"
        )));
    }
    Ok(root.path(&resolved))
}

/// Collapses doubled slashes. Fails unless the path is absolute and without `.` and `..`.
fn clean(path: &str) -> Result<String, &'static str> {
    if !path.starts_with('/') {
        return Err("is not an absolute path");
    }
    if path.contains('\0') {
        return Err("contains a NUL byte");
    }
    let mut cleaned = String::with_capacity(path.len());
    for component in path.split('/').filter(|component| !component.is_empty()) {
        if component == "." || component == ".." {
            return Err("contains `.` or `..`");
        }
        cleaned.push('/');
        cleaned.push_str(component);
    }
    if cleaned.is_empty() {
        return Err("does not name a file");
    }
    Ok(cleaned)
}

fn judge(root: &Root, path: &str, purpose: Purpose) -> Judged {
    if is_never(path, purpose) {
        return Err(match purpose {
            Purpose::Read => NEVER_READ,
            _ => NEVER_WRITTEN,
        }
        .to_owned());
    }
    let when = |allowed: bool, kept: usize, why: &str| {
        let admitted = Admitted {
            kept,
            as_everybody: false,
        };
        allowed.then_some(admitted).ok_or_else(|| why.to_owned())
    };
    match purpose {
        Purpose::Write => may_write(root, path),
        Purpose::Read => may_read(root, path),
        Purpose::Undo => when(any(lists::KNOBS, path), 1, "is not in a folder of knobs"),
        Purpose::Own => when(
            any(lists::OWN, path),
            1,
            "is not a path that the agent writes on its own",
        ),
        Purpose::Names => when(
            is_named(path),
            1,
            "is not in a folder that the agent lists as root",
        ),
        Purpose::ReadAsUser => when(true, 0, ""),
        Purpose::File => {
            let ours = any(FILES, path) && ours(path.rsplit('/').next().unwrap_or_default());
            when(
                ours || any(GRUB_ENTRIES, path) || any(SHARED, path),
                0,
                "is not a ktrial file in a folder that the agent writes",
            )
        }
    }
}

/// Whether a file that root may read can contain a password, which root does not hand out.
#[must_use]
pub fn may_hold_password(file: &Path) -> bool {
    file.file_name()
        .is_some_and(|name| lists::MAY_HOLD_PASSWORD.iter().any(|one| name == *one))
}

fn may_write(root: &Root, path: &str) -> Judged {
    if let Some(admitted) = admitted(&catalog().written, path) {
        return Ok(admitted);
    }
    let added = knobs_d::read(root);
    admitted(&added.written, path)
        .ok_or_else(|| added.why_not("is not a path that the agent may write: no knob in the catalog has it"))
}

fn may_read(root: &Root, path: &str) -> Judged {
    let catalog = catalog();
    let known = admitted(&catalog.written, path).or_else(|| admitted(&catalog.read, path));
    if let Some(admitted) = known.or_else(|| admitted(lists::READ, path)) {
        return Ok(admitted);
    }
    if everybody_may(path) {
        return Ok(Admitted {
            kept: 1,
            as_everybody: true,
        });
    }
    let added = knobs_d::read(root);
    admitted(&added.written, path)
        .or_else(|| admitted(&added.read, path))
        .ok_or_else(|| "is not a path that the agent may read as root".to_owned())
}

fn admitted<P: AsRef<str>>(patterns: &[P], path: &str) -> Option<Admitted> {
    let pattern = patterns.iter().find(|pattern| covers(pattern.as_ref(), path))?;
    Some(Admitted {
        kept: after_first_star(pattern.as_ref()),
        as_everybody: false,
    })
}

fn catalog() -> &'static Catalog {
    static CATALOG: OnceLock<Catalog> = OnceLock::new();
    CATALOG.get_or_init(|| {
        let lines = include_str!("allow/catalog.txt").lines();
        let of = |word: &'static str| {
            lines
                .clone()
                .filter_map(move |line| line.strip_prefix(word))
                .collect()
        };
        Catalog {
            written: of("write "),
            read: of("read "),
            words: of("boot "),
        }
    })
}

/// Whether the path is forbidden for a purpose, whoever names it.
fn is_never(path: &str, purpose: Purpose) -> bool {
    match purpose {
        Purpose::Write | Purpose::Undo => never_written(path),
        Purpose::Read => {
            let is_secret = any(lists::NEVER_READ, path) || any(lists::NEVER_READ_NAMES, name(path));
            is_secret && !any(lists::OF_THIS_BOOT, path)
        }
        _ => false,
    }
}

fn never_written(path: &str) -> bool {
    let device =
        path.starts_with("/sys/") && !path.starts_with("/sys/module/") && !path.starts_with("/sys/kernel/");
    let of_device = || {
        any(lists::NEVER_WRITE_NAMES, name(path))
            || path
                .split('/')
                .any(|folder| lists::NEVER_WRITE_FOLDERS.contains(&folder))
    };
    any(lists::NEVER_WRITE, path)
        || device && of_device()
        || any(lists::GROUPS, path) && any(lists::NEVER_WRITE_OF_GROUPS, name(path))
}

fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

/// Whether root may read the path if everybody may.
fn everybody_may(path: &str) -> bool {
    let of_folder = || {
        let rest = lists::CONFIGURATION
            .iter()
            .find_map(|folder| path.strip_prefix(folder));
        rest.is_some_and(|rest| any(lists::READ_OF_CONFIGURATION, rest))
    };
    any(lists::READ_AS_EVERYBODY, path) || of_folder()
}

/// Whether the modes of a path and its folders let everybody read it. An absent path counts as
/// readable.
fn everybody_reads(root: &Root, path: &str) -> bool {
    let lets = |path: &Path, bits: u32| {
        let found = fs::metadata(root.path(&path.to_string_lossy()));
        found.map_or(true, |found| found.mode() & bits == bits)
    };
    let mut folders = Path::new(path)
        .ancestors()
        .skip(1)
        .filter(|folder| folder.parent().is_some());
    lets(Path::new(path), 0o004) && folders.all(|folder| lets(folder, 0o001))
}

/// Whether root reveals the existence of a path: in the kernel's trees except for folders of
/// processes, and wherever it may read.
fn is_named(path: &str) -> bool {
    let of_process = path.strip_prefix("/proc/").is_some_and(|rest| {
        let first = rest.split('/').next().unwrap_or_default();
        matches!(first, "self" | "thread-self") || first.bytes().all(|byte| byte.is_ascii_digit())
    });
    any(lists::NAMED, path) && !of_process || any(lists::READ, path) || everybody_may(path)
}

/// Whether a link of the kernel's leads from one path to the other: from a device's class or bus to
/// the device, or from `/proc/self` to the process. The last `kept` components must be the same.
fn is_kernels_link(asked: &str, resolved: &str, kept: usize) -> bool {
    let is_process = |rest: &str| {
        rest.split('/')
            .next()
            .is_some_and(|first| first.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let between = asked.starts_with("/sys/") && resolved.starts_with("/sys/devices/")
        || asked.starts_with("/proc/self/") && resolved.strip_prefix("/proc/").is_some_and(is_process);
    let end = |path: &str| path.rsplit('/').take(kept).map(str::to_owned).collect::<Vec<_>>();
    between && end(asked) == end(resolved)
}

/// Whether the name marks a configuration file as ktrial's: `ktrial…` or `NN-ktrial…`.
fn ours(name: &str) -> bool {
    let rest = name.strip_prefix(|first: char| first.is_ascii_digit());
    let rest = rest.and_then(|rest| rest.strip_prefix(|second: char| second.is_ascii_digit()));
    let rest = rest.and_then(|rest| rest.strip_prefix('-'));
    rest.unwrap_or(name).starts_with("ktrial")
}

#[cfg(test)]
mod tests;
