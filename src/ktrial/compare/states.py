# SPDX-License-Identifier: Apache-2.0
"""Differences between the tunable state of each arm's machine and the control's, declared or not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ktrial.compare.arms import Arm
from ktrial.compare.comparability import KEYS
from ktrial.judge.model.comparison import StateChange
from ktrial.kit.errors import BadInput, UnknownName
from ktrial.tuning.catalog.model import Catalog
from ktrial.tuning.state.diff import Declaration
from ktrial.tuning.state.snapshot import compare_states, declared_knobs
from ktrial.tuning.state.state import parse_state


def split_declared(words: Iterable[str], catalog: Catalog) -> tuple[tuple[str, ...], tuple[Declaration, ...]]:
    """Return the condition keys among declared differences, and declarations of the knobs and paths among them.

    Raise BadInput for a word that is neither.
    """
    given = list(dict.fromkeys(words))
    keys = tuple(word for word in given if word in KEYS)
    try:
        return keys, declared_knobs([word for word in given if word not in KEYS], catalog)
    except UnknownName as error:
        conditions = f"use one of the conditions: {', '.join(KEYS)}"
        raise BadInput(error.message, hint=f"{error.hint} (or {conditions})" if error.hint else conditions) from None


def state_changes(control: Arm, arms: Sequence[Arm], declarations: Sequence[Declaration]) -> tuple[StateChange, ...]:
    """Return how the stored state of each arm differs from the control's, undeclared differences first in each arm."""
    return tuple(change for arm in arms for change in _changes(control, arm, declarations))


def _changes(control: Arm, arm: Arm, declarations: Sequence[Declaration]) -> Iterator[StateChange]:
    if not control.states or not arm.states:
        return
    before, after = (parse_state(one.states[0], f"the state of {one.name}") for one in (control, arm))
    found = compare_states(before, after, declarations)
    for one in (*found.undeclared, *found.declared):
        yield StateChange(
            arm=arm.name, name=one.name, control_value=one.before, arm_value=one.after, declared=one.declared
        )
