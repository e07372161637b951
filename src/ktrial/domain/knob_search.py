# SPDX-License-Identifier: Apache-2.0
"""Finding what somebody named: a knob of the catalog, its instances on a machine, and why it is not there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ktrial.domain.address import parse_address, selector_conditions, selects
from ktrial.domain.errors import BadInput, UnknownName
from ktrial.domain.facts import FactBook
from ktrial.domain.knob import INSTANCE_FACTS, Knob
from ktrial.domain.reading import InstanceState, KnobState


def find_knob(address_text: str, knobs: Mapping[str, Knob]) -> Knob:
    """The catalog's entry, or UnknownName with a did-you-mean."""
    name = parse_address(address_text).knob
    knob = knobs.get(name) or _by_sysctl_name(name, knobs)
    if knob is None:
        raise UnknownName(
            "knob", name, knobs, hint="`ktrial knobs` lists all; own ones go into ~/.config/ktrial/knobs/"
        )
    return knob


def _by_sysctl_name(name: str, knobs: Mapping[str, Knob]) -> Knob | None:
    """A knob that was a sysctl on older kernels is also found under that name."""
    place = f"/proc/sys/{name.replace('.', '/')}"
    return next((knob for knob in knobs.values() if place in knob.files), None)


def absence(knob: Knob, state: KnobState) -> str:
    """Why a knob is not on this machine, in words."""
    if state.blocked is not None:
        return f"{state.blocked} (on newer kernels it is gone: {knob.gone})" if knob.gone else state.blocked
    if knob.gone:
        return f"not on this kernel: {knob.gone}"
    if knob.only:
        return f"not on this kernel: only on {knob.only} kernels"
    return "not on this machine: neither the kernel's configuration nor a device here offers it"


def successors(knob: Knob, knobs: Mapping[str, Knob]) -> str | None:
    """What took a knob's place, as a hint."""
    names = [name for name in knob.successor if name in knobs]
    return f"its place was taken by {', '.join(names)}" if names else None


def meant_instances(
    knob: Knob, selector: str, instances: Iterable[InstanceState], facts: FactBook
) -> list[InstanceState]:
    """The instances that a selector means. Raises BadInput for a field that no record of such instances has."""
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
            raise UnknownName(f"field of {knob.id}'s instances", field, fields, hint=f"there are {', '.join(fields)}")
    if not fields:
        raise BadInput(
            f"no facts are known about the instances of {knob.id}", hint=f"name them: {knob.id}@NAME, or {knob.id}@'*'"
        )
