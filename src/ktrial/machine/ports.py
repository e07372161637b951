# SPDX-License-Identifier: Apache-2.0
"""Interfaces through which the head reaches a machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from ktrial.machine.facts import FactBook
    from ktrial.machine.reading import Reading
    from ktrial.machine.sensors import Samples


class Machine(Protocol):
    """A session on the machine under test, through which the head reads it and sends requests."""

    @property
    def is_root(self) -> bool:
        """Whether this session reads and writes as root."""

    def facts(self, only: Sequence[str] = ()) -> FactBook:
        """Return the facts that `only` names or includes (`cpu` includes `cpu.model`); all if `only` is empty."""

    def list(self, patterns: Sequence[str]) -> Mapping[str, tuple[str, ...]]: ...

    def read(self, paths: Sequence[str]) -> Mapping[str, Reading | None]:
        """Return the content of each file; None for a missing file."""

    def request(self, do: str, **fields: Any) -> dict[str, Any]:
        """Send a request of the agent's protocol, and return the content of `ok` in the reply."""


class Sampling(Protocol):
    """Samples the machine's sensors during a run."""

    def once(self) -> Samples: ...

    def start(self, period_s: float = 1.0) -> None:
        """Take a sample now. After this call, take one more each period (0.1 to 60 seconds)."""

    def stop(self) -> Samples:
        """Take a last sample and return all samples. Raise AgentError if they were lost."""


class Clock(Protocol):
    """The head's clocks."""

    def monotonic_ns(self) -> int:
        """Return nanoseconds of a clock that never jumps."""

    def unix_ms(self) -> int:
        """Return milliseconds since 1970; this clock may jump."""

    def sleep(self, seconds: float) -> None: ...


class SleepClock(Protocol):
    """A clock that measures how long the machine was suspended."""

    def slept_s(self) -> float:
        """Return for how many seconds the machine has been suspended since boot."""
