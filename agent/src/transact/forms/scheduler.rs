// SPDX-License-Identifier: Apache-2.0
//! The `sched_ext` scheduler that a service starts at boot, in the configuration file of that service.
//! Such a file may be the user's: ktrial adds its lines at the top, sets other lines with the same
//! keys aside as comments, and can undo both.

use super::{made_of, notes, Checked, Form};
use crate::bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

/// The first line of ktrial's lines in a file that somebody else wrote, and the last one.
const BEGIN: &str =
    "# ktrial keeps these lines: `ktrial drift` checks them, `ktrial keep --undo` removes them.\n";
const END: &str = "# end of the lines that ktrial keeps\n";
/// The prefix of a line that ktrial sets aside because it has one of ktrial's keys.
const ASIDE: &str = "# set aside by ktrial: ";

const MODES: [&str; 5] = ["Auto", "Gaming", "PowerSave", "LowLatency", "Server"];
/// The services that start a scheduler at boot.
pub(super) const UNITS: [&str; 2] = ["scx_loader.service", "scx.service"];

/// The scheduler that `scx_loader` starts, with its mode.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoaderDefault {
    /// The scheduler, such as `scx_lavd`.
    pub scheduler: String,
    /// Its mode, as `scx_loader` spells it.
    pub mode: String,
    /// Why it is there: each line becomes a comment above it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub note: Vec<String>,
}

/// The scheduler that `scx.service` starts, with its options.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceScheduler {
    /// The scheduler, such as `scx_lavd`.
    pub scheduler: String,
    /// Its options, with spaces between them.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub flags: String,
    /// Why it is there: each line becomes a comment above it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub note: Vec<String>,
}

impl LoaderDefault {
    pub(super) fn check(&self) -> Checked {
        check_name(&self.scheduler)?;
        if MODES.contains(&self.mode.as_str()) {
            return notes::check(&self.note);
        }
        Err(format!(
            "mode: expected {}, got {:?}",
            MODES.join(", "),
            self.mode
        ))
    }

    pub(super) fn lines(&self) -> String {
        format!(
            "default_sched = \"{}\"\ndefault_mode = \"{}\"\n",
            self.scheduler, self.mode
        )
    }
}

impl ServiceScheduler {
    pub(super) fn check(&self) -> Checked {
        check_name(&self.scheduler)?;
        notes::check(&self.note)?;
        if self.flags.is_empty() {
            return Ok(());
        }
        // A path in an option would be a file that root opens.
        made_of("flags", &self.flags, " _.,:+=-")?;
        if self.flags.split(' ').all(|word| !word.is_empty()) {
            return Ok(());
        }
        Err(format!(
            "flags: expected one space between words, got {:?}",
            self.flags
        ))
    }

    pub(super) fn lines(&self) -> String {
        format!("SCX_SCHEDULER={}\nSCX_FLAGS=\"{}\"\n", self.scheduler, self.flags)
    }
}

/// Refuses a program that is not a scheduler by its name.
fn check_name(scheduler: &str) -> Checked {
    let rest = scheduler.strip_prefix("scx_").unwrap_or_default();
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    if (1..=64).contains(&rest.len()) && rest.bytes().all(fits) {
        return Ok(());
    }
    Err(format!(
        "scheduler: expected a name such as \"scx_lavd\", got {scheduler:?}"
    ))
}

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Syntax {
    /// TOML: keys before the first table count.
    Toml,
    /// Assignments of variables.
    Variables,
}

impl Syntax {
    fn keys(self) -> [&'static str; 2] {
        match self {
            Self::Toml => ["default_sched", "default_mode"],
            Self::Variables => ["SCX_SCHEDULER", "SCX_FLAGS"],
        }
    }

    fn is_ours(self, line: &str) -> bool {
        let line = line.trim_start();
        let line = match self {
            Self::Toml => line,
            Self::Variables => line.strip_prefix("export ").unwrap_or(line).trim_start(),
        };
        let key = line.split('=').next().unwrap_or_default().trim();
        line.contains('=') && self.keys().contains(&key.trim_matches(['"', '\'']))
    }
}

impl Form {
    /// Renders the file in place of its old content. Some kinds keep lines of that. None if no file is
    /// left.
    #[must_use]
    pub fn render_over(&self, old: Option<&Bytes>) -> Option<String> {
        let Some(syntax) = self.syntax() else {
            return Some(self.render());
        };
        let old = old.map_or("", |old| std::str::from_utf8(&old.0).unwrap_or_default());
        let kept = match self {
            Self::ScxLoader(kept) => kept.as_ref().map(|one| (one.lines(), one.note.as_slice())),
            Self::ScxService(kept) => kept.as_ref().map(|one| (one.lines(), one.note.as_slice())),
            _ => None,
        };
        let lines = kept.as_ref().map(|(lines, note)| (lines.as_str(), *note));
        edited(old, syntax, lines)
    }

    /// Returns the syntax of a file in which ktrial owns only some lines; None if it owns all.
    fn syntax(&self) -> Option<Syntax> {
        match self {
            Self::ScxLoader(_) => Some(Syntax::Toml),
            Self::ScxService(_) => Some(Syntax::Variables),
            _ => None,
        }
    }

    /// Refuses an edit of a file whose content the plan does not know, or that cannot be edited.
    pub(super) fn check_old(&self, expect: Option<&Bytes>) -> Checked {
        let Some(syntax) = self.syntax() else {
            return Ok(());
        };
        let expect = expect.ok_or("expected `expect` with the present content of the file")?;
        let old = std::str::from_utf8(&expect.0).map_err(|_| "the file is not text in UTF-8".to_owned())?;
        check_lines(old, syntax)
    }
}

/// Returns the file with these lines, or without any of ktrial's; None if there is no file.
fn edited(old: &str, syntax: Syntax, lines: Option<(&str, &[String])>) -> Option<String> {
    let plain = restored(old);
    let Some((lines, note)) = lines else {
        return plain;
    };
    let mut text = if plain.is_some() { BEGIN } else { notes::HEADER }.to_owned();
    for line in note {
        let _ = writeln!(text, "# {line}");
    }
    text.push_str(lines);
    let Some(plain) = plain else {
        return Some(text);
    };
    text.push_str(END);
    let mut is_top = true;
    for line in plain.split_inclusive('\n') {
        is_top &= syntax == Syntax::Variables || !line.trim_start().starts_with('[');
        if is_top && syntax.is_ours(line) {
            text.push_str(ASIDE);
        }
        text.push_str(line);
    }
    Some(text)
}

/// Returns the file as it was before ktrial added its lines; None if there was no file.
fn restored(old: &str) -> Option<String> {
    if old.is_empty() || old.starts_with(notes::HEADER) {
        return None;
    }
    let Some((_, rest)) = old.strip_prefix(BEGIN).and_then(|rest| rest.split_once(END)) else {
        return Some(old.to_owned());
    };
    let lines = rest
        .split_inclusive('\n')
        .map(|line| line.strip_prefix(ASIDE).unwrap_or(line));
    Some(lines.collect())
}

/// Refuses a file whose lines ktrial cannot set aside one by one.
fn check_lines(old: &str, syntax: Syntax) -> Checked {
    let plain = restored(old).unwrap_or_default();
    let is_open = |line: &str| {
        let value = line.split_once('=').map_or("", |(_, value)| value);
        let value = value.trim();
        let is_odd = |quote: char| value.matches(quote).count() % 2 == 1 && !value.contains('#');
        value.ends_with('\\') || is_odd('"') || is_odd('\'') || value.contains("\"\"\"")
    };
    let mut ours = plain.lines().filter(|line| syntax.is_ours(line));
    match ours.find(|line| is_open(line)) {
        Some(line) => Err(format!("cannot edit a value of several lines: {line:?}")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use crate::transact::plan::FileStep;
    use serde_json::{json, Value};

    const LOADER: &str = "/etc/scx_loader.toml";
    const SERVICE: &str = "/etc/default/scx";

    fn step(path: &str, expect: &str, holds: &Value) -> FileStep {
        serde_json::from_value(json!({"path": path, "expect": expect, "holds": holds})).unwrap()
    }

    fn text(path: &str, expect: &str, holds: &Value) -> Option<String> {
        let step = step(path, expect, holds);
        check(path, step.holds.as_ref(), step.expect.as_ref()).unwrap();
        step.bytes().map(|bytes| String::from_utf8(bytes.0).unwrap())
    }

    fn lavd() -> Value {
        json!({"scx-loader": {"scheduler": "scx_lavd", "mode": "Gaming", "note": ["why"]}})
    }

    #[test]
    fn other_lines_stay_and_come_back_byte_for_byte() {
        let own = "\u{feff}# mine\ndefault_sched = \"scx_rusty\"\r\n  default_mode=\"Auto\"\n\n[scheds.scx_lavd]\ndefault_mode = 1\ngaming_mode = [\"-x\"]";
        let kept = text(LOADER, own, &lavd()).unwrap();
        assert!(
            kept.contains("# why\ndefault_sched = \"scx_lavd\"\ndefault_mode = \"Gaming\"\n"),
            "{kept}"
        );
        assert!(kept.contains("# set aside by ktrial: default_sched = \"scx_rusty\"\r\n"));
        assert!(kept.contains(
            "# set aside by ktrial:   default_mode=\"Auto\"\n\n[scheds.scx_lavd]\ndefault_mode = 1\n"
        ));
        let again = json!({"scx-loader": {"scheduler": "scx_rusty", "mode": "Auto"}});
        let changed = text(LOADER, &kept, &again).unwrap();
        assert_eq!(changed.matches("default_sched = \"scx_rusty\"").count(), 2);
        assert!(!changed.contains("why"));
        for one in [&kept, &changed] {
            assert_eq!(text(LOADER, one, &json!({ "scx-loader": null })).unwrap(), own);
        }
    }

    #[test]
    fn a_file_that_ktrial_made_goes_with_its_lines() {
        let holds = json!({"scx-service": {"scheduler": "scx_lavd", "flags": "--performance -s 5000"}});
        let kept = text(SERVICE, "", &holds).unwrap();
        assert!(kept.ends_with("SCX_SCHEDULER=scx_lavd\nSCX_FLAGS=\"--performance -s 5000\"\n"));
        assert_eq!(text(SERVICE, &kept, &json!({ "scx-service": null })), None);
        let own = "export SCX_SCHEDULER=scx_rusty\n#SCX_FLAGS='-s 3000'\nSCX_SCHEDULER_OVERRIDE=x\n";
        let kept = text(SERVICE, own, &holds).unwrap();
        assert!(kept.ends_with(
            "# set aside by ktrial: export SCX_SCHEDULER=scx_rusty\n#SCX_FLAGS='-s 3000'\nSCX_SCHEDULER_OVERRIDE=x\n"
        ));
        assert_eq!(
            text(SERVICE, &kept, &json!({ "scx-service": null })).unwrap(),
            own
        );
    }

    #[test]
    fn what_starts_anything_but_a_scheduler_is_refused() {
        let refused = |path: &str, expect: &str, holds: &Value| {
            let step = step(path, expect, holds);
            check(path, step.holds.as_ref(), step.expect.as_ref()).unwrap_err()
        };
        for name in [
            "",
            "scx_",
            "sh",
            "/bin/scx_x",
            "scx_../sh",
            "scx_a b",
            "scx_$x",
            "scx_A",
        ] {
            let loader = json!({"scx-loader": {"scheduler": name, "mode": "Auto"}});
            assert!(refused(LOADER, "", &loader).contains("scheduler"), "{name}");
            assert!(!refused(SERVICE, "", &json!({"scx-service": {"scheduler": name}})).is_empty());
        }
        for flags in [
            "-x /etc/shadow",
            "$(id)",
            "-a; id",
            "-a  -b",
            " -a",
            "-a\n",
            "\"",
            "*",
        ] {
            let service = json!({"scx-service": {"scheduler": "scx_lavd", "flags": flags}});
            assert!(refused(SERVICE, "", &service).contains("flags"), "{flags}");
        }
        let mode = json!({"scx-loader": {"scheduler": "scx_lavd", "mode": "gaming"}});
        assert!(refused(LOADER, "", &mode).contains("Gaming"));
        let service = json!({"scx-service": {"scheduler": "scx_lavd"}});
        for long in ["SCX_FLAGS=\"-a \\\n-b\"\n", "SCX_FLAGS='-a\n-b'\n"] {
            assert!(refused(SERVICE, long, &service).contains("several lines"));
        }
        assert!(
            refused(LOADER, "", &service).contains("scx-loader"),
            "another kind"
        );
        assert!(
            refused(LOADER, "[x]\n", &Value::Null).contains("remove"),
            "the user's file"
        );
        let blind: FileStep = serde_json::from_value(json!({"path": LOADER, "holds": lavd()})).unwrap();
        assert!(check(LOADER, blind.holds.as_ref(), None)
            .unwrap_err()
            .contains("expect"));
    }
}
