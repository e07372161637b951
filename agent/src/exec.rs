// SPDX-License-Identifier: Apache-2.0
//! Runs one command and tells how it ended: the `exec` request.
//!
//! The command leads its own process group; what leaves it is found by the agent, which reaps all that it starts. A thread waits for it without reaping it, so that its number stays
//! taken until the group has been killed (when it must be) and the moment of its end is exact however busy the
//! reading of its output is.

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
pub use request::Request;
use stopped::Refusal;
use stragglers::Watched;
use streams::{Pause, Streams};

const DEFAULT_CAPTURE_BYTES: usize = 1 << 20;
/// How long a killed process may take to end. One that is stuck in a driver does not end at all.
const GRACE: Duration = Duration::from_secs(5);

/// How the command ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Exit {
    /// With this exit status.
    Status(i32),
    /// By this signal.
    Signal(i32),
    /// It could not be started, and why.
    Failed(String),
}

/// What came of it. What a command that was not started does not have is None.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Reply {
    /// How it ended.
    pub exit: Exit,
    /// Whether its group was killed at the limit.
    pub timed_out: bool,
    /// Whether its group was told to end because the agent's input had ended.
    pub hung_up: bool,
    /// The first bytes of its output.
    pub stdout: Bytes,
    /// The first bytes of its error output.
    pub stderr: Bytes,
    /// Bytes of output produced.
    pub stdout_total_bytes: u64,
    /// Bytes of error output produced.
    pub stderr_total_bytes: u64,
    /// Nanoseconds of monotonic time from before the fork to the end of the command itself.
    pub wall_ns: Option<u64>,
    /// What the command used.
    pub rusage: Option<Usage>,
    /// The network as read back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<Value>,
}

/// Resources used by the command and those descendants that it waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[allow(
    missing_docs,
    reason = "the fields are those of sys::Usage, which documents them"
)]
pub struct Usage {
    pub user_us: u64,
    pub system_us: u64,
    pub max_rss_bytes: u64,
    pub minor_faults: u64,
    pub major_faults: u64,
    pub voluntary_switches: u64,
    pub involuntary_switches: u64,
}

/// Who asks for a command, as far as one that starts stopped is concerned.
#[derive(Clone, Copy)]
pub struct Head<'a> {
    /// What lets it go.
    pub told: Told,
    /// Tells the number of a command that is stopped.
    pub begun: &'a dyn Fn(i32) -> io::Result<()>,
}

/// Runs a command to its end or its limit. Its paths are looked up below `root`.
///
/// # Errors
/// The request makes no sense, or the system refused something after the command was started.
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

/// A command that runs.
struct Started {
    child: Child,
    group: Pid,
    watched: Watched,
    began: Instant,
    ended: OwnedFd,
    waiter: JoinHandle<io::Result<Instant>>,
    helper: Becomes,
}

/// The helper that becomes a command, by where it tells how that went.
enum Becomes {
    /// There is none: it is the command from the beginning.
    Itself,
    /// The one that makes a network.
    InNetwork(Helper),
    /// The one that stops first.
    Stopped(Refusal),
}

/// Starts the command; an error says why it could not be.
fn start(root: &Root, request: &Request) -> std::result::Result<Started, String> {
    let directory = root.path(&request.directory);
    if !directory.is_dir() {
        return Err(format!("the directory {} is not there", request.directory));
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
        let (read, write) = pipe().map_err(|error| format!("no pipe: {error}"))?;
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
    // Closes our end of the report, so that reading it ends.
    drop(command);
    let (child, watched) = spawned.map_err(|error| explain(request, program.exists(), report, &error))?;
    let started =
        watch(child, watched, began).map_err(|error| format!("cannot watch {}: {error}", request.argv[0]))?;
    Ok(Started { helper, ..started })
}

/// The command, or the helper that becomes it; an error says why there is none.
fn command_of(request: &Request, program: &Path) -> std::result::Result<(Command, Becomes), String> {
    if let Some(network) = &request.network {
        let server = request.server.as_ref();
        let (command, helper) = Helper::running(network, &program.to_string_lossy(), &request.argv, server)
            .map_err(|error| format!("no helper for a network: {error}"))?;
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

/// Why the command could not be started, naming the step that failed.
fn explain(request: &Request, program_exists: bool, report: Option<File>, error: &io::Error) -> String {
    let mut step = Vec::new();
    if let Some(report) = report {
        // An unreadable report leaves the general message below.
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
            format!("cannot start {program}: the interpreter or loader that it names is not there")
        }
        _ => format!("cannot start {program}: {error}"),
    }
}

/// Has a thread wait for the child; the pipe closes at its end.
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
    /// The network of a command that a helper became; an error says why it did not.
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
            Err(error) => Err(Error::io("cannot kill", program, &error.into())),
        }
    }

    /// Where the command is to wait: tells its number, and lets it go at the next request. `Ended` where it runs then,
    /// or has ended.
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

    /// Carries the streams to the end of the command or to its limit.
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
            .map_err(failed("cannot read the output of"))?;
        let reading = "cannot read the output of";
        let deadline = self.began + limit;
        let input = request.while_connected.then(io::stdin);
        let let_go = self.hold(head, deadline).map_err(failed("cannot hold"))?;
        let mut pause = let_go;
        if let_go == Pause::Ended {
            pause = streams
                .carry(&self.ended, deadline, true, input.as_ref().map(AsFd::as_fd))
                .map_err(failed(reading))?;
        }
        let hung_up = pause == Pause::HungUp;
        // One that is stopped does nothing about being told to end.
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
                "{program} (process {}) was killed and does not end with all its descendants",
                self.child.id()
            );
            return Err(Error::new(Kind::Io, message)
                .hint("It hangs in the kernel: see its /proc/PID/stack as root."));
        }
        streams.drain();
        let waited = self
            .waiter
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the waiting thread broke")));
        let wall = waited
            .map_err(failed("cannot wait for"))?
            .duration_since(self.began);
        let (status, usage) = sys::wait4(self.child.id()).map_err(failed("cannot wait for"))?;
        self.watched.reap(root);
        let network = match self.helper.outcome(request, root) {
            Ok(network) => network,
            // A helper that was killed had no word to say.
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
            (None, None) => Exit::Failed(format!("ended in an unknown way: {status}")),
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
