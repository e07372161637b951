// SPDX-License-Identifier: Apache-2.0
//! Threads that request compaction, and which requests lead to a pass over a zone.
//!
//! The kernel counts a request (`compact_stall`) unless it skips every zone: always if it leads to
//! a pass, and also if it is deferred and nothing is done. Its count is therefore between the two
//! numbers kept here.

use std::collections::HashSet;

/// Numbers of requests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Compactions {
    pub requests: u64,
    /// Requests that led to a pass.
    pub at_work: u64,
    /// Threads whose last request has not led to a pass yet.
    asking: HashSet<i32>,
}

impl Compactions {
    /// Records a request of a thread.
    pub fn asked(&mut self, pid: i32) {
        self.requests += 1;
        self.asking.insert(pid);
    }

    /// Records that a pass begins in a thread.
    pub fn begun(&mut self, pid: i32) {
        self.at_work += u64::from(self.asking.remove(&pid));
    }

    /// Forgets pending requests, because the beginning of a pass may have been lost.
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
