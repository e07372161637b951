// SPDX-License-Identifier: Apache-2.0
//! Graphics cards and network interfaces.

use serde::Serialize;

use super::probe::{link_name, list, number, seen, text, Probe};
use super::{Machine, Sink};
use crate::root::Root;

pub(super) fn collect(machine: &Machine, sink: &mut Sink) {
    sink.add("gpu.cards", || cards(machine.root));
    sink.add("net.interfaces", || interfaces(machine.root));
}

/// A graphics card; `name` is the kernel's, such as `card0`.
#[derive(Debug, Serialize)]
struct Card {
    name: String,
    vendor: Option<String>,
    driver: Option<String>,
}

fn cards(root: &Root) -> Probe<Vec<Card>> {
    let names = list(root, "/sys/class/drm")?.into_iter().filter(|name| {
        let number = name.strip_prefix("card");
        number.is_some_and(|number| number.parse::<u32>().is_ok())
    });
    Ok(names
        .map(|name| {
            let device = format!("/sys/class/drm/{name}/device");
            Card {
                vendor: text(root, &format!("{device}/vendor")).ok().map(|id| vendor(&id)),
                driver: link_name(root, &format!("{device}/driver")).ok(),
                name,
            }
        })
        .collect())
}

/// Returns the name of a PCI vendor ID, or the ID itself if it is not a common one.
fn vendor(id: &str) -> String {
    let name = match id {
        "0x1002" | "0x1022" => "AMD",
        "0x10de" => "NVIDIA",
        "0x8086" => "Intel",
        "0x1af4" => "virtio",
        "0x15ad" => "VMware",
        "0x80ee" => "VirtualBox",
        "0x1234" => "QEMU",
        "0x1a03" => "ASPEED",
        "0x102b" => "Matrox",
        other => other,
    };
    name.to_owned()
}

/// A network interface.
#[derive(Debug, Serialize)]
struct Interface {
    name: String,
    driver: Option<String>,
    speed_mbit: Option<i64>,
    receive_queues: Option<usize>,
    transmit_queues: Option<usize>,
    wireless: bool,
}

fn interfaces(root: &Root) -> Probe<Vec<Interface>> {
    let names = list(root, "/sys/class/net")?.into_iter();
    // `bonding_masters` is a file among the folders.
    let names = names.filter(|name| seen(root, &format!("/sys/class/net/{name}/ifindex")));
    Ok(names
        .map(|name| {
            let folder = format!("/sys/class/net/{name}");
            let queues = list(root, &format!("{folder}/queues")).ok();
            let of = |prefix: &str| {
                queues
                    .as_ref()
                    .map(|names| names.iter().filter(|name| name.starts_with(prefix)).count())
            };
            Interface {
                driver: link_name(root, &format!("{folder}/device/driver")).ok(),
                // For an interface that is down or has no speed, the kernel returns EINVAL or -1.
                speed_mbit: number(root, &format!("{folder}/speed"))
                    .ok()
                    .filter(|speed| *speed > 0),
                receive_queues: of("rx-"),
                transmit_queues: of("tx-"),
                wireless: ["wireless", "phy80211"]
                    .iter()
                    .any(|file| seen(root, &format!("{folder}/{file}"))),
                name,
            }
        })
        .collect())
}
