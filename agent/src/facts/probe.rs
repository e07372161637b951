// SPDX-License-Identifier: Apache-2.0
//! Probes with three outcomes: a value, known to be absent, or unknown.

use std::fs;
use std::io;
use std::path::PathBuf;

use serde::Serialize;
use serde_json::Value;

use crate::root::Root;

/// A fact about a machine, as described in `docs/formats.md`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Fact {
    /// The value.
    Value(Value),
    /// Known not to exist here, and why.
    Absent(String),
    /// Unknown, and why.
    Unknown(String),
}

/// Why a probe has no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Miss {
    /// Known not to exist here.
    Absent(String),
    /// Unknown.
    Unknown(String),
}

/// A value, or why there is none.
pub type Probe<T> = Result<T, Miss>;

/// Returns a miss for something known not to exist.
pub fn absent<T>(why: impl Into<String>) -> Probe<T> {
    Err(Miss::Absent(why.into()))
}

/// Returns a miss for something unknown.
pub fn unknown<T>(why: impl Into<String>) -> Probe<T> {
    Err(Miss::Unknown(why.into()))
}

impl Miss {
    /// Interprets a failed open or read of `path`. A missing file means that the thing does not
    /// exist, unless the whole tree is missing.
    pub fn from_io(root: &Root, path: &str, error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => match missing_tree(root, path) {
                Some(tree) => Self::Unknown(format!("no {path}: nothing is mounted on {tree}")),
                None => Self::Absent(format!("no {path}")),
            },
            io::ErrorKind::PermissionDenied => Self::Unknown(format!("this session may not read {path}")),
            _ => Self::Unknown(format!("cannot read {path}: {error}")),
        }
    }

    /// Returns the reason.
    pub fn why(&self) -> &str {
        match self {
            Self::Absent(why) | Self::Unknown(why) => why,
        }
    }

    /// Turns the miss into an unknown, for cases in which a missing file doesn't mean that the
    /// thing is missing.
    pub fn into_unknown(self) -> Self {
        match self {
            Self::Absent(why) | Self::Unknown(why) => Self::Unknown(why),
        }
    }
}

/// Returns the kernel's tree of `path` if it is empty or missing.
fn missing_tree(root: &Root, path: &str) -> Option<&'static str> {
    let tree = ["/proc", "/sys"]
        .into_iter()
        .find(|tree| path.strip_prefix(tree).is_some_and(|rest| rest.starts_with('/')))?;
    let holds_something = fs::read_dir(root.path(tree)).is_ok_and(|mut entries| entries.next().is_some());
    (!holds_something).then_some(tree)
}

impl<T: Serialize> From<Probe<T>> for Fact {
    fn from(probe: Probe<T>) -> Self {
        match probe {
            Ok(value) => match serde_json::to_value(value) {
                Ok(value) => Self::Value(value),
                Err(error) => Self::Unknown(format!("cannot be written as JSON: {error}")),
            },
            Err(Miss::Absent(why)) => Self::Absent(why),
            Err(Miss::Unknown(why)) => Self::Unknown(why),
        }
    }
}

/// Reads a file's text, trimmed. An empty file is unknown: kernel files have content or don't
/// exist.
pub fn text(root: &Root, path: &str) -> Probe<String> {
    let text = root
        .read_text(path)
        .map_err(|error| Miss::from_io(root, path, &error))?;
    if text.is_empty() {
        return unknown(format!("{path} is empty"));
    }
    Ok(text)
}

/// Reads a number (decimal or 0x).
pub fn number(root: &Root, path: &str) -> Probe<i64> {
    let text = text(root, path)?;
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    parsed.ok_or_else(|| garbage(path, "a number", &text))
}

/// Reads a number that cannot be negative.
pub fn count(root: &Root, path: &str) -> Probe<u64> {
    let value = number(root, path)?;
    u64::try_from(value).map_err(|_| garbage(path, "a count", &value.to_string()))
}

/// Reads a switch: 1/0, Y/N, on/off, enabled/disabled.
pub fn switch(root: &Root, path: &str) -> Probe<bool> {
    let text = text(root, path)?;
    match text.as_str() {
        "1" | "Y" | "y" | "on" | "enabled" => Ok(true),
        "0" | "N" | "n" | "off" | "disabled" => Ok(false),
        _ => Err(garbage(path, "a switch", &text)),
    }
}

/// Reads a choice such as `none [mq-deadline] bfq`: the word in brackets, and all words.
pub fn choice(root: &Root, path: &str) -> Probe<(String, Vec<String>)> {
    let text = text(root, path)?;
    parse_choice(&text, '[', ']').ok_or_else(|| garbage(path, "a choice with one word in brackets", &text))
}

/// Parses a [`choice`] with any pair of brackets.
pub fn parse_choice(text: &str, open: char, close: char) -> Option<(String, Vec<String>)> {
    let mut chosen = None;
    let mut offered = Vec::new();
    for word in text.split_whitespace() {
        let inner = word.strip_prefix(open).and_then(|rest| rest.strip_suffix(close));
        if let Some(inner) = inner {
            chosen = Some(inner.to_owned());
        }
        offered.push(inner.unwrap_or(word).to_owned());
    }
    chosen.map(|chosen| (chosen, offered))
}

/// Reads a list of CPUs such as `0-3,8`, in order; at most 8192.
pub fn cpu_list(root: &Root, path: &str) -> Probe<Vec<u32>> {
    let text = text(root, path)?;
    parse_cpu_list(&text).ok_or_else(|| garbage(path, "a list of CPUs", &text))
}

/// Parses a [`cpu_list`].
pub fn parse_cpu_list(text: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for part in text.split([',', ' ', '\n']).filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if last >= 8192 || first > last {
            return None;
        }
        cpus.extend(first..=last);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Some(cpus)
}

/// Lists the names in a folder, in numeric order.
pub fn list(root: &Root, path: &str) -> Probe<Vec<String>> {
    let mut names = root
        .list(path)
        .map_err(|error| Miss::from_io(root, path, &error))?;
    names.sort_by_cached_key(|name| numeric_key(name));
    Ok(names)
}

/// Returns a sort key that puts `policy2` before `policy10`.
fn numeric_key(name: &str) -> (String, u64) {
    let digits_at = name
        .trim_end_matches(|letter: char| letter.is_ascii_digit())
        .len();
    (
        name[..digits_at].to_owned(),
        name[digits_at..].parse().unwrap_or(0),
    )
}

/// Whether something exists at the path, following links.
pub fn exists(root: &Root, path: &str) -> Probe<bool> {
    match fs::metadata(root.path(path)) {
        Ok(_) => Ok(true),
        Err(error) => match Miss::from_io(root, path, &error) {
            Miss::Absent(_) => Ok(false),
            miss @ Miss::Unknown(_) => Err(miss),
        },
    }
}

/// Whether something certainly exists at the path; unknown counts as no.
pub fn seen(root: &Root, path: &str) -> bool {
    exists(root, path) == Ok(true)
}

/// Returns the last component of a symbolic link's target, such as a device's driver.
pub fn link_name(root: &Root, path: &str) -> Probe<String> {
    let target = link(root, path)?;
    match target.file_name().and_then(|name| name.to_str()) {
        Some(name) => Ok(name.to_owned()),
        None => unknown(format!("{path} is a link to a path without a name")),
    }
}

/// Reads a symbolic link.
pub fn link(root: &Root, path: &str) -> Probe<PathBuf> {
    fs::read_link(root.path(path)).map_err(|error| Miss::from_io(root, path, &error))
}

/// Resolves all links of a path, and returns its components below the root.
pub fn resolve(root: &Root, path: &str) -> Probe<Vec<String>> {
    let to_miss = |error: io::Error| Miss::from_io(root, path, &error);
    let base = fs::canonicalize(root.base()).map_err(to_miss)?;
    let resolved = fs::canonicalize(root.path(path)).map_err(to_miss)?;
    let below = resolved.strip_prefix(&base).unwrap_or(&resolved);
    Ok(below
        .components()
        .filter_map(|part| part.as_os_str().to_str().map(str::to_owned))
        .collect())
}

/// Returns a miss for a file with unexpected content.
pub fn garbage(path: &str, wanted: &str, found: &str) -> Miss {
    let mut shown: String = found.chars().take(40).collect();
    if shown.len() < found.len() {
        shown.push('…');
    }
    Miss::Unknown(format!("{path} is not {wanted}: {shown:?}"))
}

/// Returns the unquoted value of a `KEY=value` line (os-release, build.prop).
pub fn assignment(text: &str, key: &str) -> Option<String> {
    let line = text
        .lines()
        .find_map(|line| line.trim().strip_prefix(key)?.strip_prefix('='))?;
    let line = line.trim();
    let inner = ['"', '\'']
        .iter()
        .find_map(|quote| line.strip_prefix(*quote)?.strip_suffix(*quote));
    let value = inner.unwrap_or(line);
    (!value.is_empty()).then(|| value.to_owned())
}

/// Decodes the `\040` escapes of mount tables and `/proc/swaps`.
pub fn unescape(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let code = bytes.get(at + 1..at + 4).filter(|_| bytes[at] == b'\\');
        let octal = code.and_then(|code| std::str::from_utf8(code).ok());
        if let Some(byte) = octal.and_then(|octal| u8::from_str_radix(octal, 8).ok()) {
            decoded.push(byte);
            at += 4;
        } else {
            decoded.push(bytes[at]);
            at += 1;
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_decides_between_absent_and_unknown() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        let miss = |path: &str, kind: io::ErrorKind| Miss::from_io(&root, path, &io::Error::from(kind));
        assert_eq!(miss("/x", io::ErrorKind::NotFound), Miss::Absent("no /x".into()));
        assert_eq!(
            miss("/x", io::ErrorKind::NotADirectory),
            Miss::Absent("no /x".into())
        );
        let denied = miss("/x", io::ErrorKind::PermissionDenied);
        assert_eq!(denied, Miss::Unknown("this session may not read /x".into()));
        assert!(matches!(
            Miss::from_io(&root, "/x", &io::Error::from_raw_os_error(libc::EINVAL)),
            Miss::Unknown(_)
        ));
        let unmounted = Miss::Unknown("no /sys/x: nothing is mounted on /sys".into());
        assert_eq!(miss("/sys/x", io::ErrorKind::NotFound), unmounted);
        assert_eq!(
            miss("/system/x", io::ErrorKind::NotFound),
            Miss::Absent("no /system/x".into())
        );
        fs::create_dir_all(folder.path().join("sys/class")).unwrap();
        assert_eq!(
            miss("/sys/x", io::ErrorKind::NotFound),
            Miss::Absent("no /sys/x".into())
        );
    }

    #[test]
    fn facts_are_written_as_the_format_says() {
        let json = |probe: Probe<u8>| serde_json::to_string(&Fact::from(probe)).unwrap();
        assert_eq!(json(Ok(3)), r#"{"value":3}"#);
        assert_eq!(json(absent("no x")), r#"{"absent":"no x"}"#);
        assert_eq!(json(unknown("locked")), r#"{"unknown":"locked"}"#);
    }

    #[test]
    fn cpu_lists() {
        assert_eq!(parse_cpu_list("0-2,8"), Some(vec![0, 1, 2, 8]));
        assert_eq!(parse_cpu_list("0 1 2"), Some(vec![0, 1, 2]));
        assert_eq!(parse_cpu_list(""), Some(vec![]));
        for bad in ["x", "3-1", "0-99999999", "-", "1-"] {
            assert_eq!(parse_cpu_list(bad), None, "{bad}");
        }
    }

    #[test]
    fn choices_need_a_bracketed_word() {
        let words = |text| parse_choice(text, '[', ']');
        assert_eq!(words("none [bfq] kyber").unwrap().0, "bfq");
        assert_eq!(words("none [bfq] kyber").unwrap().1, ["none", "bfq", "kyber"]);
        assert_eq!(words("none bfq"), None);
        assert_eq!(parse_choice("none (full)", '(', ')').unwrap().0, "full");
    }

    #[test]
    fn escapes_and_assignments() {
        assert_eq!(unescape(r"/mnt/my\040disk\"), r"/mnt/my disk\");
        assert_eq!(unescape(r"\999\é"), r"\999\é");
        assert_eq!(
            assignment("A=1\nID=\"de bian\"\n", "ID").as_deref(),
            Some("de bian")
        );
        assert_eq!(assignment("ID=", "ID"), None);
        assert_eq!(assignment("ID_LIKE=x", "ID"), None);
    }

    #[test]
    fn numbers_in_names_sort_as_numbers() {
        let mut names = vec!["policy10", "policy2", "a"];
        names.sort_by_cached_key(|name| numeric_key(name));
        assert_eq!(names, ["a", "policy2", "policy10"]);
    }
}
