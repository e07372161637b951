// SPDX-License-Identifier: Apache-2.0
//! Gives the sampling thread priority.

use rustix::process::{getpriority_process, setpriority_process};

/// The nice value of the sampling thread. On a machine with more work than CPUs, samples would
/// otherwise be missing just when they matter.
const NICE: i32 = -10;

/// Raises this thread's priority until it is dropped; without the permission it changes nothing.
pub struct Ahead(Option<i32>);

impl Ahead {
    /// Raises the priority.
    pub fn go() -> Self {
        let own = Some(rustix::thread::gettid());
        let before = getpriority_process(own).ok();
        Self(before.filter(|before| *before > NICE && setpriority_process(own, NICE).is_ok()))
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        if let Some(before) = self.0 {
            let _ = setpriority_process(Some(rustix::thread::gettid()), before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> i32 {
        getpriority_process(Some(rustix::thread::gettid())).unwrap()
    }

    #[test]
    fn a_thread_that_may_goes_first_and_no_other_with_it() {
        let before = own();
        let other = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                other.wait();
                own()
            });
            let ahead = Ahead::go();
            let may = ahead.0.is_some();
            assert_eq!(own(), if may { NICE } else { before });
            other.wait();
            assert_eq!(thread.join().unwrap(), before);
        });
        // Without the permission to raise the priority there is nothing to restore.
        assert_eq!(own(), before);
    }
}
