// SPDX-License-Identifier: Apache-2.0
//! One run: wait until the machine is ready, read, run the command, read again.

use super::{fields, nanoseconds, no_fields, over, By, End, Step, Worker, SAMPLE_LIMIT_S};
use crate::load::clock::{now_ns, slept_ns};
use crate::transact::context::unix_ms;
use crate::unattended::gates::Reading;
use crate::unattended::plan::Command;
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

/// Seconds between two looks at a gate that would void a run.
const GATES_EACH_S: f64 = 5.0;
/// How long a sample counts as the present state.
const FRESH_NS: u64 = 1_000_000_000;

impl Worker<'_> {
    /// Runs one command between readings.
    pub(super) fn command(&mut self, command: &Command) -> Step<()> {
        self.start()?;
        self.ask_root("verify", &no_fields())??;
        let log = self.ask_root("kernel_log", &no_fields())??;
        let slept = slept_ns();
        self.sync()?;
        self.begin_sampling()?;
        self.counters()?;
        let (name, fields) = command.request();
        self.ask(By::Person, name, &fields)?;
        self.counters()?;
        self.end_sampling()?;
        let slept_s =
            Duration::from_nanos(slept_ns().saturating_sub(slept).max(0).unsigned_abs()).as_secs_f64();
        let next = log["newest"].as_u64().map_or(0, |newest| newest + 1);
        self.ask_root("kernel_log", &super::fields([("from", json!(next))]))??;
        self.ask_root("verify", &no_fields())??;
        self.facts()?;
        if slept_s >= self.plan.void_suspended_s && slept_s > 0.0 {
            return Err(End::Void {
                cause: "suspend",
                reason: format!("the machine slept for {slept_s:.1} s during the run"),
            });
        }
        Ok(())
    }

    /// Waits until the machine is ready for a run, and voids the run if a gate refuses it.
    fn start(&mut self) -> Step<()> {
        if self.plan.follows || self.has_begun {
            let mut waited_s = 0.0;
            loop {
                let readings = self.look()?;
                let wait_s = self
                    .refusals(&readings)
                    .map(|(gate, _)| self.plan.gates[gate].wait_s);
                let wait_s = wait_s.fold(0.0, f64::max);
                if waited_s >= wait_s {
                    break;
                }
                let nap_s = GATES_EACH_S.min(wait_s - waited_s);
                self.sleep(nap_s)?;
                waited_s += nap_s;
            }
        }
        let holds_ns = nanoseconds(self.plan.rest.holds_s);
        let has_rested = self.rested_ns.is_some_and(|rested| now_ns() - rested < holds_ns);
        if !has_rested && self.plan.rest.seconds > 0.0 {
            self.rest(self.plan.rest.seconds)?;
        }
        let readings = self.look()?;
        if !self.has_begun {
            self.has_begun = true;
            self.first.clone_from(&readings);
        }
        let refusal = self.refusals(&readings).next();
        match refusal {
            None => Ok(()),
            Some((_, reason)) => Err(End::Void {
                cause: "reading",
                reason,
            }),
        }
    }

    /// Returns the gates that refuse these readings, and why.
    fn refusals<'a>(
        &'a self,
        readings: &'a BTreeMap<usize, Option<Reading>>,
    ) -> impl Iterator<Item = (usize, String)> + 'a {
        self.plan.gates.iter().enumerate().filter_map(|(index, gate)| {
            let first = gate
                .reference
                .as_ref()
                .or_else(|| self.first.get(&index)?.as_ref());
            let reason = gate.refusal(first, readings.get(&index)?.as_ref())?;
            Some((index, reason))
        })
    }

    /// Takes a sample and reads the facts that gates need. Returns the reading of each gate.
    fn look(&mut self) -> Step<BTreeMap<usize, Option<Reading>>> {
        let sample = match self
            .sample
            .take()
            .filter(|(taken_ns, _)| self.is_fresh(*taken_ns))
        {
            Some((_, sample)) => sample,
            None => self.sample()?,
        };
        let facts = self.facts()?;
        let gates = self.plan.gates.iter().enumerate();
        Ok(gates
            .map(|(index, gate)| (index, gate.reading.read(&sample, &facts)))
            .collect())
    }

    fn facts(&mut self) -> Step<Value> {
        let only = json!(self.plan.facts);
        Ok(self.ask_root("facts", &fields([("only", only)]))??)
    }

    fn counters(&mut self) -> Step<()> {
        if self.plan.counters.is_empty() {
            return Ok(());
        }
        let paths = json!(self.plan.counters);
        self.ask_root("read", &fields([("paths", paths)]))??;
        Ok(())
    }

    /// Whether a sample is new enough to be used again. If nothing samples while commands run, the
    /// head counts the samples, so each look takes its own.
    fn is_fresh(&self, taken_ns: u64) -> bool {
        self.plan.period_s.is_some() && now_ns() - taken_ns < FRESH_NS
    }

    /// Takes one sample.
    fn sample(&mut self) -> Step<Rc<Value>> {
        let mut once = fields([("limit_s", json!(SAMPLE_LIMIT_S)), ("count", json!(1))]);
        if let Some(sources) = &self.plan.sources {
            once.insert("sources".to_owned(), json!(sources));
        }
        let sample = Rc::new(self.ask(By::Sampler, "sample", &once)?);
        self.sample = Some((now_ns(), Rc::clone(&sample)));
        Ok(sample)
    }

    /// Waits between two samples, which show what other programs use meanwhile.
    pub(super) fn rest(&mut self, seconds: f64) -> Step<()> {
        self.sample()?;
        self.sleep(seconds)?;
        self.sample()?;
        self.rested_ns = Some(now_ns());
        Ok(())
    }

    fn begin_sampling(&mut self) -> Step<()> {
        let Some(period_s) = self.plan.period_s else {
            self.sample()?;
            return Ok(());
        };
        let request = [
            ("limit_s", json!(SAMPLE_LIMIT_S)),
            ("period_s", json!(period_s)),
            ("tell_begun", json!(true)),
        ];
        self.sessions.sampler.send("sample", &fields(request))?;
        let begun = self.answer(By::Sampler)?;
        match begun["error"]["message"].as_str() {
            None => Ok(()),
            Some(why) => Err(over("failed", format!("cannot sample the machine: {why}"))),
        }
    }

    fn end_sampling(&mut self) -> Step<()> {
        if self.plan.period_s.is_none() {
            self.sample()?;
            return Ok(());
        }
        // The next request ends the sampling.
        self.sessions
            .sampler
            .send("list", &fields([("patterns", json!([]))]))?;
        let began = (now_ns(), unix_ms());
        let mut sampled = self.answer(By::Sampler)?;
        self.tell_answer(
            By::Sampler.name(),
            "samples",
            began,
            None,
            &Ok(sampled["ok"].take()),
        )?;
        self.answer(By::Sampler).map(|_| ())
    }
}
