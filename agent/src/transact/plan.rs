// SPDX-License-Identifier: Apache-2.0
//! Plans: resolved, ordered steps. `docs/formats.md` describes the format.

use crate::bytes::Bytes;
use crate::error::{Error, Kind, Result};
use crate::transact::forms::{self, is_zram, Form};
use crate::transact::verify::Rule;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The schema of plans.
pub const SCHEMA: &str = "ktrial.plan/2";

/// The previous schema, which is still read; features that were removed are refused by name.
const SCHEMA_BEFORE: &str = "ktrial.plan/1";

/// Most steps of one plan.
const STEPS: usize = 4096;

/// Longest lease in seconds (a week).
const LEASE_SECONDS: u64 = 604_800;

/// Steps to carry out in order and undo in reverse.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Name and version of the format.
    pub schema: String,
    /// Title for people.
    #[serde(default)]
    pub title: String,
    /// How long the plan stays in force.
    #[serde(default)]
    pub lease: Lease,
    /// Whether to skip failed steps instead of undoing everything.
    #[serde(default)]
    pub keep_going: bool,
    /// Where the settings come from, in the head's own words: recorded, never acted on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sources: Option<Map<String, Value>>,
    /// Whether newer transactions may change the same knobs in spite of the lease.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stacks: bool,
    /// The steps.
    pub steps: Vec<Step>,
}

/// How long a transaction stays in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Lease {
    /// Until reverted; changes that are not files end with the next boot.
    #[default]
    Keep,
    /// Reverted after some seconds unless confirmed.
    UntilConfirmed {
        /// Seconds from the first write.
        seconds: u64,
    },
    /// Reverted when the session ends.
    WhileSession,
}

/// A step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Step {
    /// Write a knob.
    Write(Write),
    /// Put or remove a configuration file.
    File(FileStep),
    /// Set up or take down a zram device, usually with swap on it.
    Zram(ZramStep),
    /// Run an allowed program.
    Run(RunStep),
}

/// Writes a knob.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Write {
    /// Name of the knob, for messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub knob: Option<String>,
    /// File to write.
    pub path: String,
    /// Content that the file must have before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect: Option<Bytes>,
    /// Content to write.
    pub new: Bytes,
    /// How to compare the value read back.
    pub verify: Rule,
    /// Files whose value may change with this write.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub couples: Vec<String>,
    /// File that shows the mask actually in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effective: Option<String>,
}

/// Puts or removes a configuration file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileStep {
    /// File to put or remove.
    pub path: String,
    /// Required content before the step; empty: there must be no file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect: Option<Bytes>,
    /// Its content; none removes the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holds: Option<Form>,
    /// Its raw bytes: only in journals of older versions; no plan may have them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Bytes>,
    /// Kernel arguments in it that weaken the machine's protection, and that somebody has confirmed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub confirmed: Vec<String>,
    /// Permission bits as octal text.
    #[serde(default = "default_mode")]
    pub mode: String,
}

/// Sets up or takes down a zram device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZramStep {
    /// Device name; none creates a new device.
    pub device: Option<String>,
    /// Uncompressed size; 0 takes the device down.
    pub size_bytes: u64,
    /// Compression algorithm; none keeps the kernel's.
    #[serde(default)]
    pub algorithm: Option<String>,
    /// Swap priority; none leaves it to the kernel.
    #[serde(default)]
    pub priority: Option<i32>,
    /// Whether to swap to it. Only a new device may be used for something else.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub swap: bool,
}

/// Runs an allowed program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunStep {
    /// Program name and arguments.
    #[serde(rename = "do")]
    pub forward: Vec<String>,
    /// Program name and arguments that undo it.
    pub undo: Vec<String>,
    /// Whether the effect survives a reboot: only in journals of older versions.
    #[serde(default)]
    pub persistent: bool,
}

fn yes() -> bool {
    true
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_yes(value: &bool) -> bool {
    *value
}

fn default_mode() -> String {
    "0644".to_owned()
}

impl FileStep {
    /// Returns the permission bits as a number.
    #[must_use]
    pub fn mode_bits(&self) -> Option<u32> {
        let plain = (3..=4).contains(&self.mode.len())
            && self.mode.bytes().all(|digit| (b'0'..=b'7').contains(&digit));
        let bits = plain.then(|| u32::from_str_radix(&self.mode, 8).ok()).flatten()?;
        (bits & !0o777 == 0).then_some(bits)
    }

    /// Returns the file's bytes; None if the step removes it.
    #[must_use]
    pub fn bytes(&self) -> Option<Bytes> {
        let Some(form) = &self.holds else {
            return self.content.clone();
        };
        form.render_over(self.expect.as_ref())
            .map(|text| Bytes(text.into_bytes()))
    }

    /// Whether the owner may read the file, nobody else write it, and nobody run it.
    fn has_plain_mode(&self) -> bool {
        self.mode_bits()
            .is_some_and(|bits| bits & !0o644 == 0 && bits & 0o400 != 0)
    }
}

impl Step {
    /// Returns the path that the step is about: `/sys/block/zram0` for zram, the program for `run`.
    #[must_use]
    pub fn path(&self) -> String {
        match self {
            Self::Write(write) => write.path.clone(),
            Self::File(file) => file.path.clone(),
            Self::Zram(zram) => match &zram.device {
                Some(device) => format!("/sys/block/{device}"),
                None => "/sys/class/zram-control/hot_add".to_owned(),
            },
            Self::Run(run) => run.forward.first().cloned().unwrap_or_default(),
        }
    }

    /// Returns the knob's name if the step has one.
    #[must_use]
    pub fn knob(&self) -> Option<&str> {
        match self {
            Self::Write(write) => write.knob.as_deref(),
            _ => None,
        }
    }

    /// Whether the effect survives a reboot.
    #[must_use]
    pub fn is_persistent(&self) -> bool {
        match self {
            Self::Write(_) | Self::Zram(_) => false,
            Self::File(_) => true,
            Self::Run(run) => run.persistent,
        }
    }

    /// Returns the paths that the step writes or may change.
    #[must_use]
    pub fn touches(&self) -> Vec<String> {
        let mut paths = vec![self.path()];
        match self {
            Self::Write(write) => paths.extend(write.couples.iter().cloned()),
            Self::Run(_) => paths.clear(),
            Self::File(_) | Self::Zram(_) => {}
        }
        paths
    }
}

impl Plan {
    /// Reads a plan from JSON.
    ///
    /// # Errors
    ///
    /// `bad-request`, naming the wrong field or step.
    pub fn from_value(value: Value) -> Result<Self> {
        let schema = value.get("schema").and_then(Value::as_str).unwrap_or_default();
        if ![SCHEMA, SCHEMA_BEFORE].contains(&schema) {
            return Err(
                Error::new(Kind::BadRequest, format!("plan: unknown schema {schema:?}"))
                    .hint(format!("create the plan again; this agent reads {SCHEMA:?}")),
            );
        }
        refuse_free_bytes(&value)?;
        let plan: Self = serde_json::from_value(value)
            .map_err(|error| Error::new(Kind::BadRequest, format!("plan: {error}")))?;
        plan.check()?;
        Ok(plan)
    }

    /// Reads a plan from JSON text.
    ///
    /// # Errors
    ///
    /// As for [`Plan::from_value`].
    pub fn from_text(text: &[u8]) -> Result<Self> {
        let value: Value = serde_json::from_slice(text)
            .map_err(|error| Error::new(Kind::BadRequest, format!("plan: not JSON: {error}")))?;
        Self::from_value(value)
    }

    /// Whether every step that may change this path writes a knob, and there is one.
    #[must_use]
    pub fn is_knob(&self, path: &str) -> bool {
        let touches = |step: &&Step| step.touches().iter().any(|touched| touched == path);
        let mut steps = self.steps.iter().filter(touches).peekable();
        steps.peek().is_some() && steps.all(|step| matches!(step, Step::Write(_)))
    }

    fn check(&self) -> Result<()> {
        let bad = |step: usize, why: &str| Err(wrong(step, why));
        if self.steps.is_empty() || self.steps.len() > STEPS {
            return Err(Error::new(
                Kind::BadRequest,
                format!("plan: expected 1 to {STEPS} steps"),
            ));
        }
        if let Lease::UntilConfirmed { seconds } = self.lease {
            if seconds == 0 || seconds > LEASE_SECONDS {
                return Err(Error::new(
                    Kind::BadRequest,
                    format!("lease: expected 1 to {LEASE_SECONDS} seconds"),
                ));
            }
        }
        for (index, step) in self.steps.iter().enumerate() {
            match step {
                Step::Write(write) if write.new.is_empty() => return bad(index, "`new` may not be empty"),
                Step::File(file) if !file.has_plain_mode() => {
                    return bad(
                        index,
                        "`mode`: expected octal text such as \"0644\", with at most rw-r--r--",
                    );
                }
                Step::File(file) => {
                    if let Err(why) = forms::check(&file.path, file.holds.as_ref(), file.expect.as_ref()) {
                        return bad(index, &why);
                    }
                }
                Step::Zram(zram) if zram.device.as_deref().is_some_and(|name| !is_zram(name)) => {
                    return bad(index, "`device`: expected zram and a number");
                }
                Step::Zram(zram) if zram.device.is_none() && zram.size_bytes == 0 => {
                    return bad(index, "a new device needs `size_bytes`");
                }
                Step::Zram(zram) if !zram.swap && (zram.device.is_some() || zram.priority.is_some()) => {
                    return bad(
                        index,
                        "without `swap`, only a new device without `priority` is possible",
                    );
                }
                Step::Run(run) if run.forward.is_empty() || run.undo.is_empty() => {
                    return bad(index, "`do` and `undo` must name a program");
                }
                Step::Run(run) if run.persistent => {
                    return bad(index, "`persistent` is no longer supported");
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn wrong(step: usize, why: &str) -> Error {
    Error::new(Kind::BadRequest, format!("plan, step {step}: {why}"))
}

/// Refuses a plan of an older version that contains the bytes of a file: root would write whatever
/// they are.
fn refuse_free_bytes(plan: &Value) -> Result<()> {
    let steps = plan.get("steps").and_then(Value::as_array);
    let has_bytes = |step: &Value| {
        step.get("kind").and_then(Value::as_str) == Some("file") && step.get("content").is_some()
    };
    match steps.and_then(|steps| steps.iter().position(has_bytes)) {
        Some(step) => Err(wrong(step, "the `content` of a file is no longer supported")
            .hint("list its settings in `holds` (sysctl.d, tmpfiles.d, modprobe.d, udev, zram-generator, systemd-unit, grub.d)")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn step(step: &Value) -> Result<Plan> {
        Plan::from_value(json!({"schema": SCHEMA, "steps": [step]}))
    }

    fn file(path: &str, more: &Value) -> Value {
        let mut step = json!({"kind": "file", "path": path,
            "holds": {"sysctl.d": [{"path": "/proc/sys/vm/swappiness", "value": "10"}]}});
        step.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        step
    }

    #[test]
    fn a_file_is_plain_and_holds_what_its_kind_may() {
        for mode in ["0644", "644", "0600", "0440"] {
            let plan = step(&file("/etc/sysctl.d/ktrial.conf", &json!({ "mode": mode }))).unwrap();
            let Step::File(file) = &plan.steps[0] else {
                panic!("{plan:?}");
            };
            assert_eq!(file.bytes(), Some("vm.swappiness = 10\n".into()));
        }
        let plan =
            step(&json!({"kind": "file", "path": "/etc/tmpfiles.d/ktrial.conf", "holds": null})).unwrap();
        assert!(matches!(&plan.steps[0], Step::File(file) if file.bytes().is_none()));
    }

    #[test]
    fn plans_of_the_version_before_are_read_but_for_bytes_of_files() {
        let steps = |step: Value| json!({"schema": SCHEMA_BEFORE, "steps": [step]});
        let write = json!({"kind": "write", "path": "/x", "new": "1", "verify": "integer"});
        assert!(Plan::from_value(steps(write)).is_ok());
        for content in [
            json!("vm.swappiness = 10\n"),
            json!({"base64": "AA=="}),
            json!(null),
        ] {
            let step = json!({"kind": "file", "path": "/etc/sysctl.d/ktrial.conf", "content": content});
            let error = Plan::from_value(steps(step)).unwrap_err();
            assert_eq!(error.kind, Kind::BadRequest);
            assert!(
                error.message.contains("step 0: the `content` of a file"),
                "{error}"
            );
            assert!(error.hint.unwrap().contains("`holds`"));
        }
    }

    #[test]
    fn a_step_that_runs_a_program_names_it_and_its_undoing_and_is_not_persistent() {
        let run = |forward: Value, undo: Value, persistent: bool| {
            step(&json!({"kind": "run", "do": forward, "undo": undo, "persistent": persistent}))
        };
        let program = || json!(["systemctl", "stop", "irqbalance.service"]);
        assert!(run(program(), program(), false).is_ok());
        for (forward, undo, persistent, told) in [
            (json!([]), program(), false, "`do` and `undo` must name a program"),
            (program(), json!([]), false, "`do` and `undo` must name a program"),
            (program(), program(), true, "`persistent` is no longer"),
        ] {
            let error = run(forward, undo, persistent).unwrap_err();
            assert!(error.message.contains(told), "{error}");
        }
    }

    #[test]
    fn a_plan_has_defaults() {
        let plan = step(
            &json!({"kind": "write", "path": "/proc/sys/vm/swappiness", "new": "10\n", "verify": "integer"}),
        );
        let plan = plan.unwrap();
        assert_eq!(plan.lease, Lease::Keep);
        assert!(!plan.keep_going);
        assert_eq!(plan.steps[0].touches(), ["/proc/sys/vm/swappiness"]);
    }

    #[test]
    fn what_a_plan_says_about_its_sources_is_recorded_as_it_is() {
        let plan = |sources: Value| {
            let write = json!({"kind": "write", "path": "/x", "new": "1", "verify": "integer"});
            Plan::from_value(json!({"schema": SCHEMA, "sources": sources, "steps": [write]}))
        };
        let sources = json!({"profiles": {"own": [{"knob": "vm.swappiness", "value": 10}]}, "origins": {}});
        let recorded = serde_json::to_value(plan(sources.clone()).unwrap()).unwrap();
        assert_eq!(recorded["sources"], sources);
        assert!(plan(json!(null)).unwrap().sources.is_none());
        assert!(plan(json!(["own"])).is_err());
    }

    #[test]
    fn a_zram_device_is_new_or_named_and_swapped_to_unless_the_plan_says_otherwise() {
        for (good, told) in [
            (json!({"kind": "zram", "device": "zram0", "size_bytes": 0}), None),
            (
                json!({"kind": "zram", "device": null, "size_bytes": 4096, "priority": 5}),
                None,
            ),
            (
                json!({"kind": "zram", "device": null, "size_bytes": 4096, "swap": false}),
                Some(&json!(false)),
            ),
        ] {
            let plan = step(&good).unwrap();
            let written = serde_json::to_value(&plan.steps[0]).unwrap();
            assert_eq!(written.get("swap"), told, "{good}");
            assert_eq!(step(&written).unwrap().steps, plan.steps);
        }
    }

    #[test]
    fn a_plan_and_a_lease_may_be_as_long_as_the_limit() {
        let write = json!({"kind": "write", "path": "/x", "new": "1", "verify": "integer"});
        let of = |steps: usize, seconds: u64| {
            let lease = json!({"kind": "until-confirmed", "seconds": seconds});
            let plan = json!({"schema": SCHEMA, "lease": lease, "steps": vec![write.clone(); steps]});
            Plan::from_value(plan).map_err(|error| error.message)
        };
        assert!(of(STEPS, 1).is_ok());
        assert_eq!(of(STEPS + 1, 1).unwrap_err(), "plan: expected 1 to 4096 steps");
        assert!(of(1, LEASE_SECONDS).is_ok());
        assert_eq!(
            of(1, LEASE_SECONDS + 1).unwrap_err(),
            "lease: expected 1 to 604800 seconds"
        );
    }

    #[test]
    fn what_is_unknown_or_wrong_is_refused() {
        for bad in [
            json!({"kind": "write", "path": "/x", "new": "1", "verify": "integer", "colour": 1}),
            json!({"kind": "write", "path": "/x", "new": "1"}),
            json!({"kind": "write", "path": "/x", "new": "", "verify": "integer"}),
            file("/etc/sysctl.d/ktrial.conf", &json!({"mode": "9"})),
            file("/etc/sysctl.d/ktrial.conf", &json!({"mode": "4644"})),
            file("/etc/sysctl.d/ktrial.conf", &json!({"mode": "00644"})),
            file("/etc/sysctl.d/ktrial.conf", &json!({"mode": "+644"})),
            file("/etc/sysctl.d/ktrial.conf", &json!({"mode": "0755"})),
            file("/etc/sysctl.d/ktrial.conf", &json!({"mode": "0666"})),
            file("/etc/sysctl.d/ktrial.conf", &json!({"mode": "0664"})),
            file("/etc/sysctl.d/ktrial.conf", &json!({"mode": "0044"})),
            file("/etc/systemd/system/ktrial.service", &json!({})),
            file("/etc/sysctl.d/ktrial.conf", &json!({"holds": {"sysctl.d": []}})),
            file(
                "/etc/sysctl.d/ktrial.conf",
                &json!({"holds": {"systemd": ["ExecStart=/bin/sh"]}}),
            ),
            file(
                "/etc/sysctl.d/ktrial.conf",
                &json!({"holds": null, "content": "vm.swappiness = 10"}),
            ),
            json!({"kind": "zram", "device": "sda", "size_bytes": 1}),
            json!({"kind": "zram", "device": null, "size_bytes": 0}),
            json!({"kind": "zram", "device": "zram0", "size_bytes": 4096, "swap": false}),
            json!({"kind": "zram", "device": null, "size_bytes": 4096, "swap": false, "priority": 5}),
            json!({"kind": "run", "do": [], "undo": ["x"]}),
            json!({"kind": "run", "do": ["systemctl", "stop", "tuned"], "undo": ["systemctl", "start", "tuned"], "persistent": true}),
            json!({"kind": "dance"}),
            json!(1),
        ] {
            assert_eq!(step(&bad).unwrap_err().kind, Kind::BadRequest, "{bad}");
        }
        for bad in [
            json!({"schema": "ktrial.plan/3", "steps": [{"kind": "zram", "device": "zram0", "size_bytes": 0}]}),
            json!({"schema": SCHEMA, "steps": []}),
            json!({"schema": SCHEMA, "steps": [], "x": 1}),
            json!({"schema": SCHEMA, "lease": {"kind": "until-confirmed", "seconds": 0}, "steps": [{"kind": "zram", "device": "zram0", "size_bytes": 0}]}),
            json!([]),
        ] {
            assert_eq!(Plan::from_value(bad).unwrap_err().kind, Kind::BadRequest);
        }
    }
}
