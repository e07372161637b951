// SPDX-License-Identifier: Apache-2.0
//! The configuration files that a plan may write: kinds of files and their keys. The agent renders
//! them; a plan never contains the bytes of a file. `docs/formats.md` lists the kinds.

use crate::bytes::Bytes;
use crate::transact::allow::Purpose;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

mod boot;
mod device;
mod drift;
mod grub;
mod notes;
mod places;
mod scheduler;
mod udev;
mod unit;
mod words;

pub use boot::{
    BootEntry, BootLimit, BootNext, HEADER as BOOT_HEADER, KEXEC_FOLDER, REHEARSAL, STARTED, WORD,
};
pub use device::is_zram;
pub use drift::Watch;
pub use grub::{DefaultKernel, GrubLine, Removal};
use places::KINDS;
pub use scheduler::{LoaderDefault, ServiceScheduler};
pub use words::Word;

/// Longest value; udev ignores lines longer than 16 KiB.
const VALUE_BYTES: usize = 1024;
const LINE_BYTES: usize = 8192;

/// Longest file.
const FILE_BYTES: usize = 256 << 10;

/// Allowed besides letters and digits: no reader of these files takes them for a quote, escape,
/// comment or specifier.
const IN_VALUES: &str = " _.,:/+=-";
const IN_NAMES: &str = "_.:+-";

/// The content of a configuration file, by kind of file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Form {
    /// Kernel settings, written at every boot.
    #[serde(rename = "sysctl.d")]
    Sysctl(Vec<Setting>),
    /// Files written at every boot.
    #[serde(rename = "tmpfiles.d")]
    Tmpfiles(Vec<Setting>),
    /// Module parameters, applied when the module is loaded.
    #[serde(rename = "modprobe.d")]
    Modprobe(Vec<Parameter>),
    /// Device attributes, set when the device appears.
    #[serde(rename = "udev")]
    Udev(Vec<Rule>),
    /// Swap in compressed memory, set up at every boot.
    #[serde(rename = "zram-generator")]
    ZramGenerator(Vec<Device>),
    /// Files that a unit writes at every boot, for what no other kind reaches.
    #[serde(rename = "systemd-unit")]
    Unit(Vec<Setting>),
    /// The unit that a target starts.
    #[serde(rename = "systemd-wants")]
    Wants(String),
    /// What GRUB adds to and removes from the kernel's command line, and what it boots by default.
    #[serde(rename = "grub.d")]
    Grub(Vec<GrubLine>),
    /// The service that compares kept settings with what is live.
    #[serde(rename = "drift-service")]
    DriftService(Watch),
    /// The timer of that service.
    #[serde(rename = "drift-timer")]
    DriftTimer(String),
    /// Entries of GRUB for one boot each.
    #[serde(rename = "grub-entries")]
    GrubEntries(Vec<BootEntry>),
    /// An entry of systemd-boot for one boot.
    #[serde(rename = "boot-entry")]
    BootEntry(Box<BootEntry>),
    /// The service that judges a boot of such an entry.
    #[serde(rename = "boot-service")]
    BootService(BootLimit),
    /// The service that continues after each boot.
    #[serde(rename = "boot-next")]
    BootNext(BootNext),
    /// What `scx_loader` starts at boot; None removes ktrial's lines.
    #[serde(rename = "scx-loader")]
    ScxLoader(Option<LoaderDefault>),
    /// What `scx.service` starts at boot; None removes ktrial's lines.
    #[serde(rename = "scx-service")]
    ScxService(Option<ServiceScheduler>),
}

/// A value for one of the kernel's files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    /// The file.
    pub path: String,
    /// The value.
    pub value: String,
    /// Why it is there: each line becomes a comment above it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub note: Vec<String>,
}

/// A module parameter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameter {
    /// The module.
    pub module: String,
    /// The parameter.
    pub parameter: String,
    /// The value.
    pub value: String,
    /// Why it is there: each line becomes a comment above it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub note: Vec<String>,
}

/// Attributes for matching devices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Which devices: `ACTION`, `SUBSYSTEM`, `KERNEL` and `ATTR{…}`, each with a pattern.
    #[serde(rename = "match")]
    pub matches: BTreeMap<String, String>,
    /// Attributes to set, in order.
    pub set: Vec<Attribute>,
    /// Why it is there: each line becomes a comment above it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub note: Vec<String>,
}

/// A file in a device's folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attribute {
    /// The file in the device's folder.
    pub attribute: String,
    /// The value.
    pub value: String,
}

/// A device of zram-generator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Device {
    /// `zram` and a number.
    pub device: String,
    /// Its size in MiB, as an expression of `ram`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zram_size: Option<String>,
    /// Compression algorithm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compression_algorithm: Option<String>,
    /// Swap priority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub swap_priority: Option<i32>,
    /// Memory of the machine in MiB above which no device is created, or `none`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_memory_limit: Option<String>,
    /// The most memory in MiB that the device may use, as an expression of `ram`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zram_resident_limit: Option<String>,
    /// Why it is there: each line becomes a comment above it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub note: Vec<String>,
}

/// A write or read that a file causes. Which of the places it touches depends on the device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reach {
    /// Paths of the machine; `*` stands for any device name.
    pub places: Vec<String>,
    /// What is done to the path.
    pub purpose: Purpose,
}

type Checked = Result<(), String>;

/// Refuses a file that a plan may not write or remove at a path.
///
/// # Errors
///
/// The reason.
pub fn check(path: &str, form: Option<&Form>, expect: Option<&Bytes>) -> Checked {
    let Some(kind) = KINDS.iter().find(|kind| kind.has(path)) else {
        let places = KINDS.map(|kind| kind.places());
        return Err(format!(
            "{path:?}: a plan may not write files here, only {}",
            places.join(", ")
        ));
    };
    let name = path.rsplit('/').next().unwrap_or_default();
    made_of("the file name", name, IN_NAMES)?;
    match form {
        Some(form) if form.name() != kind.name => Err(format!(
            "{path}: expected content of kind {}, got {}",
            kind.name,
            form.name()
        )),
        Some(Form::Wants(unit)) => unit::check_wants(path, unit),
        Some(Form::BootEntry(entry)) => boot::check_entry(path, entry),
        Some(form) => form.check(expect),
        None if kind.is_shared() => Err(format!("{path}: a plan may not remove this file")),
        None => Ok(()),
    }
}

impl Form {
    fn name(&self) -> &'static str {
        match self {
            Self::Sysctl(_) => KINDS[0].name,
            Self::Tmpfiles(_) => KINDS[1].name,
            Self::Modprobe(_) => KINDS[2].name,
            Self::Udev(_) => KINDS[3].name,
            Self::ZramGenerator(_) => KINDS[4].name,
            Self::Unit(_) => KINDS[5].name,
            Self::Wants(_) => KINDS[6].name,
            Self::Grub(_) => KINDS[7].name,
            Self::DriftService(_) => KINDS[8].name,
            Self::DriftTimer(_) => KINDS[9].name,
            Self::GrubEntries(_) => "grub-entries",
            Self::BootEntry(_) => "boot-entry",
            Self::BootService(_) => "boot-service",
            Self::BootNext(_) => "boot-next",
            Self::ScxLoader(_) => "scx-loader",
            Self::ScxService(_) => "scx-service",
        }
    }

    fn check(&self, expect: Option<&Bytes>) -> Checked {
        match self {
            Self::Sysctl(settings) => all(settings, Setting::check_sysctl),
            Self::Tmpfiles(settings) | Self::Unit(settings) => all(settings, Setting::check_tmpfiles),
            Self::Modprobe(parameters) => all(parameters, Parameter::check),
            Self::Udev(rules) => all(rules, Rule::check),
            Self::ZramGenerator(devices) => all(devices, Device::check),
            // Checked with their path.
            Self::Wants(_) | Self::BootEntry(_) => Ok(()),
            Self::Grub(lines) => all(lines, GrubLine::check).and_then(|()| grub::check(lines)),
            Self::DriftService(watch) => watch.check(),
            Self::DriftTimer(calendar) => drift::check_calendar(calendar),
            Self::GrubEntries(entries) => boot::check_entries(entries),
            Self::BootService(limit) => limit.check(),
            Self::BootNext(next) => next.check(),
            Self::ScxLoader(kept) => kept.as_ref().map_or(Ok(()), LoaderDefault::check),
            Self::ScxService(kept) => kept.as_ref().map_or(Ok(()), ServiceScheduler::check),
        }?;
        self.check_old(expect)?;
        self.notes().into_iter().try_for_each(notes::check)?;
        self.check_once()?;
        let text = self.render_over(expect).unwrap_or_default();
        if text.len() > FILE_BYTES {
            return Err(format!("the file would exceed {FILE_BYTES} bytes"));
        }
        match text.lines().find(|line| line.len() > LINE_BYTES) {
            Some(_) => Err(format!("a line would exceed {LINE_BYTES} bytes")),
            None => Ok(()),
        }
    }

    /// Refuses duplicate keys: readers differ in which of two counts.
    fn check_once(&self) -> Checked {
        let keys: Vec<String> = match self {
            Self::Sysctl(settings) | Self::Tmpfiles(settings) | Self::Unit(settings) => {
                settings.iter().map(|setting| setting.path.clone()).collect()
            }
            Self::Modprobe(parameters) => parameters.iter().map(Parameter::path).collect(),
            Self::ZramGenerator(devices) => devices.iter().map(|device| device.device.clone()).collect(),
            Self::Grub(lines) => lines.iter().map(GrubLine::key).collect(),
            _ => Vec::new(),
        };
        let mut seen = BTreeSet::new();
        match keys.iter().find(|key| !seen.insert(*key)) {
            Some(key) => Err(format!("{key}: given twice")),
            None => Ok(()),
        }
    }

    /// Returns the writes and reads that the file causes.
    #[must_use]
    pub fn reaches(&self) -> Vec<Reach> {
        let write = |path: String| Reach {
            places: vec![path],
            purpose: Purpose::Write,
        };
        match self {
            Self::Sysctl(settings) | Self::Tmpfiles(settings) | Self::Unit(settings) => settings
                .iter()
                .map(|setting| write(setting.path.clone()))
                .collect(),
            Self::Modprobe(parameters) => parameters.iter().map(|one| write(one.path())).collect(),
            Self::Udev(rules) => rules.iter().flat_map(Rule::reaches).collect(),
            _ => Vec::new(),
        }
    }

    /// Returns the program that its reader runs, and the user as whom it runs.
    #[must_use]
    pub fn program(&self) -> Option<(&str, u32)> {
        match self {
            Self::DriftService(watch) => Some((&watch.program, 0)),
            Self::BootNext(BootNext { trial: Some(trial) }) => Some((&trial.program, trial.user)),
            _ => None,
        }
    }

    /// Returns the words that it adds to the kernel's command line.
    #[must_use]
    pub fn words(&self) -> Vec<&Word> {
        match self {
            Self::Grub(lines) => grub::words(lines).collect(),
            _ => self.entries().iter().flat_map(|one| &one.words).collect(),
        }
    }

    /// Returns the words that it removes from the kernel's command line for good.
    #[must_use]
    pub fn removals(&self) -> Vec<&Removal> {
        match self {
            Self::Grub(lines) => grub::removals(lines).collect(),
            _ => Vec::new(),
        }
    }

    /// Returns the kernel that it makes the default one.
    #[must_use]
    pub fn default_kernel(&self) -> Option<&DefaultKernel> {
        match self {
            Self::Grub(lines) => grub::default_kernel(lines),
            _ => None,
        }
    }

    /// Returns the units that must be active for a boot to be healthy.
    #[must_use]
    pub fn guards(&self) -> &[String] {
        match self {
            Self::BootService(limit) => &limit.guards,
            _ => &[],
        }
    }

    /// Returns its entries for one boot each.
    #[must_use]
    pub fn entries(&self) -> &[BootEntry] {
        match self {
            Self::GrubEntries(entries) => entries,
            Self::BootEntry(entry) => std::slice::from_ref(&**entry),
            _ => &[],
        }
    }

    /// Returns the note of each entry, in order.
    fn notes(&self) -> Vec<&[String]> {
        match self {
            Self::Sysctl(settings) | Self::Tmpfiles(settings) | Self::Unit(settings) => {
                settings.iter().map(|one| one.note.as_slice()).collect()
            }
            Self::Modprobe(parameters) => parameters.iter().map(|one| one.note.as_slice()).collect(),
            Self::Udev(rules) => rules.iter().map(|one| one.note.as_slice()).collect(),
            Self::ZramGenerator(devices) => devices.iter().map(|one| one.note.as_slice()).collect(),
            Self::Grub(lines) => lines.iter().map(GrubLine::note).collect(),
            _ => Vec::new(),
        }
    }

    /// Renders the file. Without notes it contains only the entries, as in older journals.
    #[must_use]
    pub fn render(&self) -> String {
        let entries: Vec<String> = match self {
            Self::Sysctl(settings) => settings.iter().map(Setting::sysctl).collect(),
            Self::Tmpfiles(settings) => settings.iter().map(Setting::tmpfiles).collect(),
            Self::Modprobe(parameters) => parameters.iter().map(Parameter::line).collect(),
            Self::Udev(rules) => rules.iter().map(Rule::line).collect(),
            Self::ZramGenerator(devices) => devices.iter().map(Device::section).collect(),
            Self::Unit(settings) => return unit::render(settings),
            Self::Wants(unit) => return unit::wants(unit),
            Self::DriftService(watch) => return watch.render(),
            Self::DriftTimer(calendar) => return drift::timer(calendar),
            Self::GrubEntries(entries) => return boot::render_entries(entries),
            Self::BootEntry(entry) => return boot::render_entry(entry),
            Self::BootService(limit) => return limit.render(),
            Self::BootNext(next) => return next.render(),
            Self::Grub(lines) => return grub::render(lines),
            Self::ScxLoader(_) | Self::ScxService(_) => return self.render_over(None).unwrap_or_default(),
        };
        notes::above(&self.notes(), &entries)
    }
}

fn all<Entry>(entries: &[Entry], check: fn(&Entry) -> Checked) -> Checked {
    if entries.is_empty() {
        return Err("the file would be empty; set `holds` to null to remove it".to_owned());
    }
    entries.iter().try_for_each(check)
}

/// Refuses a text that is empty, too long, or contains anything but ASCII letters, digits and
/// `more`.
fn made_of(what: &str, text: &str, more: &str) -> Checked {
    let fits = |character: char| character.is_ascii_alphanumeric() || more.contains(character);
    if text.is_empty() || text.len() > VALUE_BYTES {
        return Err(format!("{what}: expected 1 to {VALUE_BYTES} bytes"));
    }
    if text.chars().all(fits) {
        return Ok(());
    }
    Err(format!(
        "{what}: expected letters, digits and `{more}`, got {text:?}"
    ))
}

fn check_value(of: &str, value: &str, more: &str) -> Checked {
    let what = format!("the value of {of}");
    made_of(&what, value, more)?;
    if value.trim() == value {
        return Ok(());
    }
    Err(format!(
        "{what}: expected no space at the beginning or end, got {value:?}"
    ))
}

/// Refuses anything but a plain relative path.
fn check_components(path: &str, rest: &str) -> Checked {
    for component in rest.split('/') {
        made_of(&format!("each part of {path:?}"), component, IN_NAMES)?;
        if component.starts_with(['.', '-']) {
            return Err(format!("{path:?}: no part may begin with `.` or `-`"));
        }
    }
    Ok(())
}

impl Parameter {
    fn check(&self) -> Checked {
        made_of("the module name", &self.module, "_-")?;
        if self.module.starts_with('-') {
            return Err(format!("{:?} is not a module name", self.module));
        }
        made_of("the parameter name", &self.parameter, "_")?;
        check_value(
            &format!("{}.{}", self.module, self.parameter),
            &self.value,
            "_.,:/+-",
        )
    }

    fn path(&self) -> String {
        let module = self.module.replace('-', "_");
        format!("/sys/module/{module}/parameters/{}", self.parameter)
    }

    fn line(&self) -> String {
        format!("options {} {}={}\n", self.module, self.parameter, self.value)
    }
}

#[cfg(test)]
mod boot_tests;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod tests;
