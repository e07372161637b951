# SPDX-License-Identifier: Apache-2.0
"""A source that the head reads itself beside an agent's, in a thread, on the same monotonic clock."""

from __future__ import annotations

import threading
import time

from ktrial.machine.nvidia import LIBRARY, Nvml, NvmlAbsent, NvmlFailed
from ktrial.recordings.blocks import FIRST_OWN_GROUP, OwnSource, layout_block, rows_block, source_block

NAME = "nvidia"
#: Times a second unless asked otherwise: the cards' own load is a mean over longer.
USUAL_HZ = 5.0
#: Seconds that are waited for a read under way.
_END_S = 2.0


class NvidiaSource:
    """Reads until `stop`; `blocks` are what came since it was asked last."""

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
        """Begin, or note why there is nothing to read."""
        try:
            self._nvml = Nvml(self._library)
        except NvmlAbsent as error:
            self._report = OwnSource(source=NAME, state="absent", why=str(error))
            return
        except NvmlFailed as error:
            self._report = OwnSource(source=NAME, state="failed", why=str(error))
            return
        self._thread = threading.Thread(target=self._read, args=(self._nvml,), name=NAME, daemon=True)
        self._thread.start()

    def blocks(self) -> bytes:
        """Blocks for the recording."""
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
        """End it."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(_END_S)
            # One that hangs in the driver is left behind, with the library that it is in.
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
                self._end(str(error), taken, late_ns)
                return
            taken += 1
            report = OwnSource(
                source=NAME,
                state="active",
                period_ns=self._period_ns,
                taken=taken,
                late_ns=late_ns,
                cpu_ns=time.thread_time_ns(),
            )
            with self._lock:
                self._times_ns.append(at_ns)
                self._rows.append(row)
                self._report = report
            due_ns = max(due_ns + self._period_ns, at_ns)

    def _end(self, why: str, taken: int, late_ns: int) -> None:
        with self._lock:
            self._report = OwnSource(
                source=NAME,
                state="failed",
                why=why,
                period_ns=self._period_ns,
                taken=taken,
                late_ns=late_ns,
                cpu_ns=time.thread_time_ns(),
            )
