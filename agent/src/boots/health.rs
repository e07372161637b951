// SPDX-License-Identifier: Apache-2.0
//! Whether a boot is healthy, and what the last one logged.

use super::guards;
use super::oneshot;
use super::record::{self, Event, Happened};
use super::{entries_of, event, prepared, running, LOOK};
use crate::error::Result;
use crate::kernel_log;
use crate::root::Root;
use crate::transact::context::Context;
use crate::transact::programs;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, Instant};

/// How long to wait for the network after everything else has started.
const NETWORK_LOOKS: u32 = 30;
/// Jobs of systemd that are named if a boot takes too long.
const JOBS: usize = 5;
/// Lines of a failed boot's log that are kept.
const LINES: usize = 40;

/// Where the firmware's dumps of panics are, and where `systemd-pstore` moves them.
const DUMPS: [&str; 2] = ["/sys/fs/pstore", "/var/lib/systemd/pstore"];

/// Texts of the kernel's log that speak of damage.
const BAD: [&str; 12] = [
    "BUG:",
    "Oops",
    "WARNING: CPU",
    "general protection fault",
    "Call Trace",
    "soft lockup",
    "blocked for more than",
    "rcu: INFO:",
    "I/O error",
    "EXT4-fs error",
    "BTRFS error",
    "Corruption",
];
/// The kernel's message about arguments that it does not know and passes on to init.
const UNKNOWN: &str = "Unknown kernel command line parameters";

/// The state of the machine with which a boot is compared.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Baseline {
    /// Units that had failed.
    pub failed: BTreeSet<String>,
    /// Network interfaces that were up.
    pub network: BTreeSet<String>,
    /// Bad lines of the kernel's log, without numbers.
    pub log: BTreeSet<String>,
    /// Whether the root file system could be written.
    pub writable: bool,
}

/// Looks at the machine as it is now.
pub fn baseline(root: &Root) -> Baseline {
    Baseline {
        failed: failed_units(root).unwrap_or_default(),
        network: interfaces(root),
        log: bad_lines(root).iter().map(|line| plain(line)).collect(),
        writable: is_writable(root),
    }
}

pub(super) fn asked(root: &Root, argv: &[&str]) -> Option<String> {
    let argv: Vec<String> = argv.iter().map(|word| (*word).to_owned()).collect();
    programs::output(root, &argv).ok()
}

/// Returns the failed units; None if systemd does not answer.
fn failed_units(root: &Root) -> Option<BTreeSet<String>> {
    let text = asked(
        root,
        &["systemctl", "list-units", "--failed", "--plain", "--no-legend"],
    )?;
    let names = text.lines().filter_map(|line| line.split_whitespace().next());
    Some(names.map(str::to_owned).collect())
}

fn interfaces(root: &Root) -> BTreeSet<String> {
    let names = root.list("/sys/class/net").unwrap_or_default();
    let is_up = |name: &String| {
        // Others come and go with containers, guests and logins.
        root.path(&format!("/sys/class/net/{name}/device")).exists()
            && root
                .read_text(&format!("/sys/class/net/{name}/operstate"))
                .is_ok_and(|state| state == "up")
    };
    names.into_iter().filter(is_up).collect()
}

fn is_writable(root: &Root) -> bool {
    let found = rustix::fs::statvfs(root.base());
    found.is_ok_and(|found| !found.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY))
}

fn kernel_lines(root: &Root) -> Vec<String> {
    kernel_log::read(root, Some(0))
        .map(|log| log.texts())
        .unwrap_or_default()
}

fn bad_lines(root: &Root) -> Vec<String> {
    let is_bad = |line: &String| BAD.iter().any(|bad| line.contains(bad));
    kernel_lines(root).into_iter().filter(is_bad).collect()
}

/// Returns a line's words without numbers and addresses, which differ from boot to boot.
fn plain(line: &str) -> String {
    let is_number = |word: &&str| word.chars().any(|character| character.is_ascii_digit());
    let words = line.split(|character: char| !character.is_ascii_alphanumeric());
    words
        .filter(|word| !word.is_empty() && !is_number(word))
        .collect::<Vec<_>>()
        .join(" ")
}

/// Returns the faults of the present boot of an entry.
fn faults(root: &Root, before: &Baseline, words: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    match failed_units(root) {
        None => found.push("systemd does not say which units have failed".to_owned()),
        Some(failed) => {
            let new: Vec<&str> = failed.difference(&before.failed).map(String::as_str).collect();
            if !new.is_empty() {
                found.push(format!(
                    "units that did not fail before have failed: {}",
                    new.join(", ")
                ));
            }
        }
    }
    let lines = kernel_lines(root);
    let bad = lines
        .iter()
        .find(|line| BAD.iter().any(|bad| line.contains(bad)) && !before.log.contains(&plain(line)));
    if let Some(line) = bad {
        found.push(format!("the kernel logged: {line}"));
    }
    let unknown = lines
        .iter()
        .find_map(|line| line.split_once(UNKNOWN).map(|(_, rest)| rest));
    for word in words {
        let name = word.split('=').next().unwrap_or(word);
        let is_unknown = unknown.is_some_and(|rest| {
            rest.split(['"', ' ', ','])
                .any(|one| one.split('=').next() == Some(name))
        });
        if is_unknown {
            found.push(format!("the kernel does not know {word}"));
        }
    }
    let line = root.read_text("/proc/cmdline").unwrap_or_default();
    for word in words
        .iter()
        .filter(|word| !line.split_ascii_whitespace().any(|one| one == word.as_str()))
    {
        found.push(format!("{word} is not on the kernel's command line"));
    }
    if before.writable && !is_writable(root) {
        found.push("the root file system cannot be written".to_owned());
    }
    found
}

/// Returns the unit that systemd boots into.
fn target(root: &Root) -> String {
    let line = root.read_text("/proc/cmdline").unwrap_or_default();
    let named = line
        .split_ascii_whitespace()
        .filter_map(|word| word.strip_prefix("systemd.unit="))
        .next_back();
    named.unwrap_or("default.target").to_owned()
}

fn has_reached(root: &Root, target: &str) -> bool {
    let state = asked(
        root,
        &["systemctl", "show", "--property=ActiveState", "--value", target],
    );
    state.is_some_and(|state| state.trim() == "active")
}

fn wait_for_target(root: &Root, limit: Duration) -> Vec<String> {
    let began = Instant::now();
    let target = target(root);
    while !has_reached(root, &target) {
        if began.elapsed() > limit {
            let mut why = vec![format!("{target} was not reached within {} s", limit.as_secs())];
            let jobs = asked(root, &["systemctl", "list-jobs", "--plain", "--no-legend"]).unwrap_or_default();
            why.extend(
                jobs.lines()
                    .take(JOBS)
                    .map(|line| format!("waiting: {}", line.trim())),
            );
            return why;
        }
        std::thread::sleep(LOOK);
    }
    Vec::new()
}

fn wait_for_network(root: &Root, before: &Baseline) -> Vec<String> {
    for _ in 0..NETWORK_LOOKS {
        if before.network.is_subset(&interfaces(root)) {
            return Vec::new();
        }
        std::thread::sleep(LOOK);
    }
    let now = interfaces(root);
    let down: Vec<&str> = before.network.difference(&now).map(String::as_str).collect();
    vec![format!("network interfaces are not up: {}", down.join(", "))]
}

/// Judges the present boot if it is one of our entries: waits for its target and for the units that
/// guard it, looks for faults, and records the result. Returns whether the boot may stay. If it may
/// not, or if this process cannot run or hangs, the unit that runs this reboots.
///
/// # Errors
///
/// The record cannot be read or written.
pub fn health(context: &Context, limit: Duration, guards: &[String]) -> Result<bool> {
    context.need_root()?;
    let root = &context.root;
    let Some(id) = running(root) else { return Ok(true) };
    context.store.prepare()?;
    let transaction = {
        let _lock = context.store.lock_waiting()?;
        let events = record::read(context)?;
        let here = context.store.boot_id();
        let judged =
            |one: &&Event| one.boot_id == here && matches!(one.what, Happened::Healthy | Happened::Failed);
        if let Some(found) = events.iter().find(judged) {
            return Ok(found.what == Happened::Healthy);
        }
        let transaction = prepared(context)?;
        let started = Event {
            transaction: transaction.as_ref().map(|one| one.id),
            ..event(context, Happened::Started, &id)
        };
        record::append(context, &started)?;
        transaction
    };
    let entry = transaction
        .iter()
        .flat_map(entries_of)
        .find(|(_, one)| one.id == id);
    let is_kept = || entry.map_or_else(Vec::new, |(path, _)| kept_by_loader(root, path, &id));
    let began = Instant::now();
    let mut why = is_kept();
    if why.is_empty() {
        why = wait_for_target(root, limit);
    }
    if why.is_empty() {
        // Once more: /boot may not have been mounted before.
        why = is_kept();
    }
    if why.is_empty() {
        why = guards::wait(root, guards, began, limit);
    }
    let events = record::read(context)?;
    let own = |one: &&Event| one.transaction == transaction.as_ref().map(|one| one.id);
    let before = events.iter().rev().filter(own).find_map(|one| one.before.clone());
    let before = before.unwrap_or_default();
    let words: Vec<String> = entry
        .map(|(_, one)| one.words.iter().map(crate::transact::forms::Word::text).collect())
        .unwrap_or_default();
    if why.is_empty() {
        why = faults(root, &before, &words);
    }
    if why.is_empty() {
        why = wait_for_network(root, &before);
    }
    let is_healthy = why.is_empty();
    let log = if is_healthy {
        Vec::new()
    } else {
        newest(kernel_lines(root))
    };
    let what = if is_healthy {
        Happened::Healthy
    } else {
        Happened::Failed
    };
    let _lock = context.store.lock_waiting()?;
    record::append(
        context,
        &Event {
            why,
            log,
            transaction: transaction.as_ref().map(|one| one.id),
            ..event(context, what, &id)
        },
    )?;
    Ok(is_healthy)
}

/// Returns why the loader would start this entry again, and disarms the entry, because otherwise
/// the machine would never come back to its default entry.
fn kept_by_loader(root: &Root, path: &str, id: &str) -> Vec<String> {
    if oneshot::armed(root, path).as_deref() != Some(id) {
        return Vec::new();
    }
    let mut why = vec!["the boot loader did not clear its one-shot entry".to_owned()];
    why.extend(oneshot::clear(root, path).err().map(|refusal| refusal.message));
    why
}

fn newest(lines: Vec<String>) -> Vec<String> {
    let start = lines.len().saturating_sub(LINES);
    lines.into_iter().skip(start).collect()
}

/// Returns the last lines that a boot logged: from the journal, if the boot got that far, or from
/// the dump of a panic that the firmware has kept since the second `since`.
pub fn last_lines(root: &Root, boot_id: Option<&str>, since: u64) -> Vec<String> {
    if let Some(boot_id) = boot_id {
        return journal(root, boot_id, true);
    }
    let dump = dumps(root).into_iter().filter(|(at, _)| *at >= since).max();
    let text = dump.and_then(|(_, path)| root.read_text(&path).ok());
    newest(text.unwrap_or_default().lines().map(str::to_owned).collect())
}

/// Returns the dumps that the firmware keeps of panics, or that `systemd-pstore` has moved into folders of
/// its own, each with the second when it was written.
fn dumps(root: &Root) -> Vec<(u64, String)> {
    let mut folders: Vec<String> = DUMPS.map(str::to_owned).to_vec();
    for moved in root.list(DUMPS[1]).unwrap_or_default() {
        let folder = format!("{}/{moved}", DUMPS[1]);
        for name in root.list(&folder).unwrap_or_default() {
            folders.push(format!("{folder}/{name}"));
        }
        folders.push(folder);
    }
    let names = folders.iter().flat_map(|folder| {
        let names = root.list(folder).unwrap_or_default();
        names.into_iter().map(move |name| format!("{folder}/{name}"))
    });
    let is_dump = |path: &String| {
        path.rsplit('/')
            .next()
            .is_some_and(|name| name.starts_with("dmesg"))
    };
    names
        .filter(is_dump)
        .filter_map(|path| {
            let at = std::fs::metadata(root.path(&path)).ok()?.mtime();
            Some((u64::try_from(at).unwrap_or(0), path))
        })
        .collect()
}

/// Returns the last lines of a boot in the journal: only the kernel's, which contain no secrets, or
/// all.
fn journal(root: &Root, boot_id: &str, only_kernel: bool) -> Vec<String> {
    let count = LINES.to_string();
    let id = boot_id.replace('-', "");
    let source = if only_kernel { "--dmesg" } else { "--all" };
    let argv = [
        "journalctl",
        "--no-pager",
        "--output=short-monotonic",
        source,
        "--lines",
        &count,
        "--boot",
        &id,
    ];
    let text = asked(root, &argv).unwrap_or_default();
    newest(text.lines().map(str::to_owned).collect())
}

/// Whether a boot ended with a shutdown, as far as the journal shows; true without a journal.
pub fn has_shut_down(root: &Root, boot_id: &str) -> bool {
    let lines = journal(root, boot_id, false);
    lines.is_empty() || ends_with_shutdown(&lines)
}

fn ends_with_shutdown(lines: &[String]) -> bool {
    let ends = ["Journal stopped", "systemd-shutdown["];
    lines
        .iter()
        .rev()
        .take(5)
        .any(|line| ends.iter().any(|end| line.contains(end)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boot_that_dies_at_its_target_was_not_shut_down() {
        let lines = |text: &[&str]| text.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
        let died = lines(&[
            "[9.1] guest systemd[1]: Reached target graphical.target.",
            "[9.2] guest kernel: x",
        ]);
        assert!(!ends_with_shutdown(&died));
        let over = lines(&[
            "[90.1] guest systemd[1]: Shutting down.",
            "[90.2] guest systemd-shutdown[1]: Syncing filesystems and block devices.",
            "[90.3] guest systemd-journald[183]: Journal stopped",
        ]);
        assert!(ends_with_shutdown(&over));
    }

    #[test]
    fn the_newest_dump_of_this_attempt_is_found_where_systemd_moved_it() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        let put = |path: &str, text: &str, second: u64| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, text).unwrap();
            let at = std::time::UNIX_EPOCH + Duration::from_secs(second);
            std::fs::File::options()
                .write(true)
                .open(&path)
                .unwrap()
                .set_modified(at)
                .unwrap();
        };
        assert_eq!(last_lines(&root, None, 0), Vec::<String>::new());
        put("sys/fs/pstore/dmesg-efi-1", "of last year", 100);
        put(
            "var/lib/systemd/pstore/1700000000/dmesg-efi-2",
            "of this attempt\npanic",
            300,
        );
        put(
            "var/lib/systemd/pstore/1690000000/001/dmesg.txt",
            "of the attempt before",
            200,
        );
        assert_eq!(last_lines(&root, None, 250), ["of this attempt", "panic"]);
        assert_eq!(last_lines(&root, None, 301), Vec::<String>::new());
    }

    #[test]
    fn the_unit_that_was_booted_is_awaited() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        assert_eq!(target(&root), "default.target");
        std::fs::create_dir(folder.path().join("proc")).unwrap();
        std::fs::write(
            folder.path().join("proc/cmdline"),
            "quiet systemd.unit=a.target systemd.unit=rescue.target\n",
        )
        .unwrap();
        assert_eq!(target(&root), "rescue.target");
    }

    #[test]
    fn lines_are_compared_without_what_differs_from_boot_to_boot() {
        let first = plain("BUG: unable to handle page fault for address: ffffa3d01234 on CPU 1");
        assert_eq!(
            first,
            plain("BUG: unable to handle page fault for address: ffff00001111 on CPU 3")
        );
        assert_ne!(first, plain("BUG: scheduling while atomic"));
    }
}
