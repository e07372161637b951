// SPDX-License-Identifier: Apache-2.0
//! Words of the kernel's command line.

use super::{check_value, made_of, Checked};
use serde::{Deserialize, Serialize};

/// Allowed in values: neither a shell nor GRUB nor the kernel reads them in a special way.
const IN_WORDS: &str = "_.,:/+=@-";

/// A word of the kernel's command line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Word {
    /// The parameter.
    pub name: String,
    /// Its value; none for a flag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Why it is there: each line becomes a comment above it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub note: Vec<String>,
}

impl Word {
    pub(super) fn check(&self) -> Checked {
        made_of("the kernel argument", &self.name, "_.-")?;
        if !self.name.starts_with(|first: char| first.is_ascii_alphabetic()) {
            return Err(format!("{:?} is not a kernel argument", self.name));
        }
        match &self.value {
            Some(value) => check_value(&self.name, value, IN_WORDS),
            None => Ok(()),
        }
    }

    /// Returns the name as the kernel compares it: `-` and `_` are the same.
    #[must_use]
    pub fn key(&self) -> String {
        self.name.replace('-', "_")
    }

    /// Returns the word as the kernel reads it.
    #[must_use]
    pub fn text(&self) -> String {
        match &self.value {
            Some(value) => format!("{}={value}", self.name),
            None => self.name.clone(),
        }
    }

    pub(super) fn grub(&self) -> String {
        format!("GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX {}\"\n", self.text())
    }
}
