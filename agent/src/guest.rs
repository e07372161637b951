// SPDX-License-Identifier: Apache-2.0
//! The first process of a guest: mounts, loads modules, runs what the job says, hands over its output, ends the guest.
//!
//! Everything that it says goes over a serial port of its own, in the frames of `docs/formats.md`; the kernel's console is the kernel's alone.

mod frames;
mod machine;
mod program;
mod sessions;

use crate::error::{Error, Kind, Result};
use frames::Line;
use machine::Begun;
use program::Program;
use serde::Deserialize;
use std::fs::{self, File};
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

/// The name that the kernel starts the first process by.
const FIRST: &str = "/init";
/// What it is to do.
pub(crate) const JOB: &str = "/ktrial/job.json";
/// What the head would say, where nobody talks to the guest: the same frames.
const SCRIPT: &str = "/ktrial/script";
/// The serial port beside the console's: the second of a PC, a card where the board has a console of its own.
const LINE: &str = if cfg!(target_arch = "x86_64") {
    "/dev/ttyS1"
} else {
    "/dev/ttyS0"
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Job {
    /// What runs, one after the other, until one fails.
    programs: Vec<Program>,
    /// Modules in the order of loading.
    modules: Vec<String>,
    /// Type of the file system whose image is put on a disk in memory.
    disk: Option<String>,
    /// How long the guest rests before the programs start.
    settle_s: u64,
    /// Whether the head then opens sessions, and ends the guest itself.
    sessions: bool,
    /// Whether what the head would say lies here, word for word, instead.
    script: bool,
}

/// Whether this process is the first one of a guest's.
#[must_use]
pub fn is_first() -> bool {
    let named = std::env::args_os().next().is_some_and(|name| name == FIRST);
    named && std::process::id() == 1 && Path::new(JOB).exists()
}

/// Does what the job says. Does not return: the guest ends with it.
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
    if job.sessions {
        sessions::attend(&line, heard)?;
    } else if job.script {
        let script = File::open(SCRIPT).map_err(|error| Error::io("open", SCRIPT, &error))?;
        sessions::attend(&line, script)?;
    }
    line.say(frames::END, &serde_json::json!({}))?;
    line.drain();
    Ok(())
}

fn read_job() -> Result<Job> {
    let text = fs::read(JOB).map_err(|error| Error::io("read", JOB, &error))?;
    serde_json::from_slice(&text).map_err(|error| Error::new(Kind::BadRequest, format!("{JOB}: {error}")))
}
