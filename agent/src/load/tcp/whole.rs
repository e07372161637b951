// SPDX-License-Identifier: Apache-2.0
//! Reads and writes of whole messages on sockets with a time limit, which look up now and then.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;

/// Reads until the buffer is full; false when the other end is gone or `over` came first.
pub fn read(mut socket: &TcpStream, buffer: &mut [u8], over: impl Fn() -> bool) -> io::Result<bool> {
    let mut have = 0;
    while have < buffer.len() {
        match progress(socket.read(&mut buffer[have..]))? {
            Some(0) => return Ok(false),
            Some(more) => have += more,
            None if over() => return Ok(false),
            None => {}
        }
    }
    Ok(true)
}

/// Writes all of the message; false when the other end is gone or `over` came first.
pub fn write(mut socket: &TcpStream, message: &[u8], over: impl Fn() -> bool) -> io::Result<bool> {
    let mut done = 0;
    while done < message.len() {
        match progress(socket.write(&message[done..]))? {
            Some(0) => return Ok(false),
            Some(more) => done += more,
            None if over() => return Ok(false),
            None => {}
        }
    }
    Ok(true)
}

/// Bytes moved; 0 when the other end is gone, None when there was none to move for a while.
pub fn progress(moved: io::Result<usize>) -> io::Result<Option<usize>> {
    match moved {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) => match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::Interrupted => Ok(None),
            ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => Ok(Some(0)),
            _ => Err(error),
        },
    }
}
