// SPDX-License-Identifier: Apache-2.0
use super::*;
use std::fs;
use std::os::unix::fs::symlink;

fn tree() -> (tempfile::TempDir, Root) {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path();
    for path in [
        "proc/sys/vm",
        "sys/devices/pci/block/sda/queue",
        "sys/block",
        "etc/sysctl.d",
        "sys/class/x",
    ] {
        fs::create_dir_all(base.join(path)).unwrap();
    }
    fs::write(base.join("proc/sys/vm/swappiness"), "60\n").unwrap();
    fs::write(base.join("etc/shadow"), "secret").unwrap();
    fs::write(base.join("sys/devices/pci/block/sda/queue/nr_requests"), "64\n").unwrap();
    symlink("../devices/pci/block/sda", base.join("sys/block/sda")).unwrap();
    symlink("../../../etc", base.join("sys/class/x/out")).unwrap();
    symlink("/etc/passwd", base.join("sys/class/x/absolute")).unwrap();
    symlink("../shadow", base.join("etc/sysctl.d/90-ktrial-link.conf")).unwrap();
    let root = Root::new(base);
    (folder, root)
}

fn forbidden(root: &Root, path: &str, purpose: Purpose) -> bool {
    matches!(check(root, path, purpose), Err(Denial::Forbidden(_)))
}

#[test]
fn class_links_within_the_list_are_followed() {
    let (_folder, root) = tree();
    let path = check(&root, "/sys/block/sda/queue/nr_requests", Purpose::Write).unwrap();
    assert!(path.ends_with("sys/devices/pci/block/sda/queue/nr_requests"));
}

#[test]
fn dots_and_links_out_are_forbidden() {
    let (_folder, root) = tree();
    for path in [
        "/proc/sys/../../etc/shadow",
        "/proc/sys/./vm/swappiness",
        "proc/sys/vm/swappiness",
        "/sys/class/x/out/shadow",
        "/sys/class/x/absolute",
        "/etc/shadow",
        "/proc/sys",
        "/",
    ] {
        assert!(forbidden(&root, path, Purpose::Write), "{path}");
        assert!(forbidden(&root, path, Purpose::File), "{path}");
    }
    assert!(forbidden(
        &root,
        "/etc/sysctl.d/90-ktrial-link.conf",
        Purpose::File
    ));
    assert!(forbidden(&root, "/sys/class/x/out/shadow", Purpose::Read));
}

#[test]
fn what_opens_the_machine_is_forbidden() {
    let (_folder, root) = tree();
    for path in [
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/kernel/usermodehelper/bset",
        "/proc/sys/kernel/kexec_load_disabled",
        "/proc/sys/fs/binfmt_misc/register",
        "/sys/devices/pci/config",
        "/sys/class/net/eth0/device/remove",
        "/proc/sysrq-trigger",
        "/sys/kernel/debug/x",
        "/sys/fs/cgroup/a/release_agent",
        "/sys/fs/cgroup/a/b/cgroup.kill",
        "/sys/fs/cgroup/a/cgroup.procs",
        "/sys/fs/cgroup/devices/a/devices.allow",
        "/dev/cpuctl/a/tasks",
        "/sys/bus/pci/devices/0000:00:01.0/remove",
        "/sys/bus/pci/drivers_probe",
    ] {
        assert!(forbidden(&root, path, Purpose::Write), "{path}");
    }
}

#[test]
fn groups_within_groups_are_written_and_nothing_beside_them() {
    let (folder, root) = tree();
    let group = "/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/app.slice/a\\x2db.scope";
    let inside = folder.path().join(group.trim_start_matches('/'));
    fs::create_dir_all(&inside).unwrap();
    fs::write(inside.join("memory.high"), "max\n").unwrap();
    symlink("../../../../../../../../etc", inside.join("out")).unwrap();
    let path = check(&root, &format!("{group}/memory.high"), Purpose::Write).unwrap();
    assert_eq!(path, inside.join("memory.high"));
    for rest in [
        "../memory.high",
        "../../../../../../../../etc/shadow",
        "./memory.high",
        "out/shadow",
    ] {
        assert!(
            forbidden(&root, &format!("{group}/{rest}"), Purpose::Write),
            "{rest}"
        );
    }
}

#[test]
fn absent_files_within_the_list_are_allowed() {
    let (_folder, root) = tree();
    assert!(check(&root, "/proc/sys/vm/nonsense", Purpose::Write).is_ok());
    assert!(check(&root, "/sys/block/nvme7n1/queue/scheduler", Purpose::Write).is_ok());
    assert!(check(&root, "/sys/bus/usb/devices/1-1/power/control", Purpose::Write).is_ok());
    assert!(check(&root, "/etc/sysctl.d/90-ktrial.conf", Purpose::File).is_ok());
    assert!(check(&root, "/etc/modprobe.d/ktrial.conf", Purpose::File).is_ok());
    assert!(forbidden(&root, "/etc/sysctl.d/99-other.conf", Purpose::File));
    assert!(forbidden(&root, "/etc/sysctl.d/ktrial/x", Purpose::File));
}

#[test]
fn secrets_are_not_read_as_root() {
    let (_folder, root) = tree();
    for path in [
        "/proc/1/environ",
        "/proc/self/environ",
        "/proc/self/task/1/environ",
        "/proc/kcore",
        "/etc/shadow",
    ] {
        assert!(forbidden(&root, path, Purpose::Read), "{path}");
    }
    for path in [
        "/proc/1/comm",
        "/proc/meminfo",
        "/proc/sys/vm/swappiness",
        "/usr/lib/sysctl.d/a.conf",
        "/boot/config-6.1",
    ] {
        assert!(check(&root, path, Purpose::Read).is_ok(), "{path}");
    }
    assert!(forbidden(
        &root,
        "/usr/lib/x86_64-linux-gnu/libc.so.6",
        Purpose::Read
    ));
}

#[test]
fn stars_stay_within_a_component() {
    assert!(fits("nvme*n*", "nvme0n1"));
    assert!(fits("*", ""));
    assert!(!fits("sd*", "vda"));
    assert!(!fits("a*a", "a"));
    assert!(covers(
        "/sys/module/*/parameters/",
        "/sys/module/zswap/parameters/enabled"
    ));
    assert!(!covers(
        "/sys/module/*/parameters/",
        "/sys/module/a/b/parameters/enabled"
    ));
}
