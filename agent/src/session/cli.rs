// SPDX-License-Identifier: Apache-2.0
//! The command line: sessions for the head, and the same requests for a person.

use crate::boots;
use crate::error::{Error, Kind, Result};
use crate::launch;
use crate::load;
use crate::oom;
use crate::sample::selfcost;
use crate::session::own_commands;
use crate::session::protocol;
use crate::session::setup::{context, session, Machine};
use crate::session::show;
use crate::sys;
use crate::transact::context::{Role, Told};
use crate::transact::plan::{Lease, Plan};
use clap::{Args, Parser, Subcommand};
use serde_json::{json, Map, Value};
use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// The format that `ktrial plan --json` writes: a plan, and the settings that it skips.
const RESOLVED: &str = "ktrial.resolved/1";

/// The half of ktrial that touches the machine.
#[derive(Parser)]
#[command(name = "ktrial-agent", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// Options of commands that a person types.
#[derive(Args)]
struct ByHand {
    #[command(flatten)]
    machine: Machine,
    /// Print the reply as JSON.
    #[arg(long)]
    json: bool,
}

/// What continues after a boot.
#[derive(Args)]
struct NextBoot {
    /// Number of the user whose trial continues; 0 is root.
    #[arg(long, value_name = "UID", requires = "trial")]
    user: Option<u32>,
    /// Name of the trial.
    #[arg(long, value_name = "NAME", requires = "program")]
    trial: Option<String>,
    /// The `ktrial` to run.
    program: Option<PathBuf>,
    #[command(flatten)]
    machine: Machine,
}

#[derive(Subcommand)]
enum Command {
    /// Answer requests from standard input, one JSON object per line.
    Serve {
        /// Choose what the session may do.
        #[arg(long)]
        role: Role,
        /// Set the lowest OOM score of the session and its children: the higher, the sooner the
        /// kernel kills them when memory runs out.
        #[arg(long, value_name = "N", allow_negative_numbers = true)]
        oom_score_adj: Option<i32>,
        /// Make the private folders of runs in DIR.
        #[arg(long, value_name = "DIR")]
        work: Option<PathBuf>,
        /// Number of the user on whose behalf the session is root.
        #[arg(long, value_name = "UID", hide = true)]
        user: Option<u32>,
        #[command(flatten)]
        machine: Machine,
    },
    /// Answer the requests in a file.
    Batch {
        /// File with one JSON object per line.
        file: PathBuf,
        /// Choose what the session may do.
        #[arg(long, default_value = "root")]
        role: Role,
        #[command(flatten)]
        machine: Machine,
    },
    /// Apply a plan.
    Apply {
        /// JSON file with the plan.
        plan: PathBuf,
        #[command(flatten)]
        by_hand: ByHand,
    },
    /// Restore what transactions changed; by default the newest one.
    Revert {
        /// Revert all transactions newer than N.
        #[arg(long, value_name = "N", conflicts_with_all = ["all", "only"])]
        to: Option<u64>,
        /// Revert all transactions in force.
        #[arg(long, conflicts_with = "only")]
        all: bool,
        /// Revert transaction N alone.
        #[arg(long, value_name = "N")]
        only: Option<u64>,
        /// Also restore values that others have changed since.
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        by_hand: ByHand,
    },
    /// Finish interrupted transactions and end leases whose holder is gone.
    Recover {
        #[command(flatten)]
        by_hand: ByHand,
    },
    /// List transactions.
    Status {
        #[command(flatten)]
        by_hand: ByHand,
    },
    /// Confirm a transaction, so that its lease doesn't revert it.
    Confirm {
        /// Number of the transaction.
        transaction: u64,
        #[command(flatten)]
        by_hand: ByHand,
    },
    /// Compare the machine with the values that transactions set.
    Verify {
        /// Number of the transaction [default: all in force].
        transaction: Option<u64>,
        #[command(flatten)]
        by_hand: ByHand,
    },
    /// Install the systemd unit that recovers at boot.
    InstallRecovery {
        #[command(flatten)]
        by_hand: ByHand,
    },
    /// Remove that unit.
    RemoveRecovery {
        #[command(flatten)]
        by_hand: ByHand,
    },
    /// Judge the present boot if it is one that ktrial tries; fail if it may not stay.
    #[command(hide = true)]
    BootHealth {
        /// Seconds until the default target must be reached.
        #[arg(long, value_name = "SECONDS", default_value = "300")]
        limit_s: u64,
        /// Unit that must be active.
        #[arg(long, value_name = "UNIT")]
        guard: Vec<String>,
        #[command(flatten)]
        machine: Machine,
    },
    /// Go on after a boot that ktrial tried: record it, try what is next, continue a trial.
    #[command(hide = true)]
    BootNext(NextBoot),
    /// Measure what sampling each source costs.
    Selfcost {
        /// Sources to sample together [default: each one, then all].
        sources: Vec<String>,
        #[command(flatten)]
        by_hand: ByHand,
    },
    /// Draw frames at a fixed rate and print a line for each: `frame END MILLISECONDS`.
    FrameLoop {
        /// Parameters of the load `pressure`, as JSON; 0 readers and 0 bursts draw only the frames.
        #[arg(default_value = "{}")]
        parameters: String,
    },
    #[command(flatten)]
    Own(own_commands::Command),
}

/// Runs the command line and returns the exit status.
#[must_use]
pub fn main() -> ExitCode {
    #[cfg(feature = "fault-injection")]
    crate::fault::init();
    let cli = Cli::parse();
    match run(cli.command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("ktrial-agent: {error}");
            ExitCode::from(error.kind.exit_status())
        }
    }
}

fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Serve {
            role,
            oom_score_adj,
            work,
            user,
            machine,
        } => {
            oom_score_adj.map_or(Ok(()), oom::expose)?;
            if role == Role::Root {
                sys::outlive_terminal();
            }
            // Read before the environment is dropped.
            let user = user.map_or_else(launch::invoking_user, |user| Ok(Some(user)))?;
            let mut context = context(role, &machine)?;
            context.told = Told::ByInput { waiting: false };
            context.work.place = work;
            context.user = user;
            session(context, &mut io::stdin().lock())
        }
        Command::Batch { file, role, machine } => {
            let opened = File::open(&file).map_err(|error| Error::io("open", file.display(), &error))?;
            session(context(role, &machine)?, &mut BufReader::new(opened))
        }
        Command::Apply { plan, by_hand } => {
            let plan = read_plan(&plan)?;
            if Plan::from_value(plan.clone())?.lease == Lease::WhileSession {
                return Err(
                    Error::new(Kind::BadRequest, "the lease `while-session` needs a session")
                        .hint("use `until-confirmed` or `keep`"),
                );
            }
            by_hand.request("apply", json!({ "plan": plan }))
        }
        Command::Revert {
            to,
            all,
            only,
            force,
            by_hand,
        } => {
            let select = match (to, all, only) {
                (Some(id), _, _) => json!({ "to": id }),
                (_, true, _) => json!("all"),
                (_, _, Some(id)) => json!({ "only": id }),
                _ => json!("newest"),
            };
            by_hand.request("revert", json!({"select": select, "force": force}))
        }
        Command::Recover { by_hand } => by_hand.request("recover", json!({})),
        Command::Status { by_hand } => by_hand.request("status", json!({})),
        Command::Confirm { transaction, by_hand } => {
            by_hand.request("confirm", json!({"transaction": transaction}))
        }
        Command::Verify { transaction, by_hand } => {
            by_hand.request("verify", json!({"transaction": transaction}))
        }
        Command::InstallRecovery { by_hand } => by_hand.request("recovery", json!({"install": true})),
        Command::RemoveRecovery { by_hand } => by_hand.request("recovery", json!({"install": false})),
        Command::BootHealth {
            limit_s,
            guard,
            machine,
        } => {
            let context = context(Role::Root, &machine)?;
            let is_healthy = boots::health(&context, Duration::from_secs(limit_s), &guard)?;
            Ok(ExitCode::from(u8::from(!is_healthy)))
        }
        Command::BootNext(next) => boot_next(next),
        Command::Selfcost { sources, by_hand } => print_selfcost(&sources, &by_hand),
        Command::FrameLoop { parameters } => {
            load::frame_loop(&parameters)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Own(command) => own_commands::run(command),
    }
}

fn boot_next(next: NextBoot) -> Result<ExitCode> {
    let context = context(Role::Root, &next.machine)?;
    if let Some(trial) = &next.trial {
        boots::announce(&context, trial);
    }
    let may_continue = boots::next(&context)?;
    let Some((trial, program)) = next.trial.zip(next.program).filter(|_| may_continue) else {
        return Ok(ExitCode::SUCCESS);
    };
    let user = next.user.unwrap_or(0);
    let why = match launch::continue_trial(&context.root, user, &trial, &program) {
        Ok(ended) if ended.success() => return Ok(ExitCode::SUCCESS),
        Ok(ended) => format!("{} ended with {ended}", program.display()),
        Err(error) => error.to_string(),
    };
    eprintln!("ktrial-agent: cannot continue {trial}: {why}");
    boots::give_up(&context, &trial, &why)?;
    Ok(ExitCode::FAILURE)
}

fn print_selfcost(sources: &[String], by_hand: &ByHand) -> Result<ExitCode> {
    let measured = selfcost::measure(&context(Role::User, &by_hand.machine)?.root, sources)?;
    if by_hand.json {
        println!("{measured:#}");
    } else {
        print!("{}", selfcost::show(&measured));
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads a plan from a file: the whole file, or the plan inside the output of `ktrial plan --json`.
fn read_plan(file: &Path) -> Result<Value> {
    let text = std::fs::read(file).map_err(|error| Error::io("read", file.display(), &error))?;
    let mut found: Value = serde_json::from_slice(&text).map_err(|error| {
        Error::new(
            Kind::BadRequest,
            format!("cannot read plan {}: not JSON: {error}", file.display()),
        )
    })?;
    Ok(if found["schema"] == RESOLVED {
        found["plan"].take()
    } else {
        found
    })
}

impl ByHand {
    fn request(&self, name: &str, fields: Value) -> Result<ExitCode> {
        let mut context = context(Role::Root, &self.machine)?;
        let fields = match fields {
            Value::Object(fields) => fields,
            _ => Map::new(),
        };
        let reply = protocol::dispatch(&mut context, name, fields)?;
        if self.json {
            println!("{reply:#}");
        } else {
            print!("{}", show::reply(name, &reply));
        }
        let unfinished = |reply: &Value| matches!(reply["state"].as_str(), Some("unfinished"));
        let is_left =
            |step: &Value| matches!(step["outcome"].as_str(), Some("changed-by-others" | "left-alone"));
        let left_some = |reply: &Value| {
            reply["steps"]
                .as_array()
                .is_some_and(|steps| steps.iter().any(is_left))
        };
        let falls_short = |reply: &Value| unfinished(reply) || (name == "revert" && left_some(reply));
        let rolled_back = name == "apply" && reply["state"] != "applied";
        let listed = reply["transactions"]
            .as_array()
            .filter(|_| matches!(name, "revert" | "recover"));
        let failed = rolled_back || listed.is_some_and(|transactions| transactions.iter().any(falls_short));
        Ok(if failed {
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        })
    }
}
