// SPDX-License-Identifier: Apache-2.0
//! The request, and whether it is valid.

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
    /// Logical CPUs to run on [default: all that the agent may use].
    #[serde(default)]
    pub cpus: Option<Vec<u32>>,
    /// Folder of an existing control group to run in.
    #[serde(default)]
    pub cgroup: Option<String>,
    /// Standard input [default: none].
    #[serde(default)]
    pub stdin: Option<Bytes>,
    /// Bytes to keep of each output stream [default: 1 MiB].
    #[serde(default)]
    pub capture_bytes: Option<usize>,
    /// Whether the command ends when the agent's input does.
    #[serde(default)]
    pub while_connected: bool,
    /// Whether the command waits before its first instruction until the next request arrives.
    #[serde(default)]
    pub stopped: bool,
    /// The network to run in [default: the machine's].
    #[serde(default)]
    pub network: Option<Network>,
    /// The server to start at the network's other end before the command.
    #[serde(default)]
    pub server: Option<Server>,
}

/// Validates a request and returns its time limit. `led`: a head is there to continue a stopped
/// command.
///
/// # Errors
///
/// The request is invalid.
pub fn check(request: &Request, led: bool) -> Result<Duration> {
    let refuse = |message: String| Err(Error::new(Kind::BadRequest, message));
    let Some(program) = request.argv.first() else {
        return refuse("argv: expected a program, got nothing".to_owned());
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
            return refuse(format!(
                "{field}: expected an absolute path without `..`, got {path:?}"
            ));
        }
    }
    if let Some(name) = request
        .environment
        .keys()
        .find(|name| name.is_empty() || name.contains('='))
    {
        return refuse(format!("environment: {name:?} is not a valid variable name"));
    }
    if let Some(cpus) = &request.cpus {
        if cpus.is_empty() || cpus.iter().any(|cpu| *cpu >= MOST_CPUS) {
            return refuse(format!(
                "cpus: expected at least one CPU, all below {MOST_CPUS}, got {cpus:?}"
            ));
        }
    }
    if request
        .capture_bytes
        .is_some_and(|bytes| bytes > MOST_CAPTURE_BYTES)
    {
        return refuse(format!("capture_bytes: expected at most {MOST_CAPTURE_BYTES}"));
    }
    check_network(request)?;
    if request.stopped && !led {
        return refuse("stopped: only a session can continue a stopped command".to_owned());
    }
    match Duration::try_from_secs_f64(request.limit_s) {
        Ok(limit) if !limit.is_zero() && Instant::now().checked_add(limit).is_some() => Ok(limit),
        _ => refuse(format!(
            "limit_s: expected more than 0 seconds, got {}",
            request.limit_s
        )),
    }
}

/// Validates the network and the server at its other end.
fn check_network(request: &Request) -> Result<()> {
    let refuse = |message: &str| Err(Error::new(Kind::BadRequest, message));
    if let Some(network) = &request.network {
        network.check()?;
        if request.stopped {
            return refuse("stopped: not possible together with network");
        }
    }
    match &request.server {
        None => Ok(()),
        Some(_) if request.network.is_none() => refuse("server: needs a network"),
        Some(server) => match server.argv.first() {
            Some(program) if program.starts_with('/') && server.port > 0 => Ok(()),
            _ => refuse("server: expected argv that starts with an absolute path, and a port above 0"),
        },
    }
}
