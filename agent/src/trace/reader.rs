// SPDX-License-Identifier: Apache-2.0
//! Reads the buffers of an instance, CPU by CPU, and extracts the requested fields of each event.

use super::events::{Kind, Tracepoint, What, NUMBERS};
use super::format::{Field, Format};
use super::page::{Layout, Lost};
use super::tracefs::{Instance, Tracefs};
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::fd::{AsFd, BorrowedFd};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;

/// Bytes to keep of a text.
pub const TEXT: usize = 16;
/// Most pages to read from one CPU at a time; newer events wait for the next round.
const MOST_PAGES: usize = 4096;

/// The requested fields of an event.
#[derive(Debug, Clone, Copy)]
pub struct Raw {
    pub at_ns: u64,
    pub cpu: u32,
    pub what: What,
    pub pid: i32,
    pub numbers: [i64; NUMBERS],
    pub text: [u8; TEXT],
}

/// A tracepoint with the layout of its fields on this kernel.
#[derive(Debug, Clone)]
pub struct Compiled {
    id: u16,
    what: What,
    pid: Field,
    numbers: [Option<Field>; NUMBERS],
    text: Option<Field>,
}

impl Compiled {
    /// Compiles a tracepoint's format.
    ///
    /// # Errors
    ///
    /// A field that it lacks.
    pub fn new(tracepoint: &Tracepoint, format: &str) -> Result<Self, String> {
        let format = Format::parse(format)?;
        let mut numbers = [None; NUMBERS];
        for (place, name) in numbers.iter_mut().zip(tracepoint.numbers) {
            *place = Some(format.field(name)?);
        }
        Ok(Self {
            id: format.id,
            what: tracepoint.what,
            pid: format.field("common_pid")?,
            numbers,
            text: tracepoint.text.map(|name| format.field(name)).transpose()?,
        })
    }

    fn take(&self, at_ns: u64, cpu: u32, record: &[u8]) -> Option<Raw> {
        let mut numbers = [0; NUMBERS];
        for (number, field) in numbers.iter_mut().zip(&self.numbers) {
            if let Some(field) = field {
                *number = field.number(record)?;
            }
        }
        let mut text = [0; TEXT];
        if let Some(field) = &self.text {
            let found = field.text(record)?;
            let length = found.len().min(TEXT);
            text[..length].copy_from_slice(&found[..length]);
        }
        let pid = i32::try_from(self.pid.number(record)?).ok()?;
        let what = self.what;
        Some(Raw {
            at_ns,
            cpu,
            what,
            pid,
            numbers,
            text,
        })
    }
}

/// Totals of a reader.
#[derive(Debug, Clone, Default)]
pub struct Met {
    /// Events that were read, of any kind.
    pub events: u64,
    /// Events that are too short or of an unknown tracepoint.
    pub strange: u64,
    /// Pages that could not be read completely, and what was wrong with one of them.
    pub damaged: u64,
    pub why: Option<String>,
}

impl Met {
    /// Adds two totals.
    pub fn and(self, other: &Self) -> Self {
        Self {
            events: self.events + other.events,
            strange: self.strange + other.strange,
            damaged: self.damaged + other.damaged,
            why: self.why.or_else(|| other.why.clone()),
        }
    }
}

/// The open buffers of an instance.
pub struct Reader {
    layout: Layout,
    cpus: Vec<(u32, File)>,
    known: BTreeMap<u16, Compiled>,
    page: Vec<u8>,
    pub met: Met,
}

impl Reader {
    /// Opens the buffers of all CPUs.
    ///
    /// # Errors
    ///
    /// Why they cannot be read.
    pub fn open(tracefs: &Tracefs, instance: &Instance, known: Vec<Compiled>) -> Result<Self, String> {
        let layout = Layout::from_text(&tracefs.text("events/header_page")?)?;
        let folder = instance.path("per_cpu");
        let mut cpus = Vec::new();
        let found = std::fs::read_dir(&folder).map_err(|error| format!("cannot read per_cpu: {error}"))?;
        for entry in found.flatten() {
            let name = entry.file_name();
            let Some(cpu) = name
                .to_str()
                .and_then(|name| name.strip_prefix("cpu")?.parse().ok())
            else {
                continue;
            };
            let mut options = OpenOptions::new();
            options
                .read(true)
                .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC);
            let opened = options.open(entry.path().join("trace_pipe_raw"));
            cpus.push((
                cpu,
                opened.map_err(|error| format!("cannot open trace_pipe_raw of CPU {cpu}: {error}"))?,
            ));
        }
        if cpus.is_empty() {
            return Err("tracefs lists no CPU".to_owned());
        }
        cpus.sort_by_key(|(cpu, _)| *cpu);
        Ok(Self {
            layout,
            cpus,
            known: known.into_iter().map(|one| (one.id, one)).collect(),
            page: vec![0; layout.page_bytes],
            met: Met::default(),
        })
    }

    /// Returns the buffers, for polling.
    pub fn files(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.cpus.iter().map(|(_, file)| file.as_fd())
    }

    /// Whether polling waits until a buffer is sufficiently full. Older kernels report it ready as
    /// soon as it contains anything.
    pub fn waits_until_full(&self) -> bool {
        let mut files: Vec<PollFd> = self
            .files()
            .map(|file| PollFd::from_borrowed_fd(file, PollFlags::IN))
            .collect();
        matches!(poll(&mut files, Some(&Timespec::default())), Ok(0))
    }

    /// Appends everything in the buffers. Returns the time of the first event after a loss, if
    /// there was one.
    pub fn drain(&mut self, into: &mut Vec<Raw>) -> Option<u64> {
        let Self {
            layout,
            cpus,
            known,
            page,
            met,
        } = self;
        let mut loss_ns: Option<u64> = None;
        for (cpu, file) in cpus {
            for _ in 0..MOST_PAGES {
                let length = match file.read(page) {
                    Ok(0) => break,
                    Ok(length) => length,
                    Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                    Err(_) => break,
                };
                let before = into.len();
                let lost = layout.read(&page[..length], |at_ns, record| {
                    met.events += 1;
                    match taken(known, at_ns, *cpu, record) {
                        Some(raw) => into.push(raw),
                        None => met.strange += 1,
                    }
                });
                match lost {
                    Ok(Lost::None) => {}
                    Ok(_) => {
                        let first = into.get(before).map_or(u64::MAX, |raw| raw.at_ns);
                        loss_ns = Some(loss_ns.map_or(first, |known| known.min(first)));
                    }
                    Err(why) => {
                        met.damaged += 1;
                        met.why = Some(why);
                    }
                }
            }
        }
        loss_ns
    }
}

fn taken(known: &BTreeMap<u16, Compiled>, at_ns: u64, cpu: u32, record: &[u8]) -> Option<Raw> {
    let id = u16::from_ne_bytes(record.get(..2)?.try_into().ok()?);
    known.get(&id)?.take(at_ns, cpu, record)
}

/// Returns the kinds that cannot be reported without these tracepoints.
pub fn kinds_without(missing: &[&Tracepoint]) -> Vec<Kind> {
    let mut kinds: Vec<Kind> = missing.iter().flat_map(|one| one.kinds()).copied().collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}
