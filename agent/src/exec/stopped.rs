// SPDX-License-Identifier: Apache-2.0
//! A command that has its number and waits before its first instruction: the agent starts itself once more, and that
//! process stops itself, and becomes the command when it is let go.

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

/// Where a process that could not become its command tells why.
#[derive(Debug)]
pub struct Refusal(File);

impl Refusal {
    /// Why it did not become its command; None when it did, or was ended before. It is to have ended.
    pub fn read(&mut self) -> Option<io::Error> {
        let mut number = [0; 4];
        self.0.read_exact(&mut number).ok()?;
        Some(io::Error::from_raw_os_error(i32::from_ne_bytes(number)))
    }
}

/// The command that starts a process which stops itself and then becomes `argv`, and where it tells why it did not.
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

/// Tells the number of a process as soon as it is stopped, and waits for the next request. `Ended` where that came, or
/// the process has ended.
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

/// Lets it go; it may have ended.
pub fn go(process: Pid) -> io::Result<()> {
    match kill_process(process, Signal::CONT) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The process's whole life: it stops, and becomes the command. It returns only when it did not. It is killed with the
/// agent as long as it is stopped: nobody else would let it go.
///
/// # Errors
/// It was not started by the agent, or nobody hears why it could not become the command.
pub fn from_arguments(report: i32, agent: i32, program: &Path, argv: &[OsString]) -> Result<()> {
    let failed = |what: &str| {
        let what = what.to_owned();
        move |error: io::Error| Error::io(&what, program.display(), &error)
    };
    let Some((name, rest)) = argv.split_first() else {
        return Err(Error::new(Kind::BadRequest, "not started by the agent: no argv"));
    };
    let mut report = File::from(sys::handed_down(report).map_err(failed("no descriptor to report on"))?);
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
        .map_err(failed("cannot report of"))
}
