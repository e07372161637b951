// SPDX-License-Identifier: Apache-2.0
//! The systemd unit that recovers at boot, and the root-owned copy of the agent that it runs.

use crate::boots;
use crate::error::{Error, Result};
use crate::transact::context::Context;
use crate::transact::files::{self, Rights};
use crate::transact::machine;
use rustix::fs::Mode;
use std::fs;
use std::io;
use std::os::unix::fs::{symlink, DirBuilderExt};
use std::path::Path;

/// The copy of the agent that the unit runs.
pub const AGENT: &str = "/usr/local/libexec/ktrial/ktrial-agent";

const UNIT: &str = "/etc/systemd/system/ktrial-recover.service";
const LINK: &str = "/etc/systemd/system/sysinit.target.wants/ktrial-recover.service";
const LINK_TARGET: &str = "../ktrial-recover.service";

/// Runs early: before the services that read files which a transaction may have left in sysctl.d,
/// modprobe.d and tmpfiles.d.
const UNIT_TEXT: &str = "\
[Unit]
Description=Undo interrupted ktrial transactions
DefaultDependencies=no
RequiresMountsFor=/var/lib/ktrial /usr/local/libexec/ktrial
ConditionDirectoryNotEmpty=/var/lib/ktrial/transactions
After=systemd-remount-fs.service
Before=systemd-sysctl.service systemd-tmpfiles-setup.service sysinit.target shutdown.target
Conflicts=shutdown.target

[Service]
Type=oneshot
ExecStart=/usr/local/libexec/ktrial/ktrial-agent recover
TimeoutStartSec=90s

[Install]
WantedBy=sysinit.target
";

/// Installs the copy and the unit, and enables the unit; returns the files.
pub fn install(context: &Context) -> Result<Vec<String>> {
    context.need_root()?;
    let own = fs::read("/proc/self/exe").map_err(|error| Error::io("read", "/proc/self/exe", &error))?;
    put(context, AGENT, &own, 0o755)?;
    put(context, UNIT, UNIT_TEXT.as_bytes(), 0o644)?;
    let link = context.root.path(LINK);
    make_folder(&link).map_err(|error| Error::io("create the folder of", LINK, &error))?;
    files::remove_if_there(&link).map_err(|error| Error::io("replace", LINK, &error))?;
    symlink(LINK_TARGET, &link).map_err(|error| Error::io("create", LINK, &error))?;
    Ok([AGENT, UNIT, LINK].map(str::to_owned).to_vec())
}

fn put(context: &Context, path: &str, bytes: &[u8], mode: u32) -> Result<()> {
    let file = context.root.path(path);
    let rights = Rights { mode, owner: None };
    let put = make_folder(&file).and_then(|()| files::put_at(&file, bytes, rights, 0));
    put.map_err(|error| Error::io("write", path, &error))
}

fn make_folder(file: &Path) -> io::Result<()> {
    let Some(folder) = file.parent() else {
        return Ok(());
    };
    if folder.is_dir() {
        return Ok(());
    }
    let mask = rustix::process::umask(Mode::from_raw_mode(0o022));
    let made = fs::DirBuilder::new().recursive(true).mode(0o755).create(folder);
    rustix::process::umask(mask);
    made
}

/// Removes all of it; returns the files that existed.
pub fn remove(context: &Context) -> Result<Vec<String>> {
    context.need_root()?;
    boots::refuse_while_prepared(context)?;
    let mut removed = Vec::new();
    for path in [LINK, UNIT, AGENT] {
        if machine::exists(&context.root, path) {
            files::remove_if_there(&context.root.path(path))
                .map_err(|error| Error::io("remove", path, &error))?;
            removed.push(path.to_owned());
        }
    }
    for path in [LINK, AGENT] {
        let folder = files::folder_of(path);
        match fs::remove_dir(context.root.path(folder)) {
            Ok(()) => removed.push(folder.to_owned()),
            // It doesn't exist, or contains files of others.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::DirectoryNotEmpty
                ) => {}
            Err(error) => return Err(Error::io("remove", folder, &error)),
        }
    }
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::Root;
    use crate::transact::context::Role;

    #[test]
    fn what_is_installed_is_taken_away() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("etc")).unwrap();
        let context = Context::new(Role::Root, Root::new(folder.path()), "/var/lib/ktrial");
        let files = install(&context).unwrap();
        assert_eq!(files.len(), 3);
        assert_eq!(install(&context).unwrap(), files);
        assert_eq!(fs::read_to_string(context.root.path(LINK)).unwrap(), UNIT_TEXT);
        remove(&context).unwrap();
        assert!(!machine::exists(&context.root, AGENT));
        assert!(!machine::exists(&context.root, "/usr/local/libexec/ktrial"));
        assert!(remove(&context).unwrap().is_empty());
    }
    #[test]
    fn a_folder_that_cannot_be_taken_away_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let context = Context::new(Role::Root, Root::new(folder.path()), "/var/lib/ktrial");
        let of_agent = context.root.path(files::folder_of(AGENT));
        fs::create_dir_all(of_agent.parent().unwrap()).unwrap();
        fs::write(&of_agent, "").unwrap();
        let message = remove(&context).unwrap_err().to_string();
        assert!(message.contains(files::folder_of(AGENT)), "{message}");
    }
}
