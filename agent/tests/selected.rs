// SPDX-License-Identifier: Apache-2.0
//! Which transactions a revert takes, and what `status` and `verify` tell of each step.

mod common;

use common::{outcomes, Machine, Session};
use serde_json::{json, Value};
use std::fs;

const SWAPPINESS: &str = "/proc/sys/vm/swappiness";
const FEATURES: &str = "/proc/sys/kernel/features";
const FILE: &str = "/etc/sysctl.d/90-ktrial.conf";
const ZRAM: &str = "/sys/block/zram0";

fn write(path: &str, new: &str, verify: &str) -> Value {
    json!({"kind": "write", "path": path, "new": new, "verify": verify})
}

fn file(content: Option<&str>) -> Value {
    let holds = content.map(|value| json!({"sysctl.d": [{"path": SWAPPINESS, "value": value}]}));
    json!({"kind": "file", "path": FILE, "holds": holds})
}

fn apply(session: &mut Session, steps: &[Value]) -> Value {
    session.ok(
        "apply",
        json!({"plan": {"schema": "ktrial.plan/2", "title": "of this test", "steps": steps}}),
    )
}

/// The numbers of the transactions of a reply.
fn numbers(reply: &Value) -> Vec<u64> {
    let reports = reply["transactions"].as_array().unwrap();
    reports
        .iter()
        .map(|report| report["transaction"].as_u64().unwrap())
        .collect()
}

/// Three transactions: the first and the third write the same knob.
fn three() -> (Machine, Session) {
    let machine = Machine::new();
    let mut session = Session::start(&machine, "root");
    apply(&mut session, &[write(SWAPPINESS, "10\n", "integer")]);
    apply(&mut session, &[write(FEATURES, "A\n", "exact")]);
    apply(&mut session, &[write(SWAPPINESS, "30\n", "integer")]);
    (machine, session)
}

#[test]
fn a_revert_takes_the_newest_or_all_or_what_is_newer_or_one() {
    for (select, taken, values) in [
        (json!("newest"), vec![3], ["10\n", "A\n"]),
        (json!("all"), vec![3, 2, 1], ["60\n", "NO_A B\n"]),
        (json!({"to": 0}), vec![3, 2, 1], ["60\n", "NO_A B\n"]),
        (json!({"to": 1}), vec![3, 2], ["10\n", "NO_A B\n"]),
        (json!({"to": 3}), vec![], ["30\n", "A\n"]),
        (json!({"only": 1}), vec![1], ["30\n", "A\n"]),
        (json!({"only": 2}), vec![2], ["30\n", "NO_A B\n"]),
        (json!({"only": 3}), vec![3], ["10\n", "A\n"]),
    ] {
        let (machine, mut session) = three();
        let reply = session.ok("revert", json!({ "select": select }));
        assert_eq!(numbers(&reply), taken, "{select}");
        assert_eq!(
            [machine.read(SWAPPINESS), machine.read(FEATURES)],
            values,
            "{select}"
        );
    }
}

#[test]
fn a_revert_of_a_file_below_another_is_refused() {
    let machine = Machine::new();
    let mut session = Session::start(&machine, "root");
    apply(&mut session, &[file(Some("10"))]);
    apply(&mut session, &[file(Some("30"))]);
    let covered = session.error("revert", json!({"select": {"only": 1}}));
    let message = covered["message"].as_str().unwrap();
    assert!(
        message.contains("transaction 2 is newer and also changes"),
        "{message}"
    );
    let hint = covered["hint"].as_str().unwrap();
    assert!(
        hint.contains("revert transaction 2 first, or all newer than 0"),
        "{hint}"
    );
}

#[test]
fn a_revert_of_none_is_refused() {
    let (machine, mut session) = three();
    for select in [json!({"only": 4}), json!({"to": 4})] {
        let missing = session.error("revert", json!({ "select": select }));
        assert_eq!(missing["kind"], "not-found");
        assert_eq!(missing["message"], "no such transaction: 4");
    }
    assert_eq!(machine.read(SWAPPINESS), "30\n");
    session.ok("revert", json!({"select": {"only": 2}}));
    for force in [false, true] {
        let over = session.error("revert", json!({"select": {"only": 2}, "force": force}));
        assert_eq!(over["message"], "transaction 2 is no longer in force");
        assert_eq!(
            session.error("confirm", json!({"transaction": 2}))["kind"],
            "not-found"
        );
    }
    session.ok("confirm", json!({"transaction": 1}));
    session.ok("revert", json!({"select": "all"}));
    assert_eq!(
        session.ok("revert", json!({"select": "newest"}))["transactions"],
        json!([])
    );
}

#[test]
fn what_was_left_alone_is_taken_by_force_where_nothing_newer_is_in_force() {
    let machine = Machine::new();
    let mut session = Session::start(&machine, "root");
    apply(&mut session, &[write(SWAPPINESS, "10\n", "integer")]);
    machine.write(SWAPPINESS, "33\n");
    let reply = session.ok("revert", json!({"select": "newest"}));
    assert_eq!(outcomes(&reply["transactions"][0]), ["changed-by-others"]);
    apply(&mut session, &[write(FEATURES, "A\n", "exact")]);
    let reply = session.ok("revert", json!({"select": "newest", "force": true}));
    assert_eq!(numbers(&reply), [2], "what is in force comes first");
    let reply = session.ok("revert", json!({"select": "newest"}));
    assert_eq!(numbers(&reply).len(), 0, "only by force");
    let reply = session.ok("revert", json!({"select": "newest", "force": true}));
    assert_eq!(
        (numbers(&reply), machine.read(SWAPPINESS)),
        (vec![1], "60\n".to_owned())
    );
    let reply = session.ok("revert", json!({"select": "all", "force": true}));
    assert_eq!(numbers(&reply).len(), 0, "nothing is left to restore");
}

#[test]
fn status_tells_the_old_and_the_new_of_each_step() {
    let machine = Machine::new();
    fs::create_dir_all(machine.path(ZRAM)).unwrap();
    for (name, content) in [
        ("disksize", "0\n"),
        ("comp_algorithm", "[lzo] zstd\n"),
        ("reset", ""),
    ] {
        machine.write(&format!("{ZRAM}/{name}"), content);
    }
    fs::create_dir_all(machine.path("/sys/class/zram-control")).unwrap();
    machine.write("/sys/class/zram-control/hot_add", "0\n");
    machine.write("/proc/swaps", "Filename Type Size Used Priority\n");
    let mut session = Session::start(&machine, "root");
    let mut knob = write(SWAPPINESS, "10\n", "integer");
    knob["knob"] = json!("vm.swappiness");
    let zram = json!({"kind": "zram", "size_bytes": 8192, "swap": false});
    let reply = apply(&mut session, &[knob, file(Some("10")), zram]);
    assert_eq!(outcomes(&reply), ["accepted", "accepted", "accepted"], "{reply}");
    let status = session.ok("status", json!({}));
    let told = &status["transactions"][0];
    assert_eq!(
        (&told["title"], &told["lease"], &told["this_boot"], &told["state"]),
        (
            &json!("of this test"),
            &json!({"kind": "keep"}),
            &json!(true),
            &json!("applied")
        )
    );
    assert_eq!(told.get("left_ms"), None);
    assert_eq!(
        told["steps"],
        json!([
            {"step": 0, "path": SWAPPINESS, "old": "60\n", "new": "10\n", "knob": "vm.swappiness"},
            {"step": 1, "path": FILE, "old": null, "new": "vm.swappiness = 10\n"},
            {"step": 2, "path": "/sys/class/zram-control/hot_add", "old": "zram0", "new": "8192"},
        ])
    );
    let verified = session.ok("verify", json!({}));
    let steps = &verified["transactions"][0]["steps"];
    assert_eq!(outcomes(&verified["transactions"][0]), ["in-force"; 3], "{steps}");
    assert_eq!(steps[2]["now"], steps[2]["wanted"]);
    machine.write(&format!("{ZRAM}/disksize"), "4096\n");
    let verified = session.ok("verify", json!({"transaction": 1}));
    assert_eq!(
        outcomes(&verified["transactions"][0]),
        ["in-force", "in-force", "drifted"]
    );
    fs::remove_dir_all(machine.path(ZRAM)).unwrap();
    let verified = session.ok("verify", json!({"transaction": 1}));
    assert_eq!(outcomes(&verified["transactions"][0])[2], "gone");
}

#[test]
fn verify_tells_what_drifted_is_gone_or_cannot_be_read() {
    let machine = Machine::new();
    let mut session = Session::start(&machine, "root");
    apply(
        &mut session,
        &[write(SWAPPINESS, "10\n", "integer"), file(Some("10"))],
    );
    let verified = |session: &mut Session| {
        let reply = session.ok("verify", json!({"transaction": 1}));
        let report = &reply["transactions"][0];
        outcomes(report)
            .iter()
            .map(|word| (*word).to_owned())
            .collect::<Vec<_>>()
    };
    machine.write(SWAPPINESS, "0xa\n");
    assert_eq!(
        verified(&mut session),
        ["in-force", "in-force"],
        "the same number"
    );
    machine.write(SWAPPINESS, "11\n");
    machine.write(FILE, "vm.swappiness = 11\n");
    assert_eq!(verified(&mut session), ["drifted", "drifted"]);
    for path in [SWAPPINESS, FILE] {
        fs::remove_file(machine.path(path)).unwrap();
    }
    assert_eq!(verified(&mut session), ["gone", "gone"]);
    for path in [SWAPPINESS, FILE] {
        fs::create_dir(machine.path(path)).unwrap();
    }
    assert_eq!(verified(&mut session), ["unreadable", "unreadable"]);
    for path in [SWAPPINESS, FILE] {
        fs::remove_dir(machine.path(path)).unwrap();
    }
    machine.write(SWAPPINESS, "10\n");
    machine.write(FILE, "vm.swappiness = 10\n");
    session.ok("revert", json!({"select": "all"}));
    assert_eq!(verified(&mut session), ["gone", "gone"], "it is over");
    assert_eq!(session.ok("verify", json!({}))["transactions"], json!([]));
}

#[test]
fn a_file_that_was_to_go_is_in_force_while_it_is_away() {
    let machine = Machine::new();
    machine.write(FILE, "vm.swappiness = 99\n");
    let mut session = Session::start(&machine, "root");
    let reply = apply(&mut session, &[file(None)]);
    assert_eq!(outcomes(&reply), ["accepted"], "{reply}");
    assert!(!machine.path(FILE).exists());
    let verified = session.ok("verify", json!({}));
    assert_eq!(outcomes(&verified["transactions"][0]), ["in-force"]);
    machine.write("/proc/sys/kernel/random/boot_id", "the-next-boot\n");
    let verified = session.ok("verify", json!({}));
    assert_eq!(outcomes(&verified["transactions"][0]), ["in-force"], "files stay");
    machine.write(FILE, "vm.swappiness = 1\n");
    let verified = session.ok("verify", json!({}));
    assert_eq!(outcomes(&verified["transactions"][0]), ["drifted"]);
    fs::remove_file(machine.path(FILE)).unwrap();
    let reply = session.ok("revert", json!({"select": "newest"}));
    assert_eq!(outcomes(&reply["transactions"][0]), ["restored"]);
    assert_eq!(machine.read(FILE), "vm.swappiness = 99\n");
}

#[test]
fn what_ended_with_the_boot_is_told_as_gone() {
    let machine = Machine::new();
    let mut session = Session::start(&machine, "root");
    apply(&mut session, &[write(SWAPPINESS, "10\n", "integer")]);
    machine.write("/proc/sys/kernel/random/boot_id", "the-next-boot\n");
    machine.write(SWAPPINESS, "60\n");
    let verified = session.ok("verify", json!({"transaction": 1}));
    assert_eq!(outcomes(&verified["transactions"][0]), ["gone"]);
    let reply = session.ok("recover", json!({}));
    assert_eq!(reply["transactions"][0]["state"], "gone-with-boot", "{reply}");
    assert_eq!(outcomes(&reply["transactions"][0]), ["gone-with-boot"]);
    assert_eq!(session.ok("recover", json!({}))["transactions"], json!([]));
}
