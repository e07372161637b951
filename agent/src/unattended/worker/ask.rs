// SPDX-License-Identifier: Apache-2.0
//! How a worker asks its sessions and waits for them.

use super::{fields, nanoseconds, over, unwritten, By, Step, Worker, SAMPLE_LIMIT_S};
use crate::error::{Error, Kind, Result};
use crate::load::clock::now_ns;
use crate::session::protocol;
use crate::transact::context::{boot_ms, unix_ms};
use crate::unattended::gates::SOURCES;
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use serde_json::{json, Map, Value};
use std::os::fd::AsFd;
use std::time::Duration;

/// Longest sleep: monotonic sleeps don't advance while the machine is suspended.
const NAP_NS: u64 = 30_000_000_000;
/// Nanoseconds between two looks at the limits.
const LIMITS_EACH_NS: u64 = 1_000_000_000;
/// How long to wait for another transaction to end.
const BUSY_WAIT: Duration = Duration::from_secs(60);
const BUSY_EACH: Duration = Duration::from_millis(200);

impl Worker<'_> {
    /// Makes a request in this process, as root, and logs the answer.
    pub(super) fn ask_root(&mut self, name: &str, asked: &Map<String, Value>) -> Step<Result<Value>> {
        if matches!(name, "apply" | "revert") {
            self.sync()?;
        }
        let began = (now_ns(), unix_ms());
        let mut left = BUSY_WAIT;
        let result = loop {
            match protocol::dispatch(self.context, name, asked.clone()) {
                Err(error) if error.kind == Kind::Busy && !left.is_zero() => {
                    std::thread::sleep(BUSY_EACH);
                    left = left.saturating_sub(BUSY_EACH);
                }
                other => break other,
            }
        };
        let is_question = matches!(name, "facts" | "list" | "read" | "verify");
        self.tell_answer("root", name, began, is_question.then_some(asked), &result)?;
        Ok(result)
    }

    /// Makes a request in a session of the user, and logs the answer. A stop ends the request first.
    pub(super) fn ask(&mut self, by: By, name: &str, asked: &Map<String, Value>) -> Step<Value> {
        let began = (now_ns(), unix_ms());
        self.sessions.get(by).send(name, asked)?;
        let (mut reply, end) = match self.answer(by) {
            Ok(reply) => (reply, None),
            Err(end) => (self.sessions.get(by).hang_up()?.unwrap_or_default(), Some(end)),
        };
        let result = match reply.get_mut("ok") {
            Some(ok) => Ok(ok.take()),
            None => Err(Error::new(
                Kind::Io,
                reply["error"]["message"].as_str().unwrap_or("no answer"),
            )),
        };
        self.tell_answer(by.name(), name, began, None, &result)?;
        end.map_or(Ok(()), Err)?;
        // What the session refuses is the command's own failure, which the head judges.
        Ok(result.unwrap_or_default())
    }

    pub(super) fn tell_answer(
        &mut self,
        by: &str,
        name: &str,
        began: (u64, u64),
        asked: Option<&Map<String, Value>>,
        result: &Result<Value>,
    ) -> Result<()> {
        let mut line = json!({"as": by, "do": name, "began_ns": began.0, "began_unix_ms": began.1});
        if let Some(asked) = asked {
            line["fields"] = json!(asked);
        }
        let told = match result {
            Ok(ok) => self.log.append_with("answer", line, Some(("ok", ok))),
            Err(error) => {
                line["error"] = error.to_json();
                self.log.append("answer", line)
            }
        };
        told.map_err(|error| unwritten(&error))
    }

    /// Waits for the next line of a session.
    pub(super) fn answer(&mut self, by: By) -> Step<Value> {
        loop {
            if let Some(line) = self.sessions.get(by).line()? {
                return Ok(line);
            }
            self.wait(Some(by), u64::MAX)?;
            if let Some(line) = self.sessions.get(by).receive()? {
                return Ok(line);
            }
        }
    }

    pub(super) fn sleep(&mut self, seconds: f64) -> Step<()> {
        let until_ns = now_ns() + nanoseconds(seconds);
        while now_ns() < until_ns {
            self.wait(None, until_ns)?;
        }
        Ok(())
    }

    /// Waits until a session can be read or a moment has come. Ends the plan on a stop, at the deadline
    /// and when a limit is passed.
    fn wait(&mut self, by: Option<By>, until_ns: u64) -> Step<()> {
        loop {
            self.check()?;
            if by != Some(By::Limits) {
                self.check_limits()?;
            }
            let now = now_ns();
            if now >= until_ns {
                return Ok(());
            }
            let left_ns = self
                .deadline_boot_ms
                .saturating_sub(boot_ms())
                .saturating_mul(1_000_000);
            let mut nap_ns = NAP_NS.min(left_ns).min(until_ns - now);
            if self.sessions.limits.is_some() {
                nap_ns = nap_ns.min(self.limits_due_ns.saturating_sub(now));
            }
            let control = PollFd::new(&self.control, PollFlags::IN);
            let mut events = vec![control];
            let output = by.map(|by| match by {
                By::Person => &self.sessions.person,
                By::Sampler => &self.sessions.sampler,
                By::Limits => self.sessions.limits.as_ref().unwrap_or(&self.sessions.sampler),
            });
            events.extend(output.map(|session| PollFd::from_borrowed_fd(session.output(), PollFlags::IN)));
            match poll(&mut events, Some(&span(nap_ns))) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(over("failed", format!("cannot wait: {errno}"))),
            }
            if events.get(1).is_some_and(|event| !event.revents().is_empty()) {
                return Ok(());
            }
        }
    }

    /// Ends the plan if somebody stopped it or its deadline has come.
    pub(super) fn check(&self) -> Step<()> {
        let none = span(0);
        let mut events = [PollFd::from_borrowed_fd(self.control.as_fd(), PollFlags::IN)];
        if matches!(poll(&mut events, Some(&none)), Ok(1..)) {
            return Err(over("stopped", ""));
        }
        if boot_ms() >= self.deadline_boot_ms {
            return Err(over("deadline", "the plan's deadline has passed"));
        }
        Ok(())
    }

    /// Compares a sample with the limits, once a second. These samples are not in the log.
    fn check_limits(&mut self) -> Step<()> {
        if self.sessions.limits.is_none() || now_ns() < self.limits_due_ns {
            return Ok(());
        }
        self.limits_due_ns = now_ns() + LIMITS_EACH_NS;
        let request = [
            ("limit_s", json!(SAMPLE_LIMIT_S)),
            ("count", json!(1)),
            ("sources", json!(SOURCES)),
        ];
        self.sessions.get(By::Limits).send("sample", &fields(request))?;
        let sample = self.answer(By::Limits)?;
        match self.watch.passed(&self.plan.limits, &sample["ok"]) {
            None => Ok(()),
            Some(message) => Err(over("limit", message)),
        }
    }
}

fn span(ns: u64) -> Timespec {
    let part = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    Timespec {
        tv_sec: part(ns / 1_000_000_000),
        tv_nsec: part(ns % 1_000_000_000),
    }
}
