// SPDX-License-Identifier: Apache-2.0
//! Threads that start together and are always joined.

use super::clock::now_ns;
use crate::error::{Error, Kind, Result};
use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Builder};

/// Enough for every job; thousands of threads must not reserve much memory.
const STACK_BYTES: usize = 256 << 10;

/// The job of one thread; its argument is the start time.
pub type Job<'a, T> = Box<dyn FnOnce(u64) -> io::Result<T> + Send + 'a>;

/// The results of the jobs.
#[derive(Debug)]
pub struct Done<T> {
    /// Nanoseconds from the common start to the end of the last job.
    pub elapsed_ns: u64,
    /// The result of each job, in order.
    pub results: Vec<T>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Signal {
    Wait,
    Go(u64),
    Abandon,
}

/// The gate at which threads wait for each other.
struct Gate {
    state: Mutex<(usize, Signal)>,
    changed: Condvar,
}

impl Gate {
    fn new() -> Self {
        Self {
            state: Mutex::new((0, Signal::Wait)),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, (usize, Signal)> {
        // Nothing can panic while the lock is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the signal. Returns the start time, or None if the start was abandoned.
    fn arrive(&self) -> Option<u64> {
        let mut state = self.lock();
        state.0 += 1;
        self.changed.notify_all();
        while state.1 == Signal::Wait {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        match state.1 {
            Signal::Go(start_ns) => Some(start_ns),
            Signal::Wait | Signal::Abandon => None,
        }
    }

    /// Waits for `expected` threads and starts them. Returns the start time.
    fn open(&self, expected: usize) -> u64 {
        let mut state = self.lock();
        while state.0 < expected {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let start_ns = now_ns();
        state.1 = Signal::Go(start_ns);
        self.changed.notify_all();
        start_ns
    }

    fn abandon(&self) {
        self.lock().1 = Signal::Abandon;
        self.changed.notify_all();
    }
}

/// Runs each job in its own thread. They begin when all threads are ready; none outlives this call.
///
/// # Errors
///
/// A thread could not be started or crashed, or a system call of a job failed.
pub fn run<T: Send>(jobs: Vec<Job<'_, T>>) -> Result<Done<T>> {
    let gate = Gate::new();
    let expected = jobs.len();
    thread::scope(|scope| {
        let mut threads = Vec::with_capacity(expected);
        for job in jobs {
            let work = || {
                let start_ns = gate.arrive()?;
                let result = job(start_ns);
                Some((now_ns(), result))
            };
            match Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, work) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    gate.abandon();
                    let number = threads.len() + 1;
                    return Err(Error::io("start thread", number, &error).hint("use fewer threads"));
                }
            }
        }
        let start_ns = gate.open(expected);
        let mut done = Done {
            elapsed_ns: 0,
            results: Vec::with_capacity(expected),
        };
        let mut failed = None;
        for thread in threads {
            match thread.join() {
                Ok(Some((end_ns, Ok(result)))) => {
                    done.elapsed_ns = done.elapsed_ns.max(end_ns - start_ns);
                    done.results.push(result);
                }
                Ok(Some((_, Err(error)))) => {
                    failed = failed.or(Some(Error::io("run", "a thread of the load", &error)));
                }
                Ok(None) | Err(_) => {
                    failed = failed.or(Some(Error::new(Kind::Io, "a thread of the load crashed")));
                }
            }
        }
        failed.map_or(Ok(done), Err)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_begin_together_and_answer_in_order() {
        let jobs: Vec<Job<(u64, u64)>> = (0_u64..4)
            .map(|number| Box::new(move |start_ns| Ok((number, start_ns))) as Job<_>)
            .collect();
        let done = run(jobs).unwrap();
        let numbers: Vec<u64> = done.results.iter().map(|result| result.0).collect();
        assert_eq!(numbers, [0, 1, 2, 3]);
        assert!(done.results.iter().all(|result| result.1 == done.results[0].1));
    }

    #[test]
    fn a_failed_job_fails_the_load() {
        let jobs: Vec<Job<()>> = vec![
            Box::new(|_| Ok(())),
            Box::new(|_| Err(io::Error::from_raw_os_error(libc::EMFILE))),
        ];
        assert!(run(jobs).unwrap_err().message.contains("Too many open files"));
        let broken: Vec<Job<()>> = vec![Box::new(|_| panic!("on purpose"))];
        assert!(run(broken).unwrap_err().message.contains("crashed"));
    }
}
