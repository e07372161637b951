# SPDX-License-Identifier: Apache-2.0
"""What one knob is on this machine: its state, its default here, and the facts that give its values a meaning."""

from __future__ import annotations

from typing import Any

import msgspec

from ktrial.domain.facts import FactBook
from ktrial.domain.knob import Knob
from ktrial.domain.reading import KnobState
from ktrial.domain.wanted import default_value
from ktrial.services.ports import Machine
from ktrial.services.tune import observe

_FACTS = ("memory", "cpu.threads", "thp.enabled", "kernel.release")


class Explanation(msgspec.Struct, frozen=True):
    """A knob's state here."""

    state: KnobState | None
    facts: FactBook
    default: Any

    @property
    def values(self) -> dict[str, str | None]:
        """Instance -> text shown by the kernel."""
        return {i.label: i.reading.text for i in self.state.instances} if self.state else {}


def explain(machine: Machine, knob: Knob) -> Explanation:
    """Look the knob up on the machine. One that has no file is explained from the catalog alone."""
    facts = machine.facts(_FACTS)
    state = observe(machine, [knob])[knob.id] if knob.files else None
    default, _ = default_value(knob, facts)
    return Explanation(state, facts, default)
