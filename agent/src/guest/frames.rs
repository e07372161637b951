// SPDX-License-Identifier: Apache-2.0
//! Frames on the line between a guest and the head: kind, channel, length, content.

use crate::error::{Error, Kind, Result};
use serde::de::DeserializeOwned;
use serde::Serialize;
use std::fs::File;
use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex, PoisonError};

/// The guest runs: which kernel, since when.
pub const BEGUN: u8 = b'B';
/// A piece of a program's standard output.
pub const OUTPUT: u8 = b'o';
/// A piece of a program's standard error.
pub const ERRORS: u8 = b'e';
/// How a program ended.
pub const ENDED: u8 = b'x';
/// Nothing follows.
pub const END: u8 = b'z';
/// Start a program.
pub const RUN: u8 = b'r';
/// A piece of a program's input; an empty one is its end.
pub const INPUT: u8 = b'i';

const HEADER_BYTES: usize = 6;
/// More than that is no frame of the head's.
const LONGEST: usize = 1 << 26;

/// What the head sent.
pub struct Frame {
    pub kind: u8,
    pub channel: u8,
    pub content: Vec<u8>,
}

impl Frame {
    /// The content as JSON.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_slice(&self.content)
            .map_err(|error| Error::new(Kind::BadRequest, format!("a frame is not as agreed: {error}")))
    }
}

/// The line; clones write whole frames in turn.
#[derive(Clone)]
pub struct Line(Arc<(File, Mutex<()>)>);

impl Line {
    pub fn new(port: File) -> Self {
        Self(Arc::new((port, Mutex::new(()))))
    }

    /// Sends bytes as one frame.
    pub fn send(&self, kind: u8, channel: u8, content: &[u8]) -> Result<()> {
        let (port, turn) = &*self.0;
        let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
        let length = u32::try_from(content.len()).map_err(|_| Error::new(Kind::Oversized, "a frame is too long"))?;
        let mut whole = Vec::with_capacity(HEADER_BYTES + content.len());
        whole.extend([kind, channel]);
        whole.extend(length.to_be_bytes());
        whole.extend(content);
        let mut port = port;
        port.write_all(&whole).map_err(lost)
    }

    /// Sends a value as JSON.
    pub fn say(&self, kind: u8, channel: u8, value: &impl Serialize) -> Result<()> {
        let text = serde_json::to_vec(value).map_err(|error| Error::new(Kind::Io, error.to_string()))?;
        self.send(kind, channel, &text)
    }

    /// The next frame; none when the line ended.
    pub fn receive(&self) -> Result<Option<Frame>> {
        let mut port = &self.0 .0;
        let mut header = [0; HEADER_BYTES];
        match port.read_exact(&mut header) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            done => done.map_err(lost)?,
        }
        let length = u32::from_be_bytes([header[2], header[3], header[4], header[5]]) as usize;
        if length > LONGEST {
            return Err(Error::new(Kind::Oversized, format!("a frame of {length} bytes")));
        }
        let mut content = vec![0; length];
        port.read_exact(&mut content).map_err(lost)?;
        Ok(Some(Frame {
            kind: header[0],
            channel: header[1],
            content,
        }))
    }

    /// Waits until everything has left the port.
    pub fn drain(&self) {
        let _ = rustix::termios::tcdrain(&self.0 .0);
    }
}

#[allow(clippy::needless_pass_by_value, reason = "used as a function of map_err")]
fn lost(error: io::Error) -> Error {
    Error::io("talk over", super::LINE, &error)
}
