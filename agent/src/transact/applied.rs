// SPDX-License-Identifier: Apache-2.0
//! What became of a plan and of its steps, as the head is told.

use crate::bytes::Bytes;
use crate::transact::check::Check;
use crate::transact::machine::Outcome;
use crate::transact::transaction::State;
use serde::Serialize;

/// What became of a step.
#[derive(Debug, Clone, Serialize)]
pub struct StepReport {
    /// Its index.
    pub step: usize,
    /// What it is about.
    pub path: String,
    /// What became of it.
    pub outcome: Outcome,
    /// What was read back after the write, or after it was put back; null when it was not tried or nothing is there.
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
    /// `applied`, `rolled-back`, or `unfinished` when putting back failed.
    pub state: State,
    /// Why it is unfinished, and what to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unfinished: Option<String>,
    /// Its steps.
    pub steps: Vec<StepReport>,
}

impl StepReport {
    /// What is known of a step before anything is written.
    pub fn first(check: Check) -> Self {
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
        Self {
            step,
            path,
            outcome,
            value: None,
            errno,
            message,
        }
    }
}
