# SPDX-License-Identifier: Apache-2.0
"""Facts as text and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ktrial.kit.tables import labelled
from ktrial.machine.facts import Fact, FactBook

_LABEL_COLUMNS = 26
_SHOWN_ENTRIES = 12


def facts_json(facts: FactBook) -> dict[str, Any]:
    return {"schema": "ktrial.facts/1", "facts": {name: msgspec.to_builtins(fact) for name, fact in facts.items()}}


def facts_text(facts: FactBook, *, width: int) -> str:
    return "".join(_fact(name, facts[name], width) + "\n" for name in facts)


def fact_words(fact: Fact) -> str:
    if fact.absent is not None:
        return f"none: {fact.absent}"
    if fact.unknown is not None:
        return f"unknown: {fact.unknown}"
    return _scalar(fact.value)


def _fact(name: str, fact: Fact, width: int) -> str:
    if not fact.known:
        return labelled(name, fact_words(fact), width=width, label_columns=_LABEL_COLUMNS)
    if isinstance(fact.value, Mapping):
        entries = [f"{key}={_scalar(value)}" for key, value in fact.value.items()]
        more = f" … {len(entries) - _SHOWN_ENTRIES} more (--json shows all)" if len(entries) > _SHOWN_ENTRIES else ""
        return labelled(name, "; ".join(entries[:_SHOWN_ENTRIES]) + more, width=width, label_columns=_LABEL_COLUMNS)
    if isinstance(fact.value, list) and fact.value and isinstance(fact.value[0], Mapping):
        lines = []
        for number, record in enumerate(fact.value):
            text = ", ".join(f"{key} {_scalar(value)}" for key, value in record.items() if value is not None)
            lines.append(labelled(name if number == 0 else "", text, width=width, label_columns=_LABEL_COLUMNS))
        return "\n".join(lines)
    return labelled(name, fact_words(fact), width=width, label_columns=_LABEL_COLUMNS)


def _scalar(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return " ".join(_scalar(item) for item in value) if value else "none"
    if isinstance(value, Mapping):
        return "(" + ", ".join(f"{key} {_scalar(item)}" for key, item in value.items()) + ")"
    return str(value)
