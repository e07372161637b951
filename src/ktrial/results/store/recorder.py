# SPDX-License-Identifier: Apache-2.0
"""Record the runs of a measurement in the store; implements `bench.run.ports.RunStore`."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping

import msgspec

from ktrial.bench.record import Earlier, RunRecord, Session
from ktrial.results.model import record_of, stored_run, stored_session
from ktrial.results.store.runs import Store


class Recorder:
    """Records runs in the store, which `open_store` opens on first use. `unix_ms` returns the wall-clock time."""

    def __init__(self, open_store: Callable[[], Store], unix_ms: Callable[[], int]) -> None:
        self._open_store = open_store
        self._unix_ms = unix_ms

    def new_name(self) -> str:
        return f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime(self._unix_ms() / 1000))}-{secrets.token_hex(3)}"

    def where(self, session: str) -> str:
        return f"{self._open_store().shown}, session {session}"

    def earlier(self, plan: str) -> Earlier | None:
        """Take over the unfinished measurement of `plan` and return its runs.

        Return None if there is no such measurement, or if its writer is alive.
        """
        store = self._open_store()
        store.mark_interrupted()
        name = store.take_up(plan)
        return None if name is None else self._unfinished_of(name)

    def of_session(self, name: str) -> Earlier | None:
        store = self._open_store()
        store.mark_interrupted()
        return self._unfinished_of(name) if store.take_up_session(name) else None

    def records(self, session: str) -> tuple[RunRecord, ...]:
        """Return the finished runs of a session, without taking it over."""
        store = self._open_store()
        stored = store.session(session)
        return tuple(record for one in store.runs(session) if (record := record_of(one, stored)) is not None)

    def _unfinished_of(self, name: str) -> Earlier | None:
        store = self._open_store()
        stored = store.session(name)
        runs = list(store.runs(name))
        if any(run.state == "running" for run in runs):
            return None
        return Earlier(
            session=msgspec.convert(stored.document, Session),
            records=tuple(record for one in runs if (record := record_of(one, stored)) is not None),
            next_run=max((run.number for run in runs), default=0) + 1,
        )

    def begin(self, session: Session, plan: str) -> None:
        stored = stored_session(session, self._unix_ms())
        self._open_store().begin(stored, plan)

    def keep_state(self, session: str, place: str, state: bytes) -> None:
        self._open_store().keep_state(session, place, state)

    def start(self, session: str, run: int, benchmark: str, *, warm_up: bool) -> None:
        self._open_store().start(session, run, benchmark, self._unix_ms(), warm_up=warm_up)

    def give_up(self, session: str, run: int) -> None:
        self._open_store().mark_interrupted(session, run)

    def save(self, record: RunRecord, parts: Mapping[str, bytes]) -> str:
        self._open_store().save(stored_run(record), parts)
        return f"{record.session.session}/{record.run}"
