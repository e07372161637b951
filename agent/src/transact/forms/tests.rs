// SPDX-License-Identifier: Apache-2.0
use super::*;
use serde_json::{json, Value};

fn path_of(kind: &str) -> String {
    let kind = KINDS.iter().find(|each| each.name == kind).unwrap();
    let name = if kind.is_one_file() { "" } else { "60-ktrial" };
    format!("{}/{name}{}", kind.folder, kind.ending)
}

pub(super) fn form(kind: &str, entries: &Value) -> serde_json::Result<Form> {
    serde_json::from_value(json!({ kind: entries }))
}

/// Returns the text of a file, or why it is refused.
pub(super) fn rendered(kind: &str, entries: &Value) -> std::result::Result<String, String> {
    let form = form(kind, entries).map_err(|error| error.to_string())?;
    check(&path_of(kind), Some(&form), None)?;
    Ok(form.render())
}

pub(super) fn setting(path: &str, value: &str) -> Value {
    json!([{"path": path, "value": value}])
}

fn rule(matches: &Value, attribute: &str, value: &str) -> Value {
    json!([{"match": matches, "set": [{"attribute": attribute, "value": value}]}])
}

pub(super) fn sda(attribute: &str, value: &str) -> Value {
    rule(&json!({"SUBSYSTEM": "block", "KERNEL": "sda"}), attribute, value)
}

/// Returns one entry of each kind with this text as its value.
fn with_value(value: &str) -> Vec<(&'static str, Value)> {
    let parameter = json!([{"module": "zram", "parameter": "num_devices", "value": value}]);
    let mut cases = vec![
        ("sysctl.d", setting("/proc/sys/vm/swappiness", value)),
        (
            "tmpfiles.d",
            setting("/sys/module/zswap/parameters/enabled", value),
        ),
        ("modprobe.d", parameter),
        ("systemd-unit", setting("/sys/kernel/debug/sched/preempt", value)),
        ("grub.d", json!([{"name": "preempt", "value": value}])),
        ("grub.d", json!([{"name": value}])),
        (
            "drift-service",
            json!({"program": format!("/usr/{value}/ktrial")}),
        ),
        ("udev", sda("queue/scheduler", value)),
        (
            "udev",
            rule(
                &json!({"SUBSYSTEM": "block", "KERNEL": value}),
                "queue/scheduler",
                "none",
            ),
        ),
        (
            "udev",
            rule(
                &json!({"SUBSYSTEM": "block", "ATTR{queue/rotational}": value}),
                "queue/scheduler",
                "none",
            ),
        ),
        (
            "udev",
            rule(&json!({ "SUBSYSTEM": value }), "queue/scheduler", "none"),
        ),
    ];
    for key in [
        "zram-size",
        "compression-algorithm",
        "host-memory-limit",
        "zram-resident-limit",
    ] {
        cases.push(("zram-generator", json!([{"device": "zram0", key: value}])));
    }
    cases
}

#[test]
fn each_kind_is_rendered_as_its_reader_takes_it() {
    let cases = [
        (
            "sysctl.d",
            json!([{"path": "/proc/sys/vm/swappiness", "value": "10"},
                {"path": "/proc/sys/net/ipv4/tcp_rmem", "value": "4096 131072 6291456"},
                {"path": "/proc/sys/net/ipv4/conf/eth0.100/rp_filter", "value": "1"}]),
            "vm.swappiness = 10\nnet.ipv4.tcp_rmem = 4096 131072 6291456\nnet/ipv4/conf/eth0.100/rp_filter = 1\n",
        ),
        (
            "tmpfiles.d",
            json!([{"path": "/sys/kernel/mm/transparent_hugepage/defrag", "value": "defer+madvise"},
                {"path": "/sys/module/zswap/parameters/enabled", "value": "Y"}]),
            "w! /sys/kernel/mm/transparent_hugepage/defrag - - - - defer+madvise\n\
             w! /sys/module/zswap/parameters/enabled - - - - Y\n",
        ),
        (
            "modprobe.d",
            json!([{"module": "nvme-core", "parameter": "default_ps_max_latency_us", "value": "0"}]),
            "options nvme-core default_ps_max_latency_us=0\n",
        ),
        (
            "udev",
            json!([{"match": {"KERNEL": "sd[a-z]|nvme?n*", "ATTR{queue/rotational}": "0", "SUBSYSTEM": "block",
                "ACTION": "add|change"}, "set": [{"attribute": "queue/scheduler", "value": "kyber"},
                {"attribute": "queue/nr_requests", "value": "256"}]}]),
            "ACTION==\"add|change\", SUBSYSTEM==\"block\", KERNEL==\"sd[a-z]|nvme?n*\", \
             ATTR{queue/rotational}==\"0\", ATTR{queue/scheduler}=\"kyber\", ATTR{queue/nr_requests}=\"256\"\n",
        ),
        (
            "zram-generator",
            json!([{"device": "zram0", "zram-size": "min(ram / 2, 4096)", "compression-algorithm": "zstd",
                "swap-priority": 100, "host-memory-limit": "none", "zram-resident-limit": "ram * 0.5"},
                {"device": "zram1"}]),
            "[zram0]\nzram-size = min(ram / 2, 4096)\ncompression-algorithm = zstd\nswap-priority = 100\n\
             host-memory-limit = none\nzram-resident-limit = ram * 0.5\n[zram1]\n",
        ),
    ];
    for (kind, entries, expected) in cases {
        assert_eq!(rendered(kind, &entries).as_deref(), Ok(expected), "{kind}");
        let form = form(kind, &entries).unwrap();
        let again: Form = serde_json::from_value(serde_json::to_value(&form).unwrap()).unwrap();
        assert_eq!(again, form);
    }
}

#[test]
fn no_value_ends_its_line_its_quotes_or_its_field() {
    for (kind, entries) in with_value("zram0") {
        assert!(rendered(kind, &entries).is_ok(), "{kind}: {entries}");
    }
    for hostile in [
        "",
        "1\n2",
        "1\n",
        "1\r",
        "1\0",
        "1\t2",
        "1\\",
        "1\\\n2",
        "\\x0a",
        "\"",
        "1\", RUN+=\"/tmp/x",
        "'1'",
        "%k",
        "%%",
        "%n",
        "$env{x}",
        "$(id)",
        "`id`",
        "1 # 2",
        "#1",
        "1;2",
        ";",
        "{a}",
        "<x",
        "&",
        "~1",
        "é",
        "\u{85}1",
        "\u{2028}1",
        " 1",
        "1 ",
        " ",
    ] {
        for (kind, entries) in with_value(hostile) {
            assert!(rendered(kind, &entries).is_err(), "{kind}: {entries}");
        }
    }
    for pattern in ["*", "a|b", "[ab]", "?"] {
        let is_pattern = |entries: &Value| {
            let matches = &entries[0]["match"];
            matches["KERNEL"] == pattern || matches["ATTR{queue/rotational}"] == pattern
        };
        for (kind, entries) in with_value(pattern) {
            let formula = kind == "zram-generator" && pattern == "*";
            let taken = rendered(kind, &entries).is_ok();
            assert_eq!(
                taken,
                is_pattern(&entries) || formula && taken,
                "{kind}: {entries}"
            );
        }
    }
    let long = "1".repeat(VALUE_BYTES + 1);
    for (kind, entries) in with_value(&long) {
        assert!(rendered(kind, &entries).is_err(), "{kind}");
    }
    for (kind, value) in [
        ("tmpfiles.d", "-"),
        ("modprobe.d", "1 other=2"),
        ("modprobe.d", "a=b"),
    ] {
        for (_, entries) in with_value(value).iter().filter(|(each, _)| *each == kind) {
            assert!(rendered(kind, entries).is_err(), "{kind}: {entries}");
        }
    }
}

#[test]
fn no_key_is_more_than_a_key() {
    for path in [
        "/proc/sys/vm/swappiness = 1\nkernel.core_pattern",
        "/proc/sys/vm/swap piness",
        "/proc/sys/vm/swappiness=1",
        "/proc/sys/vm/../kernel/core_pattern",
        "/proc/sys/vm/./swappiness",
        "/proc/sys/vm//swappiness",
        "/proc/sys//vm/swappiness",
        "/proc/sys/vm/",
        "/proc/sys/*/swappiness",
        "/proc/sys/vm/swap?",
        "/proc/sys/vm/[a-z]",
        "/proc/sys/%k/x",
        "/proc/sys/vm/\\x41",
        "/proc/sys/vm/\"x\"",
        "/proc/sys/-vm/x",
        "/proc/sys/#vm/x",
        "proc/sys/vm/swappiness",
        "",
        "/",
    ] {
        for kind in ["sysctl.d", "tmpfiles.d"] {
            assert!(rendered(kind, &setting(path, "1")).is_err(), "{kind} {path:?}");
        }
    }
    for path in [
        "/sys/module/zswap/parameters/enabled",
        "/proc/sysrq-trigger",
        "/proc/sys/vm",
        "/proc/sys/a.b",
    ] {
        assert!(rendered("sysctl.d", &setting(path, "1")).is_err(), "{path}");
    }
    for (module, parameter) in [
        ("zram\ninstall x /bin/sh", "a"),
        ("-C", "a"),
        ("zram a=1", "b"),
        ("../zram", "a"),
        ("*", "a"),
        ("", "a"),
        ("zram", ""),
        ("zram", "a=1 b"),
        ("zram", "a\\"),
        ("zram", "../../../x"),
    ] {
        let entries = json!([{"module": module, "parameter": parameter, "value": "1"}]);
        assert!(
            rendered("modprobe.d", &entries).is_err(),
            "{module:?} {parameter:?}"
        );
    }
    for device in [
        "sda",
        "zram",
        "zram0]\n[x",
        "zram-generator",
        "zram00000",
        "zram0/../sda",
        "zramx",
        "zram0]",
    ] {
        assert!(
            rendered("zram-generator", &json!([{ "device": device }])).is_err(),
            "{device:?}"
        );
    }
    for (priority, taken) in [(-2, false), (-1, true), (32_767, true), (32_768, false)] {
        let entries = json!([{"device": "zram0", "swap-priority": priority}]);
        assert_eq!(rendered("zram-generator", &entries).is_ok(), taken, "{priority}");
    }
}

#[test]
fn a_rule_of_udev_only_writes_attributes_of_the_devices_of_one_subsystem() {
    for key in [
        "RUN",
        "RUN{program}",
        "PROGRAM",
        "IMPORT{program}",
        "IMPORT{file}",
        "ENV{SYSTEMD_WANTS}",
        "ENV{x}",
        "OWNER",
        "GROUP",
        "MODE",
        "SYMLINK",
        "NAME",
        "TAG",
        "LABEL",
        "GOTO",
        "OPTIONS",
        "SYSCTL{kernel/core_pattern}",
        "SECLABEL{selinux}",
        "TEST",
        "DEVPATH",
        "ATTRS{x}",
        "ATTR",
        "ATTR{",
        "ATTR{}",
        "ATTR{../x}",
        "ATTR{/etc/x}",
        "ATTR{[net/eth0]x}",
        "ATTR{x}=\"1\", RUN+",
        "ATTR{a}==\"b\", RUN{x}",
        "ATTR{%k}",
        "ATTR{$x}",
        "ATTR{*}",
        "KERNEL+",
        "kernel",
        "",
    ] {
        let matches = json!({"SUBSYSTEM": "block", key: "x"});
        assert!(
            rendered("udev", &rule(&matches, "queue/scheduler", "none")).is_err(),
            "{key}"
        );
    }
    for attribute in [
        "",
        "..",
        "../x",
        "/etc/x",
        "[net/eth0]x",
        "a}=\"1\", RUN+=\"x\", ATTR{b",
        "%k",
        "$x",
        "a b",
        "*",
        ".x",
    ] {
        assert!(rendered("udev", &sda(attribute, "1")).is_err(), "{attribute}");
    }
    for subsystem in ["block|net", "*", "", "../block", "a b"] {
        let entries = rule(&json!({ "SUBSYSTEM": subsystem }), "queue/scheduler", "none");
        assert!(rendered("udev", &entries).is_err(), "{subsystem}");
    }
    assert!(rendered(
        "udev",
        &rule(&json!({"KERNEL": "sda"}), "queue/scheduler", "none")
    )
    .is_err());
    let nothing = json!([{"match": {"SUBSYSTEM": "block"}, "set": []}]);
    assert!(rendered("udev", &nothing).is_err());
}

#[test]
fn there_are_no_other_kinds_and_no_other_fields() {
    for (kind, entries) in [
        ("systemd", json!([{"ExecStart": "/bin/sh"}])),
        ("modules-load.d", json!(["zram"])),
        ("sysctl.d", json!("vm.swappiness = 10\n")),
        ("sysctl.d", json!([])),
        ("udev", json!([])),
        (
            "sysctl.d",
            json!([{"path": "/proc/sys/vm/swappiness", "value": 10}]),
        ),
        (
            "tmpfiles.d",
            json!([{"path": "/proc/sys/vm/swappiness", "value": "1", "type": "L+"}]),
        ),
        ("modprobe.d", json!([{"install": "zram", "value": "/bin/sh"}])),
        (
            "modprobe.d",
            json!([{"module": "zram", "parameter": "a", "value": "1", "softdep": "x"}]),
        ),
        (
            "udev",
            json!([{"match": {"SUBSYSTEM": "block"}, "set": [], "run": ["/bin/sh"]}]),
        ),
        (
            "zram-generator",
            json!([{"device": "zram0", "set!top": "/bin/sh"}]),
        ),
        (
            "zram-generator",
            json!([{"device": "zram0", "mount-point": "/etc"}]),
        ),
        (
            "zram-generator",
            json!([{"device": "zram0", "writeback-device": "/dev/sda"}]),
        ),
    ] {
        assert!(
            rendered(kind, &entries).is_err_and(|why| !why.is_empty()),
            "{kind} {entries}"
        );
    }
}

#[test]
fn a_file_lies_where_its_kind_is_read() {
    let form = form("sysctl.d", &setting("/proc/sys/vm/swappiness", "10")).unwrap();
    assert_eq!(check("/etc/sysctl.d/90-ktrial.conf", Some(&form), None), Ok(()));
    for path in [
        "/etc/tmpfiles.d/ktrial.conf",
        "/etc/udev/rules.d/60-ktrial.rules",
        "/etc/modprobe.d/ktrial.conf",
        "/etc/systemd/system/ktrial.service",
        "/etc/systemd/zram-generator.conf.d/ktrial.conf",
        "/etc/sysctl.d/ktrial",
        "/etc/sysctl.d/ktrial.rules",
        "/etc/sysctl.d/ktrial/x.conf",
        "/etc/sysctl.d//ktrial.conf",
        "/etc/sysctl.d/ktrial\n.conf",
        "/etc/sysctl.d/ktrial .conf",
        "/etc/passwd",
        "",
    ] {
        assert!(check(path, Some(&form), None).is_err(), "{path:?}");
    }
    for kind in KINDS.iter().filter(|kind| !kind.is_shared()) {
        assert_eq!(check(&path_of(kind.name), None, None), Ok(()), "{}", kind.name);
    }
    assert!(check("/etc/systemd/system/ktrial.service", None, None).is_err());
}

#[test]
fn what_a_file_reaches_is_named_for_the_allow_list() {
    let reaches = |kind: &str, entries: &Value| form(kind, entries).unwrap().reaches();
    let write = |places: &[&str]| Reach {
        places: places.iter().map(|place| (*place).to_owned()).collect(),
        purpose: Purpose::Write,
    };
    assert_eq!(
        reaches("sysctl.d", &setting("/proc/sys/vm/swappiness", "1")),
        [write(&["/proc/sys/vm/swappiness"])]
    );
    assert_eq!(
        reaches("tmpfiles.d", &setting("/sys/x", "1")),
        [write(&["/sys/x"])]
    );
    let parameter = json!([{"module": "nvme-core", "parameter": "a", "value": "1"}]);
    assert_eq!(
        reaches("modprobe.d", &parameter),
        [write(&["/sys/module/nvme_core/parameters/a"])]
    );
    let matches = json!({"SUBSYSTEM": "block", "ATTR{size}": "0"});
    let block = |attribute: &str| {
        [
            "/sys/block/*/",
            "/sys/class/block/*/",
            "/sys/bus/block/devices/*/",
        ]
        .map(|folder| format!("{folder}{attribute}"))
        .to_vec()
    };
    assert_eq!(
        reaches("udev", &rule(&matches, "queue/scheduler", "none")),
        [
            Reach {
                places: block("queue/scheduler"),
                purpose: Purpose::Write
            },
            Reach {
                places: block("size"),
                purpose: Purpose::Read
            }
        ]
    );
    assert_eq!(reaches("zram-generator", &json!([{"device": "zram0"}])), []);
}
