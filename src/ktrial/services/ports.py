# SPDX-License-Identifier: Apache-2.0
"""What services need of the world."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ktrial.domain.facts import FactBook
from ktrial.domain.reading import Reading


class Machine(Protocol):
    """One session on the machine under test."""

    @property
    def is_root(self) -> bool:
        """Whether this session reads and writes as root."""

    def facts(self, only: Sequence[str] = ()) -> FactBook:
        """Facts named in `only` or below a name in it (`cpu` takes `cpu.model`); all when it is empty."""

    def list(self, patterns: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
        """Paths that fit each pattern."""

    def read(self, paths: Sequence[str]) -> Mapping[str, Reading | None]:
        """What each file shows; None where there is no such file."""

    def request(self, do: str, **fields: Any) -> dict[str, Any]:
        """Any other request of the agent's protocol: the content of its `ok`."""
