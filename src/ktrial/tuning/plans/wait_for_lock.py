# SPDX-License-Identifier: Apache-2.0
"""A session that waits while another transaction holds the agent's lock."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ktrial.kit.errors import Busy
from ktrial.machine.facts import FactBook
from ktrial.machine.ports import Clock, Machine
from ktrial.machine.reading import Reading

#: Seconds to wait for another transaction, and between two attempts.
LIMIT_S, _PAUSE_S = 60.0, 0.2


class PatientMachine:
    """A machine whose requests wait while another transaction holds the lock; implements `machine.ports.Machine`.

    A PatientMachine calls `tell` once for each transaction that a request has to wait for.
    """

    def __init__(self, machine: Machine, clock: Clock, tell: Callable[[str], None], limit_s: float = LIMIT_S) -> None:
        self._machine = machine
        self._clock = clock
        self._tell = tell
        self._limit_s = limit_s

    @property
    def is_root(self) -> bool:
        return self._machine.is_root

    def facts(self, only: Sequence[str] = ()) -> FactBook:
        """Return the facts that `only` names (`cpu` includes `cpu.model`); all facts if `only` is empty."""
        return self._machine.facts(only)

    def list(self, patterns: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
        return self._machine.list(patterns)

    def read(self, paths: Sequence[str]) -> Mapping[str, Reading | None]:
        return self._machine.read(paths)

    def request(self, do: str, **fields: Any) -> dict[str, Any]:
        """Send a request; repeat it until the limit while the agent is busy, because a busy agent has done nothing."""
        end_ns = self._clock.monotonic_ns() + int(self._limit_s * 1e9)
        told: str | None = None
        while True:
            try:
                return self._machine.request(do, **fields)
            except Busy as error:
                if self._clock.monotonic_ns() >= end_ns:
                    message = f"{error.message}, for more than {self._limit_s:g} s"
                    raise Busy(error.kind, message, hint=error.hint) from None
                if told != error.message:
                    told = error.message
                    self._tell(f"waiting up to {self._limit_s:g} s: {error.message}")
            self._clock.sleep(_PAUSE_S)
