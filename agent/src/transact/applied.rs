// SPDX-License-Identifier: Apache-2.0
//! The result of a plan and of its steps, as sent to the head.

use crate::bytes::Bytes;
use crate::transact::check::Check;
use crate::transact::machine::Outcome;
use crate::transact::transaction::State;
use serde::Serialize;

/// The result of a step.
#[derive(Debug, Clone, Serialize)]
pub struct StepReport {
    /// Index of the step.
    pub step: usize,
    /// Path that the step is about.
    pub path: String,
    /// The result.
    pub outcome: Outcome,
    /// Value read back after the write, or after it was restored; null if the step was not tried or
    /// nothing is there.
    pub value: Option<Bytes>,
    /// The errno, if the system refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errno: Option<i32>,
    /// Explanation for a person.
    pub message: String,
}

/// The result of a plan.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Number of the transaction.
    pub transaction: u64,
    /// `applied`, `rolled-back`, or `unfinished` if something could not be restored.
    pub state: State,
    /// Why the transaction is unfinished, and what to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unfinished: Option<String>,
    /// Results of the steps.
    pub steps: Vec<StepReport>,
}

impl StepReport {
    /// Converts the check of a step, before anything is written.
    pub fn first(check: Check) -> Self {
        // Don't skip a knob that already has its value: an earlier step of the plan may change it.
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
