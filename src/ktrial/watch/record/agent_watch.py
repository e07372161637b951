# SPDX-License-Identifier: Apache-2.0
"""Records a machine through an agent, and appends the agent's blocks to a file as they arrive.

The head reads the source `nvidia` itself, in a thread, on the monotonic clock that the agent uses.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

import msgspec

from ktrial.agent.interrupts import Interrupts
from ktrial.agent.session import AgentSession, Progress
from ktrial.kit.errors import AgentError, BadInput, in_lower_case
from ktrial.kit.json_bytes import read_bytes
from ktrial.machine.nvidia import LIBRARY, Nvml, NvmlAbsent, NvmlFailed
from ktrial.recordings.blocks import FIRST_OWN_GROUP, OwnSource, layout_block, rows_block, source_block
from ktrial.recordings.watching import HandedBlocks, MachineView, WatchEnded

NAME = "nvidia"
#: Default samples per second; the cards average their load over longer times.
USUAL_HZ = 5.0
#: Seconds to wait for a read in progress.
_END_S = 2.0


class NvidiaSource:
    """Reads NVIDIA cards until `stop`; `blocks` returns the data since its last call."""

    def __init__(self, hertz: float = USUAL_HZ, library: str = LIBRARY) -> None:
        self._period_ns = round(1e9 / hertz)
        self._library = library
        self._lock = threading.Lock()
        self._times_ns: list[int] = []
        self._rows: list[list[int]] = []
        self._told_columns = False
        self._report = OwnSource(source=NAME, state="active", period_ns=self._period_ns)
        self._told: OwnSource | None = None
        self._stop = threading.Event()
        self._nvml: Nvml | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to read, or store the reason why there is nothing to read."""
        try:
            self._nvml = Nvml(self._library)
        except (NvmlAbsent, NvmlFailed) as error:
            state: Literal["absent", "failed"] = "absent" if isinstance(error, NvmlAbsent) else "failed"
            self._report = OwnSource(source=NAME, state=state, why=str(error))
            return
        self._thread = threading.Thread(target=self._read, args=(self._nvml,), name=NAME, daemon=True)
        self._thread.start()

    def blocks(self) -> bytes:
        with self._lock:
            times_ns, rows, report = self._times_ns, self._rows, self._report
            self._times_ns, self._rows = [], []
        found = b""
        if rows and self._nvml is not None:
            if not self._told_columns:
                self._told_columns = True
                found += layout_block(FIRST_OWN_GROUP, NAME, self._nvml.columns)
            found += rows_block(FIRST_OWN_GROUP, times_ns, rows)
        if report != self._told:
            self._told = report
            found += source_block(report)
        return found

    def stop(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(_END_S)
            # Abandon a thread that hangs in the driver, together with its library.
            if not self._thread.is_alive() and self._nvml is not None:
                self._nvml.close()
            self._thread = None

    def _read(self, nvml: Nvml) -> None:
        due_ns = time.monotonic_ns()
        taken = late_ns = 0
        while not self._stop.wait(max(0, due_ns - time.monotonic_ns()) / 1e9):
            at_ns = time.monotonic_ns()
            late_ns = max(late_ns, at_ns - due_ns)
            try:
                row = nvml.read()
            except NvmlFailed as error:
                with self._lock:
                    self._report = self._report_of(taken, late_ns, str(error))
                return
            taken += 1
            with self._lock:
                self._times_ns.append(at_ns)
                self._rows.append(row)
                self._report = self._report_of(taken, late_ns)
            due_ns = max(due_ns + self._period_ns, at_ns)

    def _report_of(self, taken: int, late_ns: int, why: str | None = None) -> OwnSource:
        return OwnSource(
            source=NAME,
            state="active" if why is None else "failed",
            why=why,
            period_ns=self._period_ns,
            taken=taken,
            late_ns=late_ns,
            cpu_ns=time.thread_time_ns(),
        )


_FASTEST_HZ = 100.0


class AgentWatching:
    """Implements `bench.run.ports.Watching`: records a machine into `file`, including the data that `beside` reads."""

    def __init__(
        self, session: AgentSession, interrupts: Interrupts, file: Path, beside: NvidiaSource | None = None
    ) -> None:
        self._session = session
        self._interrupts = interrupts
        self._file = file
        self._beside = beside

    def watch(
        self, fields: dict[str, Any], begun: Callable[[], None]
    ) -> Iterator[MachineView | HandedBlocks | WatchEnded]:
        """Start the agent, call `begun` and yield the agent's reports.

        Ctrl-C ends the watch cleanly. Raise AgentError if the agent cannot watch.
        """
        with _new_file(self._file) as descriptor:
            try:
                self._session.send("watch", **fields)
                self._session.receive_begun("watch")
                if self._beside is not None:
                    self._beside.start()
                begun()
                yield from self._lines(descriptor, self._file)
            finally:
                if self._beside is not None:
                    self._beside.stop()

    def _lines(self, descriptor: int, file: Path) -> Iterator[MachineView | HandedBlocks | WatchEnded]:
        interrupted = False
        while True:
            try:
                self._session.wait(self._interrupts)
            except KeyboardInterrupt:
                if interrupted:
                    raise
                interrupted = True
                self._session.hang_up()
            line = self._session.receive_next("watch")
            if not isinstance(line, Progress):
                if self._beside is not None:
                    self._beside.stop()
                    _write(descriptor, self._beside.blocks(), file)
                yield msgspec.structs.replace(_decode_as(line, WatchEnded), interrupted=interrupted)
                return
            if line.chunk is not None:
                data = read_bytes(line.chunk)
                # The agent's blocks come first, because the first one begins the file.
                own = self._beside.blocks() if self._beside is not None else b""
                _write(descriptor, data + own, file)
                yield HandedBlocks(data)
            if line.seen is not None:
                yield _decode_as(line.seen, MachineView)


def nvidia(hertz: float | None) -> NvidiaSource | None:
    """Return a source that samples NVIDIA cards `hertz` times a second, by default USUAL_HZ; None if `hertz` is 0.

    Raise BadInput for an invalid rate.
    """
    if hertz == 0:
        return None
    if hertz is not None and not 1 <= hertz <= _FASTEST_HZ:
        raise BadInput(
            f"--rate {NAME}: expected 0, or 1 to {_FASTEST_HZ:g} Hz, got {hertz:g}",
            hint=f"for example  --rate {NAME}=1",
        )
    return NvidiaSource(USUAL_HZ if hertz is None else hertz)


@contextmanager
def _new_file(file: Path) -> Iterator[int]:
    """Create the file and its folder; remove both again if nothing was written."""
    folder_is_new = not file.parent.exists()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    except FileExistsError:
        raise BadInput(f"cannot create {file}: it exists already", hint="give another folder with -o") from None
    except OSError as error:
        raise BadInput(
            f"cannot write {file}: {error.strerror}", hint="free some space, or make the folder writable"
        ) from None
    try:
        yield descriptor
    finally:
        if not os.fstat(descriptor).st_size:
            file.unlink(missing_ok=True)
            with suppress(OSError):
                if folder_is_new:
                    file.parent.rmdir()
        os.close(descriptor)


def _write(descriptor: int, data: bytes, file: Path) -> None:
    left = memoryview(data)
    try:
        while left:
            left = left[os.write(descriptor, left) :]
    except OSError as error:
        raise AgentError(
            "io",
            f"cannot write {file}: {error.strerror}",
            hint=f"read the recording up to the cut with `ktrial diagnose {file}`",
        ) from None


def _decode_as(found: dict[str, Any], shape: type[Any]) -> Any:
    try:
        return msgspec.convert(found, shape)
    except msgspec.ValidationError as error:
        why = in_lower_case(str(error))
        raise AgentError("lost", f"cannot parse the agent's report: {why}", hint="run the watch again") from None
