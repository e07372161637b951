// SPDX-License-Identifier: Apache-2.0
//! What cannot be written because of where it lies: read-only mounts, and disks that are full.

mod common;

use common::{outcomes, Machine, Session};
use serde_json::{json, Value};
use std::fs;

const JOURNAL: &str = "/var/lib/ktrial/transactions/000001.journal";
const SWAPPINESS: &str = "/proc/sys/vm/swappiness";
const FILE: &str = "/etc/sysctl.d/90-ktrial.conf";

fn plan(steps: &Value) -> Value {
    json!({"plan": {"schema": "ktrial.plan/2", "steps": steps}})
}

fn knob(new: &str) -> Value {
    json!({"kind": "write", "path": SWAPPINESS, "new": new, "verify": "exact"})
}

fn file() -> Value {
    json!({"kind": "file", "path": FILE, "holds": {"sysctl.d": [{"path": SWAPPINESS, "value": "10"}]}})
}

#[test]
fn what_lies_on_a_read_only_mount_is_refused_before_anything_is_written() {
    let machine = Machine::new();
    for (folder, outcomes_of) in [
        ("/proc/sys/vm", ["refused", "ready"]),
        ("/etc/sysctl.d", ["ready", "refused"]),
    ] {
        let mut session = Session::start_read_only(&machine, folder);
        let reply = session.ok("plan", plan(&json!([knob("10\n"), file()])));
        assert_eq!(outcomes(&reply), outcomes_of, "{folder}: {reply}");
    }
}

#[test]
fn a_value_that_is_taken_in_part_is_invalid() {
    let machine = Machine::new();
    let folder = machine.path("/proc/sys/vm");
    let folder = folder.display();
    let small = format!("mount -t tmpfs -o size=4096 none {folder}; echo 60 > {folder}/swappiness");
    let mut session = Session::start_mounted(&machine, &small);
    let reply = session.ok("apply", plan(&json!([knob(&"7".repeat(5000))])));
    assert_eq!(outcomes(&reply), ["invalid"], "{reply}");
    let message = reply["steps"][0]["message"].as_str().unwrap();
    assert!(
        message.ends_with("the kernel accepted 4096 of 5000 bytes"),
        "{message}"
    );
    assert_eq!(reply["steps"][0]["value"], "60\n");
}

#[test]
fn a_lease_that_is_over_ends_on_a_disk_that_cannot_be_written() {
    let machine = Machine::new();
    let start = machine.content();
    let mut session = Session::start(&machine, "root");
    let mut leased = plan(&json!([knob("10\n"), file()]));
    leased["plan"]["lease"] = json!({"kind": "until-confirmed", "seconds": 600});
    session.ok("apply", leased);
    session.end();
    machine.kill_holders();
    let mut session = Session::start_read_only(&machine, "/var/lib/ktrial");
    let reply = session.ok("recover", json!({}));
    assert_eq!(reply["transactions"][0]["state"], "unfinished", "{reply}");
    assert_eq!(machine.content(), start);
}

#[test]
fn room_that_was_set_aside_serves_on_a_full_disk() {
    let machine = Machine::new();
    let start = machine.content();
    let mut session = Session::start(&machine, "root");
    session.ok("apply", plan(&json!([knob("10\n"), file()])));
    session.end();
    let journal = machine.read(JOURNAL);
    let end = journal.find("\"applied\"").unwrap();
    let interrupted = &journal[..=journal[..end].rfind('\n').unwrap()];
    let state = machine.state();
    fs::write(machine.path("/var/lib/interrupted"), interrupted).unwrap();
    let full = format!(
        "mount -t tmpfs -o size=64k,mode=700 none {state}; mkdir -m 700 {state}/transactions; touch {state}/lock; \
         cp {kept} {state}/transactions/000001.journal; chmod 600 {state}/transactions/* {state}/lock; \
         fallocate -n -l 24K {state}/transactions/000001.journal; \
         dd if=/dev/zero of={state}/full bs=4k 2>/dev/null || true",
        state = state.display(),
        kept = machine.path("/var/lib/interrupted").display(),
    );
    let mut session = Session::start_mounted(&machine, &full);
    let reply = session.ok("recover", json!({}));
    assert_eq!(reply["transactions"][0]["state"], "rolled-back", "{reply}");
    assert_eq!(machine.content(), start);
    assert_eq!(
        session.ok("status", json!({}))["transactions"][0]["state"],
        "rolled-back"
    );
}
