// SPDX-License-Identifier: Apache-2.0
//! The guest itself: its file systems, its modules, its end.

use crate::error::{Error, Result};
use rustix::mount::{mount, MountFlags};
use rustix::system::{init_module, reboot, RebootCommand};
use rustix::termios::{tcgetattr, tcsetattr, OptionalActions};
use rustix::time::{clock_gettime, ClockId};
use serde::Serialize;
use std::fs::{self, File};
use std::thread::sleep;
use std::time::Duration;

/// Place and type of the file systems; what a kernel does not have is left out.
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
/// The image of the disk, the disk, and where it is mounted.
const IMAGE: &str = "/ktrial/disk";
const DISK: &str = "/dev/ram0";
const DISK_PLACE: &str = "/var/tmp";
/// Where every program may write.
const OPEN: &[&str] = &["/tmp", "/dev/shm", DISK_PLACE];

/// Bits a second: how long a port waits for more before it hands over what came.
const SPEED: u32 = 115_200;

/// What the guest tells of itself when it runs.
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
    /// What is so now.
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

/// Mounts all file systems that this kernel has.
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

/// Loads the modules in this order; names those that the kernel refused, and why.
pub fn load_modules(files: &[String]) -> Vec<String> {
    let load = |file: &String| {
        let image = fs::read(file).map_err(|error| error.to_string())?;
        init_module(&image, c"").map_err(|error| error.to_string())
    };
    let refused = |file: &String| load(file).err().map(|error| format!("{file}: {error}"));
    files.iter().filter_map(refused).collect()
}

/// Puts the image on a disk in memory, and mounts it where files that need a real file system are made.
pub fn mount_disk(kind: &str) -> std::result::Result<(), String> {
    let failed = |what: &str, error: &dyn std::fmt::Display| format!("a disk with {kind}: {what}: {error}");
    fs::copy(IMAGE, DISK).map_err(|error| failed(DISK, &error))?;
    fs::remove_file(IMAGE).map_err(|error| failed(IMAGE, &error))?;
    fs::create_dir_all(DISK_PLACE).map_err(|error| failed(DISK_PLACE, &error))?;
    mount(DISK, DISK_PLACE, kind, MountFlags::empty(), None).map_err(|error| failed("mount", &error))?;
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o1777);
    fs::set_permissions(DISK_PLACE, open).map_err(|error| failed(DISK_PLACE, &error))
}

/// Bytes go over the port as they are.
pub fn make_raw(port: &File) -> Result<()> {
    let failed = |error: rustix::io::Errno| Error::io("set up", super::LINE, &error.into());
    let mut settings = tcgetattr(port).map_err(failed)?;
    settings.make_raw();
    settings.set_speed(SPEED).map_err(failed)?;
    tcsetattr(port, OptionalActions::Now, &settings).map_err(failed)
}

/// Ends the guest: a restart, at which the emulator ends.
pub fn off() -> ! {
    let _ = reboot(RebootCommand::Restart);
    loop {
        sleep(Duration::from_secs(1));
    }
}
