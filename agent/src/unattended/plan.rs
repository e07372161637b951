// SPDX-License-Identifier: Apache-2.0
//! Plans that the agent carries out by itself. `docs/formats.md` describes the format.

use crate::bytes::{hexadecimal, Bytes};
use crate::error::{Error, Kind, Result};
use crate::exec;
use crate::load;
use crate::root::Root;
use crate::transact::check;
use crate::transact::machine::Outcome;
use crate::transact::plan::{self as steps, Lease};
use crate::unattended::gates::{Gate, Limits};
use serde::Deserialize;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// The schema of these plans.
const SCHEMA: &str = "ktrial.unattended/1";

/// Longest time of a plan (a week), as for leases.
const MOST_MS: u64 = 604_800_000;
/// Most visits of one plan.
const VISITS: usize = 10_000;
/// Longest name of a plan.
const NAME_BYTES: usize = 100;
/// Requests that only read.
const QUESTIONS: [&str; 3] = ["facts", "list", "read"];

/// The next blocks of a trial.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Name and version of the format.
    #[serde(rename = "schema")]
    _schema: String,
    /// Name of the plan, and of its folder.
    pub id: String,
    /// Name of the trial.
    pub trial: String,
    /// Higher than that of every earlier plan.
    pub token: u64,
    /// Number of the user who runs the commands.
    pub uid: u32,
    /// When the machine must be as it was before.
    pub deadline_unix_ms: u64,
    /// Seconds to wait after each arm was put in force.
    pub settle_s: f64,
    /// How to observe what other programs use.
    pub rest: Rest,
    /// Seconds between two samples during a command [default: one before and one after it].
    #[serde(default)]
    pub period_s: Option<f64>,
    /// Sources of the samples before a run [default: all].
    #[serde(default)]
    pub sources: Option<Vec<String>>,
    /// Facts to read with each sample before and after a command.
    pub facts: Vec<String>,
    /// Files to read directly before and after a command.
    #[serde(default)]
    pub counters: Vec<String>,
    /// Requests that read the machine's state, at the visits that ask for it.
    #[serde(default)]
    pub state: Vec<Map<String, Value>>,
    /// Whether the trial has runs before this plan, with which the machine is compared.
    #[serde(default)]
    pub follows: bool,
    /// Seconds of suspension that void a run.
    pub void_suspended_s: f64,
    /// Gates that void a run before it begins.
    #[serde(default)]
    pub gates: Vec<Gate>,
    /// Limits that end the plan.
    #[serde(default)]
    pub limits: Limits,
    /// The arms by name.
    pub arms: BTreeMap<String, Arm>,
    /// The visits in order.
    pub visits: Vec<Visit>,
}

/// A wait during which only other programs use the CPUs.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rest {
    /// Seconds to wait.
    pub seconds: f64,
    /// Seconds for which an earlier wait is recent enough.
    pub holds_s: f64,
}

/// One configuration.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Arm {
    /// The plan that puts it in force [default: it changes nothing].
    #[serde(default)]
    pub plan: Option<Value>,
    /// Files that it doesn't change, and the text that each must have.
    #[serde(default)]
    pub beside: BTreeMap<String, Bytes>,
}

/// An arm in force within a block.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Visit {
    /// Number of the block.
    pub block: u64,
    /// Name of the arm.
    pub arm: String,
    /// Whether to read the machine's state, unless that was done with this arm before.
    #[serde(default)]
    pub state: bool,
    /// The commands of each run.
    pub runs: Vec<Vec<Command>>,
}

/// A command or a load of the agent's own, as a session's request without `do`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Command {
    /// Name of the benchmark.
    pub label: String,
    /// Folder in which the head looks for the files of the run: recorded, never acted on.
    #[serde(default, rename = "folder")]
    _folder: Option<String>,
    /// The fields of `exec`.
    #[serde(default)]
    pub exec: Option<Map<String, Value>>,
    /// The fields of `load`.
    #[serde(default)]
    pub load: Option<Map<String, Value>>,
}

impl Command {
    /// Returns the request's name and fields.
    #[must_use]
    pub fn request(&self) -> (&'static str, Map<String, Value>) {
        match (&self.exec, &self.load) {
            (Some(fields), _) => ("exec", fields.clone()),
            (None, fields) => ("load", fields.clone().unwrap_or_default()),
        }
    }

    fn check(&self) -> Result<()> {
        match (&self.exec, &self.load) {
            (Some(fields), None) => {
                let request: exec::Request = parsed(fields)?;
                if !request.while_connected {
                    return Err(bad(
                        "while_connected: expected true, so that a stop ends the command",
                    ));
                }
                exec::check(&request, false).map(|_| ())
            }
            (None, Some(fields)) => parsed::<load::Request>(fields).map(|_| ()),
            _ => Err(bad("expected either `exec` or `load`")),
        }
    }
}

fn bad(message: impl std::fmt::Display) -> Error {
    Error::new(Kind::BadRequest, format!("unattended plan: {message}"))
}

fn parsed<T: serde::de::DeserializeOwned>(fields: &Map<String, Value>) -> Result<T> {
    serde_json::from_value(Value::Object(fields.clone())).map_err(bad)
}

/// Refuses a text that does not have the digest that was sent with it.
pub fn check_digest(text: &[u8], sha256: &str) -> Result<()> {
    let found = hexadecimal(&Sha256::digest(text));
    if found == sha256 {
        return Ok(());
    }
    Err(bad(format!("its SHA-256 is {found}, expected {sha256}"))
        .hint("nothing was started; send the plan again"))
}

/// Whom a plan's commands may run as.
#[derive(Debug, Clone, Copy)]
pub struct Who {
    /// The user on whose behalf the session is root, if it knows.
    pub user: Option<u32>,
    /// Whether this is the machine itself, where commands never run as root.
    pub is_real: bool,
}

impl Plan {
    /// Reads a plan from JSON text.
    pub fn from_text(text: &[u8]) -> Result<Self> {
        let value: Value = serde_json::from_slice(text).map_err(|error| bad(format!("not JSON: {error}")))?;
        let schema = value.get("schema").and_then(Value::as_str).unwrap_or_default();
        if schema != SCHEMA {
            return Err(
                bad(format!("unknown schema {schema:?}")).hint(format!("this agent reads {SCHEMA:?}"))
            );
        }
        let plan: Self = serde_json::from_value(value).map_err(bad)?;
        plan.check_form()?;
        Ok(plan)
    }

    fn check_form(&self) -> Result<()> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if self.id.is_empty()
            || self.id.len() > NAME_BYTES
            || self.id.starts_with('.')
            || !self.id.bytes().all(plain)
        {
            return Err(bad(format!(
                "id: expected 1 to {NAME_BYTES} letters, digits, `-`, `_` and `.`, got {:?}",
                self.id
            )));
        }
        if self.visits.is_empty() || self.visits.len() > VISITS {
            return Err(bad(format!("visits: expected 1 to {VISITS}")));
        }
        let times = [
            ("settle_s", Some(self.settle_s)),
            ("rest.seconds", Some(self.rest.seconds)),
            ("rest.holds_s", Some(self.rest.holds_s)),
            ("void_suspended_s", Some(self.void_suspended_s)),
            ("period_s", self.period_s),
        ];
        for (field, seconds) in times {
            if seconds.is_some_and(|seconds| !(0.0..=86_400.0).contains(&seconds)) {
                return Err(bad(format!("{field}: expected 0 to 86400 seconds")));
            }
        }
        for question in &self.state {
            let name = question.get("do").and_then(Value::as_str).unwrap_or_default();
            if !QUESTIONS.contains(&name) {
                let known = QUESTIONS.join(", ");
                return Err(bad(format!("state: expected one of {known}, got {name:?}")));
            }
        }
        for (index, visit) in self.visits.iter().enumerate() {
            if !self.arms.contains_key(&visit.arm) {
                return Err(bad(format!("visit {index}: unknown arm {:?}", visit.arm)));
            }
            if visit.runs.is_empty() || visit.runs.iter().any(Vec::is_empty) {
                return Err(bad(format!(
                    "visit {index}: expected at least one command per run"
                )));
            }
            for command in visit.runs.iter().flatten() {
                command.check()?;
            }
        }
        Ok(())
    }

    /// Refuses a plan that may not be carried out now: it is over, its commands would run as root or
    /// as another user, or an arm would write outside the allow-list.
    pub fn check_now(&self, root: &Root, who: Who, now_unix_ms: u64) -> Result<()> {
        let refused = |kind, message: String| Error::new(kind, message).hint("nothing was started");
        if self.deadline_unix_ms <= now_unix_ms {
            let message = format!("unattended plan {}: its deadline has passed", self.id);
            return Err(refused(Kind::Conflict, message));
        }
        if self.deadline_unix_ms - now_unix_ms > MOST_MS {
            return Err(bad("deadline_unix_ms: expected at most a week from now"));
        }
        if who.is_real && self.uid == 0 {
            let message = format!("unattended plan {}: its commands would run as root", self.id);
            return Err(Error::new(Kind::Forbidden, message)
                .hint("start ktrial as an ordinary user who may use sudo"));
        }
        if let Some(user) = who.user.filter(|user| who.is_real && *user != self.uid) {
            let message = format!(
                "unattended plan {}: its commands would run as user {}, but the session belongs to user {user}",
                self.id, self.uid
            );
            return Err(refused(Kind::Forbidden, message));
        }
        for (name, arm) in &self.arms {
            let Some(plan) = arm.steps()? else { continue };
            let checks = check::plan(root, &plan, true);
            if let Some(found) = checks.iter().find(|check| check.outcome == Outcome::Forbidden) {
                let message = format!("arm {name}: step {}: {}", found.step, found.message);
                return Err(refused(Kind::Forbidden, message));
            }
        }
        Ok(())
    }
}

impl Arm {
    /// Returns the plan that puts the arm in force, with a lease that ends with the process.
    pub fn steps(&self) -> Result<Option<steps::Plan>> {
        let Some(value) = &self.plan else { return Ok(None) };
        let mut plan = steps::Plan::from_value(value.clone())?;
        plan.lease = Lease::WhileSession;
        Ok(Some(plan))
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use serde_json::json;

    /// A plan of one visit that writes a knob.
    pub fn sample() -> Value {
        json!({
            "schema": SCHEMA, "id": "x-1", "trial": "x", "token": 1, "uid": 65_534,
            "deadline_unix_ms": 2_000, "settle_s": 0.0, "rest": {"seconds": 0.0, "holds_s": 10.0},
            "facts": ["power.source"], "void_suspended_s": 0.1,
            "arms": {"control": {}, "case": {"plan": {
                "schema": "ktrial.plan/2", "title": "case", "lease": {"kind": "while-session"},
                "steps": [{"kind": "write", "path": "/proc/sys/vm/swappiness", "new": "10\n", "verify": "integer"}],
            }}},
            "visits": [{"block": 1, "arm": "case", "runs": [[{"label": "echo", "exec": {
                "argv": ["/bin/echo", "7"], "environment": {}, "directory": "/", "limit_s": 5.0,
                "while_connected": true,
            }}]]}],
        })
    }

    const NOBODY: Who = Who {
        user: Some(65_534),
        is_real: true,
    };

    fn read(value: &Value) -> Result<Plan> {
        Plan::from_text(value.to_string().as_bytes())
    }

    fn root() -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("proc/sys/vm")).unwrap();
        std::fs::write(folder.path().join("proc/sys/vm/swappiness"), "60\n").unwrap();
        let root = Root::new(folder.path());
        (folder, root)
    }

    #[test]
    fn whatever_the_format_does_not_have_is_refused() {
        type Change = fn(&mut Value);
        read(&sample()).unwrap();
        let changes: [(&str, Change); 12] = [
            ("schema", |plan| plan["schema"] = json!("ktrial.unattended/2")),
            ("unknown field", |plan| plan["shell"] = json!(true)),
            ("unknown field", |plan| plan["visits"][0]["uid"] = json!(0)),
            ("unknown field", |plan| {
                plan["visits"][0]["runs"][0][0]["exec"]["uid"] = json!(0);
            }),
            ("id", |plan| plan["id"] = json!("../../etc")),
            ("id", |plan| plan["id"] = json!(".")),
            ("unknown arm", |plan| plan["visits"][0]["arm"] = json!("other")),
            ("at least one command", |plan| {
                plan["visits"][0]["runs"] = json!([[]]);
            }),
            ("either `exec` or `load`", |plan| {
                plan["visits"][0]["runs"][0][0]["load"] = json!({"load": "spin", "limit_s": 1.0});
            }),
            ("while_connected", |plan| {
                plan["visits"][0]["runs"][0][0]["exec"]["while_connected"] = json!(false);
            }),
            ("state", |plan| plan["state"] = json!([{"do": "apply"}])),
            ("settle_s", |plan| plan["settle_s"] = json!(-1.0)),
        ];
        for (word, change) in changes {
            let mut value = sample();
            change(&mut value);
            let error = read(&value).unwrap_err();
            assert_eq!(error.kind, Kind::BadRequest, "{word}");
            assert!(error.message.contains(word), "{word}: {}", error.message);
        }
    }

    #[test]
    fn a_text_must_have_its_digest() {
        let text = sample().to_string();
        let digest = hexadecimal(&Sha256::digest(text.as_bytes()));
        check_digest(text.as_bytes(), &digest).unwrap();
        let error = check_digest(format!("{text} ").as_bytes(), &digest).unwrap_err();
        assert_eq!(error.kind, Kind::BadRequest);
    }

    #[test]
    fn expired_plans_root_and_other_users_are_refused() {
        let (_folder, root) = root();
        let plan = read(&sample()).unwrap();
        plan.check_now(&root, NOBODY, 1_999).unwrap();
        let late = plan.check_now(&root, NOBODY, 2_000).unwrap_err();
        assert_eq!(late.kind, Kind::Conflict);
        assert!(late.message.contains("deadline"));
        let other = Who {
            user: Some(1000),
            ..NOBODY
        };
        assert_eq!(plan.check_now(&root, other, 0).unwrap_err().kind, Kind::Forbidden);
        let unknown = Who { user: None, ..NOBODY };
        plan.check_now(&root, unknown, 0).unwrap();
        let as_root = Plan { uid: 0, ..plan };
        let error = as_root.check_now(&root, unknown, 0).unwrap_err();
        assert_eq!(error.kind, Kind::Forbidden);
        assert!(error.message.contains("as root"));
        let fake = Who {
            user: None,
            is_real: false,
        };
        as_root.check_now(&root, fake, 0).unwrap();
    }

    #[test]
    fn an_arm_stays_within_the_allow_list() {
        let (_folder, root) = root();
        let mut value = sample();
        value["arms"]["case"]["plan"]["steps"][0]["path"] = json!("/etc/shadow");
        let error = read(&value).unwrap().check_now(&root, NOBODY, 0).unwrap_err();
        assert_eq!(error.kind, Kind::Forbidden);
        assert!(error.message.contains("arm case"), "{}", error.message);
    }

    #[test]
    fn an_arm_ends_with_the_process_whatever_its_plan_says() {
        let mut value = sample();
        value["arms"]["case"]["plan"]["lease"] = json!({"kind": "keep"});
        let plan = read(&value).unwrap();
        assert_eq!(
            plan.arms["case"].steps().unwrap().unwrap().lease,
            Lease::WhileSession
        );
        assert!(plan.arms["control"].steps().unwrap().is_none());
    }
}
