// SPDX-License-Identifier: Apache-2.0
//! `zram`: how much and how fast the kernel's algorithms compress memory.
//!
//! The only load of a root session. It creates its own zram device, in a transaction that ends with
//! the session, writes data to it, reads it back, compares, and removes the device. All reads and
//! writes bypass the page cache: a write ends when all its pages are compressed, a read when they
//! are decompressed.

use super::clock::now_ns;
use super::files::Aligned;
use super::{carry_out, memory, seconds, within, Load, Measured, Prepared, Request, Run};
use crate::bytes::hexadecimal;
use crate::bytes::Bytes;
use crate::error::{Error, Kind, Result};
use crate::transact::apply;
use crate::transact::context::Context;
use crate::transact::plan::{Lease, Plan, Step, ZramStep, SCHEMA};
use crate::transact::revert::{self, Select};
use crate::transact::transaction::State;
use crate::transact::zram;
use rustix::fs::{open, Mode, OFlags};
use serde::{Deserialize, Serialize};
use serde_json::{json, Map, Value};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// Name of the load.
pub const NAME: &str = "zram";

/// Largest amount of data.
pub const MOST_BYTES: u64 = 4 << 30;
const LEAST_BYTES: u64 = 1 << 20;
/// The data is a multiple of this, which fits any page size.
const UNIT_BYTES: u64 = 64 << 10;
/// Size of one write or read.
const BLOCK_BYTES: usize = 128 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum Source {
    /// Generated from `seed`.
    Generated,
    /// Sent beforehand with `data` requests.
    Given,
}

#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
struct Parameters {
    algorithm: String,
    data: Source,
    /// Amount to generate.
    bytes: u64,
    seed: u64,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            algorithm: "lzo-rle".to_owned(),
            data: Source::Generated,
            bytes: 256 << 20,
            seed: 1,
        }
    }
}

/// The data to measure, and the device.
struct Measurement {
    data: Aligned,
    sha256: String,
    device: PathBuf,
    statistics: PathBuf,
}

/// Runs the load on its own device.
///
/// # Errors
///
/// The request is invalid, the device cannot be created or removed, or the data read back differs.
pub fn run(context: &mut Context, request: Request) -> Result<Value> {
    let given = std::mem::take(&mut context.given);
    if request.load != NAME {
        let message = format!("a session of role root may not run the load {:?}", request.load);
        return Err(Error::new(Kind::Forbidden, message).hint("start a session with the other role"));
    }
    let parameters: Parameters = serde_json::from_value(Value::Object(request.parameters))
        .map_err(|error| Error::new(Kind::BadRequest, format!("parameters: {error}")))?;
    let limit_ns = seconds("limit_s", request.limit_s)?;
    context.need_root()?;
    let data = parameters.data(&given)?;
    drop(given);
    let (transaction, device) = make_device(context, &parameters.algorithm, data.len() as u64)?;
    let folder = format!("/sys/block/{device}");
    let measurement = Measurement {
        sha256: hexadecimal(&Sha256::digest(&*data)),
        data,
        device: context.root.path(&zram::device_file(&folder)),
        statistics: context.root.path(&format!("{folder}/mm_stat")),
    };
    let prepared: Prepared = (json!(parameters), Box::new(measurement));
    let events = context.told.events(false);
    let measured = carry_out(NAME, prepared, request.cpus.as_deref(), limit_ns, events);
    let taken_away = take_away(context, transaction);
    let reply = measured?;
    taken_away.map(|()| reply)
}

fn make_device(context: &mut Context, algorithm: &str, size_bytes: u64) -> Result<(u64, String)> {
    let step = ZramStep {
        device: None,
        size_bytes,
        algorithm: Some(algorithm.to_owned()),
        priority: None,
        swap: false,
    };
    let plan = Plan {
        schema: SCHEMA.to_owned(),
        title: format!("measure zram with {algorithm}"),
        lease: Lease::WhileSession,
        keep_going: false,
        sources: None,
        stacks: false,
        steps: vec![Step::Zram(step)],
    };
    let report = apply::apply(context, &plan)?;
    let made = context.store.load(report.transaction)?.made.remove(&0);
    match made.filter(|_| report.state == State::Applied) {
        Some(device) => Ok((report.transaction, device)),
        None => Err(Error::new(Kind::Io, report.steps[0].message.clone())),
    }
}

fn take_away(context: &mut Context, transaction: u64) -> Result<()> {
    let reports = revert::revert(context, Select::Only(transaction), false)?;
    match reports.iter().find(|report| report.state != State::Reverted) {
        None => Ok(()),
        Some(report) => {
            let message = format!("cannot remove the device: {}", report.steps[0].message);
            Err(Error::new(Kind::Io, message).hint("run `ktrial recover`"))
        }
    }
}

impl Parameters {
    /// Returns the data to compress; of the data that was sent, as many whole units as it has.
    fn data(&self, given: &[u8]) -> Result<Aligned> {
        let bytes = match self.data {
            Source::Generated => self.bytes,
            Source::Given => given.len() as u64,
        };
        within("bytes", bytes, LEAST_BYTES, MOST_BYTES)?;
        // The data itself, and the device's copy if nothing can be compressed.
        memory::room_for(2 * bytes)?;
        let bytes = usize::try_from(bytes - bytes % UNIT_BYTES).unwrap_or(usize::MAX);
        let mut data = Aligned::new(bytes, 0);
        match self.data {
            Source::Generated => generate(&mut data, self.seed),
            Source::Given => data.copy_from_slice(&given[..bytes]),
        }
        Ok(data)
    }
}

impl Load for Measurement {
    fn check(&self) -> Result<()> {
        Ok(())
    }

    fn run(&self, run: &Run) -> Result<Measured> {
        let failed =
            |what: &'static str| move |error: std::io::Error| Error::io(what, self.device.display(), &error);
        // Nobody else may mount it or use it as swap.
        let flags = OFlags::RDWR | OFlags::DIRECT | OFlags::EXCL | OFlags::CLOEXEC;
        let device =
            open(&self.device, flags, Mode::empty()).map_err(|errno| failed("open")(errno.into()))?;
        let device = File::from(device);
        let mut written = Busy::default();
        for (block, at) in self.blocks() {
            if run.stopped() {
                break;
            }
            written
                .add(block, || device.write_all_at(block, at))
                .map_err(failed("write"))?;
        }
        device.sync_all().map_err(failed("flush"))?;
        let statistics = self.statistics()?;
        let mut buffer = Aligned::new(BLOCK_BYTES, 0);
        let mut read = Busy::default();
        for (block, at) in self.blocks() {
            if run.stopped() {
                break;
            }
            let buffer = &mut buffer[..block.len()];
            read.add(block, || device.read_exact_at(buffer, at))
                .map_err(failed("read"))?;
            if buffer != block {
                let message = format!(
                    "{}: the data read at byte {at} differs from the data written",
                    self.device.display()
                );
                return Err(Error::new(Kind::Io, message));
            }
        }
        let mut results = statistics;
        results.insert("data_bytes".to_owned(), json!(self.data.len()));
        results.insert("data_sha256".to_owned(), json!(self.sha256));
        results.insert("written_bytes".to_owned(), json!(written.bytes));
        results.insert("write_ns".to_owned(), json!(written.ns));
        results.insert("read_bytes".to_owned(), json!(read.bytes));
        results.insert("read_ns".to_owned(), json!(read.ns));
        Ok(Measured {
            results,
            histogram: None,
        })
    }
}

impl Measurement {
    /// Returns the data block by block, with the offset of each.
    fn blocks(&self) -> impl Iterator<Item = (&[u8], u64)> {
        let places = (0_u64..).step_by(BLOCK_BYTES);
        self.data.chunks(BLOCK_BYTES).zip(places)
    }

    /// Reads the kernel's statistics about the device's memory.
    fn statistics(&self) -> Result<Map<String, Value>> {
        let shown = self.statistics.display();
        let text =
            std::fs::read_to_string(&self.statistics).map_err(|error| Error::io("read", &shown, &error))?;
        let numbers: Option<Vec<u64>> = text.split_whitespace().map(|word| word.parse().ok()).collect();
        let Some([stored, compressed, used, _, _, same, ..]) = numbers.as_deref() else {
            let message = format!("{shown}: expected a row of numbers, got {text:?}");
            return Err(Error::new(Kind::Io, message));
        };
        let mut results = Map::new();
        results.insert("stored_bytes".to_owned(), json!(stored));
        results.insert("compressed_bytes".to_owned(), json!(compressed));
        results.insert("memory_bytes".to_owned(), json!(used));
        results.insert("same_pages".to_owned(), json!(same));
        Ok(results)
    }
}

/// Bytes moved, and the time that it took.
#[derive(Default)]
struct Busy {
    bytes: u64,
    ns: u64,
}

impl Busy {
    fn add(&mut self, block: &[u8], action: impl FnOnce() -> std::io::Result<()>) -> std::io::Result<()> {
        let began_ns = now_ns();
        action()?;
        self.ns += now_ns() - began_ns;
        self.bytes += block.len() as u64;
        Ok(())
    }
}

/// Fills `data` as memory typically looks, always the same for the same seed. Each group of eight 4
/// KiB pieces contains, in random order: one of zeros; one that is incompressible; two of text; two
/// of pointers that differ only in their lower 24 bits; two of 32-bit counters below 256, half of
/// them 0.
fn generate(data: &mut [u8], seed: u64) {
    const PIECE_BYTES: usize = 4096;
    let mut random = Random(seed | 1 << 63);
    let base = random.next() & 0x7fff_ff00_0000;
    for row in data.chunks_mut(8 * PIECE_BYTES) {
        let mut kinds = [0, 1, 2, 2, 3, 3, 4, 4];
        for last in (1..kinds.len()).rev() {
            kinds.swap(last, random.below(last + 1));
        }
        for (piece, kind) in row.chunks_mut(PIECE_BYTES).zip(kinds) {
            match kind {
                0 => piece.fill(0),
                1 => fill(piece, || random.next().to_le_bytes()),
                2 => fill_with_text(piece, &mut random),
                3 => fill(piece, || (base | random.next() & 0xff_ffff).to_le_bytes()),
                _ => fill(piece, || {
                    let number = u32::try_from(random.below(512)).unwrap_or_default();
                    (if number < 256 { number } else { 0 }).to_le_bytes()
                }),
            }
        }
    }
}

fn fill<const WIDTH: usize>(piece: &mut [u8], mut word: impl FnMut() -> [u8; WIDTH]) {
    for place in piece.chunks_exact_mut(WIDTH) {
        place.copy_from_slice(&word());
    }
}

fn fill_with_text(piece: &mut [u8], random: &mut Random) {
    const WORDS: [&str; 32] = [
        "the ",
        "of ",
        "and ",
        "memory ",
        "page ",
        "a ",
        "to ",
        "in ",
        "is ",
        "kernel ",
        "process ",
        "that ",
        "cache ",
        "file ",
        "name=",
        "value=",
        "0x",
        "1024 ",
        "true ",
        "false ",
        "</td>",
        "<td>",
        "/usr/lib/",
        ".so\n",
        "\n",
        "(",
        ") ",
        "return ",
        "const ",
        "string ",
        "error: ",
        "; ",
    ];
    let mut at = 0;
    while at < piece.len() {
        let word = WORDS[random.below(WORDS.len())].as_bytes();
        let taken = word.len().min(piece.len() - at);
        piece[at..at + taken].copy_from_slice(&word[..taken]);
        at += taken;
    }
}

/// A pseudo-random number generator (xorshift with a multiplication).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, limit: usize) -> usize {
        // Limits are small, so the bias of the remainder is negligible.
        usize::try_from(self.next() >> 33).unwrap_or_default() % limit
    }
}

/// Receives a part of the data for the next load.
///
/// # Errors
///
/// There is more data than a load may have.
pub fn take(context: &mut Context, part: &Bytes, first: bool) -> Result<u64> {
    if first {
        context.given = Vec::new();
    }
    let held = (context.given.len() + part.len()) as u64;
    within("bytes", held, 0, MOST_BYTES)?;
    context.given.extend_from_slice(part);
    Ok(held)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::Root;
    use crate::transact::context::Role;

    fn context() -> (tempfile::TempDir, Context) {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        (folder, Context::new(Role::Root, root, "/var/lib/ktrial"))
    }

    fn refusal(context: &mut Context, request: Value) -> Error {
        run(context, serde_json::from_value(request).unwrap()).unwrap_err()
    }

    #[test]
    fn data_is_the_same_for_the_same_seed_and_mixed_as_told() {
        let make = |seed| {
            let mut data = vec![0xff; 64 << 10];
            generate(&mut data, seed);
            data
        };
        let data = make(1);
        assert_eq!(data, make(1));
        assert_ne!(data, make(2));
        for row in data.chunks(8 * 4096) {
            let zeros = row
                .chunks(4096)
                .filter(|piece| piece.iter().all(|byte| *byte == 0));
            assert_eq!(zeros.count(), 1);
            let text = row.chunks(4096).filter(|piece| piece.iter().all(u8::is_ascii));
            assert_eq!(text.count(), 1 + 2, "zeros and text");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_before_anything_is_made() {
        let (folder, mut context) = context();
        let cases = [
            (json!({"load": "spin", "limit_s": 1}), Kind::Forbidden),
            (json!({"load": "zram", "limit_s": 0}), Kind::BadRequest),
            (
                json!({"load": "zram", "limit_s": 1, "parameters": {"bytes": 1}}),
                Kind::BadRequest,
            ),
            (
                json!({"load": "zram", "limit_s": 1, "parameters": {"data": "given"}}),
                Kind::BadRequest,
            ),
            (
                json!({"load": "zram", "limit_s": 1, "parameters": {"device": "zram0"}}),
                Kind::BadRequest,
            ),
        ];
        for (request, kind) in cases {
            assert_eq!(refusal(&mut context, request.clone()).kind, kind, "{request}");
        }
        let request = json!({"load": "zram", "limit_s": 1, "parameters": {"bytes": 1 << 20}});
        let absent = refusal(&mut context, request);
        assert!(absent.message.contains("modprobe zram"), "{absent}");
        assert!(!folder.path().join("sys").exists());
    }

    #[test]
    fn what_was_given_is_for_one_load() {
        let (_folder, mut context) = context();
        let part = Bytes(vec![1; 1 << 20]);
        assert_eq!(take(&mut context, &part, false).unwrap(), 1 << 20);
        assert_eq!(take(&mut context, &part, true).unwrap(), 1 << 20);
        assert_eq!(take(&mut context, &part, false).unwrap(), 2 << 20);
        refusal(&mut context, json!({"load": "spin", "limit_s": 1}));
        assert!(context.given.is_empty());
    }

    #[test]
    fn statistics_are_numbers_or_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("mm_stat");
        let measurement = Measurement {
            data: Aligned::new(4096, 0),
            sha256: String::new(),
            device: file.clone(),
            statistics: file.clone(),
        };
        std::fs::write(
            &file,
            "    8192     1000     4096        0     4096        1        0        0        0\n",
        )
        .unwrap();
        let found = measurement.statistics().unwrap();
        assert_eq!(found["stored_bytes"], 8192);
        assert_eq!(found["compressed_bytes"], 1000);
        assert_eq!(found["memory_bytes"], 4096);
        assert_eq!(found["same_pages"], 1);
        for bad in ["", "1 2 3", "1 2 3 4 5 x", "-1 2 3 4 5 6", "\u{0}"] {
            std::fs::write(&file, bad).unwrap();
            assert!(measurement.statistics().is_err(), "{bad:?}");
        }
    }
}
