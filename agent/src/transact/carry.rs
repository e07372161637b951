// SPDX-License-Identifier: Apache-2.0
//! Carries out single steps and judges what is read back.

use crate::bytes::Bytes;
use crate::root::Root;
use crate::transact::after;
use crate::transact::allow::Purpose;
use crate::transact::check;
use crate::transact::files::{self, Rights};
use crate::transact::machine::{self, Outcome, Refusal};
use crate::transact::plan::{FileStep, Write, ZramStep};
use crate::transact::verify::{mask_within, Rule};
use crate::transact::zram;
use std::time::Duration;

/// How often an interrupt's CPUs are read after a write, and how long to wait between reads.
const LOOKS: u32 = 6;
const LOOK: Duration = Duration::from_millis(10);

/// The result of a step.
#[derive(Debug)]
pub struct Done {
    /// The result.
    pub outcome: Outcome,
    /// The value read back.
    pub value: Option<Bytes>,
    /// Explanation for a person.
    pub message: String,
}

impl Done {
    /// The value read back is the requested one.
    pub fn accepted(value: Option<Bytes>) -> Self {
        Self {
            outcome: Outcome::Accepted,
            value,
            message: String::new(),
        }
    }
}

/// Writes a knob that had the value `old` when the transaction began.
pub fn write(root: &Root, step: &Write, old: &[u8]) -> Result<Done, Refusal> {
    let gone = |mut refusal: Refusal| {
        if refusal.outcome == Outcome::Absent {
            refusal.outcome = Outcome::Vanished;
        }
        refusal
    };
    let before = machine::read(root, &step.path, Purpose::Write).map_err(gone)?;
    let raised = raised(root, &step.path);
    if !step.verify.holds(&step.new, &before.bytes) {
        machine::write(root, &step.path, &step.new, Purpose::Write).map_err(gone)?;
    }
    let now = machine::read(root, &step.path, Purpose::Write)
        .map_err(gone)?
        .bytes;
    let done = judge(step, old, now);
    match &step.effective {
        Some(effective) if done.outcome == Outcome::Accepted => {
            let wait = || std::thread::sleep(LOOK);
            let Some(mask) = elsewhere(root, step, effective, raised, wait).map_err(gone)? else {
                return Ok(done);
            };
            let message = format!(
                "{} was accepted, but {effective} still shows {}",
                step.path,
                mask.brief()
            );
            Ok(Done {
                outcome: Outcome::Ignored,
                value: Some(mask),
                message,
            })
        }
        _ => Ok(done),
    }
}

/// Returns the mask that is in force instead of the requested one. None if the requested one is in
/// force, and if that cannot show yet: many chips move an interrupt only when it fires next, and it
/// hasn't fired since `before`. `wait` passes the time between two looks.
fn elsewhere(
    root: &Root,
    step: &Write,
    effective: &str,
    before: Option<u64>,
    mut wait: impl FnMut(),
) -> Result<Option<Bytes>, Refusal> {
    let mut left = LOOKS;
    loop {
        let now = raised(root, &step.path);
        let mask = machine::read(root, effective, Purpose::Read)?.bytes;
        if mask_within(&mask, &step.new) {
            return Ok(None);
        }
        left -= 1;
        if left == 0 {
            let waits = before.is_some() && now == before;
            return Ok((!waits).then_some(mask));
        }
        wait();
    }
}

/// Returns how often the interrupt of this file has fired; None if the kernel doesn't report it, or
/// the file belongs to no interrupt.
fn raised(root: &Root, path: &str) -> Option<u64> {
    let (irq, _) = path.strip_prefix("/proc/irq/")?.split_once('/')?;
    let counts = root
        .read_text(&format!("/sys/kernel/irq/{irq}/per_cpu_count"))
        .ok()?;
    counts
        .trim()
        .split(',')
        .try_fold(0, |sum, count| Some(sum + count.parse::<u64>().ok()?))
}

fn judge(step: &Write, old: &[u8], now: Bytes) -> Done {
    if step.verify.holds(&step.new, &now) {
        return Done::accepted(Some(now));
    }
    let (wanted, found) = (step.new.brief(), now.brief());
    let path = &step.path;
    let (outcome, message) = if step.verify == Rule::Clamped {
        (
            Outcome::Clamped,
            format!("{path} was set to {wanted}; the kernel chose {found}"),
        )
    } else if step.verify.same_state(&step.new, old, &now) {
        (
            Outcome::Ignored,
            format!("{path}: the kernel accepted {wanted} but kept {found}"),
        )
    } else {
        (
            Outcome::Clamped,
            format!("{path}: the kernel chose {found} instead of {wanted}"),
        )
    };
    Done {
        outcome,
        value: Some(now),
        message,
    }
}

/// Puts or removes a configuration file, and lets the program run that reads it.
pub fn file(root: &Root, step: &FileStep, transaction: u64) -> Result<Done, Refusal> {
    let Some(content) = step.bytes() else {
        files::remove(root, &step.path)?;
        after::run(root, &step.path)?;
        return Ok(Done::accepted(None));
    };
    let rights = Rights {
        mode: step.mode_bits().unwrap_or(0o644),
        owner: None,
    };
    files::put(root, &step.path, &content, rights, transaction)?;
    after::run(root, &step.path)?;
    Ok(Done::accepted(Some(content)))
}

/// Sets up or takes down swap on a zram device.
pub fn swap(root: &Root, step: &ZramStep, device: &str) -> Result<Done, Refusal> {
    let path = format!("/sys/block/{device}");
    let want = zram::wanted(step, &zram::state(root, &path)?);
    zram::set(root, &path, &want)?;
    let now = zram::state(root, &path)?;
    let value = Some(check::describe(&now));
    if zram::same(&now, &want) {
        return Ok(Done::accepted(value));
    }
    Ok(Done {
        outcome: Outcome::Clamped,
        value,
        message: format!("{path}: the device's state differs from the requested one"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn step(verify: &str) -> Write {
        serde_json::from_value(json!({"path": "/proc/sys/vm/x", "new": "100\n", "verify": verify})).unwrap()
    }

    #[test]
    fn what_is_read_back_decides() {
        let cases = [
            ("integer", "100\n", Outcome::Accepted),
            ("integer", "60\n", Outcome::Ignored),
            ("integer", "90\n", Outcome::Clamped),
            ("clamped", "90\n", Outcome::Clamped),
            ("clamped", "100\n", Outcome::Accepted),
        ];
        for (verify, now, outcome) in cases {
            assert_eq!(
                judge(&step(verify), b"60\n", now.into()).outcome,
                outcome,
                "{verify} {now}"
            );
        }
    }

    #[test]
    fn a_knob_that_is_not_there_any_more_has_vanished() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        let mut step = step("integer");
        step.path = "/proc/sys/vm/swappiness".to_owned();
        let outcome = || write(&root, &step, b"60\n").unwrap_err().outcome;
        assert_eq!(outcome(), Outcome::Vanished);
        std::fs::create_dir_all(folder.path().join("proc/sys/vm/swappiness")).unwrap();
        assert_ne!(outcome(), Outcome::Vanished);
    }

    #[test]
    fn an_interrupt_that_has_not_come_since_moves_later() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        let [irq, told] = ["proc/irq/7", "sys/kernel/irq/7"].map(|path| folder.path().join(path));
        std::fs::create_dir_all(&irq).unwrap();
        std::fs::create_dir_all(&told).unwrap();
        std::fs::write(irq.join("effective_affinity"), "8\n").unwrap();
        std::fs::write(told.join("per_cpu_count"), "3,0\n").unwrap();
        let step: Write = serde_json::from_value(json!({"path": "/proc/irq/7/smp_affinity", "new": "3\n",
            "verify": "mask", "effective": "/proc/irq/7/effective_affinity"}))
        .unwrap();
        let place = "/proc/irq/7/effective_affinity";
        let found = |before| elsewhere(&root, &step, place, before, || ()).unwrap();
        assert_eq!(raised(&root, &step.path), Some(3));
        assert_eq!(found(Some(3)), None);
        assert!(found(Some(2)).is_some(), "it came, and to another CPU");
        assert!(found(None).is_some(), "nothing tells whether it came");
        let mut waits = 0;
        let moves = || {
            waits += 1;
            if waits == LOOKS - 1 {
                std::fs::write(irq.join("effective_affinity"), "2\n").unwrap();
            }
        };
        let late = elsewhere(&root, &step, place, Some(2), moves).unwrap();
        assert_eq!(late, None, "a little later it is");
    }

    #[test]
    fn a_mask_that_is_not_in_force_is_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let irq = folder.path().join("proc/irq/7");
        std::fs::create_dir_all(&irq).unwrap();
        std::fs::write(irq.join("smp_affinity"), "f\n").unwrap();
        std::fs::write(irq.join("effective_affinity"), "8\n").unwrap();
        let root = Root::new(folder.path());
        let step: Write = serde_json::from_value(json!({"path": "/proc/irq/7/smp_affinity", "new": "3\n",
            "verify": "mask", "effective": "/proc/irq/7/effective_affinity"}))
        .unwrap();
        assert_eq!(write(&root, &step, b"f\n").unwrap().outcome, Outcome::Ignored);
        std::fs::write(irq.join("effective_affinity"), "2\n").unwrap();
        assert_eq!(write(&root, &step, b"f\n").unwrap().outcome, Outcome::Accepted);
    }
}
