// SPDX-License-Identifier: Apache-2.0
//! Descendants that a command leaves behind: those in their own group or session, which killing the
//! command's group misses.
//!
//! The agent is the subreaper of everything it starts, so an orphaned descendant becomes its child.
//! It is found there, whatever it did to escape.

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

/// How long to sleep between two searches.
const PAUSE: Duration = Duration::from_millis(2);
/// Running commands, whose processes must be left alone. The agent itself runs one at a time.
static COMMANDS: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

/// A command whose orphaned descendants become the agent's children while this value lives.
pub struct Watched {
    command: Pid,
}

/// What the kernel reports about a process.
struct Process {
    pid: Pid,
    parent: i32,
    group: i32,
    /// In clock ticks since boot.
    started: u64,
}

/// Starts a command and begins to watch it; the agent becomes the reaper of its descendants.
pub fn spawn(command: &mut Command) -> io::Result<(Child, Watched)> {
    set_child_subreaper(Some(getpid()))?;
    // Held until the command is listed, so that a search for stragglers sees both or neither.
    let mut commands = commands();
    let child = command.spawn()?;
    let pid = Pid::from_child(&child);
    commands.push(pid);
    Ok((child, Watched { command: pid }))
}

impl Watched {
    /// Kills all descendants of the command, which has been killed and not reaped yet. Returns
    /// false if some still run after `grace`. Processes that the agent may not kill are left alone.
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
            // The agent adopts the children of a process when it reaps it, so only a search that
            // finds nothing ends this loop.
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

    /// Reaps every adopted process that has ended.
    pub fn reap(&self, root: &Root) {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        if matches!(waitid(WaitId::All, options), Ok(Some(_))) {
            self.adopted(root).for_each(|process| reap(process.pid));
        }
    }

    /// Returns the agent's children that are neither a command nor in the group of another one.
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

/// Reaps a child if it has ended.
fn reap(pid: Pid) {
    // An error means that there is no such child: it is gone.
    waitpid(Some(pid), WaitOptions::NOHANG).ok();
}

/// Reads the process with this number; None if it is gone.
fn read(root: &Root, number: &str) -> Option<Process> {
    let text = root.read_text(&format!("/proc/{number}/stat")).ok()?;
    // The name, in parentheses, may contain anything.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    Some(Process {
        pid: Pid::from_raw(number.parse().ok()?)?,
        parent: fields.get(1)?.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        started: fields.get(19)?.parse().ok()?,
    })
}
