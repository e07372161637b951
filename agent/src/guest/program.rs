// SPDX-License-Identifier: Apache-2.0
//! The program of a guest: its output is sent piece by piece, followed by how it ended.

use crate::error::{Error, Kind, Result};
use crate::relay::frames::{self, Line};
use crate::relay::sessions::ending;
use rustix::process::{kill_process_group, Pid, Signal};
use serde::Deserialize;
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{channel, Sender};
use std::thread::{sleep, spawn};
use std::time::Duration;

const PIECE_BYTES: usize = 1 << 12;
/// How long to wait for more output of a program that has ended: processes that it left running may
/// hold its streams.
const LAST_OUTPUT: Duration = Duration::from_secs(2);
/// How long a companion program takes to get going.
const LEAD: Duration = Duration::from_millis(500);

/// A program and how to start it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    argv: Vec<String>,
    environment: BTreeMap<String, String>,
    directory: String,
    /// User and group; none for root.
    user: Option<u32>,
    /// Companion programs that run from shortly before it until it ends; their output is discarded.
    beside: Vec<Program>,
}

impl Program {
    /// Runs the program to its end and returns whether it succeeded. A program that cannot be
    /// started is reported as ended.
    pub fn run(&self, line: &Line) -> Result<bool> {
        let mut beside = Vec::new();
        let mut ending = Value::Null;
        for one in &self.beside {
            match one.start(false)? {
                Ok(child) => beside.push(child),
                Err(error) => ending = unstarted(&error),
            }
        }
        if !beside.is_empty() {
            sleep(LEAD);
        }
        if ending.is_null() {
            ending = match self.start(true)? {
                Ok(child) => attend(child, line),
                Err(error) => unstarted(&error),
            };
        }
        beside.into_iter().for_each(end);
        line.say(frames::ENDED, &ending)?;
        Ok(ending["status"] == 0)
    }

    fn start(&self, heard: bool) -> Result<io::Result<Child>> {
        let Some((name, arguments)) = self.argv.split_first() else {
            return Err(Error::new(Kind::BadRequest, "expected a program to run"));
        };
        let stream = || if heard { Stdio::piped() } else { Stdio::null() };
        let mut command = Command::new(name);
        command
            .args(arguments)
            .env_clear()
            .envs(&self.environment)
            .current_dir(&self.directory)
            .stdin(Stdio::null())
            .stdout(stream())
            .stderr(stream())
            .process_group(0);
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        Ok(command.spawn())
    }
}

fn unstarted(error: &io::Error) -> Value {
    json!({"unstarted": error.to_string(), "errno": error.raw_os_error()})
}

/// Kills a companion program and everything that it started.
fn end(mut child: Child) {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        // It may have ended on its own.
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = child.wait();
}

/// Sends the program's output until it has ended and no more output comes. Returns how it ended.
fn attend(mut child: Child, line: &Line) -> Value {
    let (sent, pieces) = channel();
    if let Some(from) = child.stdout.take() {
        carry(from, line, frames::OUTPUT, sent.clone());
    }
    if let Some(from) = child.stderr.take() {
        carry(from, line, frames::ERRORS, sent.clone());
    }
    drop(sent);
    let ended = child.wait();
    while pieces.recv_timeout(LAST_OUTPUT).is_ok() {}
    ended.map_or_else(|error| json!({"unknown": error.to_string()}), ending)
}

/// Sends one stream; notifies `piece_sent` of every piece.
fn carry(mut from: impl Read + Send + 'static, line: &Line, kind: u8, piece_sent: Sender<()>) {
    let line = line.clone();
    spawn(move || {
        let mut piece = vec![0; PIECE_BYTES];
        while let Ok(count @ 1..) = from.read(&mut piece) {
            if line.send(kind, &piece[..count]).is_err() || piece_sent.send(()).is_err() {
                break;
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    /// Returns the frames that a line sends for this program: kind and content of each.
    fn frames_of(argv: &[&str]) -> Vec<(u8, Vec<u8>)> {
        run_beside(argv, &json!([])).1
    }

    fn run_beside(argv: &[&str], beside: &Value) -> (bool, Vec<(u8, Vec<u8>)>) {
        let file = tempfile::NamedTempFile::new().unwrap();
        let program: Program = serde_json::from_value(json!({
            "argv": argv, "environment": {"PATH": "/usr/bin:/bin"}, "directory": "/", "user": null, "beside": beside,
        }))
        .unwrap();
        let good = program.run(&Line::new(file.reopen().unwrap())).unwrap();
        let mut data = fs::read(file.path()).unwrap();
        let mut found = Vec::new();
        while !data.is_empty() {
            let length = u32::from_be_bytes(data[1..5].try_into().unwrap()) as usize;
            found.push((data[0], data[5..5 + length].to_vec()));
            data.drain(..5 + length);
        }
        (good, found)
    }

    fn stream(frames: &[(u8, Vec<u8>)], kind: u8) -> Vec<u8> {
        frames
            .iter()
            .filter(|frame| frame.0 == kind)
            .flat_map(|frame| frame.1.clone())
            .collect()
    }

    #[test]
    fn streams_come_apart_and_whole_and_the_status_last() {
        let script = "head -c 100000 /dev/zero; echo oops >&2; exit 7";
        let frames = frames_of(&["/bin/sh", "-c", script]);
        assert_eq!(stream(&frames, frames::OUTPUT), vec![0; 100_000]);
        assert_eq!(stream(&frames, frames::ERRORS), b"oops\n");
        assert_eq!(
            frames.last().unwrap(),
            &(frames::ENDED, br#"{"status":7}"#.to_vec())
        );
    }

    #[test]
    fn a_signal_and_a_program_that_is_not_there_are_told() {
        assert_eq!(
            frames_of(&["/bin/sh", "-c", "kill -9 $$"])[0].1,
            br#"{"signal":9}"#.to_vec()
        );
        let unstarted = String::from_utf8(frames_of(&["/no/such"])[0].1.clone()).unwrap();
        assert!(unstarted.contains(r#""errno":2"#), "{unstarted}");
    }

    #[test]
    fn what_runs_beside_a_program_ends_with_it_and_says_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let mark = folder.path().join("mark");
        let script = format!("echo noise; echo $$ > {}; exec sleep 100", mark.display());
        let one = json!({"argv": ["/bin/sh", "-c", script], "environment": {"PATH": "/usr/bin:/bin"}, "directory": "/", "user": null, "beside": []});
        let (good, frames) = run_beside(&["/bin/cat", mark.to_str().unwrap()], &json!([one]));
        assert!(good);
        let said = String::from_utf8(stream(&frames, frames::OUTPUT)).unwrap();
        assert!(
            !Path::new(&format!("/proc/{}/cwd", said.trim())).exists(),
            "{said}"
        );
        let absent =
            json!({"argv": ["/no/such"], "environment": {}, "directory": "/", "user": null, "beside": []});
        let (good, frames) = run_beside(&["/bin/echo"], &json!([absent]));
        assert!(!good);
        assert_eq!(frames.len(), 1);
    }

    #[test]
    fn what_a_program_leaves_running_does_not_keep_the_guest() {
        let frames = frames_of(&["/bin/sh", "-c", "sleep 30 & echo left"]);
        assert_eq!(stream(&frames, frames::OUTPUT), b"left\n");
        assert_eq!(frames.last().unwrap().1, br#"{"status":0}"#.to_vec());
    }
}
