// SPDX-License-Identifier: Apache-2.0
//! Rules of udev.

use super::{check_components, check_value, made_of, Checked, Reach, Rule, IN_VALUES};
use crate::transact::allow::Purpose;

/// Returns the attribute in `ATTR{…}`.
fn attribute_of(key: &str) -> Option<&str> {
    key.strip_prefix("ATTR{")?.strip_suffix('}')
}

impl Rule {
    pub(super) fn check(&self) -> Checked {
        let subsystem = self.subsystem();
        if subsystem.is_empty() {
            return Err("a rule must match a SUBSYSTEM".to_owned());
        }
        made_of("SUBSYSTEM", subsystem, "_-")?;
        for (key, pattern) in &self.matches {
            match (key.as_str(), attribute_of(key)) {
                ("ACTION" | "SUBSYSTEM" | "KERNEL", _) => {}
                (_, Some(attribute)) => check_components(key, attribute)?,
                _ => {
                    return Err(format!(
                        "a rule cannot match {key:?}; use ACTION, SUBSYSTEM, KERNEL or ATTR{{…}}"
                    ))
                }
            }
            check_value(key, pattern, &format!("{IN_VALUES}*?[]|"))?;
        }
        if self.set.is_empty() {
            return Err("a rule must set at least one attribute".to_owned());
        }
        self.set.iter().try_for_each(|one| {
            check_components(&one.attribute, &one.attribute)?;
            check_value(&one.attribute, &one.value, IN_VALUES)
        })
    }

    fn subsystem(&self) -> &str {
        self.matches.get("SUBSYSTEM").map_or("", String::as_str)
    }

    pub(super) fn reaches(&self) -> Vec<Reach> {
        let reach = |attribute: &str, purpose| Reach {
            places: self.places(attribute),
            purpose,
        };
        let read = self.matches.keys().filter_map(|key| attribute_of(key));
        let read = read.map(|attribute| reach(attribute, Purpose::Read));
        let written = self.set.iter().map(|one| reach(&one.attribute, Purpose::Write));
        written.chain(read).collect()
    }

    /// Returns the places where an attribute of these devices may be.
    fn places(&self, attribute: &str) -> Vec<String> {
        let subsystem = self.subsystem();
        let mut folders = vec![
            format!("/sys/class/{subsystem}"),
            format!("/sys/bus/{subsystem}/devices"),
        ];
        if subsystem == "block" {
            folders.insert(0, "/sys/block".to_owned());
        }
        folders
            .iter()
            .map(|folder| format!("{folder}/*/{attribute}"))
            .collect()
    }

    pub(super) fn line(&self) -> String {
        let first = ["ACTION", "SUBSYSTEM", "KERNEL"];
        let named = first.iter().filter_map(|key| self.matches.get_key_value(*key));
        let others = self.matches.iter().filter(|(key, _)| attribute_of(key).is_some());
        let matches = named
            .chain(others)
            .map(|(key, pattern)| format!("{key}==\"{pattern}\""));
        let set = self
            .set
            .iter()
            .map(|one| format!("ATTR{{{}}}=\"{}\"", one.attribute, one.value));
        matches.chain(set).collect::<Vec<_>>().join(", ") + "\n"
    }
}
