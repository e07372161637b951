// SPDX-License-Identifier: Apache-2.0
//! A trial's next blocks as one plan that the agent carries out by itself.
//!
//! The head sends a plan and its digest. A detached process of root makes the visits, with the
//! requests that the head would make; the commands run in sessions of the user. All answers go into
//! a log, which the head fetches and judges.

mod gates;
mod log;
pub(crate) mod person;
mod place;
mod plan;
pub(crate) mod worker;

use crate::bytes::{hexadecimal, Bytes};
use crate::error::{Error, Kind, Result};
use crate::launch;
use crate::transact::context::{unix_ms, Context};
use crate::transact::lease;
use place::Place;
use plan::{check_digest, Plan, Who};
use serde_json::{json, Value};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::process::{Command, Stdio};

/// Most bytes of a log in one reply; base64 and the rest of the line must fit, too.
const PART_BYTES: u64 = 2 << 20;

/// Starts to carry out a plan, after checking that its text has this digest.
pub fn start(context: &Context, text: &str, sha256: &str) -> Result<Value> {
    context.need_root()?;
    check_digest(text.as_bytes(), sha256)?;
    let plan = Plan::from_text(text.as_bytes())?;
    let who = Who {
        user: context.user,
        is_real: context.root.is_real(),
    };
    plan.check_now(&context.root, who, unix_ms())?;
    if who.is_real {
        launch::check_user(plan.uid)?;
    }
    context.store.prepare()?;
    let place = Place::of(context);
    let held = place.register(&plan, text.as_bytes())?;
    place.note(&held, &plan.id)?;
    drop(held);
    spawn(context, &place, &plan, sha256)?;
    Ok(json!({"id": plan.id, "token": plan.token}))
}

/// Starts the process that carries out a plan and waits until it has begun.
fn spawn(context: &Context, place: &Place, plan: &Plan, sha256: &str) -> Result<()> {
    let failed = |why: &str| {
        Error::new(Kind::Io, format!("cannot carry out the plan {}: {why}", plan.id))
            .hint("nothing was changed")
    };
    let errors = File::create(place.file(&plan.id, "errors")).map_err(|error| failed(&error.to_string()))?;
    let mut command = Command::new("/proc/self/exe");
    command
        .arg("unattended-run")
        .arg("--root")
        .arg(context.root.base())
        .args(["--state", &context.state, "--plan", &plan.id, "--sha256", sha256])
        .env_clear()
        .current_dir("/");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors);
    let mut process = command.spawn().map_err(|error| failed(&error.to_string()))?;
    let said = process.stdout.take().map(lease::first_words).unwrap_or_default();
    match said.split_first() {
        Some((&lease::READY, _)) => Ok(()),
        Some(_) => Err(failed(&String::from_utf8_lossy(&said))),
        None => Err(failed("its process ended without an answer")),
    }
}

/// Returns the plans, and how far each got.
pub fn status(context: &Context) -> Result<Value> {
    Place::of(context).status()
}

/// Returns a part of a plan's log from a byte on, and with `text` the plan's exact text.
pub fn log(context: &Context, id: &str, from: u64, text: bool) -> Result<Value> {
    let place = Place::of(context);
    let (bytes, goes_on) = place.read_log(id, from, PART_BYTES)?;
    let next = from + bytes.len() as u64;
    let mut reply = json!({"log": Bytes(bytes), "next": next, "goes_on": goes_on});
    if text {
        let (_, text) = place.plan(id)?;
        reply["sha256"] = json!(hexadecimal(&Sha256::digest(&text)));
        reply["text"] = json!(Bytes(text));
    }
    Ok(reply)
}

/// Stops the plan that is being carried out, and returns when everything is restored.
pub fn stop(context: &Context) -> Result<Value> {
    context.need_root()?;
    Ok(json!({"stopped": Place::of(context).stop()?}))
}

/// Refuses while a plan is being carried out.
pub fn refuse_running(context: &Context) -> Result<()> {
    match Place::of(context).running() {
        None => Ok(()),
        Some(id) => Err(
            Error::new(Kind::Busy, format!("this machine carries out the plan {id}"))
                .hint("wait for it, or stop it with `ktrial trial stop`"),
        ),
    }
}
