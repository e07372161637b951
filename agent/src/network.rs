// SPDX-License-Identifier: Apache-2.0
//! A network of its own: two namespaces with a link between them that may delay, lose and slow down.
//!
//! Without any of these the two ends are one pair of devices. With them a third namespace lies between, the wire: it
//! forwards, and its two devices have netem. So the ends' own queue disciplines are free, and what the wire holds back
//! counts for neither end as unsent. Namespaces have no name; they vanish with the last process or socket in them.

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
/// Numbers of the devices: the only one of an end, and those of the wire.
const OWN: u32 = 7;
const OWN_END: End = End {
    name: "ktrial",
    index: OWN,
};
const TO_CLIENT: u32 = 7;
const TO_SERVER: u32 = 8;
const CONGESTION: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
/// How long a device may take to run, a connection to be made, a server to listen.
const PATIENCE: Duration = Duration::from_secs(30);
const NOTHING_EMULATED: &str = "or leave delay_us, loss_ppm and rate_bytes_per_s at 0";

/// What lies between the two ends.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Network {
    /// Congestion control of both ends; the machine's when missing.
    pub congestion: Option<String>,
    /// Queue discipline of both ends' devices; what the kernel gives them when missing.
    pub qdisc: Option<String>,
    /// Added to each round trip.
    pub delay_us: u32,
    /// Packets of a million that are lost, in either direction.
    pub loss_ppm: u32,
    /// Bytes that pass per second, in either direction; 0: no limit.
    pub rate_bytes_per_s: u64,
    /// Packets that the wire holds, in either direction.
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
    /// A field is outside.
    pub fn check(&self) -> Result<()> {
        let refuse = |message: String| Err(Error::new(Kind::BadRequest, message));
        for (field, name) in [("congestion", &self.congestion), ("qdisc", &self.qdisc)] {
            let good = |name: &String| {
                let plain =
                    |letter: u8| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == b'_';
                (1..=15).contains(&name.len()) && name.bytes().all(plain)
            };
            if let Some(name) = name.as_ref().filter(|name| !good(name)) {
                return refuse(format!("`{field}` is {name:?}: give the kernel's name of one"));
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
                return refuse(format!("`{field}` is {value}: give {least} to {most}"));
            }
        }
        if (1..1000).contains(&self.rate_bytes_per_s) {
            return refuse("`rate_bytes_per_s` is below 1000: give 0 for no limit".to_owned());
        }
        Ok(())
    }

    /// Whether there is a wire that does something to packets.
    fn has_wire(&self) -> bool {
        self.delay_us > 0 || self.loss_ppm > 0 || self.rate_bytes_per_s > 0
    }
}

/// The network as it was made.
#[derive(Debug)]
struct Made {
    client: Place,
    server: Place,
    /// To be kept as long as the network is needed: nothing else holds the wire.
    wire: Option<Place>,
    /// What is in force, as read back.
    identity: Value,
}

/// Makes the network. The calling thread is the only one of its process, and is left at the server's end.
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

/// Puts a wire between the two ends.
fn join_by_wire(network: &Network, client: &mut Place, server: &mut Place) -> Result<Place> {
    const FORWARD: &str = "/proc/sys/net/ipv4/ip_forward";
    namespace::enter_next()?;
    let mut wire = Place::here()?;
    let ends = [
        ("client", TO_CLIENT, WIRE_TO_CLIENT, CLIENT, client),
        ("server", TO_SERVER, WIRE_TO_SERVER, SERVER, server),
    ];
    for (name, index, at_wire, at_end, end) in ends {
        // As on a real wire, a packet that is lost is one segment.
        pair(&mut wire, End { name, index }, end, OWN_END, Some(1))?;
        address(&mut wire, index, at_wire, at_end)?;
        address(end, OWN, at_end, at_wire)?;
        let routed = end.netlink.add_default_route(OWN, at_wire);
        routed.map_err(|error| Error::io("cannot route to", at_wire, &error))?;
        set_qdisc(
            &mut wire,
            index,
            qdisc::NETEM,
            Some(&qdisc::netem_options(network)),
        )?;
    }
    std::fs::write(Root::new("/").path(FORWARD), "1").map_err(|error| {
        Error::io("cannot write", FORWARD, &error).hint(format!(
            "run it where that file can be written, {NOTHING_EMULATED}"
        ))
    })?;
    Ok(wire)
}

/// Makes a pair of devices.
fn pair(here: &mut Place, own: End, there: &Place, other: End, most_segments: Option<u32>) -> Result<()> {
    let made = here
        .netlink
        .make_pair(own, other, there.namespace.as_fd(), most_segments);
    made.map_err(|error| {
        let refused = Error::io("cannot make", "a pair of network devices (veth)", &error);
        match error.raw_os_error() {
            Some(libc::EOPNOTSUPP) => {
                refused.hint("the kernel needs veth: as root, `modprobe veth` (CONFIG_VETH)")
            }
            Some(libc::EPERM) => refused.hint(namespace::HINT),
            _ => refused,
        }
    })
}

/// Gives a device its address and switches it on; the loopback device too.
fn address(place: &mut Place, index: u32, own: Ipv4Addr, peer: Ipv4Addr) -> Result<()> {
    let netlink = &mut place.netlink;
    netlink
        .up(netlink::LOOPBACK)
        .and_then(|()| netlink.add_address(index, own, peer))
        .and_then(|()| netlink.up(index))
        .map_err(|error| Error::io("cannot switch on the device of", own, &error))
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
                    format!("the network's devices do not run after {seconds} s"),
                ));
            }
            Err(error) => return Err(Error::io("cannot ask for device", index, &error)),
        }
    }
}

fn set_qdisc(place: &mut Place, index: u32, kind: &str, options: Option<&[u8]>) -> Result<()> {
    let Err(error) = place.netlink.set_qdisc(index, kind, options) else {
        return Ok(());
    };
    if error.raw_os_error() != Some(libc::ENOENT) {
        return Err(Error::io("cannot set the queue discipline", kind, &error));
    }
    let other = if kind == qdisc::NETEM {
        NOTHING_EMULATED
    } else {
        "or ask for another one"
    };
    let message = format!("this kernel has no queue discipline {kind} (module sch_{kind})");
    let option = format!("CONFIG_NET_SCH_{}", kind.to_uppercase());
    let hint = format!("as root, `modprobe sch_{kind}` (the kernel needs {option}), {other}");
    Err(Error::new(Kind::Io, message).hint(hint))
}

fn read_qdisc(place: &mut Place, index: u32) -> Result<Value> {
    let raw = place.netlink.qdisc(index);
    raw.map(|raw| qdisc::described(&raw))
        .map_err(|error| Error::io("cannot read the queue discipline of device", index, &error))
}

impl Made {
    /// Makes a congestion control the default of both ends. The caller is left at the client's end.
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
        let found = found.map_err(|error| Error::io("cannot read", CONGESTION, &error))?;
        self.identify_congestion(&found);
        Ok(())
    }

    /// Puts the congestion control that is in force into the identity.
    fn identify_congestion(&mut self, name: &str) {
        self.identity["congestion_version"] = version(&Root::new("/"), name);
        self.identity["congestion"] = json!(name);
    }
}

/// Why a congestion control cannot be had.
fn no_congestion(root: &Root, name: &str, error: &io::Error) -> Error {
    const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    let refused = Error::io("cannot set the congestion control", name, error);
    match error.raw_os_error() {
        Some(libc::ENOENT) => {
            let available = root.read_text(AVAILABLE).unwrap_or_default();
            let message = format!("the congestion control {name} is not available; there are: {available}");
            Error::new(Kind::Io, message).hint(format!("as root, `modprobe tcp_{name}`"))
        }
        Some(libc::EPERM) => {
            refused.hint("the kernel keeps it for root: add it to net.ipv4.tcp_allowed_congestion_control")
        }
        _ => refused,
    }
}

/// What the module of a congestion control says of itself; null where it says nothing (mostly: part of the kernel).
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
