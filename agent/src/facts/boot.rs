// SPDX-License-Identifier: Apache-2.0
//! Boot loader, boot ID, time since boot.

use super::probe::{absent, exists, garbage, seen, text, unknown, Probe};
use super::{os, virtualisation, Machine, Sink};
use crate::root::Root;

const VARIABLES: &str = "/sys/firmware/efi/efivars";
/// The EFI vendor ID of the boot loader variables that systemd specifies.
const VENDOR: &str = "4a67b082-0a4c-41cf-b6c7-440b29bb8c4f";

pub(super) fn collect(machine: &Machine, sink: &mut Sink) {
    let root = machine.root;
    sink.add("boot.loader", || loader(machine));
    sink.add("boot.id", || text(root, "/proc/sys/kernel/random/boot_id"));
    sink.add("boot.uptime", || uptime(&text(root, "/proc/uptime")?));
}

fn uptime(text: &str) -> Probe<f64> {
    let seconds = text
        .split_whitespace()
        .next()
        .and_then(|word| word.parse::<f64>().ok());
    seconds
        .filter(|seconds| seconds.is_finite())
        .ok_or_else(|| garbage("/proc/uptime", "a number of seconds", text))
}

fn loader(machine: &Machine) -> Probe<&'static str> {
    let root = machine.root;
    if os::is_android(root)? {
        return Ok("android");
    }
    if let Some(name) = by_firmware_variable(root) {
        return Ok(name);
    }
    let found = by_files(root)?;
    match found.as_slice() {
        [name] => Ok(name),
        [] if virtualisation::is_firecracker(machine) => absent("Firecracker loads the kernel itself"),
        [] => unknown("no files or variables of a boot loader (the kernel may have been loaded directly)"),
        several => unknown(format!("files of several boot loaders: {}", several.join(", "))),
    }
}

/// Returns the boot loader that left a variable in the firmware, or `uki` for a unified kernel
/// image.
fn by_firmware_variable(root: &Root) -> Option<&'static str> {
    if let Some(info) = loader_variable(root, "LoaderInfo") {
        let info = info.to_lowercase();
        let names = [
            ("systemd-boot", "systemd-boot"),
            ("grub", "grub"),
            ("limine", "limine"),
        ];
        return names
            .iter()
            .find(|(start, _)| info.starts_with(start))
            .map(|(_, name)| *name);
    }
    seen(root, &format!("{VARIABLES}/StubInfo-{VENDOR}")).then_some("uki")
}

/// Returns the text of a variable that boot loaders share with systemd.
pub fn loader_variable(root: &Root, name: &str) -> Option<String> {
    let bytes = root.read_bytes(&format!("{VARIABLES}/{name}-{VENDOR}")).ok()?;
    Some(variable_text(&bytes))
}

/// Decodes the text of an EFI variable: four bytes of attributes, then UTF-16.
fn variable_text(bytes: &[u8]) -> String {
    let units = bytes
        .get(4..)
        .unwrap_or_default()
        .chunks_exact(2)
        .map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
    let text: Vec<u16> = units.take_while(|unit| *unit != 0).collect();
    String::from_utf16_lossy(&text)
}

/// Returns the boot loaders whose configuration is on this machine.
fn by_files(root: &Root) -> Probe<Vec<&'static str>> {
    let signs: [(&str, &[&str]); 3] = [
        ("grub", &["/boot/grub/grub.cfg", "/boot/grub2/grub.cfg"]),
        (
            "systemd-boot",
            &[
                "/boot/loader/loader.conf",
                "/efi/loader/loader.conf",
                "/boot/efi/loader/loader.conf",
            ],
        ),
        (
            "limine",
            &[
                "/boot/limine.conf",
                "/boot/limine/limine.conf",
                "/boot/EFI/limine/limine.conf",
            ],
        ),
    ];
    let mut found = Vec::new();
    let mut missed = None;
    for (name, paths) in signs {
        for path in paths {
            match exists(root, path) {
                Ok(true) if !found.contains(&name) => found.push(name),
                Ok(_) => {}
                Err(miss) => missed = Some(miss),
            }
        }
    }
    missed.filter(|_| found.is_empty()).map_or(Ok(found), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_utf_16_behind_attributes() {
        let mut bytes = vec![6, 0, 0, 0];
        bytes.extend("systemd-boot 255\0".encode_utf16().flat_map(u16::to_le_bytes));
        assert_eq!(variable_text(&bytes), "systemd-boot 255");
        assert_eq!(variable_text(&[1, 2]), "");
    }

    #[test]
    fn times() {
        assert_eq!(uptime("12.5 3.0"), Ok(12.5));
        assert!(uptime("soon").is_err());
        assert!(uptime("inf").is_err());
    }
}
