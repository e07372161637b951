// SPDX-License-Identifier: Apache-2.0
//! Command line of the agent.

use std::process::ExitCode;

fn main() -> ExitCode {
    if ktrial_agent::guest::is_first() {
        ktrial_agent::guest::main();
    }
    ktrial_agent::session::cli::main()
}
