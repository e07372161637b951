// SPDX-License-Identifier: Apache-2.0
//! What a session of the agent works with.

use crate::error::{Error, Kind, Result};
use crate::root::Root;
use crate::transact::store::Store;
use rustix::time::{clock_gettime, ClockId};
use serde::Serialize;
use serde_json::{json, Value};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::process::Child;
use std::time::{SystemTime, UNIX_EPOCH};

/// What a session may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Reads and writes knobs, keeps the journal.
    Root,
    /// Reads and runs commands.
    User,
}

/// What tells a running load to end early, besides its limit.
#[derive(Debug, Clone, Copy)]
pub enum Told {
    /// Nothing does.
    Never,
    /// The end of standard input; the next request on it too for a load that runs until it is told.
    ByInput {
        /// The next request has been read already.
        waiting: bool,
    },
}

/// The process that holds a lease, as the session sees it.
#[derive(Debug)]
pub struct Holder {
    /// The transaction.
    pub id: u64,
    pub(crate) process: Child,
    /// Closes when the agent ends, however it ends.
    pub(crate) session: Option<OwnedFd>,
}

impl Holder {
    /// Whether the lease ends with the session.
    #[must_use]
    pub fn is_session(&self) -> bool {
        self.session.is_some()
    }
}

/// A session's machine, journal and leases.
#[derive(Debug)]
pub struct Context {
    /// What it may do.
    pub role: Role,
    /// The machine.
    pub root: Root,
    /// The state folder, as a path of the machine.
    pub state: String,
    /// The journals.
    pub store: Store,
    /// Leases that this session started.
    pub holders: Vec<Holder>,
    /// What tells a running load to end.
    pub told: Told,
    /// The number of the request that is being answered.
    pub request: Value,
    /// What the next load works on.
    pub given: Vec<u8>,
}

impl Context {
    /// A session on the machine at `root` with its journals in `state`.
    #[must_use]
    pub fn new(role: Role, root: Root, state: &str) -> Self {
        let store = Store::new(&root, state);
        Self {
            role,
            root,
            state: state.to_owned(),
            store,
            holders: Vec::new(),
            told: Told::Never,
            request: Value::Null,
            given: Vec::new(),
        }
    }

    /// Tells a head on standard output that what it asked for has begun; the reply comes when it has ended.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn tell_begun(&self) -> io::Result<()> {
        self.tell(&json!({"id": self.request, "begun": true}))
    }

    /// The same of a command that is stopped, with its number.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn tell_stopped(&self, process: i32) -> io::Result<()> {
        self.tell(&json!({"id": self.request, "begun": true, "pid": process}))
    }

    fn tell(&self, line: &Value) -> io::Result<()> {
        if let Told::Never = self.told {
            return Ok(());
        }
        let mut output = io::stdout().lock();
        writeln!(output, "{line}")?;
        output.flush()
    }

    /// Refuses an ordinary user's attempt to change the machine that it runs on.
    ///
    /// # Errors
    /// `privilege`.
    pub fn need_root(&self) -> Result<()> {
        if !self.root.is_real() || rustix::process::geteuid().is_root() {
            return Ok(());
        }
        Err(Error::new(Kind::Privilege, "changing this machine needs root")
            .hint("use sudo; reading and planning work without"))
    }
}

/// Milliseconds since 1970.
#[must_use]
pub fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Milliseconds since the boot, those of suspension included: nobody sets this clock.
#[must_use]
pub fn boot_ms() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    let ms = now.tv_sec * 1000 + now.tv_nsec / 1_000_000;
    u64::try_from(ms).unwrap_or_default()
}
