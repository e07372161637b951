// SPDX-License-Identifier: Apache-2.0
//! The first process of a guest: mounts, loads modules, runs what the job says, hands over its output, ends the guest.
//!
//! Everything that it says goes over a serial port of its own, in the frames of `docs/formats.md`; the kernel's console is the kernel's alone.

mod frames;
mod machine;
mod programs;

use crate::error::{Error, Result};
use frames::Line;
use machine::Begun;
use programs::{Program, Programs};
use serde::Deserialize;
use std::fs::{self, File};
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

/// The name that the kernel starts the first process by.
const FIRST: &str = "/init";
const JOB: &str = "/ktrial/job.json";
/// The serial port beside the console's.
const LINE: &str = "/dev/ttyS1";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Job {
    /// What runs; nothing when the head starts programs itself, over the line.
    program: Option<Program>,
    /// Whether the head starts programs over the line.
    serve: bool,
    /// Modules in the order of loading.
    modules: Vec<String>,
    /// How long the guest rests before the program starts.
    settle_s: u64,
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
    let line = Line::new(port);
    let job: Job = read_job()?;
    let unloaded = machine::load_modules(&job.modules);
    line.say(frames::BEGUN, 0, &Begun::now(unloaded)?)?;
    sleep(Duration::from_secs(job.settle_s));
    let mut programs = Programs::new(line.clone());
    if let Some(program) = &job.program {
        programs.start(0, program)?;
        programs.finish(0)?;
    }
    if job.serve {
        serve(&line, &mut programs)?;
    }
    line.say(frames::END, 0, &serde_json::json!({}))?;
    line.drain();
    Ok(())
}

fn read_job() -> Result<Job> {
    let text = fs::read(JOB).map_err(|error| Error::io("read", JOB, &error))?;
    serde_json::from_slice(&text).map_err(|error| Error::new(crate::error::Kind::BadRequest, format!("{JOB}: {error}")))
}

/// Starts what the head asks for and hands on its input, until the head says that it is over.
fn serve(line: &Line, programs: &mut Programs) -> Result<()> {
    while let Some(frame) = line.receive()? {
        match frame.kind {
            frames::RUN => programs.start(frame.channel, &frame.json()?)?,
            frames::INPUT => programs.input(frame.channel, &frame.content),
            _ => break,
        }
    }
    Ok(())
}
