# SPDX-License-Identifier: Apache-2.0
"""What the head needs of a machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from ktrial.machine.facts import FactBook
    from ktrial.machine.reading import Reading
    from ktrial.machine.sensors import Samples


class Machine(Protocol):
    """One session on the machine under test."""

    @property
    def is_root(self) -> bool:
        """Whether this session reads and writes as root."""

    def facts(self, only: Sequence[str] = ()) -> FactBook:
        """Return facts named in `only` or below a name in it (`cpu` takes `cpu.model`); all when it is empty."""

    def list(self, patterns: Sequence[str]) -> Mapping[str, tuple[str, ...]]: ...

    def read(self, paths: Sequence[str]) -> Mapping[str, Reading | None]:
        """Return what each file shows; None if there is no such file."""

    def request(self, do: str, **fields: Any) -> dict[str, Any]:
        """Any other request of the agent's protocol: the content of its `ok`."""


class Sampling(Protocol):
    """Reads the machine's sensors beside a run."""

    def once(self) -> Samples: ...

    def start(self, period_s: float = 1.0) -> None:
        """Begin: a sample at once, then one each period (0.1 to 60 seconds)."""

    def stop(self) -> Samples:
        """End it with a last sample. Raises AgentError when the samples were lost."""


class Clock(Protocol):
    """The head's clocks."""

    def monotonic_ns(self) -> int:
        """Nanoseconds; never steps."""

    def unix_ms(self) -> int:
        """Milliseconds since 1970; may step."""

    def sleep(self, seconds: float) -> None: ...


class SleepClock(Protocol):
    """Tells suspends of the machine."""

    def slept_s(self) -> float:
        """Return seconds that the machine was suspended since it was started."""
