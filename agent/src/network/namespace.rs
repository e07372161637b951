// SPDX-License-Identifier: Apache-2.0
//! Network namespaces of a single-threaded process.

use super::netlink::Netlink;
use crate::error::{Error, Kind, Result};
use crate::sys;
use rustix::process::{getegid, geteuid};
use rustix::thread::{move_into_link_name_space, LinkNameSpaceType};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// The next step if an ordinary user may not create namespaces.
pub const HINT: &str = "allow user namespaces: as root, `sysctl user.max_user_namespaces=10000`, on Debian \
     kernel.unprivileged_userns_clone=1, on Ubuntu kernel.apparmor_restrict_unprivileged_userns=0";

/// A namespace with a netlink socket in it.
#[derive(Debug)]
pub struct Place {
    pub namespace: OwnedFd,
    pub netlink: Netlink,
}

impl Place {
    /// Returns the calling thread's namespace.
    pub fn here() -> Result<Self> {
        const FILE: &str = "/proc/thread-self/ns/net";
        let refused = |error: io::Error| Error::io("open", FILE, &error);
        Ok(Self {
            namespace: File::open(FILE).map_err(refused)?.into(),
            netlink: Netlink::open().map_err(|error| Error::io("open", "a netlink socket", &error))?,
        })
    }

    /// Moves the calling thread into this namespace.
    pub fn enter(&self) -> Result<()> {
        move_into_link_name_space(self.namespace.as_fd(), Some(LinkNameSpaceType::Network))
            .map_err(|error| Error::io("enter", "a network namespace", &error.into()))
    }
}

/// Leaves the machine's network for an empty one. An ordinary user gets a user namespace with the
/// same user and group.
pub fn enter_first() -> Result<()> {
    match sys::unshare_network(false) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
        other => return other.map_err(|error| refused(&error)),
    }
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    sys::unshare_network(true).map_err(|error| refused(&error))?;
    let maps = [
        ("setgroups", "deny".to_owned()),
        ("uid_map", format!("{user} {user} 1")),
        ("gid_map", format!("{group} {group} 1")),
    ];
    for (file, text) in maps {
        let path = format!("/proc/self/{file}");
        fs::write(&path, text).map_err(|error| Error::io("write", path, &error).hint(HINT))?;
    }
    Ok(())
}

/// Enters another empty network.
pub fn enter_next() -> Result<()> {
    sys::unshare_network(false).map_err(|error| refused(&error))
}

fn refused(error: &io::Error) -> Error {
    let why = match error.raw_os_error() {
        // The kernel's error says "no space left on device".
        Some(libc::ENOSPC | libc::EUSERS) => {
            "the limit user.max_user_namespaces or user.max_net_namespaces is reached".to_owned()
        }
        _ => error.to_string(),
    };
    let message = format!("cannot create a network namespace: {why}");
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES | libc::ENOSPC | libc::EUSERS) => {
            Error::new(Kind::Privilege, message).hint(HINT)
        }
        Some(libc::EINVAL) => Error::new(Kind::Io, message)
            .hint("use a kernel with network and user namespaces (CONFIG_NET_NS, CONFIG_USER_NS)"),
        _ => Error::new(Kind::Io, message),
    }
}
