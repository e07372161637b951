// SPDX-License-Identifier: Apache-2.0
//! The helper that stays root after the head has dropped it: it starts root sessions for the head
//! and can do nothing else.
//!
//! The head holds the other end of a socket. A message is `{"state": PATH or null}` with two
//! descriptors, the standard input and output of a session. The helper ends when the head ends or
//! closes the socket; sessions end with their input.

use super::own;
use crate::error::{Error, Kind, Result};
use crate::sys;
use rustix::event::{poll, PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{
    recvmsg, socketpair, AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SocketFlags, SocketType,
};
use rustix::process::{getppid, pidfd_open, Pid, PidfdFlags};
use serde::Deserialize;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Component, Path};
use std::process::{Child, Command, Stdio};

const NAME: &str = "ktrial-agent";
const MESSAGE_BYTES: usize = 8192;

/// A message of the head.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    state: Option<String>,
}

/// Starts the helper for this process and the program that it becomes as `user`. Returns the head's
/// end of the socket.
pub fn start(user: u32) -> Result<OwnedFd> {
    let failed = |error: io::Error| {
        Error::new(
            Kind::Io,
            format!("cannot start the helper that lends root: {error}"),
        )
    };
    let (ours, theirs) = socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )
    .map_err(|errno| failed(errno.into()))?;
    let mut command = Command::new("/proc/self/exe");
    command
        .arg0(NAME)
        .args(["lend", "--head", &std::process::id().to_string()])
        .args(["--user", &user.to_string()]);
    command
        .stdin(theirs)
        .stdout(Stdio::null())
        .env_clear()
        .current_dir("/");
    command.spawn().map_err(failed)?;
    Ok(ours)
}

/// Lends root to the process `head`, which started this one and became `user`, over standard input.
///
/// # Errors
///
/// The socket cannot be read.
pub fn serve(head: u32, user: u32) -> Result<()> {
    let failed = |errno: Errno| Error::io("read", "the head's socket", &errno.into());
    sys::outlive_terminal();
    let socket = io::stdin();
    let head = i32::try_from(head).ok().and_then(Pid::from_raw);
    // Kernels before 5.3 have no pidfd; there only the end of the socket shows that the head is
    // gone.
    let life = head.and_then(|head| pidfd_open(head, PidfdFlags::empty()).ok());
    if getppid() != head {
        return Ok(());
    }
    let mut sessions: Vec<Child> = Vec::new();
    loop {
        let mut awaited = vec![PollFd::new(&socket, PollFlags::IN)];
        awaited.extend(life.as_ref().map(|life| PollFd::new(life, PollFlags::IN)));
        match poll(&mut awaited, None) {
            Err(Errno::INTR) => continue,
            Err(errno) => return Err(failed(errno)),
            Ok(_) => {}
        }
        if awaited.get(1).is_some_and(|life| !life.revents().is_empty()) {
            return Ok(());
        }
        let Some((message, descriptors)) = receive(&socket).map_err(failed)? else {
            return Ok(());
        };
        sessions.retain_mut(|session| matches!(session.try_wait(), Ok(None)));
        match start_session(&message, descriptors, user) {
            Ok(session) => sessions.push(session),
            Err(error) => eprintln!("ktrial-agent: cannot start a root session: {error}"),
        }
    }
}

/// Receives the next message and its descriptors; None at the end.
fn receive(socket: impl AsFd) -> rustix::io::Result<Option<(Vec<u8>, Vec<OwnedFd>)>> {
    let mut bytes = vec![0; MESSAGE_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
    let mut beside = RecvAncillaryBuffer::new(&mut space);
    let got = loop {
        match recvmsg(
            &socket,
            &mut [IoSliceMut::new(&mut bytes)],
            &mut beside,
            RecvFlags::CMSG_CLOEXEC,
        ) {
            Err(Errno::INTR) => {}
            Err(Errno::CONNRESET) => return Ok(None),
            other => break other?,
        }
    };
    let mut descriptors = Vec::new();
    for message in beside.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    if got.bytes == 0 {
        return Ok(None);
    }
    let whole = !got.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC);
    bytes.truncate(if whole { got.bytes } else { 0 });
    Ok(Some((bytes, descriptors)))
}

fn start_session(message: &[u8], descriptors: Vec<OwnedFd>, user: u32) -> Result<Child> {
    let bad = |message: &str| Error::new(Kind::BadRequest, message);
    let request: Request = serde_json::from_slice(message)
        .map_err(|error| bad(&format!("cannot read the head's message: {error}")))?;
    let [input, output] = <[OwnedFd; 2]>::try_from(descriptors)
        .map_err(|_| bad("the head's message: expected two descriptors"))?;
    let mut command = Command::new("/proc/self/exe");
    command
        .arg0(NAME)
        .args(["serve", "--role", "root", "--user", &user.to_string()]);
    if let Some(state) = &request.state {
        check_state(Path::new(state))?;
        command.args(["--state", state]);
    }
    command.stdin(input).stdout(output).env_clear().current_dir("/");
    command
        .spawn()
        .map_err(|error| Error::io("start", "/proc/self/exe", &error))
}

/// Refuses a state folder that lies where others could replace it.
fn check_state(state: &Path) -> Result<()> {
    if !state.is_absolute() || state.components().any(|part| part == Component::ParentDir) {
        return Err(Error::new(
            Kind::BadRequest,
            format!("state folder: expected an absolute path, got {}", state.display()),
        ));
    }
    let there = state.ancestors().find(|path| path.symlink_metadata().is_ok());
    own::check(there.unwrap_or(Path::new("/")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(message: &[u8], count: usize) -> Kind {
        let descriptors = (0..count)
            .map(|_| std::fs::File::open("/dev/null").unwrap().into())
            .collect();
        start_session(message, descriptors, 1000).unwrap_err().kind
    }

    #[test]
    fn nothing_but_a_session_can_be_asked_for() {
        for message in [
            &b""[..],
            b"{}x",
            b"[]",
            br#"{"state":7}"#,
            br#"{"state":null,"root":"/tmp/x"}"#,
            br#"{"role":"user"}"#,
        ] {
            assert_eq!(
                refused(message, 2),
                Kind::BadRequest,
                "{}",
                String::from_utf8_lossy(message)
            );
        }
        for count in [0, 1, 3] {
            assert_eq!(refused(b"{}", count), Kind::BadRequest);
        }
        for state in ["relative", "/var/../etc", ""] {
            assert_eq!(
                refused(format!("{{\"state\":{state:?}}}").as_bytes(), 2),
                Kind::BadRequest
            );
        }
    }

    #[test]
    fn a_state_folder_in_a_place_of_others_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        let state = folder.path().join("not/yet/there");
        assert_eq!(check_state(&state).unwrap_err().kind, Kind::Privilege);
    }

    #[test]
    fn a_message_comes_whole_with_its_descriptors_and_the_end_is_told() {
        use rustix::net::{sendmsg, SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
        let (ours, theirs) = socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )
        .unwrap();
        let send = |bytes: &[u8], count: usize| {
            let files: Vec<_> = (0..count)
                .map(|_| std::fs::File::open("/dev/null").unwrap())
                .collect();
            let ends: Vec<_> = files.iter().map(AsFd::as_fd).collect();
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
            let mut beside = SendAncillaryBuffer::new(&mut space);
            assert!(ends.is_empty() || beside.push(SendAncillaryMessage::ScmRights(&ends)));
            sendmsg(&ours, &[io::IoSlice::new(bytes)], &mut beside, SendFlags::empty()).unwrap();
        };
        send(b"{}", 2);
        send(&vec![b' '; MESSAGE_BYTES + 1], 0);
        let (bytes, descriptors) = receive(&theirs).unwrap().unwrap();
        assert_eq!((bytes.as_slice(), descriptors.len()), (&b"{}"[..], 2));
        let (cut, _) = receive(&theirs).unwrap().unwrap();
        assert!(cut.is_empty(), "a message that is too long counts as empty");
        drop(ours);
        assert!(receive(&theirs).unwrap().is_none());
    }
}
