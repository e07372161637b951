// SPDX-License-Identifier: Apache-2.0
//! The agent's command line.

use std::process::ExitCode;

fn main() -> ExitCode {
    if ktrial_agent::guest::is_first() {
        ktrial_agent::guest::main();
    }
    ktrial_agent::session::cli::main()
}
