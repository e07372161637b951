// SPDX-License-Identifier: Apache-2.0
//! The stack that open transactions form on each knob. A transaction that ends below another one
//! writes nothing: it hands its old value to the one above, which restores that value instead of
//! its own.

use crate::bytes::Bytes;
use crate::error::Result;
use crate::root::Root;
use crate::transact::allow::Purpose;
use crate::transact::journal::{Entry, Old, Writer};
use crate::transact::machine;
use crate::transact::plan::Step;
use crate::transact::store::Store;
use crate::transact::transaction::{State, Transaction};
use crate::transact::undo_log::Unwritten;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// The open transactions that are newer than a given one, oldest first.
#[derive(Debug, Default)]
pub struct Stack {
    newer: Vec<Transaction>,
}

/// What the journal of a newer transaction receives.
struct Gift {
    heir: usize,
    writer: Writer,
    olds: Vec<Old>,
}

/// Old values on their way to newer transactions, whose journals are open.
#[derive(Default)]
pub struct Gifts {
    from: u64,
    open: Vec<Gift>,
    unwritten: Option<Unwritten>,
}

impl Stack {
    /// Returns what lies above a transaction.
    pub fn above(store: &Store, transaction: &Transaction) -> Result<Self> {
        let newer = store.newer(transaction.id)?;
        let is_open = |newer: &Transaction| newer.this_boot && newer.is_open();
        Ok(Self {
            newer: newer.into_iter().filter(is_open).collect(),
        })
    }

    /// Returns the transaction that receives the old value of a path: the lowest one above that
    /// changed it, or may have.
    #[must_use]
    pub fn heir(&self, path: &str) -> Option<(&Transaction, &Old)> {
        self.newer
            .iter()
            .find_map(|newer| Some((newer, knob_old(newer, path)?)))
    }

    /// Returns the old values that newer transactions found at the paths of this one.
    #[must_use]
    pub fn found_above(&self, transaction: &Transaction) -> BTreeMap<String, Bytes> {
        let found = |path: &str| self.heir(path).and_then(|(_, old)| old.bytes.clone());
        let mine = transaction.olds.iter().filter(|old| is_knob(transaction, old));
        mine.filter_map(|old| Some((old.path.clone(), found(&old.path)?)))
            .collect()
    }

    /// Whether a newer transaction is in force at all paths of a step.
    #[must_use]
    pub fn covers(&self, transaction: &Transaction, step: usize) -> bool {
        let is_covered = |old: &Old| is_knob(transaction, old) && self.cover(&old.path).is_some();
        let is_absent = |old: &Old| is_written(transaction, old) && old.bytes.is_none();
        let mut olds = transaction.olds_of(step);
        olds.next().is_some_and(is_covered) && olds.all(|old| is_covered(old) || is_absent(old))
    }

    /// Returns the newest transaction that is in force at a path.
    fn cover(&self, path: &str) -> Option<&Transaction> {
        let is_cover =
            |newer: &&Transaction| newer.state() == State::Applied && knob_old(newer, path).is_some();
        self.newer.iter().rev().find(is_cover)
    }

    /// Returns the transaction with the values to restore: those that newer transactions cover stay
    /// as they are, even if the kernel changes them together with a value that is restored.
    #[must_use]
    pub fn leaving_covered(&self, root: &Root, transaction: &Transaction) -> Transaction {
        let mut target = transaction.clone();
        for old in &mut target.olds {
            if !is_knob(transaction, old) {
                continue;
            }
            let Some(cover) = self.cover(&old.path) else {
                continue;
            };
            // An interrupted revert may have left any value here.
            let applied = cover.applied.as_ref().and_then(|values| values.get(&old.path));
            let stays = match applied.filter(|_| transaction.reverting.is_some()) {
                Some(value) => Some(value.clone()),
                None => machine::read(root, &old.path, Purpose::Undo)
                    .ok()
                    .map(|content| content.bytes),
            };
            old.bytes = stays.or_else(|| old.bytes.take());
        }
        target
    }

    /// Opens the journals that receive old values of these steps.
    #[must_use]
    pub fn gifts(&self, transaction: &Transaction, steps: &[usize]) -> Gifts {
        let mut gifts = Gifts {
            from: transaction.id,
            ..Gifts::default()
        };
        for (index, newer) in self.newer.iter().enumerate() {
            let mut olds: BTreeMap<&str, &Old> = BTreeMap::new();
            for old in steps.iter().flat_map(|step| transaction.olds_of(*step)) {
                let heir = self.heir(&old.path).filter(|_| is_knob(transaction, old));
                let is_new =
                    heir.is_some_and(|(heir, theirs)| heir.id == newer.id && theirs.bytes != old.bytes);
                if is_new {
                    olds.insert(&old.path, old);
                }
            }
            if olds.is_empty() {
                continue;
            }
            match Writer::open(&newer.file, newer.valid_bytes) {
                Ok(writer) => gifts.open.push(Gift {
                    heir: index,
                    writer,
                    olds: olds.into_values().cloned().collect(),
                }),
                Err(error) => gifts.fail(&newer.file, error),
            }
        }
        gifts
    }

    /// Journals the old values, and syncs them.
    #[must_use]
    pub fn hand_over(&self, mut gifts: Gifts) -> Option<Unwritten> {
        let from = gifts.from;
        for mut gift in std::mem::take(&mut gifts.open) {
            let writer = &mut gift.writer;
            let mut olds = gift.olds.into_iter();
            let written = olds.try_for_each(|old| writer.append(&Entry::Inherited { from, old }));
            if let Err(error) = written.and_then(|()| writer.sync()) {
                gifts.fail(&self.newer[gift.heir].file, error);
            }
        }
        gifts.unwritten
    }
}

impl Gifts {
    fn fail(&mut self, file: &Path, error: io::Error) {
        self.unwritten.get_or_insert(Unwritten::of(file, error));
    }

    /// Returns the journal that cannot be written, if there is one.
    #[must_use]
    pub fn unwritten(&self) -> Option<&Unwritten> {
        self.unwritten.as_ref()
    }
}

/// Returns the old value of a knob that a transaction changed, or may have.
fn knob_old<'a>(transaction: &'a Transaction, path: &str) -> Option<&'a Old> {
    let mut olds = transaction.olds.iter().filter(|old| old.path == path);
    // What an interrupted revert leaves alone it does not restore.
    let is_left = |step| {
        transaction
            .reverting
            .as_ref()
            .is_some_and(|left| left.contains(&step))
    };
    olds.find(|old| is_knob(transaction, old) && transaction.is_in_force(old.step) && !is_left(old.step))
}

/// Whether an old value is that of a knob, in the present boot.
fn is_knob(transaction: &Transaction, old: &Old) -> bool {
    transaction.this_boot && old.bytes.is_some() && is_written(transaction, old)
}

/// Whether the step of an old value writes a knob.
fn is_written(transaction: &Transaction, old: &Old) -> bool {
    matches!(transaction.steps().get(old.step), Some(Step::Write(_)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::Root;
    use crate::transact::apply;
    use crate::transact::context::{Context, Role};
    use crate::transact::machine::Outcome;
    use crate::transact::plan::Plan;
    use crate::transact::revert::{self, Report, Select};
    use serde_json::{json, Value};
    use std::fs;

    const SWAPPINESS: &str = "/proc/sys/vm/swappiness";
    const RATIO: &str = "/proc/sys/vm/dirty_ratio";
    const BYTES: &str = "/proc/sys/vm/dirty_bytes";

    struct Place {
        folder: tempfile::TempDir,
        context: Context,
    }

    impl Place {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let context = Context::new(Role::Root, Root::new(folder.path()), "/var/lib/ktrial");
            let place = Self { folder, context };
            for (path, value) in [
                ("/proc/sys/kernel/random/boot_id", "now\n"),
                (SWAPPINESS, "60\n"),
                (RATIO, "20\n"),
                (BYTES, "0\n"),
                ("/etc/sysctl.d/README", ""),
                ("/var/lib/README", ""),
            ] {
                let file = place.folder.path().join(&path[1..]);
                fs::create_dir_all(file.parent().unwrap()).unwrap();
                fs::write(file, value).unwrap();
            }
            place
        }

        fn set(&self, path: &str, value: &str) {
            fs::write(self.folder.path().join(&path[1..]), format!("{value}\n")).unwrap();
        }

        fn get(&self, path: &str) -> String {
            let text = fs::read_to_string(self.folder.path().join(&path[1..])).unwrap();
            text.trim().to_owned()
        }

        fn try_begin(&mut self, steps: &[Value], more: &Value) -> Result<u64> {
            let mut plan = json!({"schema": crate::transact::plan::SCHEMA, "steps": steps});
            plan.as_object_mut()
                .unwrap()
                .extend(more.as_object().unwrap().clone());
            let report = apply::apply(&mut self.context, &Plan::from_value(plan)?)?;
            assert_eq!(report.state, State::Applied);
            Ok(report.transaction)
        }

        fn begin(&mut self, path: &str, value: &str) -> u64 {
            self.try_begin(&[write(path, value, &[])], &json!({})).unwrap()
        }

        fn try_end(&mut self, id: u64) -> Result<Report> {
            let reports = revert::revert(&mut self.context, Select::Only(id), false)?;
            Ok(reports.into_iter().next().unwrap())
        }

        fn end(&mut self, id: u64) -> Vec<Outcome> {
            let report = self.try_end(id).unwrap();
            assert_eq!(report.state, State::Reverted, "{:?}", report.unfinished);
            report.steps.iter().map(|step| step.outcome).collect()
        }
    }

    fn write(path: &str, value: &str, couples: &[&str]) -> Value {
        json!({"kind": "write", "path": path, "new": format!("{value}\n"), "verify": "integer", "couples": couples})
    }

    #[test]
    fn in_whatever_order_transactions_end_the_newest_value_stays_and_the_first_one_comes_back() {
        let orders = [[1, 2, 3], [1, 3, 2], [2, 1, 3], [2, 3, 1], [3, 1, 2], [3, 2, 1]];
        for order in orders {
            let mut place = Place::new();
            for value in ["10", "20", "30"] {
                place.begin(SWAPPINESS, value);
            }
            let mut open = vec![1, 2, 3];
            for id in order {
                let is_top = open.last() == Some(&id);
                open.retain(|one| *one != id);
                let outcome = if is_top {
                    Outcome::Restored
                } else {
                    Outcome::HandedOver
                };
                assert_eq!(place.end(id), [outcome], "{order:?} {id}");
                let top = open.last().map_or("60".to_owned(), |id| (id * 10).to_string());
                assert_eq!(place.get(SWAPPINESS), top, "{order:?} {id}");
            }
        }
    }

    #[test]
    fn a_transaction_that_found_its_value_already_keeps_it_when_the_other_one_ends() {
        let mut place = Place::new();
        let first = place.begin(SWAPPINESS, "10");
        let second = place.begin(SWAPPINESS, "10");
        place.end(first);
        assert_eq!(place.get(SWAPPINESS), "10");
        place.end(second);
        assert_eq!(place.get(SWAPPINESS), "60");
    }

    #[test]
    fn a_value_that_others_set_between_two_transactions_is_the_one_that_comes_back() {
        for lower_first in [false, true] {
            let mut place = Place::new();
            place.begin(SWAPPINESS, "10");
            place.set(SWAPPINESS, "33");
            place.begin(SWAPPINESS, "20");
            if lower_first {
                assert_eq!(place.end(1), [Outcome::ChangedByOthers]);
                assert_eq!(place.get(SWAPPINESS), "20");
                assert_eq!(place.end(2), [Outcome::Restored]);
            } else {
                assert_eq!(place.end(2), [Outcome::Restored]);
                assert_eq!(place.end(1), [Outcome::ChangedByOthers]);
            }
            assert_eq!(place.get(SWAPPINESS), "33");
        }
    }

    #[test]
    fn a_value_that_others_set_above_all_transactions_stays() {
        let mut place = Place::new();
        place.begin(SWAPPINESS, "10");
        place.begin(SWAPPINESS, "20");
        place.set(SWAPPINESS, "33");
        assert_eq!(place.end(1), [Outcome::HandedOver]);
        assert_eq!(place.end(2), [Outcome::ChangedByOthers]);
        assert_eq!(place.get(SWAPPINESS), "33");
        revert::revert(&mut place.context, Select::Only(2), true).unwrap();
        assert_eq!(place.get(SWAPPINESS), "60", "the value that it inherited");
    }

    #[test]
    fn both_halves_of_a_pair_are_one_stack() {
        let mut place = Place::new();
        let keep = json!({});
        place.try_begin(&[write(RATIO, "10", &[BYTES])], &keep).unwrap();
        place.try_begin(&[write(BYTES, "4096", &[RATIO])], &keep).unwrap();
        assert_eq!(place.end(1), [Outcome::HandedOver]);
        assert_eq!((place.get(RATIO), place.get(BYTES)), ("10".into(), "4096".into()));
        let olds = place.context.store.load(2).unwrap();
        let old = |path: &str| {
            olds.olds
                .iter()
                .find(|old| old.path == path)
                .unwrap()
                .bytes
                .clone()
        };
        assert_eq!(
            (old(RATIO), old(BYTES)),
            (Some("20\n".into()), Some("0\n".into()))
        );
        place.end(2);
        assert_eq!((place.get(RATIO), place.get(BYTES)), ("20".into(), "0".into()));
    }

    #[test]
    fn a_covered_half_keeps_its_value_when_the_other_half_is_restored() {
        let mut place = Place::new();
        place
            .try_begin(&[write(RATIO, "10", &[BYTES])], &json!({}))
            .unwrap();
        place.begin(BYTES, "4096");
        let lower = place.context.store.load(1).unwrap();
        let stack = Stack::above(&place.context.store, &lower).unwrap();
        assert!(!stack.covers(&lower, 0));
        let target = stack.leaving_covered(&place.context.root, &lower);
        assert_eq!(target.olds[0].bytes, Some("20\n".into()));
        assert_eq!(target.olds[1].bytes, Some("4096\n".into()));
        let mut interrupted = lower.clone();
        interrupted.reverting = Some(Vec::new());
        place.set(BYTES, "0");
        let target = stack.leaving_covered(&place.context.root, &interrupted);
        assert_eq!(target.olds[1].bytes, Some("4096\n".into()), "as the journal says");
        place.set(BYTES, "4096");
        assert_eq!(place.end(1), [Outcome::Restored]);
        assert_eq!((place.get(RATIO), place.get(BYTES)), ("20".into(), "4096".into()));
        place.end(2);
        assert_eq!(place.get(BYTES), "0");
    }

    #[test]
    fn a_step_that_was_left_out_inherits_nothing() {
        let mut place = Place::new();
        place.begin(SWAPPINESS, "10");
        let absent = write("/proc/sys/vm/dirty_background_ratio", "1", &[]);
        let steps = [absent, write(RATIO, "5", &[])];
        place.try_begin(&steps, &json!({"keep_going": true})).unwrap();
        assert_eq!(place.end(1), [Outcome::Restored]);
        assert_eq!(place.get(SWAPPINESS), "60");
    }

    #[test]
    fn a_file_of_a_newer_transaction_is_not_taken_from_below_it() {
        let mut place = Place::new();
        let file = |value: &str| {
            json!({"kind": "file", "path": "/etc/sysctl.d/90-ktrial.conf",
                "holds": {"sysctl.d": [{"path": SWAPPINESS, "value": value}]}})
        };
        place.try_begin(&[file("10")], &json!({})).unwrap();
        place.try_begin(&[file("20")], &json!({})).unwrap();
        let error = place.try_end(1).unwrap_err();
        assert!(error.message.contains("transaction 2 is newer"), "{error}");
        place.end(2);
        place.end(1);
    }

    #[test]
    fn a_lease_is_stacked_upon_only_if_its_plan_says_so() {
        for (stacks, is_refused) in [(false, true), (true, false)] {
            let mut place = Place::new();
            let plan = json!({"stacks": stacks});
            place.try_begin(&[write(SWAPPINESS, "10", &[])], &plan).unwrap();
            // A holder is a process of the agent, which a unit test is not.
            let file = place.context.store.journal_path(1);
            let contents = crate::transact::journal::parse(&fs::read(&file).unwrap());
            let mut lines = Vec::new();
            for entry in contents.entries {
                let entry = match entry {
                    Entry::Begin(mut begin) => {
                        begin.plan.lease = crate::transact::plan::Lease::WhileSession;
                        Entry::Begin(begin)
                    }
                    other => other,
                };
                lines.extend(crate::transact::journal::line(&entry).unwrap());
            }
            fs::write(&file, lines).unwrap();
            let above = place.try_begin(&[write(SWAPPINESS, "20", &[])], &json!({}));
            assert_eq!(above.is_err(), is_refused);
            if !is_refused {
                revert::recover(&mut place.context).unwrap();
                assert_eq!(
                    place.get(SWAPPINESS),
                    "20",
                    "the lease has no holder, and is over"
                );
                place.end(2);
                assert_eq!(place.get(SWAPPINESS), "60");
            }
        }
    }

    #[test]
    fn an_unfinished_transaction_inherits_but_covers_nothing() {
        let mut place = Place::new();
        place.begin(SWAPPINESS, "10");
        place.begin(SWAPPINESS, "20");
        interrupt(&place, 2, &[]);
        let lower = place.context.store.load(1).unwrap();
        let stack = Stack::above(&place.context.store, &lower).unwrap();
        assert!(stack.heir(SWAPPINESS).is_some() && !stack.covers(&lower, 0));
        assert_eq!(place.end(1), [Outcome::Restored]);
        assert_eq!(place.get(SWAPPINESS), "60");
        revert::recover(&mut place.context).unwrap();
        assert_eq!(place.get(SWAPPINESS), "60");
        assert_eq!(place.context.store.load(2).unwrap().state(), State::Reverted);
    }

    /// Records in a transaction's journal that a revert began, and no more.
    fn interrupt(place: &Place, id: u64, left: &[usize]) {
        let transaction = place.context.store.load(id).unwrap();
        let mut writer = Writer::open(&transaction.file, transaction.valid_bytes).unwrap();
        let left = left.to_vec();
        writer.append(&Entry::Reverting { left }).unwrap();
        writer.sync().unwrap();
    }

    #[test]
    fn what_was_interrupted_below_is_finished_first_so_that_an_edit_above_stays() {
        let mut place = Place::new();
        place.begin(SWAPPINESS, "10");
        place.begin(SWAPPINESS, "20");
        place.set(SWAPPINESS, "33");
        interrupt(&place, 1, &[]);
        assert_eq!(place.end(2), [Outcome::ChangedByOthers]);
        assert_eq!(place.context.store.load(1).unwrap().state(), State::Reverted);
        revert::recover(&mut place.context).unwrap();
        assert_eq!(place.get(SWAPPINESS), "33");
    }

    #[test]
    fn what_was_interrupted_above_and_left_alone_stays_when_the_lower_one_ends() {
        let mut place = Place::new();
        place.begin(SWAPPINESS, "10");
        place.begin(SWAPPINESS, "20");
        place.set(SWAPPINESS, "33");
        interrupt(&place, 2, &[0]);
        let lower = place.context.store.load(1).unwrap();
        let stack = Stack::above(&place.context.store, &lower).unwrap();
        assert!(stack.heir(SWAPPINESS).is_none());
        assert_eq!(place.end(1), [Outcome::ChangedByOthers]);
        revert::recover(&mut place.context).unwrap();
        assert_eq!(place.get(SWAPPINESS), "33");
    }

    #[test]
    fn what_cannot_be_journaled_above_is_refused_before_anything_is_journaled_below() {
        let mut place = Place::new();
        place.begin(SWAPPINESS, "10");
        place.begin(SWAPPINESS, "20");
        let upper = place.context.store.load(2).unwrap();
        let lower = place.context.store.load(1).unwrap();
        let stack = Stack::above(&place.context.store, &lower).unwrap();
        fs::remove_file(&upper.file).unwrap();
        let gifts = stack.gifts(&lower, &[0]);
        assert_eq!(gifts.unwritten().unwrap().file, upper.file);
        assert!(stack.hand_over(gifts).is_some());
    }
}
