// SPDX-License-Identifier: Apache-2.0
//! What is asked for, and whether it makes sense.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::bytes::Bytes;
use crate::error::{Error, Kind, Result};
use crate::network::{Network, Server};

const MOST_CAPTURE_BYTES: usize = 64 << 20;
const MOST_CPUS: u32 = 8192;

/// What to run.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Absolute path of the program, then its arguments.
    pub argv: Vec<String>,
    /// The whole environment; nothing is inherited.
    pub environment: BTreeMap<String, String>,
    /// Absolute path of the working directory.
    pub directory: String,
    /// Seconds after which the group is killed.
    pub limit_s: f64,
    /// Logical CPUs to run on; all that the agent may use when missing.
    #[serde(default)]
    pub cpus: Option<Vec<u32>>,
    /// Folder of an existing control group to run in.
    #[serde(default)]
    pub cgroup: Option<String>,
    /// What the command reads; nothing when missing.
    #[serde(default)]
    pub stdin: Option<Bytes>,
    /// Bytes kept of each output stream; 1 MiB when missing.
    #[serde(default)]
    pub capture_bytes: Option<usize>,
    /// Whether the command ends when the agent's input does.
    #[serde(default)]
    pub while_connected: bool,
    /// Whether the command waits before its first instruction until the next request comes.
    #[serde(default)]
    pub stopped: bool,
    /// The network to run in; the machine's when missing.
    #[serde(default)]
    pub network: Option<Network>,
    /// What is started at the network's other end before the command.
    #[serde(default)]
    pub server: Option<Server>,
}

/// Checks the parts of a request against each other and returns the time limit. `led`: a head can let a command go.
///
/// # Errors
/// It makes no sense.
pub fn check(request: &Request, led: bool) -> Result<Duration> {
    let refuse = |message: String| Err(Error::new(Kind::BadRequest, message));
    let Some(program) = request.argv.first() else {
        return refuse("argv is empty: it starts with the program".to_owned());
    };
    let paths = [
        ("argv[0]", Some(program)),
        ("directory", Some(&request.directory)),
        ("cgroup", request.cgroup.as_ref()),
    ];
    for (field, path) in paths {
        if let Some(path) =
            path.filter(|path| !path.starts_with('/') || path.split('/').any(|part| part == ".."))
        {
            return refuse(format!("{field} is {path:?}: give an absolute path without .."));
        }
    }
    if let Some(name) = request
        .environment
        .keys()
        .find(|name| name.is_empty() || name.contains('='))
    {
        return refuse(format!("environment: {name:?} cannot be a variable's name"));
    }
    if let Some(cpus) = &request.cpus {
        if cpus.is_empty() || cpus.iter().any(|cpu| *cpu >= MOST_CPUS) {
            return refuse(format!(
                "cpus is {cpus:?}: name at least one, all below {MOST_CPUS}"
            ));
        }
    }
    if request
        .capture_bytes
        .is_some_and(|bytes| bytes > MOST_CAPTURE_BYTES)
    {
        return refuse(format!("capture_bytes is above {MOST_CAPTURE_BYTES}"));
    }
    check_network(request)?;
    if request.stopped && !led {
        return refuse("stopped: nobody is here to let the command go: ask for it in a session".to_owned());
    }
    match Duration::try_from_secs_f64(request.limit_s) {
        Ok(limit) if !limit.is_zero() && Instant::now().checked_add(limit).is_some() => Ok(limit),
        _ => refuse(format!("limit_s is {}: give seconds above 0", request.limit_s)),
    }
}

/// Checks the network and the server at its other end.
fn check_network(request: &Request) -> Result<()> {
    let refuse = |message: &str| Err(Error::new(Kind::BadRequest, message));
    if let Some(network) = &request.network {
        network.check()?;
        if request.stopped {
            return refuse("stopped: a command in a network of its own cannot wait: leave one of them out");
        }
    }
    match &request.server {
        None => Ok(()),
        Some(_) if request.network.is_none() => {
            refuse("server: it stands at the other end of a network: give one")
        }
        Some(server) => match server.argv.first() {
            Some(program) if program.starts_with('/') && server.port > 0 => Ok(()),
            _ => refuse("server: give argv with an absolute path first, and a port above 0"),
        },
    }
}
