// SPDX-License-Identifier: Apache-2.0
//! Paths that root never writes or reads, whoever asks, and paths other than knobs that root reads.

/// A list of patterns.
pub type Patterns = &'static [&'static str];

/// The only folders with knobs. Old values are restored only here, and `knobs.d` cannot add paths
/// elsewhere.
pub const KNOBS: Patterns = &[
    "/proc/sys/",
    "/proc/irq/",
    "/sys/block/",
    "/sys/devices/",
    "/sys/kernel/mm/",
    "/sys/kernel/debug/sched/",
    "/sys/kernel/debug/sched_features",
    "/sys/kernel/rcu_*",
    "/sys/module/*/parameters/",
    "/sys/class/",
    "/sys/bus/workqueue/",
    "/sys/bus/pci/devices/",
    "/sys/bus/usb/devices/",
    "/sys/fs/cgroup/",
    "/dev/stune/",
    "/dev/cpuctl/",
];

/// Files that name a program that root runs, switch off protection of the machine, or stop, reset
/// or remove something in use.
pub const NEVER_WRITE: Patterns = &[
    // Programs that root runs.
    "/proc/sys/kernel/core_pattern",
    "/proc/sys/kernel/modprobe",
    "/proc/sys/kernel/hotplug",
    "/proc/sys/kernel/poweroff_cmd",
    "/proc/sys/kernel/usermodehelper/",
    "/proc/sys/kernel/acct",
    "/proc/sys/fs/binfmt_misc/",
    "/proc/sys/fs/ocfs2/",
    "/sys/devices/system/machinecheck/*/trigger",
    "/sys/module/firmware_class/parameters/",
    "/sys/module/*/parameters/usermode_helper",
    "/sys/module/*/parameters/*cache_getent",
    "/sys/module/*/parameters/*helper",
    "/sys/module/*/parameters/*_prog",
    "/sys/class/firmware/",
    // Switches that protect the machine.
    "/proc/sys/kernel/sysrq",
    "/proc/sys/kernel/modules_disabled",
    "/proc/sys/kernel/kexec_*",
    "/proc/sys/kernel/yama/",
    "/proc/sys/kernel/apparmor*",
    "/proc/sys/kernel/unprivileged_userns_*",
    "/proc/sys/kernel/dmesg_restrict",
    "/proc/sys/kernel/kptr_restrict",
    "/proc/sys/kernel/cap_last_cap",
    "/proc/sys/kernel/cad_pid",
    "/proc/sys/kernel/ns_last_pid",
    "/proc/sys/kernel/grsecurity/",
    "/proc/sys/dev/tty/",
    "/proc/sys/fs/protected_*",
    "/proc/sys/fs/suid_dumpable",
    "/proc/sys/vm/mmap_min_addr",
    "/sys/module/apparmor/",
    "/sys/module/ima/",
    "/sys/module/integrity/",
    "/sys/module/loadpin/",
    "/sys/module/module/",
    "/sys/module/selinux/",
    "/sys/module/sysrq/",
    "/sys/module/kgdb*/",
    "/sys/module/vfio*/",
    // Memory and firmware.
    "/sys/devices/system/memory/",
    "/sys/devices/system/cpu/probe",
    "/sys/devices/system/cpu/release",
    "/sys/devices/virtual/firmware-attributes/",
    "/sys/class/firmware-attributes/",
    "/sys/class/tpm/",
    "/sys/class/mtd/",
];

/// Names of device files that bypass the driver: raw registers, removal, reset, binding, firmware.
pub const NEVER_WRITE_NAMES: Patterns = &[
    "authorized*",
    "autoclear",
    "backing_dev",
    "bind",
    "boot_partition*",
    "config",
    "current_password",
    "data",
    "delete",
    "delete_controller",
    "detach",
    "driver_override",
    "eeprom",
    "eject",
    "enable",
    "firmware_node",
    "force_ro",
    "hard_offline_page",
    "host_reset",
    "hot_add",
    "hot_remove",
    "initstate",
    "loading",
    "new_id",
    "new_password",
    "nvmem",
    "rebind_controller",
    "reload",
    "remove",
    "remove_id",
    "request",
    "rescan",
    "rescan_controller",
    "reset",
    "reset_controller",
    "reset_method",
    "resource*",
    "rom",
    "scan",
    "soft_offline_page",
    "sriov_*",
    "state",
    "uevent",
    "unbind",
    "writeback",
];

/// Folders of devices that are never written: they create, change or remove the device itself.
pub const NEVER_WRITE_FOLDERS: Patterns = &[
    "bcache",
    "bonding",
    "brport",
    "fault-injection",
    "firmware-attributes",
    "loop",
    "md",
    "nvmem",
    "ppi",
    "regmap",
];

/// Control groups.
pub const GROUPS: Patterns = &["/sys/fs/cgroup/", "/dev/stune/", "/dev/cpuctl/"];

/// Files that move, stop or kill the processes of a control group, or control what they may open.
/// They are not knobs.
pub const NEVER_WRITE_OF_GROUPS: Patterns = &[
    "cgroup.*",
    "tasks",
    "devices.*",
    "freezer.*",
    "notify_on_release",
    "release_agent",
    "*.force_empty",
    "*.reclaim",
];

/// Files that the agent writes on its own, without a plan.
pub const OWN: Patterns = &[
    "/boot/grub/grub.cfg",
    "/boot/grub2/grub.cfg",
    "/boot/grub/grubenv",
    "/boot/grub2/grubenv",
    "/proc/sys/vm/drop_caches",
    "/sys/block/zram*/reset",
    "/sys/block/zram*/comp_algorithm",
    "/sys/block/zram*/disksize",
];

/// Files that root reads although not everybody may.
pub const READ: Patterns = &[
    "/sys/class/powercap/*/energy_uj",
    "/boot/loader/entries/*.conf",
    "/boot/efi/loader/entries/*.conf",
    "/efi/loader/entries/*.conf",
    "/boot/loader/loader.conf",
    "/boot/efi/loader/loader.conf",
    "/efi/loader/loader.conf",
    "/boot/grub/grubenv",
    "/boot/grub2/grubenv",
    "/boot/grub/grub.cfg",
    "/boot/grub2/grub.cfg",
    // Kernels, whose first bytes say what they are.
    "/boot/vmlinu*",
    "/boot/Image*",
    "/boot/kernel-*",
    "/boot/linux-*",
    "/boot/*/*/linux",
    "/boot/efi/*/*/linux",
    "/efi/*/*/linux",
];

/// Files that root reads if everybody may read them.
pub const READ_AS_EVERYBODY: Patterns = &[
    "/proc/cmdline",
    "/proc/interrupts",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/pressure/*",
    "/proc/self/mounts",
    "/proc/stat",
    "/proc/swaps",
    "/proc/sys/",
    "/proc/uptime",
    "/proc/version",
    "/proc/vmstat",
    "/sys/class/hwmon/*/energy*",
    "/sys/class/hwmon/*/name",
    "/sys/class/hwmon/*/power*",
    "/sys/class/power_supply/*/charge_now",
    "/sys/class/power_supply/*/energy_now",
    "/sys/class/power_supply/*/power_now",
    "/sys/class/power_supply/*/scope",
    "/sys/class/power_supply/*/status",
    "/sys/class/power_supply/*/type",
    "/sys/class/power_supply/*/voltage_now",
    "/sys/class/powercap/*/max_energy_range_uj",
    "/sys/class/powercap/*/name",
    "/sys/devices/system/cpu/*/cpuidle/*/name",
    "/sys/devices/system/cpu/*/cpuidle/*/time",
    "/sys/devices/system/cpu/*/cpuidle/*/usage",
    "/sys/kernel/sched_ext/enable_seq",
    "/sys/kernel/sched_ext/root/ops",
    "/sys/kernel/sched_ext/state",
    "/sys/firmware/efi/efivars/LoaderEntryDefault-*",
    "/sys/firmware/efi/efivars/LoaderEntryOneShot-*",
    "/sys/firmware/efi/efivars/LoaderEntrySelected-*",
    "/sys/firmware/efi/efivars/LoaderInfo-*",
    "/sys/firmware/efi/efivars/SecureBoot-*",
    "/sys/firmware/efi/efivars/StubInfo-*",
    "/sys/module/*/parameters/",
    "/sys/module/*/version",
    "/sys/class/watchdog/*/identity",
    "/sys/class/scsi_host/*/proc_name",
    "/etc/default/scx",
    "/etc/scx_loader.toml",
    "/etc/scx_loader/config.toml",
    "/etc/systemd/system/*.target.wants/scx*.service",
    "/etc/systemd/system/scx*.service",
    "/lib/systemd/system/scx*.service",
    "/usr/lib/systemd/system/scx*.service",
    "/usr/share/scx_loader.toml",
    "/usr/share/scx_loader/config.toml",
    "/etc/crypttab",
    "/etc/fstab",
    "/run/systemd/sessions/*",
    "/lib/modules/*/modules.builtin",
    "/lib/modules/*/modules.dep",
    "/lib/modules/*/pkgbase",
    "/usr/lib/modules/*/modules.builtin",
    "/usr/lib/modules/*/modules.dep",
    "/var/lib/dpkg/info/linux-image-*.list",
    "/usr/bin/rpm",
    "/bin/rpm",
    "/boot/*/custom.cfg",
    "/boot/*/grub.cfg",
    "/boot/EFI/*/*",
    "/boot/cmdline.txt",
    "/boot/efi/EFI/*/*",
    "/boot/extlinux/extlinux.conf",
    "/boot/firmware/cmdline.txt",
    "/boot/limine.conf",
    "/boot/limine/limine.conf",
    "/boot/syslinux/syslinux.cfg",
    "/efi/EFI/*/*",
    "/etc/default/grub",
    "/etc/default/grub.d/*.cfg",
    "/etc/kernel/cmdline",
    "/etc/zipl.conf",
    "/usr/bin/grubby",
    "/usr/sbin/grubby",
    "/usr/sbin/kexec",
    "/sbin/kexec",
    "/etc/os-release",
    "/etc/sysctl.conf",
    "/etc/tuned/",
    "/run/systemd/system",
    "/usr/lib/os-release",
    "/usr/lib/systemd/system-generators/zram-generator",
    "/usr/lib/tuned/",
];

/// Names of files that root does not read for anybody else while they contain a password.
pub const MAY_HOLD_PASSWORD: Patterns = &["grub.cfg"];

/// Configuration folders; [`READ_OF_CONFIGURATION`] lists what root reads in each if everybody may.
pub const CONFIGURATION: Patterns = &["/etc/", "/run/", "/usr/local/lib/", "/usr/lib/", "/lib/"];
pub const READ_OF_CONFIGURATION: Patterns = &[
    "sysctl.d/*.conf",
    "udev/rules.d/*.rules",
    "tmpfiles.d/*.conf",
    "modprobe.d/*.conf",
    "systemd/zram-generator.conf",
    "systemd/zram-generator.conf.d/*.conf",
];

/// What the firmware and the boot loader say about this boot.
pub const OF_THIS_BOOT: Patterns = &[
    "/sys/firmware/efi/efivars/LoaderEntryDefault-*",
    "/sys/firmware/efi/efivars/LoaderEntryOneShot-*",
    "/sys/firmware/efi/efivars/LoaderEntrySelected-*",
    "/sys/firmware/efi/efivars/LoaderInfo-*",
    "/sys/firmware/efi/efivars/SecureBoot-*",
    "/sys/firmware/efi/efivars/StubInfo-*",
];

/// Secrets, and files with side effects on read.
pub const NEVER_READ: Patterns = &[
    "/proc/sys/net/ipv4/tcp_fastopen_key",
    "/proc/sys/net/ipv6/conf/*/stable_secret",
    "/proc/sys/net/ipv6/conf/*/*/stable_secret",
    "/proc/sys/kernel/random/uuid",
    "/proc/sys/vm/stat_refresh",
    "/sys/class/zram-control/",
    "/sys/firmware/",
    "/sys/kernel/config/",
    "/sys/kernel/debug/bluetooth/",
    "/sys/kernel/debug/ieee80211/",
    "/sys/kernel/debug/regmap/",
    "/sys/kernel/debug/tracing/",
    "/sys/kernel/debug/usb/",
    "/sys/kernel/security/",
    "/sys/kernel/tracing/",
    "/sys/devices/virtual/dmi/",
];

/// The same by file name, in any folder.
pub const NEVER_READ_NAMES: Patterns = &[
    "*password*",
    "*passphrase*",
    "*secret*",
    "*_psk",
    "*private_key*",
    "config",
    "data",
    "eeprom",
    "hot_add",
    "nvmem",
    "resource*",
    "rom",
];

/// Trees in which root lists names.
pub const NAMED: Patterns = &[
    "/proc/",
    "/sys/",
    "/dev/stune/",
    "/dev/cpuctl/",
    "/boot/",
    "/efi/",
    "/lib/modules/",
    "/usr/lib/modules/",
    "/usr/local/libexec/ktrial/",
    "/var/lib/dkms/",
];
