# SPDX-License-Identifier: Apache-2.0
"""Look one knob up on this machine: its state, its default, and the facts that explain its values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from ktrial.kit.errors import UnknownName
from ktrial.machine.facts import FactBook, FactKind
from ktrial.machine.reading import KnobState
from ktrial.machine.when import facts_of
from ktrial.tuning.knobs.computed import default_value
from ktrial.tuning.knobs.find import meant_instances
from ktrial.tuning.knobs.knob import INSTANCE_FACTS, Knob
from ktrial.tuning.knobs.observe import observe
from ktrial.tuning.knobs.relevance import inert_here

if TYPE_CHECKING:
    from ktrial.machine.ports import Machine

_FACTS = ("memory", "cpu.threads", "thp.enabled", "kernel.release")


class Explanation(msgspec.Struct, frozen=True):
    """A knob's state and default on this machine. `inert` says why the knob has no effect here, if so."""

    state: KnobState | None
    facts: FactBook
    default: Any
    inert: str | None = None

    @property
    def values(self) -> dict[str, str | None]:
        return {i.label: i.reading.text for i in self.state.instances} if self.state else {}


def explain(machine: Machine, knob: Knob, kinds: Mapping[str, FactKind], selector: str | None = None) -> Explanation:
    """Look up a knob on this machine, or only the instances that `selector` matches.

    Raise UnknownName if `selector` matches no instance. A knob without files has no state.
    """
    source = INSTANCE_FACTS.get(knob.placeholders[0]) if knob.placeholders and selector is not None else None
    asked = [name for rule in knob.inert for name in facts_of(rule.when)]
    facts = machine.facts((*_FACTS, *asked, *([source] if source else ())))
    state = observe(machine, [knob], [selector])[knob.id] if knob.files else None
    if selector is not None:
        labels = [instance.label for instance in state.instances if instance.label] if state is not None else []
        chosen = meant_instances(knob, selector, state.instances, facts) if state is not None and labels else []
        if state is None or not chosen:
            here = (
                f"use one of: {', '.join(labels)}" if labels else f"leave out @{selector}; this machine has no instance"
            )
            raise UnknownName(f"instance of {knob.id}", selector, labels, hint=here)
        state = msgspec.structs.replace(state, instances=tuple(chosen))
    default, _ = default_value(knob, facts)
    return Explanation(state, facts, default, inert_here(knob, facts, kinds))
