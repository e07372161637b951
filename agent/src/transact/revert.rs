// SPDX-License-Identifier: Apache-2.0
//! Ends transactions: revert on request, recover after a crash, confirm a lease.

use crate::boots;
use crate::error::{Error, Kind, Result};
use crate::root::Root;
use crate::sys;
use crate::transact::context::{boot_ms, unix_ms, Context};
use crate::transact::journal::{Entry, Writer};
use crate::transact::machine::Outcome;
use crate::transact::plan::Lease;
use crate::transact::stack::Stack;
use crate::transact::transaction::{State, Transaction};
use crate::transact::undo::{path_of, StepReport, Undo};
use crate::transact::undo_log::{UndoLog, Unwritten};
use crate::transact::unfinished;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Which transactions to revert.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Select {
    /// The newest one in force.
    Newest,
    /// All in force.
    All,
    /// All newer than this one.
    To(u64),
    /// This one alone.
    Only(u64),
}

/// The result for a transaction.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Number of the transaction.
    pub transaction: u64,
    /// Its state now.
    pub state: State,
    /// Why the transaction is unfinished, and what to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unfinished: Option<String>,
    /// Results of its steps.
    pub steps: Vec<StepReport>,
}

/// Who asks for a transaction to be undone.
#[derive(Debug, Clone, Copy)]
pub struct Ask {
    /// Nobody: it was not finished, or its lease is over. It is undone even if the journal cannot
    /// be written.
    is_due: bool,
    /// Somebody named it, which settles what the journal leaves open.
    is_named: bool,
    /// Restore even what others have changed since.
    is_forced: bool,
}

impl Ask {
    /// An undo that nobody asked for.
    pub const DUE: Self = Self {
        is_due: true,
        is_named: false,
        is_forced: false,
    };
}

/// Reverts transactions, newest first.
pub fn revert(context: &mut Context, select: Select, force: bool) -> Result<Vec<Report>> {
    context.store.prepare()?;
    let _lock = context.store.lock()?;
    let transactions = context.store.transactions()?;
    let mut chosen = choose(&context.root, &transactions, select, force)?;
    boots::refuse_while_checked(context, &chosen)?;
    chosen.sort_by_key(|transaction| transaction.state() != State::Unfinished);
    let _uninterrupted = sys::Uninterrupted::begin();
    let ask = Ask {
        is_due: false,
        is_named: matches!(select, Select::Only(_)),
        is_forced: force,
    };
    chosen
        .into_iter()
        .map(|transaction| undo(context, transaction.id, ask))
        .collect()
}

/// Returns the steps that a revert left alone and that still have another value.
#[must_use]
pub fn still_left_alone(root: &Root, transaction: &Transaction) -> Vec<usize> {
    Undo::new(root, transaction).differing(&transaction.left_alone())
}

fn choose<'a>(
    root: &Root,
    transactions: &'a [Transaction],
    select: Select,
    force: bool,
) -> Result<Vec<&'a Transaction>> {
    let open = || {
        transactions
            .iter()
            .rev()
            .filter(|transaction| transaction.is_open())
    };
    let is_left = |transaction: &Transaction| force && !still_left_alone(root, transaction).is_empty();
    let wanted = || {
        let newest_first = transactions.iter().rev();
        newest_first.filter(|transaction| transaction.is_open() || is_left(transaction))
    };
    match select {
        Select::Newest => Ok(open().next().or_else(|| wanted().next()).into_iter().collect()),
        Select::All => Ok(wanted().collect()),
        Select::To(id) => {
            if id != 0 && !transactions.iter().any(|transaction| transaction.id == id) {
                return Err(missing(id));
            }
            Ok(wanted().filter(|transaction| transaction.id > id).collect())
        }
        Select::Only(id) => {
            let found = transactions
                .iter()
                .find(|transaction| transaction.id == id)
                .ok_or_else(|| missing(id))?;
            let can_be_forced = force && !found.left_alone().is_empty();
            if !found.is_open() && !can_be_forced {
                return Err(Error::new(
                    Kind::NotFound,
                    format!("transaction {id} is no longer in force"),
                ));
            }
            refuse_covered(found, open())?;
            Ok(vec![found])
        }
    }
}

fn missing(id: u64) -> Error {
    Error::new(Kind::NotFound, format!("no such transaction: {id}"))
        .hint("`ktrial status` lists all transactions")
}

/// Refuses if a newer transaction changes the same file or device: only knobs are stacked.
fn refuse_covered<'a>(found: &Transaction, open: impl Iterator<Item = &'a Transaction>) -> Result<()> {
    for newer in open.filter(|newer| newer.id > found.id) {
        if let Some(path) = found.shared_but_for_knobs(newer) {
            let message = format!("transaction {} is newer and also changes {path}", newer.id);
            let hint = format!(
                "nothing was changed; revert transaction {} first, or all newer than {}",
                newer.id,
                found.id - 1
            );
            return Err(Error::new(Kind::Conflict, message).hint(hint));
        }
    }
    Ok(())
}

/// Finishes what a crash interrupted and ends leases whose holder is gone.
pub fn recover(context: &mut Context) -> Result<Vec<Report>> {
    if !context.store.is_there()? {
        return Ok(Vec::new());
    }
    let _lock = context.store.lock()?;
    let mut reports = Vec::new();
    let mut failure = None;
    let mut due = Vec::new();
    let transactions = context.store.transactions()?;
    let _uninterrupted = sys::Uninterrupted::begin();
    for transaction in transactions.iter().rev() {
        let gone = transaction.ended.is_none() && transaction.state() == State::GoneWithBoot;
        if gone || transaction.state() == State::Unfinished || is_lease_over(context, transaction) {
            due.push(transaction);
        }
    }
    due.sort_by_key(|transaction| transaction.state() != State::Unfinished);
    for transaction in due {
        match undo(context, transaction.id, Ask::DUE) {
            Ok(report) => reports.push(report),
            Err(error) => failure = Some(error),
        }
    }
    failure.map_or(Ok(reports), Err)
}

fn is_lease_over(context: &Context, transaction: &Transaction) -> bool {
    if transaction.state() != State::Applied || transaction.lease() == Lease::Keep {
        return false;
    }
    let late = match (transaction.deadline_boot_ms, transaction.deadline_unix_ms) {
        (Some(deadline), _) => deadline <= boot_ms(),
        (None, Some(deadline)) => deadline <= unix_ms(),
        _ => false,
    };
    late || context.store.is_abandoned(transaction)
}

/// Confirms a transaction, so that its lease doesn't revert it.
pub fn confirm(context: &mut Context, id: u64) -> Result<()> {
    context.store.prepare()?;
    let _lock = context.store.lock()?;
    let transaction = context.store.load(id)?;
    if transaction.state() != State::Applied {
        return Err(Error::new(
            Kind::NotFound,
            format!("transaction {id} is no longer in force"),
        ));
    }
    if transaction.lease() == Lease::Keep {
        return Ok(());
    }
    let unwritten = |error: std::io::Error| {
        Error::new(
            Kind::Journal,
            format!("cannot write {}: {error}", transaction.file.display()),
        )
    };
    let mut writer = Writer::open(&transaction.file, transaction.valid_bytes).map_err(unwritten)?;
    writer
        .append(&Entry::Confirmed)
        .and_then(|()| writer.sync())
        .map_err(unwritten)
}

/// Undoes one transaction. The caller holds the machine's lock.
///
/// First it finishes whatever was interrupted at the same knobs: only while the others are as they
/// were then can it be known which values the interrupted undo has written, and which are somebody
/// else's.
pub fn undo(context: &Context, id: u64, ask: Ask) -> Result<Report> {
    let transaction = context.store.load(id)?;
    if transaction.state() != State::Unfinished {
        for other in context.store.journals()?.transactions.iter().rev() {
            let is_interrupted = other.state() == State::Unfinished && !other.proves_little();
            if is_interrupted && other.id != id && other.shares_knob(&transaction) {
                undo_alone(context, other, Ask::DUE)?;
                let other = other.id;
                eprintln!("ktrial-agent: finished transaction {other} first, which was interrupted");
            }
        }
    }
    undo_alone(context, &context.store.load(id)?, ask)
}

fn undo_alone(context: &Context, transaction: &Transaction, ask: Ask) -> Result<Report> {
    let stack = Stack::above(&context.store, transaction)?;
    let scope = Scope::of(context, transaction, ask, &stack);
    if transaction.state() == State::Unfinished && transaction.is_end_damaged() && !ask.is_named {
        return Ok(untouched(context, transaction, &scope));
    }
    let is_unfinished_apply = transaction.applied.is_none() && transaction.reverting.is_none();
    let is_due = ask.is_due || transaction.state() == State::Unfinished;
    let mut log = UndoLog::open(transaction, is_due)?;
    let gifts = stack.gifts(transaction, &scope.steps);
    if let Some(unwritten) = gifts.unwritten().filter(|_| !is_due) {
        return Err(unwritten.refusal());
    }
    let is_nothing_here = scope.steps.is_empty() && scope.left.is_empty();
    if (!is_unfinished_apply && !is_nothing_here) || !scope.left.is_empty() {
        let left = scope.left.clone();
        log.append(&Entry::Reverting { left }, true);
        if !is_due {
            log.check()?;
        }
    }
    let unwritten = stack.hand_over(gifts);
    let done = carry_out(context, transaction, &scope, &stack);
    for StepReport { step, outcome, .. } in &done {
        let (step, outcome) = (*step, *outcome);
        log.append(&Entry::Restored { step, outcome }, false);
    }
    let (state, last) = if !transaction.this_boot && is_nothing_here {
        (State::GoneWithBoot, Entry::Gone)
    } else if is_unfinished_apply {
        (State::RolledBack, Entry::RolledBack)
    } else {
        (State::Reverted, Entry::Reverted)
    };
    let mut unfinished = scope.open_end(transaction, &done, ask);
    if unfinished.is_none() && unwritten.is_none() {
        log.append(&last, true);
    }
    if let Err(error) = context.store.clear_holder(transaction.id) {
        let id = transaction.id;
        eprintln!("ktrial-agent: cannot remove the lease file of transaction {id}: {error}");
    }
    if let Some(Unwritten { file, error }) = unwritten.or_else(|| log.failure()) {
        let why = format!(
            "the journal could not be updated (cannot write {}: {error}). run `ktrial recover` once the disk is writable",
            file.display()
        );
        unfinished = Some(match unfinished {
            Some(open) => format!("{open}; {why}"),
            None => format!("the values were restored, but {why}"),
        });
    }
    let state = if unfinished.is_some() {
        State::Unfinished
    } else {
        state
    };
    let steps = scope.reports(&context.root, transaction, done);
    Ok(Report {
        transaction: transaction.id,
        state,
        unfinished,
        steps,
    })
}

/// Restores the steps that no newer transaction covers, and reports all that are in scope.
fn carry_out(context: &Context, transaction: &Transaction, scope: &Scope, stack: &Stack) -> Vec<StepReport> {
    let (covered, bare): (Vec<usize>, Vec<usize>) = scope
        .steps
        .iter()
        .partition(|step| stack.covers(transaction, **step));
    let target = stack.leaving_covered(&context.root, transaction);
    let mut done = Undo::new(&context.root, &target).carry_out(&bare);
    let undo = Undo::new(&context.root, transaction);
    done.extend(covered.into_iter().map(|step| {
        let path = path_of(transaction, step);
        let heir = stack.heir(&path).map_or(0, |(heir, _)| heir.id);
        StepReport {
            step,
            path,
            outcome: Outcome::HandedOver,
            now: undo.now(step),
            message: format!("transaction {heir} also changed it and restores the old value when it ends"),
        }
    }));
    done
}

/// Reports a transaction that may or may not be over: nothing is changed until somebody names it.
fn untouched(context: &Context, transaction: &Transaction, scope: &Scope) -> Report {
    let undo = Undo::new(&context.root, transaction);
    let differing = undo.differing(&scope.here);
    let looked = Scope {
        left: differing,
        ..Scope::default()
    };
    Report {
        transaction: transaction.id,
        state: State::Unfinished,
        unfinished: unfinished::reason(transaction),
        steps: looked.reports(&context.root, transaction, Vec::new()),
    }
}

/// The steps that an undo deals with.
#[derive(Default)]
struct Scope {
    /// Steps that a boot has not ended.
    here: Vec<usize>,
    /// Steps to restore.
    steps: Vec<usize>,
    /// Steps to leave alone: others have changed them, or nothing proves that the transaction did.
    left: Vec<usize>,
    /// Steps that a boot has ended.
    gone: Vec<usize>,
}

impl Scope {
    fn of(context: &Context, transaction: &Transaction, ask: Ask, stack: &Stack) -> Self {
        let (here, gone): (Vec<usize>, Vec<usize>) = (0..transaction.step_count())
            .partition(|step| transaction.this_boot || transaction.survives_boot(*step));
        // Whether others changed a value that a newer transaction changed since is shown by what that
        // one found.
        let found = stack.found_above(transaction);
        let undo = Undo::new(&context.root, transaction).finding(found);
        // According to the journal nothing was written; but a journal that lost its end may omit
        // entries.
        let untold = if transaction.armed {
            Vec::new()
        } else {
            undo.differing(&here)
        };
        let in_force: Vec<usize> = here
            .iter()
            .copied()
            .filter(|step| {
                let is_known = transaction.armed && transaction.is_in_force(*step);
                is_known || (ask.is_forced && untold.contains(step))
            })
            .collect();
        let left = match &transaction.reverting {
            _ if ask.is_forced => Vec::new(),
            _ if !transaction.armed => untold,
            _ if !transaction.damage.is_empty() => undo.not_ours(&in_force),
            // An interrupted revert may have left any value in the steps that it worked on.
            Some(left) if transaction.ended.is_none() => left.clone(),
            _ if transaction.applied.is_none() => Vec::new(),
            _ => undo.not_ours(&in_force),
        };
        let steps = in_force.into_iter().filter(|step| !left.contains(step)).collect();
        Self {
            here,
            steps,
            left,
            gone,
        }
    }

    /// Returns why the transaction stays open, and what to do; None if it is over.
    fn open_end(&self, transaction: &Transaction, done: &[StepReport], ask: Ask) -> Option<String> {
        if ask.is_named && ask.is_forced {
            return None;
        }
        let failed = |report: &&StepReport| report.outcome == Outcome::Failed;
        let failed: Vec<usize> = done.iter().filter(failed).map(|report| report.step).collect();
        let is_asking = transaction.proves_little() && !ask.is_named;
        let unproven = if is_asking { self.left.as_slice() } else { &[] };
        unfinished::why(transaction, &failed, unproven)
    }

    /// Returns the results of all steps, in order.
    fn reports(&self, root: &Root, transaction: &Transaction, done: Vec<StepReport>) -> Vec<StepReport> {
        let mut done: BTreeMap<usize, StepReport> =
            done.into_iter().map(|report| (report.step, report)).collect();
        let undo = Undo::new(root, transaction);
        let id = transaction.id;
        let is_doubtful = transaction.proves_little();
        let other = |step: usize| {
            let (outcome, message) = if self.left.contains(&step) && is_doubtful {
                let message = format!(
                    "nothing proves that transaction {id} changed it; not restored (`ktrial revert --only {id} --force` restores it)"
                );
                (Outcome::LeftAlone, message)
            } else if self.left.contains(&step) {
                let message = format!(
                    "others have changed it since; not restored (`ktrial revert --only {id} --force` restores it)"
                );
                (Outcome::ChangedByOthers, message)
            } else if self.gone.contains(&step) {
                (Outcome::GoneWithBoot, "ended by a reboot".to_owned())
            } else {
                (Outcome::Unchanged, "never changed".to_owned())
            };
            StepReport {
                step,
                path: path_of(transaction, step),
                outcome,
                now: undo.now(step),
                message,
            }
        };
        (0..transaction.step_count())
            .map(|step| done.remove(&step).unwrap_or_else(|| other(step)))
            .collect()
    }
}

/// Ends the leases that last until the end of the session, newest first.
pub fn end_session(context: &mut Context) -> Result<Vec<Report>> {
    let mut ids: Vec<u64> = context
        .holders
        .iter()
        .filter(|holder| holder.is_session())
        .map(|holder| holder.id)
        .collect();
    ids.sort_unstable();
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let _lock = context.store.lock_waiting()?;
    let mut reports = Vec::new();
    for id in ids.into_iter().rev() {
        let transaction = context.store.load(id)?;
        if transaction.is_open() && transaction.lease() == Lease::WhileSession {
            reports.push(undo(context, id, Ask::DUE)?);
        }
    }
    Ok(reports)
}
