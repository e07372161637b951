# SPDX-License-Identifier: Apache-2.0
"""Reads what `ktrial bench` stored for the user of a home folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from ktrial.bench.record import RunRecord
from ktrial.results.store.database import Database
from ktrial.results.store.runs import Store

STATE = ".local/state"


def state(home: Path, below: str = STATE) -> Path:
    """Return the user's state folder; `below` is the path of XDG_STATE_HOME relative to the home folder."""
    return home / below / "ktrial"


def work(home: Path) -> Path:
    """Return the folder in which runs work."""
    return state(home) / "measuring" / "work"


def records(home: Path, below: str = STATE) -> list[Any]:
    """Return all run records as documents, in order, after checking that ktrial can read each."""
    file = state(home, below) / "results.db"
    if not file.exists():
        return []
    store = Store(Database.open(str(file)))
    found = []
    for session in reversed(store.sessions()):
        for run in store.runs(session.session):
            if run.document is not None:
                found.append({**run.document, "session": session.document})
                msgspec.convert(found[-1], RunRecord)
    store.close()
    return found


def raw(home: Path, artefact: dict[str, Any], below: str = STATE) -> bytes:
    """Return the content of a record's artefact."""
    store = Store(Database.open(str(state(home, below) / "results.db")))
    try:
        return store.raw(artefact["sha256"])
    finally:
        store.close()
