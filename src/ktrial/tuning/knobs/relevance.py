# SPDX-License-Identifier: Apache-2.0
"""Whether a knob can change anything on a machine: the one rule for all that propose, plan and explain."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ktrial.machine.facts import FactBook, FactKind
from ktrial.machine.when import Truth, evaluate
from ktrial.tuning.knobs.knob import Knob


def inert_here(
    knob: Knob, facts: FactBook, kinds: Mapping[str, FactKind], together: Collection[str] = ()
) -> str | None:
    """Why it changes nothing here; None if it may, or where that cannot be told. `together` is set with it."""
    for rule in knob.inert:
        if not any(name in together for name in rule.unless):
            truth, _ = evaluate(rule.when, facts, kinds)
            if truth is Truth.YES:
                return rule.why
    return None
