// SPDX-License-Identifier: Apache-2.0
//! The hypervisor and container around this session.

use super::probe::{link, seen, text, unknown, Probe};
use super::{Machine, Sink};
use crate::root::Root;
use crate::sys;

pub(super) fn collect(machine: &Machine, sink: &mut Sink) {
    sink.add("virtualisation.kind", || hypervisor(machine));
    sink.add("virtualisation.ktrial", || own_guest(machine.root));
    sink.add("container.kind", || container(machine));
}

/// Whether this is a Firecracker guest, according to its ACPI tables (readable by root) or its
/// command line.
pub(super) fn is_firecracker(machine: &Machine) -> bool {
    let table = machine
        .root
        .read_bytes("/sys/firmware/acpi/tables/FACP")
        .unwrap_or_default();
    // Bytes 10 to 15 of an ACPI table are the OEM ID.
    if table.get(10..16) == Some(b"FIRECK") {
        return true;
    }
    let words = machine.command_line().unwrap_or_default();
    words.iter().any(|word| word.contains("firecracker"))
}

/// Whether this is a guest that ktrial booted: its first process is the agent, with a job.
fn own_guest(root: &Root) -> Probe<bool> {
    Ok(text(root, "/proc/1/comm")? == "init" && seen(root, crate::guest::JOB))
}

fn hypervisor(machine: &Machine) -> Probe<&'static str> {
    if is_firecracker(machine) {
        return Ok("firecracker");
    }
    if let Some(kind) = by_firmware(machine.root) {
        return Ok(kind);
    }
    if let Some(kind) = by_processor(machine) {
        return Ok(kind);
    }
    if let Some(kind) = by_device_tree(machine.root).or_else(|| by_clock(machine.root)) {
        return Ok(kind);
    }
    let cpuinfo = machine.cpuinfo()?;
    if cpuinfo.contains("\nflags") {
        if has_flag(cpuinfo, "hypervisor") {
            return unknown("the processor shows a hypervisor, but nothing shows which one");
        }
        return Ok("none");
    }
    let described = ["/sys/class/dmi/id/sys_vendor", "/proc/device-tree"];
    if described.iter().any(|path| seen(machine.root, path)) {
        return Ok("none");
    }
    unknown("neither the processor, DMI nor a device tree describes this machine")
}

fn has_flag(cpuinfo: &str, wanted: &str) -> bool {
    let line = cpuinfo.lines().find(|line| line.starts_with("flags"));
    line.is_some_and(|line| line.split_whitespace().any(|flag| flag == wanted))
}

/// Detects vendors of virtual machines in DMI and `/sys/hypervisor`. QEMU is left to the processor,
/// which distinguishes KVM from emulation.
fn by_firmware(root: &Root) -> Option<&'static str> {
    if text(root, "/sys/hypervisor/type").ok().as_deref() == Some("xen") {
        // A control domain runs under Xen too, although it has the bare machine's devices.
        return Some("xen");
    }
    let dmi = |name: &str| text(root, &format!("/sys/class/dmi/id/{name}")).unwrap_or_default();
    let (vendor, product, bios) = (dmi("sys_vendor"), dmi("product_name"), dmi("bios_vendor"));
    if product.contains("VirtualBox") || vendor.contains("innotek") {
        return Some("virtualbox");
    }
    if vendor.contains("VMware") || product.contains("VMware") {
        return Some("vmware");
    }
    if vendor == "Xen" || bios == "Xen" {
        return Some("xen");
    }
    if vendor == "Microsoft Corporation" && product == "Virtual Machine" {
        return Some("hyperv");
    }
    let on_kvm = product == "KVM" || product == "Google Compute Engine" || vendor == "OpenStack Foundation";
    let on_nitro = vendor == "Amazon EC2" && !product.contains(".metal");
    (on_kvm || on_nitro).then_some("kvm")
}

/// Detects the hypervisor by its CPUID signature, or by the processor's name.
fn by_processor(machine: &Machine) -> Option<&'static str> {
    let cpuinfo = machine.cpuinfo().ok()?;
    if cpuinfo
        .lines()
        .any(|line| line.starts_with("model name") && line.contains("QEMU TCG"))
    {
        return Some("qemu-tcg");
    }
    if !machine.root.is_real() || !has_flag(cpuinfo, "hypervisor") {
        return None;
    }
    signature_name(&sys::hypervisor_signature()?)
}

fn signature_name(signature: &[u8; 12]) -> Option<&'static str> {
    match signature {
        b"KVMKVMKVM\0\0\0" | b"Linux KVM Hv" => Some("kvm"),
        b"TCGTCGTCGTCG" => Some("qemu-tcg"),
        b"VMwareVMware" => Some("vmware"),
        b"Microsoft Hv" => Some("hyperv"),
        b"XenVMMXenVMM" => Some("xen"),
        b"VBoxVBoxVBox" => Some("virtualbox"),
        _ => None,
    }
}

fn by_device_tree(root: &Root) -> Option<&'static str> {
    let compatible = text(root, "/proc/device-tree/hypervisor/compatible").ok()?;
    let kinds = [("linux,kvm", "kvm"), ("vmware", "vmware"), ("xen", "xen")];
    kinds
        .iter()
        .find(|(sign, _)| compatible.contains(sign))
        .map(|(_, kind)| *kind)
}

/// Detects a clock that only KVM guests have.
fn by_clock(root: &Root) -> Option<&'static str> {
    let clocks = text(
        root,
        "/sys/devices/system/clocksource/clocksource0/available_clocksource",
    )
    .ok()?;
    clocks
        .split_whitespace()
        .any(|clock| clock == "kvm-clock")
        .then_some("kvm")
}

/// Inode of the initial PID namespace, a constant in the kernel (`PROC_PID_INIT_INO`).
const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";
/// Inode of the initial UTS namespace (`PROC_UTS_INIT_INO`).
const FIRST_UTS_NAMESPACE: &str = "uts:[4026531838]";

/// Returns the kind of container around this session, or `none`.
pub(super) fn container(machine: &Machine) -> Probe<String> {
    let root = machine.root;
    let namespace = |kind: &str| link(root, &format!("/proc/self/ns/{kind}")).ok();
    let is_first = |kind: &str, first: &str| namespace(kind).map(|found| found.as_os_str() == first);
    let first_pids = is_first("pid", FIRST_PID_NAMESPACE);
    let first_names = is_first("uts", FIRST_UTS_NAMESPACE);
    // A machine image made from a container keeps the container's marks; the initial namespaces
    // refute them.
    if first_pids == Some(true) && first_names == Some(true) {
        return Ok("none".to_owned());
    }
    if let Some(kind) = marked(root).or_else(|| by_cgroup(root)) {
        return Ok(kind);
    }
    let locked = machine.mounts().is_ok_and(|mounts| {
        let of_sysctls = mounts.iter().rev().find(|mount| mount.point == "/proc/sys");
        of_sysctls.is_some_and(|mount| mount.options.iter().any(|option| option == "ro"))
    });
    if locked || first_pids == Some(false) {
        return Ok("other".to_owned());
    }
    if first_pids.is_none() && !seen(root, "/proc/1/cgroup") {
        return unknown("/proc shows neither namespaces nor the control groups of process 1");
    }
    Ok("none".to_owned())
}

/// Detects the marks that container programs leave inside.
fn marked(root: &Root) -> Option<String> {
    let environment = root.read_bytes("/proc/1/environ").unwrap_or_default();
    let entry = environment
        .split(|byte| *byte == 0)
        .find_map(|entry| entry.strip_prefix(b"container="));
    let named = entry.map(|kind| String::from_utf8_lossy(kind).into_owned());
    let named = named.or_else(|| text(root, "/run/systemd/container").ok());
    if let Some(kind) = named.filter(|kind| !kind.is_empty() && kind != "oci") {
        return Some(kind);
    }
    let marks = [
        ("/run/.containerenv", "podman"),
        ("/.dockerenv", "docker"),
        ("/.flatpak-info", "flatpak"),
    ];
    if let Some((_, kind)) = marks.iter().find(|(path, _)| seen(root, path)) {
        return Some((*kind).to_owned());
    }
    let release = text(root, "/proc/sys/kernel/osrelease").unwrap_or_default();
    release
        .to_lowercase()
        .contains("microsoft")
        .then(|| "wsl".to_owned())
}

fn by_cgroup(root: &Root) -> Option<String> {
    let groups = text(root, "/proc/1/cgroup").ok()?;
    let signs = [
        ("/docker", "docker"),
        ("/libpod", "podman"),
        ("/lxc", "lxc"),
        ("/kubepods", "kubernetes"),
        ("/machine.slice/systemd-nspawn", "systemd-nspawn"),
    ];
    signs
        .iter()
        .find(|(sign, _)| groups.contains(sign))
        .map(|(_, kind)| (*kind).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures() {
        assert_eq!(signature_name(b"KVMKVMKVM\0\0\0"), Some("kvm"));
        assert_eq!(signature_name(b"TCGTCGTCGTCG"), Some("qemu-tcg"));
        assert_eq!(signature_name(&[0; 12]), None);
    }

    #[test]
    fn a_guest_of_ktrial_has_a_job_and_a_first_process_of_its_name() {
        let place = tempfile::tempdir().unwrap();
        let root = Root::new(place.path());
        let write = |path: &str, content: &str| {
            let path = place.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        };
        write("proc/1/comm", "init\n");
        assert_eq!(own_guest(&root), Ok(false));
        write("ktrial/job.json", "{}");
        assert_eq!(own_guest(&root), Ok(true));
        write("proc/1/comm", "systemd\n");
        assert_eq!(own_guest(&root), Ok(false));
    }
}
