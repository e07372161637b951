// SPDX-License-Identifier: Apache-2.0
//! The half of ktrial that touches a machine. `docs/formats.md` describes its protocol, plans and journal.

pub mod bytes;
pub mod error;
pub mod exec;
pub mod facts;
pub mod root;
pub mod sys;
