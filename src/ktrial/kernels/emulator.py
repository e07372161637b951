# SPDX-License-Identifier: Apache-2.0
"""QEMU: is it here and new enough, does KVM run code, and with which arguments a guest is started."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from ktrial.domain.errors import KtrialError
from ktrial.domain.guest import Shape

PROGRAM = "qemu-system-x86_64"
#: The first with -seed, which exact guests need.
OLDEST = (4, 0)
KVM = Path("/dev/kvm")
_VERSION = re.compile(r"version (\d+)\.(\d+)(\S*)")
_LIMIT_S = 20.0
_INSTALL = {
    "apt-get": "sudo apt install qemu-system-x86",
    "dnf": "sudo dnf install qemu-system-x86-core",
    "pacman": "sudo pacman -S qemu-system-x86",
    "zypper": "sudo zypper install qemu-x86",
}
_BIND = ("setpriv", "--pdeathsig", "KILL", "--")
#: Code at the reset vector: writes 1 to the port of the exit device, which then ends QEMU with status 3.
_PROBE_ROM = b"\xf4" * 0xFFF0 + bytes.fromhex("b001 e6f4 f4eb fd90") + b"\xf4" * 8
_PROBE_STATUS = 3

_PLAIN = ("-nodefaults", "-no-user-config", "-machine", "q35,usb=off", "-net", "none", "-display", "none", "-no-reboot")
_EXACT = (
    *("-icount", "shift=1,sleep=off", "-rtc", "base=2024-01-01T00:00:00,clock=vm"),
    *("-seed", "1"),
)
#: Exact: the processor without instructions that count per byte; no noise of the kernel's own tests.
_CPU = {"kvm": "host", "emulated": "qemu64", "exact": "qemu64"}
_ACCELERATOR = {"kvm": "kvm", "emulated": "tcg,thread=single", "exact": "tcg,thread=single"}
_COMMAND_LINE = ("console=ttyS0", "quiet", "panic=-1", "no_timer_check")
_EMULATED_COMMAND_LINE = ("nokaslr", "mitigations=off", "cryptomgr.notests", "random.trust_cpu=on")


class EmulatorMissing(KtrialError):
    """QEMU is not here, or not as it is needed."""


class Emulator:
    """QEMU of this machine. `path` is where programs are looked for, `work` a private folder for what is tried."""

    def __init__(self, path: str | None = None, work: Path | None = None) -> None:
        self._path = path
        self._work = work
        found = shutil.which(PROGRAM, path=path)
        if found is None:
            raise EmulatorMissing(f"guests need QEMU: there is no {PROGRAM} in PATH", hint=self._install())
        self.program = found
        bind = shutil.which(_BIND[0], path=path)
        #: Where it can be had: the emulator ends with the process that started it, whatever ends that.
        self._bound = [bind, *_BIND[1:]] if bind is not None else []
        self.version = self._asked_version()

    def _install(self) -> str:
        known = (command for tool, command in _INSTALL.items() if shutil.which(tool, path=self._path))
        return next(known, "install QEMU for x86_64")

    def _asked_version(self) -> str:
        try:
            said = subprocess.run(
                [self.program, "--version"], capture_output=True, text=True, timeout=_LIMIT_S, check=True
            ).stdout
        except (OSError, subprocess.SubprocessError) as error:
            raise EmulatorMissing(f"{self.program} --version: {error}", hint=self._install()) from None
        found = _VERSION.search(said)
        if found is None:
            raise EmulatorMissing(f"{self.program} --version says {said.strip()[:80]!r}", hint=self._install())
        if (int(found[1]), int(found[2])) < OLDEST:
            oldest = ".".join(map(str, OLDEST))
            raise EmulatorMissing(
                f"{self.program} is version {found[1]}.{found[2]}, guests need {oldest} or newer", hint=self._install()
            )
        return f"QEMU {found[1]}.{found[2]}{found[3]}"

    def why_no_kvm(self) -> str | None:
        """Why KVM cannot be used, found by running code with it; None where it can."""
        if not KVM.exists():
            return f"there is no {KVM}"
        if not os.access(KVM, os.R_OK | os.W_OK):
            return f"{KVM} is there and this user may not open it"
        with TemporaryDirectory(prefix="kvm-", dir=self._work) as folder:
            rom = Path(folder) / "rom"
            rom.write_bytes(_PROBE_ROM)
            argv = [
                self.program,
                "-nodefaults",
                "-no-user-config",
                "-machine",
                "q35",
                "-accel",
                "kvm",
                "-cpu",
                "host",
                "-m",
                "16",
            ]
            argv += ["-display", "none", "-no-reboot", "-bios", str(rom)]
            argv += ["-device", "isa-debug-exit,iobase=0xf4,iosize=1"]
            try:
                done = subprocess.run(argv, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
            except subprocess.TimeoutExpired:
                return f"{KVM} is there and runs no code within {_LIMIT_S:.0f} s"
        if done.returncode == _PROBE_STATUS:
            return None
        lines = [line for line in done.stderr.splitlines() if line.strip() and "warning:" not in line]
        said = lines[0].removeprefix(f"{PROGRAM}: ") if lines else f"QEMU ended with status {done.returncode}"
        return f"{KVM} is there and runs no code: {said}"

    def argv(self, shape: Shape, folder: Path, *, talks: bool = False) -> list[str]:
        """How a guest is started whose files lie in `folder`: no disk, no network, two serial ports that are files.

        Where it `talks` the second one is the emulator's own standard input and output.
        """
        cpu = _CPU[shape.mode]
        argv = [*self._bound, self.program, *_PLAIN, "-accel", _ACCELERATOR[shape.mode], "-cpu", cpu]
        argv += ["-smp", str(shape.cpus), "-m", str(shape.memory_bytes >> 20)]
        argv += _EXACT if shape.mode == "exact" else ()
        for port in ("console", "line"):
            file = f"file,id={port},path={str(folder / port).replace(',', ',,')}"
            backend = f"stdio,id={port},signal=off" if talks and port == "line" else file
            argv += ["-chardev", backend, "-serial", f"chardev:{port}"]
        return [*argv, "-kernel", str(folder / "kernel"), "-initrd", str(folder / "initramfs"), *self._append(shape)]

    @staticmethod
    def _append(shape: Shape) -> list[str]:
        emulated = () if shape.mode == "kvm" else _EMULATED_COMMAND_LINE
        return ["-append", " ".join((*_COMMAND_LINE, *emulated, *shape.append))]
