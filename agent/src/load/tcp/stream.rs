// SPDX-License-Identifier: Apache-2.0
//! The stream: each client sends without pause, and each server receives.

use super::{retransmits, whole, Parameters, Window};
use crate::error::Result;
use crate::load::clock::{now_ns, sleep_until};
use crate::load::crew::{self, Job};
use crate::load::{Measured, Run};
use crate::network::Connected;
use serde_json::{json, Map};
use std::io::{self, Read};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const RECEIVE_BYTES: usize = 256 << 10;
const SLICE_NS: u64 = 50_000_000;

/// The counters at one moment.
#[derive(Debug, Clone, Copy, Default)]
struct Sight {
    at_ns: u64,
    received_bytes: u64,
    retransmits: u64,
}

/// The state that the threads share.
struct Course<'a> {
    run: &'a Run<'a>,
    received_bytes: AtomicU64,
    /// Whether the window is over, or the load must end.
    over: AtomicBool,
}

impl Course<'_> {
    fn over(&self) -> bool {
        self.over.load(Ordering::Relaxed) || self.run.stopped()
    }

    fn see(&self, clients: &[TcpStream]) -> io::Result<Sight> {
        Ok(Sight {
            at_ns: now_ns(),
            received_bytes: self.received_bytes.load(Ordering::Relaxed),
            retransmits: retransmits(clients)?,
        })
    }

    /// Records the counters at the beginning and end of the window, and ends the other threads. A
    /// window that begins late, on a busy machine, is not shorter: only a load that ends early
    /// shortens it.
    fn watch(&self, window: Window, clients: &[TcpStream]) -> io::Result<Option<(Sight, Sight)>> {
        let _ending = Ending(&self.over);
        self.sleep_until(window.begin_ns)?;
        let first = self.see(clients)?;
        self.sleep_until(first.at_ns + (window.end_ns - window.begin_ns))?;
        let last = self.see(clients)?;
        Ok(Some((first, last)))
    }

    fn sleep_until(&self, moment_ns: u64) -> io::Result<()> {
        while !self.over() && now_ns() < moment_ns {
            sleep_until(moment_ns.min(now_ns() + SLICE_NS))?;
        }
        Ok(())
    }

    fn send(&self, client: &TcpStream, message: &[u8]) -> io::Result<()> {
        let _ending = Ending(&self.over);
        while !self.over() && whole::write(client, message, || self.over())? {}
        Ok(())
    }

    fn receive(&self, mut server: &TcpStream) -> io::Result<()> {
        let _ending = Ending(&self.over);
        let mut buffer = vec![0; RECEIVE_BYTES];
        while !self.over() {
            match whole::progress(server.read(&mut buffer))? {
                Some(0) => break,
                Some(bytes) => self.received_bytes.fetch_add(bytes as u64, Ordering::Relaxed),
                None => continue,
            };
        }
        Ok(())
    }
}

/// Ends all threads with the first one, however that ends.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Parameters {
    pub(super) fn stream(&self, run: &Run, connected: &Connected) -> Result<Measured> {
        let course = Course {
            run,
            received_bytes: AtomicU64::new(0),
            over: AtomicBool::new(false),
        };
        let course = &course;
        let message = vec![0x5a; self.message_bytes as usize];
        let mut jobs: Vec<Job<Option<(Sight, Sight)>>> = Vec::new();
        for server in &connected.servers {
            jobs.push(Box::new(move |_| course.receive(server).map(|()| None)));
        }
        for client in &connected.clients {
            let message = &message;
            jobs.push(Box::new(move |_| course.send(client, message).map(|()| None)));
        }
        let clients = &connected.clients;
        jobs.push(Box::new(move |start_ns| {
            course.watch(self.window(start_ns), clients)
        }));
        let done = crew::run(jobs)?;
        let sights = done.results.into_iter().flatten().next();
        let (first, last) = sights.unwrap_or_default();
        let mut results = Map::new();
        results.insert(
            "received_bytes".to_owned(),
            json!(last.received_bytes - first.received_bytes),
        );
        results.insert("window_ns".to_owned(), json!(last.at_ns - first.at_ns));
        results.insert(
            "retransmits".to_owned(),
            json!(last.retransmits - first.retransmits),
        );
        results.insert("ramp_received_bytes".to_owned(), json!(first.received_bytes));
        results.insert("elapsed_ns".to_owned(), json!(done.elapsed_ns));
        Ok(Measured {
            results,
            histogram: None,
        })
    }
}
