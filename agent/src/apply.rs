// SPDX-License-Identifier: Apache-2.0
//! Carrying out a plan: look, write the old values down, write, read back.

use crate::allow::Purpose;
use crate::bytes::Bytes;
use crate::carry::{self, Done};
use crate::check::{self, Check};
use crate::context::{unix_ms, Context};
use crate::error::{Error, Kind, Result};
use crate::journal::{self, Begin, Entry, Writer};
use crate::lease;
use crate::machine::{self, Outcome, Refusal};
use crate::plan::{Lease, Plan, Step, ZramStep};
use crate::programs;
use crate::store::{next_id, Lock};
use crate::transaction::{State, Transaction};
use crate::undo::Undo;
use crate::verify::Rule;
use crate::zram;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// What became of a step.
#[derive(Debug, Clone, Serialize)]
pub struct StepReport {
    /// Its index.
    pub step: usize,
    /// What it is about.
    pub path: String,
    /// What became of it.
    pub outcome: Outcome,
    /// What was read back after the write; null when it was not tried or nothing is there.
    pub value: Option<Bytes>,
    /// The system's number, where it refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errno: Option<i32>,
    /// For a person.
    pub message: String,
}

/// What became of a plan.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The transaction's number.
    pub transaction: u64,
    /// `applied`, `rolled-back`, or `interrupted` when putting back failed.
    pub state: State,
    /// Its steps.
    pub steps: Vec<StepReport>,
}

/// Carries out a plan as a new transaction.
pub fn apply(context: &mut Context, plan: &Plan) -> Result<Report> {
    context.store.prepare()?;
    let lock = context.store.lock()?;
    let transactions = context.store.transactions()?;
    refuse_unfinished(&transactions, plan)?;
    let checks = check::plan(&context.root, plan, true);
    check::refuse(&checks, plan)?;
    let id = next_id(&transactions);
    let path = context.store.journal_path(id);
    let begun = Applying::begin(context, plan, checks, id, lock);
    begun.map_err(|error| discard(&path, error))?.finish(context)
}

/// Takes the journal of a transaction away that wrote nothing.
fn discard(path: &Path, error: Error) -> Error {
    match std::fs::remove_file(path) {
        Err(failure) if failure.kind() != std::io::ErrorKind::NotFound => error.hint(format!(
            "nothing was changed; remove {}: {failure}",
            path.display()
        )),
        _ => error,
    }
}

fn refuse_unfinished(transactions: &[Transaction], plan: &Plan) -> Result<()> {
    if let Some(open) = transactions
        .iter()
        .find(|transaction| transaction.state() == State::Interrupted)
    {
        return Err(
            Error::new(Kind::Conflict, format!("transaction {} was interrupted", open.id))
                .hint(format!(
            "nothing was changed; run recover first (revert --only {} --force gives up what cannot be put back)",
            open.id
        )),
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
        if let Some(path) = transaction.touches().into_iter().find(|path| mine.contains(path)) {
            let message = format!(
                "transaction {}, which ends by itself, holds {path}",
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

/// An error of the journal before anything was written.
fn unjournaled(path: &Path, error: &std::io::Error) -> Error {
    Error::new(Kind::Journal, format!("write {}: {error}", path.display()))
        .hint("nothing was changed; make room on the disk or make it writable")
}

/// A transaction while it is carried out.
struct Applying<'a> {
    plan: &'a Plan,
    writer: Writer,
    transaction: Transaction,
    reports: Vec<StepReport>,
    deadline_unix_ms: Option<u64>,
    unsynced: bool,
    _lock: Lock,
}

impl<'a> Applying<'a> {
    /// Writes the old values down; nothing else is changed yet.
    fn begin(context: &mut Context, plan: &'a Plan, checks: Vec<Check>, id: u64, lock: Lock) -> Result<Self> {
        let path = context.store.journal_path(id);
        let writer = Writer::create(&path).map_err(|error| unjournaled(&path, &error))?;
        let transaction = Transaction::new(id, &path, &[], "", true);
        let reports = checks.into_iter().map(first_report).collect();
        let mut applying = Self {
            plan,
            writer,
            transaction,
            reports,
            deadline_unix_ms: None,
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
            applying.deadline_unix_ms = Some(unix_ms() + seconds * 1000);
        }
        if plan.lease != Lease::Keep {
            lease::start(context, id, plan.lease)?;
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
        self.transaction
            .file
            .parent()
            .map_or(Ok(()), journal::sync_folder)
    }

    fn append(&mut self, entry: Entry) -> std::io::Result<()> {
        self.writer.append(&entry)?;
        self.transaction.take(entry);
        Ok(())
    }

    /// Whether a step cannot be carried out and the plan is all-or-nothing.
    fn is_blocked(&self) -> bool {
        !self.plan.keep_going && (0..self.reports.len()).any(|index| self.has_failed(index))
    }

    /// Whether a step ended otherwise than it must.
    fn has_failed(&self, index: usize) -> bool {
        match (self.reports[index].outcome, &self.plan.steps[index]) {
            (Outcome::Ready | Outcome::Accepted, _) => false,
            (Outcome::Clamped, Step::Write(write)) => write.verify != Rule::Clamped,
            _ => true,
        }
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
            let deadline_unix_ms = self.deadline_unix_ms;
            self.append(Entry::Applied {
                values,
                deadline_unix_ms,
            })?;
            self.writer.sync()
        });
        match carried_out {
            Ok(()) if !self.is_blocked() => Ok(self.report(State::Applied)),
            Ok(()) => Ok(self.roll_back(context)),
            Err(error) => {
                self.transaction.applied = None;
                let back = self.roll_back(context);
                let hint = if back.state == State::RolledBack {
                    "all was put back"
                } else {
                    "run recover"
                };
                let message = format!("write {}: {error}", self.transaction.file.display());
                Err(Error::new(Kind::Journal, message).hint(hint))
            }
        }
    }

    /// Writes step by step until one fails that must not.
    fn carry_out(&mut self, context: &Context) -> std::io::Result<()> {
        for (index, step) in self.plan.steps.iter().enumerate() {
            if self.reports[index].outcome != Outcome::Ready {
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

    /// Puts one failed step of a plan that keeps going back.
    fn leave_out(&mut self, context: &Context, index: usize) {
        let back = Undo::new(&context.root, &self.transaction).carry_out(&[index]);
        let report = &mut self.reports[index];
        for back in back.iter().filter(|back| back.outcome == Outcome::Failed) {
            report.message = format!("{}; it could not be put back: {}", report.message, back.message);
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

    /// The device of a zram step, which is made where the step names none.
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

    /// Looks at all knobs once more: a later step may have changed an earlier one.
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
                        "{} was set, but holds {} after the whole plan",
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

    /// All places that the steps in force may have changed, as they are now.
    fn values(&self, context: &Context) -> BTreeMap<String, Bytes> {
        let mut values = BTreeMap::new();
        for old in &self.transaction.olds {
            let purpose = match &self.plan.steps[old.step] {
                Step::Write(_) => Purpose::Write,
                Step::File(_) if !old.folder => Purpose::File,
                _ => continue,
            };
            if let Ok(content) = machine::read(&context.root, &old.path, purpose) {
                values.insert(old.path.clone(), content.bytes);
            }
        }
        values
    }

    /// Puts all back and says which steps were.
    fn roll_back(&mut self, context: &Context) -> Report {
        let steps: Vec<usize> = self.transaction.begun.iter().copied().collect();
        let back = Undo::new(&context.root, &self.transaction).carry_out(&steps);
        let mut failed = false;
        for back in back {
            let has_failed = self.has_failed(back.step);
            let report = &mut self.reports[back.step];
            if back.outcome == Outcome::Failed {
                failed = true;
                report.message = format!("could not be put back: {}", back.message);
                report.outcome = Outcome::Failed;
            } else if !has_failed {
                report.outcome = Outcome::RolledBack;
                "was written and put back, because another step failed".clone_into(&mut report.message);
            }
        }
        let ended = !failed
            && self
                .append(Entry::RolledBack)
                .and_then(|()| self.writer.sync())
                .is_ok();
        self.report(if ended {
            State::RolledBack
        } else {
            State::Interrupted
        })
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
            steps,
        }
    }
}

fn first_report(check: Check) -> StepReport {
    // A knob that is already so takes its turn too: an earlier step of the plan may change it.
    let outcome = if check.outcome == Outcome::Same {
        Outcome::Ready
    } else {
        check.outcome
    };
    let Check {
        step,
        path,
        errno,
        message,
        ..
    } = check;
    StepReport {
        step,
        path,
        outcome,
        value: None,
        errno,
        message,
    }
}
