# SPDX-License-Identifier: Apache-2.0
"""A machine made of a dictionary, for tests."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from typing import Any

from ktrial.machine.facts import Fact, FactBook
from ktrial.machine.reading import Reading


class FakeMachine:
    """Implements `machine.ports.Machine`; values are texts, or readings for files that cannot be read."""

    def __init__(
        self, files: Mapping[str, str | Reading], facts: Mapping[str, Any] | None = None, *, is_root: bool = True
    ) -> None:
        self.files = dict(files)
        self.listings = 0
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.answers: dict[str, dict[str, Any]] = {}
        self._facts = FactBook({name: _fact(value) for name, value in (facts or {}).items()})
        self._is_root = is_root

    @property
    def is_root(self) -> bool:
        return self._is_root

    def facts(self, only: Sequence[str] = ()) -> FactBook:
        wanted = tuple(f"{name}." for name in only) or ("",)
        return FactBook({name: fact for name, fact in self._facts.items() if f"{name}.".startswith(wanted)})

    def list(self, patterns: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
        self.listings += 1
        return {pattern: tuple(path for path in self.files if _fits(path, pattern)) for pattern in patterns}

    def read(self, paths: Sequence[str]) -> Mapping[str, Reading | None]:
        return {path: self._reading(path) for path in paths}

    def request(self, do: str, **fields: Any) -> dict[str, Any]:
        self.requests.append((do, fields))
        return self.answers[do]

    def _reading(self, path: str) -> Reading | None:
        value = self.files.get(path)
        if value is None or isinstance(value, Reading):
            return value
        return Reading(data=value.encode(), mode=0o644)


def step_told(**fields: Any) -> dict[str, Any]:
    """Return a step in the form of the agent's replies, with all possible fields."""
    blank = dict.fromkeys(("value", "now", "wanted", "old", "new"))
    return {"step": 0, "path": "/p", "outcome": "accepted", **blank, "message": "", **fields}


def transaction_told(**fields: Any) -> dict[str, Any]:
    """Return a transaction in the form of the agent's replies, with all possible fields."""
    kept = {"title": "", "lease": {"kind": "keep"}, "began_unix_ms": 0, "this_boot": True}
    return {"transaction": 1, "state": "applied", **kept, "steps": [], **fields}


def _fits(path: str, pattern: str) -> bool:
    parts, wanted = path.split("/"), pattern.split("/")
    if wanted[-1] == "**" and len(parts) >= len(wanted):
        wanted = [*wanted[:-1], *["*"] * (len(parts) - len(wanted) + 1)]
    return len(parts) == len(wanted) and all(map(fnmatch.fnmatchcase, parts, wanted))


def _fact(value: Any) -> Fact:
    return value if isinstance(value, Fact) else Fact(value=value)
