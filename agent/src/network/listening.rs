// SPDX-License-Identifier: Apache-2.0
//! Whether a program listens on a TCP port, according to the kernel's lists. A trial connection
//! could be mistaken for the client.

use crate::root::Root;

/// Whether a socket in the calling thread's namespace listens on the port.
pub fn listens(root: &Root, port: u16) -> bool {
    ["tcp", "tcp6"].iter().any(|list| {
        // Without IPv6 the second list doesn't exist.
        let text = root
            .read_text(&format!("/proc/thread-self/net/{list}"))
            .unwrap_or_default();
        text.lines().any(|line| is_listening(line, port))
    })
}

/// Parses `0: 00000000:1451 00000000:0000 0A …`: number, own address and port, those of the peer,
/// state.
fn is_listening(line: &str, port: u16) -> bool {
    const LISTEN: &str = "0A";
    let mut words = line.split_whitespace().skip(1);
    let own = words.next().and_then(|address| address.rsplit_once(':'));
    let own_port = own.and_then(|(_, port)| u16::from_str_radix(port, 16).ok());
    own_port == Some(port) && words.nth(1) == Some(LISTEN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_listening_port_is_found_and_a_connected_one_is_not() {
        let root = Root::new("/");
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(listens(&root, port));
        let client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        assert!(!listens(&root, client.local_addr().unwrap().port()));
        drop(listener);
        // Another test may use the same port for a moment.
        let is_free = || {
            std::thread::sleep(std::time::Duration::from_millis(10));
            !listens(&root, port)
        };
        assert!((0..1000).any(|_| is_free()));
        assert!(!is_listening(
            "  sl  local_address rem_address   st tx_queue",
            0x1451
        ));
    }
}
