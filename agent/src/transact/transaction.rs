// SPDX-License-Identifier: Apache-2.0
//! A transaction, as recorded in its journal.

use crate::bytes::Bytes;
use crate::transact::journal::{Begin, Contents, Damage, Entry, Old};
use crate::transact::machine::Outcome;
use crate::transact::plan::{Lease, Step};
use crate::transact::verify::Rule;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The state of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// In force.
    Applied,
    /// An apply or revert did not finish, something could not be restored, or the end of the
    /// journal is damaged.
    Unfinished,
    /// A step failed and everything was restored.
    RolledBack,
    /// Undone.
    Reverted,
    /// The machine was rebooted since, and nothing of the transaction survives that.
    GoneWithBoot,
}

/// A transaction, as recorded in its journal.
#[derive(Debug, Clone)]
pub struct Transaction {
    /// Its number.
    pub id: u64,
    /// Its journal file.
    pub file: PathBuf,
    /// The first entry, unless damaged.
    pub begin: Option<Begin>,
    /// Old values.
    pub olds: Vec<Old>,
    /// Whether writes may have happened.
    pub armed: bool,
    /// Steps that were begun.
    pub begun: BTreeSet<usize>,
    /// Outcomes of the steps that have one.
    pub wrote: BTreeMap<usize, Outcome>,
    /// What was read back after a step's write.
    pub written: BTreeMap<usize, Bytes>,
    /// Devices created for steps.
    pub made: BTreeMap<usize, String>,
    /// Values read back after the whole apply.
    pub applied: Option<BTreeMap<String, Bytes>>,
    /// When an `until-confirmed` lease ends, in milliseconds since boot.
    pub deadline_boot_ms: Option<u64>,
    /// The same in milliseconds since 1970; only in journals of version 1.
    pub deadline_unix_ms: Option<u64>,
    /// Whether the lease was confirmed.
    pub confirmed: bool,
    /// Steps that a revert leaves alone, once it has begun.
    pub reverting: Option<Vec<usize>>,
    /// Outcomes that the revert recorded.
    pub restored: BTreeMap<usize, Outcome>,
    /// How it ended.
    pub ended: Option<State>,
    /// Lines that cannot be trusted.
    pub damage: Vec<Damage>,
    /// How many damaged lines are among the old values.
    damaged_olds: usize,
    /// Length of the journal's complete lines.
    pub valid_bytes: usize,
    /// Whether the journal was written during the present boot.
    pub this_boot: bool,
}

impl Transaction {
    /// Reconstructs a transaction from its journal. `boot_id` is that of the present boot;
    /// `changed_this_boot` says whether the file was changed since then, and is used only if the
    /// first entry is damaged.
    #[must_use]
    pub fn new(id: u64, file: &Path, contents: Contents, boot_id: &str, changed_this_boot: bool) -> Self {
        let mut transaction = Self {
            id,
            file: file.to_owned(),
            begin: None,
            olds: Vec::new(),
            armed: false,
            begun: BTreeSet::new(),
            wrote: BTreeMap::new(),
            written: BTreeMap::new(),
            made: BTreeMap::new(),
            applied: None,
            deadline_boot_ms: None,
            deadline_unix_ms: None,
            confirmed: false,
            reverting: None,
            restored: BTreeMap::new(),
            ended: None,
            damaged_olds: contents
                .damage
                .iter()
                .filter(|damage| damage.is_among_olds)
                .count(),
            damage: contents.damage,
            valid_bytes: contents.valid_bytes,
            this_boot: changed_this_boot,
        };
        for entry in contents.entries {
            transaction.take(entry);
        }
        if let Some(begin) = &transaction.begin {
            transaction.this_boot = begin.boot_id == boot_id;
        } else {
            // Without its first entry nothing else is known, so assume that writes happened.
            transaction.armed = transaction.armed || !transaction.olds.is_empty();
        }
        transaction
    }

    /// Adds an entry.
    pub fn take(&mut self, entry: Entry) {
        match entry {
            Entry::Begin(begin) => self.begin = Some(*begin),
            Entry::Old(old) => self.olds.push(old),
            Entry::Armed => self.armed = true,
            Entry::Writing { step } => {
                // The entry `armed` is one of the damaged lines.
                self.damaged_olds -= usize::from(!self.armed && self.damaged_olds > 0);
                self.armed = true;
                self.begun.insert(step);
            }
            Entry::Wrote { step, outcome, value } => {
                self.wrote.insert(step, outcome);
                self.written.extend(value.map(|value| (step, value)));
            }
            Entry::Made { step, device } => {
                self.made.insert(step, device);
            }
            Entry::Applied {
                values,
                deadline_boot_ms,
                deadline_unix_ms,
            } => {
                self.applied = Some(values);
                self.deadline_boot_ms = deadline_boot_ms;
                self.deadline_unix_ms = deadline_unix_ms;
            }
            Entry::RolledBack => self.ended = Some(State::RolledBack),
            Entry::Confirmed => {
                self.confirmed = true;
                // Only an applied transaction can be confirmed, so the entry `applied` may be
                // damaged.
                self.applied.get_or_insert_default();
            }
            Entry::Reverting { left } => {
                self.reverting = Some(left);
                self.restored.clear();
                self.ended = None;
            }
            Entry::Inherited { old, .. } => {
                for own in self.olds.iter_mut().filter(|own| own.path == old.path) {
                    let step = own.step;
                    own.clone_from(&old);
                    own.step = step;
                }
            }
            Entry::Restored { step, outcome } => {
                self.restored.insert(step, outcome);
            }
            Entry::Reverted => self.ended = Some(State::Reverted),
            Entry::Gone => self.ended = Some(State::GoneWithBoot),
        }
    }

    /// Returns the state.
    #[must_use]
    pub fn state(&self) -> State {
        let is_gone = !self.this_boot && !self.is_persistent();
        if self.is_end_damaged() {
            return if is_gone {
                State::GoneWithBoot
            } else {
                State::Unfinished
            };
        }
        if let Some(ended) = self.ended {
            ended
        } else if self.applied.is_none() || self.reverting.is_some() {
            State::Unfinished
        } else if is_gone {
            State::GoneWithBoot
        } else {
            State::Applied
        }
    }

    /// Whether the last line is damaged, which may have recorded the end.
    #[must_use]
    pub fn is_end_damaged(&self) -> bool {
        self.damage.last().is_some_and(|damage| damage.is_last)
    }

    /// Whether the transaction has effects, or may have.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self.state(), State::Applied | State::Unfinished)
    }

    /// Whether one of its steps survives a reboot, or may.
    #[must_use]
    pub fn is_persistent(&self) -> bool {
        let is_untold = self.begin.is_none() && self.olds.is_empty();
        is_untold || (0..self.step_count()).any(|step| self.survives_boot(step))
    }

    /// Whether a step survives a reboot.
    #[must_use]
    pub fn survives_boot(&self, step: usize) -> bool {
        let is_file = |old: &Old| old.path.starts_with("/etc/");
        self.steps()
            .get(step)
            .map_or_else(|| self.olds_of(step).any(is_file), Step::is_persistent)
    }

    /// Returns the steps that a revert left alone because others had changed them, and that no
    /// reboot has ended since.
    #[must_use]
    pub fn left_alone(&self) -> Vec<usize> {
        let left = self.reverting.as_deref().filter(|_| !self.is_open());
        let is_here = |step: &usize| self.this_boot || self.survives_boot(*step);
        left.unwrap_or_default().iter().copied().filter(is_here).collect()
    }

    /// Returns the old values that the journal should contain but doesn't, for steps that may have
    /// written: step and path.
    #[must_use]
    pub fn lost_olds(&self) -> Vec<(usize, String)> {
        let mut lost = self.missing_olds();
        lost.retain(|(step, _)| self.was_begun(*step));
        lost
    }

    /// Whether an old value is lost without a trace of its path.
    #[must_use]
    pub fn has_lost_more(&self) -> bool {
        self.damaged_olds > self.missing_olds().len()
    }

    fn missing_olds(&self) -> Vec<(usize, String)> {
        if self.damage.is_empty() {
            return Vec::new();
        }
        let has = |step: usize, path: &str| self.olds_of(step).any(|old| old.path == path);
        let mut missing = Vec::new();
        for (index, step) in self.steps().iter().enumerate() {
            if !self.was_left_out(index) {
                let paths = step.touches().into_iter().filter(|path| !has(index, path));
                missing.extend(paths.map(|path| (index, path)));
            }
        }
        missing
    }

    fn was_begun(&self, step: usize) -> bool {
        self.begun.contains(&step) || self.wrote.contains_key(&step)
    }

    /// Whether a plan that keeps going skipped this step because its check failed.
    fn was_left_out(&self, step: usize) -> bool {
        let is_passed = self.applied.is_some() || self.begun.iter().any(|begun| *begun > step);
        is_passed && !self.was_begun(step)
    }

    /// Whether a value that differs from its old one may be somebody else's: the journal has lost
    /// entries, or says that nothing was written yet.
    #[must_use]
    pub fn proves_little(&self) -> bool {
        !self.armed || !self.damage.is_empty()
    }

    /// Returns the plan's steps; none if the first entry is damaged.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        self.begin.as_ref().map_or(&[], |begin| &begin.plan.steps)
    }

    /// Returns the lease in force.
    #[must_use]
    pub fn lease(&self) -> Lease {
        match &self.begin {
            Some(begin) if !self.confirmed => begin.plan.lease,
            _ => Lease::Keep,
        }
    }

    /// Returns the number of steps, known from the plan or from the old values.
    #[must_use]
    pub fn step_count(&self) -> usize {
        let from_olds = self.olds.iter().map(|old| old.step + 1).max().unwrap_or(0);
        if self.begin.is_some() {
            self.steps().len()
        } else {
            from_olds
        }
    }

    /// Whether a step was carried out and left in place.
    #[must_use]
    pub fn is_in_place(&self, step: usize) -> bool {
        let wrote = self.wrote.get(&step);
        wrote.is_some_and(|outcome| stands(*outcome, self.steps().get(step)))
    }

    /// Returns the paths that its steps write or may change.
    #[must_use]
    pub fn touches(&self) -> BTreeSet<String> {
        let mut paths: BTreeSet<String> = self.olds.iter().map(|old| old.path.clone()).collect();
        paths.extend(self.steps().iter().flat_map(Step::touches));
        paths
    }

    /// Whether a step changed something, or may have if the apply was not finished.
    #[must_use]
    pub fn is_in_force(&self, step: usize) -> bool {
        let in_doubt = self.applied.is_none() || !self.damage.is_empty();
        in_doubt || self.is_in_place(step)
    }

    /// Whether newer transactions may change its knobs in spite of its lease.
    #[must_use]
    pub fn stacks(&self) -> bool {
        self.begin.as_ref().is_some_and(|begin| begin.plan.stacks)
    }

    /// Whether every step that may change this path writes a knob.
    #[must_use]
    pub fn is_knob(&self, path: &str) -> bool {
        self.begin.as_ref().is_some_and(|begin| begin.plan.is_knob(path))
    }

    /// Whether both transactions may change the same knob.
    #[must_use]
    pub fn shares_knob(&self, other: &Self) -> bool {
        let theirs = other.touches();
        let mut mine = self.touches().into_iter();
        mine.any(|path| theirs.contains(&path) && self.is_knob(&path) && other.is_knob(&path))
    }

    /// Returns a path that both transactions may change and that is not a knob for both.
    #[must_use]
    pub fn shared_but_for_knobs(&self, other: &Self) -> Option<String> {
        let mine = self.touches();
        let is_stacked = |path: &String| self.is_knob(path) && other.is_knob(path);
        other
            .touches()
            .into_iter()
            .find(|path| mine.contains(path) && !is_stacked(path))
    }

    /// Returns the old values of a step, its own path first.
    pub fn olds_of(&self, step: usize) -> impl Iterator<Item = &Old> {
        self.olds.iter().filter(move |old| old.step == step)
    }
}

/// Whether this outcome of a step counts as success.
#[must_use]
pub fn stands(outcome: Outcome, step: Option<&Step>) -> bool {
    match (outcome, step) {
        (Outcome::Accepted, _) => true,
        (Outcome::Clamped, Some(Step::Write(write))) => write.verify == Rule::Clamped,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transact::journal;
    use crate::transact::plan::Plan;
    use serde_json::json;

    fn bytes(entries: &[Entry]) -> Vec<u8> {
        entries
            .iter()
            .flat_map(|entry| journal::line(entry).unwrap())
            .collect()
    }

    fn read(bytes: &[u8]) -> Transaction {
        Transaction::new(1, Path::new("x"), journal::parse(bytes), "now", true)
    }

    fn begin(boot_id: &str) -> Entry {
        let plan = json!({"schema": crate::transact::plan::SCHEMA, "lease": {"kind": "until-confirmed", "seconds": 5}, "steps": [
            {"kind": "write", "path": "/proc/sys/vm/swappiness", "new": "1", "verify": "integer"}]});
        Entry::Begin(Box::new(Begin {
            version: journal::VERSION,
            transaction: 1,
            boot_id: boot_id.to_owned(),
            at_unix_ms: 0,
            plan: Plan::from_value(plan).unwrap(),
        }))
    }

    fn state(entries: &[Entry]) -> State {
        read(&bytes(entries)).state()
    }

    #[test]
    fn states_follow_the_entries() {
        let applied = Entry::Applied {
            values: BTreeMap::new(),
            deadline_boot_ms: None,
            deadline_unix_ms: None,
        };
        let mut entries = vec![begin("now")];
        assert_eq!(state(&entries), State::Unfinished);
        entries.push(Entry::Armed);
        assert_eq!(state(&entries), State::Unfinished);
        entries.push(applied.clone());
        assert_eq!(state(&entries), State::Applied);
        entries.push(Entry::Reverting { left: vec![] });
        assert_eq!(state(&entries), State::Unfinished);
        entries.push(Entry::Reverted);
        assert_eq!(state(&entries), State::Reverted);
        assert_eq!(
            state(&[begin("before"), Entry::Armed, applied]),
            State::GoneWithBoot
        );
    }

    #[test]
    fn confirming_makes_the_lease_keep() {
        let transaction = |entries: &[Entry]| read(&bytes(entries));
        assert_eq!(
            transaction(&[begin("now")]).lease(),
            Lease::UntilConfirmed { seconds: 5 }
        );
        assert_eq!(
            transaction(&[begin("now"), Entry::Confirmed]).lease(),
            Lease::Keep
        );
    }

    const FIRST: &str = "/proc/sys/vm/swappiness";
    const SECOND: &str = "/proc/sys/vm/dirty_ratio";

    fn begin_of_two() -> Entry {
        let Entry::Begin(mut begin) = begin("now") else {
            unreachable!()
        };
        let mut second = begin.plan.steps[0].clone();
        if let Step::Write(write) = &mut second {
            SECOND.clone_into(&mut write.path);
        }
        begin.plan.steps.push(second);
        Entry::Begin(begin)
    }

    fn old(step: usize, path: &str) -> Entry {
        Entry::Old(Old::nothing(step, path))
    }

    /// A journal in which both steps have their old values and the first one began.
    fn whole() -> [Entry; 5] {
        [
            begin_of_two(),
            old(0, FIRST),
            old(1, SECOND),
            Entry::Armed,
            Entry::Writing { step: 0 },
        ]
    }

    /// Parses a journal in which the lines with these numbers, from 1, are damaged.
    fn read_damaged(entries: &[Entry], numbers: &[usize]) -> Transaction {
        let mut lines: Vec<Vec<u8>> = entries
            .iter()
            .map(|entry| journal::line(entry).unwrap())
            .collect();
        for number in numbers {
            lines[number - 1][20] ^= 1;
        }
        let transaction = read(&lines.concat());
        assert_eq!(transaction.damage.len(), numbers.len());
        transaction
    }

    #[test]
    fn an_old_value_is_lost_where_its_step_began() {
        let entries = whole();
        let first = read_damaged(&entries, &[2]);
        assert_eq!(first.lost_olds(), [(0, FIRST.to_owned())]);
        assert!(!first.has_lost_more());
        assert_eq!(read_damaged(&entries, &[3]).lost_olds(), []);
    }

    #[test]
    fn a_damaged_line_that_told_of_the_armed_journal_is_no_lost_value() {
        let entries = whole();
        let transaction = read_damaged(&entries, &[4]);
        assert!(transaction.armed && !transaction.has_lost_more());
        assert!(!read_damaged(&entries, &[3, 4]).has_lost_more());
        let never_armed = read(&bytes(&[begin_of_two(), Entry::Writing { step: 0 }]));
        assert!(never_armed.armed && !never_armed.has_lost_more());
    }

    #[test]
    fn a_step_that_was_left_out_has_lost_nothing() {
        let entry_of_what = |step| {
            [
                begin_of_two(),
                old(step, if step == 0 { FIRST } else { SECOND }),
                old(step, "/etc/systemd/what.d"),
                Entry::Armed,
                Entry::Writing { step },
            ]
        };
        // The first step was skipped, and a later one began.
        assert!(read_damaged(&entry_of_what(1), &[3]).has_lost_more());
        // The second step was skipped, and the plan is applied.
        let mut entries = entry_of_what(0).to_vec();
        assert!(
            !read_damaged(&entries, &[3]).has_lost_more(),
            "it may be the second's"
        );
        entries.push(Entry::Applied {
            values: BTreeMap::new(),
            deadline_boot_ms: None,
            deadline_unix_ms: None,
        });
        assert!(read_damaged(&entries, &[3]).has_lost_more());
    }

    #[test]
    fn what_was_accepted_stands_and_what_was_clamped_where_that_was_asked() {
        let of = |rule| {
            let Entry::Begin(begin) = begin("now") else {
                unreachable!()
            };
            let mut step = begin.plan.steps[0].clone();
            if let Step::Write(write) = &mut step {
                write.verify = rule;
            }
            step
        };
        let (clamped, exact) = (of(Rule::Clamped), of(Rule::Integer));
        assert!(stands(Outcome::Accepted, Some(&exact)) && stands(Outcome::Accepted, None));
        assert!(stands(Outcome::Clamped, Some(&clamped)));
        assert!(!stands(Outcome::Clamped, Some(&exact)) && !stands(Outcome::Clamped, None));
        assert!(!stands(Outcome::Ignored, Some(&clamped)) && !stands(Outcome::Ready, Some(&exact)));
    }
}
