// SPDX-License-Identifier: Apache-2.0
//! Sessions of a head on another machine, which starts this program through `ssh` and sends frames
//! to its standard input.
//!
//! The head copies the program into a folder of its own, named by its digest. The relay removes it
//! when the last head that uses it has gone.

pub(crate) mod frames;
pub(crate) mod sessions;

use crate::error::{Error, Result};
use crate::transact::context::unix_ms;
use clap::Args;
use frames::Line;
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::fs::{flock, FlockOperation};
use rustix::pipe::PipeFlags;
use serde_json::json;
use sessions::Starter;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;
use std::time::Duration;

/// How long sessions may take to end once the head has gone: longer than an agent takes to end a
/// command and restore settings.
const PATIENCE: Duration = Duration::from_secs(60);
/// A file beside the program: no head removes the program while it exists.
const KEEP: &str = "keep";

/// Options of the relay.
#[derive(Args)]
pub struct Options {
    /// Leave the program where it is when the connection ends.
    #[arg(long)]
    keep: bool,
    /// How many folders above the one of ktrial's files did not exist before and are removed with it.
    #[arg(long, value_name = "COUNT", default_value = "0")]
    made: usize,
    /// End all sessions if the head sends nothing for this many seconds; the head can change this.
    #[arg(long, value_name = "SECONDS", default_value = "60")]
    silence_s: u32,
}

/// Serves one head until it ends the connection, or the connection breaks.
///
/// # Errors
///
/// The program's own file cannot be found, or the streams carry something that is not a frame.
pub fn main(options: &Options) -> Result<ExitCode> {
    let broken = |error: io::Error| Error::io("use", "standard input and output", &error);
    let program = std::env::current_exe().map_err(|error| Error::io("find", "/proc/self/exe", &error))?;
    let copy = Copy::hold(&program, options.keep, options.made)?;
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    std::env::set_current_dir("/").map_err(|error| Error::io("change to directory", "/", &error))?;
    let output = io::stdout().as_fd().try_clone_to_owned().map_err(broken)?;
    let input = io::stdin().as_fd().try_clone_to_owned().map_err(broken)?;
    let line = Line::new(File::from(output));
    let begun = line.say(
        frames::BEGUN,
        &json!({
            "agent": env!("CARGO_PKG_VERSION"),
            "program": program,
            "uid": rustix::process::geteuid().as_raw(),
            "user": std::env::var("USER").ok(),
            "host": rustix::system::uname().nodename().to_string_lossy(),
            "home": std::env::var_os("HOME").map(PathBuf::from),
            "unix_ms": unix_ms(),
        }),
    );
    if let Err(error) = begun {
        // The connection broke meanwhile.
        copy.leave();
        return Err(error);
    }
    let silence = Arc::new(Silence::new(options.silence_s).map_err(broken)?);
    let heard = Patient {
        input: File::from(input),
        silence: Arc::clone(&silence),
    };
    let starter = Starter {
        program,
        user: None,
        patience: PATIENCE,
        silence: Some(silence),
    };
    let served = sessions::attend(&line, heard, &starter);
    copy.leave();
    served.map(|()| ExitCode::SUCCESS)
}

/// How long the head may be silent. The head may ask for more time. For a run, the longer time
/// counts from its request on, so that a line that breaks before the request is noticed in the
/// usual time. From the reply on, the usual time counts again.
pub struct Silence {
    usual_s: u32,
    now_s: AtomicU32,
    /// The time that counts from the next request on; 0 if none was set.
    next_s: AtomicU32,
    /// Wakes the reader when the time changes.
    woken: OwnedFd,
    wake: OwnedFd,
}

impl Silence {
    fn new(usual_s: u32) -> io::Result<Self> {
        let (woken, wake) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        Ok(Self {
            usual_s,
            now_s: AtomicU32::new(usual_s),
            next_s: AtomicU32::new(0),
            woken,
            wake,
        })
    }

    /// Sets the time until the next reply.
    pub fn set(&self, seconds: u32) {
        self.next_s.store(0, Ordering::Relaxed);
        self.now_s.store(seconds, Ordering::Relaxed);
    }

    /// Sets the time between the next request and its reply.
    pub fn set_next(&self, seconds: u32) {
        self.next_s.store(seconds, Ordering::Relaxed);
    }

    /// Counts the time that was set for the next request, because it has arrived.
    pub fn heard_request(&self) {
        let next_s = self.next_s.swap(0, Ordering::Relaxed);
        if next_s != 0 {
            self.now_s.store(next_s, Ordering::Relaxed);
        }
    }

    /// How long the head may be silent now.
    pub fn seconds(&self) -> u32 {
        self.now_s.load(Ordering::Relaxed)
    }

    /// Counts the usual time from now on, because a session has written something.
    pub fn answered(&self) {
        if self.now_s.swap(self.usual_s, Ordering::Relaxed) != self.usual_s {
            // A full pipe wakes the reader just as well.
            let _ = rustix::io::write(&self.wake, b"x");
        }
    }
}

/// The head's input, which counts as ended after a silence.
struct Patient {
    input: File,
    silence: Arc<Silence>,
}

impl Read for Patient {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let seconds = self.silence.seconds();
            let limit = Timespec {
                tv_sec: seconds.into(),
                tv_nsec: 0,
            };
            let mut waited = [
                PollFd::new(&self.input, PollFlags::IN),
                PollFd::new(&self.silence.woken, PollFlags::IN),
            ];
            match poll(&mut waited, Some(&limit)) {
                Err(rustix::io::Errno::INTR) => continue,
                Ok(0) => {
                    let why = format!("nothing came from the head for {seconds} s");
                    return Err(io::Error::new(io::ErrorKind::TimedOut, why));
                }
                other => other?,
            };
            if !waited[0].revents().is_empty() {
                return self.input.read(buffer);
            }
            rustix::io::read(&self.silence.woken, &mut [0; 64])?;
        }
    }
}

/// The copy of this program, in a folder of its own that the head has made.
struct Copy {
    program: PathBuf,
    lock: File,
    keeps: bool,
    made: usize,
}

impl Copy {
    /// Keeps other relays from removing the program, and removes copies that nobody uses.
    fn hold(program: &Path, keeps: bool, made: usize) -> Result<Self> {
        let failed = |error: io::Error| Error::io("lock", program.display(), &error);
        let lock = File::open(program).map_err(failed)?;
        flock(&lock, FlockOperation::LockShared).map_err(|errno| failed(errno.into()))?;
        if !is_at(&lock, program) {
            return Err(failed(io::Error::other("another head has just removed it")));
        }
        let folder = own_folder(program);
        if let (true, Some(folder)) = (keeps, folder) {
            let mark = folder.join(KEEP);
            File::create(&mark).map_err(|error| Error::io("create", mark.display(), &error))?;
        }
        let siblings = folder.and_then(Path::parent).map(fs::read_dir);
        for other in siblings.into_iter().flatten().flatten().flatten() {
            if Some(other.path().as_path()) != folder {
                remove_unused(&other.path());
            }
        }
        Ok(Self {
            program: program.to_owned(),
            lock,
            keeps,
            made,
        })
    }

    /// Removes the program unless another relay uses it or a head wants it to stay.
    fn leave(self) {
        let Some(folder) = own_folder(&self.program) else {
            return;
        };
        let is_kept = self.keeps || folder.join(KEEP).exists();
        let is_free = flock(&self.lock, FlockOperation::NonBlockingLockExclusive).is_ok();
        if !is_kept && is_free && is_at(&self.lock, &self.program) {
            remove_copy(folder, self.made);
        }
    }
}

/// Whether this open file is the one that lies at `path`.
fn is_at(file: &File, path: &Path) -> bool {
    let same = |found: fs::Metadata, own: fs::Metadata| (found.dev(), found.ino()) == (own.dev(), own.ino());
    fs::metadata(path).is_ok_and(|found| file.metadata().is_ok_and(|own| same(found, own)))
}

/// The folder of a copy that the head has made: `…/agents/DIGEST`; none for any other program.
fn own_folder(program: &Path) -> Option<&Path> {
    let folder = program.parent()?;
    (folder.parent()?.file_name()? == "agents").then_some(folder)
}

/// Removes a copy of another version, unless a relay runs from it.
fn remove_unused(folder: &Path) {
    let Ok(file) = File::open(folder.join("ktrial-agent")) else {
        // A head that is just copying has no complete file yet.
        return;
    };
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
        remove_copy(folder, 0);
    }
}

/// Removes a copy, and as many more folders above the one of ktrial's files as were `made` for it.
/// What cannot be removed now is removed by a later relay.
fn remove_copy(folder: &Path, made: usize) {
    for name in ["ktrial-agent", KEEP] {
        let _ = fs::remove_file(folder.join(name));
    }
    let _ = fs::remove_dir(folder);
    // What is not empty stays.
    for parent in folder.ancestors().skip(1).take(2 + made) {
        let _ = fs::remove_dir(parent);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn copy_in(place: &Path, digest: &str) -> PathBuf {
        let folder = place.join("agents").join(digest);
        fs::create_dir_all(&folder).unwrap();
        let program = folder.join("ktrial-agent");
        fs::write(&program, "x").unwrap();
        program
    }

    #[test]
    fn the_last_relay_removes_the_copy_and_the_first_one_others() {
        let place = tempfile::tempdir().unwrap();
        let (old, used) = (copy_in(place.path(), "old"), copy_in(place.path(), "used"));
        let other = File::open(&used).unwrap();
        flock(&other, FlockOperation::LockShared).unwrap();
        let program = copy_in(place.path(), "new");
        let (first, second) = (
            Copy::hold(&program, false, 0).unwrap(),
            Copy::hold(&program, false, 0).unwrap(),
        );
        assert!(!old.exists() && used.exists());
        first.leave();
        assert!(program.exists());
        second.leave();
        assert!(!program.parent().unwrap().exists());
    }

    #[test]
    fn a_copy_that_a_head_wants_to_keep_stays() {
        let place = tempfile::tempdir().unwrap();
        let program = copy_in(place.path(), "new");
        Copy::hold(&program, true, 0).unwrap().leave();
        Copy::hold(&program, false, 0).unwrap().leave();
        assert!(program.exists());
    }

    #[test]
    fn a_copy_that_another_head_put_there_is_not_removed() {
        let place = tempfile::tempdir().unwrap();
        let program = copy_in(place.path(), "new");
        let first = Copy::hold(&program, false, 0).unwrap();
        fs::remove_file(&program).unwrap();
        copy_in(place.path(), "new");
        first.leave();
        assert!(program.exists());
    }

    #[test]
    fn folders_that_were_made_for_the_copy_go_with_it() {
        let place = tempfile::tempdir().unwrap();
        let home = place.path().join("home");
        let program = copy_in(&home.join(".local/state/ktrial"), "new");
        Copy::hold(&program, false, 2).unwrap().leave();
        assert!(home.exists() && !home.join(".local").exists());
    }

    #[test]
    fn a_program_that_lies_elsewhere_is_never_removed() {
        let place = tempfile::tempdir().unwrap();
        let program = place.path().join("ktrial-agent");
        fs::write(&program, "x").unwrap();
        Copy::hold(&program, false, 0).unwrap().leave();
        assert!(program.exists());
    }

    #[test]
    fn silence_ends_the_input_and_a_byte_does_not() {
        let (read, write) = rustix::pipe::pipe().unwrap();
        File::from(write.try_clone().unwrap()).write_all(b"x").unwrap();
        let silence = Arc::new(Silence::new(1).unwrap());
        let mut patient = Patient {
            input: File::from(read),
            silence: Arc::clone(&silence),
        };
        let mut buffer = [0; 4];
        assert_eq!(patient.read(&mut buffer).unwrap(), 1);
        assert_eq!(
            patient.read(&mut buffer).unwrap_err().kind(),
            io::ErrorKind::TimedOut
        );
        silence.set(3600);
        silence.answered();
        assert_eq!(
            patient.read(&mut buffer).unwrap_err().kind(),
            io::ErrorKind::TimedOut
        );
        drop(write);
        assert_eq!(patient.read(&mut buffer).unwrap(), 0);
    }

    #[test]
    fn a_longer_silence_counts_from_the_request_on() {
        let silence = Silence::new(1).unwrap();
        silence.set_next(3600);
        assert_eq!(silence.seconds(), 1, "the request has not arrived");
        silence.heard_request();
        assert_eq!(silence.seconds(), 3600);
        silence.answered();
        silence.heard_request();
        assert_eq!(silence.seconds(), 1, "the longer time was for one request");
        silence.set_next(3600);
        silence.set(1);
        silence.heard_request();
        assert_eq!(silence.seconds(), 1, "the head took it back");
    }
}
