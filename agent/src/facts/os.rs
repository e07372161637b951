// SPDX-License-Identifier: Apache-2.0
//! Distribution, image-based systems, Android.

use crate::bytes::hexadecimal;
use sha2::{Digest, Sha256};

use super::probe::{absent, assignment, exists, text, unknown, Miss, Probe};
use super::virtualisation::container;
use super::{Machine, Sink};
use crate::root::Root;

const BUILD_PROPERTIES: &str = "/system/build.prop";
const MACHINE_ID: &str = "/etc/machine-id";
/// Hashed together with systemd's machine ID, because the ID itself is confidential.
const HASHED_WITH: &[u8] = b"ktrial machine ";
const KEPT_BYTES: usize = 8;

pub(super) fn collect(machine: &Machine, sink: &mut Sink) {
    let root = machine.root;
    sink.add("os.id", || {
        if is_android(root)? {
            Ok("android".to_owned())
        } else {
            release(root, &["ID"])
        }
    });
    sink.add("os.name", || {
        if is_android(root)? {
            android_name(root)
        } else {
            release(root, &["PRETTY_NAME", "NAME"])
        }
    });
    sink.add("os.version", || {
        if is_android(root)? {
            return property(root, "ro.build.version.release");
        }
        release(root, &["VERSION_ID", "BUILD_ID"])
    });
    sink.add("os.android", || is_android(root));
    sink.add("os.ostree", || exists(root, "/run/ostree-booted"));
    sink.add("os.bootc", || exists(root, "/usr/bin/bootc"));
    sink.add("os.rpm_ostree", || exists(root, "/usr/bin/rpm-ostree"));
    sink.add("os.machine", || machine_hash(machine));
}

/// Returns a hash that identifies this installation without revealing its machine ID.
fn machine_hash(machine: &Machine) -> Probe<String> {
    let number = text(machine.root, MACHINE_ID)?;
    if container(machine)? != "none" {
        return unknown(format!("{MACHINE_ID} is that of a container"));
    }
    let number = number.trim();
    if number.len() != 32 || !number.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return unknown(format!("{MACHINE_ID} has no machine ID yet"));
    }
    let digest = Sha256::new()
        .chain_update(HASHED_WITH)
        .chain_update(number.to_ascii_lowercase())
        .finalize();
    Ok(hexadecimal(&digest[..KEPT_BYTES]))
}

/// Whether this is Android.
pub(super) fn is_android(root: &Root) -> Probe<bool> {
    exists(root, BUILD_PROPERTIES)
}

/// Returns the value of the first key that os-release has.
fn release(root: &Root, keys: &[&str]) -> Probe<String> {
    let text = match text(root, "/etc/os-release") {
        Err(Miss::Absent(_)) => text(root, "/usr/lib/os-release")?,
        found => found?,
    };
    match keys.iter().find_map(|key| assignment(&text, key)) {
        Some(value) => Ok(value),
        None if text.contains('=') => absent(format!("os-release has no {}", keys.join(" and no "))),
        None => unknown("os-release is not a list of assignments"),
    }
}

fn property(root: &Root, key: &str) -> Probe<String> {
    let text = text(root, BUILD_PROPERTIES)?;
    assignment(&text, key).map_or_else(|| unknown(format!("{BUILD_PROPERTIES} has no {key}")), Ok)
}

fn android_name(root: &Root) -> Probe<String> {
    property(root, "ro.build.display.id")
        .or_else(|_| Ok(format!("Android {}", property(root, "ro.build.version.release")?)))
}
