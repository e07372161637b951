# SPDX-License-Identifier: Apache-2.0
"""How QEMU runs a guest of each architecture: program, board, processors, ports, and a probe for KVM."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from typing import NamedTuple

from ktrial.bench.guest_tools import Mode
from ktrial.kit.errors import BadInput


class CpuProbe(NamedTuple):
    """A test of KVM. `code` makes QEMU exit with `status`; `{}` in `arguments` stands for the file with the code."""

    code: bytes
    arguments: tuple[str, ...]
    status: int


class GuestMachine(NamedTuple):
    """How QEMU runs guests of an architecture. `console` is the kernel's name for the first of the two `ports`.

    KVM needs a CPU with one of the flags in `virtual`, which is empty if no flag shows support for KVM.
    """

    architecture: str
    program: str
    packages: Mapping[str, str]
    boards: Mapping[Mode, str]
    processors: Mapping[Mode, str]
    ports: tuple[tuple[str, ...], tuple[str, ...]]
    console: str
    words: tuple[str, ...]
    virtual: frozenset[str]
    probe: CpuProbe


X86_64 = GuestMachine(
    architecture="x86_64",
    program="qemu-system-x86_64",
    packages={
        "apt-get": "sudo apt install qemu-system-x86",
        "dnf": "sudo dnf install qemu-system-x86-core",
        "pacman": "sudo pacman -S qemu-system-x86",
        "zypper": "sudo zypper install qemu-x86",
    },
    boards={"kvm": "q35,usb=off", "emulated": "q35,usb=off", "exact": "q35,usb=off"},
    # For exact guests: a processor without instructions whose count depends on the number of bytes.
    processors={"kvm": "host", "emulated": "qemu64", "exact": "qemu64"},
    ports=(("-serial", "chardev:console"), ("-serial", "chardev:line")),
    console="ttyS0",
    words=("no_timer_check",),
    virtual=frozenset({"vmx", "svm"}),
    # At the reset vector: write 1 to the port of the exit device, which ends QEMU with status 3.
    probe=CpuProbe(
        b"\xf4" * 0xFFF0 + bytes.fromhex("b001 e6f4 f4eb fd90") + b"\xf4" * 8,
        ("-machine", "q35", "-bios", "{}", "-device", "isa-debug-exit,iobase=0xf4,iosize=1"),
        3,
    ),
)
AARCH64 = GuestMachine(
    architecture="aarch64",
    program="qemu-system-aarch64",
    packages={
        "apt-get": "sudo apt install qemu-system-arm",
        "dnf": "sudo dnf install qemu-system-aarch64-core",
        "pacman": "sudo pacman -S qemu-system-aarch64",
        "zypper": "sudo zypper install qemu-arm",
    },
    boards={"kvm": "virt,gic-version=host", "emulated": "virt,gic-version=3", "exact": "virt,gic-version=3"},
    processors={"kvm": "host", "emulated": "cortex-a72", "exact": "cortex-a72"},
    # The board has one serial port; a PCI card adds the port for the agent's line.
    ports=(("-serial", "chardev:console"), ("-device", "pci-serial,chardev=line")),
    console="ttyAMA0",
    words=(),
    virtual=frozenset(),
    # mov w0, SYSTEM_OFF of PSCI; hvc #0; b .
    probe=CpuProbe(
        bytes.fromhex("00018052 0080b072 020000d4 00000014"), ("-machine", "virt,gic-version=host", "-kernel", "{}"), 0
    ),
)
_KNOWN = {machine.architecture: machine for machine in (X86_64, AARCH64)}


def machine_for(architecture: str, source: str) -> GuestMachine:
    """Return the machine for a kernel image. Raise BadInput if ktrial has no guest for its architecture."""
    if architecture not in _KNOWN:
        raise BadInput(
            f"cannot boot a kernel for {architecture} in a guest",
            file=source,
            hint=f"use a kernel for {' or '.join(_KNOWN)}",
        )
    return _KNOWN[architecture]


def host_architecture() -> str:
    return platform.machine()
