# SPDX-License-Identifier: Apache-2.0
"""What services need of a store of results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

from ktrial.results.model import StoredRun, StoredSession

if TYPE_CHECKING:
    from ktrial.results.model import StoredRun, StoredSession


class ReadResults(Protocol):
    """Sessions and their runs, to be read."""

    def sessions(self) -> tuple[StoredSession, ...]:
        """Return all sessions, the newest first."""

    def runs(self, session: str) -> Iterator[StoredRun]: ...

    def raw(self, digest: str) -> bytes:
        """Raw bytes by their SHA-256."""

    def states(self, session: str) -> dict[str, str]:
        """Place -> SHA-256 of the machine's state there."""


class Results(ReadResults, Protocol):
    """Sessions and their runs."""

    def save_all(
        self,
        session: StoredSession,
        found: Iterable[tuple[StoredRun, Mapping[str, bytes]]],
        places: Mapping[str, bytes] = {},
    ) -> None:
        """A whole session that was measured elsewhere, with the machine's states, or nothing of it."""


class ImportStore(Protocol):
    """Where results of other tools are kept."""

    def sessions(self) -> tuple[StoredSession, ...]: ...

    def save_all(self, session: StoredSession, found: Iterable[tuple[StoredRun, Mapping[str, bytes]]]) -> None:
        """Keep a whole session that was measured elsewhere, or nothing of it."""
