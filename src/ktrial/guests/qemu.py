# SPDX-License-Identifier: Apache-2.0
"""QEMU: checks that it is installed and recent enough and that KVM works, and builds the command for a guest."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from ktrial.bench.guest_tools import Shape
from ktrial.kernels.images.architectures import X86_64, GuestMachine, host_architecture
from ktrial.kit.errors import KtrialError

#: The first version with -seed, which exact guests need.
OLDEST = (4, 0)
KVM = Path("/dev/kvm")
CPUINFO = Path("/proc/cpuinfo")
_VERSION = re.compile(r"version (\d+)\.(\d+)(\S*)")
_LIMIT_S = 20.0
_BIND = ("setpriv", "--pdeathsig", "KILL", "--")

_BARE = ("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot")
_EXACT = ("-icount", "shift=1,sleep=off", "-rtc", "base=2024-01-01T00:00:00,clock=vm", "-seed", "1")
_ACCELERATOR = {"kvm": "kvm", "emulated": "tcg,thread=single", "exact": "tcg,thread=single"}
_COMMAND_LINE = ("quiet", "panic=-1")
#: Kernel arguments that make boots differ less: without the kernel's own tests, among other things.
_EMULATED_COMMAND_LINE = ("nokaslr", "mitigations=off", "cryptomgr.notests", "random.trust_cpu=on")


class EmulatorMissing(KtrialError):
    """QEMU is missing, or unsuitable for this guest."""


class Emulator:
    """QEMU for guests of one architecture.

    `path` lists the folders of programs, `work` is a private folder for probes, and `host` is this machine's
    architecture.
    """

    def __init__(
        self, path: str | None = None, work: Path | None = None, machine: GuestMachine = X86_64, host: str | None = None
    ) -> None:
        self._path = path
        self._work = work
        self._host = host or host_architecture()
        self.machine = machine
        found = shutil.which(machine.program, path=path)
        if found is None:
            raise EmulatorMissing(
                f"cannot boot {machine.architecture} guests: no {machine.program} in PATH", hint=self._install()
            )
        self.program = found
        bind = shutil.which(_BIND[0], path=path)
        #: The start of a command with setpriv, if installed: it ends the emulator when the process that started it
        #: ends.
        self._bound = [bind, *_BIND[1:]] if bind is not None else []
        self.version = self._asked_version()

    def _install(self) -> str:
        known = (command for tool, command in self.machine.packages.items() if shutil.which(tool, path=self._path))
        return next(known, f"install QEMU for {self.machine.architecture}")

    def _asked_version(self) -> str:
        try:
            said = subprocess.run(
                [self.program, "--version"], capture_output=True, text=True, timeout=_LIMIT_S, check=True
            ).stdout
        except subprocess.CalledProcessError as error:
            why = f"`{self.program} --version` ended with status {error.returncode}"
            raise EmulatorMissing(why, hint=self._install()) from None
        except (OSError, subprocess.TimeoutExpired) as error:
            why = str(error.strerror) if isinstance(error, OSError) else f"no answer within {_LIMIT_S:g} s"
            raise EmulatorMissing(f"cannot run `{self.program} --version`: {why}", hint=self._install()) from None
        found = _VERSION.search(said)
        if found is None:
            raise EmulatorMissing(
                f"cannot read the version of {self.program} in {said.strip()[:80]!r}", hint=self._install()
            )
        if (int(found[1]), int(found[2])) < OLDEST:
            oldest = ".".join(map(str, OLDEST))
            raise EmulatorMissing(
                f"{self.program} {found[1]}.{found[2]} is too old: guests need {oldest} or newer", hint=self._install()
            )
        return f"QEMU {found[1]}.{found[2]}{found[3]}"

    def why_no_kvm(self) -> str | None:
        """Run code with KVM. Return why KVM is unusable; None if it works."""
        if self.machine.architecture != self._host:
            return f"this machine is {self._host}, but the kernel is for {self.machine.architecture}"
        if not KVM.exists():
            return f"there is no {KVM}"
        if not os.access(KVM, os.R_OK | os.W_OK):
            return f"this user may not open {KVM}"
        # KVM without hardware support runs single instructions, but only kernels that were built for it.
        if not self._has_hardware():
            needed = " or ".join(sorted(self.machine.virtual))
            return f"{KVM} only works in software, because the processor has no {needed}"
        try:
            done = self._probed()
        except subprocess.TimeoutExpired:
            return f"{KVM} did not run any code within {_LIMIT_S:.0f} s"
        if done.returncode == self.machine.probe.status:
            return None
        lines = [line for line in done.stderr.splitlines() if line.strip() and "warning:" not in line]
        said = (
            lines[0].removeprefix(f"{self.machine.program}: ") if lines else f"QEMU ended with status {done.returncode}"
        )
        return f"{KVM} cannot run code ({said})"

    def _has_hardware(self) -> bool:
        """Return whether the processor supports virtual machines; True if its flags don't say."""
        try:
            lines = CPUINFO.read_text(errors="replace").splitlines()
        except OSError:
            return True
        flags = next((line.partition(":")[2].split() for line in lines if line.startswith("flags")), None)
        return flags is None or not self.machine.virtual or not self.machine.virtual.isdisjoint(flags)

    def _probed(self) -> subprocess.CompletedProcess[str]:
        probe = self.machine.probe
        with TemporaryDirectory(prefix="kvm-", dir=self._work) as folder:
            code = Path(folder) / "code"
            code.write_bytes(probe.code)
            argv = [self.program, *_BARE, "-accel", "kvm", "-cpu", self.machine.processors["kvm"], "-m", "16"]
            argv += [word.format(code) for word in probe.arguments]
            return subprocess.run(argv, capture_output=True, text=True, timeout=_LIMIT_S, check=False)

    def argv(self, shape: Shape, folder: Path, *, talks: bool = False) -> list[str]:
        """Return the command that starts a guest without disk or network; its files are in `folder`.

        The guest's two serial ports write to files. If `talks` is true, the second port is QEMU's stdin and stdout.
        """
        machine = self.machine
        argv = [*self._bound, self.program, *_BARE, "-machine", machine.boards[shape.mode], "-net", "none"]
        argv += ["-accel", _ACCELERATOR[shape.mode], "-cpu", machine.processors[shape.mode]]
        argv += ["-smp", str(shape.cpus), "-m", str(shape.memory_bytes >> 20)]
        argv += _EXACT if shape.mode == "exact" else ()
        for port, words in zip(("console", "line"), machine.ports, strict=True):
            file = f"file,id={port},path={str(folder / port).replace(',', ',,')}"
            backend = f"stdio,id={port},signal=off" if talks and port == "line" else file
            argv += ["-chardev", backend, *words]
        emulated = () if shape.mode == "kvm" else _EMULATED_COMMAND_LINE
        append = (f"console={machine.console}", *_COMMAND_LINE, *machine.words, *emulated, *shape.append)
        argv += ["-kernel", str(folder / "kernel"), "-initrd", str(folder / "initramfs"), "-append", " ".join(append)]
        return argv
