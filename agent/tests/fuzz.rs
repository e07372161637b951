// SPDX-License-Identifier: Apache-2.0
//! Arbitrary and mutated input: always an answer, never a panic, never a write outside the journal's account.

use ktrial_agent::bytes::Bytes;
use ktrial_agent::root::Root;
use ktrial_agent::session::protocol;
use ktrial_agent::trace::format::Format;
use ktrial_agent::trace::page::{Layout, Lost};
use ktrial_agent::transact::context::{Context, Role};
use ktrial_agent::transact::forms::{self, Form};
use ktrial_agent::transact::journal;
use ktrial_agent::transact::plan::Plan;
use proptest::prelude::*;
use serde_json::{json, Map, Value};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const SEEDS: &str = include_str!("../../tests/golden/formats/session.requests.jsonl");
const JOURNAL: &[u8] = include_bytes!("../../tests/golden/formats/journals/reverted.journal");
/// A page of the ring buffer of Linux 6.18: three events, one of them with a length of its own, after a time extension.
const PAGE_HEADER: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
    \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";
const FORMAT: &str = "name: sched_switch\nID: 372\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
    \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\tfield:__data_loc char[] comm;\toffset:8;\tsize:4;\tsigned:0;\n";
const PLAN: &[u8] = include_bytes!("../../tests/golden/formats/plans/zram-and-run.json");

fn machine() -> (tempfile::TempDir, Context) {
    // In memory where that can be: each case syncs its journal several times.
    let folder = tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap();
    for number in 0..4 {
        let file = folder.path().join(format!("proc/sys/vm/knob{number}"));
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, format!("{number}\n")).unwrap();
    }
    fs::create_dir_all(folder.path().join("etc/sysctl.d")).unwrap();
    let added = folder.path().join("etc/ktrial/knobs.d");
    fs::create_dir_all(&added).unwrap();
    let knobs = "[[knob]]\nid = \"knobs\"\nkind = \"sysctl\"\nplaces = [\"/proc/sys/vm/knob{device}\"]\n";
    fs::write(added.join("fake.toml"), knobs).unwrap();
    let context = Context::new(Role::Root, Root::new(folder.path()), "/var/lib/ktrial");
    (folder, context)
}

fn content(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.join("proc"), folder.join("etc")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.insert(path.clone(), fs::read(path).unwrap());
            }
        }
    }
    found
}

/// Replaces, inserts and drops bytes.
fn mutated(mut bytes: Vec<u8>, changes: &[(usize, u8, u8)]) -> Vec<u8> {
    for (at, byte, how) in changes {
        let at = at % (bytes.len() + 1);
        match how % 3 {
            0 => bytes.insert(at, *byte),
            1 if at < bytes.len() => bytes[at] = *byte,
            _ if at < bytes.len() => drop(bytes.remove(at)),
            _ => {}
        }
    }
    bytes
}

fn changes() -> impl Strategy<Value = Vec<(usize, u8, u8)>> {
    prop::collection::vec((any::<usize>(), any::<u8>(), any::<u8>()), 1..12)
}

/// Answers a line, which must be one object with `ok` or an `error` that the session itself did not cause.
fn answers(line: &[u8]) {
    let (_folder, mut context) = machine();
    let reply: Value = serde_json::from_slice(&protocol::answer(&mut context, line)).unwrap();
    assert!(
        reply.get("ok").is_some() != reply.get("error").is_some(),
        "{reply}"
    );
    let message = reply["error"]["message"].as_str().unwrap_or_default();
    assert!(!message.contains("inside the agent"), "{reply}");
}

fn step() -> impl Strategy<Value = Value> {
    let write = (0..5usize, prop::sample::select(vec!["exact", "integer", "clamped", "choice"]), "[0-9]{1,4}\n?")
        .prop_map(|(number, verify, new)| {
            json!({"kind": "write", "path": format!("/proc/sys/vm/knob{number}"), "new": new, "verify": verify,
                "couples": [format!("/proc/sys/vm/knob{}", (number + 1) % 4)]})
        });
    let file = (0..3usize, prop::option::of("[0-9]{1,4}( [0-9]{1,4})?"), prop::sample::select(vec!["0644", "0600"])).prop_map(
        |(number, value, mode)| {
            let holds = value.map(|value| json!({"sysctl.d": [{"path": "/proc/sys/vm/swappiness", "value": value}]}));
            json!({"kind": "file", "path": format!("/etc/sysctl.d/9{number}-ktrial.conf"), "holds": holds, "mode": mode})
        },
    );
    prop_oneof![3 => write, 1 => file]
}

fn ask(context: &mut Context, name: &str, fields: Value) -> Option<Value> {
    let fields: Map<String, Value> = serde_json::from_value(fields).unwrap();
    protocol::dispatch(context, name, fields).ok()
}

/// A page that holds these words as its events.
fn page(words: &[u32]) -> Vec<u8> {
    let mut page = 1_000_000_u64.to_ne_bytes().to_vec();
    page.extend((words.len() as u64 * 4).to_ne_bytes());
    page.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
    page
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_line_is_answered(line in prop::collection::vec(any::<u8>(), 0..200)) {
        answers(&line);
    }

    #[test]
    fn a_mutated_request_is_answered(number in any::<prop::sample::Index>(), changes in changes()) {
        let seeds: Vec<&str> = SEEDS.lines().collect();
        answers(&mutated(number.get(&seeds).as_bytes().to_vec(), &changes));
    }

    #[test]
    fn a_mutated_plan_is_read_or_refused(changes in changes()) {
        if let Ok(plan) = Plan::from_text(&mutated(PLAN.to_vec(), &changes)) {
            let again = Plan::from_value(serde_json::to_value(&plan).unwrap()).unwrap();
            prop_assert_eq!(plan, again);
        }
    }

    #[test]
    fn whatever_a_form_is_told_it_renders_one_line_for_each_key_or_refuses(
        key in "[a-z]{1,3}([^a-z]|[a-z/.-]){0,8}",
        value in "[^a-z]{0,3}|[0-9]{1,3}[\\PC\n\r\t]{0,3}|[0-9a-z ,+-]{1,9}",
    ) {
        let path = format!("/proc/sys/{key}");
        let rule = json!({"match": {"SUBSYSTEM": "block", "KERNEL": value}, "set": [{"attribute": key, "value": value}]});
        let cases = [
            ("/etc/sysctl.d/ktrial.conf", json!({"sysctl.d": [{"path": path, "value": value}]})),
            ("/etc/tmpfiles.d/ktrial.conf", json!({"tmpfiles.d": [{"path": path, "value": value}]})),
            ("/etc/modprobe.d/ktrial.conf", json!({"modprobe.d": [{"module": key, "parameter": key, "value": value}]})),
            ("/etc/udev/rules.d/ktrial.rules", json!({ "udev": [rule] })),
        ];
        for (place, holds) in cases {
            let form: Form = serde_json::from_value(holds).unwrap();
            if forms::check(place, Some(&form), None).is_err() {
                continue;
            }
            let text = form.render();
            prop_assert_eq!(text.lines().count(), 1, "{:?}", text);
            prop_assert!(text.is_ascii() && text.ends_with('\n'), "{:?}", text);
            prop_assert!(!text.contains(['\\', '%', '$', '\'', '`', '#', ';', '\r', '\t']), "{:?}", text);
            let words: Vec<&str> = match place {
                "/etc/udev/rules.d/ktrial.rules" => text.split('"').collect(),
                _ => vec![text.trim_end()],
            };
            match form {
                Form::Sysctl(_) => {
                    let (name, set) = words[0].split_once(" = ").unwrap();
                    prop_assert!(set == value && !name.contains([' ', '*', '?', '[']) && !name.starts_with('-'));
                }
                Form::Tmpfiles(_) => {
                    let fields: Vec<&str> = words[0].splitn(7, ' ').collect();
                    prop_assert_eq!(fields, ["w!", &path, "-", "-", "-", "-", &value]);
                }
                Form::Modprobe(_) => {
                    let fields: Vec<&str> = words[0].split(' ').collect();
                    prop_assert_eq!(fields, ["options", &key, &format!("{key}={value}")]);
                }
                _ => {
                    prop_assert_eq!(words.len(), 7, "{:?}", text);
                    prop_assert_eq!((words[3], words[5]), (value.as_str(), value.as_str()));
                }
            }
        }
    }

    #[test]
    fn a_word_or_a_unit_holds_its_value_alone_or_is_refused(
        key in "[a-z]{1,3}([^a-z]|[a-z/.-]){0,8}",
        value in "[^a-z]{0,3}|[0-9]{1,3}[\\PC\n\r\t]{0,3}|[0-9a-z ,+-]{1,9}",
    ) {
        let path = format!("/sys/kernel/debug/{key}");
        let plain = |text: &str| text.is_ascii() && !text.contains(['\\', '%', '$', '\'', '"', '`', '#', ';', '\n', '\r', '\t']);
        let unit: Form = serde_json::from_value(json!({"systemd-unit": [{"path": path, "value": value}]})).unwrap();
        if forms::check("/etc/systemd/system/ktrial-keep.service", Some(&unit), None).is_ok() {
            let text = unit.render();
            let last = text.lines().last().unwrap_or_default();
            let end = format!(" ktrial \"{path}\" \"{value}\"");
            prop_assert!(last.ends_with(&end) && plain(&value) && plain(&path), "{:?}", text);
            prop_assert_eq!(text.matches("ExecStart").count(), 1);
        }
        let word: Form = serde_json::from_value(json!({"grub.d": [{"name": key, "value": value}]})).unwrap();
        if forms::check("/etc/default/grub.d/ktrial.cfg", Some(&word), None).is_ok() {
            let line = format!("GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX {key}={value}\"\n");
            prop_assert_eq!(word.render(), line);
            prop_assert!(plain(&value) && plain(&key) && !value.contains(' '), "{} {}", key, value);
        }
    }

    #[test]
    fn the_file_of_a_service_comes_back_byte_for_byte(
        lines in prop::collection::vec("( ?default_(sched|mode) ?= ?|SCX_[A-Z]{1,9}=|export SCX_FLAGS=|\\[)?[\\PC\r]{0,9}", 1..6),
        end in "\n?",
    ) {
        let old = lines.join("\n") + &end;
        for (place, kind, holds) in [
            ("/etc/scx_loader.toml", "scx-loader", json!({"scheduler": "scx_lavd", "mode": "Auto"})),
            ("/etc/default/scx", "scx-service", json!({"scheduler": "scx_lavd", "flags": "-a"})),
        ] {
            let [kept, gone]: [Form; 2] =
                [holds, Value::Null].map(|holds| serde_json::from_value(json!({ kind: holds })).unwrap());
            let expect = Bytes(old.clone().into_bytes());
            if old.is_empty() || forms::check(place, Some(&kept), Some(&expect)).is_err() {
                continue;
            }
            let text = kept.render_over(Some(&expect)).unwrap();
            let again = kept.render_over(Some(&Bytes(text.clone().into_bytes())));
            prop_assert_eq!(again, Some(text.clone()));
            prop_assert_eq!(gone.render_over(Some(&Bytes(text.into_bytes()))), Some(old.clone()));
        }
    }

    #[test]
    fn any_bytes_are_a_journal_of_what_can_be_trusted(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let contents = journal::parse(&bytes);
        prop_assert!(contents.valid_bytes <= bytes.len());
    }

    #[test]
    fn a_mutated_journal_holds_no_entry_that_was_not_written(changes in changes()) {
        let written = journal::parse(JOURNAL).entries;
        let found = journal::parse(&mutated(JOURNAL.to_vec(), &changes));
        for entry in &found.entries {
            prop_assert!(written.contains(entry));
        }
        let lost = written.len() - found.entries.len().min(written.len());
        prop_assert!(lost <= found.damage.len() + 1 + changes.len());
    }

    #[test]
    fn revert_after_apply_is_the_start(
        plans in prop::collection::vec((prop::collection::vec(step(), 1..6), any::<bool>()), 1..4),
    ) {
        let (folder, mut context) = machine();
        let start = content(folder.path());
        for (steps, keep_going) in plans {
            let plan = json!({"schema": "ktrial.plan/2", "keep_going": keep_going, "steps": steps});
            ask(&mut context, "apply", json!({ "plan": plan }));
        }
        let reply = ask(&mut context, "revert", json!({"select": "all"}));
        prop_assert!(reply.is_some());
        prop_assert_eq!(content(folder.path()), start, "{:?}", reply);
    }

    #[test]
    fn any_page_is_read_up_to_its_damage(words in prop::collection::vec(any::<u32>(), 0..64), cut in 0..300usize) {
        let layout = Layout::from_text(PAGE_HEADER).unwrap();
        let page = page(&words);
        let page = &page[..page.len().saturating_sub(cut)];
        let mut bytes = 0;
        let lost = layout.read(page, |_, record| bytes += record.len() + 4);
        prop_assert!(bytes <= page.len());
        prop_assert!(!matches!(lost, Ok(Lost::Count(_))) || page.len() > 24);
    }

    #[test]
    fn a_mutated_page_is_read_up_to_its_damage(changes in changes()) {
        let layout = Layout::from_text(PAGE_HEADER).unwrap();
        let whole = page(&[7 << 5 | 2, 372, 1, (3 << 5) + 30, 2, 1 << 5, 12, 637, 9, 5 << 5 | 1, 640, 29]);
        let (mut seen, mut found) = (0, 0);
        layout.read(&whole, |_, _| seen += 1).unwrap();
        prop_assert_eq!(seen, 3);
        let _ = layout.read(&mutated(whole, &changes), |_, _| found += 1);
        prop_assert!(found <= 64);
    }

    #[test]
    fn a_mutated_format_is_read_or_refused(changes in changes(), record in prop::collection::vec(any::<u8>(), 0..64)) {
        let text = String::from_utf8_lossy(&mutated(FORMAT.as_bytes().to_vec(), &changes)).into_owned();
        let _ = Layout::from_text(&text);
        if let Ok(format) = Format::parse(&text) {
            for name in ["common_type", "common_pid", "comm"] {
                if let Ok(field) = format.field(name) {
                    let _ = (field.number(&record), field.text(&record));
                }
            }
        }
    }
}
