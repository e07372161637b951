# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ktrial.bench.guest_tools import Mode, Shape
from ktrial.guests import qemu
from ktrial.guests.qemu import Emulator, EmulatorMissing
from ktrial.kernels.images.architectures import AARCH64, GuestMachine, machine_for
from ktrial.kit.errors import BadInput


class Answers:
    """Answers for programs that are not run: status, stdout, stderr."""

    def __init__(self, version: str = "QEMU emulator version 7.2.22 (Debian 1:7.2)\n") -> None:
        self.version = version
        self.probe: tuple[int, str] | None = (3, "")

    def __call__(self, argv: list[str], **more: Any) -> subprocess.CompletedProcess[str]:
        if argv[1:] == ["--version"]:
            return subprocess.CompletedProcess(argv, 0, self.version, "")
        if self.probe is None:
            raise subprocess.TimeoutExpired(argv, 20)
        return subprocess.CompletedProcess(argv, self.probe[0], "", self.probe[1])


@pytest.fixture
def answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Answers:
    (tmp_path / "qemu-system-x86_64").touch(mode=0o755)
    monkeypatch.setattr(qemu, "host_architecture", lambda: "x86_64")
    (tmp_path / "apt-get").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = Answers()
    monkeypatch.setattr(subprocess, "run", found)
    monkeypatch.setattr(qemu, "KVM", tmp_path / "apt-get")
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nflags\t\t: fpu vmx lm\n")
    monkeypatch.setattr(qemu, "CPUINFO", tmp_path / "cpuinfo")
    return found


def shape(mode: Mode) -> Shape:
    return Shape(mode=mode, memory_bytes=1 << 30, cpus=1, append=("ktrial.word=1",))


def test_no_qemu_names_the_command_that_installs_it(answers: Answers, tmp_path: Path) -> None:
    (tmp_path / "qemu-system-x86_64").unlink()
    with pytest.raises(EmulatorMissing) as caught:
        Emulator()
    assert caught.value.hint == "sudo apt install qemu-system-x86"
    with pytest.raises(EmulatorMissing, match="cannot boot aarch64 guests: no qemu-system-aarch64") as caught:
        Emulator(machine=AARCH64)
    assert caught.value.hint == "sudo apt install qemu-system-arm"


@pytest.mark.parametrize(
    "version, why",
    [
        ("QEMU emulator version 3.1.0\n", "guests need 4.0 or newer"),
        ("hello", "cannot read the version of .* in 'hello'"),
    ],
)
def test_a_qemu_that_will_not_do(answers: Answers, version: str, why: str) -> None:
    answers.version = version
    with pytest.raises(EmulatorMissing, match=why):
        Emulator()


def test_kvm_counts_only_where_code_runs(answers: Answers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Emulator()
    assert found.version == "QEMU 7.2.22"
    assert found.why_no_kvm() is None
    answers.probe = (-6, "qemu-system-x86_64: warning: x\nqemu-system-x86_64: error: failed to set MSR 0x10a\nmore\n")
    assert str(found.why_no_kvm()).endswith("cannot run code (error: failed to set MSR 0x10a)")
    answers.probe = None
    assert "within 20 s" in str(found.why_no_kvm())
    monkeypatch.setattr(qemu, "KVM", tmp_path / "none")
    assert str(found.why_no_kvm()).startswith("there is no ")


def test_kvm_in_software_does_not_count(answers: Answers, tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nflags\t\t: fpu lm hypervisor\n")
    assert str(Emulator().why_no_kvm()).endswith("only works in software, because the processor has no svm or vmx")
    (tmp_path / "cpuinfo").write_text("processor\t: 0\n")
    assert Emulator().why_no_kvm() is None
    (tmp_path / "cpuinfo").unlink()
    assert Emulator().why_no_kvm() is None


@pytest.mark.parametrize("mode", ["kvm", "emulated", "exact"])
def test_nothing_of_the_host_is_given_to_a_guest(answers: Answers, mode: Mode) -> None:
    argv = Emulator().argv(shape(mode), Path("/work,here"))
    assert {"-nodefaults", "-no-user-config", "-no-reboot"} <= set(argv)
    assert argv[argv.index("-net") + 1] == "none"
    assert not {"-drive", "-blockdev", "-virtfs", "-fsdev", "-device", "-netdev", "-hda", "-usb"} & set(argv)
    assert [word for word in argv if word.startswith("file,")] == [
        "file,id=console,path=/work,,here/console",
        "file,id=line,path=/work,,here/line",
    ]
    assert argv[argv.index("-append") + 1].split()[-1] == "ktrial.word=1"


def test_an_exact_guest_has_every_flag_that_makes_it_so(answers: Answers) -> None:
    argv = Emulator().argv(shape("exact"), Path("/x"))
    pairs = dict(pairwise(argv))
    assert pairs["-icount"] == "shift=1,sleep=off"
    assert pairs["-accel"] == "tcg,thread=single"
    assert pairs["-rtc"] == "base=2024-01-01T00:00:00,clock=vm"
    assert (pairs["-seed"], pairs["-cpu"], pairs["-smp"]) == ("1", "qemu64", "1")
    assert {"nokaslr", "cryptomgr.notests", "mitigations=off"} <= set(pairs["-append"].split())


@pytest.fixture
def arm(answers: Answers, tmp_path: Path) -> GuestMachine:
    (tmp_path / "qemu-system-aarch64").touch(mode=0o755)
    return machine_for("aarch64", "Image")


def test_a_guest_of_another_architecture_has_no_kvm_and_ports_of_its_own(arm: GuestMachine) -> None:
    found = Emulator(machine=arm)
    assert found.why_no_kvm() == "this machine is x86_64, but the kernel is for aarch64"
    argv = found.argv(shape("exact"), Path("/x"))
    pairs = dict(pairwise(argv))
    assert (pairs["-machine"], pairs["-cpu"], pairs["-icount"]) == (
        *("virt,gic-version=3", "cortex-a72"),
        "shift=1,sleep=off",
    )
    assert (pairs["-serial"], pairs["-device"]) == ("chardev:console", "pci-serial,chardev=line")
    assert pairs["-append"].startswith("console=ttyAMA0 quiet panic=-1 nokaslr ")


def test_kvm_of_its_own_machine_is_tried_with_code_of_its_own(
    arm: GuestMachine, answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers.probe = (0, "")
    assert Emulator(machine=arm, host="aarch64").why_no_kvm() is None
    answers.probe = (1, "qemu-system-aarch64: no KVM\n")
    assert str(Emulator(machine=arm, host="aarch64").why_no_kvm()).endswith("cannot run code (no KVM)")


def test_no_guest_is_of_an_unknown_architecture() -> None:
    with pytest.raises(BadInput, match="x: cannot boot a kernel for riscv64 in a guest"):
        machine_for("riscv64", "x")
