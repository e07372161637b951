// SPDX-License-Identifier: Apache-2.0
//! Programs of a guest: started by the job or over the line, their output handed over piece by piece.

use super::frames::{self, Line};
use crate::error::{Error, Kind, Result};
use serde::Deserialize;
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{channel, Sender};
use std::thread::{spawn, JoinHandle};
use std::time::Duration;

const PIECE_BYTES: usize = 1 << 12;
/// So long after the last piece, output of a program that has ended is over: what it left running may hold its streams.
const LAST_OUTPUT: Duration = Duration::from_secs(2);

/// A program, and how it is started.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    argv: Vec<String>,
    environment: BTreeMap<String, String>,
    directory: String,
    /// User and group; none is root.
    user: Option<u32>,
    /// Whether input comes over the line; otherwise there is none.
    input: bool,
}

/// The programs that run, by channel.
pub struct Programs {
    line: Line,
    inputs: BTreeMap<u8, ChildStdin>,
    waiting: BTreeMap<u8, JoinHandle<()>>,
}

impl Programs {
    pub fn new(line: Line) -> Self {
        Self {
            line,
            inputs: BTreeMap::new(),
            waiting: BTreeMap::new(),
        }
    }

    /// Starts a program on a channel. That it cannot be started is told on the channel.
    pub fn start(&mut self, channel: u8, program: &Program) -> Result<()> {
        let Some(name) = program.argv.first() else {
            return Err(Error::new(Kind::BadRequest, "a program without a name"));
        };
        let mut command = Command::new(name);
        command
            .args(&program.argv[1..])
            .env_clear()
            .envs(&program.environment)
            .current_dir(&program.directory)
            .stdin(if program.input { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        if let Some(user) = program.user {
            command.uid(user).gid(user);
        }
        match command.spawn() {
            Ok(mut child) => {
                if let Some(input) = child.stdin.take() {
                    self.inputs.insert(channel, input);
                }
                let line = self.line.clone();
                self.waiting.insert(channel, spawn(move || attend(child, &line, channel)));
                Ok(())
            }
            Err(error) => {
                let told = json!({"unstarted": error.to_string(), "errno": error.raw_os_error()});
                self.line.say(frames::ENDED, channel, &told)
            }
        }
    }

    /// Hands input to the program of a channel; an empty piece ends it. A program that takes none any more has ended or will.
    pub fn input(&mut self, channel: u8, content: &[u8]) {
        let taken = self.inputs.get_mut(&channel).map(|input| input.write_all(content));
        if content.is_empty() || !matches!(taken, Some(Ok(()))) {
            self.inputs.remove(&channel);
        }
    }

    /// Waits for the program of a channel.
    pub fn finish(&mut self, channel: u8) -> Result<()> {
        match self.waiting.remove(&channel).map(JoinHandle::join) {
            Some(Err(_)) => Err(Error::new(Kind::Io, "a program could not be attended to")),
            _ => Ok(()),
        }
    }
}

/// Hands over what the program writes, and how it ended. A line that is lost ends with the guest.
fn attend(mut child: Child, line: &Line, number: u8) {
    let (done, pieces) = channel();
    if let Some(from) = child.stdout.take() {
        carry(from, line, frames::OUTPUT, number, done.clone());
    }
    if let Some(from) = child.stderr.take() {
        carry(from, line, frames::ERRORS, number, done.clone());
    }
    drop(done);
    let ended = child.wait();
    while pieces.recv_timeout(LAST_OUTPUT).is_ok() {}
    let told = ended.map_or_else(|error| json!({"unknown": error.to_string()}), ending);
    let _ = line.say(frames::ENDED, number, &told);
}

/// Hands over one stream; tells of every piece.
fn carry(mut from: impl Read + Send + 'static, line: &Line, kind: u8, number: u8, piece_sent: Sender<()>) {
    let line = line.clone();
    spawn(move || {
        let mut piece = vec![0; PIECE_BYTES];
        while let Ok(count @ 1..) = from.read(&mut piece) {
            if line.send(kind, number, &piece[..count]).is_err() || piece_sent.send(()).is_err() {
                break;
            }
        }
    });
}

fn ending(status: ExitStatus) -> Value {
    match (status.code(), status.signal()) {
        (Some(code), _) => json!({ "status": code }),
        (None, signal) => json!({ "signal": signal }),
    }
}
