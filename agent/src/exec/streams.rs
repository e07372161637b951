// SPDX-License-Identifier: Apache-2.0
//! The streams of a running command, read and written as they become ready.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::Child;
use std::time::{Duration, Instant};

use rustix::event::{poll, PollFd, PollFlags, Timespec};

use crate::bytes::Bytes;

/// The most reads of one stream after the end: a process that left the group may write for ever.
const LAST_READS: usize = 64;

/// An output stream: the beginning is kept, everything is counted.
pub struct Capture {
    source: Option<File>,
    pub kept: Vec<u8>,
    limit_bytes: usize,
    pub total_bytes: u64,
}

impl Capture {
    fn new(source: Option<impl Into<OwnedFd>>, limit_bytes: usize) -> io::Result<Self> {
        let source = source.map(|source| File::from(source.into()));
        if let Some(source) = &source {
            rustix::io::ioctl_fionbio(source, true)?;
        }
        Ok(Self {
            source,
            kept: Vec::new(),
            limit_bytes,
            total_bytes: 0,
        })
    }

    /// Reads once; returns false if there is nothing to read.
    fn read(&mut self, buffer: &mut [u8]) -> bool {
        let Some(source) = &mut self.source else {
            return false;
        };
        match source.read(buffer) {
            Ok(0) => self.source = None,
            Ok(count) => {
                self.total_bytes += count as u64;
                let room = self.limit_bytes - self.kept.len();
                self.kept.extend_from_slice(&buffer[..count.min(room)]);
                return true;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return true,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => self.source = None,
        }
        false
    }
}

/// Why carrying the streams ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pause {
    /// The command has ended.
    Ended,
    /// The deadline passed.
    Deadline,
    /// The other end of the line closed.
    HungUp,
}

/// The three streams of a command.
pub struct Streams {
    stdin: Option<(File, Vec<u8>, usize)>,
    pub stdout: Capture,
    pub stderr: Capture,
    buffer: Vec<u8>,
}

impl Streams {
    /// Takes the streams of a command that was started with pipes.
    pub fn new(child: &mut Child, input: Option<&Bytes>, capture_bytes: usize) -> io::Result<Self> {
        let stdin = child.stdin.take().map(|pipe| File::from(OwnedFd::from(pipe)));
        if let Some(pipe) = &stdin {
            rustix::io::ioctl_fionbio(pipe, true)?;
        }
        Ok(Self {
            stdin: stdin.zip(input).map(|(pipe, input)| (pipe, input.0.clone(), 0)),
            stdout: Capture::new(child.stdout.take(), capture_bytes)?,
            stderr: Capture::new(child.stderr.take(), capture_bytes)?,
            buffer: vec![0; 1 << 16],
        })
    }

    /// Reads and writes until the command has ended (with `to_the_end`, also its output), the
    /// deadline passes, or `line` hangs up.
    pub fn carry(
        &mut self,
        ended: &OwnedFd,
        deadline: Instant,
        to_the_end: bool,
        line: Option<BorrowedFd>,
    ) -> io::Result<Pause> {
        let mut running = true;
        loop {
            let open = self.stdout.source.is_some() || self.stderr.source.is_some();
            let wanted = running || (to_the_end && open);
            if !wanted {
                return Ok(Pause::Ended);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Pause::Deadline);
            }
            let ready = self.wait(ended, running, left, line)?;
            if ready.out {
                self.stdout.read(&mut self.buffer);
            }
            if ready.err {
                self.stderr.read(&mut self.buffer);
            }
            if ready.input {
                self.write();
            }
            running = running && !ready.ended;
            if running && ready.hung_up {
                return Ok(Pause::HungUp);
            }
        }
    }

    /// Waits until a stream is ready, the command ends, the line hangs up, or the time is over.
    fn wait(
        &self,
        ended: &OwnedFd,
        running: bool,
        left: Duration,
        line: Option<BorrowedFd>,
    ) -> io::Result<Ready> {
        let mut slots = Vec::with_capacity(5);
        let mut place = |wanted: bool, fd, flags| {
            wanted.then(|| {
                slots.push(PollFd::from_borrowed_fd(fd, flags));
                slots.len() - 1
            })
        };
        let end = place(running, ended.as_fd(), PollFlags::IN);
        let out = self
            .stdout
            .source
            .as_ref()
            .and_then(|file| place(true, file.as_fd(), PollFlags::IN));
        let err = self
            .stderr
            .source
            .as_ref()
            .and_then(|file| place(true, file.as_fd(), PollFlags::IN));
        let input = self
            .stdin
            .as_ref()
            .and_then(|(file, ..)| place(true, file.as_fd(), PollFlags::OUT));
        // Without flags, poll reports only that the other side closed.
        let line = line.and_then(|line| place(running, line, PollFlags::empty()));
        // A day at most: longer waits loop.
        let left = left.min(Duration::from_secs(86_400));
        let timeout = Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(86_400),
            tv_nsec: left.subsec_nanos().into(),
        };
        match poll(&mut slots, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let is_ready = |slot: Option<usize>| slot.is_some_and(|slot| !slots[slot].revents().is_empty());
        Ok(Ready {
            ended: is_ready(end),
            out: is_ready(out),
            err: is_ready(err),
            input: is_ready(input),
            hung_up: is_ready(line),
        })
    }

    /// Writes what the command accepts; a command need not read all its input.
    fn write(&mut self) {
        let Some((pipe, input, at)) = &mut self.stdin else {
            return;
        };
        match pipe.write(&input[*at..]) {
            Ok(count) => *at += count,
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock
                ) =>
            {
                return
            }
            Err(_) => *at = input.len(),
        }
        if *at == input.len() {
            self.stdin = None;
        }
    }

    /// Reads what is left in the pipes without waiting for more.
    pub fn drain(&mut self) {
        for stream in [&mut self.stdout, &mut self.stderr] {
            for _ in 0..LAST_READS {
                if !stream.read(&mut self.buffer) {
                    break;
                }
            }
        }
    }
}

/// What is ready after a wait.
#[allow(
    clippy::struct_excessive_bools,
    reason = "one for each of the five descriptors"
)]
struct Ready {
    ended: bool,
    out: bool,
    err: bool,
    input: bool,
    hung_up: bool,
}
