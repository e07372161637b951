// SPDX-License-Identifier: Apache-2.0
//! Route netlink, as far as links between namespaces need it: devices, addresses, routes, queue
//! disciplines.

use rustix::io::{retry_on_intr, Errno};
use rustix::net::{recv, send, socket_with, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

/// Length of a message header, and the kinds of replies.
const HEADER_BYTES: usize = 16;
const ERROR: u16 = 2;
const DONE: u16 = 3;

const REQUEST: u16 = 0x1;
const ACKNOWLEDGE: u16 = 0x4;
const DUMP: u16 = 0x300;
const CREATE: u16 = 0x400 | 0x200;
const REPLACE: u16 = 0x400 | 0x100;

const NEW_LINK: u16 = libc::RTM_NEWLINK;
const GET_LINK: u16 = libc::RTM_GETLINK;
const NEW_ADDRESS: u16 = libc::RTM_NEWADDR;
const NEW_ROUTE: u16 = libc::RTM_NEWROUTE;
const NEW_QDISC: u16 = libc::RTM_NEWQDISC;
const GET_QDISC: u16 = libc::RTM_GETQDISC;

const LINK_NAME: u16 = 3;
const LINK_INFO: u16 = 18;
const LINK_INFO_KIND: u16 = 1;
const LINK_INFO_DATA: u16 = 2;
const LINK_NAMESPACE: u16 = 28;
const LINK_MOST_SEGMENTS: u16 = 40;
const VETH_PEER: u16 = 1;
const ADDRESS: u16 = 1;
const ADDRESS_LOCAL: u16 = 2;
const ROUTE_GATEWAY: u16 = 5;
const ROUTE_DEVICE: u16 = 4;
const QDISC_KIND: u16 = 1;
const QDISC_OPTIONS: u16 = 2;
/// The parent of a device's own queue discipline.
const QDISC_ROOT: u32 = u32::MAX;
/// The bits of an attribute's kind without its two flags.
const KIND_BITS: u16 = 0x3fff;

const INET: u8 = 2;
/// Interface number of the loopback device in every namespace.
pub const LOOPBACK: u32 = 1;

/// A message under construction.
struct Message(Vec<u8>);

impl Message {
    fn new(kind: u16, flags: u16, body: &[u8]) -> Self {
        let mut bytes = vec![0; 4];
        bytes.extend(kind.to_ne_bytes());
        bytes.extend((REQUEST | flags).to_ne_bytes());
        bytes.extend([0; 8]);
        bytes.extend(body);
        Self(bytes)
    }

    fn attribute(mut self, kind: u16, payload: &[u8]) -> Self {
        self.0.extend(attribute(kind, payload));
        self
    }

    /// Returns the message with its length and sequence number filled in.
    fn numbered(mut self, sequence: u32) -> Vec<u8> {
        let length = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        self.0[..4].copy_from_slice(&length.to_ne_bytes());
        self.0[8..12].copy_from_slice(&sequence.to_ne_bytes());
        self.0
    }
}

/// Encodes an attribute, padded to a multiple of four bytes.
pub fn attribute(kind: u16, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(4 + payload.len()).unwrap_or(u16::MAX);
    let mut bytes = Vec::with_capacity(payload.len() + 8);
    bytes.extend(length.to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(payload);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// Returns the attributes of a payload with their kinds, in order; stops at a truncated one.
pub fn attributes(mut bytes: &[u8]) -> Vec<(u16, &[u8])> {
    let mut found = Vec::new();
    while let Some((length, kind)) = number_at(bytes, 0).zip(number_at(bytes, 2)) {
        let length = usize::from(length);
        let Some(payload) = bytes.get(4..length) else {
            break;
        };
        found.push((kind & KIND_BITS, payload));
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    found
}

fn number_at(bytes: &[u8], at: usize) -> Option<u16> {
    let part = bytes.get(at..at + 2)?;
    Some(u16::from_ne_bytes([part[0], part[1]]))
}

/// Returns the 32-bit number at an offset of a message.
pub fn word_at(bytes: &[u8], at: usize) -> Option<u32> {
    let part = bytes.get(at..at + 4)?;
    Some(u32::from_ne_bytes([part[0], part[1], part[2], part[3]]))
}

fn text(name: &str) -> Vec<u8> {
    [name.as_bytes(), b"\0"].concat()
}

/// Encodes a device's number and the flags to set, as `ip link` and `tc` send them.
fn link_body(index: u32, flags: u32) -> [u8; 16] {
    let mut body = [0; 16];
    body[4..8].copy_from_slice(&index.to_ne_bytes());
    body[8..12].copy_from_slice(&flags.to_ne_bytes());
    body[12..16].copy_from_slice(&flags.to_ne_bytes());
    body
}

fn qdisc_body(index: u32, parent: u32) -> [u8; 20] {
    let mut body = [0; 20];
    body[4..8].copy_from_slice(&index.to_ne_bytes());
    body[12..16].copy_from_slice(&parent.to_ne_bytes());
    body
}

/// One end of a pair of devices.
#[derive(Debug, Clone, Copy)]
pub struct End<'a> {
    /// Name of the device.
    pub name: &'a str,
    /// Interface number in its namespace.
    pub index: u32,
}

/// A queue discipline as the kernel reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawQdisc {
    /// Its kind.
    pub kind: String,
    /// Its options, in the kind's own encoding.
    pub options: Vec<u8>,
}

/// A netlink socket. It belongs to the namespace in which it was opened.
#[derive(Debug)]
pub struct Netlink {
    socket: OwnedFd,
    sequence: u32,
}

impl Netlink {
    /// Opens a socket in the calling thread's namespace.
    pub fn open() -> io::Result<Self> {
        let socket = socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            // Protocol 0 is the one for routes.
            None,
        )?;
        Ok(Self { socket, sequence: 0 })
    }

    /// Creates a pair of devices, one of them in another namespace. Neither builds packets of more
    /// than `most_segments` segments.
    pub fn make_pair(
        &mut self,
        here: End,
        there: End,
        namespace: BorrowedFd,
        most_segments: Option<u32>,
    ) -> io::Result<()> {
        let segments = most_segments.map_or_else(Vec::new, |most| {
            attribute(LINK_MOST_SEGMENTS, &most.to_ne_bytes())
        });
        let namespace = u32::try_from(namespace.as_raw_fd()).unwrap_or(u32::MAX);
        let peer = [
            link_body(there.index, 0).to_vec(),
            attribute(LINK_NAME, &text(there.name)),
            attribute(LINK_NAMESPACE, &namespace.to_ne_bytes()),
            segments.clone(),
        ]
        .concat();
        let info = [
            attribute(LINK_INFO_KIND, b"veth"),
            attribute(LINK_INFO_DATA, &attribute(VETH_PEER, &peer)),
        ]
        .concat();
        let mut message = Message::new(NEW_LINK, CREATE, &link_body(here.index, 0))
            .attribute(LINK_NAME, &text(here.name))
            .attribute(LINK_INFO, &info);
        message.0.extend(segments);
        self.change(message)
    }

    /// Brings a device up.
    pub fn up(&mut self, index: u32) -> io::Result<()> {
        const UP: u32 = 1;
        self.change(Message::new(NEW_LINK, 0, &link_body(index, UP)))
    }

    /// Whether a device that was brought up really sends: the kernel attaches its queue a little
    /// later, and drops packets before that.
    pub fn runs(&mut self, index: u32) -> io::Result<bool> {
        const RUNNING: u32 = 0x40;
        let answers = self.dump(Message::new(GET_LINK, ACKNOWLEDGE, &link_body(index, 0)))?;
        let flags = answers.first().and_then(|body| word_at(body, 8));
        Ok(flags.is_some_and(|flags| flags & RUNNING != 0))
    }

    /// Gives a device its address and that of its peer.
    pub fn add_address(&mut self, index: u32, own: Ipv4Addr, peer: Ipv4Addr) -> io::Result<()> {
        const WHOLE: u8 = 32;
        let mut body = [INET, WHOLE, 0, 0, 0, 0, 0, 0];
        body[4..].copy_from_slice(&index.to_ne_bytes());
        self.change(
            Message::new(NEW_ADDRESS, CREATE, &body)
                .attribute(ADDRESS_LOCAL, &own.octets())
                .attribute(ADDRESS, &peer.octets()),
        )
    }

    /// Adds a default route through `gateway`.
    pub fn add_default_route(&mut self, index: u32, gateway: Ipv4Addr) -> io::Result<()> {
        const TABLE_MAIN: u8 = 254;
        const BY_ADMINISTRATOR: u8 = 4;
        const UNICAST: u8 = 1;
        let body = [
            INET,
            0,
            0,
            0,
            TABLE_MAIN,
            BY_ADMINISTRATOR,
            0,
            UNICAST,
            0,
            0,
            0,
            0,
        ];
        self.change(
            Message::new(NEW_ROUTE, CREATE, &body)
                .attribute(ROUTE_GATEWAY, &gateway.octets())
                .attribute(ROUTE_DEVICE, &index.to_ne_bytes()),
        )
    }

    /// Sets a device's queue discipline.
    pub fn set_qdisc(&mut self, index: u32, kind: &str, options: Option<&[u8]>) -> io::Result<()> {
        let mut message = Message::new(NEW_QDISC, REPLACE, &qdisc_body(index, QDISC_ROOT))
            .attribute(QDISC_KIND, &text(kind));
        if let Some(options) = options {
            message = message.attribute(QDISC_OPTIONS, options);
        }
        self.change(message)
    }

    /// Returns the root queue discipline of a device.
    pub fn qdisc(&mut self, index: u32) -> io::Result<RawQdisc> {
        let answers = self.dump(Message::new(GET_QDISC, DUMP, &qdisc_body(index, 0)))?;
        let own = answers
            .iter()
            .find(|body| word_at(body, 4) == Some(index) && word_at(body, 12) == Some(QDISC_ROOT))
            .ok_or_else(|| io::Error::other("the kernel reports no queue discipline for the device"))?;
        let mut found = RawQdisc {
            kind: String::new(),
            options: Vec::new(),
        };
        for (kind, payload) in attributes(own.get(20..).unwrap_or_default()) {
            match kind {
                QDISC_KIND => {
                    let name = String::from_utf8_lossy(payload);
                    name.trim_end_matches('\0').clone_into(&mut found.kind);
                }
                QDISC_OPTIONS => found.options = payload.to_vec(),
                _ => {}
            }
        }
        Ok(found)
    }

    /// Requests a change and waits for the kernel's acknowledgement.
    fn change(&mut self, mut message: Message) -> io::Result<()> {
        let flags = u16::from_ne_bytes([message.0[6], message.0[7]]) | ACKNOWLEDGE;
        message.0[6..8].copy_from_slice(&flags.to_ne_bytes());
        self.dump(message).map(|_| ())
    }

    /// Sends a request and collects all replies.
    fn dump(&mut self, message: Message) -> io::Result<Vec<Vec<u8>>> {
        self.sequence += 1;
        let bytes = message.numbered(self.sequence);
        retry_on_intr(|| send(&self.socket, &bytes, SendFlags::empty()))?;
        let mut answers = Vec::new();
        let mut buffer = vec![0; 64 << 10];
        loop {
            let (length, _) = retry_on_intr(|| recv(&self.socket, &mut buffer[..], RecvFlags::empty()))?;
            if collect(&buffer[..length], self.sequence, &mut answers)? {
                return Ok(answers);
            }
        }
    }
}

/// Appends the message bodies of one datagram; returns whether it contained the last message.
fn collect(mut bytes: &[u8], sequence: u32, answers: &mut Vec<Vec<u8>>) -> io::Result<bool> {
    while let Some((length, kind)) = word_at(bytes, 0).zip(number_at(bytes, 4)) {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let cut = || io::Error::new(io::ErrorKind::InvalidData, "truncated message from the kernel");
        let body = bytes.get(HEADER_BYTES..length).ok_or_else(cut)?;
        let ours = word_at(bytes, 8) == Some(sequence);
        match kind {
            DONE if ours => return Ok(true),
            ERROR if ours => {
                let code = word_at(body, 0).ok_or_else(cut)?;
                let code = i32::from_ne_bytes(code.to_ne_bytes()).wrapping_neg();
                return match code {
                    0 => Ok(true),
                    code => Err(Errno::from_raw_os_error(code).into()),
                };
            }
            _ if ours => answers.push(body.to_vec()),
            _ => {}
        }
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn attributes_are_read_as_they_are_written() {
        let bytes = [
            attribute(1, b"netem\0"),
            attribute(0x8002, &[1, 2, 3]),
            attribute(3, &[]),
        ]
        .concat();
        assert_eq!(bytes.len(), 12 + 8 + 4);
        let wanted: Vec<(u16, &[u8])> = vec![(1, b"netem\0"), (2, &[1, 2, 3]), (3, &[])];
        assert_eq!(attributes(&bytes), wanted);
    }

    #[test]
    fn the_answer_to_another_request_is_passed_over() {
        let answer = |sequence, code: i32| {
            let mut message = Message::new(ERROR, 0, &code.to_ne_bytes());
            message.0.extend([0; 16]);
            message.numbered(sequence)
        };
        let mut answers = Vec::new();
        assert!(!collect(&answer(6, -2), 7, &mut answers).unwrap());
        assert!(collect(&answer(7, 0), 7, &mut answers).unwrap());
        let refused = collect(&answer(7, -2), 7, &mut answers).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::NotFound);
        assert!(answers.is_empty());
    }

    #[test]
    fn the_loopback_device_has_a_queue_discipline() {
        let found = Netlink::open().unwrap().qdisc(LOOPBACK).unwrap();
        assert!(!found.kind.is_empty(), "{found:?}");
    }

    proptest! {
        #[test]
        fn nothing_that_the_kernel_may_say_breaks_the_reader(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut answers = Vec::new();
            let _ended = collect(&bytes, 1, &mut answers);
            prop_assert!(attributes(&bytes).iter().map(|(_, payload)| payload.len() + 4).sum::<usize>() <= bytes.len());
        }
    }
}
