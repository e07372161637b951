// SPDX-License-Identifier: Apache-2.0
//! A private network: two namespaces joined by a link that can add delay, loss and a rate limit.
//!
//! Without these the two ends are one pair of devices. With them, a third namespace between the
//! ends is the wire: it forwards packets, and its two devices use netem. This leaves the ends' own
//! queue disciplines free, and packets that the wire holds don't count as unsent at either end. The
//! namespaces are unnamed and vanish with the last process or socket in them.

mod helper;
mod listening;
mod namespace;
mod netlink;
mod qdisc;
mod settings;

pub use helper::{connect, from_argument, Connected, Helper, Server, MOST_CONNECTIONS};

use crate::error::{Error, Kind, Result};
use crate::root::Root;
use namespace::Place;
use netlink::End;
use serde::{Deserialize, Serialize};
use serde_json::{json, Value};
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::thread::sleep;
use std::time::{Duration, Instant};

const CLIENT: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
/// Address of the server's end.
pub const SERVER: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);
const WIRE_TO_CLIENT: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 254);
const WIRE_TO_SERVER: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 254);
/// Interface numbers: the only device of an end, and the two of the wire.
const OWN: u32 = 7;
const OWN_END: End = End {
    name: "ktrial",
    index: OWN,
};
const TO_CLIENT: u32 = 7;
const TO_SERVER: u32 = 8;
const CONGESTION: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
/// How long a device may take to come up, a connection to open, or a server to listen.
const PATIENCE: Duration = Duration::from_secs(30);
const NOTHING_EMULATED: &str = "or set delay_us, loss_ppm and rate_bytes_per_s to 0";

/// The network between the two ends.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Network {
    /// Congestion control of both ends [default: the machine's].
    pub congestion: Option<String>,
    /// Queue discipline of both ends' devices [default: the kernel's].
    pub qdisc: Option<String>,
    /// Delay added to each round trip.
    pub delay_us: u32,
    /// Packets per million that are lost, in each direction.
    pub loss_ppm: u32,
    /// Bytes per second, in each direction; 0 for no limit.
    pub rate_bytes_per_s: u64,
    /// Packets that the wire can hold, in each direction.
    pub limit_packets: u32,
}

impl Default for Network {
    fn default() -> Self {
        Self {
            congestion: None,
            qdisc: None,
            delay_us: 0,
            loss_ppm: 0,
            rate_bytes_per_s: 0,
            limit_packets: 1000,
        }
    }
}

impl Network {
    /// Checks each field against its limits.
    ///
    /// # Errors
    ///
    /// A field is out of range.
    pub fn check(&self) -> Result<()> {
        let refuse = |message: String| Err(Error::new(Kind::BadRequest, message));
        for (field, name) in [("congestion", &self.congestion), ("qdisc", &self.qdisc)] {
            let good = |name: &String| {
                let plain =
                    |letter: u8| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == b'_';
                (1..=15).contains(&name.len()) && name.bytes().all(plain)
            };
            if let Some(name) = name.as_ref().filter(|name| !good(name)) {
                return refuse(format!(
                    "{field}: expected a name that the kernel knows, got {name:?}"
                ));
            }
        }
        let ranges = [
            ("delay_us", u64::from(self.delay_us), 0, 10_000_000),
            ("loss_ppm", u64::from(self.loss_ppm), 0, 500_000),
            ("limit_packets", u64::from(self.limit_packets), 1, 10_000_000),
            ("rate_bytes_per_s", self.rate_bytes_per_s, 0, 125_000_000_000),
        ];
        for (field, value, least, most) in ranges {
            if !(least..=most).contains(&value) {
                return refuse(format!("{field}: expected {least} to {most}, got {value}"));
            }
        }
        if (1..1000).contains(&self.rate_bytes_per_s) {
            return refuse("rate_bytes_per_s: expected at least 1000, or 0 for no limit".to_owned());
        }
        Ok(())
    }

    /// Whether the network has a wire that changes how packets pass.
    fn has_wire(&self) -> bool {
        self.delay_us > 0 || self.loss_ppm > 0 || self.rate_bytes_per_s > 0
    }
}

/// A network that has been created.
#[derive(Debug)]
struct Made {
    client: Place,
    server: Place,
    /// Must be kept while the network is in use: nothing else holds the wire.
    wire: Option<Place>,
    /// The settings in force, as read back.
    identity: Value,
}

/// Creates the network. The calling thread must be the only one of its process; it ends up at the
/// server's end.
fn make(network: &Network) -> Result<Made> {
    let root = Root::new("/");
    let carried = settings::of_machine(&root);
    namespace::enter_first()?;
    let mut client = Place::here()?;
    namespace::enter_next()?;
    let mut server = Place::here()?;
    let mut wire = None;
    if network.has_wire() {
        wire = Some(join_by_wire(network, &mut client, &mut server)?);
    } else {
        pair(&mut server, OWN_END, &client, OWN_END, None)?;
        address(&mut client, OWN, CLIENT, SERVER)?;
        address(&mut server, OWN, SERVER, CLIENT)?;
    }
    wait_until_running(&mut client, OWN)?;
    wait_until_running(&mut server, OWN)?;
    if let Some(wire) = &mut wire {
        wait_until_running(wire, TO_CLIENT)?;
        wait_until_running(wire, TO_SERVER)?;
    }
    let mut not_carried = Vec::new();
    for place in [&mut client, &mut server] {
        place.enter()?;
        not_carried = settings::carry(&root, &carried);
        if let Some(kind) = &network.qdisc {
            set_qdisc(place, OWN, kind, None)?;
        }
    }
    let mut identity = json!({
        "kernel": root.read_text("/proc/sys/kernel/osrelease").ok(),
        "congestion": null,
        "congestion_version": null,
        "client_qdisc": read_qdisc(&mut client, OWN)?,
        "server_qdisc": read_qdisc(&mut server, OWN)?,
        "wire": null,
        "settings_not_carried": not_carried,
    });
    if let Some(wire) = &mut wire {
        let (to_client, to_server) = (read_qdisc(wire, TO_CLIENT)?, read_qdisc(wire, TO_SERVER)?);
        identity["wire"] = json!({"to_client": to_client, "to_server": to_server});
    }
    Ok(Made {
        client,
        server,
        wire,
        identity,
    })
}

/// Creates the wire between the two ends.
fn join_by_wire(network: &Network, client: &mut Place, server: &mut Place) -> Result<Place> {
    const FORWARD: &str = "/proc/sys/net/ipv4/ip_forward";
    namespace::enter_next()?;
    let mut wire = Place::here()?;
    let ends = [
        ("client", TO_CLIENT, WIRE_TO_CLIENT, CLIENT, client),
        ("server", TO_SERVER, WIRE_TO_SERVER, SERVER, server),
    ];
    for (name, index, at_wire, at_end, end) in ends {
        // As on a real wire, a lost packet is one segment.
        pair(&mut wire, End { name, index }, end, OWN_END, Some(1))?;
        address(&mut wire, index, at_wire, at_end)?;
        address(end, OWN, at_end, at_wire)?;
        let routed = end.netlink.add_default_route(OWN, at_wire);
        routed.map_err(|error| Error::io("add a route to", at_wire, &error))?;
        set_qdisc(
            &mut wire,
            index,
            qdisc::NETEM,
            Some(&qdisc::netem_options(network)),
        )?;
    }
    std::fs::write(Root::new("/").path(FORWARD), "1").map_err(|error| {
        Error::io("write", FORWARD, &error).hint(format!(
            "run ktrial where that file is writable, {NOTHING_EMULATED}"
        ))
    })?;
    Ok(wire)
}

/// Creates a pair of devices.
fn pair(here: &mut Place, own: End, there: &Place, other: End, most_segments: Option<u32>) -> Result<()> {
    let made = here
        .netlink
        .make_pair(own, other, there.namespace.as_fd(), most_segments);
    made.map_err(|error| {
        let refused = Error::io("create", "a pair of network devices (veth)", &error);
        match error.raw_os_error() {
            Some(libc::EOPNOTSUPP) => {
                refused.hint("as root, run `modprobe veth` (kernel option CONFIG_VETH)")
            }
            Some(libc::EPERM) => refused.hint(namespace::HINT),
            _ => refused,
        }
    })
}

/// Gives a device its address and brings it up, with the loopback device.
fn address(place: &mut Place, index: u32, own: Ipv4Addr, peer: Ipv4Addr) -> Result<()> {
    let netlink = &mut place.netlink;
    netlink
        .up(netlink::LOOPBACK)
        .and_then(|()| netlink.add_address(index, own, peer))
        .and_then(|()| netlink.up(index))
        .map_err(|error| Error::io("bring up the device of", own, &error))
}

fn wait_until_running(place: &mut Place, index: u32) -> Result<()> {
    let end = Instant::now() + PATIENCE;
    loop {
        match place.netlink.runs(index) {
            Ok(true) => return Ok(()),
            Ok(false) if Instant::now() < end => sleep(Duration::from_millis(1)),
            Ok(false) => {
                let seconds = PATIENCE.as_secs();
                return Err(Error::new(
                    Kind::Io,
                    format!("the network's devices are still down after {seconds} s"),
                ));
            }
            Err(error) => return Err(Error::io("query device", index, &error)),
        }
    }
}

fn set_qdisc(place: &mut Place, index: u32, kind: &str, options: Option<&[u8]>) -> Result<()> {
    let Err(error) = place.netlink.set_qdisc(index, kind, options) else {
        return Ok(());
    };
    if error.raw_os_error() != Some(libc::ENOENT) {
        return Err(Error::io("set the queue discipline", kind, &error));
    }
    let other = if kind == qdisc::NETEM {
        NOTHING_EMULATED
    } else {
        "or choose another one"
    };
    let message = format!("the kernel lacks the queue discipline {kind} (module sch_{kind})");
    let option = format!("CONFIG_NET_SCH_{}", kind.to_uppercase());
    let hint = format!("as root, run `modprobe sch_{kind}` (kernel option {option}), {other}");
    Err(Error::new(Kind::Io, message).hint(hint))
}

fn read_qdisc(place: &mut Place, index: u32) -> Result<Value> {
    let raw = place.netlink.qdisc(index);
    raw.map(|raw| qdisc::described(&raw))
        .map_err(|error| Error::io("read the queue discipline of device", index, &error))
}

impl Made {
    /// Sets the default congestion control of both ends. The caller ends up at the client's end.
    fn set_congestion(&mut self, name: Option<&str>) -> Result<()> {
        let root = Root::new("/");
        for place in [&self.server, &self.client] {
            place.enter()?;
            if let Some(name) = name {
                std::fs::write(root.path(CONGESTION), name)
                    .map_err(|error| no_congestion(&root, name, &error))?;
            }
        }
        let found = root.read_text(CONGESTION);
        let found = found.map_err(|error| Error::io("read", CONGESTION, &error))?;
        self.identify_congestion(&found);
        Ok(())
    }

    /// Records the congestion control in force.
    fn identify_congestion(&mut self, name: &str) {
        self.identity["congestion_version"] = version(&Root::new("/"), name);
        self.identity["congestion"] = json!(name);
    }
}

/// Explains why a congestion control is not available.
fn no_congestion(root: &Root, name: &str, error: &io::Error) -> Error {
    const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    let refused = Error::io("set the congestion control", name, error);
    match error.raw_os_error() {
        Some(libc::ENOENT) => {
            let available = root.read_text(AVAILABLE).unwrap_or_default();
            let message = format!("the kernel lacks the congestion control {name}; it has {available}");
            Error::new(Kind::Io, message).hint(format!("as root, run `modprobe tcp_{name}`"))
        }
        Some(libc::EPERM) => {
            refused.hint("the kernel reserves it for root; add it to net.ipv4.tcp_allowed_congestion_control")
        }
        _ => refused,
    }
}

/// Returns the version of a congestion control's module; null fields if it has none, as usually
/// when it is built in.
fn version(root: &Root, name: &str) -> Value {
    let said = |file: &str| root.read_text(&format!("/sys/module/tcp_{name}/{file}")).ok();
    json!({"version": said("version"), "srcversion": said("srcversion")})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_limits() {
        Network::default().check().unwrap();
        let cases = [
            (json!({"congestion": "a/b"}), "congestion"),
            (json!({"qdisc": ""}), "qdisc"),
            (json!({"delay_us": 10_000_001}), "delay_us"),
            (json!({"loss_ppm": 500_001}), "loss_ppm"),
            (json!({"limit_packets": 0}), "limit_packets"),
            (json!({"rate_bytes_per_s": 999}), "rate_bytes_per_s"),
        ];
        for (fields, named) in cases {
            let network: Network = serde_json::from_value(fields).unwrap();
            let error = network.check().unwrap_err();
            assert_eq!(error.kind, Kind::BadRequest);
            assert!(error.message.contains(named), "{error}");
        }
    }

    #[test]
    fn a_version_is_what_the_module_says() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        assert_eq!(
            version(&root, "bbr"),
            json!({"version": null, "srcversion": null})
        );
        let module = root.path("/sys/module/tcp_bbr");
        std::fs::create_dir_all(&module).unwrap();
        std::fs::write(module.join("version"), "3\n").unwrap();
        assert_eq!(version(&root, "bbr"), json!({"version": "3", "srcversion": null}));
    }
}
