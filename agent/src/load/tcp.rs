// SPDX-License-Identifier: Apache-2.0
//! `tcp`: a stream of bytes, or requests and responses, over TCP between two private network
//! namespaces.
//!
//! [`crate::network`] describes the network. The first `ramp_s` don't count, because connections
//! start slowly.

mod exchange;
mod stream;
mod whole;

use super::{seconds, within, Load, Measured, Run};
use crate::error::{Error, Kind, Result};
use crate::network::{self, Connected, Network};
use crate::sys::tcp_retransmits;
use serde::{Deserialize, Serialize};
use serde_json::Map;
use std::io;
use std::net::TcpStream;
use std::time::Duration;

/// How long a read or write waits before the thread checks whether it must end.
const LOOK_UP: Duration = Duration::from_millis(100);
const MOST_REQUESTS: u64 = 4_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Mode {
    /// The client sends as fast as possible.
    Stream,
    /// The client sends requests, and the server answers each.
    RequestResponse,
}

#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Parameters {
    mode: Mode,
    connections: u32,
    duration_s: f64,
    ramp_s: f64,
    /// Bytes per write, in stream mode.
    message_bytes: u32,
    request_bytes: u32,
    response_bytes: u32,
    /// Requests per second and connection; with 0, each request follows the answer to the previous
    /// one.
    rate_per_s: u32,
    congestion: Option<String>,
    qdisc: Option<String>,
    delay_us: u32,
    loss_ppm: u32,
    rate_bytes_per_s: u64,
    limit_packets: u32,
}

impl Default for Parameters {
    fn default() -> Self {
        let network = Network::default();
        Self {
            mode: Mode::Stream,
            connections: 1,
            duration_s: 5.0,
            ramp_s: 1.0,
            message_bytes: 128 << 10,
            request_bytes: 64,
            response_bytes: 64,
            rate_per_s: 1000,
            congestion: network.congestion,
            qdisc: network.qdisc,
            delay_us: network.delay_us,
            loss_ppm: network.loss_ppm,
            rate_bytes_per_s: network.rate_bytes_per_s,
            limit_packets: network.limit_packets,
        }
    }
}

/// The counted period, in monotonic time.
#[derive(Debug, Clone, Copy)]
struct Window {
    begin_ns: u64,
    end_ns: u64,
}

impl Load for Parameters {
    fn check(&self) -> Result<()> {
        within("connections", self.connections, 1, network::MOST_CONNECTIONS)?;
        within("message_bytes", self.message_bytes, 1, 16 << 20)?;
        within("request_bytes", self.request_bytes, 1, 1 << 20)?;
        within("response_bytes", self.response_bytes, 1, 1 << 20)?;
        within("rate_per_s", self.rate_per_s, 0, 1_000_000)?;
        within("ramp_s", self.ramp_s, 0.0, 600.0)?;
        let nanoseconds = u128::from(seconds("duration_s", self.duration_s)?);
        self.network().check()?;
        let requests =
            nanoseconds * u128::from(self.rate_per_s) * u128::from(self.connections) / 1_000_000_000;
        if self.mode == Mode::Stream || requests <= u128::from(MOST_REQUESTS) {
            return Ok(());
        }
        let message = format!("parameters: connections, rate_per_s and duration_s make {requests} requests");
        Err(Error::new(Kind::BadRequest, message).hint(format!("use at most {MOST_REQUESTS} in total")))
    }

    fn run(&self, run: &Run) -> Result<Measured> {
        let Some(connected) = network::connect(&self.network(), self.connections, || run.stopped())? else {
            return Ok(Measured {
                results: Map::new(),
                histogram: None,
            });
        };
        self.prepare(&connected)?;
        let mut measured = match self.mode {
            Mode::Stream => self.stream(run, &connected)?,
            Mode::RequestResponse => self.exchange(run, &connected)?,
        };
        measured.results.insert("network".to_owned(), connected.identity);
        Ok(measured)
    }
}

impl Parameters {
    fn network(&self) -> Network {
        Network {
            congestion: self.congestion.clone(),
            qdisc: self.qdisc.clone(),
            delay_us: self.delay_us,
            loss_ppm: self.loss_ppm,
            rate_bytes_per_s: self.rate_bytes_per_s,
            limit_packets: self.limit_packets,
        }
    }

    fn prepare(&self, connected: &Connected) -> Result<()> {
        let set_up = |socket: &TcpStream| {
            socket.set_read_timeout(Some(LOOK_UP))?;
            socket.set_write_timeout(Some(LOOK_UP))?;
            socket.set_nodelay(self.mode == Mode::RequestResponse)
        };
        let mut sockets = connected.clients.iter().chain(&connected.servers);
        sockets
            .try_for_each(set_up)
            .map_err(|error| Error::io("set up", "a connection", &error))
    }

    /// Returns the counted period, for threads that start at `start_ns`.
    fn window(&self, start_ns: u64) -> Window {
        // Both have been checked.
        let ramp = Duration::try_from_secs_f64(self.ramp_s).unwrap_or_default();
        let length = Duration::try_from_secs_f64(self.duration_s).unwrap_or_default();
        let ns = |span: Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX / 4);
        let begin_ns = start_ns + ns(ramp);
        Window {
            begin_ns,
            end_ns: begin_ns + ns(length),
        }
    }
}

/// Returns how many segments all sockets have retransmitted.
fn retransmits(sockets: &[TcpStream]) -> io::Result<u64> {
    sockets
        .iter()
        .map(|socket| tcp_retransmits(socket).map(u64::from))
        .sum()
}
