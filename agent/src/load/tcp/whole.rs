// SPDX-License-Identifier: Apache-2.0
//! Reads and writes whole messages on sockets with a timeout, checking periodically whether to end.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;

/// Reads until the buffer is full; returns false if the other end is gone or `over` became true
/// first.
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

/// Writes the whole message; returns false if the other end is gone or `over` became true first.
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

/// Returns the bytes moved; 0 if the other end is gone, None if the timeout passed.
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
