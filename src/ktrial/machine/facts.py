# SPDX-License-Identifier: Apache-2.0
"""Facts of a machine: each has a value, is known to be absent, or could not be determined."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec


class Fact(msgspec.Struct, frozen=True, omit_defaults=True):
    """One fact: either a value, or why it is absent, or why it is unknown. JSON `null` never means "no"."""

    value: Any = None
    absent: str | None = None
    unknown: str | None = None

    @property
    def known(self) -> bool:
        return self.absent is None and self.unknown is None

    @property
    def why_missing(self) -> str:
        """Why the fact has no value; empty if it has one."""
        return self.absent or self.unknown or ""


class FactKind(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The description of a fact in `facts.toml`.

    The value of a `device.*` fact is the `field` of one device in the fact `of`, which is a list of devices.
    """

    name: str
    type: str
    what: str
    of: str | None = None
    field: str | None = None


class FactBook(Mapping[str, Fact]):
    """Facts of one machine, by name."""

    def __init__(self, facts: Mapping[str, Fact]) -> None:
        self._facts = dict(facts)

    def __getitem__(self, name: str) -> Fact:
        return self._facts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._facts)

    def __len__(self) -> int:
        return len(self._facts)

    def value(self, name: str) -> Any:
        """Return the fact's value; None if the fact is absent, unknown or was not requested."""
        fact = self._facts.get(name)
        return fact.value if fact is not None and fact.known else None

    def records(self, name: str) -> tuple[Mapping[str, Any], ...]:
        """Return the rows of a fact that is a list of tables; empty if the fact is missing."""
        value = self.value(name)
        if not isinstance(value, list | tuple):
            return ()
        return tuple(record for record in value if isinstance(record, Mapping))

    def record(self, name: str, label: str) -> Mapping[str, Any] | None:
        return next((record for record in self.records(name) if record.get("name") == label), None)

    def with_device(self, kinds: Mapping[str, FactKind], source: str, label: str) -> FactBook:
        """Return a copy with `device.*` facts from the row `label` of the table fact `source`."""
        record = self.record(source, label)
        extra: dict[str, Fact] = {}
        for kind in kinds.values():
            if kind.of is None or kind.field is None:
                continue
            if record is None or record.get(kind.field) is None:
                extra[kind.name] = Fact(unknown=f"{label} has no fact {kind.field!r}")
            else:
                extra[kind.name] = Fact(value=record[kind.field])
        return FactBook({**self._facts, **extra})


def machine_of(facts: FactBook) -> str:
    """Return CPU, memory and virtualisation as a text; ktrial uses it to find results of machines like this one."""
    names = ("cpu.model", "cpu.threads", "memory.total", "virtualisation.kind")
    return ", ".join(f"{name.partition('.')[2]} {facts.value(name)}" for name in names)
