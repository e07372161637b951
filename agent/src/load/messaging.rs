// SPDX-License-Identifier: Apache-2.0
//! `messaging`: groups of threads or processes. In each group every sender sends messages to every
//! receiver.
//!
//! Each receiver has one channel, from which it reads `senders` × `messages` messages of
//! `message_bytes`. Each sender sends `messages` messages to every receiver of its group. The
//! measured time runs from the common start to the end of the last task.

use super::clock::now_ns;
use super::crew::{self, Job};
use super::{within, Load, Measured, Run};
use crate::error::{Error, Kind, Result};
use crate::sys;
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::fd::OwnedFd;
use rustix::io::{read, retry_on_intr, write};
use rustix::pipe::{pipe_with, PipeFlags};
use rustix::process::{kill_process, Pid, Signal};
use serde::{Deserialize, Serialize};
use serde_json::{json, Map};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

const MOST_TASKS: u64 = 4000;
/// How often a load with processes checks whether it must end.
const LOOK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};
/// Largest message: the most that the kernel writes to a pipe atomically.
const MOST_MESSAGE_BYTES: u32 = 4096;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum Means {
    /// Pipes.
    Pipe,
    /// Pairs of Unix stream sockets.
    Socket,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum Tasks {
    /// Threads of the agent.
    Thread,
    /// Forked processes.
    Process,
}

#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Parameters {
    channel: Means,
    tasks: Tasks,
    groups: u32,
    senders: u32,
    receivers: u32,
    messages: u32,
    message_bytes: u32,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            channel: Means::Pipe,
            tasks: Tasks::Thread,
            groups: 10,
            senders: 20,
            receivers: 20,
            messages: 100,
            message_bytes: 100,
        }
    }
}

/// The write end of a channel.
enum Out {
    Pipe(File),
    Socket(UnixStream),
}

/// The read end of a channel.
type In = Box<dyn Read + Send>;

impl Load for Parameters {
    fn check(&self) -> Result<()> {
        within("groups", self.groups, 1, 1000)?;
        within("senders", self.senders, 1, 1000)?;
        within("receivers", self.receivers, 1, 1000)?;
        within("messages", self.messages, 1, 1_000_000)?;
        within("message_bytes", self.message_bytes, 1, MOST_MESSAGE_BYTES)?;
        let tasks = self.task_count();
        if tasks <= MOST_TASKS {
            return Ok(());
        }
        let message = format!("parameters: groups, senders and receivers make {tasks} tasks");
        Err(Error::new(Kind::BadRequest, message).hint(format!("use at most {MOST_TASKS} tasks")))
    }

    fn run(&self, run: &Run) -> Result<Measured> {
        let (elapsed_ns, received) = match self.tasks {
            Tasks::Thread => self.threads(run)?,
            Tasks::Process => self.processes(run)?,
        };
        let mut results = Map::new();
        results.insert("elapsed_ns".to_owned(), json!(elapsed_ns));
        results.insert("messages".to_owned(), json!(received));
        results.insert("task_count".to_owned(), json!(self.task_count()));
        Ok(Measured {
            results,
            histogram: None,
        })
    }
}

impl Parameters {
    fn task_count(&self) -> u64 {
        u64::from(self.groups) * (u64::from(self.senders) + u64::from(self.receivers))
    }

    /// Returns how long it took, and how many messages were received.
    fn threads(&self, run: &Run) -> Result<(u64, Option<u64>)> {
        let mut jobs: Vec<Job<u64>> = Vec::new();
        for _ in 0..self.groups {
            self.group(run, &mut jobs)?;
        }
        let done = crew::run(jobs)?;
        Ok((done.elapsed_ns, Some(done.results.iter().sum())))
    }

    /// Adds the threads of one group. The channels close with the last sender, even if one ends
    /// early.
    fn group<'a>(&'a self, run: &'a Run, jobs: &mut Vec<Job<'a, u64>>) -> Result<()> {
        let mut outs = Vec::new();
        for _ in 0..self.receivers {
            let (mut receiving, sending) = self.channel()?;
            outs.push(sending);
            jobs.push(Box::new(move |_| {
                self.receive(&mut *receiving, &mut self.message())
            }));
        }
        let outs = Arc::new(outs);
        for _ in 0..self.senders {
            let outs = Arc::clone(&outs);
            jobs.push(Box::new(move |_| self.send(run, &outs, &self.message())));
        }
        Ok(())
    }

    /// Like `threads`. A process that succeeded has sent or received all its messages; if the load
    /// was ended early, the number of messages is unknown.
    fn processes(&self, run: &Run) -> Result<(u64, Option<u64>)> {
        let gate = Gate::new()?;
        let (alive, last_end) = pipe().map_err(|error| no_channel(&error))?;
        let mut crowd = Crowd(Vec::new());
        for _ in 0..self.groups {
            self.fork_group(run, &gate, &mut crowd)?;
        }
        drop(last_end);
        let failed = |error: io::Error| Error::io("wait for", "the processes", &error);
        if !gate.is_full(crowd.0.len(), run).map_err(failed)? {
            return Ok((0, None));
        }
        let start_ns = now_ns();
        gate.open(crowd.0.len()).map_err(failed)?;
        while !is_readable(&alive).map_err(failed)? {
            if run.stopped() {
                return Ok((now_ns() - start_ns, None));
            }
        }
        let elapsed_ns = now_ns() - start_ns;
        crowd.join()?;
        Ok((
            elapsed_ns,
            Some(u64::from(self.groups) * u64::from(self.receivers) * self.to_receive()),
        ))
    }

    /// Forks the processes of one group, which then own its channels.
    fn fork_group(&self, run: &Run, gate: &Gate, crowd: &mut Crowd) -> Result<()> {
        let mut message = self.message();
        let mut outs = Vec::new();
        let failed = |error: io::Error| Error::io("start", "a process", &error).hint("use fewer groups");
        for _ in 0..self.receivers {
            let (mut receiving, sending) = self.channel()?;
            outs.push(sending);
            let wanted = self.to_receive();
            let work = || {
                gate.pass()
                    && self
                        .receive(&mut *receiving, &mut message)
                        .is_ok_and(|came| came == wanted)
            };
            crowd.0.push(sys::fork(work).map_err(failed)?);
        }
        for _ in 0..self.senders {
            let work = || gate.pass() && self.send(run, &outs, &message).is_ok();
            crowd.0.push(sys::fork(work).map_err(failed)?);
        }
        Ok(())
    }

    fn message(&self) -> Vec<u8> {
        vec![0; self.message_bytes as usize]
    }

    /// Returns the number of messages for each receiver.
    fn to_receive(&self) -> u64 {
        u64::from(self.senders) * u64::from(self.messages)
    }

    fn channel(&self) -> Result<(In, Out)> {
        let made = match self.channel {
            Means::Pipe => pipe().map(|(read, write)| -> (In, Out) {
                (Box::new(File::from(read)), Out::Pipe(File::from(write)))
            }),
            Means::Socket => {
                UnixStream::pair().map(|(read, write)| -> (In, Out) { (Box::new(read), Out::Socket(write)) })
            }
        };
        made.map_err(|error| no_channel(&error))
    }

    fn send(&self, run: &Run, outs: &[Out], message: &[u8]) -> io::Result<u64> {
        for _ in 0..self.messages {
            if run.stopped() {
                break;
            }
            for out in outs {
                match out {
                    Out::Pipe(pipe) => {
                        retry_on_intr(|| write(pipe, message))?;
                    }
                    Out::Socket(socket) => (&*socket).write_all(message)?,
                }
            }
        }
        Ok(0)
    }

    /// Returns how many complete messages were received.
    fn receive(&self, channel: &mut dyn Read, message: &mut [u8]) -> io::Result<u64> {
        let mut received = 0;
        while received < self.to_receive() {
            match channel.read_exact(message) {
                Ok(()) => received += 1,
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
                Err(error) => return Err(error),
            }
        }
        Ok(received)
    }
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(pipe_with(PipeFlags::CLOEXEC)?)
}

fn no_channel(error: &io::Error) -> Error {
    Error::io("create", "a channel", error).hint("use fewer groups or receivers, or raise `ulimit -n`")
}

/// Waits up to a tenth of a second. Returns whether there is something to read, or the last writer
/// is gone.
fn is_readable(file: &OwnedFd) -> io::Result<bool> {
    let mut sources = [PollFd::new(file, PollFlags::IN)];
    match poll(&mut sources, Some(&LOOK)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(!sources[0].revents().is_empty()),
        Err(error) => Err(error.into()),
    }
}

/// The gate at which processes wait for each other: each writes a byte on arrival, and reads one to
/// continue.
struct Gate {
    arrived: (OwnedFd, OwnedFd),
    opened: (OwnedFd, OwnedFd),
}

impl Gate {
    fn new() -> Result<Self> {
        let make = || pipe().map_err(|error| no_channel(&error));
        Ok(Self {
            arrived: make()?,
            opened: make()?,
        })
    }

    /// Arrives and waits.
    fn pass(&self) -> bool {
        let pass = retry_on_intr(|| write(&self.arrived.1, b"a"))
            .and_then(|_| retry_on_intr(|| read(&self.opened.0, &mut [0_u8])));
        pass == Ok(1)
    }

    /// Waits until this many have arrived; returns false if the load must end first.
    fn is_full(&self, expected: usize, run: &Run) -> io::Result<bool> {
        let mut missing = expected;
        let mut buffer = vec![0_u8; expected];
        while missing > 0 {
            if run.stopped() {
                return Ok(false);
            }
            if is_readable(&self.arrived.0)? {
                missing -= retry_on_intr(|| read(&self.arrived.0, &mut buffer[..missing]))?;
            }
        }
        Ok(true)
    }

    /// Lets this many continue.
    fn open(&self, expected: usize) -> io::Result<()> {
        (&File::from(self.opened.1.try_clone()?)).write_all(&vec![b'g'; expected])
    }
}

/// Process IDs of forked processes, oldest first. Remaining ones are killed on drop.
struct Crowd(Vec<u32>);

impl Crowd {
    /// Waits for each process; fails if one did not succeed.
    fn join(&mut self) -> Result<()> {
        while let Some(process) = self.0.pop() {
            let (status, _) = sys::wait4(process).map_err(|error| Error::io("wait for", process, &error))?;
            if !status.success() {
                let message = format!("a process of the load failed: {status}");
                return Err(Error::new(Kind::Io, message));
            }
        }
        Ok(())
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        for process in &self.0 {
            // Nobody has waited for these children yet, so the process IDs are still theirs.
            if let Some(process) = i32::try_from(*process).ok().and_then(Pid::from_raw) {
                let _: rustix::io::Result<()> = kill_process(process, Signal::KILL);
            }
        }
        for process in &self.0 {
            let _: io::Result<_> = sys::wait4(*process);
        }
    }
}
