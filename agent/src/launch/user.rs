// SPDX-License-Identifier: Apache-2.0
//! The user who asked for root, and how to become them for good.

use crate::error::{Error, Kind, Result};
use rustix::process::{geteuid, getgroups, Gid, Uid};
use rustix::thread::{
    capabilities, set_capabilities, set_thread_groups, set_thread_res_gid, set_thread_res_uid,
    set_thread_uid, CapabilitySet, CapabilitySets,
};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Folders of the system's programs. A static binary cannot use the system's name services, so it
/// runs these programs instead.
const FOLDERS: [&str; 3] = ["/usr/bin", "/bin", "/run/current-system/sw/bin"];

/// A user known to the system.
#[derive(Debug, PartialEq, Eq)]
pub struct User {
    /// The name.
    pub name: String,
    /// The home directory.
    pub home: String,
    /// The login shell.
    pub shell: String,
    uid: u32,
    gid: u32,
    groups: Vec<u32>,
}

impl User {
    /// Finds the user with this number, who must not be root.
    pub fn find(uid: u32) -> Result<Self> {
        let unknown = |why: &str| {
            Error::new(Kind::Privilege, format!("cannot drop root for user {uid}: {why}"))
                .hint("run ktrial as a regular user of this system")
        };
        if uid == 0 {
            return Err(unknown("that is root"));
        }
        let local = fs::read_to_string("/etc/passwd").unwrap_or_default();
        let mut user = entry_of(&local, uid)
            .or_else(|| entry_of(&output_of("getent", &["passwd", &uid.to_string()])?, uid))
            .ok_or_else(|| unknown("no such user"))?;
        let groups = output_of("id", &["-G", "--", &user.name]).and_then(|text| numbers(&text));
        user.groups = groups.ok_or_else(|| unknown("cannot find the user's groups"))?;
        Ok(user)
    }

    /// Returns the user's number.
    pub fn number(&self) -> u32 {
        self.uid
    }

    /// Drops root for good and verifies it.
    pub fn become_them(&self) -> io::Result<()> {
        let (uid, gid) = (Uid::from_raw(self.uid), Gid::from_raw(self.gid));
        let groups: Vec<Gid> = self.groups.iter().map(|group| Gid::from_raw(*group)).collect();
        let none = CapabilitySets {
            effective: CapabilitySet::empty(),
            permitted: CapabilitySet::empty(),
            inheritable: CapabilitySet::empty(),
        };
        set_thread_groups(&groups)?;
        set_thread_res_gid(gid, gid, gid)?;
        set_thread_res_uid(uid, uid, uid)?;
        set_capabilities(None, none)?;
        let left = capabilities(None)?;
        let has_left = !(left.effective | left.permitted | left.inheritable).is_empty();
        if geteuid() != uid
            || getgroups()?.len() != groups.len()
            || has_left
            || set_thread_uid(Uid::ROOT).is_ok()
        {
            return Err(io::Error::other("this process would keep rights of root"));
        }
        Ok(())
    }

    /// Returns the folder of the user's session, if it exists.
    pub fn runtime_folder(&self) -> Option<PathBuf> {
        let folder = PathBuf::from(format!("/run/user/{}", self.uid));
        let found = fs::symlink_metadata(&folder).ok()?;
        (found.is_dir() && found.uid() == self.uid).then_some(folder)
    }
}

/// Returns the user whom sudo, pkexec or doas names in the environment; None if that is root, or if
/// none of them names a user.
pub fn invoking(variable: &dyn Fn(&str) -> Option<String>) -> Result<Option<u32>> {
    let names = ["SUDO_UID", "PKEXEC_UID", "DOAS_USER"];
    let told = names
        .iter()
        .find_map(|name| Some((*name, variable(name).filter(|value| !value.is_empty())?)));
    let Some((name, value)) = told else {
        return Ok(None);
    };
    let number = match name {
        "DOAS_USER" => output_of("id", &["-u", "--", &value]).and_then(|text| text.trim().parse().ok()),
        _ => value.parse::<u32>().ok(),
    };
    let number = number.ok_or_else(|| {
        Error::new(
            Kind::Privilege,
            format!("the user who asked for root is unknown ({name}={value})"),
        )
        .hint("run ktrial as a regular user of this system")
    })?;
    Ok((number != 0).then_some(number))
}

/// Finds a user by number in text like that of `/etc/passwd`; the groups are left empty.
fn entry_of(text: &str, uid: u32) -> Option<User> {
    text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, _) = (fields.next()?, fields.next()?);
        let (own, gid) = (fields.next()?.parse::<u32>().ok()?, fields.next()?.parse().ok()?);
        let (_, home, shell) = (fields.next()?, fields.next()?, fields.next()?);
        (own == uid && !name.is_empty()).then(|| User {
            name: name.to_owned(),
            home: if home.starts_with('/') { home } else { "/" }.to_owned(),
            shell: if shell.starts_with('/') { shell } else { "/bin/sh" }.to_owned(),
            uid,
            gid,
            groups: Vec::new(),
        })
    })
}

/// Parses at least one group number.
fn numbers(text: &str) -> Option<Vec<u32>> {
    let found: Vec<u32> = text
        .split_whitespace()
        .map(|word| word.parse().ok())
        .collect::<Option<_>>()?;
    (!found.is_empty()).then_some(found)
}

/// Runs one of the system's programs and returns its output.
fn output_of(name: &str, arguments: &[&str]) -> Option<String> {
    let program = FOLDERS
        .iter()
        .map(|folder| PathBuf::from(folder).join(name))
        .find(|program| program.exists())?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .env("LC_ALL", "C")
        .current_dir("/");
    let said = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    said.status
        .success()
        .then(|| String::from_utf8(said.stdout).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "root:x:0:0:root:/root:/bin/bash\n\
        broken\n\
        one:x:1000:1001:One,,,:/home/one:/bin/zsh\n\
        other:x:1000:7::/home/other:/bin/zsh\n\
        bare:x:1002:1002:::\n";

    #[test]
    fn entries_are_found_by_their_number() {
        let one = entry_of(TEXT, 1000).unwrap();
        assert_eq!(
            (one.name.as_str(), one.gid, one.home.as_str(), one.shell.as_str()),
            ("one", 1001, "/home/one", "/bin/zsh")
        );
        let bare = entry_of(TEXT, 1002).unwrap();
        assert_eq!((bare.home.as_str(), bare.shell.as_str()), ("/", "/bin/sh"));
        assert_eq!(entry_of(TEXT, 1001), None);
    }

    #[test]
    fn a_group_that_is_no_number_is_no_list_of_groups() {
        assert_eq!(numbers("1000 4 27\n"), Some(vec![1000, 4, 27]));
        for text in ["", "1000 wheel", "-1", "4294967296"] {
            assert_eq!(numbers(text), None, "{text:?}");
        }
    }

    #[test]
    fn the_user_who_asked_for_root_is_known() {
        let asked = |name: &'static str, value: &'static str| {
            invoking(&move |wanted| (wanted == name).then(|| value.to_owned()))
        };
        assert_eq!(asked("SUDO_UID", "1000").unwrap(), Some(1000));
        assert_eq!(asked("PKEXEC_UID", "7").unwrap(), Some(7));
        assert_eq!(asked("SUDO_UID", "0").unwrap(), None);
        assert_eq!(asked("HOME", "1000").unwrap(), None);
        assert_eq!(asked("DOAS_USER", "root").unwrap(), None);
        for (name, value) in [
            ("SUDO_UID", "x"),
            ("SUDO_UID", "-1"),
            ("DOAS_USER", "nobody-here"),
        ] {
            assert_eq!(asked(name, value).unwrap_err().kind, Kind::Privilege);
        }
    }

    #[test]
    fn root_and_strangers_are_no_users_to_become() {
        for uid in [0, 4_000_000_000] {
            assert_eq!(User::find(uid).unwrap_err().kind, Kind::Privilege);
        }
    }
}
