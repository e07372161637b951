# SPDX-License-Identifier: Apache-2.0
"""Find a knob by name, its instances on a machine, and the reason if it is missing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ktrial.kit.errors import BadInput, UnknownName
from ktrial.machine.facts import FactBook
from ktrial.machine.reading import InstanceState, KnobState
from ktrial.tuning.knobs.address import parse_address, selector_conditions, selects
from ktrial.tuning.knobs.knob import INSTANCE_FACTS, Knob

#: An error proposes at most this many knobs for a name that people use.
_MOST_MEANT = 3
_OWN = "your own go into ~/.config/ktrial/knobs/"


def find_knob(address_text: str, knobs: Mapping[str, Knob]) -> Knob:
    """Return the knob that `address_text` names. Raise UnknownName with suggestions if the catalog lacks it."""
    name = parse_address(address_text).knob
    knob = known_knob(name, knobs)
    if knob is None:
        is_whole = "." in name or ":" in name
        meant = [] if is_whole else [one.id for one in knobs_called(name, knobs)[:_MOST_MEANT]]
        hint = f"did you mean {' or '.join(meant)}?" if meant else "run `ktrial knobs` to list all knobs; " + _OWN
        raise UnknownName("knob", name, () if meant else knobs, hint=hint)
    return knob


def knobs_called(name: str, knobs: Mapping[str, Knob]) -> list[Knob]:
    """Return the knobs that people may mean by `name`, the likeliest first.

    `name` may be a knob's name without its prefix, or the name of a file or folder of sysfs. A folder means above all
    the file `enabled` in it, as for `transparent_hugepage`.
    """
    folded = name.lower().replace("-", "_")
    ranks: dict[str, int] = {}
    for knob in knobs.values():
        parts = [path.lower().replace("-", "_").split("/") for path in knob.files]
        if any(part[-2:] == [folded, "enabled"] for part in parts):
            ranks[knob.id] = 0
        elif knob.short_name.lower().replace("-", "_") == folded:
            ranks[knob.id] = 1 if knob.files else 2
        elif any(part[-1] == folded for part in parts):
            ranks[knob.id] = 3
        elif any(part[-2] == folded for part in parts):
            ranks[knob.id] = 4
    return [knobs[one] for one in sorted(ranks, key=lambda one: ranks[one])]


def known_knob(name: str, knobs: Mapping[str, Knob]) -> Knob | None:
    """Return the knob that has this name, or had it as a sysctl on older kernels; None if there is none."""
    place = f"/proc/sys/{name.replace('.', '/')}"
    return knobs.get(name) or next((one for one in knobs.values() if place in one.files), None)


def refuse_knob(word: str, knobs: Mapping[str, Knob]) -> None:
    """Raise BadInput if `word` names a knob, because a knob needs a value."""
    knob = knobs.get(word.partition("@")[0])
    if knob is not None:
        instance = "@NAME" if knob.placeholders and knob.kind != "zram" and "@" not in word else ""
        raise BadInput(
            f"{word} is a knob and needs a value",
            hint=f"write {word}{instance}=VALUE; `ktrial explain {knob.id}` lists the values",
        )


def absence(knob: Knob, state: KnobState, facts: FactBook) -> str:
    """Return why a knob is missing here: this kernel has dropped it, something hides it, or the machine lacks it."""
    if knob.gone and (state.blocked is None or not _may_be_in(knob, str(facts.value("kernel.release") or ""))):
        return f"not on this kernel. {knob.gone}"
    if state.blocked is not None:
        return state.blocked
    if knob.only:
        return f"not on this kernel: only on {knob.only} kernels"
    return "not on this machine: neither the kernel's configuration nor a device here offers it"


def _may_be_in(knob: Knob, release: str) -> bool:
    """Return whether `release` is not newer than the last kernel with the knob."""
    last, here = (re.match(r"(\d+)\.(\d+)", text) for text in (knob.until or "", release))
    return last is not None and here is not None and [*map(int, here.groups())] <= [*map(int, last.groups())]


def successors(knob: Knob, knobs: Mapping[str, Knob]) -> str | None:
    """Return a hint that names the knobs that replaced this one; None if the catalog has none of them."""
    names = [name for name in knob.successor if name in knobs]
    return f"use {' or '.join(names)} instead" if names else None


def meant_instances(
    knob: Knob, selector: str, instances: Iterable[InstanceState], facts: FactBook
) -> list[InstanceState]:
    """Return the instances that a selector matches. Raise BadInput for a field that no instance has."""
    source = INSTANCE_FACTS.get(knob.placeholders[0]) if knob.placeholders else None
    if selector.startswith("["):
        _check_fields(knob, selector, facts.records(source) if source else ())
    return [
        instance
        for instance in instances
        if selects(
            selector,
            instance.label,
            facts.record(source, instance.label.partition("/")[0]) if source else None,
            nested=knob.nested,
        )
    ]


def _check_fields(knob: Knob, selector: str, records: Iterable[Mapping[str, Any]]) -> None:
    fields = list(dict.fromkeys(field for record in records for field in record))
    for field in selector_conditions(selector):
        if fields and field not in fields:
            raise UnknownName(f"field of {knob.id}'s instances", field, fields, hint=f"use one of: {', '.join(fields)}")
    if not fields:
        raise BadInput(
            f"cannot select instances of {knob.id} by field: no facts describe them",
            hint=f"name the instances, as in {knob.id}@NAME or {knob.id}@'*'",
        )
