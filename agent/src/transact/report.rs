// SPDX-License-Identifier: Apache-2.0
//! What is in force, according to the journals and to the machine.

use crate::bytes::Bytes;
use crate::error::{Kind, Result};
use crate::transact::allow::Purpose;
use crate::transact::check;
use crate::transact::context::{boot_ms, unix_ms, Context};
use crate::transact::machine::{self, Outcome};
use crate::transact::plan::{FileStep, Step, Write};
use crate::transact::revert;
use crate::transact::store::Journals;
use crate::transact::transaction::{State, Transaction};
use crate::transact::undo::path_of;
use crate::transact::unfinished;
use crate::transact::zram;
use serde::Serialize;
use serde_json::{json, Value};

/// Returns all transactions, damaged journals, and files among the journals that are something
/// else.
pub fn status(context: &Context) -> Result<Value> {
    let Journals {
        transactions,
        skipped,
    } = context.store.journals()?;
    let damaged = transactions
        .iter()
        .filter(|transaction| transaction.is_open())
        .flat_map(|transaction| {
            let file = transaction.file.display().to_string();
            transaction.damage.iter().map(move |damage| {
            json!({"file": file, "message": format!("line {}: {}", damage.line, damage.message)})
        })
        });
    let damaged: Vec<Value> = damaged.collect();
    let transactions: Vec<Value> = transactions
        .iter()
        .map(|transaction| describe(context, transaction))
        .collect();
    Ok(json!({"transactions": transactions, "damaged": damaged, "skipped": skipped}))
}

fn describe(context: &Context, transaction: &Transaction) -> Value {
    let is_abandoned = context.store.is_abandoned(transaction);
    let begin = transaction.begin.as_ref();
    let steps: Vec<Value> = (0..transaction.step_count())
        .map(|step| describe_step(transaction, step))
        .collect();
    let mut described = json!({
        "transaction": transaction.id,
        "title": begin.map(|begin| begin.plan.title.as_str()),
        "state": if is_abandoned { State::Unfinished } else { transaction.state() },
        "lease": transaction.lease(),
        "began_unix_ms": begin.map(|begin| begin.at_unix_ms),
        "this_boot": transaction.this_boot,
        "steps": steps,
    });
    if let Some(sources) = begin.and_then(|begin| begin.plan.sources.as_ref()) {
        described["sources"] = json!(sources);
    }
    let abandoned = || is_abandoned.then(|| unfinished::ABANDONED.to_owned());
    if let Some(why) = unfinished::reason(transaction).or_else(abandoned) {
        described["unfinished"] = json!(why);
    }
    let left: Vec<String> = revert::still_left_alone(&context.root, transaction)
        .into_iter()
        .map(|step| path_of(transaction, step))
        .collect();
    if !left.is_empty() {
        described["left_alone"] = json!(left);
    }
    if transaction.confirmed {
        return described;
    }
    if let Some(deadline) = transaction.deadline_boot_ms {
        let left_ms = deadline.saturating_sub(boot_ms());
        described["left_ms"] = json!(left_ms);
        described["deadline_unix_ms"] = json!(unix_ms() + left_ms);
    } else if let Some(deadline) = transaction.deadline_unix_ms {
        described["deadline_unix_ms"] = json!(deadline);
    }
    described
}

fn describe_step(transaction: &Transaction, index: usize) -> Value {
    let step = transaction.steps().get(index);
    let old = transaction.olds_of(index).next();
    let old = old.and_then(|old| {
        old.swap
            .as_ref()
            .map(check::describe)
            .or_else(|| old.bytes.clone())
    });
    let new = match step {
        Some(Step::Write(write)) => Some(write.new.clone()),
        Some(Step::File(file)) => file.bytes(),
        Some(Step::Zram(zram)) => Some(Bytes(zram.size_bytes.to_string().into_bytes())),
        Some(Step::Run(run)) => Some(Bytes(run.forward.join(" ").into_bytes())),
        None => None,
    };
    let mut described = json!({"step": index, "path": path_of(transaction, index), "old": old, "new": new});
    if let Some(knob) = step.and_then(Step::knob) {
        described["knob"] = json!(knob);
    }
    described
}

/// The state of a step.
#[derive(Debug, Serialize)]
struct StepState {
    step: usize,
    path: String,
    outcome: Outcome,
    wanted: Option<Bytes>,
    now: Option<Bytes>,
}

/// Compares transactions in force, or one of them, with the machine.
pub fn verify(context: &mut Context, only: Option<u64>) -> Result<Value> {
    let transactions = match only {
        None => in_force(context)?,
        Some(id) => vec![context.store.load(id).map_err(|error| match error.kind {
            Kind::NotFound => error.hint("`ktrial status` lists all transactions"),
            _ => error,
        })?],
    };
    let context = &*context;
    let verified: Vec<Value> = transactions
        .iter()
        .map(|transaction| {
            let steps: Vec<StepState> = (0..transaction.steps().len())
                .filter_map(|step| look(context, transaction, step))
                .collect();
            json!({"transaction": transaction.id, "steps": steps})
        })
        .collect();
    Ok(json!({"transactions": verified}))
}

/// Returns the transactions in force. The session reads the journals of the oldest ones, which are
/// over for good, only once, although it asks before and after each run of a trial.
fn in_force(context: &mut Context) -> Result<Vec<Transaction>> {
    let mut transactions = match context.over_up_to {
        0 => context.store.transactions()?,
        over => context.store.newer(over)?,
    };
    let is_over = |transaction: &&Transaction| {
        matches!(
            transaction.state(),
            State::Reverted | State::RolledBack | State::GoneWithBoot
        )
    };
    if let Some(last) = transactions.iter().take_while(is_over).last() {
        context.over_up_to = last.id;
    }
    transactions.retain(|transaction| transaction.state() == State::Applied);
    Ok(transactions)
}

/// Compares one step; None if the transaction skipped it.
fn look(context: &Context, transaction: &Transaction, index: usize) -> Option<StepState> {
    let step = transaction
        .steps()
        .get(index)
        .filter(|_| transaction.is_in_place(index))?;
    // Beside a file, a value of a transaction is one that the file sets again at every boot.
    let is_kept = transaction.steps().iter().any(|one| matches!(one, Step::File(_)));
    let lasts = transaction.this_boot || step.is_persistent() || is_kept;
    let over = !(transaction.is_open() && lasts);
    let applied = transaction
        .applied
        .as_ref()
        .and_then(|values| values.get(&step.path()));
    let (outcome, wanted, now) = match step {
        Step::Write(write) => look_at_knob(context, write, applied),
        Step::File(file) => look_at_file(context, file),
        Step::Zram(zram) => {
            let device = transaction
                .made
                .get(&index)
                .map_or_else(|| step.path(), |name| format!("/sys/block/{name}"));
            match zram::state(&context.root, &device) {
                Ok(now) => {
                    let want = zram::wanted(zram, &now);
                    let outcome = if zram::same(&now, &want) {
                        Outcome::InForce
                    } else {
                        Outcome::Drifted
                    };
                    (outcome, Some(check::describe(&want)), Some(check::describe(&now)))
                }
                Err(_) => (Outcome::Gone, None, None),
            }
        }
        // The effect of a program is not read back.
        Step::Run(_) => (Outcome::Unreadable, None, None),
    };
    let outcome = if over { Outcome::Gone } else { outcome };
    Some(StepState {
        step: index,
        path: step.path(),
        outcome,
        wanted,
        now,
    })
}

type Look = (Outcome, Option<Bytes>, Option<Bytes>);

fn look_at_knob(context: &Context, write: &Write, applied: Option<&Bytes>) -> Look {
    let wanted = Some(write.new.clone());
    match machine::read(&context.root, &write.path, Purpose::Undo) {
        Ok(now) => {
            let as_left =
                applied.is_some_and(|applied| write.verify.same_state(&write.new, applied, &now.bytes));
            let holds = write.verify.holds(&write.new, &now.bytes) || as_left;
            (
                if holds { Outcome::InForce } else { Outcome::Drifted },
                wanted,
                Some(now.bytes),
            )
        }
        Err(refusal) => match refusal.outcome {
            Outcome::Absent | Outcome::Vanished => (Outcome::Gone, wanted, None),
            _ => (Outcome::Unreadable, wanted, None),
        },
    }
}

fn look_at_file(context: &Context, file: &FileStep) -> Look {
    let wanted = file.bytes();
    match machine::read(&context.root, &file.path, Purpose::File) {
        Ok(now) => {
            let holds = wanted.as_ref() == Some(&now.bytes);
            (
                if holds { Outcome::InForce } else { Outcome::Drifted },
                wanted,
                Some(now.bytes),
            )
        }
        Err(refusal) if refusal.outcome == Outcome::Absent => (
            if wanted.is_none() {
                Outcome::InForce
            } else {
                Outcome::Gone
            },
            wanted,
            None,
        ),
        Err(_) => (Outcome::Unreadable, wanted, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::Root;
    use crate::transact::context::Role;

    #[test]
    fn a_knob_is_in_force_as_wanted_or_as_the_kernel_took_it() {
        let folder = tempfile::tempdir().unwrap();
        let context = Context::new(Role::Root, Root::new(folder.path()), "/var/lib/ktrial");
        let knob = folder.path().join("proc/sys/vm/swappiness");
        std::fs::create_dir_all(knob.parent().unwrap()).unwrap();
        let write: Write = serde_json::from_value(serde_json::json!({"path": "/proc/sys/vm/swappiness",
            "new": "300\n", "verify": "integer"}))
        .unwrap();
        let clamped = Bytes::from("200\n");
        for (now, applied, outcome) in [
            ("300\n", None, Outcome::InForce),
            ("300\n", Some(&clamped), Outcome::InForce),
            ("200\n", Some(&clamped), Outcome::InForce),
            ("200\n", None, Outcome::Drifted),
            ("60\n", Some(&clamped), Outcome::Drifted),
        ] {
            std::fs::write(&knob, now).unwrap();
            assert_eq!(
                look_at_knob(&context, &write, applied).0,
                outcome,
                "{now} {applied:?}"
            );
        }
    }
}
