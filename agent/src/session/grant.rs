// SPDX-License-Identifier: Apache-2.0
//! The one right that a root session may lend: real-time priorities, for another session's process
//! and its children.
//!
//! That process has run as the user from its start. Root changes no process's user, and starts
//! nothing.

use crate::error::{Error, Kind, Result};
use rustix::io::Errno;
use rustix::process::{prlimit, Pid, Resource, Rlimit};
use std::fs::{metadata, read};
use std::io;
use std::os::unix::fs::MetadataExt;

/// The highest real-time priority on Linux.
const MOST_PRIORITY: u32 = 99;

/// Lets a process of this same agent, and its children, use real-time priorities up to `priority`.
/// Changes nothing else; the right ends with the process.
pub fn realtime(process: u32, priority: u32) -> Result<()> {
    let bad = |message: String| Error::new(Kind::BadRequest, message);
    if !(1..=MOST_PRIORITY).contains(&priority) {
        return Err(bad(format!(
            "realtime_priority: expected 1 to {MOST_PRIORITY}, got {priority}"
        )));
    }
    let pid = i32::try_from(process).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| bad(format!("process: expected a process ID, got {process}")))?;
    if !is_agent(process).unwrap_or(false) {
        let message = format!("process {process} is not a session of this agent");
        return Err(Error::new(Kind::Forbidden, message));
    }
    let limit = Some(u64::from(priority));
    let wanted = Rlimit {
        current: limit,
        maximum: limit,
    };
    match prlimit(Some(pid), Resource::Rtprio, wanted) {
        Ok(_) => Ok(()),
        Err(Errno::PERM) => Err(Error::new(
            Kind::Privilege,
            "cannot allow real-time priorities: root lacks CAP_SYS_RESOURCE here, as in most containers",
        )
        .hint("run ktrial outside the container, or give the container that capability")),
        Err(errno) => Err(Error::io(
            "raise RLIMIT_RTPRIO of process",
            process,
            &errno.into(),
        )),
    }
}

/// Whether a process runs the same program as this one. Root may run a copy, so equal bytes count
/// too.
fn is_agent(process: u32) -> io::Result<bool> {
    let (theirs, own) = (format!("/proc/{process}/exe"), "/proc/self/exe");
    let (one, other) = (metadata(&theirs)?, metadata(own)?);
    if (one.dev(), one.ino()) == (other.dev(), other.ino()) {
        return Ok(true);
    }
    Ok(one.len() == other.len() && read(&theirs)? == read(own)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_of_this_agent_is_this_agent() {
        let folder = tempfile::tempdir().unwrap();
        let copy = folder.path().join("copy");
        std::fs::copy("/proc/self/exe", &copy).unwrap();
        let mut same = std::process::Command::new(&copy)
            .args(["--ignored", "--exact", "session::grant::tests::sleeps"])
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        assert!(is_agent(same.id()).unwrap());
        same.kill().unwrap();
        same.wait().unwrap();
    }

    #[test]
    #[ignore = "what the test above starts"]
    fn sleeps() {
        std::thread::sleep(std::time::Duration::from_secs(60));
    }

    #[test]
    fn only_sessions_of_this_agent_are_lent_anything() {
        let mut other = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        assert_eq!(realtime(other.id(), 1).unwrap_err().kind, Kind::Forbidden);
        other.kill().unwrap();
        other.wait().unwrap();
        assert_eq!(realtime(other.id(), 1).unwrap_err().kind, Kind::Forbidden);
        assert_eq!(realtime(0, 1).unwrap_err().kind, Kind::BadRequest);
        for priority in [0, 100] {
            let refused = realtime(std::process::id(), priority).unwrap_err();
            assert_eq!(refused.kind, Kind::BadRequest);
        }
    }
}
