// SPDX-License-Identifier: Apache-2.0
//! Command line of the agent.

fn main() {}
