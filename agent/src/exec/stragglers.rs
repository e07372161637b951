// SPDX-License-Identifier: Apache-2.0
//! What a command leaves behind: descendants in a group or a session of their own, which its group's end does not reach.
//!
//! The agent is the reaper of all that it starts, so that a process whose parents have ended becomes its child. There it
//! is found, whatever it did to get away.

use std::io;
use std::process::{Child, Command};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{
    getpid, kill_process, set_child_subreaper, waitid, waitpid, Pid, Signal, WaitId, WaitIdOptions,
    WaitOptions,
};

use crate::root::Root;

/// How long to sleep between two looks at what is left.
const PAUSE: Duration = Duration::from_millis(2);
/// Commands that run; those of others are left alone. The agent runs one at a time.
static COMMANDS: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

/// A command whose descendants come to the agent as long as this lives.
pub struct Watched {
    command: Pid,
}

/// What the kernel tells of a process.
struct Process {
    pid: Pid,
    parent: i32,
    group: i32,
    /// In clock ticks since the machine was started.
    started: u64,
}

/// Starts a command and begins to watch it; the agent becomes the reaper of what it starts.
pub fn spawn(command: &mut Command) -> io::Result<(Child, Watched)> {
    set_child_subreaper(Some(getpid()))?;
    // Held until the command is listed: whoever looks for what was left behind sees both or neither.
    let mut commands = commands();
    let child = command.spawn()?;
    let pid = Pid::from_child(&child);
    commands.push(pid);
    Ok((child, Watched { command: pid }))
}

impl Watched {
    /// Kills all descendants of the command, which itself has been killed and is not reaped yet. False when some of them
    /// still run after the grace; those that may not be killed are left.
    pub fn kill(&self, root: &Root, grace: Duration) -> bool {
        let Some(command) = read(root, &self.command.as_raw_nonzero().to_string()) else {
            return true;
        };
        let deadline = Instant::now() + grace;
        loop {
            let killed: Vec<Pid> = self
                .adopted(root)
                .filter(|process| process.started >= command.started)
                .map(|process| process.pid)
                .filter(|pid| kill_process(*pid, Signal::KILL).is_ok())
                .collect();
            // The children of those that are reaped here are adopted now: only a look that finds nothing ends this.
            if killed.is_empty() {
                return true;
            }
            for pid in killed {
                reap(pid);
            }
            if Instant::now() >= deadline {
                return false;
            }
            thread::sleep(PAUSE);
        }
    }

    /// Reaps what has ended among all that was ever adopted.
    pub fn reap(&self, root: &Root) {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        if matches!(waitid(WaitId::All, options), Ok(Some(_))) {
            self.adopted(root).for_each(|process| reap(process.pid));
        }
    }

    /// Children of the agent that are neither a command nor in the group of another one.
    fn adopted(&self, root: &Root) -> impl Iterator<Item = Process> {
        let agent = getpid().as_raw_nonzero().get();
        let own = self.command.as_raw_nonzero().get();
        let names = if root.is_real() {
            root.list("/proc").unwrap_or_default()
        } else {
            Vec::new()
        };
        let children: Vec<Process> = names
            .iter()
            .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
            .filter_map(|name| read(root, name))
            .filter(|process| process.parent == agent)
            .collect();
        let running: Vec<i32> = commands().iter().map(|pid| pid.as_raw_nonzero().get()).collect();
        children.into_iter().filter(move |process| {
            let pid = process.pid.as_raw_nonzero().get();
            !running.contains(&pid) && (process.group == own || !running.contains(&process.group))
        })
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        commands().retain(|command| *command != self.command);
    }
}

fn commands() -> std::sync::MutexGuard<'static, Vec<Pid>> {
    COMMANDS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes away a child that has ended; one that has not stays.
fn reap(pid: Pid) {
    // An error says that there is no such child: it is gone.
    waitpid(Some(pid), WaitOptions::NOHANG).ok();
}

/// The process of this number; None when it is gone.
fn read(root: &Root, number: &str) -> Option<Process> {
    let text = root.read_text(&format!("/proc/{number}/stat")).ok()?;
    // The name, in round brackets, may hold anything.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    Some(Process {
        pid: Pid::from_raw(number.parse().ok()?)?,
        parent: fields.get(1)?.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        started: fields.get(19)?.parse().ok()?,
    })
}
