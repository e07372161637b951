// SPDX-License-Identifier: Apache-2.0
//! Command line of the agent.

use std::process::ExitCode;

fn main() -> ExitCode {
    ktrial_agent::cli::main()
}
