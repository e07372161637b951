// SPDX-License-Identifier: Apache-2.0
use super::*;
use std::fs;
use std::os::unix::fs::{symlink, PermissionsExt};

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
        "/sys/module/drbd/parameters/usermode_helper",
        "/sys/module/sunrpc/parameters/cache_getent",
        "/sys/module/nfs/parameters/nfs_cache_getent",
        "/proc/sys/fs/ocfs2/nm/hb_ctl_path",
        "/sys/devices/system/machinecheck/machinecheck0/trigger",
        "/proc/sys/kernel/modprobe",
        "/proc/sys/kernel/hotplug",
        "/proc/sys/kernel/poweroff_cmd",
        "/sys/module/apparmor/parameters/mode",
        "/proc/sys/kernel/yama/ptrace_scope",
        "/proc/sys/vm/mmap_min_addr",
        "/proc/sys/kernel/modules_disabled",
        "/proc/sys/kernel/sysrq",
        "/proc/sys/fs/suid_dumpable",
        "/sys/class/nvme/nvme0/delete_controller",
        "/sys/class/nvme/nvme0/reset_controller",
        "/sys/bus/pci/devices/0000:00:01.0/reset",
        "/sys/bus/pci/devices/0000:00:01.0/rom",
        "/sys/bus/pci/devices/0000:00:01.0/resource0",
        "/sys/bus/pci/devices/0000:00:01.0/driver_override",
        "/sys/block/sda/device/state",
        "/sys/block/sda/device/delete",
        "/sys/block/sda/device/rescan",
        "/sys/devices/system/memory/hard_offline_page",
        "/sys/devices/system/memory/soft_offline_page",
        "/sys/bus/nvmem/devices/rtc0/nvmem",
        "/sys/devices/pci0000:00/i2c-0/0-0050/eeprom",
        "/sys/class/tpm/tpm0/ppi/request",
        "/sys/devices/pnp0/00:05/tpm/tpm0/ppi/request",
        "/sys/class/firmware-attributes/dell/attributes/x/current_value",
        "/sys/fs/cgroup/freezer/a/freezer.state",
    ] {
        // Neither a plan nor a journal nor a file in knobs.d allows it.
        assert!(forbidden(&root, path, Purpose::Undo), "{path}");
        assert!(forbidden(&root, path, Purpose::Write), "{path}");
    }
}

#[test]
fn a_word_that_ends_devices_is_only_a_name_elsewhere() {
    let (_folder, root) = tree();
    for path in [
        "/proc/sys/vm/state",
        "/sys/module/zswap/parameters/reset",
        "/sys/kernel/mm/lru_gen/enable",
    ] {
        assert!(!forbidden(&root, path, Purpose::Undo), "{path}");
    }
    assert!(forbidden(&root, "/sys/block/sda/state", Purpose::Undo));
}

#[test]
fn a_refusal_says_whether_reading_or_writing_is_meant() {
    let (_folder, root) = tree();
    for (purpose, words) in [
        (Purpose::Read, "never reads as root"),
        (Purpose::Write, "ktrial never writes"),
    ] {
        for path in ["/sys/class/net/eth0/device/resource0", "/sys/class/net/eth0/rom"] {
            let denial = check(&root, path, purpose).unwrap_err();
            assert!(
                matches!(&denial, Denial::Forbidden(why) if why.contains(words)),
                "{denial:?}"
            );
        }
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
    assert!(check(&root, "/proc/sys/vm/stat_interval", Purpose::Write).is_ok());
    assert!(check(&root, "/sys/block/nvme7n1/queue/scheduler", Purpose::Write).is_ok());
    assert!(check(&root, "/sys/bus/usb/devices/1-1/power/control", Purpose::Write).is_ok());
    assert!(check(&root, "/etc/sysctl.d/90-ktrial.conf", Purpose::File).is_ok());
    assert!(check(&root, "/etc/modprobe.d/ktrial.conf", Purpose::File).is_ok());
    assert!(forbidden(&root, "/etc/sysctl.d/99-other.conf", Purpose::File));
    assert!(forbidden(&root, "/etc/sysctl.d/ktrial/x", Purpose::File));
}

#[test]
fn what_is_no_knob_of_the_catalog_is_not_written_wherever_it_lies() {
    let (_folder, root) = tree();
    for path in [
        "/proc/sys/vm/nonsense",
        "/proc/sys/vm/drop_caches",
        "/sys/block/sda/queue/nonsense",
        "/sys/block/sda/queue/scheduler/below",
        "/sys/block/zram0/disksize",
        "/sys/fs/cgroup/cpu.max",
        "/sys/devices/pci/block/sda/queue/nr_requests",
        "/sys/class/rtc/rtc0/wakealarm",
        "/sys/module/any/parameters/thing",
    ] {
        assert!(forbidden(&root, path, Purpose::Write), "{path}");
    }
    for path in ["/proc/sys/vm/nonsense", "/sys/class/rtc/rtc0/wakealarm"] {
        assert!(!forbidden(&root, path, Purpose::Undo), "{path}");
    }
    assert!(forbidden(&root, "/etc/passwd", Purpose::Undo));
}

#[test]
fn every_knob_of_the_catalog_is_written_and_put_back_and_read() {
    let (_folder, root) = tree();
    let catalog = catalog();
    assert!(catalog.written.len() > 200 && catalog.read.len() > 3);
    for pattern in &catalog.written {
        let path = pattern.replace("**", "a.slice/b.service").replace('*', "x0");
        for purpose in [Purpose::Write, Purpose::Undo, Purpose::Read] {
            assert!(check(&root, &path, purpose).is_ok(), "{path} {purpose:?}");
        }
    }
    for pattern in &catalog.read {
        let path = pattern.replace("**", "a.slice/b.service").replace('*', "x0");
        assert!(check(&root, &path, Purpose::Read).is_ok(), "{path}");
        assert!(forbidden(&root, &path, Purpose::Write), "{path}");
    }
}

#[test]
fn the_agents_own_writes_are_no_others() {
    let (_folder, root) = tree();
    for path in [
        "/proc/sys/vm/drop_caches",
        "/sys/block/zram3/reset",
        "/sys/block/zram3/disksize",
    ] {
        assert!(check(&root, path, Purpose::Own).is_ok(), "{path}");
        assert!(forbidden(&root, path, Purpose::Write), "{path}");
    }
    for path in [
        "/sys/block/sda/reset",
        "/proc/sys/vm/swappiness",
        "/sys/block/zram3/backing_dev",
    ] {
        assert!(forbidden(&root, path, Purpose::Own), "{path}");
    }
}

#[test]
fn a_link_to_the_device_keeps_the_end_of_the_path() {
    let (folder, root) = tree();
    let device = folder.path().join("sys/devices/pci/block/sda");
    fs::create_dir_all(device.join("hidden")).unwrap();
    symlink("hidden", device.join("device")).unwrap();
    symlink("../real/nr_requests", device.join("hidden/scheduler")).unwrap();
    fs::rename(device.join("queue"), device.join("real")).unwrap();
    symlink("hidden", device.join("queue")).unwrap();
    let denial = check(&root, "/sys/block/sda/queue/scheduler", Purpose::Write).unwrap_err();
    let Denial::Forbidden(why) = denial else {
        panic!("{denial:?}");
    };
    assert!(why.contains("which is not a path"), "{why}");
    // The target of the link is checked too.
    symlink("/etc", folder.path().join("sys/class/net")).unwrap();
    assert!(forbidden(
        &root,
        "/sys/class/net/eth0/tx_queue_len",
        Purpose::Write
    ));
    fs::create_dir_all(folder.path().join("sys/devices/md/power")).unwrap();
    fs::create_dir_all(folder.path().join("sys/bus/pci/devices")).unwrap();
    symlink("../../../devices/md", folder.path().join("sys/bus/pci/devices/a")).unwrap();
    assert!(forbidden(
        &root,
        "/sys/bus/pci/devices/a/power/control",
        Purpose::Write
    ));
}

#[test]
fn secrets_are_not_read_as_root() {
    let (_folder, root) = tree();
    for path in [
        "/proc/1/environ",
        "/proc/self/environ",
        "/proc/self/task/1/environ",
        "/proc/1/mounts",
        "/proc/kcore",
        "/proc/kallsyms",
        "/proc/keys",
        "/etc/shadow",
        "/sys/kernel/debug/ieee80211/phy0/netdev:wlan0/keys/0/key",
        "/sys/kernel/debug/bluetooth/hci0/long_term_keys",
        "/sys/firmware/qemu_fw_cfg/by_name/opt/io.systemd.credentials/x/raw",
        "/run/cryptsetup-keys.d/root.key",
        "/etc/cryptsetup-keys.d/root.key",
        "/sys/kernel/debug/usb/usbmon/0u",
        "/sys/kernel/debug/regmap/0-001a/registers",
        "/sys/bus/pci/devices/0000:00:01.0/resource0",
        "/sys/bus/pci/devices/0000:00:01.0/rom",
        "/sys/bus/pci/devices/0000:00:01.0/config",
        "/sys/class/zram-control/hot_add",
        "/sys/devices/virtual/dmi/id/product_serial",
        "/proc/sys/net/ipv4/tcp_fastopen_key",
        "/proc/sys/net/ipv6/conf/all/stable_secret",
        "/proc/sys/vm/stat_refresh",
        "/sys/module/wifi/parameters/wpa_psk",
        "/etc/systemd/network/20-wg.netdev",
        "/usr/lib/x86_64-linux-gnu/libc.so.6",
    ] {
        assert!(forbidden(&root, path, Purpose::Read), "{path}");
        assert!(!forbidden(&root, path, Purpose::ReadAsUser), "{path}");
    }
    for path in [
        "/proc/meminfo",
        "/proc/self/mounts",
        "/proc/sys/vm/swappiness",
        "/proc/sys/any/thing",
        "/sys/module/any/parameters/thing",
        "/usr/lib/sysctl.d/a.conf",
        "/etc/systemd/zram-generator.conf",
        "/etc/tuned/active_profile",
        "/sys/class/powercap/intel-rapl:0/energy_uj",
    ] {
        assert!(check(&root, path, Purpose::Read).is_ok(), "{path}");
    }
}

#[test]
fn what_not_everybody_may_read_is_read_as_root_only_where_it_is_a_knob() {
    let (folder, root) = tree();
    let close = |path: &str, mode: u32| {
        fs::set_permissions(folder.path().join(path), fs::Permissions::from_mode(mode)).unwrap();
    };
    fs::write(folder.path().join("proc/sys/vm/other"), "1\n").unwrap();
    for path in ["/proc/sys/vm/other", "/proc/sys/vm/swappiness"] {
        assert!(check(&root, path, Purpose::Read).is_ok(), "{path}");
    }
    close("proc/sys/vm/other", 0o600);
    close("proc/sys/vm/swappiness", 0o600);
    assert!(forbidden(&root, "/proc/sys/vm/other", Purpose::Read));
    assert!(check(&root, "/proc/sys/vm/swappiness", Purpose::Read).is_ok());
    close("proc/sys/vm/other", 0o644);
    close("proc/sys", 0o750);
    assert!(forbidden(&root, "/proc/sys/vm/other", Purpose::Read));
    assert!(check(&root, "/proc/sys/vm/swappiness", Purpose::Read).is_ok());
    assert!(!forbidden(&root, "/proc/sys/vm/other", Purpose::ReadAsUser));
}

#[test]
fn what_is_there_is_told_but_for_the_folders_of_processes() {
    let (_folder, root) = tree();
    for path in [
        "/sys/class/zram-control/hot_add",
        "/sys/kernel/debug/sched",
        "/proc/sys",
    ] {
        assert!(check(&root, path, Purpose::Names).is_ok(), "{path}");
    }
    for path in [
        "/proc/1/map_files/1-2",
        "/proc/self/fd/0",
        "/etc/shadow",
        "/home/x",
        "/run/cryptsetup-keys.d/a",
    ] {
        assert!(forbidden(&root, path, Purpose::Names), "{path}");
    }
}

#[test]
fn own_mounts_are_read_and_those_of_other_processes_not() {
    let root = Root::new("/");
    assert!(check(&root, "/proc/self/mounts", Purpose::Read).is_ok());
    let own = format!("/proc/{}/mounts", std::process::id());
    assert!(forbidden(&root, &own, Purpose::Read));
}

#[test]
fn stars_stay_within_a_component() {
    assert!(fits("nvme*n*", "nvme0n1"));
    assert!(fits("*", ""));
    assert!(!fits("sd*", "vda"));
    assert!(!fits("a*a", "a"));
    // Characters that one star has consumed are not available to the next.
    assert!(!fits("a*b*b", "ab"));
    assert!(!fits("a*b*b", "axb"));
    assert!(fits("a*b*b", "axbb"));
    assert!(covers(
        "/sys/module/*/parameters/",
        "/sys/module/zswap/parameters/enabled"
    ));
    assert!(!covers(
        "/sys/module/*/parameters/",
        "/sys/module/a/b/parameters/enabled"
    ));
}

#[test]
fn two_stars_are_one_component_or_more() {
    assert!(covers("/a/**/x", "/a/b/x"));
    assert!(covers("/a/**/x", "/a/b/x/c/x"));
    assert!(!covers("/a/**/x", "/a/x"));
    assert!(!covers("/a/**/x", "/a/b/x/y"));
    assert!(covers("/a/**/", "/a/b/c/d"));
    assert!(!covers("/a/**/", "/a/b"));
    for (pattern, kept) in [
        ("/a/b", 1),
        ("/a/*/b/c", 2),
        ("/a/*/b/*/c", 3),
        ("/a/**/c", 1),
        ("/a/*", 1),
        ("/a/*/b/", 1),
    ] {
        assert_eq!(after_first_star(pattern), kept, "{pattern}");
    }
}

#[test]
fn only_the_kernels_own_links_lead_elsewhere() {
    assert!(is_kernels_link("/proc/self/mounts", "/proc/12/mounts", 1));
    assert!(!is_kernels_link("/proc/self/mounts", "/etc/mounts", 1));
    assert!(!is_kernels_link("/sys/x/mounts", "/proc/12/mounts", 1));
    assert!(!is_kernels_link("/sys/x/mounts", "/etc/mounts", 1));
    assert!(!is_kernels_link("/etc/x", "/sys/devices/x", 1));
    assert!(!is_kernels_link("/proc/self/mounts", "/proc/12/status", 1));
}
