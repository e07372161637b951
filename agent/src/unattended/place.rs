// SPDX-License-Identifier: Apache-2.0
//! Where plans and their logs are: `unattended/` in the state folder, which only root can write.

use crate::error::{Error, Kind, Result};
use crate::transact::context::Context;
use crate::transact::files::{self, Rights};
use crate::unattended::log::Progress;
use crate::unattended::plan::Plan;
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use serde_json::{json, Value};
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How many ended plans are kept on disk.
const KEPT: usize = 32;
/// How long a worker may take to end its command and to restore everything.
const STOP_WAIT: Duration = Duration::from_secs(40);
/// How long to wait for the lock before reporting which plan has it.
const HOLD_WAIT: Duration = Duration::from_millis(300);
const LOOK_EACH: Duration = Duration::from_millis(20);
const PRIVATE: Rights = Rights {
    mode: 0o600,
    owner: None,
};

/// The folder of all plans.
#[derive(Debug, Clone)]
pub struct Place {
    folder: PathBuf,
}

/// Held by the process that carries out a plan; released when it ends, however it ends.
#[derive(Debug)]
pub struct Held {
    _file: File,
}

impl Place {
    /// Returns the place of plans on a machine.
    #[must_use]
    pub fn of(context: &Context) -> Self {
        Self {
            folder: context.root.path(&context.state).join("unattended"),
        }
    }

    fn cannot(&self, what: &str, error: &io::Error) -> Error {
        Error::io(what, self.folder.display(), error)
    }

    /// Returns a file of a plan.
    #[must_use]
    pub fn file(&self, id: &str, name: &str) -> PathBuf {
        self.folder.join(id).join(name)
    }

    /// Reserves the machine for one plan; refuses while another one is carried out.
    pub fn hold(&self) -> Result<Held> {
        let began = Instant::now();
        loop {
            if let Some(held) = self.try_hold().map_err(|error| self.cannot("lock", &error))? {
                return Ok(held);
            }
            // Whoever asks for the state has the lock for a moment, too.
            if began.elapsed() > HOLD_WAIT {
                let name = self.running().unwrap_or_else(|| "another plan".to_owned());
                let message = format!("this machine carries out {name}");
                return Err(
                    Error::new(Kind::Busy, message).hint("wait for it, or stop it with `ktrial trial stop`")
                );
            }
            std::thread::sleep(LOOK_EACH);
        }
    }

    fn try_hold(&self) -> io::Result<Option<Held>> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let path = self.folder.join("lock");
        let file = File::from(rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?);
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Held { _file: file })),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Returns the plan that is being carried out.
    #[must_use]
    pub fn running(&self) -> Option<String> {
        if !self.folder.is_dir() || !matches!(self.try_hold(), Ok(None)) {
            return None;
        }
        fs::read_to_string(self.folder.join("running")).ok()
    }

    /// Notes which plan its holder carries out.
    pub fn note(&self, _held: &Held, id: &str) -> Result<()> {
        files::put_at(&self.folder.join("running"), id.as_bytes(), PRIVATE, 0)
            .map_err(|error| self.cannot("write to", &error))
    }

    /// Returns the token of the newest plan.
    pub fn token(&self) -> Result<u64> {
        match fs::read_to_string(self.folder.join("token")) {
            Ok(text) => text.trim().parse().map_err(|_| {
                Error::new(
                    Kind::Corrupt,
                    format!("{}/token: not a number", self.folder.display()),
                )
                .hint("remove the file if no plan is being carried out")
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            Err(error) => Err(self.cannot("read the token in", &error)),
        }
    }

    /// Writes a plan to the disk, after its token: a plan that is there can never be started twice.
    pub fn register(&self, plan: &Plan, text: &[u8]) -> Result<Held> {
        self.make().map_err(|error| self.cannot("create", &error))?;
        let held = self.hold()?;
        let newest = self.token()?;
        if plan.token <= newest {
            let message = format!(
                "unattended plan {}: token {} is not above {newest}, that of the newest plan",
                plan.id, plan.token
            );
            return Err(Error::new(Kind::Conflict, message)
                .hint("nothing was started; another head has sent a newer plan"));
        }
        let folder = self.folder.join(&plan.id);
        if fs::symlink_metadata(&folder).is_ok() {
            let message = format!("unattended plan {}: it was started before", plan.id);
            return Err(Error::new(Kind::Conflict, message).hint("nothing was started"));
        }
        let write = || {
            self.prune()?;
            files::put_at(
                &self.folder.join("token"),
                plan.token.to_string().as_bytes(),
                PRIVATE,
                0,
            )?;
            DirBuilder::new().mode(0o700).create(&folder)?;
            files::put_at(&folder.join("plan.json"), text, PRIVATE, 0)?;
            rustix::fs::mkfifoat(rustix::fs::CWD, folder.join("control"), Mode::RUSR | Mode::WUSR)?;
            files::sync_folder(&self.folder)
        };
        write().map_err(|error| self.cannot("write a plan to", &error))?;
        Ok(held)
    }

    fn make(&self) -> io::Result<()> {
        if self.folder.is_dir() {
            return Ok(());
        }
        DirBuilder::new().mode(0o700).create(&self.folder)?;
        self.folder.parent().map_or(Ok(()), files::sync_folder)
    }

    /// Removes the oldest plans.
    fn prune(&self) -> io::Result<()> {
        let mut tokens: Vec<(u64, String)> = self
            .names()?
            .into_iter()
            .map(|id| (self.plan(&id).map_or(0, |(plan, _)| plan.token), id))
            .collect();
        tokens.sort_unstable();
        let surplus = (tokens.len() + 1).saturating_sub(KEPT);
        for (_, id) in tokens.into_iter().take(surplus) {
            fs::remove_dir_all(self.folder.join(id))?;
        }
        Ok(())
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                names.extend(entry.file_name().into_string().ok());
            }
        }
        names.sort();
        Ok(names)
    }

    /// Reads a plan, as its exact text too.
    pub fn plan(&self, id: &str) -> Result<(Plan, Vec<u8>)> {
        let text = fs::read(self.file(&self.known(id)?, "plan.json"))
            .map_err(|error| self.cannot("read a plan in", &error))?;
        Ok((Plan::from_text(&text)?, text))
    }

    /// Returns the name if there is such a plan.
    fn known(&self, id: &str) -> Result<String> {
        let names = self.names().map_err(|error| self.cannot("read", &error))?;
        names
            .into_iter()
            .find(|name| name == id)
            .ok_or_else(|| Error::new(Kind::NotFound, format!("no such unattended plan: {id}")))
    }

    /// Returns the state of all plans, those with the lowest tokens first.
    pub fn status(&self) -> Result<Value> {
        let running = self.running();
        let mut plans = Vec::new();
        for id in self.names().map_err(|error| self.cannot("read", &error))? {
            let Ok((plan, _)) = self.plan(&id) else {
                // A crash while the plan was written: it never began.
                continue;
            };
            let (log, state) = (
                fs::read(self.file(&id, "log.jsonl")).unwrap_or_default(),
                &running,
            );
            let progress = Progress::of(&log);
            plans.push(json!({
                "id": id, "trial": plan.trial, "token": plan.token,
                "state": state_of(state.as_deref() == Some(&*id), &progress),
                "reason": progress.ended.as_ref().map(|(reason, _)| reason),
                "message": progress.ended.as_ref().map(|(_, message)| message),
                "visits": plan.visits.len(), "visits_ended": progress.visits,
            }));
        }
        plans.sort_by_key(|plan| plan["token"].as_u64());
        Ok(json!({"token": self.token()?, "running": running, "plans": plans}))
    }

    /// Returns at most `most` bytes of a log from an offset on, and whether more can follow.
    pub fn read_log(&self, id: &str, from: u64, most: u64) -> Result<(Vec<u8>, bool)> {
        let id = self.known(id)?;
        // Ask first: what is written before the worker ends is read below.
        let is_running = self.running().as_deref() == Some(&*id);
        let read = || {
            let mut bytes = Vec::new();
            let mut file = match File::open(self.file(&id, "log.jsonl")) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((bytes, false)),
                file => file?,
            };
            let length = file.metadata()?.len();
            file.seek(SeekFrom::Start(from))?;
            file.take(most).read_to_end(&mut bytes)?;
            let is_cut = from + (bytes.len() as u64) < length;
            Ok((bytes, is_cut))
        };
        let (bytes, is_cut) = read().map_err(|error| self.cannot("read a log in", &error))?;
        Ok((bytes, is_running || is_cut))
    }

    /// Asks the running plan to stop, and waits until everything is restored. Returns its name, or
    /// None if none is running.
    pub fn stop(&self) -> Result<Option<String>> {
        let Some(id) = self.running() else { return Ok(None) };
        let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        match rustix::fs::open(self.file(&id, "control"), flags, Mode::empty()) {
            Ok(control) => File::from(control)
                .write_all(b"s")
                .map_err(|error| self.cannot("write to the plan in", &error))?,
            // Nobody reads it: the worker has just ended.
            Err(Errno::NXIO) => {}
            Err(errno) => return Err(self.cannot("stop the plan in", &errno.into())),
        }
        let began = Instant::now();
        while self.running().as_deref() == Some(&*id) {
            if began.elapsed() > STOP_WAIT {
                return Err(
                    Error::new(Kind::Io, format!("unattended plan {id} does not stop"))
                        .hint("`ktrial status` shows what is in force, `ktrial revert --all` restores it"),
                );
            }
            std::thread::sleep(LOOK_EACH);
        }
        Ok(Some(id))
    }
}

fn state_of(is_running: bool, progress: &Progress) -> &'static str {
    match (is_running, &progress.ended) {
        (true, _) => "running",
        (false, Some(_)) => "ended",
        (false, None) => "cut-off",
    }
}
