// SPDX-License-Identifier: Apache-2.0
//! What a recording begins with.

use super::group;
use super::Request;
use crate::context::Context;
use crate::load::clock::now_ns;
use serde_json::{json, Map, Value};
use std::collections::BTreeMap;

/// What is known of the machine, the process and the sources before anything is read.
pub fn head(
    context: &Context,
    request: &Request,
    rates: &[(&'static str, u64)],
    absent: &Map<String, Value>,
    trace: &Value,
    started_ns: u64,
) -> Value {
    let before_ns = now_ns();
    let unix_at_zero_ns = group::unix_at_zero_ns(before_ns);
    let error_ns = now_ns() - before_ns;
    let rates: BTreeMap<&str, u64> = rates.iter().copied().collect();
    let groups = request
        .process
        .map(|process| crate::sample::limits_of(&context.root, process));
    json!({
        "schema": "ktrial.recording/1", "agent": env!("CARGO_PKG_VERSION"), "boot_id": context.store.boot_id(),
        "kernel": context.root.read_text("/proc/sys/kernel/osrelease").ok(), "architecture": std::env::consts::ARCH,
        "cpus": std::thread::available_parallelism().map_or(1, std::num::NonZero::get), "started_ns": started_ns,
        "unix_at_zero_ns": unix_at_zero_ns, "clock_error_ns": error_ns,
        "process": request.process, "frame_thread": request.frame_thread, "nvme": crate::facts::nvme::sleepers(&context.root),
        "groups": groups.unwrap_or_default(),
        "period_ns": rates, "absent": absent, "trace": trace,
    })
}
