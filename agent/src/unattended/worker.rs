// SPDX-License-Identifier: Apache-2.0
//! Carries out a plan: visit after visit, with the requests that a head would make for it.

mod ask;
mod run;

use crate::error::{Error, Kind, Result};
use crate::sys;
use crate::transact::context::{boot_ms, unix_ms, Context};
use crate::transact::lease;
use crate::transact::revert;
use crate::unattended::gates::{LimitWatch, Reading};
use crate::unattended::log::{Log, SCHEMA};
use crate::unattended::person::Session;
use crate::unattended::place::{Held, Place};
use crate::unattended::plan::{check_digest, Plan, Who};
use rustix::fs::{Mode, OFlags};
use serde_json::{json, Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;

/// Longest sampling of one command.
const SAMPLE_LIMIT_S: f64 = 86_400.0;

/// Why something was not carried out to its end.
enum End {
    /// The visit's block doesn't count.
    Void { cause: &'static str, reason: String },
    /// The plan is over.
    Over { reason: &'static str, message: String },
}

type Step<T> = std::result::Result<T, End>;

impl From<Error> for End {
    fn from(error: Error) -> Self {
        Self::Over {
            reason: "failed",
            message: error.message,
        }
    }
}

/// Which session answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Person,
    Sampler,
    Limits,
}

impl By {
    fn name(self) -> &'static str {
        match self {
            Self::Person => "user",
            Self::Sampler => "sampler",
            Self::Limits => "limits",
        }
    }
}

struct Sessions {
    person: Session,
    sampler: Session,
    limits: Option<Session>,
}

impl Sessions {
    fn start(context: &Context, plan: &Plan, is_limited: bool) -> Result<Self> {
        let uid = context.root.is_real().then_some(plan.uid);
        let start = || Session::start(context, uid);
        Ok(Self {
            person: start()?,
            sampler: start()?,
            limits: if is_limited { Some(start()?) } else { None },
        })
    }

    fn get(&mut self, by: By) -> &mut Session {
        match (by, &mut self.limits) {
            (By::Person, _) => &mut self.person,
            (By::Limits, Some(limits)) => limits,
            _ => &mut self.sampler,
        }
    }
}

struct Worker<'a> {
    context: &'a mut Context,
    plan: &'a Plan,
    log: Log,
    control: OwnedFd,
    sessions: Sessions,
    deadline_boot_ms: u64,
    transaction: Option<u64>,
    rested_ns: Option<u64>,
    /// The newest sample, and when it was taken.
    sample: Option<(u64, Rc<Value>)>,
    /// Arms with which the machine's state has been read.
    read: BTreeSet<String>,
    /// Whether a run has begun.
    has_begun: bool,
    /// Readings before the first run, by gate.
    first: BTreeMap<usize, Option<Reading>>,
    watch: LimitWatch,
    limits_due_ns: u64,
}

/// The main function of the process that carries out a plan.
///
/// # Errors
///
/// The plan cannot begin; the reason was also reported to the session that started this process.
pub fn run(context: &mut Context, id: &str, sha256: &str) -> Result<()> {
    // Fails only in a process that leads its group already.
    if let Err(errno) = rustix::process::setsid() {
        eprintln!("ktrial-agent: cannot start a new session: {errno}");
    }
    sys::outlive_terminal();
    let place = Place::of(context);
    let cannot = |what: &str, error: &std::io::Error| Error::io(what, place.file(id, "").display(), error);
    let said = |words: &[u8]| lease::say(words).map_err(|error| cannot("report from", &error));
    let begun = begin(context, &place, id, sha256);
    let (plan, _held, log, control) = match begun {
        Ok(begun) => begun,
        Err(error) => {
            said(error.message.as_bytes())?;
            return Err(error);
        }
    };
    said(&[lease::READY])?;
    let left_ms = plan.deadline_unix_ms.saturating_sub(unix_ms());
    let deadline_boot_ms = boot_ms() + left_ms;
    context.lease_ends_boot_ms = Some(deadline_boot_ms);
    let result = carry_out(context, &plan, sha256, log, control, deadline_boot_ms);
    let _uninterrupted = sys::Uninterrupted::begin();
    revert::end_session(context)?;
    result
}

fn begin(context: &Context, place: &Place, id: &str, sha256: &str) -> Result<(Plan, Held, Log, OwnedFd)> {
    let held = place.hold()?;
    let (plan, text) = place.plan(id)?;
    check_digest(&text, sha256)?;
    let who = Who {
        user: None,
        is_real: context.root.is_real(),
    };
    plan.check_now(&context.root, who, unix_ms())?;
    let cannot = |what: &str, error: &std::io::Error| Error::io(what, place.file(id, "").display(), error);
    let log = Log::create(&place.file(id, "log.jsonl")).map_err(|error| cannot("create a log in", &error))?;
    // Also for writing, so that it never reports an end.
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let control = rustix::fs::open(place.file(id, "control"), flags, Mode::empty())
        .map_err(|errno| cannot("open the control of", &errno.into()))?;
    Ok((plan, held, log, control))
}

fn carry_out(
    context: &mut Context,
    plan: &Plan,
    sha256: &str,
    mut log: Log,
    control: OwnedFd,
    deadline_boot_ms: u64,
) -> Result<()> {
    let sessions = match Sessions::start(context, plan, plan.limits.is_set()) {
        Ok(sessions) => sessions,
        Err(error) => {
            let ended = json!({"reason": "failed", "message": error.message});
            log.append("ended", ended)
                .and_then(|()| log.sync())
                .map_err(|error| unwritten(&error))?;
            return Err(error);
        }
    };
    let mut worker = Worker {
        context,
        plan,
        log,
        control,
        sessions,
        deadline_boot_ms,
        transaction: None,
        rested_ns: None,
        sample: None,
        read: BTreeSet::new(),
        has_begun: false,
        first: BTreeMap::new(),
        watch: LimitWatch::default(),
        limits_due_ns: 0,
    };
    let begun = json!({
        "schema": SCHEMA, "plan": plan.id, "sha256": sha256, "token": plan.token,
        "boot_id": worker.context.store.boot_id(), "agent": env!("CARGO_PKG_VERSION"),
    });
    worker.tell("begun", begun)?;
    let (reason, message) = match worker.visits() {
        Ok(()) => ("done", String::new()),
        Err(End::Over { reason, message }) => (reason, message),
        Err(End::Void { cause, reason }) => (cause, reason),
    };
    worker.tell("ended", json!({"reason": reason, "message": message}))
}

fn no_fields() -> Map<String, Value> {
    Map::new()
}

fn fields<const N: usize>(pairs: [(&str, Value); N]) -> Map<String, Value> {
    pairs
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

fn nanoseconds(seconds: f64) -> u64 {
    u64::try_from(Duration::from_secs_f64(seconds).as_nanos()).unwrap_or(u64::MAX)
}

fn over(reason: &'static str, message: impl Into<String>) -> End {
    End::Over {
        reason,
        message: message.into(),
    }
}

fn unwritten(error: &std::io::Error) -> Error {
    Error::io("write", "the log of an unattended plan", error)
}

impl Worker<'_> {
    fn tell(&mut self, event: &str, fields: Value) -> Result<()> {
        self.log
            .append(event, fields)
            .map_err(|error| unwritten(&error))?;
        if matches!(event, "begun" | "visit-ended" | "ended") {
            self.log.sync().map_err(|error| unwritten(&error))?;
        }
        Ok(())
    }

    /// Brings the log to the disk before the machine is changed or a command runs.
    fn sync(&mut self) -> Result<()> {
        self.log.sync().map_err(|error| unwritten(&error))
    }

    /// Makes all visits; a void one ends its block.
    fn visits(&mut self) -> Step<()> {
        let mut void: Option<u64> = None;
        for (index, visit) in self.plan.visits.iter().enumerate() {
            if void == Some(visit.block) {
                continue;
            }
            let about = json!({"visit": index, "block": visit.block, "arm": visit.arm});
            self.tell("visit", about)?;
            let made = self.visit(index);
            let left = self.leave();
            if let Err(End::Void { cause, reason }) = &made {
                self.tell("void", json!({"visit": index, "cause": cause, "reason": reason}))?;
                void = Some(visit.block);
            }
            left?;
            match made {
                Err(end @ End::Over { .. }) => return Err(end),
                _ => self.tell("visit-ended", json!({"visit": index}))?,
            }
        }
        Ok(())
    }

    fn visit(&mut self, index: usize) -> Step<()> {
        let plan = self.plan;
        let visit = &plan.visits[index];
        self.check()?;
        self.enter(&visit.arm)?;
        if plan.settle_s > 0.0 {
            self.rest(plan.settle_s)?;
        }
        self.refuse_drift(&visit.arm)?;
        let is_wanted = visit.state && self.read.insert(visit.arm.clone());
        for question in is_wanted.then_some(&plan.state).into_iter().flatten() {
            let mut fields = question.clone();
            let name = fields.shift_remove("do");
            let name = name.as_ref().and_then(Value::as_str).unwrap_or_default();
            self.ask_root(name, &fields)??;
        }
        for (number, commands) in visit.runs.iter().enumerate() {
            if number > 0 {
                self.refuse_drift(&visit.arm)?;
            }
            for command in commands {
                self.tell(
                    "run",
                    json!({"visit": index, "run": number, "command": command.label}),
                )?;
                self.command(command)?;
            }
            self.refuse_drift(&visit.arm)?;
        }
        Ok(())
    }

    fn enter(&mut self, arm: &str) -> Step<()> {
        let Some(mut steps) = self.plan.arms[arm].plan.clone() else {
            return Ok(());
        };
        // An arm ends with this process, whatever its plan says.
        steps["lease"] = json!({"kind": "while-session"});
        match self.ask_root("apply", &fields([("plan", steps)]))? {
            Ok(reply) => {
                self.transaction = reply["transaction"].as_u64();
                if reply["state"] != "applied" {
                    return Err(over("failed", format!("cannot put arm {arm} in force")));
                }
                Ok(())
            }
            Err(error) if error.kind == Kind::Conflict => {
                let paths: Vec<&String> = self
                    .plan
                    .arms
                    .values()
                    .flat_map(|arm| arm.beside.keys())
                    .collect();
                self.ask_root("read", &fields([("paths", json!(paths))]))??;
                Err(End::Void {
                    cause: "knob",
                    reason: error.message,
                })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Reverts the arm in force.
    fn leave(&mut self) -> Step<()> {
        let Some(transaction) = self.transaction.take() else {
            return Ok(());
        };
        let reply = match self.ask_root("revert", &fields([("select", json!({"only": transaction}))]))? {
            // Its holder was first, at the deadline, or a person.
            Err(error) if error.kind == Kind::NotFound => return Ok(()),
            reply => reply?,
        };
        let steps = reply["transactions"][0]["steps"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        match steps.iter().find(|step| step["outcome"] == "failed") {
            None => Ok(()),
            Some(step) => {
                let message = format!("cannot restore {}: {}", step["path"], step["message"]);
                Err(over("failed", message))
            }
        }
    }

    /// Voids the visit if somebody changed a value that the arm sets, or one that it must not change.
    fn refuse_drift(&mut self, arm: &str) -> Step<()> {
        let knob = |reason: String| End::Void {
            cause: "knob",
            reason,
        };
        if let Some(transaction) = self.transaction {
            let reply = self.ask_root("verify", &fields([("transaction", json!(transaction))]))??;
            let steps = reply["transactions"][0]["steps"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            let is_lost = |step: &&Value| matches!(step["outcome"].as_str(), Some("drifted" | "gone"));
            if let Some(step) = steps.iter().find(is_lost) {
                return Err(knob(format!("{} is no longer as set", step["path"])));
            }
        }
        let beside = &self.plan.arms[arm].beside;
        if beside.is_empty() {
            return Ok(());
        }
        let paths: Vec<&String> = beside.keys().collect();
        let reply = self.ask_root("read", &fields([("paths", json!(paths))]))??;
        for value in reply["values"].as_array().into_iter().flatten() {
            let path = value["path"].as_str().unwrap_or_default();
            let is_same = |now: &str| beside.get(path).is_none_or(|before| before.brief() == now.trim());
            if !value["bytes"].as_str().is_some_and(is_same) {
                return Err(knob(format!("{path} is no longer as found")));
            }
        }
        Ok(())
    }
}
