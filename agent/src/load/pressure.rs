// SPDX-License-Identifier: Apache-2.0
//! `pressure`: imitates a program that streams scenery while it draws frames.
//!
//! Reader threads fill the page cache from a sparse file, whose holes cost no disk, over and over.
//! Another thread periodically allocates a burst of memory, writes to it and frees it. Meanwhile a
//! frame loop with a fixed rate writes to a few pages and reads a little of the file. It reports
//! each frame that was not finished when the next one was due.
//!
//! The agent keeps the file open until it ends: the next run finds the page cache as full as the
//! last one left it, and puts the machine under pressure from its beginning.

use super::clock::{mixed, now_ns, sleep_until, Schedule};
use super::crew::{self, Job};
use super::histogram::Histogram;
use super::{files, memory, seconds, within, Load, Measured, Run};
use crate::error::{Error, Kind, Result};
use crate::sys::{self, Mapping};
use serde::{Deserialize, Serialize};
use serde_json::{json, Map, Value};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// What one frame reads from the file.
const FRAME_READ_BYTES: usize = 64 << 10;
/// What one frame writes to: newly mapped memory.
const FRAME_WRITE_BYTES: usize = 256 << 10;
const READ_BYTES: usize = 1 << 20;
/// How much of a burst is written between two checks of the available memory.
const LOOK_BYTES: usize = 16 << 20;
/// Largest burst without a given size: a slow CPU writes two of them in a second.
const MOST_BURST_BYTES: u64 = 256 << 20;
/// Most late frames to list individually; all are counted.
const MOST_LISTED: usize = 10_000;
const SECOND_NS: u64 = 1_000_000_000;

/// Files that this process keeps open for the next run, and with them their page cache, each with
/// its size; by folder and by the size that was asked for.
type KeptFiles = BTreeMap<(String, Option<u64>), (u64, Arc<File>)>;

static KEPT: Mutex<KeptFiles> = Mutex::new(BTreeMap::new());

#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Parameters {
    /// Size of the file [default: as in the last run, else the available memory].
    file_bytes: Option<u64>,
    readers: u32,
    /// Size of a burst [default: a quarter of the available memory without the reserve, at most 256 MiB].
    burst_bytes: Option<u64>,
    bursts_per_s: u32,
    /// Memory that must stay available besides the bursts.
    reserve_bytes: u64,
    frames_per_s: u32,
    duration_s: f64,
    /// Folder for the file.
    directory: String,
    /// With a seed, bursts come at irregular times, and frames read other places of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            file_bytes: None,
            readers: 2,
            burst_bytes: None,
            bursts_per_s: 1,
            reserve_bytes: 1 << 30,
            frames_per_s: 60,
            duration_s: 20.0,
            directory: files::DIRECTORY.to_owned(),
            seed: None,
        }
    }
}

/// Sizes of a run in bytes, adjusted to the machine.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    file: u64,
    burst: u64,
    reserve: u64,
}

/// The results of one thread.
#[derive(Debug, Default)]
struct ThreadResult {
    frames: Option<Histogram>,
    late: Vec<(u64, u64)>,
    late_count: u64,
    read_bytes: u64,
    bursts: Option<Histogram>,
    bursts_left_out: u64,
}

impl Load for Parameters {
    fn check(&self) -> Result<()> {
        within("readers", self.readers, 0, 64)?;
        within("bursts_per_s", self.bursts_per_s, 0, 1000)?;
        within("frames_per_s", self.frames_per_s, 1, 1000)?;
        within("reserve_bytes", self.reserve_bytes, 64 << 20, 1 << 50)?;
        within("file_bytes", self.file_bytes.unwrap_or(1 << 20), 1 << 20, 1 << 42)?;
        within(
            "burst_bytes",
            self.burst_bytes.unwrap_or(1 << 20),
            1 << 20,
            1 << 42,
        )?;
        files::check(&self.directory)?;
        seconds("duration_s", self.duration_s)?;
        self.sizes().map(|_| ())
    }

    fn run(&self, run: &Run) -> Result<Measured> {
        let duration_ns = seconds("duration_s", self.duration_s)?;
        let sizes = self.sizes()?;
        let file = self.file(sizes)?;
        let file = file.as_ref();
        let mut jobs: Vec<Job<ThreadResult>> = vec![Box::new(move |start_ns| {
            let schedule = moments(self.frames_per_s, start_ns, duration_ns, None);
            draw(run, file, sizes, schedule, self.seed, |_| Ok(()))
        })];
        jobs.extend(self.company(run, file, sizes, duration_ns));
        let stalls_before = memory::allocation_stalls();
        let done = crew::run(jobs)?;
        let stalls = stalls_before.and_then(|before| memory::allocation_stalls()?.checked_sub(before));
        let mut measured = measured(done.results, sizes, done.elapsed_ns);
        measured
            .results
            .insert("allocation_stalls".to_owned(), json!(stalls));
        Ok(measured)
    }
}

impl Parameters {
    /// Returns the file for frames and readers, which consists of holes and costs no disk: the one
    /// of the last run like this, or a new one.
    fn file(&self, sizes: Sizes) -> Result<Arc<File>> {
        if let Some((_, file)) = self.kept() {
            return Ok(file);
        }
        let file = Arc::new(files::nameless(&self.directory)?);
        file.set_len(sizes.file)
            .map_err(|error| Error::io("create a file in", &self.directory, &error))?;
        let kept = (sizes.file, Arc::clone(&file));
        kept_files().insert((self.directory.clone(), self.file_bytes), kept);
        Ok(file)
    }

    /// Returns the file of the last run like this, with its size.
    fn kept(&self) -> Option<(u64, Arc<File>)> {
        kept_files()
            .get(&(self.directory.clone(), self.file_bytes))
            .cloned()
    }

    /// Returns the jobs that run beside the frame loop.
    fn company<'a>(
        &'a self,
        run: &'a Run,
        file: &'a File,
        sizes: Sizes,
        duration_ns: u64,
    ) -> Vec<Job<'a, ThreadResult>> {
        let mut jobs: Vec<Job<ThreadResult>> = Vec::new();
        if self.bursts_per_s > 0 {
            jobs.push(Box::new(move |start_ns| {
                let schedule = moments(self.bursts_per_s, start_ns, duration_ns, self.seed);
                burst(run, sizes, schedule)
            }));
        }
        for reader in 0..u64::from(self.readers) {
            let from = sizes.file / u64::from(self.readers) * reader;
            jobs.push(Box::new(move |start_ns| {
                stream(run, file, from, start_ns + duration_ns)
            }));
        }
        jobs
    }

    /// Determines sizes that fit this machine or control group. Bursts never use the reserve.
    fn sizes(&self) -> Result<Sizes> {
        let available = memory::available_bytes()?;
        let spare = available.saturating_sub(self.reserve_bytes);
        let burst_bytes = self.burst_bytes.unwrap_or((spare / 4).min(MOST_BURST_BYTES));
        if burst_bytes < 1 << 20 || burst_bytes > spare {
            let message = format!(
                "no memory for bursts of {burst_bytes} bytes: {available} bytes are available, minus a reserve of {}",
                self.reserve_bytes
            );
            return Err(Error::new(Kind::BadRequest, message)
                .hint("free some memory, or reduce burst_bytes or reserve_bytes"));
        }
        Ok(Sizes {
            file: self
                .file_bytes
                .or_else(|| Some(self.kept()?.0))
                .unwrap_or(available),
            burst: burst_bytes,
            reserve: self.reserve_bytes,
        })
    }
}

fn kept_files() -> MutexGuard<'static, KeptFiles> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

fn moments(rate_per_s: u32, start_ns: u64, duration_ns: u64, seed: Option<u64>) -> Schedule {
    let count = u128::from(duration_ns) * u128::from(rate_per_s) / u128::from(SECOND_NS);
    Schedule {
        first_ns: start_ns,
        rate_per_s,
        count: u64::try_from(count).unwrap_or(u64::MAX),
        seed,
    }
}

/// Runs the frame loop: every frame has its fixed time, even if earlier ones were late.
fn draw(
    run: &Run,
    file: &File,
    sizes: Sizes,
    schedule: Schedule,
    seed: Option<u64>,
    mut tell: impl FnMut(u64) -> io::Result<()>,
) -> io::Result<ThreadResult> {
    let salt = seed.map_or(0, |seed| mixed(seed, 0));
    let mut found = ThreadResult::default();
    let mut times = Histogram::new();
    let mut buffer = vec![0; FRAME_READ_BYTES];
    found.late.reserve_exact(MOST_LISTED);
    for frame in 0..schedule.count {
        sleep_until(schedule.at_ns(frame))?;
        if run.stopped() {
            break;
        }
        let place = (frame.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ salt) % (sizes.file - buffer.len() as u64);
        file.read_exact_at(&mut buffer, place)?;
        let mut own = Mapping::anonymous(FRAME_WRITE_BYTES, None)?;
        for offset in (0..FRAME_WRITE_BYTES).step_by(sys::page_bytes()) {
            own.write(offset, 1);
        }
        drop(own);
        let ended_ns = now_ns();
        tell(ended_ns)?;
        times.record(ended_ns.saturating_sub(schedule.at_ns(frame)));
        let late_ns = ended_ns.saturating_sub(schedule.at_ns(frame + 1));
        if late_ns > 0 {
            found.late_count += 1;
            if found.late.len() < MOST_LISTED {
                found.late.push((frame, late_ns));
            }
        }
    }
    found.frames = Some(times);
    Ok(found)
}

/// Runs the frame loop as a program. Draws in the calling thread and prints a line for each frame
/// after the first, `frame END MILLISECONDS`: when it ended, in seconds of monotonic time, and how
/// long after the previous one. Ends when the time is up, or when nobody reads its lines.
///
/// # Errors
///
/// The parameters are invalid, or a system call failed.
pub fn frame_loop(parameters: &Parameters, lines: &mut impl Write) -> Result<()> {
    parameters.check()?;
    let duration_ns = seconds("duration_s", parameters.duration_s)?;
    let sizes = parameters.sizes()?;
    let file = parameters.file(sizes)?;
    let stop = AtomicBool::new(false);
    let run = Run {
        cpus: Vec::new(),
        stop: &stop,
    };
    let mut before_ns = None;
    let tell = |ended_ns: u64| {
        let Some(before_ns) = before_ns.replace(ended_ns) else {
            return Ok(());
        };
        let (whole, rest) = (ended_ns / SECOND_NS, ended_ns % SECOND_NS);
        let took_us = (ended_ns - before_ns) / 1000;
        writeln!(
            lines,
            "frame {whole}.{rest:09} {}.{:03}",
            took_us / 1000,
            took_us % 1000
        )?;
        lines.flush()
    };
    thread::scope(|scope| {
        let jobs = parameters.company(&run, &file, sizes, duration_ns);
        let company = thread::Builder::new()
            .spawn_scoped(scope, || crew::run(jobs))
            .map_err(|error| Error::io("start", "a thread", &error))?;
        let schedule = moments(parameters.frames_per_s, now_ns(), duration_ns, None);
        let drawn = draw(&run, &file, sizes, schedule, parameters.seed, tell);
        stop.store(true, Ordering::Relaxed);
        let broke = |_| Err(Error::new(Kind::Io, "a thread of the frame loop crashed"));
        company.join().unwrap_or_else(broke)?;
        match drawn {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(Error::io("draw", "the frames", &error))
            }
            _ => Ok(()),
        }
    })
}

/// Allocates, writes and frees memory at each moment, and records how long it took. A burst that
/// would use the reserve is skipped and counted.
fn burst(run: &Run, sizes: Sizes, schedule: Schedule) -> io::Result<ThreadResult> {
    let mut times = Histogram::new();
    let mut left_out = 0;
    let size = usize::try_from(sizes.burst).unwrap_or(usize::MAX);
    for index in 0..schedule.count {
        sleep_until(schedule.at_ns(index))?;
        if run.stopped() {
            break;
        }
        if !leaves_reserve(sizes, sizes.burst)? {
            left_out += 1;
            continue;
        }
        let began_ns = now_ns();
        if take(run, sizes, size)? {
            times.record(now_ns() - began_ns);
        } else {
            left_out += 1;
        }
    }
    Ok(ThreadResult {
        bursts: Some(times),
        bursts_left_out: left_out,
        ..ThreadResult::default()
    })
}

/// Whether this many more bytes would leave the reserve untouched.
fn leaves_reserve(sizes: Sizes, more_bytes: u64) -> io::Result<bool> {
    let available = memory::available_bytes().map_err(|error| io::Error::other(error.message))?;
    Ok(available >= sizes.reserve.saturating_add(more_bytes))
}

/// Maps memory, writes to all of it and unmaps it. Returns false if it stopped early, because the
/// load must end, or because others used so much memory that the burst would use the reserve.
fn take(run: &Run, sizes: Sizes, size: usize) -> io::Result<bool> {
    let mut taken = Mapping::anonymous(size, None)?;
    for offset in (0..size).step_by(sys::page_bytes()) {
        let look = offset % LOOK_BYTES == 0;
        if look && (run.stopped() || !leaves_reserve(sizes, 0)?) {
            return Ok(false);
        }
        taken.write(offset, 1);
    }
    Ok(true)
}

/// Reads the file over and over, beginning at `from`.
fn stream(run: &Run, file: &File, from: u64, end_ns: u64) -> io::Result<ThreadResult> {
    let mut found = ThreadResult::default();
    let mut buffer = vec![0; READ_BYTES];
    let mut place = from;
    while !run.stopped() && now_ns() < end_ns {
        let read = file.read_at(&mut buffer, place)? as u64;
        found.read_bytes += read;
        place = if read == 0 { 0 } else { place + read };
    }
    Ok(found)
}

fn measured(found: Vec<ThreadResult>, sizes: Sizes, elapsed_ns: u64) -> Measured {
    let (mut times, mut bursts) = (Histogram::new(), Histogram::new());
    let mut late: Vec<Value> = Vec::new();
    let (mut late_count, mut read_bytes, mut left_out) = (0, 0_u64, 0);
    for one in found {
        one.frames.iter().for_each(|histogram| times.add(histogram));
        one.bursts.iter().for_each(|histogram| bursts.add(histogram));
        late.extend(one.late.iter().map(|(frame, late_ns)| json!([frame, late_ns])));
        late_count += one.late_count;
        read_bytes += one.read_bytes;
        left_out += one.bursts_left_out;
    }
    let mut results: Map<String, Value> = times.summary("");
    results.extend(bursts.summary("burst_"));
    let more = [
        ("late_frames", json!(late_count)),
        ("late", Value::Array(late)),
        ("bursts_left_out", json!(left_out)),
        ("read_bytes", json!(read_bytes)),
        ("file_bytes", json!(sizes.file)),
        ("burst_bytes", json!(sizes.burst)),
        ("elapsed_ns", json!(elapsed_ns)),
    ];
    results.extend(more.map(|(name, value)| (name.to_owned(), value)));
    Measured {
        results,
        histogram: Some(times),
    }
}
