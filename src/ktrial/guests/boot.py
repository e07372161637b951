# SPDX-License-Identifier: Apache-2.0
"""Boots a guest once, to its end or to a limit, and returns everything it produced."""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
import time
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from threading import Event
from typing import IO, NamedTuple

import msgspec

from ktrial.agent import line_frames
from ktrial.agent.line_frames import Frame, Garbled, LineFrames
from ktrial.bench.guest_tools import GuestRun, GuestStart, Job, ProgramEnded, Shape
from ktrial.bench.text import duration
from ktrial.guests import initramfs
from ktrial.guests.programs import GuestFiles
from ktrial.guests.qemu import Emulator
from ktrial.guests.running import RunningGuest, decode_frame, end
from ktrial.kernels.images.images import KernelFiles
from ktrial.kernels.images.kernel_image import bootable
from ktrial.kit.errors import BadInput, KtrialError

_POLL_S = 0.02
#: Size limit of console text or program output; a guest that exceeds it is ended.
CONSOLE_LIMIT_BYTES = 16 << 20
OUTPUT_LIMIT_BYTES = 64 << 20
#: Seconds that a guest may take to restart after its last frame.
_END_LIMIT_S = 10.0
_PANIC = b"Kernel panic - not syncing: "
_LATE = "the time limit"


class BootLimits(NamedTuple):
    """Time limits in seconds: `whole_s` for the whole boot, `begin_s` until the first process."""

    whole_s: float
    begin_s: float | None = None


class Guests:
    """Boots guests; `folder` holds their files while they run."""

    def __init__(self, emulator: Emulator, agent: Path, folder: Path | None = None) -> None:
        self._emulator = emulator
        self._agent = agent
        self._folder = folder
        self._stop = Event()

    @property
    def architecture(self) -> str:
        return self._emulator.machine.architecture

    def why_no_kvm(self) -> str | None:
        """Run code with KVM. Return why KVM is unusable; None if it works."""
        return self._emulator.why_no_kvm()

    def stop(self) -> None:
        self._stop.set()

    def boot(self, kernel: KernelFiles, job: Job, brought: GuestFiles, shape: Shape, limits: BootLimits) -> GuestRun:
        with TemporaryDirectory(prefix="guest-", dir=self._folder) as name:
            folder = Path(name)
            self._lay(folder, kernel, job, brought, shape)
            return _Boot(self._emulator, folder, shape, limits, self._stop).run()

    def talk(
        self, kernel: KernelFiles, job: Job, brought: GuestFiles, shape: Shape, begin_limit_s: float
    ) -> RunningGuest:
        folder = Path(mkdtemp(prefix="guest-", dir=self._folder))
        try:
            self._lay(folder, kernel, msgspec.structs.replace(job, sessions=True), brought, shape)
            argv = self._emulator.argv(shape, folder, talks=True)
            return RunningGuest(argv, folder, begin_limit_s, self._stop)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise

    def _lay(self, folder: Path, kernel: KernelFiles, job: Job, brought: GuestFiles, shape: Shape) -> None:
        image = bootable(kernel.image, kernel.image_path, self.architecture)
        content = initramfs.build(
            self._agent.read_bytes(), msgspec.json.encode(job), brought.files, links=brought.links
        )
        if len(content) * 2 > shape.memory_bytes:
            wanted = -(-len(content) * 2 >> 20)
            raise BadInput(
                f"not enough memory: a guest needs twice the size of its files, which take {len(content) >> 20} MiB",
                hint=f"give the guest at least {wanted}MiB of memory",
            )
        (folder / "kernel").write_bytes(image)
        (folder / "initramfs").write_bytes(content)
        (folder / "console").touch(mode=0o600)


class _Boot:
    """A running guest, and its output so far."""

    def __init__(self, emulator: Emulator, folder: Path, shape: Shape, limits: BootLimits, stop: Event) -> None:
        self._emulator, self._folder, self._shape, self._limits = emulator, folder, shape, limits
        self._stop = stop
        self._frames = LineFrames()
        self._begun: GuestStart | None = None
        self._ended: ProgramEnded | None = None
        self._over = False
        self._outputs = {line_frames.OUTPUT: bytearray(), line_frames.ERRORS: bytearray()}
        self._said = bytearray()

    def run(self) -> GuestRun:
        """Start the emulator, read the guest's output until it ends, and end the emulator."""
        (self._folder / "line").touch(mode=0o600)
        begin = time.monotonic()
        argv = self._emulator.argv(self._shape, self._folder)
        with (self._folder / "errors").open("wb") as errors, (self._folder / "line").open("rb") as line:
            process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=errors, stderr=errors, cwd="/", start_new_session=True
            )
            try:
                failure = self._follow(process, line, begin)
            finally:
                end(process)
        return GuestRun(
            shape=self._shape,
            emulator=self._emulator.version,
            begun=self._begun,
            ended=self._ended,
            stdout=bytes(self._outputs[line_frames.OUTPUT]),
            stderr=bytes(self._outputs[line_frames.ERRORS]),
            console=self._console()[:CONSOLE_LIMIT_BYTES],
            wall_s=time.monotonic() - begin,
            failure=failure,
            limit_passed=failure is not None and failure.startswith(_LATE),
            said=bytes(self._said),
        )

    def _follow(self, process: subprocess.Popen[bytes], line: IO[bytes], begin: float) -> str | None:
        """Return why the guest did not finish; None if it did."""
        while True:
            gone = process.poll() is not None
            try:
                for frame in self._frames.feed(line.read()):
                    self._take(frame)
            except Garbled as error:
                return error.message
            if self._over:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_END_LIMIT_S)
                return None
            if gone:
                return self._why_gone(process.returncode)
            if (why := self._why_stop(time.monotonic() - begin)) is not None:
                return why
            time.sleep(_POLL_S)

    def _why_stop(self, passed_s: float) -> str | None:
        if self._stop.is_set():
            return "the guest was stopped"
        if self._begun is None:
            limit_s = min(self._limits.whole_s, self._limits.begin_s or self._limits.whole_s)
            if passed_s > limit_s:
                return f"{_LATE} of {duration(limit_s)} passed before the guest's first process ran"
        elif passed_s > self._limits.whole_s:
            return f"{_LATE} of {duration(self._limits.whole_s)} passed while the guest ran its program"
        if (self._folder / "console").stat().st_size > CONSOLE_LIMIT_BYTES:
            return f"the guest wrote more than {CONSOLE_LIMIT_BYTES >> 20} MiB to its console"
        if sum(map(len, (self._said, *self._outputs.values()))) > OUTPUT_LIMIT_BYTES:
            return f"the program wrote more than {OUTPUT_LIMIT_BYTES >> 20} MiB"
        return None

    def _take(self, frame: Frame) -> None:
        if frame.kind in self._outputs:
            self._outputs[frame.kind] += frame.content
        elif frame.kind in {line_frames.SAID, line_frames.OVER}:
            self._said += line_frames.encode_frame(*frame)
        elif frame.kind == line_frames.BEGUN:
            self._begun = decode_frame(frame, GuestStart)
        elif frame.kind == line_frames.ENDED:
            self._ended = decode_frame(frame, ProgramEnded)
        elif frame.kind == line_frames.END:
            self._over = True

    def _why_gone(self, status: int) -> str:
        """Return why a guest ended silently: a kernel panic, or unknown. Raise KtrialError if the emulator failed."""
        for text in self._console().splitlines():
            _, found, reason = text.partition(_PANIC)
            if found:
                return f"the kernel panicked: {reason.decode(errors='replace').strip()}"
        said = (self._folder / "errors").read_text(encoding="utf-8", errors="replace").strip()
        if status != 0 or (said and self._begun is None and not self._console()):
            ended = f"with status {status}" if status >= 0 else f"by {signal.Signals(-status).name}"
            raise KtrialError(
                f"{self._emulator.version} ended {ended}: {said or 'no message'}",
                hint="try another mode or another memory size for the guest",
            )
        if self._begun is None:
            return "the guest ended before its first process ran"
        return "the guest ended without reporting the result of its program"

    def _console(self) -> bytes:
        return (self._folder / "console").read_bytes()
