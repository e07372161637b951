// SPDX-License-Identifier: Apache-2.0
//! Writes lines to the head from a separate thread, so that a slow head delays neither samples nor
//! traces.

use rustix::stdio::stdout;
use std::collections::VecDeque;
use std::sync::mpsc::{sync_channel, SyncSender, TrySendError};
use std::thread::JoinHandle;

/// Most lines in the channel to the writer.
const ON_THE_WAY: usize = 4;
/// Most bytes that wait for a slow head.
const WAITING_BYTES: usize = 64 << 20;

/// Lines to the head, in order.
pub struct Output {
    to_writer: Option<SyncSender<Vec<u8>>>,
    writer: Option<JoinHandle<()>>,
    waiting: VecDeque<Vec<u8>>,
    waiting_bytes: usize,
    /// Whether everything waits until the end.
    holds: bool,
    /// Number of lines that were dropped for lack of space.
    pub dropped: u64,
    /// Whether the head is gone.
    pub broken: bool,
}

impl Output {
    /// Starts the thread. With `holds`, nothing is written before `finish`, so that a measured run is
    /// not disturbed.
    ///
    /// # Errors
    ///
    /// No more threads may be created.
    pub fn start(holds: bool) -> std::io::Result<Self> {
        let (to_writer, lines) = sync_channel::<Vec<u8>>(ON_THE_WAY);
        let writer = std::thread::Builder::new()
            .name("output".to_owned())
            .spawn(move || {
                for line in lines {
                    if write(&line).is_err() {
                        return;
                    }
                }
            })?;
        Ok(Self {
            to_writer: Some(to_writer),
            writer: Some(writer),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            holds,
            dropped: 0,
            broken: false,
        })
    }

    /// Queues a line; drops it only if there is no space.
    pub fn send(&mut self, line: Vec<u8>) {
        if self.waiting_bytes + line.len() > WAITING_BYTES {
            self.dropped += 1;
        } else {
            self.waiting_bytes += line.len();
            self.waiting.push_back(line);
        }
        self.go_on();
    }

    /// Sends a line only if that is possible right now.
    pub fn tell(&mut self, line: Vec<u8>) {
        if self.waiting.is_empty() && !self.holds {
            self.try_send(line);
        }
    }

    fn try_send(&mut self, line: Vec<u8>) -> Option<Vec<u8>> {
        match self.to_writer.as_ref()?.try_send(line) {
            Ok(()) => None,
            Err(TrySendError::Full(line)) => Some(line),
            Err(TrySendError::Disconnected(_)) => {
                self.broken = true;
                None
            }
        }
    }

    /// Passes on waiting lines as far as there is space.
    pub fn go_on(&mut self) {
        if self.holds {
            return;
        }
        while let Some(line) = self.waiting.pop_front() {
            let bytes = line.len();
            if let Some(line) = self.try_send(line) {
                self.waiting.push_front(line);
                return;
            }
            self.waiting_bytes -= bytes;
        }
    }

    /// Passes on all waiting lines and waits until they are written. Returns the number of dropped
    /// lines.
    pub fn finish(mut self) -> u64 {
        if let Some(to_writer) = self.to_writer.take() {
            for line in self.waiting.drain(..) {
                if to_writer.send(line).is_err() {
                    break;
                }
            }
        }
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
        self.dropped
    }
}

fn write(line: &[u8]) -> rustix::io::Result<()> {
    let mut left = line;
    while !left.is_empty() {
        let written = rustix::io::retry_on_intr(|| rustix::io::write(stdout(), left))?;
        left = &left[written..];
    }
    Ok(())
}
