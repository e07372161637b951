// SPDX-License-Identifier: Apache-2.0
//! What recovery says is true: journals that are torn, damaged, cut off, or none, and disks that take nothing more.

mod common;

use common::{eventually, forwarding, outcomes, Machine, Session};
use serde_json::{json, Value};
use std::fs;
use std::os::unix::fs::{symlink, FileTypeExt};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const AGENT: &str = env!("CARGO_BIN_EXE_ktrial-agent");
const JOURNAL: &str = "/var/lib/ktrial/transactions/000001.journal";
const SWAPPINESS: &str = "/proc/sys/vm/swappiness";
const FEATURES: &str = "/proc/sys/kernel/features";
const FILE: &str = "/etc/sysctl.d/90-ktrial.conf";

fn plan() -> Value {
    json!({"schema": "ktrial.plan/2", "title": "told", "steps": [
        {"kind": "write", "path": SWAPPINESS, "expect": "60\n", "new": "10\n", "verify": "integer"},
        {"kind": "write", "path": FEATURES, "expect": "NO_A B\n", "new": "A C\n", "verify": "exact"},
        {"kind": "file", "path": FILE, "holds": {"sysctl.d": [{"path": SWAPPINESS, "value": "10"}]}, "mode": "0644"}]})
}

/// A machine with the plan applied, what it held before, and the journal.
fn applied() -> (Machine, Vec<(&'static str, Option<String>)>, String) {
    let machine = Machine::new();
    let start = values(&machine);
    let mut session = Session::start(&machine, "root");
    assert_eq!(session.ok("apply", json!({ "plan": plan() }))["state"], "applied");
    session.end();
    let journal = machine.read(JOURNAL);
    (machine, start, journal)
}

fn values(machine: &Machine) -> Vec<(&'static str, Option<String>)> {
    [SWAPPINESS, FEATURES, FILE]
        .map(|path| (path, fs::read_to_string(machine.path(path)).ok()))
        .to_vec()
}

/// The journal with one letter of the line that holds `mark` changed.
fn damaged(journal: &str, mark: &str) -> (String, usize) {
    let number = journal.lines().position(|line| line.contains(mark)).unwrap();
    let lines = journal.lines().enumerate().map(|(index, line)| {
        let line = if index == number {
            line.replacen("\"entry\"", "\"entrx\"", 1)
        } else {
            line.to_owned()
        };
        line + "\n"
    });
    (lines.collect(), number + 1)
}

/// The journal up to and with the line that holds `mark`.
fn up_to(journal: &str, mark: &str) -> String {
    let at = journal.find(mark).unwrap();
    let end = at + journal[at..].find('\n').unwrap() + 1;
    journal[..end].to_owned()
}

/// The report of the one transaction of a reply.
fn only(reply: &Value) -> &Value {
    let transactions = reply["transactions"].as_array().unwrap();
    assert_eq!(transactions.len(), 1, "{reply}");
    &transactions[0]
}

/// It is unfinished, status says so too, nothing is applied on top of it, and forgetting it is refused.
fn assert_named(session: &mut Session, report: &Value, words: &str) {
    assert_eq!(report["state"], "unfinished", "{report}");
    let why = report["unfinished"].as_str().unwrap();
    assert!(why.contains(words), "{why}");
    assert!(why.contains("revert --only 1"), "{why}");
    let status = session.ok("status", json!({}));
    assert_eq!(only(&status)["state"], "unfinished");
    let told = only(&status)["unfinished"].as_str().unwrap();
    assert!(told.contains(words), "{told}");
    let error = session.error("apply", json!({ "plan": plan() }));
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("transaction 1 is unfinished"), "{message}");
    assert_eq!(session.error("forget", json!({}))["kind"], "conflict");
}

/// Somebody names it, and it is over.
fn resolve(session: &mut Session, force: bool) -> Value {
    let reply = session.ok("revert", json!({"select": {"only": 1}, "force": force}));
    let report = only(&reply).clone();
    assert_ne!(report["state"], "unfinished", "{report}");
    assert_eq!(report.get("unfinished"), None);
    let status = session.ok("status", json!({}));
    assert_eq!(only(&status).get("unfinished"), None);
    assert_eq!(status["damaged"], json!([]));
    assert_eq!(session.ok("recover", json!({}))["transactions"], json!([]));
    report
}

#[test]
fn a_lost_old_value_leaves_its_transaction_unfinished_until_it_is_named() {
    for is_interrupted in [false, true] {
        let (machine, start, journal) = applied();
        let journal = if is_interrupted {
            up_to(&journal, "\"writing\",\"step\":2")
        } else {
            journal
        };
        let (bad, line) = damaged(&journal, "\"old\",\"step\":1");
        machine.write(JOURNAL, &bad);
        let mut session = Session::start(&machine, "root");
        let (verb, fields) = if is_interrupted {
            ("recover", json!({}))
        } else {
            ("revert", json!({"select": "all"}))
        };
        let damage = session.ok("status", json!({}))["damaged"][0].clone();
        assert!(damage["file"].as_str().unwrap().ends_with("000001.journal"));
        assert!(
            damage["message"]
                .as_str()
                .unwrap()
                .starts_with(&format!("line {line}: ")),
            "{damage}"
        );
        for _ in 0..2 {
            let reply = session.ok(verb, fields.clone());
            assert_eq!(outcomes(only(&reply))[1], "failed");
            let now = values(&machine);
            assert_eq!((&now[0], &now[2]), (&start[0], &start[2]), "the others are back");
            assert_eq!(now[1].1.as_deref(), Some("A C\n"));
            assert_named(&mut session, only(&reply), FEATURES);
        }
        let reply = session.ok("revert", json!({"select": "all", "force": true}));
        assert_named(&mut session, only(&reply), FEATURES);
        let kept = session.ok("revert", json!({"select": {"only": 1}}));
        assert_named(&mut session, only(&kept), FEATURES);
        resolve(&mut session, true);
        machine.write(FEATURES, "NO_A B\n");
        session.ok("apply", json!({ "plan": plan() }));
        session.end();
    }
}

#[test]
fn a_journal_that_ends_before_the_first_write_proves_no_value_to_be_its_own() {
    for cut in ["\"old\",\"step\":2", "\"old\",\"step\":1", "\"begin\""] {
        for force in [false, true] {
            let (machine, start, journal) = applied();
            let changed = values(&machine);
            machine.write(JOURNAL, &up_to(&journal, cut));
            let mut session = Session::start(&machine, "root");
            for _ in 0..2 {
                let reply = session.ok("recover", json!({}));
                let report = only(&reply);
                assert_eq!(outcomes(report), ["left-alone"; 3], "{cut}: {report}");
                assert_eq!(values(&machine), changed);
                assert_named(&mut session, report, SWAPPINESS);
            }
            let report = resolve(&mut session, force);
            let told = ["\"begin\"", "\"old\",\"step\":1", "\"old\",\"step\":2"];
            let told = told.iter().position(|told| *told == cut).unwrap() + usize::from(cut.contains("old"));
            for step in 0..3 {
                let is_back = force && step < told;
                let expected = if is_back { &start } else { &changed };
                assert_eq!(values(&machine)[step], expected[step], "{cut}");
                let words = [["left-alone", "left-alone"], ["failed", "restored"]];
                assert_eq!(
                    outcomes(&report)[step],
                    words[usize::from(force)][usize::from(step < told)]
                );
            }
        }
    }
}

#[test]
fn one_that_wrote_nothing_is_over_by_itself() {
    for cut in ["\"old\",\"step\":2", "\"begin\"", ""] {
        let (machine, start, journal) = applied();
        for (path, value) in &start {
            match value {
                Some(value) => machine.write(path, value),
                None => fs::remove_file(machine.path(path)).unwrap(),
            }
        }
        let kept = if cut.is_empty() {
            String::new()
        } else {
            up_to(&journal, cut)
        };
        machine.write(JOURNAL, &kept);
        let mut session = Session::start(&machine, "root");
        let reply = session.ok("recover", json!({}));
        assert_eq!(only(&reply)["state"], "rolled-back", "{reply}");
        assert_eq!(session.ok("recover", json!({}))["transactions"], json!([]));
    }
}

#[test]
fn what_may_be_over_is_not_touched_until_somebody_names_it() {
    // The end of an apply, of a revert, and of one that was given its old values back.
    let ends: [fn(&mut Session); 2] = [
        |_| {},
        |session| {
            session.ok("revert", json!({"select": "all"}));
        },
    ];
    for (index, end) in ends.into_iter().enumerate() {
        let (machine, start, _) = applied();
        let mut session = Session::start(&machine, "root");
        end(&mut session);
        session.end();
        let journal = machine.read(JOURNAL);
        let mark = ["\"applied\"", "\"reverted\""][index];
        let (bad, line) = damaged(&journal, mark);
        assert_eq!(line, journal.lines().count());
        machine.write(JOURNAL, &bad);
        // What a third party made of it since.
        machine.write(SWAPPINESS, "33\n");
        let found = values(&machine);
        let mut session = Session::start(&machine, "root");
        for (verb, fields) in [
            ("recover", json!({})),
            ("revert", json!({"select": "newest"})),
            ("revert", json!({"select": "all", "force": true})),
            ("revert", json!({"select": {"to": 0}})),
        ] {
            let reply = session.ok(verb, fields);
            assert_eq!(values(&machine), found);
            assert_eq!(machine.read(JOURNAL), bad);
            assert_named(&mut session, only(&reply), &format!("line {line} of "));
        }
        let report = resolve(&mut session, false);
        assert_eq!(outcomes(&report)[0], "left-alone");
        assert_eq!(machine.read(SWAPPINESS), "33\n");
        assert_eq!(values(&machine)[1..], start[1..]);
        let forced = session.ok("revert", json!({"select": {"only": 1}, "force": true}));
        assert_eq!(only(&forced)["state"], "reverted");
        assert_eq!(values(&machine), start);
    }
}

#[test]
fn a_line_that_is_not_written_to_its_end_never_was() {
    let (machine, start, journal) = applied();
    let mut session = Session::start(&machine, "root");
    session.ok("revert", json!({"select": "all"}));
    session.end();
    let reverted = machine.read(JOURNAL);
    machine.write(JOURNAL, &reverted[..reverted.len() - 1]);
    let mut session = Session::start(&machine, "root");
    assert_eq!(only(&session.ok("status", json!({})))["state"], "unfinished");
    assert_eq!(only(&session.ok("recover", json!({})))["state"], "reverted");
    assert_eq!(values(&machine), start);
    assert_eq!(machine.read(JOURNAL).matches("\"reverted\"").count(), 1);
    assert!(machine.read(JOURNAL).starts_with(&journal));
}

#[test]
fn in_a_damaged_journal_only_what_is_proven_to_be_its_own_is_put_back() {
    for mark in [
        "\"old\",\"step\":1",
        "\"wrote\",\"step\":1",
        "\"applied\"",
        "\"begin\"",
    ] {
        for changed in [false, true] {
            let (machine, start, _) = applied();
            let mut session = Session::start(&machine, "root");
            // A line that shows that it stood, whatever was damaged before.
            session.ok("confirm", json!({"transaction": 1}));
            session.end();
            let journal = up_to(&machine.read(JOURNAL), "\"applied\"") + &confirmed();
            let (bad, _) = damaged(&journal, mark);
            machine.write(JOURNAL, &bad);
            if changed {
                machine.write(SWAPPINESS, "33\n");
            }
            let mut session = Session::start(&machine, "root");
            assert_eq!(
                session.ok("recover", json!({}))["transactions"],
                json!([]),
                "{mark}"
            );
            let reply = session.ok("revert", json!({"select": "newest"}));
            let is_whole = !changed && mark != "\"old\",\"step\":1";
            assert_eq!(only(&reply)["state"] != "unfinished", is_whole, "{mark}: {reply}");
            assert_eq!(
                machine.read(SWAPPINESS),
                if changed { "33\n" } else { "60\n" },
                "{mark}"
            );
            assert_eq!(values(&machine)[2], start[2], "{mark}");
            if mark != "\"old\",\"step\":1" {
                assert_eq!(values(&machine)[1], start[1], "{mark}");
                resolve_if_open(&mut session, is_whole);
                if changed {
                    assert_eq!(machine.read(SWAPPINESS), "60\n");
                }
            }
        }
    }
}

fn resolve_if_open(session: &mut Session, is_over: bool) {
    if !is_over {
        resolve(session, true);
    }
}

/// The line that a lease became `keep`.
fn confirmed() -> String {
    String::from_utf8(
        ktrial_agent::transact::journal::line(&ktrial_agent::transact::journal::Entry::Confirmed).unwrap(),
    )
    .unwrap()
}

#[test]
fn a_lost_folder_or_a_lost_plan_is_not_taken_for_all_there_was() {
    let machine = Machine::new();
    fs::create_dir(machine.path("/etc/systemd")).unwrap();
    let folder = "/etc/systemd/zram-generator.conf.d";
    let plan = json!({"schema": "ktrial.plan/2", "steps": [
        {"kind": "file", "path": format!("{folder}/ktrial.conf"), "holds": {"zram-generator": [{"device": "zram0", "zram-size": "ram / 2"}]}}]});
    let mut session = Session::start(&machine, "root");
    session.ok("apply", json!({ "plan": plan }));
    session.end();
    let (bad, line) = damaged(&machine.read(JOURNAL), "\"folder\":true");
    machine.write(JOURNAL, &bad);
    let mut session = Session::start(&machine, "root");
    let reply = session.ok("revert", json!({"select": "newest"}));
    assert_eq!(only(&reply)["state"], "unfinished", "{reply}");
    let why = only(&reply)["unfinished"].as_str().unwrap();
    assert!(
        why.contains(&format!("an old value is lost (line {line} of")),
        "{why}"
    );
    assert!(!machine.path(&format!("{folder}/ktrial.conf")).exists());
    resolve(&mut session, true);
}

#[test]
fn a_journal_of_another_boot_whose_end_is_damaged_is_unfinished_only_for_what_stays() {
    let (machine, _, journal) = applied();
    machine.write(JOURNAL, &damaged(&journal, "\"applied\"").0);
    machine.write("/proc/sys/kernel/random/boot_id", "the-next-boot\n");
    let mut session = Session::start(&machine, "root");
    assert_eq!(only(&session.ok("recover", json!({})))["state"], "unfinished");
    session.end();
    let machine = Machine::new();
    let mut runtime = plan();
    runtime["steps"].as_array_mut().unwrap().pop();
    let mut session = Session::start(&machine, "root");
    session.ok("apply", json!({ "plan": runtime }));
    machine.write(JOURNAL, &damaged(&machine.read(JOURNAL), "\"applied\"").0);
    machine.write("/proc/sys/kernel/random/boot_id", "the-next-boot\n");
    assert_eq!(only(&session.ok("recover", json!({})))["state"], "gone-with-boot");
    assert_eq!(session.ok("recover", json!({}))["transactions"], json!([]));
}

#[test]
fn journals_of_version_1_are_recovered() {
    for (name, outcome) in [("reverted", "reverted"), ("interrupted", "rolled-back")] {
        let machine = Machine::new();
        let text = include_str!("../../tests/golden/formats/journals/version-1.journal")
            .replace("5f2b7a0e-0000-4000-8000-000000000001", "this-boot");
        let mut lines: Vec<&str> = text.lines().collect();
        let until = if name == "reverted" { lines.len() } else { 7 };
        lines.truncate(until);
        fs::create_dir_all(machine.state().join("transactions")).unwrap();
        // Its first line was changed by the other boot's number: its checksum is of version 1 too.
        let first = lines[0][9..].to_owned();
        let mut first = format!("{:08x} {first}\n", crc32(&first));
        first.extend(lines[1..].iter().map(|line| format!("{line}\n")));
        machine.write(JOURNAL, &first);
        machine.write(SWAPPINESS, if name == "reverted" { "60\n" } else { "10\n" });
        let mut session = Session::start(&machine, "root");
        session.ok("recover", json!({}));
        assert_eq!(only(&session.ok("status", json!({})))["state"], outcome, "{name}");
        assert_eq!(machine.read(SWAPPINESS), "60\n");
    }
}

/// The journal with a text replaced throughout, as if it had been written so.
fn rewritten(journal: &str, from: &str, to: &str) -> String {
    let line = |line: &str| {
        let entry = line[18..].replace(from, to);
        format!("{:08x} {:08x} {entry}\n", entry.len(), crc32(&entry))
    };
    journal.lines().map(line).collect()
}

#[test]
fn files_of_free_bytes_that_an_older_version_put_are_taken_away() {
    let golden = include_str!("../../tests/golden/formats/journals/applied.journal");
    for place in [FILE, "/etc/systemd/system/ktrial-own.service"] {
        let machine = Machine::new();
        fs::create_dir_all(machine.path(place).parent().unwrap()).unwrap();
        fs::create_dir_all(machine.state().join("transactions")).unwrap();
        machine.write(JOURNAL, &rewritten(golden, FILE, place));
        machine.write(place, "vm.swappiness = 10\n");
        let mut session = Session::start(&machine, "root");
        let reply = session.ok("revert", json!({"select": "all", "force": true}));
        assert_eq!(only(&reply)["steps"][2]["outcome"], "restored", "{reply}");
        assert!(!machine.path(place).exists(), "{reply}");
    }
}

fn crc32(text: &str) -> u32 {
    let mut crc = u32::MAX;
    for byte in text.bytes() {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
        }
    }
    !crc
}

/// What may lie among the journals: how it is put there.
/// Makes something at a path.
type Maker = fn(&Path);

fn intruders() -> [(&'static str, Maker); 6] {
    [
        ("000007.journal", |path| {
            rustix::fs::mkfifoat(rustix::fs::CWD, path, rustix::fs::Mode::RUSR).unwrap();
        }),
        ("000008.journal", |path| symlink("000001.journal", path).unwrap()),
        ("000009.journal", |path| fs::create_dir(path).unwrap()),
        ("7.journal", |path| fs::write(path, "stray").unwrap()),
        ("000010.journal", |path| {
            drop(UnixListener::bind(path).unwrap());
            assert!(fs::symlink_metadata(path).unwrap().file_type().is_socket());
        }),
        ("000011.journal", |path| {
            fs::File::create(path).unwrap().set_len(65 << 20).unwrap();
        }),
    ]
}

#[test]
fn what_is_no_journal_is_named_and_skipped() {
    let (machine, start, _) = applied();
    let folder = machine.state().join("transactions");
    for (name, put) in intruders() {
        put(&folder.join(name));
    }
    // What is left beside one is none, and not in the way.
    fs::write(folder.join("000001.journal.new"), "left").unwrap();
    // It says who holds the lock, or the lease.
    for name in ["lock", "000001.holder"] {
        let file = machine.state().join(name);
        if file.exists() {
            fs::remove_file(&file).unwrap();
        }
        rustix::fs::mkfifoat(rustix::fs::CWD, file, rustix::fs::Mode::RWXU).unwrap();
    }
    let began = Instant::now();
    let mut session = Session::start(&machine, "root");
    let status = session.ok("status", json!({}));
    assert_eq!(only(&status)["state"], "applied");
    let skipped: Vec<&str> = status["skipped"]
        .as_array()
        .unwrap()
        .iter()
        .map(|skipped| skipped["file"].as_str().unwrap().rsplit('/').next().unwrap())
        .collect();
    let mut names = intruders().map(|(name, _)| name);
    names.sort_unstable();
    assert_eq!(skipped, names);
    assert_eq!(session.ok("recover", json!({}))["transactions"], json!([]));
    let other = json!({"schema": "ktrial.plan/2", "steps": [
        {"kind": "write", "path": SWAPPINESS, "new": "20\n", "verify": "integer"}]});
    let next = session.ok("apply", json!({ "plan": other }));
    assert_eq!(next["transaction"], 12, "no name is taken twice");
    session.ok("revert", json!({"select": "all"}));
    assert_eq!(values(&machine), start);
    session.end();
    assert!(began.elapsed() < Duration::from_secs(10));
}

#[test]
fn a_journal_of_somebody_else_is_skipped_by_root() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let (machine, _, _) = applied();
    std::os::unix::fs::chown(machine.path(JOURNAL), Some(1234), None).unwrap();
    let mut session = Session::start(&machine, "root");
    let status = session.ok("status", json!({}));
    assert_eq!(status["transactions"], json!([]));
    assert_eq!(status["skipped"][0]["message"], "not owned by root");
    std::os::unix::fs::chown(machine.state(), Some(1234), None).unwrap();
    let error = session.error("status", json!({}));
    assert!(
        error["message"]
            .as_str()
            .unwrap()
            .contains("is not owned by root"),
        "{error}"
    );
}

#[test]
fn what_has_changed_nothing_yet_ends_on_sigterm() {
    let (machine, _, _) = applied();
    // A file that does not answer.
    let boot_id = machine.path("/proc/sys/kernel/random/boot_id");
    fs::remove_file(&boot_id).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, &boot_id, rustix::fs::Mode::RWXU).unwrap();
    let plan_file = machine.path("/plan.json");
    fs::write(&plan_file, plan().to_string()).unwrap();
    for verb in ["status", "recover", "revert", "apply"] {
        let mut command = Command::new(AGENT);
        command.arg(verb).args((verb == "apply").then_some(&plan_file));
        let mut agent = command.arg("--root").arg(machine.root()).spawn().unwrap();
        let pid = rustix::process::Pid::from_child(&agent);
        let state = format!("/proc/{}/syscall", agent.id());
        // It waits for the other end to be opened.
        eventually("it waits", || {
            fs::read_to_string(&state).is_ok_and(|call| call.starts_with(&format!("{} ", libc::SYS_openat)))
        });
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let ended = Instant::now();
        while agent.try_wait().unwrap().is_none() {
            if ended.elapsed() > Duration::from_secs(5) {
                agent.kill().unwrap();
                panic!("{verb} does not end");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn after_a_rollback_each_step_tells_what_is_there_now() {
    let machine = Machine::new();
    let irq = "/proc/irq/7";
    fs::create_dir_all(machine.path(irq)).unwrap();
    machine.write("/proc/irq/7/smp_affinity", "f\n");
    machine.write("/proc/irq/7/effective_affinity", "8\n");
    for keep_going in [false, true] {
        let plan = json!({"schema": "ktrial.plan/2", "keep_going": keep_going, "steps": [
            {"kind": "write", "path": SWAPPINESS, "new": "10\n", "verify": "integer"},
            {"kind": "file", "path": FILE, "holds": {"sysctl.d": [{"path": SWAPPINESS, "value": "11"}]}},
            {"kind": "write", "path": "/proc/irq/7/smp_affinity", "new": "3\n", "verify": "mask",
                "effective": "/proc/irq/7/effective_affinity"},
            {"kind": "write", "path": FEATURES, "new": "A\n", "verify": "exact"}]});
        let mut session = Session::start(&machine, "root");
        let reply = session.ok("apply", json!({ "plan": plan }));
        let now: Vec<&Value> = reply["steps"]
            .as_array()
            .unwrap()
            .iter()
            .map(|step| &step["value"])
            .collect();
        if keep_going {
            assert_eq!(
                now,
                [
                    &json!("10\n"),
                    &json!("vm.swappiness = 11\n"),
                    &json!("f\n"),
                    &json!("A\n")
                ]
            );
            session.ok("revert", json!({"select": "all"}));
        } else {
            assert_eq!(reply["state"], "rolled-back");
            assert_eq!(now, [&json!("60\n"), &Value::Null, &json!("f\n"), &Value::Null]);
        }
    }
}

#[test]
fn what_cannot_be_written_back_is_unfinished_and_tried_again() {
    let (machine, start, _) = applied();
    let file = machine.path(FEATURES);
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    let mut session = Session::start(&machine, "root");
    let reply = session.ok("revert", json!({"select": "all"}));
    assert_eq!(outcomes(only(&reply)), ["restored", "failed", "restored"]);
    assert_named(&mut session, only(&reply), FEATURES);
    fs::remove_dir(&file).unwrap();
    machine.write(FEATURES, "A C\n");
    let again = session.ok("recover", json!({}));
    assert_eq!(only(&again)["state"], "reverted", "{again}");
    assert_eq!(values(&machine), start);
}

#[test]
fn a_disk_that_cannot_be_written_is_read() {
    let (machine, start, journal) = applied();
    let changed = values(&machine);
    let mut session = Session::start_read_only(&machine, "/var/lib/ktrial");
    assert_eq!(only(&session.ok("status", json!({})))["state"], "applied");
    assert_eq!(session.ok("recover", json!({}))["transactions"], json!([]));
    assert_eq!(
        session.error("revert", json!({"select": "all"}))["kind"],
        "journal"
    );
    session.end();
    assert_eq!(values(&machine), changed);
    // What was interrupted is put back all the same, and it cannot be written down.
    machine.write(JOURNAL, &up_to(&journal, "\"writing\",\"step\":2"));
    for lock in [true, false] {
        if !lock {
            fs::remove_file(machine.state().join("lock")).unwrap();
        }
        let mut session = Session::start_read_only(&machine, "/var/lib/ktrial");
        let reply = session.ok("recover", json!({}));
        assert_eq!(only(&reply)["state"], "unfinished", "{reply}");
        assert_eq!(values(&machine), start);
        session.end();
    }
    let mut session = Session::start(&machine, "root");
    assert_eq!(only(&session.ok("recover", json!({})))["state"], "rolled-back");
}

#[test]
fn steps_are_undone_in_reverse() {
    use rustix::fs::inotify;
    let (machine, start, _) = applied();
    let watch = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK).unwrap();
    let places = [SWAPPINESS, FEATURES, "/etc/sysctl.d"].map(|path| {
        let events = inotify::WatchFlags::MODIFY | inotify::WatchFlags::DELETE;
        inotify::add_watch(&watch, machine.path(path), events).unwrap()
    });
    let mut session = Session::start(&machine, "root");
    session.ok("revert", json!({"select": "newest"}));
    let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
    let mut reader = inotify::Reader::new(&watch, &mut buffer);
    let mut order = Vec::new();
    while let Ok(event) = reader.next() {
        let step = places.iter().position(|place| *place == event.wd()).unwrap();
        if order.last() != Some(&step) {
            order.push(step);
        }
    }
    assert_eq!(order, [2, 1, 0]);
    assert_eq!(values(&machine), start);
}

/// A session in a network of its own, which forwards so.
fn forwarding_session(machine: &Machine, all: u8, own: u8) -> Session {
    let [all_file, own_file] = forwarding();
    Session::start_in_own_network(
        machine,
        &format!("echo {all} > {all_file}; echo {own} > {own_file}"),
    )
}

/// What is there now.
fn forwards(session: &mut Session) -> Vec<Value> {
    let now = session.ok("read", json!({"paths": forwarding()}));
    let values = now["values"].as_array().unwrap().iter();
    values.map(|value| value["bytes"].clone()).collect()
}

#[test]
fn values_that_the_kernel_changes_with_others_go_back_in_further_passes() {
    let machine = Machine::new();
    let mut session = forwarding_session(&machine, 0, 1);
    let [all, own] = forwarding();
    let step =
        |path: &str, new: &str| json!({"kind": "write", "path": path, "new": new, "verify": "integer"});
    let plan = json!({"schema": "ktrial.plan/2", "steps": [step(&all, "1\n"), step(&own, "0\n")]});
    assert_eq!(session.ok("apply", json!({ "plan": plan }))["state"], "applied");
    let reply = session.ok("revert", json!({"select": "newest"}));
    assert_eq!(outcomes(only(&reply)), ["restored", "restored"], "{reply}");
    assert_eq!(forwards(&mut session), ["0\n", "1\n"]);
}

#[test]
fn what_the_kernel_makes_of_a_value_and_of_those_that_go_with_it_is_read_back() {
    let machine = Machine::new();
    let mut session = forwarding_session(&machine, 1, 1);
    let [all, own] = forwarding();
    let step = json!({"kind": "write", "path": all, "new": "00\n", "verify": "integer", "couples": [own]});
    let plan = json!({"schema": "ktrial.plan/2", "steps": [step]});
    let reply = session.ok("apply", json!({ "plan": plan }));
    assert_eq!(reply["steps"][0]["value"], "0\n", "{reply}");
    assert_eq!(forwards(&mut session), ["0\n", "0\n"]);
    let reply = session.ok("revert", json!({"select": "newest"}));
    assert_eq!(outcomes(only(&reply)), ["restored"], "{reply}");
    assert_eq!(forwards(&mut session), ["1\n", "1\n"]);
}

#[test]
fn a_lease_is_over_by_the_clock_of_the_boot() {
    let machine = Machine::new();
    let start = values(&machine);
    let mut leased = plan();
    leased["lease"] = json!({"kind": "until-confirmed", "seconds": 600});
    let mut session = Session::start(&machine, "root");
    session.ok("apply", json!({ "plan": leased }));
    let status = session.ok("status", json!({}));
    let left_ms = only(&status)["left_ms"].as_u64().unwrap();
    assert!((500_000..=600_000).contains(&left_ms), "{left_ms}");
    for (seconds, is_over) in [("500", false), ("700", true)] {
        let later = ["unshare", "--map-root-user", "--time", "--boottime", seconds];
        let mut session = Session::start_in(&machine, &later);
        let recovered = session.ok("recover", json!({}));
        assert_eq!(recovered["transactions"] != json!([]), is_over, "{seconds}");
        assert_eq!(values(&machine) == start, is_over);
    }
    eventually("its holder ends", || {
        !machine.state().join("000001.holder").exists()
    });
}

#[test]
fn a_lease_of_version_1_is_over_by_the_clock_on_the_wall() {
    for (deadline, is_over) in [(1, true), (4_000_000_000_000_u64, false)] {
        let machine = Machine::new();
        let start = values(&machine);
        let mut leased = plan();
        leased["lease"] = json!({"kind": "until-confirmed", "seconds": 600});
        let mut session = Session::start(&machine, "root");
        session.ok("apply", json!({ "plan": leased }));
        let journal = machine.read(JOURNAL);
        let behind = journal.split("\"deadline_boot_ms\":").nth(1).unwrap();
        let number = behind.split(['}', ',']).next().unwrap();
        let old = format!("\"deadline_boot_ms\":{number}");
        let new = format!("\"deadline_unix_ms\":{deadline}");
        machine.write_beside_holders(JOURNAL, &rewritten(&journal, &old, &new));
        let recovered = session.ok("recover", json!({}));
        assert_eq!(recovered["transactions"] != json!([]), is_over, "{deadline}");
        assert_eq!(values(&machine) == start, is_over);
        machine.kill_holders();
    }
}

#[test]
fn a_holder_ends_when_its_journal_is_taken_away_or_replaced() {
    for is_replaced in [false, true] {
        let machine = Machine::new();
        let mut leased = plan();
        leased["lease"] = json!({"kind": "until-confirmed", "seconds": 600});
        let mut session = Session::start(&machine, "root");
        session.ok("apply", json!({ "plan": leased }));
        if is_replaced {
            machine.write("/other", "no journal");
            fs::rename(machine.path("/other"), machine.path(JOURNAL)).unwrap();
        } else {
            fs::remove_file(machine.path(JOURNAL)).unwrap();
        }
        eventually("its holder ends", || machine.holders().is_empty());
    }
}

#[test]
fn a_lease_that_nobody_holds_is_unfinished() {
    for kind in [
        json!({"kind": "until-confirmed", "seconds": 600}),
        json!({"kind": "while-session"}),
    ] {
        let machine = Machine::new();
        let start = values(&machine);
        let mut leased = plan();
        leased["lease"] = kind;
        let mut session = Session::start(&machine, "root");
        session.ok("apply", json!({ "plan": leased }));
        assert_eq!(only(&session.ok("status", json!({})))["state"], "applied");
        machine.kill_holders();
        let status = session.ok("status", json!({}));
        assert_eq!(only(&status)["state"], "unfinished");
        let why = only(&status)["unfinished"].as_str().unwrap();
        assert!(why.contains("its lease has ended"), "{why}");
        assert_eq!(only(&session.ok("recover", json!({})))["state"], "reverted");
        assert_eq!(values(&machine), start);
        let status = session.ok("status", json!({}));
        assert_eq!(only(&status)["state"], "reverted");
        assert_eq!(only(&status).get("unfinished"), None);
    }
}

#[test]
fn where_plan_and_end_are_lost_what_was_read_back_tells_whose_a_value_is() {
    for (now, after) in [("10\n", "60\n"), ("33\n", "33\n")] {
        let (machine, _, journal) = applied();
        let lost = damaged(&damaged(&journal, "\"begin\"").0, "\"applied\"").0;
        machine.write(JOURNAL, &lost);
        machine.write(SWAPPINESS, now);
        let mut session = Session::start(&machine, "root");
        session.ok("revert", json!({"select": {"only": 1}}));
        assert_eq!(machine.read(SWAPPINESS), after);
    }
}
