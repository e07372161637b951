// SPDX-License-Identifier: Apache-2.0
//! `NVMe` controllers and their power states.
//!
//! Offsets are those of the Identify Controller data structure and of the Power State Descriptor in
//! the NVM Express Base Specification 2.0, figures 275 and 276.

use std::fs::File;

use serde::Serialize;
use serde_json::Value;

use super::probe::{list, text, Probe};
use super::{Machine, Sink};
use crate::root::Root;
use crate::sys;

const CLASS: &str = "/sys/class/nvme";
const STATE_COUNT_AT: usize = 263;
const AUTONOMOUS_AT: usize = 265;
const STATES_AT: usize = 2048;
const STATE_BYTES: usize = 32;
const MOST_STATES: usize = 32;

pub(super) fn collect(machine: &Machine, sink: &mut Sink) {
    sink.add("nvme.controllers", || controllers(machine.root));
}

/// A power state of a controller. Values that the controller doesn't report are None.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PowerState {
    /// Number of the state; 0 is full power.
    pub id: usize,
    /// Maximum power in microwatts.
    pub maximum_power_uw: Option<u64>,
    /// Time to enter the state, in microseconds.
    pub entry_latency_us: Option<u32>,
    /// Time to leave the state, in microseconds.
    pub exit_latency_us: Option<u32>,
    /// Whether the controller executes commands in this state.
    pub operational: bool,
}

/// Parses the power states in an Identify Controller data structure; None if it is truncated or has
/// an impossible count.
#[must_use]
pub fn power_states(identify: &[u8]) -> Option<Vec<PowerState>> {
    // Number of Power States Support (NPSS) is zero-based.
    let count = usize::from(*identify.get(STATE_COUNT_AT)?) + 1;
    if count > MOST_STATES {
        return None;
    }
    (0..count)
        .map(|id| power_state(id, identify.get(STATES_AT + id * STATE_BYTES..)?))
        .collect()
}

/// Whether a controller can change power states on its own (APSTA in its Identify Controller data
/// structure).
#[must_use]
pub fn can_change_by_itself(identify: &[u8]) -> Option<bool> {
    Some(identify.get(AUTONOMOUS_AT)? & 1 == 1)
}

fn power_state(id: usize, descriptor: &[u8]) -> Option<PowerState> {
    let power = u64::from(u16::from_le_bytes(descriptor.get(0..2)?.try_into().ok()?));
    let flags = *descriptor.get(3)?;
    // Max Power Scale: hundredths of a watt, or ten-thousandths.
    let unit_uw = if flags & 1 == 0 { 10_000 } else { 100 };
    let latency =
        |at: usize| -> Option<u32> { Some(u32::from_le_bytes(descriptor.get(at..at + 4)?.try_into().ok()?)) };
    let reported = |value: u32| (value != 0).then_some(value);
    Some(PowerState {
        id,
        maximum_power_uw: (power != 0).then_some(power * unit_uw),
        entry_latency_us: reported(latency(4)?),
        exit_latency_us: reported(latency(8)?),
        operational: flags & 2 == 0,
    })
}

/// An `NVMe` controller.
#[derive(Debug, Serialize)]
struct Controller {
    name: String,
    model: Option<String>,
    firmware: Option<String>,
    transport: Option<String>,
    power_states: Option<Vec<PowerState>>,
    apst: Option<bool>,
    latency_tolerance_us: Option<Value>,
}

fn controllers(root: &Root) -> Probe<Vec<Controller>> {
    Ok(list(root, CLASS)?
        .into_iter()
        .map(|name| {
            let read = |file: &str| text(root, &format!("{CLASS}/{name}/{file}")).ok();
            let tolerance = read("power/pm_qos_latency_tolerance_us");
            let device = open(root, &name);
            let feature = device
                .as_ref()
                .and_then(|device| sys::nvme_autonomous_transitions(device).ok());
            let identify = device
                .as_ref()
                .and_then(|device| sys::nvme_identify_controller(device).ok());
            let cannot = identify.as_deref().and_then(can_change_by_itself) == Some(false);
            // A tolerance of 0 makes the driver disable autonomous transitions.
            let off = cannot || tolerance.as_deref() == Some("0");
            Controller {
                model: read("model"),
                firmware: read("firmware_rev"),
                transport: read("transport"),
                power_states: identify.as_deref().and_then(power_states),
                apst: feature.or_else(|| off.then_some(false)),
                latency_tolerance_us: tolerance.map(number_or_word),
                name,
            }
        })
        .collect())
}

/// Returns the power states of the controllers by block device, to tell which requests may find a
/// controller asleep.
#[must_use]
pub fn sleepers(root: &Root) -> serde_json::Map<String, Value> {
    let mut found = serde_json::Map::new();
    for controller in controllers(root).unwrap_or_default() {
        let folder = format!("{CLASS}/{}", controller.name);
        for name in root.list(&folder).unwrap_or_default() {
            if let Some(device) = namespace(&name) {
                let entry =
                    serde_json::json!({"apst": controller.apst, "power_states": controller.power_states});
                found.insert(device, entry);
            }
        }
    }
    found
}

/// Returns the block device of `nvme0n1`, or of `nvme0c1n1` if several paths lead to it; None for
/// other names.
fn namespace(name: &str) -> Option<String> {
    let rest = name.strip_prefix("nvme")?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (front, number) = rest.split_once('n')?;
    let (instance, path) = front.split_once('c').unwrap_or((front, "0"));
    (digits(instance) && digits(path) && digits(number)).then(|| format!("nvme{instance}n{number}"))
}

/// Opens the controller's own device, on the real machine only, and if this session may.
fn open(root: &Root, name: &str) -> Option<File> {
    if !root.is_real() {
        return None;
    }
    File::open(root.path(&format!("/dev/{name}"))).ok()
}

/// Converts `pm_qos_latency_tolerance_us`, which is a number, `auto` or `any`.
fn number_or_word(text: String) -> Value {
    text.parse::<u64>().map_or(Value::from(text), Value::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::IDENTIFY_BYTES;

    /// Returns a drive in the layout of the specification, with three operational states and two
    /// idle ones.
    fn drive() -> Vec<u8> {
        let mut identify = vec![0; IDENTIFY_BYTES];
        identify[263] = 4;
        // (power, flags, entry, exit)
        let states: [(u16, u8, u32, u32); 5] = [
            (849, 0, 0, 0),
            (440, 0, 0, 0),
            (318, 0, 5, 200),
            (400, 3, 2000, 1200),
            (25, 3, 500, 9500),
        ];
        for (id, (power, flags, entry, exit)) in states.into_iter().enumerate() {
            let at = 2048 + 32 * id;
            identify[at..at + 2].copy_from_slice(&power.to_le_bytes());
            identify[at + 3] = flags;
            identify[at + 4..at + 8].copy_from_slice(&entry.to_le_bytes());
            identify[at + 8..at + 12].copy_from_slice(&exit.to_le_bytes());
        }
        identify
    }

    #[test]
    fn states_of_a_drive() {
        let states = power_states(&drive()).unwrap();
        assert_eq!(states.len(), 5);
        let full = PowerState {
            id: 0,
            maximum_power_uw: Some(8_490_000),
            entry_latency_us: None,
            exit_latency_us: None,
            operational: true,
        };
        assert_eq!(states[0], full);
        assert_eq!(
            (states[2].entry_latency_us, states[2].exit_latency_us),
            (Some(5), Some(200))
        );
        assert!(states[2].operational);
        let idle = PowerState {
            id: 4,
            maximum_power_uw: Some(2_500),
            entry_latency_us: Some(500),
            exit_latency_us: Some(9_500),
            operational: false,
        };
        assert_eq!(states[4], idle);
    }

    #[test]
    fn a_controller_without_power_management_has_one_state() {
        let states = power_states(&vec![0; IDENTIFY_BYTES]).unwrap();
        assert_eq!(states.len(), 1);
        assert_eq!(states[0].maximum_power_uw, None);
    }

    #[test]
    fn autonomous_transitions_are_one_bit() {
        let mut identify = drive();
        assert_eq!(can_change_by_itself(&identify), Some(false));
        identify[265] = 1;
        assert_eq!(can_change_by_itself(&identify), Some(true));
        assert_eq!(can_change_by_itself(&[]), None);
    }

    #[test]
    fn garbage_is_no_table() {
        assert_eq!(power_states(&[]), None);
        assert_eq!(power_states(&drive()[..2048 + 33]), None);
        assert_eq!(power_states(&vec![0xff; IDENTIFY_BYTES]), None);
    }

    #[test]
    fn block_devices_are_told_by_their_controllers() {
        let folder = tempfile::tempdir().unwrap();
        for place in ["nvme0/nvme0n1", "nvme0/power", "nvme1/nvme1c1n2", "nvme1/ng1n2"] {
            std::fs::create_dir_all(folder.path().join("sys/class/nvme").join(place)).unwrap();
        }
        let found = sleepers(&Root::new(folder.path()));
        assert_eq!(found.keys().collect::<Vec<_>>(), ["nvme0n1", "nvme1n2"]);
        assert!(found["nvme0n1"]["power_states"].is_null());
    }

    #[test]
    fn tolerances() {
        assert_eq!(number_or_word("100000".into()), Value::from(100_000));
        assert_eq!(number_or_word("auto".into()), Value::from("auto"));
    }
}
