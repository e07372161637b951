// SPDX-License-Identifier: Apache-2.0
//! The start of the head by root: nothing that somebody else can change runs as root, and the head runs as root only where
//! nobody asked for root on their own behalf.

mod lend;
mod own;
mod user;

use crate::error::{Error, Kind, Result};
use crate::sys;
use std::ffi::OsString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

pub use lend::serve as lend;
use user::User;

/// Tells the head that it was started here; where root was given up, the number of the socket that lends it.
const LAUNCHED: &str = "KTRIAL_LAUNCHED";
/// What would lead the user's programs to places of root's, or to those that another user chose.
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

/// Becomes `program`: as the user `uid`, with a helper that lends root, or as root where there is none.
/// `own` is what must be root's alone, with all that lies in it, as must be what the interpreter in `program` imports.
///
/// # Errors
/// Not root, or something can be changed by somebody else: nothing was started.
pub fn launch(uid: Option<u32>, own: &[PathBuf], program: &[OsString]) -> Result<()> {
    let Some((name, arguments)) = program.split_first() else {
        return Err(Error::new(Kind::BadRequest, "no program to start"));
    };
    if !rustix::process::geteuid().is_root() {
        return Err(Error::new(Kind::Privilege, "only root has root to give up").hint("run  ./ktrial …"));
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
    // Open until the program has it.
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

/// Gives root up for good, and whatever else this process was started with, all but the end of the helper that lends it.
fn become_user(user: &User, command: &mut Command) -> Result<OwnedFd> {
    let failed = |what: &str, error: std::io::Error| Error::new(Kind::Io, format!("{what}: {error}"));
    let lent = lend::start()?;
    sys::close_at_exec(&lent).map_err(|error| failed("leave the open files of root", error))?;
    user.become_them()
        .map_err(|error| failed(&format!("become {}", user.name), error))?;
    set_environment(command, user, lent.as_raw_fd());
    Ok(lent)
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
