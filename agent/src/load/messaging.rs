// SPDX-License-Identifier: Apache-2.0
//! `messaging`: groups of threads, in each of which every sender sends messages to every receiver.
//!
//! Each receiver has one channel, from which it takes `senders` × `messages` messages of `message_bytes`; each sender
//! sends one message to every receiver of its group, `messages` times over. The time runs from the common start of all
//! threads to the end of the last.

use super::crew::{self, Job};
use super::{within, Load, Measured, Run};
use crate::error::{Error, Kind, Result};
use rustix::io::{retry_on_intr, write};
use rustix::pipe::{pipe_with, PipeFlags};
use serde::{Deserialize, Serialize};
use serde_json::{json, Map};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

const MOST_THREADS: u64 = 4000;
/// Largest message: the kernel writes as much into a pipe without mixing it with that of others.
const MOST_MESSAGE_BYTES: u32 = 4096;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum Means {
    /// Pipes.
    Pipe,
    /// Pairs of Unix stream sockets.
    Socket,
}

#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Parameters {
    channel: Means,
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
            groups: 10,
            senders: 20,
            receivers: 20,
            messages: 100,
            message_bytes: 100,
        }
    }
}

/// The end of a channel that is written to.
enum Out {
    Pipe(File),
    Socket(UnixStream),
}

/// The end of a channel that is read from.
type In = Box<dyn Read + Send>;

impl Load for Parameters {
    fn check(&self) -> Result<()> {
        within("groups", self.groups, 1, 1000)?;
        within("senders", self.senders, 1, 1000)?;
        within("receivers", self.receivers, 1, 1000)?;
        within("messages", self.messages, 1, 1_000_000)?;
        within("message_bytes", self.message_bytes, 1, MOST_MESSAGE_BYTES)?;
        let threads = self.threads();
        if threads <= MOST_THREADS {
            return Ok(());
        }
        let message = format!("parameters: groups, senders and receivers make {threads} threads");
        Err(Error::new(Kind::BadRequest, message).hint(format!("at most {MOST_THREADS}")))
    }

    fn run(&self, run: &Run) -> Result<Measured> {
        let mut jobs: Vec<Job<u64>> = Vec::new();
        for _ in 0..self.groups {
            self.group(run, &mut jobs)?;
        }
        let done = crew::run(jobs)?;
        let received: u64 = done.results.iter().sum();
        let mut results = Map::new();
        results.insert("elapsed_ns".to_owned(), json!(done.elapsed_ns));
        results.insert("messages".to_owned(), json!(received));
        results.insert("threads".to_owned(), json!(self.threads()));
        Ok(Measured {
            results,
            histogram: None,
        })
    }
}

impl Parameters {
    fn threads(&self) -> u64 {
        u64::from(self.groups) * (u64::from(self.senders) + u64::from(self.receivers))
    }

    /// Adds the threads of one group. The channels close with the last sender, also when one ends early.
    fn group<'a>(&'a self, run: &'a Run, jobs: &mut Vec<Job<'a, u64>>) -> Result<()> {
        let mut outs = Vec::new();
        for _ in 0..self.receivers {
            let (receiving, sending) = self.channel().map_err(|error| {
                Error::io("cannot make", "a channel", &error)
                    .hint("take fewer groups or receivers, or raise ulimit -n")
            })?;
            outs.push(sending);
            jobs.push(Box::new(move |_| self.receive(receiving)));
        }
        let outs = Arc::new(outs);
        for _ in 0..self.senders {
            let outs = Arc::clone(&outs);
            jobs.push(Box::new(move |_| self.send(run, &outs)));
        }
        Ok(())
    }

    fn channel(&self) -> io::Result<(In, Out)> {
        Ok(match self.channel {
            Means::Pipe => {
                let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
                (Box::new(File::from(read)), Out::Pipe(File::from(write)))
            }
            Means::Socket => {
                let (read, write) = UnixStream::pair()?;
                (Box::new(read), Out::Socket(write))
            }
        })
    }

    fn send(&self, run: &Run, outs: &[Out]) -> io::Result<u64> {
        let message = vec![0; self.message_bytes as usize];
        for _ in 0..self.messages {
            if run.stopped() {
                break;
            }
            for out in outs {
                match out {
                    Out::Pipe(pipe) => {
                        retry_on_intr(|| write(pipe, &message))?;
                    }
                    Out::Socket(socket) => (&*socket).write_all(&message)?,
                }
            }
        }
        Ok(0)
    }

    /// How many whole messages came.
    fn receive(&self, mut channel: In) -> io::Result<u64> {
        let mut message = vec![0; self.message_bytes as usize];
        let mut received = 0;
        let expected = u64::from(self.senders) * u64::from(self.messages);
        while received < expected {
            match channel.read_exact(&mut message) {
                Ok(()) => received += 1,
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
                Err(error) => return Err(error),
            }
        }
        Ok(received)
    }
}
