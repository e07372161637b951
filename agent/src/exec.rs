// SPDX-License-Identifier: Apache-2.0
//! The `exec` request: runs one command and reports how it ended.
//!
//! The command leads its own process group. The agent is the reaper of everything it starts, so it
//! also finds processes that leave the group. A thread waits for the command without reaping it:
//! the process ID stays taken until the group has been killed, if it must be, and the time of the
//! end is exact however busy the agent is with output.

mod request;
pub(crate) mod stopped;
mod stragglers;
mod streams;

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{kill_process_group, waitid, Pid, Signal, WaitId, WaitIdOptions};
use serde::Serialize;
use serde_json::Value;

use crate::bytes::Bytes;
use crate::error::{Error, Kind, Result};
use crate::network::Helper;
use crate::root::Root;
use crate::sys;
use crate::transact::context::Told;
pub use request::{check, Request};
use stopped::Refusal;
use stragglers::Watched;
use streams::{Pause, Streams};

const DEFAULT_CAPTURE_BYTES: usize = 1 << 20;
/// How long a killed process may take to end. One stuck in a driver never ends.
const GRACE: Duration = Duration::from_secs(5);

/// How the command ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Exit {
    /// It ended with this exit status.
    Status(i32),
    /// This signal killed it.
    Signal(i32),
    /// It could not be started, for this reason.
    Failed(String),
}

/// The result. Fields that need a started command are None if it was not started.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Reply {
    /// How it ended.
    pub exit: Exit,
    /// Whether its group was killed at the time limit.
    pub timed_out: bool,
    /// Whether its group was asked to end because the agent's input had ended.
    pub hung_up: bool,
    /// The beginning of its standard output.
    pub stdout: Bytes,
    /// The beginning of its standard error.
    pub stderr: Bytes,
    /// Bytes written to standard output.
    pub stdout_total_bytes: u64,
    /// Bytes written to standard error.
    pub stderr_total_bytes: u64,
    /// Monotonic time in nanoseconds from before the fork to the end of the command itself.
    pub wall_ns: Option<u64>,
    /// Resources that the command used.
    pub rusage: Option<Usage>,
    /// The network's settings, as read back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<Value>,
}

/// Resources used by the command and the descendants that it waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "sys::Usage documents the same fields")]
pub struct Usage {
    pub user_us: u64,
    pub system_us: u64,
    pub max_rss_bytes: u64,
    pub minor_faults: u64,
    pub major_faults: u64,
    pub voluntary_switches: u64,
    pub involuntary_switches: u64,
}

/// The head's part in a command that starts stopped.
#[derive(Clone, Copy)]
pub struct Head<'a> {
    /// What continues the command.
    pub told: Told,
    /// Reports the process ID of a stopped command.
    pub begun: &'a dyn Fn(i32) -> io::Result<()>,
}

/// Runs a command to its end or its time limit. Its paths are below `root`.
///
/// # Errors
///
/// The request is invalid, or a system call failed after the command was started.
pub fn run(root: &Root, request: &Request, head: Option<Head>) -> Result<Reply> {
    let limit = request::check(request, head.is_some())?;
    let started = match start(root, request) {
        Ok(started) => started,
        Err(why) => return Ok(Reply::failed(why)),
    };
    started.finish(root, request, limit, head)
}

impl Reply {
    fn failed(why: String) -> Self {
        Self {
            exit: Exit::Failed(why),
            timed_out: false,
            hung_up: false,
            stdout: Bytes::default(),
            stderr: Bytes::default(),
            stdout_total_bytes: 0,
            stderr_total_bytes: 0,
            wall_ns: None,
            rusage: None,
            network: None,
        }
    }
}

/// A running command.
struct Started {
    child: Child,
    group: Pid,
    watched: Watched,
    began: Instant,
    ended: OwnedFd,
    waiter: JoinHandle<io::Result<Instant>>,
    helper: Becomes,
}

/// The helper process that becomes the command, and where it reports errors.
enum Becomes {
    /// No helper: the process is the command from the start.
    Itself,
    /// The helper that creates a network.
    InNetwork(Helper),
    /// The helper that stops first.
    Stopped(Refusal),
}

/// Starts the command; an error says why it could not.
fn start(root: &Root, request: &Request) -> std::result::Result<Started, String> {
    let directory = root.path(&request.directory);
    if !directory.is_dir() {
        return Err(format!("{}: no such directory", request.directory));
    }
    let program = root.path(&request.argv[0]);
    let piped_or_null = if request.stdin.is_some() {
        Stdio::piped()
    } else {
        Stdio::null()
    };
    let (mut command, helper) = command_of(request, &program)?;
    command
        .env_clear()
        .envs(&request.environment)
        .current_dir(directory)
        .stdin(piped_or_null)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    let mut report = None;
    if request.cgroup.is_some() || request.cpus.is_some() {
        let (read, write) = pipe().map_err(|error| format!("cannot create a pipe: {error}"))?;
        let cgroup = request
            .cgroup
            .as_deref()
            .map(|folder| open_group(root, folder))
            .transpose()?;
        sys::prepare(
            &mut command,
            sys::Preparation {
                cgroup,
                cpus: request.cpus.clone(),
                report: write,
            },
        );
        report = Some(File::from(read));
    }
    let began = Instant::now();
    let spawned = stragglers::spawn(&mut command);
    // Closes our end of the report pipe, so that reading it ends.
    drop(command);
    let (child, watched) = spawned.map_err(|error| explain(request, program.exists(), report, &error))?;
    let started =
        watch(child, watched, began).map_err(|error| format!("cannot watch {}: {error}", request.argv[0]))?;
    Ok(Started { helper, ..started })
}

/// Returns the command, or the helper that becomes it.
fn command_of(request: &Request, program: &Path) -> std::result::Result<(Command, Becomes), String> {
    if let Some(network) = &request.network {
        let server = request.server.as_ref();
        let (command, helper) = Helper::running(network, &program.to_string_lossy(), &request.argv, server)
            .map_err(|error| format!("cannot start a helper for the network: {error}"))?;
        return Ok((command, Becomes::InNetwork(helper)));
    }
    if request.stopped {
        let (command, refusal) = stopped::command(program, &request.argv)
            .map_err(|error| explain(request, program.exists(), None, &error))?;
        return Ok((command, Becomes::Stopped(refusal)));
    }
    let mut command = Command::new(program);
    command.arg0(&request.argv[0]).args(&request.argv[1..]);
    Ok((command, Becomes::Itself))
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?)
}

fn open_group(root: &Root, folder: &str) -> std::result::Result<File, String> {
    let path = root.path(folder).join("cgroup.procs");
    OpenOptions::new()
        .write(true)
        .open(path)
        .map_err(|error| format!("cannot enter the control group {folder}: {error}"))
}

/// Says why the command could not be started, and which step failed.
fn explain(request: &Request, program_exists: bool, report: Option<File>, error: &io::Error) -> String {
    let mut step = Vec::new();
    if let Some(report) = report {
        // If the report cannot be read, the general message below applies.
        report.take(1).read_to_end(&mut step).unwrap_or_default();
    }
    let program = &request.argv[0];
    match step.first() {
        Some(&sys::CGROUP_FAILED) => {
            format!(
                "cannot enter the control group {}: {error}",
                request.cgroup.as_deref().unwrap_or_default()
            )
        }
        Some(&sys::CPUS_FAILED) => {
            format!(
                "cannot run on the CPUs {:?}: {error}",
                request.cpus.as_deref().unwrap_or_default()
            )
        }
        _ if program_exists && error.kind() == io::ErrorKind::NotFound => {
            format!("cannot start {program}: its interpreter or loader does not exist")
        }
        _ => format!("cannot start {program}: {error}"),
    }
}

/// Starts a thread that waits for the child; the pipe closes when the child ends.
fn watch(mut child: Child, watched: Watched, began: Instant) -> io::Result<Started> {
    let group = Pid::from_child(&child);
    let waiting = pipe().and_then(|(ended, alive)| {
        let wait = move || {
            let wait = || waitid(WaitId::Pid(group), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
            let ended = rustix::io::retry_on_intr(wait).map(|_| Instant::now());
            drop(alive);
            Ok(ended?)
        };
        Ok((
            ended,
            thread::Builder::new().name("exec-wait".to_owned()).spawn(wait)?,
        ))
    });
    match waiting {
        Ok((ended, waiter)) => Ok(Started {
            child,
            group,
            watched,
            began,
            ended,
            waiter,
            helper: Becomes::Itself,
        }),
        Err(error) => {
            child.kill()?;
            child.wait()?;
            Err(error)
        }
    }
}

impl Becomes {
    /// Returns the network of the command that the helper became; an error says why it could not.
    fn outcome(&mut self, request: &Request, root: &Root) -> std::result::Result<Option<Value>, String> {
        match self {
            Self::Itself => Ok(None),
            Self::InNetwork(helper) => helper
                .outcome()
                .map(Some)
                .map_err(|error| error.to_string().replace("\n  ", "; ")),
            Self::Stopped(refusal) => match refusal.read() {
                None => Ok(None),
                Some(error) => {
                    let exists = root.path(&request.argv[0]).exists();
                    Err(explain(request, exists, None, &error))
                }
            },
        }
    }
}

impl Started {
    /// Signals the command's group, which may be empty by now.
    fn signal(&self, program: &str, signal: Signal) -> Result<()> {
        match kill_process_group(self.group, signal) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(error) => Err(Error::io("kill", program, &error.into())),
        }
    }

    /// If the command starts stopped, reports its process ID and continues it at the next request.
    /// Returns `Ended` if it runs then, or has ended.
    fn hold(&mut self, head: Option<Head>, deadline: Instant) -> io::Result<Pause> {
        let (Becomes::Stopped(_), Some(head)) = (&self.helper, head) else {
            return Ok(Pause::Ended);
        };
        let pause = match stopped::hold(self.group, &self.ended, deadline, head) {
            Ok(pause) => pause,
            Err(error) => {
                self.child.kill()?;
                return Err(error);
            }
        };
        if pause == Pause::Ended {
            self.began = Instant::now();
            stopped::go(self.group)?;
        }
        Ok(pause)
    }

    /// Carries the streams until the command ends or reaches its time limit.
    fn finish(
        mut self,
        root: &Root,
        request: &Request,
        limit: Duration,
        head: Option<Head>,
    ) -> Result<Reply> {
        let program = &request.argv[0];
        let failed = |what: &str| {
            let (what, program) = (what.to_owned(), program.clone());
            move |error: io::Error| Error::io(&what, program, &error)
        };
        let capture = request.capture_bytes.unwrap_or(DEFAULT_CAPTURE_BYTES);
        let mut streams = Streams::new(&mut self.child, request.stdin.as_ref(), capture)
            .map_err(failed("read the output of"))?;
        let reading = "read the output of";
        let deadline = self.began + limit;
        let input = request.while_connected.then(io::stdin);
        let let_go = self.hold(head, deadline).map_err(failed("hold"))?;
        let mut pause = let_go;
        if let_go == Pause::Ended {
            pause = streams
                .carry(&self.ended, deadline, true, input.as_ref().map(AsFd::as_fd))
                .map_err(failed(reading))?;
        }
        let hung_up = pause == Pause::HungUp;
        // A stopped command cannot react to SIGTERM.
        if hung_up && let_go == Pause::Ended {
            self.signal(program, Signal::TERM)?;
            let deadline = Instant::now() + GRACE;
            pause = streams
                .carry(&self.ended, deadline, true, None)
                .map_err(failed(reading))?;
        }
        let timed_out = pause == Pause::Deadline && !hung_up;
        if pause != Pause::Ended {
            self.signal(program, Signal::KILL)?;
            let deadline = Instant::now() + GRACE;
            pause = streams
                .carry(&self.ended, deadline, false, None)
                .map_err(failed(reading))?;
        }
        let all_ended = !(hung_up || timed_out) || self.watched.kill(root, GRACE);
        if pause != Pause::Ended || !all_ended {
            let message = format!(
                "cannot end {program} (process {}) and its descendants: SIGKILL had no effect",
                self.child.id()
            );
            return Err(Error::new(Kind::Io, message)
                .hint("as root, read /proc/PID/stack to see where it hangs in the kernel"));
        }
        streams.drain();
        let waited = self
            .waiter
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the waiting thread crashed")));
        let wall = waited.map_err(failed("wait for"))?.duration_since(self.began);
        let (status, usage) = sys::wait4(self.child.id()).map_err(failed("wait for"))?;
        self.watched.reap(root);
        let network = match self.helper.outcome(request, root) {
            Ok(network) => network,
            // A helper that was killed could not report anything.
            Err(_) if status.signal().is_some() => None,
            Err(why) => {
                return Ok(Reply {
                    stderr: Bytes(streams.stderr.kept),
                    stderr_total_bytes: streams.stderr.total_bytes,
                    ..Reply::failed(why)
                })
            }
        };
        let exit = match (status.code(), status.signal()) {
            (Some(code), _) => Exit::Status(code),
            (None, Some(signal)) => Exit::Signal(signal),
            (None, None) => Exit::Failed(format!("unknown exit status: {status}")),
        };
        Ok(Reply {
            exit,
            timed_out,
            hung_up,
            stdout_total_bytes: streams.stdout.total_bytes,
            stderr_total_bytes: streams.stderr.total_bytes,
            stdout: Bytes(streams.stdout.kept),
            stderr: Bytes(streams.stderr.kept),
            wall_ns: Some(u64::try_from(wall.as_nanos()).unwrap_or(u64::MAX)),
            rusage: Some(usage.into()),
            network,
        })
    }
}

impl From<sys::Usage> for Usage {
    fn from(usage: sys::Usage) -> Self {
        let sys::Usage {
            user_us,
            system_us,
            max_rss_bytes,
            minor_faults,
            major_faults,
            ..
        } = usage;
        let sys::Usage {
            voluntary_switches,
            involuntary_switches,
            ..
        } = usage;
        Self {
            user_us,
            system_us,
            max_rss_bytes,
            minor_faults,
            major_faults,
            voluntary_switches,
            involuntary_switches,
        }
    }
}
