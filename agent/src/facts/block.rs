// SPDX-License-Identifier: Apache-2.0
//! Disks, without partitions.

use serde::Serialize;

use super::probe::{choice, count, list, resolve, switch, text, Probe};
use super::{Machine, Sink};
use crate::root::Root;

pub(super) fn collect(machine: &Machine, sink: &mut Sink) {
    sink.add("block.devices", || devices(machine.root));
}

/// A block device that is not a partition.
#[derive(Debug, Serialize)]
struct Device {
    name: String,
    model: Option<String>,
    transport: Option<&'static str>,
    rotational: Option<bool>,
    size_bytes: Option<u64>,
    hardware_queues: Option<usize>,
    scheduler: Option<String>,
    schedulers: Option<Vec<String>>,
    removable: Option<bool>,
    r#virtual: Option<bool>,
}

fn devices(root: &Root) -> Probe<Vec<Device>> {
    Ok(list(root, "/sys/block")?
        .into_iter()
        .map(|name| device(root, name))
        .collect())
}

fn device(root: &Root, name: String) -> Device {
    let folder = format!("/sys/block/{name}");
    let way = resolve(root, &folder).ok();
    let transport = way.as_deref().and_then(transport);
    let (scheduler, schedulers) = choice(root, &format!("{folder}/queue/scheduler")).ok().unzip();
    Device {
        model: text(root, &format!("{folder}/device/model")).ok(),
        transport,
        rotational: switch(root, &format!("{folder}/queue/rotational")).ok(),
        // The kernel counts in units of 512 bytes, whatever the device's sector size.
        size_bytes: count(root, &format!("{folder}/size"))
            .ok()
            .and_then(|sectors| sectors.checked_mul(512)),
        hardware_queues: list(root, &format!("{folder}/mq"))
            .ok()
            .map(|queues| queues.len()),
        scheduler,
        schedulers,
        removable: switch(root, &format!("{folder}/removable")).ok(),
        r#virtual: way.is_some().then_some(transport == Some("virtual")),
        name,
    }
}

/// Returns the bus of a device, from the components of its resolved sysfs path. The disk's type is
/// that of the bus nearest to the CPU: a disk behind a USB bridge is `usb`, a SCSI disk of
/// virtio-scsi is `virtio`.
fn transport(way: &[String]) -> Option<&'static str> {
    let any = |prefix: &str| {
        way.iter().any(|part| {
            let digits = part.strip_prefix(prefix);
            digits.is_some_and(|rest| rest.starts_with(|letter: char| letter.is_ascii_digit()))
        })
    };
    let has = |name: &str| way.iter().any(|part| part == name);
    if has("nvme") || has("nvme-subsystem") || has("nvme-fabrics") {
        Some("nvme")
    } else if has("virtual") {
        Some("virtual")
    } else if any("usb") {
        Some("usb")
    } else if any("virtio") {
        Some("virtio")
    } else if has("mmc_host") {
        Some("mmc")
    } else if any("ata") {
        Some("sata")
    } else if any("host") {
        Some("scsi")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_tells_the_transport() {
        let of = |path: &str| transport(&path.split('/').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(
            of("sys/devices/pci0000:00/0000:00:1d.0/0000:01:00.0/nvme/nvme0/nvme0n1"),
            Some("nvme")
        );
        assert_eq!(
            of("sys/devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1"),
            Some("nvme")
        );
        assert_eq!(
            of("sys/devices/pci0000:00/0000:00:17.0/ata3/host2/target2:0:0/2:0:0:0/block/sda"),
            Some("sata")
        );
        let usb = "sys/devices/pci0000:00/0000:00:14.0/usb2/2-1/2-1:1.0/host4/target4:0:0/4:0:0:0/block/sdb";
        assert_eq!(of(usb), Some("usb"));
        assert_eq!(
            of("sys/devices/pci0000:00/0000:00:02.0/virtio1/block/vda"),
            Some("virtio")
        );
        assert_eq!(
            of("sys/devices/pci0000:00/0000:00:05.0/virtio3/host0/target0:0:0/0:0:0:0/block/sda"),
            Some("virtio")
        );
        assert_eq!(
            of("sys/devices/platform/soc/1d84000.ufshc/host0/target0:0:0/0:0:0:0/block/sda"),
            Some("scsi")
        );
        assert_eq!(
            of("sys/devices/platform/soc/7c4000.sdhci/mmc_host/mmc0/mmc0:0001/block/mmcblk0"),
            Some("mmc")
        );
        assert_eq!(of("sys/devices/virtual/block/loop0"), Some("virtual"));
        assert_eq!(of("sys/devices/vbd-51712/block/xvda"), None);
    }
}
