// SPDX-License-Identifier: Apache-2.0
//! The command line: sessions for the head, and the same requests by hand.

use crate::error::{Error, Kind, Result};
use crate::exec::stopped;
use crate::launch;
use crate::load;
use crate::network;
use crate::oom;
use crate::root::Root;
use crate::sample::selfcost;
use crate::session::protocol;
use crate::session::show;
use crate::sys;
use crate::transact::context::{Context, Role, Told};
use crate::transact::lease;
use crate::transact::plan::{Lease, Plan};
use crate::transact::revert;
use crate::transact::store::DEFAULT_STATE;
use clap::{Args, Parser, Subcommand};
use serde_json::{json, Map, Value};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What `ktrial plan --json` writes: a plan, and what was left out of it.
const RESOLVED: &str = "ktrial.resolved/1";

/// The half of ktrial that touches the machine.
#[derive(Parser)]
#[command(name = "ktrial-agent", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// Where the machine is.
#[derive(Args)]
struct Machine {
    /// Folder that stands for `/`.
    #[arg(long, default_value = "/", value_name = "DIR")]
    root: PathBuf,
    /// Folder of the journals, below the root.
    #[arg(long, default_value = DEFAULT_STATE, value_name = "DIR")]
    state: String,
}

/// By hand: where the machine is and how to print.
#[derive(Args)]
struct ByHand {
    #[command(flatten)]
    machine: Machine,
    /// Print the reply as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Answer requests on standard input, one JSON object per line.
    Serve {
        /// What the session may do.
        #[arg(long)]
        role: Role,
        /// The least score that it and what it starts are to have when memory runs out.
        #[arg(long, value_name = "N", allow_negative_numbers = true)]
        oom_score_adj: Option<i32>,
        #[command(flatten)]
        machine: Machine,
    },
    /// Answer the requests of a file.
    Batch {
        /// One JSON object per line.
        file: PathBuf,
        /// What the session may do.
        #[arg(long, default_value = "root")]
        role: Role,
        #[command(flatten)]
        machine: Machine,
    },
    /// Carry out a plan.
    Apply {
        /// The plan, JSON.
        plan: PathBuf,
        #[command(flatten)]
        by_hand: ByHand,
    },
    /// Put back what transactions changed: the newest unless told otherwise.
    Revert {
        /// All newer than this transaction.
        #[arg(long, value_name = "N", conflicts_with_all = ["all", "only"])]
        to: Option<u64>,
        /// All in force.
        #[arg(long, conflicts_with = "only")]
        all: bool,
        /// This one alone.
        #[arg(long, value_name = "N")]
        only: Option<u64>,
        /// Put back what others have changed since, too.
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        by_hand: ByHand,
    },
    /// Finish what a crash interrupted and end leases that nobody holds.
    Recover {
        #[command(flatten)]
        by_hand: ByHand,
    },
    /// List transactions.
    Status {
        #[command(flatten)]
        by_hand: ByHand,
    },
    /// Keep a transaction whose lease would end.
    Confirm {
        /// Its number.
        transaction: u64,
        #[command(flatten)]
        by_hand: ByHand,
    },
    /// Compare what is in force with the machine.
    Verify {
        /// Its number; all in force without.
        transaction: Option<u64>,
        #[command(flatten)]
        by_hand: ByHand,
    },
    /// Put the unit in place that recovers at boot.
    InstallRecovery {
        #[command(flatten)]
        by_hand: ByHand,
    },
    /// Take that unit away.
    RemoveRecovery {
        #[command(flatten)]
        by_hand: ByHand,
    },
    /// Tell what a sample of each source costs.
    Selfcost {
        /// Sources to take together; each of them and all when missing.
        sources: Vec<String>,
        #[command(flatten)]
        by_hand: ByHand,
    },
    /// Draw frames at a fixed rate, and tell each in a line: `frame END MILLISECONDS`.
    FrameLoop {
        /// Parameters of the load `pressure`, JSON; 0 readers and 0 bursts: nothing but the frames.
        #[arg(default_value = "{}")]
        parameters: String,
    },
    /// Make a network of its own (started by the agent itself).
    #[command(hide = true)]
    Network {
        /// What to do, JSON.
        job: String,
    },
    /// Stop, and become a command when let go (started by the agent itself).
    #[command(hide = true)]
    Stopped {
        /// The descriptor to tell on why it could not.
        report: i32,
        /// The agent's number.
        agent: i32,
        /// Where the command lies.
        program: PathBuf,
        /// The command.
        argv: Vec<OsString>,
    },
    /// Give up root, all but a helper that lends it, and become a program; without a user become it as root, where it and all that
    /// it imports are root's alone (started by `ktrial` itself).
    #[command(hide = true)]
    Launch {
        /// The number of the user to become.
        #[arg(long, value_name = "UID")]
        user: Option<u32>,
        /// What must be root's alone, with all that lies in it.
        #[arg(long = "own", value_name = "PATH")]
        own: Vec<PathBuf>,
        /// The program, after `--`.
        #[arg(last = true)]
        program: Vec<OsString>,
    },
    /// Lend root to a head that has given it up (started by the agent itself).
    #[command(hide = true)]
    Lend {
        /// The process of the head.
        #[arg(long, value_name = "PID")]
        head: u32,
    },
    /// Hold a lease (started by the agent itself).
    #[command(hide = true)]
    Hold {
        #[command(flatten)]
        machine: Machine,
        #[arg(long)]
        transaction: u64,
        #[arg(long)]
        deadline_boot_ms: Option<u64>,
    },
}

/// Runs the command line and says how the process ends.
#[must_use]
pub fn main() -> ExitCode {
    #[cfg(feature = "fault-injection")]
    crate::fault::init();
    let cli = Cli::parse();
    match run(cli.command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("ktrial-agent: {error}");
            ExitCode::from(status_of(error.kind))
        }
    }
}

fn status_of(kind: Kind) -> u8 {
    match kind {
        Kind::Malformed | Kind::Oversized | Kind::UnknownRequest | Kind::BadRequest | Kind::NotFound => 2,
        Kind::Forbidden => 4,
        Kind::Privilege => 5,
        _ => 1,
    }
}

/// Makes nothing of the caller's surroundings matter: no environment, no working directory, no file mode mask.
/// Paths of the command line must be opened before.
fn cut_loose() -> Result<()> {
    let names: Vec<_> = std::env::vars_os().map(|(name, _)| name).collect();
    for name in names {
        std::env::remove_var(name);
    }
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    std::env::set_current_dir("/").map_err(|error| Error::io("enter", "/", &error))
}

fn context(role: Role, machine: &Machine) -> Result<Context> {
    let base = std::path::absolute(&machine.root)
        .map_err(|error| Error::io("find", machine.root.display(), &error))?;
    let base = base
        .canonicalize()
        .map_err(|error| Error::io("find", base.display(), &error))?;
    let clean = Path::new(&machine.state)
        .components()
        .all(|part| !matches!(part, std::path::Component::ParentDir));
    if !machine.state.starts_with('/') || !clean {
        return Err(Error::new(
            Kind::BadRequest,
            format!("--state {:?} is not an absolute path", machine.state),
        ));
    }
    cut_loose()?;
    Ok(Context::new(role, Root::new(base), &machine.state))
}

fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Serve {
            role,
            oom_score_adj,
            machine,
        } => {
            oom_score_adj.map_or(Ok(()), oom::expose)?;
            if role == Role::Root {
                sys::outlive_terminal();
            }
            let mut context = context(role, &machine)?;
            context.told = Told::ByInput { waiting: false };
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
                    Error::new(Kind::BadRequest, "a lease `while-session` needs a session")
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
        Command::Selfcost { sources, by_hand } => {
            let measured = selfcost::measure(&context(Role::User, &by_hand.machine)?.root, &sources)?;
            if by_hand.json {
                println!("{measured:#}");
            } else {
                print!("{}", selfcost::show(&measured));
            }
            Ok(ExitCode::SUCCESS)
        }
        Command::FrameLoop { parameters } => {
            load::frame_loop(&parameters)?;
            Ok(ExitCode::SUCCESS)
        }
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
        Command::Lend { head } => {
            launch::lend(head)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Hold {
            machine,
            transaction,
            deadline_boot_ms,
        } => {
            lease::hold(&context(Role::Root, &machine)?, transaction, deadline_boot_ms)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Why the head was not started, as the head itself would say it.
fn launched(failed: Result<()>) -> ExitCode {
    let Err(error) = failed else {
        return ExitCode::SUCCESS;
    };
    let step = error
        .hint
        .map_or_else(String::new, |hint| format!("\n  next: {hint}"));
    eprintln!("ktrial: {}{step}", error.message);
    ExitCode::from(status_of(error.kind))
}

/// The plan of a file: all of it, or the one within what `ktrial plan --json` writes.
fn read_plan(file: &Path) -> Result<Value> {
    let text = std::fs::read(file).map_err(|error| Error::io("read", file.display(), &error))?;
    let mut found: Value = serde_json::from_slice(&text).map_err(|error| {
        Error::new(
            Kind::BadRequest,
            format!("plan {} is not JSON: {error}", file.display()),
        )
    })?;
    Ok(if found["schema"] == RESOLVED {
        found["plan"].take()
    } else {
        found
    })
}

/// Serves until the input ends, then ends the leases that end with the session.
fn session(mut context: Context, input: &mut impl BufRead) -> Result<ExitCode> {
    let served = protocol::serve(&mut context, input, &mut io::stdout().lock());
    let uninterrupted = sys::Uninterrupted::begin();
    revert::end_session(&mut context)?;
    drop(uninterrupted);
    served.map_err(|error| Error::io("talk over", "standard input and output", &error))?;
    Ok(ExitCode::SUCCESS)
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
