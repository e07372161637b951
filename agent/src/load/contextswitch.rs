// SPDX-License-Identifier: Apache-2.0
//! `contextswitch`: round trips of one byte between two threads over two pipes, on one CPU or
//! across two.

use super::clock::now_ns;
use super::crew::{self, Job};
use super::histogram::Histogram;
use super::{pin, seconds, Load, Measured, Run};
use crate::error::{Error, Kind, Result};
use rustix::fd::OwnedFd;
use rustix::io::{read, retry_on_intr, write};
use rustix::pipe::{pipe_with, PipeFlags};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::io;

/// Where the two threads run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum Placement {
    /// Both on the first CPU.
    Same,
    /// On the first and second CPU.
    Cross,
    /// Wherever the scheduler puts them.
    Free,
}

#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Parameters {
    placement: Placement,
    duration_s: f64,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            placement: Placement::Same,
            duration_s: 2.0,
        }
    }
}

impl Load for Parameters {
    fn check(&self) -> Result<()> {
        seconds("duration_s", self.duration_s).map(|_| ())
    }

    fn run(&self, run: &Run) -> Result<Measured> {
        let duration_ns = seconds("duration_s", self.duration_s)?;
        let (own, others) = self.cpus(&run.cpus)?;
        let no_pipe = |error: rustix::io::Errno| Error::io("create a pipe for", "the threads", &error.into());
        let (questions, asking) = pipe_with(PipeFlags::CLOEXEC).map_err(no_pipe)?;
        let (answers, answering) = pipe_with(PipeFlags::CLOEXEC).map_err(no_pipe)?;
        let jobs: Vec<Job<Option<Histogram>>> = vec![
            Box::new(|start_ns| {
                pin(own)?;
                ask(run, start_ns + duration_ns, &answers, asking).map(Some)
            }),
            Box::new(|_| {
                pin(others)?;
                echo(&questions, &answering)?;
                Ok(None)
            }),
        ];
        let done = crew::run(jobs)?;
        let histogram = done.results.into_iter().flatten().next();
        let histogram = histogram.unwrap_or_else(Histogram::new);
        let mut results = histogram.summary("");
        results.insert("elapsed_ns".to_owned(), json!(done.elapsed_ns));
        results.insert("cpus".to_owned(), json!([own, others]));
        Ok(Measured {
            results,
            histogram: Some(histogram),
        })
    }
}

impl Parameters {
    /// Returns the CPUs of both threads.
    fn cpus<'a>(&self, cpus: &'a [u32]) -> Result<(&'a [u32], &'a [u32])> {
        match (self.placement, cpus) {
            (Placement::Free, cpus) => Ok((cpus, cpus)),
            (Placement::Same, [_, ..]) => Ok((&cpus[..1], &cpus[..1])),
            (Placement::Cross, [_, _, ..]) => Ok((&cpus[..1], &cpus[1..2])),
            _ => {
                let message = format!("parameters: placement is `cross`, but the only CPU is {cpus:?}");
                Err(Error::new(Kind::BadRequest, message).hint("give two CPUs in `cpus`"))
            }
        }
    }
}

/// Sends a byte and waits for the answer until the time is up. The pipe closes at the end, which
/// ends the other thread.
fn ask(run: &Run, end_ns: u64, answers: &OwnedFd, out: OwnedFd) -> io::Result<Histogram> {
    let mut histogram = Histogram::new();
    let mut byte = [0];
    // The first exchange waits for the other thread to start, so it is not counted.
    retry_on_intr(|| write(&out, &byte))?;
    retry_on_intr(|| read(answers, &mut byte))?;
    let mut began_ns = now_ns();
    while began_ns < end_ns && !run.stopped() {
        retry_on_intr(|| write(&out, &byte))?;
        if retry_on_intr(|| read(answers, &mut byte))? == 0 {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let ended_ns = now_ns();
        histogram.record(ended_ns - began_ns);
        began_ns = ended_ns;
    }
    drop(out);
    Ok(histogram)
}

/// Answers each byte until the pipe closes.
fn echo(questions: &OwnedFd, out: &OwnedFd) -> io::Result<()> {
    let mut byte = [0];
    while retry_on_intr(|| read(questions, &mut byte))? > 0 {
        retry_on_intr(|| write(out, &byte))?;
    }
    Ok(())
}
