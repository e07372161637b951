# SPDX-License-Identifier: Apache-2.0
"""The one rule that decides whether a knob has any effect on a machine."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ktrial.machine.facts import FactBook, FactKind
from ktrial.machine.when import Truth, evaluate
from ktrial.tuning.knobs.knob import Knob


def inert_here(
    knob: Knob, facts: FactBook, kinds: Mapping[str, FactKind], together: Collection[str] = ()
) -> str | None:
    """Return why the knob has no effect here, or None if it may have one. `together` are the knobs set with it."""
    for rule in knob.inert:
        if not any(name in together for name in rule.unless):
            truth, _ = evaluate(rule.when, facts, kinds)
            if truth is Truth.YES:
                return rule.why
    return None
