# SPDX-License-Identifier: Apache-2.0
"""The interfaces of a store that services use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from ktrial.results.model import StoredRun, StoredSession


class ReadResults(Protocol):
    """Read access to sessions and their runs."""

    def sessions(self) -> tuple[StoredSession, ...]:
        """Return all sessions, newest first."""

    def runs(self, session: str) -> Iterator[StoredRun]: ...

    def raw(self, digest: str) -> bytes:
        """Return the raw bytes with this SHA-256."""

    def states(self, session: str) -> dict[str, str]:
        """Return the SHA-256 of each stored state of the machine, by place: `begin`, `end`, or a trial's arm."""


class Results(ReadResults, Protocol):
    """Reads a store, and adds whole sessions to it."""

    def save_all(
        self,
        session: StoredSession,
        found: Iterable[tuple[StoredRun, Mapping[str, bytes]]],
        places: Mapping[str, bytes] = {},
    ) -> None:
        """Store a whole session with its runs and the machine's states, all or nothing."""


class ImportStore(Protocol):
    """A store for results of other tools."""

    def sessions(self) -> tuple[StoredSession, ...]: ...

    def save_all(self, session: StoredSession, found: Iterable[tuple[StoredRun, Mapping[str, bytes]]]) -> None:
        """Store a whole session with its runs, all or nothing."""
