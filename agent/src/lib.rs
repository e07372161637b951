// SPDX-License-Identifier: Apache-2.0
//! The half of ktrial that touches the machine. `docs/formats.md` describes its protocol, plans and
//! journal.

mod boots;
pub mod bytes;
pub mod error;
pub mod exec;
pub mod facts;
mod fault;
pub mod guest;
mod kernel_log;
mod launch;
pub mod load;
pub mod network;
pub mod oom;
mod relay;
pub mod root;
pub mod sample;
pub mod session;
pub mod sys;
pub mod trace;
pub mod transact;
mod unattended;
mod watch;
mod work;
