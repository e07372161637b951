// SPDX-License-Identifier: Apache-2.0
//! Mounted file systems on disks, and the devices below them.

use serde::Serialize;

use super::mounts::Mount;
use super::probe::{link_name, list, resolve, seen, text};
use super::{Machine, Sink};
use crate::root::Root;

/// Stacks have only a few layers; this ends a loop in a damaged tree.
const MOST_LAYERS: usize = 32;

/// File systems over several devices, whose mounts have an anonymous device number.
const POOLED: [&str; 4] = ["btrfs", "zfs", "bcachefs", "ubifs"];

/// Read-only images: on a device, but not the content of a disk.
const IMAGES: [&str; 4] = ["squashfs", "erofs", "iso9660", "cramfs"];

pub(super) fn collect(machine: &Machine, sink: &mut Sink) {
    sink.add("filesystems", || {
        let mounts = machine.mounts()?;
        let wanted = mounts.iter().filter(|mount| is_wanted(machine.root, mount));
        Ok(wanted
            .map(|mount| describe(machine.root, mount))
            .collect::<Vec<_>>())
    });
}

/// A mounted file system. Sizes are in bytes, from statvfs.
#[derive(Debug, Serialize)]
struct FileSystem {
    mount: String,
    source: String,
    kind: String,
    options: Vec<String>,
    size_bytes: Option<u64>,
    used_bytes: Option<u64>,
    stack: Vec<Layer>,
}

/// A block device below a file system, topmost first.
#[derive(Debug, PartialEq, Serialize)]
struct Layer {
    name: String,
    kind: &'static str,
}

/// Selects mounts of disks, and the root. Single files mounted into a container are left out.
fn is_wanted(root: &Root, mount: &Mount) -> bool {
    if mount.point == "/" {
        return true;
    }
    let on_disk = !mount.device.starts_with("0:") || POOLED.contains(&mount.kind.as_str());
    on_disk && !IMAGES.contains(&mount.kind.as_str()) && !root.path(&mount.point).is_file()
}

fn describe(root: &Root, mount: &Mount) -> FileSystem {
    let (size_bytes, used_bytes) = usage(root, mount).unzip();
    FileSystem {
        mount: mount.point.clone(),
        source: mount.source.clone(),
        kind: mount.kind.clone(),
        options: mount.options.clone(),
        size_bytes,
        used_bytes,
        stack: stack(root, mount),
    }
}

/// Returns size and use of a file system, on the real machine only. File systems served by a
/// process (FUSE) are skipped, because that may hang.
fn usage(root: &Root, mount: &Mount) -> Option<(u64, u64)> {
    if !root.is_real() || mount.kind.starts_with("fuse") {
        return None;
    }
    let stat = rustix::fs::statvfs(root.path(&mount.point)).ok()?;
    let used = stat.f_blocks.checked_sub(stat.f_bfree)?;
    Some((
        stat.f_blocks.checked_mul(stat.f_frsize)?,
        used.checked_mul(stat.f_frsize)?,
    ))
}

fn stack(root: &Root, mount: &Mount) -> Vec<Layer> {
    let mut layers = Vec::new();
    let mut pending: Vec<String> = device_name(root, mount).into_iter().collect();
    while let Some(name) = pending.pop() {
        if layers.len() == MOST_LAYERS || layers.iter().any(|layer: &Layer| layer.name == name) {
            continue;
        }
        pending.extend(below(root, &name));
        layers.push(Layer {
            kind: kind(root, &name),
            name,
        });
    }
    layers
}

/// Returns the block device of a file system.
fn device_name(root: &Root, mount: &Mount) -> Option<String> {
    if !mount.device.starts_with("0:") {
        if let Ok(name) = link_name(root, &format!("/sys/dev/block/{}", mount.device)) {
            return Some(name);
        }
    }
    let name = mount.source.strip_prefix("/dev/")?;
    let is_block = |name: &String| seen(root, &format!("/sys/class/block/{name}"));
    // `/dev/mapper/name` is a link to `../dm-0`.
    let linked = link_name(root, &mount.source).ok();
    linked
        .filter(is_block)
        .or_else(|| Some(name.to_owned()).filter(is_block))
}

/// Returns the devices below a device: its slaves, or the disk of a partition.
fn below(root: &Root, name: &str) -> Vec<String> {
    let folder = format!("/sys/class/block/{name}");
    if seen(root, &format!("{folder}/partition")) {
        let way = resolve(root, &folder).unwrap_or_default();
        let disk = way.len().checked_sub(2).and_then(|at| way.get(at));
        return disk.cloned().into_iter().collect();
    }
    let mut slaves = list(root, &format!("{folder}/slaves")).unwrap_or_default();
    slaves.reverse();
    slaves
}

fn kind(root: &Root, name: &str) -> &'static str {
    let folder = format!("/sys/class/block/{name}");
    if seen(root, &format!("{folder}/partition")) {
        return "partition";
    }
    if let Ok(uuid) = text(root, &format!("{folder}/dm/uuid")) {
        return match uuid.split('-').next() {
            Some("CRYPT") => "luks",
            Some("LVM") => "lvm",
            Some("mpath") => "multipath",
            _ => "device-mapper",
        };
    }
    if seen(root, &format!("{folder}/md")) {
        return "raid";
    }
    if seen(root, &format!("{folder}/loop")) {
        return "loop";
    }
    "disk"
}
