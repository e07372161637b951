// SPDX-License-Identifier: Apache-2.0
//! Threads that asked for compaction, and which of these requests came to a pass over a zone.
//!
//! The kernel counts a request (`compact_stall`) unless every zone was skipped: those that came to a pass always, those
//! that were put off too, though nothing was done. So its count lies between the two numbers that are kept here.

use std::collections::HashSet;

/// How many requests there were.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Compactions {
    pub requests: u64,
    /// Those with a pass.
    pub at_work: u64,
    /// Threads whose last request has had none yet.
    asking: HashSet<i32>,
}

impl Compactions {
    /// A thread asks.
    pub fn asked(&mut self, pid: i32) {
        self.requests += 1;
        self.asking.insert(pid);
    }

    /// A pass begins in a thread.
    pub fn begun(&mut self, pid: i32) {
        self.at_work += u64::from(self.asking.remove(&pid));
    }

    /// What was lost may have been the beginning of a pass.
    pub fn forget(&mut self) {
        self.asking.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_comes_to_work_once_and_a_pass_of_nobody_is_none() {
        let mut found = Compactions::default();
        found.begun(9);
        found.asked(7);
        found.begun(7);
        found.begun(7);
        found.asked(7);
        found.asked(8);
        found.forget();
        found.begun(8);
        assert_eq!((found.requests, found.at_work), (3, 1));
    }
}
