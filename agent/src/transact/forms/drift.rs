// SPDX-License-Identifier: Apache-2.0
//! The timer that compares kept settings with what is live, and its service.

use super::{check_components, Checked};
use serde::{Deserialize, Serialize};

/// The names of both units.
pub(super) const SERVICE: &str = "ktrial-drift.service";
pub(super) const TIMER: &str = "ktrial-drift.timer";

/// The first line of these files.
pub(super) const HEADER: &str = "# ktrial wrote this file; `ktrial keep --watch-drift --undo` removes it.\n";

/// How often the timer fires, as systemd calls it.
const CALENDARS: [&str; 3] = ["hourly", "daily", "weekly"];

/// A service that runs `ktrial drift`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Watch {
    /// The `ktrial` to run, which only root may be able to change.
    pub program: String,
}

impl Watch {
    pub(super) fn check(&self) -> Checked {
        check_program(&self.program)
    }

    pub(super) fn render(&self) -> String {
        format!(
            "{HEADER}[Unit]\nDescription=Compare the settings that ktrial keeps with what is live\n\n\
             [Service]\nType=oneshot\nExecStart={} drift\n",
            self.program
        )
    }
}

/// Refuses the program of a unit unless it is called ktrial.
pub(super) fn check_program(program: &str) -> Checked {
    let Some(rest) = program.strip_prefix('/') else {
        return Err(format!("{program:?} is not an absolute path"));
    };
    if !program.ends_with("/ktrial") {
        return Err(format!("{program:?} is not a program named ktrial"));
    }
    check_components(program, rest)
}

pub(super) fn check_calendar(calendar: &str) -> Checked {
    if CALENDARS.contains(&calendar) {
        return Ok(());
    }
    Err(format!("expected {}, got {calendar:?}", CALENDARS.join(", ")))
}

pub(super) fn timer(calendar: &str) -> String {
    format!(
        "{HEADER}[Unit]\nDescription=Compare the settings that ktrial keeps with what is live\n\n\
         [Timer]\nOnBootSec=5min\nOnCalendar={calendar}\nRandomizedDelaySec=15min\n"
    )
}
