// SPDX-License-Identifier: Apache-2.0
//! Sessions: the protocol's lines, the requests and the command line.

pub mod cli;
pub(crate) mod grant;
pub(crate) mod list;
mod own_commands;
pub mod protocol;
pub(crate) mod requests;
mod setup;
pub(crate) mod show;
pub(crate) mod work;
