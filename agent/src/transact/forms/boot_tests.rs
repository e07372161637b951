// SPDX-License-Identifier: Apache-2.0
//! Units, and words of the kernel's command line.

use super::tests::rendered;
use super::*;
use serde_json::json;

#[test]
fn units_and_words_are_rendered_as_their_readers_take_them() {
    let cases = [
        (
            "systemd-unit",
            json!([{"path": "/sys/kernel/debug/sched/base_slice_ns", "value": "3000000", "note": ["asked for"]},
                {"path": "/sys/fs/cgroup/user.slice/cpu.idle", "value": "0 1"}]),
            "# ktrial keeps this file: `ktrial drift` checks it, `ktrial keep --undo` removes it.\n\
             [Unit]\nDescription=Settings that `ktrial keep` writes at boot\n\
             After=systemd-sysctl.service systemd-tmpfiles-setup.service systemd-udev-settle.service\n\
             Wants=sys-kernel-debug.mount\nAfter=sys-kernel-debug.mount\n\n\
             [Service]\nType=oneshot\nRemainAfterExit=yes\n# asked for\n\
             ExecStart=-/bin/sh -c 'printf \"%%s\\\\n\" \"$$2\" > \"$$1\"' ktrial \
             \"/sys/kernel/debug/sched/base_slice_ns\" \"3000000\"\n\
             ExecStart=-/bin/sh -c 'printf \"%%s\\\\n\" \"$$2\" > \"$$1\"' ktrial \
             \"/sys/fs/cgroup/user.slice/cpu.idle\" \"0 1\"\n",
        ),
        (
            "systemd-wants",
            json!("ktrial-keep.service"),
            "# ktrial keeps this file: `ktrial drift` checks it, `ktrial keep --undo` removes it.\n\
             [Unit]\nWants=ktrial-keep.service\n",
        ),
        (
            "grub.d",
            json!([{"name": "threadirqs"}, {"name": "nohz_full", "value": "1-3,5", "note": ["a b"]}]),
            "# ktrial keeps this file: `ktrial drift` checks it, `ktrial keep --undo` removes it.\n\
             GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX threadirqs\"\n# a b\n\
             GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX nohz_full=1-3,5\"\n",
        ),
        (
            "drift-service",
            json!({"program": "/usr/local/bin/ktrial"}),
            "# ktrial wrote this file; `ktrial keep --watch-drift --undo` removes it.\n\
             [Unit]\nDescription=Compare the settings that ktrial keeps with what is live\n\n\
             [Service]\nType=oneshot\nExecStart=/usr/local/bin/ktrial drift\n",
        ),
        (
            "drift-timer",
            json!("daily"),
            "# ktrial wrote this file; `ktrial keep --watch-drift --undo` removes it.\n\
             [Unit]\nDescription=Compare the settings that ktrial keeps with what is live\n\n\
             [Timer]\nOnBootSec=5min\nOnCalendar=daily\nRandomizedDelaySec=15min\n",
        ),
    ];
    for (kind, entries, expected) in cases {
        assert_eq!(rendered(kind, &entries).as_deref(), Ok(expected), "{kind}");
    }
}

#[test]
fn a_target_starts_only_the_unit_that_belongs_to_it() {
    let wants = |path: &str, unit: &str| check(path, Some(&Form::Wants(unit.to_owned())), None);
    let [boot, timers] =
        ["multi-user", "timers"].map(|name| format!("/etc/systemd/system/{name}.target.d/ktrial.conf"));
    assert_eq!(wants(&boot, "ktrial-keep.service"), Ok(()));
    assert_eq!(wants(&timers, "ktrial-drift.timer"), Ok(()));
    let of_schedulers = "/etc/systemd/system/multi-user.target.d/ktrial-scx.conf".to_owned();
    assert_eq!(wants(&of_schedulers, "scx.service"), Ok(()));
    assert_eq!(wants(&of_schedulers, "scx_loader.service"), Ok(()));
    for (path, unit) in [
        (&boot, "ktrial-drift.timer"),
        (&timers, "ktrial-keep.service"),
        (&boot, "ssh.service"),
        (&boot, "scx.service"),
        (&of_schedulers, "ktrial-keep.service"),
        (&boot, "a.service\n[Service]"),
    ] {
        assert!(wants(path, unit).is_err(), "{path} {unit}");
    }
    assert!(wants(
        "/etc/systemd/system/ssh.service.d/ktrial.conf",
        "ktrial-keep.service"
    )
    .is_err());
    assert!(rendered("drift-timer", &json!("*:*:0/1")).is_err());
    for program in [
        "/usr/sbin/poweroff",
        "/usr/bin/notktrial",
        "ktrial",
        "/usr/bin/../ktrial",
    ] {
        let service = rendered("drift-service", &json!({ "program": program }));
        assert!(service.is_err(), "{program}");
    }
    assert!(
        rendered("grub.d", &json!([{"name": "a-b"}, {"name": "a_b"}])).is_err(),
        "one word twice"
    );
}
