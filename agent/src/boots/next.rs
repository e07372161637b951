// SPDX-License-Identifier: Apache-2.0
//! What continues after a boot: the attempt after its rehearsal, and a trial over boots.

use super::record::{self, Event, Happened};
use super::{arm_locked, entries_of, event, oneshot, prepared, reboot, running, settle, LOOK};
use crate::error::Result;
use crate::root::Root;
use crate::transact::context::Context;
use crate::transact::files::{self, Rights};
use crate::transact::forms::REHEARSAL;

/// What `pam_motd` shows at a login; the folder is empty after each boot.
const NOTICE: &str = "/run/motd.d/ktrial";

/// Removes the notice that a trial boots this machine.
pub fn forget_notice(root: &Root) {
    match std::fs::remove_file(root.path(NOTICE)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            eprintln!("ktrial-agent: cannot remove {NOTICE}: {error}");
        }
        _ => {}
    }
}

/// Tells whoever logs in during this boot what the machine is doing, and how to stop it.
pub fn announce(context: &Context, trial: &str) {
    tell(
        context,
        &format!(
            "ktrial boots this machine for the trial {trial} and will boot it again.\n\
             To stop it: ktrial trial stop {trial}\n"
        ),
    );
}

fn tell(context: &Context, text: &str) {
    let file = context.root.path(NOTICE);
    let rights = Rights {
        mode: 0o644,
        owner: None,
    };
    let folder = file.parent().map_or(Ok(()), std::fs::create_dir_all);
    if let Err(error) = folder.and_then(|()| files::put_at(&file, text.as_bytes(), rights, 0)) {
        eprintln!("ktrial-agent: cannot write {NOTICE}: {error}");
    }
}

/// Continues after a boot: records how the last boot ended, and tries the next entry once the
/// rehearsal has shown that the machine comes back. Returns whether a trial may continue.
///
/// # Errors
///
/// The record cannot be read or written, or the next entry cannot be armed.
pub fn next(context: &Context) -> Result<bool> {
    context.need_root()?;
    context.store.prepare()?;
    if let Some(id) = running(&context.root) {
        return wait_until_judged(context, &id);
    }
    let lock = context.store.lock_waiting()?;
    let events = settle(context)?;
    let then = match events.last() {
        Some(Event {
            what: Happened::Rehearsed,
            then: Some(then),
            transaction,
            ..
        }) if transaction.is_some() && *transaction == prepared(context)?.map(|one| one.id) => then.clone(),
        _ => return may_go_on(context, &events),
    };
    arm_locked(context, &then, None)?;
    drop(lock);
    reboot(context)?;
    Ok(false)
}

/// Whether a trial may arm its next boot; false if its rehearsal did not lead back to the default
/// entry.
fn may_go_on(context: &Context, events: &[Event]) -> Result<bool> {
    let Some(transaction) = prepared(context)? else {
        return Ok(false);
    };
    let is_ours = |one: &&Event| one.entry == REHEARSAL && one.transaction == Some(transaction.id);
    let last = events.iter().rev().find(is_ours);
    if last.is_none_or(|one| one.what == Happened::Rehearsed) {
        return Ok(true);
    }
    tell(
        context,
        "ktrial has stopped booting this machine: the rehearsal did not lead back to the default entry.\n\
         See: ktrial boot status\nTo remove what is prepared: ktrial boot undo\n",
    );
    Ok(false)
}

fn wait_until_judged(context: &Context, id: &str) -> Result<bool> {
    let here = context.store.boot_id();
    loop {
        let events = record::read(context)?;
        let judged = events.iter().find(|one| {
            one.entry == id && one.boot_id == here && matches!(one.what, Happened::Healthy | Happened::Failed)
        });
        if let Some(judged) = judged {
            return Ok(judged.what == Happened::Healthy);
        }
        std::thread::sleep(LOOK);
    }
}

/// Ends a boot of one of our entries in which the trial could not continue; in another boot, only
/// reports it. The default entry boots next, and the trial tries once more there.
///
/// # Errors
///
/// The record cannot be written, or the machine cannot be rebooted.
pub fn give_up(context: &Context, trial: &str, why: &str) -> Result<()> {
    let transaction = context
        .store
        .is_there()?
        .then(|| prepared(context))
        .transpose()?
        .flatten();
    let is_armed = |(path, _): (&str, _)| oneshot::armed(&context.root, path).is_some();
    if transaction.iter().flat_map(entries_of).any(is_armed) {
        return Ok(()); // it has asked for its next boot, and was ended by the shutdown
    }
    let how = if transaction.is_some() {
        format!("To stop it: ktrial trial stop {trial}\n")
    } else {
        "ktrial has removed everything that it prepared.\n".to_owned()
    };
    tell(
        context,
        &format!(
            "ktrial cannot continue the trial {trial}: {why}\n\
             See: journalctl -u ktrial-boot-next.service\n{how}"
        ),
    );
    let Some(transaction) = transaction else {
        return Ok(());
    };
    let Some(id) = running(&context.root) else {
        return Ok(());
    };
    let lock = context.store.lock_waiting()?;
    let failed = Event {
        transaction: Some(transaction.id),
        why: vec![format!("the trial could not continue: {why}")],
        ..event(context, Happened::Failed, &id)
    };
    record::append(context, &failed)?;
    drop(lock);
    reboot(context).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::super::tests::Machine;
    use super::super::{arm, status};
    use super::*;
    use crate::transact::revert::{self, Select};
    use serde_json::json;
    use std::fs;

    #[test]
    fn a_trial_that_cannot_go_on_ends_its_boot_and_is_announced() {
        let mut machine = Machine::new();
        let transaction = machine.prepare();
        arm(&machine.context, "ktrial-trial", None).unwrap();
        machine.grub_starts("ktrial-trial");
        machine.boot("second", " ktrial.boot=ktrial-trial");
        let path = machine.context.root.path("/run/motd.d/ktrial");
        let notice = || fs::read_to_string(&path).unwrap_or_default();
        assert!(
            give_up(&machine.context, "swap-1", "no python").is_err(),
            "no systemd reboots a test"
        );
        assert!(
            notice().contains("cannot continue the trial swap-1: no python\n"),
            "{}",
            notice()
        );
        let found = status(&machine.context, None, false).unwrap();
        let last = found["events"].as_array().unwrap().last().unwrap();
        assert_eq!(
            (&last["event"], &last["why"]),
            (
                &json!("failed"),
                &json!(["the trial could not continue: no python"])
            )
        );
        machine.boot("third", "");
        give_up(&machine.context, "swap-1", "no python").unwrap();
        assert_eq!(
            machine.names(),
            ["armed", "failed"],
            "the default entry is left alone"
        );
        revert::revert(&mut machine.context, Select::Only(transaction), false).unwrap();
        machine.boot("fourth", " ktrial.boot=ktrial-trial");
        give_up(&machine.context, "swap-1", "it has ended").unwrap();
        assert!(notice().contains("it has ended"), "{}", notice());
        assert!(
            notice().contains("ktrial has removed everything that it prepared."),
            "{}",
            notice()
        );
        forget_notice(&machine.context.root);
        assert_eq!(notice(), "");
    }

    #[test]
    fn a_trial_whose_rehearsal_did_not_lead_back_boots_nothing_more() {
        let mut machine = Machine::new();
        machine.prepare();
        arm(&machine.context, REHEARSAL, Some("ktrial-trial")).unwrap();
        machine.boot("second", "");
        assert!(!next(&machine.context).unwrap(), "GRUB has not started it");
        let notice = machine.context.root.path("/run/motd.d/ktrial");
        assert!(fs::read_to_string(&notice)
            .unwrap()
            .contains("the rehearsal did not lead back"));
        assert_eq!(machine.names(), ["armed", "failed"]);
    }
}
