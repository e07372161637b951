// SPDX-License-Identifier: Apache-2.0
//! Sessions of the user for a plan: the same agent without root, over two pipes, with the protocol
//! that the head speaks.

use crate::error::{Error, Kind, Result};
use crate::launch;
use crate::oom;
use crate::transact::context::Context;
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use serde_json::{json, Map, Value};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// The kernel kills a session with this score, and what it runs, before ordinary processes.
const MEASURED_SCORE: i32 = 300;
/// How long a session may take to end its command: SIGTERM, 5 seconds, SIGKILL, 5 seconds.
const END_WAIT: Duration = Duration::from_secs(11);
const CHUNK_BYTES: usize = 1 << 16;

/// A session of the user.
#[derive(Debug)]
pub struct Session {
    process: Child,
    input: Option<ChildStdin>,
    output: ChildStdout,
    read: Vec<u8>,
    next_id: u64,
}

/// Becomes the user for good, before this process serves a session.
pub fn become_user(uid: Option<u32>) -> Result<()> {
    oom::expose(MEASURED_SCORE)?;
    let Some(uid) = uid else { return Ok(()) };
    // Before Linux 6.4 these come from /proc/self/auxv, which this process cannot read once it has dropped root.
    rustix::param::page_size();
    rustix::param::clock_ticks_per_second();
    launch::become_user_for_good(uid)
}

impl Session {
    /// Starts a session; `uid` is none on a tree that stands for a machine.
    pub fn start(context: &Context, uid: Option<u32>) -> Result<Self> {
        let mut command = Command::new("/proc/self/exe");
        command
            .arg("unattended-user")
            .arg("--root")
            .arg(context.root.base())
            .args(["--state", &context.state]);
        if let Some(uid) = uid {
            command.args(["--uid", &uid.to_string()]);
        }
        command.env_clear().current_dir("/");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let failed = |error: &io::Error| Error::io("start", "a session of the user", error);
        let mut process = command.spawn().map_err(|error| failed(&error))?;
        let (input, output) = (process.stdin.take(), process.stdout.take());
        let output = output.ok_or_else(|| failed(&io::ErrorKind::BrokenPipe.into()))?;
        Ok(Self {
            process,
            input,
            output,
            read: Vec::new(),
            next_id: 0,
        })
    }

    /// Sends a request.
    pub fn send(&mut self, name: &str, fields: &Map<String, Value>) -> Result<()> {
        self.next_id += 1;
        let mut request = json!({"id": self.next_id, "do": name});
        if let Value::Object(request) = &mut request {
            request.extend(fields.clone());
        }
        let mut line = request.to_string().into_bytes();
        line.push(b'\n');
        let Some(input) = &mut self.input else {
            return Err(lost("its input is closed"));
        };
        input.write_all(&line).map_err(|error| lost(&error.to_string()))
    }

    /// Returns what becomes readable when an answer arrives.
    #[must_use]
    pub fn output(&self) -> BorrowedFd<'_> {
        self.output.as_fd()
    }

    /// Reads what has arrived. Returns the next whole line, if there is one.
    pub fn receive(&mut self) -> Result<Option<Value>> {
        let mut chunk = vec![0; CHUNK_BYTES];
        let length = self
            .output
            .read(&mut chunk)
            .map_err(|error| lost(&error.to_string()))?;
        if length == 0 {
            return Err(lost("it ended without an answer"));
        }
        self.read.extend_from_slice(&chunk[..length]);
        self.line()
    }

    /// Returns the next line that was read already, if it is whole.
    pub fn line(&mut self) -> Result<Option<Value>> {
        let Some(at) = self.read.iter().position(|byte| *byte == b'\n') else {
            return Ok(None);
        };
        let line: Vec<u8> = self.read.drain(..=at).collect();
        serde_json::from_slice(&line)
            .map(Some)
            .map_err(|error| lost(&error.to_string()))
    }

    /// Ends the input, so that a command that runs is ended, and returns the last answer.
    pub fn hang_up(&mut self) -> Result<Option<Value>> {
        self.input = None;
        let deadline = Instant::now() + END_WAIT;
        loop {
            if let Some(answer) = self.line()? {
                return Ok(Some(answer));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let span = Timespec {
                tv_sec: i64::try_from(left.as_secs()).unwrap_or_default(),
                tv_nsec: i64::from(left.subsec_nanos()),
            };
            let ready = poll(&mut [PollFd::new(&self.output, PollFlags::IN)], Some(&span));
            if !matches!(ready, Ok(1..)) {
                return Err(lost("it does not end"));
            }
            if let Some(answer) = self.receive()? {
                return Ok(Some(answer));
            }
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.input = None;
        let deadline = Instant::now() + END_WAIT;
        while matches!(self.process.try_wait(), Ok(None)) {
            if Instant::now() > deadline {
                // It hangs; what it started dies with it or hangs in the kernel.
                drop(self.process.kill());
                drop(self.process.wait());
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

fn lost(why: &str) -> Error {
    Error::new(Kind::Io, format!("lost the session of the user: {why}"))
}
