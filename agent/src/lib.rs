// SPDX-License-Identifier: Apache-2.0
//! The half of ktrial that touches a machine. `docs/formats.md` describes its protocol, plans and journal.

mod allow;
mod apply;
pub mod bytes;
mod carry;
mod check;
pub mod cli;
pub mod context;
pub mod error;
pub mod exec;
pub mod facts;
mod fault;
mod files;
mod forget;
mod grant;
pub mod journal;
mod lease;
mod list;
pub mod load;
mod machine;
pub mod network;
pub mod plan;
mod programs;
pub mod protocol;
mod recovery;
mod report;
mod requests;
mod revert;
pub mod root;
pub mod sample;
mod show;
mod store;
pub mod sys;
mod transaction;
mod undo;
mod verify;
mod zram;
