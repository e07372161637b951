// SPDX-License-Identifier: Apache-2.0
//! Lines to the head from a thread of their own, so that a head that is slow holds up neither samples nor traces.

use rustix::stdio::stdout;
use std::collections::VecDeque;
use std::sync::mpsc::{sync_channel, SyncSender, TrySendError};
use std::thread::JoinHandle;

/// Lines that are on their way at most.
const ON_THE_WAY: usize = 4;
/// Bytes that wait for a slow head at most.
const WAITING_BYTES: usize = 64 << 20;

/// Lines to the head, in their order.
pub struct Output {
    to_writer: Option<SyncSender<Vec<u8>>>,
    writer: Option<JoinHandle<()>>,
    waiting: VecDeque<Vec<u8>>,
    waiting_bytes: usize,
    /// Lines that there was no room for.
    pub dropped: u64,
    /// The head is gone.
    pub broken: bool,
}

impl Output {
    /// Starts the thread.
    ///
    /// # Errors
    /// There may be no more threads.
    pub fn start() -> std::io::Result<Self> {
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
            dropped: 0,
            broken: false,
        })
    }

    /// Sends a line that must not be lost while there is room.
    pub fn send(&mut self, line: Vec<u8>) {
        if self.waiting_bytes + line.len() > WAITING_BYTES {
            self.dropped += 1;
        } else {
            self.waiting_bytes += line.len();
            self.waiting.push_back(line);
        }
        self.go_on();
    }

    /// Sends a line that is of use now or never.
    pub fn tell(&mut self, line: Vec<u8>) {
        if self.waiting.is_empty() {
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

    /// Hands on what waits, as far as there is room.
    pub fn go_on(&mut self) {
        while let Some(line) = self.waiting.pop_front() {
            let bytes = line.len();
            if let Some(line) = self.try_send(line) {
                self.waiting.push_front(line);
                return;
            }
            self.waiting_bytes -= bytes;
        }
    }

    /// Hands on all that waits, and waits for it.
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
