// SPDX-License-Identifier: Apache-2.0
//! Moments at which the kernel reports that tasks wait too long: triggers on `/proc/pressure`.

use crate::load::clock::now_ns;
use crate::root::Root;
use rustix::event::{eventfd, poll, EventfdFlags, PollFd, PollFlags};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use serde_json::{json, Value};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Resources, event kinds, and the percentage of a window that some task must wait.
const LEVELS: [(&str, &str, u64); 3] = [
    ("cpu", "pressure-cpu", 50),
    ("memory", "pressure-memory", 5),
    ("io", "pressure-io", 20),
];
/// Limits of a window in microseconds. Unprivileged sessions may use only multiples of
/// [`UNPRIVILEGED_US`].
const WINDOWS_US: std::ops::RangeInclusive<u64> = 500_000..=10_000_000;
const UNPRIVILEGED_US: u64 = 2_000_000;
/// Most events to keep if nobody fetches them.
const MOST: usize = 1 << 14;

/// A resource that exceeded its limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passed {
    pub at_ns: u64,
    pub kind: &'static str,
    pub detail: String,
}

#[derive(Debug)]
struct Trigger {
    file: OwnedFd,
    kind: &'static str,
    detail: String,
}

/// A thread that waits for triggers.
pub struct Triggers {
    passed: Arc<Mutex<Vec<Passed>>>,
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Triggers {
    /// Sets the triggers and starts waiting for them.
    ///
    /// # Errors
    ///
    /// Why none could be set.
    pub fn start(root: &Root, period_ns: u64) -> Result<Self, String> {
        let window_us = (period_ns / 1000).clamp(*WINDOWS_US.start(), *WINDOWS_US.end());
        let mut set = Vec::new();
        let mut refused = Vec::new();
        for (resource, kind, percent) in LEVELS {
            match trigger(root, resource, kind, percent, window_us)
                .or_else(|_| trigger(root, resource, kind, percent, UNPRIVILEGED_US))
            {
                Ok(trigger) => set.push(trigger),
                Err(error) => refused.push(format!("/proc/pressure/{resource}: {error}")),
            }
        }
        if set.is_empty() {
            return Err(refused.join("; "));
        }
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC).map_err(|error| error.to_string())?);
        let passed = Arc::new(Mutex::new(Vec::new()));
        let (told, stopped) = (Arc::clone(&passed), Arc::clone(&stop));
        let thread = std::thread::Builder::new()
            .name("triggers".to_owned())
            .spawn(move || wait(&set, &stopped, &told))
            .map_err(|error| error.to_string())?;
        Ok(Self {
            passed,
            stop,
            thread: Some(thread),
        })
    }

    /// Returns the events since the last call.
    pub fn passed(&self) -> Vec<Passed> {
        std::mem::take(&mut *self.passed.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Triggers {
    fn drop(&mut self) {
        let _ = rustix::io::write(&*self.stop, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Passed {
    /// Returns the event for the recording.
    pub fn to_json(&self) -> Value {
        json!({"kind": self.kind, "begin_ns": self.at_ns, "detail": self.detail})
    }
}

fn trigger(
    root: &Root,
    resource: &str,
    kind: &'static str,
    percent: u64,
    window_us: u64,
) -> io::Result<Trigger> {
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::open(
        root.path(&format!("/proc/pressure/{resource}")),
        flags,
        Mode::empty(),
    )?;
    let stall_us = window_us * percent / 100;
    // The kernel expects a terminating zero.
    rustix::io::write(&file, format!("some {stall_us} {window_us}\0").as_bytes())?;
    let detail = format!("some task waited for {percent} % of {} ms", window_us / 1000);
    Ok(Trigger { file, kind, detail })
}

fn wait(set: &[Trigger], stop: &OwnedFd, passed: &Mutex<Vec<Passed>>) {
    let mut fds: Vec<PollFd> = set
        .iter()
        .map(|trigger| PollFd::new(&trigger.file, PollFlags::PRI))
        .collect();
    fds.push(PollFd::from_borrowed_fd(stop.as_fd(), PollFlags::IN));
    loop {
        match poll(&mut fds, None) {
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return,
            Ok(_) => {}
        }
        let at_ns = now_ns();
        let ended = |fd: &PollFd| fd.revents().intersects(PollFlags::ERR | PollFlags::NVAL);
        if !fds[set.len()].revents().is_empty() || fds[..set.len()].iter().any(ended) {
            return;
        }
        let mut held = passed.lock().unwrap_or_else(PoisonError::into_inner);
        for (trigger, fd) in set.iter().zip(&fds) {
            if fd.revents().contains(PollFlags::PRI) && held.len() < MOST {
                held.push(Passed {
                    at_ns,
                    kind: trigger.kind,
                    detail: trigger.detail.clone(),
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_pressure_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let why = Triggers::start(&Root::new(folder.path()), 1_000_000_000)
            .err()
            .unwrap();
        assert!(why.contains("/proc/pressure/memory: No such file"), "{why}");
    }

    #[test]
    fn what_is_written_is_what_the_kernel_wants() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("proc/pressure")).unwrap();
        std::fs::write(folder.path().join("proc/pressure/memory"), "").unwrap();
        let root = Root::new(folder.path());
        let found = trigger(&root, "memory", "pressure-memory", 5, 1_000_000).unwrap();
        assert_eq!(found.detail, "some task waited for 5 % of 1000 ms");
        let text = std::fs::read(folder.path().join("proc/pressure/memory")).unwrap();
        assert_eq!(text, b"some 50000 1000000\0");
    }
}
