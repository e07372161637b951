// SPDX-License-Identifier: Apache-2.0
//! The order in which the kernel kills processes when memory runs out: last the head and the root
//! session, which restore the machine.
//!
//! Their children keep the scores that they would have had anyway.

use crate::error::{Error, Kind, Result};
use std::fs;
use std::io;
use std::sync::Mutex;

/// Killed only after nearly everything else. Not -1000, so that the kernel can still stop a memory
/// leak of our own.
pub const PROTECTED: i32 = -900;
const LEAST: i32 = -1000;
const MOST: i32 = 1000;
const OWN: &str = "self";

/// The score of this process before it was protected.
static BEFORE: Mutex<Option<i32>> = Mutex::new(None);

fn file(process: &str) -> String {
    format!("/proc/{process}/oom_score_adj")
}

fn score(process: &str) -> io::Result<i32> {
    let text = fs::read_to_string(file(process))?;
    text.trim().parse().map_err(|_| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("expected a number, got {text:?}"),
        )
    })
}

/// Protects this session and the head's process. Returns the head's previous score.
///
/// # Errors
///
/// There is no such process, or root may not lower a score here.
pub fn protect(process: u32) -> Result<i32> {
    let own = score(OWN).map_err(|error| failed(OWN, &error))?;
    let before = set(process, PROTECTED)?;
    set_score(OWN, PROTECTED).map_err(|error| failed(OWN, &error))?;
    let mut known = BEFORE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    known.get_or_insert(own);
    Ok(before)
}

/// Sets the score of a process and returns the previous one.
///
/// # Errors
///
/// The score is out of range, there is no such process, or root may not lower its score here.
pub fn set(process: u32, wanted: i32) -> Result<i32> {
    if process == 0 || !(LEAST..=MOST).contains(&wanted) {
        let message = format!("score of process {process}: expected {LEAST} to {MOST}, got {wanted}");
        return Err(Error::new(Kind::BadRequest, message));
    }
    let name = process.to_string();
    let before = score(&name).map_err(|error| failed(&name, &error))?;
    set_score(&name, wanted).map_err(|error| failed(&name, &error))?;
    Ok(before)
}

/// Raises the score of this process, and of its future children, to at least `wanted`. Needs no
/// privileges.
///
/// # Errors
///
/// The score is invalid.
pub fn expose(wanted: i32) -> Result<()> {
    let raised = score(OWN).and_then(|now| {
        if now < wanted {
            return set_score(OWN, wanted);
        }
        Ok(())
    });
    raised.map_err(|error| failed(OWN, &error))
}

fn set_score(process: &str, wanted: i32) -> io::Result<()> {
    fs::write(file(process), format!("{wanted}\n"))
}

fn failed(process: &str, error: &io::Error) -> Error {
    let kind = if error.kind() == io::ErrorKind::PermissionDenied {
        Kind::Privilege
    } else {
        Kind::Io
    };
    Error::new(
        kind,
        format!("cannot set oom_score_adj of process {process}: {error}"),
    )
}

/// Restores the score from before the protection, for this process and its new children, while this
/// value lives.
#[derive(Debug)]
pub struct Exposed(bool);

impl Exposed {
    /// Begins the exposure.
    #[must_use]
    pub fn begin() -> Self {
        let known = *BEFORE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        Self(known.is_some_and(|before| set_score(OWN, before).is_ok()))
    }
}

impl Drop for Exposed {
    fn drop(&mut self) {
        if self.0 {
            if let Err(error) = set_score(OWN, PROTECTED) {
                eprintln!("ktrial-agent: {}", failed(OWN, &error));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_the_score_that_it_is_given() {
        let mut other = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let before = score(&other.id().to_string()).unwrap();
        // Raising a score needs no privileges.
        assert_eq!(set(other.id(), 900).unwrap(), before);
        assert_eq!(score(&other.id().to_string()).unwrap(), 900);
        assert_eq!(set(other.id(), 1001).unwrap_err().kind, Kind::BadRequest);
        other.kill().unwrap();
        other.wait().unwrap();
        assert_eq!(set(other.id(), 900).unwrap_err().kind, Kind::Io);
        assert_eq!(set(0, 0).unwrap_err().kind, Kind::BadRequest);
    }
}
