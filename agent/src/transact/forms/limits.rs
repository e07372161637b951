// SPDX-License-Identifier: Apache-2.0
//! Notes, and size limits of rendered files.

use super::notes::{HEADER, NOTE_BYTES, NOTE_LINES};
use super::tests::{form, rendered, sda, setting};
use super::*;
use serde_json::{json, Value};

#[test]
fn nothing_stands_twice_and_nothing_is_endless() {
    let twice = |entry: Value| json!([entry, entry]);
    for (kind, entry) in [
        (
            "sysctl.d",
            json!({"path": "/proc/sys/vm/swappiness", "value": "1"}),
        ),
        (
            "tmpfiles.d",
            json!({"path": "/proc/sys/vm/swappiness", "value": "1"}),
        ),
        (
            "modprobe.d",
            json!({"module": "nvme-core", "parameter": "a", "value": "1"}),
        ),
        ("zram-generator", json!({"device": "zram0"})),
    ] {
        let why = rendered(kind, &twice(entry)).unwrap_err();
        assert!(why.contains("twice"), "{kind}: {why}");
    }
    let spelled = json!([{"module": "nvme-core", "parameter": "a", "value": "1"},
        {"module": "nvme_core", "parameter": "a", "value": "2"}]);
    assert!(rendered("modprobe.d", &spelled).is_err());
    let value = "1".repeat(VALUE_BYTES);
    let set: Vec<Value> = (0..8)
        .map(|number| json!({"attribute": format!("a{number}"), "value": value}))
        .collect();
    let why = rendered("udev", &json!([{"match": {"SUBSYSTEM": "block"}, "set": set}])).unwrap_err();
    assert!(why.contains("line"), "{why}");
    let many: Vec<Value> = (0..300)
        .map(|number| json!({"path": format!("/proc/sys/vm/k{number}"), "value": value}))
        .collect();
    let why = rendered("sysctl.d", &json!(many)).unwrap_err();
    assert!(why.contains("bytes"), "{why}");
}

#[test]
fn what_is_as_long_as_it_may_be_is_taken() {
    let longest = "1".repeat(VALUE_BYTES);
    assert!(rendered("sysctl.d", &setting("/proc/sys/vm/swappiness", &longest)).is_ok());
    // Returns a line of exactly `bytes`, plus its newline.
    let rule_of = |bytes: usize| {
        let attribute =
            |number: usize, value: &str| json!({"attribute": format!("a{number}"), "value": value});
        let mut set: Vec<Value> = (0..7).map(|number| attribute(number, &longest)).collect();
        set.push(attribute(7, "1"));
        let entries = |set: &[Value]| json!([{"match": {"SUBSYSTEM": "block"}, "set": set}]);
        let short = rendered("udev", &entries(&set)).unwrap().trim_end().len();
        set[7] = attribute(7, &"1".repeat(1 + bytes - short));
        rendered("udev", &entries(&set))
    };
    assert_eq!(rule_of(LINE_BYTES).unwrap().len(), LINE_BYTES + 1);
    assert!(rule_of(LINE_BYTES + 1).unwrap_err().contains("a line"));
    let file_of = |bytes: usize| {
        let line = "net.ipv4.k000 = \n".len();
        let (full, rest) = (bytes / (line + VALUE_BYTES), bytes % (line + VALUE_BYTES));
        let one = |number: usize, length: usize| json!({"path": format!("/proc/sys/net/ipv4/k{number:03}"), "value": "1".repeat(length)});
        let mut all: Vec<Value> = (0..full).map(|number| one(number, VALUE_BYTES)).collect();
        all.push(one(full, rest - line));
        rendered("sysctl.d", &json!(all))
    };
    assert_eq!(file_of(FILE_BYTES).unwrap().len(), FILE_BYTES);
    assert!(file_of(FILE_BYTES + 1)
        .unwrap_err()
        .contains("the file would exceed"));
}

/// One entry of each kind.
fn entries() -> Vec<(&'static str, Value)> {
    vec![
        ("sysctl.d", setting("/proc/sys/vm/swappiness", "10")),
        ("tmpfiles.d", setting("/sys/module/zswap/parameters/enabled", "Y")),
        (
            "modprobe.d",
            json!([{"module": "zram", "parameter": "num_devices", "value": "1"}]),
        ),
        ("udev", sda("queue/scheduler", "none")),
        ("zram-generator", json!([{"device": "zram0"}])),
    ]
}

#[test]
fn a_note_is_rendered_above_its_entry() {
    for (kind, entries) in entries() {
        let bare = rendered(kind, &entries).unwrap();
        let mut noted = entries.clone();
        noted[0]["note"] = json!(["why $(id) \"x\" %k", "since 2026"]);
        assert_eq!(
            rendered(kind, &noted).unwrap(),
            format!("{HEADER}# why $(id) \"x\" %k\n# since 2026\n{bare}"),
            "{kind}"
        );
        let form = form(kind, &noted).unwrap();
        assert_eq!(
            form,
            serde_json::from_value(serde_json::to_value(&form).unwrap()).unwrap()
        );
        let mut empty = entries.clone();
        empty[0]["note"] = json!([]);
        assert_eq!(rendered(kind, &empty).unwrap(), bare);
    }
    let two = json!([{"path": "/proc/sys/vm/swappiness", "value": "10"},
        {"path": "/proc/sys/vm/page-cluster", "value": "0", "note": ["why"]}]);
    assert_eq!(
        rendered("sysctl.d", &two).unwrap(),
        format!("{HEADER}vm.swappiness = 10\n# why\nvm.page-cluster = 0\n")
    );
}

#[test]
fn no_note_is_more_than_comments() {
    let long = "x".repeat(NOTE_BYTES + 1);
    let hostile = [
        "", "a\nb", "a\r", "\0", "a\\", "\\", "a\\b", "\t", "\u{7f}", "é", "\u{2028}", &long,
    ];
    for (kind, entries) in entries() {
        for line in hostile {
            let mut noted = entries.clone();
            noted[0]["note"] = json!(["fine", line]);
            assert!(rendered(kind, &noted).is_err(), "{kind}: {line:?}");
        }
        for (lines, taken) in [(NOTE_LINES, true), (NOTE_LINES + 1, false)] {
            let mut noted = entries.clone();
            noted[0]["note"] = json!(vec!["x".repeat(NOTE_BYTES); lines]);
            assert_eq!(rendered(kind, &noted).is_ok(), taken, "{kind}: {lines}");
        }
        let mut noted = entries.clone();
        noted[0]["note"] = json!("text");
        assert!(rendered(kind, &noted).is_err(), "{kind}");
    }
}
