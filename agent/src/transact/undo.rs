// SPDX-License-Identifier: Apache-2.0
//! Restores what a transaction changed, in reverse order and in up to three passes, because some
//! values change others: writing one half of a pair clears the other half.

use crate::bytes::Bytes;
use crate::root::Root;
use crate::transact::after;
use crate::transact::allow::Purpose;
use crate::transact::files::{self, Rights};
use crate::transact::journal::Old;
use crate::transact::machine::{self, Content, Outcome, Refusal};
use crate::transact::plan::Step;
use crate::transact::programs;
use crate::transact::transaction::Transaction;
use crate::transact::verify::Rule;
use crate::transact::zram;
use rustix::fs::{Gid, Mode, Uid};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Passes over the steps before a value that still differs counts as failed.
const PASSES: usize = 3;

/// The result of restoring a step.
#[derive(Debug, Clone, Serialize)]
pub struct StepReport {
    /// Index of the step.
    pub step: usize,
    /// Path that the step is about.
    pub path: String,
    /// The result.
    pub outcome: Outcome,
    /// The present value; null if there is none or it is unreadable.
    pub now: Option<Bytes>,
    /// Explanation for a person.
    pub message: String,
}

/// How to restore an old value.
#[derive(Debug, Clone)]
enum How {
    Knob {
        rule: Rule,
        new: Bytes,
    },
    File,
    /// A file that a program makes from a configuration file.
    Made,
    Folder,
    Swap,
    NewDevice,
}

/// How the present value compares with the old one.
#[derive(Debug)]
enum Found {
    Equal,
    Differs,
    Vanished(Refusal),
    Unreadable(Refusal),
}

/// Restores the steps of one transaction.
#[derive(Debug)]
pub struct Undo<'a> {
    root: &'a Root,
    transaction: &'a Transaction,
    errors: BTreeMap<usize, Refusal>,
    programs: BTreeMap<usize, Outcome>,
    /// Steps whose file a program has generated from the restored configuration.
    made: BTreeSet<usize>,
    found: BTreeMap<String, Bytes>,
}

impl<'a> Undo<'a> {
    /// Creates an undo of `transaction` on the machine at `root`.
    #[must_use]
    pub fn new(root: &'a Root, transaction: &'a Transaction) -> Self {
        Self {
            root,
            transaction,
            errors: BTreeMap::new(),
            programs: BTreeMap::new(),
            made: BTreeSet::new(),
            found: BTreeMap::new(),
        }
    }

    /// Judges these paths by the given values instead of the present ones.
    #[must_use]
    pub fn finding(mut self, found: BTreeMap<String, Bytes>) -> Self {
        self.found = found;
        self
    }

    fn read(&self, path: &str, purpose: Purpose) -> Result<Content, Refusal> {
        let mut content = machine::read(self.root, path, purpose)?;
        if let Some(found) = self.found.get(path) {
            content.bytes.clone_from(found);
        }
        Ok(content)
    }

    /// Returns the steps whose value is neither the old one nor one that the journal proves to be
    /// the transaction's.
    #[must_use]
    pub fn not_ours(&self, steps: &[usize]) -> Vec<usize> {
        let foreign = |old: &Old| {
            let how = self.how(old);
            match self.found(old, &how) {
                Found::Differs => !self.is_ours(old, &how),
                // A link to another place, as administrators mask a file.
                Found::Unreadable(why) => matches!(how, How::File) && why.outcome == Outcome::Forbidden,
                _ => false,
            }
        };
        steps
            .iter()
            .copied()
            .filter(|step| self.transaction.olds_of(*step).any(foreign))
            .collect()
    }

    /// Returns the steps whose value differs from the recorded one.
    #[must_use]
    pub fn differing(&self, steps: &[usize]) -> Vec<usize> {
        let differs = |old: &Old| {
            let how = self.how(old);
            matches!(how, How::Knob { .. } | How::File) && matches!(self.found(old, &how), Found::Differs)
        };
        let is_changed =
            |step: usize| self.transaction.olds_of(step).any(differs) || self.seems_written(step);
        steps.iter().copied().filter(|step| is_changed(*step)).collect()
    }

    /// Whether a step without an old value in the journal seems to have been carried out: its knob
    /// differs from what the plan expects, or its file is the plan's.
    fn seems_written(&self, step: usize) -> bool {
        if self.transaction.olds_of(step).next().is_some() {
            return false;
        }
        let read = |path: &str, purpose| machine::read(self.root, path, purpose).ok();
        match self.transaction.steps().get(step) {
            Some(Step::Write(write)) => read(&write.path, Purpose::Write).is_some_and(|now| {
                let as_found = |expect: &Bytes| write.verify.same_state(&write.new, expect, &now.bytes);
                !write.expect.as_ref().is_none_or(as_found)
            }),
            Some(Step::File(file)) => {
                read(&file.path, Purpose::File).is_some_and(|now| file.bytes().as_ref() == Some(&now.bytes))
            }
            _ => false,
        }
    }

    fn is_ours(&self, old: &Old, how: &How) -> bool {
        let purpose = match how {
            How::Knob { .. } => Purpose::Undo,
            How::File => Purpose::File,
            How::Made | How::Folder | How::Swap | How::NewDevice => return true,
        };
        let applied = self.transaction.applied.as_ref();
        let applied_value = applied.and_then(|values| values.get(&old.path));
        match (self.read(&old.path, purpose), applied_value, how) {
            (Ok(now), Some(applied_value), How::Knob { rule, new }) => {
                now.bytes == *applied_value || rule.same_state(new, applied_value, &now.bytes)
            }
            (Ok(now), Some(applied_value), _) => now.bytes == *applied_value,
            (Err(refusal), None, How::File) if refusal.outcome == Outcome::Absent => {
                applied.is_some() || self.is_removal(old.step)
            }
            // The line that recorded it is damaged.
            (Ok(now), None, _) => !self.transaction.damage.is_empty() && self.is_as_written(old, &now.bytes),
            _ => false,
        }
    }

    /// Whether a path has the value that its step wrote. A coupled path does if the step's own path
    /// does.
    fn is_as_written(&self, old: &Old, now: &Bytes) -> bool {
        let written = self.transaction.written.get(&old.step);
        match self.transaction.steps().get(old.step) {
            Some(Step::Write(write)) if write.path != old.path => {
                let own = self.transaction.olds_of(old.step).next();
                own.is_some_and(|own| own.path == write.path && self.is_ours(own, &self.how(own)))
            }
            Some(Step::Write(write)) => {
                let as_read_back = |value: &Bytes| write.verify.same_state(&write.new, value, now);
                write.verify.holds(&write.new, now) || written.is_some_and(as_read_back)
            }
            Some(Step::File(file)) => file.bytes().as_ref() == Some(now),
            _ => written == Some(now),
        }
    }

    fn is_removal(&self, step: usize) -> bool {
        matches!(self.transaction.steps().get(step), Some(Step::File(file)) if file.bytes().is_none())
    }

    /// Restores the steps and reports each, in the given order.
    pub fn carry_out(&mut self, steps: &[usize]) -> Vec<StepReport> {
        let was_equal: BTreeMap<usize, bool> =
            steps.iter().map(|step| (*step, self.is_equal(*step))).collect();
        for pass in 0..PASSES {
            let mut differing = false;
            for step in steps.iter().rev() {
                differing |= self.put_step_back(*step);
                if pass == 0 {
                    self.run_undo(*step);
                }
            }
            if !differing {
                break;
            }
        }
        steps
            .iter()
            .map(|step| self.report(*step, was_equal[step]))
            .collect()
    }

    /// Restores the paths of one step that differ; returns whether any did.
    fn put_step_back(&mut self, step: usize) -> bool {
        let mut differing = false;
        for old in self.transaction.olds_of(step) {
            let how = self.how(old);
            if let Err(refusal) = self.clean(old, &how) {
                self.errors.insert(step, refusal);
            }
            if !matches!(self.found(old, &how), Found::Differs) {
                continue;
            }
            differing = true;
            match self.put_back(old, &how) {
                Ok(()) if matches!(how, How::Made) => {
                    self.made.insert(step);
                }
                Ok(()) => {}
                Err(refusal) => {
                    self.errors.insert(step, refusal);
                }
            }
        }
        differing
    }

    fn clean(&self, old: &Old, how: &How) -> Result<(), Refusal> {
        match how {
            How::File => files::clean(self.root, &old.path, self.transaction.id),
            _ => Ok(()),
        }
    }

    fn is_equal(&self, step: usize) -> bool {
        self.transaction
            .olds_of(step)
            .all(|old| matches!(self.found(old, &self.how(old)), Found::Equal))
    }

    fn how(&self, old: &Old) -> How {
        let guess = || old.bytes.as_ref().map_or(Rule::Exact, |bytes| Rule::guess(bytes));
        match self.transaction.steps().get(old.step) {
            _ if old.folder => How::Folder,
            _ if old.swap.is_some() => How::Swap,
            _ if after::is_made(&old.path) => How::Made,
            Some(Step::Write(write)) if write.path == old.path => How::Knob {
                rule: write.verify,
                new: write.new.clone(),
            },
            Some(Step::Zram(_)) => How::NewDevice,
            Some(Step::File(_)) => How::File,
            // Without the plan, the path shows what it was.
            None if ["/etc/", "/boot/", "/efi/"]
                .iter()
                .any(|folder| old.path.starts_with(folder)) =>
            {
                How::File
            }
            _ => How::Knob {
                rule: guess(),
                new: Bytes::default(),
            },
        }
    }

    fn found(&self, old: &Old, how: &How) -> Found {
        match how {
            How::Knob { rule, new } => self.found_knob(old, *rule, new),
            How::File => match machine::read(self.root, &old.path, Purpose::File) {
                Ok(now) => {
                    let owner = old.uid.zip(old.gid);
                    let has_rights = old.mode_bits() == Some(now.mode)
                        && owner.is_none_or(|owner| owner == (now.uid, now.gid));
                    Found::when(has_rights && old.bytes.as_ref() == Some(&now.bytes))
                }
                Err(refusal) if refusal.outcome == Outcome::Absent => Found::when(old.absent),
                Err(refusal) => Found::Unreadable(refusal),
            },
            How::Made if self.made.contains(&old.step) => Found::Equal,
            How::Made => match machine::read(self.root, &old.path, Purpose::Own) {
                Ok(now) => Found::when(old.bytes.as_ref() == Some(&now.bytes)),
                Err(refusal) => Found::gone(refusal),
            },
            // A folder stays if it contains something else by now.
            How::Folder => Found::when(self.root.list(&old.path).map_or(true, |names| !names.is_empty())),
            How::Swap => match (zram::state(self.root, &old.path), &old.swap) {
                (Ok(now), Some(old)) => Found::when(zram::same(&now, old)),
                (Ok(_), None) => Found::Equal,
                (Err(refusal), _) => Found::gone(refusal),
            },
            How::NewDevice => Found::when(self.leftover_devices(old).is_empty()),
        }
    }

    fn found_knob(&self, old: &Old, rule: Rule, new: &Bytes) -> Found {
        let Some(bytes) = &old.bytes else {
            return Found::Equal;
        };
        match self.read(&old.path, Purpose::Undo) {
            Ok(now) if now.bytes == *bytes => Found::Equal,
            Ok(now) => {
                let kernel = machine::is_made_up(self.root, &old.path);
                Found::when(kernel && rule.same_state(new, bytes, &now.bytes))
            }
            Err(refusal) => Found::gone(refusal),
        }
    }

    /// Returns devices that were created for a step and still exist. If the machine crashed before
    /// the name was journaled: devices that are new and not set up.
    fn leftover_devices(&self, old: &Old) -> Vec<String> {
        let devices = zram::devices(self.root);
        if let Some(made) = self.transaction.made.get(&old.step) {
            return devices.into_iter().filter(|device| device == made).collect();
        }
        if !self.transaction.begun.contains(&old.step) || self.transaction.wrote.contains_key(&old.step) {
            return Vec::new();
        }
        let before = old
            .bytes
            .as_ref()
            .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
            .unwrap_or_default();
        let is_new = |device: &String| !before.split_whitespace().any(|name| name == device);
        let is_idle = |device: &String| {
            zram::state(self.root, &format!("/sys/block/{device}")).is_ok_and(|state| state.size_bytes == 0)
        };
        devices.into_iter().filter(is_new).filter(is_idle).collect()
    }

    fn put_back(&self, old: &Old, how: &How) -> Result<(), Refusal> {
        match (how, &old.bytes) {
            (How::Knob { rule, new }, Some(bytes)) => self.put_knob_back(old, *rule, new, bytes),
            (How::Knob { .. }, None) => Ok(()),
            (How::File, Some(bytes)) => {
                let rights = Rights {
                    mode: old.mode_bits().unwrap_or(0o644),
                    owner: old.uid.zip(old.gid),
                };
                files::put(self.root, &old.path, bytes, rights, self.transaction.id)?;
                self.follow(old)
            }
            (How::File, None) => {
                files::remove(self.root, &old.path)?;
                self.follow(old)
            }
            (How::Made, _) => {
                let source = path_of(self.transaction, old.step);
                after::restore(self.root, &source, self.transaction, old)
            }
            (How::Folder, _) => files::remove_folder(self.root, &old.path),
            (How::Swap, _) => old
                .swap
                .as_ref()
                .map_or(Ok(()), |swap| zram::set(self.root, &old.path, swap)),
            (How::NewDevice, _) => self
                .leftover_devices(old)
                .iter()
                .try_for_each(|device| zram::remove(self.root, device)),
        }
    }

    /// Lets programs read a configuration file again after its undo. A file that a program makes
    /// from it is restored on its own, unless the journal has lost that file.
    fn follow(&self, old: &Old) -> Result<(), Refusal> {
        after::reload(self.root, &old.path);
        let has_made = self
            .transaction
            .olds_of(old.step)
            .any(|one| after::is_made(&one.path));
        if has_made {
            return Ok(());
        }
        after::make(self.root, &old.path)
    }

    fn put_knob_back(&self, old: &Old, rule: Rule, new: &[u8], bytes: &[u8]) -> Result<(), Refusal> {
        if machine::is_made_up(self.root, &old.path) {
            return match rule.restoring(new, bytes) {
                Some(content) => machine::write(self.root, &old.path, &content, Purpose::Undo),
                None => Ok(()),
            };
        }
        machine::write(self.root, &old.path, bytes, Purpose::Undo)?;
        let file = self.root.path(&old.path);
        let refuse =
            |errno: rustix::io::Errno| Refusal::of("restore the owner and mode of", &old.path, &errno.into());
        let now = machine::read(self.root, &old.path, Purpose::Undo)?;
        if let Some((uid, gid)) = old.uid.zip(old.gid).filter(|owner| *owner != (now.uid, now.gid)) {
            rustix::fs::chown(&file, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid))).map_err(refuse)?;
        }
        match old.mode_bits().filter(|mode| *mode != now.mode) {
            Some(mode) => rustix::fs::chmod(&file, Mode::from_raw_mode(mode)).map_err(refuse),
            None => Ok(()),
        }
    }

    /// Runs the undo command of a step that was begun.
    fn run_undo(&mut self, step: usize) {
        let Some(Step::Run(run)) = self.transaction.steps().get(step) else {
            return;
        };
        let done = self.transaction.restored.get(&step) == Some(&Outcome::Restored);
        if done || !self.transaction.begun.contains(&step) {
            self.programs.insert(step, Outcome::Unchanged);
            return;
        }
        match programs::run(self.root, &run.undo) {
            Ok(()) => {
                self.programs.insert(step, Outcome::Restored);
            }
            Err(refusal) => {
                self.programs.insert(step, Outcome::Failed);
                self.errors.insert(step, refusal);
            }
        }
    }

    fn report(&self, step: usize, was_equal: bool) -> StepReport {
        let path = path_of(self.transaction, step);
        let now = self.now(step);
        let make = |outcome, message: String| StepReport {
            step,
            path: path.clone(),
            outcome,
            now: now.clone(),
            message,
        };
        let error = || self.errors.get(&step).map(|refusal| refusal.message.clone());
        if let Some(outcome) = self.programs.get(&step) {
            return make(*outcome, error().unwrap_or_default());
        }
        let lost = self.transaction.lost_olds();
        if let Some((_, path)) = lost.into_iter().find(|(lost, _)| *lost == step) {
            let message = format!("the old value of {path} is lost: the journal is damaged");
            return make(Outcome::Failed, message);
        }
        if !self.transaction.armed && self.seems_written(step) {
            let message = format!("the old value of {path} is lost: the journal ends before it");
            return make(Outcome::Failed, message);
        }
        for old in self.transaction.olds_of(step) {
            match self.found(old, &self.how(old)) {
                Found::Equal => {}
                Found::Vanished(refusal) => return make(Outcome::Vanished, refusal.message),
                Found::Unreadable(refusal) => return make(Outcome::Failed, refusal.message),
                Found::Differs => {
                    let why = error().unwrap_or_else(|| "the kernel did not accept the old value".to_owned());
                    return make(Outcome::Failed, format!("{}: {why}", old.path));
                }
            }
        }
        let outcome = if was_equal {
            Outcome::Unchanged
        } else {
            Outcome::Restored
        };
        make(outcome, String::new())
    }

    /// Returns the present value at a step's own path.
    pub fn now(&self, step: usize) -> Option<Bytes> {
        let old = self.transaction.olds_of(step).next()?;
        let purpose = match self.how(old) {
            How::Knob { .. } => Purpose::Undo,
            How::File => Purpose::File,
            How::Made => Purpose::Own,
            How::Folder | How::Swap | How::NewDevice => return None,
        };
        machine::read(self.root, &old.path, purpose)
            .ok()
            .map(|content| content.bytes)
    }
}

/// Returns the path that a step of a transaction is about.
pub fn path_of(transaction: &Transaction, step: usize) -> String {
    let from_plan = transaction.steps().get(step).map(Step::path);
    from_plan
        .or_else(|| transaction.olds_of(step).next().map(|old| old.path.clone()))
        .unwrap_or_default()
}

impl Found {
    fn when(equal: bool) -> Self {
        if equal {
            Self::Equal
        } else {
            Self::Differs
        }
    }

    fn gone(refusal: Refusal) -> Self {
        match refusal.outcome {
            Outcome::Absent | Outcome::Vanished => Self::Vanished(refusal),
            _ => Self::Unreadable(refusal),
        }
    }
}
