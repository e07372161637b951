// SPDX-License-Identifier: Apache-2.0
//! What a journal says about its transaction.

use crate::bytes::Bytes;
use crate::journal::{self, Begin, Damage, Entry, Old};
use crate::machine::Outcome;
use crate::plan::{Lease, Step};
use crate::verify::Rule;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Where a transaction stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// In force.
    Applied,
    /// An apply or a revert was not finished.
    Interrupted,
    /// A step failed and all was put back.
    RolledBack,
    /// Undone.
    Reverted,
    /// The machine was restarted since, and nothing of it survives that.
    GoneWithBoot,
}

/// A transaction as its journal tells it.
#[derive(Debug, Clone)]
pub struct Transaction {
    /// Its number.
    pub id: u64,
    /// Its journal file.
    pub file: PathBuf,
    /// First entry, unless damaged.
    pub begin: Option<Begin>,
    /// Old values.
    pub olds: Vec<Old>,
    /// Whether writes may have happened.
    pub armed: bool,
    /// Steps that were begun.
    pub begun: BTreeSet<usize>,
    /// Steps that ended in an outcome.
    pub wrote: BTreeMap<usize, Outcome>,
    /// Devices made for steps.
    pub made: BTreeMap<usize, String>,
    /// Values read back after the whole apply.
    pub applied: Option<BTreeMap<String, Bytes>>,
    /// When an `until-confirmed` lease ends.
    pub deadline_unix_ms: Option<u64>,
    /// Whether the lease became `keep`.
    pub confirmed: bool,
    /// Steps left alone by a revert that began.
    pub reverting: Option<Vec<usize>>,
    /// Steps that the revert reported.
    pub restored: BTreeMap<usize, Outcome>,
    /// How it ended.
    pub ended: Option<State>,
    /// Lines that cannot be trusted.
    pub damage: Vec<Damage>,
    /// Trusted length of the journal.
    pub valid_bytes: usize,
    /// Whether the journal was written in the present boot.
    pub this_boot: bool,
}

impl Transaction {
    /// Reads the transaction out of its journal's bytes. `boot_id`: of the present boot; `booted_after`: whether the
    /// file was last changed before this boot (asked only when the first entry is damaged).
    #[must_use]
    pub fn new(id: u64, file: &Path, bytes: &[u8], boot_id: &str, changed_this_boot: bool) -> Self {
        let contents = journal::parse(bytes);
        let mut transaction = Self {
            id,
            file: file.to_owned(),
            begin: None,
            olds: Vec::new(),
            armed: false,
            begun: BTreeSet::new(),
            wrote: BTreeMap::new(),
            made: BTreeMap::new(),
            applied: None,
            deadline_unix_ms: None,
            confirmed: false,
            reverting: None,
            restored: BTreeMap::new(),
            ended: None,
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
            // Without its first entry nothing else is known: what is there may have been written.
            transaction.armed = transaction.armed || !transaction.olds.is_empty();
        }
        transaction
    }

    /// Takes in one more entry.
    pub fn take(&mut self, entry: Entry) {
        match entry {
            Entry::Begin(begin) => self.begin = Some(*begin),
            Entry::Old(old) => self.olds.push(old),
            Entry::Armed => self.armed = true,
            Entry::Writing { step } => {
                self.armed = true;
                self.begun.insert(step);
            }
            Entry::Wrote { step, outcome, .. } => {
                self.wrote.insert(step, outcome);
            }
            Entry::Made { step, device } => {
                self.made.insert(step, device);
            }
            Entry::Applied {
                values,
                deadline_unix_ms,
            } => {
                self.applied = Some(values);
                self.deadline_unix_ms = deadline_unix_ms;
            }
            Entry::RolledBack => self.ended = Some(State::RolledBack),
            Entry::Confirmed => self.confirmed = true,
            Entry::Reverting { left } => {
                self.reverting = Some(left);
                self.restored.clear();
                self.ended = None;
            }
            Entry::Restored { step, outcome } => {
                self.restored.insert(step, outcome);
            }
            Entry::Reverted => self.ended = Some(State::Reverted),
            Entry::Gone => self.ended = Some(State::GoneWithBoot),
        }
    }

    /// Where it stands.
    #[must_use]
    pub fn state(&self) -> State {
        if let Some(ended) = self.ended {
            ended
        } else if self.applied.is_none() || self.reverting.is_some() {
            State::Interrupted
        } else if !self.this_boot && !self.is_persistent() {
            State::GoneWithBoot
        } else {
            State::Applied
        }
    }

    /// Whether it changed something that is still there or may be.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self.state(), State::Applied | State::Interrupted)
    }

    /// Whether a step of it survives a restart.
    #[must_use]
    pub fn is_persistent(&self) -> bool {
        self.steps().iter().any(Step::is_persistent)
    }

    /// The plan's steps; none when the first entry is damaged.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        self.begin.as_ref().map_or(&[], |begin| &begin.plan.steps)
    }

    /// The lease in force.
    #[must_use]
    pub fn lease(&self) -> Lease {
        match &self.begin {
            Some(begin) if !self.confirmed => begin.plan.lease,
            _ => Lease::Keep,
        }
    }

    /// How many steps there are, known from the plan or from the old values.
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
        match (self.wrote.get(&step), self.steps().get(step)) {
            (Some(Outcome::Accepted), _) => true,
            (Some(Outcome::Clamped), Some(Step::Write(write))) => write.verify == Rule::Clamped,
            _ => false,
        }
    }

    /// Paths that its steps write or may change.
    #[must_use]
    pub fn touches(&self) -> BTreeSet<String> {
        let mut paths: BTreeSet<String> = self.olds.iter().map(|old| old.path.clone()).collect();
        paths.extend(self.steps().iter().flat_map(Step::touches));
        paths
    }

    /// Old values of a step, its own path first.
    pub fn olds_of(&self, step: usize) -> impl Iterator<Item = &Old> {
        self.olds.iter().filter(move |old| old.step == step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;
    use serde_json::json;

    fn bytes(entries: &[Entry]) -> Vec<u8> {
        entries
            .iter()
            .flat_map(|entry| journal::line(entry).unwrap())
            .collect()
    }

    fn begin(boot_id: &str) -> Entry {
        let plan = json!({"schema": crate::plan::SCHEMA, "lease": {"kind": "until-confirmed", "seconds": 5}, "steps": [
            {"kind": "write", "path": "/proc/sys/vm/swappiness", "new": "1", "verify": "integer"}]});
        Entry::Begin(Box::new(Begin {
            version: 1,
            transaction: 1,
            boot_id: boot_id.to_owned(),
            at_unix_ms: 0,
            plan: Plan::from_value(plan).unwrap(),
        }))
    }

    fn state(entries: &[Entry]) -> State {
        Transaction::new(1, Path::new("x"), &bytes(entries), "now", true).state()
    }

    #[test]
    fn states_follow_the_entries() {
        let applied = Entry::Applied {
            values: BTreeMap::new(),
            deadline_unix_ms: None,
        };
        let mut entries = vec![begin("now")];
        assert_eq!(state(&entries), State::Interrupted);
        entries.push(Entry::Armed);
        assert_eq!(state(&entries), State::Interrupted);
        entries.push(applied.clone());
        assert_eq!(state(&entries), State::Applied);
        entries.push(Entry::Reverting { left: vec![] });
        assert_eq!(state(&entries), State::Interrupted);
        entries.push(Entry::Reverted);
        assert_eq!(state(&entries), State::Reverted);
        assert_eq!(
            state(&[begin("before"), Entry::Armed, applied]),
            State::GoneWithBoot
        );
    }

    #[test]
    fn confirming_makes_the_lease_keep() {
        let transaction =
            |entries: &[Entry]| Transaction::new(1, Path::new("x"), &bytes(entries), "now", true);
        assert_eq!(
            transaction(&[begin("now")]).lease(),
            Lease::UntilConfirmed { seconds: 5 }
        );
        assert_eq!(
            transaction(&[begin("now"), Entry::Confirmed]).lease(),
            Lease::Keep
        );
    }
}
