# SPDX-License-Identifier: Apache-2.0
"""A guest with systemd in QEMU: a layer above an image, a console log per QEMU process, and scripts that run as root.

Scripts go through a virtio port, which outlives the boots of one QEMU process; each boot sends its boot id there.
"""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

BOOT_LIMIT_S = 420
#: The guest's end of the port, which is started in every boot.
RUNNER = """
import json, os, subprocess, time
while not os.path.exists("/dev/virtio-ports/runner"):
    time.sleep(0.1)
port = os.open("/dev/virtio-ports/runner", os.O_RDWR)
def say(*words):
    # A boot that was cut off may have left half a line.
    data = b"\\n" + json.dumps(words).encode() + b"\\n"
    while data:
        data = data[os.write(port, data):]
with open("/proc/sys/kernel/random/boot_id") as file:
    say("boot", file.read().strip())
read = b""
while True:
    data = os.read(port, 65536)
    if not data:
        time.sleep(0.1)
    *lines, read = (read + data).split(b"\\n")
    for line in lines:
        try:
            number, script = json.loads(line)
        except ValueError:
            continue
        run = subprocess.run(["sh", "-c", script], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        say(number, run.returncode, run.stdout, run.stderr)
"""


@dataclass(frozen=True)
class Ran:
    """The result of a script in a guest."""

    status: int
    out: str
    err: str


class GuestPort:
    """This machine's end of the port."""

    def __init__(self) -> None:
        self._here, self.there = socket.socketpair()
        self._read, self._sent = b"", 0
        self.boot_id = ""

    def close(self) -> None:
        self._here.close()

    def send(self, script: str) -> int:
        self._sent += 1
        self._here.sendall(json.dumps([self._sent, script]).encode() + b"\n")
        return self._sent

    def answer(self, number: int, limit_s: float) -> Ran:
        boot_id, deadline = self.boot_id, time.monotonic() + limit_s
        while True:
            words = self._words(deadline)
            if boot_id not in {"", self.boot_id}:
                raise ConnectionResetError("the guest booted anew, and will not answer")
            if words[0] == number:
                return Ran(*words[1:])

    def wait_boot(self, limit_s: float) -> str:
        """Wait for a boot that has not answered yet, and return its id."""
        boot_id, deadline = self.boot_id, time.monotonic() + limit_s
        while self.boot_id == boot_id:
            self._words(deadline)
        return self.boot_id

    def wait_end(self, limit_s: float) -> None:
        """Wait until QEMU has ended."""
        deadline = time.monotonic() + limit_s
        with contextlib.suppress(EOFError):
            while True:
                self._words(deadline)

    def _words(self, deadline: float) -> list[Any]:
        while True:
            line, ended, rest = self._read.partition(b"\n")
            if not ended:
                self._here.settimeout(max(deadline - time.monotonic(), 0.001))
                data = self._here.recv(65536)
                if not data:
                    raise EOFError("QEMU has ended")
                self._read += data
                continue
            self._read = rest
            with contextlib.suppress(ValueError):
                words: list[Any] = json.loads(line)
                if words[0] == "boot":
                    self.boot_id = words[1]
                return words


class QemuGuest(ABC):
    """One guest. Subclasses decide what its disks are and what starts from them."""

    def __init__(self, root: Path, clone: Path, disk: Path, *, memory_mib: int = 2048) -> None:
        """Put a layer on the image `root` as `disk`; `clone` is the other disk, which is read-only."""
        self._folder, self._clone, self._disk, self._memory_mib = disk.parent, clone, disk, memory_mib
        self._processes = 0
        kind = "raw" if root.suffix == ".img" else "qcow2"
        subprocess.run(("qemu-img", "create", "-q", "-f", "qcow2", "-b", root, "-F", kind, disk), check=True)
        self._process: subprocess.Popen[bytes] | None = None
        self._port: GuestPort | None = None

    def __enter__(self) -> Self:
        try:
            self.boot()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.kill()

    def boot(self) -> None:
        """Start the guest, and wait until systemd has started everything."""
        self.start()
        self.wait_boot()
        self.assert_running()

    def start(self) -> None:
        """Start QEMU without waiting."""
        assert self._process is None
        self._processes += 1
        self._port = GuestPort()
        with self._port.there as there:
            command = [*self._command(there.fileno()), *self._loader()]
            self._process = subprocess.Popen(command, pass_fds=[there.fileno()])

    def kill(self) -> None:
        """Cut the guest's power."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        if self._port is not None:
            self._port.close()
        self._process = self._port = None

    def halt(self) -> None:
        """Shut the guest down as an administrator does."""
        assert self._process is not None
        self.send("systemctl --no-block poweroff")
        self._opened().wait_end(BOOT_LIMIT_S)
        self._process.wait(timeout=BOOT_LIMIT_S)
        self.kill()

    def reboot(self) -> None:
        """Shut the guest down, start it again, and wait until systemd has started everything."""
        self.halt()
        self.boot()

    def assert_running(self) -> None:
        """Wait until the boot is complete, and check that no unit has failed."""
        state = self.run("systemctl is-system-running --wait").out.strip()
        assert state == "running", f"{state}: {self.run('systemctl --failed --no-legend --plain').out}"

    def wait_boot(self, limit_s: float = BOOT_LIMIT_S) -> str:
        """Wait until a boot other than the last one answers, and return its id.

        It answers as soon as its file systems are mounted, whatever happens later.
        """
        with self._explained("no new boot"):
            return self._opened().wait_boot(limit_s)

    @property
    def boot_id(self) -> str:
        """Return the id of the newest boot that answered."""
        return self._opened().boot_id

    def send(self, script: str) -> None:
        """Start a script as root, without waiting for its answer."""
        self._opened().send(script)

    def run(self, script: str, limit_s: float = BOOT_LIMIT_S) -> Ran:
        """Run a script as root and return its result."""
        with self._explained(f"no answer to {script!r}"):
            port = self._opened()
            return port.answer(port.send(script), limit_s)

    def _opened(self) -> GuestPort:
        assert self._port is not None, "the guest is off"
        return self._port

    @contextlib.contextmanager
    def _explained(self, what: str) -> Iterator[None]:
        try:
            yield
        except (OSError, EOFError) as error:
            raise AssertionError(f"{what}: {error}; the console showed:\n{self.console}") from error

    @property
    def console(self) -> str:
        """Return the console output since QEMU was started."""
        with contextlib.suppress(OSError):
            return (self._folder / f"console-{self._processes}").read_text(errors="replace")
        return ""

    @abstractmethod
    def _loader(self) -> list[str]:
        """Return QEMU options for the disk and for what starts from it."""

    def _command(self, port: int) -> list[str]:
        command = [
            "qemu-system-x86_64",
            "-nodefaults",
            "-no-user-config",
            "-machine",
            "q35,memory-backend=memory,sata=off,smbus=off",
        ]
        # The guest's kernel uses only a part of this memory, so it may be more than this machine has.
        memory = f"memory-backend-ram,id=memory,size={self._memory_mib}M,reserve=off"
        command += ["-m", f"{self._memory_mib}", "-object", memory]
        # One thread for both CPUs: see tests/guests/system/kernels.py. With more room for translated code QEMU is
        # slower, above all after a reboot.
        command += ["-cpu", "Nehalem", "-accel", "tcg,thread=single,tb-size=64", "-smp", "2"]
        command += ["-display", "none", "-serial", f"file:{self._folder}/console-{self._processes}"]
        command += ["-device", "virtio-serial-pci", "-chardev", f"socket,id=runner,fd={port}"]
        command += ["-device", "virtserialport,chardev=runner,name=runner"]
        command += ["-blockdev", "driver=null-co,node-name=nvme,size=16777216,read-zeroes=on"]
        command += ["-device", "nvme,drive=nvme,serial=k"]
        # Data that the guest has flushed outlives QEMU, because this machine stays on.
        command += ["-drive", f"file={self._disk},format=qcow2,if=none,id=root,cache=writeback"]
        command += ["-device", "virtio-blk-pci,drive=root,bootindex=1"]
        return [*command, "-drive", f"file={self._clone},format=raw,if=virtio,readonly=on"]
