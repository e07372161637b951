// SPDX-License-Identifier: Apache-2.0
//! Why a transaction is unfinished, and what to do: in words that stay true until somebody does it.

use crate::transact::journal::Damage;
use crate::transact::machine::Outcome;
use crate::transact::transaction::{State, Transaction};
use crate::transact::undo::path_of;

/// Of a lease that nobody holds any more.
pub const ABANDONED: &str =
    "its lease is over, and nothing tells that it was put back. recover puts all back";

/// Why a transaction stays open once these steps could not be put back and these were left alone because nothing proves
/// that it wrote them; nothing when it does not.
#[must_use]
pub fn why(transaction: &Transaction, failed: &[usize], unproven: &[usize]) -> Option<String> {
    let id = transaction.id;
    let mut reasons = Vec::new();
    if !failed.is_empty() {
        reasons.push(format!("{} could not be put back", paths(transaction, failed)));
    }
    if transaction.has_lost_more() {
        reasons.push(format!("an old value is lost ({})", damaged_lines(transaction)));
    }
    let gives_up = !reasons.is_empty();
    if !unproven.is_empty() {
        reasons.push(format!(
            "nothing proves that it wrote {}",
            paths(transaction, unproven)
        ));
    }
    let hint = if gives_up {
        format!("recover tries again; revert --only {id} --force gives up what cannot be put back")
    } else {
        format!("revert --only {id} leaves what is there now; with --force it puts the old values back")
    };
    (!reasons.is_empty()).then(|| format!("{}. {hint}", reasons.join(", and ")))
}

/// The same as far as the journal tells.
#[must_use]
pub fn told(transaction: &Transaction) -> Option<String> {
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
    why(transaction, &failed, left.unwrap_or_default())
        .or_else(|| Some(format!("{begun} did not come to its end. recover puts all back")))
}

fn doubtful(transaction: &Transaction) -> String {
    let id = transaction.id;
    let until = if unread(transaction).is_some() {
        "until it can be read or somebody names it"
    } else {
        "until somebody names it"
    };
    format!(
        "{}, so that nothing tells whether it was over: nothing is changed {until}. revert --only {id} puts back what is \
         proven to be of it; with --force all old values that are known",
        damaged_lines(transaction)
    )
}

/// The line at which the disk gave no more.
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
        return format!("{file} cannot be read from line {line} on ({message})");
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
            "000001.journal cannot be read from line 1 on (no medium)"
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
        assert!(failed.contains("recover tries again"), "{failed}");
        let unproven = why(&open, &[], &[0]).unwrap();
        assert!(unproven.contains("leaves what is there now"), "{unproven}");
    }
}
