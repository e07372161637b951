// SPDX-License-Identifier: Apache-2.0
//! Measures how late a thread wakes up that wants to wake at fixed moments, as a frame loop does.

use crate::load::clock::{now_ns, sleep_until};
use crate::sample::feed::Cell;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Most rows to keep if nobody fetches them.
const MOST: usize = 1 << 16;

/// The moment of the intended wake-up, and how late it was.
type Row = (u64, Cell);

/// A thread that wakes up periodically.
pub struct Lateness {
    rows: Arc<Mutex<Vec<Row>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Lateness {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// No more threads may be created.
    pub fn start(period_ns: u64) -> io::Result<Self> {
        let rows = Arc::new(Mutex::new(Vec::new()));
        let stop = Arc::new(AtomicBool::new(false));
        let (kept, stopped) = (Arc::clone(&rows), Arc::clone(&stop));
        let work = move || {
            let mut due_ns = now_ns() + period_ns;
            while !stopped.load(Ordering::Relaxed) && sleep_until(due_ns).is_ok() {
                let late_ns = now_ns().saturating_sub(due_ns);
                let mut rows = kept.lock().unwrap_or_else(PoisonError::into_inner);
                if rows.len() < MOST {
                    rows.push((due_ns, Cell::try_from(late_ns).unwrap_or(Cell::MAX)));
                }
                drop(rows);
                // Frames missed in one sleep count as one late frame.
                due_ns += (late_ns / period_ns + 1) * period_ns;
            }
        };
        let thread = std::thread::Builder::new()
            .name("wakeup".to_owned())
            .spawn(work)?;
        Ok(Self {
            rows,
            stop,
            thread: Some(thread),
        })
    }

    /// Returns the rows since the last call.
    pub fn rows(&self) -> Vec<Row> {
        std::mem::take(&mut *self.rows.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Lateness {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_lie_on_the_grid_and_end_with_it() {
        let lateness = Lateness::start(1_000_000).unwrap();
        let mut rows = Vec::new();
        while rows.len() < 3 {
            std::thread::sleep(std::time::Duration::from_millis(2));
            rows.extend(lateness.rows());
        }
        drop(lateness);
        let steps: Vec<u64> = rows.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
        assert!(
            steps.iter().all(|step| *step > 0 && step % 1_000_000 == 0),
            "{steps:?}"
        );
        assert!(rows.iter().all(|(_, late_ns)| *late_ns >= 0));
    }
}
