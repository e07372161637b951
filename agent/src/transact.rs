// SPDX-License-Identifier: Apache-2.0
//! Transactions: what a plan may write, and how it is applied, journaled, verified and undone.

pub(crate) mod after;
pub(crate) mod allow;
pub(crate) mod applied;
pub(crate) mod apply;
pub(crate) mod carry;
pub(crate) mod check;
pub mod context;
pub(crate) mod files;
pub(crate) mod forget;
pub mod forms;
pub mod journal;
pub(crate) mod lease;
pub(crate) mod machine;
pub mod plan;
pub(crate) mod programs;
pub(crate) mod recovery;
pub(crate) mod report;
pub(crate) mod revert;
pub(crate) mod services;
pub(crate) mod store;
pub(crate) mod transaction;
pub(crate) mod undo;
pub(crate) mod unfinished;
pub(crate) mod verify;
pub(crate) mod zram;
