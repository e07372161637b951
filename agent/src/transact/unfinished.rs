// SPDX-License-Identifier: Apache-2.0
//! Explains why a transaction is unfinished, and what to do. The text stays true until somebody
//! acts.

use crate::transact::journal::Damage;
use crate::transact::machine::Outcome;
use crate::transact::transaction::{State, Transaction};
use crate::transact::undo::path_of;

/// The reason for a lease whose holder is gone.
pub const ABANDONED: &str =
    "its lease has ended, but it was not reverted. run `ktrial recover` to restore everything";

/// Returns why a transaction stays open; None if it doesn't. `failed` steps could not be restored;
/// `unproven` steps were left alone because nothing proves that the transaction wrote them.
#[must_use]
pub fn why(transaction: &Transaction, failed: &[usize], unproven: &[usize]) -> Option<String> {
    let id = transaction.id;
    let mut reasons = Vec::new();
    if !failed.is_empty() {
        reasons.push(format!("cannot restore {}", paths(transaction, failed)));
    }
    if transaction.has_lost_more() {
        reasons.push(format!("an old value is lost ({})", damaged_lines(transaction)));
    }
    let gives_up = !reasons.is_empty();
    if !unproven.is_empty() {
        reasons.push(format!(
            "nothing proves that the transaction wrote {}",
            paths(transaction, unproven)
        ));
    }
    let hint = if gives_up {
        format!("run `ktrial recover` to try again, or `ktrial revert --only {id} --force` to give up what cannot be restored")
    } else {
        format!("run `ktrial revert --only {id}` to keep the present values, or with --force to restore the old ones")
    };
    (!reasons.is_empty()).then(|| format!("{}. {hint}", reasons.join(", and ")))
}

/// Returns the same reason, as far as the journal shows it.
#[must_use]
pub fn reason(transaction: &Transaction) -> Option<String> {
    if transaction.state() != State::Unfinished {
        return None;
    }
    if transaction.is_end_damaged() {
        return Some(doubtful(transaction));
    }
    let failed: Vec<usize> = transaction
        .restored
        .iter()
        .filter(|(_, outcome)| **outcome == Outcome::Failed)
        .map(|(step, _)| *step)
        .collect();
    let left = transaction
        .reverting
        .as_deref()
        .filter(|_| transaction.proves_little());
    let begun = if transaction.reverting.is_some() {
        "a revert"
    } else {
        "an apply"
    };
    why(transaction, &failed, left.unwrap_or_default()).or_else(|| {
        Some(format!(
            "{begun} was interrupted. run `ktrial recover` to restore everything"
        ))
    })
}

fn doubtful(transaction: &Transaction) -> String {
    let id = transaction.id;
    let until = if unread(transaction).is_some() {
        "until the file is readable or you name the transaction"
    } else {
        "until you name the transaction"
    };
    format!(
        "{}, and its state is unknown: nothing is changed {until}; run `ktrial revert --only {id}` to restore what the journal proves, or with --force every old value that is known",
        damaged_lines(transaction)
    )
}

/// Returns the line from which the disk could not be read.
fn unread(transaction: &Transaction) -> Option<&Damage> {
    transaction.damage.last().filter(|damage| damage.is_unread)
}

fn damaged_lines(transaction: &Transaction) -> String {
    let lines: Vec<String> = transaction
        .damage
        .iter()
        .map(|damage| damage.line.to_string())
        .collect();
    let file = transaction.file.display();
    if let Some(Damage { line, message, .. }) = unread(transaction) {
        return format!("{file} is unreadable from line {line} on ({message})");
    }
    match lines.as_slice() {
        [line] => format!("line {line} of {file} is damaged"),
        [first, .., last] => format!("{} lines of {file} are damaged, {first} to {last}", lines.len()),
        [] => format!("{file} is damaged"),
    }
}

fn paths(transaction: &Transaction, steps: &[usize]) -> String {
    let paths: Vec<String> = steps.iter().map(|step| path_of(transaction, *step)).collect();
    match paths.as_slice() {
        [first, second, third, rest @ ..] if !rest.is_empty() => {
            format!("{first}, {second}, {third} and {} more", rest.len())
        }
        few => few.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transact::journal::{parse, Contents, Old};
    use std::io;
    use std::path::Path;

    fn transaction(contents: Contents) -> Transaction {
        Transaction::new(1, Path::new("000001.journal"), contents, "now", true)
    }

    #[test]
    fn a_journal_that_the_disk_does_not_give_is_told_from_a_damaged_one() {
        let mut unread = parse(b"");
        unread.break_off(&io::Error::other("no medium"));
        assert_eq!(
            damaged_lines(&transaction(unread)),
            "000001.journal is unreadable from line 1 on (no medium)"
        );
        assert_eq!(
            damaged_lines(&transaction(parse(b"x\n"))),
            "line 1 of 000001.journal is damaged"
        );
    }

    #[test]
    fn of_many_paths_three_are_named() {
        let mut of_many = transaction(parse(b""));
        let old = |step| Old::nothing(step, &format!("/{step}"));
        of_many.olds = (0..5).map(old).collect();
        assert_eq!(paths(&of_many, &[0, 1, 2]), "/0, /1, /2");
        assert_eq!(paths(&of_many, &[0, 1, 2, 3, 4]), "/0, /1, /2 and 2 more");
    }

    #[test]
    fn the_next_step_is_to_try_again_or_to_decide() {
        let mut open = transaction(parse(b""));
        open.olds = vec![Old::nothing(0, "/0")];
        let failed = why(&open, &[0], &[]).unwrap();
        assert!(failed.contains("run `ktrial recover` to try again"), "{failed}");
        let unproven = why(&open, &[], &[0]).unwrap();
        assert!(unproven.contains("to keep the present values"), "{unproven}");
    }
}
