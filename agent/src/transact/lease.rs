// SPDX-License-Identifier: Apache-2.0
//! Leases: a small detached process per leased transaction, which reverts it when the lease ends.
//! It outlives the terminal, the head and the agent, and exits as soon as the transaction is
//! confirmed or over.

use crate::error::{Error, Kind, Result};
use crate::sys;
use crate::transact::context::{boot_ms, Context, Holder};
use crate::transact::plan::Lease;
use crate::transact::revert;
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::fs::inotify;
use rustix::pipe::PipeFlags;
use std::fs::File;
use std::io::{Read, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, Stdio};

/// How long a holder may take to report that it is running.
const START_SECONDS: i64 = 10;

/// What a holder writes when it has started; anything else is the reason why it could not.
pub const READY: u8 = b'\n';
const TALK_BYTES: usize = 400;

/// Longest sleep of a holder: monotonic sleeps don't advance while the machine is suspended.
const NAP_MS: u64 = 30_000;

/// Starts the holder of a transaction's lease and waits until it is running. `deadline_boot_ms` is
/// the end of an `until-confirmed` lease; without it the lease ends with the session, at the latest
/// when the context's leases do.
pub fn start(context: &mut Context, id: u64, deadline_boot_ms: Option<u64>) -> Result<()> {
    reap(context);
    let failed = |error: std::io::Error| {
        Error::new(Kind::Io, format!("cannot start the holder of the lease: {error}"))
            .hint("nothing was changed")
    };
    let mut command = Command::new("/proc/self/exe");
    command
        .arg("hold")
        .arg("--root")
        .arg(context.root.base())
        .args(["--state", &context.state]);
    command
        .args(["--transaction", &id.to_string()])
        .env_clear()
        .current_dir("/");
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    if let Some(deadline) = deadline_boot_ms.or(context.lease_ends_boot_ms) {
        command.args(["--deadline-boot-ms", &deadline.to_string()]);
    }
    let session = if deadline_boot_ms.is_some() {
        command.stdin(Stdio::null());
        None
    } else {
        let (theirs, ours) =
            rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(|errno| failed(errno.into()))?;
        command.arg("--with-session").stdin(Stdio::from(theirs));
        Some(ours)
    };
    let mut process = command.spawn().map_err(failed)?;
    let said = process.stdout.take().map(first_words).unwrap_or_default();
    context.holders.push(Holder { id, process, session });
    match said.split_first() {
        Some((&READY, _)) => Ok(()),
        Some(_) => Err(failed(std::io::Error::other(String::from_utf8_lossy(&said)))),
        None => Err(failed(std::io::Error::other("it exited without an answer"))),
    }
}

/// Reads what a new holder reports: that it is running, or why not; nothing if it doesn't answer in
/// time.
pub fn first_words(mut stdout: impl Read + AsFd) -> Vec<u8> {
    let wait = Timespec {
        tv_sec: START_SECONDS,
        tv_nsec: 0,
    };
    let mut said = vec![0; TALK_BYTES];
    let waited = poll(&mut [PollFd::new(&stdout, PollFlags::IN)], Some(&wait));
    let length = match waited {
        Ok(1..) => stdout.read(&mut said).unwrap_or(0),
        _ => 0,
    };
    said.truncate(length);
    said
}

/// Drops holders that are done. A holder that was killed stays while its transaction is open.
fn reap(context: &mut Context) {
    let store = &context.store;
    let is_open = |id| store.load(id).is_ok_and(|transaction| transaction.is_open());
    context
        .holders
        .retain_mut(|holder| matches!(holder.process.try_wait(), Ok(None)) || is_open(holder.id));
}

/// When a lease ends.
#[derive(Debug, Clone, Copy)]
pub struct Term {
    /// With standard input, which the session holds.
    pub with_session: bool,
    /// At this moment.
    pub deadline_boot_ms: Option<u64>,
}

/// The main function of a holder: waits for the end of the lease, then reverts.
pub fn hold(context: &Context, id: u64, term: Term) -> Result<()> {
    let failed = |what: &str, error: std::io::Error| Error::new(Kind::Io, format!("cannot {what}: {error}"));
    // Fails only in a process that leads its group already, which is just as detached from the
    // terminal.
    if let Err(errno) = rustix::process::setsid() {
        eprintln!("ktrial-agent: cannot start a new session: {errno}");
    }
    let (mark, watch) = match take_charge(context, id) {
        Ok(taken) => taken,
        Err(error) => {
            say(error.message.as_bytes()).map_err(|error| failed("report to the agent", error))?;
            return Err(error);
        }
    };
    say(&[READY]).map_err(|error| failed("report to the agent", error))?;
    let over = wait(context, id, &File::from(watch), term);
    let result = if over { end(context, id) } else { Ok(()) };
    drop(mark);
    context
        .store
        .clear_holder(id)
        .map_err(|error| failed("remove the lease file", error))?;
    result
}

/// Creates the lease file and watches the journals.
fn take_charge(context: &Context, id: u64) -> Result<(impl Sized, OwnedFd)> {
    let failed = |what: &str, error: std::io::Error| Error::new(Kind::Io, format!("cannot {what}: {error}"));
    let mark = context
        .store
        .mark_holder(id)
        .map_err(|error| failed("create the lease file", error))?;
    let watch = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)
        .map_err(|errno| failed("use inotify (CONFIG_INOTIFY_USER)", errno.into()))?;
    // Watch the folder, because another file may replace the journal.
    let journal = context.store.journal_path(id);
    inotify::add_watch(
        &watch,
        journal.parent().unwrap_or(&journal),
        inotify::WatchFlags::MODIFY | inotify::WatchFlags::MOVED_TO | inotify::WatchFlags::DELETE,
    )
    .map_err(|errno| failed("watch the journals", errno.into()))?;
    Ok((mark, watch))
}

/// Reports to the agent and closes the pipe to it.
pub fn say(words: &[u8]) -> std::io::Result<()> {
    let mut stdout = std::io::stdout();
    stdout.write_all(words)?;
    stdout.flush()?;
    let null = File::options().write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(&null)?;
    Ok(())
}

/// Sleeps until the lease is over (true) or the transaction no longer needs it (false).
fn wait(context: &Context, id: u64, watch: &File, term: Term) -> bool {
    loop {
        if !is_needed(context, id) {
            return false;
        }
        let left = term
            .deadline_boot_ms
            .map(|deadline| deadline.saturating_sub(boot_ms()));
        if left == Some(0) {
            return true;
        }
        let nap = left.map(|left| nap(left.min(NAP_MS)));
        let stdin = std::io::stdin();
        let mut events = vec![PollFd::new(watch, PollFlags::IN)];
        if term.with_session {
            events.push(PollFd::new(&stdin, PollFlags::IN));
        }
        let ended = poll(&mut events, nap.as_ref()).is_ok()
            && events.get(1).is_some_and(|event| !event.revents().is_empty());
        if ended {
            return true;
        }
        let mut drained = [0; 4096];
        let mut reader = watch;
        while matches!(reader.read(&mut drained), Ok(1..)) {}
    }
}

fn nap(ms: u64) -> Timespec {
    let ms = i64::try_from(ms).unwrap_or(i64::MAX);
    Timespec {
        tv_sec: ms / 1000,
        tv_nsec: ms % 1000 * 1_000_000,
    }
}

/// Whether the transaction exists, is in force or being applied, and has a lease.
fn is_needed(context: &Context, id: u64) -> bool {
    let loaded = context.store.load(id);
    loaded.is_ok_and(|transaction| transaction.is_open() && transaction.lease() != Lease::Keep)
}

fn end(context: &Context, id: u64) -> Result<()> {
    let _uninterrupted = sys::Uninterrupted::begin();
    let _lock = context.store.lock_waiting()?;
    if !is_needed(context, id) {
        return Ok(());
    }
    revert::undo(context, id, revert::Ask::DUE).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::{first_words, nap, READY};
    use std::fs::File;
    use std::io::Write;

    #[test]
    fn a_nap_has_seconds_and_what_is_left_of_them() {
        for (ms, seconds, nanoseconds) in [(0, 0, 0), (999, 0, 999_000_000), (61_002, 61, 2_000_000)] {
            let found = nap(ms);
            assert_eq!((found.tv_sec, found.tv_nsec), (seconds, nanoseconds));
        }
    }

    #[test]
    fn a_holder_says_that_it_is_in_charge_or_why_not_or_ends_without_a_word() {
        for said in [&[READY][..], b"inotify: not here", b""] {
            let (theirs, ours) = rustix::pipe::pipe().unwrap();
            File::from(ours).write_all(said).unwrap();
            assert_eq!(first_words(File::from(theirs)), said);
        }
    }
}
