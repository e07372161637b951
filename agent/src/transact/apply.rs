// SPDX-License-Identifier: Apache-2.0
//! Applies a plan: check it, journal the old values, write, read back.

use crate::bytes::Bytes;
use crate::error::{Error, Kind, Result};
use crate::sys;
use crate::transact::after;
use crate::transact::allow::Purpose;
use crate::transact::applied::{Report, StepReport};
use crate::transact::carry::{self, Done};
use crate::transact::check::{self, Check};
use crate::transact::context::{boot_ms, unix_ms, Context};
use crate::transact::files::sync_folder;
use crate::transact::journal::{self, Begin, Entry, Writer};
use crate::transact::lease;
use crate::transact::machine::{self, Outcome, Refusal};
use crate::transact::plan::{Lease, Plan, Step, ZramStep};
use crate::transact::programs;
use crate::transact::store::{self, Lock};
use crate::transact::transaction::{stands, State, Transaction};
use crate::transact::undo::Undo;
use crate::transact::unfinished;
use crate::transact::verify::Rule;
use crate::transact::zram;
use std::collections::BTreeMap;
use std::path::Path;

/// The result of a rollback.
struct Back {
    /// Steps that could not be restored.
    failed: Vec<usize>,
    /// The error, if the end could not be journaled.
    unwritten: Option<std::io::Error>,
}

/// Applies a plan as a new transaction.
pub fn apply(context: &mut Context, plan: &Plan) -> Result<Report> {
    context.store.prepare()?;
    let lock = context.store.lock()?;
    let transactions = context.store.transactions()?;
    refuse_unfinished(&transactions, plan)?;
    let checks = check::plan(&context.root, plan, true);
    check::refuse(&checks, plan)?;
    store::drop_old(&transactions);
    let id = context.store.next_id()?;
    let path = context.store.journal_path(id);
    let _uninterrupted = sys::Uninterrupted::begin();
    let begun = Applying::begin(context, plan, checks, id, lock);
    begun.map_err(|error| discard(&path, error))?.finish(context)
}

/// Removes the journal of a transaction that wrote nothing.
fn discard(path: &Path, error: Error) -> Error {
    match std::fs::remove_file(path) {
        Err(failure) if std::fs::symlink_metadata(path).is_ok() => error.hint(format!(
            "nothing was changed; once the disk is writable, run `ktrial recover` or remove {} ({failure})",
            path.display()
        )),
        _ => error,
    }
}

fn refuse_unfinished(transactions: &[Transaction], plan: &Plan) -> Result<()> {
    if let Some(open) = transactions
        .iter()
        .find(|transaction| transaction.state() == State::Unfinished)
    {
        let why = unfinished::reason(open).unwrap_or_default();
        let message = format!("transaction {} is unfinished: {why}", open.id);
        return Err(
            Error::new(Kind::Conflict, message).hint("nothing was changed; run `ktrial recover` first")
        );
    }
    let mine: Vec<String> = plan.steps.iter().flat_map(Step::touches).collect();
    for transaction in transactions
        .iter()
        .filter(|transaction| transaction.state() == State::Applied)
    {
        if transaction.lease() == Lease::Keep {
            continue;
        }
        let is_stacked =
            |path: &String| transaction.stacks() && transaction.is_knob(path) && plan.is_knob(path);
        let shared = |path: &String| mine.contains(path) && !is_stacked(path);
        if let Some(path) = transaction.touches().into_iter().find(shared) {
            let message = format!(
                "transaction {} has a lease and also changes {path}",
                transaction.id
            );
            let hint = format!(
                "nothing was changed; confirm or revert transaction {} first",
                transaction.id
            );
            return Err(Error::new(Kind::Conflict, message).hint(hint));
        }
    }
    Ok(())
}

/// Reports a journal that cannot be written before anything was changed.
fn unjournaled(path: &Path, error: &std::io::Error) -> Error {
    Error::new(Kind::Journal, format!("cannot write {}: {error}", path.display()))
        .hint("nothing was changed; free space on the disk or make it writable")
}

/// A transaction that is being applied.
struct Applying<'a> {
    plan: &'a Plan,
    writer: Writer,
    transaction: Transaction,
    reports: Vec<StepReport>,
    deadline_boot_ms: Option<u64>,
    unsynced: bool,
    _lock: Lock,
}

impl<'a> Applying<'a> {
    /// Journals the old values. Changes nothing else.
    fn begin(context: &mut Context, plan: &'a Plan, checks: Vec<Check>, id: u64, lock: Lock) -> Result<Self> {
        let path = context.store.journal_path(id);
        let writer = Writer::create(&path).map_err(|error| unjournaled(&path, &error))?;
        let transaction = Transaction::new(id, &path, journal::Contents::default(), "", true);
        let reports = checks.into_iter().map(StepReport::first).collect();
        let mut applying = Self {
            plan,
            writer,
            transaction,
            reports,
            deadline_boot_ms: None,
            unsynced: false,
            _lock: lock,
        };
        applying.transaction.this_boot = true;
        applying
            .write_olds(context, id)
            .map_err(|error| unjournaled(&path, &error))?;
        if applying.is_blocked() {
            return Ok(applying);
        }
        if let Lease::UntilConfirmed { seconds } = plan.lease {
            applying.deadline_boot_ms = Some(boot_ms() + seconds * 1000);
        }
        if plan.lease != Lease::Keep {
            lease::start(context, id, applying.deadline_boot_ms)?;
        }
        Ok(applying)
    }

    fn write_olds(&mut self, context: &Context, id: u64) -> std::io::Result<()> {
        let begin = Begin {
            version: journal::VERSION,
            transaction: id,
            boot_id: context.store.boot_id(),
            at_unix_ms: unix_ms(),
            plan: self.plan.clone(),
        };
        self.append(Entry::Begin(Box::new(begin)))?;
        for (index, step) in self.plan.steps.iter().enumerate() {
            if self.reports[index].outcome != Outcome::Ready {
                continue;
            }
            match check::olds(&context.root, index, step) {
                Ok(olds) => olds
                    .into_iter()
                    .try_for_each(|old| self.append(Entry::Old(old)))?,
                Err(refusal) => self.note(index, Err(refusal)),
            }
        }
        if self.is_blocked() {
            self.append(Entry::RolledBack)?;
        } else {
            self.append(Entry::Armed)?;
            self.writer.reserve(self.writer.length() * 2 + 16_384)?;
            if cfg!(feature = "sabotage-late-fsync") {
                self.unsynced = true;
                return Ok(());
            }
        }
        self.arm()
    }

    fn arm(&mut self) -> std::io::Result<()> {
        self.unsynced = false;
        self.writer.sync()?;
        self.transaction.file.parent().map_or(Ok(()), sync_folder)
    }

    fn append(&mut self, entry: Entry) -> std::io::Result<()> {
        self.writer.append(&entry)?;
        self.transaction.take(entry);
        Ok(())
    }

    /// Whether a step has failed and the plan is all-or-nothing.
    fn is_blocked(&self) -> bool {
        !self.plan.keep_going && (0..self.reports.len()).any(|index| self.has_failed(index))
    }

    /// Whether a step has failed.
    fn has_failed(&self, index: usize) -> bool {
        let outcome = self.reports[index].outcome;
        outcome != Outcome::Ready && !stands(outcome, self.plan.steps.get(index))
    }

    fn finish(mut self, context: &mut Context) -> Result<Report> {
        if self.is_blocked() {
            return Ok(self.report(State::RolledBack));
        }
        let carried_out = self.carry_out(context).and_then(|()| {
            self.check_again(context);
            if self.is_blocked() {
                return Ok(());
            }
            let values = self.values(context);
            self.append(Entry::Applied {
                values,
                deadline_boot_ms: self.deadline_boot_ms,
                deadline_unix_ms: None,
            })?;
            self.writer.sync()
        });
        match carried_out {
            Ok(()) if !self.is_blocked() => Ok(self.report(State::Applied)),
            Ok(()) => Ok(self.end_undone(context)),
            Err(error) => {
                // The entry `applied` may have reached the disk even so.
                let may_stand = self.transaction.applied.take().is_some();
                let back = self.roll_back(context);
                let message = self.unwritten(&error);
                Err(Error::new(Kind::Journal, message).hint(self.back_words(&back, may_stand)))
            }
        }
    }

    /// Rolls everything back because a step failed.
    fn end_undone(&mut self, context: &Context) -> Report {
        let back = self.roll_back(context);
        if back.failed.is_empty() && back.unwritten.is_none() {
            return self.report(State::RolledBack);
        }
        let mut words = self.back_words(&back, false);
        if let Some(error) = &back.unwritten {
            words = format!("{}; {words}", self.unwritten(error));
        }
        Report {
            unfinished: Some(words),
            ..self.report(State::Unfinished)
        }
    }

    fn unwritten(&self, error: &std::io::Error) -> String {
        format!("cannot write {}: {error}", self.transaction.file.display())
    }

    /// Says what was restored and what to do next. `may_stand`: the journal may say that the plan
    /// is applied.
    fn back_words(&self, back: &Back, may_stand: bool) -> String {
        let id = self.transaction.id;
        let words = if !back.failed.is_empty() {
            unfinished::why(&self.transaction, &back.failed, &[]).unwrap_or_default()
        } else if back.unwritten.is_some() {
            "everything was restored, but the journal could not be updated: run `ktrial recover` once the disk is writable"
                .to_owned()
        } else {
            return "everything was restored".to_owned();
        };
        if may_stand {
            format!("{words}; if `ktrial status` then shows transaction {id} as applied, run `ktrial revert --only {id}`")
        } else {
            words
        }
    }

    /// Carries out the steps until one fails that must not.
    fn carry_out(&mut self, context: &Context) -> std::io::Result<()> {
        for (index, step) in self.plan.steps.iter().enumerate() {
            if self.reports[index].outcome != Outcome::Ready {
                continue;
            }
            let old = self.transaction.olds_of(index).next();
            if let Err(refusal) = check::unedited(&context.root, step, old) {
                self.note(index, Err(refusal));
                if self.is_blocked() {
                    return Ok(());
                }
                continue;
            }
            self.append(Entry::Writing { step: index })?;
            if step.is_persistent() && !self.unsynced {
                self.writer.sync()?;
            }
            let result = self.step(context, index, step);
            if self.unsynced {
                self.arm()?;
            }
            self.note(index, result);
            if self.has_failed(index) && self.plan.keep_going {
                self.leave_out(context, index);
            }
            let StepReport { outcome, value, .. } = self.reports[index].clone();
            self.append(Entry::Wrote {
                step: index,
                outcome,
                value,
            })?;
            if self.is_blocked() {
                return Ok(());
            }
        }
        Ok(())
    }

    fn note(&mut self, index: usize, result: std::result::Result<Done, Refusal>) {
        let report = &mut self.reports[index];
        match result {
            Ok(done) => {
                report.outcome = done.outcome;
                report.value = done.value;
                report.message = done.message;
            }
            Err(refusal) => {
                report.outcome = refusal.outcome;
                report.errno = Some(refusal.errno);
                report.message = refusal.message;
            }
        }
    }

    /// Restores a failed step of a plan that keeps going.
    fn leave_out(&mut self, context: &Context, index: usize) {
        let back = Undo::new(&context.root, &self.transaction).carry_out(&[index]);
        let report = &mut self.reports[index];
        for back in back {
            if back.outcome == Outcome::Failed {
                report.message = format!("{}; cannot restore it: {}", report.message, back.message);
            }
            report.value = back.now;
        }
    }

    fn step(&mut self, context: &Context, index: usize, step: &Step) -> std::result::Result<Done, Refusal> {
        match step {
            Step::Write(write) => {
                let old = self
                    .transaction
                    .olds_of(index)
                    .next()
                    .and_then(|old| old.bytes.clone());
                carry::write(&context.root, write, &old.unwrap_or_default())
            }
            Step::File(file) => carry::file(&context.root, file, self.transaction.id),
            Step::Zram(zram) => {
                let device = self.device(context, index, zram)?;
                carry::swap(&context.root, zram, &device)
            }
            Step::Run(run) => {
                programs::run(&context.root, &run.forward)?;
                Ok(Done::accepted(None))
            }
        }
    }

    /// Returns the device of a zram step; creates one if the step names none.
    fn device(
        &mut self,
        context: &Context,
        index: usize,
        step: &ZramStep,
    ) -> std::result::Result<String, Refusal> {
        if let Some(device) = &step.device {
            return Ok(device.clone());
        }
        let device = zram::add(&context.root)?;
        let file = self.transaction.file.display().to_string();
        let entry = Entry::Made {
            step: index,
            device: device.clone(),
        };
        self.append(entry)
            .map_err(|error| Refusal::of("write", &file, &error))?;
        Ok(device)
    }

    /// Reads all knobs once more: a later step may have changed an earlier one.
    fn check_again(&mut self, context: &Context) {
        for (index, step) in self.plan.steps.iter().enumerate() {
            let Step::Write(write) = step else { continue };
            let later = self.plan.steps[index + 1..]
                .iter()
                .any(|step| step.path() == write.path);
            let loose = write.verify == Rule::Clamped || (later && write.verify != Rule::Token);
            if loose || self.reports[index].outcome != Outcome::Accepted {
                continue;
            }
            match machine::read(&context.root, &write.path, Purpose::Write) {
                Ok(now) if write.verify.holds(&write.new, &now.bytes) => {}
                Ok(now) => {
                    let message = format!(
                        "{} was set, but is {} at the end of the plan",
                        write.path,
                        now.bytes.brief()
                    );
                    self.note(
                        index,
                        Ok(Done {
                            outcome: Outcome::Ignored,
                            value: Some(now.bytes),
                            message,
                        }),
                    );
                }
                Err(refusal) => self.note(
                    index,
                    Err(Refusal {
                        outcome: Outcome::Vanished,
                        ..refusal
                    }),
                ),
            }
        }
    }

    /// Reads every path that the applied steps may have changed.
    fn values(&self, context: &Context) -> BTreeMap<String, Bytes> {
        let mut values = BTreeMap::new();
        for old in &self.transaction.olds {
            let purpose = match &self.plan.steps[old.step] {
                Step::Write(_) => Purpose::Write,
                Step::File(_) if after::is_made(&old.path) => Purpose::Own,
                Step::File(_) if !old.folder => Purpose::File,
                _ => continue,
            };
            if let Ok(content) = machine::read(&context.root, &old.path, purpose) {
                values.insert(old.path.clone(), content.bytes);
            }
        }
        values
    }

    /// Restores every step that was begun, and records what is there now.
    fn roll_back(&mut self, context: &Context) -> Back {
        let steps: Vec<usize> = self.transaction.begun.iter().copied().collect();
        let done = Undo::new(&context.root, &self.transaction).carry_out(&steps);
        let mut failed = Vec::new();
        for back in done {
            let has_failed = self.has_failed(back.step);
            let report = &mut self.reports[back.step];
            report.value = back.now;
            if back.outcome == Outcome::Failed {
                failed.push(back.step);
                report.message = format!("cannot restore it: {}", back.message);
                report.outcome = Outcome::Failed;
            } else if !has_failed {
                report.outcome = Outcome::RolledBack;
                "written, then restored because another step failed".clone_into(&mut report.message);
            }
        }
        let ended = if failed.is_empty() {
            self.append(Entry::RolledBack).and_then(|()| self.writer.sync())
        } else {
            Ok(())
        };
        Back {
            failed,
            unwritten: ended.err(),
        }
    }

    fn report(&self, state: State) -> Report {
        let mut steps = self.reports.clone();
        for report in &mut steps {
            if report.outcome == Outcome::Ready {
                report.outcome = Outcome::NotTried;
                "another step failed".clone_into(&mut report.message);
            }
        }
        Report {
            transaction: self.transaction.id,
            state,
            unfinished: None,
            steps,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_that_cannot_be_taken_away_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let error = || Error::new(Kind::Journal, "no room".to_owned());
        let hint = |path: &Path| discard(path, error()).hint;
        assert_eq!(hint(&folder.path().join("absent")), None);
        let journal = folder.path().join("journal");
        std::fs::write(&journal, "").unwrap();
        assert_eq!(hint(&journal), None);
        assert!(!journal.exists());
        // A folder cannot be unlinked.
        std::fs::create_dir(&journal).unwrap();
        let told = hint(&journal).unwrap();
        assert!(
            told.contains(&format!("run `ktrial recover` or remove {}", journal.display())),
            "{told}"
        );
    }
}
