// SPDX-License-Identifier: Apache-2.0
//! How long a page of a file that is not in memory holds up the thread that wants it.
//!
//! The kernel tells that a fault begins, and not that it ends; but a thread that must wait for the disk sleeps at once,
//! and goes on with the page.

use super::{Event, PREEMPTED};
use std::collections::HashMap;

/// A fault that has to wait does so within this time: a later sleep is the thread's own.
const AT_ONCE_NS: u64 = 2_000_000;
/// The state of a thread that sleeps until what it waits for has come (`TASK_UNINTERRUPTIBLE`).
const UNINTERRUPTIBLE: i64 = 2;

#[derive(Debug)]
struct Fault {
    event: Event,
    sleeps: bool,
}

/// Faults of watched threads that may still wait, by thread.
#[derive(Debug, Default)]
pub struct Faults(HashMap<i32, Fault>);

impl Faults {
    /// One begins: that of the thread before it, which is over.
    pub fn begin(&mut self, event: Event) -> Option<Event> {
        let sleeps = false;
        self.0
            .insert(event.pid, Fault { event, sleeps })
            .map(|before| before.event)
    }

    /// A thread stops running: its fault, where that is over because the thread waits for something else.
    pub fn stops(&mut self, pid: i32, at_ns: u64, state: i64) -> Option<Event> {
        if state == 0 || state & PREEMPTED != 0 {
            return None;
        }
        let fault = self.0.get_mut(&pid)?;
        let at_once = at_ns.saturating_sub(fault.event.begin_ns) <= AT_ONCE_NS;
        if at_once && !fault.sleeps && state & UNINTERRUPTIBLE != 0 {
            fault.sleeps = true;
            return None;
        }
        self.over(pid)
    }

    /// A thread runs again: its fault, where it slept for that.
    pub fn runs(&mut self, pid: i32, at_ns: u64) -> Option<Event> {
        if !self.0.get(&pid)?.sleeps {
            return None;
        }
        let mut event = self.over(pid)?;
        event.length_ns = Some(at_ns.saturating_sub(event.begin_ns));
        Some(event)
    }

    /// The fault of a thread that is over, without a wait.
    pub fn over(&mut self, pid: i32) -> Option<Event> {
        self.0.remove(&pid).map(|fault| fault.event)
    }

    /// Forgets all of them: how many there were.
    pub fn forget(&mut self) -> u64 {
        let count = self.0.len() as u64;
        self.0.clear();
        count
    }
}
