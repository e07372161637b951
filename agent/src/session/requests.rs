// SPDX-License-Identifier: Apache-2.0
//! The requests: one entry each in [`REQUESTS`] and one function each below.

use crate::boots;
use crate::bytes::Bytes;
use crate::error::{fields, Error, Kind, Result};
use crate::exec;
use crate::facts;
use crate::kernel_log;
use crate::load;
use crate::oom;
use crate::sample;
use crate::session::grant;
use crate::session::list;
use crate::session::work;
use crate::trace;
use crate::transact::allow::Purpose;
use crate::transact::apply;
use crate::transact::check;
use crate::transact::context::{Context, Role, Told};
use crate::transact::forget;
use crate::transact::machine::{self, Outcome};
use crate::transact::plan::Plan;
use crate::transact::recovery;
use crate::transact::report;
use crate::transact::revert::{self, Select};
use crate::unattended;
use crate::watch;
use serde::Deserialize;
use serde_json::{json, Map, Value};

/// The protocol version that this agent speaks.
pub const VERSION: u64 = 1;

/// A request: its name, the roles that may make it, and its handler.
#[derive(Debug)]
pub struct Request {
    /// The name.
    pub name: &'static str,
    /// Roles that may make the request.
    pub roles: &'static [Role],
    /// The function that handles it.
    pub handle: fn(&mut Context, Value) -> Result<Value>,
}

const BOTH: &[Role] = &[Role::Root, Role::User];
const ROOT: &[Role] = &[Role::Root];
const USER: &[Role] = &[Role::User];

const fn request(
    name: &'static str,
    roles: &'static [Role],
    handle: fn(&mut Context, Value) -> Result<Value>,
) -> Request {
    Request { name, roles, handle }
}

/// All requests that this agent answers.
pub const REQUESTS: &[Request] = &[
    request("hello", BOTH, hello),
    request("facts", BOTH, facts),
    request("exec", USER, exec),
    request("load", BOTH, load),
    request("sample", BOTH, sample),
    request("watch", BOTH, watch),
    request("data", ROOT, data),
    request("grant", ROOT, grant),
    request("protect", ROOT, protect),
    request("folder-make", USER, work::folder_make),
    request("folder-plan", USER, work::folder_plan),
    request("folder-read", USER, work::folder_read),
    request("folder-remove", USER, work::folder_remove),
    request("seat", USER, work::seat),
    request("read", BOTH, read),
    request("list", BOTH, list),
    request("plan", BOTH, plan),
    request("apply", ROOT, apply),
    request("confirm", ROOT, confirm),
    request("verify", BOTH, verify),
    request("revert", ROOT, revert),
    request("recover", ROOT, recover),
    request("status", BOTH, status),
    request("recovery", ROOT, recovery),
    request("forget", ROOT, forget),
    request("drop_caches", ROOT, drop_caches),
    request("kernel_log", BOTH, kernel_log),
    request("boot-arm", ROOT, boot_arm),
    request("boot-status", ROOT, boot_status),
    request("reboot", ROOT, reboot),
    request("unattended-start", ROOT, unattended_start),
    request("unattended-status", ROOT, unattended_status),
    request("unattended-log", ROOT, unattended_log),
    request("unattended-stop", ROOT, unattended_stop),
];

/// Requests during which a signal may end the process at once: they change nothing, or they block
/// signals themselves from their first change on.
pub const ENDING_AT_ONCE: [&str; 9] = [
    "apply", "hello", "list", "plan", "read", "recover", "revert", "status", "verify",
];

/// Writing a number to this file drops caches; nothing needs to be restored.
const DROP_CACHES: &str = "/proc/sys/vm/drop_caches";
/// The page cache and the kernel's caches of names and inodes.
const ALL_CACHES: &[u8] = b"3\n";

/// Returns the names of the requests that a role may make.
#[must_use]
pub fn capabilities(role: Role) -> Vec<&'static str> {
    REQUESTS
        .iter()
        .filter(|request| request.roles.contains(&role))
        .map(|request| request.name)
        .collect()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Hello {
    protocol: u64,
    head: String,
}

fn hello(context: &mut Context, value: Value) -> Result<Value> {
    let hello: Hello = fields(value)?;
    if hello.protocol != VERSION {
        let message = format!(
            "head {} speaks protocol {}, but agent {} speaks {}",
            hello.head,
            hello.protocol,
            env!("CARGO_PKG_VERSION"),
            VERSION
        );
        return Err(
            Error::new(Kind::Version, message).hint("install the head and the agent from the same release")
        );
    }
    Ok(json!({
        "protocol": VERSION,
        "agent": env!("CARGO_PKG_VERSION"),
        "role": context.role,
        "uid": rustix::process::geteuid().as_raw(),
        "pid": std::process::id(),
        "boot_id": context.store.boot_id(),
        "architecture": std::env::consts::ARCH,
        "capabilities": capabilities(context.role),
    }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Only {
    #[serde(default)]
    only: Vec<String>,
}

fn facts(context: &mut Context, value: Value) -> Result<Value> {
    let Only { only } = fields(value)?;
    Ok(json!({ "facts": facts::collect(&context.root, &only) }))
}

fn exec(context: &mut Context, value: Value) -> Result<Value> {
    let request: exec::Request = fields(value)?;
    let head = exec::Head {
        told: context.told,
        begun: &|process| context.tell_stopped(process),
    };
    let head = (!matches!(context.told, Told::Never)).then_some(head);
    let reply = exec::run(&context.root, &request, head)?;
    serde_json::to_value(reply).map_err(|error| Error::new(Kind::Io, error.to_string()))
}

fn load(context: &mut Context, value: Value) -> Result<Value> {
    match context.role {
        Role::User => load::run(fields(value)?, context.told),
        Role::Root => {
            let _exposed = oom::Exposed::begin();
            load::zram::run(context, fields(value)?)
        }
    }
}

fn sample(context: &mut Context, value: Value) -> Result<Value> {
    sample::run(&context.root, &fields(value)?, context.told, &|| {
        context.tell_begun()
    })
}

fn watch(context: &mut Context, value: Value) -> Result<Value> {
    watch::run(context, &fields(value)?)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Data {
    bytes: Bytes,
    first: bool,
}

fn data(context: &mut Context, value: Value) -> Result<Value> {
    let data: Data = fields(value)?;
    let held_bytes = load::zram::take(context, &data.bytes, data.first)?;
    Ok(json!({ "held_bytes": held_bytes }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Protect {
    process: u32,
    #[serde(default)]
    score: Option<i32>,
}

fn protect(_: &mut Context, value: Value) -> Result<Value> {
    let Protect { process, score } = fields(value)?;
    let before = score.map_or_else(|| oom::protect(process), |score| oom::set(process, score))?;
    Ok(json!({ "before": before }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Grant {
    process: u32,
    realtime_priority: u32,
}

fn grant(context: &mut Context, value: Value) -> Result<Value> {
    let grant: Grant = fields(value)?;
    context.need_root()?;
    grant::realtime(grant.process, grant.realtime_priority)?;
    Ok(json!({"process": grant.process, "realtime_priority": grant.realtime_priority}))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Read {
    paths: Vec<String>,
}

fn read(context: &mut Context, value: Value) -> Result<Value> {
    let read: Read = fields(value)?;
    let purpose = match context.role {
        Role::Root => Purpose::Read,
        Role::User => Purpose::ReadAsUser,
    };
    let values: Vec<Value> = read
        .paths
        .iter()
        .map(|path| read_one(context, path, purpose))
        .collect();
    Ok(json!({ "values": values }))
}

fn read_one(context: &Context, path: &str, purpose: Purpose) -> Value {
    match machine::read(&context.root, path, purpose) {
        Ok(found) => {
            let mut value = json!({"path": path, "bytes": found.bytes, "mode": found.mode_text()});
            if found.truncated {
                value["truncated"] = json!(true);
            }
            value
        }
        Err(refusal) => {
            let outcome = match refusal.outcome {
                Outcome::Vanished => Outcome::Invalid,
                Outcome::Forbidden => Outcome::Refused,
                other => other,
            };
            let error = json!({"outcome": outcome, "errno": refusal.errno, "message": refusal.message});
            json!({"path": path, "error": error})
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    patterns: Vec<String>,
}

fn list(context: &mut Context, value: Value) -> Result<Value> {
    let list: List = fields(value)?;
    let purpose = match context.role {
        Role::Root => Purpose::Names,
        Role::User => Purpose::ReadAsUser,
    };
    let mut matches = Map::new();
    for pattern in list.patterns {
        let found = list::matches(&context.root, &pattern, purpose)?;
        matches.insert(pattern, json!(found));
    }
    Ok(json!({ "matches": matches }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WithPlan {
    plan: Value,
}

fn plan(context: &mut Context, value: Value) -> Result<Value> {
    let plan = Plan::from_value(fields::<WithPlan>(value)?.plan)?;
    let writes = context.role == Role::Root && context.need_root().is_ok();
    Ok(json!({"steps": check::plan(&context.root, &plan, writes)}))
}

fn apply(context: &mut Context, value: Value) -> Result<Value> {
    let plan = Plan::from_value(fields::<WithPlan>(value)?.plan)?;
    context.need_root()?;
    Ok(json!(apply::apply(context, &plan)?))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Confirm {
    transaction: u64,
}

fn confirm(context: &mut Context, value: Value) -> Result<Value> {
    let confirm: Confirm = fields(value)?;
    context.need_root()?;
    revert::confirm(context, confirm.transaction)?;
    Ok(json!({"transaction": confirm.transaction}))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Verify {
    transaction: Option<u64>,
}

fn verify(context: &mut Context, value: Value) -> Result<Value> {
    report::verify(context, fields::<Verify>(value)?.transaction)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Revert {
    select: Select,
    #[serde(default)]
    force: bool,
}

fn revert(context: &mut Context, value: Value) -> Result<Value> {
    let revert: Revert = fields(value)?;
    context.need_root()?;
    Ok(json!({"transactions": revert::revert(context, revert.select, revert.force)?}))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

fn recover(context: &mut Context, value: Value) -> Result<Value> {
    let Nothing {} = fields(value)?;
    context.need_root()?;
    let cleared = if context.root.is_real() {
        trace::clear(&context.root)
    } else {
        Ok(Vec::new())
    };
    let mut reply = json!({"transactions": revert::recover(context)?});
    match cleared {
        Ok(names) if names.is_empty() => {}
        Ok(names) => reply["traces"] = json!(names),
        Err(why) => {
            return Err(Error::new(Kind::Io, why)
                .hint("stop the programs that read these traces, then run `ktrial recover` again"))
        }
    }
    Ok(reply)
}

fn status(context: &mut Context, value: Value) -> Result<Value> {
    let Nothing {} = fields(value)?;
    report::status(context)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Recovery {
    install: bool,
}

fn recovery(context: &mut Context, value: Value) -> Result<Value> {
    let recovery: Recovery = fields(value)?;
    let files = if recovery.install {
        recovery::install(context)?
    } else {
        recovery::remove(context)?
    };
    Ok(json!({ "files": files }))
}

fn forget(context: &mut Context, value: Value) -> Result<Value> {
    let Nothing {} = fields(value)?;
    Ok(json!({ "files": forget::forget(context)? }))
}

/// Writes dirty pages back, as they cannot be dropped, then drops all caches.
fn drop_caches(context: &mut Context, value: Value) -> Result<Value> {
    let Nothing {} = fields(value)?;
    context.need_root()?;
    if context.root.is_real() {
        rustix::fs::sync();
    }
    machine::write(&context.root, DROP_CACHES, ALL_CACHES, Purpose::Own)
        .map_err(|refusal| Error::new(Kind::Io, refusal.message))?;
    Ok(json!({}))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KernelLog {
    from: Option<u64>,
}

fn kernel_log(context: &mut Context, value: Value) -> Result<Value> {
    let wanted: KernelLog = fields(value)?;
    Ok(match kernel_log::read(&context.root, wanted.from) {
        Ok(found) => json!(found),
        Err(error) => json!({"unreadable": format!("cannot read {}: {error}", kernel_log::DEVICE)}),
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BootArm {
    entry: String,
    #[serde(default)]
    then: Option<String>,
}

fn boot_arm(context: &mut Context, value: Value) -> Result<Value> {
    let BootArm { entry, then } = fields(value)?;
    boots::arm(context, &entry, then.as_deref())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BootStatus {
    #[serde(default)]
    path: Option<String>,
    #[serde(default)]
    units: bool,
}

fn boot_status(context: &mut Context, value: Value) -> Result<Value> {
    let BootStatus { path, units } = fields(value)?;
    boots::status(context, path.as_deref(), units)
}

fn reboot(context: &mut Context, value: Value) -> Result<Value> {
    let Nothing {} = fields(value)?;
    boots::reboot(context)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UnattendedStart {
    plan: String,
    sha256: String,
}

fn unattended_start(context: &mut Context, value: Value) -> Result<Value> {
    let UnattendedStart { plan, sha256 } = fields(value)?;
    unattended::start(context, &plan, &sha256)
}

fn unattended_status(context: &mut Context, value: Value) -> Result<Value> {
    let Nothing {} = fields(value)?;
    unattended::status(context)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UnattendedLog {
    plan: String,
    #[serde(default)]
    from: u64,
    #[serde(default)]
    text: bool,
}

fn unattended_log(context: &mut Context, value: Value) -> Result<Value> {
    let UnattendedLog { plan, from, text } = fields(value)?;
    unattended::log(context, &plan, from, text)
}

fn unattended_stop(context: &mut Context, value: Value) -> Result<Value> {
    let Nothing {} = fields(value)?;
    unattended::stop(context)
}
