// SPDX-License-Identifier: Apache-2.0
//! `requests`: sends the same request to a server again and again, at moments fixed beforehand (an
//! open loop).
//!
//! Each connection has a thread, and the moments are distributed round-robin. A connection that
//! still waits for an answer sends its next request late, but that request's time counts from the
//! moment at which it was due. A server that stalls is therefore charged for every request that it
//! delayed, not only for those that could be sent.

use super::clock::{now_ns, sleep_until, Schedule};
use super::crew::{self, Job};
use super::histogram::Histogram;
use super::{seconds, within, Load, Measured, Run};
use crate::error::{Error, Kind, Result};
use rustix::thread::set_current_timer_slack;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::num::NonZeroU64;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Time between the start of the threads and the first moment.
const LEAD_NS: u64 = 5_000_000;
/// Time after the last moment during which answers still count.
const GRACE_NS: u64 = 1_000_000_000;
/// How long a thread waits for an answer before it checks whether it must end.
const LOOK: Duration = Duration::from_millis(100);
const MOST_REQUESTS: u64 = 4_000_000;
const MOST_REQUEST_BYTES: usize = 64 << 10;
const MOST_REPLY_BYTES: usize = 1 << 20;
/// Bytes of a reply that an error quotes.
const SHOWN_BYTES: usize = 60;

#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Parameters {
    /// `unix:PATH` or `tcp:ADDRESS:PORT`.
    address: String,
    request: String,
    /// Beginning of every reply.
    begins: String,
    /// End of every reply, which occurs nowhere else in it.
    ends: String,
    connections: u32,
    /// Requests per second of all connections together.
    rate_per_s: u32,
    duration_s: f64,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            address: String::new(),
            request: String::new(),
            begins: String::new(),
            ends: String::new(),
            connections: 4,
            rate_per_s: 1000,
            duration_s: 2.0,
        }
    }
}

/// The results of one connection.
struct ThreadResult {
    latency: Histogram,
    lag: Histogram,
    answered: u64,
    left_over: u64,
}

impl Load for Parameters {
    fn check(&self) -> Result<()> {
        within("rate_per_s", self.rate_per_s, 1, 1_000_000)?;
        // Each connection sends at least one request per second, and then checks whether it must
        // end.
        within("connections", self.connections, 1, self.rate_per_s.min(1000))?;
        let bad = |message: String| Err(Error::new(Kind::BadRequest, format!("parameters: {message}")));
        if self.request.is_empty() || self.request.len() > MOST_REQUEST_BYTES || self.ends.is_empty() {
            return bad(format!(
                "expected a `request` of 1 to {MOST_REQUEST_BYTES} bytes, and `ends`, the end of its reply"
            ));
        }
        Address::of(&self.address)?;
        let requests = self.requests()?;
        if (1..=MOST_REQUESTS).contains(&requests) {
            return Ok(());
        }
        bad(format!(
            "rate_per_s and duration_s make {requests} requests; expected 1 to {MOST_REQUESTS}"
        ))
    }

    fn run(&self, run: &Run) -> Result<Measured> {
        let address = Address::of(&self.address)?;
        let requests = self.requests()?;
        let mut jobs: Vec<Job<ThreadResult>> = Vec::new();
        for connection in 0..self.connections {
            let refused = |error: io::Error| Error::io("connect to", &self.address, &error);
            let stream = address.connect().map_err(refused)?;
            jobs.push(Box::new(move |start_ns| {
                let schedule = Schedule {
                    first_ns: start_ns + LEAD_NS,
                    rate_per_s: self.rate_per_s,
                    count: requests,
                    seed: None,
                };
                self.ask(run, schedule, connection, stream)
            }));
        }
        let done = crew::run(jobs)?;
        let (mut latency, mut lag) = (Histogram::new(), Histogram::new());
        for found in &done.results {
            latency.add(&found.latency);
            lag.add(&found.lag);
        }
        let mut results = latency.summary("");
        results.extend(lag.summary("lag_"));
        let sum = |of: fn(&ThreadResult) -> u64| done.results.iter().map(of).sum::<u64>();
        results.insert("planned".to_owned(), json!(requests));
        results.insert("answered".to_owned(), json!(sum(|found| found.answered)));
        results.insert("left_over".to_owned(), json!(sum(|found| found.left_over)));
        results.insert("elapsed_ns".to_owned(), json!(done.elapsed_ns));
        Ok(Measured {
            results,
            histogram: Some(latency),
        })
    }
}

impl Parameters {
    /// Returns the number of requests of all connections.
    fn requests(&self) -> Result<u64> {
        let nanoseconds = u128::from(seconds("duration_s", self.duration_s)?);
        let requests = nanoseconds * u128::from(self.rate_per_s) / 1_000_000_000;
        Ok(u64::try_from(requests).unwrap_or(u64::MAX))
    }

    /// Sends the requests of one connection, each at its moment, or later if the previous one has
    /// not been answered yet.
    fn ask(
        &self,
        run: &Run,
        schedule: Schedule,
        connection: u32,
        stream: Box<dyn Stream>,
    ) -> io::Result<ThreadResult> {
        // The kernel may delay an ordinary thread's sleep by 50 microseconds, which must not count
        // as response time.
        set_current_timer_slack(NonZeroU64::new(1))?;
        let mut stream = stream;
        let mut found = ThreadResult {
            latency: Histogram::new(),
            lag: Histogram::new(),
            answered: 0,
            left_over: 0,
        };
        let end_ns = schedule.at_ns(schedule.count) + GRACE_NS;
        let mut reply = vec![0; MOST_REPLY_BYTES];
        let step = usize::try_from(self.connections).unwrap_or(usize::MAX);
        let mut late = false;
        for index in (u64::from(connection)..schedule.count).step_by(step) {
            let due_ns = schedule.at_ns(index);
            if !late {
                sleep_until(due_ns)?;
                let sent_ns = now_ns();
                let over = || run.stopped() || now_ns() >= end_ns;
                late = over() || {
                    found.lag.record(sent_ns.saturating_sub(due_ns));
                    stream.write_all(self.request.as_bytes())?;
                    !self.receive(stream.as_mut(), &mut reply, over)?
                };
            }
            if run.stopped() {
                break;
            }
            // An unanswered request took at least until now.
            found.latency.record(now_ns().saturating_sub(due_ns));
            found.answered += u64::from(!late);
            found.left_over += u64::from(late);
        }
        Ok(found)
    }

    /// Waits for a complete reply; returns false if `over` becomes true first. An unexpected reply
    /// is an error.
    fn receive(
        &self,
        stream: &mut dyn Stream,
        buffer: &mut [u8],
        over: impl Fn() -> bool,
    ) -> io::Result<bool> {
        let (begins, ends) = (self.begins.as_bytes(), self.ends.as_bytes());
        let mut held = 0;
        loop {
            match stream.read(&mut buffer[held..]) {
                Ok(0) if held == buffer.len() => return Err(unexpected("is too long", &buffer[..held])),
                Ok(0) => return Err(unexpected("is incomplete", &buffer[..held])),
                Ok(more) => held += more,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    if over() {
                        return Ok(false);
                    }
                }
                Err(error) => return Err(error),
            }
            let compared = held.min(begins.len());
            if buffer[..compared] != begins[..compared] {
                return Err(unexpected("is not as expected", &buffer[..held]));
            }
            if held >= begins.len() + ends.len() && buffer[..held].ends_with(ends) {
                return Ok(true);
            }
        }
    }
}

fn unexpected(what: &str, reply: &[u8]) -> io::Error {
    let shown = reply[..reply.len().min(SHOWN_BYTES)].escape_ascii();
    io::Error::other(format!("the reply {what}: \"{shown}\""))
}

/// A connection.
trait Stream: Read + Write + Send {}
impl Stream for UnixStream {}
impl Stream for TcpStream {}

/// The address of the server.
enum Address<'a> {
    Unix(&'a str),
    Tcp(SocketAddr),
}

impl<'a> Address<'a> {
    fn of(text: &'a str) -> Result<Self> {
        let found = match text.split_once(':') {
            Some(("unix", path)) if path.starts_with('/') => Some(Self::Unix(path)),
            Some(("tcp", address)) => address.parse().ok().map(Self::Tcp),
            _ => None,
        };
        found.ok_or_else(|| {
            let message = format!("parameters: invalid address {text:?}");
            Error::new(Kind::BadRequest, message).hint("use unix:/PATH or tcp:127.0.0.1:PORT")
        })
    }

    fn connect(&self) -> io::Result<Box<dyn Stream>> {
        match self {
            Self::Unix(path) => {
                // The kernel accepts paths of at most 107 bytes. The socket has a short path
                // through its open folder.
                let (folder, name) = path.rsplit_once('/').unwrap_or_default();
                let folder = File::open(format!("{folder}/"))?;
                let stream = UnixStream::connect(format!("/proc/self/fd/{}/{name}", folder.as_raw_fd()))?;
                stream.set_read_timeout(Some(LOOK))?;
                Ok(Box::new(stream))
            }
            Self::Tcp(address) => {
                let stream = TcpStream::connect(address)?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(LOOK))?;
                Ok(Box::new(stream))
            }
        }
    }
}

#[cfg(test)]
mod tests;
