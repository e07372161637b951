// SPDX-License-Identifier: Apache-2.0
//! Whom the kernel kills last when memory runs out: the head and the root session, which put the machine back.
//!
//! What they start is as exposed as they were before.

use crate::error::{Error, Kind, Result};
use std::fs;
use std::io;
use std::sync::Mutex;

/// Killed only after nearly everything else; not -1000, which a leak of our own could not be stopped with.
pub const PROTECTED: i32 = -900;
const LEAST: i32 = -1000;
const MOST: i32 = 1000;
const OWN: &str = "self";

/// The score that this process had before it was protected.
static BEFORE: Mutex<Option<i32>> = Mutex::new(None);

fn file(process: &str) -> String {
    format!("/proc/{process}/oom_score_adj")
}

fn score(process: &str) -> io::Result<i32> {
    let text = fs::read_to_string(file(process))?;
    text.trim()
        .parse()
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, format!("{text:?} is no number")))
}

/// Protects this session and the process of its head. The score that the head had before.
///
/// # Errors
/// There is no such process, or this root may not lower a score.
pub fn protect(process: u32) -> Result<i32> {
    let own = score(OWN).map_err(|error| failed(OWN, &error))?;
    let before = set(process, PROTECTED)?;
    set_score(OWN, PROTECTED).map_err(|error| failed(OWN, &error))?;
    let mut known = BEFORE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    known.get_or_insert(own);
    Ok(before)
}

/// Gives a process this score. The one that it had before.
///
/// # Errors
/// The score is none, there is no such process, or this root may not lower it.
pub fn set(process: u32, wanted: i32) -> Result<i32> {
    if process == 0 || !(LEAST..=MOST).contains(&wanted) {
        let message = format!("process {process}, score {wanted}: a score is from {LEAST} to {MOST}");
        return Err(Error::new(Kind::BadRequest, message));
    }
    let name = process.to_string();
    let before = score(&name).map_err(|error| failed(&name, &error))?;
    set_score(&name, wanted).map_err(|error| failed(&name, &error))?;
    Ok(before)
}

/// Exposes this process, and what it starts, at least so much. Anybody may.
///
/// # Errors
/// The score is none.
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

/// As long as it lives, this process and what it starts are as exposed as before it was protected.
#[derive(Debug)]
pub struct Exposed(bool);

impl Exposed {
    /// From now on.
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
        // Anybody may raise a score.
        assert_eq!(set(other.id(), 900).unwrap(), before);
        assert_eq!(score(&other.id().to_string()).unwrap(), 900);
        assert_eq!(set(other.id(), 1001).unwrap_err().kind, Kind::BadRequest);
        other.kill().unwrap();
        other.wait().unwrap();
        assert_eq!(set(other.id(), 900).unwrap_err().kind, Kind::Io);
        assert_eq!(set(0, 0).unwrap_err().kind, Kind::BadRequest);
    }
}
