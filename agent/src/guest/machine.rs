// SPDX-License-Identifier: Apache-2.0
//! The guest itself: file systems, modules, shutdown.

use crate::error::{Error, Result};
use rustix::mount::{mount, MountFlags};
use rustix::system::{init_module, reboot, RebootCommand};
use rustix::termios::{tcgetattr, tcsetattr, OptionalActions};
use rustix::time::{clock_gettime, ClockId};
use serde::Serialize;
use std::fs::{self, File};
use std::thread::sleep;
use std::time::Duration;

/// Places and types of the file systems; those that the kernel lacks are skipped.
const MOUNTS: &[(&str, &str)] = &[
    ("/proc", "proc"),
    ("/sys", "sysfs"),
    ("/dev", "devtmpfs"),
    ("/dev/pts", "devpts"),
    ("/dev/shm", "tmpfs"),
    ("/tmp", "tmpfs"),
    ("/run", "tmpfs"),
    ("/var", "tmpfs"),
    ("/sys/kernel/debug", "debugfs"),
    ("/sys/kernel/tracing", "tracefs"),
    ("/sys/fs/cgroup", "cgroup2"),
    ("/sys/fs/bpf", "bpf"),
];
/// Names that programs expect in /dev.
const LINKS: &[(&str, &str)] = &[
    ("/proc/self/fd", "/dev/fd"),
    ("/proc/self/fd/0", "/dev/stdin"),
    ("/proc/self/fd/1", "/dev/stdout"),
    ("/proc/self/fd/2", "/dev/stderr"),
];
/// The image of the disk, the disk, and its mount point.
const IMAGE: &str = "/ktrial/disk";
const DISK: &str = "/dev/ram0";
const DISK_PLACE: &str = "/var/tmp";
/// Folders that every program may write to.
const OPEN: &[&str] = &["/tmp", "/dev/shm", DISK_PLACE];

/// Bits per second; decides how long a port waits for more input before it delivers what has
/// arrived.
const SPEED: u32 = 115_200;

/// What the guest reports about itself when it has started.
#[derive(Serialize)]
pub struct Begun {
    release: String,
    version: String,
    architecture: String,
    command_line: String,
    uptime_s: f64,
    cpus: usize,
    memory_bytes: u64,
    unloaded: Vec<String>,
}

impl Begun {
    /// Collects the present state.
    pub fn now(unloaded: Vec<String>) -> Result<Self> {
        let name = rustix::system::uname();
        let text = |path: &str| fs::read_to_string(path).map_err(|error| Error::io("read", path, &error));
        let since_boot = clock_gettime(ClockId::Boottime);
        Ok(Self {
            release: name.release().to_string_lossy().into(),
            version: name.version().to_string_lossy().into(),
            architecture: name.machine().to_string_lossy().into(),
            command_line: text("/proc/cmdline")?.trim().into(),
            uptime_s: Duration::try_from(since_boot).map_or(0.0, |since| since.as_secs_f64()),
            cpus: std::thread::available_parallelism().map_or(0, usize::from),
            memory_bytes: rustix::system::sysinfo().totalram as u64,
            unloaded,
        })
    }
}

/// Mounts all file systems that this kernel supports.
pub fn mount_all() {
    for (place, kind) in MOUNTS {
        let _ = fs::create_dir_all(place);
        let _ = mount("none", *place, *kind, MountFlags::empty(), None);
    }
    for (target, link) in LINKS {
        let _ = std::os::unix::fs::symlink(target, link);
    }
    let open = std::os::unix::fs::PermissionsExt::from_mode;
    for place in OPEN {
        let _ = fs::create_dir_all(place);
        let _ = fs::set_permissions(place, open(0o1777));
    }
}

/// Loads the modules in order. Returns those that the kernel refused, with the reason.
pub fn load_modules(files: &[String]) -> Vec<String> {
    let load = |file: &String| {
        let image = fs::read(file).map_err(|error| error.to_string())?;
        init_module(&image, c"").map_err(|error| error.to_string())
    };
    let refused = |file: &String| load(file).err().map(|error| format!("{file}: {error}"));
    files.iter().filter_map(refused).collect()
}

/// Copies the image to a RAM disk and mounts it, for files that need a real file system.
pub fn mount_disk(kind: &str) -> std::result::Result<(), String> {
    let failed =
        |what: &str, error: &dyn std::fmt::Display| format!("cannot set up a {kind} disk: {what}: {error}");
    fs::copy(IMAGE, DISK).map_err(|error| failed(DISK, &error))?;
    fs::remove_file(IMAGE).map_err(|error| failed(IMAGE, &error))?;
    fs::create_dir_all(DISK_PLACE).map_err(|error| failed(DISK_PLACE, &error))?;
    mount(DISK, DISK_PLACE, kind, MountFlags::empty(), None).map_err(|error| failed("mount", &error))?;
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o1777);
    fs::set_permissions(DISK_PLACE, open).map_err(|error| failed(DISK_PLACE, &error))
}

/// Sets the port to pass bytes unchanged.
pub fn make_raw(port: &File) -> Result<()> {
    let failed = |error: rustix::io::Errno| Error::io("configure", super::LINE, &error.into());
    let mut settings = tcgetattr(port).map_err(failed)?;
    settings.make_raw();
    settings.set_speed(SPEED).map_err(failed)?;
    tcsetattr(port, OptionalActions::Now, &settings).map_err(failed)
}

/// Ends the guest: it reboots, at which the emulator exits.
pub fn off() -> ! {
    let _ = reboot(RebootCommand::Restart);
    loop {
        sleep(Duration::from_secs(1));
    }
}
