// SPDX-License-Identifier: Apache-2.0
//! Starts the head when root runs ktrial: root runs nothing that others can change, and the head
//! stays root only if root itself started it.

mod lend;
mod own;
mod user;

use crate::error::{Error, Kind, Result};
use crate::root::Root;
use crate::sys;
use crate::transact::programs;
use std::ffi::OsString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

pub use lend::serve as lend;
use user::User;

/// Tells the head that this program started it; its value is the descriptor of the socket that
/// lends root, or "root".
const LAUNCHED: &str = "KTRIAL_LAUNCHED";
/// Variables that would lead the user's programs to folders of root, or of another user.
const DROPPED: [&str; 6] = ["PYTHON", "LD_", "XDG_", "SUDO_", "DOAS_", "PKEXEC_"];
const DROPPED_NAMES: [&str; 8] = [
    "TMPDIR",
    "TMP",
    "TEMP",
    "ENV",
    "BASH_ENV",
    "MAIL",
    "OLDPWD",
    "DBUS_SESSION_BUS_ADDRESS",
];

/// Becomes `program`: as the user `uid`, with a helper that lends root, or as root if `uid` is
/// none. Only root may be able to change `own`, everything in it, and whatever the interpreter in
/// `program` imports.
///
/// # Errors
///
/// The process isn't root, or others can change something that would run; nothing was started.
pub fn launch(uid: Option<u32>, own: &[PathBuf], program: &[OsString]) -> Result<()> {
    let Some((name, arguments)) = program.split_first() else {
        return Err(Error::new(Kind::BadRequest, "expected a program to start"));
    };
    if !rustix::process::geteuid().is_root() {
        return Err(
            Error::new(Kind::Privilege, "cannot drop root: this process is not root")
                .hint("run `./ktrial` instead"),
        );
    }
    let itself = std::env::current_exe().map_err(|error| Error::io("find", "/proc/self/exe", &error))?;
    own::check(&itself)?;
    let mut trees = own.to_vec();
    if uid.is_none() {
        trees.extend(own::imports_of(Path::new(name)));
    }
    own::check_trees(&trees)?;
    let mut command = Command::new(name);
    command.args(arguments);
    // Stays open until the program has it.
    let lent = match uid {
        None => {
            command.env(LAUNCHED, "root");
            None
        }
        Some(uid) => Some(become_user(&User::find(uid)?, &mut command)?),
    };
    let error = command.exec();
    drop(lent);
    Err(Error::io("start", Path::new(name).display(), &error))
}

/// Drops root for good, with everything else that this process inherited, except for its end of the
/// helper's socket.
fn become_user(user: &User, command: &mut Command) -> Result<OwnedFd> {
    let failed = |what: &str, error: std::io::Error| Error::new(Kind::Io, format!("cannot {what}: {error}"));
    let lent = lend::start(user.number())?;
    sys::close_at_exec(&lent).map_err(|error| failed("close root's open files", error))?;
    user.become_them()
        .map_err(|error| failed(&format!("become {}", user.name), error))?;
    set_environment(command, user, lent.as_raw_fd());
    Ok(lent)
}

/// Becomes the user for good, who must not be root.
///
/// # Errors
///
/// There is no such user, or the kernel does not let this process drop all rights of root.
pub fn become_user_for_good(uid: u32) -> Result<()> {
    let user = User::find(uid)?;
    user.become_them()
        .map_err(|error| Error::new(Kind::Privilege, format!("cannot become {}: {error}", user.name)))
}

/// Refuses a number that belongs to no user of this system, or to root.
///
/// # Errors
///
/// The number belongs to no user, or to root.
pub fn check_user(uid: u32) -> Result<()> {
    User::find(uid).map(|_| ())
}

/// Returns the user who ran sudo, doas or pkexec for this process, if one did.
///
/// # Errors
///
/// Some user did, but it is unknown which.
pub fn invoking_user() -> Result<Option<u32>> {
    user::invoking(&|name| std::env::var(name).ok())
}

/// Runs the `ktrial` that continues a trial over boots, as the user who started it, and returns how it ended.
/// A program of a user's own never runs as root.
///
/// # Errors
///
/// Somebody else could change the program, or it cannot be started.
pub fn continue_trial(root: &Root, user: u32, trial: &str, program: &Path) -> Result<ExitStatus> {
    programs::check_own(root, &program.to_string_lossy(), user)
        .map_err(|refusal| Error::new(Kind::Privilege, refusal.message))?;
    let mut command = if user == 0 {
        Command::new(program)
    } else {
        let mut command = Command::new("/proc/self/exe");
        command
            .args(["launch", "--user", &user.to_string(), "--"])
            .arg(program);
        command
    };
    command
        .args(["trial", "next", trial, "--boots"])
        .env(
            "PATH",
            "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        )
        .env("HOME", "/root")
        .status()
        .map_err(|error| Error::io("start", program.display(), &error))
}

fn set_environment(command: &mut Command, user: &User, lent: i32) {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if DROPPED.iter().any(|prefix| text.starts_with(prefix)) || DROPPED_NAMES.contains(&&*text) {
            command.env_remove(&name);
        }
    }
    for name in ["USER", "LOGNAME"] {
        command.env(name, &user.name);
    }
    command.env("HOME", &user.home).env("SHELL", &user.shell);
    if let Some(folder) = user.runtime_folder() {
        command.env("XDG_RUNTIME_DIR", folder);
    }
    command.env(LAUNCHED, lent.to_string());
}
