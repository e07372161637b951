// SPDX-License-Identifier: Apache-2.0
//! Knobs that root has added: `/etc/ktrial/knobs.d/*.toml`, in the format of the catalog. Of each the agent takes the
//! paths alone. What another than root could have put there is passed over.

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

/// The folder.
pub const FOLDER: &str = "/etc/ktrial/knobs.d";

const LARGEST_BYTES: u64 = 256 << 10;
const MOST_FILES: usize = 256;
const OTHERS_WRITE: RawMode = 0o022;

/// What the files add, and why one adds nothing.
#[derive(Debug, Default)]
pub struct Added {
    /// Patterns of what may be written.
    pub written: Vec<String>,
    /// Patterns of what may be read beside.
    pub read: Vec<String>,
    /// Sentences on what was passed over.
    pub passed_over: Vec<String>,
}

impl Added {
    /// Why a path that they do not add is not allowed either, with what was passed over.
    pub fn why_not(&self, otherwise: &str) -> String {
        let mut text = format!("{otherwise}, and nothing in {FOLDER} adds it");
        for sentence in &self.passed_over {
            text.push_str("; passed over: ");
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
    /// Its files: a sysctl without places has its own one.
    fn files(&self) -> Vec<String> {
        if self.places.is_empty() && self.kind == "sysctl" {
            return vec![format!("/proc/sys/{}", self.id.replace('.', "/"))];
        }
        self.places.clone()
    }
}

/// Reads the folder of the machine at `root`.
pub fn read(root: &Root) -> Added {
    let mut added = Added::default();
    match open_folder(root) {
        Ok(Some(folder)) => read_folder(&folder, &mut added),
        Ok(None) => {}
        Err(why) => added.passed_over.push(why),
    }
    added
}

/// The folder, opened step by step: no link leads into it, and nobody but root could have changed it.
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
            Err(Errno::NOTDIR | Errno::LOOP) => return Err(format!("{path} is no folder")),
            Err(errno) => return Err(failed(&path, errno)),
        };
    }
    trusted(&folder, &path)?;
    Ok(Some(folder))
}

fn failed(path: &str, errno: Errno) -> String {
    format!("{path} cannot be read: {}", std::io::Error::from(errno))
}

fn trusted(file: &OwnedFd, path: &str) -> Result<(), String> {
    let found = fstat(file).map_err(|errno| failed(path, errno))?;
    check_owner(&found, path)
}

/// Refuses what another than root, or than the one as whom this agent runs, could have put there.
fn check_owner(found: &Stat, path: &str) -> Result<(), String> {
    if ![0, rustix::process::geteuid().as_raw()].contains(&found.st_uid) {
        return Err(format!("{path} belongs to user {}, not to root", found.st_uid));
    }
    if found.st_mode & OTHERS_WRITE != 0 {
        return Err(format!("{path} can be written by others than root"));
    }
    Ok(())
}

fn read_folder(folder: &OwnedFd, added: &mut Added) {
    let names = match names(folder) {
        Ok(names) => names,
        Err(errno) => return added.passed_over.push(failed(FOLDER, errno)),
    };
    if names.len() > MOST_FILES {
        added
            .passed_over
            .push(format!("{FOLDER} has more than {MOST_FILES} files: the rest"));
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
    // Looked at before it is opened: opening some devices does something.
    check_file(
        &statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).map_err(refuse)?,
        path,
    )?;
    let file = open_file(folder, name).map_err(refuse)?;
    check_file(&fstat(&file).map_err(refuse)?, path)?;
    let mut text = Vec::new();
    let limited = File::from(file).take(LARGEST_BYTES + 1).read_to_end(&mut text);
    limited.map_err(|error| format!("{path} cannot be read: {error}"))?;
    if text.len() as u64 > LARGEST_BYTES {
        return Err(format!("{path} has more than {LARGEST_BYTES} bytes"));
    }
    Ok(text)
}

/// Opens a file, whatever it has become since it was looked at: follows no link, waits for nobody.
fn open_file(folder: &OwnedFd, name: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    openat(folder, name, flags, Mode::empty())
}

fn check_file(found: &Stat, path: &str) -> Result<(), String> {
    match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => check_owner(found, path),
        FileType::Symlink => Err(format!("{path} is a link")),
        _ => Err(format!("{path} is no regular file")),
    }
}

fn parse(text: &[u8], path: &str) -> Result<Vec<Knob>, String> {
    let file: KnobFile =
        basic_toml::from_slice(text).map_err(|error| format!("{path} is no file of knobs: {error}"))?;
    Ok(file.knob)
}

fn take(knob: &Knob, path: &str, added: &mut Added) {
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

/// The pattern of a place: each `{name}` stands for one component, `{slice}` for one or more.
fn pattern(place: &str) -> Result<String, &'static str> {
    let mut components = Vec::new();
    for component in place.strip_prefix('/').ok_or("is no absolute path")?.split('/') {
        components.push(match component {
            "{slice}" => "**".to_owned(),
            "" | "." | ".." => return Err("has an empty part, `.` or `..`"),
            _ => with_star(component)?,
        });
    }
    let pattern = format!("/{}", components.join("/"));
    if !any(KNOBS, &pattern) {
        return Err("is outside the trees of knobs");
    }
    if never_written(&pattern) {
        return Err("is one that ktrial never writes");
    }
    Ok(pattern)
}

/// A component with `*` for each `{name}` in it.
fn with_star(component: &str) -> Result<String, &'static str> {
    let plain = |text: &str| {
        let has = text.contains(['*', '}', '\0']);
        (!has)
            .then_some(())
            .ok_or("has a `*`, or a brace without its partner")
    };
    let mut pieces = component.split('{');
    let mut found = pieces.next().unwrap_or_default().to_owned();
    plain(&found)?;
    for piece in pieces {
        let (name, after) = piece.split_once('}').ok_or("has a brace without its partner")?;
        if name.is_empty() || !name.bytes().all(|letter| letter.is_ascii_lowercase()) {
            return Err("has something else than a name in braces");
        }
        plain(after)?;
        found.push('*');
        found.push_str(after);
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
