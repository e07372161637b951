// SPDX-License-Identifier: Apache-2.0
//! Knobs that root has added: `/etc/ktrial/knobs.d/*.toml`, in the catalog's format. The agent uses
//! only their paths, and ignores files that somebody other than root could have written.

use super::lists::KNOBS;
use super::never_written;
use super::pattern::any;
use crate::root::Root;
use rustix::fs::{fstat, openat, statat, AtFlags, Dir, FileType, Mode, OFlags, RawMode, Stat};
use rustix::io::Errno;
use serde::Deserialize;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;

/// The folder of the files.
pub const FOLDER: &str = "/etc/ktrial/knobs.d";

const LARGEST_BYTES: u64 = 256 << 10;
const MOST_FILES: usize = 256;
const OTHERS_WRITE: RawMode = 0o022;

/// The paths that the files add, and why some files were ignored.
#[derive(Debug, Default)]
pub struct Added {
    /// Patterns of writable paths.
    pub written: Vec<String>,
    /// Patterns of further readable paths.
    pub read: Vec<String>,
    /// Words of the kernel's command line.
    pub words: Vec<String>,
    /// Why files or places were ignored.
    pub passed_over: Vec<String>,
}

impl Added {
    /// Says why a path is not allowed, with the reasons why files were ignored.
    pub fn why_not(&self, otherwise: &str) -> String {
        let mut text = format!("{otherwise}, and no file in {FOLDER} adds it");
        for sentence in &self.passed_over {
            text.push_str("; ignored: ");
            text.push_str(sentence);
        }
        text
    }
}

#[derive(Deserialize)]
struct KnobFile {
    #[serde(default)]
    knob: Vec<Knob>,
}

#[derive(Deserialize)]
struct Knob {
    id: String,
    kind: String,
    #[serde(default)]
    places: Vec<String>,
    effective: Option<String>,
    offers: Option<String>,
}

impl Knob {
    /// Returns the knob's files; a sysctl without places has its own file.
    fn files(&self) -> Vec<String> {
        if self.places.is_empty() && self.kind == "sysctl" {
            return vec![format!("/proc/sys/{}", self.id.replace('.', "/"))];
        }
        self.places.clone()
    }
}

/// Reads the folder on the machine at `root`.
pub fn read(root: &Root) -> Added {
    let mut added = Added::default();
    match open_folder(root) {
        Ok(Some(folder)) => read_folder(&folder, &mut added),
        Ok(None) => {}
        Err(why) => added.passed_over.push(why),
    }
    added
}

/// Opens the folder step by step, without following links, and checks that only root could have
/// changed it.
fn open_folder(root: &Root) -> Result<Option<OwnedFd>, String> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut path = String::from("/");
    let mut folder =
        rustix::fs::open(root.base(), flags, Mode::empty()).map_err(|errno| failed(&path, errno))?;
    for component in FOLDER.split('/').skip(1) {
        trusted(&folder, &path)?;
        path = format!("{}/{component}", path.trim_end_matches('/'));
        folder = match openat(&folder, component, flags | OFlags::NOFOLLOW, Mode::empty()) {
            Ok(opened) => opened,
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::NOTDIR | Errno::LOOP) => return Err(format!("{path} is not a folder")),
            Err(errno) => return Err(failed(&path, errno)),
        };
    }
    trusted(&folder, &path)?;
    Ok(Some(folder))
}

fn failed(path: &str, errno: Errno) -> String {
    format!("cannot read {path}: {}", std::io::Error::from(errno))
}

fn trusted(file: &OwnedFd, path: &str) -> Result<(), String> {
    let found = fstat(file).map_err(|errno| failed(path, errno))?;
    check_owner(&found, path)
}

/// Refuses a file that somebody other than root, or the agent's own user, could have written.
fn check_owner(found: &Stat, path: &str) -> Result<(), String> {
    if ![0, rustix::process::geteuid().as_raw()].contains(&found.st_uid) {
        return Err(format!("{path} is owned by user {}, not by root", found.st_uid));
    }
    if found.st_mode & OTHERS_WRITE != 0 {
        return Err(format!("{path} is writable by others than root"));
    }
    Ok(())
}

fn read_folder(folder: &OwnedFd, added: &mut Added) {
    let names = match names(folder) {
        Ok(names) => names,
        Err(errno) => return added.passed_over.push(failed(FOLDER, errno)),
    };
    if names.len() > MOST_FILES {
        added.passed_over.push(format!(
            "{FOLDER} has more than {MOST_FILES} files; ktrial reads no more"
        ));
    }
    for name in names.iter().take(MOST_FILES) {
        let path = format!("{FOLDER}/{name}");
        match read_file(folder, name, &path).and_then(|text| parse(&text, &path)) {
            Ok(knobs) => knobs.iter().for_each(|knob| take(knob, &path, added)),
            Err(why) => added.passed_over.push(why),
        }
    }
}

fn names(folder: &OwnedFd) -> Result<Vec<String>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if !name.starts_with('.') && name.strip_suffix(".toml").is_some() {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

fn read_file(folder: &OwnedFd, name: &str, path: &str) -> Result<Vec<u8>, String> {
    let refuse = |errno| failed(path, errno);
    // Check before opening: opening a device can have side effects.
    check_file(
        &statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).map_err(refuse)?,
        path,
    )?;
    let file = open_file(folder, name).map_err(refuse)?;
    check_file(&fstat(&file).map_err(refuse)?, path)?;
    let mut text = Vec::new();
    let limited = File::from(file).take(LARGEST_BYTES + 1).read_to_end(&mut text);
    limited.map_err(|error| format!("cannot read {path}: {error}"))?;
    if text.len() as u64 > LARGEST_BYTES {
        return Err(format!("{path} exceeds {LARGEST_BYTES} bytes"));
    }
    Ok(text)
}

/// Opens a file whatever it has become since it was checked, without following a link or blocking.
fn open_file(folder: &OwnedFd, name: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    openat(folder, name, flags, Mode::empty())
}

fn check_file(found: &Stat, path: &str) -> Result<(), String> {
    match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => check_owner(found, path),
        FileType::Symlink => Err(format!("{path} is a symbolic link")),
        _ => Err(format!("{path} is not a regular file")),
    }
}

fn parse(text: &[u8], path: &str) -> Result<Vec<Knob>, String> {
    let file: KnobFile =
        basic_toml::from_slice(text).map_err(|error| format!("cannot parse {path}: {error}"))?;
    Ok(file.knob)
}

fn take(knob: &Knob, path: &str, added: &mut Added) {
    if knob.kind == "boot" {
        added
            .words
            .extend(knob.id.strip_prefix("boot:").map(str::to_owned));
    }
    for place in knob.files() {
        match pattern(&place) {
            Ok(pattern) => added.written.push(pattern),
            Err(why) => added
                .passed_over
                .push(format!("{path}: {}: the place {place:?} {why}", knob.id)),
        }
    }
    let beside = [&knob.effective, &knob.offers];
    let patterns = beside
        .into_iter()
        .flatten()
        .filter_map(|place| pattern(place).ok());
    added.read.extend(patterns);
}

/// Converts a place to a pattern: each `{name}` stands for one component, `{slice}` for one or
/// more.
fn pattern(place: &str) -> Result<String, &'static str> {
    let mut components = Vec::new();
    for component in place
        .strip_prefix('/')
        .ok_or("is not an absolute path")?
        .split('/')
    {
        components.push(match component {
            "{slice}" => "**".to_owned(),
            "" | "." | ".." => return Err("has an empty part, `.` or `..`"),
            _ => with_star(component)?,
        });
    }
    let pattern = format!("/{}", components.join("/"));
    if !any(KNOBS, &pattern) {
        return Err("is not in a folder of knobs");
    }
    if never_written(&pattern) {
        return Err("is a path that ktrial never writes");
    }
    Ok(pattern)
}

/// Replaces each `{name}` in a component by `*`.
fn with_star(component: &str) -> Result<String, &'static str> {
    let plain = |text: &str| {
        let has = text.contains(['*', '}', '\0']);
        (!has).then_some(()).ok_or("contains a `*` or an unmatched brace")
    };
    let mut pieces = component.split('{');
    let mut found = pieces.next().unwrap_or_default().to_owned();
    plain(&found)?;
    for piece in pieces {
        let (name, after) = piece.split_once('}').ok_or("contains an unmatched brace")?;
        if name.is_empty() || !name.bytes().all(|letter| letter.is_ascii_lowercase()) {
            return Err("contains braces around something other than a name");
        }
        plain(after)?;
        found.push('*');
        found.push_str(after);
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
