// SPDX-License-Identifier: Apache-2.0
//! How an earlier boot ended.

use super::record::{self, Event, Happened};
use super::{entries_of, event, health, is_grub_entries, kexec, oneshot, prepared, running};
use crate::error::{Error, Kind, Result};
use crate::transact::context::Context;
use crate::transact::forms::REHEARSAL;

/// Records how the last armed boot ended, if it is over and not recorded yet; returns all events.
pub(super) fn settle(context: &Context) -> Result<Vec<Event>> {
    let mut events = record::read(context)?;
    let Some(armed) = events.iter().rposition(|one| one.what == Happened::Armed) else {
        return Ok(events);
    };
    let last = events[armed].clone();
    let is_here = last.boot_id == context.store.boot_id();
    if is_here || running(&context.root).as_deref() == Some(last.entry.as_str()) {
        return Ok(events);
    }
    let after = &events[armed + 1..];
    let has = |what: Happened| after.iter().any(|one| one.what == what);
    if has(Happened::Failed) || has(Happened::FellBack) || has(Happened::Rehearsed) || has(Happened::Left) {
        return Ok(events);
    }
    let started = after.iter().find(|one| one.what == Happened::Started);
    // What was undone, or belongs to another attempt, is not judged: its entry may never have been started.
    let Some(transaction) = prepared(context)?.filter(|one| Some(one.id) == last.transaction) else {
        return Ok(events);
    };
    let path = entries_of(&transaction).next().map(|(path, _)| path.to_owned());
    let seen = path.as_deref().and_then(|path| {
        if kexec::is_kexec(path) {
            return (!has(Happened::Begun)).then_some(false);
        }
        let seen = oneshot::seen(&context.root, path, &last.entry);
        // GRUB's trace that cannot be read is none.
        seen.or_else(|| is_grub_entries(path).then_some(false))
    });
    if let Some(path) = path.filter(|_| seen == Some(false)) {
        // A loader that could not forget the entry would be asked for it at every boot.
        oneshot::clear(&context.root, &path).map_err(|refusal| {
            Error::new(
                Kind::Io,
                format!("cannot disarm {}: {}", last.entry, refusal.message),
            )
        })?;
    }
    let ended = ending(context, &last, started, has(Happened::Healthy), seen);
    record::append(context, &ended)?;
    events.push(ended);
    Ok(events)
}

/// Returns how an earlier boot ended.
fn ending(
    context: &Context,
    armed: &Event,
    started: Option<&Event>,
    was_healthy: bool,
    seen: Option<bool>,
) -> Event {
    let root = &context.root;
    let of = |what: Happened, why: Vec<String>| Event {
        why,
        loader: armed.loader.clone(),
        transaction: armed.transaction,
        then: armed.then.clone(),
        ..event(context, what, &armed.entry)
    };
    if let Some(started) = started {
        if was_healthy && health::has_shut_down(root, &started.boot_id) {
            return of(Happened::Left, Vec::new());
        }
        if was_healthy {
            let why = vec!["the boot was healthy, then ended without a shutdown".to_owned()];
            return Event {
                log: health::last_lines(root, Some(&started.boot_id), armed.at),
                ..of(Happened::Failed, why)
            };
        }
        let why = vec!["the boot ended before it was found healthy".to_owned()];
        return Event {
            log: health::last_lines(root, Some(&started.boot_id), armed.at),
            ..of(Happened::Failed, why)
        };
    }
    match seen {
        Some(false) => of(
            Happened::Failed,
            vec![
                "nothing started the entry: the boot loader skipped it, or somebody chose another entry"
                    .to_owned(),
            ],
        ),
        _ if armed.entry == REHEARSAL => of(Happened::Rehearsed, Vec::new()),
        _ => Event {
            log: health::last_lines(root, None, armed.at),
            ..of(Happened::FellBack, Vec::new())
        },
    }
}
