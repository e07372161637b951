// SPDX-License-Identifier: Apache-2.0
//! How long a thread waits for a page of a file that is not in memory.
//!
//! The kernel reports the beginning of a fault but not its end. A thread that must wait for the
//! disk sleeps at once, though, and continues when the page is there.

use super::{Event, PREEMPTED};
use std::collections::HashMap;

/// A fault that waits does so within this time; a later sleep has another cause.
const AT_ONCE_NS: u64 = 2_000_000;
/// The state of a thread in uninterruptible sleep (`TASK_UNINTERRUPTIBLE`).
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
    /// Begins a fault. Returns the thread's previous fault, which is over.
    pub fn begin(&mut self, event: Event) -> Option<Event> {
        let sleeps = false;
        self.0
            .insert(event.pid, Fault { event, sleeps })
            .map(|before| before.event)
    }

    /// Records that a thread stops running. Returns its fault if that is over, because the thread
    /// waits for something else.
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

    /// Records that a thread runs again. Returns its fault if the thread slept for it.
    pub fn runs(&mut self, pid: i32, at_ns: u64) -> Option<Event> {
        if !self.0.get(&pid)?.sleeps {
            return None;
        }
        let mut event = self.over(pid)?;
        event.length_ns = Some(at_ns.saturating_sub(event.begin_ns));
        Some(event)
    }

    /// Removes the fault of a thread, which ended without a wait.
    pub fn over(&mut self, pid: i32) -> Option<Event> {
        self.0.remove(&pid).map(|fault| fault.event)
    }

    /// Forgets all faults and returns how many there were.
    pub fn forget(&mut self) -> u64 {
        let count = self.0.len() as u64;
        self.0.clear();
        count
    }
}
