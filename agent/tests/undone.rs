// SPDX-License-Identifier: Apache-2.0
//! What is undone when a transaction breaks off or its lease ends, and what is left alone.

mod common;

use common::{eventually, forwarding, outcomes, Machine, Session};
use serde_json::{json, Value};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const JOURNAL: &str = "/var/lib/ktrial/transactions/000001.journal";
const SWAPPINESS: &str = "/proc/sys/vm/swappiness";
const AFFINITY: &str = "/proc/irq/7/smp_affinity";
const FILE: &str = "/etc/sysctl.d/90-ktrial.conf";
const NEW_FILE: &str = "vm.swappiness = 10\n";

/// A plan that writes a knob and puts a file.
fn plan(lease: &Value) -> Value {
    json!({"schema": "ktrial.plan/2", "lease": lease, "steps": [
        {"kind": "write", "path": SWAPPINESS, "new": "10\n", "verify": "integer"},
        {"kind": "file", "path": FILE, "holds": {"sysctl.d": [{"path": "/proc/sys/vm/swappiness", "value": "10"}]}, "mode": "0644"}]})
}

fn keep() -> Value {
    plan(&json!({"kind": "keep"}))
}

/// Carries the plan out in a session that is gone then; the journal.
fn applied(machine: &Machine) -> String {
    let mut session = Session::start(machine, "root");
    assert_eq!(session.ok("apply", json!({"plan": keep()}))["state"], "applied");
    session.end();
    machine.read(JOURNAL)
}

/// Where the journal's lines end, from that of an entry on.
fn ends(journal: &str, from: &str) -> Vec<usize> {
    let first = journal.find(&format!("\"{from}\"")).unwrap();
    let ends = journal.match_indices('\n').map(|(at, _)| at + 1);
    ends.filter(|end| *end > first).collect()
}

/// Recovers what a session left, in another one; where the transaction stands then.
fn recovered(machine: &Machine) -> Value {
    let mut session = Session::start(machine, "root");
    session.ok("recover", json!({}));
    session.ok("status", json!({}))["transactions"][0]["state"].clone()
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn wherever_the_journal_has_no_more_room_all_is_put_back() {
    let mut lines = ends(&applied(&Machine::new()), "armed");
    lines.pop();
    assert_eq!(lines.len(), 5, "armed, and two lines of each step");
    for room in lines.into_iter().flat_map(|end| [end, end + 20]) {
        let machine = Machine::new();
        let start = machine.content();
        let mut session = Session::short_of_room(&machine, room as u64);
        let error = session.error("apply", json!({"plan": keep()}));
        assert_eq!(error["kind"], "journal", "{room}: {error}");
        assert!(
            error["message"].as_str().unwrap().contains("000001.journal"),
            "{error}"
        );
        session.end();
        assert_eq!(machine.content(), start, "{room}");
        // A tmpfs refuses to set more room aside than may be written, and nothing is begun.
        let is_gone = !machine.path(JOURNAL).exists();
        let state = if is_gone {
            Value::Null
        } else {
            json!("rolled-back")
        };
        assert_eq!(recovered(&machine), state, "{room}");
        assert_eq!(machine.content(), start, "{room}");
    }
}

#[test]
fn room_is_set_aside_for_all_that_may_follow() {
    let machine = Machine::new();
    let mut session = Session::start(&machine, "root");
    let mut long = keep();
    long["title"] = json!("x".repeat(60_000));
    session.ok("apply", json!({ "plan": long }));
    let journal = fs::metadata(machine.path(JOURNAL)).unwrap();
    let (length, room) = (journal.len(), journal.blocks() * 512);
    assert!(
        (3 * 60_000 + 16_384..4 * length).contains(&room),
        "{room} for {length}"
    );
}

#[test]
fn a_step_that_began_is_put_back_though_nothing_tells_how_it_ended() {
    for begun in [1, 2] {
        let machine = Machine::new();
        let start = machine.content();
        let journal = applied(&machine);
        let end = ends(&journal, "writing")[2 * begun - 2];
        assert!(journal[..end].lines().last().unwrap().contains("\"writing\""));
        machine.write(JOURNAL, &journal[..end]);
        if begun == 1 {
            fs::remove_file(machine.path(FILE)).unwrap();
        } else {
            machine.write("/etc/sysctl.d/.90-ktrial.conf.000001", "half of it");
        }
        assert_eq!(recovered(&machine), "rolled-back");
        assert_eq!(machine.content(), start, "{begun}");
        assert!(!machine.read(JOURNAL).contains("\"reverting\""));
    }
}

#[test]
fn the_end_of_a_lease_leaves_alone_what_others_changed() {
    for lease in [
        json!({"kind": "until-confirmed", "seconds": 1}),
        json!({"kind": "while-session"}),
    ] {
        for is_killed in [false, true] {
            let machine = Machine::new();
            let mut session = Session::start(&machine, "root");
            session.ok("apply", json!({"plan": plan(&lease)}));
            machine.write(SWAPPINESS, "33\n");
            if is_killed {
                session.kill();
            } else {
                session.end();
            }
            eventually("the lease ends", || !machine.path(FILE).exists());
            eventually("its holder ends", || {
                !machine.state().join("000001.holder").exists()
            });
            assert_eq!(machine.read(SWAPPINESS), "33\n", "{lease}");
        }
    }
}

#[test]
fn a_recovery_that_ends_a_lease_leaves_alone_what_others_changed() {
    for lease in [
        json!({"kind": "until-confirmed", "seconds": 600}),
        json!({"kind": "while-session"}),
    ] {
        let machine = Machine::new();
        let mut session = Session::start(&machine, "root");
        session.ok("apply", json!({"plan": plan(&lease)}));
        machine.write(SWAPPINESS, "33\n");
        machine.kill_holders();
        let reply = session.ok("recover", json!({}));
        let report = &reply["transactions"][0];
        assert_eq!(outcomes(report), ["changed-by-others", "restored"], "{reply}");
        assert_eq!(machine.read(SWAPPINESS), "33\n", "{lease}");
        assert!(!machine.path(FILE).exists());
    }
}

#[test]
fn the_end_of_a_session_ends_no_lease_that_was_confirmed_or_reverted() {
    for (verb, ask) in [
        ("confirm", json!({"transaction": 1})),
        ("revert", json!({"select": {"only": 1}})),
    ] {
        let machine = Machine::new();
        let mut session = Session::start(&machine, "root");
        let leased = json!({"kind": "while-session"});
        session.ok("apply", json!({"plan": plan(&leased)}));
        session.ok(verb, ask);
        // After a revert somebody else writes what the transaction wrote.
        machine.write(SWAPPINESS, "10\n");
        session.end();
        assert_eq!(machine.read(SWAPPINESS), "10\n", "{verb}");
    }
}

#[test]
fn a_confirmed_lease_outlasts_its_deadline() {
    let machine = Machine::new();
    let mut session = Session::start(&machine, "root");
    let lease = json!({"kind": "until-confirmed", "seconds": 1});
    session.ok("apply", json!({"plan": plan(&lease)}));
    let changed = machine.content();
    let deadline = session.ok("status", json!({}))["transactions"][0]["deadline_unix_ms"]
        .as_u64()
        .map(Duration::from_millis)
        .unwrap();
    session.ok("confirm", json!({"transaction": 1}));
    eventually("its holder ends", || {
        !machine.state().join("000001.holder").exists()
    });
    eventually("the deadline passes", || {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap() > deadline + Duration::from_millis(500)
    });
    assert_eq!(machine.content(), changed);
    assert_eq!(session.ok("recover", json!({}))["transactions"], json!([]));
    assert_eq!(machine.content(), changed);
}

#[test]
fn root_trusts_no_journals_that_others_can_write() {
    for folder in ["/var/lib/ktrial", "/var/lib/ktrial/transactions"] {
        for mode in [0o720, 0o702] {
            let machine = Machine::new();
            let start = machine.content();
            fs::create_dir_all(machine.state().join("transactions")).unwrap();
            for (folder, mode) in [
                ("/var/lib/ktrial", 0o700),
                ("/var/lib/ktrial/transactions", 0o700),
                (folder, mode),
            ] {
                fs::set_permissions(machine.path(folder), fs::Permissions::from_mode(mode)).unwrap();
            }
            let mut session = Session::start(&machine, "root");
            if is_root() {
                let error = session.error("apply", json!({"plan": keep()}));
                assert_eq!(error["kind"], "journal", "{folder} {mode:o}");
                assert!(
                    error["message"].as_str().unwrap().contains("writable by others"),
                    "{error}"
                );
                assert_eq!(machine.content(), start);
            } else {
                session.ok("apply", json!({"plan": keep()}));
            }
        }
    }
}

#[test]
fn a_file_that_was_replaced_gets_its_owner_back_and_its_mode() {
    for (content, mode) in [("vm.swappiness = 99\n", 0o640), (NEW_FILE, 0o644)] {
        let machine = Machine::new();
        machine.write(FILE, content);
        let file = machine.path(FILE);
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        if is_root() {
            std::os::unix::fs::chown(&file, Some(1234), Some(4321)).unwrap();
        }
        let rights = || {
            let found = fs::metadata(&file).unwrap();
            (found.uid(), found.gid(), found.mode())
        };
        let before = rights();
        applied(&machine);
        assert_eq!(
            rights() != before,
            is_root() || mode != 0o644,
            "the agent's own file"
        );
        let mut session = Session::start(&machine, "root");
        let reverted = session.ok("revert", json!({"select": "newest"}));
        assert_eq!(machine.read(FILE), content);
        assert_eq!(rights(), before);
        assert_eq!(outcomes(&reverted["transactions"][0])[0], "restored");
    }
}

/// A plan of one write.
fn write(path: &str, new: &str, more: &Value) -> Value {
    let mut step = json!({"kind": "write", "path": path, "new": new, "verify": "exact"});
    step.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    json!({"schema": "ktrial.plan/2", "steps": [step]})
}

#[test]
fn a_folder_that_was_made_goes_again() {
    let machine = Machine::new();
    fs::create_dir(machine.path("/etc/systemd")).unwrap();
    let folder = "/etc/systemd/zram-generator.conf.d";
    let plan = json!({"schema": "ktrial.plan/2", "steps": [
        {"kind": "file", "path": format!("{folder}/ktrial.conf"), "holds": {"zram-generator": [{"device": "zram0"}]}}]});
    let mut session = Session::start(&machine, "root");
    session.ok("apply", json!({ "plan": plan }));
    assert!(machine.path(folder).is_dir());
    session.ok("revert", json!({"select": "all"}));
    assert!(!machine.path(folder).exists());
}

#[test]
fn a_lease_ends_at_its_deadline() {
    let machine = Machine::new();
    let start = machine.content();
    let mut session = Session::start(&machine, "root");
    let lease = json!({"kind": "until-confirmed", "seconds": 4});
    let began = SystemTime::now();
    session.ok("apply", json!({"plan": plan(&lease)}));
    eventually("the lease ends", || machine.content() == start);
    let seconds = began.elapsed().unwrap().as_secs_f64();
    assert!((3.0..7.0).contains(&seconds), "{seconds}");
}

#[test]
fn nothing_is_written_over_a_lease_and_an_ended_one_is_not_confirmed() {
    for kind in [
        json!({"kind": "until-confirmed", "seconds": 600}),
        json!({"kind": "while-session"}),
    ] {
        let machine = Machine::new();
        machine.write("/proc/sys/vm/dirty_ratio", "20\n");
        let start = machine.content();
        let mut session = Session::start(&machine, "root");
        let mut leased = write(
            SWAPPINESS,
            "10\n",
            &json!({"couples": ["/proc/sys/vm/dirty_ratio"]}),
        );
        leased["lease"] = kind;
        session.ok("apply", json!({ "plan": leased }));
        let ratio = "/proc/sys/vm/dirty_ratio";
        for (path, couples) in [
            (SWAPPINESS, vec![]),
            (ratio, vec![]),
            ("/proc/sys/kernel/features", vec![ratio]),
        ] {
            let plan = write(path, "5\n", &json!({ "couples": couples }));
            assert_eq!(
                session.error("apply", json!({ "plan": plan }))["kind"],
                "conflict",
                "{path}"
            );
        }
        assert_eq!(machine.holders().len(), 1);
        session.ok("revert", json!({"select": {"only": 1}}));
        eventually("its holder ends", || machine.holders().is_empty());
        assert_eq!(
            session.error("confirm", json!({"transaction": 1}))["kind"],
            "not-found"
        );
        assert_eq!(machine.content(), start);
    }
}

#[test]
fn what_is_in_force_is_kept_however_many_came_and_went_since() {
    let machine = Machine::new();
    let start = machine.content();
    let mut session = Session::start(&machine, "root");
    session.ok("apply", json!({"plan": keep()}));
    for _ in 0..55 {
        let other = write("/proc/sys/kernel/features", "C\n", &json!({}));
        session.ok("apply", json!({ "plan": other }));
        session.ok("revert", json!({"select": "newest"}));
    }
    let kept = session.ok("status", json!({}))["transactions"].clone();
    assert!(kept.as_array().unwrap().len() < 55, "ended ones are forgotten");
    assert_eq!(kept[0]["transaction"], 1);
    session.ok("revert", json!({"select": "all"}));
    assert_eq!(machine.content(), start);
}

/// A plan that goes on after its first step, which the kernel takes and does not carry out.
fn with_an_interrupt_that_stays(machine: &Machine) -> Value {
    fs::create_dir_all(machine.path("/proc/irq/7")).unwrap();
    machine.write(AFFINITY, "f\n");
    machine.write("/proc/irq/7/effective_affinity", "8\n");
    let mut plan = keep();
    plan["keep_going"] = json!(true);
    plan["steps"].as_array_mut().unwrap().insert(
        0,
        json!({"kind": "write", "path": AFFINITY, "new": "3\n", "verify": "mask",
            "effective": "/proc/irq/7/effective_affinity"}),
    );
    plan
}

#[test]
fn a_step_that_fails_is_put_back_where_the_others_go_on() {
    let machine = Machine::new();
    let mut session = Session::start(&machine, "root");
    let reply = session.ok("apply", json!({"plan": with_an_interrupt_that_stays(&machine)}));
    assert_eq!(outcomes(&reply), ["ignored", "accepted", "accepted"]);
    assert_eq!(machine.read(AFFINITY), "f\n");
    assert_eq!(machine.read(SWAPPINESS), "10\n");
}

#[test]
fn nothing_is_put_back_that_could_not_be_written_down() {
    let machine = Machine::new();
    let room = applied(&machine).len();
    let changed = machine.content();
    let mut session = Session::short_of_room(&machine, room as u64);
    assert_eq!(
        session.error("revert", json!({"select": "all"}))["kind"],
        "journal"
    );
    assert_eq!(machine.content(), changed);
}

#[test]
fn a_link_in_the_place_of_the_journals_is_not_followed() {
    let machine = Machine::new();
    let start = machine.content();
    let elsewhere = machine.path("/var/lib/elsewhere");
    fs::create_dir_all(elsewhere.join("transactions")).unwrap();
    for folder in [elsewhere.clone(), elsewhere.join("transactions")] {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).unwrap();
    }
    std::os::unix::fs::symlink(&elsewhere, machine.state()).unwrap();
    let mut session = Session::start(&machine, "root");
    assert_eq!(session.error("apply", json!({"plan": keep()}))["kind"], "journal");
    assert_eq!(machine.content(), start);
}

#[test]
fn files_of_others_and_of_processes_are_not_touched() {
    let machine = Machine::new();
    let mut session = Session::start(&machine, "root");
    for name in [
        "99-own-ktrial.conf",
        "9-ktrial.conf",
        "own-ktrial.conf",
        "99ktrial.conf",
    ] {
        let plan = json!({"schema": "ktrial.plan/2", "steps": [
            {"kind": "file", "path": format!("/etc/sysctl.d/{name}"), "holds": {"sysctl.d": [{"path": "/proc/sys/vm/swappiness", "value": "10"}]}}]});
        assert_eq!(
            session.error("apply", json!({ "plan": plan }))["kind"],
            "forbidden",
            "{name}"
        );
    }
    for path in [
        "/proc/1/cmdline",
        "/proc/self/maps",
        "/proc/1/task/1/mem",
        "/proc/1/fd/0",
    ] {
        let read = session.ok("read", json!({"paths": [path]}));
        let message = read["values"][0]["error"]["message"].as_str().unwrap();
        assert!(message.contains("is not a path"), "{path}: {read}");
    }
}

fn integer(path: &str, new: &str) -> Value {
    json!({"kind": "write", "path": path, "new": new, "verify": "integer"})
}

/// A step that starts a service; what starts it is a shell script in the place of `systemctl`.
fn service_session(machine: &Machine, script: &str) -> (Session, Value) {
    let program = "/usr/sbin/systemctl";
    // A machine that has a container engine forwards, and its new networks do.
    let prepare = format!(
        "echo 0 > {}; mkdir /etc/sbin; mount --bind /etc/sbin /usr/sbin; printf '#!/bin/sh\n{script}\n' > {program}; chmod 755 {program}",
        forwarding()[0]
    );
    let step = json!({"kind": "run", "do": ["systemctl", "start", "tuned.service"],
        "undo": ["systemctl", "stop", "tuned.service"]});
    (Session::start_in_own_network(machine, &prepare), step)
}

/// What makes the network's files read-only, as a machine that is coming down does.
const LOCK: &str = "mount --bind /proc/sys/net /proc/sys/net; mount -o remount,bind,ro /proc/sys/net; exit 1";

#[test]
fn what_a_failed_plan_cannot_put_back_is_told_at_once_and_later() {
    let machine = Machine::new();
    let [all, own] = forwarding();
    let (mut session, service) = service_session(&machine, LOCK);
    let plan =
        json!({"schema": "ktrial.plan/2", "steps": [integer(&all, "1\n"), service, integer(&own, "0\n")]});
    let reply = session.ok("apply", json!({ "plan": plan }));
    assert_eq!(reply["state"], "unfinished", "{reply}");
    assert_eq!(outcomes(&reply), ["failed", "failed", "not-tried"], "{reply}");
    let words = reply["unfinished"].as_str().unwrap();
    assert!(
        words.contains(&all) && words.contains("revert --only 1"),
        "{words}"
    );
    let steps = &reply["steps"];
    assert_eq!(steps[0]["value"], "1\n", "what is there now");
    for (step, start) in [(0, "cannot restore it"), (2, "another step failed")] {
        let message = steps[step]["message"].as_str().unwrap();
        assert!(message.starts_with(start), "{message}");
    }
    let status = session.ok("status", json!({}));
    assert_eq!(status["transactions"][0]["state"], "unfinished", "{status}");
}

#[test]
fn a_plan_that_keeps_going_tells_which_step_could_not_be_put_back() {
    let machine = Machine::new();
    let [all, _] = forwarding();
    let (mut session, service) = service_session(&machine, "exit 1");
    let plan =
        json!({"schema": "ktrial.plan/2", "keep_going": true, "steps": [service, integer(&all, "1\n")]});
    let reply = session.ok("apply", json!({ "plan": plan }));
    assert_eq!(reply["state"], "applied", "{reply}");
    assert_eq!(outcomes(&reply), ["refused", "accepted"], "{reply}");
    let message = reply["steps"][0]["message"].as_str().unwrap();
    assert!(message.contains("cannot restore it"), "{message}");
    assert!(message.contains("systemctl stop tuned.service"), "{message}");
}

#[test]
fn a_step_that_a_later_one_undoes_has_failed() {
    let machine = Machine::new();
    let [all, own] = forwarding();
    let mut session = Session::start_in_own_network(&machine, &format!("echo 0 > {all}; echo 1 > {own}"));
    let plan = json!({"schema": "ktrial.plan/2", "steps": [integer(&own, "0\n"), integer(&all, "1\n")]});
    let reply = session.ok("apply", json!({ "plan": plan }));
    assert_eq!(reply["state"], "rolled-back", "{reply}");
    assert_eq!(outcomes(&reply), ["ignored", "rolled-back"], "{reply}");
    let message = reply["steps"][0]["message"].as_str().unwrap();
    assert!(
        message.contains("was set, but is 1 at the end of the plan"),
        "{message}"
    );
    let now = session.ok("read", json!({"paths": [all, own]}));
    assert_eq!(
        (&now["values"][0]["bytes"], &now["values"][1]["bytes"]),
        (&json!("0\n"), &json!("1\n"))
    );
}

#[test]
fn of_two_values_for_one_knob_the_last_stands() {
    let machine = Machine::new();
    let mut session = Session::start(&machine, "root");
    let plan = json!({"schema": "ktrial.plan/2", "steps": [integer(SWAPPINESS, "10\n"), integer(SWAPPINESS, "20\n")]});
    let reply = session.ok("apply", json!({ "plan": plan }));
    assert_eq!(outcomes(&reply), ["accepted", "accepted"], "{reply}");
    assert_eq!(machine.read(SWAPPINESS), "20\n");
    session.ok("revert", json!({"select": "newest"}));
    assert_eq!(machine.read(SWAPPINESS), "60\n");
}

#[test]
fn where_the_end_of_an_apply_is_damaged_a_coupled_value_is_of_it_if_the_knob_is() {
    let ratio = "/proc/sys/vm/dirty_ratio";
    for (found, own, coupled) in [
        ("10\n", "60\n", "20\n"),
        ("0xa\n", "60\n", "20\n"),
        ("33\n", "33\n", "7\n"),
        ("60\n", "60\n", "7\n"),
    ] {
        let machine = Machine::new();
        machine.write(ratio, "20\n");
        let mut session = Session::start(&machine, "root");
        let plan = write(
            SWAPPINESS,
            "10\n",
            &json!({ "couples": [ratio], "verify": "integer" }),
        );
        session.ok("apply", json!({ "plan": plan }));
        session.end();
        let confirmed =
            ktrial_agent::transact::journal::line(&ktrial_agent::transact::journal::Entry::Confirmed)
                .unwrap();
        let journal = machine.read(JOURNAL).replace("\"applied\"", "\"applief\"");
        machine.write(JOURNAL, &(journal + std::str::from_utf8(&confirmed).unwrap()));
        // What the kernel made of it.
        machine.write(ratio, "7\n");
        machine.write(SWAPPINESS, found);
        let mut session = Session::start(&machine, "root");
        let reply = session.ok("revert", json!({"select": "newest"}));
        let now = (machine.read(SWAPPINESS), machine.read(ratio));
        assert_eq!(now, (own.to_owned(), coupled.to_owned()), "{reply}");
    }
}

#[test]
fn a_value_that_is_written_otherwise_is_still_of_the_transaction() {
    let machine = Machine::new();
    let mut session = Session::start(&machine, "root");
    let plan = json!({"schema": "ktrial.plan/2", "steps": [integer(SWAPPINESS, "10\n")]});
    session.ok("apply", json!({ "plan": plan }));
    machine.write(SWAPPINESS, "0xa\n");
    let reply = session.ok("revert", json!({"select": "newest"}));
    assert_eq!(outcomes(&reply["transactions"][0]), ["restored"]);
    assert_eq!(machine.read(SWAPPINESS), "60\n");
}

#[test]
fn a_file_whose_removal_broke_off_in_a_damaged_journal_comes_back() {
    let machine = Machine::new();
    machine.write(FILE, "vm.swappiness = 99\n");
    let mut session = Session::start(&machine, "root");
    let plan = json!({"schema": "ktrial.plan/2", "steps": [
        integer(SWAPPINESS, "10\n"), {"kind": "file", "path": FILE, "holds": null}]});
    session.ok("apply", json!({ "plan": plan }));
    session.end();
    assert!(!machine.path(FILE).exists());
    let journal = machine.read(JOURNAL);
    let end = ends(&journal, "writing")[2];
    let damaged = journal[..end].replacen("\"wrote\"", "\"wrotf\"", 1);
    assert!(damaged.lines().last().unwrap().contains("\"writing\",\"step\":1"));
    machine.write(JOURNAL, &damaged);
    recovered(&machine);
    assert_eq!(machine.read(SWAPPINESS), "60\n");
    assert_eq!(machine.read(FILE), "vm.swappiness = 99\n");
}

#[test]
fn what_lies_in_the_place_of_a_file_and_cannot_be_read_is_not_taken_for_nothing() {
    let machine = Machine::new();
    let mut session = Session::start(&machine, "root");
    session.ok("apply", json!({"plan": keep()}));
    fs::remove_file(machine.path(FILE)).unwrap();
    fs::create_dir(machine.path(FILE)).unwrap();
    let reply = session.ok("revert", json!({"select": "all"}));
    assert_eq!(
        outcomes(&reply["transactions"][0]),
        ["restored", "failed"],
        "{reply}"
    );
    assert_eq!(machine.read(SWAPPINESS), "60\n");
    assert!(machine.path(FILE).is_dir());
}

#[test]
fn a_step_that_did_not_hold_is_none_of_the_transaction() {
    let machine = Machine::new();
    let mut session = Session::start(&machine, "root");
    let reply = session.ok("apply", json!({"plan": with_an_interrupt_that_stays(&machine)}));
    assert_eq!(outcomes(&reply), ["ignored", "accepted", "accepted"], "{reply}");
    // What it does not hold others may change.
    machine.write(AFFINITY, "5\n");
    let reply = session.ok("revert", json!({"select": "newest"}));
    let report = &reply["transactions"][0];
    assert_eq!(outcomes(report), ["unchanged", "restored", "restored"], "{reply}");
    assert_eq!(machine.read(AFFINITY), "5\n");
}

#[test]
fn what_is_already_as_before_is_told_as_that() {
    let machine = Machine::new();
    applied(&machine);
    machine.write(SWAPPINESS, "60\n");
    let mut session = Session::start(&machine, "root");
    let reply = session.ok("revert", json!({"select": "newest"}));
    assert_eq!(outcomes(&reply["transactions"][0]), ["unchanged", "restored"]);
}

#[test]
fn a_knob_gets_its_owner_back_and_its_mode() {
    if !is_root() {
        return;
    }
    let machine = Machine::new();
    applied(&machine);
    std::os::unix::fs::chown(machine.path(SWAPPINESS), Some(65_534), Some(65_534)).unwrap();
    fs::set_permissions(machine.path(SWAPPINESS), fs::Permissions::from_mode(0o600)).unwrap();
    let mut session = Session::start(&machine, "root");
    session.ok("revert", json!({"select": "newest"}));
    let now = fs::metadata(machine.path(SWAPPINESS)).unwrap();
    assert_eq!((now.uid(), now.gid(), now.mode() & 0o777), (0, 0, 0o644));
}

/// Two transactions whose leases end with the session; the second one writes another knob.
fn leased_twice(session: &mut Session, between: impl FnOnce(&mut Session)) {
    let leased = json!({"kind": "while-session"});
    session.ok("apply", json!({"plan": plan(&leased)}));
    between(session);
    let mut other = write("/proc/sys/kernel/features", "A C\n", &json!({}));
    other["lease"] = leased;
    session.ok("apply", json!({ "plan": other }));
}

#[test]
fn a_lease_whose_holder_was_killed_ends_with_the_session() {
    let machine = Machine::new();
    let start = machine.content();
    let mut session = Session::start(&machine, "root");
    leased_twice(&mut session, |_| machine.kill_holders());
    session.end();
    assert_eq!(machine.content(), start);
}

#[test]
fn a_holder_that_is_done_is_waited_for() {
    let machine = Machine::new();
    let mut session = Session::start(&machine, "root");
    leased_twice(&mut session, |session| {
        session.ok("revert", json!({"select": {"only": 1}}));
        eventually("its holder ends", || machine.holders().is_empty());
        assert_eq!(session.zombies(), 1);
    });
    assert_eq!(session.zombies(), 0);
}

#[test]
fn what_an_interrupted_revert_was_at_is_put_back_whatever_is_there() {
    let machine = Machine::new();
    let start = machine.content();
    applied(&machine);
    let mut session = Session::start(&machine, "root");
    session.ok("revert", json!({"select": "newest"}));
    session.end();
    let journal = machine.read(JOURNAL);
    machine.write(JOURNAL, &journal[..ends(&journal, "reverting")[0]]);
    machine.write(SWAPPINESS, "33\n");
    assert_eq!(recovered(&machine), "reverted");
    assert_eq!(machine.content(), start);
}

const HOT_REMOVE: &str = "/sys/class/zram-control/hot_remove";

/// Devices by their number and size.
fn with_zram(machine: &Machine, devices: &[(u32, &str)]) {
    fs::create_dir_all(machine.path("/sys/class/zram-control")).unwrap();
    machine.write("/proc/swaps", "Filename Type Size Used Priority\n");
    machine.write("/sys/class/zram-control/hot_add", "0\n");
    machine.write(HOT_REMOVE, "");
    for (number, size) in devices {
        let folder = format!("/sys/block/zram{number}");
        fs::create_dir_all(machine.path(&folder)).unwrap();
        for (name, content) in [
            ("disksize", *size),
            ("comp_algorithm", "[lzo] zstd\n"),
            ("reset", ""),
        ] {
            machine.write(&format!("{folder}/{name}"), content);
        }
    }
}

fn new_device() -> Value {
    json!({"schema": "ktrial.plan/2", "steps": [{"kind": "zram", "size_bytes": 8192, "swap": false}]})
}

#[test]
fn the_device_that_was_made_is_taken_away_again_and_no_other() {
    let machine = Machine::new();
    with_zram(&machine, &[(0, "0\n"), (5, "0\n")]);
    let mut session = Session::start(&machine, "root");
    session.ok("apply", json!({"plan": new_device()}));
    session.ok("revert", json!({"select": "newest"}));
    assert_eq!(machine.read(HOT_REMOVE), "0");
}

#[test]
fn of_a_device_that_was_made_and_not_written_down_the_new_and_idle_one_goes() {
    let machine = Machine::new();
    with_zram(&machine, &[(0, "0\n")]);
    let mut session = Session::start(&machine, "root");
    session.ok("apply", json!({"plan": new_device()}));
    session.end();
    let journal = machine.read(JOURNAL);
    machine.write(JOURNAL, &journal[..ends(&journal, "writing")[0]]);
    with_zram(&machine, &[(0, "0\n"), (5, "0\n"), (6, "4096\n")]);
    recovered(&machine);
    assert_eq!(machine.read(HOT_REMOVE), "5");
}

#[test]
fn where_the_name_of_a_device_is_lost_none_is_taken_away() {
    let machine = Machine::new();
    with_zram(&machine, &[(0, "0\n")]);
    let mut session = Session::start(&machine, "root");
    session.ok("apply", json!({"plan": new_device()}));
    session.end();
    let journal = machine.read(JOURNAL);
    assert!(journal.contains("\"made\""));
    machine.write(JOURNAL, &journal.replace("\"made\"", "\"madf\""));
    with_zram(&machine, &[(0, "8192\n"), (5, "0\n")]);
    let mut session = Session::start(&machine, "root");
    session.ok("revert", json!({"select": {"only": 1}}));
    assert_eq!(machine.read(HOT_REMOVE), "");
}

#[test]
fn a_file_that_others_took_away_is_left_away_where_the_end_is_damaged() {
    let machine = Machine::new();
    machine.write(FILE, "vm.swappiness = 99\n");
    let journal = applied(&machine);
    machine.write(JOURNAL, &journal.replace("\"applied\"", "\"applief\""));
    fs::remove_file(machine.path(FILE)).unwrap();
    let mut session = Session::start(&machine, "root");
    session.ok("revert", json!({"select": {"only": 1}}));
    assert_eq!(machine.read(SWAPPINESS), "60\n");
    assert!(!machine.path(FILE).exists());
}

#[test]
fn a_service_that_was_never_begun_is_not_stopped() {
    let machine = Machine::new();
    let calls = machine.path("/var/lib/calls");
    let script = format!("echo $* >> {}", calls.display());
    let (mut session, service) = service_session(&machine, &script);
    session.ok(
        "apply",
        json!({"plan": {"schema": "ktrial.plan/2", "steps": [service]}}),
    );
    session.end();
    let journal = machine.read(JOURNAL);
    machine.write(JOURNAL, &journal[..ends(&journal, "armed")[0]]);
    let before = fs::read_to_string(&calls).unwrap();
    let (mut session, _) = service_session(&machine, &script);
    session.ok("recover", json!({}));
    assert_eq!(fs::read_to_string(&calls).unwrap(), before);
    assert!(before.contains("start") && !before.contains("stop"), "{before}");
}
