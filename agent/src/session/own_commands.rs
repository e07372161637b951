// SPDX-License-Identifier: Apache-2.0
//! Commands that the agent and `ktrial` start themselves; nobody types them.

use crate::error::Result;
use crate::exec::stopped;
use crate::launch;
use crate::network;
use crate::relay;
use crate::session::setup::{self, Machine};
use crate::transact::context::{Role, Told};
use crate::transact::lease;
use crate::unattended::{person, worker};
use clap::Subcommand;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Subcommand)]
pub(super) enum Command {
    /// Carry sessions of a head on another machine, which starts this through ssh.
    #[command(hide = true)]
    Relay(relay::Options),
    /// Create a private network (started by the agent itself).
    #[command(hide = true)]
    Network {
        /// Job description, as JSON.
        job: String,
    },
    /// Stop, then become a command when continued (started by the agent itself).
    #[command(hide = true)]
    Stopped {
        /// File descriptor for the error if the command cannot start.
        report: i32,
        /// Process ID of the agent.
        agent: i32,
        /// Path of the command.
        program: PathBuf,
        /// Arguments of the command.
        argv: Vec<OsString>,
    },
    /// Drop root, keep a helper that lends it, and run a program. Without a user, run it as root,
    /// after checking that only root can change it and all that it imports (started by `ktrial`
    /// itself).
    #[command(hide = true)]
    Launch {
        /// Number of the user to become.
        #[arg(long, value_name = "UID")]
        user: Option<u32>,
        /// Require that only root can change PATH and everything in it. Repeatable.
        #[arg(long = "own", value_name = "PATH")]
        own: Vec<PathBuf>,
        /// Program to run, after `--`.
        #[arg(last = true)]
        program: Vec<OsString>,
    },
    /// Lend root to a head that dropped it (started by the agent itself).
    #[command(hide = true)]
    Lend {
        /// Process ID of the head.
        #[arg(long, value_name = "PID")]
        head: u32,
        /// Number of the user that it became.
        #[arg(long, value_name = "UID")]
        user: u32,
    },
    /// Hold a lease (started by the agent itself).
    #[command(hide = true)]
    Hold {
        #[command(flatten)]
        machine: Machine,
        #[arg(long)]
        transaction: u64,
        /// End the lease with standard input.
        #[arg(long)]
        with_session: bool,
        #[arg(long)]
        deadline_boot_ms: Option<u64>,
    },
    /// Carry out a plan (started by the agent itself).
    #[command(hide = true)]
    UnattendedRun {
        #[command(flatten)]
        machine: Machine,
        /// Name of the plan.
        #[arg(long, value_name = "ID")]
        plan: String,
        /// Digest of its text.
        #[arg(long, value_name = "SHA256")]
        sha256: String,
    },
    /// Become the user and serve a session for a plan (started by the agent itself).
    #[command(hide = true)]
    UnattendedUser {
        #[command(flatten)]
        machine: Machine,
        /// Number of the user.
        #[arg(long, value_name = "UID")]
        uid: Option<u32>,
    },
}

pub(super) fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Relay(options) => relay::main(&options),
        Command::Network { job } => {
            network::from_argument(&job)?;
            Ok(ExitCode::FAILURE)
        }
        Command::Stopped {
            report,
            agent,
            program,
            argv,
        } => {
            stopped::from_arguments(report, agent, &program, &argv)?;
            Ok(ExitCode::FAILURE)
        }
        Command::Launch { user, own, program } => Ok(launched(launch::launch(user, &own, &program))),
        Command::Lend { head, user } => {
            launch::lend(head, user)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Hold {
            machine,
            transaction,
            with_session,
            deadline_boot_ms,
        } => {
            let term = lease::Term {
                with_session,
                deadline_boot_ms,
            };
            lease::hold(&setup::context(Role::Root, &machine)?, transaction, term)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::UnattendedRun {
            machine,
            plan,
            sha256,
        } => {
            worker::run(&mut setup::context(Role::Root, &machine)?, &plan, &sha256)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::UnattendedUser { machine, uid } => {
            person::become_user(uid)?;
            let mut context = setup::context(Role::User, &machine)?;
            context.told = Told::ByInput { waiting: false };
            setup::session(context, &mut io::stdin().lock())
        }
    }
}

/// Reports in the head's words why it was not started.
fn launched(failed: Result<()>) -> ExitCode {
    let Err(error) = failed else {
        return ExitCode::SUCCESS;
    };
    let step = error
        .hint
        .map_or_else(String::new, |hint| format!("\n  next: {hint}"));
    eprintln!("ktrial: {}{step}", error.message);
    ExitCode::from(error.kind.exit_status())
}
