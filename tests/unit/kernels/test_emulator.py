# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ktrial.domain.guest import Mode, Shape
from ktrial.kernels import emulator
from ktrial.kernels.emulator import Emulator, EmulatorMissing


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
    (tmp_path / "apt-get").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = Answers()
    monkeypatch.setattr(subprocess, "run", found)
    monkeypatch.setattr(emulator, "KVM", tmp_path / "apt-get")
    return found


def shape(mode: Mode) -> Shape:
    return Shape(mode=mode, memory_bytes=1 << 30, cpus=1, append=("ktrial.word=1",))


def test_no_qemu_names_the_command_that_installs_it(answers: Answers, tmp_path: Path) -> None:
    (tmp_path / "qemu-system-x86_64").unlink()
    with pytest.raises(EmulatorMissing) as caught:
        Emulator()
    assert caught.value.hint == "sudo apt install qemu-system-x86"


@pytest.mark.parametrize(
    "version, why", [("QEMU emulator version 3.1.0\n", "guests need 4.0 or newer"), ("hello", "says 'hello'")]
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
    assert str(found.why_no_kvm()).endswith("is there and runs no code: error: failed to set MSR 0x10a")
    answers.probe = None
    assert "within 20 s" in str(found.why_no_kvm())
    monkeypatch.setattr(emulator, "KVM", tmp_path / "none")
    assert str(found.why_no_kvm()).startswith("there is no ")


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
