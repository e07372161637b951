// SPDX-License-Identifier: Apache-2.0
//! The state of a session.

use crate::error::{Error, Kind, Result};
use crate::root::Root;
use crate::transact::store::Store;
use crate::work::Work;
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
    /// Read and write knobs, keep the journal.
    Root,
    /// Read and run commands.
    User,
}

/// What ends a running load early, besides its time limit.
#[derive(Debug, Clone, Copy)]
pub enum Told {
    /// Nothing.
    Never,
    /// The end of standard input; for a load without a time limit also the next request on it.
    ByInput {
        /// Whether the next request has already been read.
        waiting: bool,
    },
}

/// The process that holds a lease, as the session sees it.
#[derive(Debug)]
pub struct Holder {
    /// Number of the transaction.
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

/// The machine, the journals and the leases of a session.
#[derive(Debug)]
pub struct Context {
    /// What the session may do.
    pub role: Role,
    /// The machine.
    pub root: Root,
    /// Path of the state folder on the machine.
    pub state: String,
    /// The journals.
    pub store: Store,
    /// Leases that this session started.
    pub holders: Vec<Holder>,
    /// When leases that end with the session end at the latest [default: never].
    pub lease_ends_boot_ms: Option<u64>,
    /// All transactions up to this number are over for good, as far as this session has seen.
    pub over_up_to: u64,
    /// The user on whose behalf a root session acts, if it knows.
    pub user: Option<u32>,
    /// What ends a running load early.
    pub told: Told,
    /// ID of the request that is being answered.
    pub request: Value,
    /// Data that the next load works on.
    pub given: Vec<u8>,
    /// Private folders and locks.
    pub work: Work,
}

impl Context {
    /// Creates a session on the machine at `root`, with its journals in `state`.
    #[must_use]
    pub fn new(role: Role, root: Root, state: &str) -> Self {
        let store = Store::new(&root, state);
        Self {
            role,
            root,
            state: state.to_owned(),
            store,
            holders: Vec::new(),
            lease_ends_boot_ms: None,
            over_up_to: 0,
            user: None,
            told: Told::Never,
            request: Value::Null,
            given: Vec::new(),
            work: Work::default(),
        }
    }

    /// Tells the head on standard output that its request has begun; the reply follows when it has
    /// ended.
    ///
    /// # Errors
    ///
    /// The output cannot be written.
    pub fn tell_begun(&self) -> io::Result<()> {
        self.tell(&json!({"id": self.request, "begun": true}))
    }

    /// Tells the head that a command has started and is stopped, with its process ID.
    ///
    /// # Errors
    ///
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

    /// Refuses if an ordinary user tries to change the machine that the agent runs on.
    ///
    /// # Errors
    ///
    /// `privilege`.
    pub fn need_root(&self) -> Result<()> {
        if !self.root.is_real() || rustix::process::geteuid().is_root() {
            return Ok(());
        }
        Err(
            Error::new(Kind::Privilege, "cannot change this machine: root is required")
                .hint("use sudo; reading and planning work without it"),
        )
    }
}

/// Returns milliseconds since 1970.
#[must_use]
pub fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Returns milliseconds since boot, including suspension. Nobody can set this clock.
#[must_use]
pub fn boot_ms() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    let ms = now.tv_sec * 1000 + now.tv_nsec / 1_000_000;
    u64::try_from(ms).unwrap_or_default()
}
