// SPDX-License-Identifier: Apache-2.0
//! A command that has its process ID but waits before its first instruction. The agent starts
//! itself once more; that process stops itself and becomes the command when it is continued.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use rustix::fs::{access, Access};
use rustix::process::{
    getpid, getppid, kill_process, set_parent_process_death_signal, waitid, Pid, Signal, WaitId,
    WaitIdOptions,
};

use super::streams::Pause;
use super::Head;
use crate::error::{Error, Kind, Result};
use crate::load::clock::now_ns;
use crate::load::Woken;
use crate::sys;

/// The hidden subcommand.
const NAME: &str = "stopped";

/// Where a process reports why it could not become its command.
#[derive(Debug)]
pub struct Refusal(File);

impl Refusal {
    /// Returns why the process did not become its command; None if it did, or was killed before.
    /// The process must have ended.
    pub fn read(&mut self) -> Option<io::Error> {
        let mut number = [0; 4];
        self.0.read_exact(&mut number).ok()?;
        Some(io::Error::from_raw_os_error(i32::from_ne_bytes(number)))
    }
}

/// Returns the command for a process that stops itself and then becomes `argv`, and where it
/// reports a failure.
pub fn command(program: &Path, argv: &[String]) -> io::Result<(Command, Refusal)> {
    access(program, Access::EXEC_OK)?;
    let (read, write) = super::pipe()?;
    let mut command = Command::new("/proc/self/exe");
    command.arg(NAME);
    command.args([write.as_raw_fd().to_string(), getpid().to_string()]);
    command.arg("--").arg(program).args(argv);
    sys::hand_down(&mut command, write);
    Ok((command, Refusal(File::from(read))))
}

/// Reports the process ID as soon as the process is stopped, and waits for the next request.
/// Returns `Ended` if that arrived, or if the process ended.
pub fn hold(process: Pid, ended: &OwnedFd, deadline: Instant, head: Head) -> io::Result<Pause> {
    let stopped = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    rustix::io::retry_on_intr(|| waitid(WaitId::Pid(process), stopped))?;
    if (head.begun)(process.as_raw_nonzero().get()).is_err() {
        return Ok(Pause::HungUp);
    }
    let left = deadline.saturating_duration_since(Instant::now());
    let left_ns = u64::try_from(left.as_nanos()).unwrap_or(u64::MAX);
    Ok(
        match head
            .told
            .wait_until_or(now_ns().saturating_add(left_ns), &[ended.as_fd()])?
        {
            Woken::Due => Pause::Deadline,
            Woken::Told if !head.told.has_request()? => Pause::HungUp,
            Woken::Told | Woken::Ready => Pause::Ended,
        },
    )
}

/// Continues the process, which may have ended.
pub fn go(process: Pid) -> io::Result<()> {
    match kill_process(process, Signal::CONT) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The main function of the helper: stops, then becomes the command. Returns only on failure. While
/// the process is stopped the kernel kills it with the agent, because nobody else would continue
/// it.
///
/// # Errors
///
/// The agent did not start this process, or nobody reads why it could not become the command.
pub fn from_arguments(report: i32, agent: i32, program: &Path, argv: &[OsString]) -> Result<()> {
    let failed = |what: &str| {
        let what = what.to_owned();
        move |error: io::Error| Error::io(&what, program.display(), &error)
    };
    let Some((name, rest)) = argv.split_first() else {
        return Err(Error::new(
            Kind::BadRequest,
            "the agent must start this command: no argv",
        ));
    };
    let mut report =
        File::from(sys::handed_down(report).map_err(failed("open the descriptor for errors of"))?);
    let stop = || -> io::Result<()> {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        if getppid().map(|parent| parent.as_raw_nonzero().get()) != Some(agent) {
            return Err(io::Error::other("the agent has ended"));
        }
        kill_process(getpid(), Signal::STOP)?;
        Ok(set_parent_process_death_signal(None)?)
    };
    let error = match stop() {
        Ok(()) => Command::new(program).arg0(name).args(rest).exec(),
        Err(error) => error,
    };
    let number = error.raw_os_error().unwrap_or_default();
    report
        .write_all(&number.to_ne_bytes())
        .map_err(failed("report the failure of"))
}
