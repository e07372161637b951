// SPDX-License-Identifier: Apache-2.0
//! Requests and responses. With a rate, the time of each request counts from the moment at which it
//! was due, whether or not earlier ones have been answered. Without a rate, it counts from its
//! sending, one request after the other.

use super::{retransmits, whole, Parameters, Window};
use crate::error::{Error, Result};
use crate::load::clock::{now_ns, sleep_until, Schedule};
use crate::load::crew::{self, Job};
use crate::load::histogram::Histogram;
use crate::load::{Measured, Run};
use crate::network::Connected;
use rustix::thread::set_current_timer_slack;
use serde_json::json;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::num::NonZeroU64;

/// Time between the start of the threads and the first request.
const LEAD_NS: u64 = 5_000_000;

type Latencies = Option<Histogram>;

impl Parameters {
    pub(super) fn exchange(&self, run: &Run, connected: &Connected) -> Result<Measured> {
        let sent_before = retransmits(&connected.clients);
        let mut jobs: Vec<Job<Latencies>> = Vec::new();
        for (number, (client, server)) in (0_u32..).zip(connected.clients.iter().zip(&connected.servers)) {
            jobs.push(Box::new(move |_| self.answer(run, server)));
            if self.rate_per_s == 0 {
                jobs.push(Box::new(move |start_ns| {
                    self.one_by_one(run, client, self.window(start_ns))
                }));
            } else {
                jobs.push(Box::new(move |start_ns| {
                    self.send(run, client, self.schedule(number, start_ns))
                }));
                jobs.push(Box::new(move |start_ns| {
                    self.hear(run, client, self.schedule(number, start_ns))
                }));
            }
        }
        let done = crew::run(jobs)?;
        let failed = |error: io::Error| Error::io("query", "a connection", &error);
        let sent_again = retransmits(&connected.clients).map_err(failed)? - sent_before.map_err(failed)?;
        let mut all = Histogram::new();
        done.results.iter().flatten().for_each(|one| all.add(one));
        let mut results = all.summary("");
        results.insert("planned".to_owned(), json!(self.planned()));
        results.insert("retransmits".to_owned(), json!(sent_again));
        results.insert("elapsed_ns".to_owned(), json!(done.elapsed_ns));
        Ok(Measured {
            results,
            histogram: Some(all),
        })
    }

    /// Returns how many requests of all connections count; None without a rate.
    fn planned(&self) -> Option<u64> {
        let of_each = self.schedule(0, 0).count - self.in_ramp();
        (self.rate_per_s > 0).then_some(of_each * u64::from(self.connections))
    }

    /// Returns how many requests of each connection don't count.
    fn in_ramp(&self) -> u64 {
        self.until(self.window(0).begin_ns)
    }

    /// Returns the number of requests of each connection in a period.
    fn until(&self, time_ns: u64) -> u64 {
        let requests = u128::from(time_ns) * u128::from(self.rate_per_s) / 1_000_000_000;
        u64::try_from(requests).unwrap_or(u64::MAX / 4)
    }

    /// Returns the moments of a connection, including the ramp; those of different connections are
    /// spread over the period.
    fn schedule(&self, connection: u32, start_ns: u64) -> Schedule {
        let period_ns = 1_000_000_000 / u64::from(self.rate_per_s.max(1));
        let shift_ns = period_ns * u64::from(connection) / u64::from(self.connections);
        Schedule {
            first_ns: start_ns + LEAD_NS + shift_ns,
            rate_per_s: self.rate_per_s,
            count: self.until(self.window(0).end_ns),
            seed: None,
        }
    }

    /// Runs the server: answers until the client is gone.
    fn answer(&self, run: &Run, server: &TcpStream) -> io::Result<Latencies> {
        let _last = LastWord(server);
        let mut request = vec![0; self.request_bytes as usize];
        let response = vec![0x5a; self.response_bytes as usize];
        while whole::read(server, &mut request, || run.stopped())?
            && whole::write(server, &response, || run.stopped())?
        {}
        Ok(None)
    }

    /// Runs the client of a closed loop.
    fn one_by_one(&self, run: &Run, client: &TcpStream, window: Window) -> io::Result<Latencies> {
        let _last = LastWord(client);
        let request = vec![0x5a; self.request_bytes as usize];
        let mut response = vec![0; self.response_bytes as usize];
        let mut histogram = Histogram::new();
        loop {
            let sent_ns = now_ns();
            if sent_ns >= window.end_ns
                || run.stopped()
                || !whole::write(client, &request, || run.stopped())?
                || !whole::read(client, &mut response, || run.stopped())?
            {
                return Ok(Some(histogram));
            }
            if sent_ns >= window.begin_ns {
                histogram.record(now_ns().saturating_sub(sent_ns));
            }
        }
    }

    /// Sends each request at its moment.
    fn send(&self, run: &Run, client: &TcpStream, schedule: Schedule) -> io::Result<Latencies> {
        // The kernel may delay an ordinary thread's sleep by 50 microseconds, which must not count
        // as response time.
        set_current_timer_slack(NonZeroU64::new(1))?;
        let _last = LastWord(client);
        let request = vec![0x5a; self.request_bytes as usize];
        for index in 0..schedule.count {
            sleep_until(schedule.at_ns(index))?;
            if run.stopped() || !whole::write(client, &request, || run.stopped())? {
                break;
            }
        }
        Ok(None)
    }

    /// Receives the responses, which arrive in the order of the requests.
    fn hear(&self, run: &Run, client: &TcpStream, schedule: Schedule) -> io::Result<Latencies> {
        let mut response = vec![0; self.response_bytes as usize];
        let mut histogram = Histogram::new();
        for index in 0..schedule.count {
            if !whole::read(client, &mut response, || run.stopped())? {
                break;
            }
            if index >= self.in_ramp() {
                histogram.record(now_ns().saturating_sub(schedule.at_ns(index)));
            }
        }
        Ok(Some(histogram))
    }
}

/// Closes the sending side at the end.
struct LastWord<'a>(&'a TcpStream);

impl Drop for LastWord<'_> {
    fn drop(&mut self) {
        // Fails only if the connection is gone.
        self.0.shutdown(Shutdown::Write).unwrap_or_default();
    }
}
