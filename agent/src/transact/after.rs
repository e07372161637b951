// SPDX-License-Identifier: Apache-2.0
//! What follows the write of some configuration files, and their undo: a program reads them and
//! generates its own file.

use crate::boots;
use crate::root::Root;
use crate::transact::allow::{self, Purpose};
use crate::transact::files::{self, Rights};
use crate::transact::journal::Old;
use crate::transact::machine::{self, Outcome, Refusal};
use crate::transact::programs;
use crate::transact::transaction::Transaction;
use rustix::io::Errno;
use std::path::Path;

/// Folder of GRUB's drop-ins, with `/` at its end.
const GRUB_FOLDER: &str = "/etc/default/grub.d/";
const UNITS: &str = "/etc/systemd/system/";

/// The unit that continues after a boot.
const NEXT_BOOT: &str = "/etc/systemd/system/ktrial-boot-next.service";
/// The drop-in that starts a timer at boot; the timer itself starts and stops with it.
const OF_TIMERS: &str = "/etc/systemd/system/timers.target.d/ktrial.conf";
const TIMER: &str = "ktrial-drift.timer";

/// The files that GRUB reads at boot; `grub-mkconfig` generates the first one present.
const GRUB_FILES: [&str; 2] = ["/boot/grub/grub.cfg", "/boot/grub2/grub.cfg"];

/// Whether a path is a file that a program makes from configuration files.
#[must_use]
pub fn is_made(path: &str) -> bool {
    GRUB_FILES.contains(&path) || boots::GRUB_ENVIRONMENTS.contains(&path)
}

/// Returns the file that a program makes from the configuration file at `path`, if there is one.
#[must_use]
pub fn made_from(root: &Root, path: &str) -> Option<&'static str> {
    let made = match path {
        _ if path.starts_with(GRUB_FOLDER) => GRUB_FILES,
        _ if boots::is_grub_entries(path) => boots::GRUB_ENVIRONMENTS,
        _ => return None,
    };
    made.into_iter().find(|file| root.path(file).is_file())
}

/// Refuses a configuration file whose program is missing, does not read it, or cannot write.
pub fn check(root: &Root, path: &str) -> Result<(), Refusal> {
    if boots::is_grub_entries(path) {
        return boots::check_entries_file(root, path);
    }
    if !path.starts_with(GRUB_FOLDER) {
        return Ok(());
    }
    let refuse = |outcome, errno: Errno, message: String| Refusal {
        outcome,
        errno: errno.raw_os_error(),
        message,
    };
    let program = programs::has(root, "grub-mkconfig")?;
    let reads = std::fs::read_to_string(&program).is_ok_and(|text| text.contains("default/grub.d"));
    if !reads {
        let message = format!("{} does not read {GRUB_FOLDER}", program.display());
        return Err(refuse(Outcome::Refused, Errno::NOTSUP, message));
    }
    let Some(made) = made_from(root, path) else {
        let message = format!("GRUB has no file at {}", GRUB_FILES.join(" or "));
        return Err(refuse(Outcome::Absent, Errno::NOENT, message));
    };
    let content = machine::read(root, made, Purpose::Own)?;
    if content.truncated {
        let message = format!("{made} is too long to be restored later");
        return Err(refuse(Outcome::Refused, Errno::FBIG, message));
    }
    let file = root.path(made);
    let folder = file.parent().unwrap_or(Path::new("/"));
    let cannot = |errno: Errno| Refusal::of("write", made, &errno.into());
    rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).map_err(cannot)?;
    let space = rustix::fs::statvfs(folder).map_err(cannot)?;
    // grub-mkconfig writes the new file next to the old one, and so does the agent.
    let needed = content.bytes.len() as u64 * 2 + 65_536;
    if space.f_bavail.saturating_mul(space.f_frsize) < needed {
        return Err(cannot(Errno::NOSPC));
    }
    Ok(())
}

/// Runs the program that must follow the write of the configuration file at `path`.
pub fn run(root: &Root, path: &str) -> Result<(), Refusal> {
    reload(root, path);
    make(root, path)
}

/// Generates the file that is made from the configuration file at `path`, if there is one.
pub fn make(root: &Root, path: &str) -> Result<(), Refusal> {
    match made_from(root, path) {
        Some(made) if boots::GRUB_ENVIRONMENTS.contains(&made) => Ok(()),
        Some(made) => programs::run(root, &["grub-mkconfig", "-o", made].map(str::to_owned)),
        None => Ok(()),
    }
}

/// Restores a generated file: its old bytes if nobody has generated it since, for instance for a new
/// kernel; otherwise the program generates it from the restored configuration `source`.
pub fn restore(root: &Root, source: &str, transaction: &Transaction, old: &Old) -> Result<(), Refusal> {
    if boots::GRUB_ENVIRONMENTS.contains(&old.path.as_str()) {
        return boots::restore(root, &old.path, old.bytes.as_deref().unwrap_or_default());
    }
    let applied = transaction.applied.as_ref();
    let made = applied.and_then(|values| values.get(&old.path));
    let now = machine::read(root, &old.path, Purpose::Own)?.bytes;
    if made == Some(&now) {
        return put_back(root, transaction, old);
    }
    match make(root, source) {
        Err(_) if applied.is_none() && transaction.this_boot => put_back(root, transaction, old),
        result => result,
    }
}

fn put_back(root: &Root, transaction: &Transaction, old: &Old) -> Result<(), Refusal> {
    let file =
        allow::check(root, &old.path, Purpose::Own).map_err(|denial| Refusal::denied(denial, &old.path))?;
    let rights = Rights {
        mode: old.mode_bits().unwrap_or(0o600),
        owner: old.uid.zip(old.gid),
    };
    let bytes = old.bytes.clone().unwrap_or_default();
    files::put_at(&file, &bytes, rights, transaction.id)
        .map_err(|error| Refusal::of("write", &old.path, &error))
}

/// Lets systemd read its units again, if the file is a unit. A failure is only reported: at the
/// next boot systemd reads them anyway.
pub fn reload(root: &Root, path: &str) {
    boots::forget_entry(root, path);
    if path == NEXT_BOOT && !machine::exists(root, path) {
        boots::forget_notice(root);
    }
    if !path.starts_with(UNITS) || !root.is_real() || !machine::exists(root, "/run/systemd/system") {
        return;
    }
    let mut commands = vec![vec!["systemctl", "daemon-reload"]];
    if path == OF_TIMERS {
        let verb = if machine::exists(root, path) {
            "start"
        } else {
            "stop"
        };
        commands.push(vec!["systemctl", verb, TIMER]);
    }
    for argv in commands {
        let argv: Vec<String> = argv.into_iter().map(str::to_owned).collect();
        if let Err(refusal) = programs::run(root, &argv) {
            eprintln!("ktrial-agent: {}", refusal.message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_file_of_grub_is_made_only_where_grub_is() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        let path = "/etc/default/grub.d/ktrial.cfg";
        assert_eq!(made_from(&root, path), None);
        fs::create_dir_all(folder.path().join("boot/grub2")).unwrap();
        fs::write(folder.path().join("boot/grub2/grub.cfg"), "x").unwrap();
        assert_eq!(made_from(&root, path), Some("/boot/grub2/grub.cfg"));
        assert_eq!(made_from(&root, "/etc/sysctl.d/ktrial.conf"), None);
        assert!(check(&root, "/etc/sysctl.d/ktrial.conf").is_ok());
        let refusal = check(&root, path).unwrap_err();
        assert!(refusal.message.contains("grub-mkconfig"), "{}", refusal.message);
        assert!(
            make(&root, path).is_err(),
            "another machine's file is not made here"
        );
        assert!(run(&root, "/etc/systemd/system/ktrial-keep.service").is_ok());
    }
}
