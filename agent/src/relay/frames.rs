// SPDX-License-Identifier: Apache-2.0
//! Frames on the line between the head and the agents of a guest or of another machine: kind,
//! length, content.

use crate::error::{Error, Kind, Result};
use serde::Serialize;
use std::fs::File;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

/// The other end has started and describes itself.
pub const BEGUN: u8 = b'B';
/// Part of the program's standard output.
pub const OUTPUT: u8 = b'o';
/// Part of the program's standard error.
pub const ERRORS: u8 = b'e';
/// How the program ended.
pub const ENDED: u8 = b'x';
/// Nothing follows.
pub const END: u8 = b'z';
/// From the head, like `END`: start a session; input for a session; kill a session.
pub const START: u8 = b'S';
pub const INPUT: u8 = b'i';
pub const KILL: u8 = b'K';
/// From a script: wait until a session has written this many lines, or has ended.
pub const WAIT: u8 = b'W';
/// From a script: wait for this many replies, which are lines that end a request.
pub const REPLIES: u8 = b'R';
/// From the head: end all sessions if nothing comes for this many seconds; 0 waits for ever.
pub const SILENCE: u8 = b'q';
/// From the head: the same limit, between the next request of a session and its reply.
pub const NEXT_SILENCE: u8 = b'Q';
/// How many of the head's bytes have been read from the line.
pub const TAKEN: u8 = b'a';
/// Output of a session, after its number.
pub const SAID: u8 = b's';
/// How a session ended.
pub const OVER: u8 = b'X';

const HEADER_BYTES: usize = 5;

/// The line. Clones share it; each writes whole frames.
#[derive(Clone)]
pub struct Line(Arc<Mutex<File>>);

impl Line {
    pub fn new(port: File) -> Self {
        Self(Arc::new(Mutex::new(port)))
    }

    /// Sends bytes as one frame.
    pub fn send(&self, kind: u8, content: &[u8]) -> Result<()> {
        let length =
            u32::try_from(content.len()).map_err(|_| Error::new(Kind::Oversized, "the frame is too long"))?;
        let mut whole = Vec::with_capacity(HEADER_BYTES + content.len());
        whole.push(kind);
        whole.extend(length.to_be_bytes());
        whole.extend(content);
        let mut port = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        port.write_all(&whole)
            .map_err(|error| Error::io("write to", "the line to the head", &error))
    }

    /// Sends a value as JSON.
    pub fn say(&self, kind: u8, value: &impl Serialize) -> Result<()> {
        let text = serde_json::to_vec(value).map_err(|error| Error::new(Kind::Io, error.to_string()))?;
        self.send(kind, &text)
    }

    /// Waits until everything has been sent.
    pub fn drain(&self) {
        let port = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = rustix::termios::tcdrain(&*port);
    }
}
