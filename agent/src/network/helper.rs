// SPDX-License-Identifier: Apache-2.0
//! The process that creates the network. Only a single-threaded process can enter an ordinary
//! user's namespaces, so the agent starts itself once more. The helper opens connections and passes
//! the sockets, which belong to the two ends wherever they are used; or it starts a server at one
//! end and becomes the command at the other.

use super::listening::listens;
use super::{make, no_congestion, Made, Network, PATIENCE, SERVER};
use crate::error::{Error, Kind, Result};
use crate::root::Root;
use crate::sys;
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::io::{fcntl_setfd, retry_on_intr, FdFlags};
use rustix::net::sockopt::{set_tcp_congestion, tcp_congestion};
use rustix::net::{
    recvmsg, sendmsg, socketpair, AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use serde::{Deserialize, Serialize};
use serde_json::{json, Value};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The hidden subcommand.
const NAME: &str = "network";
/// Most connections in one message: the kernel passes up to 253 descriptors at once.
pub const MOST_CONNECTIONS: u32 = 64;
const PORT: u16 = 5201;
const MESSAGE_BYTES: usize = 32 << 10;

/// A server to start at the other end before the command.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// Absolute path of the program, then its arguments.
    pub argv: Vec<String>,
    /// The TCP port on which it listens when it is ready.
    pub port: u16,
}

/// The helper's job.
#[derive(Debug, Deserialize, Serialize)]
struct Job {
    network: Network,
    /// The descriptor for the report.
    report: i32,
    task: Task,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum Task {
    /// Open this many connections.
    Connect(u32),
    /// Become this command. `program` is the actual path of argv's first word.
    Run {
        program: String,
        argv: Vec<String>,
        server: Option<Server>,
    },
}

/// What the helper reports.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum Report {
    Ok(Value),
    Error(Refusal),
}

#[derive(Debug, Deserialize, Serialize)]
struct Refusal {
    privilege: bool,
    message: String,
    hint: Option<String>,
}

impl Refusal {
    fn of(error: Error) -> Self {
        Self {
            privilege: error.kind == Kind::Privilege,
            message: error.message,
            hint: error.hint,
        }
    }

    fn error(self) -> Error {
        let kind = if self.privilege { Kind::Privilege } else { Kind::Io };
        let error = Error::new(kind, self.message);
        match self.hint {
            Some(hint) => error.hint(hint),
            None => error,
        }
    }
}

/// The agent's end of a helper's socket.
#[derive(Debug)]
pub struct Helper(OwnedFd);

impl Helper {
    /// Returns the command for a helper that becomes `argv`, and the agent's end of its socket.
    ///
    /// # Errors
    ///
    /// The system has no descriptor left.
    pub fn running(
        network: &Network,
        program: &str,
        argv: &[String],
        server: Option<&Server>,
    ) -> io::Result<(Command, Self)> {
        let task = Task::Run {
            program: program.to_owned(),
            argv: argv.to_vec(),
            server: server.cloned(),
        };
        Self::prepare(network.clone(), task)
    }

    fn prepare(network: Network, task: Task) -> io::Result<(Command, Self)> {
        let (ours, theirs) = socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        let job = Job {
            network,
            report: theirs.as_raw_fd(),
            task,
        };
        let mut command = Command::new("/proc/self/exe");
        command.arg(NAME).arg(serde_json::to_string(&job)?);
        sys::hand_down(&mut command, theirs);
        Ok((command, Self(ours)))
    }

    /// Returns what a helper reported that has become its command, or has ended: the network's
    /// settings as read back.
    ///
    /// # Errors
    ///
    /// The reason why there is no network, server or command.
    pub fn outcome(&self) -> Result<Value> {
        let mut report = None;
        while let Some((value, _)) = self.receive(RecvFlags::DONTWAIT)? {
            report = Some(value);
        }
        report.ok_or_else(|| Error::new(Kind::Io, "the network's helper ended without a report"))
    }

    /// Receives one report with its descriptors; None if there is none, or no more.
    fn receive(&self, flags: RecvFlags) -> Result<Option<(Value, Vec<OwnedFd>)>> {
        let mut bytes = vec![0; MESSAGE_BYTES];
        let mut space =
            vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2 * MOST_CONNECTIONS as usize + 1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = flags | RecvFlags::CMSG_CLOEXEC;
        let received =
            retry_on_intr(|| recvmsg(&self.0, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags));
        let length = match received {
            Ok(received) => received.bytes,
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::CONNRESET) => 0,
            Err(error) => return Err(Error::io("receive from", "the network's helper", &error.into())),
        };
        if length == 0 {
            return Ok(None);
        }
        let mut descriptors = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(some) = message {
                descriptors.extend(some);
            }
        }
        let unreadable = |error| {
            Error::new(
                Kind::Io,
                format!("cannot parse the report of the network's helper: {error}"),
            )
        };
        match serde_json::from_slice(&bytes[..length]).map_err(unreadable)? {
            Report::Ok(value) => Ok(Some((value, descriptors))),
            Report::Error(refusal) => Err(refusal.error()),
        }
    }
}

/// Connected sockets at the two ends of a network, one pair per connection.
#[derive(Debug)]
pub struct Connected {
    /// The sockets at the client's end.
    pub clients: Vec<TcpStream>,
    /// The other ends, in the same order.
    pub servers: Vec<TcpStream>,
    /// The settings in force, as read back.
    pub identity: Value,
    /// Keeps the wire.
    _wire: Option<OwnedFd>,
}

/// Creates a network and opens connections over it. Returns None if `stopped` became true in the
/// meantime.
///
/// # Errors
///
/// The network cannot be created here, or no connection over it.
pub fn connect(network: &Network, connections: u32, stopped: impl Fn() -> bool) -> Result<Option<Connected>> {
    let failed = |error: io::Error| Error::io("start", "the network's helper", &error);
    let (mut command, helper) =
        Helper::prepare(network.clone(), Task::Connect(connections)).map_err(failed)?;
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let mut process = command.spawn().map_err(failed)?;
    // Closes our copy of the helper's end, so that we notice when the helper closes its own.
    drop(command);
    let said = match wait_for(&helper, &stopped) {
        Ok(true) => helper.receive(RecvFlags::empty()),
        Ok(false) => Ok(None),
        Err(error) => Err(error),
    };
    end(&mut process).map_err(failed)?;
    let Some((identity, descriptors)) = said? else {
        let silent = Error::new(Kind::Io, "the network's helper ended without a report");
        return if stopped() { Ok(None) } else { Err(silent) };
    };
    let mut sockets = descriptors.into_iter();
    let mut take = || {
        sockets
            .by_ref()
            .take(connections as usize)
            .map(TcpStream::from)
            .collect::<Vec<_>>()
    };
    let (clients, servers) = (take(), take());
    Ok(Some(Connected {
        clients,
        servers,
        identity,
        _wire: sockets.next(),
    }))
}

/// Waits for a report; returns false if `stopped` became true first.
fn wait_for(helper: &Helper, stopped: &impl Fn() -> bool) -> Result<bool> {
    let slice = Timespec {
        tv_sec: 0,
        tv_nsec: 50_000_000,
    };
    while !stopped() {
        let mut source = [PollFd::new(&helper.0, PollFlags::IN)];
        match poll(&mut source, Some(&slice)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => return Ok(true),
            Err(error) => return Err(Error::io("wait for", "the network's helper", &error.into())),
        }
    }
    Ok(false)
}

/// Kills a helper that has reported everything.
fn end(process: &mut Child) -> io::Result<()> {
    process.kill()?;
    process.wait()?;
    Ok(())
}

/// The main function of the helper: does the job of its argument. Returns only if the helper did
/// not become another program.
///
/// # Errors
///
/// The argument is not a job, or nobody reads the report.
pub fn from_argument(job: &str) -> Result<()> {
    let job: Job = serde_json::from_str(job).map_err(|error| {
        Error::new(
            Kind::BadRequest,
            format!("the agent must start this command: {error}"),
        )
    })?;
    let report =
        sys::handed_down(job.report).map_err(|error| Error::io("open descriptor", job.report, &error))?;
    if let Err(error) = carry_out(&job, report.as_fd()) {
        tell(report.as_fd(), &Report::Error(Refusal::of(error)), &[])?;
    }
    Ok(())
}

fn carry_out(job: &Job, report: BorrowedFd) -> Result<()> {
    let mut made = make(&job.network)?;
    let congestion = job.network.congestion.as_deref();
    match &job.task {
        Task::Connect(count) => {
            let (clients, servers) = connections(&made, *count)?;
            let name = congestion_of(&clients, &servers, congestion)?;
            made.identify_congestion(&name);
            let sockets = clients.iter().chain(&servers).map(AsFd::as_fd);
            let wire = made.wire.iter().map(|wire| wire.namespace.as_fd());
            let all: Vec<BorrowedFd> = sockets.chain(wire).collect();
            tell(report, &Report::Ok(made.identity.clone()), &all)
        }
        Task::Run {
            program,
            argv,
            server,
        } => {
            made.set_congestion(congestion)?;
            if let Some(server) = server {
                made.server.enter()?;
                start(server)?;
            }
            made.client.enter()?;
            // The command keeps the wire and the other end.
            for place in made.wire.iter().chain([&made.server]) {
                fcntl_setfd(&place.namespace, FdFlags::empty())
                    .map_err(|error| Error::io("keep", "a network namespace", &error.into()))?;
            }
            tell(report, &Report::Ok(made.identity.clone()), &[])?;
            let error = Command::new(program).arg0(&argv[0]).args(&argv[1..]).exec();
            Err(Error::io("start", &argv[0], &error))
        }
    }
}

/// Opens this many connections between the two ends.
fn connections(made: &Made, count: u32) -> Result<(Vec<TcpStream>, Vec<TcpStream>)> {
    let failed = |error: io::Error| Error::io("connect to", SERVER, &error);
    made.server.enter()?;
    let listener = TcpListener::bind((SERVER, PORT)).map_err(failed)?;
    made.client.enter()?;
    let (mut clients, mut servers) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let address = SocketAddr::from((SERVER, PORT));
        clients.push(TcpStream::connect_timeout(&address, PATIENCE).map_err(failed)?);
        servers.push(listener.accept().map_err(failed)?.0);
    }
    Ok((clients, servers))
}

/// Sets the congestion control of all sockets, if one is given, and returns the one that they have.
fn congestion_of(clients: &[TcpStream], servers: &[TcpStream], wanted: Option<&str>) -> Result<String> {
    let mut found = None;
    for socket in clients.iter().chain(servers) {
        if let Some(name) = wanted {
            set_tcp_congestion(socket, name)
                .map_err(|error| no_congestion(&Root::new("/"), name, &error.into()))?;
        }
        let has = tcp_congestion(socket)
            .map_err(|error| Error::io("query", "the congestion control of a connection", &error.into()))?;
        if *found.get_or_insert_with(|| has.clone()) != has {
            return Err(Error::new(
                Kind::Io,
                format!("connections differ in their congestion control; one has {has}"),
            ));
        }
    }
    found.ok_or_else(|| Error::new(Kind::BadRequest, "expected at least one connection"))
}

/// Starts a server in the caller's namespace, and waits until it listens.
fn start(server: &Server) -> Result<()> {
    let program = &server.argv[0];
    let mut command = Command::new(program);
    command
        .args(&server.argv[1..])
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    sys::end_with_parent(&mut command);
    let failed = |error: io::Error| Error::io("start the server", program, &error);
    let mut process = command.spawn().map_err(failed)?;
    let root = Root::new("/");
    let end = Instant::now() + PATIENCE;
    while !listens(&root, server.port) {
        if let Some(status) = process.try_wait().map_err(failed)? {
            let message = format!(
                "the server {program} exited ({status}) before it listened on port {}",
                server.port
            );
            return Err(Error::new(Kind::Io, message));
        }
        if Instant::now() > end {
            let seconds = PATIENCE.as_secs();
            let message = format!(
                "the server {program} did not listen on port {} within {seconds} s",
                server.port
            );
            return Err(Error::new(Kind::Io, message));
        }
        sleep(Duration::from_millis(5));
    }
    Ok(())
}

fn tell(report: BorrowedFd, what: &Report, descriptors: &[BorrowedFd]) -> Result<()> {
    let failed = |error: io::Error| Error::io("report to", "the agent", &error);
    let bytes = json!(what).to_string().into_bytes();
    let mut space =
        vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2 * MOST_CONNECTIONS as usize + 1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    let sent = retry_on_intr(|| sendmsg(report, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL));
    sent.map(|_| ()).map_err(|error| failed(error.into()))
}
