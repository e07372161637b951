// SPDX-License-Identifier: Apache-2.0
//! Boots of entries that a transaction has prepared: arms one for the next boot, judges the boot,
//! and records how it ended.

mod ending;
mod grubenv;
mod guards;
mod health;
mod kexec;
mod next;
mod oneshot;
mod record;

use crate::error::{Error, Kind, Result};
use crate::root::Root;
use crate::transact::allow;
use crate::transact::context::{unix_ms, Context};
use crate::transact::forms::{BootEntry, Form, Word, WORD};
use crate::transact::machine::{Outcome, Refusal};
use crate::transact::plan::Step;
use crate::transact::programs;
use crate::transact::transaction::{State, Transaction};
use record::{Event, Happened};
use rustix::io::Errno;
use serde_json::{json, Value};
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use ending::settle;
pub use guards::check_guards;
pub use health::health;
pub use next::{announce, forget_notice, give_up, next};
pub use oneshot::{check_entries_file, forget_entry, is_grub_entries, restore, GRUB_ENVIRONMENTS};

/// Time between two looks while waiting.
const LOOK: Duration = Duration::from_secs(1);
/// Folders that may contain the kernels of entries.
const KERNELS: [&str; 2] = ["/boot/", "/efi/"];
/// Events of a reply that come with their logs.
const LOGS: usize = 20;
/// Words that a loader adds for itself.
const OF_LOADERS: [&str; 2] = ["BOOT_IMAGE", "initrd"];

/// Refuses an entry of the file at `path` unless the loader would load root's own files from the
/// file system that they are on. Also refuses a command line with words that did not boot this
/// machine and are not new words that [`crate::transact::allow`] has checked, or without a word
/// that protects the machine and is not in `confirmed`.
pub fn check_entry(
    root: &Root,
    path: &str,
    entry: &BootEntry,
    confirmed: &[String],
) -> std::result::Result<(), Refusal> {
    check_words(root, entry, confirmed)?;
    let id = &entry.id;
    let Some(mount) = entry.file.strip_suffix(&entry.kernel) else {
        return forbid(format!(
            "{id}: the loader's {} is not {}",
            entry.kernel, entry.file
        ));
    };
    let initrds = entry.initrds.iter().map(|one| format!("{mount}{one}"));
    for file in std::iter::once(entry.file.clone()).chain(initrds) {
        check_file(root, id, &file)?;
    }
    if root.is_real() {
        check_place(root, path, entry, mount)?;
    }
    Ok(())
}

fn forbid(message: String) -> std::result::Result<(), Refusal> {
    Err(Refusal {
        outcome: Outcome::Forbidden,
        errno: Errno::PERM.raw_os_error(),
        message,
    })
}

fn check_words(root: &Root, entry: &BootEntry, confirmed: &[String]) -> std::result::Result<(), Refusal> {
    let id = &entry.id;
    let line = root
        .read_text("/proc/cmdline")
        .map_err(|error| Refusal::of("read", "/proc/cmdline", &error))?;
    let booted: BTreeSet<&str> = line.split_ascii_whitespace().collect();
    // The kernel takes the last of two words: another order could mean something else.
    let mut rest = line.split_ascii_whitespace();
    if let Some(word) = entry
        .base
        .iter()
        .find(|word| !rest.any(|one| one == word.as_str()))
    {
        return forbid(format!(
            "{id}: {word} did not boot this machine, or not in this order; give it as a new kernel argument"
        ));
    }
    if entry.base.iter().any(|word| word == "--") {
        return forbid(format!(
            "{id}: init gets everything after `--`, so the arguments that lead back would be lost"
        ));
    }
    let stays = |word: &str| {
        entry.base.iter().any(|one| one == word) || entry.words.iter().any(|one| one.key() == key_of(word))
    };
    for word in booted.iter().filter(|word| !stays(word)) {
        let key = key_of(word);
        if OF_LOADERS.contains(&key.as_str()) {
            continue;
        }
        if allow::is_fixed_name(&key) {
            return forbid(format!(
                "{id}: ktrial never boots without {word}: it decides what runs as root"
            ));
        }
        if allow::is_guarded_removal(&word_of(word), confirmed) {
            return forbid(format!(
                "{id}: booting without {word} may weaken the protection of this machine, so it needs a confirmation of its own"
            ));
        }
    }
    Ok(())
}

/// Refuses a file that the loader would load unless only root can change it.
pub fn check_file(root: &Root, id: &str, path: &str) -> std::result::Result<(), Refusal> {
    if !KERNELS.iter().any(|folder| path.starts_with(folder)) {
        return forbid(format!("{id}: {path} is not in {}", KERNELS.join(" or ")));
    }
    let file = std::fs::canonicalize(root.path(path)).map_err(|error| Refusal::of("find", path, &error))?;
    let is_weak = root.is_real() && !file.ancestors().all(programs::is_roots_alone);
    if is_weak || !file.is_file() {
        return forbid(format!("{id}: {path} is not a file that only root can change"));
    }
    Ok(())
}

/// Refuses an entry that would load its files from another file system than theirs.
fn check_place(root: &Root, path: &str, entry: &BootEntry, mount: &str) -> std::result::Result<(), Refusal> {
    let id = &entry.id;
    if kexec::is_kexec(path) {
        return kexec::check(root, entry);
    }
    if !is_grub_entries(path) {
        let partition = path.split("/loader/entries/").next().unwrap_or_default();
        let is_there = !partition.is_empty() && entry.file == format!("{partition}{}", entry.kernel);
        if !is_there || !oneshot::is_systemd_boot(root) {
            return forbid(format!(
                "{id}: systemd-boot did not boot this machine from the partition of {}",
                entry.file
            ));
        }
        return Ok(());
    }
    let Some(uuid) = &entry.search else {
        return forbid(format!(
            "{id}: GRUB needs the UUID of the file system with {}",
            entry.file
        ));
    };
    let device = std::fs::metadata(root.path(&format!("/dev/disk/by-uuid/{uuid}"))).map(|found| found.rdev());
    let own = |path: &str| std::fs::metadata(root.path(path)).map(|found| found.dev());
    // Where the file system is mounted is where the loader's paths begin.
    let is_mount = mount.is_empty() || own(mount).ok() != own(&format!("{mount}/..")).ok();
    match (device, own(&entry.file)) {
        (Ok(device), Ok(own)) if device == own && is_mount => Ok(()),
        _ => forbid(format!("{id}: {} is not on the file system {uuid}", entry.file)),
    }
}

/// Returns a text of the command line as a word.
pub fn word_of(text: &str) -> Word {
    let (name, value) = text
        .split_once('=')
        .map_or((text, None), |(name, value)| (name, Some(value)));
    Word {
        name: name.to_owned(),
        value: value.map(str::to_owned),
        note: Vec::new(),
    }
}

/// Returns a word's name as the kernel compares it.
#[must_use]
pub fn key_of(word: &str) -> String {
    word.split('=').next().unwrap_or_default().replace('-', "_")
}

/// Returns the newest transaction in force with entries, if there is one.
fn prepared(context: &Context) -> Result<Option<Transaction>> {
    let is_prepared = |one: &Transaction| one.state() == State::Applied && entries_of(one).next().is_some();
    Ok(context.store.transactions()?.into_iter().rev().find(is_prepared))
}

/// Returns the entries of a transaction, each with its file.
fn entries_of(transaction: &Transaction) -> impl Iterator<Item = (&str, &BootEntry)> {
    transaction.steps().iter().flat_map(|step| {
        let (path, entries) = match step {
            Step::File(file) => (
                file.path.as_str(),
                file.holds.as_ref().map(Form::entries).unwrap_or_default(),
            ),
            _ => ("", [].as_slice()),
        };
        entries.iter().map(move |entry| (path, entry))
    })
}

/// Returns the units that must be active for a boot of the transaction to be healthy.
fn guards_of(transaction: &Transaction) -> Vec<String> {
    let forms = transaction.steps().iter().filter_map(|step| match step {
        Step::File(file) => file.holds.as_ref(),
        _ => None,
    });
    forms.flat_map(Form::guards).cloned().collect()
}

/// Returns the entry that booted this machine, if it is one of ours.
fn running(root: &Root) -> Option<String> {
    let line = root.read_text("/proc/cmdline").ok()?;
    let value = |word: &str| word.strip_prefix(WORD)?.strip_prefix('=').map(str::to_owned);
    line.split_ascii_whitespace().filter_map(value).next_back()
}

/// Lets the loader start an entry at the next boot, and only at that one. `then` is the entry to
/// try once this one, the rehearsal, has shown that the machine comes back.
///
/// # Errors
///
/// No transaction in force has the entry, the loader cannot be set, or the record cannot be
/// written.
pub fn arm(context: &Context, id: &str, then: Option<&str>) -> Result<Value> {
    context.need_root()?;
    if !context.store.is_there()? {
        return Err(unknown(id));
    }
    let _lock = context.store.lock_waiting()?;
    settle(context)?;
    arm_locked(context, id, then)
}

fn unknown(id: &str) -> Error {
    Error::new(Kind::NotFound, format!("no entry {id} is prepared")).hint("run `ktrial boot try` first")
}

fn arm_locked(context: &Context, id: &str, then: Option<&str>) -> Result<Value> {
    let transaction = prepared(context)?.ok_or_else(|| unknown(id))?;
    let find = |id: &str| entries_of(&transaction).find(|(_, one)| one.id == id);
    let (path, entry) = find(id).ok_or_else(|| unknown(id))?;
    if let Some(then) = then.filter(|then| find(then).is_none()) {
        return Err(unknown(then));
    }
    check_unchanged(&context.root, &transaction)?;
    let here = running(&context.root).is_none();
    let event = Event {
        transaction: Some(transaction.id),
        then: then.map(str::to_owned),
        loader: oneshot::loader_of(&context.root, path),
        before: here.then(|| health::baseline(&context.root)),
        ..event(context, Happened::Armed, id)
    };
    record::append(context, &event)?;
    oneshot::set(&context.root, path, entry)
        .map_err(|refusal| Error::new(Kind::Io, format!("cannot arm {id}: {}", refusal.message)))?;
    Ok(json!({"armed": id, "transaction": transaction.id}))
}

/// Refuses entries that somebody has edited since they were prepared, because nothing has checked
/// them.
fn check_unchanged(root: &Root, transaction: &Transaction) -> Result<()> {
    for step in transaction.steps() {
        let Step::File(file) = step else { continue };
        let Some(form) = file.holds.as_ref().filter(|form| !form.entries().is_empty()) else {
            continue;
        };
        if root.read_bytes(&file.path).ok() != Some(form.render().into_bytes()) {
            return Err(Error::new(
                Kind::Conflict,
                format!("{} was changed since ktrial prepared it", file.path),
            )
            .hint("`ktrial boot undo`, then prepare the boot again"));
        }
    }
    Ok(())
}

fn event(context: &Context, what: Happened, entry: &str) -> Event {
    Event {
        what,
        entry: entry.to_owned(),
        boot_id: context.store.boot_id(),
        at: unix_ms() / 1000,
        ..Event::default()
    }
}

/// Reboots the machine. Works only while an entry is armed, or in the boot of an entry.
///
/// # Errors
///
/// Nothing is armed, or the machine cannot be rebooted.
pub fn reboot(context: &Context) -> Result<Value> {
    context.need_root()?;
    let transaction = if context.store.is_there()? {
        prepared(context)?
    } else {
        None
    };
    let armed = transaction
        .iter()
        .flat_map(entries_of)
        .find(|(path, _)| oneshot::armed(&context.root, path).is_some());
    if armed.is_none() && running(&context.root).is_none() {
        return Err(
            Error::new(Kind::Conflict, "no entry is armed for the next boot").hint("run `ktrial boot try`")
        );
    }
    if let Some((_, entry)) = armed.filter(|(path, _)| kexec::is_kexec(path)) {
        // Nothing else shows that it was started, if its kernel ends before it can write.
        let begun = Event {
            transaction: transaction.as_ref().map(|one| one.id),
            ..event(context, Happened::Begun, &entry.id)
        };
        let _lock = context.store.lock_waiting()?;
        record::append(context, &begun)?;
        kexec::reboot(&context.root)?;
        return Ok(json!({}));
    }
    let argv = ["systemctl", "--no-block", "reboot"].map(str::to_owned);
    programs::run(&context.root, &argv).map_err(|refusal| Error::new(Kind::Io, refusal.message))?;
    Ok(json!({}))
}

/// Refuses to undo entries while the boot of one of them is checked, because its unit ends a boot
/// that hangs.
///
/// # Errors
///
/// `busy`, or the record cannot be read.
pub fn refuse_while_checked(context: &Context, chosen: &[&Transaction]) -> Result<()> {
    let Some(id) = running(&context.root) else {
        return Ok(());
    };
    let here = context.store.boot_id();
    let events = record::read(context)?;
    let last = events
        .iter()
        .rev()
        .find(|one| one.entry == id && one.boot_id == here);
    let is_checked = last.is_some_and(|one| one.what == Happened::Started);
    if is_checked && chosen.iter().any(|one| entries_of(one).next().is_some()) {
        return Err(Error::new(Kind::Busy, "ktrial is still checking this boot")
            .hint("wait until `ktrial boot status` shows the result"));
    }
    Ok(())
}

/// Refuses while boots are prepared, which need the agent's copy.
///
/// # Errors
///
/// `conflict`.
pub fn refuse_while_prepared(context: &Context) -> Result<()> {
    let transaction = if context.store.is_there()? {
        prepared(context)?
    } else {
        None
    };
    match transaction {
        Some(one) => Err(Error::new(
            Kind::Conflict,
            format!(
                "transaction {} has boots prepared, which the agent's copy judges",
                one.id
            ),
        )
        .hint("run `ktrial boot undo` or `ktrial trial stop` first")),
        None => Ok(()),
    }
}

/// Returns what is prepared, armed and running, what has happened so far, and the version of the
/// loader that reads the prepared entries or, without these, entries at the path `asked`.
/// `with_units` adds the units that are active now.
///
/// # Errors
///
/// A journal or the record cannot be read.
pub fn status(context: &Context, asked: Option<&str>, with_units: bool) -> Result<Value> {
    context.need_root()?;
    let events = if context.store.is_there()? {
        let _lock = context.store.lock()?;
        settle(context)?
    } else {
        Vec::new()
    };
    let transaction = prepared(context)?;
    let entries: Vec<Value> = transaction
        .iter()
        .flat_map(entries_of)
        .map(|(_, one)| shown(one))
        .collect();
    let path = transaction
        .as_ref()
        .and_then(|one| entries_of(one).next().map(|(path, _)| path.to_owned()));
    let version = path
        .as_deref()
        .or(asked)
        .and_then(|path| oneshot::loader_of(&context.root, path));
    Ok(json!({
        "transaction": transaction.as_ref().map(|one| one.id),
        "entries": entries,
        "version": version,
        "loader": path.as_deref().map(oneshot::kind_of),
        "armed": path.as_deref().and_then(|path| oneshot::armed(&context.root, path)),
        "running": running(&context.root),
        "boot_id": context.store.boot_id(),
        "guards": transaction.as_ref().map(guards_of).unwrap_or_default(),
        "units": with_units.then(|| guards::active_units(&context.root)),
        "events": told(events),
    }))
}

/// Returns events as a reply has them: without the machine's earlier state, and with the newest
/// logs only.
fn told(events: Vec<Event>) -> Vec<Event> {
    let old = events.len().saturating_sub(LOGS);
    let bare = |(number, one): (usize, Event)| Event {
        before: None,
        log: if number < old { Vec::new() } else { one.log.clone() },
        ..one
    };
    events.into_iter().enumerate().map(bare).collect()
}

fn shown(entry: &BootEntry) -> Value {
    let words: Vec<String> = entry
        .words
        .iter()
        .map(crate::transact::forms::Word::text)
        .collect();
    json!({"id": entry.id, "title": entry.title, "words": words, "kernel": entry.file})
}

#[cfg(test)]
mod tests;
