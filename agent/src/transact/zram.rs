// SPDX-License-Identifier: Apache-2.0
//! Compressed memory, usually as swap: one step that includes swapoff before reset, and the way
//! back.

use crate::root::Root;
use crate::transact::allow::Purpose;
use crate::transact::machine::{self, Outcome, Refusal};
use crate::transact::plan::ZramStep;
use crate::transact::programs::{self, priority_of};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::time::Duration;

/// How often to retry a device that somebody has open, and how long to wait between.
const BUSY_TRIES: u32 = 100;
const BUSY_PAUSE: Duration = Duration::from_millis(20);

/// The state of a zram device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Swap {
    /// Uncompressed size; 0 if not set up.
    pub size_bytes: u64,
    /// Compression algorithm in use.
    pub algorithm: Option<String>,
    /// Swap priority; none if it is not used as swap.
    pub priority: Option<i32>,
}

fn refused(message: String) -> Refusal {
    Refusal {
        outcome: Outcome::Refused,
        errno: Errno::BUSY.raw_os_error(),
        message,
    }
}

/// Returns the present state of a device, by its folder `/sys/block/zramN`.
pub fn state(root: &Root, path: &str) -> Result<Swap, Refusal> {
    let read = |name: &str| {
        let file = format!("{path}/{name}");
        root.read_text(&file)
            .map_err(|error| Refusal::of("read", &file, &error))
    };
    let size = read("disksize")?;
    let size_bytes = size
        .parse()
        .map_err(|_| refused(format!("{path}/disksize: expected a number, got {size:?}")))?;
    let algorithms = read("comp_algorithm")?;
    let algorithm = algorithms
        .split_whitespace()
        .find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    let priority = priority_of(root, &device_file(path))?;
    Ok(Swap {
        size_bytes,
        algorithm: algorithm.map(str::to_owned),
        priority,
    })
}

/// Returns the device file for a folder `/sys/block/zramN`.
pub fn device_file(path: &str) -> String {
    format!("/dev/{}", path.rsplit('/').next().unwrap_or_default())
}

/// Refuses a device that could not be restored: one that is set up for anything but swap, or has a
/// backing device.
pub fn check(root: &Root, path: &str) -> Result<Swap, Refusal> {
    let state = state(root, path)?;
    let backing = root
        .read_text(&format!("{path}/backing_dev"))
        .unwrap_or_else(|_| "none".to_owned());
    if state.size_bytes > 0 && state.priority.is_none() {
        return Err(refused(format!(
            "{path} is in use for something other than swap: its content could not be restored"
        )));
    }
    if backing != "none" {
        return Err(refused(format!(
            "{path} writes back to {backing}, which could not be restored"
        )));
    }
    Ok(state)
}

/// Returns the state that a step requests, given the present one.
pub fn wanted(step: &ZramStep, now: &Swap) -> Swap {
    let algorithm = step.algorithm.clone().or_else(|| now.algorithm.clone());
    let on = step.size_bytes > 0;
    // The kernel rounds up to whole pages.
    let whole = step
        .size_bytes
        .checked_next_multiple_of(rustix::param::page_size() as u64);
    Swap {
        size_bytes: whole.unwrap_or(step.size_bytes),
        algorithm,
        priority: (on && step.swap).then(|| step.priority.unwrap_or(-1)),
    }
}

/// Whether two states are the same; the kernel itself chooses priorities below zero.
pub fn same(one: &Swap, other: &Swap) -> bool {
    let chosen = |swap: &Swap| swap.priority.map(|priority| priority.max(-1));
    one.size_bytes == other.size_bytes && one.algorithm == other.algorithm && chosen(one) == chosen(other)
}

/// Sets a device to a state: swapoff, reset, algorithm, size, mkswap, swapon.
pub fn set(root: &Root, path: &str, want: &Swap) -> Result<(), Refusal> {
    let now = state(root, path)?;
    if same(&now, want) {
        return Ok(());
    }
    let device = device_file(path);
    let run = |argv: &[&str]| {
        let argv: Vec<String> = argv.iter().map(|argument| (*argument).to_owned()).collect();
        programs::run(root, &argv)
    };
    let write = |name: &str, value: &str| {
        let file = format!("{path}/{name}");
        machine::write(root, &file, value.as_bytes(), Purpose::Own)
    };
    if now.priority.is_some() {
        run(&["swapoff", &device])?;
    }
    if now.size_bytes > 0 {
        when_free(|| write("reset", "1"))?;
    }
    if let Some(algorithm) = &want.algorithm {
        if state(root, path)?.algorithm.as_ref() != Some(algorithm) {
            write("comp_algorithm", algorithm).map_err(|refusal| unknown(root, path, algorithm, refusal))?;
        }
    }
    if want.size_bytes == 0 {
        return Ok(());
    }
    write("disksize", &want.size_bytes.to_string())?;
    let Some(priority) = want.priority else {
        return Ok(());
    };
    run(&["mkswap", &device])?;
    if priority >= 0 {
        run(&["swapon", "-p", &priority.to_string(), &device])
    } else {
        run(&["swapon", &device])
    }
}

/// Names the algorithms that the kernel has, if it refused an unknown one.
fn unknown(root: &Root, path: &str, algorithm: &str, refusal: Refusal) -> Refusal {
    let listed = root
        .read_text(&format!("{path}/comp_algorithm"))
        .unwrap_or_default();
    let names: Vec<&str> = listed
        .split_whitespace()
        .map(|name| name.trim_matches(['[', ']']))
        .collect();
    if names.is_empty() || names.contains(&algorithm) {
        return refusal;
    }
    let message = format!(
        "this kernel's zram does not compress with {algorithm:?}; it has {}",
        names.join(", ")
    );
    Refusal { message, ..refusal }
}

/// Retries while somebody has the device open: udev opens each device that was written to.
fn when_free(action: impl Fn() -> Result<(), Refusal>) -> Result<(), Refusal> {
    let mut result = action();
    for _ in 0..BUSY_TRIES {
        match &result {
            Err(refusal) if refusal.errno == Errno::BUSY.raw_os_error() => {
                std::thread::sleep(BUSY_PAUSE);
                result = action();
            }
            _ => break,
        }
    }
    result
}

/// Returns the names of the existing zram devices.
pub fn devices(root: &Root) -> BTreeSet<String> {
    let names = root.list("/sys/block").unwrap_or_default();
    names
        .into_iter()
        .filter(|name| name.starts_with("zram"))
        .collect()
}

/// Creates a device and returns its name.
pub fn add(root: &Root) -> Result<String, Refusal> {
    let path = "/sys/class/zram-control/hot_add";
    let number = root
        .read_text(path)
        .map_err(|error| Refusal::of("read", path, &error))?;
    Ok(format!("zram{number}"))
}

/// Takes a device down and removes it.
pub fn remove(root: &Root, device: &str) -> Result<(), Refusal> {
    let folder = format!("/sys/block/{device}");
    if !machine::exists(root, &folder) {
        return Ok(());
    }
    let now = state(root, &folder)?;
    set(
        root,
        &folder,
        &Swap {
            size_bytes: 0,
            algorithm: now.algorithm,
            priority: None,
        },
    )?;
    let path = "/sys/class/zram-control/hot_remove";
    let number = device.trim_start_matches("zram");
    when_free(|| std::fs::write(root.path(path), number).map_err(|error| Refusal::of("write", path, &error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_wanted_as_the_kernel_makes_it() {
        let page = rustix::param::page_size() as u64;
        let now = Swap {
            size_bytes: 0,
            algorithm: None,
            priority: None,
        };
        for (asked, made) in [
            (0, 0),
            (1, page),
            (page, page),
            (page + 2048, 2 * page),
            (u64::MAX, u64::MAX),
        ] {
            let step = serde_json::json!({"device": "zram0", "size_bytes": asked});
            let step: ZramStep = serde_json::from_value(step).unwrap();
            assert_eq!(wanted(&step, &now).size_bytes, made);
        }
    }

    #[test]
    fn states_are_read_and_compared() {
        let folder = tempfile::tempdir().unwrap();
        let device = folder.path().join("sys/block/zram0");
        std::fs::create_dir_all(&device).unwrap();
        std::fs::create_dir_all(folder.path().join("proc")).unwrap();
        std::fs::write(device.join("disksize"), "4096\n").unwrap();
        std::fs::write(device.join("comp_algorithm"), "lzo [zstd] lz4\n").unwrap();
        let swaps = "Filename Type Size Used Priority\n/dev/zram0 partition 4 0 100\n";
        std::fs::write(folder.path().join("proc/swaps"), swaps).unwrap();
        let root = Root::new(folder.path());
        let now = check(&root, "/sys/block/zram0").unwrap();
        assert_eq!(
            now,
            Swap {
                size_bytes: 4096,
                algorithm: Some("zstd".into()),
                priority: Some(100)
            }
        );
        assert!(same(
            &Swap {
                priority: Some(-2),
                ..now.clone()
            },
            &Swap {
                priority: Some(-3),
                ..now.clone()
            }
        ));
        assert!(!same(
            &Swap {
                priority: None,
                ..now.clone()
            },
            &now
        ));
        std::fs::write(folder.path().join("proc/swaps"), "Filename\n").unwrap();
        assert_eq!(
            check(&root, "/sys/block/zram0").unwrap_err().outcome,
            Outcome::Refused
        );
    }
}
