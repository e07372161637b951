// SPDX-License-Identifier: Apache-2.0
//! Reading with three outcomes: a value, known not to exist, could not tell.

use std::fs;
use std::io;
use std::path::PathBuf;

use serde::Serialize;
use serde_json::Value;

use crate::root::Root;

/// One fact about a machine, as `docs/formats.md` writes it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Fact {
    /// What was found.
    Value(Value),
    /// Known not to exist here, and why.
    Absent(String),
    /// Could not tell, and why.
    Unknown(String),
}

/// Why a probe has no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Miss {
    /// Known not to exist here.
    Absent(String),
    /// Could not tell.
    Unknown(String),
}

/// A value, or why there is none.
pub type Probe<T> = Result<T, Miss>;

/// A miss that knows that the thing does not exist.
pub fn absent<T>(why: impl Into<String>) -> Probe<T> {
    Err(Miss::Absent(why.into()))
}

/// A miss that could not tell.
pub fn unknown<T>(why: impl Into<String>) -> Probe<T> {
    Err(Miss::Unknown(why.into()))
}

impl Miss {
    /// What a failed open or read of `path` says about the thing behind it. A missing file means that there is no
    /// such thing, unless the whole tree that it would be in is missing.
    pub fn from_io(root: &Root, path: &str, error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => match missing_tree(root, path) {
                Some(tree) => Self::Unknown(format!("no {path}: nothing is mounted on {tree}")),
                None => Self::Absent(format!("no {path}")),
            },
            io::ErrorKind::PermissionDenied => {
                Self::Unknown(format!("{path} may not be read by this session"))
            }
            _ => Self::Unknown(format!("{path} cannot be read: {error}")),
        }
    }

    /// The reason, without its kind.
    pub fn why(&self) -> &str {
        match self {
            Self::Absent(why) | Self::Unknown(why) => why,
        }
    }

    /// The same reason, where a missing file does not mean that the thing is missing.
    pub fn into_unknown(self) -> Self {
        match self {
            Self::Absent(why) | Self::Unknown(why) => Self::Unknown(why),
        }
    }
}

/// The kernel's tree that `path` lies in, when it is empty or not there.
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

/// A file's text, trimmed. An empty file is an unknown: kernel files say something or do not exist.
pub fn text(root: &Root, path: &str) -> Probe<String> {
    let text = root
        .read_text(path)
        .map_err(|error| Miss::from_io(root, path, &error))?;
    if text.is_empty() {
        return unknown(format!("{path} is empty"));
    }
    Ok(text)
}

/// A file's number (decimal or 0x).
pub fn number(root: &Root, path: &str) -> Probe<i64> {
    let text = text(root, path)?;
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    parsed.ok_or_else(|| garbage(path, "a number", &text))
}

/// A file's count: a number that cannot be negative.
pub fn count(root: &Root, path: &str) -> Probe<u64> {
    let value = number(root, path)?;
    u64::try_from(value).map_err(|_| garbage(path, "a count", &value.to_string()))
}

/// A file's switch: 1/0, Y/N, on/off, enabled/disabled.
pub fn switch(root: &Root, path: &str) -> Probe<bool> {
    let text = text(root, path)?;
    match text.as_str() {
        "1" | "Y" | "y" | "on" | "enabled" => Ok(true),
        "0" | "N" | "n" | "off" | "disabled" => Ok(false),
        _ => Err(garbage(path, "a switch", &text)),
    }
}

/// The bracketed word of a file such as `none [mq-deadline] bfq`, and all the words offered.
pub fn choice(root: &Root, path: &str) -> Probe<(String, Vec<String>)> {
    let text = text(root, path)?;
    parse_choice(&text, '[', ']').ok_or_else(|| garbage(path, "a choice with one word in brackets", &text))
}

/// [`choice`] of a text, with any pair of brackets.
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

/// CPUs of a list such as `0-3,8`, in order; at most 8192 of them.
pub fn cpu_list(root: &Root, path: &str) -> Probe<Vec<u32>> {
    let text = text(root, path)?;
    parse_cpu_list(&text).ok_or_else(|| garbage(path, "a list of CPUs", &text))
}

/// [`cpu_list`] of a text.
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

/// Names in a folder, with the numbers in them in numeric order.
pub fn list(root: &Root, path: &str) -> Probe<Vec<String>> {
    let mut names = root
        .list(path)
        .map_err(|error| Miss::from_io(root, path, &error))?;
    names.sort_by_cached_key(|name| numeric_key(name));
    Ok(names)
}

/// A sort key under which `policy2` comes before `policy10`.
fn numeric_key(name: &str) -> (String, u64) {
    let digits_at = name
        .trim_end_matches(|letter: char| letter.is_ascii_digit())
        .len();
    (
        name[..digits_at].to_owned(),
        name[digits_at..].parse().unwrap_or(0),
    )
}

/// Whether something is at the path (links are followed).
pub fn exists(root: &Root, path: &str) -> Probe<bool> {
    match fs::metadata(root.path(path)) {
        Ok(_) => Ok(true),
        Err(error) => match Miss::from_io(root, path, &error) {
            Miss::Absent(_) => Ok(false),
            miss @ Miss::Unknown(_) => Err(miss),
        },
    }
}

/// Whether something is surely at the path, where "cannot tell" counts as no.
pub fn seen(root: &Root, path: &str) -> bool {
    exists(root, path) == Ok(true)
}

/// The last component of what a symbolic link points to (a device's driver, for example).
pub fn link_name(root: &Root, path: &str) -> Probe<String> {
    let target = link(root, path)?;
    match target.file_name().and_then(|name| name.to_str()) {
        Some(name) => Ok(name.to_owned()),
        None => unknown(format!("{path} points to nothing that has a name")),
    }
}

/// What a symbolic link says.
pub fn link(root: &Root, path: &str) -> Probe<PathBuf> {
    fs::read_link(root.path(path)).map_err(|error| Miss::from_io(root, path, &error))
}

/// Where a path leads with every link followed, as components below the root.
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

/// A miss for a file whose content is not of the wanted form.
pub fn garbage(path: &str, wanted: &str, found: &str) -> Miss {
    let mut shown: String = found.chars().take(40).collect();
    if shown.len() < found.len() {
        shown.push('…');
    }
    Miss::Unknown(format!("{path} is not {wanted}: {shown:?}"))
}

/// The value of `KEY=value` lines (os-release, build.prop), unquoted.
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
        assert_eq!(denied, Miss::Unknown("/x may not be read by this session".into()));
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
