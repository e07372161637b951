# SPDX-License-Identifier: Apache-2.0
"""The changes that an update of ktrial made to a kept profile."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from ktrial.machine.reading import KnobState
from ktrial.tuning.lasting.model import LastingEntry
from ktrial.tuning.plans.model import Refusal, Why


class SettingUpdate(msgspec.Struct, frozen=True):
    """A setting that changed in the profile; without `kept` it is new, without `now` the profile dropped it."""

    address: str
    kept: str | None
    now: str | None


class ProfileUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """The changes to a kept profile; `problem` says why they cannot be accepted."""

    profile: str
    settings: tuple[SettingUpdate, ...] = ()
    problem: str | None = None


class ProfileOutcome(msgspec.Struct, frozen=True):
    """What keeping the present version of a profile would give: lasting entries, and addresses that do not last."""

    entries: tuple[LastingEntry, ...]
    left_out: frozenset[str]
    refusals: tuple[Refusal, ...]
    states: Mapping[str, KnobState]


def setting_updates(
    before: Sequence[Mapping[str, Any]],
    after: Sequence[Mapping[str, Any]],
    planned: ProfileOutcome,
    own: Mapping[str, str],
    others: Iterable[str],
) -> tuple[SettingUpdate, ...]:
    """Return the difference between two versions of a profile on this machine.

    `own` maps the kept settings of the profile to their values; `others` are settings kept for another reason.
    Only knobs whose setting changed count, because a computed value may differ without an update.
    """
    changed = {_knob(one) for one in (*before, *after) if (one in before) != (one in after)}
    present = {_knob(one) for one in after}
    old_names = {one["knob"] for one in before}
    new = {_knob(one) for one in after if one["knob"] not in old_names}
    values = {address: value for entry in planned.entries for address, value in entry.values.items()}
    found = []
    for address, kept in own.items():
        knob = address.partition("@")[0]
        if knob not in changed:
            continue
        if address in values:
            if values[address] != kept:
                found.append(SettingUpdate(address, kept, values[address]))
        elif knob not in present or _is_excluded(address, planned):
            found.append(SettingUpdate(address, kept, None))
    taken = {*own, *others}
    found += [
        SettingUpdate(address, None, value)
        for address, value in values.items()
        if address not in taken and address.partition("@")[0] in new
    ]
    return tuple(found)


def _knob(setting: Mapping[str, Any]) -> str:
    return str(setting["knob"]).partition("@")[0]


def _is_excluded(address: str, planned: ProfileOutcome) -> bool:
    """Return whether the profile dropped a setting that is still possible here."""
    refusal = next((one for one in planned.refusals if one.address == address), None)
    if refusal is not None:
        return refusal.kind is Why.CONDITION
    knob, _, label = address.partition("@")
    state = planned.states.get(knob)
    is_here = state is not None and any(one.label == label for one in state.instances)
    return is_here and address not in planned.left_out
