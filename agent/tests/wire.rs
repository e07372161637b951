// SPDX-License-Identifier: Apache-2.0
//! The binary over its wire, on fake trees.

mod common;

use common::{eventually, outcomes, Machine, Session};
use serde_json::{json, Value};

const SWAPPINESS: &str = "/proc/sys/vm/swappiness";

fn plan(lease: &Value) -> Value {
    json!({"schema": "ktrial.plan/2", "title": "wire", "lease": lease, "steps": [
        {"kind": "write", "path": SWAPPINESS, "expect": "60\n", "new": "10\n", "verify": "integer"},
        {"kind": "file", "path": "/etc/sysctl.d/90-ktrial.conf", "holds": {"sysctl.d": [{"path": "/proc/sys/vm/swappiness", "value": "10"}]}, "mode": "0644"}]})
}

fn keep() -> Value {
    plan(&json!({"kind": "keep"}))
}

#[test]
fn apply_verify_revert() {
    let machine = Machine::new();
    let start = machine.content();
    let mut session = Session::start(&machine, "root");
    let hello = session.ok("hello", json!({"protocol": 1, "head": "0.1.0"}));
    assert_eq!(hello["role"], "root");
    let planned = session.ok("plan", json!({"plan": keep()}));
    assert_eq!(outcomes(&planned), ["ready", "ready"]);
    let applied = session.ok("apply", json!({"plan": keep()}));
    assert_eq!(
        (applied["transaction"].as_u64(), applied["state"].as_str()),
        (Some(1), Some("applied"))
    );
    assert_eq!(machine.read(SWAPPINESS), "10\n");
    let verified = session.ok("verify", json!({}));
    assert_eq!(outcomes(&verified["transactions"][0]), ["in-force", "in-force"]);
    let reverted = session.ok("revert", json!({"select": "newest"}));
    assert_eq!(outcomes(&reverted["transactions"][0]), ["restored", "restored"]);
    assert_eq!(machine.content(), start);
    session.end();
}

#[test]
fn a_stale_plan_is_a_conflict_and_changes_nothing() {
    let machine = Machine::new();
    machine.write(SWAPPINESS, "33\n");
    let start = machine.content();
    let mut session = Session::start(&machine, "root");
    let error = session.error("apply", json!({"plan": keep()}));
    assert_eq!(error["kind"], "conflict");
    assert_eq!(error["details"][0]["now"], "33\n");
    assert_eq!(error["details"][0]["expect"], "60\n");
    assert_eq!(machine.content(), start);
    assert_eq!(session.ok("status", json!({}))["transactions"], json!([]));
}

#[test]
fn forbidden_paths_are_refused_before_anything() {
    let machine = Machine::new();
    let start = machine.content();
    let mut session = Session::start(&machine, "root");
    for path in [
        "/etc/passwd",
        "/proc/sys/vm/../../../etc/passwd",
        "/proc/sys/kernel/core_pattern",
        "/sys/class/x/out",
    ] {
        let mut forbidden = keep();
        forbidden["steps"]
            .as_array_mut()
            .unwrap()
            .push(json!({"kind": "write", "path": path, "new": "1", "verify": "exact"}));
        assert_eq!(
            session.error("apply", json!({"plan": forbidden}))["kind"],
            "forbidden",
            "{path}"
        );
    }
    assert_eq!(machine.content(), start);
}

#[test]
fn all_or_nothing_and_keep_going() {
    let machine = Machine::new();
    let start = machine.content();
    let mut session = Session::start(&machine, "root");
    let mut absent = keep();
    absent["steps"]
        .as_array_mut()
        .unwrap()
        .push(json!({"kind": "write", "path": "/proc/sys/vm/nonsense", "new": "1", "verify": "integer"}));
    let reply = session.ok("apply", json!({"plan": absent}));
    assert_eq!(reply["state"], "rolled-back");
    assert_eq!(outcomes(&reply), ["not-tried", "not-tried", "absent"]);
    assert_eq!(machine.content(), start);
    absent["keep_going"] = json!(true);
    let reply = session.ok("apply", json!({"plan": absent}));
    assert_eq!(reply["state"], "applied");
    assert_eq!(outcomes(&reply), ["accepted", "accepted", "absent"]);
    session.ok("revert", json!({"select": "all"}));
    assert_eq!(machine.content(), start);
}

#[test]
fn a_contradicting_plan_is_rolled_back() {
    let machine = Machine::new();
    let start = machine.content();
    let step = |new: &str| json!({"kind": "write", "path": "/proc/sys/kernel/features", "new": new, "verify": "token"});
    let plan = json!({"schema": "ktrial.plan/2", "steps": [step("A\n"), step("NO_A\n")]});
    let mut session = Session::start(&machine, "root");
    let reply = session.ok("apply", json!({ "plan": plan }));
    assert_eq!(reply["state"], "rolled-back", "{reply}");
    assert_eq!(machine.content(), start);
}

#[test]
fn what_others_changed_is_left_alone_unless_forced() {
    let machine = Machine::new();
    let start = machine.content();
    let mut session = Session::start(&machine, "root");
    session.ok("apply", json!({"plan": keep()}));
    machine.write(SWAPPINESS, "33\n");
    let reverted = session.ok("revert", json!({"select": "newest"}));
    assert_eq!(
        outcomes(&reverted["transactions"][0]),
        ["changed-by-others", "restored"]
    );
    assert_eq!(machine.read(SWAPPINESS), "33\n");
    assert_eq!(
        session.error("revert", json!({"select": {"only": 1}}))["kind"],
        "not-found"
    );
    session.ok("revert", json!({"select": {"only": 1}, "force": true}));
    assert_eq!(machine.content(), start);
}

#[test]
fn what_was_left_alone_is_told_until_it_is_as_before() {
    let left =
        |session: &mut Session| session.ok("status", json!({}))["transactions"][0]["left_alone"].clone();
    for select in [json!("newest"), json!("all"), json!({"to": 0})] {
        let machine = Machine::new();
        let start = machine.content();
        let old = machine.read(SWAPPINESS);
        let mut session = Session::start(&machine, "root");
        session.ok("apply", json!({"plan": keep()}));
        machine.write(SWAPPINESS, "33\n");
        assert_eq!(left(&mut session), Value::Null);
        session.ok("revert", json!({"select": "newest"}));
        assert_eq!(left(&mut session), json!([SWAPPINESS]));
        machine.write(SWAPPINESS, &old);
        assert_eq!(left(&mut session), Value::Null);
        machine.write(SWAPPINESS, "33\n");
        let unforced = session.ok("revert", json!({"select": select}));
        assert_eq!(unforced["transactions"], json!([]));
        let forced = session.ok("revert", json!({"select": select, "force": true}));
        assert_eq!(forced["transactions"][0]["transaction"], 1);
        assert_eq!(machine.content(), start);
        assert_eq!(left(&mut session), Value::Null);
        let again = session.ok("revert", json!({"select": select, "force": true}));
        assert_eq!(again["transactions"], json!([]));
    }
}

#[test]
fn what_was_left_alone_outlives_any_number_of_later_transactions() {
    let machine = Machine::new();
    let mut session = Session::start(&machine, "root");
    let start = machine.content();
    let plan = |new: &str| {
        let step = json!({"kind": "write", "path": SWAPPINESS, "new": new, "verify": "integer"});
        json!({"schema": "ktrial.plan/2", "steps": [step]})
    };
    session.ok("apply", json!({"plan": plan("10")}));
    machine.write(SWAPPINESS, "33\n");
    session.ok("revert", json!({"select": "newest"}));
    for _ in 0..60 {
        session.ok("apply", json!({"plan": plan("20")}));
        session.ok("revert", json!({"select": "newest"}));
    }
    let listed = session.ok("status", json!({}))["transactions"].clone();
    assert_eq!(listed[0]["transaction"], 1);
    assert_eq!(listed[0]["left_alone"], json!([SWAPPINESS]));
    assert!(listed.as_array().unwrap().len() < 60);
    session.ok("revert", json!({"select": "newest", "force": true}));
    assert_eq!(machine.content(), start);
}

#[test]
fn what_was_left_alone_can_be_forced_later_even_if_it_was_all() {
    let machine = Machine::new();
    let start = machine.content();
    let mut session = Session::start(&machine, "root");
    let step = json!({"kind": "write", "path": SWAPPINESS, "new": "10", "verify": "integer"});
    session.ok(
        "apply",
        json!({"plan": {"schema": "ktrial.plan/2", "steps": [step]}}),
    );
    machine.write(SWAPPINESS, "33\n");
    let reverted = session.ok("revert", json!({"select": "newest"}));
    assert_eq!(outcomes(&reverted["transactions"][0]), ["changed-by-others"]);
    session.ok("revert", json!({"select": {"only": 1}, "force": true}));
    assert_eq!(machine.content(), start);
}

#[test]
fn selections_name_transactions() {
    let machine = Machine::new();
    let start = machine.content();
    let mut session = Session::start(&machine, "root");
    for new in ["10\n", "20\n", "30\n"] {
        let step = json!({"kind": "write", "path": SWAPPINESS, "new": new, "verify": "integer"});
        session.ok(
            "apply",
            json!({"plan": {"schema": "ktrial.plan/2", "steps": [step]}}),
        );
    }
    let reverted = session.ok("revert", json!({"select": {"only": 1}}));
    assert_eq!(outcomes(&reverted["transactions"][0]), ["handed-over"]);
    assert_eq!(machine.read(SWAPPINESS), "30\n");
    assert_eq!(
        session.error("revert", json!({"select": {"to": 9}}))["kind"],
        "not-found"
    );
    assert_eq!(
        session.error("verify", json!({"transaction": 9}))["kind"],
        "not-found"
    );
    session.ok("revert", json!({"select": {"to": 2}}));
    assert_eq!(machine.read(SWAPPINESS), "20\n");
    session.ok("revert", json!({"select": "all"}));
    assert_eq!(machine.content(), start);
}

#[test]
fn a_restart_ends_runtime_changes_and_keeps_files() {
    let machine = Machine::new();
    let start = machine.content();
    let mut session = Session::start(&machine, "root");
    session.ok("apply", json!({"plan": keep()}));
    machine.write("/proc/sys/kernel/random/boot_id", "the-next-boot\n");
    machine.write(SWAPPINESS, "60\n");
    assert_eq!(session.ok("recover", json!({}))["transactions"], json!([]));
    let status = session.ok("status", json!({}));
    assert_eq!(
        (
            &status["transactions"][0]["state"],
            &status["transactions"][0]["this_boot"]
        ),
        (&json!("applied"), &json!(false))
    );
    let reverted = session.ok("revert", json!({"select": "newest"}));
    assert_eq!(
        outcomes(&reverted["transactions"][0]),
        ["gone-with-boot", "restored"]
    );
    machine.write("/proc/sys/kernel/random/boot_id", "this-boot\n");
    assert_eq!(machine.content(), start);
}

#[test]
fn a_session_lease_ends_with_the_session() {
    let machine = Machine::new();
    let start = machine.content();
    let mut session = Session::start(&machine, "root");
    session.ok("apply", json!({"plan": plan(&json!({"kind": "while-session"}))}));
    assert_ne!(machine.content(), start);
    let clash = json!({"schema": "ktrial.plan/2", "steps": [{"kind": "write", "path": SWAPPINESS, "new": "5", "verify": "integer"}]});
    assert_eq!(session.error("apply", json!({"plan": clash}))["kind"], "conflict");
    // Not on top of each other either: of two holders that end at once, the older one would take the newer's value
    // for somebody else's, and the newer one put the older's back.
    let mut leased = clash;
    leased["lease"] = json!({"kind": "while-session"});
    assert_eq!(
        session.error("apply", json!({"plan": leased}))["kind"],
        "conflict"
    );
    assert_eq!(session.ok("recover", json!({}))["transactions"], json!([]));
    session.end();
    assert_eq!(machine.content(), start);
}

#[test]
fn a_session_lease_ends_when_the_agent_is_killed() {
    let machine = Machine::new();
    let start = machine.content();
    let mut session = Session::start(&machine, "root");
    session.ok("apply", json!({"plan": plan(&json!({"kind": "while-session"}))}));
    session.kill();
    eventually("the holder reverts", || machine.content() == start);
}

#[test]
fn a_timed_lease_ends_unless_confirmed() {
    let machine = Machine::new();
    let start = machine.content();
    let timed = plan(&json!({"kind": "until-confirmed", "seconds": 2}));
    let mut session = Session::start(&machine, "root");
    session.ok("apply", json!({"plan": timed}));
    session.ok("confirm", json!({"transaction": 1}));
    session.kill();
    let mut session = Session::start(&machine, "root");
    assert_eq!(
        session.ok("status", json!({}))["transactions"][0]["lease"]["kind"],
        "keep"
    );
    session.ok("revert", json!({"select": "newest"}));
    assert_eq!(machine.content(), start);
    session.ok("apply", json!({"plan": timed}));
    assert!(session.ok("status", json!({}))["transactions"][1]["deadline_unix_ms"].is_u64());
    session.hang_up();
    assert_ne!(machine.content(), start);
    eventually("the lease ends", || machine.content() == start);
}

#[test]
fn recover_ends_a_lease_whose_holder_was_killed() {
    let machine = Machine::new();
    let start = machine.content();
    let mut session = Session::start(&machine, "root");
    session.ok(
        "apply",
        json!({"plan": plan(&json!({"kind": "until-confirmed", "seconds": 600}))}),
    );
    machine.kill_holders();
    let recovered = session.ok("recover", json!({}));
    assert_eq!(recovered["transactions"][0]["state"], "reverted");
    assert_eq!(machine.content(), start);
}

#[test]
fn a_journal_that_cannot_be_written_stops_everything() {
    let machine = Machine::new();
    let start = machine.content();
    std::fs::write(machine.state(), "in the way").unwrap();
    let mut session = Session::start(&machine, "root");
    assert_eq!(session.error("apply", json!({"plan": keep()}))["kind"], "journal");
    assert_eq!(machine.content(), start);
}

#[test]
fn a_second_writer_is_told_who_is_busy() {
    let machine = Machine::new();
    let mut session = Session::start(&machine, "root");
    session.ok("apply", json!({"plan": keep()}));
    let lock = std::fs::File::open(machine.state().join("lock")).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let error = session.error("revert", json!({"select": "all"}));
    assert_eq!(error["kind"], "busy");
    assert!(error["message"].as_str().unwrap().contains("process "), "{error}");
}

#[test]
fn a_user_session_reads_and_plans() {
    let machine = Machine::new();
    let mut session = Session::start(&machine, "user");
    let read = session.ok("read", json!({"paths": [SWAPPINESS, "/proc/nothing"]}));
    assert_eq!(read["values"][0]["bytes"], "60\n");
    assert_eq!(read["values"][1]["error"]["outcome"], "absent");
    assert_eq!(outcomes(&session.ok("plan", json!({"plan": keep()})))[0], "ready");
    assert_eq!(
        session.error("apply", json!({"plan": keep()}))["kind"],
        "forbidden"
    );
}

#[test]
fn an_apply_that_a_power_cut_interrupted_leaves_no_file_behind() {
    let machine = Machine::new();
    let start = machine.content();
    // Written in another boot: old values on disk, the file in place, the end of the apply missing.
    let journal = include_bytes!("../../tests/golden/formats/journals/interrupted.journal");
    std::fs::create_dir_all(machine.state().join("transactions")).unwrap();
    std::fs::write(machine.state().join("transactions/000001.journal"), journal).unwrap();
    machine.write("/etc/sysctl.d/90-ktrial.conf", "vm.swappiness = 10\n");
    let mut session = Session::start(&machine, "root");
    assert_eq!(
        session.error("apply", json!({"plan": keep()}))["kind"],
        "conflict"
    );
    let recovered = session.ok("recover", json!({}));
    let transaction = &recovered["transactions"][0];
    assert_eq!(transaction["state"], "rolled-back");
    assert_eq!(
        outcomes(transaction),
        ["gone-with-boot", "gone-with-boot", "restored"]
    );
    assert_eq!(machine.content(), start);
    assert_eq!(session.ok("recover", json!({}))["transactions"], json!([]));
}

#[test]
fn caches_are_dropped_by_root_alone_and_leave_no_transaction() {
    let machine = Machine::new();
    let place = "/proc/sys/vm/drop_caches";
    let mut session = Session::start(&machine, "root");
    assert_eq!(session.error("drop_caches", json!({}))["kind"], "io");
    machine.write(place, "0\n");
    assert_eq!(session.ok("drop_caches", json!({})), json!({}));
    assert_eq!(machine.read(place), "3\n");
    assert_eq!(
        session.error("drop_caches", json!({"what": 1}))["kind"],
        "bad-request"
    );
    assert_eq!(session.ok("status", json!({}))["transactions"], json!([]));
    session.end();
    machine.write(place, "0\n");
    let mut user = Session::start(&machine, "user");
    assert_eq!(user.error("drop_caches", json!({}))["kind"], "forbidden");
    assert_eq!(machine.read(place), "0\n");
    user.end();
}
