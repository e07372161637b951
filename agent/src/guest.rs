// SPDX-License-Identifier: Apache-2.0
//! The first process of a guest: mounts file systems, loads modules, runs the job's programs, sends
//! their output, and ends the guest.
//!
//! It sends everything over a serial port of its own, in the frames of `docs/formats.md`; the
//! console is left to the kernel.

mod machine;
mod program;

use crate::error::{Error, Kind, Result};
use crate::relay::frames::{self, Line};
use crate::relay::sessions::{self, Starter};
use machine::Begun;
use program::Program;
use serde::Deserialize;
use std::fs::{self, File};
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

/// The name under which the kernel starts the first process.
const FIRST: &str = "/init";
/// The user of sessions with the role `user`.
const USER: u32 = 1000;
/// The job file.
pub(crate) const JOB: &str = "/ktrial/job.json";
/// The head's frames, for a guest that runs without a head.
const SCRIPT: &str = "/ktrial/script";
/// The serial port next to the console's: the second one of a PC, or an extra card if the board has
/// its own console.
const LINE: &str = if cfg!(target_arch = "x86_64") {
    "/dev/ttyS1"
} else {
    "/dev/ttyS0"
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Job {
    /// Programs to run one after the other, until one fails.
    programs: Vec<Program>,
    /// Modules, in the order of loading.
    modules: Vec<String>,
    /// Type of the file system whose image is put on a RAM disk.
    disk: Option<String>,
    /// How long the guest waits before it starts the programs.
    settle_s: u64,
    /// Whether the head then opens sessions and ends the guest itself.
    sessions: bool,
    /// Whether to read the head's frames from a file instead.
    script: bool,
}

/// Whether this process is the first one of a guest.
#[must_use]
pub fn is_first() -> bool {
    let named = std::env::args_os().next().is_some_and(|name| name == FIRST);
    named && std::process::id() == 1 && Path::new(JOB).exists()
}

/// Runs the job. Never returns: the guest ends with it.
pub fn main() -> ! {
    machine::mount_all();
    if let Err(error) = work() {
        eprintln!("ktrial-init: {error}");
    }
    machine::off()
}

fn work() -> Result<()> {
    let port = File::options()
        .read(true)
        .write(true)
        .open(LINE)
        .map_err(|error| Error::io("open", LINE, &error))?;
    machine::make_raw(&port)?;
    let heard = port
        .try_clone()
        .map_err(|error| Error::io("open", LINE, &error))?;
    let line = Line::new(port);
    let job: Job = read_job()?;
    let mut unloaded = machine::load_modules(&job.modules);
    unloaded.extend(job.disk.and_then(|kind| machine::mount_disk(&kind).err()));
    line.say(frames::BEGUN, &Begun::now(unloaded)?)?;
    sleep(Duration::from_secs(job.settle_s));
    for program in &job.programs {
        if !program.run(&line)? {
            break;
        }
    }
    let starter = Starter {
        program: FIRST.into(),
        user: Some(USER),
        patience: Duration::ZERO,
        silence: None,
    };
    if job.sessions {
        sessions::attend(&line, heard, &starter)?;
    } else if job.script {
        let script = File::open(SCRIPT).map_err(|error| Error::io("open", SCRIPT, &error))?;
        sessions::attend(&line, script, &starter)?;
    }
    line.say(frames::END, &serde_json::json!({}))?;
    line.drain();
    Ok(())
}

fn read_job() -> Result<Job> {
    let text = fs::read(JOB).map_err(|error| Error::io("read", JOB, &error))?;
    serde_json::from_slice(&text).map_err(|error| Error::new(Kind::BadRequest, format!("{JOB}: {error}")))
}
