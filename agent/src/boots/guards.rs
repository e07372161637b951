// SPDX-License-Identifier: Apache-2.0
//! Guards of a boot: units of systemd that must be active for it to be healthy.

use super::health::asked;
use super::LOOK;
use crate::root::Root;
use crate::transact::machine::{Outcome, Refusal};
use crate::transact::programs;
use rustix::io::Errno;
use std::time::{Duration, Instant};

/// The state of a guard.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Guard {
    Active,
    /// systemd is still starting it, or does not answer.
    Waits(String),
    Down(String),
}

fn argv(unit: &str) -> [&str; 4] {
    ["show", "--property=ActiveState", "--property=Job", unit]
}

/// Reads what systemd shows of a unit.
fn judge(text: &str) -> Guard {
    let value = |name: &str| {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        line.unwrap_or_default().trim().to_owned()
    };
    let state = value("ActiveState");
    let has_job = !matches!(value("Job").as_str(), "" | "0");
    match state.as_str() {
        "active" => Guard::Active,
        "activating" | "deactivating" | "reloading" => Guard::Waits(state),
        "" => Guard::Waits("unknown".to_owned()),
        _ if has_job => Guard::Waits(state),
        _ => Guard::Down(state),
    }
}

/// Waits for units that are still starting, until the limit after `began`; returns the guards that
/// keep the boot from being healthy.
pub(super) fn wait(root: &Root, guards: &[String], began: Instant, limit: Duration) -> Vec<String> {
    let mut why = Vec::new();
    for unit in guards {
        loop {
            let shown = asked(root, &[&["systemctl"], &argv(unit)[..]].concat());
            match judge(&shown.unwrap_or_default()) {
                Guard::Active => break,
                Guard::Waits(_) if began.elapsed() <= limit => std::thread::sleep(LOOK),
                Guard::Waits(state) | Guard::Down(state) => {
                    why.push(format!("the guard {unit} is not active ({state})"));
                    break;
                }
            }
        }
    }
    why
}

/// Refuses guards that are not active now, because no boot with them would be healthy.
pub fn check_guards(root: &Root, guards: &[String]) -> Result<(), Refusal> {
    for unit in guards {
        let argv: Vec<String> = [&["systemctl"], &argv(unit)[..]]
            .concat()
            .iter()
            .map(|one| (*one).to_owned())
            .collect();
        if let Guard::Waits(state) | Guard::Down(state) = judge(&programs::output(root, &argv)?) {
            return Err(Refusal {
                outcome: Outcome::Refused,
                errno: Errno::NOENT.raw_os_error(),
                message: format!("the guard {unit} is not active now ({state})"),
            });
        }
    }
    Ok(())
}

/// Returns the units that are active now.
pub(super) fn active_units(root: &Root) -> Option<Vec<String>> {
    let text = asked(
        root,
        &[
            "systemctl",
            "list-units",
            "--state=active",
            "--plain",
            "--no-legend",
        ],
    )?;
    let names = text.lines().filter_map(|line| line.split_whitespace().next());
    Some(names.map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_active_unit_is_healthy_and_one_with_a_job_is_waited_for() {
        let down = |state: &str| Guard::Down(state.to_owned());
        let waits = |state: &str| Guard::Waits(state.to_owned());
        for (text, guard) in [
            ("ActiveState=active\n", Guard::Active),
            ("Job=12\nActiveState=active\n", Guard::Active),
            ("ActiveState=activating\n", waits("activating")),
            ("ActiveState=reloading\n", waits("reloading")),
            ("Job=12\nActiveState=inactive\n", waits("inactive")),
            ("ActiveState=inactive\nJob=0\n", down("inactive")),
            ("ActiveState=inactive\nJob=\n", down("inactive")),
            ("ActiveState=failed\n", down("failed")),
            ("NoActiveState=active\n", waits("unknown")),
            ("", waits("unknown")),
        ] {
            assert_eq!(judge(text), guard, "{text:?}");
        }
    }

    #[test]
    fn without_systemd_no_guard_holds() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        let guards = ["ssh.service".to_owned()];
        let why = wait(&root, &guards, Instant::now(), Duration::ZERO);
        assert_eq!(why, ["the guard ssh.service is not active (unknown)"]);
        assert!(check_guards(&root, &guards).is_err());
        assert!(check_guards(&root, &[]).is_ok());
        assert_eq!(active_units(&root), None);
    }
}
