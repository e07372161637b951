# SPDX-License-Identifier: Apache-2.0
"""Reads the current state of the machine, to compare it with the ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ktrial.machine.facts import machine_of
from ktrial.studies.ledger.model import LedgerEntry, Now
from ktrial.tuning.knobs.knob import Knob
from ktrial.tuning.knobs.observe import observe
from ktrial.tuning.knobs.value import active_text

if TYPE_CHECKING:
    from ktrial.machine.ports import Machine

_MACHINE_FACTS = ("cpu.model", "cpu.threads", "memory.total", "virtualisation.kind", "kernel.release")


def now_of(machine: Machine, entries: Sequence[LedgerEntry], knobs: Mapping[str, Knob]) -> Now:
    """Return the machine and kernel, and the current values of the knobs in these entries."""
    facts = machine.facts(_MACHINE_FACTS)
    addresses = {address for entry in entries for address in (*entry.changes, *entry.held)}
    names = {name for address in addresses if (name := address.partition("@")[0]) in knobs and knobs[name].files}
    instances = [address.partition("@")[2] for address in addresses]
    states = observe(machine, [knobs[name] for name in sorted(names)], instances) if names else {}
    values = {}
    for name, state in states.items():
        for instance in state.instances:
            if instance.reading.text is not None:
                address = f"{name}@{instance.label}" if instance.label else name
                values[address] = active_text(knobs[name], instance.reading.text)
    return Now(machine=machine_of(facts), kernel=facts.value("kernel.release"), values=values)
