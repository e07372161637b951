// SPDX-License-Identifier: Apache-2.0
//! Boots of a fake machine, whose kernel and loader the test plays.

use super::*;
use crate::transact::apply;
use crate::transact::context::Role;
use crate::transact::forms::REHEARSAL;
use crate::transact::plan::Plan;
use crate::transact::revert::{self, Select};
use std::fs;

const LINE: &str = "BOOT_IMAGE=/boot/vmlinuz root=UUID=1 ro quiet";
const ENVIRONMENT: &str = "/boot/grub/grubenv";
const ENTRIES: &str = "/boot/grub/custom.cfg";

pub(super) struct Machine {
    _folder: tempfile::TempDir,
    pub(super) context: Context,
}

fn environment(lines: &str) -> Vec<u8> {
    let mut block = format!("# GRUB Environment Block\n{lines}").into_bytes();
    block.resize(1024, b'#');
    block
}

impl Machine {
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for path in [
            "boot/grub",
            "proc/sys/kernel/random",
            "etc/systemd/system",
            "var/lib",
        ] {
            fs::create_dir_all(folder.path().join(path)).unwrap();
        }
        let context = Context::new(Role::Root, Root::new(folder.path()), "/var/lib/ktrial");
        let machine = Self {
            _folder: folder,
            context,
        };
        machine.put("/boot/vmlinuz", b"kernel");
        machine.put(
            "/boot/grub/grub.cfg",
            b"set default=$next_entry\nsource $prefix/custom.cfg\n",
        );
        machine.put(ENVIRONMENT, &environment("saved_entry=0\n"));
        machine.boot("first", "");
        machine
    }

    pub(super) fn put(&self, path: &str, bytes: &[u8]) {
        fs::write(self.context.root.path(path), bytes).unwrap();
    }

    pub(super) fn boot(&self, boot_id: &str, more: &str) {
        self.put("/proc/sys/kernel/random/boot_id", boot_id.as_bytes());
        self.put("/proc/cmdline", format!("{LINE}{more}").as_bytes());
    }

    fn environment(&self) -> Vec<u8> {
        self.context.root.read_bytes(ENVIRONMENT).unwrap()
    }

    pub(super) fn prepare(&mut self) -> u64 {
        let report = apply::apply(&mut self.context, &plan(&json!({}))).unwrap();
        let report = json!(report);
        assert_eq!(report["state"], "applied", "{report:#}");
        report["transaction"].as_u64().unwrap()
    }

    /// Plays GRUB: starts the armed entry as GRUB does, and clears the variable.
    pub(super) fn grub_starts(&self, id: &str) {
        self.put(
            ENVIRONMENT,
            &environment(&format!("saved_entry=0\nnext_entry=\nktrial_boot={id}\n")),
        );
    }

    pub(super) fn names(&self) -> Vec<Value> {
        let status = status(&self.context, None, false).unwrap();
        let events = status["events"].as_array().unwrap();
        events.iter().map(|one| one["event"].clone()).collect()
    }
}

fn plan(more: &Value) -> Plan {
    let entry = |id: &str, words: Value| {
        let mut one = json!({"id": id, "title": "ktrial", "kernel": "/boot/vmlinuz", "file": "/boot/vmlinuz",
            "base": ["root=UUID=1", "ro"], "words": words});
        one.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        one
    };
    let entries = [
        entry(REHEARSAL, json!([])),
        entry(
            "ktrial-trial",
            json!([{"name": "transparent_hugepage", "value": "never"}]),
        ),
    ];
    let step = json!({"kind": "file", "path": ENTRIES, "expect": "", "holds": {"grub-entries": entries}});
    Plan::from_value(
        json!({"schema": "ktrial.plan/2", "title": "boot", "lease": {"kind": "keep"}, "steps": [step]}),
    )
    .unwrap()
}

fn outcome(machine: &Machine, more: &Value) -> Value {
    let steps = crate::transact::check::plan(&machine.context.root, &plan(more), true);
    json!(steps)[0].clone()
}

#[test]
fn a_rehearsal_and_an_attempt_leave_everything_as_it_was() {
    let mut machine = Machine::new();
    let before = machine.environment();
    let transaction = machine.prepare();
    arm(&machine.context, REHEARSAL, Some("ktrial-trial")).unwrap();
    assert_eq!(status(&machine.context, None, false).unwrap()["armed"], REHEARSAL);
    machine.grub_starts(REHEARSAL);
    machine.boot("second", "");
    assert_eq!(machine.names(), ["armed", "rehearsed"]);
    arm(&machine.context, "ktrial-trial", None).unwrap();
    machine.grub_starts("ktrial-trial");
    machine.boot("third", " ktrial.boot=ktrial-trial transparent_hugepage=never");
    let found = status(&machine.context, None, false).unwrap();
    assert_eq!(
        (&found["running"], &found["armed"]),
        (&json!("ktrial-trial"), &json!(null))
    );
    assert_eq!(
        found["entries"][1]["words"],
        json!(["transparent_hugepage=never"])
    );
    machine.boot("fourth", "");
    assert_eq!(machine.names(), ["armed", "rehearsed", "armed", "fell-back"]);
    revert::revert(&mut machine.context, Select::Only(transaction), false).unwrap();
    assert_eq!(machine.environment(), before);
    assert!(!machine.context.root.path(ENTRIES).exists());
}

#[test]
fn an_entry_that_was_started_and_not_found_healthy_has_failed() {
    let mut machine = Machine::new();
    machine.prepare();
    arm(&machine.context, "ktrial-trial", None).unwrap();
    machine.grub_starts("ktrial-trial");
    machine.boot("second", " ktrial.boot=ktrial-trial");
    record::append(
        &machine.context,
        &event(&machine.context, Happened::Started, "ktrial-trial"),
    )
    .unwrap();
    assert_eq!(machine.names(), ["armed", "started"]);
    machine.boot("third", "");
    assert_eq!(machine.names(), ["armed", "started", "failed"]);
    assert_eq!(
        machine.names(),
        ["armed", "started", "failed"],
        "it is recorded once"
    );
}

#[test]
fn an_entry_that_the_loader_passed_over_was_not_tried() {
    let mut machine = Machine::new();
    machine.prepare();
    arm(&machine.context, REHEARSAL, None).unwrap();
    machine.boot("second", "");
    let found = status(&machine.context, None, false).unwrap();
    assert_eq!(
        found["events"][1]["why"],
        json!(["nothing started the entry: the boot loader skipped it, or somebody chose another entry"])
    );
    assert_eq!(
        found["armed"],
        json!(null),
        "a loader that cannot forget it would start it at every boot"
    );
}

#[test]
fn a_trace_of_grub_that_cannot_be_read_is_none() {
    let mut machine = Machine::new();
    machine.prepare();
    arm(&machine.context, REHEARSAL, None).unwrap();
    machine.put(ENVIRONMENT, b"damaged");
    machine.boot("second", "");
    assert_eq!(machine.names(), ["armed", "failed"]);
}

#[test]
fn entries_stay_while_their_boot_is_checked() {
    let mut machine = Machine::new();
    let transaction = machine.prepare();
    arm(&machine.context, "ktrial-trial", None).unwrap();
    machine.grub_starts("ktrial-trial");
    machine.boot("second", " ktrial.boot=ktrial-trial");
    let happens = |machine: &Machine, what| {
        let event = event(&machine.context, what, "ktrial-trial");
        record::append(&machine.context, &event).unwrap();
    };
    happens(&machine, Happened::Started);
    for select in [Select::Newest, Select::All, Select::Only(transaction)] {
        let error = revert::revert(&mut machine.context, select, true).unwrap_err();
        assert_eq!(error.kind, Kind::Busy, "{error}");
    }
    happens(&machine, Happened::Healthy);
    revert::revert(&mut machine.context, Select::Only(transaction), false).unwrap();
}

#[test]
fn an_entry_that_was_edited_since_is_not_armed() {
    let mut machine = Machine::new();
    machine.prepare();
    let path = machine.context.root.path(ENTRIES);
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace(" ro ", " rw ")).unwrap();
    let error = arm(&machine.context, "ktrial-trial", None).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("custom.cfg was changed since ktrial prepared it"),
        "{error}"
    );
    fs::write(&path, text).unwrap();
    arm(&machine.context, "ktrial-trial", None).unwrap();
}

#[test]
fn a_clock_that_was_set_back_changes_nothing() {
    let mut machine = Machine::new();
    machine.prepare();
    arm(&machine.context, REHEARSAL, None).unwrap();
    let path = record::path(&machine.context);
    let text = fs::read_to_string(&path).unwrap();
    let at = record::read(&machine.context).unwrap()[0].at;
    fs::write(
        &path,
        text.replace(&at.to_string(), &(at + 86_400 * 365).to_string()),
    )
    .unwrap();
    machine.grub_starts(REHEARSAL);
    machine.boot("second", "");
    assert_eq!(machine.names(), ["armed", "rehearsed"]);
    arm(&machine.context, "ktrial-trial", None).unwrap();
    assert_eq!(machine.names(), ["armed", "rehearsed", "armed"]);
}

#[test]
fn a_cut_off_line_of_the_record_is_passed_over() {
    let mut machine = Machine::new();
    machine.prepare();
    arm(&machine.context, REHEARSAL, None).unwrap();
    let path = record::path(&machine.context);
    let mut text = fs::read_to_string(&path).unwrap();
    text.push_str("{\"event\":\"reh");
    fs::write(&path, text).unwrap();
    arm(&machine.context, REHEARSAL, None).unwrap();
    assert_eq!(machine.names(), ["armed", "armed"]);
}

#[test]
fn a_long_record_keeps_the_newest_events() {
    let mut machine = Machine::new();
    machine.prepare();
    arm(&machine.context, REHEARSAL, None).unwrap();
    let path = record::path(&machine.context);
    let line = fs::read_to_string(&path).unwrap();
    fs::write(&path, line.repeat((4 << 20) / line.len() + 1)).unwrap();
    arm(&machine.context, "ktrial-trial", None).unwrap();
    assert!(fs::metadata(&path).unwrap().len() < 1 << 20);
    let events = record::read(&machine.context).unwrap();
    assert_eq!(events.len(), 201);
    assert_eq!(events[200].entry, "ktrial-trial");
}

#[test]
fn a_long_series_of_boots_keeps_its_rehearsal_and_the_machine_before_it() {
    let machine = Machine::new();
    let put = |what: &str, more: Value| {
        let mut event = json!({"event": what, "entry": "ktrial-a", "boot_id": "b", "at": 1});
        event
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        record::append(&machine.context, &serde_json::from_value(event).unwrap()).unwrap();
    };
    let before =
        |unit: &str| json!({"before": {"failed": [unit], "network": [], "log": [], "writable": true}});
    put("rehearsed", json!({"loader": "old"}));
    put("armed", before("old.service"));
    put("rehearsed", json!({"loader": "grub"}));
    put("armed", before("own.service"));
    for _ in 0..60 {
        for what in ["started", "healthy", "armed", "left"] {
            put(what, json!({}));
        }
    }
    let events = record::read(&machine.context).unwrap();
    assert_eq!(events.len(), 202);
    assert_eq!(events[0].loader.as_deref(), Some("grub"));
    assert!(events[1].before.as_ref().unwrap().failed.contains("own.service"));
    assert!(events[2..].iter().all(|one| one.before.is_none()));
}

#[test]
fn what_did_not_boot_this_machine_and_kernels_of_others_are_refused() {
    let machine = Machine::new();
    assert_eq!(outcome(&machine, &json!({}))["outcome"], "ready");
    for (more, told) in [
        (json!({"base": ["init=/bin/sh"]}), "did not boot this machine"),
        (json!({"base": ["ro", "root=UUID=1"]}), "or not in this order"),
        (
            json!({"file": "/home/me/vmlinuz", "kernel": "/home/me/vmlinuz"}),
            "is not in /boot/",
        ),
        (
            json!({"words": [{"name": "init", "value": "/bin/sh"}]}),
            "ktrial never sets",
        ),
        (
            json!({"words": [{"name": "mitigations", "value": "off"}]}),
            "confirmation of its own",
        ),
    ] {
        let found = outcome(&machine, &more);
        assert_eq!(found["outcome"], "forbidden", "{found:#}");
        assert!(found["message"].as_str().unwrap().contains(told), "{found:#}");
    }
}

#[test]
fn the_loader_loads_the_files_that_were_checked() {
    let machine = Machine::new();
    machine.put("/boot/initrd.img", b"initrd");
    let good = json!({"initrds": ["/boot/initrd.img"]});
    assert_eq!(outcome(&machine, &good)["outcome"], "ready");
    for (more, told) in [
        (
            json!({"kernel": "/home/eve/vmlinuz"}),
            "the loader's /home/eve/vmlinuz is not /boot/vmlinuz",
        ),
        (json!({"initrds": ["/home/eve/initrd.img"]}), "is not in /boot/"),
        (json!({"base": ["--"]}), "did not boot this machine"),
    ] {
        let found = outcome(&machine, &more);
        assert_eq!(found["outcome"], "forbidden", "{found:#}");
        assert!(found["message"].as_str().unwrap().contains(told), "{found:#}");
    }
    let absent = outcome(&machine, &json!({"initrds": ["/boot/none.img"]}));
    assert_eq!(absent["outcome"], "absent", "{absent:#}");
}

#[test]
fn what_decides_what_runs_as_root_is_never_left_out() {
    let machine = Machine::new();
    machine.boot("first", " systemd.verity=yes");
    let found = outcome(&machine, &json!({}));
    assert_eq!(found["outcome"], "forbidden", "{found:#}");
    assert!(found["message"]
        .as_str()
        .unwrap()
        .contains("never boots without systemd.verity=yes"));
}

#[test]
fn a_rehearsal_that_was_called_off_is_none() {
    let mut machine = Machine::new();
    let transaction = machine.prepare();
    arm(&machine.context, REHEARSAL, Some("ktrial-trial")).unwrap();
    revert::revert(&mut machine.context, Select::Only(transaction), false).unwrap();
    machine.boot("second", "");
    assert_eq!(machine.names(), ["armed"]);
    machine.prepare();
    assert_eq!(machine.names(), ["armed"], "the next attempt does not inherit it");
    assert_eq!(reboot(&machine.context).unwrap_err().kind, Kind::Conflict);
}

#[test]
fn an_entry_that_somebody_has_chosen_for_the_next_boot_stays() {
    let mut machine = Machine::new();
    let transaction = machine.prepare();
    let chosen = environment("saved_entry=0\nnext_entry=memtest\n");
    machine.put(ENVIRONMENT, &chosen);
    assert!(arm(&machine.context, REHEARSAL, None).is_err());
    revert::revert(&mut machine.context, Select::Only(transaction), false).unwrap();
    assert_eq!(machine.environment(), chosen);
}

#[test]
fn a_word_that_protects_the_machine_is_not_left_out_unasked() {
    let machine = Machine::new();
    machine.boot("first", " lockdown=integrity");
    let found = outcome(&machine, &json!({}));
    assert_eq!(found["outcome"], "forbidden", "{found:#}");
    assert!(found["message"]
        .as_str()
        .unwrap()
        .contains("booting without lockdown=integrity"));
    let kept = json!({"base": ["root=UUID=1", "lockdown=integrity"]});
    assert_eq!(outcome(&machine, &kept)["outcome"], "ready");
}

#[test]
fn a_loader_that_would_not_come_back_is_refused() {
    let machine = Machine::new();
    let told = |told: &str| {
        let found = outcome(&machine, &json!({}));
        assert!(found["message"].as_str().unwrap().contains(told), "{found:#}");
    };
    machine.put(
        "/boot/grub/grub.cfg",
        b"set default=0\nsource $prefix/custom.cfg\n",
    );
    told("does not read an entry for one boot");
    machine.put("/boot/grub/grub.cfg", b"set default=$next_entry\n");
    told("does not read entries besides its own");
    machine.put("/boot/grub/grub.cfg", b"next_entry custom.cfg");
    machine.put(ENVIRONMENT, b"short");
    told("not an environment block");
    machine.put(ENVIRONMENT, &environment(""));
    machine.put(ENTRIES, b"menuentry mine {}\n");
    told("is not");
}

#[test]
fn only_what_is_prepared_is_armed_and_only_what_is_armed_is_booted() {
    let mut machine = Machine::new();
    assert_eq!(
        arm(&machine.context, REHEARSAL, None).unwrap_err().kind,
        Kind::NotFound
    );
    machine.prepare();
    assert_eq!(
        arm(&machine.context, "ktrial-other", None).unwrap_err().kind,
        Kind::NotFound
    );
    assert_eq!(
        arm(&machine.context, REHEARSAL, Some("ktrial-other"))
            .unwrap_err()
            .kind,
        Kind::NotFound
    );
    assert_eq!(reboot(&machine.context).unwrap_err().kind, Kind::Conflict);
}
